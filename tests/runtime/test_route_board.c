// SPDX-License-Identifier: Apache-2.0
// Collectives over a board: every kind of memory on every rank, the three ways giving the same
// bits, forced plans, calls that are broken off, after which no rank accesses the buffers any more,
// and broadcasts in which some ranks are several calls ahead. (test_collectives.c and
// test_mismatch.c also run all their cases over boards.)
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/board_hub.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"

static void run(const char *transport, const char *setting, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct world world = {
        .size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=60", setting}};
    WORLD_MUST_RUN(&world, body, argument);
}

/* ---- whose memory is what ---- */

enum { NOISE_MAX = 200003, KINDS = 4 };

/** Memory of one rank: kinds 0 and 1 are plain, 2 and 3 of kolo_alloc; 1 and 3 are in place. */
struct buffers {
    float *send, *recv;
    bool is_kolo;
};

static kolo_status take(struct kolo_comm *comm, int kind, size_t count, struct buffers *out)
{
    void *memory;
    kolo_status status = KOLO_OK;
    out->is_kolo = kind >= 2;
    if (out->is_kolo)
        status = kolo_alloc(comm, 2 * count * sizeof(float), &memory);
    else
        memory = calloc(2 * count, sizeof(float));
    if (status != KOLO_OK || !memory)
        return status != KOLO_OK ? status : KOLO_ERR_NO_MEMORY;
    out->send = memory;
    out->recv = kind % 2 == 1 ? out->send : out->send + count;
    return KOLO_OK;
}

static void give_back(struct kolo_comm *comm, struct buffers *buffers)
{
    if (buffers->is_kolo)
        (void)kolo_free(comm, buffers->send);
    else
        free(buffers->send);
}

static float noise(int rank, size_t index)
{
    uint32_t x = (uint32_t)index * 2654435761u + (uint32_t)rank * 40503u + 1;
    x ^= x >> 13;
    x *= 2246822519u;
    return (float)(int32_t)x * (x % 3 == 0 ? 1e-9f : 1e3f);
}

/** The sum in rank order, which every way must give to the last bit. */
static float folded(int ranks, size_t index)
{
    float sum = noise(0, index);
    for (int rank = 1; rank < ranks; rank++)
        sum += noise(rank, index);
    return sum;
}

static kolo_status sum_of_noise(struct kolo_comm *comm, int kind, size_t count)
{
    int n = kolo_size(comm), rank = kolo_rank(comm);
    struct buffers buffers;
    kolo_status status = take(comm, kind, count + 1, &buffers);
    if (status != KOLO_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        buffers.send[i] = noise(rank, i);
    buffers.recv[count] = 42;
    status =
        kolo_allreduce(comm, buffers.send, buffers.recv, count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    /* steps of 13 reach every position in a cache line, and come close to every boundary */
    size_t step = count > 5000 ? 13 : 1;
    for (size_t i = 0; i < count && status == KOLO_OK; i += step) {
        float right = folded(n, i);
        if (memcmp(&buffers.recv[i], &right, sizeof right) != 0)
            status = kolo_fail(KOLO_ERR_INTERNAL, "kind %d, element %zu of %zu: %g, not %g", kind,
                               i, count, (double)buffers.recv[i], (double)right);
    }
    if (status == KOLO_OK && buffers.recv[count] != 42.0f)
        status = kolo_fail(KOLO_ERR_INTERNAL, "kind %d: written beyond %zu elements", kind, count);
    give_back(comm, &buffers);
    return status;
}

/** All ranks have the same kind of memory, and then each rank another kind than its neighbour. */
static kolo_status all_kinds(struct kolo_comm *comm, void *argument)
{
    static const size_t counts[] = {1, 7, 9, 300, 1000, 5000, 20000, NOISE_MAX};
    int rank = kolo_rank(comm);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int kind = 0; kind < 2 * KINDS && status == KOLO_OK; kind++)
            status = sum_of_noise(comm, kind < KINDS ? kind : (kind + rank) % KINDS, counts[c]);
    return status;
}

struct transport_param {
    char name[16];
};
static struct transport_param params[] = {{"inproc"}, {"shm"}};

ParameterizedTestParameters(route_board, memory_of_every_kind)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, memory_of_every_kind, .timeout = 120)
{
    static const int sizes[] = {2, 3, 5, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        run(param->name, "KOLO_PLAN=auto", sizes[i], all_kinds, NULL);
        run(param->name, "KOLO_PLAN=twoshot", sizes[i], all_kinds, NULL);
    }
}

/* ---- forced ---- */

/** What does not fit is refused before anything is sent, and the communicator still works. */
static kolo_status too_long(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = sum_of_noise(comm, 0, 10000);
    WORLD_EXPECT(status == KOLO_OK, "10000 elements fit: %s", kolo_error_detail());
    status = sum_of_noise(comm, 0, NOISE_MAX);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "no refusal but %s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "KOLO_PLAN=oneshot: allreduce of 200003") != NULL,
                 "the refusal says: %s", kolo_error_detail());
    return sum_of_noise(comm, 3, 100);
}

