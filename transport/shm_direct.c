// SPDX-License-Identifier: Apache-2.0
// Owns the loans of a link (who may read what of whose memory) and the mappings of the peer's
// spans, as shm_direct.h explains. Must never block, or use a number from the peer before it was
// bounded.
#include "transport/shm_direct.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/wire.h"

enum slot_state { SLOT_FREE, SLOT_OFFERED, SLOT_CLAIMED, SLOT_WITHDRAWN, SLOT_REVOKED, SLOT_DONE };

/** The only function that changes a slot which both sides may change. False: it was not @p from. */
static bool move_slot(_Atomic uint32_t *slot, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(slot, &from, to);
}

static uint64_t bit(uint32_t index)
{
    return (uint64_t)1 << index;
}

/* ---- lender: spans ---- */

static uint64_t span_name(const struct kolo_shm_lent_span *span, uint32_t handle)
{
    return (uint64_t)span->generation << 32 | handle;
}

/** Tells the peer to unmap it; the entry is then free again. False: the socket is full. */
static bool tell_gone(struct kolo_shm_lender *lender, int socket, uint32_t handle)
{
    struct kolo_shm_lent_span *span = &lender->spans[handle];
    const struct kolo_shm_message message = {.kind = KOLO_SHM_GONE, .id = span_name(span, handle)};
    if (span->is_mapped && kolo_shm_message_send(socket, &message) == KOLO_AGAIN)
        return false;
    *span = (struct kolo_shm_lent_span){.generation = span->generation};
    return true;
}

void kolo_shm_lender_tell(struct kolo_shm_lender *lender, int socket)
{
    for (uint32_t i = 0; lender->gone_count > 0 && i < KOLO_SHM_SPANS; i++) {
        const struct kolo_shm_lent_span *span = &lender->spans[i];
        if (!span->is_gone || span->loans > 0)
            continue;
        if (!tell_gone(lender, socket, i))
            return;
        lender->gone_count--;
    }
}

void kolo_shm_lender_forget(struct kolo_shm_lender *lender, uint64_t id)
{
    for (uint32_t i = 0; i < KOLO_SHM_SPANS; i++) {
        struct kolo_shm_lent_span *span = &lender->spans[i];
        if ((span->is_mapped || span->is_refused) && !span->is_gone && span->id == id) {
            span->is_gone = true;
            lender->gone_count++;
        }
    }
}

/** The entry that span @p id uses if possible, and that is searched first. Span numbers of a heap
 *  begin at 1. */
static uint32_t home_of(uint64_t id)
{
    return (uint32_t)((id - 1) % KOLO_SHM_SPANS);
}

static bool is_free(const struct kolo_shm_lent_span *span)
{
    return !span->is_mapped && !span->is_refused;
}

/** An entry for a new span: a free one, or the least recently used one. -1: all are lent. */
static int find_room(struct kolo_shm_lender *lender, int socket, uint64_t id)
{
    int oldest = -1;
    if (is_free(&lender->spans[home_of(id)]))
        return (int)home_of(id);
    for (uint32_t i = 0; i < KOLO_SHM_SPANS; i++) {
        const struct kolo_shm_lent_span *span = &lender->spans[i];
        if (is_free(span))
            return (int)i;
        if (span->loans == 0 && !span->is_gone &&
            (oldest < 0 || span->last_use < lender->spans[oldest].last_use))
            oldest = (int)i;
    }
    return oldest >= 0 && tell_gone(lender, socket, (uint32_t)oldest) ? oldest : -1;
}

/** Passes the span to the peer. False: not possible now. */
static bool announce(struct kolo_shm_lent_span *entry, uint32_t handle, int socket,
                     const struct kolo_span *span)
{
    entry->generation++;
    const struct kolo_shm_message message = {.kind = KOLO_SHM_SPAN,
                                             .id = span_name(entry, handle),
                                             .bytes = span->file_bytes,
                                             .span = span->id,
                                             .fds = {span->fd},
                                             .fd_count = 1};
    kolo_status status = kolo_shm_memory_check(span->fd, span->file_bytes);
    if (status == KOLO_OK)
        status = kolo_shm_message_send(socket, &message);
    if (status == KOLO_AGAIN || status == KOLO_ERR_LINK)
        return false;
    if (status != KOLO_OK)
        KOLO_WARN("memory of %zu bytes is copied to the neighbour, not lent: %s", span->bytes,
                  kolo_error_detail());
    entry->id = span->id;
    entry->is_mapped = status == KOLO_OK;
    entry->is_refused = status != KOLO_OK;
    return true;
}

