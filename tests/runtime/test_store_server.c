// SPDX-License-Identifier: Apache-2.0
// runtime/store_server.c, message by message: joining, deadlines, verdicts, failures, and clients
// that do not behave (tests/support/store_raw.h).
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/store_server.h"
#include "tests/support/store_raw.h"

TestSuite(store_server, .timeout = 60);

enum { WAIT_LONG_MS = 600000 };
static int64_t fake_ns = 1000000000;

static int64_t fake_now(void)
{
    return fake_ns;
}

static void advance_ms(struct raw_server *raw, int64_t ms)
{
    fake_ns += ms * 1000000;
    kolo_store_server_expire(raw->server);
    raw_server_pump(raw);
}

static void open_all(struct raw_server *raw, struct raw_rank *ranks, int size, int joining)
{
    cr_assert(raw_server_open(raw, size) == KOLO_OK, "%s", kolo_error_detail());
    for (int i = 0; i < joining; i++) {
        char host[32];
        snprintf(host, sizeof host, "host%d", i);
        cr_assert(raw_rank_open(raw, &ranks[i]) == KOLO_OK, "%s", kolo_error_detail());
        raw_join(&ranks[i], i, (uint32_t)size, WAIT_LONG_MS, host, 10 + (size_t)i);
    }
    raw_server_pump(raw);
    for (int i = 0; i < joining && joining == size; i++)
        cr_assert(raw_rank_next(&ranks[i]) && ranks[i].type == KOLO_STORE_WORLD);
}

static void close_all(struct raw_server *raw, struct raw_rank *ranks, int count)
{
    for (int i = 0; i < count; i++)
        raw_rank_close(&ranks[i]);
    raw_server_close(raw);
}

static void expect_failed(struct raw_rank *rank, kolo_status why, const char *text)
{
    cr_assert(raw_rank_next(rank), "no message, wanted %s", text);
    cr_assert(rank->type == KOLO_STORE_FAILED, "type %d, wanted %s", rank->type, text);
    cr_assert(rank->status == why, "%s: %s, wanted %s", kolo_status_name(rank->status), rank->text,
              kolo_status_name(why));
    cr_assert(strstr(rank->text, text), "\"%s\", wanted \"%s\"", rank->text, text);
}

Test(store_server, table_goes_to_all_in_order_of_rank)
{
    enum { SIZE = 5 };
    struct raw_server raw;
    struct raw_rank ranks[SIZE];
    cr_assert(raw_server_open(&raw, SIZE) == KOLO_OK);
    for (int i = SIZE - 1; i >= 0; i--) {
        cr_assert(raw_rank_open(&raw, &ranks[i]) == KOLO_OK);
        raw_join(&ranks[i], i, SIZE, WAIT_LONG_MS, "host", 10 + (size_t)i);
        raw_server_pump(&raw);
        cr_assert(raw.joined == (i == 0));
        cr_assert(i == 0 || !raw_rank_next(&ranks[i]));
    }
    for (int i = 0; i < SIZE; i++) {
        cr_assert(raw_rank_next(&ranks[i]) && ranks[i].type == KOLO_STORE_WORLD);
        cr_assert(kolo_read_u32(&ranks[i].body) == SIZE);
        for (int j = 0; j < SIZE; j++) {
            size_t bytes = 0;
            const uint8_t *peer = kolo_read_blob(&ranks[i].body, &bytes);
            cr_assert(bytes == 10 + (size_t)j && peer[0] == j && peer[bytes - 1] == j);
        }
        cr_assert(kolo_reader_finish(&ranks[i].body, "WORLD") == KOLO_OK);
    }
    cr_assert(kolo_store_server_connected(raw.server) == SIZE);
    close_all(&raw, ranks, SIZE);
}

Test(store_server, another_size_fails_the_job_naming_both)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 3, 1);
    cr_assert(raw_rank_open(&raw, &ranks[1]) == KOLO_OK);
    raw_join(&ranks[1], 1, 4, WAIT_LONG_MS, "hostB", 4);
    raw_server_pump(&raw);
    for (int i = 0; i < 2; i++)
        expect_failed(&ranks[i], KOLO_ERR_INVALID,
                      "rank 1 (hostB, pid 801) says the job has 4 ranks, rank 0 says 3");
    cr_assert(raw.aborted == 1 && raw.why == KOLO_ERR_INVALID && raw.last_rank == 1);
    close_all(&raw, ranks, 2);
}

Test(store_server, rank_given_twice_or_out_of_range)
{
    const int given[] = {0, 3, -1, 1 << 30};
    const char *const said[] = {"rank 0 (host0, pid 800) is there already",
                                "rank 3 (other, pid 803) is not in a job of 3 ranks",
                                "rank -1 (other, pid 799) is not in a job",
                                "is not in a job of 3 ranks; ranks are 0 to 2"};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        struct raw_server raw;
        struct raw_rank ranks[2];
        open_all(&raw, ranks, 3, 1);
        cr_assert(raw_rank_open(&raw, &ranks[1]) == KOLO_OK);
        raw_join(&ranks[1], given[i], 3, WAIT_LONG_MS, "other", 4);
        raw_server_pump(&raw);
        expect_failed(&ranks[0], KOLO_ERR_INVALID, said[i]);
        expect_failed(&ranks[1], KOLO_ERR_INVALID, said[i]);
        cr_assert(raw.last_rank == (given[i] == 0 ? 0 : -1), "%d", raw.last_rank);
        close_all(&raw, ranks, 2);
    }
}

Test(store_server, late_double_is_told_alone)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    open_all(&raw, ranks, 2, 2);
    cr_assert(raw_rank_open(&raw, &ranks[2]) == KOLO_OK);
    raw_join(&ranks[2], 1, 2, WAIT_LONG_MS, "again", 4);
    raw_server_pump(&raw);
    expect_failed(&ranks[2], KOLO_ERR_INVALID, "is there already");
    cr_assert(!raw_rank_next(&ranks[0]) && !ranks[0].is_closed && raw.aborted == 0);
    close_all(&raw, ranks, 3);
}

Test(store_server, start_deadline_names_the_missing)
{
    struct raw_server raw;
    struct raw_rank ranks[8];
    const int here[] = {0, 1, 2, 4};
    kolo_clock_replace(fake_now);
    cr_assert(raw_server_open(&raw, 8) == KOLO_OK);
    /* a program that does not use kolo: no rank joins, and nothing happens */
    advance_ms(&raw, 100000);
    cr_assert(raw.aborted == 0);
    for (int i = 0; i < 4; i++) {
        cr_assert(raw_rank_open(&raw, &ranks[i]) == KOLO_OK);
        raw_join(&ranks[i], here[i], 8, WAIT_LONG_MS, "host", 4);
    }
    raw_server_pump(&raw);
    advance_ms(&raw, 59999);
    cr_assert(raw.aborted == 0);
    advance_ms(&raw, 1);
    cr_assert(raw.aborted == 1 && raw.why == KOLO_ERR_TIMEOUT && raw.last_rank == -1);
    for (int i = 0; i < 4; i++)
        expect_failed(
            &ranks[i], KOLO_ERR_TIMEOUT,
            "ranks 3, 5-7 of 8 did not start within 60 s; rank 0 started rank 7 as pid 812 "
            "on host7");
    close_all(&raw, ranks, 4);
}

static char logged[8192];

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    size_t used = strlen(logged);
    (void)context;
    (void)level;
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

Test(store_server, the_log_says_whom_a_start_waits_for)
{
    struct raw_server raw;
    struct raw_rank rank;
    kolo_clock_replace(fake_now);
    kolo_log_set_sink(keep_line, NULL);
    kolo_log_set_level(KOLO_LOG_DEBUG);
    cr_assert(raw_server_open(&raw, 8) == KOLO_OK && raw_rank_open(&raw, &rank) == KOLO_OK);
    raw_join(&rank, 3, 8, WAIT_LONG_MS, "host", 4);
    raw_server_pump(&raw);
    advance_ms(&raw, 999);
    cr_assert(!strstr(logged, "waiting for"), "%s", logged);
    for (int i = 0; i < 3; i++) {
        logged[0] = '\0';
        advance_ms(&raw, 1000);
        cr_assert(strstr(logged, "1 of 8 ranks have joined; waiting for ranks 0-2, 4-7"), "%s",
                  logged);
    }
    kolo_log_set_level(KOLO_LOG_NONE);
    kolo_log_set_sink(NULL, NULL);
    close_all(&raw, &rank, 1);
}

