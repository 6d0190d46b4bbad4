// SPDX-License-Identifier: Apache-2.0
// Which rank is blamed for a failure: by evidence, not by who reports first.
#include <signal.h>
#include <string.h>

#include <criterion/criterion.h>

#include "launcher/verdict.h"

enum { SIZE = 6 };

/** @p count ranks of a host, from @p first on; the next four calls leave it valid. */
static const struct kolo_ranks *from(uint32_t first, uint32_t count)
{
    enum { KEPT = 4, MOST = 8 };
    static uint32_t numbers[KEPT][MOST];
    static struct kolo_ranks ranks[KEPT];
    static unsigned turn;
    const unsigned at = turn++ % KEPT;
    cr_assert(count <= MOST);
    for (uint32_t i = 0; i < count; i++)
        numbers[at][i] = first + i;
    ranks[at] = (struct kolo_ranks){.at = numbers[at], .count = count};
    return &ranks[at];
}

static struct kolo_verdict *six_ranks(void)
{
    struct kolo_verdict *verdict = NULL;
    cr_assert(kolo_verdict_create(SIZE, &verdict) == KOLO_OK);
    for (int rank = 0; rank < SIZE; rank++)
        kolo_verdict_started(verdict, rank, rank < 3 ? "host1" : "host2", 100 + (uint32_t)rank);
    return verdict;
}

static bool end(struct kolo_verdict *verdict, int rank, int number, int status, int64_t when_ns)
{
    struct kolo_outcome outcome = {.rank = (uint32_t)rank,
                                   .pid = 100 + (uint32_t)rank,
                                   .signal = (uint32_t)number,
                                   .status = (uint32_t)status,
                                   .age_ms = 12340};
    return kolo_verdict_ended(verdict, &outcome, when_ns);
}

static void expect(struct kolo_verdict *verdict, int status, const char *line)
{
    char text[2048];
    int got = kolo_verdict_finish(verdict, text, sizeof text);
    cr_assert(got == status, "status %d: %s", got, text);
    cr_assert(strcmp(text, line) == 0, "'%s'", text);
    kolo_verdict_destroy(verdict);
}

Test(verdict, success)
{
    struct kolo_verdict *verdict = six_ranks();
    for (int rank = 0; rank < SIZE; rank++) {
        kolo_verdict_left(verdict, rank);
        cr_assert(!end(verdict, rank, 0, 0, rank));
    }
    expect(verdict, 0, "");
}

Test(verdict, knows_where_a_rank_runs)
{
    struct kolo_verdict *verdict = six_ranks();
    const char *host = NULL;
    uint32_t pid = 0;
    cr_assert(kolo_verdict_started_as(verdict, 4, &host, &pid));
    cr_assert(host && strcmp(host, "host2") == 0 && pid == 104, "%s, %u", host ? host : "", pid);
    cr_assert_eq(kolo_verdict_pid(verdict, 4), 104);
    cr_assert_not(kolo_verdict_started_as(verdict, SIZE, &host, &pid));
    cr_assert_not(kolo_verdict_started_as(verdict, -1, &host, &pid));
    kolo_verdict_destroy(verdict);
    cr_assert(kolo_verdict_create(1, &verdict) == KOLO_OK);
    cr_assert_not(kolo_verdict_started_as(verdict, 0, &host, &pid), "it has not started");
    kolo_verdict_destroy(verdict);
}

/* A rank that ended successfully but left a process running is the cause of later failures. */
Test(verdict, who_goes_on_in_the_background_is_named)
{
    struct kolo_verdict *verdict = six_ranks();
    /* the rank itself still runs: nothing is left of it */
    kolo_verdict_strayed(verdict, 4, "called kolo_init");
    cr_assert(!end(verdict, 4, 0, 0, 10));
    cr_assert(end(verdict, 0, 0, 4, 20));
    kolo_verdict_strayed(verdict, 0, "called kolo_init"); /* the rank itself has failed */
    kolo_verdict_strayed(verdict, 4, "called kolo_init");
    expect(verdict, 1,
           "rank 4 (host2, pid 104) exited with status 0, and what it left in the background "
           "called kolo_init; let the program stay in the foreground: no daemon, no '&', exec or "
           "wait at the end of a script");
}

