// SPDX-License-Identifier: Apache-2.0
// Owns the table of calls, and how a call is packed and put into words. Must never trust an
// unpacked description: it comes from a peer, and its kind, type and operator may be unknown here.
#include "runtime/call.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/wire.h"

struct call_row {
    const char *text, *has;
};
static const struct call_row rows[KOLO_CALLS] = {
#define KOLO_CALL_ROW(name, text, has) [KOLO_CALL_##name] = {text, has},
    KOLO_CALL_MAP(KOLO_CALL_ROW)
#undef KOLO_CALL_ROW
};

static const enum kolo_collective collectives[KOLO_CALLS] = {
    [KOLO_CALL_ALLREDUCE] = KOLO_COLLECTIVE_ALLREDUCE,
    [KOLO_CALL_REDUCE] = KOLO_COLLECTIVE_REDUCE,
    [KOLO_CALL_BROADCAST] = KOLO_COLLECTIVE_BROADCAST,
    [KOLO_CALL_ALLGATHER] = KOLO_COLLECTIVE_ALLGATHER,
    [KOLO_CALL_ALLGATHERV] = KOLO_COLLECTIVE_ALLGATHER,
    [KOLO_CALL_REDUCE_SCATTER] = KOLO_COLLECTIVE_REDUCE_SCATTER,
    [KOLO_CALL_GATHER] = KOLO_COLLECTIVE_GATHER,
    [KOLO_CALL_GATHERV] = KOLO_COLLECTIVE_GATHER,
    [KOLO_CALL_SCATTER] = KOLO_COLLECTIVE_SCATTER,
    [KOLO_CALL_BARRIER] = KOLO_COLLECTIVE_BARRIER,
    [KOLO_CALL_ALLTOALL] = KOLO_COLLECTIVE_ALLTOALL,
    [KOLO_CALL_ALLTOALLV] = KOLO_COLLECTIVE_ALLTOALL,
    [KOLO_CALL_SCATTERV] = KOLO_COLLECTIVE_SCATTER,
    [KOLO_CALL_REDUCE_SCATTERV] = KOLO_COLLECTIVE_REDUCE_SCATTER,
    [KOLO_CALL_SPLIT] = KOLO_COLLECTIVE_ALLGATHER,
    [KOLO_CALL_DUP] = KOLO_COLLECTIVE_ALLGATHER,
    [KOLO_CALL_FINALIZE] = KOLO_COLLECTIVE_BARRIER,
    [KOLO_CALL_COMPUTE] = KOLO_COLLECTIVE_ALLREDUCE,
};

enum kolo_collective kolo_call_collective(enum kolo_call_kind kind)
{
    return collectives[kind];
}

const char *kolo_call_text(enum kolo_call_kind kind)
{
    return kind < KOLO_CALLS ? rows[kind].text : "?";
}

/** Whether the letters of KOLO_CALL_MAP for @p kind include @p what. */
static bool has(enum kolo_call_kind kind, char what)
{
    return kind < KOLO_CALLS && strchr(rows[kind].has, what);
}

bool kolo_call_is_rooted(enum kolo_call_kind kind)
{
    return has(kind, 'R');
}

bool kolo_call_reduces(enum kolo_call_kind kind)
{
    return has(kind, 'O') || kind == KOLO_CALL_COMPUTE; /* its words name no operator */
}

uint32_t kolo_call_hash(uint32_t hash, const void *data, size_t bytes)
{
    return kolo_hash32(hash ^ KOLO_HASH32_START, data, bytes);
}

/* Hashes words, not bytes: a broadcast in shared memory takes no longer than a loop over the bytes
 * would. The multiplier is that of MurmurHash3's final mixing. */
uint32_t kolo_call_history(uint32_t history, const struct kolo_desc *desc)
{
    uint64_t mix = history, word;
    for (size_t at = 0; at < sizeof desc->bytes; at += sizeof word) {
        memcpy(&word, desc->bytes + at, sizeof word);
        mix = (mix ^ word) * UINT64_C(0xff51afd7ed558ccd);
        mix ^= mix >> 32;
    }
    return (uint32_t)mix != 0 ? (uint32_t)mix : 1;
}

