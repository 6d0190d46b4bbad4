// SPDX-License-Identifier: Apache-2.0
// Timers of a poller with a simulated clock: each fires once when it is due, whatever other timers'
// callbacks do to the list, and the list is freed with the last of them.
#include <criterion/criterion.h>

#include "base/clock.h"
#include "transport/conn_private.h"

static int64_t now_ns;

static int64_t false_clock(void)
{
    return now_ns;
}

struct alarm {
    struct kolo_conn_timer timer; /* must be the first member: fire() gets this */
    int fired;
    struct alarm *removes, *adds; /* removed or added when it fires; NULL: none */
    bool stays;                   /* due again at once */
};

static void on_time(struct kolo_conn_timer *timer, kolo_deadline now)
{
    struct alarm *alarm = (struct alarm *)timer;
    struct kolo_poller *poller = timer->poller;
    cr_assert(timer->at <= now);
    alarm->fired++;
    if (alarm->removes)
        kolo_conn_timer_remove(&alarm->removes->timer);
    if (alarm->adds)
        cr_assert(kolo_conn_timer_add(&alarm->adds->timer, poller) == KOLO_OK);
    if (!alarm->stays)
        kolo_conn_timer_remove(timer);
}

static struct kolo_poller *poller;

static void open_poller(void)
{
    now_ns = 1000;
    kolo_clock_replace(false_clock);
    cr_assert(kolo_poller_create(&poller) == KOLO_OK);
}

static void close_poller(void)
{
    cr_expect(*kolo_poller_conns(poller) == NULL, "the list is gone with its last timer");
    kolo_poller_destroy(poller);
    kolo_clock_replace(NULL);
}

TestSuite(conn_timer, .init = open_poller, .fini = close_poller);

static void set(struct alarm *alarm, kolo_deadline at)
{
    alarm->timer.at = at;
    alarm->timer.fire = on_time;
    cr_assert(kolo_conn_timer_add(&alarm->timer, poller) == KOLO_OK);
}

Test(conn_timer, nothing_is_due_where_there_is_none)
{
    cr_assert(kolo_conn_expire(poller) == KOLO_NEVER);
}

Test(conn_timer, fires_what_is_due_and_says_when_the_next_one_is)
{
    struct alarm early = {0}, late = {0};
    set(&early, 1000);
    set(&late, 3000);
    cr_assert(kolo_conn_expire(poller) == 3000);
    cr_assert(early.fired == 1 && late.fired == 0);
    now_ns = 2999;
    cr_assert(kolo_conn_expire(poller) == 3000 && late.fired == 0);
    now_ns = 3000;
    cr_assert(kolo_conn_expire(poller) == KOLO_NEVER && late.fired == 1);
}

Test(conn_timer, one_that_stays_due_fires_once_a_look)
{
    struct alarm alarm = {.stays = true};
    set(&alarm, 500);
    for (int look = 1; look <= 3; look++) {
        cr_assert(kolo_conn_expire(poller) == 500);
        cr_assert(alarm.fired == look);
    }
    kolo_conn_timer_remove(&alarm.timer);
}

Test(conn_timer, what_fires_may_remove_one_that_is_due_too)
{
    struct alarm one = {0}, other = {0};
    one.removes = &other;
    other.removes = &one;
    set(&one, 1000);
    set(&other, 1000);
    cr_assert(kolo_conn_expire(poller) == KOLO_NEVER);
    cr_assert(one.fired + other.fired == 1);
}

Test(conn_timer, what_fires_may_add_one_which_waits_for_the_next_look)
{
    struct alarm added = {.timer = {.at = 1000, .fire = on_time}}, first = {.adds = &added};
    set(&first, 1000);
    cr_assert(kolo_conn_expire(poller) == 1000, "else a chain of them would never end");
    cr_assert(first.fired == 1 && added.fired == 0);
    cr_assert(kolo_conn_expire(poller) == KOLO_NEVER && added.fired == 1);
}

Test(conn_timer, removing_twice_is_fine)
{
    struct alarm alarm = {0};
    set(&alarm, 5000);
    kolo_conn_timer_remove(&alarm.timer);
    kolo_conn_timer_remove(&alarm.timer);
}
