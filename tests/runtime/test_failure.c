// SPDX-License-Identifier: Apache-2.0
// How a communicator fails when ranks leave or abort: every rank must end with the same status and
// a text that names the culprit.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"
#include "transport/link.h"

/* ---- a rank that leaves ---- */

static kolo_status one_leaves(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0};
    (void)argument;
    if (kolo_rank(comm) == 1)
        return KOLO_OK;
    return kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
}

ParameterizedTestParameters(failure, early_finalize)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, failure, early_finalize, .timeout = 60)
{
    for (int size = 2; size <= 5; size++) {
        struct world world = {.size = size,
                              .transport = param->name,
                              .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=ring"}};
        (void)world_run(&world, one_leaves, NULL);
        for (int rank = 0; rank < size; rank++) {
            const struct world_result *result = &world.results[rank];
            if (rank == 1)
                continue;
            cr_assert(result->status == KOLO_ERR_PEER, "%s, %d ranks: rank %d: %s: %s", param->name,
                      size, rank, kolo_status_name(result->status), result->text);
            cr_assert(
                strstr(result->text, "rank 1 (") && strstr(result->text, "has left") &&
                    strstr(result->text, "during allreduce(count 64, float32, sum) sequence 0"),
                "rank %d: %s", rank, result->text);
        }
    }
}

/* ---- abort ---- */

static void *abort_soon(void *argument)
{
    struct timespec pause = {.tv_nsec = 100000000};
    nanosleep(&pause, NULL); /* most likely while the others wait; it must work in either case */
    kolo_abort(argument, "the disk is full");
    kolo_abort(argument, "a second reason");
    return NULL;
}

static kolo_status abort_from_another_thread(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0};
    pthread_t thread;
    (void)argument;
    if (kolo_rank(comm) != 1)
        return kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    if (pthread_create(&thread, NULL, abort_soon, comm) != 0)
        return KOLO_ERR_SYSTEM;
    kolo_status status = kolo_recv(comm, data, 64, KOLO_FLOAT32, 0, NULL, NULL);
    char text[KOLO_DETAIL_MAX];
    strcpy(text, kolo_error_detail());
    pthread_join(thread, NULL);
    return status == KOLO_OK ? status : kolo_fail(status, "%s", text);
}

ParameterizedTestParameters(failure, abort_while_waiting)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, failure, abort_while_waiting, .timeout = 60)
{
    struct world world = {.size = 4, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, abort_from_another_thread, NULL);
    for (int rank = 0; rank < 4; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_ABORTED, "rank %d: %s: %s", rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strstr(result->text, "rank 1 (") && strstr(result->text, "the disk is full") &&
                      strstr(result->text, "during "),
                  "rank %d: %s", rank, result->text);
    }
}

/* ---- a buffer is not touched after the failure ---- */

