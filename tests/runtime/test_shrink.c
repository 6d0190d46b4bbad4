// SPDX-License-Identifier: Apache-2.0
// kolo_shrink among threads: ranks that leave in the middle, once and repeatedly, also while others
// shrink; shrinking a part of the world; without a loss; a member that does not come, or comes when
// the time of another is nearly over; a call that goes on from one whose time was over; a rank that
// is left out; and wrong calls. tests/launcher/shrink.sh kills ranks.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/comm.h"
#include "runtime/failure.h"
#include "runtime/split.h"
#include "runtime/store_stall.h"
#include "tests/support/world.h"

static void run(const char *transport, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct world world = {
        .size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=30", "KOLO_STALL=100ms"}};
    kolo_status status = world_run(&world, body, argument);
    char detail[KOLO_DETAIL_MAX];
    snprintf(detail, sizeof detail, "%s", kolo_error_detail());
    /* all other ranks, because one that ends makes the others shrink further */
    for (int rank = 0; rank < size; rank++)
        cr_expect(world.results[rank].status == KOLO_OK, "%s, rank %d of %d: %s: %s", transport,
                  rank, size, kolo_status_name(world.results[rank].status),
                  world.results[rank].text);
    cr_assert(status == KOLO_OK, "%s: %s: %s", transport, kolo_status_name(status), detail);
}

#define ON_ALL(test, size, body)                                                                   \
    ParameterizedTestParameters(shrink, test)                                                      \
    {                                                                                              \
        return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);                \
    }                                                                                              \
    ParameterizedTest(struct world_param *param, shrink, test, .timeout = 60)                      \
    {                                                                                              \
        run(param->name, size, body, NULL);                                                        \
    }

/** A verified allreduce, long enough to be in progress when a rank leaves, and an allgather that
 * shows the order. @p numbers: each member's contribution. */
static kolo_status work(struct kolo_comm *comm, int mine, const int *numbers, int count)
{
    enum { LENGTH = 40000 };
    int64_t *data = calloc(LENGTH, sizeof *data), sum = 0, all[WORLD_RANKS_MAX];
    kolo_status status;
    for (int i = 0; i < count; i++)
        sum += numbers[i];
    for (int i = 0; i < LENGTH; i++)
        data[i] = mine + i;
    KOLO_TRY(kolo_allreduce(comm, data, data, LENGTH, KOLO_INT64, KOLO_SUM, NULL, NULL));
    if (kolo_size(comm) != count) {
        status = kolo_fail(KOLO_ERR_INTERNAL, "%d ranks, not %d", kolo_size(comm), count);
        goto out;
    }
    for (int64_t i = 0; i < LENGTH; i++)
        if (data[i] != sum + count * i)
            status = kolo_fail(KOLO_ERR_INTERNAL, "element %lld is %lld", (long long)i,
                               (long long)data[i]);
    sum = mine;
    if (status == KOLO_OK)
        KOLO_TRY(kolo_allgather(comm, &sum, all, 1, KOLO_INT64, NULL, NULL));
    for (int i = 0; i < count && status == KOLO_OK; i++)
        if (all[i] != numbers[i])
            status = kolo_fail(KOLO_ERR_INTERNAL, "member %d is %lld, not %d", i, (long long)all[i],
                               numbers[i]);
out:
    free(data);
    return status;
}

