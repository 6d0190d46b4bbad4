// SPDX-License-Identifier: Apache-2.0
// Tables of ranks: equal bytes make one table, different bytes another; a wrong table is refused
// with a text, and leaves nothing behind.
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/peers.h"

enum { RANKS = 3, BLOB_MAX = 512, TABLE_MAX = RANKS * BLOB_MAX, THREADS = 8, ROUNDS = 200 };

/** Writes a table as the store sends it; rank i has pid @p pid + i and number @p first + i. */
static size_t write_table(uint8_t table[TABLE_MAX], int32_t pid, int32_t first)
{
    struct kolo_writer writer = kolo_writer_over(table, TABLE_MAX);
    size_t bytes = 0;
    for (int32_t i = 0; i < RANKS; i++) {
        uint8_t blob[BLOB_MAX];
        struct kolo_writer peer = kolo_writer_over(blob, sizeof blob);
        struct kolo_peer self = {
            .identity = {.rank = first + i, .pid = pid + i, .host = "here", .cores = 1},
            .credit_bytes = 1 << 20};
        kolo_peer_write(&peer, &self);
        cr_assert(kolo_writer_finish(&peer, blob, &bytes) == KOLO_OK);
        kolo_write_blob(&writer, blob, bytes);
    }
    cr_assert(kolo_writer_finish(&writer, table, &bytes) == KOLO_OK);
    return bytes;
}

Test(peers, same_bytes_are_one_table)
{
    uint8_t one[TABLE_MAX], copy[TABLE_MAX], other[TABLE_MAX];
    const struct kolo_peer *first = NULL, *second = NULL, *third = NULL;
    size_t bytes = write_table(one, 100, 0);
    cr_assert(write_table(copy, 100, 0) == bytes && write_table(other, 200, 0) == bytes);
    cr_assert(kolo_peers_read(one, bytes, RANKS, &first) == KOLO_OK);
    memset(one, 0xff, sizeof one); /* the table keeps no pointer to the caller's bytes */
    uint64_t before = kolo_alloc_count();
    cr_assert(kolo_peers_read(copy, bytes, RANKS, &second) == KOLO_OK);
    cr_assert(second == first, "made twice");
    cr_assert(kolo_alloc_count() == before, "the second rank has memory of its own");
    cr_assert(kolo_peers_read(other, bytes, RANKS, &third) == KOLO_OK);
    cr_assert(third != first && third[2].identity.pid == 202 && first[2].identity.pid == 102);
    kolo_peers_drop(first);
    cr_assert(second[1].identity.pid == 101, "gone while it is used");
    kolo_peers_drop(third);
    kolo_peers_drop(second);
    kolo_peers_drop(NULL);
    before = kolo_alloc_count();
    cr_assert(kolo_peers_read(copy, bytes, RANKS, &first) == KOLO_OK);
    cr_assert(kolo_alloc_count() > before, "it outlived its users");
    kolo_peers_drop(first);
}

Test(peers, what_is_no_table)
{
    uint8_t table[TABLE_MAX];
    const struct kolo_peer *peers = NULL;
    size_t bytes = write_table(table, 100, 0);
    for (size_t cut = 0; cut < bytes; cut++)
        cr_assert(kolo_peers_read(table, cut, RANKS, &peers) == KOLO_ERR_DATA, "%zu bytes", cut);
    cr_assert(kolo_peers_read(table, bytes, RANKS + 1, &peers) == KOLO_ERR_DATA);
    cr_assert(kolo_peers_read(table, bytes, RANKS - 1, &peers) == KOLO_ERR_DATA);
    bytes = write_table(table, 100, 1);
    cr_assert(kolo_peers_read(table, bytes, RANKS, &peers) == KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "rank 1 in place 0") != NULL, "%s", kolo_error_detail());
    cr_assert(peers == NULL);
}

Test(peers, without_memory)
{
    uint8_t table[TABLE_MAX];
    const struct kolo_peer *peers = NULL;
    size_t bytes = write_table(table, 100, 0);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kolo_alloc_fail_nth(nth);
        cr_assert(kolo_peers_read(table, bytes, RANKS, &peers) == KOLO_ERR_NO_MEMORY);
    }
    kolo_alloc_fail_nth(0);
    cr_assert(kolo_peers_read(table, bytes, RANKS, &peers) == KOLO_OK);
    kolo_peers_drop(peers);
}

static void *use_and_drop(void *argument)
{
    uint8_t table[TABLE_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        const struct kolo_peer *peers = NULL;
        int32_t pid = 100 * (1 + round % 3);
        size_t bytes = write_table(table, pid, 0);
        if (kolo_peers_read(table, bytes, RANKS, &peers) != KOLO_OK ||
            peers[1].identity.pid != pid + 1)
            *(bool *)argument = true;
        kolo_peers_drop(peers);
    }
    return NULL;
}

Test(peers, many_threads)
{
    pthread_t threads[THREADS];
    bool is_wrong[THREADS] = {false};
    for (int i = 0; i < THREADS; i++)
        cr_assert(pthread_create(&threads[i], NULL, use_and_drop, &is_wrong[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(!is_wrong[i], "thread %d", i);
    }
}
