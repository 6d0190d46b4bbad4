// SPDX-License-Identifier: Apache-2.0
// runtime/store_stall.c: the ranks that have reported a stall, and the ranks that they wait for.
#include "runtime/store_stall.h"

#include <criterion/criterion.h>

#include <string.h>

TestSuite(store_stall, .timeout = 120);

enum { CALLS = KOLO_CHANNELS_PER_COMM + KOLO_CHANNEL_COLLECTIVE };
enum { WARN_MS = 500 }; /* much longer than a rank may have to wait for a core */

static int warned;

static void warn(void *context, const struct kolo_stall *stall)
{
    (void)context;
    (void)stall;
    warned++;
}

static kolo_status report_stall(struct kolo_stalls *stalls, int rank,
                                struct kolo_stall_report report,
                                const struct kolo_stall **other_out)
{
    return kolo_stalls_report(stalls, rank, &report, other_out);
}

Test(store_stall, members_come_and_go)
{
    struct kolo_stalls *stalls;
    const struct kolo_stall *other = NULL;
    const struct kolo_desc one = {{1}}, two = {{2}};
    cr_assert(kolo_stalls_create(20, 1000000, &stalls) == KOLO_OK);
    cr_assert(report_stall(stalls, 17,
                           (struct kolo_stall_report){CALLS, 1, &one, "one()", NULL, KOLO_OWN_NONE},
                           &other) == KOLO_OK);
    cr_assert(report_stall(stalls, 9,
                           (struct kolo_stall_report){CALLS, 1, &one, "one()", NULL, KOLO_OWN_NONE},
                           &other) == KOLO_OK);
    cr_assert(report_stall(stalls, 9,
                           (struct kolo_stall_report){CALLS, 1, &one, "one()", NULL, KOLO_OWN_NONE},
                           &other) == KOLO_OK);
    cr_assert(report_stall(stalls, 3,
                           (struct kolo_stall_report){CALLS, 1, &two, "two()", NULL, KOLO_OWN_NONE},
                           &other) == KOLO_ERR_MISMATCH);
    cr_assert(other && kolo_stall_first(other, 20) == 9 && other->count == 2);
    cr_assert(kolo_stall_has(other, 17) && !kolo_stall_has(other, 3));
    kolo_stalls_resume(stalls, 9, CALLS, 1);
    kolo_stalls_resume(stalls, 9, CALLS, 1);
    kolo_stalls_resume(stalls, 9, 5, 5);
    cr_assert(kolo_stall_first(other, 20) == 17);
    kolo_stalls_forget(stalls, 17);
    cr_assert(report_stall(stalls, 3,
                           (struct kolo_stall_report){CALLS, 1, &two, "two()", NULL, KOLO_OWN_NONE},
                           &other) == KOLO_OK);
    kolo_stalls_destroy(stalls);
}

/** Ranks of a broadcast wait for different ranks: 4 waits for 1, which forwards the data to it; the
 * root, 0, waits for 1 and 2, and then only for 3, since the others have entered. Rank 4 still
 * lacks rank 1. */
Test(store_stall, those_that_are_waited_for)
{
    struct kolo_stalls *stalls;
    const struct kolo_stall *stall = NULL;
    const struct kolo_desc one = {{1}}, two = {{2}};
    const uint8_t first = 1 << 1, both = 1 << 1 | 1 << 2, third = 1 << 3;
    cr_assert(kolo_stalls_create(6, 1000000, &stalls) == KOLO_OK);
    cr_assert(
        report_stall(stalls, 4,
                     (struct kolo_stall_report){CALLS, 1, &one, "one()", &first, KOLO_OWN_NONE},
                     &stall) == KOLO_OK);
    cr_assert(
        report_stall(stalls, 0,
                     (struct kolo_stall_report){CALLS, 1, &one, "one()", &both, KOLO_OWN_NONE},
                     &stall) == KOLO_OK);
    cr_assert(report_stall(stalls, 5,
                           (struct kolo_stall_report){CALLS, 1, &two, "two()", NULL, KOLO_OWN_NONE},
                           &stall) == KOLO_ERR_MISMATCH);
    cr_assert(kolo_stall_awaits(stall, 1) && kolo_stall_awaits(stall, 2) &&
              !kolo_stall_awaits(stall, 3));
    cr_assert(
        report_stall(stalls, 0,
                     (struct kolo_stall_report){CALLS, 1, &one, "one()", &third, KOLO_OWN_NONE},
                     &stall) == KOLO_OK);
    cr_assert(kolo_stall_awaits(stall, 1), "rank 4 waits for it still");
    cr_assert(!kolo_stall_awaits(stall, 2) && kolo_stall_awaits(stall, 3) && stall->count == 2);
    kolo_stalls_resume(stalls, 0, CALLS, 1);
    cr_assert(kolo_stall_awaits(stall, 1));
    cr_assert(!kolo_stall_awaits(stall, 3), "root has what it waited for");
    cr_assert(report_stall(stalls, 1,
                           (struct kolo_stall_report){CALLS, 1, &one, "one()", NULL, KOLO_OWN_NONE},
                           &stall) == KOLO_OK);
    cr_assert(kolo_stall_awaits(stall, 2) && kolo_stall_awaits(stall, 5));
    kolo_stalls_forget(stalls, 1);
    cr_assert(kolo_stall_awaits(stall, 1) && !kolo_stall_awaits(stall, 5));
    kolo_stalls_destroy(stalls);
}

