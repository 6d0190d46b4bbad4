// SPDX-License-Identifier: Apache-2.0
// Ranks that come late or never: the deadline ends the call on every rank with the same text, and
// warnings before that name the ranks that are waited for.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"

/* ---- a rank that never calls ---- */

static kolo_status one_never_calls(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0};
    struct kolo_opts opts = {.size = sizeof opts, .name = "x", .timeout_ms = 700};
    (void)argument;
    if (kolo_rank(comm) != 2)
        return kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, &opts, NULL);
    struct timespec pause = {.tv_nsec = 50000000};
    kolo_status status = KOLO_ERR_TIMEOUT;
    for (int i = 0; i < 200; i++) { /* until it learns of the end */
        size_t bytes = 0;
        nanosleep(&pause, NULL);
        status = kolo_kv_get(comm, "never", NULL, &bytes, 1);
        if (!strstr(kolo_error_detail(), "'never'"))
            break;
    }
    return status;
}

ParameterizedTestParameters(timers, deadline)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, deadline, .timeout = 60)
{
    struct world world = {.size = 3, .transport = param->name};
    (void)world_run(&world, one_never_calls, NULL);
    for (int rank = 0; rank < 3; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_TIMEOUT, "rank %d: %s: %s", rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strstr(result->text, "allreduce(count 64, float32, sum) 'x' sequence 0") &&
                      strstr(result->text, "0.7 s passed, waiting for rank") &&
                      strstr(result->text, "; not there yet: rank 2 ("),
                  "rank %d: %s", rank, result->text);
        cr_assert(strcmp(result->text, world.results[0].text) == 0, "rank %d: %s", rank,
                  result->text);
    }
}

/** Two calls reach their deadline at the same time. The words are those of the first. */
static kolo_status two_are_late(struct kolo_comm *comm, void *argument)
{
    struct kolo_request *first = NULL, *second = NULL;
    float one[8] = {0}, other[8] = {0};
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 700, .name = "first"};
    kolo_status status;
    (void)argument;
    if (kolo_rank(comm) == 2)
        return one_never_calls(comm, NULL);
    KOLO_TRY(kolo_allreduce(comm, one, one, 8, KOLO_FLOAT32, KOLO_SUM, &opts, &first));
    opts.name = "second";
    KOLO_TRY(kolo_allreduce(comm, other, other, 8, KOLO_FLOAT32, KOLO_SUM, &opts, &second));
    status = kolo_wait(&first, -1);
    kolo_status later = kolo_wait(&second, -1);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT && later == status, "%s", kolo_status_name(later));
out:
    return status;
}

ParameterizedTestParameters(timers, two_deadlines)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, two_deadlines, .timeout = 60)
{
    struct world world = {.size = 3, .transport = param->name, .settings = {"KOLO_STALL=50ms"}};
    (void)world_run(&world, two_are_late, NULL);
    for (int rank = 0; rank < 3; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_TIMEOUT && strstr(result->text, "'first'") &&
                      !strstr(result->text, "'second'") &&
                      strstr(result->text, "; not there yet: rank 2 ("),
                  "rank %d: %s: %s", rank, kolo_status_name(result->status), result->text);
    }
}

/** Rank 3 waits in another call. In a ring the others wait for their neighbours, not for rank 3. */
static kolo_status one_is_elsewhere(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0};
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 700};
    (void)argument;
    if (kolo_rank(comm) == 3)
        return kolo_recv(comm, data, 64, KOLO_FLOAT32, 0, NULL, NULL);
    return kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, &opts, NULL);
}

ParameterizedTestParameters(timers, another_call)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, another_call, .timeout = 60)
{
    struct world world = {
        .size = 6, .transport = param->name, .settings = {"KOLO_PLAN=ring", "KOLO_STALL=50ms"}};
    (void)world_run(&world, one_is_elsewhere, NULL);
    for (int rank = 0; rank < 6; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_TIMEOUT &&
                      strstr(result->text, "; not there yet: rank 3 (") &&
                      strstr(result->text, ", in recv(count 64, float32, from rank 0) sequence "),
                  "rank %d: %s", rank, result->text);
    }
}

