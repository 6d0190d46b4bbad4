// SPDX-License-Identifier: Apache-2.0
// transport/poller.c: callbacks, sleeping until a deadline, and wake-ups by other threads.
#include "transport/poller.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct counted {
    struct kolo_watch watch;
    struct kolo_poller *poller;
    struct counted *victim;
    int calls;
    uint32_t events;
};

static void count_call(struct kolo_watch *watch, uint32_t events)
{
    struct counted *counted = (struct counted *)watch;
    counted->calls++;
    counted->events = events;
    if (counted->victim)
        kolo_poller_remove(counted->poller, &counted->victim->watch);
}

static struct kolo_poller *new_poller(void)
{
    struct kolo_poller *poller = NULL;
    cr_assert_eq(kolo_poller_create(&poller), KOLO_OK);
    return poller;
}

static void new_pair(int pair[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

Test(poller, runs_the_callback_of_what_is_ready, .timeout = 120)
{
    struct kolo_poller *poller = new_poller();
    int pair[2], count = -1;
    new_pair(pair);
    struct counted counted = {.watch = {.fd = pair[0], .ready = count_call}};
    cr_assert_eq(kolo_poller_add(poller, &counted.watch, EPOLLIN), KOLO_OK);
    cr_assert_eq(kolo_poller_dispatch(poller, &count), KOLO_OK);
    cr_assert_eq(count, 0);
    cr_assert_eq(write(pair[1], "x", 1), 1);
    kolo_poller_sleep(poller, KOLO_NEVER);
    cr_assert_eq(counted.calls, 0, "a sleep runs no callback");
    cr_assert_eq(kolo_poller_dispatch(poller, &count), KOLO_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(counted.calls, 1);
    cr_assert(counted.events & EPOLLIN);
    kolo_poller_modify(poller, &counted.watch, EPOLLOUT);
    cr_assert_eq(kolo_poller_dispatch(poller, NULL), KOLO_OK);
    cr_assert_eq(counted.events, (uint32_t)EPOLLOUT);
    kolo_poller_remove(poller, &counted.watch);
    cr_assert_eq(kolo_poller_dispatch(poller, &count), KOLO_OK);
    cr_assert_eq(count, 0);
    close(pair[0]);
    close(pair[1]);
    kolo_poller_destroy(poller);
}

Test(poller, a_watch_removed_in_a_callback_gets_none, .timeout = 120)
{
    struct kolo_poller *poller = new_poller();
    int left[2], right[2];
    new_pair(left);
    new_pair(right);
    struct counted a = {.watch = {.fd = left[0], .ready = count_call}, .poller = poller};
    struct counted b = {.watch = {.fd = right[0], .ready = count_call}, .poller = poller};
    a.victim = &b;
    b.victim = &a;
    cr_assert_eq(kolo_poller_add(poller, &a.watch, EPOLLIN), KOLO_OK);
    cr_assert_eq(kolo_poller_add(poller, &b.watch, EPOLLIN), KOLO_OK);
    cr_assert_eq(write(left[1], "x", 1), 1);
    cr_assert_eq(write(right[1], "x", 1), 1);
    cr_assert_eq(kolo_poller_dispatch(poller, NULL), KOLO_OK);
    cr_assert_eq(a.calls + b.calls, 1, "both ran although each removes the other");
    for (int i = 0; i < 2; i++) {
        close(left[i]);
        close(right[i]);
    }
    kolo_poller_destroy(poller);
}

Test(poller, bad_descriptor_is_an_error_that_names_it, .timeout = 120)
{
    struct kolo_poller *poller = new_poller();
    struct counted counted = {.watch = {.fd = -1, .ready = count_call}};
    cr_assert_eq(kolo_poller_add(poller, &counted.watch, EPOLLIN), KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "fd -1") != NULL, "%s", kolo_error_detail());
    kolo_poller_destroy(poller);
    kolo_poller_destroy(NULL);
}

Test(poller, sleep_ends_at_its_deadline, .timeout = 120)
{
    struct kolo_poller *poller = new_poller();
    int64_t start = kolo_now_ns();
    kolo_poller_sleep(poller, kolo_deadline_in_ms(20));
    cr_assert_geq(kolo_now_ns() - start, 20 * 1000000LL);
    kolo_poller_sleep(poller, start);
    kolo_poller_destroy(poller);
}

static void *wake_it(void *poller)
{
    kolo_poller_wake(poller);
    return NULL;
}

Test(poller, a_wake_from_another_thread_ends_the_sleep_even_if_it_comes_first, .timeout = 120)
{
    struct kolo_poller *poller = new_poller();
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, wake_it, poller), 0);
        cr_assert_eq(kolo_poller_dispatch(poller, NULL), KOLO_OK);
        kolo_poller_sleep(poller, KOLO_NEVER);
        pthread_join(thread, NULL);
    }
    kolo_poller_destroy(poller);
}

Test(poller, dispatch_does_not_swallow_a_wake, .timeout = 120)
{
    struct kolo_poller *poller = new_poller();
    int pair[2];
    new_pair(pair);
    struct counted counted = {.watch = {.fd = pair[0], .ready = count_call}};
    cr_assert_eq(kolo_poller_add(poller, &counted.watch, EPOLLIN), KOLO_OK);
    kolo_poller_wake(poller);
    cr_assert_eq(kolo_poller_dispatch(poller, NULL), KOLO_OK);
    kolo_poller_sleep(poller, KOLO_NEVER);
    kolo_poller_remove(poller, &counted.watch);
    close(pair[0]);
    close(pair[1]);
    kolo_poller_destroy(poller);
}

Test(poller, too_many_open_files_says_once_what_to_raise)
{
    struct kolo_poller *poller = NULL;
    struct rlimit few;
    const int next = dup(STDERR_FILENO); /* the lowest free descriptor */
    close(next);
    cr_assert(next >= 0 && getrlimit(RLIMIT_NOFILE, &few) == 0);
    for (rlim_t more = 0; more < 2; more++) { /* for epoll_create1, then for eventfd */
        few.rlim_cur = (rlim_t)next + more;
        cr_assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
        cr_expect(kolo_poller_create(&poller) == KOLO_ERR_SYSTEM);
        const char *hint = strstr(kolo_error_detail(), "`ulimit -n`");
        cr_expect(hint && !strstr(hint + 2, "ulimit"), "%s", kolo_error_detail());
    }
}