/** On a channel for messages each rank has sequence numbers of its own, which are not compared. */
Test(store_stall, messages_are_each_ranks_own)
{
    enum { CHANNEL = 3 * KOLO_CHANNELS_PER_COMM + KOLO_CHANNEL_MESSAGE };
    struct kolo_stalls *stalls;
    const struct kolo_stall *other = NULL;
    const struct kolo_desc one = {{1}}, two = {{2}};
    const uint8_t zero = 1 << 0, first = 1 << 1;
    cr_assert(kolo_stalls_create(4, 1000000, &stalls) == KOLO_OK);
    cr_assert(
        report_stall(stalls, 0,
                     (struct kolo_stall_report){CHANNEL, 7, &one, "recv", &first, KOLO_OWN_NONE},
                     &other) == KOLO_OK);
    cr_assert(
        report_stall(stalls, 1,
                     (struct kolo_stall_report){CHANNEL, 7, &two, "send", &zero, KOLO_OWN_NONE},
                     &other) == KOLO_OK);
    const struct kolo_stall *mine = kolo_stalls_of(stalls, 0), *theirs = kolo_stalls_of(stalls, 1);
    cr_assert(mine && theirs && mine != theirs && kolo_stall_is_message(mine));
    cr_assert(kolo_stall_awaits(mine, 1) && !kolo_stall_awaits(mine, 0) && mine->count == 1);
    cr_assert(strcmp(mine->words, "recv") == 0 && strcmp(theirs->words, "send") == 0);
    kolo_stalls_resume(stalls, 1, CHANNEL, 7);
    cr_assert(!kolo_stalls_of(stalls, 1) && kolo_stalls_of(stalls, 0) == mine);
    kolo_stalls_resume(stalls, 1, CHANNEL, 7);
    cr_assert(kolo_stalls_of(stalls, 0) == mine, "another's number");
    cr_assert(kolo_stalls_find(stalls, 0, 3, "recv is late") == mine);
    cr_assert(kolo_stalls_find(stalls, 1, 3, "recv is late") == NULL, "another rank");
    cr_assert(kolo_stalls_find(stalls, 0, 2, "recv is late") == NULL, "another communicator");
    cr_assert(kolo_stalls_find(stalls, 0, 3, "send is late") == NULL, "another call");
    kolo_stalls_destroy(stalls);
}

/** What a rank waits for itself is that rank's only, and what it said last. */
Test(store_stall, what_ranks_wait_for_themselves)
{
    struct kolo_stalls *stalls;
    const struct kolo_desc one = {{1}};
    const uint8_t none = 0, all = 7;
    struct kolo_stall_report report = {CALLS, 1, &one, "one()", &none, KOLO_OWN_STREAM};
    cr_assert(kolo_stalls_create(3, 1000000, &stalls) == KOLO_OK);
    cr_assert(report_stall(stalls, 0, report, NULL) == KOLO_OK);
    const struct kolo_stall *stall = kolo_stalls_of(stalls, 0);
    cr_assert(kolo_stall_own(stall, 0) == KOLO_OWN_STREAM && !kolo_stall_awaits(stall, 2));
    report.members = &all;
    report.own = KOLO_OWN_NONE;
    cr_assert(report_stall(stalls, 1, report, NULL) == KOLO_OK);
    cr_assert(kolo_stall_own(stall, 1) == KOLO_OWN_NONE && kolo_stall_awaits(stall, 2));
    cr_assert(kolo_stall_own(stall, 2) == KOLO_OWN_NONE, "it does not wait");
    cr_assert(kolo_stall_own(stall, -1) == KOLO_OWN_NONE);
    report.own = KOLO_OWN_RESULT;
    cr_assert(report_stall(stalls, 0, report, NULL) == KOLO_OK);
    cr_assert(kolo_stall_own(stall, 0) == KOLO_OWN_RESULT);
    cr_assert(kolo_stall_count_own(stall, KOLO_OWN_RESULT) == 1 &&
              kolo_stall_count_own(stall, KOLO_OWN_STREAM) == 0);
    kolo_stalls_destroy(stalls);
}

