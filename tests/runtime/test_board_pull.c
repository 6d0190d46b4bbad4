// SPDX-License-Identifier: Apache-2.0
// Memory that is not from kolo_alloc, pulled by other ranks: every collective that copies, on 2 to
// 16 ranks; memory that must not be read, from the start or from one call to the next; and memory
// that its owner takes back and reuses while others read it. (tests/stress/stress_random.c uses
// such memory too.)
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/board_hub.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/refuse.h"
#include "tests/support/world.h"

/* alltoall, which is always pulled if it is long enough */
enum { RANKS_MAX = 16, WHATS = 5, LAST = WHATS - 1 };

static void run(int size, const char *setting,
                kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct world world = {.size = size,
                          .transport = "shm",
                          .settings = {"KOLO_TIMEOUT=60", "KOLO_PLAN=twoshot",
                                       "KOLO_CMA_BYTES=64KiB", /* without trials */
                                       setting}};
    kolo_status status = world_run(&world, body, argument);
    cr_assert(status == KOLO_OK, "%d ranks, %s: %s: %s", size, setting, kolo_status_name(status),
              world_cause(&world)->text);
}

/** Whether the last completed collective of @p comm was pulled. */
static bool has_pulled(struct kolo_comm *comm)
{
    return comm->hub->run.is_pulled;
}

/* ---- what comes out ---- */

static int32_t told(int call, int from, int to, size_t index)
{
    return (int32_t)((uint32_t)(call * 64 + from * 8 + to) * 2654435761u + (uint32_t)index);
}

/** Fills the blocks that rank @p from sends: one for all ranks, or one for each. */
static void fill(int32_t *send, int call, int from, int blocks, size_t count)
{
    for (int to = 0; to < blocks; to++)
        for (size_t i = 0; i < count; i++)
            send[(size_t)to * count + i] = told(call, from, blocks > 1 ? to : 0, i);
}

static kolo_status check(const int32_t *recv, int call, int from, int to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(recv[i] == told(call, from, to, i),
                     "call %d, from %d, element %zu of %zu: %d, not %d", call, from, i, count,
                     (int)recv[i], (int)told(call, from, to, i));
    return KOLO_OK;
}

static kolo_status check_all(const int32_t *recv, int call, int ranks, int to, size_t count)
{
    kolo_status status = KOLO_OK;
    for (int from = 0; from < ranks && status == KOLO_OK; from++)
        status = check(recv + (size_t)from * count, call, from, to, count);
    return status;
}

static kolo_status start(struct kolo_comm *comm, int what, int root, int32_t *send, int32_t *recv,
                         size_t count)
{
    switch (what) {
    case 0:
        return kolo_allgather(comm, send, recv, count, KOLO_INT32, NULL, NULL);
    case LAST:
        return kolo_alltoall(comm, send, recv, count, KOLO_INT32, NULL, NULL);
    case 2:
        return kolo_gather(comm, send, recv, count, KOLO_INT32, root, NULL, NULL);
    case 3:
        return kolo_scatter(comm, send, recv, count, KOLO_INT32, root, NULL, NULL);
    default: /* 1 */
        return kolo_broadcast(comm, kolo_rank(comm) == root ? send : recv, count, KOLO_INT32, root,
                              NULL, NULL);
    }
}

/** Makes and checks one call of each collective that copies. */
static kolo_status call_each(struct kolo_comm *comm, int call, int32_t *send, int32_t *recv,
                             size_t count)
{
    int n = kolo_size(comm), rank = kolo_rank(comm), root = (call + 1) % n;
    kolo_status status = KOLO_OK;
    for (int what = 0; what < WHATS && status == KOLO_OK; what++) {
        fill(send, call + what, rank, what == LAST || what == 3 ? n : 1, count);
        memset(recv, 0x55, (size_t)n * count * sizeof *recv);
        status = start(comm, what, root, send, recv, count);
        if (status != KOLO_OK)
            break;
        if (what == 0 || what == LAST || (what == 2 && rank == root))
            status = check_all(recv, call + what, n, what == LAST ? rank : 0, count);
        else if ((what == 1 || what == 3) && rank != root)
            status = check(recv, call + what, root, what == 3 ? rank : 0, count);
    }
    return status;
}