/* ---- which ranks a stall's warning names ---- */

enum { WARNINGS = 2, THROUGH = 2, LATE = 3, LATER = 4 };
static char warnings[WARNINGS][1024];
static atomic_int warning_count, through_count;

/** Keeps warnings about the broadcast, once the ranks that are not late are through: a busy machine
 * may delay these too by more than the time to a warning. */
static void keep_warning(void *context, enum kolo_log_level level, const char *line)
{
    int count = atomic_load(&warning_count);
    (void)context;
    (void)level;
    if (count == WARNINGS || atomic_load(&through_count) < THROUGH || !strstr(line, "broadcast(") ||
        !strstr(line, "not there yet"))
        return;
    snprintf(warnings[count], sizeof warnings[count], "%s", line);
    atomic_store(&warning_count, count + 1);
}

/** Waits without calling the library. */
static void await_warnings(int count)
{
    (void)AWAIT(atomic_load(&warning_count) >= count);
}

/** Two ranks come late to a broadcast, one after the other, while those that have their data
 * compute. Not in the world, whose broadcasts wait only for ranks that are needed. */
static kolo_status come_late(struct kolo_comm *comm, void *argument)
{
    char data[8] = {0};
    int rank = kolo_rank(comm);
    struct kolo_comm *copy = NULL;
    (void)argument;
    kolo_status status = kolo_dup(comm, NULL, &copy);
    if (status == KOLO_OK)
        status = kolo_barrier(copy, NULL, NULL); /* in the first call on a board all wait for all */
    if (rank == LATE || rank == LATER)
        await_warnings(rank == LATE ? 1 : 2);
    if (status == KOLO_OK)
        status = kolo_broadcast(copy, data, 8, KOLO_UINT8, 0, NULL, NULL);
    atomic_fetch_add(&through_count, 1);
    await_warnings(2);
    return status == KOLO_OK ? kolo_barrier(comm, NULL, NULL) : status;
}

static void check_warnings(const char *transport, const char *plan)
{
    struct world world = {
        .size = 5,
        .transport = transport,
        .settings = {"KOLO_TIMEOUT=40", "KOLO_STALL=50ms", "KOLO_STALL_WARN=1s", plan}};
    atomic_store(&warning_count, 0);
    atomic_store(&through_count, 0);
    WORLD_MUST_RUN(&world, come_late, NULL);
    cr_assert(atomic_load(&warning_count) == WARNINGS, "%s, %s", transport, plan);
    for (int i = 0; i < WARNINGS; i++)
        for (int rank = 0; rank < 5; rank++) {
            char name[16];
            bool is_late = rank == LATER || (rank == LATE && i == 0);
            snprintf(name, sizeof name, "rank %d (", rank);
            cr_assert((strstr(warnings[i], name) != NULL) == is_late, "%s, %s: %s", transport, plan,
                      warnings[i]);
        }
}

ParameterizedTestParameters(timers, warnings_name_who_is_late)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, warnings_name_who_is_late, .timeout = 120)
{
    kolo_log_set_sink(keep_warning, NULL);
    check_warnings(param->name, "KOLO_PLAN=tree");
    if (strcmp(param->name, "tcp") != 0)
        check_warnings(param->name, "KOLO_PLAN=oneshot");
    kolo_log_set_sink(NULL, NULL);
}

/* ---- the text of a warning about a message ---- */

enum { SAYS_OF_0 = 1, SAYS_OF_1 = 2, SAYS_OF_2 = 4 };
static atomic_int said;
/* rank 2 computes; before and after that the machine may be busy */
static atomic_bool is_computing;

static void note_warning(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (strstr(line, "recv(count 1, int64, from rank 1) sequence 0 on rank 0 (") &&
        strstr(line, ", in recv(count 1, int64, from rank 2) sequence 0)"))
        atomic_fetch_or(&said, SAYS_OF_0);
    if (strstr(line, "recv(count 1, int64, from rank 2) sequence 0 on rank 1 (") &&
        strstr(line, "; not there yet: rank 2 (") && !strstr(line, ", in "))
        atomic_fetch_or(&said, SAYS_OF_1);
    if (atomic_load(&is_computing) && strstr(line, " on rank 2 ("))
        atomic_fetch_or(&said, SAYS_OF_2);
}

