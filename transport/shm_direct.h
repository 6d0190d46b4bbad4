// SPDX-License-Identifier: Apache-2.0
// Long messages that are not copied into the ring: the sender lends kolo_alloc memory, and the
// receiver maps the span (read-only, once) and reads it in place. Private to the shm transport.
//
//   lender                                                       borrower
//   SPAN {generation|handle, bytes, id} + memfd - Unix socket --> maps it
//   descriptor {slot, handle, generation, offset, bytes} - ring -> claims, reads, releases
//   GONE {generation|handle}                  --- Unix socket --> unmaps it
//
// A slot is a word in the link's shared memory that says who has a loan. Each transition is a
// single compare-and-exchange, so both sides may attempt one at the same time:
//
//   state      the lender                  the borrower
//   FREE       offer     -> OFFERED
//   OFFERED    withdraw  -> WITHDRAWN      claim   -> CLAIMED    release -> DONE
//   CLAIMED    withdraw  -> REVOKED        release -> DONE
//   WITHDRAWN                              claim   -> DONE, refused
//   REVOKED                                release -> DONE, and what was read is worthless
//   DONE       collect   -> FREE
//
// A span is announced before the first descriptor that names it is sent, and is GONE only after its
// last loan has come back. A borrower that meets an unknown span first reads the socket. Handles
// are reused, generations are not.
//
// Boards (shm_board.c) use the same spans without slots. The lender pins what it has named; the
// borrower finds it by its id, and makes the mapping writable at the first use. A board cannot give
// up at once what it has borrowed. So if such a span goes meanwhile, its addresses stay mapped, to
// private zero pages (a grave), until the board says that nothing is in use.
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
    KOLO_SHM_SLOTS = 64,           /* loans at a time in each direction of a link */
    KOLO_SHM_SPANS = 256,          /* spans mapped at a time in each direction of a link */
    KOLO_SHM_DESCRIPTOR_BYTES = 24 /* fits into the first line of a record */
};

/** Kinds of message on the Unix socket; shm_link.c has the state table. */
enum kolo_shm_message_kind {
    KOLO_SHM_OFFER = 1,    /* from the acceptor: bytes = capacity of a ring; memory, bell page,
                            * eventfd */
    KOLO_SHM_ANSWER,       /* from the dialler: bell page, eventfd */
    KOLO_SHM_SPAN,         /* from either side: a span to map */
    KOLO_SHM_GONE,         /* from either side: a span to unmap */
    KOLO_SHM_SEGMENT,      /* from either side: id = a board, bytes; the sender's segment of it */
    KOLO_SHM_CLOSED_BOARD, /* from either side: id = a board that the sender has closed */
    KOLO_SHM_MESSAGE_KINDS
};

/** A loan of @p work's memory: promised, or already offered. */
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
    bool is_refused; /* it cannot be passed: its messages are copied */
    bool is_gone;    /* freed here, and the peer must be told */
};
struct kolo_shm_lender {
    _Atomic uint32_t *slots;
    uint64_t taken; /* bit i: loans[i] is in use */
    uint64_t uses;
    uint32_t gone_count; /* spans freed here of which the peer was not told yet */
    struct kolo_shm_loan loans[KOLO_SHM_SLOTS];
    struct kolo_shm_lent_span spans[KOLO_SHM_SPANS];
};

/** Whether @p work's memory, @p offset bytes into @p span's file, will be lent. Announces the span
 *  if the peer does not know it. False: copy it, because there is no slot or the span cannot be
 *  passed. */
bool kolo_shm_lender_promise(struct kolo_shm_lender *lender, int socket,
                             const struct kolo_span *span, uint64_t offset,
                             const struct kolo_work *work);
/** Turns the promise for frame->work into an offer. */
kolo_status kolo_shm_lender_offer(struct kolo_shm_lender *lender, const struct kolo_frame *frame,
                                  uint8_t descriptor_out[KOLO_SHM_DESCRIPTOR_BYTES]) KOLO_NODISCARD;
