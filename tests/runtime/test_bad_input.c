// SPDX-License-Identifier: Apache-2.0
// What every public call refuses, with which text, and that nothing was written: overlapping
// buffers, counts that overflow, NULL, invalid ranks, types, operators, flags and sizes of options,
// a plan or transport that does not exist or not for this size, and invalid colours.
#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>

#include "runtime/comm.h"
#include "tests/support/world.h"

enum { ROOM = 64, RANKS = 2, CANARY = 0x5a };

/** send and recv are disjoint; every byte of both is CANARY. */
struct canaries {
    uint8_t send[ROOM], recv[ROOM];
};

static bool is_untouched(const struct canaries *canaries)
{
    const uint8_t *at = (const uint8_t *)canaries;
    for (size_t i = 0; i < sizeof *canaries; i++)
        if (at[i] != CANARY)
            return false;
    return true;
}

/** The arguments of one call; it does not read those that it does not have. */
struct arguments {
    struct kolo_comm *comm;
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts, *displs;
    kolo_dtype dtype;
    kolo_redop op;
    int root; /* or the peer */
    const struct kolo_opts *opts;
};

static kolo_status call_allreduce(const struct arguments *a)
{
    return kolo_allreduce(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->opts, NULL);
}
static kolo_status call_reduce(const struct arguments *a)
{
    return kolo_reduce(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->root, a->opts,
                       NULL);
}
static kolo_status call_broadcast(const struct arguments *a)
{
    return kolo_broadcast(a->comm, a->recv, a->count, a->dtype, a->root, a->opts, NULL);
}
static kolo_status call_allgather(const struct arguments *a)
{
    return kolo_allgather(a->comm, a->send, a->recv, a->count, a->dtype, a->opts, NULL);
}
static kolo_status call_allgatherv(const struct arguments *a)
{
    return kolo_allgatherv(a->comm, a->send, a->recv, a->counts, a->displs, a->dtype, a->opts,
                           NULL);
}
static kolo_status call_reduce_scatter(const struct arguments *a)
{
    return kolo_reduce_scatter(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->opts, NULL);
}
static kolo_status call_reduce_scatterv(const struct arguments *a)
{
    return kolo_reduce_scatterv(a->comm, a->send, a->recv, a->counts, a->dtype, a->op, a->opts,
                                NULL);
}
static kolo_status call_gather(const struct arguments *a)
{
    return kolo_gather(a->comm, a->send, a->recv, a->count, a->dtype, a->root, a->opts, NULL);
}
static kolo_status call_gatherv(const struct arguments *a)
{
    return kolo_gatherv(a->comm, a->send, a->recv, a->counts, a->displs, a->dtype, a->root, a->opts,
                        NULL);
}
static kolo_status call_scatter(const struct arguments *a)
{
    return kolo_scatter(a->comm, a->send, a->recv, a->count, a->dtype, a->root, a->opts, NULL);
}
static kolo_status call_scatterv(const struct arguments *a)
{
    return kolo_scatterv(a->comm, a->send, a->counts, a->displs, a->recv, a->dtype, a->root,
                         a->opts, NULL);
}
static kolo_status call_alltoall(const struct arguments *a)
{
    return kolo_alltoall(a->comm, a->send, a->recv, a->count, a->dtype, a->opts, NULL);
}
static kolo_status call_alltoallv(const struct arguments *a)
{
    return kolo_alltoallv(a->comm, a->send, a->counts, a->displs, a->recv, a->counts, a->displs,
                          a->dtype, a->opts, NULL);
}
static kolo_status call_barrier(const struct arguments *a)
{
    return kolo_barrier(a->comm, a->opts, NULL);
}
static kolo_status call_send(const struct arguments *a)
{
    return kolo_send(a->comm, a->send, a->count, a->dtype, a->root, a->opts, NULL);
}
static kolo_status call_recv(const struct arguments *a)
{
    return kolo_recv(a->comm, a->recv, a->count, a->dtype, a->root, a->opts, NULL);
}

/** The arguments that a call has: C count, V counts, S send, R recv, O operator, T root, P peer, D
 * displs. */
