// SPDX-License-Identifier: Apache-2.0
// Boards between threads of one process. A segment is plain memory that its owner puts into a list
// at its port, and each member takes it from there once. Owns the segments, with reference counts:
// the last member that has one unmaps it. Must never write to another member's segment.
//
// Each member takes a segment only once (a bit for each member), which distinguishes it from the
// segment of the same board's next opening. Any memory of the process can be lent: its name is its
// address.
#include <sys/mman.h>

#include "base/alloc.h"
#include "transport/board_private.h"
#include "transport/inproc_pair.h"

enum { SPAN_OF_THE_PROCESS = 1 };

struct inproc_board {
    struct kolo_board base;
    struct kolo_inproc_port *port; /* a member's links hold references to the others' ports */
    struct kolo_inproc_segment *segments[KOLO_BOARD_MEMBERS_MAX]; /* NULL: not taken yet */
};

static struct inproc_board *inproc_board_of(struct kolo_board *base)
{
    return (struct inproc_board *)(void *)base;
}

/* ---- segments ---- */

static void segment_unref(struct kolo_inproc_segment *segment)
{
    if (!segment || atomic_fetch_sub(&segment->refs, 1) > 1)
        return;
    munmap(segment->memory, segment->bytes);
    kolo_free_memory(segment);
}

static struct kolo_inproc_segment *segment_create(uint32_t board, size_t bytes)
{
    struct kolo_inproc_segment *segment = kolo_calloc(1, sizeof *segment);
    if (!segment)
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        kolo_free_memory(segment);
        return NULL;
    }
    atomic_init(&segment->refs, 1);
    segment->board = board;
    segment->bytes = bytes;
    segment->memory = memory;
    return segment;
}

static void show(struct kolo_inproc_port *port, struct kolo_inproc_segment *segment)
{
    pthread_mutex_lock(&port->mutex);
    segment->next = port->segments;
    port->segments = segment;
    pthread_mutex_unlock(&port->mutex);
}

static void hide(struct kolo_inproc_port *port, struct kolo_inproc_segment *segment)
{
    pthread_mutex_lock(&port->mutex);
    struct kolo_inproc_segment **at = &port->segments;
    while (*at != segment)
        at = &(*at)->next;
    *at = segment->next;
    pthread_mutex_unlock(&port->mutex);
}

/** A reference to what the rank of @p port shows for @p board, if member @p self has not taken it
 *  yet. */
static struct kolo_inproc_segment *take(struct kolo_inproc_port *port, uint32_t board, int self)
{
    const uint64_t bit = (uint64_t)1 << self;
    pthread_mutex_lock(&port->mutex);
    struct kolo_inproc_segment *segment = port->segments;
    while (segment && (segment->board != board || (segment->taken & bit) != 0))
        segment = segment->next;
    if (segment) {
        segment->taken |= bit;
        atomic_fetch_add(&segment->refs, 1);
    }
    pthread_mutex_unlock(&port->mutex);
    return segment;
}

/* ---- opening and closing ---- */

static bool inproc_joins(const struct kolo_identity *a, const struct kolo_identity *b)
{
    return a->process == b->process;
}

static kolo_status inproc_open(struct kolo_board *base)
{
    struct inproc_board *board = inproc_board_of(base);
    struct kolo_inproc_segment *segment = segment_create(base->id, base->segment_bytes);
    if (!segment)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "%zu bytes for board %u", base->segment_bytes,
                         base->id);
    board->segments[base->self] = segment;
    base->members[base->self].segment = segment->memory;
    for (int i = 0; i < base->count && !board->port; i++)
        if (base->members[i].link)
            board->port = (struct kolo_inproc_port *)(void *)base->members[i].link->port;
    show(board->port, segment);
    for (int i = 0; i < base->count; i++) {
        if (!base->members[i].link)
            continue;
        struct kolo_inproc_port *theirs = kolo_inproc_peer(base->members[i].link);
        atomic_store(&theirs->has_news, true);
        kolo_inproc_ring(theirs);
    }
    return KOLO_OK;
}

static void inproc_look(struct kolo_board *base, struct kolo_board_member *member)
{
    struct inproc_board *board = inproc_board_of(base);
    if (member->other_bytes != 0)
        return;
    struct kolo_inproc_segment *segment =
        take(kolo_inproc_peer(member->link), base->id, base->self);
    if (!segment)
        return;
    if (kolo_board_attach(base, member, segment->memory, segment->bytes))
        board->segments[member - base->members] = segment;
    else
        segment_unref(segment);
}

static void inproc_close(struct kolo_board *base)
{
    struct inproc_board *board = inproc_board_of(base);
    if (board->segments[base->self])
        hide(board->port, board->segments[base->self]);
    for (int i = 0; i < base->count; i++)
        segment_unref(board->segments[i]);
}

/* ---- use ---- */

static void inproc_ring(struct kolo_board *base)
{
    for (int i = 0; i < base->count; i++)
        if (base->members[i].link)
            kolo_inproc_ring(kolo_inproc_peer(base->members[i].link));
}

static kolo_status inproc_reserve(struct kolo_board *base, size_t stage_bytes)
{
    (void)base;
    (void)stage_bytes; // anonymous memory: the system handles a lack of it, as for malloc
    return KOLO_OK;
}

static void inproc_lend(struct kolo_board *base, const void *memory, size_t bytes,
                        struct kolo_board_name *name_out)
{
    (void)base;
    (void)bytes;
    *name_out = (struct kolo_board_name){.span = SPAN_OF_THE_PROCESS,
                                         .offset = (uint64_t)(uintptr_t)memory};
}

static kolo_status inproc_borrow(struct kolo_board *base, struct kolo_board_member *member,
                                 const struct kolo_board_name *name, size_t bytes,
                                 uint8_t **memory_out)
{
    (void)base;
    (void)bytes;
    if (name->span != SPAN_OF_THE_PROCESS)
        return kolo_fail(KOLO_ERR_PROTOCOL, "rank %d, a thread of this process, lent span %llu",
                         member->rank, (unsigned long long)name->span);
    *memory_out = (uint8_t *)(uintptr_t)name->offset;
    return KOLO_OK;
}

static kolo_status inproc_sever(struct kolo_board *base, const void *memory, size_t bytes)
{
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "board %u: %zu bytes at %p are the same memory in every thread", base->id,
                     bytes, memory);
}

const struct kolo_board_ops kolo_board_inproc = {
    .bytes = sizeof(struct inproc_board),
    .joins = inproc_joins,
    .open = inproc_open,
    .close = inproc_close,
    .look = inproc_look,
    .ring = inproc_ring,
    .reserve = inproc_reserve,
    .lend = inproc_lend,
    .borrow = inproc_borrow,
    .sever = inproc_sever,
};