Test(verdict, the_first_end_is_named)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert(end(verdict, 5, SIGKILL, 0, 10));
    cr_assert(end(verdict, 0, 0, 1, 20));
    expect(
        verdict, 137,
        "rank 5 (host2, pid 105) was killed by signal 9 (SIGKILL) after 12.3 s; the job was ended");
}

Test(verdict, of_two_at_the_same_time_the_lower_rank_is_named)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert(end(verdict, 5, SIGKILL, 0, 10));
    cr_assert(end(verdict, 2, 0, 3, 10));
    expect(verdict, 3,
           "rank 2 (host1, pid 102) exited with status 3 after 12.3 s; the job was ended");
}

Test(verdict, the_others_may_have_gone_on)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert(end(verdict, 5, SIGKILL, 0, 10));
    kolo_verdict_keep_going(verdict);
    cr_assert(!end(verdict, 0, 0, 0, 20));
    expect(verdict, 137,
           "rank 5 (host2, pid 105) was killed by signal 9 (SIGKILL) after 12.3 s; the others went "
           "on");
}

Test(verdict, who_did_not_go_on_either_is_named)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_keep_going(verdict);
    cr_assert(end(verdict, 5, SIGKILL, 0, 10));
    cr_assert(end(verdict, 0, 0, 3, 20));
    cr_assert(!end(verdict, 1, 0, 0, 20));
    kolo_verdict_host(verdict, 30, 255, "host host2 was silent", from(3, 3));
    expect(verdict, 137,
           "rank 5 (host2, pid 105) was killed by signal 9 (SIGKILL) after 12.3 s; the others went "
           "on, but for rank 0 (host1), rank 3 (host2), rank 4 (host2)");
}

Test(verdict, of_a_host_that_was_lost_all_ranks_were)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_keep_going(verdict);
    kolo_verdict_host(verdict, 30, 255, "host host1 was silent", from(0, 3));
    kolo_verdict_host(verdict, 20, 255, "host host2 was silent", from(3, 2));
    expect(verdict, 255,
           "host host2 was silent; the others went on, but for rank 0 (host1), rank 1 (host1), "
           "rank 2 (host1)");
    verdict = six_ranks();
    kolo_verdict_host(verdict, 30, 255, "host host1 was silent", from(0, 3));
    expect(verdict, 255, "host host1 was silent; the job was ended");
}

/** As with --map-by node. */
Test(verdict, the_ranks_of_a_host_need_not_be_consecutive)
{
    uint32_t numbers[] = {0, 2, 4};
    const struct kolo_ranks ranks = {.at = numbers, .count = 3};
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_keep_going(verdict);
    cr_assert(end(verdict, 1, 0, 3, 30));
    kolo_verdict_lost(verdict, 3, 5);
    kolo_verdict_lost(verdict, 4, 10);
    cr_assert_eq(kolo_verdict_evidence(verdict, &ranks, 20), 10);
    kolo_verdict_host(verdict, 4, 255, "host h was silent", &ranks);
    expect(verdict, 255, "host h was silent; the others went on, but for rank 1 (host1)");
}

Test(verdict, of_many_that_were_lost_some_are_named)
{
    struct kolo_verdict *verdict = NULL;
    cr_assert(kolo_verdict_create(20, &verdict) == KOLO_OK);
    for (int rank = 0; rank < 20; rank++)
        kolo_verdict_started(verdict, rank, "h", 100);
    kolo_verdict_keep_going(verdict);
    kolo_verdict_host(verdict, 20, 255, "host h was silent", from(10, 2));
    for (int rank = 0; rank < 6; rank++)
        cr_assert(end(verdict, rank, 0, 3, 30));
    expect(verdict, 255,
           "host h was silent; the others went on, but for rank 0 (h), rank 1 (h), rank 2 (h), "
           "rank 3 (h) and 2 more");
}

