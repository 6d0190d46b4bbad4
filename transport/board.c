// SPDX-License-Identifier: Apache-2.0
// What all boards have in common, whatever memory they are made of: which ranks can have one, the
// list of open boards, waiting for the members. Must never touch the content of a segment.
//
// Whether ranks can have a board is decided for each pair of them, from the table of ranks alone,
// so every member gets the same answer without asking: the same transport must join all pairs, and
// it must have boards.
#include "transport/board.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "transport/board_private.h"
#include "transport/core.h"

/* ---- who can have a board ---- */

/** Whether the transport with index @p index joins the two, for any rank that asks. */
static bool joins(int index, const struct kolo_peer *a, const struct kolo_peer *b)
{
    const struct kolo_board_ops *ops = kolo_transports[index]->boards;
    return ops && a->addresses[index].bytes > 0 && b->addresses[index].bytes > 0 &&
           ops->joins(&a->identity, &b->identity);
}

/** The first transport with boards that joins the two; -1: none. */
static int joined_by(const struct kolo_peer *a, const struct kolo_peer *b)
{
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++)
        if (joins(i, a, b))
            return i;
    return -1;
}

static bool say(struct kolo_why *why_out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool say(struct kolo_why *why_out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why_out->text, sizeof why_out->text, format, arguments);
    va_end(arguments);
    return false;
}

/** Whether these are ranks of the world, each only once, and this one among them. */
static bool are_members(const struct kolo_endpoint *endpoint, const int *ranks, int count,
                        struct kolo_why *why_out)
{
    bool is_there = false;
    if (count < 2 || count > KOLO_BOARD_MEMBERS_MAX)
        return say(why_out, "%d ranks: a board has from 2 to %d members", count,
                   KOLO_BOARD_MEMBERS_MAX);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= endpoint->config.size)
            return say(why_out, "there is no rank %d", ranks[i]);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return say(why_out, "rank %d is there twice", ranks[i]);
        is_there |= ranks[i] == endpoint->config.rank;
    }
    if (!is_there)
        return say(why_out, "rank %d is not among its members", endpoint->config.rank);
    return true;
}

/** The transport that all pairs have in common; -1, with the reason: none. */
static int find_common(const struct kolo_endpoint *endpoint, const int *ranks, int count,
                       struct kolo_why *why_out)
{
    int common = -1;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            int index = joined_by(&endpoint->peers[ranks[i]], &endpoint->peers[ranks[j]]);
            if (index < 0) {
                say(why_out, "ranks %d and %d have no memory in common", ranks[j], ranks[i]);
                return -1;
            }
            if (common >= 0 && index != common) {
                say(why_out, "ranks %d and %d are joined by %s, others by %s", ranks[j], ranks[i],
                    kolo_transports[index]->name, kolo_transports[common]->name);
                return -1;
            }
            common = index;
        }
    return common;
}

static int choose(const struct kolo_endpoint *endpoint, const int *ranks, int count,
                  struct kolo_why *why_out)
{
    if (!endpoint->peers) {
        say(why_out, "the other ranks are not known yet");
        return -1;
    }
    if (!are_members(endpoint, ranks, count, why_out))
        return -1;
    return find_common(endpoint, ranks, count, why_out);
}

bool kolo_board_fits(struct kolo_endpoint *endpoint, const int *ranks, int count,
                     struct kolo_why *why_out)
{
    *why_out = (struct kolo_why){""};
    return choose(endpoint, ranks, count, why_out) >= 0;
}

/* ---- opening and closing ---- */

struct kolo_board *kolo_endpoint_boards(const struct kolo_endpoint *endpoint)
{
    return endpoint->boards;
}

struct kolo_board *kolo_endpoint_board(const struct kolo_endpoint *endpoint, uint32_t id)
{
    return kolo_map_get(&endpoint->board_ids, id);
}

static kolo_status enlist(struct kolo_board *board)
{
    struct kolo_endpoint *endpoint = board->endpoint;
    const kolo_status status = kolo_map_put(&endpoint->board_ids, board->id, board);
    if (status != KOLO_OK)
        return status;
    board->next = endpoint->boards;
    if (board->next)
        board->next->previous = board;
    endpoint->boards = board;
    return KOLO_OK;
}