enum { OWN = 255 /* in place of an opaque type or a user-defined operator */ };

static bool is_opaque(kolo_dtype dtype)
{
    return (unsigned)dtype > KOLO_DTYPE_OPAQUE;
}

static bool is_own(kolo_redop op)
{
    return (unsigned)op >= KOLO_REDOP_OWN;
}

static uint64_t count_of(const struct kolo_call *call)
{
    if (!is_opaque(call->dtype))
        return call->count;
    return (uint64_t)kolo_dtype_bytes(call->dtype) << 48 | (call->count & KOLO_OPAQUE_COUNT_MAX);
}

void kolo_call_pack(const struct kolo_call *call, struct kolo_desc *desc_out)
{
    enum kolo_call_kind kind = call->kind == KOLO_CALL_RECV ? KOLO_CALL_SEND : call->kind;
    struct kolo_writer writer = kolo_writer_over(desc_out->bytes, sizeof desc_out->bytes);
    kolo_write_u32(&writer, call->sequence);
    kolo_write_u8(&writer, (uint8_t)kind);
    kolo_write_u8(&writer, is_opaque(call->dtype) ? OWN : (uint8_t)call->dtype);
    kolo_write_u8(&writer, is_own(call->op) ? OWN : (uint8_t)call->op);
    kolo_write_u8(&writer, (uint8_t)call->plan);
    kolo_write_i32(&writer, call->root);
    kolo_write_u64(&writer, count_of(call));
    kolo_write_u32(&writer, call->hash ^ call->history);
}

void kolo_call_renumber(const struct kolo_call *call, struct kolo_desc *desc)
{
    uint8_t *hash = desc->bytes + sizeof desc->bytes - sizeof call->hash;
    struct kolo_writer first = kolo_writer_over(desc->bytes, sizeof call->sequence);
    struct kolo_writer last = kolo_writer_over(hash, sizeof call->hash);
    kolo_write_u32(&first, call->sequence);
    kolo_write_u32(&last, call->hash ^ call->history);
}

struct kolo_desc kolo_call_message(const struct kolo_call *call, const struct kolo_desc *desc,
                                   uint64_t count)
{
    if (call->kind != KOLO_CALL_ALLTOALLV)
        return *desc;
    struct kolo_call message = *call;
    struct kolo_desc packed;
    message.count = count;
    kolo_call_pack(&message, &packed);
    return packed;
}

bool kolo_call_is_same(const struct kolo_desc *a, const struct kolo_desc *b)
{
    struct kolo_call call;
    struct kolo_desc other = *b;
    kolo_call_unpack(a, &call);
    if (call.kind == KOLO_CALL_ALLTOALLV) {
        uint64_t count = call.count;
        kolo_call_unpack(b, &call);
        other = kolo_call_message(&call, b, count);
    }
    return memcmp(a, &other, sizeof other) == 0;
}

void kolo_call_unpack(const struct kolo_desc *desc, struct kolo_call *call_out)
{
    struct kolo_reader reader = kolo_reader_over(desc->bytes, sizeof desc->bytes);
    *call_out = (struct kolo_call){.sequence = kolo_read_u32(&reader)};
    call_out->kind = (enum kolo_call_kind)kolo_read_u8(&reader);
    call_out->dtype = (kolo_dtype)kolo_read_u8(&reader);
    call_out->op = (kolo_redop)kolo_read_u8(&reader);
    call_out->plan = kolo_read_u8(&reader);
    call_out->root = kolo_read_i32(&reader);
    call_out->count = kolo_read_u64(&reader);
    call_out->hash = kolo_read_u32(&reader);
    if ((int)call_out->op == OWN)
        call_out->op = (kolo_redop)KOLO_REDOP_OWN;
    if ((int)call_out->dtype == OWN) {
        call_out->dtype = KOLO_OPAQUE(call_out->count >> 48);
        call_out->count &= KOLO_OPAQUE_COUNT_MAX;
    }
    call_out->peer = call_out->root;
}