Test(verdict, all_may_have_failed)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_keep_going(verdict);
    for (int rank = 0; rank < SIZE; rank++)
        cr_assert(end(verdict, rank, 0, 3, 10 + rank));
    expect(verdict, 3,
           "rank 0 (host1, pid 100) exited with status 3 after 12.3 s; then the others failed too");
    verdict = six_ranks();
    kolo_verdict_keep_going(verdict);
    for (int rank = 0; rank < SIZE - 1; rank++)
        cr_assert(end(verdict, rank, 0, 3, 10 + rank));
    expect(verdict, 3,
           "rank 0 (host1, pid 100) exited with status 3 after 12.3 s; the others went on, but for "
           "rank 1 (host1), rank 2 (host1), rank 3 (host2), rank 4 (host2)");
}

Test(verdict, who_was_waited_for_in_vain_is_named_first)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert_eq(kolo_verdict_first_late(verdict), -1);
    kolo_verdict_late(verdict, 4, 10);
    cr_assert_eq(kolo_verdict_first_late(verdict), 4);
    kolo_verdict_late_does(verdict, "stopped by a signal");
    cr_assert(end(verdict, 1, 0, 3, 20));
    kolo_verdict_sends(verdict, SIGKILL);
    cr_assert(end(verdict, 4, SIGKILL, 0, 30));
    expect(verdict, 3,
           "rank 4 (host2, pid 104) had not called kolo_init: stopped by a signal, then rank 1 "
           "(host1, pid 101) exited with status 3 after 12.3 s; the job was ended");

    verdict = six_ranks();
    cr_assert(end(verdict, 1, 0, 3, 9));
    for (int rank = 0; rank < 4; rank++)
        kolo_verdict_late(verdict, rank, 10);
    expect(verdict, 3,
           "rank 1 (host1, pid 101) exited with status 3 after 12.3 s; the job was ended");

    verdict = six_ranks();
    for (int rank = 0; rank < 4; rank++)
        kolo_verdict_late(verdict, rank, 10);
    cr_assert(end(verdict, 5, 0, 3, 20));
    expect(verdict, 3,
           "rank 0 (host1, pid 100) and 3 more had not called kolo_init, then rank 5 (host2, pid "
           "105) exited with status 3 after 12.3 s; the job was ended");

    verdict = six_ranks();
    kolo_verdict_late(verdict, 1, 10);
    cr_assert(end(verdict, 1, 0, 3, 20));
    expect(verdict, 3,
           "rank 1 (host1, pid 101) exited with status 3 after 12.3 s; the job was ended");
}

Test(verdict, what_was_left_is_named)
{
    struct kolo_verdict *verdict = six_ranks();
    char name[128];
    kolo_verdict_keep_going(verdict);
    cr_assert(end(verdict, 5, SIGKILL, 0, 10));
    for (int rank = 0; rank < 4; rank++)
        cr_assert(end(verdict, rank, 0, 1, 20 + rank));
    kolo_verdict_name(verdict, 4, name, sizeof name);
    cr_assert_str_eq(name, "rank 4 (host2, pid 104)");
    kolo_verdict_name(verdict, 3, name, sizeof name);
    cr_assert_str_eq(name, "rank 3 (host2, pid 103) exited with status 1");
    kolo_verdict_behind(verdict, 4, "which was stopped");
    kolo_verdict_sends(verdict, SIGKILL);
    cr_assert(end(verdict, 4, SIGKILL, 0, 30));
    expect(verdict, 137,
           "rank 5 (host2, pid 105) was killed by signal 9 (SIGKILL) after 12.3 s; then the others "
           "failed too; rank 4 (host2), which was stopped, was ended");
}

