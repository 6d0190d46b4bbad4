// SPDX-License-Identifier: Apache-2.0
// Leaks count in the processes of the tests, not in Criterion's runner, which leaks a little of its
// own now and then. LeakSanitizer asks at each process's end. And a check of the reduction kernels
// that fails, which is SIGILL (cmake/KoloBackends.cmake), is said with its line.
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