/** Whether an alltoall of blocks of @p count elements is pulled, as the setting says, also if it is
 * short enough to be shown: all fit into the caches. */
static bool is_to_be_pulled(int ranks, size_t count)
{
    size_t each = (size_t)ranks * count * sizeof(int32_t);
    return 2 * each * (size_t)ranks < (24 << 20);
}

/** Uses memory of the process, or in some calls memory of kolo_alloc on every other rank. */
static kolo_status each_size(struct kolo_comm *comm, void *argument)
{
    static const size_t totals[] = {300, 40003, 300007, 190003};
    enum { SIZES = sizeof totals / sizeof totals[0], MIXED = 3, MOST = 300007 };
    int n = kolo_size(comm);
    const bool *may = argument;
    void *kolos = NULL;
    char *plain = malloc(2 * MOST * sizeof(int32_t));
    kolo_status status =
        plain ? kolo_alloc(comm, MOST * sizeof(int32_t), &kolos) : KOLO_ERR_NO_MEMORY;
    for (int i = 0; i < SIZES && status == KOLO_OK; i++) {
        size_t count = totals[i] / (size_t)n;
        int32_t *send = (void *)plain, *recv = (void *)(plain + MOST * sizeof(int32_t));
        if (i == MIXED && kolo_rank(comm) % 2 == 0)
            send = kolos;
        status = call_each(comm, 10 * i + 1, send, recv, count);
        if (status == KOLO_OK && has_pulled(comm) != (*may && is_to_be_pulled(n, count)))
            status = kolo_fail(KOLO_ERR_INTERNAL, "blocks of %zu elements: pulled %d, may %d",
                               count, has_pulled(comm), *may);
    }
    if (kolos)
        (void)kolo_free(comm, kolos);
    free(plain);
    return status;
}

/** Finds out whether this process may read its own memory with process_vm_readv. */
static kolo_status find_out(struct kolo_comm *comm, void *argument)
{
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        *(bool *)argument = kolo_board_may_pull(comm->hub->board, 1) == KOLO_OK;
    return status;
}

static void skip_without(void)
{
    bool may = false;
    run(2, "KOLO_CMA=1", find_out, &may);
    if (!may)
        cr_skip("this system lets no process read another: %s", kolo_error_detail());
}

Test(board_pull, every_collective_that_copies, .timeout = 300)
{
    bool may = true;
    skip_without();
    for (int size = 2; size <= RANKS_MAX; size += size < 5 ? 1 : 3)
        run(size, "KOLO_CMA_BYTES=1", each_size, &may);
}

static kolo_status long_scatters(struct kolo_comm *comm, void *argument)
{
    enum { MIB_OF = (1 << 20) / sizeof(int32_t) };
    int n = kolo_size(comm), rank = kolo_rank(comm);
    int32_t *memory = calloc((size_t)(n + 1) * MIB_OF, sizeof *memory);
    kolo_status status = memory ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    (void)argument;
    for (int is_long = 0; is_long < 2 && status == KOLO_OK; is_long++) {
        size_t count = is_long ? MIB_OF : MIB_OF - 1;
        int32_t *recv = memory + (size_t)n * MIB_OF;
        fill(memory, is_long, rank, n, count);
        status = start(comm, 3, 0, memory, recv, count);
        if (status == KOLO_OK && rank != 0)
            status = check(recv, is_long, 0, rank, count);
        bool is_wanted = n > 2 || !is_long;
        if (status == KOLO_OK && has_pulled(comm) != is_wanted)
            status = kolo_fail(KOLO_ERR_INTERNAL, "%d ranks, blocks of %zu elements: pulled %d", n,
                               count, has_pulled(comm));
    }
    free(memory);
    return status;
}