/** Takes back one loan that is DONE; *frame_out is its frame, or has no work if it had been
 *  withdrawn. False: there is none. */
bool kolo_shm_lender_collect(struct kolo_shm_lender *lender, struct kolo_frame *frame_out);
/** Takes back everything that was lent of @p work (NULL: of all works), whether or not it was
 *  read. */
void kolo_shm_lender_withdraw(struct kolo_shm_lender *lender, const struct kolo_work *work);
/** The heap frees span @p id: it is not lent any more, and the peer will be told. */
void kolo_shm_lender_forget(struct kolo_shm_lender *lender, uint64_t id);
/** Tells the peer of freed spans until the socket is full. */
void kolo_shm_lender_tell(struct kolo_shm_lender *lender, int socket);
/** Announces @p span if the peer does not know it, and keeps it announced until unpin. Returns the
 *  handle for unpin, or -1: it cannot be passed (now). */
int kolo_shm_lender_pin(struct kolo_shm_lender *lender, int socket, const struct kolo_span *span);
void kolo_shm_lender_unpin(struct kolo_shm_lender *lender, int handle);

struct kolo_shm_borrowed_span {
    void *base; /* NULL: free */
    size_t bytes;
    uint64_t id; /* in the peer's heap */
    uint32_t generation, loans;
    bool is_writable; /* a board has used it */
};
struct kolo_shm_grave; /* private */
struct kolo_shm_borrower {
    _Atomic uint32_t *slots;
    uint64_t taken; /* bit i: we must release slot i */
    struct kolo_shm_grave *graves;
    uint8_t span_of[KOLO_SHM_SLOTS];
    struct kolo_shm_borrowed_span spans[KOLO_SHM_SPANS];
};
/** What a descriptor names: memory of the peer, and the slot to claim and release. */
struct kolo_shm_borrowed {
    const uint8_t *data;
    size_t bytes;
    uint32_t slot;
};

/** Handles a message SPAN. Its descriptor stays the caller's. */
kolo_status kolo_shm_borrower_map(struct kolo_shm_borrower *borrower,
                                  const struct kolo_shm_message *message) KOLO_NODISCARD;
/** Handles a message GONE. */
kolo_status kolo_shm_borrower_unmap(struct kolo_shm_borrower *borrower,
                                    const struct kolo_shm_message *message) KOLO_NODISCARD;
/** Looks up what a descriptor names. KOLO_AGAIN: the span is unknown; read the socket.
 *  ERR_PROTOCOL: the descriptor is impossible. */
kolo_status kolo_shm_borrower_take(struct kolo_shm_borrower *borrower,
                                   const uint8_t descriptor[KOLO_SHM_DESCRIPTOR_BYTES],
                                   struct kolo_shm_borrowed *borrowed_out) KOLO_NODISCARD;
/** False: the lender has taken it back; forget it. */
bool kolo_shm_borrower_claim(struct kolo_shm_borrower *borrower, uint32_t slot) KOLO_NODISCARD;
/** False: the lender took it back while it was read. */
bool kolo_shm_borrower_release(struct kolo_shm_borrower *borrower, uint32_t slot) KOLO_NODISCARD;
/** The @p bytes bytes at @p offset of span @p id of the peer's heap, readable and writable, at an
 *  address that stays valid until kolo_shm_borrower_bury. KOLO_AGAIN: the span is unknown.
 *  ERR_PROTOCOL: they are not within it. */
kolo_status kolo_shm_borrower_open(struct kolo_shm_borrower *borrower, uint64_t id, uint64_t offset,
                                   size_t bytes, uint8_t **memory_out) KOLO_NODISCARD;
/** Nothing that open() returned is in use any more: unmaps the graves. */
void kolo_shm_borrower_bury(struct kolo_shm_borrower *borrower);
/** Unmaps everything. */
void kolo_shm_borrower_fini(struct kolo_shm_borrower *borrower);

#endif