/** Works until the loss is noticed. */
static kolo_status notice(struct kolo_comm *comm)
{
    enum { ROUNDS = 10000 };
    kolo_status status = KOLO_OK;
    int32_t value = 0;
    for (int i = 0; i < ROUNDS && status == KOLO_OK; i++)
        status = kolo_allreduce(comm, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    /* by the link, if the store was slower to report that the rank has left */
    WORLD_EXPECT(status == KOLO_ERR_PEER || kolo_status_lost(status) == KOLO_LOST_LINK, "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

static kolo_status one_after_the_other(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm);
    int all[] = {0, 1, 2, 3, 4}, four[] = {0, 1, 3, 4}, three[] = {1, 3, 4};
    struct kolo_comm *second = NULL, *third = NULL;
    kolo_status status;
    (void)argument;
    KOLO_TRY(work(comm, rank, all, 5));
    if (rank == 2)
        return KOLO_OK; /* leaves */
    KOLO_TRY(notice(comm));
    KOLO_TRY(kolo_shrink(comm, NULL, &second));
    KOLO_TRY(work(second, rank, four, 4));
    if (rank == 0)
        return KOLO_OK;
    KOLO_TRY(notice(second));
    KOLO_TRY(kolo_shrink(second, NULL, &third));
    KOLO_TRY(kolo_finalize(second));
    KOLO_TRY(work(third, rank, three, 3));
    KOLO_TRY(kolo_finalize(third));
out:
    return status;
}

ON_ALL(twice_in_a_row, 5, one_after_the_other)

/** Rank 1 leaves after the others have begun to shrink. */
static kolo_status leaves_meanwhile(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), left[] = {0, 3};
    struct kolo_comm *some = NULL;
    int64_t count = 0;
    kolo_status status;
    (void)argument;
    if (rank == 2)
        return KOLO_OK;
    KOLO_TRY(notice(comm));
    if (rank == 1)
        return KOLO_OK; /* the others wait for it in the store */
    KOLO_TRY(kolo_shrink(comm, NULL, &some));
    KOLO_TRY(work(some, rank, left, 2));
    KOLO_TRY(kolo_kv_add(some, "there", 1, &count)); /* and the store still serves it */
out:
    return status;
}

ON_ALL(who_leaves_meanwhile_is_left_out, 4, leaves_meanwhile)

/** One half loses a rank and shrinks; the other half never notices. */
static kolo_status of_a_part(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), even[] = {0, 2, 4}, odd[] = {1, 5}, everybody[] = {0, 1, 2, 4, 5};
    struct kolo_comm *half = NULL, *rest = NULL, *all = NULL;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, rank % 2, 0, NULL, &half));
    /* a half that some members do not have yet would fail together with the world */
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    if (rank == 3)
        return KOLO_OK;
    if (rank % 2 == 0) {
        for (int i = 0; i < 20; i++)
            KOLO_TRY(work(half, rank, even, 3));
    } else {
        KOLO_TRY(notice(half));
        KOLO_TRY(kolo_shrink(half, NULL, &rest));
        KOLO_TRY(work(rest, rank, odd, 2));
    }
    KOLO_TRY(notice(comm));
    KOLO_TRY(kolo_shrink(comm, NULL, &all));
    KOLO_TRY(work(all, rank, everybody, 5));
    if (rank % 2 == 0)
        KOLO_TRY(work(half, rank, even, 3));
out:
    return status;
}

ON_ALL(a_part_shrinks_alone, 6, of_a_part)

/** No rank is lost: a communicator that was aborted, and one that one rank gives up. */
static kolo_status without_a_loss(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), all[] = {0, 1, 2};
    struct kolo_comm *second = NULL, *third = NULL;
    size_t bytes = 0;
    kolo_status status;
    (void)argument;
    if (rank == 1) { /* a rank that is still starting would not get here */
        KOLO_TRY(kolo_kv_get(comm, "0 is up", NULL, &bytes, -1));
        KOLO_TRY(kolo_kv_get(comm, "2 is up", NULL, &bytes, -1));
        kolo_abort(comm, "again");
    } else {
        status = kolo_kv_set(comm, rank == 0 ? "0 is up" : "2 is up", "", 0);
        WORLD_EXPECT(status == KOLO_OK || status == KOLO_ERR_ABORTED, "%s: %s",
                     kolo_status_name(status), kolo_error_detail());
    }
    status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED, "%s", kolo_status_name(status));
    KOLO_TRY(kolo_shrink(comm, NULL, &second));
    KOLO_TRY(work(second, rank, all, 3));
    if (rank == 0) { /* otherwise it would disturb ranks that are still at work */
        KOLO_TRY(kolo_kv_get(second, "1 is through", NULL, &bytes, -1));
        KOLO_TRY(kolo_kv_get(second, "2 is through", NULL, &bytes, -1));
    } else {
        status = kolo_kv_set(second, rank == 1 ? "1 is through" : "2 is through", "", 0);
        WORLD_EXPECT(status == KOLO_OK || status == KOLO_ERR_ABORTED, /* rank 0 may be faster */
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
        status = kolo_barrier(second, NULL, NULL);
        WORLD_EXPECT(status == KOLO_ERR_ABORTED &&
                         strstr(kolo_error_detail(), "shrinks the communicator"),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
    }
    KOLO_TRY(kolo_shrink(second, NULL, &third));
    KOLO_TRY(work(third, rank, all, 3));
out:
    return status;
}

ON_ALL(without_a_loss_all_are_there, 3, without_a_loss)

/** Rank 0 shrinks a communicator while it suspects a loss that the others have not noticed. */
static kolo_status before_the_verdict(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), all[] = {0, 1, 2};
    struct kolo_comm *part = NULL, *some = NULL;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_dup(comm, NULL, &part));
    if (rank == 0) {
        kolo_comm_enter(part);
        kolo_comm_suspect(part, -1, KOLO_ERR_PEER, KOLO_VERDICT_GRACE_MS / 10, "its link broke");
        kolo_comm_leave(part);
    } else {
        status = kolo_barrier(part, NULL, NULL);
        WORLD_EXPECT(status == KOLO_ERR_PEER && strstr(kolo_error_detail(), "its link broke"),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
    }
    KOLO_TRY(kolo_shrink(part, NULL, &some));
    status = kolo_barrier(part, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_PEER, "%s", kolo_status_name(status));
    KOLO_TRY(work(some, rank, all, 3));
out:
    return status;
}

