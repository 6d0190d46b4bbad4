// SPDX-License-Identifier: Apache-2.0
// runtime/store_client.c: ranks that join over a store, their keys and failures, and servers that
// do not behave.
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/store_wire.h"
#include "tests/support/store_rank.h"

TestSuite(store_client, .timeout = 60);

enum { SOON_MS = 60000, RANKS_MAX = 256 };

/** A store on a thread, and the ranks that use it. */
struct world {
    struct kolo_store_thread *thread;
    struct kolo_secret secret;
    struct kolo_place place; /* bytes of 0: socket pairs */
    struct store_rank ranks[RANKS_MAX];
    int size, says; /* the sizes of the world according to the server and to the ranks */
    int timeout_ms;
};
static struct world world;

static struct kolo_place loopback(uint16_t port)
{
    char text[32];
    struct kolo_place place;
    size_t count;
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    cr_assert(kolo_places_resolve(text, 0, &place, 1, &count) == KOLO_OK, "%s",
              kolo_error_detail());
    return place;
}

static void open_world(int size, bool by_tcp)
{
    uint16_t port = 0;
    world.size = world.says = size;
    world.timeout_ms = SOON_MS;
    cr_assert(kolo_secret_make(&world.secret) == KOLO_OK);
    const struct kolo_store_server_config config = {.size = size,
                                                    .owner = "rank 0",
                                                    .secret = world.secret,
                                                    .start_timeout_ms = SOON_MS,
                                                    .stall_warn_ms = SOON_MS,
                                                    .lost_grace_ms = 50};
    struct kolo_place place = loopback(1);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    memcpy(&place.addr, &any, sizeof any);
    cr_assert(kolo_store_thread_start(&config, &place, by_tcp, &port, &world.thread) == KOLO_OK,
              "%s", kolo_error_detail());
    if (by_tcp)
        world.place = loopback(port);
}

static void join(struct store_rank *rank)
{
    int fd = -1;
    if (!world.place.bytes && kolo_store_thread_pair(world.thread, &fd) != KOLO_OK)
        rank->joined = KOLO_ERR_SYSTEM;
    else
        store_rank_join(rank, rank->rank, world.says, fd, &world.place, 1, &world.secret,
                        world.timeout_ms);
}

static void run(int count, void (*body)(struct store_rank *rank))
{
    store_ranks_run(world.ranks, count, body, NULL);
    kolo_store_thread_stop(world.thread, kolo_deadline_in_ms(SOON_MS));
}

/** Records the first @p condition that fails, in rank->context; it stays NULL if none does. */
#define EXPECT(rank, condition)                                                                    \
    do {                                                                                           \
        if (!(condition) && !(rank)->context)                                                      \
            (rank)->context = (void *)(uintptr_t) #condition;                                      \
    } while (0)

static void assert_all(int count)
{
    for (int i = 0; i < count; i++) {
        const struct store_rank *rank = &world.ranks[i];
        cr_assert(rank->joined == KOLO_OK, "rank %d: %s: %s", i, kolo_status_name(rank->joined),
                  rank->why);
        cr_assert(!rank->context, "rank %d: not so: %s (%s)", i, (const char *)rank->context,
                  rank->text);
    }
}

static void meet_and_leave(struct store_rank *rank)
{
    join(rank);
    if (rank->joined != KOLO_OK)
        return;
    for (int i = 0; i < rank->size; i++)
        EXPECT(rank, rank->peers[i].identity.rank == i && rank->peers[i].identity.pid == getpid());
    if (rank->size > 1 && rank->rank == rank->size - 1)
        EXPECT(rank, store_rank_hear(rank, rank->size - 1, SOON_MS) && rank->lost == 0);
    store_rank_close(rank);
}

Test(store_client, alone)
{
    open_world(1, false);
    run(1, meet_and_leave);
    assert_all(1);
}

Test(store_client, meet_over_pairs_and_hear_goodbyes)
{
    open_world(8, false);
    run(8, meet_and_leave);
    assert_all(8);
}

Test(store_client, meet_256_over_tcp)
{
    struct rusage usage;
    open_world(256, true);
    run(256, meet_and_leave);
    assert_all(256);
    getrusage(RUSAGE_SELF, &usage);
    cr_assert(usage.ru_maxrss < 1 << 20, "%ld KiB", usage.ru_maxrss);
}

