// SPDX-License-Identifier: Apache-2.0
// What the files of kolobench share: the options, one operation under test, one measured row, the
// report.
#ifndef KOLO_BENCH_BENCH_H
#define KOLO_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kolo/kolo.h>

enum { BENCH_TEXT_MAX = 256 };

struct bench_options {
    const struct bench_operation **operations; /* NULL-terminated */
    int64_t begin_bytes, end_bytes, factor;
    kolo_dtype dtype;
    kolo_redop op;
    int root;
    int64_t iterations; /* 0: as many as fit into about 0.2 s, 3 to 10000 */
    int64_t warmup;
    bool check, in_place, user_memory;
    int threads; /* ranks as threads of this process; 0: ranks of kolorun */
    const char *json;
    const char *settings[8]; /* "KOLO_TRANSPORT=tcp", ..., NULL */
};

/** The buffers of one call; sizes in elements. */
struct bench_call {
    struct kolo_comm *comm;
    void *send, *recv;
    size_t count; /* as the collective takes it: per rank for allgather and its like */
    const struct bench_options *options;
};

/** A collective as kolobench sees it: how many elements from a size in bytes, how to call it, and
 * what must come out. */
struct bench_operation {
    const char *name;
    bool reduces, has_root;
    /** How many times `count` elements the send and the receive buffer hold. */
    size_t (*send_blocks)(int nranks);
    size_t (*recv_blocks)(int nranks);
    /** The table's size in bytes is `count` times this many elements (nccl-tests' convention);
     * 0: it moves no data, and its one row is of size 0. */
    size_t (*size_blocks)(int nranks);
    /** busbw = algbw times this. */
    double (*bus_factor)(int nranks);
    kolo_status (*call)(const struct bench_call *call);
    /** The value of element @p i of the receive buffer of rank @p rank, from what bench_value()
     * says every rank sent; false: unspecified. */
    bool (*expected)(const struct bench_call *call, int rank, size_t i, double *value_out);
};
extern const struct bench_operation bench_operations[]; /* ends with a NULL name */
const struct bench_operation *bench_operation_find(const char *name);

/** What rank @p rank sends as element @p i: small integers that every type holds, and whose
 * reductions it holds too. */
double bench_value(const struct bench_options *options, int rank, size_t i);
/** The reduction of bench_value over all ranks at element @p i, as the type stores it. */
double bench_reduced(const struct bench_options *options, int nranks, size_t i);

struct bench_row {
    const char *collective, *transport, *plan;
    int nranks;
    size_t bytes, count;
    double time_us, algbw_gbps, busbw_gbps;
    int64_t errors; /* -1: not checked */
};

/** Measures one operation at one size; collective. The row is the same on all ranks. */
kolo_status bench_measure(struct kolo_comm *comm, const struct bench_options *options,
                          const struct bench_operation *operation, size_t bytes,
                          struct bench_row *row_out);

/** "shm", or "shm+tcp" where ranks are joined by several; "self" alone. Collective. */
kolo_status bench_transport_text(struct kolo_comm *comm, char *text, size_t capacity);
/** The plan that a call of this operation with @p count elements runs. */
const char *bench_plan_name(struct kolo_comm *comm, const struct bench_operation *operation,
                            const struct bench_options *options, size_t count);

/* ---- report: rank 0 only ---- */
struct bench_report;
kolo_status bench_report_open(const struct bench_options *options, struct kolo_comm *comm,
                              struct bench_report **report_out);
void bench_report_header(struct bench_report *report, const struct bench_operation *operation);
kolo_status bench_report_row(struct bench_report *report, const struct bench_row *row);
/** Writes the JSON file whole, or with @p keep false not at all. */
kolo_status bench_report_close(struct bench_report *report, bool keep);

/* ---- options ---- */
/** -1: go on; else the exit status. Messages go to standard error (on the first rank only). */
int bench_options_parse(int argc, char **argv, struct bench_options *options);
/** @p stream on rank 0 of a job and without one, else NULL. */
bool bench_speaks(void);

#endif