Test(board_pull, a_long_scatter_of_two_goes_by_the_stages, .timeout = 120)
{
    skip_without();
    run(2, "KOLO_CMA_BYTES=1", long_scatters, NULL);
    run(3, "KOLO_CMA_BYTES=1", long_scatters, NULL);
}

Test(board_pull, a_setting_ends_it, .timeout = 120)
{
    bool may = false;
    run(3, "KOLO_CMA=0", each_size, &may);
}

/* ---- where it must not be read ---- */

struct refusal {
    bool from_start, cannot;
};

/** Only rank 1 is refused; all use the stages, from the call in which it happens. */
static kolo_status refused(struct kolo_comm *comm, void *argument)
{
    enum { COUNT = 70001, CALLS = 3 };
    struct refusal *refusal = argument;
    int n = kolo_size(comm);
    int32_t *memory = malloc(2 * (size_t)n * COUNT * sizeof(int32_t));
    kolo_status status = memory ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    for (int call = refusal->from_start ? 1 : 0; call < CALLS && status == KOLO_OK; call++) {
        if (call == 1 && kolo_rank(comm) == 1)
            refusal->cannot = !refuse_reading();
        status = call_each(comm, 10 * call, memory, memory + (size_t)n * COUNT, COUNT);
        if (status == KOLO_OK && has_pulled(comm) != (call == 0) && !refusal->cannot)
            status = kolo_fail(KOLO_ERR_INTERNAL, "call %d: pulled %d", call, has_pulled(comm));
    }
    free(memory);
    return status;
}

static void run_refused(bool from_start)
{
    struct refusal refusal = {.from_start = from_start};
    skip_without();
    run(4, "KOLO_CMA_BYTES=1", refused, &refusal);
    if (refusal.cannot)
        cr_skip("no seccomp filter can be set here");
}

Test(board_pull, one_that_must_not_read_goes_by_the_stages_with_all, .timeout = 120)
{
    run_refused(true);
}

Test(board_pull, one_that_must_not_read_any_more_goes_by_the_stages_with_all, .timeout = 120)
{
    run_refused(false);
}

/* ---- taken back ---- */

/* PAIR is for two ranks, whose longer scatters are not pulled. */
enum { LONG = 300000, PAIR = 200000, TAKERS = 3, STRIDE = 509, NEVER_SENT = -1 };

struct killer {
    struct kolo_comm *comm;
    long after_us;
};

/** Fails this rank's communicator without telling the others. */
static void *fail_quietly(void *argument)
{
    const struct killer *killer = argument;
    struct timespec pause = {.tv_nsec = killer->after_us * 1000};
    nanosleep(&pause, NULL); /* no synchronisation: any moment will do */
    kolo_comm_enter(killer->comm);
    kolo_comm_fail_quietly(killer->comm, KOLO_ERR_ABORTED, "broken off");
    kolo_comm_leave(killer->comm);
    return NULL;
}

/** Calls until one fails; every call that succeeded must have the right result. */
static kolo_status pull_until_failed(struct kolo_comm *comm, int32_t *send, int32_t *recv)
{
    kolo_status status = KOLO_OK;
    for (int call = 0; call < 1000 && status == KOLO_OK; call++) {
        for (size_t i = 0; i < TAKERS * LONG; i += STRIDE)
            send[i] = call;
        status = kolo_scatter(comm, send, recv, LONG, KOLO_INT32, 1, NULL, NULL);
        size_t first = (STRIDE - (size_t)kolo_rank(comm) * LONG % STRIDE) % STRIDE;
        for (size_t i = first; i < LONG && status == KOLO_OK; i += STRIDE)
            WORLD_EXPECT(recv[i] == call, "call %d gave %d", call, (int)recv[i]);
    }
    return status;
}

