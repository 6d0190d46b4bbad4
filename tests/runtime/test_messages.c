// SPDX-License-Identifier: Apache-2.0
// Messages that wait are advanced only if they may go on, however often everything is polled; and
// all that are over are found, in whatever order they end.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "runtime/comm.h"
#include "tests/support/world.h"

enum { MANY = 300, POLLS = 1000 };

static int advanced; /* of rank 0, with its lock held */

static bool count_and_advance(struct kolo_request *request)
{
    advanced++;
    return kolo_route_links.advance(request);
}

/** Makes the requests count how often they are advanced. */
static void watch(struct kolo_comm *comm, struct kolo_request *requests[])
{
    static struct kolo_route counting;
    counting = kolo_route_links;
    counting.advance = count_and_advance;
    kolo_comm_enter(comm);
    advanced = 0;
    for (int i = 0; i < MANY; i++)
        requests[i]->route = &counting;
    kolo_comm_leave(comm);
}

static int count_advanced(struct kolo_comm *comm)
{
    kolo_comm_enter(comm);
    const int count = advanced;
    kolo_comm_leave(comm);
    return count;
}

static kolo_status receive_many(struct kolo_comm *comm)
{
    struct kolo_request *requests[MANY];
    int64_t data[MANY] = {0}, word = 0;
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_recv(comm, &data[i], 1, KOLO_INT64, 1, NULL, &requests[i]));
    watch(comm, requests);
    for (int i = 0; i < POLLS; i++)
        WORLD_EXPECT(kolo_test(&requests[i % MANY]) == KOLO_AGAIN, "not sent yet");
    /* works that are not of messages may have ended meanwhile */
    WORLD_EXPECT(count_advanced(comm) < POLLS * MANY / 10, "%d times in vain", advanced);
    WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 1, NULL, NULL));
    for (int i = MANY - 1; i >= 0; i--)
        WORLD_TRY(kolo_wait(&requests[i], -1));
    for (int i = 0; i < MANY; i++)
        WORLD_EXPECT(data[i] == i * 3, "message %d: %lld", i, (long long)data[i]);
    return KOLO_OK;
}

static kolo_status many_wait(struct kolo_comm *comm, void *argument)
{
    int64_t word = 0;
    (void)argument;
    if (kolo_rank(comm) == 0)
        return receive_many(comm);
    WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
    for (int i = 0; i < MANY; i++) {
        word = i * 3;
        WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
    }
    return KOLO_OK;
}

ParameterizedTestParameters(messages, many_that_wait_cost_nothing)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, messages, many_that_wait_cost_nothing, .timeout = 60)
{
    struct world world = {.size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=30"}};
    WORLD_MUST_RUN(&world, many_wait, NULL);
}

/* ---- behind others that wait ---- */

enum {
    LONG = 4096 /* elements: no transport takes a message of so many before its receiver is there */
};

/** The sends, which began last, end while all receives wait. */
static kolo_status send_behind_receives(struct kolo_comm *comm)
{
    static int64_t out[LONG];
    struct kolo_request *receives[MANY], *sends[MANY];
    int64_t data[MANY] = {0}, word = 0;
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_recv(comm, &data[i], 1, KOLO_INT64, 1, NULL, &receives[i]));
    watch(comm, receives);
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_send(comm, out, LONG, KOLO_INT64, 1, NULL, &sends[i]));
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_wait(&sends[i], -1));
    WORLD_EXPECT(count_advanced(comm) == 0, "%d times in vain", advanced);
    WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 1, NULL, NULL));
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_wait(&receives[i], -1));
    return KOLO_OK;
}

static kolo_status sends_behind(struct kolo_comm *comm, void *argument)
{
    static int64_t in[LONG];
    int64_t word = 0;
    (void)argument;
    if (kolo_rank(comm) == 0)
        return send_behind_receives(comm);
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_recv(comm, in, LONG, KOLO_INT64, 0, NULL, NULL));
    WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
    for (int i = 0; i < MANY; i++)
        WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
    return KOLO_OK;
}

ParameterizedTestParameters(messages, sends_that_end_do_not_advance_receives)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, messages, sends_that_end_do_not_advance_receives,
                  .timeout = 60)
{
    struct world world = {.size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=30"}};
    WORLD_MUST_RUN(&world, sends_behind, NULL);
}

/* ---- in another order than they began ---- */

enum { PER_PEER = 50, PEERS = 3 };

/** Peer 3's messages end first, though they began last; among them are sends, which end on their
 * own. */
static kolo_status receive_backwards(struct kolo_comm *comm)
{
    struct kolo_request *in[PEERS + 1][PER_PEER], *out[PEERS + 1];
    int64_t data[PEERS + 1][PER_PEER], word = 0;
    for (int peer = 1; peer <= PEERS; peer++)
        for (int i = 0; i < PER_PEER; i++)
            WORLD_TRY(kolo_recv(comm, &data[peer][i], 1, KOLO_INT64, peer, NULL, &in[peer][i]));
    for (int peer = PEERS; peer >= 1; peer--) {
        WORLD_TRY(kolo_send(comm, &word, 1, KOLO_INT64, peer, NULL, &out[peer]));
        for (int i = 0; i < PER_PEER; i++) {
            WORLD_TRY(kolo_wait(&in[peer][i], -1));
            WORLD_EXPECT(data[peer][i] == peer * 1000 + i, "message %d of %d: %lld", i, peer,
                         (long long)data[peer][i]);
        }
        WORLD_EXPECT(peer == 1 || kolo_test(&in[1][0]) == KOLO_AGAIN, "nobody has sent that");
        WORLD_TRY(kolo_wait(&out[peer], -1));
    }
    return KOLO_OK;
}

static kolo_status backwards(struct kolo_comm *comm, void *argument)
{
    struct kolo_request *requests[PER_PEER];
    int64_t data[PER_PEER], word = 0;
    const int rank = kolo_rank(comm);
    (void)argument;
    if (rank == 0)
        return receive_backwards(comm);
    WORLD_TRY(kolo_recv(comm, &word, 1, KOLO_INT64, 0, NULL, NULL));
    for (int i = 0; i < PER_PEER; i++) {
        data[i] = rank * 1000 + i;
        WORLD_TRY(kolo_send(comm, &data[i], 1, KOLO_INT64, 0, NULL, &requests[i]));
    }
    for (int i = PER_PEER - 1; i >= 0; i--)
        WORLD_TRY(kolo_wait(&requests[i], -1));
    return KOLO_OK;
}

ParameterizedTestParameters(messages, all_that_are_over_are_found)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, messages, all_that_are_over_are_found, .timeout = 60)
{
    struct world world = {
        .size = PEERS + 1, .transport = param->name, .settings = {"KOLO_TIMEOUT=30"}};
    WORLD_MUST_RUN(&world, backwards, NULL);
}
