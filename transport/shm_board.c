// SPDX-License-Identifier: Apache-2.0
// Boards over shm. Each member's segment is a memfd that the others map read-only; spans of
// kolo_alloc are lent under the number that they have in their heap. Owns the segments, and the
// messages about them that wait for a link. Must never block, write to another member's segment, or
// use a number from a peer before it was bounded.
//
//   SEGMENT {board, bytes} + memfd   to each member as soon as the link to it is up
//   CLOSED_BOARD {board}             takes it back from a member that has not opened the board
//
// If a segment arrives before the board is open here, its link keeps it, mapped. A member that
// closes a board and opens it again passes a new segment, which waits until the board that has the
// old one is closed here too.
//
// Spans: a link knows a limited number of spans, and replaces one that is not pinned by a new one.
// The last few spans that were lent are pinned on every link, so that none is replaced while a
// collective uses it. They also serve as the cache of lend(). If a span is cut in pieces, the pins
// of boards whose collective may have named it stay until that is over, since its memory outside
// the cut is used on; new names are made of the pieces.
//
// Pulling: before a member passes its segment, it fills in the last line of the notes, its card,
// which says where in its process a certain random word is. Who that process is, the kernel says,
// by the link's socket: with the number that is right in the namespace of the rank that asks.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "transport/auth.h"
#include "transport/board_private.h"
#include "transport/peer_memory.h"
#include "transport/shm.h"

/* How many of a peer's segments may wait for their boards: a program may have started calls on many
 * new communicators, whose boards are opened by these calls, before this rank begins its own. */
enum { EARLY_MAX = 1 << 14 };

/** A span that is lent; base NULL: unused. */
struct pin {
    const uint8_t *base;
    size_t bytes;
    uint64_t offset; /* of base within the file */
    uint64_t span, last_use;
    bool is_cut; /* its span is in pieces: for names that exist already */
    int16_t handles[KOLO_BOARD_MEMBERS_MAX]; /* on the link to each other member; -1: not pinned */
};

/** A card in the notes, for members that want to read this process. */
struct card {
    uint64_t word_at, word;
};
_Static_assert(sizeof(struct card) <= KOLO_BOARD_CARD_BYTES, "fits");

struct shm_board {
    struct kolo_board base;
    int fd;          /* of this rank's segment; -1: none */
    bool is_using;   /* something may be borrowed */
    bool is_lending; /* names of the running collective may exist */
    bool has_cut_pins;
    size_t reserved;
    uint64_t uses;
    struct pin pins[KOLO_BOARD_LENT_MAX];
    uint64_t word; /* shows a reader that it has read this process */
    struct kolo_peer_memory others[KOLO_BOARD_MEMBERS_MAX]; /* pid 0: not tried, or it failed */
};

static struct shm_board *shm_board_of(struct kolo_board *base)
{
    return (struct shm_board *)(void *)base;
}

/* ---- messages ---- */

kolo_status kolo_shm_boards_flush(struct kolo_shm_link *link)
{
    struct kolo_shm_boards *boards = &link->boards;
    kolo_status status = KOLO_OK;
    size_t sent = 0;
    if (boards->waiting_count == 0)
        return KOLO_OK;
    while (sent < boards->waiting_count && status == KOLO_OK) {
        status = kolo_shm_message_send(link->watch.fd, &boards->waiting[sent]);
        sent += status == KOLO_OK;
    }
    boards->waiting_count -= sent;
    memmove(boards->waiting, boards->waiting + sent,
            boards->waiting_count * sizeof *boards->waiting);
    return status;
}

/** Sends @p message now, or as soon as possible. */
static kolo_status post(struct kolo_shm_link *link, const struct kolo_shm_message *message)
{
    struct kolo_shm_boards *boards = &link->boards;
    void *waiting = boards->waiting;
    kolo_status status = kolo_grow(&waiting, &boards->waiting_capacity, boards->waiting_count + 1,
                                   sizeof *boards->waiting);
    if (status != KOLO_OK)
        return status;
    boards->waiting = waiting;
    boards->waiting[boards->waiting_count++] = *message;
    return link->state == KOLO_SHM_OPEN ? kolo_shm_send_waiting(link) : KOLO_OK;
}

/** Removes the SEGMENT of board @p id, if it is still waiting to be sent. */
static bool unpost(struct kolo_shm_link *link, uint32_t id)
{
    struct kolo_shm_boards *boards = &link->boards;
    for (size_t i = 0; i < boards->waiting_count; i++) {
        if (boards->waiting[i].kind != KOLO_SHM_SEGMENT || boards->waiting[i].id != id)
            continue;
        boards->waiting_count--;
        memmove(&boards->waiting[i], &boards->waiting[i + 1],
                (boards->waiting_count - i) * sizeof *boards->waiting);
        return true;
    }
    return false;
}