/** Rank 1 reuses its memory as soon as its call has failed. */
static kolo_status broken_off(struct kolo_comm *comm, void *argument)
{
    struct killer killer = {comm, *(const long *)argument};
    int32_t *memory = calloc((TAKERS + 1) * (size_t)LONG, sizeof(int32_t));
    pthread_t thread;
    if (!memory)
        return KOLO_ERR_NO_MEMORY;
    bool kills = kolo_rank(comm) == 1 && pthread_create(&thread, NULL, fail_quietly, &killer) == 0;
    kolo_status status = pull_until_failed(comm, memory, memory + TAKERS * LONG);
    for (size_t i = 0; i < TAKERS * LONG && kills; i += STRIDE)
        memory[i] = NEVER_SENT;
    if (kills)
        pthread_join(thread, NULL);
    free(memory);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED || (!kills && status == KOLO_ERR_PEER), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(board_pull, memory_taken_back_is_not_taken_for_what_was_sent, .timeout = 120)
{
    static const long moments_us[] = {5000, 12000, 20000, 35000};
    skip_without();
    for (size_t i = 0; i < sizeof moments_us / sizeof moments_us[0]; i++) {
        long after_us = moments_us[i];
        run(TAKERS, "KOLO_STALL=100ms", broken_off, &after_us);
    }
}

/** Rank 0 has entered the call and is delayed before it reads. Rank 1, which waits only for rank 0,
 * takes its memory back and reuses it. */
struct hold {
    struct kolo_comm *comm; /* of rank 1 */
    atomic_bool is_held, is_taken;
};

/** Fails rank 1's call when all that it has left to do is to wait for rank 0. */
static void *take_back(void *argument)
{
    struct hold *hold = argument;
    for (bool is_over = false; !is_over; sched_yield()) {
        kolo_comm_enter(hold->comm);
        const struct kolo_hub *hub = hold->comm->hub;
        is_over = hub->run.request && hub->run.is_pulled && hub->run.phase == KOLO_BOARD_CLOSING;
        if (is_over)
            kolo_comm_fail_quietly(hold->comm, KOLO_ERR_ABORTED, "taken back");
        kolo_comm_leave(hold->comm);
    }
    return NULL;
}

static kolo_status give_and_take_back(struct kolo_comm *comm, int32_t *memory, struct hold *hold)
{
    pthread_t thread;
    hold->comm = comm;
    (void)AWAIT(atomic_load(&hold->is_held));
    fill(memory, 1, 1, 2, PAIR);
    WORLD_EXPECT(pthread_create(&thread, NULL, take_back, hold) == 0, "no thread");
    kolo_status status =
        kolo_scatter(comm, memory, memory + 2 * PAIR, PAIR, KOLO_INT32, 1, NULL, NULL);
    memset(memory, 0x55, 2 * PAIR * sizeof *memory);
    atomic_store(&hold->is_taken, true);
    pthread_join(thread, NULL);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    return KOLO_OK;
}

static kolo_status read_late(struct kolo_comm *comm, int32_t *recv, struct hold *hold)
{
    struct kolo_request *request;
    kolo_status status =
        kolo_scatter(comm, NULL, recv, PAIR, KOLO_INT32, 1, NULL, &request); /* enters the call */
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm); /* no other thread can make progress for this rank */
    atomic_store(&hold->is_held, true);
    (void)AWAIT(atomic_load(&hold->is_taken));
    kolo_comm_leave(comm);
    status = kolo_wait(&request, -1);
    WORLD_EXPECT(status == KOLO_ERR_PEER, "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

static kolo_status read_what_is_taken(struct kolo_comm *comm, void *argument)
{
    int32_t *memory = calloc(3 * (size_t)PAIR, sizeof(int32_t));
    kolo_status status = memory ? kolo_barrier(comm, NULL, NULL) : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK && kolo_rank(comm) == 1)
        status = give_and_take_back(comm, memory, argument);
    else if (status == KOLO_OK)
        status = read_late(comm, memory, argument);
    free(memory);
    return status;
}

Test(board_pull, a_late_reader_does_not_take_what_is_something_else_by_now, .timeout = 60)
{
    struct hold hold = {.comm = NULL};
    skip_without();
    run(2, "KOLO_STALL=100ms", read_what_is_taken, &hold);
}