Test(verdict, only_what_was_left_may_have_failed)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_keep_going(verdict);
    for (int rank = 0; rank < 3; rank++)
        cr_assert(!end(verdict, rank, 0, 0, 20 + rank));
    kolo_verdict_sends(verdict, SIGTERM);
    for (int rank = 3; rank < SIZE; rank++) {
        kolo_verdict_behind(verdict, rank, "which was stopped");
        cr_assert(end(verdict, rank, SIGTERM, 0, 20 + rank));
    }
    expect(
        verdict, 143,
        "rank 3 (host2, pid 103), which was stopped, was ended after 12.3 s; the others went on, "
        "but for rank 4 (host2), rank 5 (host2); 2 ranks that were left were ended");
}

Test(verdict, a_lost_connection_is_earlier_evidence)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_lost(verdict, 4, 10);
    cr_assert(end(verdict, 0, 0, 1, 20));
    cr_assert(end(verdict, 4, SIGSEGV, 0, 30));
    expect(verdict, 139,
           "rank 4 (host2, pid 104) was killed by signal 11 (SIGSEGV) after 12.3 s; the job was "
           "ended");
}

Test(verdict, who_did_not_come_is_named_with_who_waited_for_it)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert(!end(verdict, 2, 0, 0, 11));
    kolo_verdict_waited(verdict);
    cr_assert(end(verdict, 1, 0, 4, 20));
    expect(verdict, 4,
           "rank 2 (host1, pid 102) exited with status 0 without kolo_init, then rank 1 "
           "(host1, pid 101) exited with status 4 after 12.3 s; the job was ended");
    /* In programs that do not use kolo, and after all ranks have joined, no rank is waited for. */
    verdict = six_ranks();
    cr_assert(!end(verdict, 2, 0, 0, 11));
    cr_assert(end(verdict, 1, 0, 4, 20));
    expect(verdict, 4,
           "rank 1 (host1, pid 101) exited with status 4 after 12.3 s; the job was ended");
}

Test(verdict, a_deserter_is_named_with_who_failed_of_it)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_lost(verdict, 2, 10);
    cr_assert(!end(verdict, 2, 0, 0, 11));
    cr_assert(kolo_verdict_is_deserter(verdict, 2));
    cr_assert(end(verdict, 1, 0, 7, 20));
    expect(verdict, 7,
           "rank 2 (host1, pid 102) exited with status 0 without kolo_finalize, then rank 1 "
           "(host1, pid 101) exited with status 7 after 12.3 s; the job was ended");
}

/* The rank has executed another program, or has closed its descriptors: kolorun's own SIGTERM is
 * not the reason. */
Test(verdict, who_ran_on_without_its_connections_is_named_with_who_failed_of_it)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_lost(verdict, 1, 10);
    cr_assert(end(verdict, 4, 0, 7, 20));
    kolo_verdict_sends(verdict, SIGTERM);
    cr_assert(end(verdict, 1, SIGTERM, 0, 30));
    cr_assert(end(verdict, 2, SIGTERM, 0, 31));
    expect(verdict, 7,
           "rank 1 (host1, pid 101) lost its connections and ran on, then rank 4 (host2, pid 104) "
           "exited with status 7 after 12.3 s; the job was ended");
    verdict = six_ranks(); /* a SIGTERM from elsewhere is the reason */
    kolo_verdict_lost(verdict, 1, 10);
    cr_assert(end(verdict, 1, SIGTERM, 0, 15));
    kolo_verdict_sends(verdict, SIGTERM);
    cr_assert(end(verdict, 4, 0, 7, 20));
    expect(verdict, 143,
           "rank 1 (host1, pid 101) was killed by signal 15 (SIGTERM) after 12.3 s; the job was "
           "ended");
    verdict = six_ranks(); /* SIGKILL before kolorun sends one */
    kolo_verdict_lost(verdict, 1, 10);
    kolo_verdict_sends(verdict, SIGTERM);
    cr_assert(end(verdict, 1, SIGKILL, 0, 15));
    cr_assert(end(verdict, 4, 0, 7, 20));
    expect(verdict, 137,
           "rank 1 (host1, pid 101) was killed by signal 9 (SIGKILL) after 12.3 s; the job was "
           "ended");
}