static void unlist(struct kolo_board *board)
{
    kolo_map_remove(&board->endpoint->board_ids, board->id);
    if (board->previous)
        board->previous->next = board->next;
    else
        board->endpoint->boards = board->next;
    if (board->next)
        board->next->previous = board->previous;
}

/** Begins to make a link to each member that has none. */
static kolo_status link_members(struct kolo_board *board, const int *ranks)
{
    for (int i = 0; i < board->count; i++) {
        struct kolo_board_member *member = &board->members[i];
        member->rank = ranks[i];
        if (ranks[i] == board->endpoint->config.rank) {
            board->self = i;
            continue;
        }
        kolo_status status =
            kolo_endpoint_link(board->endpoint, ranks[i], board->deadline, &member->link);
        if (status != KOLO_OK)
            return status;
        if (member->link->heard_goodbye)
            return kolo_fail(KOLO_ERR_PEER, "rank %d has left: no memory in common with it",
                             ranks[i]);
    }
    return KOLO_OK;
}

kolo_status kolo_board_open(struct kolo_endpoint *endpoint, uint32_t id, const int *ranks,
                            int count, size_t stage_bytes, kolo_deadline deadline,
                            struct kolo_board **board_out)
{
    struct kolo_why why;
    int index = choose(endpoint, ranks, count, &why);
    if (index < 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "board %u: %s", id, why.text);
    if (kolo_endpoint_board(endpoint, id))
        return kolo_fail(KOLO_ERR_INVALID, "board %u is open already", id);
    if (stage_bytes > KOLO_BOARD_STAGE_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "board %u: a stage of %zu bytes, the most is %d", id,
                         stage_bytes, KOLO_BOARD_STAGE_MAX);
    const struct kolo_board_ops *ops = kolo_transports[index]->boards;
    struct kolo_board *board = kolo_calloc(1, ops->bytes);
    if (!board)
        return KOLO_ERR_NO_MEMORY;
    board->ops = ops;
    board->endpoint = endpoint;
    board->deadline = deadline;
    board->id = id;
    board->pid = (int32_t)getpid();
    board->count = count;
    board->segment_bytes = KOLO_BOARD_NOTES_BYTES +
                           (stage_bytes + KOLO_BOARD_PAGE - 1) / KOLO_BOARD_PAGE * KOLO_BOARD_PAGE;
    kolo_status status = link_members(board, ranks);
    if (status == KOLO_OK)
        status = enlist(board);
    if (status != KOLO_OK) {
        kolo_free_memory(board);
        return status;
    }
    status = ops->open(board);
    if (status == KOLO_OK)
        *board_out = board;
    else
        kolo_board_close(board);
    return status;
}

void kolo_board_close(struct kolo_board *board)
{
    if (!board)
        return;
    unlist(board);
    board->ops->close(board);
    kolo_free_memory(board);
}

void kolo_boards_close(struct kolo_endpoint *endpoint)
{
    while (endpoint->boards)
        kolo_board_close(endpoint->boards);
    kolo_map_fini(&endpoint->board_ids);
}

bool kolo_board_attach(struct kolo_board *board, struct kolo_board_member *member, void *segment,
                       size_t bytes)
{
    if (bytes != board->segment_bytes) {
        member->other_bytes = bytes;
        return false;
    }
    member->segment = segment;
    return true;
}

/** What prevents @p member's segment from being here. */
static kolo_status missing(const struct kolo_board *board, const struct kolo_board_member *member)
{
    const struct kolo_link *link = member->link;
    if (member->other_bytes != 0)
        return kolo_fail(KOLO_ERR_MISMATCH,
                         "rank %d has %zu bytes for board %u, rank %d has %zu: is a setting "
                         "different there?",
                         member->rank, member->other_bytes, board->id, board->endpoint->config.rank,
                         board->segment_bytes);
    if (link->heard_goodbye)
        return kolo_fail(KOLO_ERR_PEER, "rank %d has left, with its part of board %u", member->rank,
                         board->id);
    if (link->state == KOLO_LINK_DOWN)
        return kolo_fail(link->why, "%s",
                         link->why_text ? link->why_text : kolo_status_text(link->why));
    if (kolo_deadline_passed(board->deadline))
        return kolo_fail(KOLO_ERR_TIMEOUT, "rank %d did not open board %u before the deadline",
                         member->rank, board->id);
    return KOLO_AGAIN;
}