Test(route_board, a_forced_plan_that_cannot_do_it, .timeout = 60)
{
    run("shm", "KOLO_PLAN=oneshot", 3, too_long, NULL);
}

static kolo_status forced_where_there_is_none(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "no refusal but %s", kolo_status_name(status));
    return KOLO_OK;
}

Test(route_board, a_forced_plan_without_memory_in_common, .timeout = 60)
{
    run("tcp", "KOLO_PLAN=twoshot", 2, forced_where_there_is_none, NULL);
}

/* ---- broken off ---- */

enum { LONG = 8 << 20, STRIDE = 4096 };

struct killer {
    struct kolo_comm *comm;
    long after_us;
};

static void *kill_it(void *argument)
{
    const struct killer *killer = argument;
    struct timespec pause = {.tv_nsec = killer->after_us * 1000};
    nanosleep(&pause, NULL); /* no synchronisation: any moment will do */
    kolo_abort(killer->comm, "broken off");
    return NULL;
}

static kolo_status sum_until_failed(struct kolo_comm *comm, const struct buffers *buffers)
{
    kolo_status status = KOLO_OK;
    for (int i = 0; i < 1000 && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, buffers->send, buffers->recv, LONG, KOLO_FLOAT32, KOLO_SUM,
                                NULL, NULL);
    return status;
}

/** Whether nobody writes @p recv, which is this rank's again, for @p nanoseconds: long enough to
 * notice late writes. */
static bool is_left_alone(volatile float *recv, long nanoseconds)
{
    struct timespec pause = {.tv_nsec = nanoseconds};
    bool is_untouched = true;
    for (size_t i = 0; i < LONG; i += STRIDE)
        recv[i] = 1; /* samples: writing all of it would take longer than a late chunk */
    nanosleep(&pause, NULL);
    for (size_t i = 0; i < LONG; i += STRIDE)
        is_untouched = is_untouched && recv[i] == 1;
    return is_untouched;
}

/** Once the call has returned, nobody writes to its buffers, however far the others are. */
static kolo_status broken_off(struct kolo_comm *comm, void *argument)
{
    struct killer killer = {comm, *(const long *)argument};
    struct buffers buffers;
    pthread_t thread;
    kolo_status status = take(comm, 2 + kolo_rank(comm) % 2, LONG, &buffers);
    if (status != KOLO_OK)
        return status;
    bool kills = kolo_rank(comm) == 1 && pthread_create(&thread, NULL, kill_it, &killer) == 0;
    status = sum_until_failed(comm, &buffers);
    bool is_untouched = is_left_alone(buffers.recv, 20000000);
    if (kills)
        pthread_join(thread, NULL);
    give_back(comm, &buffers);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED, "not aborted but %s", kolo_status_name(status));
    WORLD_EXPECT(is_untouched, "the buffer was written after the call had returned");
    return KOLO_OK;
}

/** Fails this rank's communicator without telling the others, which go on moving data until they
 * find the memory taken back. So only that check keeps them from writing, not a notification that
 * happens to be faster than a chunk. */
static void *fail_quietly(void *argument)
{
    const struct killer *killer = argument;
    struct timespec pause = {.tv_nsec = killer->after_us * 1000};
    nanosleep(&pause, NULL);
    kolo_comm_enter(killer->comm);
    kolo_comm_fail_quietly(killer->comm, KOLO_ERR_ABORTED, "broken off");
    kolo_comm_leave(killer->comm);
    return NULL;
}

static kolo_status broken_off_quietly(struct kolo_comm *comm, void *argument)
{
    struct killer killer = {comm, *(const long *)argument};
    struct buffers buffers;
    pthread_t thread;
    kolo_status status = take(comm, 2 + kolo_rank(comm) % 2, LONG, &buffers);
    if (status != KOLO_OK)
        return status;
    bool kills = kolo_rank(comm) == 1 && pthread_create(&thread, NULL, fail_quietly, &killer) == 0;
    status = sum_until_failed(comm, &buffers);
    bool is_untouched = true;
    if (kills) {
        is_untouched = is_left_alone(buffers.recv, 100000000);
        pthread_join(thread, NULL);
    }
    give_back(comm, &buffers);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED || (!kills && status == KOLO_ERR_PEER), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    WORLD_EXPECT(is_untouched, "the buffer was written after the call had returned");
    return KOLO_OK;
}

