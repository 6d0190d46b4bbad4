// SPDX-License-Identifier: Apache-2.0
// Bare loops: each does one communication pattern and nothing else, between the ranks of a run,
// over memory that all of them map and over sockets of its own. There are no headers, no checks, no
// choice of algorithm, and no failure handling except a deadline: the time of such a loop is the
// limit with which an engine is compared.
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
    BARE_STAGE_BYTES = 256 << 10, /* one turn of one rank */
    BARE_WRITE_BYTES_MAX = 4 << 20,
    BARE_WHY_BYTES = 256
};

/** What a collective moves, described as in bench_operation. */
struct bare_pattern {
    const char *name;
    enum bench_shape send, recv;
    enum bench_result result;
    bool on_root; /* the root is rank 0 */
};
extern const struct bare_pattern bare_patterns[]; /* ends with a NULL name */

struct bare_flow; /* see bare_tcp.c */
struct bare_rdma; /* see bare_rdma.c */

struct bare_world {
    struct kolo_comm *comm;
    int rank, nranks;
    bool crowded; /* a host has more ranks than cores: waits yield at once */
    kolo_deadline deadline;
    kolo_status failed; /* a step's own failure; KOLO_OK: none */
    /* Common memory if all ranks are on one host; else NULL. */
    uint8_t *memory;
    size_t memory_bytes, vector_bytes;
    uint64_t turn;                  /* value of this rank's flag */
    int parity;                     /* of the stages in use */
    uint8_t *user_send, *user_recv; /* ordinary memory */
    /* Sockets, one for each other rank, if they were opened. */
    int *sockets;
    struct bare_flow *flows;
    char congestion[32];
    struct bare_rdma *rdma; /* if all ranks have a port; else NULL */
};

/* ---- bare.c ---- */
/** Prepares memory for vectors of at most @p vector_bytes; collective. */
kolo_status bare_open(struct bare_world *world, struct kolo_comm *comm, size_t vector_bytes);
void bare_close(struct bare_world *world);
/** Fills memory with floats between 0 and 1, no two neighbours equal: on some machines zeros are
 * stored faster than other values. */
void bare_fill(void *memory, size_t bytes);
/** The rank with which rank 0 forms a pair: the first rank of another host (then *is_network_out is
 * true), else rank 1. */
kolo_status bare_other(const struct bare_world *world, int *other_out, bool *is_network_out);

/** One step of a loop. Returns false if the deadline passed or a socket broke, or with the reason
 * in world->failed. */
typedef bool (*bare_step)(struct bare_world *world, void *context);
/** Microseconds of a step on the slowest rank: the median of samples over about @p time_ns;
 * collective. @p name is used in the message of a failure. */
kolo_status bare_time(struct bare_world *world, const char *name, bare_step step, void *context,
                      int64_t time_ns, double *us_out);

/** The arguments of a pattern's loop. */
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
    double us; /* result, as of bare_time */
};

/** Times each for about @p time_ns, in rounds, so that disturbances of the machine affect all
 * alike; collective. */
kolo_status bare_time_in_turn(struct bare_world *world, struct bare_run *runs, size_t count,
                              int64_t time_ns);

/* ---- bare_shm.c ---- */
/** The flag of @p rank in the common memory, which only that rank writes. */
uint64_t *bare_flag(const struct bare_world *world, int rank);
/** The stages of @p rank, contiguous: four times BARE_STAGE_BYTES. */
uint8_t *bare_stages(const struct bare_world *world, int rank);
/** Waits until the flag of @p rank has reached @p turn. */
bool bare_await(struct bare_world *world, const uint64_t *flag, uint64_t turn);
/** How a pattern is done over common memory. */
enum bare_way {
    BARE_ONE_SHOT, /* all put what they send on stages; each takes from there what it needs */
    BARE_DIRECT,   /* buffers are mapped: each takes its part from there, and puts it there */
    BARE_STREAM,   /* the same, with stores that bypass the caches */
    BARE_STAGED    /* ordinary memory, through stages that stay in the caches */
};
bool bare_fits(const struct bare_pattern *pattern, enum bare_way way, int nranks, size_t bytes);
void bare_shm_run(const struct bare_world *world, const struct bare_pattern *pattern,
                  enum bare_way way, size_t bytes, struct bare_run *run_out);

/* ---- bare_tcp.c ---- */
/** Connects each pair of ranks by a socket; collective. */
kolo_status bare_tcp_open(struct bare_world *world, const char *congestion);
void bare_tcp_close(struct bare_world *world);
/** @p phases 1: every rank sends each other what it needs. 2: each rank first gets its slice of the
 * vector, then distributes it (only allreduce, reduce and broadcast). */
bool bare_tcp_fits(const struct bare_pattern *pattern, int phases);
void bare_tcp_run(const struct bare_world *world, const struct bare_pattern *pattern, int phases,
                  size_t bytes, struct bare_run *run_out);

/* ---- bare_rdma.c; of a build without RDMA bare_no_rdma.c ---- */
/** Connects each pair of ranks by a queue pair, on the port that kolo would take
 * (KOLO_RDMA_DEVICE), and tries it; collective. If some rank cannot, world->rdma stays NULL, and
 * text_out says why, the same on all ranks; otherwise text_out is the name of this rank's port. */
kolo_status bare_rdma_open(struct bare_world *world, const struct kolo_settings *settings,
                           char text_out[BARE_WHY_BYTES]);
void bare_rdma_close(struct bare_world *world);
/** The functions below may be called only if it was opened. For allreduce only; phases as over
 * TCP. */
bool bare_rdma_fits(const struct bare_pattern *pattern, int phases, size_t bytes);
void bare_rdma_run(const struct bare_pattern *pattern, int phases, size_t bytes,
                   struct bare_run *run_out);
/** Returns @p status, or if a loop did not end because a write failed, that failure. */
kolo_status bare_rdma_explain(const struct bare_world *world, kolo_status status);
/** Microseconds per write with many in flight from rank 0 to @p other, or in both directions at
 * once (@p both); collective. */
kolo_status bare_rdma_write_time(struct bare_world *world, int other, bool both, size_t bytes,
                                 int64_t time_ns, double *us_out);
/** One-way time of 8 bytes written into memory that the other polls; @p both: each to the other at
 * once. */
kolo_status bare_rdma_word_time(struct bare_world *world, int other, bool both, int64_t time_ns,
                                double *us_out);
/** The longest write that a port takes, at most BARE_WRITE_BYTES_MAX. */
size_t bare_rdma_write_bytes_max(const struct bare_world *world);

#endif