Test(verdict, deserters_alone_are_no_failure)
{
    struct kolo_verdict *verdict = six_ranks();
    for (int rank = 0; rank < SIZE; rank++) {
        kolo_verdict_lost(verdict, rank, rank);
        cr_assert(!end(verdict, rank, 0, 0, rank));
    }
    expect(verdict, 0, "");
}

Test(verdict, the_earliest_trouble_counts)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_trouble(verdict, 50, 124, "too late");
    kolo_verdict_trouble(verdict, 60, 130, "a signal");
    cr_assert(end(verdict, 1, SIGTERM, 0, 70));
    expect(verdict, 124, "too late");
}

Test(verdict, a_silent_host_was_lost_before_others_noticed)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert(end(verdict, 0, 0, 1, 100));
    kolo_verdict_trouble(verdict, 40, 255, "host host2 was silent for %.1f s", 2.1);
    expect(verdict, 255, "host host2 was silent for 2.1 s");
}

Test(verdict, the_ranks_of_a_lost_host_show_its_loss_first)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_left(verdict, 3);
    kolo_verdict_lost(verdict, 3, 5); /* it had said goodbye, so this is no evidence */
    kolo_verdict_lost(verdict, 4, 10);
    cr_assert(end(verdict, 0, 0, 1, 20)); /* failed because of it, before ssh noticed */
    cr_assert(kolo_verdict_evidence(verdict, from(0, 3), 30) == 30);
    int64_t when_ns = kolo_verdict_evidence(verdict, from(3, 3), 30);
    cr_assert(when_ns == 10, "%lld", (long long)when_ns);
    kolo_verdict_trouble(verdict, when_ns, 255, "host2 was lost");
    expect(verdict, 255, "host2 was lost");
}

Test(verdict, a_rank_that_failed_before_the_trouble_counts)
{
    struct kolo_verdict *verdict = six_ranks();
    cr_assert(end(verdict, 3, 0, 3, 10));
    kolo_verdict_trouble(verdict, 20, 255, "host lost");
    expect(verdict, 3,
           "rank 3 (host2, pid 103) exited with status 3 after 12.3 s; the job was ended");
}

Test(verdict, ignores_ranks_that_are_none)
{
    struct kolo_verdict *verdict = six_ranks();
    kolo_verdict_lost(verdict, SIZE, 1);
    kolo_verdict_left(verdict, -1);
    kolo_verdict_started(verdict, 1 << 30, "x", 1);
    cr_assert(!end(verdict, SIZE, SIGKILL, 0, 1));
    cr_assert(!kolo_verdict_has_ended(verdict, SIZE) && !kolo_verdict_is_deserter(verdict, -1));
    cr_assert(end(verdict, 0, 0, 2, 5) && !end(verdict, 0, 0, 9, 6), "the second end is ignored");
    expect(verdict, 2,
           "rank 0 (host1, pid 100) exited with status 2 after 12.3 s; the job was ended");
}

Test(verdict, signals_have_names)
{
    char text[32];
    kolo_signal_text(SIGKILL, text, sizeof text);
    cr_assert_str_eq(text, "SIGKILL");
    kolo_signal_text(SIGRTMIN, text, sizeof text);
    cr_assert_str_eq(text, "SIGRTMIN");
    kolo_signal_text(SIGRTMIN + 3, text, sizeof text);
    cr_assert_str_eq(text, "SIGRTMIN+3");
    kolo_signal_text(SIGRTMAX + 1, text, sizeof text);
    cr_assert_str_eq(text, "unknown");
    kolo_signal_text(0, text, sizeof text);
    cr_assert_str_eq(text, "unknown");
}