/** Rank 2 waits for the first message of a request, and computes while the second does not come. */
static kolo_status compute_meanwhile(struct kolo_comm *comm, int64_t *word)
{
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct kolo_request *receiving = NULL;
    WORLD_TRY(kolo_recv(comm, word, 1, KOLO_INT64, 0, &again, &receiving));
    WORLD_TRY(kolo_run(receiving));
    WORLD_TRY(kolo_start(receiving));
    atomic_store(&is_computing, true);
    (void)AWAIT(atomic_load(&said) == (SAYS_OF_0 | SAYS_OF_1));
    atomic_store(&is_computing, false);
    WORLD_TRY(kolo_send(comm, word, 1, KOLO_INT64, 1, NULL, NULL));
    WORLD_TRY(kolo_wait(&receiving, -1));
    return kolo_request_free(&receiving);
}

/** 0 waits for 1, which waits for 2, which computes: the library then does not wait for 2's own
 * receive. */
static kolo_status chain_of_waits(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm);
    struct kolo_request *receiving = NULL;
    int64_t word = 0;
    (void)argument;
    if (rank == 2)
        return compute_meanwhile(comm, &word);
    if (rank == 0) {
        WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 2, NULL, NULL));
        WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 1, NULL, NULL));
        return kolo_send(comm, &word, 1, KOLO_INT64, 2, NULL, NULL);
    }
    WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 2, NULL, &receiving));
    WORLD_TRY(kolo_wait(&receiving, -1));
    return kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL);
}

ParameterizedTestParameters(timers, a_message_that_does_not_come_is_warned_of)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, a_message_that_does_not_come_is_warned_of,
                  .timeout = 120)
{
    struct world world = {.size = 3,
                          .transport = param->name,
                          .settings = {"KOLO_TIMEOUT=40", "KOLO_STALL=50ms", "KOLO_STALL_WARN=1s"}};
    atomic_store(&said, 0);
    atomic_store(&is_computing, false);
    kolo_log_set_sink(note_warning, NULL);
    WORLD_MUST_RUN(&world, chain_of_waits, NULL);
    kolo_log_set_sink(NULL, NULL);
    cr_assert(atomic_load(&said) == (SAYS_OF_0 | SAYS_OF_1), "%d", atomic_load(&said));
}

/* ---- a deadline while other things move ---- */

struct stream {
    struct kolo_comm *comm;
    atomic_bool is_enough;
    kolo_status status; /* of the receiving thread */
};

enum { STREAM_INTS = 1 << 18, STREAM_DEPTH = 4 };

/** Posts receives, a few in advance, until one brings a zero. */
static void *receive_all(void *argument)
{
    struct stream *stream = argument;
    struct kolo_request *requests[STREAM_DEPTH] = {NULL};
    int32_t *data = calloc((size_t)STREAM_INTS * STREAM_DEPTH, sizeof *data);
    for (int i = 0; stream->status == KOLO_OK; i = (i + 1) % STREAM_DEPTH) {
        int32_t *part = data + (size_t)i * STREAM_INTS;
        if (requests[i]) {
            stream->status = kolo_wait(&requests[i], -1);
            if (stream->status != KOLO_OK || part[0] == 0)
                break;
        }
        stream->status =
            kolo_recv(stream->comm, part, STREAM_INTS, KOLO_INT32, 1, NULL, &requests[i]);
    }
    for (int i = 0; i < STREAM_DEPTH; i++)
        if (requests[i] && kolo_wait(&requests[i], -1) != KOLO_OK)
            stream->status = KOLO_ERR_INTERNAL;
    free(data);
    return NULL;
}

