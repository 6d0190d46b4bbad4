// SPDX-License-Identifier: Apache-2.0
// memory/gate_watch.c: gates without a device, whose deadlines pass or do not. What a program sees
// of it is in runtime/test_stream.c.
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "memory/gate_watch.h"
#include "memory/held.h"
#include "tests/support/await.h"

static char logged[8192];
static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;
static sigset_t mask; /* of the thread that logged last */

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)pthread_mutex_lock(&logged_lock);
    const size_t used = strlen(logged);
    (void)snprintf(logged + used, sizeof logged - used, "%s\n", line);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    (void)pthread_mutex_unlock(&logged_lock);
}

static int count_of(const char *words)
{
    int count = 0;
    (void)pthread_mutex_lock(&logged_lock);
    for (const char *at = strstr(logged, words); at; at = strstr(at + 1, words))
        count++;
    (void)pthread_mutex_unlock(&logged_lock);
    return count;
}

static int threads(void)
{
    char line[128];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file))
        (void)sscanf(line, "Threads: %d", &count);
    (void)fclose(file);
    return count;
}

/** A lane without a device, and gates for which streams wait. */
static struct kolo_lane lane;
static uint32_t words[3];
static struct kolo_gate gates[3];

static void begin(void)
{
    kolo_log_set_sink(keep_line, NULL);
    cr_assert_eq(kolo_lane_init(&lane, NULL, NULL, NULL), KOLO_OK);
    lane.streams = &lane;
    kolo_gate_watch_join();
}

static void end(void)
{
    kolo_gate_watch_leave();
    kolo_lane_deinit(&lane);
    kolo_log_set_sink(NULL, NULL);
}

TestSuite(gate_watch, .init = begin, .fini = end, .timeout = 60);

static struct kolo_gate *hold(int i, kolo_deadline deadline)
{
    gates[i].lane = &lane;
    gates[i].word = &words[i];
    gates[i].ticket++;
    gates[i].is_taken = gates[i].is_holding = true;
    cr_assert_eq(kolo_held_begin(&lane, 0), KOLO_OK);
    kolo_gate_watch(&gates[i], deadline);
    return &gates[i];
}

static kolo_deadline past(void)
{
    return kolo_now_ns() - 5 * INT64_C(1000000000);
}

static bool is_released(const struct kolo_gate *gate)
{
    return __atomic_load_n(gate->word, __ATOMIC_ACQUIRE) == gate->ticket;
}

static bool is_none_held(void)
{
    const bool is_none = kolo_none_held_begin(&lane, 0, NULL) == KOLO_OK;
    if (is_none)
        kolo_none_held_end(&lane);
    return is_none;
}

Test(gate_watch, what_is_overdue_is_let_go_once)
{
    struct kolo_gate *first = hold(0, KOLO_NEVER), *overdue = hold(1, past());
    struct kolo_gate *last = hold(2, KOLO_NEVER);
    cr_assert(AWAIT(is_released(overdue)));
    cr_assert(AWAIT(count_of("1 stream of this process no longer waits for a collective") == 1));
    cr_assert(kolo_gate_was_let_go(overdue) && overdue->is_taken, "it is still the collective's");
    cr_assert(!is_released(first) && !is_released(last) && !kolo_gate_was_let_go(first));
    cr_assert(!is_none_held());
    kolo_gate_open(first);
    kolo_gate_open(last);
    cr_assert(is_none_held(), "one of three was counted twice, or not at all");
    kolo_gate_open(overdue);
    cr_assert_eq(kolo_held_begin(&lane, 0), KOLO_OK);
    cr_assert(!is_none_held(), "the same");
    kolo_held_end(&lane);
    cr_assert(!overdue->is_taken && count_of("no longer wait") == 1, "%s", logged);
    cr_assert(sigismember(&mask, SIGUSR1), "the thread takes the program's signals");
}

/** The collective has a while to end by itself, also if the whole process was stopped. */
Test(gate_watch, it_has_a_few_seconds)
{
    const int64_t begun = kolo_now_ns();
    struct kolo_gate *gate = hold(0, past());
    cr_assert(AWAIT(kolo_gate_was_let_go(gate)));
    cr_assert_gt(kolo_now_ns() - begun, INT64_C(2500000000));
    kolo_gate_open(gate);
}

Test(gate_watch, all_that_are_due_are_let_go_at_once)
{
    for (int i = 0; i < 3; i++)
        (void)hold(i, past());
    for (int i = 0; i < 3; i++)
        cr_assert(AWAIT(kolo_gate_was_let_go(&gates[i])));
    for (int i = 0; i < 3; i++)
        kolo_gate_open(&gates[i]);
    cr_assert(is_none_held());
    cr_assert(AWAIT(count_of("streams of this process no longer wait for") >= 1));
}

Test(gate_watch, a_gate_is_as_new_when_it_is_used_again)
{
    kolo_gate_open(hold(0, past()));
    struct kolo_gate *gate = hold(0, past());
    cr_assert(AWAIT(kolo_gate_was_let_go(gate)));
    kolo_gate_open(gate);
    cr_assert(!kolo_gate_was_let_go(gate));
    cr_assert(!kolo_gate_was_let_go(hold(0, KOLO_NEVER)));
    kolo_gate_open(gate);
}

Test(gate_watch, a_gate_that_no_stream_waits_for_is_left_alone)
{
    gates[0] = (struct kolo_gate){.lane = &lane, .word = &words[0], .is_taken = true, .ticket = 1};
    kolo_gate_watch(&gates[0], past());
    struct kolo_gate *other = hold(1, past());
    cr_assert(AWAIT(is_released(other)));
    cr_assert(!is_released(&gates[0]));
    kolo_gate_open(other);
    kolo_gate_open(&gates[0]);
}

Test(gate_watch, calls_that_do_not_come_back_are_told_of_once)
{
    kolo_driver_entered();
    struct kolo_gate *gate = hold(0, KOLO_NEVER);
    cr_assert(AWAIT(count_of("no call of CUDA has come back to kolo for ") == 1));
    struct kolo_gate *overdue = hold(1, past());
    cr_assert(AWAIT(kolo_gate_was_let_go(overdue)), "the thread looks again after that");
    cr_assert_eq(count_of("no call of CUDA"), 1, "%s", logged);
    kolo_driver_left();
    kolo_gate_open(gate);
    kolo_gate_open(overdue);
}

Test(gate_watch, its_thread_ends_with_the_last_lane)
{
    const int before = threads();
    for (int i = 0; i < 200; i++) {
        kolo_gate_open(hold(0, KOLO_NEVER));
        cr_assert_eq(threads(), before + 1, "round %d", i);
        kolo_gate_watch_join();
        kolo_gate_watch_leave();
        cr_assert_eq(threads(), before + 1, "there is another lane");
        kolo_gate_watch_leave();
        cr_assert(AWAIT(threads() == before), "round %d", i);
        kolo_gate_watch_join();
    }
}
