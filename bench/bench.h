// SPDX-License-Identifier: Apache-2.0
// What the files of kolobench share: the options of a run, one operation under test, its data, one
// measured row, the report.
#ifndef KOLO_BENCH_BENCH_H
#define KOLO_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kolo/kolo.h>

#include "bench/words.h"
#include "runtime/plan.h"

enum { BENCH_TEXT_MAX = 256, BENCH_SETTINGS_MAX = 12, BENCH_ROOT_ROTATES = -1 };

struct bench_call;
struct bench_stream;
struct outfile;

enum bench_pace { BENCH_BLOCKING, BENCH_ASYNC };

/** The kind of memory of the vectors, in this order: from kolo_alloc; plain memory; from
 * kolo_alloc, locked for a device; from kolo_alloc_device; device memory that the program gets
 * from the driver; managed memory, which the driver moves. */
enum bench_memory {
    BENCH_KOLO,
    BENCH_USER,
    BENCH_PINNED,
    BENCH_DEVICE,
    BENCH_CUDA,
    BENCH_MANAGED,
    BENCH_MEMORIES
};

/** Memory that the host does not access. */
static inline bool bench_is_device(enum bench_memory memory)
{
    return memory >= BENCH_DEVICE;
}

static inline bool bench_is_float(kolo_dtype dtype)
{
    return dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16 || dtype == KOLO_FLOAT32 ||
           dtype == KOLO_FLOAT64;
}

/** Whether a multiplication by it changes anything. */
static inline bool bench_scales(double factor)
{
    return factor < 1 || factor > 1;
}

struct bench_options {
    const struct bench_operation **operations; /* NULL-terminated */
    size_t noperations;
    int64_t begin_bytes, end_bytes, factor; /* if no list of sizes is given */
    int64_t sizes[BENCH_SIZES_MAX];
    size_t nsizes;
    kolo_dtype dtype;
    kolo_redop op;
    double prescale, postscale; /* of reductions; 1: none */
    int root;                   /* or BENCH_ROOT_ROTATES: another one each call */
    int peer;                   /* of pingpong and bandwidth; -1: the last rank */
    int64_t iterations;         /* 0: as many as fit into time_ns */
    int64_t time_ns, warmup;
    bool check, in_place, barrier, quiet, limits;
    bool stream; /* each call takes its place in a CUDA stream */
    enum bench_memory memory;
    enum bench_pace pace;
    int threads; /* ranks are threads of this process; 0: ranks of kolorun */
    const char *json, *csv, *plot, *plan;
    bool has_all; /* "all" is among the collectives: a forced plan applies to those that have it */
    const char *settings[BENCH_SETTINGS_MAX]; /* "KOLO_TRANSPORT=tcp", ..., NULL */
};

/** Which elements of the vector a buffer holds. */
enum bench_shape {
    BENCH_NOTHING,
    BENCH_ONE, /* `count` elements */
    BENCH_OWN, /* this rank's block */
    BENCH_ALL  /* the blocks of all ranks */
};

/** The expected result, in terms of what every rank sent. */
enum bench_result {
    BENCH_UNCHECKED,
    BENCH_REDUCED,    /* the reduction of all ranks' vectors, from this rank's place in it on */
    BENCH_ROOTS,      /* the root's vector, from this rank's place in it on */
    BENCH_GATHERED,   /* block r is what rank r sent */
    BENCH_TRANSPOSED, /* block r is the block that rank r sent to this one */
    BENCH_NEIGHBOURS, /* what the left neighbour sent */
    BENCH_PEERS,      /* what the other end of the pair sent */
    BENCH_FROM_FIRST  /* on the second of the pair: what the first sent */
};

/** A collective as kolobench sees it. */
struct bench_operation {
    const char *name;
    bool reduces, has_root, in_place, uneven;
    enum bench_shape send, recv;
    enum bench_result result;
    bool on_root; /* only the root has the result */
    /** busbw = algbw times this; 0 for one rank, with which nothing crosses a link. */
    double (*bus_factor)(int nranks);
    int messages; /* messages that a call sends in sequence; the time is per message */
    kolo_status (*call)(const struct bench_call *call, struct kolo_request **request);
};
extern const struct bench_operation bench_operations[]; /* ends with a NULL name */
const struct bench_operation *bench_operation_find(const char *name);
/** What its plans compute; KOLO_COLLECTIVES: it has no plans (messages). */
enum kolo_collective bench_collective_of(const struct bench_operation *operation);