Test(store_client, wrong_secret)
{
    struct store_rank rank = {0};
    struct kolo_secret other;
    open_world(1, true);
    cr_assert(kolo_secret_make(&other) == KOLO_OK);
    kolo_status status = store_rank_join(&rank, 0, 1, -1, &world.place, 1, &other, 1500);
    cr_assert(status == KOLO_ERR_AUTH || status == KOLO_ERR_TIMEOUT, "%s: %s",
              kolo_status_name(status), rank.why);
    kolo_poller_destroy(rank.poller);
    kolo_store_thread_stop(world.thread, kolo_deadline_in_ms(SOON_MS));
}

Test(store_client, nobody_listens)
{
    struct store_rank rank = {0};
    struct kolo_place place = loopback(1);
    kolo_status status = store_rank_join(&rank, 0, 2, -1, &place, 1, &world.secret, 200);
    cr_assert(status == KOLO_ERR_CONNECT || status == KOLO_ERR_TIMEOUT, "%s",
              kolo_status_name(status));
    cr_assert(strstr(rank.why, "127.0.0.1:1"), "%s", rank.why);
    kolo_poller_destroy(rank.poller);
}

static void meet_in_vain(struct store_rank *rank)
{
    join(rank);
    kolo_poller_destroy(rank->poller);
}

Test(store_client, missing_ranks_are_named)
{
    open_world(5, false);
    world.timeout_ms = 900;
    run(2, meet_in_vain);
    for (int i = 0; i < 2; i++) {
        cr_assert(world.ranks[i].joined == KOLO_ERR_TIMEOUT, "%s", world.ranks[i].why);
        cr_assert(strstr(world.ranks[i].why, "ranks 2-4 of 5 did not start within 0."), "%s",
                  world.ranks[i].why);
    }
}

Test(store_client, another_size_is_named)
{
    open_world(2, false);
    world.says = 3;
    run(2, meet_in_vain);
    for (int i = 0; i < 2; i++) {
        cr_assert(world.ranks[i].joined == KOLO_ERR_INVALID, "%s", world.ranks[i].why);
        cr_assert(strstr(world.ranks[i].why, "says the job has 3 ranks, rank 0 says 2"), "%s",
                  world.ranks[i].why);
    }
}

static void set_and_get(struct store_rank *rank)
{
    char key[32], text[32];
    struct kolo_store_call call;
    join(rank);
    if (rank->joined != KOLO_OK)
        return;
    snprintf(key, sizeof key, "key %d", (rank->rank + 1) % rank->size);
    kolo_store_client_get(rank->client, key, true, &call);
    struct kolo_store_call set, add;
    snprintf(key, sizeof key, "key %d", rank->rank);
    snprintf(text, sizeof text, "the value %d", rank->rank);
    kolo_store_client_set(rank->client, key, text, strlen(text) + 1, &set);
    kolo_store_client_add(rank->client, "sum", 1, &add);
    EXPECT(rank, store_rank_wait(rank, &call, SOON_MS) == KOLO_OK);
    EXPECT(rank, store_rank_wait(rank, &set, SOON_MS) == KOLO_OK);
    EXPECT(rank, store_rank_wait(rank, &add, SOON_MS) == KOLO_OK);
    snprintf(text, sizeof text, "the value %d", (rank->rank + 1) % rank->size);
    EXPECT(rank, call.bytes == strlen(text) + 1 && call.value && strcmp(call.value, text) == 0);
    EXPECT(rank, add.sum >= 1 && add.sum <= rank->size);
    kolo_free_memory(call.value);
    kolo_store_client_get(rank->client, "nothing", false, &call);
    EXPECT(rank, store_rank_wait(rank, &call, SOON_MS) == KOLO_ERR_NOT_FOUND);
    kolo_store_client_add(rank->client, key, 1, &call);
    EXPECT(rank, store_rank_wait(rank, &call, SOON_MS) == KOLO_ERR_INVALID);
    EXPECT(rank, strstr(call.why, "an integer to add to has 8"));
    kolo_store_client_set(rank->client, "", "", 0, &call);
    EXPECT(rank, call.status == KOLO_ERR_INVALID);
    kolo_store_client_get(rank->client, "never", true, &call);
    kolo_store_client_cancel(rank->client, &call);
    EXPECT(rank, call.status == KOLO_ERR_ABORTED);
    kolo_store_client_get(rank->client, "never", true, &call);
    store_rank_close(rank);
    EXPECT(rank, call.status == KOLO_ERR_ABORTED);
}