ParameterizedTestParameters(route_board, memory_taken_back_is_left_alone)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, memory_taken_back_is_left_alone,
                  .timeout = 120)
{
    static const long moments_us[] = {5000, 12000, 20000, 35000};
    for (size_t i = 0; i < sizeof moments_us / sizeof moments_us[0]; i++) {
        long after_us = moments_us[i];
        run(param->name, "KOLO_STALL=100ms", 3, broken_off_quietly, &after_us);
    }
}

/** Holds rank 0 between its check of the others and its write into their memory, while rank 1 takes
 * its memory back. */
struct hold {
    struct kolo_comm *comm; /* of rank 1 */
    int pieces;             /* folded by rank 0 */
    atomic_bool is_held, is_taken;
};

/** What it returns is written to the result after it has returned. */
static void add(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    enum { SOME_CHUNKS = 100 };
    struct timespec pause = {.tv_nsec = 50000000};
    struct hold *hold = context;
    float *sums = into;
    (void)dtype;
    for (size_t i = 0; i < count; i++)
        sums[i] += ((const float *)from)[i];
    if (!hold || ++hold->pieces != SOME_CHUNKS)
        return;
    atomic_store(&hold->is_held, true);
    (void)AWAIT(atomic_load(&hold->is_taken));
    /* a rank 1 that does not wait for this rank is using its memory by now */
    nanosleep(&pause, NULL);
}

static void *take_back(void *argument)
{
    struct hold *hold = argument;
    (void)AWAIT(atomic_load(&hold->is_held));
    kolo_comm_enter(hold->comm);
    atomic_store(&hold->is_taken, true);
    kolo_comm_fail_quietly(hold->comm, KOLO_ERR_ABORTED, "taken back");
    kolo_comm_leave(hold->comm);
    return NULL;
}

static kolo_status taken_back_from_a_writer(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm);
    struct hold *hold = argument;
    struct kolo_op sum = {
        .size = sizeof sum, .name = "held", .fold = add, .context = rank == 0 ? hold : NULL};
    struct buffers buffers;
    pthread_t thread;
    kolo_redop op;
    kolo_status status = kolo_op_create(comm, &sum, &op);
    if (status == KOLO_OK)
        status = take(comm, 2, LONG, &buffers);
    if (status != KOLO_OK)
        return status;
    if (rank == 1)
        hold->comm = comm;
    bool takes = rank == 1 && pthread_create(&thread, NULL, take_back, hold) == 0;
    status = kolo_allreduce(comm, buffers.send, buffers.recv, LONG, KOLO_FLOAT32, op, NULL, NULL);
    bool is_untouched = !takes || is_left_alone(buffers.recv, 100000000);
    if (takes)
        pthread_join(thread, NULL);
    give_back(comm, &buffers);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED || (!takes && status == KOLO_ERR_PEER), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    WORLD_EXPECT(atomic_load(&hold->is_taken), "rank 0 was not held");
    WORLD_EXPECT(is_untouched, "the buffer was written after the call had returned");
    return KOLO_OK;
}

ParameterizedTestParameters(route_board, memory_is_not_taken_from_a_writer)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, memory_is_not_taken_from_a_writer,
                  .timeout = 60)
{
    struct hold hold = {.pieces = 0};
    run(param->name, "KOLO_STALL=100ms", 3, taken_back_from_a_writer, &hold);
}

Test(route_board, nobody_touches_the_buffers_of_a_call_that_failed, .timeout = 120)
{
    static const long moments_us[] = {0, 1000, 3000, 7000, 15000, 31000};
    for (size_t i = 0; i < sizeof moments_us / sizeof moments_us[0]; i++) {
        long after_us = moments_us[i];
        run("shm", "KOLO_PLAN=auto", 3, broken_off, &after_us);
    }
}

/** A rank that has not come is named, by those that wait and by the others. */
static kolo_status one_is_late(struct kolo_comm *comm, void *argument)
{
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 700};
    float value = 1;
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    if (kolo_rank(comm) == 2)
        return KOLO_OK; /* stays in the job until the others have given up */
    status = kolo_allreduce(comm, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, &opts, NULL);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_PEER, "%s",
                 kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "rank 2 (") != NULL, "%s", kolo_error_detail());
    return KOLO_OK;
}

Test(route_board, the_rank_that_has_not_entered_is_named, .timeout = 60)
{
    run("shm", "KOLO_PLAN=auto", 3, one_is_late, NULL);
}

/* ---- broadcasts, of which nobody waits for all ---- */

enum { AHEAD_COUNT_MAX = 4000, RELAY_MAX = KOLO_BOARD_ENTRIES - 1 };

static int32_t told(int call, size_t index)
{
    return (int32_t)((uint32_t)call * 2654435761u + (uint32_t)index * 40503u);
}

static void tell_all(int32_t *data, size_t count, int call)
{
    for (size_t i = 0; i < count; i++)
        data[i] = told(call, i);
}

