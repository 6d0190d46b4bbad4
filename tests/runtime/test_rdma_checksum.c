// SPDX-License-Identifier: Apache-2.0
// KOLO_CHECKSUM through whole calls over RDMA, between devices in memory: one bit changes on the
// wire, in a frame or in what is written directly into a receive. Without checksums the result is
// wrong and nobody notices; with them the call fails on both ranks.
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/fake_fixture.h"
#include "tests/support/world.h"
#include "transport/checksum.h"
#include "transport/rdma_handshake.h"

enum { RANKS = 2, COUNT = 1 << 20 };

TestSuite(runtime_rdma_checksum, .init = begin, .fini = end, .timeout = 200);

/** The case that the ranks carry out now. */
static struct {
    bool is_kolo_memory;
    bool is_broadcast;
    ptrdiff_t at;
    int nth;
} now;
static atomic_int wrong; /* ranks whose call returned KOLO_OK, but whose result is not right */

static kolo_status call(struct kolo_comm *comm, int32_t *memory)
{
    if (now.is_broadcast)
        return kolo_broadcast(comm, memory, COUNT, KOLO_INT32, 0, NULL, NULL);
    return kolo_allreduce(comm, memory, memory, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL);
}

static kolo_status compare(struct kolo_comm *comm, int32_t *memory)
{
    const int32_t all = now.is_broadcast ? 1 : 3;
    for (int i = 0; i < COUNT; i++)
        memory[i] = kolo_rank(comm) + 1;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        fake_verbs_flip(now.nth, 50000, now.at);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(call(comm, memory));
    bool is_right = true;
    for (int i = 0; i < COUNT; i++)
        is_right = is_right && memory[i] == all;
    if (!is_right)
        atomic_fetch_add(&wrong, 1);
    return kolo_barrier(comm, NULL, NULL);
}

static kolo_status body(struct kolo_comm *comm, void *argument)
{
    int32_t *memory = NULL;
    (void)argument;
    if (now.is_kolo_memory)
        WORLD_TRY(kolo_alloc(comm, COUNT * sizeof *memory, (void **)&memory));
    else
        memory = malloc(COUNT * sizeof *memory);
    WORLD_EXPECT(memory != NULL, "memory");
    const kolo_status status = compare(comm, memory);
    if (!now.is_kolo_memory)
        free(memory);
    return status;
}

static void run_now(const char *checksum)
{
    struct world world = {.size = RANKS};
    kolo_status status = KOLO_ERR_PEER;
    for (int i = 0; i < WORLD_TRIES && (i == 0 || world_heard_late(&world)); i++) {
        world = (struct world){.size = RANKS, .transport = "rdma", .settings = {checksum}};
        atomic_store(&wrong, 0);
        status = world_run(&world, body, NULL);
        cr_assert(strcmp(checksum, "KOLO_CHECKSUM=0") == 0 || wrong == 0);
    }
    cr_assert(fake_verbs_flipped(), "nothing was changed: %s", world_cause(&world)->text);
    if (strcmp(checksum, "KOLO_CHECKSUM=0") == 0) {
        cr_assert(status == KOLO_OK, "%s", world_cause(&world)->text);
        cr_assert(wrong > 0, "the injector does nothing");
        return;
    }
    cr_assert(wrong == 0, "%d wrong results with KOLO_OK", wrong);
    for (int rank = 0; rank < RANKS; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_DATA, "rank %d: %s: %s", rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strstr(result->text, " changed on the way here, over rdma fake0 port 1 to "),
                  "%s", result->text);
        cr_assert(strstr(result->text, "rank 0 (") && strstr(result->text, "rank 1 (") &&
                      strstr(result->text, now.is_broadcast ? "broadcast(" : "allreduce("),
                  "%s", result->text);
    }
}

Test(runtime_rdma_checksum, a_bit_on_the_wire)
{
    for (int i = 0; i < 12; i++) {
        now.is_kolo_memory = i % 2 == 0;
        now.is_broadcast = i / 2 % 2 == 0;
        now.at = i / 4 == 0 ? -1 : i / 4 == 1 ? 100 : 30001;
        now.nth = 1 + i / 4;
        run_now("KOLO_CHECKSUM=0");
        run_now("KOLO_CHECKSUM=1");
    }
}

