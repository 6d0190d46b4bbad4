// SPDX-License-Identifier: Apache-2.0
// Long messages that stay where they are: the sender lends memory of kolo_alloc, the receiver maps
// the span (read-only, once) and reads it in place. Private to the shm transport.
//
//   lender                                                       borrower
//   SPAN {generation|handle, bytes, id} + memfd - Unix socket --> maps it
//   descriptor {slot, handle, generation, offset, bytes} - ring -> claims, reads, releases
//   GONE {generation|handle}                  --- Unix socket --> unmaps it
//
// A slot is a word in the shared memory of the link that says whose a loan is. Each transition is
// one compare-and-exchange, so that both sides may want it at once:
//
//   state      the lender                  the borrower
//   FREE       offer     -> OFFERED
//   OFFERED    withdraw  -> WITHDRAWN      claim   -> CLAIMED    release -> DONE
//   CLAIMED    withdraw  -> REVOKED        release -> DONE
//   WITHDRAWN                              claim   -> DONE, refused
//   REVOKED                                release -> DONE, and what was read is worthless
//   DONE       collect   -> FREE
//
// A span is announced before the first descriptor that names it leaves, and is not GONE before its
// last loan came back; a borrower that meets an unknown span looks at the socket first. Handles are
// reused, generations are not.
//
// Boards (shm_board.c) use the same spans without slots: the lender pins what it has named, the
// borrower finds it by its id and makes the mapping writable at the first use. What such a borrower
// uses it could not give up in time, so a span that goes then leaves a grave: private zero pages at
// the same address, until the board says that nothing is in use (or the handle comes again).
#ifndef KOLO_TRANSPORT_SHM_DIRECT_H
#define KOLO_TRANSPORT_SHM_DIRECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "transport/link.h"
#include "transport/shm_fds.h"

enum {
    KOLO_SHM_SLOTS = 64,           /* loans at a time, each direction of a link */
    KOLO_SHM_SPANS = 256,          /* spans mapped at a time, each direction of a link */
    KOLO_SHM_DESCRIPTOR_BYTES = 24 /* fits into the first line of a record */
};

/** Kinds of message on the Unix socket, for the state table of shm_link.c. */
enum kolo_shm_message_kind {
    KOLO_SHM_OFFER = 1, /* acceptor: bytes = capacity of a ring; ring memory, bell page, eventfd */
    KOLO_SHM_ANSWER,    /* dialler: bell page, eventfd */
    KOLO_SHM_SPAN,      /* either: a span to map */
    KOLO_SHM_GONE,      /* either: a span to unmap */
    KOLO_SHM_SEGMENT,   /* either: id = a board, bytes; the sender's segment of it */
    KOLO_SHM_CLOSED_BOARD, /* either: id = a board that the sender has closed */
    KOLO_SHM_MESSAGE_KINDS
};

/** A promise (not offered yet) or an offer of @p work's memory. */
struct kolo_shm_loan {
    const struct kolo_work *work; /* NULL: withdrawn */
    struct kolo_frame frame;
    uint64_t offset;
    uint32_t span;
    bool is_offered;
};
struct kolo_shm_lent_span {
    uint64_t id, last_use;
    uint32_t generation, loans;
    bool is_mapped;  /* the peer knows it */
    bool is_refused; /* cannot be passed: its messages are copied */
    bool is_gone;    /* freed here; the peer must hear of it */
};
struct kolo_shm_lender {
    _Atomic uint32_t *slots;
    uint64_t taken; /* bit i: loans[i] is in use */
    uint64_t uses;
    uint32_t gone_count; /* spans freed here of which the peer has not heard */
    struct kolo_shm_loan loans[KOLO_SHM_SLOTS];
    struct kolo_shm_lent_span spans[KOLO_SHM_SPANS];
};

/** Will @p work's memory, @p offset bytes into @p span's file, be lent? Announces the span if the
 * peer does not know it. False: copy it, for lack of a slot or because it cannot be passed. */
bool kolo_shm_lender_promise(struct kolo_shm_lender *lender, int socket,
                             const struct kolo_span *span, uint64_t offset,
                             const struct kolo_work *work);
