// SPDX-License-Identifier: Apache-2.0
// KOLO_CHECKSUM through whole calls: one bit of one frame changes on its way over TCP. Without
// checksums every rank returns KOLO_OK and some result is wrong. With them the call fails on all
// ranks that it concerns, the error names both ranks and the call, and whatever a rank returns with
// KOLO_OK is right. By every collective, and a send; between hosts also in plans of two levels.
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/any_collective.h"
#include "tests/support/flip.h"
#include "tests/support/hosts.h"
#include "tests/support/oracle.h"
#include "tests/support/world.h"

enum {
    RANKS = 4,
    LEAST = 64, /* frames of what synchronises the test are shorter */
    ANY_SEND = ANY_COLLECTIVES
};

static void end(void)
{
    flip_end();
}
TestSuite(runtime_checksum, .fini = end, .timeout = 300);

static const char *const words[] = {
    "allreduce(",      "reduce(",          "broadcast(", "allgather(", "allgatherv(",
    "reduce_scatter(", "reduce_scatterv(", "gather(",    "gatherv(",   "scatter(",
    "scatterv(",       "alltoall(",        "alltoallv(", "send("};

/** The case that the ranks carry out now. */
static struct {
    int which;
    size_t count;
    enum flip_place place;
    int nth;
} now;
static atomic_int wrong; /* ranks whose call returned KOLO_OK, but whose result is not right */

/** Rank 1 sends to rank 2. */
static kolo_status call_now(struct kolo_comm *comm, const void *send, void *recv)
{
    const struct any_call call = {.which = (enum any_collective)now.which,
                                  .dtype = KOLO_INT32,
                                  .op = KOLO_SUM,
                                  .count = now.count,
                                  .less = 1,
                                  .apart = now.count};
    if (now.which != ANY_SEND)
        return any_collective(comm, &call, send, recv);
    if (kolo_rank(comm) == 1)
        return kolo_send(comm, send, now.count, KOLO_INT32, 2, NULL, NULL);
    return kolo_rank(comm) == 2 ? kolo_recv(comm, recv, now.count, KOLO_INT32, 1, NULL, NULL)
                                : KOLO_OK;
}

static kolo_status twice(struct kolo_comm *comm, int32_t *send, int32_t *right, int32_t *recv)
{
    const struct oracle oracle = {KOLO_INT32, KOLO_SUM, kolo_size(comm), 5};
    const size_t count = now.count * (size_t)kolo_size(comm), bytes = count * sizeof *recv;
    oracle_fill(&oracle, kolo_rank(comm), 0, send, count);
    memcpy(right, send, bytes);
    memcpy(recv, send, bytes);
    WORLD_TRY(call_now(comm, send, right));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        flip_arm(-1, now.nth, LEAST, now.place);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(call_now(comm, send, recv));
    if (memcmp(right, recv, bytes) != 0)
        atomic_fetch_add(&wrong, 1);
    return KOLO_OK;
}

static kolo_status body(struct kolo_comm *comm, void *argument)
{
    const size_t bytes = now.count * (size_t)kolo_size(comm) * sizeof(int32_t);
    int32_t *memory[3] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    (void)argument;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (memory[0] && memory[1] && memory[2])
        status = twice(comm, memory[0], memory[1], memory[2]);
    if (status == KOLO_OK) /* a rank that has its result waits for those that may not */
        status = kolo_barrier(comm, NULL, NULL);
    for (int i = 0; i < 3; i++)
        free(memory[i]);
    return status;
}

/** Whether what follows the name of the call, up to its sequence number, is in the text once. */
static bool names_call_once(const char *text)
{
    const char *call = strstr(text, words[now.which]);
    const char *end = call ? strstr(call, " sequence ") : NULL;
    char name[320] = "";
    if (!end)
        return false;
    end += strlen(" sequence ");
    end += strspn(end, "0123456789");
    cr_assert((size_t)(end - call) < sizeof name, "%s", call);
    memcpy(name, call, (size_t)(end - call));
    return strstr(end, name) == NULL;
}