Test(store_client, keys_and_values)
{
    open_world(6, false);
    run(6, set_and_get);
    assert_all(6);
}

static void abort_or_hear(struct store_rank *rank)
{
    struct kolo_store_call call;
    join(rank);
    if (rank->joined != KOLO_OK)
        return;
    kolo_store_client_get(rank->client, "never", true, &call);
    if (rank->rank == 1)
        kolo_store_client_abort(rank->client, KOLO_STORE_JOB, KOLO_ERR_ABORTED, "rank 1 gave up");
    EXPECT(rank, store_rank_hear(rank, 0, SOON_MS) && rank->failed == KOLO_ERR_ABORTED);
    EXPECT(rank, rank->failed_rank == 1 && strcmp(rank->text, "rank 1 gave up") == 0);
    EXPECT(rank, call.status == KOLO_ERR_ABORTED && strcmp(call.why, "rank 1 gave up") == 0);
    kolo_store_client_get(rank->client, "key", false, &call);
    EXPECT(rank, call.status == KOLO_ERR_ABORTED);
    store_rank_close(rank);
}

Test(store_client, abort_reaches_all)
{
    open_world(4, false);
    run(4, abort_or_hear);
    assert_all(4);
}

static void differ(struct store_rank *rank)
{
    struct kolo_desc desc = {{(uint8_t)(rank->rank == 2)}};
    join(rank);
    if (rank->joined != KOLO_OK)
        return;
    kolo_store_client_stalled(
        rank->client,
        &(struct kolo_stall_report){
            .channel = 4, .sequence = 5, .desc = &desc, .words = rank->rank == 2 ? "b()" : "a()"});
    EXPECT(rank, store_rank_hear(rank, 0, SOON_MS) && rank->failed == KOLO_ERR_MISMATCH);
    EXPECT(rank, strstr(rank->text, ") calls a(), sequence 5, but rank "));
    store_rank_close(rank);
}

Test(store_client, mismatch_reaches_all)
{
    open_world(3, true);
    run(3, differ);
    assert_all(3);
}

static void abort_with_ok(struct store_rank *rank)
{
    join(rank);
    if (rank->joined != KOLO_OK)
        return;
    if (rank->rank == 0)
        kolo_store_client_abort(rank->client, 3, KOLO_OK, "no reason");
    EXPECT(rank, store_rank_hear(rank, 0, SOON_MS) && rank->failed == KOLO_ERR_PROTOCOL);
    EXPECT(rank, rank->failed_scope == 3);
    store_rank_close(rank);
}

Test(store_client, abort_with_no_failure_is_still_one)
{
    open_world(2, false);
    run(2, abort_with_ok);
    assert_all(2);
}

/* ---- against a server that misbehaves ---- */