/** Sends until there were enough messages, then zeros for the receives that are still posted. */
static kolo_status send_all(struct kolo_comm *comm, struct stream *stream)
{
    int32_t *data = calloc(STREAM_INTS, sizeof *data);
    kolo_status status = KOLO_OK;
    for (int zeros = 0; zeros < STREAM_DEPTH && status == KOLO_OK; zeros += data[0] == 0) {
        data[0] = !atomic_load(&stream->is_enough);
        status = kolo_send(comm, data, STREAM_INTS, KOLO_INT32, 0, NULL, NULL);
    }
    free(data);
    return status;
}

static kolo_status waits_beside_a_stream(struct kolo_comm *comm, void *argument)
{
    struct stream *stream = argument;
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 400};
    struct kolo_comm *quiet = NULL;
    pthread_t thread;
    kolo_status status = kolo_dup(comm, NULL, &quiet);
    if (status != KOLO_OK || kolo_rank(comm) == 1)
        return status == KOLO_OK ? send_all(comm, stream) : status;
    stream->comm = comm;
    if (pthread_create(&thread, NULL, receive_all, stream) != 0)
        return KOLO_ERR_SYSTEM;
    int64_t begun_ns = kolo_now_ns();
    status = kolo_barrier(quiet, &opts, NULL); /* rank 1 never calls it */
    int64_t took_ms = (kolo_now_ns() - begun_ns) / 1000000;
    atomic_store(&stream->is_enough, true);
    pthread_join(thread, NULL);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT, "%s", kolo_status_name(status));
    WORLD_EXPECT(took_ms >= 400 && took_ms < 10000, "it took %lld ms", (long long)took_ms);
    WORLD_EXPECT(stream->status == KOLO_OK, "the stream: %s", kolo_status_name(stream->status));
    return KOLO_OK;
}

ParameterizedTestParameters(timers, deadline_while_other_things_move)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, deadline_while_other_things_move,
                  .timeout = 60)
{
    struct stream stream = {.status = KOLO_OK};
    struct world world = {.size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=50"}};
    WORLD_MUST_RUN(&world, waits_beside_a_stream, &stream);
}

/* ---- words ---- */

static kolo_status has_milliseconds(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 25};
    size_t bytes = 0;
    (void)argument;
    const kolo_status status = kolo_rank(comm) == 1 /* waits until the communicator fails */
                                   ? kolo_kv_get(comm, "never", NULL, &bytes, -1)
                                   : kolo_barrier(comm, &opts, NULL);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT && strstr(kolo_error_detail(), " 0.025 s passed"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(timers, a_short_deadline_is_told_in_milliseconds, .timeout = 60)
{
    struct world world = {.size = 2, .settings = {"KOLO_TIMEOUT=40"}};
    WORLD_MUST_RUN(&world, has_milliseconds, NULL);
}

/* ---- a rank that has left ---- */

/** The second rank of a world that has nothing to do until the first one's call is over. */
struct idler {
    atomic_bool is_there, is_over;
};

/** Rank 0 hears from the store that rank 1 has left, which the test simulates. The deadline of its
 * call passes before the call counts as stalled. Rank 1 is through kolo_init by then: otherwise the
 * call may wait for what rank 1 says at its start. */
static kolo_status has_left_says_the_store(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 500};
    struct idler *idler = argument;
    if (kolo_rank(comm) == 1) {
        atomic_store(&idler->is_there, true);
        WORLD_EXPECT(AWAIT(atomic_load(&idler->is_over)), "rank 0 waits for ever");
        return KOLO_OK;
    }
    WORLD_EXPECT(AWAIT(atomic_load(&idler->is_there)), "rank 1 does not come");
    kolo_comm_enter(comm);
    comm->engine->left_ns[1] = kolo_now_ns();
    kolo_comm_leave(comm);
    const kolo_status status = kolo_barrier(comm, &opts, NULL);
    atomic_store(&idler->is_over, true);
    WORLD_EXPECT(status == KOLO_ERR_PEER && strstr(kolo_error_detail(), "rank 1 (") &&
                     strstr(kolo_error_detail(), "has left"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(timers, a_deadline_says_who_has_left, .timeout = 60)
{
    const char *const transports[] = {"shm", "tcp"}; /* inproc has a link, whose goodbye counts */
    for (int i = 0; i < 2; i++) {
        struct idler idler = {false, false};
        struct world world = {.size = 2,
                              .transport = transports[i],
                              .settings = {"KOLO_TIMEOUT=40", "KOLO_STALL=30"}};
        WORLD_MUST_RUN(&world, has_left_says_the_store, &idler);
    }
}

/* ---- a last message that is slower than the news of its sender's end ---- */

enum { SLOW_MS = 1500 };

/** Rank 0 hears from the store that rank 1 has left, which the test simulates, long before rank 1's
 * last message comes. */
static kolo_status last_message_is_slow(struct kolo_comm *comm, void *argument)
{
    const struct timespec pause = {.tv_sec = SLOW_MS / 1000, .tv_nsec = SLOW_MS % 1000 * 1000000};
    int64_t word = 0;
    (void)argument;
    /* the link is up */
    if (kolo_rank(comm) == 1)
        WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
    else
        WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 1, NULL, NULL));
    if (kolo_rank(comm) == 1) {
        word = 42;
        nanosleep(&pause, NULL);
        return kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL);
    }
    kolo_comm_enter(comm);
    comm->engine->left_ns[1] = kolo_now_ns();
    kolo_comm_leave(comm);
    WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 1, NULL, NULL));
    WORLD_EXPECT(word == 42, "%lld", (long long)word);
    return KOLO_OK;
}