/** One call: its buffers, and how they are divided. Lengths are in elements. */
struct bench_call {
    struct kolo_comm *comm;
    const struct bench_options *options;
    const struct bench_operation *operation;
    const struct kolo_opts *opts; /* of a collective: own_opts, or NULL: none */
    struct kolo_opts own_opts;
    struct bench_stream *stream; /* NULL: none */
    void *send, *recv;
    int rank, nranks, root, peer; /* the pair is rank 0 and the peer */
    size_t count;                 /* of each block; the mean if blocks are uneven */
    size_t *counts, *displs;      /* by rank: blocks of the vector; what goes to each rank */
    /* BENCH_TRANSPOSED: what comes from each rank, and where that is in what it sends. */
    size_t *from_counts, *from_displs, *from_places;
    uint32_t round; /* changes the data */
};

/** The length of the vector is counted in units of this many bytes, which all ranks share evenly;
 * it is the length of the whole vector, as in nccl-tests. 0: no data moves, and there is one row,
 * of size 0. */
size_t bench_unit_bytes(const struct bench_operation *operation,
                        const struct bench_options *options, int nranks);
/** The number of elements that rank @p from has for rank @p to. */
size_t bench_pair_count(const struct bench_call *call, int from, int to);
size_t bench_call_send_count(const struct bench_call *call);
size_t bench_call_recv_count(const struct bench_call *call);

/* ---- data.c ---- */
enum { BENCH_CANARY_BYTES = 64 };

/** What was wrong on one rank; `rank` is -1 if nothing was. */
struct bench_mismatch {
    int64_t errors; /* wrong elements */
    int rank;
    int64_t element; /* the first of them; -1: memory outside of the result was written */
    char expected[32], got[32];
};

/** How many of the sent elements are drawn, each for its position; the others repeat them. All for
 * bench_data_check, fewer if the result is not checked. */
#define BENCH_ALL_DIFFER SIZE_MAX
enum { BENCH_PERIOD = 1 << 16 };
/** Fills both buffers: the receive buffer with what the result must not be, the send buffer with
 * data, of which @p period elements (not 0) are drawn. */
void bench_data_fill(const struct bench_call *call, size_t period);
/** Compares the receive buffer element by element with a reference that this rank computes, and its
 * surroundings and the send buffer with their original contents. */
void bench_data_check(const struct bench_call *call, struct bench_mismatch *mismatch_out);

/* ---- buffers.c ---- */

struct bench_buffers {
    void *send, *recv;             /* recv: NULL if both are one buffer */
    void *send_image, *recv_image; /* of memory that the host cannot access; NULL: it can */
    size_t send_bytes, recv_bytes;
};

/** The name in --memory and in reports. */
const char *bench_memory_text(enum bench_memory memory);
/** Divides the vector and allocates the memory. bench_buffers_free must be called also if it
 * fails. */
kolo_status bench_buffers_make(struct bench_call *call, struct bench_buffers *buffers);
void bench_buffers_free(struct bench_buffers *buffers, struct bench_call *call);
/** Like bench_data_fill and bench_data_check, for any kind of memory. With a stream, filling is
 * only queued in it, and a call may follow at once; a check may follow a call at once too. */
kolo_status bench_buffers_fill(struct bench_buffers *buffers, const struct bench_call *call,
                               size_t period);
kolo_status bench_buffers_check(struct bench_buffers *buffers, const struct bench_call *call,
                                struct bench_mismatch *mismatch_out);

/* ---- measure.c ---- */
/** A call that can be repeated, with its buffers, filled. It must not be moved. */
struct bench_prepared {
    struct bench_options options;
    struct bench_call call;
    struct bench_buffers buffers;
    size_t bytes;     /* of the vector, in whole units */
    const char *plan; /* plan that a call runs */
};

/** Collective; bench_unprepare must be called also if it fails. */
kolo_status bench_prepare(struct kolo_comm *comm, const struct bench_options *options,
                          const struct bench_operation *operation, size_t bytes,
                          struct bench_prepared *prepared);
void bench_unprepare(struct bench_prepared *prepared);
/** Makes one call, blocking or not as the options say, with the next root if roots rotate; with a
 * stream, waits until the stream has done it. */
kolo_status bench_call_once(struct bench_call *call);

struct bench_row {
    const char *collective, *transport, *plan;
    int nranks;
    size_t bytes, count;
    int64_t calls, samples;
    /** Per call, over the samples; a sample is the time of the slowest rank. */
    double time_us, mean_us, min_us, p90_us, p99_us, max_us;
    int slowest_rank; /* the one with the longest total */
    double algbw_gbps, busbw_gbps;
    int64_t errors; /* -1: not checked */
    struct bench_mismatch mismatch;
};

/** Measures one operation at one size; collective. The row is the same on all ranks. */
kolo_status bench_measure(struct kolo_comm *comm, const struct bench_options *options,
                          const struct bench_operation *operation, size_t bytes,
                          struct bench_row *row_out);