static kolo_status check_told(const int32_t *data, size_t count, int call)
{
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(data[i] == told(call, i), "call %d, element %zu of %zu: %d, not %d", call, i,
                     count, data[i], told(call, i));
    return KOLO_OK;
}

/** Makes and checks the broadcast of call @p call from @p root. */
static kolo_status tell(struct kolo_comm *comm, int call, int root, size_t count)
{
    int32_t data[AHEAD_COUNT_MAX];
    if (kolo_rank(comm) == root)
        tell_all(data, count, call);
    else
        memset(data, 0, count * sizeof *data);
    kolo_status status = kolo_broadcast(comm, data, count, KOLO_INT32, root, NULL, NULL);
    return status == KOLO_OK ? check_told(data, count, call) : status;
}

/** Rank 0 is the root of call 1, ranks 1 to relays of the next calls, then rank 0 again. The last
 * rank has entered call 1 and is delayed before it looks at what rank 0 shows. By then rank 0 has
 * everything from the others that it needs for its second broadcast. */
struct relay {
    int relays;
    size_t count;
    atomic_bool is_held, is_ahead;
};

static kolo_status run_behind(struct kolo_comm *comm, struct relay *relay)
{
    int32_t data[AHEAD_COUNT_MAX] = {0};
    struct kolo_request *request;
    /* enters the call */
    kolo_status status = kolo_broadcast(comm, data, relay->count, KOLO_INT32, 0, NULL, &request);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm); /* no other thread can make progress for this rank */
    atomic_store(&relay->is_held, true);
    (void)AWAIT(atomic_load(&relay->is_ahead));
    kolo_comm_leave(comm);
    status = kolo_wait(&request, -1);
    if (status == KOLO_OK)
        status = check_told(data, relay->count, 1);
    for (int call = 2; call <= relay->relays + 2 && status == KOLO_OK; call++)
        status = tell(comm, call, (call - 1) % (relay->relays + 1), relay->count);
    return status;
}

static kolo_status run_first(struct kolo_comm *comm, struct relay *relay)
{
    int32_t data[AHEAD_COUNT_MAX];
    struct kolo_request *request;
    (void)AWAIT(atomic_load(&relay->is_held));
    kolo_status status = KOLO_OK;
    for (int call = 1; call <= relay->relays + 1 && status == KOLO_OK; call++)
        status = tell(comm, call, call - 1, relay->count);
    if (status != KOLO_OK)
        return status;
    tell_all(data, relay->count, relay->relays + 2);
    status = kolo_broadcast(comm, data, relay->count, KOLO_INT32, 0, NULL, &request);
    atomic_store(&relay->is_ahead, true);
    return status == KOLO_OK ? kolo_wait(&request, -1) : status;
}

static kolo_status run_relay(struct kolo_comm *comm, void *argument)
{
    struct relay *relay = argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    if (kolo_rank(comm) == 0)
        return run_first(comm, relay);
    if (kolo_rank(comm) == relay->relays + 1)
        return run_behind(comm, relay);
    for (int call = 1; call <= relay->relays + 2 && status == KOLO_OK; call++)
        status = tell(comm, call, (call - 1) % (relay->relays + 1), relay->count);
    return status;
}

ParameterizedTestParameters(route_board, what_a_late_rank_needs_is_left)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, what_a_late_rank_needs_is_left,
                  .timeout = 120)
{
    static const size_t counts[] = {1, 300, AHEAD_COUNT_MAX}; /* in the entry; in the stage */
    for (int relays = 1; relays <= RELAY_MAX; relays++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            struct relay relay = {.relays = relays, .count = counts[c]};
            run(param->name, "KOLO_PLAN=oneshot", relays + 2, run_relay, &relay);
        }
}

/** What all ranks do in call @p call, which follows from its number. */
static kolo_status any_call(struct kolo_comm *comm, int call, uint32_t dice, int32_t *memory)
{
    static const size_t counts[] = {1, 8, 9, 300, 1000, AHEAD_COUNT_MAX};
    int n = kolo_size(comm), root = (int)(dice / 64 % (uint32_t)n);
    size_t count = counts[dice / 8 % 6];
    if (dice % 8 < 6) {
        int32_t *data = dice / 1024 % 2 == 0 ? memory : memory + AHEAD_COUNT_MAX;
        tell_all(data, count, kolo_rank(comm) == root ? call : -call);
        kolo_status status = kolo_broadcast(comm, data, count, KOLO_INT32, root, NULL, NULL);
        return status == KOLO_OK ? check_told(data, count, call) : status;
    }
    if (dice % 8 == 6) {
        int32_t one = call;
        kolo_status status = kolo_allreduce(comm, &one, &one, 1, KOLO_INT32, KOLO_MAX, NULL, NULL);
        WORLD_EXPECT(status != KOLO_OK || one == call, "call %d: allreduce gave %d", call, one);
        return status;
    }
    tell_all(memory, count, call + kolo_rank(comm));
    kolo_status status =
        kolo_reduce(comm, memory, memory, count, KOLO_INT32, KOLO_MIN, root, NULL, NULL);
    for (size_t i = 0; i < count && status == KOLO_OK && kolo_rank(comm) == root; i++) {
        int32_t least = told(call, i);
        for (int rank = 1; rank < n; rank++)
            least = told(call + rank, i) < least ? told(call + rank, i) : least;
        WORLD_EXPECT(memory[i] == least, "call %d: reduce gave %d, not %d", call, memory[i], least);
    }
    return status;
}