static bool is_entry_of(const struct kolo_shm_lent_span *entry, uint64_t id)
{
    return !is_free(entry) && !entry->is_gone && entry->id == id;
}

/** The entry of a span that was announced; -1: there is none. */
static int find_known(const struct kolo_shm_lender *lender, uint64_t id)
{
    if (is_entry_of(&lender->spans[home_of(id)], id))
        return (int)home_of(id);
    for (uint32_t i = 0; i < KOLO_SHM_SPANS; i++)
        if (is_entry_of(&lender->spans[i], id))
            return (int)i;
    return -1;
}

/** Announces the span if necessary and returns its entry; -1: the peer cannot get it (now). */
static int find_span(struct kolo_shm_lender *lender, int socket, const struct kolo_span *span)
{
    int found = find_known(lender, span->id);
    if (found < 0) {
        found = find_room(lender, socket, span->id);
        if (found < 0 || !announce(&lender->spans[found], (uint32_t)found, socket, span))
            return -1;
    }
    lender->spans[found].last_use = ++lender->uses;
    return lender->spans[found].is_mapped ? found : -1;
}

int kolo_shm_lender_pin(struct kolo_shm_lender *lender, int socket, const struct kolo_span *span)
{
    int found = find_span(lender, socket, span);
    if (found >= 0)
        lender->spans[found].loans++;
    return found;
}

void kolo_shm_lender_unpin(struct kolo_shm_lender *lender, int handle)
{
    lender->spans[handle].loans--;
}

/* ---- lender: loans ---- */

static struct kolo_shm_loan *find_promise(struct kolo_shm_lender *lender,
                                          const struct kolo_work *work)
{
    for (uint64_t left = lender->taken; left != 0; left &= left - 1) {
        struct kolo_shm_loan *loan = &lender->loans[__builtin_ctzll(left)];
        if (loan->work == work && !loan->is_offered)
            return loan;
    }
    return NULL;
}

static void free_loan(struct kolo_shm_lender *lender, struct kolo_shm_loan *loan)
{
    lender->spans[loan->span].loans--;
    lender->taken &= ~bit((uint32_t)(loan - lender->loans));
}

bool kolo_shm_lender_promise(struct kolo_shm_lender *lender, int socket,
                             const struct kolo_span *span, uint64_t offset,
                             const struct kolo_work *work)
{
    struct kolo_shm_loan *loan = find_promise(lender, work);
    if (loan) // asked before, or that work was cancelled and this is another one
        free_loan(lender, loan);
    if (~lender->taken == 0)
        return false;
    int found = find_span(lender, socket, span);
    if (found < 0)
        return false;
    uint32_t slot = (uint32_t)__builtin_ctzll(~lender->taken);
    lender->taken |= bit(slot);
    lender->spans[found].loans++;
    lender->loans[slot] =
        (struct kolo_shm_loan){.work = work, .offset = offset, .span = (uint32_t)found};
    return true;
}

kolo_status kolo_shm_lender_offer(struct kolo_shm_lender *lender, const struct kolo_frame *frame,
                                  uint8_t descriptor_out[KOLO_SHM_DESCRIPTOR_BYTES])
{
    struct kolo_shm_loan *loan = find_promise(lender, frame->work);
    if (!loan)
        return kolo_fail(KOLO_ERR_INTERNAL, "shm: a remote frame of %zu bytes without a promise",
                         frame->bytes);
    struct kolo_writer writer = kolo_writer_over(descriptor_out, KOLO_SHM_DESCRIPTOR_BYTES);
    uint32_t slot = (uint32_t)(loan - lender->loans);
    kolo_write_u16(&writer, (uint16_t)slot);
    kolo_write_u16(&writer, (uint16_t)loan->span);
    kolo_write_u32(&writer, lender->spans[loan->span].generation);
    kolo_write_u64(&writer, loan->offset);
    kolo_write_u64(&writer, frame->bytes);
    loan->frame = *frame;
    loan->is_offered = true;
    atomic_store(&lender->slots[slot], SLOT_OFFERED);
    return KOLO_OK;
}