/* ---- machine.c ---- */
/** What is printed above all figures. */
struct bench_machine {
    char transport[BENCH_TEXT_MAX];   /* "shm", or "shm+tcp" if ranks are connected by several */
    char hosts[BENCH_TEXT_MAX];       /* "a*4, b*4" */
    char congestion[64];              /* in use on kolo's TCP links; "" without such links */
    char cpu[BENCH_TEXT_MAX];         /* of rank 0 */
    int nranks, nhosts, cores;        /* cores: that the ranks on the host of rank 0 may use */
    int crowded_ranks, crowded_cores; /* of a host with more ranks than cores; 0: none */
    double load;                      /* highest load of the minute before, per core; 0: unknown */
};
/** How many processors the ranks of this rank's host may use together, by their bindings.
 * Collective. */
kolo_status bench_cores(struct kolo_comm *comm, int *cores_out);
/** Collective. */
kolo_status bench_machine_look(struct kolo_comm *comm, struct bench_machine *machine_out);

struct json_t;
/** Prints the lines above every table. */
void bench_machine_print(const struct bench_machine *machine);
/** The machine's facts as an object of jansson; NULL: no memory. */
struct json_t *bench_machine_object(struct kolo_comm *comm, const struct bench_machine *machine);

/* ---- report.c: sizes, on all ranks ---- */
/** The size after @p bytes (0: the first); 0 after the last. @p at, 0 at first, counts. */
int64_t bench_next_size(const struct bench_options *options, int64_t bytes, size_t *at);

/** Iterates over the sizes that get a row for one collective: multiples of @p unit. */
struct bench_sizes {
    const struct bench_options *options;
    const char *collective;
    int nranks;
    size_t unit;          /**< shared evenly by all ranks */
    bool speaks;          /**< print which sizes have no row of their own, and why */
    int64_t bytes;        /* the last size that was considered */
    size_t at, row_bytes; /* of the last row; 0: none yet */
};
/** Advances to the next row_bytes. Returns false if there is none. */
bool bench_sizes_next(struct bench_sizes *sizes);

/* ---- report.c: rank 0 only ---- */
struct bench_report;
kolo_status bench_report_open(const struct bench_options *options, struct kolo_comm *comm,
                              const struct bench_machine *machine,
                              struct bench_report **report_out);
void bench_report_header(struct bench_report *report, const struct bench_operation *operation);
/** Reports that all sizes are shorter than the shortest possible one. */
void bench_report_none(const struct bench_report *report, const struct bench_operation *operation,
                       size_t least_bytes);
/** Shows on a terminal what is being measured. */
void bench_report_progress(struct bench_report *report, const struct bench_operation *operation,
                           size_t bytes);
kolo_status bench_report_row(struct bench_report *report, const struct bench_row *row);
/** Writes such an object into the file of --json. KOLO_OK also if it could not be written for
 * another reason than want of memory: then closing the file fails. */
kolo_status bench_write_object(const struct json_t *root, struct outfile *file);
/** Draws the rows or limits of such an object. */
kolo_status bench_plot_object(const struct json_t *root, const struct bench_machine *machine,
                              FILE *out);
/** Completes the files; with @p keep false, leaves none. */
kolo_status bench_report_close(struct bench_report *report, bool keep);

/* ---- ranks.c ---- */
/** Runs @p rank_main as the rank that kolorun made of this process, or with @p threads > 0, as that
 * many threads. Failures have been reported when it returns. */
kolo_status bench_run_ranks(int threads, const char *const *settings,
                            kolo_status (*rank_main)(struct kolo_comm *comm, void *arg), void *arg);
/** Ends the calls of all ranks with the reason of this rank's failure @p status, unless they know
 * it. */
void bench_tell(struct kolo_comm *comm, kolo_status status);
/** The number of threads for a command that needs a second rank but was started alone; else 0. */
int bench_company(int threads);

/* ---- options.c ---- */
/** Each takes one value of an option that several commands have. Returns BENCH_GO_ON, or the exit
 * status. */
int bench_take_dtype(const char *value, kolo_dtype *dtype_out);
int bench_take_redop(const char *value, kolo_redop *op_out);
/** Whether elements of that type have the operator. Returns BENCH_GO_ON, or the exit status. */
int bench_check_redop(kolo_dtype dtype, kolo_redop op);
/** An operation for which plans are chosen; not one in which ranks have different counts. */
int bench_take_planned(const char *word, const struct bench_operation **operation_out);
/** Checks that @p operation has a plan of this name. If not, prints a line with those that it has.
 * Returns BENCH_GO_ON, or the exit status. */
int bench_check_plan(const struct bench_operation *operation, const char *plan);
/** Returns BENCH_GO_ON, or the exit status. */
int bench_options_parse(char *const *argv, struct bench_options *options);
void bench_options_fini(struct bench_options *options);

#endif