static void add(char *text, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t capacity, const char *format, ...)
{
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, capacity - used, format, list);
    va_end(list);
}

static void add_type(const struct kolo_call *call, char *text, size_t capacity)
{
    add(text, capacity, "count %llu, ", (unsigned long long)call->count);
    if (is_opaque(call->dtype))
        add(text, capacity, "%zu bytes each", kolo_dtype_bytes(call->dtype));
    else
        add(text, capacity, "%s", kolo_dtype_text(call->dtype));
}

static void add_operator(const struct kolo_call *call, char *text, size_t capacity)
{
    if (!is_own(call->op))
        add(text, capacity, ", %s", kolo_redop_text(call->op));
    else if (call->op_name)
        add(text, capacity, ", operator '%.*s'", (int)KOLO_NAME_SHOWN_MAX, call->op_name);
    else
        add(text, capacity, ", an operator of its own");
}

void kolo_call_words(const struct kolo_call *call, char *text, size_t capacity)
{
    const bool is_unknown = call->kind >= KOLO_CALLS; /* then nothing else can be said */
    snprintf(text, capacity, "%s(", kolo_call_text(call->kind));
    if (is_unknown || has(call->kind, 'C'))
        add_type(call, text, capacity);
    if (is_unknown || has(call->kind, 'O'))
        add_operator(call, text, capacity);
    if (is_unknown || has(call->kind, 'R'))
        add(text, capacity, ", root %d", call->root);
    if (call->kind == KOLO_CALL_SEND)
        add(text, capacity, ", to rank %d", call->peer);
    if (call->kind == KOLO_CALL_RECV)
        add(text, capacity, ", from rank %d", call->peer);
    add(text, capacity, ")");
    if (call->name)
        add(text, capacity, " '%.*s'", (int)KOLO_NAME_SHOWN_MAX, call->name);
}

/** How calls of this kind may differ that differ only in their hash. */
static const char *hashed_difference(enum kolo_call_kind kind, bool both_own)
{
    if (both_own)
        return ", by another operator, under another name, with other counts or another "
               "KOLO_SEGMENT_BYTES";
    if (kind == KOLO_CALL_ALLGATHERV || kind == KOLO_CALL_GATHERV || kind == KOLO_CALL_SCATTERV)
        return ", with other counts or displs, under another name or with another "
               "KOLO_SEGMENT_BYTES";
    if (kind == KOLO_CALL_REDUCE_SCATTERV)
        return ", with other counts or another postscale, under another name or with another "
               "KOLO_SEGMENT_BYTES";
    if (kind == KOLO_CALL_ALLREDUCE)
        return ", under another name, in a group of other calls, with another postscale or another "
               "KOLO_SEGMENT_BYTES";
    if (has(kind, 'O'))
        return ", under another name, with another postscale or another KOLO_SEGMENT_BYTES";
    return ", under another name or with another KOLO_SEGMENT_BYTES";
}

const char *kolo_call_difference(const struct kolo_call *mine, const struct kolo_call *theirs)
{
    bool both_own = is_own(mine->op) && is_own(theirs->op);
    bool same_words = mine->dtype == theirs->dtype && (mine->op == theirs->op || both_own) &&
                      mine->root == theirs->root && mine->count == theirs->count &&
                      (mine->kind == theirs->kind || mine->kind == KOLO_CALL_RECV);
    if (!same_words)
        return "";
    if (mine->plan != theirs->plan)
        return ", by another plan: KOLO_PLAN, KOLO_DETERMINISTIC, KOLO_TRANSPORT, "
               "KOLO_NESTED_BYTES or KOLO_SMALL_BYTES differ";
    uint32_t my_hash = mine->hash ^ mine->history, their_hash = theirs->hash ^ theirs->history;
    if (my_hash != their_hash && mine->history != 0)
        return ", after broadcasts that they called differently, or with another name, operator, "
               "counts or displs, postscale or KOLO_SEGMENT_BYTES";
    return my_hash != their_hash ? hashed_difference(mine->kind, both_own) : "";
}