Test(store_server, shortest_patience_sets_the_start_deadline)
{
    struct raw_server raw;
    struct raw_rank rank, late;
    kolo_clock_replace(fake_now);
    cr_assert(raw_server_open(&raw, 2) == KOLO_OK && raw_rank_open(&raw, &rank) == KOLO_OK);
    raw_join(&rank, 0, 2, 300, "host", 4);
    raw_server_pump(&raw);
    cr_assert(raw.came == 1 && kolo_store_server_is_here(raw.server, 0) &&
              !kolo_store_server_is_here(raw.server, 1));
    advance_ms(&raw, 300);
    expect_failed(&rank, KOLO_ERR_TIMEOUT, "rank 1 of 2 did not start within 0.3 s");
    kolo_store_server_died(raw.server, 1, "exited with status 0");
    cr_assert(kolo_store_server_has_come(raw.server, 0) &&
              !kolo_store_server_has_come(raw.server, 1) &&
              !kolo_store_server_has_come(raw.server, 2));
    cr_assert(raw_rank_open(&raw, &late) == KOLO_OK);
    raw_join(&late, 1, 2, 300, "host", 4);
    raw_server_pump(&raw);
    cr_assert(kolo_store_server_has_come(raw.server, 1) && raw.came == 2, "too late to join");
    cr_assert(!kolo_store_server_is_here(raw.server, 1) &&
              !kolo_store_server_is_here(raw.server, 2));
    raw_rank_close(&late);
    close_all(&raw, &rank, 1);
}

Test(store_server, each_death_is_told_with_its_verdict_once)
{
    struct raw_server raw;
    struct raw_rank ranks[3], late;
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 3, 3);
    raw_rank_close(&ranks[2]);
    raw_server_pump(&raw);
    cr_assert(raw.lost == 1 && raw.last_rank == 2);
    advance_ms(&raw, 400);
    kolo_store_server_died(raw.server, 2, "killed by signal 9 (SIGKILL)");
    kolo_store_server_died(raw.server, 2, "killed again");
    kolo_store_server_died(raw.server, 1, "exited with status 3");
    for (int i = 0; i < 2; i++) {
        expect_failed(&ranks[i], KOLO_ERR_PEER,
                      "rank 2 (host2, pid 802) killed by signal 9 (SIGKILL)");
        cr_assert(ranks[i].rank == 2 && ranks[i].scope == KOLO_STORE_RANK);
        expect_failed(&ranks[i], KOLO_ERR_PEER, "rank 1 (host1, pid 801) exited with status 3");
        cr_assert(ranks[i].rank == 1 && ranks[i].scope == KOLO_STORE_RANK);
    }
    advance_ms(&raw, 1000);
    cr_assert(!raw_rank_next(&ranks[0]) && raw.aborted == 0);
    cr_assert(raw_rank_open(&raw, &late) == KOLO_OK);
    raw_join(&late, 1, 3, WAIT_LONG_MS, "late", 4);
    raw_server_pump(&raw);
    expect_failed(&late, KOLO_ERR_INVALID, "rank 1 (host1, pid 801) is there already");
    raw_rank_close(&late);
    close_all(&raw, ranks, 2);
}

Test(store_server, death_before_join_fails_the_start)
{
    struct raw_server raw;
    struct raw_rank rank;
    open_all(&raw, &rank, 3, 1);
    kolo_store_server_died(raw.server, 1, "exited with status 3");
    kolo_store_server_died(raw.server, 99, "is nobody");
    expect_failed(&rank, KOLO_ERR_PEER, "rank 1 exited with status 3");
    close_all(&raw, &rank, 1);
}

Test(store_server, lost_connection_without_verdict)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 2, 2);
    raw_rank_close(&ranks[1]);
    raw_server_pump(&raw);
    advance_ms(&raw, 499);
    cr_assert(!raw_rank_next(&ranks[0]));
    advance_ms(&raw, 1);
    expect_failed(&ranks[0], KOLO_ERR_PEER, "rank 1 (host1, pid 801) lost its connection");
    cr_assert(raw.aborted == 1 && raw.last_rank == 1);
    close_all(&raw, ranks, 1);
}

Test(store_server, goodbye_is_no_loss)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    raw_plain(&ranks[1], KOLO_STORE_LEAVE, false, 0);
    raw_server_pump(&raw);
    cr_assert(raw.left == 1 && raw.lost == 0 && raw.last_rank == 1);
    cr_assert(raw_rank_next(&ranks[0]) && ranks[0].type == KOLO_STORE_LEFT && ranks[0].rank == 1);
    cr_assert(!raw_rank_next(&ranks[1]) && ranks[1].is_closed);
    kolo_store_server_died(raw.server, 1, "exited with status 0");
    cr_assert(!raw_rank_next(&ranks[0]));
    cr_assert(kolo_store_server_connected(raw.server) == 1);
    cr_assert(kolo_store_server_has_come(raw.server, 1));
    close_all(&raw, ranks, 2);
}

Test(store_server, many_goodbyes_are_one_message)
{
    struct raw_server raw;
    struct raw_rank ranks[4];
    open_all(&raw, ranks, 4, 4);
    for (int rank = 1; rank < 4; rank++)
        raw_plain(&ranks[rank], KOLO_STORE_LEAVE, false, 0);
    raw_server_pump(&raw);
    cr_assert(raw.left == 3 && raw.lost == 0);
    cr_assert(raw_rank_next(&ranks[0]) && ranks[0].type == KOLO_STORE_LEFT);
    int sum = ranks[0].rank + kolo_read_i32(&ranks[0].body) + kolo_read_i32(&ranks[0].body);
    cr_assert(kolo_reader_finish(&ranks[0].body, "LEFT") == KOLO_OK && sum == 1 + 2 + 3);
    cr_assert(!raw_rank_next(&ranks[0]), "told twice");
    close_all(&raw, ranks, 4);
}

Test(store_server, first_abort_wins)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    open_all(&raw, ranks, 3, 3);
    raw_abort(&ranks[1], KOLO_STORE_JOB, KOLO_ERR_ABORTED, "gave\x1b[31m up");
    raw_server_pump(&raw);
    raw_abort(&ranks[2], KOLO_STORE_JOB, KOLO_ERR_INTERNAL, "later");
    raw_server_pump(&raw);
    for (int i = 0; i < 3; i++) {
        expect_failed(&ranks[i], KOLO_ERR_ABORTED, "gave?[31m up");
        cr_assert(ranks[i].rank == 1 && !raw_rank_next(&ranks[i]));
    }
    cr_assert(raw.aborted == 1 && raw.last_rank == 1);
    close_all(&raw, ranks, 3);
}

/** Asserts that the next message is FAILED of @p scope with this text. */
static void expect_scope(struct raw_rank *rank, uint32_t scope, const char *text)
{
    expect_failed(rank, KOLO_ERR_ABORTED, text);
    cr_assert(rank->scope == scope, "scope %u, wanted %u", rank->scope, scope);
}

Test(store_server, a_process_that_joins_twice_is_told_so)
{
    struct raw_server raw;
    struct raw_rank ranks[2], again;
    open_all(&raw, ranks, 2, 2);
    cr_assert(raw_rank_open(&raw, &again) == KOLO_OK);
    /* with the pid that raw_join() always sends */
    raw_join(&again, 1, 2, WAIT_LONG_MS, "host1", 4);
    raw_server_pump(&raw);
    expect_failed(&again, KOLO_ERR_INVALID,
                  "rank 1 (host1, pid 801), this process, has joined already; call kolo_init once");
    raw_rank_close(&again);
    close_all(&raw, ranks, 2);
}

Test(store_server, who_comes_after_a_rank_that_left_is_told_so)
{
    struct raw_server raw;
    struct raw_rank ranks[2], again, other;
    open_all(&raw, ranks, 2, 2);
    raw_plain(&ranks[1], KOLO_STORE_LEAVE, false, 0);
    raw_server_pump(&raw);
    cr_assert(raw_rank_open(&raw, &again) == KOLO_OK && raw_rank_open(&raw, &other) == KOLO_OK);
    /* with the pid that raw_join() always sends */
    raw_join(&again, 1, 2, WAIT_LONG_MS, "host1", 4);
    raw_join(&other, 1, 2, WAIT_LONG_MS, "late", 4);
    raw_server_pump(&raw);
    expect_failed(&again, KOLO_ERR_INVALID,
                  "rank 1 (host1, pid 801), this process, has finalized and cannot join again");
    expect_failed(&other, KOLO_ERR_INVALID,
                  "rank 1 (host1, pid 801) has finalized, and another process (late, pid 801) "
                  "cannot join as rank 1 after it; a job is one program");
    raw_rank_close(&again);
    raw_rank_close(&other);
    close_all(&raw, ranks, 2);
}

Test(store_server, each_communicator_fails_for_itself)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    raw_abort(&ranks[1], 5, KOLO_ERR_ABORTED, "five");
    raw_abort(&ranks[0], 5, KOLO_ERR_ABORTED, "again");
    raw_abort(&ranks[1], 0, KOLO_ERR_ABORTED, "the world");
    /* not compared, because these communicators have failed */
    raw_stalled(&ranks[0], 5 * KOLO_CHANNELS_PER_COMM, 1, 1, "a()");
    raw_stalled(&ranks[1], 5 * KOLO_CHANNELS_PER_COMM, 1, 2, "b()");
    raw_stalled(&ranks[0], 6 * KOLO_CHANNELS_PER_COMM, 1, 1, "a()");
    raw_stalled(&ranks[1], 6 * KOLO_CHANNELS_PER_COMM, 1, 2, "b()");
    raw_server_pump(&raw);
    for (int i = 0; i < 2; i++) {
        expect_scope(&ranks[i], 5, "five");
        expect_scope(&ranks[i], 0, "the world");
        expect_failed(&ranks[i], KOLO_ERR_MISMATCH,
                      "rank 0 (host0) calls a(), sequence 1, but rank 1 (host1) calls b(), "
                      "sequence 1");
        cr_assert(ranks[i].scope == 6 && !raw_rank_next(&ranks[i]));
    }
    raw_abort(&ranks[0], KOLO_STORE_RANK, KOLO_ERR_ABORTED, "a rank is for the server to bury");
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[0]) && ranks[0].is_closed);
    close_all(&raw, ranks, 2);
}

