// SPDX-License-Identifier: Apache-2.0
// The interface between board.c (ids, members, whatever is the same for every transport) and the
// transports that can have boards (shm_board.c, inproc_board.c: segments and spans). Private to
// transport/.
#ifndef KOLO_TRANSPORT_BOARD_PRIVATE_H
#define KOLO_TRANSPORT_BOARD_PRIVATE_H

#include "transport/board.h"
#include "transport/link.h"

enum {
    KOLO_BOARD_STAGE_MAX = 1 << 30,
    KOLO_BOARD_PAGE = 4096 /* the stage begins at a page boundary; the notes are one page */
};

struct kolo_board_member {
    int rank;
    struct kolo_link *link; /* NULL: this rank itself */
    uint8_t *segment;       /* notes, then the stage; NULL: not there yet */
    size_t other_bytes;     /* of a segment that arrived with another size than ours; 0: none */
};

/** The common part of a board; each transport's board struct begins with it. */
struct kolo_board {
    const struct kolo_board_ops *ops;
    struct kolo_endpoint *endpoint;
    struct kolo_board *next, *previous; /* in the list of this endpoint's boards */
    kolo_deadline deadline;
    size_t segment_bytes; /* whole pages */
    uint32_t id;
    int32_t pid; /* of the process that opened the board */
    int self, count;
    struct kolo_board_member members[KOLO_BOARD_MEMBERS_MAX];
};

/** A transport's operations for boards. */
struct kolo_board_ops {
    size_t bytes; /* size of its board struct */
    /** Whether the two ranks are joined by memory of this kind. Every rank gets the same answer
     *  about a pair. */
    bool (*joins)(const struct kolo_identity *a, const struct kolo_identity *b);
    /** Makes this rank's segment and shows it to the others. The common part is already filled in.
     *  If this fails, close() follows. */
    kolo_status (*open)(struct kolo_board *board);
    /** Frees everything that belongs to the board, even if it is only half open. */
    void (*close)(struct kolo_board *board);
    /** Looks for @p member's segment, for transports where it has to be looked for. NULL: it
     *  arrives by itself. */
    void (*look)(struct kolo_board *board, struct kolo_board_member *member);
    void (*ring)(struct kolo_board *board);
    kolo_status (*reserve)(struct kolo_board *board, size_t stage_bytes);
    void (*lend)(struct kolo_board *board, const void *memory, size_t bytes,
                 struct kolo_board_name *name_out);
    kolo_status (*borrow)(struct kolo_board *board, struct kolo_board_member *member,
                          const struct kolo_board_name *name, size_t bytes, uint8_t **memory_out);
    kolo_status (*sever)(struct kolo_board *board, const void *memory, size_t bytes);
    /** kolo_board_may_pull for another member, and kolo_board_pull. Both NULL: there is no need to
     *  pull. */
    kolo_status (*may_pull)(struct kolo_board *board, int member);
    kolo_status (*pull)(struct kolo_board *board, int member, uint64_t address, void *to,
                        size_t bytes);
    /** Nothing that was borrowed is in use any more. NULL: nothing to do. */
    void (*settle)(struct kolo_board *board);
    /** Span @p id of the endpoint's heap is about to be freed. NULL: nothing to do. */
    void (*span_gone)(struct kolo_board *board, uint64_t id);
    /** As kolo_endpoint_span_cut. NULL: nothing to do. */
    void (*span_cut)(struct kolo_board *board, uint64_t id);
};
extern const struct kolo_board_ops kolo_board_shm, kolo_board_inproc;

/** The boards of an endpoint, a list. */
struct kolo_board *kolo_endpoint_boards(const struct kolo_endpoint *endpoint);
/** The open board @p id; NULL: there is none. */
struct kolo_board *kolo_endpoint_board(const struct kolo_endpoint *endpoint, uint32_t id);
/** kolo_endpoint_span_gone, for the boards. */
void kolo_boards_span_gone(struct kolo_endpoint *endpoint, uint64_t id);
/** kolo_endpoint_span_cut, for the boards. */
void kolo_boards_span_cut(struct kolo_endpoint *endpoint, uint64_t id);
/** Closes the boards that are still open. */
void kolo_boards_close(struct kolo_endpoint *endpoint);
/** A segment of @p member has arrived, of @p bytes bytes. True: it was taken. False: its size is
 *  wrong, which is recorded. */
bool kolo_board_attach(struct kolo_board *board, struct kolo_board_member *member, void *segment,
                       size_t bytes);

#endif