ON_ALL(a_suspected_loss_is_the_cause, 3, before_the_verdict)

/** Rank 3 finalizes a part and lives on: before the part fails, after that, or when the others have
 * begun to shrink it. */
static kolo_status finalizes_it(struct kolo_comm *comm, struct kolo_comm *part, const char *when)
{
    char byte;
    size_t bytes = sizeof byte;
    kolo_status status = KOLO_OK;
    if (strcmp(when, "before") != 0)
        KOLO_TRY(kolo_kv_get(comm, when, &byte, &bytes, -1));
    KOLO_TRY(kolo_finalize(part));
    KOLO_TRY(kolo_kv_set(comm, "finalized", "", 0));
    bytes = sizeof byte;
    KOLO_TRY(kolo_kv_get(comm, "shrunk", &byte, &bytes, -1)); /* the others do not wait for it */
out:
    return status;
}

static kolo_status one_has_finalized(struct kolo_comm *comm, void *argument)
{
    const char *when = argument;
    int rank = kolo_rank(comm), all[] = {0, 1, 2, 3}, three[] = {0, 1, 2};
    struct kolo_comm *part = NULL, *some = NULL;
    size_t bytes = 0;
    kolo_status status;
    KOLO_TRY(kolo_dup(comm, NULL, &part));
    KOLO_TRY(work(part, rank, all, 4));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    if (rank == 3) {
        KOLO_TRY(finalizes_it(comm, part, when));
    } else {
        if (strcmp(when, "before") == 0)
            KOLO_TRY(kolo_kv_get(comm, "finalized", NULL, &bytes, -1));
        kolo_abort(part, "it is broken");
        if (strcmp(when, "failed") == 0 && rank == 0)
            KOLO_TRY(kolo_kv_set(comm, "failed", "", 0));
        if (strcmp(when, "asked") == 0 && rank == 0)
            KOLO_TRY(kolo_kv_set(comm, "asked", "", 0));
        KOLO_TRY(kolo_shrink(part, NULL, &some));
        KOLO_TRY(work(some, rank, three, 3));
        KOLO_TRY(kolo_finalize(part));
        if (rank == 0)
            KOLO_TRY(kolo_kv_set(comm, "shrunk", "", 0));
    }
    KOLO_TRY(work(comm, rank, all, 4)); /* the world is not affected */
out:
    return status;
}

ParameterizedTestParameters(shrink, who_has_finalized_is_left_out)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, shrink, who_has_finalized_is_left_out, .timeout = 60)
{
    static char whens[][8] = {"before", "failed", "asked"};
    for (int i = 0; i < 3; i++)
        run(param->name, 4, one_has_finalized, whens[i]);
}

/** A member that does not come is named once the time is over; a rank that asks again later is
 * served. */
static kolo_status does_not_come(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), all[] = {0, 1, 2};
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 200};
    struct kolo_comm *some = NULL;
    size_t bytes = 0;
    kolo_status status;
    if (rank == 0) {
        KOLO_TRY(kolo_kv_get(comm, "late", NULL, &bytes, -1));
        KOLO_TRY(kolo_kv_get(comm, "later", NULL, &bytes, -1));
        kolo_abort(comm, "now");
        pthread_barrier_wait(argument); /* lets the others wait in vain */
    } else {
        kolo_status said = kolo_kv_set(comm, rank == 1 ? "late" : "later", "", 0);
        kolo_status met = kolo_barrier(comm, NULL, NULL);
        status = kolo_shrink(comm, &opts, &some);
        bool is_named = strstr(kolo_error_detail(), "rank 0 (") != NULL;
        /* before anything that ends this rank, because rank 0 waits here */
        pthread_barrier_wait(argument);
        WORLD_EXPECT(said == KOLO_OK || said == KOLO_ERR_ABORTED, /* rank 0 may be faster */
                     "%s", kolo_status_name(said));
        WORLD_EXPECT(met == KOLO_ERR_ABORTED, "%s", kolo_status_name(met));
        WORLD_EXPECT(status == KOLO_ERR_TIMEOUT && is_named && !some, "%s: %s",
                     kolo_status_name(status), kolo_error_detail());
    }
    KOLO_TRY(kolo_shrink(comm, NULL, &some));
    KOLO_TRY(work(some, rank, all, 3));