static kolo_status keeps_hands_off(struct kolo_comm *comm, void *argument)
{
    size_t count = 1 << 20;
    float *data = calloc(count, sizeof *data);
    struct timespec pause = {.tv_nsec = 20000000};
    (void)argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* an abort fails ranks that are in kolo_init */
    if (kolo_rank(comm) == 0) {
        nanosleep(&pause, NULL);
        kolo_abort(comm, "enough");
    }
    kolo_status status =
        kolo_allreduce(comm, data, data, count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    memset(data, 1, count * sizeof *data);
    free(data); /* ASan reports whoever still accesses it */
    return status;
}

ParameterizedTestParameters(failure, hands_off)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, failure, hands_off, .timeout = 60)
{
    for (int i = 0; i < 5; i++) {
        struct world world = {.size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
        (void)world_run(&world, keeps_hands_off, NULL);
        for (int rank = 0; rank < 3; rank++)
            cr_assert(world.results[rank].status == KOLO_ERR_ABORTED, "rank %d: %s: %s", rank,
                      kolo_status_name(world.results[rank].status), world.results[rank].text);
    }
}

/* ---- losses while a communicator is being made ---- */

static char heard[KOLO_DETAIL_MAX]; /* the text of what heard_by returns */

/** Opens communicator @p number of the first @p size ranks as the store's answer would, and returns
 * what it has heard. */
static kolo_status heard_by(struct kolo_engine *engine, uint32_t number, int size)
{
    struct kolo_comm *comm = NULL;
    if (kolo_comm_create(engine, size, &comm) != KOLO_OK)
        return KOLO_ERR_NO_MEMORY;
    for (int rank = 0; rank < size; rank++)
        comm->ranks[rank] = rank;
    kolo_comm_open(comm, number, 0, size);
    kolo_comm_hear(comm);
    const kolo_status status = comm->suspicion.status;
    snprintf(heard, sizeof heard, "%s", status != KOLO_OK ? comm->suspicion.text : "");
    kolo_comm_close(comm);
    kolo_comm_free(comm);
    return status;
}

/** The store says that rank 2 is lost right after an answer that still counts on it. @p scope: of
 * what the store says. */
static kolo_status is_lost_meanwhile(struct kolo_comm *comm, void *scope)
{
    enum { LOST = 2, FIRST = 1000 };
    struct kolo_endpoint_events unused;
    struct kolo_store_client_events events;
    struct kolo_engine *engine = comm->engine;
    const bool is_job = *(uint32_t *)scope == KOLO_STORE_JOB;
    if (kolo_rank(comm) != 0)
        return KOLO_OK;
    kolo_engine_events(engine, &unused, &events);
    kolo_engine_enter(engine);
    kolo_engine_creating(engine);
    events.failed(events.context, is_job ? -1 : LOST, *(uint32_t *)scope, KOLO_ERR_PEER, "killed");
    const kolo_status with = heard_by(engine, FIRST, LOST + 1);
    const kolo_status without = heard_by(engine, FIRST + 1, LOST);
    kolo_engine_created(engine);
    const kolo_status later = heard_by(engine, FIRST + 2, LOST + 1);
    kolo_engine_leave(engine);
    WORLD_EXPECT(with == KOLO_ERR_PEER, "its communicator: %s", kolo_status_name(with));
    WORLD_EXPECT(without == (is_job ? KOLO_ERR_PEER : KOLO_OK), "another one: %s",
                 kolo_status_name(without));
    WORLD_EXPECT(later == KOLO_OK, "a later one: %s", kolo_status_name(later));
    WORLD_EXPECT(!engine->has_lost_first, "rank 0 may still share something");
    return KOLO_OK;
}

Test(failure, a_communicator_that_is_being_made_hears_of_a_loss, .timeout = 60)
{
    uint32_t scopes[] = {KOLO_STORE_RANK, KOLO_STORE_JOB};
    for (int i = 0; i < 2; i++) {
        struct world world = {.size = 3, .transport = "inproc", .settings = {"KOLO_TIMEOUT=20"}};
        (void)world_run(&world, is_lost_meanwhile, &scopes[i]);
        cr_assert(world.results[0].status == KOLO_OK, "%s", world.results[0].text);
    }
}

/** A peer says over its link that a communicator has failed which this rank is just making. */
static kolo_status hears_an_abort(struct kolo_comm *comm, void *argument)
{
    enum { NUMBER = 2000 };
    struct kolo_endpoint_events events;
    struct kolo_store_client_events unused;
    struct kolo_engine *engine = comm->engine;
    (void)argument;
    if (kolo_rank(comm) != 0)
        return KOLO_OK;
    kolo_engine_events(engine, &events, &unused);
    kolo_engine_enter(engine);
    kolo_engine_creating(engine);
    events.aborted(events.context, 1, NUMBER, KOLO_ERR_PEER, "rank 1 has no memory");
    const kolo_status other = heard_by(engine, NUMBER + 1, 2), its = heard_by(engine, NUMBER, 2);
    kolo_engine_created(engine);
    kolo_engine_leave(engine);
    WORLD_EXPECT(other == KOLO_OK, "another one: %s", kolo_status_name(other));
    WORLD_EXPECT(its == KOLO_ERR_PEER && strcmp(heard, "rank 1 has no memory") == 0, "%s: %s",
                 kolo_status_name(its), heard);
    return KOLO_OK;
}

Test(failure, a_communicator_that_is_being_made_hears_of_an_abort, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc", .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, hears_an_abort, NULL);
    cr_assert(world.results[0].status == KOLO_OK, "%s", world.results[0].text);
}

/** A rank finds at a call that its link to the next one has broken. */
static kolo_status finds_a_broken_link(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    if (kolo_rank(comm) == 0) {
        kolo_comm_enter(comm);
        kolo_comm_suspect(comm, 1, KOLO_ERR_LINK, 0, "its link broke");
        kolo_comm_leave(comm);
    }
    return kolo_barrier(comm, NULL, NULL);
}

Test(failure, a_broken_link_is_a_lost_peer, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc", .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, finds_a_broken_link, NULL);
    for (int rank = 0; rank < 2; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_expect(result->status == KOLO_ERR_PEER && strstr(result->text, "its link broke"),
                  "rank %d: %s: %s", rank, kolo_status_name(result->status), result->text);
    }
}

/** Rank 0 hears from the store that rank 1 has left, which the test simulates, and then cannot
 * reach it: by a link that was up and broke, or by none. */
static kolo_status misses_one_that_left(struct kolo_comm *comm, void *argument)
{
    const bool had_link = *(const bool *)argument;
    struct kolo_link *link = NULL;
    float value = 1;
    if (had_link)
        WORLD_TRY(kolo_allreduce(comm, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    if (kolo_rank(comm) != 0)
        return kolo_recv(comm, &value, 1, KOLO_FLOAT32, 0, NULL, NULL);
    kolo_comm_enter(comm);
    comm->engine->left_ns[1] = kolo_now_ns();
    const kolo_status status = kolo_endpoint_link(comm->engine->endpoint, 1, KOLO_NEVER, &link);
    if (status == KOLO_OK && had_link)
        kolo_link_set_down(link, kolo_fail(KOLO_ERR_LINK, "no answer for 3 s"));
    else if (status == KOLO_OK)
        kolo_link_set_down(link, kolo_fail(KOLO_ERR_CONNECT, "connection refused"));
    kolo_comm_leave(comm);
    WORLD_TRY(status);
    return kolo_recv(comm, &value, 1, KOLO_FLOAT32, 1, NULL, NULL);
}

Test(failure, a_rank_that_left_behind_a_broken_link_is_told_with_its_cause, .timeout = 60)
{
    for (int had_link = 0; had_link < 2; had_link++) {
        bool argument = had_link != 0;
        struct world world = {.size = 2, .transport = "tcp", .settings = {"KOLO_TIMEOUT=20"}};
        (void)world_run(&world, misses_one_that_left, &argument);
        const char *text = world.results[0].text;
        cr_assert(world.results[0].status == KOLO_ERR_PEER && strncmp(text, "rank 1 (", 8) == 0 &&
                      strstr(text, ") has left (finalized its communicator)"),
                  "%s: %s", kolo_status_name(world.results[0].status), text);
        cr_assert((strstr(text, "and its link to rank 0 (") != NULL) == argument &&
                      (strstr(text, "broke before all had come: no answer for 3 s") != NULL) ==
                          argument &&
                      !strstr(text, "connection refused"),
                  "%s", text);
    }
}

/* ---- a rank that lacks something ---- */

/** Rank 1 has no memory for its first message to rank 2. The others make their calls when that has
 * happened, so that the allocation which fails is rank 1's. */
static kolo_status lacks_memory(struct kolo_comm *comm, void *argument)
{
    atomic_bool *has_failed = argument;
    const struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_PERSISTENT};
    struct kolo_request *request = NULL;
    float value = 1;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) != 1) {
        WORLD_EXPECT(AWAIT(atomic_load(has_failed)), "rank 1 has not failed");
        return kolo_barrier(comm, NULL, NULL);
    }
    WORLD_TRY(kolo_send(comm, &value, 1, KOLO_FLOAT32, 2, &opts, &request));
    kolo_alloc_fail_nth(1);
    kolo_status status = kolo_start(request);
    kolo_alloc_fail_nth(0);
    atomic_store(has_failed, true);
    return status == KOLO_OK ? kolo_wait(&request, -1) : status;
}