kolo_status kolo_board_ready(struct kolo_board *board, int *waits_for_out)
{
    kolo_status status = KOLO_OK;
    for (int i = 0; i < board->count && (status == KOLO_OK || status == KOLO_AGAIN); i++) {
        struct kolo_board_member *member = &board->members[i];
        if (!member->segment && board->ops->look)
            board->ops->look(board, member);
        if (member->segment && (!member->link || member->link->state != KOLO_LINK_DOWN))
            continue;
        kolo_status why = missing(board, member);
        if (waits_for_out && (status == KOLO_OK || why != KOLO_AGAIN))
            *waits_for_out = member->rank;
        status = status == KOLO_OK || why != KOLO_AGAIN ? why : status;
    }
    return status;
}

/* ---- use ---- */

int kolo_board_self(const struct kolo_board *board)
{
    return board->self;
}

int kolo_board_count(const struct kolo_board *board)
{
    return board->count;
}

void *kolo_board_notes(struct kolo_board *board, int member)
{
    return board->members[member].segment;
}

uint8_t *kolo_board_stage(struct kolo_board *board, int member)
{
    return board->members[member].segment + KOLO_BOARD_NOTES_BYTES;
}

kolo_status kolo_board_reserve(struct kolo_board *board, size_t stage_bytes)
{
    if (stage_bytes > board->segment_bytes - KOLO_BOARD_NOTES_BYTES)
        return kolo_fail(KOLO_ERR_INVALID, "%zu bytes of a stage of %zu", stage_bytes,
                         board->segment_bytes - KOLO_BOARD_NOTES_BYTES);
    return board->ops->reserve(board, stage_bytes);
}

void kolo_board_ring(struct kolo_board *board)
{
    board->ops->ring(board);
}

void kolo_board_lend(struct kolo_board *board, const void *memory, size_t bytes,
                     struct kolo_board_name *name_out)
{
    board->ops->lend(board, memory, bytes, name_out);
}

kolo_status kolo_board_borrow(struct kolo_board *board, int member,
                              const struct kolo_board_name *name, size_t bytes,
                              uint8_t **memory_out)
{
    return board->ops->borrow(board, &board->members[member], name, bytes, memory_out);
}

kolo_status kolo_board_sever(struct kolo_board *board, const void *memory, size_t bytes)
{
    return board->ops->sever(board, memory, bytes);
}

uint64_t kolo_board_address(const struct kolo_board *board, const void *memory)
{
    return getpid() == board->pid ? (uint64_t)(uintptr_t)memory : 0;
}

kolo_status kolo_board_may_pull(struct kolo_board *board, int member)
{
    if (!board->ops->may_pull || member == board->self)
        return KOLO_OK;
    return board->ops->may_pull(board, member);
}

kolo_status kolo_board_pull(struct kolo_board *board, int member, uint64_t address, void *to,
                            size_t bytes)
{
    if (!board->ops->pull || member == board->self)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "memory of this process is not pulled");
    return board->ops->pull(board, member, address, to, bytes);
}

void kolo_board_settle(struct kolo_board *board)
{
    if (board->ops->settle)
        board->ops->settle(board);
}

void kolo_boards_span_gone(struct kolo_endpoint *endpoint, uint64_t id)
{
    for (struct kolo_board *board = endpoint->boards; board; board = board->next)
        if (board->ops->span_gone)
            board->ops->span_gone(board, id);
}

void kolo_boards_span_cut(struct kolo_endpoint *endpoint, uint64_t id)
{
    for (struct kolo_board *board = endpoint->boards; board; board = board->next)
        if (board->ops->span_cut)
            board->ops->span_cut(board, id);
}