out:
    return status;
}

Test(shrink, who_does_not_come_is_named, .timeout = 60)
{
    pthread_barrier_t barrier;
    cr_assert(pthread_barrier_init(&barrier, NULL, 3) == 0);
    run("inproc", 3, does_not_come, &barrier);
    pthread_barrier_destroy(&barrier);
}

/** Rank 0's time is over again and again until all have come, mostly soon after the last one has or
 * soon after the store has answered: all the same it meets the others. */
static kolo_status in_the_last_moment(struct kolo_comm *comm, void *argument)
{
    enum { ROUNDS = 20 };
    const int rank = kolo_rank(comm), all[] = {0, 1, 2, 3};
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = rank == 0 ? 1 : 20000};
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        struct kolo_comm *part = NULL, *some = NULL;
        kolo_status status;
        WORLD_TRY(kolo_dup(comm, NULL, &part));
        do
            status = kolo_shrink(part, &opts, &some);
        while (status == KOLO_ERR_TIMEOUT && rank == 0);
        WORLD_TRY(status);
        WORLD_TRY(work(some, rank, all, 4));
        WORLD_TRY(kolo_finalize(some));
        WORLD_TRY(kolo_finalize(part));
        WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    }
    return KOLO_OK;
}

ON_ALL(who_comes_in_the_last_moment_meets_the_others, 4, in_the_last_moment)

/** Asks the store as kolo_shrink does, for the survivors of ranks 0 to @p size - 1 of communicator
 * @p number, of which this rank does not reach @p lost. Sets the key @p asked once the store has
 * the question. */
static kolo_status ask_store(struct kolo_comm *comm, uint32_t number, int size, uint8_t lost,
                             const char *asked, struct kolo_store_call *call)
{
    struct kolo_engine *engine = comm->engine;
    const uint8_t members[8] = {(uint8_t)((1 << size) - 1)}, cut[8] = {lost};
    uint8_t survivors[8] = {0};
    WORLD_EXPECT(kolo_stall_bits_bytes(engine->size) <= sizeof members, "%d ranks", engine->size);
    kolo_comm_enter(comm);
    const struct kolo_store_loss loss = {number, 20000, members, cut, survivors};
    kolo_store_client_shrink(engine->store, &loss, call);
    kolo_comm_leave(comm);
    WORLD_TRY(kolo_kv_set(comm, asked, "", 0));
    kolo_comm_enter(comm);
    (void)kolo_engine_await(engine, NULL, &call->status, kolo_deadline_in_ms(25000));
    kolo_comm_leave(comm);
    WORLD_EXPECT(call->status == KOLO_OK, "%s: %s", kolo_status_name(call->status), call->why);
    return (survivors[0] >> engine->rank) & 1 ? KOLO_OK : kolo_fail(KOLO_ERR_INTERNAL, "left out");
}

/** What kolo_shrink does after the answer, on ranks 0 and 1. */
static kolo_status meet_both(struct kolo_comm *comm, const struct kolo_store_call *call,
                             struct kolo_comm **child_out)
{
    const struct kolo_seat seat = {(uint32_t)call->sum, kolo_rank(comm), 2};
    struct kolo_comm *child = NULL;
    WORLD_TRY(kolo_comm_create(comm->engine, 2, &child));
    child->ranks[0] = 0;
    child->ranks[1] = 1;
    kolo_comm_enter(comm);
    kolo_engine_creating(comm->engine);
    kolo_comm_leave(comm);
    const kolo_status status = kolo_comm_meet(child, NULL, &seat, "kolo_shrink", NULL, 0);
    kolo_comm_enter(comm);
    kolo_engine_created(comm->engine);
    kolo_comm_leave(comm);
    if (status == KOLO_OK)
        *child_out = child;
    return status;
}

/** Rank 1 gets the first answer and does not meet rank 0, whose time is over. Then rank 0 calls
 * again, or finalizes the communicator. */