/** Many calls, with alternating roots or not, and with other collectives in between; each rank is
 * delayed at random. Half of the buffers are memory of the process. */
static kolo_status run_wild(struct kolo_comm *comm, void *argument)
{
    int calls = *(const int *)argument;
    uint32_t all = 1, own = (uint32_t)kolo_rank(comm) * 7919 + 3;
    int32_t plain[2 * AHEAD_COUNT_MAX];
    void *kolos;
    kolo_status status = kolo_alloc(comm, sizeof plain, &kolos);
    for (int call = 1; call <= calls && status == KOLO_OK; call++) {
        all = all * 1664525 + 1013904223;
        own = own * 1664525 + 1013904223;
        if (own >> 28 == 0)
            for (uint32_t i = own >> 20 & 0x3f; i > 0; i--)
                sched_yield();
        status = any_call(comm, call, all >> 8, all >> 31 == 0 ? plain : kolos);
    }
    if (status == KOLO_OK)
        status = kolo_free(comm, kolos);
    return status;
}

ParameterizedTestParameters(route_board, ranks_run_ahead)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, ranks_run_ahead, .timeout = 300)
{
    static const int sizes[] = {2, 3, 5, 8};
    int calls = 1000;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run(param->name, "KOLO_PLAN=auto", sizes[i], run_wild, &calls);
}

/** Ranks 0 to 2 are the roots of calls 1 to 3 and then meet in a barrier. Rank 3 comes when they
 * are through with call 1, and makes another call. */
struct late {
    int what;
    atomic_int through;
};

static kolo_status differ_late(struct kolo_comm *comm, struct late *late)
{
    int32_t value = 0;
    WORLD_EXPECT(AWAIT(atomic_load(&late->through) == 3), "the others are not through");
    if (late->what == 0) {
        /* waits for no other rank */
        WORLD_TRY(kolo_broadcast(comm, &value, 1, KOLO_INT32, 3, NULL, NULL));
        return kolo_barrier(comm, NULL, NULL);
    }
    if (late->what == 1)
        return kolo_broadcast(comm, &value, 1, KOLO_INT32, 1, NULL, NULL);
    if (late->what == 2)
        return kolo_barrier(comm, NULL, NULL);
    return kolo_broadcast(comm, &value, 1, KOLO_FLOAT32, 0, NULL, NULL);
}

static kolo_status disagree(struct kolo_comm *comm, void *argument)
{
    struct late *late = argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    int rank = kolo_rank(comm), call = 0;
    if (status == KOLO_OK && rank == 3)
        status = differ_late(comm, late);
    while (status == KOLO_OK && rank < 3 && ++call <= 3) {
        status = tell(comm, call, call - 1, 1);
        if (call == 1 && status == KOLO_OK)
            atomic_fetch_add(&late->through, 1);
    }
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "rank %d, call %d: %s: %s", rank, call,
                 kolo_status_name(status), kolo_error_detail());
    WORLD_EXPECT(strstr(kolo_error_detail(), "broadcast(count 1, int32, root 0)") &&
                     strstr(kolo_error_detail(), "sequence 1"),
                 "rank %d: %s", rank, kolo_error_detail());
    return KOLO_OK;
}

ParameterizedTestParameters(route_board, a_late_rank_that_differs_meets_somebody)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board,
                  a_late_rank_that_differs_meets_somebody, .timeout = 120)
{
    for (int what = 0; what < 4; what++) {
        struct late late = {.what = what};
        struct world world = {
            .size = 4,
            .transport = param->name,
            .settings = {"KOLO_TIMEOUT=60", "KOLO_STALL=30s", "KOLO_PLAN=oneshot"}};
        WORLD_MUST_RUN(&world, disagree, &late);
    }
}

/* How far a root runs ahead of a rank that does not come, if it waits for no rank of the world. */
struct ahead {
    size_t count;
    int bound;        /* calls that it completes by itself */
    bool has_one_yet; /* whether all have entered a collective before */
    bool is_of_part;
    atomic_bool may_come;
};

/** Makes broadcasts from rank 0 until one waits, and compares their number with the bound; then the
 * last rank comes. */