Test(failure, a_rank_that_lacks_memory_blames_no_peer, .timeout = 60)
{
    static const char words[] = "), for its link to rank 2 (";
    atomic_bool has_failed = false;
    struct world world = {.size = 3, .transport = "tcp", .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, lacks_memory, &has_failed);
    for (int rank = 0; rank < 3; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_NO_MEMORY, "rank %d: %s: %s", rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strncmp(result->text, "rank 1 (", 8) == 0 && strstr(result->text, words),
                  "rank %d: %s", rank, result->text);
    }
}

/** Rank 0's own links go down, for the statuses of the table. */
static kolo_status goes_down(struct kolo_comm *comm, void *argument)
{
    static const struct {
        kolo_status why;
        const char *first;
    } rows[] = {{KOLO_ERR_NO_MEMORY, "rank 0 ("},
                {KOLO_ERR_SYSTEM, "rank 0 ("},
                {KOLO_ERR_LINK, "rank 1 ("},
                {KOLO_ERR_DATA, "rank 1 ("}};
    struct kolo_endpoint_events events;
    struct kolo_store_client_events unused;
    struct kolo_engine *engine = comm->engine;
    kolo_status status = KOLO_OK;
    (void)argument;
    if (kolo_rank(comm) != 0)
        return KOLO_OK;
    kolo_engine_events(engine, &events, &unused);
    kolo_engine_enter(engine);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == KOLO_OK; i++) {
        events.down(events.context, 1, rows[i].why, "what happened");
        const char *text = comm->suspicion.text;
        if (strncmp(text, rows[i].first, 8) != 0 || !strstr(text, "what happened"))
            status = kolo_fail(KOLO_ERR_INTERNAL, "%s: %s", kolo_status_name(rows[i].why), text);
        comm->suspicion.status = KOLO_OK;
    }
    kolo_engine_leave(engine);
    return status;
}

Test(failure, a_broken_link_is_blamed_on_the_side_that_lacks_something, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "inproc", .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, goes_down, NULL);
    cr_assert(world.results[0].status == KOLO_OK, "%s", world.results[0].text);
}

/** Rank 1 lacks something that has to do with no link. */
static kolo_status lacks_something(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 1) {
        kolo_comm_enter(comm);
        kolo_comm_fail_here(comm, KOLO_ERR_NO_MEMORY, "cannot allocate 4 bytes");
        kolo_comm_leave(comm);
    }
    const kolo_status status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_NO_MEMORY && strncmp(kolo_error_detail(), "rank 1 (", 8) == 0,
                 "%s", kolo_error_detail());
    return KOLO_OK;
}

Test(failure, what_a_rank_lacks_is_told_with_its_name, .timeout = 60)
{
    struct world world = {.size = 3, .settings = {"KOLO_TIMEOUT=20"}};
    WORLD_MUST_RUN(&world, lacks_something, NULL);
}