static void expect_answer(struct raw_rank *rank, uint32_t id, kolo_status status)
{
    cr_assert(raw_rank_next(rank) && rank->type == KOLO_STORE_ANSWER, "no answer");
    cr_assert(rank->id == id, "answer %u, wanted %u", rank->id, id);
    cr_assert(rank->status == status, "%s: %s", kolo_status_name(rank->status), rank->text);
}

static struct kolo_store_view view_of(const struct raw_server *raw, int rank)
{
    struct kolo_store_view views[6];
    cr_assert(kolo_store_server_view(raw->server, views) == KOLO_OK);
    cr_assert(views[rank].pid == kolo_store_server_pid(raw->server, rank));
    return views[rank];
}

/** Expects the answer to a SHRINK, with these ranks as survivors. Returns the number of their
 * communicator. */
static int64_t expect_survivors(struct raw_rank *rank, uint32_t id, uint8_t survivors)
{
    expect_answer(rank, id, KOLO_OK);
    cr_assert(rank->bytes == 1 && rank->value[0] == survivors, "survivors %02x, wanted %02x",
              rank->value[0], survivors);
    return rank->sum;
}

Test(store_server, a_rank_that_counts_as_lost_is_no_survivor)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    open_all(&raw, ranks, 3, 3);
    kolo_store_server_died(raw.server, 2, "was lost with its host");
    /* it lives, but its host cannot be reached any more */
    raw_shrink(&ranks[2], 1, 0, 60000, 0x07);
    raw_shrink(&ranks[0], 1, 0, 60000, 0x07);
    raw_server_pump(&raw);
    expect_failed(&ranks[2], KOLO_ERR_PEER, "rank 2 (host2, pid 802) was lost with its host");
    expect_answer(&ranks[2], 1, KOLO_ERR_PEER);
    cr_assert(strcmp(ranks[2].text, "rank 2 (host2, pid 802), this process, counts as lost: the "
                                    "others go on without it") == 0,
              "%s", ranks[2].text);
    raw_rank_close(&ranks[2]);
    raw_server_pump(&raw);
    raw_shrink(&ranks[1], 1, 0, 60000, 0x07);
    raw_server_pump(&raw);
    for (int i = 0; i < 2; i++) {
        expect_failed(&ranks[i], KOLO_ERR_PEER, "rank 2 (host2, pid 802) was lost with its host");
        (void)expect_survivors(&ranks[i], 1, 0x03);
    }
    close_all(&raw, ranks, 2);
}

/** Five ranks shrink, each with the ranks that it has lost: @p survivors go on, the others are told
 * why not. */
static void expect_choice(const uint8_t lost[5], uint8_t survivors)
{
    struct raw_server raw;
    struct raw_rank ranks[5];
    open_all(&raw, ranks, 5, 5);
    for (int i = 0; i < 5; i++)
        raw_shrink_without(&ranks[i], 1, 0, 60000, 0x1f, lost[i]);
    raw_server_pump(&raw);
    for (int i = 0; i < 5; i++)
        if (survivors & 1 << i)
            (void)expect_survivors(&ranks[i], 1, survivors);
        else
            expect_answer(&ranks[i], 1, KOLO_ERR_PEER);
    close_all(&raw, ranks, 5);
}

Test(store_server, of_two_that_cannot_reach_each_other_one_goes_on)
{
    expect_choice((uint8_t[]){0, 0x08, 0, 0, 0}, 0x17);    /* rank 1 has lost 3 */
    expect_choice((uint8_t[]){0, 0x08, 0, 0x02, 0}, 0x17); /* and 3 has lost 1 */
    expect_choice((uint8_t[]){0, 0, 0x12, 0, 0}, 0x1b);    /* rank 2 has lost 1 and 4 */
    expect_choice((uint8_t[]){0x1c, 0x1c, 0, 0, 0}, 0x1c); /* two hosts, of two and three ranks */
    expect_choice((uint8_t[]){0x02, 0, 0x08, 0, 0}, 0x15); /* two pairs */
    /* each rank but 0 has lost all others */
    expect_choice((uint8_t[]){0, 0x1d, 0x1b, 0x17, 0x0f}, 0x01);
}

/** Of twelve, 9 and 11 have lost each other, and 8 has died. */
Test(store_server, more_ranks_than_a_byte_has_bits_shrink)
{
    enum { SIZE = 12 };
    static const uint8_t all[] = {0xff, 0x0f}, none[2], of_9[] = {0, 1 << (11 - 8)};
    static const uint8_t of_11[] = {0, 1 << (9 - 8)};
    struct raw_server raw;
    struct raw_rank ranks[SIZE];
    open_all(&raw, ranks, SIZE, SIZE);
    kolo_store_server_died(raw.server, 8, "died");
    raw_server_pump(&raw);
    for (int i = 0; i < SIZE; i++) {
        expect_failed(&ranks[i], KOLO_ERR_PEER, "rank 8 (host8, pid 808) died");
        if (i != 8)
            raw_shrink_many(&ranks[i], 1, 0, 60000, all,
                            i == 9    ? of_9
                            : i == 11 ? of_11
                                      : none,
                            sizeof all);
    }
    raw_server_pump(&raw);
    for (int i = 0; i < SIZE; i++) {
        if (i == 8)
            continue;
        expect_answer(&ranks[i], 1, i == 11 ? KOLO_ERR_PEER : KOLO_OK);
        cr_assert(i == 11 || (ranks[i].bytes == 2 && ranks[i].value[0] == 0xff &&
                              ranks[i].value[1] == 0x06),
                  "rank %d: %02x %02x", i, ranks[i].value[0], ranks[i].value[1]);
    }
    close_all(&raw, ranks, SIZE);
}

Test(store_server, who_cannot_reach_another_hears_whom)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    open_all(&raw, ranks, 3, 3);
    kolo_store_server_died(raw.server, 0, "died");
    /* that rank 0 is lost is already known */
    raw_shrink_without(&ranks[1], 1, 0, 60000, 0x07, 0x05);
    raw_shrink_without(&ranks[2], 1, 0, 60000, 0x07, 0x01);
    raw_server_pump(&raw);
    expect_failed(&ranks[1], KOLO_ERR_PEER, "rank 0 (host0, pid 800) died");
    expect_failed(&ranks[2], KOLO_ERR_PEER, "rank 0 (host0, pid 800) died");
    (void)expect_survivors(&ranks[1], 1, 0x02);
    expect_answer(&ranks[2], 1, KOLO_ERR_PEER);
    cr_assert(
        strcmp(ranks[2].text,
               "rank 2 (host2, pid 802), this process, and rank 1 (host1, pid 801) cannot reach "
               "each other any more, though both live: the others go on without this one") == 0,
        "%s", ranks[2].text);
    close_all(&raw, ranks, 3);
}

Test(store_server, survivors_hear_the_same_when_the_others_are_gone)
{
    struct raw_server raw;
    struct raw_rank ranks[5];
    open_all(&raw, ranks, 5, 5);
    raw_shrink(&ranks[0], 1, 0, 60000, 0x1f);
    raw_shrink(&ranks[2], 2, 0, 60000, 0x1f);
    raw_shrink(&ranks[4], 3, 0, 60000, 0x1f);
    raw_shrink(&ranks[3], 1, 9, 60000, 0x0a); /* another communicator: ranks 1 and 3 */
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[0]));
    kolo_store_server_died(raw.server, 4, "died while it waited");
    raw_server_pump(&raw);
    expect_failed(&ranks[0], KOLO_ERR_PEER, "rank 4 (host4, pid 804) died while it waited");
    cr_assert(!raw_rank_next(&ranks[0]));
    kolo_store_server_died(raw.server, 1, "died");
    raw_server_pump(&raw);
    expect_failed(&ranks[3], KOLO_ERR_PEER, "rank 4 (host4, pid 804) died while it waited");
    /* answered before the failure of rank 1 is reported */
    int64_t third = expect_survivors(&ranks[3], 1, 0x08);
    expect_failed(&ranks[3], KOLO_ERR_PEER, "rank 1 (host1, pid 801) died");
    raw_plain(&ranks[3], KOLO_STORE_LEAVE, false, 0);
    raw_server_pump(&raw);
    expect_failed(&ranks[0], KOLO_ERR_PEER, "rank 1 (host1, pid 801) died");
    int64_t first = expect_survivors(&ranks[0], 1, 0x05);
    cr_assert(raw_rank_next(&ranks[2]) && raw_rank_next(&ranks[2]));
    cr_assert(expect_survivors(&ranks[2], 2, 0x05) == first && first != third);
    close_all(&raw, ranks, 5);
}