Test(store_stall, one_rank_cannot_fill_it)
{
    struct kolo_stalls *stalls;
    const struct kolo_stall *other = NULL;
    const struct kolo_desc one = {{1}};
    cr_assert(kolo_stalls_create(2, WARN_MS, &stalls) == KOLO_OK);
    for (uint32_t i = 0; i < 10 * KOLO_STALLS_PER_RANK; i++)
        cr_assert(
            report_stall(stalls, 0,
                         (struct kolo_stall_report){CALLS, i, &one, "one()", NULL, KOLO_OWN_NONE},
                         &other) == KOLO_OK);
    kolo_deadline past = kolo_deadline_in_ms(WARN_MS);
    while (!kolo_deadline_passed(past))
        ;
    const struct kolo_desc two = {{2}};
    const uint8_t own = 1 << 0; /* it may report the same stall again */
    cr_assert(report_stall(stalls, 0,
                           (struct kolo_stall_report){CALLS, 0, &one, "one()", &own, KOLO_OWN_NONE},
                           &other) == KOLO_OK);
    cr_assert(report_stall(stalls, 1,
                           (struct kolo_stall_report){CALLS, 0, &two, "two()", NULL, KOLO_OWN_NONE},
                           &other) == KOLO_ERR_MISMATCH);
    cr_assert(!kolo_stall_awaits(other, 1));
    cr_assert(!kolo_deadline_passed(kolo_stalls_expire(stalls, warn, NULL)));
    cr_assert(warned == KOLO_STALLS_PER_RANK, "%d", warned);
    kolo_stalls_forget(stalls, 0);
    cr_assert(kolo_stalls_expire(stalls, warn, NULL) == KOLO_NEVER);
    kolo_stalls_destroy(stalls);
}

/** One pass over all says of each rank what kolo_stalls_of says of it, and who is missing. */
Test(store_stall, of_all_ranks_at_once)
{
    enum { SIZE = 20, FIRST = 1 << 3 | 1 << 4 | 1 << 5 };
    struct kolo_stalls *stalls;
    const struct kolo_stall *other = NULL, *calls[SIZE];
    const struct kolo_desc one = {{1}}, two = {{2}};
    const uint8_t members[SIZE / 8 + 1] = {FIRST, [2] = 1 << (17 - 16)};
    bool is_awaited[SIZE];
    cr_assert(kolo_stalls_create(SIZE, 1000000, &stalls) == KOLO_OK);
    cr_assert(
        report_stall(stalls, 3,
                     (struct kolo_stall_report){CALLS, 1, &one, "one()", members, KOLO_OWN_NONE},
                     &other) == KOLO_OK);
    cr_assert(report_stall(
                  stalls, 3,
                  (struct kolo_stall_report){2 * CALLS, 1, &two, "two()", members, KOLO_OWN_NONE},
                  &other) == KOLO_OK);
    cr_assert(report_stall(
                  stalls, 5,
                  (struct kolo_stall_report){2 * CALLS, 1, &two, "two()", members, KOLO_OWN_NONE},
                  &other) == KOLO_OK);
    cr_assert(kolo_stalls_survey(stalls, calls, is_awaited) == KOLO_OK);
    for (int rank = 0; rank < SIZE; rank++) {
        cr_assert(calls[rank] == kolo_stalls_of(stalls, rank), "%d", rank);
        cr_assert(is_awaited[rank] == (rank == 4 || rank == 5 || rank == 17), "%d", rank);
    }
    kolo_stalls_destroy(stalls);
}