bool kolo_shm_lender_collect(struct kolo_shm_lender *lender, struct kolo_frame *frame_out)
{
    for (uint64_t left = lender->taken; left != 0; left &= left - 1) {
        uint32_t slot = (uint32_t)__builtin_ctzll(left);
        struct kolo_shm_loan *loan = &lender->loans[slot];
        if (!loan->is_offered || atomic_load(&lender->slots[slot]) != SLOT_DONE)
            continue;
        atomic_store(&lender->slots[slot], SLOT_FREE);
        *frame_out = loan->frame;
        if (!loan->work)
            frame_out->work = NULL;
        free_loan(lender, loan);
        return true;
    }
    return false;
}

void kolo_shm_lender_withdraw(struct kolo_shm_lender *lender, const struct kolo_work *work)
{
    for (uint64_t left = lender->taken; left != 0; left &= left - 1) {
        uint32_t slot = (uint32_t)__builtin_ctzll(left);
        struct kolo_shm_loan *loan = &lender->loans[slot];
        if (!loan->work || (work && loan->work != work))
            continue;
        if (!loan->is_offered) {
            free_loan(lender, loan);
            continue;
        }
        // Between the two attempts only the borrower changes the slot, and only forward, so one of
        // them succeeds.
        if (!move_slot(&lender->slots[slot], SLOT_OFFERED, SLOT_WITHDRAWN))
            move_slot(&lender->slots[slot], SLOT_CLAIMED, SLOT_REVOKED);
        loan->work = NULL;
    }
}

/* ---- borrower ---- */

/** Addresses of a span that is gone. */
struct kolo_shm_grave {
    struct kolo_shm_grave *next;
    void *base;
    size_t bytes;
};

static void unmap_span(struct kolo_shm_borrowed_span *span)
{
    kolo_shm_memory_unmap(span->base, span->bytes);
    *span = (struct kolo_shm_borrowed_span){0};
}

/** Unmaps the peer's pages but keeps the addresses, for a board that may still use them. If memory
 * is short, they are kept for ever, since a write to what is mapped there later would be worse. */
static void make_grave(struct kolo_shm_borrower *borrower, struct kolo_shm_borrowed_span *span)
{
    struct kolo_shm_grave *grave = kolo_calloc(1, sizeof *grave);
    (void)mmap(span->base, span->bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (grave) {
        *grave = (struct kolo_shm_grave){borrower->graves, span->base, span->bytes};
        borrower->graves = grave;
    }
    *span = (struct kolo_shm_borrowed_span){0};
}

static struct kolo_shm_borrowed_span *find_borrowed(struct kolo_shm_borrower *borrower, uint64_t id)
{
    struct kolo_shm_borrowed_span *span = &borrower->spans[home_of(id)];
    if (span->base && span->id == id)
        return span;
    for (uint32_t i = 0; i < KOLO_SHM_SPANS; i++) {
        span = &borrower->spans[i];
        if (span->base && span->id == id)
            return span;
    }
    return NULL;
}

kolo_status kolo_shm_borrower_open(struct kolo_shm_borrower *borrower, uint64_t id, uint64_t offset,
                                   size_t bytes, uint8_t **memory_out)
{
    struct kolo_shm_borrowed_span *span = find_borrowed(borrower, id);
    if (!span)
        return KOLO_AGAIN;
    if (offset > span->bytes || bytes > span->bytes - offset)
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: %zu bytes at %llu of a span of %zu bytes", bytes,
                         (unsigned long long)offset, span->bytes);
    if (!span->is_writable && mprotect(span->base, span->bytes, PROT_READ | PROT_WRITE) != 0)
        return kolo_fail_errno(KOLO_ERR_NO_MEMORY, errno, "shm: write to %zu bytes of the peer",
                               span->bytes);
    span->is_writable = true;
    *memory_out = (uint8_t *)span->base + offset;
    return KOLO_OK;
}

void kolo_shm_borrower_bury(struct kolo_shm_borrower *borrower)
{
    struct kolo_shm_grave *grave;
    while ((grave = borrower->graves) != NULL) {
        borrower->graves = grave->next;
        kolo_shm_memory_unmap(grave->base, grave->bytes);
        kolo_free_memory(grave);
    }
}