/** As of a call, each time after twice as long. */
Test(store_server, warns_of_a_shrink_to_which_ranks_do_not_come)
{
    struct raw_server raw;
    struct raw_rank ranks[6];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 6, 6);
    raw_shrink(&ranks[0], 1, 0, 600000, 0x3f);
    raw_server_pump(&raw);
    const int64_t since_ns = fake_ns;
    cr_assert(strcmp(view_of(&raw, 0).words, "kolo_shrink") == 0 && view_of(&raw, 0).call &&
              view_of(&raw, 0).since_ns == since_ns && !view_of(&raw, 0).is_awaited);
    cr_assert(view_of(&raw, 1).is_awaited && !view_of(&raw, 1).call);
    advance_ms(&raw, 29999);
    cr_assert_eq(raw.notices, 0);
    advance_ms(&raw, 1);
    cr_assert_eq(raw.notices, 1);
    cr_assert_str_eq(raw.notice, "kolo_shrink: waiting for 30 s; not there yet: rank 1 (host1, pid "
                                 "801), rank 2 (host2, pid 802), rank 3 (host3, pid 803), rank 4 "
                                 "(host4, pid 804) and 1 more");
    for (int i = 1; i < 5; i++)
        raw_shrink(&ranks[i], 1, 0, 600000, 0x3f);
    raw_server_pump(&raw);
    advance_ms(&raw, 59999);
    cr_assert_eq(raw.notices, 1);
    advance_ms(&raw, 1);
    cr_assert_eq(raw.notices, 2);
    cr_assert_str_eq(raw.notice,
                     "kolo_shrink: waiting for 90 s; not there yet: rank 5 (host5, pid 805)");
    kolo_store_server_died(raw.server, 5, "was killed");
    raw_server_pump(&raw);
    advance_ms(&raw, 300000);
    cr_assert(raw.notices == 2 && !view_of(&raw, 0).call && !view_of(&raw, 5).is_awaited);
    close_all(&raw, ranks, 6);
}

Test(store_server, who_has_finalized_is_not_waited_for)
{
    struct raw_server raw;
    struct raw_rank ranks[4];
    open_all(&raw, ranks, 4, 4);
    raw_finalized(&ranks[1], 5, 0x0f); /* before any rank asks */
    /* another communicator, which says nothing about the first */
    raw_finalized(&ranks[1], 6, 0x03);
    raw_server_pump(&raw);
    raw_shrink(&ranks[0], 1, 5, 60000, 0x0f);
    raw_shrink(&ranks[2], 1, 5, 60000, 0x0f);
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[0]));
    raw_finalized(&ranks[3], 7, 0x0f);
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[0]), "rank 3 has finalized another");
    raw_finalized(&ranks[3], 5, 0x0f); /* while the others wait */
    raw_server_pump(&raw);
    int64_t number = expect_survivors(&ranks[0], 1, 0x05);
    cr_assert(expect_survivors(&ranks[2], 1, 0x05) == number);
    for (int rank = 0; rank < 4; rank++) /* in the end all of them have finalized */
        raw_finalized(&ranks[rank], 7, 0x0f);
    raw_finalized(&ranks[0], 7, 0x0e); /* it is not a member */
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[0]) && ranks[0].is_closed);
    cr_assert(!raw_rank_next(&ranks[1]) || !ranks[1].is_closed);
    close_all(&raw, ranks, 4);
}

/** A rank that waited in vain is not blamed as long as another never came. */
/** Finalized communicators are kept as long as a rank may still shrink them. */
Test(store_server, what_nobody_can_ask_for_is_forgotten)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    open_all(&raw, ranks, 3, 3);
    for (uint32_t number = 5; number < 9; number++)
        raw_finalized(&ranks[0], number, number == 8 ? 0x07 : 0x03);
    raw_server_pump(&raw);
    cr_assert_eq(raw.server->retired.count, 4);
    raw_finalized(&ranks[1], 5, 0x03);
    raw_server_pump(&raw);
    cr_assert_eq(raw.server->retired.count, 3, "all members have finalized the first");
    raw_plain(&ranks[1], KOLO_STORE_LEAVE, false, 0);
    raw_server_pump(&raw);
    cr_assert_eq(raw.server->retired.count, 1, "rank 2 may still ask for the last");
    close_all(&raw, ranks, 3);
}

Test(store_server, who_never_came_for_survivors_is_named)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 3, 3);
    raw_shrink(&ranks[0], 1, 0, 500, 0x07);
    raw_shrink(&ranks[2], 1, 0, 1000, 0x07);
    raw_server_pump(&raw);
    advance_ms(&raw, 501);
    expect_answer(&ranks[0], 1, KOLO_ERR_TIMEOUT);
    cr_assert_str_eq(ranks[0].text, "rank 1 (host1, pid 801) has not come");
    advance_ms(&raw, 500);
    expect_answer(&ranks[2], 1, KOLO_ERR_TIMEOUT);
    cr_assert_str_eq(ranks[2].text, "rank 1 (host1, pid 801) has not come");
    raw_shrink(&ranks[0], 2, 0, 500, 0x07);
    raw_shrink(&ranks[1], 1, 0, 1000, 0x07);
    raw_shrink(&ranks[2], 2, 0, 1000, 0x07);
    raw_server_pump(&raw);
    expect_survivors(&ranks[0], 2, 0x07);
    close_all(&raw, ranks, 3);
}

/** All have asked, but never all at the same time. The last two have waited until the same tick. */
Test(store_server, who_asked_for_survivors_too_early_is_named)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 3, 3);
    raw_shrink(&ranks[0], 1, 0, 500, 0x07);
    raw_shrink(&ranks[1], 1, 0, 1500, 0x07);
    raw_server_pump(&raw);
    advance_ms(&raw, 501);
    expect_answer(&ranks[0], 1, KOLO_ERR_TIMEOUT);
    raw_shrink(&ranks[2], 1, 0, 1000, 0x07);
    raw_server_pump(&raw);
    advance_ms(&raw, 1001);
    for (int i = 1; i < 3; i++) {
        expect_answer(&ranks[i], 1, KOLO_ERR_TIMEOUT);
        cr_assert_str_eq(ranks[i].text, "rank 0 (host0, pid 800) has given up");
    }
    close_all(&raw, ranks, 3);
}

Test(store_server, who_waits_for_survivors_may_give_up)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 3, 3);
    raw_shrink(&ranks[0], 1, 0, 500, 0x07);
    raw_shrink(&ranks[1], 1, 0, 60000, 0x07);
    raw_server_pump(&raw);
    advance_ms(&raw, 499);
    cr_assert(!raw_rank_next(&ranks[0]));
    advance_ms(&raw, 2);
    expect_answer(&ranks[0], 1, KOLO_ERR_TIMEOUT);
    cr_assert_str_eq(ranks[0].text, "rank 2 (host2, pid 802) has not come");
    raw_plain(&ranks[1], KOLO_STORE_CANCEL, true, 1);
    raw_shrink(&ranks[2], 1, 0, 60000, 0x07);
    raw_server_pump(&raw);
    raw_shrink(&ranks[1], 2, 0, 60000, 0x06); /* with other members than rank 2 sends */
    raw_server_pump(&raw);
    expect_answer(&ranks[1], 2, KOLO_ERR_INVALID);
    raw_shrink(&ranks[1], 3, 0, 60000, 0x07);
    raw_shrink(&ranks[0], 2, 0, 60000, 0x07);
    raw_server_pump(&raw);
    (void)expect_survivors(&ranks[0], 2, 0x07);
    (void)expect_survivors(&ranks[1], 3, 0x07);
    (void)expect_survivors(&ranks[2], 1, 0x07);
    raw_shrink(&ranks[0], 3, 4, 60000, 0x06); /* it is not a member */
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[0]) && ranks[0].is_closed);
    raw_shrink_without(&ranks[1], 4, 4, 60000, 0x06, 0x02); /* it cannot have lost itself */
    raw_server_pump(&raw);
    while (raw_rank_next(&ranks[1])) /* the report that rank 0 failed */
        continue;
    cr_assert(ranks[1].is_closed);
    close_all(&raw, ranks, 3);
    kolo_clock_replace(NULL);
}

Test(store_server, keys_and_values)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    raw_get(&ranks[0], 1, false, "a");
    raw_get(&ranks[0], 2, true, "a");
    raw_get(&ranks[0], 3, true, "never");
    raw_plain(&ranks[0], KOLO_STORE_CANCEL, true, 3);
    raw_server_pump(&raw);
    expect_answer(&ranks[0], 1, KOLO_ERR_NOT_FOUND);
    cr_assert(!raw_rank_next(&ranks[0]));
    raw_set(&ranks[1], 7, "a", "hello", 5);
    raw_set(&ranks[1], 8, "never", "", 0);
    raw_server_pump(&raw);
    expect_answer(&ranks[1], 7, KOLO_OK);
    expect_answer(&ranks[1], 8, KOLO_OK);
    expect_answer(&ranks[0], 2, KOLO_OK);
    cr_assert(ranks[0].bytes == 5 && memcmp(ranks[0].value, "hello", 5) == 0);
    cr_assert(!raw_rank_next(&ranks[0]), "a cancelled question was answered");
    raw_add(&ranks[0], 9, "n", 40);
    raw_add(&ranks[0], 10, "n", 2);
    raw_add(&ranks[0], 11, "a", 2);
    raw_server_pump(&raw);
    expect_answer(&ranks[0], 9, KOLO_OK);
    expect_answer(&ranks[0], 10, KOLO_OK);
    cr_assert(ranks[0].sum == 42);
    expect_answer(&ranks[0], 11, KOLO_ERR_INVALID);
    cr_assert(strstr(ranks[0].text, "\"a\" holds 5 bytes"), "%s", ranks[0].text);
    close_all(&raw, ranks, 2);
}