static const struct row {
    const char *name, *has;
    kolo_status (*call)(const struct arguments *arguments);
} rows[] = {
    {"allreduce", "CSRO", call_allreduce},
    {"reduce", "CSROT", call_reduce},
    {"broadcast", "CRT", call_broadcast},
    {"allgather", "CSR", call_allgather},
    {"allgatherv", "VDSR", call_allgatherv},
    {"reduce_scatter", "CSRO", call_reduce_scatter},
    {"reduce_scatterv", "VSRO", call_reduce_scatterv},
    {"gather", "CSRT", call_gather},
    {"gatherv", "VDSRT", call_gatherv},
    {"scatter", "CSRT", call_scatter},
    {"scatterv", "VDSRT", call_scatterv},
    {"alltoall", "CSR", call_alltoall},
    {"alltoallv", "VDSR", call_alltoallv},
    {"barrier", "", call_barrier},
    {"send", "CSP", call_send},
    {"recv", "CRP", call_recv},
};

static bool has(const struct row *row, const char *what)
{
    for (; *what != '\0'; what++)
        if (!strchr(row->has, *what))
            return false;
    return true;
}

/** Whether its count is that of one rank's block, and a buffer has a block for each rank. */
static bool is_of_all_ranks(const struct row *row)
{
    static const char *const names[] = {"allgather", "reduce_scatter", "gather", "scatter",
                                        "alltoall"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(row->name, names[i]) == 0)
            return true;
    return false;
}

struct trial {
    struct canaries canaries;
    struct arguments good, bad;
};

static kolo_status refused(const struct row *row, struct trial *trial, const char *why,
                           const char *words)
{
    kolo_status status = row->call(&trial->bad);
    WORLD_EXPECT(status == KOLO_ERR_INVALID, "kolo_%s with %s: %s", row->name, why,
                 kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), row->name) && strstr(kolo_error_detail(), words),
                 "kolo_%s with %s says: %s", row->name, why, kolo_error_detail());
    WORLD_EXPECT(is_untouched(&trial->canaries), "kolo_%s with %s has written", row->name, why);
    trial->bad = trial->good;
    return KOLO_OK;
}

