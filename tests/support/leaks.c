// SPDX-License-Identifier: Apache-2.0
// Makes leaks count in the processes of the tests only, not in Criterion's runner, which itself
// leaks a little now and then: LeakSanitizer calls __lsan_is_turned_off() at the end of each
// process. Also makes AddressSanitizer report the line of a failed check in the reduction kernels,
// which is a SIGILL (cmake/KoloBackends.cmake).
#include <stdlib.h>

int __lsan_is_turned_off(void) __attribute__((visibility("default")));
int __lsan_is_turned_off(void)
{
    return getenv("BXFI_MAP") == NULL; /* set in the processes that Criterion starts for tests */
}

const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
    return "handle_sigill=1";
}