Test(store_server, full_store_says_so)
{
    enum { ROUNDS = 300 };
    static uint8_t value[KOLO_STORE_VALUE_MAX];
    struct raw_server raw;
    struct raw_rank rank;
    int refused = 0;
    open_all(&raw, &rank, 1, 1);
    for (int i = 0; i < ROUNDS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        raw_set(&rank, (uint32_t)i, key, value, sizeof value);
        while (rank.stream.out_count > 0) {
            raw_server_pump(&raw);
            cr_assert(kolo_stream_flush(&rank.stream) == KOLO_OK);
        }
        raw_server_pump(&raw);
        cr_assert(raw_rank_next(&rank) && rank.type == KOLO_STORE_ANSWER && rank.id == (uint32_t)i);
        if (rank.status != KOLO_OK) {
            cr_assert(rank.status == KOLO_ERR_NO_MEMORY && strstr(rank.text, "store is full"), "%s",
                      rank.text);
            refused++;
        }
    }
    cr_assert(refused == ROUNDS - 255, "%d refused", refused);
    close_all(&raw, &rank, 1);
}

Test(store_server, mismatched_stalls_name_both_sides)
{
    struct raw_server raw;
    struct raw_rank ranks[3];
    open_all(&raw, ranks, 3, 3);
    raw_stalled(&ranks[1], 7, 12, 1, "broadcast(count 10, float32, root 2)");
    raw_stalled(&ranks[2], 7, 11, 3, "barrier()"); /* it is behind, which is not a mismatch */
    raw_stalled(&ranks[2], 8, 12, 3, "barrier()"); /* another channel */
    raw_server_pump(&raw);
    cr_assert(raw.aborted == 0, "%s", raw.text);
    raw_stalled(&ranks[0], 7, 12, 2, "allreduce(count 10, float32, sum)");
    raw_server_pump(&raw);
    for (int i = 0; i < 3; i++)
        expect_failed(&ranks[i], KOLO_ERR_MISMATCH,
                      "rank 0 (host0) calls allreduce(count 10, float32, sum), sequence 12, but "
                      "rank 1 (host1) calls broadcast(count 10, float32, root 2), sequence 12");
    cr_assert(raw.aborted == 1 && raw.last_rank == -1);
    close_all(&raw, ranks, 3);
}

Test(store_server, mismatch_names_the_lower_rank_first)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    raw_stalled(&ranks[0], 7, 12, 1, "a()");
    raw_server_pump(&raw);
    raw_stalled(&ranks[1], 7, 12, 2, "b()");
    raw_server_pump(&raw);
    expect_failed(&ranks[1], KOLO_ERR_MISMATCH,
                  "rank 0 (host0) calls a(), sequence 12, but rank 1 (host1) calls b(), ");
    close_all(&raw, ranks, 2);
}

Test(store_server, resumed_stall_is_forgotten)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    raw_stalled(&ranks[0], 7, 12, 1, "a()");
    raw_resumed(&ranks[0], 7, 12);
    raw_server_pump(&raw);
    raw_stalled(&ranks[1], 7, 12, 2, "b()");
    raw_resumed(&ranks[1], 9, 9);
    raw_server_pump(&raw);
    cr_assert(raw.aborted == 0, "%s", raw.text);
    close_all(&raw, ranks, 2);
}

Test(store_server, a_timeout_says_who_is_absent)
{
    enum { NUMBER = 5, CHANNEL = NUMBER * KOLO_CHANNELS_PER_COMM + KOLO_CHANNEL_COLLECTIVE };
    struct raw_server raw;
    struct raw_rank ranks[4];
    open_all(&raw, ranks, 4, 4);
    raw_stalled(&ranks[0], CHANNEL, 12, 1, "a()");
    raw_stalled(&ranks[2], CHANNEL, 12, 1, "a()");
    raw_stalled(&ranks[3], 0, 7, 2, "b()");
    raw_server_pump(&raw);
    raw_abort(&ranks[1], 9, KOLO_ERR_TIMEOUT, "of a call that was not reported");
    raw_abort(&ranks[0], 8, KOLO_ERR_TIMEOUT, "of another communicator");
    raw_abort(&ranks[2], NUMBER, KOLO_ERR_TIMEOUT, "a() is too late");
    raw_server_pump(&raw);
    raw_abort(&ranks[0], NUMBER, KOLO_ERR_TIMEOUT, "the second counts no more");
    raw_server_pump(&raw);
    expect_failed(&ranks[3], KOLO_ERR_TIMEOUT, "of a call that was not reported");
    expect_failed(&ranks[3], KOLO_ERR_TIMEOUT, "of another communicator");
    expect_failed(
        &ranks[3], KOLO_ERR_TIMEOUT,
        "a() is too late; not there yet: rank 1 (host1), rank 3 (host3, in b() sequence 7)");
    cr_assert(!raw_rank_next(&ranks[3]));
    close_all(&raw, ranks, 4);
}

Test(store_server, long_stall_draws_warnings)
{
    struct raw_server raw;
    struct raw_rank ranks[4];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 4, 4);
    raw_stalled(&ranks[0], 7, 12, 1, "allreduce(count 10, float32, sum)");
    raw_stalled(&ranks[2], 7, 12, 1, "allreduce(count 10, float32, sum)");
    raw_server_pump(&raw);
    advance_ms(&raw, 29999);
    cr_assert(raw.notices == 0);
    advance_ms(&raw, 1);
    cr_assert(raw.notices == 1);
    cr_assert(strcmp(raw.notice, "allreduce(count 10, float32, sum) sequence 12: waiting for 30 s; "
                                 "not there yet: rank 1 (host1), rank 3 (host3)") == 0,
              "%s", raw.notice);
    advance_ms(&raw, 59999);
    cr_assert(raw.notices == 1);
    advance_ms(&raw, 1);
    cr_assert(raw.notices == 2 && strstr(raw.notice, "waiting for 90 s"), "%s", raw.notice);
    raw_resumed(&ranks[0], 7, 12);
    raw_resumed(&ranks[2], 7, 12);
    raw_server_pump(&raw);
    advance_ms(&raw, 1000000);
    cr_assert(raw.notices == 2);
    close_all(&raw, ranks, 4);
}

Test(store_server, shows_where_each_rank_is)
{
    struct raw_server raw;
    struct raw_rank ranks[5];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 5, 4);
    cr_assert(view_of(&raw, 4).place == KOLO_VIEW_ABSENT && view_of(&raw, 4).pid == 0);
    cr_assert(raw_rank_open(&raw, &ranks[4]) == KOLO_OK);
    raw_join(&ranks[4], 4, 5, WAIT_LONG_MS, "host4", 10);
    raw_server_pump(&raw);
    raw_stalled(&ranks[0], 7, 12, 1, "allreduce(count 10, float32, sum)");
    raw_server_pump(&raw);
    const int64_t since_ns = fake_ns;
    advance_ms(&raw, 500);
    raw_stalled(&ranks[2], 7, 12, 1, "allreduce(count 10, float32, sum)");
    raw_stalled(&ranks[2], 8, 3, 2, "barrier()");
    raw_plain(&ranks[3], KOLO_STORE_LEAVE, false, 0);
    raw_server_pump(&raw);
    raw_rank_close(&ranks[4]);
    raw_server_pump(&raw);
    const struct kolo_store_view first = view_of(&raw, 0), third = view_of(&raw, 2);
    cr_assert(first.place == KOLO_VIEW_HERE && first.pid != 0 && first.since_ns == since_ns);
    cr_assert_str_eq(first.words, "allreduce(count 10, float32, sum) sequence 12");
    cr_assert(first.call && third.call == first.call, "the call that is waited for longest");
    cr_assert(view_of(&raw, 1).place == KOLO_VIEW_HERE && !view_of(&raw, 1).call);
    cr_assert(view_of(&raw, 1).is_awaited && view_of(&raw, 0).is_awaited, "0 in barrier()");
    cr_assert(view_of(&raw, 3).place == KOLO_VIEW_LEFT);
    cr_assert(view_of(&raw, 4).place == KOLO_VIEW_GONE);
    raw_resumed(&ranks[2], 7, 12);
    raw_server_pump(&raw);
    const struct kolo_store_view after = view_of(&raw, 2);
    cr_assert_str_eq(after.words, "barrier() sequence 3");
    close_all(&raw, ranks, 4);
}