/** Sets a field of the arguments and expects a refusal. */
#define REFUSED(field, value, words)                                                               \
    do {                                                                                           \
        trial->bad.field = (value);                                                                \
        WORLD_TRY(refused(row, trial, #field " = " #value, words));                                \
    } while (0)

static kolo_status wrong_values(const struct row *row, struct trial *trial)
{
    REFUSED(comm, NULL, "comm is NULL");
    if (strcmp(row->name, "barrier") != 0) {
        REFUSED(dtype, (kolo_dtype)KOLO_DTYPES, "is not a type");
        REFUSED(dtype, (kolo_dtype)-1, "is not a type");
        REFUSED(dtype, KOLO_OPAQUE(0), "KOLO_OPAQUE(0) is not a type");
        REFUSED(dtype, KOLO_OPAQUE(5000),
                "KOLO_OPAQUE(5000) is not a type: its elements have from 1 to 4096 ");
    }
    if (has(row, "O")) {
        REFUSED(op, (kolo_redop)KOLO_REDOPS, "is not an operator");
        REFUSED(op, (kolo_redop)-1, "not an operator");
        REFUSED(op, (kolo_redop)KOLO_REDOP_OWN, "not an operator");
        REFUSED(op, KOLO_BXOR, "is for integers");
    }
    if (has(row, "T")) {
        REFUSED(root, -1, "root -1 is not a rank");
        REFUSED(root, RANKS, "root 2 is not a rank");
    }
    if (has(row, "P")) {
        REFUSED(root, -1, "peer -1 is not a rank");
        REFUSED(root, RANKS, "peer 2 is not a rank");
        REFUSED(root, kolo_rank(trial->good.comm), "is this rank itself");
    }
    return KOLO_OK;
}

static kolo_status wrong_counts(const struct row *row, struct trial *trial)
{
    static const size_t overflow[RANKS] = {SIZE_MAX / 8, 1}, most[RANKS] = {SIZE_MAX, SIZE_MAX},
                        far[RANKS] = {SIZE_MAX - 1, 0}, same[RANKS] = {0, 1},
                        beyond[RANKS] = {PTRDIFF_MAX / 4, 0},
                        many[RANKS] = {((size_t)1 << 48) - 1, 0};
    if (has(row, "C")) {
        REFUSED(count, SIZE_MAX, "too large");
        if (has(row, "CO"))
            REFUSED(count, SIZE_MAX,
                    "is too large: no buffer has more than 9223372036854775807 bytes");
        REFUSED(count, SIZE_MAX / 4, "too large");
        REFUSED(count, (size_t)PTRDIFF_MAX / 4 + 1, "too large");
        if (is_of_all_ranks(row))
            REFUSED(count, (size_t)PTRDIFF_MAX / 4,
                    "of float32, once for each of 2 ranks, is too large");
    }
    if (has(row, "V")) {
        REFUSED(counts, NULL, "counts is NULL");
        REFUSED(counts, overflow, "counts[");
        REFUSED(counts, overflow, "too large");
        REFUSED(counts, most, "too large");
    }
    if (has(row, "D")) {
        REFUSED(displs, far, "displs[0] 18446744073709551614 and ");
        REFUSED(displs, beyond, "displs[0] 2305843009213693951 and ");
        trial->bad.dtype = KOLO_OPAQUE(1);
        REFUSED(displs, many, " of opaque elements is too large");
    }
    if (has(row, "D") && strcmp(row->name, "scatterv") != 0)
        REFUSED(displs, same, "overlap");
    return KOLO_OK;
}

static kolo_status wrong_buffers(const struct row *row, struct trial *trial)
{
    uint8_t *recv = trial->canaries.recv;
    bool is_root = trial->good.root == kolo_rank(trial->good.comm) || !has(row, "T");
    bool gathers = strncmp(row->name, "gather", 6) == 0 || strcmp(row->name, "reduce") == 0;
    bool scatters = strncmp(row->name, "scatter", 7) == 0;
    if (has(row, "S") && (is_root || !scatters))
        REFUSED(send, NULL, "send is NULL");
    if (has(row, "S") && (is_root || !scatters))
        REFUSED(send, (const void *)(UINTPTR_MAX - 3), "beyond the address space");
    if (has(row, "R") && (is_root || !gathers))
        REFUSED(recv, NULL, "is NULL");
    if (has(row, "R") && (is_root || !gathers))
        REFUSED(recv, (void *)(UINTPTR_MAX - 3), "beyond the address space");
    if (!has(row, "SR") || !(is_root || (!gathers && !scatters)))
        return KOLO_OK;
    REFUSED(send, recv + 2, "overlap");
    REFUSED(recv, trial->canaries.send + 2, "overlap");
    return KOLO_OK;
}

static kolo_status wrong_options(const struct row *row, struct trial *trial)
{
    struct kolo_opts opts = {.size = sizeof opts};
    opts.size--;
    REFUSED(opts, &opts, "opts->size");
    opts.size = 0;
    REFUSED(opts, &opts, "opts->size");
    opts = (struct kolo_opts){.size = sizeof opts, .timeout_ms = -1};
    REFUSED(opts, &opts, "timeout_ms");
    opts = (struct kolo_opts){.size = sizeof opts, .flags = 1u << 31};
    REFUSED(opts, &opts, "flags");
    opts = (struct kolo_opts){.size = sizeof opts, .flags = KOLO_PERSISTENT};
    REFUSED(opts, &opts, "is for calls with a request_out"); /* some calls have none */
    if (has(row, "O"))
        return KOLO_OK;
    opts = (struct kolo_opts){.size = sizeof opts, .prescale = 2};
    REFUSED(opts, &opts, "prescale");
    return KOLO_OK;
}

static kolo_status every_call(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    static const size_t counts[RANKS] = {2, 2}, displs[RANKS] = {2, 0};
    struct trial trial;
    memset(&trial.canaries, CANARY, sizeof trial.canaries);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        trial.good = (struct arguments){comm,
                                        trial.canaries.send,
                                        trial.canaries.recv,
                                        2,
                                        counts,
                                        displs,
                                        KOLO_FLOAT32,
                                        KOLO_SUM,
                                        0,
                                        NULL};
        if (has(row, "P"))
            trial.good.root = 1 - kolo_rank(comm);
        trial.bad = trial.good;
        WORLD_TRY(wrong_values(row, &trial));
        WORLD_TRY(wrong_counts(row, &trial));
        WORLD_TRY(wrong_buffers(row, &trial));
        WORLD_TRY(wrong_options(row, &trial));
    }
    return kolo_barrier(comm, NULL, NULL); /* afterwards all ranks are in step */
}

Test(bad_input, every_call, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {.size = RANKS, .transport = world_transports[t]};
        WORLD_MUST_RUN(&world, every_call, NULL);
    }
}

