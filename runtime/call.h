// SPDX-License-Identifier: Apache-2.0
// What a rank believes about a call: the facts, the 24 bytes that travel in every message header
// and are compared there, and the words for people.
//
//   0  u32 sequence   4  u8 kind  u8 dtype  u8 op  u8 plan   8  i32 root   12  u64 count
//   20 u32 hash of the rest: the tensor's name, counts and displs, the segment of the plan, the
//   name of an operator of the program's own, and the descriptions of the broadcasts before it that
//   nothing has closed yet
//
// An opaque type is type 255, and its size stands in the upper 16 bits of count. An operator of the
// program's own is operator 255.
#ifndef KOLO_RUNTIME_CALL_H
#define KOLO_RUNTIME_CALL_H

#include <stdint.h>

#include <kolo/types.h>

#include "runtime/plan.h"
#include "transport/transport.h"

/** Calls: X(name, text, what it has: C count and type, O operator, R root). The values are part of
 * the wire format. A receive is the same message as the send it meets. */
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
/** The most elements of an opaque type: more than can be addressed. */
static const uint64_t KOLO_OPAQUE_COUNT_MAX = ((uint64_t)1 << 48) - 1;

struct kolo_call {
    enum kolo_call_kind kind;
    uint32_t sequence;
    kolo_dtype dtype;
    kolo_redop op;
    int plan; /* index into kolo_plans */
    int root; /* of a message: the rank that receives it */
    uint64_t count;
    uint32_t hash;
    uint32_t history; /* a hash of the broadcasts before it that are open; 0: none; unpacked: 0 */
    const char *name; /* NULL: none, or not known (unpacked) */
    const char *op_name; /* of an operator of the program's own, as name */
    int peer;            /* of a send or receive; not packed */
};

/** Which plans carry out a call of @p kind; not for SEND and RECV. */
enum kolo_collective kolo_call_collective(enum kolo_call_kind kind);
const char *kolo_call_text(enum kolo_call_kind kind);
/** Is it between two ranks, rather than of all? */
static inline bool kolo_call_is_message(enum kolo_call_kind kind)
{
    return kind == KOLO_CALL_SEND || kind == KOLO_CALL_RECV;
}
/** Has it a root? */
bool kolo_call_is_rooted(enum kolo_call_kind kind);
/** Has it an operator? */
bool kolo_call_reduces(enum kolo_call_kind kind);

/** Mixes @p bytes bytes into @p hash (begin with 0). */
uint32_t kolo_call_hash(uint32_t hash, const void *data, size_t bytes);

/** What the calls after one of this description say of it, and of those before it: never 0. */
uint32_t kolo_call_history(uint32_t history, const struct kolo_desc *desc);

void kolo_call_pack(const struct kolo_call *call, struct kolo_desc *desc_out);
/** The same of a call that differs from the packed one in its number and history alone. */
void kolo_call_renumber(const struct kolo_call *call, struct kolo_desc *desc);
/** The description of a message of a call: that of the call, but for alltoallv, where the count is
 * that of the message, so that two ranks with different ideas of it notice. */
struct kolo_desc kolo_call_message(const struct kolo_call *call, const struct kolo_desc *desc,
                                   uint64_t count);
/** Are these messages of the same call? */
bool kolo_call_is_same(const struct kolo_desc *a, const struct kolo_desc *b);
/** Whatever the bytes are; what is out of range reads as such in the words. */
void kolo_call_unpack(const struct kolo_desc *desc, struct kolo_call *call_out);

/** "allreduce(count 10, float32, sum) 'grad/3'" */
void kolo_call_words(const struct kolo_call *call, char *text, size_t capacity);

/** Where two calls differ beyond their words: "" or ", with plan ring here and doubling there ..."
 */
const char *kolo_call_difference(const struct kolo_call *mine, const struct kolo_call *theirs);

#endif