static kolo_status push_on(struct kolo_comm *comm, struct ahead *ahead)
{
    int32_t data[AHEAD_COUNT_MAX];
    struct kolo_request *request = NULL;
    kolo_status status = KOLO_OK;
    for (int call = 1; call <= ahead->bound && status == KOLO_OK; call++)
        status = tell(comm, call, 0, ahead->count);
    if (status != KOLO_OK)
        return status;
    tell_all(data, ahead->count, ahead->bound + 1);
    WORLD_TRY(kolo_broadcast(comm, data, ahead->count, KOLO_INT32, 0, NULL, &request));
    status = kolo_wait(&request, 50);
    WORLD_EXPECT(status == KOLO_AGAIN, "broadcast %d of %zu waits for nobody: %s", ahead->bound + 1,
                 ahead->count, kolo_status_name(status));
    atomic_store(&ahead->may_come, true);
    return kolo_wait(&request, -1);
}

static kolo_status run_on(struct kolo_comm *world, void *argument)
{
    struct ahead *ahead = argument;
    struct kolo_comm *comm = world;
    kolo_status status = KOLO_OK;
    if (ahead->is_of_part)
        status = kolo_dup(world, NULL, &comm);
    if (status == KOLO_OK && ahead->has_one_yet)
        status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        return push_on(comm, ahead);
    if (kolo_rank(comm) == kolo_size(comm) - 1)
        (void)AWAIT(atomic_load(&ahead->may_come));
    for (int call = 1; call <= ahead->bound + 1 && status == KOLO_OK; call++)
        status = tell(comm, call, 0, ahead->count);
    return status;
}

ParameterizedTestParameters(route_board, a_root_runs_ahead_as_far_as_there_is_room)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board,
                  a_root_runs_ahead_as_far_as_there_is_room, .timeout = 120)
{
    enum { MOST = KOLO_BOARD_ENTRIES - 1 };
    struct ahead all[] = {
        {.count = 1, .bound = MOST, .has_one_yet = true},   /* in the entry */
        {.count = 300, .bound = MOST, .has_one_yet = true}, /* short */
        {.count = AHEAD_COUNT_MAX, .bound = KOLO_BOARD_SHOWN, .has_one_yet = true},
        {.count = 1, .bound = 0},
        {.count = 1, .bound = 0, .has_one_yet = true, .is_of_part = true},
    };
    for (int size = 2; size <= 3; size++)
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            atomic_store(&all[i].may_come, false);
            run(param->name, "KOLO_PLAN=oneshot", size, run_on, &all[i]);
        }
}

/** Waits until all ranks below this one have left the job. */
static void await_those_below(struct kolo_comm *comm)
{
    for (int rank = 0; rank < kolo_rank(comm); rank++)
        while (comm->engine->left_ns[rank] == 0) {
            kolo_comm_enter(comm);
            kolo_engine_poll(comm->engine);
            kolo_comm_leave(comm);
            sched_yield();
        }
}

/** Ranks 0 (the root) and 1 have their data and leave; rank 2 comes after that. */
static kolo_status leave_early(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (kolo_rank(comm) == 2)
        await_those_below(comm);
    return status == KOLO_OK ? tell(comm, 1, 0, 300) : status;
}

ParameterizedTestParameters(route_board, a_rank_that_has_all_may_go)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, a_rank_that_has_all_may_go,
                  .timeout = 60)
{
    run(param->name, "KOLO_EXIT_TIMEOUT=100ms", 3, leave_early, NULL);
}

/* ---- what is found only at the end ---- */

/** Makes as many broadcasts as the root can without rank 1, which comes after the root has left,
 * and is the root of its own. */
static kolo_status differ_after_all(struct kolo_comm *comm, void *argument)
{
    enum { MOST = KOLO_BOARD_ENTRIES - 1 };
    int32_t value = 0;
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (kolo_rank(comm) == 1) {
        await_those_below(comm);
        comm->engine->has_left = false; /* as if it had not learned of it */
    }
    for (int call = 0; call < MOST && status == KOLO_OK; call++)
        status = kolo_broadcast(comm, &value, 1, KOLO_INT32, kolo_rank(comm), NULL, NULL);
    return status;
}

