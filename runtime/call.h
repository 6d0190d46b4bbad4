// SPDX-License-Identifier: Apache-2.0
// What a rank believes about a call, in three forms: a struct, the 24 bytes that travel in every
// message header and are compared by the receiver, and the words for error messages.
//
//   0  u32 sequence   4  u8 kind  u8 dtype  u8 op  u8 plan   8  i32 root   12  u64 count
//   20 u32 hash of the rest: the tensor's name, counts and displs, the segment of the plan, the
//   name of a user-defined operator, and the descriptions of earlier broadcasts that are still open
//
// An opaque type is type 255, with its size in the upper 16 bits of count. A user-defined operator
// is operator 255.
#ifndef KOLO_RUNTIME_CALL_H
#define KOLO_RUNTIME_CALL_H

#include <stdint.h>

#include <kolo/types.h>

#include "runtime/plan.h"
#include "transport/transport.h"

/** The calls: X(name, text, what it has: C count and type, O operator, R root). The values are part
 * of the wire format. A receive has the same description as the send that it matches. */
#define KOLO_CALL_MAP(X)                                                                           \
    X(ALLREDUCE, "allreduce", "CO")                                                                \
    X(REDUCE, "reduce", "COR")                                                                     \
    X(BROADCAST, "broadcast", "CR")                                                                \
    X(ALLGATHER, "allgather", "C")                                                                 \
    X(ALLGATHERV, "allgatherv", "C")                                                               \
    X(REDUCE_SCATTER, "reduce_scatter", "CO")                                                      \
    X(GATHER, "gather", "CR")                                                                      \
    X(GATHERV, "gatherv", "CR")                                                                    \
    X(SCATTER, "scatter", "CR")                                                                    \
    X(BARRIER, "barrier", "")                                                                      \
    X(SEND, "send", "C")                                                                           \
    X(RECV, "recv", "C")                                                                           \
    X(ALLTOALL, "alltoall", "C")                                                                   \
    X(ALLTOALLV, "alltoallv", "C")                                                                 \
    X(SCATTERV, "scatterv", "CR")                                                                  \
    X(REDUCE_SCATTERV, "reduce_scatterv", "CO")                                                    \
    X(SPLIT, "split", "")                                                                          \
    X(DUP, "dup", "")                                                                              \
    X(FINALIZE, "finalize", "")                                                                    \
    X(COMPUTE, "metrics_compute", "")

enum kolo_call_kind {
#define KOLO_CALL_ENUM(name, text, has) KOLO_CALL_##name,
    KOLO_CALL_MAP(KOLO_CALL_ENUM)
#undef KOLO_CALL_ENUM
        KOLO_CALLS
};

enum { KOLO_WORDS_MAX = 256, KOLO_NAME_SHOWN_MAX = 64 };
/** The most elements of an opaque type, more than can be addressed. */
static const uint64_t KOLO_OPAQUE_COUNT_MAX = ((uint64_t)1 << 48) - 1;

struct kolo_call {
    enum kolo_call_kind kind;
    uint32_t sequence;
    kolo_dtype dtype;
    kolo_redop op;
    int plan; /* its number */
    int root; /* of a message: the receiving rank */
    uint64_t count;
    uint32_t hash;
    uint32_t history;    /* hash of the open broadcasts before it; 0: none, and after unpacking */
    const char *name;    /* NULL: none, or not known (after unpacking) */
    const char *op_name; /* of a user-defined operator; NULL as for name */
    int peer;            /* of a send or receive; not packed */
};

/** The collective whose plans carry out a call of @p kind. Not for SEND and RECV. */
enum kolo_collective kolo_call_collective(enum kolo_call_kind kind);
const char *kolo_call_text(enum kolo_call_kind kind);
/** Whether it is between two ranks, and not a collective. */
static inline bool kolo_call_is_message(enum kolo_call_kind kind)
{
    return kind == KOLO_CALL_SEND || kind == KOLO_CALL_RECV;
}
/** Whether it has a root. */
bool kolo_call_is_rooted(enum kolo_call_kind kind);
/** Whether it has an operator. */
bool kolo_call_reduces(enum kolo_call_kind kind);

/** Mixes @p bytes bytes into @p hash; begin with 0. */
uint32_t kolo_call_hash(uint32_t hash, const void *data, size_t bytes);

/** The history after a broadcast with description @p desc, given the @p history before it; never
 * 0. */
uint32_t kolo_call_history(uint32_t history, const struct kolo_desc *desc);

void kolo_call_pack(const struct kolo_call *call, struct kolo_desc *desc_out);
/** Packs a call again that differs from the packed one only in its number and history. */
void kolo_call_renumber(const struct kolo_call *call, struct kolo_desc *desc);
/** The description of one message of a call. It is the call's, except for alltoallv: there the
 * count is the message's, so that two ranks with different counts notice. */
struct kolo_desc kolo_call_message(const struct kolo_call *call, const struct kolo_desc *desc,
                                   uint64_t count);
/** Whether these messages belong to the same call. */
bool kolo_call_is_same(const struct kolo_desc *a, const struct kolo_desc *b);
/** Accepts any bytes; values out of range are shown as such in the words. */
void kolo_call_unpack(const struct kolo_desc *desc, struct kolo_call *call_out);

/** "allreduce(count 10, float32, sum) 'grad/3'" */
void kolo_call_words(const struct kolo_call *call, char *text, size_t capacity);

/** A text about where two calls differ beyond their words, such as ", with plan ring here and
 * doubling there ..."; "" if they do not. */
const char *kolo_call_difference(const struct kolo_call *mine, const struct kolo_call *theirs);

#endif