ParameterizedTestParameters(timers, a_slow_last_message_arrives)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers, a_slow_last_message_arrives, .timeout = 60)
{
    struct world world = {
        .size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=40", "KOLO_STALL=50ms"}};
    WORLD_MUST_RUN(&world, last_message_is_slow, NULL);
}

/* ---- checks that take long ---- */

enum { WAITING = 50, CHECKS = 4, LOOK_US = 100 };

static int64_t looked_ns; /* for stalls, by rank 0, with its lock held */
static int looks;

static uint64_t look_long(const struct kolo_request *request)
{
    const int64_t began_ns = kolo_now_ns();
    while (kolo_now_ns() - began_ns < LOOK_US * 1000)
        ;
    looks++;
    looked_ns += kolo_now_ns() - began_ns;
    return kolo_route_links.moves(request);
}

static kolo_status checks_take_long(struct kolo_comm *comm, void *argument)
{
    static struct kolo_route slow;
    struct kolo_request *requests[WAITING];
    int64_t data[WAITING] = {0}, word = 0;
    (void)argument;
    if (kolo_rank(comm) == 1) {
        WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
        for (int i = 0; i < WAITING; i++)
            WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
        return KOLO_OK;
    }
    for (int i = 0; i < WAITING; i++)
        WORLD_TRY(kolo_recv(comm, &data[i], 1, KOLO_INT64, 1, NULL, &requests[i]));
    slow = kolo_route_links;
    slow.moves = look_long;
    kolo_comm_enter(comm);
    looked_ns = looks = 0;
    for (int i = 0; i < WAITING; i++)
        requests[i]->route = &slow;
    kolo_comm_leave(comm);
    const int64_t began_ns = kolo_now_ns();
    while (looks < WAITING * CHECKS)
        WORLD_EXPECT(kolo_test(&requests[0]) == KOLO_AGAIN, "not sent yet");
    const int64_t took_ns = kolo_now_ns() - began_ns;
    WORLD_EXPECT(looked_ns < took_ns / 4, "%lld of %lld ns", (long long)looked_ns,
                 (long long)took_ns);
    WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 1, NULL, NULL));
    for (int i = 0; i < WAITING; i++)
        WORLD_TRY(kolo_wait(&requests[i], -1));
    return KOLO_OK;
}

/** A check of all requests takes 5 ms, and a tick is half a millisecond. */
Test(timers, checks_leave_time_for_calls, .timeout = 60)
{
    struct world world = {
        .size = 2, .transport = "inproc", .settings = {"KOLO_TIMEOUT=30", "KOLO_STALL=1ms"}};
    WORLD_MUST_RUN(&world, checks_take_long, NULL);
}