/** Only what a program asks shows that it has gone on after a failure. */
Test(store_server, shows_who_has_asked_nothing_since_a_failure)
{
    struct raw_server raw;
    struct raw_rank ranks[4];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 4, 4);
    cr_assert_not(view_of(&raw, 0).is_silent);
    kolo_store_server_died(raw.server, 3, "was killed");
    cr_assert(view_of(&raw, 0).is_silent && view_of(&raw, 1).is_silent);
    raw_set(&ranks[0], 1, "key", "value", 5);
    raw_stalled(&ranks[1], 7, 12, 1, "barrier()");
    raw_resumed(&ranks[1], 7, 12);
    raw_server_pump(&raw);
    cr_assert(!view_of(&raw, 0).is_silent && view_of(&raw, 1).is_silent);
    kolo_store_server_died(raw.server, 2, "was killed");
    cr_assert(view_of(&raw, 0).is_silent);
    close_all(&raw, ranks, 4);
}

/** Stalls of a message that is waited for, and of a call that one rank has not entered because it
 * is itself waiting. */
Test(store_server, stall_of_a_message_says_in_what_its_peer_is)
{
    enum { MESSAGES = KOLO_CHANNELS_PER_COMM + KOLO_CHANNEL_MESSAGE };
    struct raw_server raw;
    struct raw_rank ranks[4];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 4, 4);
    raw_stalled_for(&ranks[0], MESSAGES, 1, 1, "recv(from rank 1) sequence 5",
                    &(const uint8_t){1 << 1});
    raw_server_pump(&raw);
    advance_ms(&raw, 30000);
    cr_assert_str_eq(raw.notice, "recv(from rank 1) sequence 5 on rank 0 (host0): waiting for 30 "
                                 "s; not there yet: rank 1 (host1)");
    raw_stalled_for(&ranks[1], MESSAGES, 1, 2, "recv(from rank 0) sequence 9",
                    &(const uint8_t){1 << 0});
    raw_server_pump(&raw);
    advance_ms(&raw, 60000);
    cr_assert(raw.notices == 3, "%d", raw.notices);
    cr_assert_str_eq(raw.notice,
                     "recv(from rank 0) sequence 9 on rank 1 (host1): waiting for 60 s; not there "
                     "yet: rank 0 (host0, in recv(from rank 1) sequence 5)");
    raw_resumed(&ranks[0], MESSAGES, 1);
    raw_stalled_for(&ranks[2], 8, 12, 1, "barrier()", &(const uint8_t){1 << 1 | 1 << 2});
    raw_server_pump(&raw);
    advance_ms(&raw, 30000);
    cr_assert_str_eq(raw.notice, "barrier() sequence 12: waiting for 30 s; not there yet: rank 1 "
                                 "(host1, in recv(from rank 0) sequence 9)");
    close_all(&raw, ranks, 4);
}

/** Stalls of many ranks that wait for messages of one rank are reported in one line. */
Test(store_server, stalls_of_messages_of_one_rank_are_one_warning)
{
    enum { MESSAGES = KOLO_CHANNELS_PER_COMM + KOLO_CHANNEL_MESSAGE, RANKS = 5 };
    struct raw_server raw;
    struct raw_rank ranks[RANKS];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, RANKS, RANKS);
    for (int rank = 1; rank < RANKS; rank++) {
        raw_stalled_for(&ranks[rank], MESSAGES, 1, 1, "recv(from rank 0) sequence 5",
                        &(const uint8_t){1 << 0});
        raw_server_pump(&raw);
    }
    advance_ms(&raw, 30000);
    cr_assert(raw.notices == 1, "%d", raw.notices);
    cr_assert(strstr(raw.notice, " on rank 1 (host1): waiting for 30 s; not there yet: rank 0 "
                                 "(host0); 3 more ranks wait for a message of it"),
              "%s", raw.notice);
    raw_resumed(&ranks[1], MESSAGES, 1);
    raw_resumed(&ranks[2], MESSAGES, 1);
    raw_server_pump(&raw);
    advance_ms(&raw, 60000);
    cr_assert(raw.notices == 2 && strstr(raw.notice, " on rank 3 (host3): waiting for 90 s") &&
                  strstr(raw.notice, "; 1 more rank waits for a message of it"),
              "%s", raw.notice);
    close_all(&raw, ranks, RANKS);
}

/** The store cannot know which rank is missing if no rank waits for one that has not reported. */
Test(store_server, stall_of_those_that_wait_for_each_other_says_no_more)
{
    struct raw_server raw;
    struct raw_rank ranks[4];
    const uint8_t both = 1 << 0 | 1 << 2;
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 4, 4);
    raw_stalled_for(&ranks[0], 7, 12, 1, "a()", &both);
    raw_stalled_for(&ranks[2], 7, 12, 1, "a()", &both);
    raw_server_pump(&raw);
    advance_ms(&raw, 30000);
    cr_assert_str_eq(raw.notice, "a() sequence 12: waiting for 30 s; the 2 ranks in it wait only "
                                 "for each other: what they send is slow or does not arrive");
    raw_resumed(&ranks[2], 7, 12);
    raw_stalled_for(&ranks[0], 7, 12, 1, "a()", &(const uint8_t){1 << 0});
    raw_server_pump(&raw);
    advance_ms(&raw, 60000);
    cr_assert_str_eq(raw.notice,
                     "a() sequence 12: waiting for 90 s; rank 0 is in it and waits for no other");
    close_all(&raw, ranks, 4);
}

/** A rank that waits for its own device is named with that, and nothing else is blamed. */
Test(store_server, stall_of_a_rank_that_waits_for_its_device_names_it)
{
    const uint8_t none = 0, all = 0x3f;
    struct raw_server raw;
    struct raw_rank ranks[6];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 6, 6);
    raw_stalled_own(&ranks[0], 8, 12, 1, "a()", &none, KOLO_OWN_STREAM);
    for (int rank = 1; rank < 6; rank++)
        raw_stalled_for(&ranks[rank], 8, 12, 1, "a()", &all);
    raw_server_pump(&raw);
    cr_assert(view_of(&raw, 0).own == KOLO_OWN_STREAM && view_of(&raw, 1).own == KOLO_OWN_NONE);
    advance_ms(&raw, 30000);
    cr_assert_str_eq(raw.notice, "a() sequence 12: waiting for 30 s; rank 0 (host0) waits for the "
                                 "earlier work of its stream");
    for (int rank = 0; rank < 5; rank++)
        raw_stalled_own(&ranks[rank], 8, 12, 1, "a()", &none, KOLO_OWN_WORK);
    raw_resumed(&ranks[5], 8, 12);
    raw_stalled_own(&ranks[5], 8, 12, 1, "a()", &all, KOLO_OWN_RESULT);
    raw_server_pump(&raw);
    advance_ms(&raw, 60000);
    cr_assert_str_eq(
        raw.notice,
        "a() sequence 12: waiting for 90 s; rank 0 (host0), rank 1 (host1), rank 2 (host2), rank 3 "
        "(host3) and 1 more wait, each for the work of its device; rank 5 (host5) waits for the "
        "copies of its result to its device");
    raw_resumed(&ranks[3], 8, 12);
    raw_resumed(&ranks[4], 8, 12);
    raw_server_pump(&raw);
    raw_abort(&ranks[2], 2, KOLO_ERR_TIMEOUT, "a() sequence 12 on rank 2 is too late");
    raw_server_pump(&raw);
    cr_assert_str_eq(raw.text,
                     "a() sequence 12 on rank 2 is too late; rank 0 (host0), rank 1 (host1) wait, "
                     "each for the work of its device; rank 5 (host5) waits for the copies of its "
                     "result to its device; not there yet: rank 3 (host3), rank 4 (host4)");
    close_all(&raw, ranks, 6);
}

/** Its own words say so already, and those that have left the call are not called late. */
Test(store_server, timeout_of_a_rank_that_waits_for_its_device_says_no_more)
{
    const uint8_t none = 0;
    struct raw_server raw;
    struct raw_rank ranks[2];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 2, 2);
    raw_stalled_own(&ranks[0], 8, 12, 1, "a()", &none, KOLO_OWN_RESULT);
    raw_server_pump(&raw);
    advance_ms(&raw, 30000);
    cr_assert_str_eq(raw.notice, "a() sequence 12: waiting for 30 s; rank 0 (host0) waits for the "
                                 "copies of its result to its device");
    cr_assert_not(view_of(&raw, 1).is_awaited);
    raw_abort(&ranks[0], 2, KOLO_ERR_TIMEOUT, "a() sequence 12 is too late");
    raw_server_pump(&raw);
    cr_assert_str_eq(raw.text, "a() sequence 12 is too late");
    close_all(&raw, ranks, 2);
}