static void check_error(const struct world *world)
{
    int from = -1, to = -1;
    char who[64];
    (void)flip_done(&from, &to);
    for (int rank = 0; rank < world->size; rank++) {
        const struct world_result *result = &world->results[rank];
        cr_assert(result->status == KOLO_ERR_DATA, "%s, rank %d: %s: %s", words[now.which], rank,
                  kolo_status_name(result->status), result->text);
        snprintf(who, sizeof who, "rank %d (", from);
        cr_assert(strncmp(result->text, who, strlen(who)) == 0, "not %s: %s", who, result->text);
        snprintf(who, sizeof who, ", as rank %d (", to);
        cr_assert(strstr(result->text, who), "not %s: %s", who, result->text);
        cr_assert(names_call_once(result->text), "%s", result->text);
        cr_assert(strstr(result->text, " changed on the way here, over tcp "), "%s", result->text);
    }
}

static void run_now(const char *transport, const char *checksum, const char *plan)
{
    struct world world = {.size = RANKS, .transport = transport};
    kolo_status status = KOLO_ERR_PEER;
    for (int i = 0; i < WORLD_TRIES && (i == 0 || world_heard_late(&world)); i++) {
        flip_end();
        world = (struct world){.size = RANKS, .transport = transport, .settings = {checksum, plan}};
        atomic_store(&wrong, 0);
        status = world_run(&world, body, NULL);
        cr_assert(strcmp(checksum, "KOLO_CHECKSUM=0") == 0 || wrong == 0);
    }
    cr_assert(flip_done(NULL, NULL), "%s %s: nothing was changed: %s: %s", words[now.which], plan,
              kolo_status_name(status), kolo_error_detail());
    if (strcmp(checksum, "KOLO_CHECKSUM=0") == 0) {
        cr_assert(status == KOLO_OK, "%s: %s", words[now.which], world_cause(&world)->text);
        cr_assert(wrong > 0, "%s: the injector does nothing", words[now.which]);
    } else {
        cr_assert(wrong == 0, "%s: %d wrong results with KOLO_OK", words[now.which], wrong);
        check_error(&world);
    }
    flip_end();
}

Test(runtime_checksum, without_them_every_collective_is_silently_wrong)
{
    for (now.which = 0; now.which <= ANY_SEND; now.which++) {
        now.count = 1000;
        now.nth = 1;
        now.place = FLIP_MIDDLE;
        run_now("tcp", "KOLO_CHECKSUM=0", "KOLO_PLAN=auto");
    }
}

Test(runtime_checksum, with_them_every_collective_fails)
{
    for (now.which = 0; now.which <= ANY_SEND; now.which++)
        for (int i = 0; i < 4; i++) {
            now.count = i % 2 == 0 ? 50 : 200000;
            now.nth = 1 + i / 2 * (now.which == ANY_SEND ? 0 : 1);
            now.place = (enum flip_place)((now.which + i) % 3);
            run_now("tcp", "KOLO_CHECKSUM=1", "KOLO_PLAN=auto");
        }
}

Test(runtime_checksum, with_them_every_plan_of_an_allreduce_fails)
{
    static const char *const plans[] = {"KOLO_PLAN=ring", "KOLO_PLAN=doubling", "KOLO_PLAN=halving",
                                        "KOLO_PLAN=tree", "KOLO_PLAN=flat",     "KOLO_PLAN=direct"};
    now.which = ANY_ALLREDUCE;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        for (int j = 0; j < 3; j++) {
            now.count = j == 0 ? 80 : 100000;
            now.nth = 1 + 2 * j;
            now.place = (enum flip_place)j;
            run_now("tcp", "KOLO_CHECKSUM=0", plans[i]);
            run_now("tcp", "KOLO_CHECKSUM=1", plans[i]);
        }
}

Test(runtime_checksum, between_hosts_too)
{
    hosts_pretend(2);
    for (now.which = 0; now.which < ANY_COLLECTIVES; now.which++) {
        now.count = 100000;
        now.nth = 1;
        now.place = (enum flip_place)(now.which % 3);
        run_now("tcp", "KOLO_CHECKSUM=1", "KOLO_PLAN=auto");
    }
}