/** A plan that does not support this size: nothing is written, also if the input is scaled in
 * place. */
static kolo_status plan_for_another_size(struct kolo_comm *comm, void *argument)
{
    enum { MANY = 1 << 20 };
    static float memory[RANKS][MANY];
    const struct kolo_opts half = {.size = sizeof half, .prescale = 0.5};
    float *mine = memory[kolo_rank(comm)];
    (void)argument;
    for (int i = 0; i < MANY; i++)
        mine[i] = 3;
    kolo_status status =
        kolo_allreduce(comm, mine, mine, MANY, KOLO_FLOAT32, KOLO_SUM, &half, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "%s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "KOLO_PLAN=oneshot") != NULL, "%s",
                 kolo_error_detail());
    for (int i = 0; i < MANY; i++)
        WORLD_EXPECT(mine[i] == 3, "element %d was written", i);
    return kolo_barrier(comm, NULL, NULL);
}

Test(bad_input, a_plan_that_is_not_for_this_size, .timeout = 60)
{
    struct world world = {.size = RANKS, .settings = {"KOLO_PLAN=oneshot"}};
    WORLD_MUST_RUN(&world, plan_for_another_size, NULL);
}

/** The error names the setting as it was given, also if another plan replaces the one it names. */
static kolo_status plan_for_other_ranks(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "%s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "KOLO_PLAN=twoshot: barrier") != NULL, "%s",
                 kolo_error_detail());
    return KOLO_OK;
}

Test(bad_input, a_plan_that_is_not_for_these_ranks, .timeout = 60)
{
    struct world world = {.size = RANKS, .transport = "tcp", .settings = {"KOLO_PLAN=twoshot"}};
    WORLD_MUST_RUN(&world, plan_for_other_ranks, NULL);
}

static kolo_status nothing(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return comm ? KOLO_OK : KOLO_ERR_INTERNAL;
}

Test(bad_input, plans_and_transports_that_there_are_not, .timeout = 60)
{
    static const char *const settings[] = {"KOLO_PLAN=rnig", "KOLO_TRANSPORT=shmem",
                                           "KOLO_SEGMENT_BYTES=-1"};
    static const char *const words[] = {"ring", "shm", "KOLO_SEGMENT_BYTES"};
    for (int i = 0; i < 3; i++) {
        const char *const list[] = {settings[i], NULL};
        const struct kolo_config config = {.size = sizeof config, .settings = list};
        cr_assert(kolo_run_threads(RANKS, &config, nothing, NULL) == KOLO_ERR_CONFIG);
        cr_assert(strstr(kolo_error_detail(), words[i]) != NULL, "%s", kolo_error_detail());
    }
}

static kolo_status colours(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    struct kolo_comm *canary = (struct kolo_comm *)(uintptr_t)&canary, *other = canary;
    kolo_status status = kolo_split(comm, kolo_rank(comm) == 0 ? 3 : -7, 0, NULL, &other);
    WORLD_EXPECT(status == KOLO_ERR_INVALID && strstr(kolo_error_detail(), "-7"), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    WORLD_EXPECT(other == canary || !other, "a communicator was written");
    status = kolo_split(comm, 1, 0, NULL, kolo_rank(comm) == 1 ? NULL : &other);
    WORLD_EXPECT(status == KOLO_ERR_INVALID, "%s", kolo_status_name(status));
    return kolo_barrier(comm, NULL, NULL);
}

Test(bad_input, colours_that_are_none, .timeout = 60)
{
    struct world world = {.size = RANKS};
    WORLD_MUST_RUN(&world, colours, NULL);
}
