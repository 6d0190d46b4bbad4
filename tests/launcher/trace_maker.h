// SPDX-License-Identifier: Apache-2.0
// Builds timelines as ranks leave them, for tests of the code that merges them.
#ifndef KOLO_TESTS_TRACE_MAKER_H
#define KOLO_TESTS_TRACE_MAKER_H

#include <stdio.h>
#include <string.h>

#include <kolo/types.h>

#include "base/alloc.h"
#include "launcher/trace.h"

enum { MAKER_CAPACITY = 256, MAKER_WORD_INIT = 1, MAKER_WORD_ALLREDUCE, MAKER_WORD_RING };

struct maker {
    int rank;
    void *data;
};

static inline size_t maker_bytes(void)
{
    return kolo_timeline_bytes(MAKER_CAPACITY);
}

static inline struct kolo_timeline_head *maker_head(const struct maker *maker)
{
    return maker->data;
}

static inline struct maker maker_begin_of(int rank, int size, uint64_t clock, const char *host,
                                          uint32_t capacity)
{
    struct maker maker = {rank, kolo_calloc(1, kolo_timeline_bytes(capacity))};
    struct kolo_timeline_head *head = maker_head(&maker);
    kolo_timeline_format(head, rank, size, capacity);
    head->clock = clock;
    head->pid = 100u + (uint32_t)rank;
    head->words = 4;
    snprintf(head->host, sizeof head->host, "%s", host);
    snprintf(head->word[MAKER_WORD_INIT], KOLO_TIMELINE_WORD_MAX, "init");
    snprintf(head->word[MAKER_WORD_ALLREDUCE], KOLO_TIMELINE_WORD_MAX, "allreduce");
    snprintf(head->word[MAKER_WORD_RING], KOLO_TIMELINE_WORD_MAX, "ring");
    return maker;
}

static inline struct maker maker_begin(int rank, int size, uint64_t clock, const char *host)
{
    return maker_begin_of(rank, size, clock, host, MAKER_CAPACITY);
}

static inline struct kolo_timeline_record *maker_record(struct maker *maker, uint64_t number)
{
    struct kolo_timeline_record *records =
        (void *)((uint8_t *)maker->data + KOLO_TIMELINE_HEAD_BYTES);
    return &records[number % maker_head(maker)->capacity];
}

static inline void maker_add(struct maker *maker, const struct kolo_timeline_record *call)
{
    struct kolo_timeline_head *head = maker_head(maker);
    const uint64_t number = head->written++;
    *maker_record(maker, number) = *call;
    maker_record(maker, number)->mark = (uint32_t)(number + 1);
}

/** Adds an allreduce of the world. */
static inline void maker_call(struct maker *maker, uint32_t sequence, int64_t begin_ns,
                              int64_t end_ns)
{
    const struct kolo_timeline_record call = {.sequence = sequence,
                                              .begin_ns = begin_ns,
                                              .end_ns = end_ns,
                                              .bytes = 4096,
                                              .size = (uint32_t)maker_head(maker)->size,
                                              .peer = -1,
                                              .dtype = KOLO_FLOAT32,
                                              .op = KOLO_SUM,
                                              .kind = MAKER_WORD_ALLREDUCE,
                                              .plan = MAKER_WORD_RING,
                                              .shape_flags = KOLO_SHAPE_ALL};
    maker_add(maker, &call);
}

/** The last call of @p maker has ended with @p status. */
static inline void maker_fail(struct maker *maker, kolo_status status)
{
    maker_record(maker, maker_head(maker)->written - 1)->status = (int8_t)status;
}

/** Adds a message of the world; @p shape is KOLO_SHAPE_SEND or _RECV. */
static inline void maker_message(struct maker *maker, enum kolo_timeline_shape shape, int peer,
                                 uint32_t sequence, int64_t begin_ns, int64_t end_ns)
{
    const struct kolo_timeline_record call = {.sequence = sequence,
                                              .begin_ns = begin_ns,
                                              .end_ns = end_ns,
                                              .bytes = 64,
                                              .size = (uint32_t)maker_head(maker)->size,
                                              .peer = peer,
                                              .op = KOLO_TIMELINE_NO_OP,
                                              .shape_flags = (uint8_t)shape};
    maker_add(maker, &call);
}

/** Passes the timeline to @p trace. */
static inline kolo_status maker_give(struct maker *maker, struct kolo_trace *trace)
{
    return kolo_trace_add(trace, maker->rank, maker->data,
                          kolo_timeline_bytes(maker_head(maker)->capacity));
}

#endif