/** Rank 0 has left after a call that was closed: the root of the next call learns of it. */
static kolo_status tell_who_has_left(struct kolo_comm *comm, void *argument)
{
    int32_t value = 0;
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (kolo_rank(comm) == 0)
        return status;
    await_those_below(comm);
    if (status == KOLO_OK)
        status = kolo_broadcast(comm, &value, 1, KOLO_INT32, 1, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_PEER, "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

ParameterizedTestParameters(route_board, what_is_found_at_the_end_alone)
{
    return cr_make_param_array(struct transport_param, params, 2);
}
ParameterizedTest(struct transport_param *param, route_board, what_is_found_at_the_end_alone,
                  .timeout = 60)
{
    struct world world = {.size = 2,
                          .transport = param->name,
                          .settings = {"KOLO_TIMEOUT=20", "KOLO_EXIT_TIMEOUT=100ms"}};
    kolo_status status = world_run(&world, differ_after_all, NULL);
    cr_assert(status == KOLO_ERR_MISMATCH, "%s: %s", kolo_status_name(status), kolo_error_detail());
    run(param->name, "KOLO_PLAN=oneshot", 2, tell_who_has_left, NULL);
}

/* ---- a link that falls while its peer writes ---- */

enum { HELD_COUNT = 1 << 20, HELD_MS = 700, BEYOND_MS = 300, HELD_TRIALS = 20, MARK = 7 };

/** What both ranks of the world know, which are threads of this process. */
static struct {
    atomic_bool is_ready, is_armed, has_held;
    int ms;              /* how long */
    int64_t returned_ns; /* when rank 0's call had returned */
    int64_t left_ns;     /* when rank 1 had left its chunk */
} held;

static void pause_ms(int ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

/** A sum; rank 1, which has a context, stays in its first chunk for a while, and then writes. */
static void add_slowly(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    (void)dtype;
    const bool holds =
        context && atomic_load(&held.is_armed) && !atomic_exchange(&held.has_held, true);
    if (holds)
        pause_ms(held.ms);
    for (size_t i = 0; i < count; i++)
        ((float *)into)[i] += ((const float *)from)[i];
    if (holds)
        held.left_ns = kolo_now_ns();
}

/** Rank 1 lends new memory, of which rank 0 cannot take the descriptor: its link falls. */
static kolo_status break_link_of_other(struct kolo_comm *comm, void *lent)
{
    struct kolo_request *request;
    struct rlimit files;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = 3;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    WORLD_TRY(kolo_send(comm, lent, HELD_COUNT, KOLO_FLOAT32, 0, NULL, &request));
    atomic_store(&held.is_armed, true);
    atomic_store(&held.is_ready, true);
    return KOLO_OK;
}

static kolo_status write_late(struct kolo_comm *comm, void *argument)
{
    const int self = kolo_rank(comm);
    const struct kolo_op sum = {.size = sizeof sum,
                                .name = "held",
                                .fold = add_slowly,
                                .context = self == 1 ? &held : NULL};
    kolo_redop op;
    void *send, *recv, *lent;
    (void)argument;
    WORLD_TRY(kolo_op_create(comm, &sum, &op));
    WORLD_TRY(kolo_alloc(comm, HELD_COUNT * sizeof(float), &send));
    WORLD_TRY(kolo_alloc(comm, HELD_COUNT * sizeof(float), &recv));
    WORLD_TRY(kolo_alloc(comm, HELD_COUNT * sizeof(float), &lent));
    for (size_t i = 0; i < HELD_COUNT; i++)
        ((float *)send)[i] = 1;
    WORLD_TRY(kolo_allreduce(comm, send, recv, HELD_COUNT, KOLO_FLOAT32, op, NULL, NULL));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (self == 1)
        WORLD_TRY(break_link_of_other(comm, lent));
    while (!atomic_load(&held.is_ready))
        pause_ms(1);
    const kolo_status status =
        kolo_allreduce(comm, send, recv, HELD_COUNT, KOLO_FLOAT32, op, NULL, NULL);
    WORLD_EXPECT(status != KOLO_OK, "rank %d: the allreduce succeeded", self);
    if (self == 1)
        return KOLO_OK;
    for (size_t i = 0; i < HELD_COUNT; i++)
        ((volatile float *)recv)[i] = MARK;
    pause_ms(HELD_MS + BEYOND_MS);
    size_t written = 0;
    for (size_t i = 0; i < HELD_COUNT; i++)
        written += ((volatile float *)recv)[i] != MARK;
    WORLD_EXPECT(written == 0, "%zu elements were written after the call", written);
    return KOLO_OK;
}

/** Its link has fallen for a reason of its own: the peer may still be in a chunk. If rank 0 noticed
 * before rank 1 was in one, that was no trial. */
Test(route_board, a_call_whose_link_fell_reckons_with_writers_that_live, .timeout = 120)
{
    struct rlimit files;
    cr_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    held.ms = HELD_MS;
    for (int trial = 0; trial < HELD_TRIALS && !atomic_load(&held.has_held); trial++) {
        struct world world = {
            .size = 2, .transport = "shm", .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=twoshot"}};
        atomic_store(&held.is_armed, false);
        atomic_store(&held.is_ready, false);
        WORLD_MUST_RUN(&world, write_late, NULL);
        cr_assert(setrlimit(RLIMIT_NOFILE, &files) == 0);
    }
    cr_assert(atomic_load(&held.has_held), "rank 1 was never in a chunk");
}

/* ---- a call beside the memory of one that fails ---- */

enum { CUT_MS = 1800, CUT_DEADLINE_MS = 100, BESIDE_COUNT = HELD_COUNT - 100, TURNS = 1000 };

/** A call of rank 0 on another communicator. */
struct call_beside {
    struct kolo_comm *comm;
    const void *send;
    float *recv;
    kolo_status status;
    size_t wrong; /* elements, if it is OK */
};

static void *call_beside(void *argument)
{
    struct call_beside *call = argument;
    call->status = kolo_allreduce(call->comm, call->send, call->recv, BESIDE_COUNT, KOLO_FLOAT32,
                                  KOLO_SUM, NULL, NULL);
    for (size_t i = 0; i < BESIDE_COUNT; i++)
        call->wrong += call->status == KOLO_OK && call->recv[i] != 2;
    return NULL;
}

/** Rank 1 stays in a chunk of a call on the world until rank 0 has cut it off. On another
 * communicator rank 0 waits for it, with a buffer of the same allocation, *argument elements before
 * that of the call. Without any, the last page of the one is the first of the other. */
static kolo_status cut_beside(struct kolo_comm *comm, void *argument)
{
    const int self = kolo_rank(comm);
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = CUT_DEADLINE_MS};
    const struct kolo_op sum = {.size = sizeof sum,
                                .name = "held",
                                .fold = add_slowly,
                                .context = self == 1 ? &held : NULL};
    struct call_beside beside = {.wrong = 0};
    struct kolo_comm *turns;
    pthread_t thread;
    kolo_redop op;
    void *send, *both;
    const size_t gap = *(const size_t *)argument, both_count = BESIDE_COUNT + gap + HELD_COUNT;
    WORLD_TRY(kolo_op_create(comm, &sum, &op));
    WORLD_TRY(kolo_dup(comm, NULL, &beside.comm));
    WORLD_TRY(kolo_dup(comm, NULL, &turns));
    WORLD_TRY(kolo_alloc(comm, HELD_COUNT * sizeof(float), &send));
    WORLD_TRY(kolo_alloc(comm, both_count * sizeof(float), &both));
    for (size_t i = 0; i < HELD_COUNT; i++)
        ((float *)send)[i] = 1;
    beside.send = send;
    beside.recv = both;
    float *recv = beside.recv + BESIDE_COUNT + gap;
    WORLD_TRY(kolo_allreduce(comm, send, recv, HELD_COUNT, KOLO_FLOAT32, op, NULL, NULL));
    (void)call_beside(&beside);
    WORLD_EXPECT(beside.status == KOLO_OK && beside.wrong == 0, "%s", kolo_error_detail());
    memset(both, 0, BESIDE_COUNT * sizeof(float));
    if (self == 0)
        WORLD_EXPECT(pthread_create(&thread, NULL, call_beside, &beside) == 0, "no thread");
    else
        atomic_store(&held.is_armed, true);
    const kolo_status status = kolo_allreduce(comm, send, recv, HELD_COUNT, KOLO_FLOAT32, op,
                                              self == 0 ? &opts : NULL, NULL);
    if (self == 0)
        held.returned_ns = kolo_now_ns();
    WORLD_EXPECT(status != KOLO_OK, "rank %d: the allreduce succeeded", self);
    for (int i = 0; i < TURNS; i++) /* rank 1 hears of the cut before it comes */
        WORLD_TRY(kolo_barrier(turns, NULL, NULL));
    if (self == 0)
        (void)pthread_join(thread, NULL);
    else
        (void)call_beside(&beside);
    WORLD_EXPECT(beside.wrong == 0, "rank %d: %zu elements are wrong", self, beside.wrong);
    WORLD_EXPECT(beside.status == KOLO_OK || (gap == 0 && beside.status == KOLO_ERR_ABORTED),
                 "rank %d: %s", self, kolo_status_name(beside.status));
    return KOLO_OK;
}

/** Rank 1 is cut off soon, since other calls of rank 0 wait until that is done. */
static void must_cut_beside(size_t gap)
{
    struct world world = {
        .size = 2, .transport = "shm", .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=twoshot"}};
    held.ms = CUT_MS;
    WORLD_MUST_RUN(&world, cut_beside, &gap);
    cr_assert(atomic_load(&held.has_held), "rank 1 was never in a chunk");
    cr_assert(held.returned_ns < held.left_ns, "the call waited until rank 1 had left");
}

Test(route_board, a_call_whose_page_is_cut_off_is_not_wrong, .timeout = 120)
{
    must_cut_beside(0);
}

/** Both also have one input, which is severed. */
Test(route_board, a_call_in_other_pages_of_the_allocation_goes_on, .timeout = 120)
{
    must_cut_beside(HELD_COUNT);
}