/** The member at the other end of @p link, if the board still waits for its segment. */
static struct kolo_board_member *find_waiting(struct kolo_board *board,
                                              const struct kolo_link *link)
{
    for (int i = 0; i < board->count; i++) {
        struct kolo_board_member *member = &board->members[i];
        if (member->link == link && !member->segment && member->other_bytes == 0)
            return member;
    }
    return NULL;
}

/** Passes a segment to the board that waits for it. False: no board does. */
static bool deliver(struct kolo_shm_link *link, const struct kolo_shm_segment *segment)
{
    struct kolo_board *board = kolo_endpoint_board(link->base.endpoint, segment->board);
    struct kolo_board_member *member = NULL;
    if (board && board->ops == &kolo_board_shm)
        member = find_waiting(board, &link->base);
    if (!member)
        return false;
    if (!kolo_board_attach(board, member, segment->base, segment->bytes))
        kolo_shm_memory_unmap(segment->base, segment->bytes);
    return true;
}

static kolo_status keep(struct kolo_shm_boards *boards, const struct kolo_shm_segment *segment)
{
    void *early = boards->early;
    if (boards->early_count >= EARLY_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL, "the peer has opened %d boards that are not open here",
                         EARLY_MAX);
    kolo_status status =
        kolo_grow(&early, &boards->early_capacity, boards->early_count + 1, sizeof *boards->early);
    if (status != KOLO_OK)
        return status;
    boards->early = early;
    boards->early[boards->early_count++] = *segment;
    return KOLO_OK;
}

kolo_status kolo_shm_boards_segment(struct kolo_shm_link *link, struct kolo_shm_message *message)
{
    struct kolo_shm_segment segment = {.board = (uint32_t)message->id,
                                       .bytes = (size_t)message->bytes};
    if (message->fd_count != 1 || message->id > UINT32_MAX ||
        message->bytes < KOLO_BOARD_NOTES_BYTES ||
        message->bytes > KOLO_BOARD_NOTES_BYTES + (uint64_t)KOLO_BOARD_STAGE_MAX)
        return kolo_fail(
            KOLO_ERR_PROTOCOL, "shm: impossible segment (board %llu, %llu bytes, %zu descriptors)",
            (unsigned long long)message->id, (unsigned long long)message->bytes, message->fd_count);
    kolo_status status =
        kolo_shm_memory_map(message->fds[0], segment.bytes, PROT_READ, &segment.base);
    if (status != KOLO_OK || deliver(link, &segment))
        return status;
    status = keep(&link->boards, &segment);
    if (status != KOLO_OK)
        kolo_shm_memory_unmap(segment.base, segment.bytes);
    return status;
}

/** Removes the first early segment of board @p id and returns it. */
static bool take_early(struct kolo_shm_boards *boards, uint32_t id,
                       struct kolo_shm_segment *segment_out)
{
    for (size_t i = 0; i < boards->early_count; i++) {
        if (boards->early[i].board != id)
            continue;
        *segment_out = boards->early[i];
        boards->early_count--;
        memmove(&boards->early[i], &boards->early[i + 1],
                (boards->early_count - i) * sizeof *boards->early);
        return true;
    }
    return false;
}

kolo_status kolo_shm_boards_closed(struct kolo_shm_link *link, struct kolo_shm_message *message)
{
    struct kolo_shm_segment segment;
    if (message->fd_count != 0 || message->id > UINT32_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: impossible board %llu closed",
                         (unsigned long long)message->id);
    if (take_early(&link->boards, (uint32_t)message->id, &segment))
        kolo_shm_memory_unmap(segment.base, segment.bytes);
    return KOLO_OK; // otherwise a board here has it until it is closed too
}

void kolo_shm_boards_fini(struct kolo_shm_boards *boards)
{
    for (size_t i = 0; i < boards->early_count; i++)
        kolo_shm_memory_unmap(boards->early[i].base, boards->early[i].bytes);
    kolo_free_memory(boards->early);
    kolo_free_memory(boards->waiting);
    *boards = (struct kolo_shm_boards){0};
}

/* ---- opening and closing ---- */

static bool shm_joins(const struct kolo_identity *a, const struct kolo_identity *b)
{
    return a->host_id == b->host_id;
}

