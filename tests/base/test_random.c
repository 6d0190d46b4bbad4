// SPDX-License-Identifier: Apache-2.0
// base/random.c over a system that is interrupted, gives less than it was asked for, or refuses.
// This program's getrandom takes the place of the C library's.
#include "base/random.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REFUSED = -1, INTERRUPTED = -2 };

/** What the next calls return at most; NULL: the system's own is called. */
static const int *script;
static int calls;

ssize_t getrandom(void *data, size_t bytes, unsigned flags)
{
    if (!script)
        return (ssize_t)syscall(SYS_getrandom, data, bytes, flags);
    const int most = script[calls++];
    if (most < 0) {
        errno = most == INTERRUPTED ? EINTR : ENOSYS;
        return -1;
    }
    const size_t got = (size_t)most < bytes ? (size_t)most : bytes;
    memset(data, calls, got);
    return (ssize_t)got;
}

Test(random, all_bytes_are_filled_and_none_beyond)
{
    static const int most[] = {INTERRUPTED, 3, INTERRUPTED, INTERRUPTED, 1, 100};
    static const uint8_t expected[10] = {2, 2, 2, 5, 6, 6, 6, 6, 0xee, 0xee};
    uint8_t data[10];
    memset(data, 0xee, sizeof data);
    script = most;
    cr_assert_eq(kolo_random(data, 8), KOLO_OK);
    script = NULL;
    cr_assert_eq(calls, 6);
    cr_assert_eq(memcmp(data, expected, sizeof data), 0);
}

Test(random, a_refusal_is_an_error_also_after_some_bytes)
{
    static const int most[] = {3, REFUSED};
    uint8_t data[8];
    script = most;
    const kolo_status status = kolo_random(data, sizeof data);
    script = NULL;
    cr_assert_eq(status, KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(kolo_error_detail(), "random bytes"), "%s", kolo_error_detail());
    cr_assert_not_null(strstr(kolo_error_detail(), strerror(ENOSYS)), "%s", kolo_error_detail());
}

Test(random, numbers_differ)
{
    uint64_t numbers[3] = {0};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kolo_random(&numbers[i], sizeof numbers[i]), KOLO_OK);
    cr_assert(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
    cr_assert_eq(kolo_random(NULL, 0), KOLO_OK);
}
