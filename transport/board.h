// SPDX-License-Identifier: Apache-2.0
// A board: memory that some ranks of one host have in common, so that each sees at once what every
// other has put up, without a message between each two of them. Knows nothing of collectives: what
// stands in the notes is the runtime's.
//
// Every member owns one segment, which the others map read-only: its notes (a few lines that others
// poll) and its stage (bytes on their way). A member writes only its own segment. Besides, members
// lend each other spans of kolo_alloc memory, mapped readable and writable: a name stands in the
// notes, and whoever reads it borrows what it names. Memory that cannot be lent may yet be pulled:
// copied out of the other process by the kernel, where the system allows it.
//
//   opening   each pair's link comes up (any traffic on it goes on), then each member passes its
//             segment over the link's Unix socket; ready when all have come
//   waking    who has put something up rings; only those that sleep cost a system call
//   hostile   nothing in another's segment is trusted: numbers are bounded where they are used
//
// Threads: as transport.h says of the endpoint.
#ifndef KOLO_TRANSPORT_BOARD_H
#define KOLO_TRANSPORT_BOARD_H

#include "transport/transport.h"

enum {
    KOLO_BOARD_MEMBERS_MAX = 64,
    KOLO_BOARD_NOTES_BYTES = 4096,
    KOLO_BOARD_CARD_BYTES = 64, /* of the notes, the last, are the board's own */
    KOLO_BOARD_LENT_MAX = 4     /* spans that a member has lent at a time */
};

struct kolo_board;

/** Memory of one member as the others may find it. */
struct kolo_board_name {
    uint64_t span; /* 0: cannot be reached by the others */
    uint64_t offset;
};

/** Can @p ranks (world ranks, this one among them) have a board? The same answer on each of them:
 * all on one host, joined by shm, from 2 to KOLO_BOARD_MEMBERS_MAX. False: @p why_out says why. */
bool kolo_board_fits(struct kolo_endpoint *endpoint, const int *ranks, int count,
                     struct kolo_why *why_out);

/** Begins to open board @p id (equal on all members, unique among the boards of the world at a
 * time). Members are numbered as in @p ranks. @p stage_bytes is the same on all. */
kolo_status kolo_board_open(struct kolo_endpoint *endpoint, uint32_t id, const int *ranks,
                            int count, size_t stage_bytes, kolo_deadline deadline,
                            struct kolo_board **board_out) KOLO_NODISCARD;
/** KOLO_OK: every member can be seen. KOLO_AGAIN: not yet; *waits_for_out (may be NULL) is the rank
 * that is missing. Else what went wrong; a link that fell is told by the endpoint's events too. */
kolo_status kolo_board_ready(struct kolo_board *board, int *waits_for_out) KOLO_NODISCARD;
void kolo_board_close(struct kolo_board *board);

/** This member's number, how many there are. */
int kolo_board_self(const struct kolo_board *board);
int kolo_board_count(const struct kolo_board *board);
/** Notes and stage of @p member, page-aligned, zeroed at first; only one's own may be written.
 * Constant while the board lives. Valid once ready (one's own: at once). */
void *kolo_board_notes(struct kolo_board *board, int member);
uint8_t *kolo_board_stage(struct kolo_board *board, int member);
/** Makes sure that the first @p stage_bytes bytes of the own stage have pages behind them. Pages
 * that were not reserved come when they are first touched, which ends the process (SIGBUS) on a
 * host without memory; this says ERR_NO_MEMORY instead. Costs nothing the second time. */
kolo_status kolo_board_reserve(struct kolo_board *board, size_t stage_bytes) KOLO_NODISCARD;
/** Wakes the members that sleep. After a sequentially consistent store to the notes. */
void kolo_board_ring(struct kolo_board *board);

/** A name for @p memory of this rank, under which every member can borrow it; span 0 if it is not
 * from kolo_alloc, or cannot be passed (now). Good until KOLO_BOARD_LENT_MAX other spans have been
 * lent by this board, or the memory is freed. */
void kolo_board_lend(struct kolo_board *board, const void *memory, size_t bytes,
                     struct kolo_board_name *name_out);
/** @p member's memory of that name, readable and writable. KOLO_AGAIN: the span has not arrived
 * yet. ERR_PROTOCOL: the name is impossible. The address stays good until kolo_board_settle, also
 * if the member frees the memory too early: what is written is lost then, and zeros are read. */
kolo_status kolo_board_borrow(struct kolo_board *board, int member,
                              const struct kolo_board_name *name, size_t bytes,
                              uint8_t **memory_out) KOLO_NODISCARD;

/** Where the other members find @p memory of this rank to pull it; 0: nowhere, since this is a
 * child of the process that opened the board (fork), and they would read what that one has
 * there. */
uint64_t kolo_board_address(const struct kolo_board *board, const void *memory);
/** Whether this rank may pull memory of @p member, found out by trying. The board is ready.
 * ERR_UNSUPPORTED and why not. OK also where there is never a need to. Asked before the first pull
 * from it. */
kolo_status kolo_board_may_pull(struct kolo_board *board, int member) KOLO_NODISCARD;
/** Copies @p bytes bytes at @p address, as @p member has it, to @p to, whatever memory they are.
 * ERR_UNSUPPORTED: it cannot be read, or its process is gone, and @p to has nothing that counts.
 * Nothing is said of what the member writes there meanwhile. */
kolo_status kolo_board_pull(struct kolo_board *board, int member, uint64_t address, void *to,
                            size_t bytes) KOLO_NODISCARD;

/** Nothing that was borrowed through this board is in use any more: lets go of what its owners have
 * freed since. Cheap; to be called when a collective is over. */
void kolo_board_settle(struct kolo_board *board);

/** Whatever the members still do with @p memory of this rank, which they may have borrowed: from
 * here on they do it to pages that are no longer this rank's (kolo_heap_sever; its content stays,
 * names given before are void). For a failed collective that a stopped member may yet go on with.
 * OK also for memory that cannot be lent. ERR_UNSUPPORTED among threads of one process: they must
 * be waited for. ERR_NO_MEMORY, ERR_SYSTEM: the pages are as they were. */
kolo_status kolo_board_sever(struct kolo_board *board, const void *memory,
                             size_t bytes) KOLO_NODISCARD;

#endif