/** Takes the segments that have arrived, and passes this rank's segment to the others. */
static kolo_status exchange(struct shm_board *board)
{
    const struct kolo_shm_message message = {.kind = KOLO_SHM_SEGMENT,
                                             .id = board->base.id,
                                             .bytes = board->base.segment_bytes,
                                             .fds = {board->fd},
                                             .fd_count = 1};
    for (int i = 0; i < board->base.count; i++) {
        struct kolo_link *base = board->base.members[i].link;
        struct kolo_shm_segment segment;
        if (!base)
            continue;
        struct kolo_shm_link *link = kolo_shm_link_of(base);
        if (take_early(&link->boards, board->base.id, &segment))
            (void)deliver(link, &segment);
        kolo_status status = post(link, &message);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

static struct card *card_of(const struct kolo_board_member *member)
{
    return (void *)(member->segment + KOLO_BOARD_NOTES_BYTES - KOLO_BOARD_CARD_BYTES);
}

/** Fills in the card, by which the others can read this process if the system allows it. */
static kolo_status show_card(struct shm_board *board)
{
    if (!kolo_endpoint_config_of(board->base.endpoint)->settings->cma)
        return KOLO_OK;
    kolo_status status = kolo_random(&board->word, sizeof board->word);
    if (status == KOLO_OK)
        *card_of(&board->base.members[board->base.self]) =
            (struct card){.word_at = (uint64_t)(uintptr_t)&board->word, .word = board->word};
    return status;
}

static kolo_status shm_open_board(struct kolo_board *base)
{
    struct shm_board *board = shm_board_of(base);
    void *segment;
    kolo_status status = kolo_shm_segment_create("kolo-board", base->segment_bytes,
                                                 KOLO_BOARD_NOTES_BYTES, &board->fd, &segment);
    if (status != KOLO_OK) {
        board->fd = -1;
        return status;
    }
    base->members[base->self].segment = segment;
    status = show_card(board);
    return status == KOLO_OK ? exchange(board) : status;
}

/** Reads the socket for @p member's segment: the poller, which would bring it, is asked more
 * rarely. */
static void shm_look(struct kolo_board *base, struct kolo_board_member *member)
{
    struct kolo_shm_link *link = kolo_shm_link_of(member->link);
    (void)base;
    if (link->state != KOLO_SHM_OPEN || member->other_bytes != 0)
        return;
    const kolo_status status = kolo_shm_read_socket(link);
    if (status != KOLO_OK && status != KOLO_ERR_LINK) // progress finds that a peer is gone
        kolo_shm_end(link, status);
}

static void unpin(struct shm_board *board, struct pin *pin)
{
    for (int i = 0; i < board->base.count; i++)
        if (pin->handles[i] >= 0)
            kolo_shm_lender_unpin(&kolo_shm_link_of(board->base.members[i].link)->lender,
                                  pin->handles[i]);
    *pin = (struct pin){0};
}

static void take_back(struct shm_board *board, struct kolo_shm_link *link)
{
    const struct kolo_shm_message message = {.kind = KOLO_SHM_CLOSED_BOARD, .id = board->base.id};
    if (unpost(link, board->base.id) || link->state != KOLO_SHM_OPEN)
        return;
    kolo_status status = post(link, &message);
    if (status != KOLO_OK)
        kolo_shm_end(link, status); // otherwise it would be taken for a segment of the next board
}

static void shm_close(struct kolo_board *base)
{
    struct shm_board *board = shm_board_of(base);
    kolo_board_settle(base);
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++)
        if (board->pins[i].base)
            unpin(board, &board->pins[i]);
    for (int i = 0; i < base->count; i++) {
        struct kolo_board_member *member = &base->members[i];
        if (member->link && board->fd >= 0)
            take_back(board, kolo_shm_link_of(member->link));
        kolo_shm_memory_unmap(member->segment, base->segment_bytes);
        member->segment = NULL;
    }
    if (board->fd >= 0)
        close(board->fd);
}

/* ---- use ---- */

static void shm_ring(struct kolo_board *base)
{
    for (int i = 0; i < base->count; i++) {
        const struct kolo_link *link = base->members[i].link;
        if (!link)
            continue;
        const struct kolo_shm_bell *bell =
            &((const struct kolo_shm_link *)(const void *)link)->bell;
        if (bell->armed)
            kolo_shm_bell_ring(bell);
    }
}

static kolo_status shm_reserve(struct kolo_board *base, size_t stage_bytes)
{
    struct shm_board *board = shm_board_of(base);
    if (stage_bytes <= board->reserved)
        return KOLO_OK;
    kolo_status status = kolo_shm_segment_reserve(board->fd, KOLO_BOARD_NOTES_BYTES + stage_bytes);
    if (status == KOLO_OK)
        board->reserved = stage_bytes;
    return status;
}

static struct pin *oldest_pin(struct shm_board *board)
{
    struct pin *oldest = &board->pins[0];
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++) {
        struct pin *pin = &board->pins[i];
        if (!pin->base)
            return pin;
        if (pin->last_use < oldest->last_use)
            oldest = pin;
    }
    unpin(board, oldest);
    return oldest;
}