/** Beside a flip, direct writes are verified in worlds in which nothing happens. */
static kolo_status only_call(struct kolo_comm *comm, void *argument)
{
    int32_t *memory = NULL;
    (void)argument;
    WORLD_TRY(kolo_alloc(comm, COUNT * sizeof *memory, (void **)&memory));
    for (int round = 0; round < 10; round++) {
        now.is_broadcast = false;
        for (int i = 0; i < COUNT; i++)
            memory[i] = kolo_rank(comm) + 1;
        WORLD_TRY(call(comm, memory));
        for (int i = 0; i < COUNT; i++)
            WORLD_EXPECT(memory[i] == 3, "element %d is %d", i, (int)memory[i]);
    }
    return KOLO_OK;
}

Test(runtime_rdma_checksum, right_results_are_right)
{
    const size_t written = fake_verbs_written();
    for (int rails = 1; rails <= 3; rails++) {
        char text[32];
        snprintf(text, sizeof text, "KOLO_RDMA_RAILS=%d", rails);
        struct world world = {
            .size = RANKS, .transport = "rdma", .settings = {"KOLO_CHECKSUM=1", text}};
        WORLD_MUST_RUN(&world, only_call, NULL);
    }
    cr_assert(fake_verbs_written() > written, "nothing was written directly");
}

/* ---- the block that replaces a broken queue pair ---- */

enum {
    JOINED_AT = 7,
    ROUND_AT = 240,
    RECEIVED_AT = 244,
    ENOUGH = 12, /* frames, beyond the start */
    TRIALS = 8
};
static atomic_int flips;

void __real_kolo_block_seal(const struct kolo_link *link, uint8_t *block, size_t bytes);
void __wrap_kolo_block_seal(const struct kolo_link *link, uint8_t *block, size_t bytes);

/** One bit less of how many frames have been received: the sender sends one of them again. */
void __wrap_kolo_block_seal(const struct kolo_link *link, uint8_t *block, size_t bytes)
{
    __real_kolo_block_seal(link, block, bytes);
    const bool is_offer = block[ROUND_AT] > 0 && block[JOINED_AT] == 0;
    if (!is_offer || block[RECEIVED_AT] <= ENOUGH || block[RECEIVED_AT] % 2 == 0)
        return;
    block[RECEIVED_AT] ^= 1;
    atomic_fetch_add(&flips, 1);
}

static kolo_status broken_pair(struct kolo_comm *comm, void *argument)
{
    const int *nth = argument;
    int32_t *memory = malloc(COUNT * sizeof *memory);
    for (int i = 0; i < COUNT; i++)
        memory[i] = kolo_rank(comm) == 0 ? i : -1;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        fake_verbs_lose_answer(*nth);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    const kolo_status status = kolo_broadcast(comm, memory, COUNT, KOLO_INT32, 0, NULL, NULL);
    int bad = 0;
    for (int i = 0; i < COUNT; i++)
        bad += memory[i] != i;
    if (status == KOLO_OK && bad > 0)
        atomic_fetch_add(&wrong, 1);
    free(memory);
    return status;
}

/** What the trials of one setting have shown. */
struct shown {
    int changed; /* how often a block was changed */
    int told;    /* how often that was the cause that the ranks heard in time */
};

/** Runs it with several broken pairs. */
static void break_pairs(const char *checksum, struct shown *shown)
{
    for (int nth = 24; nth < 44; nth += 3) {
        struct world world = {
            .size = RANKS, .transport = "rdma", .settings = {checksum, "KOLO_TIMEOUT=5s"}};
        logged[0] = '\0';
        atomic_store(&flips, 0);
        const kolo_status status = world_run(&world, broken_pair, &nth);
        shown->changed += flips;
        const char *text = status == KOLO_OK ? "" : world_cause(&world)->text;
        shown->told += strstr(text, "an RDMA handshake changed on the way here") != NULL;
    }
}

/* How many frames have come when a pair breaks differs from run to run, and on a busy machine all
 * runs of a trial may have numbers that are left as they are. */
Test(runtime_rdma_checksum, a_bit_of_what_replaces_a_broken_pair, .timeout = 300)
{
    struct shown off = {0}, on = {0};
    atomic_store(&wrong, 0);
    for (int trial = 0; trial < TRIALS && wrong == 0; trial++)
        break_pairs("KOLO_CHECKSUM=0", &off);
    cr_assert(off.changed > 0 && wrong > 0, "the injector does nothing");
    atomic_store(&wrong, 0);
    for (int trial = 0; trial < TRIALS && on.told == 0; trial++)
        break_pairs("KOLO_CHECKSUM=1", &on);
    cr_assert(on.told > 0 && wrong == 0, "%d changed, %d told, %d wrong results with KOLO_OK",
              on.changed, on.told, wrong);
}