/** Before a call a rank waits by itself: one line speaks for all that do. */
Test(store_server, stalls_before_a_call_are_one_warning)
{
    enum { MESSAGES = KOLO_CHANNELS_PER_COMM + KOLO_CHANNEL_MESSAGE };
    const uint8_t none = 0;
    struct raw_server raw;
    struct raw_rank ranks[4];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 4, 4);
    raw_stalled_own(&ranks[1], MESSAGES, 1, 0, "a()", &none, KOLO_OWN_DEVICE);
    raw_server_pump(&raw);
    raw_stalled_own(&ranks[2], MESSAGES, 1, 0, "a()", &none, KOLO_OWN_DEVICE);
    raw_server_pump(&raw);
    advance_ms(&raw, 30000);
    cr_assert(raw.notices == 1, "%d", raw.notices);
    cr_assert_str_eq(raw.notice, "a() on rank 1 (host1): waiting for 30 s for the earlier work of "
                                 "its device; 1 more rank waits for work of its device");
    raw_resumed(&ranks[2], MESSAGES, 1);
    raw_stalled(&ranks[0], 4, 12, 1, "a()");
    raw_server_pump(&raw);
    advance_ms(&raw, 30000);
    cr_assert_str_eq(raw.notice,
                     "a() sequence 12: waiting for 30 s; not there yet: rank 1 (host1, in a(), "
                     "waiting for the earlier work of its device), rank 2 (host2), rank 3 (host3)");
    close_all(&raw, ranks, 4);
}

Test(store_server, an_unknown_wait_of_a_rank_ends_its_connection)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 2, 2);
    raw_stalled_own(&ranks[1], 8, 12, 1, "a()", NULL, KOLO_OWN_WAITS);
    raw_server_pump(&raw);
    cr_assert_not(kolo_store_server_is_here(raw.server, 1));
    close_all(&raw, ranks, 2);
}

/** A rank that waits in a later call of the same communicator has finished this one: so no rank is
 * late, and the connection is blamed. */
Test(store_server, stall_of_a_call_that_is_over_elsewhere_blames_the_way)
{
    struct raw_server raw;
    struct raw_rank ranks[4];
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 4, 4);
    raw_stalled(&ranks[2], 8, UINT32_MAX, 1, "a()");
    raw_server_pump(&raw);
    advance_ms(&raw, 29999);
    raw_stalled(&ranks[0], 8, 0, 2, "b()"); /* sequence numbers begin at 0 again */
    raw_stalled(&ranks[1], 4, 9, 3, "c()"); /* of another communicator */
    raw_server_pump(&raw);
    advance_ms(&raw, 1);
    cr_assert_str_eq(raw.notice,
                     "a() sequence 4294967295: waiting for 30 s; not there yet: rank 1 (host1, in "
                     "c() sequence 9), rank 3 (host3); over on rank 0 (host0, in b() sequence 0): "
                     "what is sent to rank 2 (host2) is slow, or lost on the way");
    raw_resumed(&ranks[0], 8, 0);
    raw_resumed(&ranks[1], 4, 9);
    raw_stalled(&ranks[3], 8, UINT32_MAX, 1, "a()");
    raw_server_pump(&raw);
    advance_ms(&raw, 59999);
    raw_stalled(&ranks[0], 8, 2, 2, "b()");
    raw_stalled(&ranks[1], 8, 2, 2, "b()");
    raw_server_pump(&raw);
    advance_ms(&raw, 1);
    cr_assert_str_eq(raw.notice,
                     "a() sequence 4294967295: waiting for 90 s; over on rank 0 (host0, in b() "
                     "sequence 2), rank 1 (host1, in b() sequence 2): what is sent to rank 2 "
                     "(host2) and 1 more is slow, or lost on the way");
    close_all(&raw, ranks, 4);
}

Test(store_server, what_is_no_message_ends_that_connection_only)
{
    const struct {
        const char *name;
        size_t count; /* what the head says of the bytes behind it */
        uint8_t bytes[16];
    } bad[] = {{"length 0", 0, {0}},
               {"too long", 0x7fffffff, {2}},
               {"unknown type", 1, {99}},
               {"type of the server", 1, {KOLO_STORE_WORLD}},
               {"second JOIN", 1, {KOLO_STORE_JOIN}},
               {"SET without body", 1, {KOLO_STORE_SET}},
               {"LEAVE with body", 2, {KOLO_STORE_LEAVE, 0}},
               {"GET of no key", 8, {KOLO_STORE_GET, 1, 0, 0, 0, 1, 0, 0}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct raw_server raw;
        struct raw_rank ranks[2];
        uint8_t bytes[KOLO_STORE_HEAD_BYTES + sizeof bad[i].bytes];
        const bool is_whole = bad[i].count <= sizeof bad[i].bytes;
        const size_t behind = is_whole ? bad[i].count : 1;
        kolo_clock_replace(fake_now);
        open_all(&raw, ranks, 2, 2);
        memcpy(bytes + KOLO_STORE_HEAD_BYTES, bad[i].bytes, sizeof bad[i].bytes);
        kolo_message_head(bytes, behind);
        const uint32_t said[] = {(uint32_t)bad[i].count, ~(uint32_t)bad[i].count};
        memcpy(bytes, said, sizeof said);
        cr_assert(raw_rank_send(&ranks[1], bytes, KOLO_STORE_HEAD_BYTES + behind));
        raw_server_pump(&raw);
        cr_assert(!raw_rank_next(&ranks[1]) && ranks[1].is_closed, "%s", bad[i].name);
        cr_assert(raw.lost == 1 && raw.last_rank == 1, "%s", bad[i].name);
        raw_set(&ranks[0], 1, "k", "v", 1);
        raw_server_pump(&raw);
        expect_answer(&ranks[0], 1, KOLO_OK);
        advance_ms(&raw, 500);
        expect_failed(&ranks[0], KOLO_ERR_PEER, "rank 1 (host1, pid 801) lost its connection");
        close_all(&raw, ranks, 2);
    }
}

/** A value that changed on its way would be believed by all: the job fails, and all hear why. */
Test(store_server, a_message_that_changed_on_the_way_fails_the_job)
{
    static const char text[] =
        "from rank 1 (host1, pid 801) to the store: a message changed on the way here, its "
        "checksum "
        "does not fit (a network card, a switch or memory corrupts data: look at dmesg, ethtool -S "
        "and memory errors on both hosts)";
    struct raw_server raw;
    struct raw_rank ranks[2];
    uint8_t bytes[KOLO_STORE_HEAD_BYTES + 5] = {0};
    bytes[KOLO_STORE_HEAD_BYTES] = KOLO_STORE_CANCEL;
    kolo_clock_replace(fake_now);
    open_all(&raw, ranks, 2, 2);
    kolo_message_head(bytes, 5);
    bytes[KOLO_STORE_HEAD_BYTES + 3] ^= 4;
    cr_assert(raw_rank_send(&ranks[1], bytes, sizeof bytes));
    raw_server_pump(&raw);
    for (int rank = 0; rank < 2; rank++)
        expect_failed(&ranks[rank], KOLO_ERR_DATA, text);
    cr_assert(!raw_rank_next(&ranks[1]) && ranks[1].is_closed);
    cr_assert(raw.lost == 0 && raw.aborted == 1);
    close_all(&raw, ranks, 2);
}

Test(store_server, stranger_to_the_protocol_before_join)
{
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 1);
    cr_assert(raw_rank_open(&raw, &ranks[1]) == KOLO_OK);
    cr_assert(raw_rank_send(&ranks[1], "GET / HTTP/1.1\r\n\r\n", 18));
    raw_server_pump(&raw);
    cr_assert(!raw_rank_next(&ranks[1]) && ranks[1].is_closed);
    cr_assert(raw.lost == 0 && raw.aborted == 0);
    close_all(&raw, ranks, 2);
}

/** Sets @p value for the key "big", and reads the answer. */
static void set_big(struct raw_server *raw, struct raw_rank *rank, const void *value, size_t bytes)
{
    raw_set(rank, 0, "big", value, bytes);
    while (rank->stream.out_count > 0) {
        raw_server_pump(raw);
        cr_assert(kolo_stream_flush(&rank->stream) == KOLO_OK);
    }
    raw_server_pump(raw);
    expect_answer(rank, 0, KOLO_OK);
}

Test(store_server, rank_that_does_not_read_is_not_served_without_bound)
{
    enum { QUESTIONS = 200 };
    static uint8_t value[KOLO_STORE_VALUE_MAX];
    struct raw_server raw;
    struct raw_rank rank;
    open_all(&raw, &rank, 1, 1);
    set_big(&raw, &rank, value, sizeof value);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (uint32_t i = 1; i <= QUESTIONS; i++)
        raw_get(&rank, i, false, "big");
    raw_server_pump(&raw);
    getrusage(RUSAGE_SELF, &after);
    cr_assert(after.ru_maxrss - before.ru_maxrss < 64 << 10, "grew by %ld KiB",
              after.ru_maxrss - before.ru_maxrss);
    for (uint32_t i = 1; i <= QUESTIONS; i++) {
        while (!raw_rank_next(&rank)) {
            cr_assert(!rank.is_closed);
            raw_server_pump(&raw);
            cr_assert(kolo_stream_flush(&rank.stream) == KOLO_OK);
        }
        cr_assert(rank.type == KOLO_STORE_ANSWER && rank.id == i && rank.bytes == sizeof value);
    }
    close_all(&raw, &rank, 1);
}

