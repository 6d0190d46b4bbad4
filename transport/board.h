// SPDX-License-Identifier: Apache-2.0
// A board is memory that some ranks of one host share, so that each sees at once what every other
// one has published, without a message for each pair. This file must not know what a collective is:
// the runtime decides what the notes contain.
//
// Every member owns one segment, which the others map read-only. It consists of its notes (a few
// cache lines that others poll) and its stage (buffers for data under way). A member writes only
// its own segment. Members also lend each other spans of kolo_alloc memory, mapped readable and
// writable: the lender writes a name into its notes, and whoever reads it borrows the memory that
// it names. Memory that cannot be lent can be pulled instead: the kernel copies it out of the other
// process, if the system allows that.
//
//   opening   each pair's link comes up (its other traffic goes on), then each member passes its
//             segment over the link's Unix socket; the board is ready when all have arrived
//   waking    whoever has published something rings; only members that sleep cost a system call
//   trust     nothing in the segments of others is trusted: numbers are bounded where they are used
//
// Threads: as transport.h says of the endpoint.
#ifndef KOLO_TRANSPORT_BOARD_H
#define KOLO_TRANSPORT_BOARD_H

#include "transport/transport.h"

enum {
    KOLO_BOARD_MEMBERS_MAX = 64,
    KOLO_BOARD_NOTES_BYTES = 4096,
    KOLO_BOARD_CARD_BYTES = 64, /* the last bytes of the notes, which the board itself uses */
    KOLO_BOARD_LENT_MAX = 4     /* how many spans a member can have lent at a time */
};

struct kolo_board;

/** The name of some memory of one member, by which the others find it. */
struct kolo_board_name {
    uint64_t span; /* 0: the others cannot reach it */
    uint64_t offset;
};

/** Whether @p ranks (world ranks, this one among them) can have a board: all on one host, joined by
 *  shm, and from 2 to KOLO_BOARD_MEMBERS_MAX. Each of them gets the same answer. False: @p why_out
 *  says why. */
bool kolo_board_fits(struct kolo_endpoint *endpoint, const int *ranks, int count,
                     struct kolo_why *why_out);

/** Begins to open board @p id, which must be equal on all members and unique among the boards that
 *  the world has at a time. Members are numbered by their position in @p ranks. @p stage_bytes must
 *  be the same on all members. */
kolo_status kolo_board_open(struct kolo_endpoint *endpoint, uint32_t id, const int *ranks,
                            int count, size_t stage_bytes, kolo_deadline deadline,
                            struct kolo_board **board_out) KOLO_NODISCARD;
/** KOLO_OK: every member's segment is there. KOLO_AGAIN: not yet; *waits_for_out (may be NULL) is a
 *  rank that is missing. Otherwise why it failed; a link that went down is also told by the
 *  endpoint's events. */
kolo_status kolo_board_ready(struct kolo_board *board, int *waits_for_out) KOLO_NODISCARD;
void kolo_board_close(struct kolo_board *board);

/** This member's number, and the number of members. */
int kolo_board_self(const struct kolo_board *board);
int kolo_board_count(const struct kolo_board *board);
/** Notes and stage of @p member, page-aligned and zeroed at first; a member may write only its own.
 *  The addresses do not change while the board exists. They are valid once the board is ready, this
 *  rank's own at once. */
void *kolo_board_notes(struct kolo_board *board, int member);
uint8_t *kolo_board_stage(struct kolo_board *board, int member);
/** Reserves pages for the first @p stage_bytes bytes of this rank's stage. Pages that are not
 *  reserved are allocated at the first touch, and on a host without memory that ends the process
 *  (SIGBUS); this returns ERR_NO_MEMORY instead. Repeating it costs nothing. ERR_INVALID: more than
 *  the board's stage. */
kolo_status kolo_board_reserve(struct kolo_board *board, size_t stage_bytes) KOLO_NODISCARD;
/** Wakes the members that sleep. To be called after a sequentially consistent store to the
 *  notes. */
void kolo_board_ring(struct kolo_board *board);

/** Makes a name for @p memory of this rank, by which every member can borrow it; its span is 0 if
 *  the memory is not from kolo_alloc, or cannot be passed now. The name is valid until this board
 *  has lent KOLO_BOARD_LENT_MAX other spans, or the memory is freed. */
void kolo_board_lend(struct kolo_board *board, const void *memory, size_t bytes,
                     struct kolo_board_name *name_out);
/** Maps @p member's memory of that name, readable and writable. KOLO_AGAIN: the span has not
 *  arrived yet. ERR_PROTOCOL: the name is impossible. The address stays valid until
 *  kolo_board_settle, even if the member frees the memory too early; then writes to it are lost,
 *  and reads give zeros. */
kolo_status kolo_board_borrow(struct kolo_board *board, int member,
                              const struct kolo_board_name *name, size_t bytes,
                              uint8_t **memory_out) KOLO_NODISCARD;

/** The address at which the other members can pull @p memory of this rank. 0: they cannot, since
 *  this process is a forked child of the one that opened the board, and they would read that
 *  process's memory. */
uint64_t kolo_board_address(const struct kolo_board *board, const void *memory);
/** Finds out, by trying, whether this rank may pull memory of @p member. The board must be ready.
 *  ERR_UNSUPPORTED: it may not, and the detail says why. Also OK if there is never a need to pull.
 *  Call it before the first pull from that member. */
kolo_status kolo_board_may_pull(struct kolo_board *board, int member) KOLO_NODISCARD;
/** Copies @p bytes bytes at @p address in @p member's address space to @p to, whatever kind of
 *  memory they are. ERR_UNSUPPORTED: they cannot be read, or the process is gone; the content of
 *  @p to is then undefined. If the member writes there meanwhile, the copy may have old or new
 *  bytes. */
kolo_status kolo_board_pull(struct kolo_board *board, int member, uint64_t address, void *to,
                            size_t bytes) KOLO_NODISCARD;

/** Nothing that was borrowed or lent through this board is in use any more: unmaps what its owners
 *  have freed since, and lets go of what was severed here. Cheap; to be called when a collective is
 *  over, or was given up and its memory withdrawn. */
void kolo_board_settle(struct kolo_board *board);

/** Separates @p memory of this rank from the members that may have borrowed it: whatever they still
 *  do with it, they do to pages that are no longer this rank's (kolo_heap_sever; the content stays,
 *  and new names are made of the pieces). Names that the running collective of another board has
 *  made of other memory of the same allocation stay valid until that board is settled. For a failed
 *  collective that a stopped member may continue later. Also OK for memory that cannot be lent.
 *  ERR_UNSUPPORTED among threads of one process: wait for them instead. ERR_NO_MEMORY, ERR_SYSTEM:
 *  the pages are unchanged. */
kolo_status kolo_board_sever(struct kolo_board *board, const void *memory,
                             size_t bytes) KOLO_NODISCARD;

#endif