/** Pins @p span on the link to each member. NULL: one of them cannot get it (now). */
static struct pin *pin_span(struct shm_board *board, const struct kolo_span *span)
{
    struct pin *pin = oldest_pin(board);
    bool are_all = true;
    pin->base = span->base;
    pin->bytes = span->bytes;
    pin->offset = span->file_offset;
    pin->span = span->id;
    for (int i = 0; i < board->base.count; i++) {
        struct kolo_link *base = board->base.members[i].link;
        struct kolo_shm_link *link = base ? kolo_shm_link_of(base) : NULL;
        pin->handles[i] = -1;
        if (link && link->state == KOLO_SHM_OPEN && are_all)
            pin->handles[i] = (int16_t)kolo_shm_lender_pin(&link->lender, link->watch.fd, span);
        are_all &= !link || pin->handles[i] >= 0;
    }
    if (are_all)
        return pin;
    unpin(board, pin);
    return NULL;
}

static struct pin *find_pin(struct shm_board *board, const void *memory, size_t bytes)
{
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++) {
        struct pin *pin = &board->pins[i];
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)pin->base;
        if (pin->base && !pin->is_cut && offset < pin->bytes && bytes <= pin->bytes - offset)
            return pin;
    }
    return NULL;
}

static void shm_lend(struct kolo_board *base, const void *memory, size_t bytes,
                     struct kolo_board_name *name_out)
{
    struct shm_board *board = shm_board_of(base);
    struct kolo_heap *heap = kolo_endpoint_config_of(base->endpoint)->heap;
    struct kolo_span span;
    struct pin *pin = find_pin(board, memory, bytes);
    *name_out = (struct kolo_board_name){0};
    if (!pin && heap && kolo_heap_find(heap, memory, bytes, &span))
        pin = pin_span(board, &span);
    if (!pin)
        return;
    board->is_lending = true;
    pin->last_use = ++board->uses;
    name_out->span = pin->span;
    name_out->offset = pin->offset + (uint64_t)((const uint8_t *)memory - pin->base);
}

/** Handles a name that this rank itself has made. */
static kolo_status borrow_own(struct shm_board *board, const struct kolo_board_name *name,
                              size_t bytes, uint8_t **memory_out)
{
    struct kolo_heap *heap = kolo_endpoint_config_of(board->base.endpoint)->heap;
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++) {
        const struct pin *pin = &board->pins[i];
        uint64_t offset = name->offset - pin->offset;
        if (!pin->base || pin->span != name->span || offset > pin->bytes ||
            bytes > pin->bytes - offset)
            continue;
        if (pin->is_cut && !kolo_heap_has(heap, pin->base + offset)) /* and freed since */
            continue;
        *memory_out = (uint8_t *)(uintptr_t)pin->base + offset;
        return KOLO_OK;
    }
    return kolo_fail(KOLO_ERR_PROTOCOL, "span %llu is not lent", (unsigned long long)name->span);
}

/** The span is unknown here: either it is under way, or the peer never passed it. */
static kolo_status look_for_span(struct kolo_shm_link *link)
{
    kolo_status status = link->state == KOLO_SHM_OPEN ? kolo_shm_read_socket(link) : KOLO_ERR_LINK;
    if (status == KOLO_OK || (status == KOLO_ERR_LINK && link->state == KOLO_SHM_OPEN))
        return KOLO_OK; // progress finds that a peer is gone, and first delivers what it had sent
    if (link->state == KOLO_SHM_OPEN)
        kolo_shm_end(link, status);
    return kolo_fail(link->base.why, "%s",
                     link->base.why_text ? link->base.why_text : kolo_status_text(link->base.why));
}

static kolo_status shm_borrow(struct kolo_board *base, struct kolo_board_member *member,
                              const struct kolo_board_name *name, size_t bytes,
                              uint8_t **memory_out)
{
    struct shm_board *board = shm_board_of(base);
    if (!member->link)
        return borrow_own(board, name, bytes, memory_out);
    struct kolo_shm_link *link = kolo_shm_link_of(member->link);
    board->is_using = true;
    kolo_status status =
        kolo_shm_borrower_open(&link->borrower, name->span, name->offset, bytes, memory_out);
    if (status != KOLO_AGAIN)
        return status;
    status = look_for_span(link);
    if (status != KOLO_OK)
        return status;
    return kolo_shm_borrower_open(&link->borrower, name->span, name->offset, bytes, memory_out);
}