/** kolo_kv_set refuses it before: whoever sends it all the same is not to be believed. */
Test(store_server, a_value_that_is_too_long_ends_that_connection)
{
    static uint8_t value[KOLO_STORE_VALUE_MAX + 1];
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    set_big(&raw, &ranks[0], value, sizeof value - 1);
    raw_set(&ranks[1], 1, "longer", value, sizeof value);
    while (!ranks[1].is_closed) {
        raw_server_pump(&raw);
        if (ranks[1].stream.out_count > 0)
            (void)!kolo_stream_flush(&ranks[1].stream);
        cr_assert_not(raw_rank_next(&ranks[1]));
    }
    cr_assert(raw.lost == 1 && raw.last_rank == 1);
    raw_get(&ranks[0], 2, false, "longer");
    raw_server_pump(&raw);
    expect_answer(&ranks[0], 2, KOLO_ERR_NOT_FOUND);
    close_all(&raw, ranks, 2);
}

/* The answers that a rank has not read leave in one go, with news that the server has for it. Then
 * no event of its connection would lead to the questions behind them. */
Test(store_server, questions_behind_unread_answers_are_answered)
{
    enum { QUESTIONS = 20 };
    static uint8_t value[KOLO_STORE_VALUE_MAX];
    const int room = QUESTIONS * KOLO_STORE_VALUE_MAX;
    struct raw_server raw;
    struct raw_rank ranks[2];
    open_all(&raw, ranks, 2, 2);
    set_big(&raw, &ranks[0], value, sizeof value);
    for (uint32_t i = 1; i <= QUESTIONS; i++)
        raw_get(&ranks[0], i, false, "big");
    raw_server_pump(&raw);
    const int fd = raw.server->members[0].connection->stream.fd;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) != 0)
        cr_skip_test("a socket with room for %d bytes needs CAP_NET_ADMIN", room);
    kolo_store_server_died(raw.server, 1, "exited with status 3");
    for (int answers = 0; answers < QUESTIONS;) {
        const int before = answers;
        raw_server_pump(&raw);
        while (raw_rank_next(&ranks[0]))
            answers += ranks[0].type == KOLO_STORE_ANSWER;
        cr_assert(answers > before, "%d of %d answers", answers, QUESTIONS);
    }
    close_all(&raw, ranks, 2);
}

/* ---- noise: seeded random bytes and mutated messages ---- */

static uint64_t noise_state;

static uint32_t noise(void)
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(noise_state >> 33);
}

/** A plausible message with some wrong bytes, mostly by one who can compute its checksum. */
static size_t make_noise(uint8_t out[512])
{
    uint32_t body = noise() % 200;
    struct kolo_writer writer = kolo_writer_over(out + KOLO_STORE_HEAD_BYTES, 256);
    kolo_write_u8(&writer, (uint8_t)(noise() % 12));
    for (uint32_t i = 0; i < body; i++)
        kolo_write_u8(&writer, noise() % 3 ? (uint8_t)(noise() % 4) : (uint8_t)noise());
    kolo_message_head(out, body + 1);
    if (noise() % 8 == 0)
        out[noise() % KOLO_STORE_HEAD_BYTES] = (uint8_t)noise();
    return KOLO_STORE_HEAD_BYTES + 1 + body;
}

static void make_valid(struct raw_rank *rank)
{
    uint32_t id = noise();
    switch (noise() % 9) {
    case 0:
        raw_set(rank, id, "key", "value", noise() % 6);
        break;
    case 1:
        raw_get(rank, id, noise() & 1, noise() & 1 ? "key" : "other");
        break;
    case 2:
        raw_add(rank, id, "number", noise());
        break;
    case 3:
        raw_plain(rank, KOLO_STORE_CANCEL, true, id);
        break;
    case 4:
        raw_stalled(rank, noise() % 2, noise() % 400, (uint8_t)(noise() % 40 == 0), "words");
        break;
    case 5:
        raw_resumed(rank, noise() % 2, noise() % 400);
        break;
    case 6:
        raw_join(rank, (int)noise() % 6, noise() % 4 ? 4 : noise(), noise(), "h", noise() % 9000);
        break;
    case 7:
        if (noise() % 50 == 0)
            raw_abort(rank, noise() % 4, (int32_t)noise() * -1, "text");
        break;
    default:
        if (noise() % 50 == 0)
            raw_plain(rank, KOLO_STORE_LEAVE, false, 0);
    }
}

static void noisy_job(uint64_t seed)
{
    enum { SIZE = 4, ROUNDS = 60 };
    struct raw_server raw;
    struct raw_rank ranks[SIZE + 1];
    noise_state = seed * 2654435761u + 1;
    open_all(&raw, ranks, SIZE, SIZE - (int)(seed & 1));
    int count = SIZE - (int)(seed & 1);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t bytes[512];
        struct raw_rank *rank = &ranks[noise() % (uint32_t)count];
        if (noise() % 20 == 0) {
            (void)raw_rank_send(rank, bytes, make_noise(bytes));
        } else {
            make_valid(rank);
        }
        if (noise() % 4 == 0)
            raw_server_pump(&raw);
        if (rank->is_closed || noise() % 100 == 0) {
            raw_rank_close(rank);
            cr_assert(raw_rank_open(&raw, rank) == KOLO_OK);
            if (noise() % 2)
                raw_join(rank, (int)(rank - ranks), SIZE, WAIT_LONG_MS, "again", 3);
        }
        while (raw_rank_next(rank))
            ;
        if (noise() % 30 == 0)
            advance_ms(&raw, noise() % 40000);
    }
    raw_server_pump(&raw);
    close_all(&raw, ranks, count);
}

Test(store_server, noise_never_harms)
{
    kolo_clock_replace(fake_now);
    kolo_log_set_level(KOLO_LOG_NONE);
    for (uint64_t seed = 1; seed <= 1500; seed++)
        noisy_job(seed);
}

Test(store_server, every_allocation_may_fail)
{
    enum { SIZE = 3 };
    kolo_clock_replace(fake_now);
    kolo_log_set_level(KOLO_LOG_NONE);
    for (uint64_t nth = 1; nth < 200; nth++) {
        struct raw_server raw;
        struct raw_rank ranks[SIZE];
        kolo_alloc_fail_nth(nth);
        uint64_t before = kolo_alloc_count();
        if (raw_server_open(&raw, SIZE) != KOLO_OK)
            continue;
        for (int i = 0; i < SIZE; i++)
            if (raw_rank_open(&raw, &ranks[i]) == KOLO_OK)
                raw_join(&ranks[i], i, SIZE, WAIT_LONG_MS, "host", 3);
        raw_server_pump(&raw);
        raw_get(&ranks[0], 1, true, "key");
        raw_stalled(&ranks[1], 1, 2, 3, "words");
        raw_set(&ranks[2], 1, "key", "value", 5);
        raw_add(&ranks[2], 2, "number", 5);
        raw_server_pump(&raw);
        raw_abort(&ranks[1], KOLO_STORE_JOB, KOLO_ERR_ABORTED, "text");
        raw_plain(&ranks[2], KOLO_STORE_LEAVE, false, 0);
        raw_server_pump(&raw);
        advance_ms(&raw, 100000);
        for (int i = 0; i < SIZE; i++)
            while (raw_rank_next(&ranks[i]))
                ;
        uint64_t tried = kolo_alloc_count() - before;
        kolo_alloc_fail_nth(0);
        close_all(&raw, ranks, SIZE);
        if (tried < nth)
            return;
    }
    cr_assert(false, "still failing after 200 allocations");
}

Test(store_server, thousand_ranks)
{
    enum { SIZE = 1000, PEER_BYTES = 400 };
    static struct raw_rank ranks[SIZE];
    struct raw_server raw;
    struct rlimit files = {4096, 4096};
    struct rusage usage;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * SIZE + 64)
        cr_skip_test("only %llu file descriptors allowed", (unsigned long long)files.rlim_cur);
    cr_assert(raw_server_open(&raw, SIZE) == KOLO_OK);
    int64_t begin = kolo_now_ns();
    for (int i = 0; i < SIZE; i++) {
        cr_assert(raw_rank_open(&raw, &ranks[i]) == KOLO_OK, "%s", kolo_error_detail());
        raw_join(&ranks[i], i, SIZE, WAIT_LONG_MS, "host", PEER_BYTES);
    }
    raw_server_pump(&raw);
    cr_assert(raw.joined == 1);
    getrusage(RUSAGE_SELF, &usage);
    for (int i = 0; i < SIZE; i++) {
        while (!raw_rank_next(&ranks[i])) {
            cr_assert(!ranks[i].is_closed);
            raw_server_pump(&raw);
        }
        cr_assert(ranks[i].type == KOLO_STORE_WORLD);
        raw_rank_close(&ranks[i]);
    }
    double seconds = (double)(kolo_now_ns() - begin) / 1e9;
    cr_assert(seconds < 150 && usage.ru_maxrss < 1 << 20, "%.2f s, %ld KiB", seconds,
              usage.ru_maxrss);
    raw_server_close(&raw);
}