/** Turns the promise to frame->work into an offer. */
kolo_status kolo_shm_lender_offer(struct kolo_shm_lender *lender, const struct kolo_frame *frame,
                                  uint8_t descriptor_out[KOLO_SHM_DESCRIPTOR_BYTES]) KOLO_NODISCARD;
/** Takes back one loan that is done; its frame, or NULL if it had been withdrawn, in *frame_out.
 * False: none is. */
bool kolo_shm_lender_collect(struct kolo_shm_lender *lender, struct kolo_frame *frame_out);
/** Takes back all that was lent of @p work (NULL: of all works), read or not. */
void kolo_shm_lender_withdraw(struct kolo_shm_lender *lender, const struct kolo_work *work);
/** The heap frees span @p id: no new loan of it, and the peer will hear of it. */
void kolo_shm_lender_forget(struct kolo_shm_lender *lender, uint64_t id);
/** Tells the peer of freed spans, as far as the socket takes it. */
void kolo_shm_lender_tell(struct kolo_shm_lender *lender, int socket);
/** Announces @p span if the peer does not know it, and keeps it there until unpin; the handle for
 * unpin, or -1: it cannot be passed (now). */
int kolo_shm_lender_pin(struct kolo_shm_lender *lender, int socket, const struct kolo_span *span);
void kolo_shm_lender_unpin(struct kolo_shm_lender *lender, int handle);

struct kolo_shm_borrowed_span {
    void *base; /* NULL: free */
    size_t bytes;
    uint64_t id; /* in the peer's heap */
    uint32_t generation, loans;
    bool is_writable; /* a board has used it */
    bool is_grave;    /* gone; only the addresses are kept */
};
struct kolo_shm_borrower {
    _Atomic uint32_t *slots;
    uint64_t taken;  /* bit i: slot i is ours to release */
    uint32_t graves; /* spans that are one */
    uint8_t span_of[KOLO_SHM_SLOTS];
    struct kolo_shm_borrowed_span spans[KOLO_SHM_SPANS];
};
/** What a descriptor names: memory of the peer, and the slot to claim and release. */
struct kolo_shm_borrowed {
    const uint8_t *data;
    size_t bytes;
    uint32_t slot;
};

/** A message SPAN. Its descriptor stays the caller's. */
kolo_status kolo_shm_borrower_map(struct kolo_shm_borrower *borrower,
                                  const struct kolo_shm_message *message) KOLO_NODISCARD;
/** A message GONE. */
kolo_status kolo_shm_borrower_unmap(struct kolo_shm_borrower *borrower,
                                    const struct kolo_shm_message *message) KOLO_NODISCARD;
/** KOLO_AGAIN: the span is not known, look at the socket. ERR_PROTOCOL: the descriptor is
 * impossible. */
kolo_status kolo_shm_borrower_take(struct kolo_shm_borrower *borrower,
                                   const uint8_t descriptor[KOLO_SHM_DESCRIPTOR_BYTES],
                                   struct kolo_shm_borrowed *borrowed_out) KOLO_NODISCARD;
/** False: taken back, forget it. */
bool kolo_shm_borrower_claim(struct kolo_shm_borrower *borrower, uint32_t slot) KOLO_NODISCARD;
/** False: it was taken back while it was read. */
bool kolo_shm_borrower_release(struct kolo_shm_borrower *borrower, uint32_t slot) KOLO_NODISCARD;
/** The @p bytes bytes at @p offset of span @p id of the peer's heap, readable and writable, at an
 * address that stays good until kolo_shm_borrower_bury. KOLO_AGAIN: the span is not known.
 * ERR_PROTOCOL: they do not lie in it. */
kolo_status kolo_shm_borrower_open(struct kolo_shm_borrower *borrower, uint64_t id, uint64_t offset,
                                   size_t bytes, uint8_t **memory_out) KOLO_NODISCARD;
/** Nothing that open() gave is in use: unmaps the graves. */
void kolo_shm_borrower_bury(struct kolo_shm_borrower *borrower);
/** Unmaps everything. */
void kolo_shm_borrower_fini(struct kolo_shm_borrower *borrower);

#endif