static void tell_cut(void *context, uint64_t id)
{
    kolo_endpoint_span_cut(context, id);
}

static kolo_status shm_sever(struct kolo_board *base, const void *memory, size_t bytes)
{
    struct kolo_heap *heap = kolo_endpoint_config_of(base->endpoint)->heap;
    if (!heap || bytes == 0 || !kolo_heap_has(heap, memory))
        return KOLO_OK; // no other process can have mapped it
    return kolo_heap_sever(heap, memory, bytes, tell_cut, base->endpoint);
}

static kolo_status shm_may_pull(struct kolo_board *base, int index)
{
    struct shm_board *board = shm_board_of(base);
    const struct kolo_board_member *member = &base->members[index];
    const struct card *card = card_of(member);
    const struct kolo_shm_link *link = kolo_shm_link_of(member->link);
    struct kolo_peer_memory peer = {.word_at = card->word_at, .word = card->word};
    uint64_t word;
    if (link->state == KOLO_SHM_OPEN && peer.word_at != 0)
        peer.pid = kolo_peer_memory_pid(link->watch.fd);
    kolo_status status = kolo_peer_memory_read(&peer, peer.word_at, &word, sizeof word);
    board->others[index] = status == KOLO_OK ? peer : (struct kolo_peer_memory){0};
    return status;
}

static kolo_status shm_pull(struct kolo_board *base, int index, uint64_t address, void *to,
                            size_t bytes)
{
    return kolo_peer_memory_read(&shm_board_of(base)->others[index], address, to, bytes);
}

/** Whether another board uses what it has borrowed. Spans belong to links, and boards share
 *  links. */
static bool is_any_using(struct kolo_endpoint *endpoint)
{
    for (struct kolo_board *board = kolo_endpoint_boards(endpoint); board; board = board->next)
        if (board->ops == &kolo_board_shm && shm_board_of(board)->is_using)
            return true;
    return false;
}

/** Lets go of spans that were cut while the collective that is over may have named them. */
static void drop_cut_pins(struct shm_board *board)
{
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++)
        if (board->pins[i].is_cut)
            unpin(board, &board->pins[i]);
    board->has_cut_pins = false;
    for (int i = 0; i < board->base.count; i++) {
        struct kolo_link *base = board->base.members[i].link;
        struct kolo_shm_link *link = base ? kolo_shm_link_of(base) : NULL;
        if (link && link->state == KOLO_SHM_OPEN)
            kolo_shm_lender_tell(&link->lender, link->watch.fd);
    }
}

static void shm_settle(struct kolo_board *base)
{
    struct shm_board *board = shm_board_of(base);
    board->is_using = board->is_lending = false;
    if (board->has_cut_pins)
        drop_cut_pins(board);
    for (int i = 0; i < base->count; i++) {
        struct kolo_link *link = base->members[i].link;
        if (!link || !kolo_shm_link_of(link)->borrower.graves)
            continue;
        if (is_any_using(base->endpoint))
            return;
        kolo_shm_borrower_bury(&kolo_shm_link_of(link)->borrower);
    }
}

static void shm_span_gone(struct kolo_board *base, uint64_t id)
{
    struct shm_board *board = shm_board_of(base);
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++)
        if (board->pins[i].base && board->pins[i].span == id)
            unpin(board, &board->pins[i]);
}

static void shm_span_cut(struct kolo_board *base, uint64_t id)
{
    struct shm_board *board = shm_board_of(base);
    if (!board->is_lending) {
        shm_span_gone(base, id);
        return;
    }
    for (int i = 0; i < KOLO_BOARD_LENT_MAX; i++)
        if (board->pins[i].base && board->pins[i].span == id)
            board->pins[i].is_cut = board->has_cut_pins = true;
}

const struct kolo_board_ops kolo_board_shm = {
    .bytes = sizeof(struct shm_board),
    .joins = shm_joins,
    .open = shm_open_board,
    .close = shm_close,
    .look = shm_look,
    .ring = shm_ring,
    .reserve = shm_reserve,
    .lend = shm_lend,
    .borrow = shm_borrow,
    .sever = shm_sever,
    .may_pull = shm_may_pull,
    .pull = shm_pull,
    .settle = shm_settle,
    .span_gone = shm_span_gone,
    .span_cut = shm_span_cut,
};