static kolo_status goes_on(struct kolo_comm *comm, void *argument)
{
    const bool again = argument != NULL;
    const int rank = kolo_rank(comm), all[] = {0, 1};
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = rank == 0 ? 200 : 20000};
    struct kolo_comm *part = NULL, *some = NULL;
    struct kolo_store_call call = {0};
    size_t bytes = 0;
    WORLD_TRY(kolo_dup(comm, NULL, &part));
    if (rank == 0) {
        WORLD_TRY(kolo_kv_get(comm, "asked", NULL, &bytes, -1));
        const kolo_status status = kolo_shrink(part, &opts, &some);
        WORLD_EXPECT(status == KOLO_ERR_TIMEOUT && !some, "%s: %s", kolo_status_name(status),
                     kolo_error_detail());
        if (again)
            WORLD_TRY(kolo_shrink(part, NULL, &some));
        else
            WORLD_TRY(kolo_finalize(part));
    } else {
        WORLD_TRY(ask_store(comm, part->number, 2, 0, "asked", &call));
        WORLD_TRY(ask_store(comm, (uint32_t)call.sum, 2, 0, "asked again", &call));
        if (again)
            WORLD_TRY(meet_both(comm, &call, &some));
    }
    if (again)
        WORLD_TRY(work(some, rank, all, 2));
    return kolo_barrier(comm, NULL, NULL);
}

ParameterizedTestParameters(shrink, who_was_late_goes_on_from_what_is_half_made)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, shrink, who_was_late_goes_on_from_what_is_half_made,
                  .timeout = 60)
{
    static char again[] = "again";
    run(param->name, 2, goes_on, again);
    run(param->name, 2, goes_on, NULL);
}

/** Rank 2 is left out, since ranks 0 and 2 cannot reach each other. */
static kolo_status stays_out(struct kolo_comm *comm, void *argument)
{
    static const char *const texts[] = {"cannot reach each other", "an earlier call"};
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 20000};
    const int rank = kolo_rank(comm);
    struct kolo_comm *part = NULL, *some = NULL;
    struct kolo_store_call call = {0};
    (void)argument;
    WORLD_TRY(kolo_dup(comm, NULL, &part));
    if (rank < 2)
        WORLD_TRY(ask_store(comm, part->number, 3, rank == 0 ? 1 << 2 : 0, "asked", &call));
    for (int i = 0; i < 2 && rank == 2; i++) {
        const kolo_status status = kolo_shrink(part, &opts, &some);
        WORLD_EXPECT(status == KOLO_ERR_PEER && strstr(kolo_error_detail(), texts[i]), "%s: %s",
                     kolo_status_name(status), kolo_error_detail());
    }
    return kolo_barrier(comm, NULL, NULL);
}

Test(shrink, who_was_left_out_is_told_again, .timeout = 60)
{
    run("inproc", 3, stays_out, NULL);
}

/** Memory that ends after @p bytes: what is behind it cannot be read. */
static void *memory_to_the_end(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        abort();
    return pages + page - bytes; /* stays mapped until the process ends */
}

static kolo_status with_older_options(struct kolo_comm *comm, void *argument)
{
    static const size_t sizes[] = {offsetof(struct kolo_opts, prescale),
                                   offsetof(struct kolo_opts, flags), sizeof(struct kolo_opts)};
    (void)argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* a shrink fails ranks that are in kolo_init */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct kolo_opts opts = {.size = sizes[i], .name = "shrunk", .timeout_ms = 20000};
        struct kolo_opts *older = memory_to_the_end(sizes[i]);
        struct kolo_comm *some = NULL;
        memcpy(older, &opts, sizes[i]);
        WORLD_TRY(kolo_shrink(comm, older, &some));
        WORLD_EXPECT(kolo_size(some) == kolo_size(comm), "%d ranks", kolo_size(some));
        comm = some;
    }
    return kolo_barrier(comm, NULL, NULL);
}

Test(shrink, an_older_programs_options_are_read_to_their_end, .timeout = 60)
{
    run("inproc", 2, with_older_options, NULL);
}

static kolo_status wrong(struct kolo_comm *comm, void *argument)
{
    struct kolo_opts opts = {.size = 1};
    struct kolo_comm *some;
    (void)argument;
    WORLD_EXPECT(kolo_shrink(NULL, NULL, &some) == KOLO_ERR_INVALID &&
                     strcmp(kolo_error_detail(), "kolo_shrink: comm is NULL") == 0,
                 "%s", kolo_error_detail());
    WORLD_EXPECT(kolo_shrink(comm, NULL, NULL) == KOLO_ERR_INVALID &&
                     strcmp(kolo_error_detail(), "kolo_shrink: new_out is NULL") == 0,
                 "%s", kolo_error_detail());
    WORLD_EXPECT(kolo_shrink(comm, &opts, &some) == KOLO_ERR_INVALID, "%s", kolo_error_detail());
    return kolo_barrier(comm, NULL, NULL);
}

Test(shrink, wrong_calls_are_refused, .timeout = 60)
{
    run("inproc", 2, wrong, NULL);
}
