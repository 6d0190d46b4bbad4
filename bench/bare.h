// SPDX-License-Identifier: Apache-2.0
// Bare loops: one communication pattern and nothing else, between the ranks of a run, over memory
// they all map and over sockets of its own. No header, no check, no choice, no failure handling but
// a deadline: what they need is the limit that an engine can be held against.
#ifndef KOLO_BENCH_BARE_H
#define KOLO_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>

#include "base/clock.h"
#include "base/settings.h"
#include "bench/bench.h"
#include "memory/fold.h"

enum {
    BARE_LINE_BYTES = 128, /* two cache lines: processors fetch pairs of them */
    BARE_RANKS_MAX = 64,
    BARE_LARGE_BYTES = 32 << 20,  /* more than caches hold */
    BARE_STAGE_BYTES = 256 << 10, /* of one turn of one rank */
    BARE_WRITE_BYTES_MAX = 4 << 20,
    BARE_WHY_BYTES = 256
};

/** What a collective moves, as bench_operation describes it. */
struct bare_pattern {
    const char *name;
    enum bench_shape send, recv;
    enum bench_result result;
    bool on_root; /* root is rank 0 */
};
extern const struct bare_pattern bare_patterns[]; /* ends with a NULL name */

struct bare_flow; /* bare_tcp.c */
struct bare_rdma; /* bare_rdma.c */

struct bare_world {
    struct kolo_comm *comm;
    int rank, nranks;
    bool crowded; /* more ranks than cores on some host: who waits yields at once */
    kolo_deadline deadline;
    kolo_status failed; /* of a step that had a reason of its own; KOLO_OK: none */
    /* Memory, where all ranks are on one host; else NULL. */
    uint8_t *memory;
    size_t memory_bytes, vector_bytes;
    uint64_t turn;                  /* of this rank's flag */
    int parity;                     /* of the stages in use */
    uint8_t *user_send, *user_recv; /* ordinary memory */
    /* Sockets, one for each other rank, where they were opened. */
    int *sockets;
    struct bare_flow *flows;
    char congestion[32];
    struct bare_rdma *rdma; /* where all ranks have a port; else NULL */
};

/* ---- bare.c ---- */
/** Prepares memory for vectors of at most @p vector_bytes; collective. */
kolo_status bare_open(struct bare_world *world, struct kolo_comm *comm, size_t vector_bytes);
void bare_close(struct bare_world *world);
/** Floats between 0 and 1, no two neighbours alike: zeros are stored in less time than others on
 * some machines. */
void bare_fill(void *memory, size_t bytes);
/** With whom rank 0 makes a pair: the first rank of another host (then @p is_network_out), else
 * rank 1. */
kolo_status bare_other(const struct bare_world *world, int *other_out, bool *is_network_out);

/** One turn of a loop; false: the deadline passed, a socket broke, or world->failed says what. */
typedef bool (*bare_step)(struct bare_world *world, void *context);
/** Microseconds of a step on the slowest rank, the median of samples over about @p time_ns;
 * collective. @p name is for the message of a failure. */
kolo_status bare_time(struct bare_world *world, const char *name, bare_step step, void *context,
                      int64_t time_ns, double *us_out);

/** What the loop of a pattern goes by. */
struct bare_loop {
    const struct bare_pattern *pattern;
    size_t count; /* elements of ONE, or of a block */
    enum kolo_store_how how;
    int phases;
};

/** One of several loops that are timed in turn. */
struct bare_run {
    const char *name; /* for the message of a failure */
    bare_step step;
    void *context; /* NULL: the loop */
    struct bare_loop loop;
    double us; /* as bare_time has it */
};

/** Each for about @p time_ns, in rounds, so that what the machine does meanwhile is done to all
 * alike; collective. */
kolo_status bare_time_in_turn(struct bare_world *world, struct bare_run *runs, size_t count,
                              int64_t time_ns);

/* ---- bare_shm.c ---- */
/** The flag of @p rank in the common memory; written by that rank alone. */
uint64_t *bare_flag(const struct bare_world *world, int rank);
/** The stages of @p rank, one behind the other: four times BARE_STAGE_BYTES. */
uint8_t *bare_stages(const struct bare_world *world, int rank);
/** Waits until the flag of @p rank has reached @p turn. */
bool bare_await(struct bare_world *world, const uint64_t *flag, uint64_t turn);
/** Waits for everybody. */
bool bare_meet(struct bare_world *world);
/** How a pattern is done over common memory. */
enum bare_way {
    BARE_ONE_SHOT, /* all put what they send on stages; each takes what it needs from there */
    BARE_DIRECT,   /* buffers are mapped: each takes its part from there, and puts it there */
    BARE_STREAM,   /* the same with stores that pass by the caches */
    BARE_STAGED    /* ordinary memory through stages that stay in the caches */
};
bool bare_fits(const struct bare_pattern *pattern, enum bare_way way, int nranks, size_t bytes);
void bare_shm_run(const struct bare_world *world, const struct bare_pattern *pattern,
                  enum bare_way way, size_t bytes, struct bare_run *run_out);

/* ---- bare_tcp.c ---- */
/** Joins each pair of ranks by a socket; collective. */
kolo_status bare_tcp_open(struct bare_world *world, const char *congestion);
void bare_tcp_close(struct bare_world *world);
/** @p phases 1: everybody sends everybody what it needs. 2: first each rank gets its slice of the
 * vector, then spreads it (allreduce, reduce and broadcast alone). */
bool bare_tcp_fits(const struct bare_pattern *pattern, int phases);
void bare_tcp_run(const struct bare_world *world, const struct bare_pattern *pattern, int phases,
                  size_t bytes, struct bare_run *run_out);

/* ---- bare_rdma.c; of a build without RDMA bare_no_rdma.c ---- */
/** Joins each pair of ranks by a queue pair, of the port that kolo would take (KOLO_RDMA_DEVICE),
 * and tries it; collective. Where some rank cannot, world->rdma stays NULL, and text_out says why,
 * on all ranks alike; else it is the name of this rank's port. */
kolo_status bare_rdma_open(struct bare_world *world, const struct kolo_settings *settings,
                           char text_out[BARE_WHY_BYTES]);
void bare_rdma_close(struct bare_world *world);
/** The rest only where it was opened. Of allreduce alone; phases as over TCP. */
bool bare_rdma_fits(const struct bare_pattern *pattern, int phases, size_t bytes);
void bare_rdma_run(const struct bare_pattern *pattern, int phases, size_t bytes,
                   struct bare_run *run_out);
/** @p status, or of a loop that did not end since a write failed, that. */
kolo_status bare_rdma_explain(const struct bare_world *world, kolo_status status);
/** Microseconds of a write among many on their way from rank 0 to @p other, or @p both ways at
 * once; collective. */
kolo_status bare_rdma_write_time(struct bare_world *world, int other, bool both, size_t bytes,
                                 int64_t time_ns, double *us_out);
/** Of 8 bytes into memory that the other polls, one way; @p both: each to the other at once. */
kolo_status bare_rdma_word_time(struct bare_world *world, int other, bool both, int64_t time_ns,
                                double *us_out);
/** The longest that a port takes, at most BARE_WRITE_BYTES_MAX. */
size_t bare_rdma_write_bytes_max(const struct bare_world *world);

#endif
