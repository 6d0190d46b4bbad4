// SPDX-License-Identifier: Apache-2.0
// Processes beside kolorun: what they answer, and that nothing waits for one that does not.
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <criterion/criterion.h>

#include "launcher/beside.h"

enum { LONG_MS = 60000, SHORT_MS = 100 };

TestSuite(beside, .timeout = 60);

static void refuse(int fd, void *context)
{
    kolo_beside_answer(fd, kolo_fail(KOLO_ERR_CONFIG, "no %s", (const char *)context));
}

/* Says in `written` which signals its own process ignores, and ends with kolorun. */
static void wait_for_end(int fd, void *context)
{
    char byte;
    struct kolo_beside_answer answer = {.error = KOLO_OK};
    (void)context;
    struct sigaction now;
    for (int number = 1; number < 32; number++)
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            answer.written |= UINT64_C(1) << number;
    (void)send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
    (void)recv(fd, &byte, 1, 0);
}

static void start(struct kolo_beside *beside, void (*serve)(int fd, void *context))
{
    static char name[] = "cheese";
    cr_assert_eq(kolo_beside_start(beside, "a test", serve, name), KOLO_OK, "%s",
                 kolo_error_detail());
}

Test(beside, answers_with_the_reason_and_is_reaped)
{
    struct kolo_beside beside;
    struct kolo_beside_answer answer;
    start(&beside, refuse);
    cr_assert_eq(kolo_beside_await(&beside, LONG_MS, &answer), KOLO_BESIDE_ANSWERED);
    cr_assert_eq(answer.error, KOLO_ERR_CONFIG);
    cr_assert_str_eq(answer.detail, "no cheese");
    cr_assert_eq(kolo_beside_await(&beside, LONG_MS, &answer), KOLO_BESIDE_GONE);
    kolo_beside_end(&beside, true);
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "it was not reaped");
}

Test(beside, ignores_what_a_terminal_sends)
{
    struct kolo_beside beside;
    struct kolo_beside_answer answer;
    start(&beside, wait_for_end);
    cr_assert_eq(kolo_beside_await(&beside, LONG_MS, &answer), KOLO_BESIDE_ANSWERED);
    for (const int *number = (const int[]){SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGTERM, 0}; *number;
         number++)
        cr_expect(answer.written >> *number & 1, "SIG%s", sigabbrev_np(*number));
    kolo_beside_end(&beside, true);
}

Test(beside, is_late_or_gone_but_no_wait)
{
    struct kolo_beside beside;
    struct kolo_beside_answer answer;
    start(&beside, wait_for_end);
    cr_assert_eq(kolo_beside_await(&beside, LONG_MS, &answer), KOLO_BESIDE_ANSWERED);
    cr_assert_eq(kolo_beside_await(&beside, SHORT_MS, &answer), KOLO_BESIDE_LATE);
    const pid_t pid = beside.pid;
    kolo_beside_abandon(&beside);
    cr_assert_eq(kolo_beside_await(&beside, LONG_MS, &answer), KOLO_BESIDE_GONE);
    int how = 0;
    cr_assert_eq(waitpid(pid, &how, 0), pid);
    cr_assert(kolo_beside_reaped(pid));
    cr_assert(!kolo_beside_reaped(pid), "the number may be another process's now");
    kolo_beside_end(&beside, true);
}

/** Each ends when kolorun lets it go, although another was started after it. */
Test(beside, two_do_not_hold_each_other)
{
    struct kolo_beside first, second;
    struct kolo_beside_answer answer;
    start(&first, wait_for_end);
    start(&second, wait_for_end);
    cr_assert_eq(kolo_beside_await(&second, LONG_MS, &answer), KOLO_BESIDE_ANSWERED);
    kolo_beside_end(&first, true);
    cr_assert_eq(kolo_beside_await(&second, SHORT_MS, &answer), KOLO_BESIDE_LATE);
    kolo_beside_end(&second, true);
}
