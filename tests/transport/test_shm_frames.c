// SPDX-License-Identifier: Apache-2.0
// transport/shm_frames.c: messages of all lengths over a pair of ranks, ends, and corrupted shared
// memory.
#include "tests/support/shm_side.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

Test(shm_frames, carries_every_length_copied_and_lent, .timeout = 120)
{
    const size_t lengths[] = {0,    1,     7,     24,    25,         64,      4095,
                              4096, 32704, 32705, 65537, 256 * 1024, MIB - 3, 3 * MIB + 8};
    struct shm_side sides[2] = {0};
    uint8_t *src = malloc(4 * MIB), *dst = malloc(4 * MIB);
    void *lent;
    shm_pair_up(sides, true);
    cr_assert(kolo_heap_alloc(sides[1].heap, 4 * MIB, &lent) == KOLO_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        shm_transfer(sides, 0, src, dst, lengths[i]);
        shm_transfer(sides, 1, src, dst, lengths[i]);
        shm_transfer(sides, 1, (uint8_t *)lent + 17, dst, lengths[i]);
    }
    cr_assert(kolo_shm_link_of(sides[0].link)->lender.uses == 0,
              "lent what is not from kolo_alloc");
    cr_assert(kolo_shm_link_of(sides[1].link)->lender.uses > 0, "never lent");
    shm_pair_close(sides);
    free(src);
    free(dst);
}

Test(shm_frames, smallest_ring_and_no_direct_access_work, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    uint8_t *dst = malloc(MIB);
    void *lent;
    for (int rank = 0; rank < 2; rank++) {
        shm_side_init(&sides[rank], rank);
        sides[rank].settings.shm_ring_bytes = 4096;
        sides[rank].settings.shm_direct_bytes = 1 << 30;
    }
    shm_pair_up(sides, true);
    cr_assert(kolo_heap_alloc(sides[0].heap, MIB, &lent) == KOLO_OK);
    shm_transfer(sides, 0, lent, dst, MIB);
    cr_assert(kolo_shm_link_of(sides[0].link)->lender.uses == 0);
    shm_pair_close(sides);
    free(dst);
}

/** Sends @p bytes bytes at once if the link can, and otherwise by a work; true: at once. */
static bool send_and_receive(struct shm_side sides[2], const uint8_t *src, uint8_t *dst,
                             size_t bytes)
{
    const struct kolo_desc desc = {{0}};
    struct kolo_work send = {.status = KOLO_OK}, recv;
    const bool is_sent = kolo_link_send_at_once(sides[0].link, 1, &desc, src, bytes);
    if (!is_sent)
        kolo_link_send(sides[0].link, 1, &desc, src, bytes, &send);
    kolo_link_recv(sides[1].link, 1, &desc, dst, bytes, NULL, &recv);
    cr_assert(shm_drive(sides, 2, &recv.status) && recv.status == KOLO_OK, "%zu bytes: %s", bytes,
              sides[1].down_text);
    cr_assert(shm_drive(sides, 2, &send.status) && send.status == KOLO_OK, "%zu bytes", bytes);
    cr_assert(memcmp(src, dst, bytes) == 0, "%zu bytes have changed", bytes);
    return is_sent;
}

Test(shm_frames, what_small_rings_cannot_take_at_once_is_sent_in_pieces, .timeout = 60)
{
    enum { STEP = 8, LONGEST = 4096 };
    static uint8_t src[LONGEST], dst[LONGEST];
    for (size_t i = 0; i < LONGEST; i++)
        src[i] = (uint8_t)(i * 7);
    for (size_t ring = 4096; ring <= 32768; ring *= 2) {
        struct shm_side sides[2] = {0};
        int at_once = 0;
        for (int rank = 0; rank < 2; rank++) {
            shm_side_init(&sides[rank], rank);
            sides[rank].settings.shm_ring_bytes = ring;
        }
        shm_pair_up(sides, true);
        for (size_t bytes = 0; bytes <= LONGEST; bytes += STEP)
            at_once += send_and_receive(sides, src, dst, bytes);
        cr_assert(at_once > 100, "only %d were sent at once", at_once);
        shm_pair_close(sides);
    }
}

Test(shm_frames, a_goodbye_is_no_failure_and_what_came_before_it_arrives, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    struct kolo_work send, recv;
    uint8_t byte = 42, got = 0;
    shm_pair_up(sides, true);
    shm_send(&sides[0], 1, &byte, 1, &send);
    shm_side_close(&sides[0]);
    shm_recv(&sides[1], 1, &got, 1, &recv);
    cr_assert(shm_drive(&sides[1], 1, &recv.status) && recv.status == KOLO_OK && got == 42);
    shm_drive_rounds(&sides[1], 1, 200);
    cr_assert(sides[1].downs == 0 && sides[1].lefts == 1, "%d downs, %d lefts", sides[1].downs,
              sides[1].lefts);
    shm_side_close(&sides[1]);
}