kolo_status kolo_shm_borrower_map(struct kolo_shm_borrower *borrower,
                                  const struct kolo_shm_message *message)
{
    uint32_t handle = (uint32_t)message->id;
    if (message->fd_count != 1 || handle >= KOLO_SHM_SPANS || message->bytes == 0 ||
        borrower->spans[handle].base)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "shm: impossible span (handle %u, %llu bytes, %zu descriptors)", handle,
                         (unsigned long long)message->bytes, message->fd_count);
    struct kolo_shm_borrowed_span *span = &borrower->spans[handle];
    void *base;
    kolo_status status =
        kolo_shm_memory_map(message->fds[0], (size_t)message->bytes, PROT_READ, &base);
    if (status != KOLO_OK)
        return status;
    *span = (struct kolo_shm_borrowed_span){.base = base,
                                            .bytes = (size_t)message->bytes,
                                            .id = message->span,
                                            .generation = (uint32_t)(message->id >> 32)};
    return KOLO_OK;
}

kolo_status kolo_shm_borrower_unmap(struct kolo_shm_borrower *borrower,
                                    const struct kolo_shm_message *message)
{
    uint32_t handle = (uint32_t)message->id;
    if (message->fd_count != 0 || handle >= KOLO_SHM_SPANS || !borrower->spans[handle].base ||
        borrower->spans[handle].generation != (uint32_t)(message->id >> 32) ||
        borrower->spans[handle].loans > 0)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "shm: the peer gave up span %u, which is unknown or still in use", handle);
    struct kolo_shm_borrowed_span *span = &borrower->spans[handle];
    if (span->is_writable)
        make_grave(borrower, span);
    else
        unmap_span(span);
    return KOLO_OK;
}

kolo_status kolo_shm_borrower_take(struct kolo_shm_borrower *borrower,
                                   const uint8_t descriptor[KOLO_SHM_DESCRIPTOR_BYTES],
                                   struct kolo_shm_borrowed *borrowed_out)
{
    struct kolo_reader reader = kolo_reader_over(descriptor, KOLO_SHM_DESCRIPTOR_BYTES);
    uint32_t slot = kolo_read_u16(&reader), handle = kolo_read_u16(&reader);
    uint32_t generation = kolo_read_u32(&reader);
    uint64_t offset = kolo_read_u64(&reader), bytes = kolo_read_u64(&reader);
    if (slot >= KOLO_SHM_SLOTS || handle >= KOLO_SHM_SPANS || (borrower->taken & bit(slot)) != 0)
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: impossible loan (slot %u, span %u)", slot,
                         handle);
    struct kolo_shm_borrowed_span *span = &borrower->spans[handle];
    if (!span->base || span->generation != generation)
        return KOLO_AGAIN;
    if (offset > span->bytes || bytes > span->bytes - offset)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "shm: a loan of %llu bytes at %llu of a span of %zu bytes",
                         (unsigned long long)bytes, (unsigned long long)offset, span->bytes);
    span->loans++;
    borrower->taken |= bit(slot);
    borrower->span_of[slot] = (uint8_t)handle;
    *borrowed_out = (struct kolo_shm_borrowed){
        .data = (const uint8_t *)span->base + offset, .bytes = (size_t)bytes, .slot = slot};
    return KOLO_OK;
}

/** Returns the loan to the lender; gives the state that the slot had. */
static uint32_t give_back(struct kolo_shm_borrower *borrower, uint32_t slot)
{
    borrower->spans[borrower->span_of[slot]].loans--;
    borrower->taken &= ~bit(slot);
    return atomic_exchange(&borrower->slots[slot], SLOT_DONE);
}

bool kolo_shm_borrower_claim(struct kolo_shm_borrower *borrower, uint32_t slot)
{
    if (move_slot(&borrower->slots[slot], SLOT_OFFERED, SLOT_CLAIMED))
        return true;
    give_back(borrower, slot);
    return false;
}

bool kolo_shm_borrower_release(struct kolo_shm_borrower *borrower, uint32_t slot)
{
    return give_back(borrower, slot) != SLOT_REVOKED;
}

void kolo_shm_borrower_fini(struct kolo_shm_borrower *borrower)
{
    for (uint32_t i = 0; i < KOLO_SHM_SPANS; i++)
        unmap_span(&borrower->spans[i]);
    kolo_shm_borrower_bury(borrower);
}
