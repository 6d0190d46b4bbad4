// SPDX-License-Identifier: Apache-2.0
// Statuses and details. The values are ABI: changing one here means a new version of the library's
// ABI.
#include "base/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
    kolo_status status;
    int value;
    const char *name;
    kolo_lost lost;
} pinned[] = {
    {KOLO_OK, 0, "KOLO_OK", KOLO_LOST_NONE},
    {KOLO_AGAIN, 1, "KOLO_AGAIN", KOLO_LOST_NONE},
    {KOLO_ERR_INVALID, -1, "KOLO_ERR_INVALID", KOLO_LOST_CALL},
    {KOLO_ERR_CONFIG, -2, "KOLO_ERR_CONFIG", KOLO_LOST_CALL},
    {KOLO_ERR_NO_MEMORY, -3, "KOLO_ERR_NO_MEMORY", KOLO_LOST_CALL},
    {KOLO_ERR_UNSUPPORTED, -4, "KOLO_ERR_UNSUPPORTED", KOLO_LOST_CALL},
    {KOLO_ERR_NOT_FOUND, -5, "KOLO_ERR_NOT_FOUND", KOLO_LOST_CALL},
    {KOLO_ERR_SYSTEM, -6, "KOLO_ERR_SYSTEM", KOLO_LOST_CALL},
    {KOLO_ERR_DATA, -7, "KOLO_ERR_DATA", KOLO_LOST_CALL},
    {KOLO_ERR_CONNECT, -20, "KOLO_ERR_CONNECT", KOLO_LOST_LINK},
    {KOLO_ERR_LINK, -21, "KOLO_ERR_LINK", KOLO_LOST_LINK},
    {KOLO_ERR_AUTH, -22, "KOLO_ERR_AUTH", KOLO_LOST_LINK},
    {KOLO_ERR_PROTOCOL, -23, "KOLO_ERR_PROTOCOL", KOLO_LOST_LINK},
    {KOLO_ERR_PEER, -40, "KOLO_ERR_PEER", KOLO_LOST_COMM},
    {KOLO_ERR_TIMEOUT, -41, "KOLO_ERR_TIMEOUT", KOLO_LOST_COMM},
    {KOLO_ERR_MISMATCH, -42, "KOLO_ERR_MISMATCH", KOLO_LOST_COMM},
    {KOLO_ERR_ABORTED, -43, "KOLO_ERR_ABORTED", KOLO_LOST_COMM},
    {KOLO_ERR_INTERNAL, -60, "KOLO_ERR_INTERNAL", KOLO_LOST_PROCESS},
};

Test(status, values_names_and_losses_are_pinned)
{
#define COUNT(name, value, lost, text) +1
    size_t known = 0 KOLO_STATUS_MAP(COUNT);
#undef COUNT
    cr_assert(sizeof pinned / sizeof *pinned == known, "a status was added: pin it here");
    for (size_t i = 0; i < known; i++) {
        cr_assert((int)pinned[i].status == pinned[i].value, "%s", pinned[i].name);
        cr_assert(strcmp(kolo_status_name(pinned[i].status), pinned[i].name) == 0, "%s",
                  pinned[i].name);
        cr_assert(kolo_status_lost(pinned[i].status) == pinned[i].lost, "%s", pinned[i].name);
        cr_assert(*kolo_status_text(pinned[i].status), "%s", pinned[i].name);
    }
}

Test(status, a_value_that_is_none_has_words_too)
{
    kolo_status none = (kolo_status)-1234;
    cr_assert(strcmp(kolo_status_name(none), "KOLO_?") == 0, "name");
    cr_assert(strcmp(kolo_status_text(none), "unknown status") == 0, "text");
    cr_assert(kolo_status_lost(none) == KOLO_LOST_PROCESS, "lost");
}

/** What is said of a thread that cannot start under a limit that leaves no room for its stack. */
#define EXPECT_NO_ROOM(resource, words)                                                            \
    do {                                                                                           \
        struct rlimit before_, small_;                                                             \
        cr_assert(getrlimit(resource, &before_) == 0, "limit");                                    \
        small_ = before_;                                                                          \
        small_.rlim_cur = 4096;                                                                    \
        cr_assert(setrlimit(resource, &small_) == 0, "limit");                                     \
        kolo_fail_start(EAGAIN, "thread");                                                         \
        cr_assert(setrlimit(resource, &before_) == 0, "limit");                                    \
        cr_assert(strcmp(kolo_error_detail(), "thread: Resource temporarily unavailable: no room " \
                                              "for its stack in the " words) == 0,                 \
                  "%s", kolo_error_detail());                                                      \
    } while (0)

Test(status, a_limit_that_leaves_no_room_for_a_stack_is_named)
{
    EXPECT_NO_ROOM(RLIMIT_AS, "address space; raise `ulimit -v`");
    EXPECT_NO_ROOM(RLIMIT_DATA, "memory for data; raise `ulimit -d`");
}