static void gone(void *context, uint64_t id)
{
    kolo_endpoint_span_gone(context, id);
}

Test(shm_frames, memory_that_is_freed_is_unmapped_by_the_peer, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    uint8_t *dst = malloc(MIB);
    shm_pair_up(sides, true);
    int before = shm_count_maps();
    for (int i = 0; i < 3; i++) {
        void *lent;
        cr_assert(kolo_heap_alloc(sides[0].heap, MIB, &lent) == KOLO_OK);
        shm_transfer(sides, 0, lent, dst, MIB);
        cr_assert(shm_count_maps() == before + 2, "the span and the peer's mapping of it");
        cr_assert(kolo_heap_free(sides[0].heap, lent, gone, sides[0].endpoint) == KOLO_OK);
        shm_drive_rounds(sides, 2, 3);
        cr_assert(shm_count_maps() == before, "%d mappings left", shm_count_maps() - before);
    }
    shm_pair_close(sides);
    free(dst);
}

Test(shm_frames, a_peer_that_scribbles_over_the_link_is_a_protocol_error, .timeout = 100)
{
    int protocol_errors = 0;
    for (unsigned seed = 1; seed <= 40; seed++) {
        struct shm_side sides[2] = {0};
        struct kolo_work sends[2], recvs[2];
        static uint8_t src[2][MIB], dst[2][MIB];
        unsigned state = seed;
        shm_pair_up(sides, true);
        struct kolo_shm_link *link = kolo_shm_link_of(sides[seed % 2].link);
        for (int rank = 0; rank < 2; rank++) {
            shm_recv(&sides[rank], 1, dst[rank], MIB, &recvs[rank]);
            shm_send(&sides[rank], 1, src[rank], MIB, &sends[rank]);
        }
        for (int round = 0; round < 60; round++) {
            uint8_t *bytes = link->memory;
            for (int i = 0; i < 20; i++) {
                size_t at = (size_t)rand_r(&state) % link->memory_bytes;
                if (i < 3)
                    at = (size_t)rand_r(&state) % 512 +
                         (i % 2) * kolo_shm_ring_footprint(link->writer.capacity);
                bytes[at] = (uint8_t)rand_r(&state);
            }
            shm_drive_rounds(sides, 2, 1);
        }
        for (int rank = 0; rank < 2; rank++) {
            protocol_errors += sides[rank].down_why == KOLO_ERR_PROTOCOL;
            cr_assert(sides[rank].downs == 0 || sides[rank].down_why == KOLO_ERR_PROTOCOL ||
                          sides[rank].down_why == KOLO_ERR_LINK,
                      "seed %u: %s", seed, sides[rank].down_text);
        }
        kolo_status status =
            kolo_endpoint_close(sides[0].endpoint, 0); // a lost link may not drain in time
        status = kolo_endpoint_close(sides[1].endpoint, 0);
        (void)status;
        kolo_heap_destroy(sides[0].heap);
        kolo_heap_destroy(sides[1].heap);
    }
    cr_assert(protocol_errors >= 20, "only %d", protocol_errors);
}

/** A receiver in a thread of its own, which runs until its work is done or it is told to stop. */
struct receiver {
    struct shm_side *side;
    struct kolo_work work;
    uint8_t *dst;
    size_t bytes;
    atomic_bool stop;
};

static void *receive_in_thread(void *context)
{
    struct receiver *receiver = context;
    shm_recv(receiver->side, 9, receiver->dst, receiver->bytes, &receiver->work);
    while (receiver->work.status == KOLO_AGAIN && !atomic_load(&receiver->stop))
        shm_drive_rounds(receiver->side, 1, 1);
    return NULL;
}

Test(shm_frames, what_is_taken_back_while_it_is_read_never_arrives, .timeout = 100)
{
    enum { BYTES = 8 * MIB };
    uint8_t *dst = malloc(BYTES);
    for (int round = 0; round < 40; round++) {
        struct shm_side sides[2] = {0};
        struct receiver receiver = {.side = &sides[1], .dst = dst, .bytes = BYTES};
        struct kolo_work send;
        pthread_t thread;
        void *lent;
        shm_pair_up(sides, true);
        cr_assert(kolo_heap_alloc(sides[0].heap, BYTES, &lent) == KOLO_OK);
        memset(lent, 1, BYTES);
        shm_send(&sides[0], 9, lent, BYTES, &send);
        cr_assert(pthread_create(&thread, NULL, receive_in_thread, &receiver) == 0);
        for (volatile int spin = 0; spin < round * 150000; spin++)
            ;
        kolo_work_cancel(&send);
        memset(lent, 2, BYTES);
        atomic_store(&receiver.stop, true);
        pthread_join(thread, NULL);
        if (receiver.work.status == KOLO_OK)
            cr_assert(memchr(dst, 2, BYTES) == NULL, "round %d: arrived changed", round);
        shm_pair_close(sides);
    }
    free(dst);
}