static void join_liar(struct store_rank *rank, const uint8_t *bytes, size_t count)
{
    int pair[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    cr_assert(write(pair[0], bytes, count) == (ssize_t)count);
    cr_assert(shutdown(pair[0], SHUT_WR) == 0);
    store_rank_join(rank, 0, 1, pair[1], NULL, 0, &world.secret, SOON_MS);
    close(pair[0]);
}

Test(store_client, lies_of_a_server_are_errors)
{
    const struct {
        const char *name;
        uint8_t bytes[40];
        size_t count;
    } lies[] = {{"nothing", {0}, 0},
                {"too long", {0xff, 0xff, 0xff, 0xff, 32}, 5},
                {"empty", {0, 0, 0, 0, 32}, 5},
                {"unknown", {1, 0, 0, 0, 77}, 5},
                {"a world of 2", {5, 0, 0, 0, KOLO_STORE_WORLD, 2, 0, 0, 0}, 9},
                {"a world cut short", {5, 0, 0, 0, KOLO_STORE_WORLD, 1, 0, 0, 0}, 9},
                {"a blob beyond the end",
                 {9, 0, 0, 0, KOLO_STORE_WORLD, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
                 13},
                {"rank 9 left", {5, 0, 0, 0, KOLO_STORE_LEFT, 9, 0, 0, 0}, 9},
                {"nobody left", {1, 0, 0, 0, KOLO_STORE_LEFT}, 5},
                {"half a rank left", {7, 0, 0, 0, KOLO_STORE_LEFT, 0, 0, 0, 0, 0, 0}, 11},
                {"half an answer", {5, 0, 0, 0, KOLO_STORE_ANSWER, 9, 0, 0, 0}, 9}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct store_rank rank = {0};
        join_liar(&rank, lies[i].bytes, lies[i].count);
        cr_assert(rank.joined == KOLO_ERR_CONNECT, "%s: %s", lies[i].name,
                  kolo_status_name(rank.joined));
        kolo_poller_destroy(rank.poller);
    }
}

Test(store_client, noise_of_a_server_never_harms)
{
    uint64_t state = 7;
    for (int round = 0; round < 2000; round++) {
        uint8_t bytes[96];
        struct store_rank rank = {0};
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = state >> 62 ? (uint8_t)(state >> 40) % 3 : (uint8_t)(state >> 32);
        }
        memcpy(bytes, (uint8_t[]){91, 0, 0, 0}, 4);
        bytes[4] = (uint8_t)(KOLO_STORE_WORLD + round % 5);
        join_liar(&rank, bytes, sizeof bytes - 1);
        cr_assert(rank.joined != KOLO_OK);
        kolo_poller_destroy(rank.poller);
    }
}

/** @p changes: a bit of what comes after the table has changed on the way. */
static void hear_what_came_with_the_table(bool says_something_first, bool changes)
{
    uint8_t bytes[512] = {0}, blob[256];
    struct store_rank rank = {0};
    struct kolo_peer self = {.credit_bytes = 1 << 20};
    size_t blob_bytes = 0, count = 0;
    int pair[2];
    kolo_identity_here(0, &self.identity);
    struct kolo_writer peer = kolo_writer_over(blob, sizeof blob);
    kolo_peer_write(&peer, &self);
    cr_assert(kolo_writer_finish(&peer, blob, &blob_bytes) == KOLO_OK);
    struct kolo_writer world_body, failed_body;
    struct kolo_message *messages[] = {
        kolo_message_create(KOLO_STORE_WORLD, sizeof blob + 8, &world_body),
        kolo_message_create(KOLO_STORE_FAILED, 64, &failed_body)};
    kolo_write_u32(&world_body, 1);
    kolo_write_blob(&world_body, blob, blob_bytes);
    kolo_write_i32(&failed_body, 0);
    kolo_write_u32(&failed_body, KOLO_STORE_RANK);
    kolo_write_i32(&failed_body, KOLO_ERR_PEER);
    kolo_write_text(&failed_body, "gone");
    cr_assert(kolo_message_seal(messages[0], &world_body) == KOLO_OK);
    cr_assert(kolo_message_seal(messages[1], &failed_body) == KOLO_OK);
    for (int i = 0; i < 2; i++) {
        memcpy(bytes + count, messages[i]->data, messages[i]->bytes);
        count += messages[i]->bytes;
        kolo_message_drop(messages[i]);
    }
    bytes[count - 1] ^= changes ? 1 : 0;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    cr_assert(write(pair[0], bytes, count) == (ssize_t)count);
    store_rank_join(&rank, 0, 1, pair[1], NULL, 0, &world.secret, SOON_MS);
    cr_assert(rank.joined == KOLO_OK && rank.failed == KOLO_OK, "%s", rank.why);
    if (says_something_first)
        kolo_store_client_resumed(rank.client, 1, 1);
    cr_assert(store_rank_hear(&rank, 0, SOON_MS), "FAILED stayed in the buffer");
    if (changes)
        cr_assert(rank.failed == KOLO_ERR_DATA &&
                      strstr(rank.text, "rank 0: store: a message changed on the way here"),
                  "%s", rank.text);
    else
        cr_assert(rank.failed == KOLO_ERR_PEER && strcmp(rank.text, "gone") == 0);
    close(pair[0]);
    store_rank_close(&rank);
}

Test(store_client, what_comes_with_the_table_is_heard)
{
    hear_what_came_with_the_table(false, false);
}

Test(store_client, what_changed_on_the_way_is_not_believed)
{
    hear_what_came_with_the_table(false, true);
}

/** Posting reads the socket again, which has nothing more to read. */
Test(store_client, what_comes_with_the_table_is_heard_after_a_post)
{
    hear_what_came_with_the_table(true, false);
}

struct dialled {
    bool is_done;
    kolo_status status;
    int fd;
};

static void on_dialed(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    (void)theirs;
    *(struct dialled *)context = (struct dialled){true, status, fd};
}

Test(store_client, process_of_another_job_is_turned_away)
{
    const struct kolo_greeting mine = {KOLO_PROTOCOL_VERSION, KOLO_PURPOSE_STORE, 0, -1, 99};
    struct kolo_poller *poller;
    struct kolo_conn *conn;
    struct dialled dialled = {.fd = -1};
    char byte;
    open_world(1, true);
    cr_assert(kolo_poller_create(&poller) == KOLO_OK);
    cr_assert(kolo_conn_dial(poller,
                             &(struct kolo_dial_config){.places = &world.place,
                                                        .count = 1,
                                                        .secret = &world.secret,
                                                        .mine = &mine,
                                                        .deadline = kolo_deadline_in_ms(SOON_MS),
                                                        .done = on_dialed,
                                                        .context = &dialled},
                             &conn) == KOLO_OK);
    while (!dialled.is_done) {
        cr_assert(kolo_poller_dispatch(poller, NULL) == KOLO_OK);
        kolo_deadline next = kolo_conn_expire(poller);
        if (!dialled.is_done)
            kolo_poller_sleep(poller, next);
    }
    cr_assert(dialled.status == KOLO_OK, "%s", kolo_error_detail());
    struct pollfd end = {.fd = dialled.fd, .events = POLLIN};
    cr_assert(poll(&end, 1, SOON_MS) == 1 && recv(dialled.fd, &byte, 1, 0) <= 0, "it was served");
    close(dialled.fd);
    kolo_poller_destroy(poller);
    kolo_store_thread_stop(world.thread, kolo_now_ns());
}

Test(store_client, server_that_goes_ends_calls)
{
    struct store_rank rank = {0};
    struct kolo_store_call call, later;
    open_world(1, true);
    world.timeout_ms = SOON_MS;
    join(&rank);
    cr_assert(rank.joined == KOLO_OK, "%s", rank.why);
    kolo_store_client_get(rank.client, "never", true, &call);
    kolo_store_thread_stop(world.thread, kolo_now_ns());
    cr_assert(store_rank_wait(&rank, &call, SOON_MS) == KOLO_ERR_PEER, "%s", call.why);
    cr_assert(rank.lost == 1 && rank.failed == KOLO_OK);
    kolo_store_client_set(rank.client, "key", "v", 1, &later);
    cr_assert(later.status == KOLO_ERR_PEER);
    store_rank_close(&rank);
}

Test(store_client, every_allocation_may_fail)
{
    int patience_ms =
        200; /* many failures end with it; too short for a success on a busy machine */
    for (uint64_t nth = 1; nth < 100; nth++) {
        struct store_rank rank = {0};
        open_world(1, false);
        int fd;
        cr_assert(kolo_store_thread_pair(world.thread, &fd) == KOLO_OK);
        uint64_t before = kolo_alloc_count();
        kolo_alloc_fail_nth(nth);
        world.timeout_ms = 500;
        struct kolo_store_call call = {.status = KOLO_ERR_NO_MEMORY};
        store_rank_join(&rank, 0, 1, fd, NULL, 0, &world.secret, patience_ms);
        if (rank.joined == KOLO_OK) {
            kolo_store_client_set(rank.client, "key", "v", 1, &call);
            store_rank_wait(&rank, &call, patience_ms);
        }
        uint64_t tried = kolo_alloc_count() - before;
        kolo_alloc_fail_nth(0);
        store_rank_close(&rank);
        kolo_store_thread_stop(world.thread, kolo_now_ns());
        world.thread = NULL;
        if (tried < nth && call.status != KOLO_OK && patience_ms < SOON_MS) {
            patience_ms = SOON_MS;
            nth--;
        } else if (tried < nth) {
            cr_assert(call.status == KOLO_OK, "%s", call.why);
            return;
        }
    }
    cr_assert(false, "still failing after 100 allocations");
}