Test(status, fail_returns_the_status_and_writes_the_detail)
{
    cr_assert(*kolo_error_detail() == '\0', "a thread begins without a detail");
    cr_assert(kolo_fail(KOLO_ERR_PEER, "rank %d", 3) == KOLO_ERR_PEER, "status");
    cr_assert(strcmp(kolo_error_detail(), "rank 3") == 0, "%s", kolo_error_detail());
    cr_assert(kolo_fail_errno(KOLO_ERR_SYSTEM, ENOENT, "open %s", "x") == KOLO_ERR_SYSTEM, "st");
    cr_assert(strcmp(kolo_error_detail(), "open x: No such file or directory") == 0, "%s",
              kolo_error_detail());
    kolo_fail_errno(KOLO_ERR_SYSTEM, EMFILE, "pipe");
    cr_assert(strcmp(kolo_error_detail(), "pipe: Too many open files: raise `ulimit -n`") == 0,
              "%s", kolo_error_detail());
    cr_assert(kolo_fail_start(EAGAIN, "thread %d", 3) == KOLO_ERR_SYSTEM, "st");
    cr_assert(strcmp(kolo_error_detail(),
                     "thread 3: Resource temporarily unavailable: too many processes and threads; "
                     "raise `ulimit -u`, or pids.max of the cgroup") == 0,
              "%s", kolo_error_detail());
    kolo_fail_start(EPERM, "thread");
    cr_assert(strcmp(kolo_error_detail(),
                     "thread: Operation not permitted: this kernel has no such call, or a "
                     "sandbox's filter refuses it: have it allowed") == 0,
              "%s", kolo_error_detail());
    kolo_fail_start(EMFILE, "fork");
    cr_assert(strcmp(kolo_error_detail(), "fork: Too many open files: raise `ulimit -n`") == 0,
              "%s", kolo_error_detail());
    kolo_fail_errno(KOLO_ERR_SYSTEM, ENOSYS, "signalfd");
    cr_assert(strcmp(kolo_error_detail(),
                     "signalfd: Function not implemented: this kernel has no such call, or a "
                     "sandbox's filter refuses it: have it allowed") == 0,
              "%s", kolo_error_detail());
    kolo_fail_errno(KOLO_ERR_SYSTEM, 99999, "open");
    cr_assert(strcmp(kolo_error_detail(), "open: Unknown error 99999") == 0, "%s",
              kolo_error_detail());
}

Test(status, the_old_detail_may_be_an_argument)
{
    kolo_fail(KOLO_ERR_LINK, "connection reset");
    kolo_fail(KOLO_ERR_PEER, "rank 3: %s", kolo_error_detail());
    cr_assert(strcmp(kolo_error_detail(), "rank 3: connection reset") == 0, "%s",
              kolo_error_detail());
    kolo_detail_set(kolo_error_detail() + 8);
    cr_assert(strcmp(kolo_error_detail(), "connection reset") == 0, "%s", kolo_error_detail());
}

Test(status, a_detail_is_one_line_whatever_a_stranger_sent)
{
    kolo_fail(KOLO_ERR_DATA, "host %s", "a\nb\x1b[31m\x7f");
    cr_assert(strcmp(kolo_error_detail(), "host a?b?[31m?") == 0, "%s", kolo_error_detail());
}

Test(status, a_long_detail_is_cut)
{
    char text[3 * KOLO_DETAIL_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    kolo_fail_errno(KOLO_ERR_DATA, EIO, "%s", text);
    cr_assert(strlen(kolo_error_detail()) == KOLO_DETAIL_MAX - 1, "fail");
    kolo_detail_set("");
    kolo_detail_set(text);
    cr_assert(strlen(kolo_error_detail()) == KOLO_DETAIL_MAX - 1, "set");
    /* The suffix begins at the last byte, before it, and after it: nothing is written past the
     * end. */
    for (int bytes = KOLO_DETAIL_MAX - 4; bytes < KOLO_DETAIL_MAX + 2; bytes++) {
        kolo_fail_errno(KOLO_ERR_DATA, EIO, "%.*s", bytes, text);
        cr_assert(strlen(kolo_error_detail()) == KOLO_DETAIL_MAX - 1, "%d", bytes);
    }
}

Test(status, set_clears)
{
    kolo_fail(KOLO_ERR_DATA, "x");
    kolo_detail_set("");
    cr_assert(*kolo_error_detail() == '\0', "by the empty text");
    kolo_fail(KOLO_ERR_DATA, "x");
    kolo_detail_set(NULL);
    cr_assert(*kolo_error_detail() == '\0', "by NULL");
}

static void *fail_elsewhere(void *context)
{
    kolo_fail(KOLO_ERR_DATA, "other thread");
    strcpy(context, kolo_error_detail());
    return NULL;
}

Test(status, each_thread_has_its_own_detail, .timeout = 120)
{
    char seen[64] = "";
    pthread_t thread;
    kolo_fail(KOLO_ERR_DATA, "this thread");
    cr_assert(pthread_create(&thread, NULL, fail_elsewhere, seen) == 0, "thread");
    pthread_join(thread, NULL);
    cr_assert(strcmp(seen, "other thread") == 0, "%s", seen);
    cr_assert(strcmp(kolo_error_detail(), "this thread") == 0, "%s", kolo_error_detail());
}

Test(status, text_of_the_program_has_no_control_characters)
{
    cr_expect_eq(kolo_check_text("f", "x->name", "names", ""), KOLO_OK);
    cr_expect_eq(kolo_check_text("f", "x->name", "names", "plain, \xc3\xa9 and \xff"), KOLO_OK);
    cr_expect_eq(kolo_check_text("f", "x->name", "names", "ab\033[31m"), KOLO_ERR_INVALID);
    cr_expect_str_eq(kolo_error_detail(),
                     "f: byte 2 of x->name is the control character 0x1b: names are text");
    cr_expect_eq(kolo_check_text("f", "the key", "keys", "\xc3\xa9\xc2\x9b"), KOLO_ERR_INVALID);
    cr_expect_str_eq(kolo_error_detail(),
                     "f: byte 2 of the key is the control character 0x9b: keys are text");
}
