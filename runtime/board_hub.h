// SPDX-License-Identifier: Apache-2.0
// The collectives of one communicator over a board: the layout of the members' notes, and the state
// of the collective that is running. Private to runtime/.
//
// Each collective has a number, which all members count alike. A member enters collective k by
// filling its entry [k % ENTRIES] and publishing k. A member that has entered k + 1 is done with k.
// A member that completes a closed collective has seen all others enter it, so it is never more
// than one collective ahead. In a short broadcast the root continues at once, if later calls close
// the broadcast (otherwise it alone waits for all), and each other member continues when it has the
// root's data.
// Therefore, before a member overwrites something that belongs to number k, it checks that all
// members have entered k + 1 (kolo_hub_have_entered). They nearly always have. So a late member
// finds either the entries of its own call, or that no member is further ahead.
//
// The ways in which a collective can run:
//
//   oneshot   the entry (or the stage) holds the member's whole contribution; every member takes
//             what it needs from all others and is done: one synchronisation
//   direct    all buffers are kolo_alloc memory, and the entry names them. Every member runs its
//             share of the moves from memory to memory, reports "done", and waits for all others
//   pulled    some buffer is not, but all members may read each other's memory. The entry names the
//             data sent, or gives its address. Every member copies what goes to it, reports "done",
//             and waits for all others
//   staged    otherwise: chunks go through the stages in rounds, counted by three counters
//   lent      all buffers are device memory that their ranks lend. Notes beside the entry say how
//             others map them. All members report whether they could, run their share of the moves
//             by kernels, report "done", and wait for all others
//
// Another member's notes are not trusted: numbers are compared, the borrower checks each name, an
// address is one in that member's own process, and no length is taken from notes. Durations of
// calls are believed: they decide which way is faster, never where data lies.
#ifndef KOLO_RUNTIME_BOARD_HUB_H
#define KOLO_RUNTIME_BOARD_HUB_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>

#include "memory/fold.h"
#include "runtime/board_moves.h"
#include "runtime/board_tracks.h"
#include "runtime/comm.h"
#include "runtime/succession.h"
#include "runtime/trials.h"
#include "transport/board.h"

enum {
    KOLO_BOARD_LINE = 64,
    KOLO_BOARD_ENTRIES = 8, /* a member may be 7 calls ahead */
    KOLO_BOARD_SHOWN = 2,   /* contributions in a stage at a time */
    /* a broadcast this short has a place in the stage for each entry */
    KOLO_BOARD_SHORT_BYTES = 4 << 10,
    KOLO_BOARD_INLINE_BYTES = 32,    /* longest contribution that is stored in the entry itself */
    KOLO_BOARD_TURN_BYTES = 1 << 20, /* of a buffer, that are moved before the engine gets a turn */
    KOLO_BOARD_ONESHOT_BYTES = 128 << 10, /* longest contribution of a oneshot */
    KOLO_BOARD_LONG_BYTES = 8 << 10,      /* from this length on, both kinds of stores are tried */
    KOLO_BOARD_STAGED_BYTES = 1536 << 10, /* part of a stage for the chunks of staged collectives */
    KOLO_BOARD_TOOK = 2, /* measured collectives whose figures a member keeps (board_ways.c) */
    KOLO_BOARD_LENT_BUFFERS = 2, /* buffers of a rank in a call: send, recv */
    KOLO_BOARD_SHORT_AT = KOLO_BOARD_SHOWN * KOLO_BOARD_ONESHOT_BYTES,
    KOLO_BOARD_SHOWN_BYTES = KOLO_BOARD_SHORT_AT + KOLO_BOARD_ENTRIES * KOLO_BOARD_SHORT_BYTES,
    KOLO_BOARD_STAGE_BYTES = KOLO_BOARD_SHOWN_BYTES + KOLO_BOARD_STAGED_BYTES
};

/** One cache line. If the contribution has at most INLINE_BYTES, this line is all that another
 * member has to read. The next line stays empty, since the processor fetches lines in pairs and the
 * following entry is about to be written. */
struct kolo_board_entry {
    /* of the call, perhaps with KOLO_BOARD_LENDS; written last */
    alignas(2 * KOLO_BOARD_LINE) _Atomic uint64_t number;
    struct kolo_desc desc;
    union {
        struct {
            /* if span of send is 0, its offset is an address, or 0 */
            struct kolo_board_name send, recv;
        } names;
        uint8_t data[KOLO_BOARD_INLINE_BYTES];
    };
};

/** A counter in its own pair of lines, because the processor fetches lines in pairs. */
struct kolo_board_word {
    alignas(2 * KOLO_BOARD_LINE) _Atomic uint64_t value;
};

/** When a measured collective (board_ways.c) began on this member, all having entered, and
 * when it ended, by the clock that all processes of a host share. */
struct kolo_board_took {
    alignas(2 * KOLO_BOARD_LINE) _Atomic uint64_t number; /* written last */
    _Atomic int64_t began, ended;
};

/** In the number of an entry: this member lends its buffers for the call. Calls are counted from 1,
 * and no count gets here. The number is read anyway, by every call. */
#define KOLO_BOARD_LENDS ((uint64_t)1 << 63)
/** Device memory that a member lends for the call whose entry says so. */
struct kolo_board_lent {
    struct kolo_loan loan;
    uint64_t address; /* in its owner's process */
};

/** What a member publishes to the others. Zero at first. */
struct kolo_board_notes {
    struct kolo_board_entry entries[KOLO_BOARD_ENTRIES];
    struct kolo_board_word done;   /* latest direct collective whose share this member has moved */
    struct kolo_board_word staged; /* rounds copied in, over all staged collectives so far */
    struct kolo_board_word worked; /* rounds folded, or copied from the senders' cells */
    struct kolo_board_word taken;  /* rounds copied from the owners' out-slots */
    /* the collective for which it is accessing others' memory now */
    struct kolo_board_word touching;
    struct kolo_board_word where;   /* the processor on which it last entered, plus 1 */
    struct kolo_board_word revoked; /* nonzero: its memory must not be accessed any more */
    /* block size in bytes from which on it would pull, 0: never; highest bit: only if found
     * faster */
    struct kolo_board_word pulls;
    struct kolo_board_word unread; /* the latest collective for which it could not pull */
    /* Twice the latest collective for which it has mapped what is lent, plus 1 if it succeeded
     * (then its input is scaled too). */
    struct kolo_board_word mapped;
    /* the latest collective whose lent buffers it copied to the host */
    struct kolo_board_word brought;
    struct kolo_board_word opened; /* the communicator made of this one that it came to last */
    struct kolo_board_took took[KOLO_BOARD_TOOK];
    alignas(2 * KOLO_BOARD_LINE) struct kolo_board_lent lent[KOLO_BOARD_LENT_BUFFERS];
};
_Static_assert(offsetof(struct kolo_board_entry, data) + KOLO_BOARD_INLINE_BYTES == KOLO_BOARD_LINE,
               "an entry is one line");
_Static_assert(sizeof(struct kolo_board_notes) <= KOLO_BOARD_NOTES_BYTES - KOLO_BOARD_CARD_BYTES,
               "fits a board's notes");

enum kolo_board_phase {
    KOLO_BOARD_OPENING, /* waits until all members can be seen */
    /* waits until no member needs the contribution that this one is about to overwrite */
    KOLO_BOARD_HOLDING,
    /* waits until all members, or for some broadcasts the root, have entered */
    KOLO_BOARD_ENTERING,
    KOLO_BOARD_BRINGING, /* waits until all buffers that were lent in vain are copied to the host */
    KOLO_BOARD_MAPPING,  /* waits until this member has mapped what the others lend */
    KOLO_BOARD_SCALING,  /* waits until this member's input is scaled, on its device */
    KOLO_BOARD_AGREEING, /* waits until all members have reported whether they could map */
    KOLO_BOARD_BORROWING, /* waits until all named memory is mapped */
    KOLO_BOARD_MOVING,    /* moves this member's share from memory to memory */
    KOLO_BOARD_CLOSING,   /* waits until all members have moved their shares */
    KOLO_BOARD_STAGING,   /* runs rounds through the stages */
    KOLO_BOARD_OVER
};

/** The outcome of one poll of the board. */
enum kolo_board_step { KOLO_BOARD_STUCK, KOLO_BOARD_MOVED, KOLO_BOARD_DONE };

struct kolo_hub_member {
    uint64_t entered;               /* the latest collective that it is known to have entered */
    struct kolo_board_notes *notes; /* read-only, except one's own */
    uint8_t *stage;
    uint8_t *send, *recv; /* the buffers of the running collective, as mapped here */
    uint64_t address;     /* if send is NULL: its address in the member's process, for pulling */
    size_t send_bytes, recv_bytes; /* how much of them the moves use */
};

/** Progress of this member with the moves to it. */
struct kolo_pull {
    size_t first, count; /* the range of moves to this member */
    size_t turn, at;     /* the next piece: move, element within it */
};

/** The kernels of a collective whose buffers are lent. */
struct kolo_hub_lent {
    struct kolo_lane *lane;
    struct kolo_mapping **mappings; /* two for each member; allocated when first needed */
    int mapping_count;              /* mappings that are held */
    int part, parts;                /* this member's share; part -1: none */
    bool is_launched;
    uint64_t mark; /* in the lane's stream, after the kernels */
};

/** The rounds of a staged collective. */
struct kolo_board_rounds {
    uint64_t base;                /* rounds of all earlier staged collectives */
    size_t count;                 /* rounds of this one */
    size_t staged, worked, taken; /* rounds of it that this member has done */
    size_t chunk, cell_bytes;     /* in elements; bytes of a cell */
    size_t slots, in_bytes;       /* slots of each kind; bytes of an in-slot */
    size_t track_count;           /* tracks in which this member takes part */
    bool copies_in, goes_out, copies_out;
};

enum { KOLO_SHOWS_KINDS = 4, KOLO_SHOWS_LENGTHS = 5 };

/** Which kind of stores writes long contributions to a oneshot into the stage. Each member decides
 * for itself, by the durations of its own calls. All members run their trials in the same calls (of
 * the same length and collective) and in even rounds, so that the others' stores are of the same
 * kind meanwhile. */
struct kolo_shows {
    struct kolo_trials trials[KOLO_SHOWS_KINDS][KOLO_SHOWS_LENGTHS];
    /* Trials that receive the duration of the running call; NULL: none, as at the start. */
    struct kolo_trials *measured;
    enum kolo_store_how how;   /* in the running call */
    enum kolo_store_how found; /* the result of the latest call that was not measured */
    /* Trials that have counted the running call, and what they were before; NULL: none have. */
    struct kolo_trials *taken, before;
    enum kolo_store_how found_before;
    int64_t began_ns; /* when this member began to put up its contribution */
};

/** The running collective, or the latest one. It begins afresh with each, so nothing of an earlier
 * one is left in it. */
struct kolo_hub_run {
    struct kolo_request *request; /* NULL: none is running */
    enum kolo_collective collective;
    size_t element_bytes;
    struct kolo_fold fold;
    enum kolo_board_phase phase;
    int seen;  /* members below this index are known to have reached this phase */
    int giver; /* the one member whose entering this one waits for; -1: all */
    bool is_oneshot;
    bool may_show;      /* not a oneshot, but runs as one if no member's memory can be seen */
    bool has_named;     /* this member has named all memory that the moves use */
    bool is_inline;     /* contributions are in the entries */
    bool is_short;      /* the root's contribution is in the stage's place for its entry */
    bool does_any_lend; /* of those that are known to have entered */
    bool is_lent;       /* all members lend, as far as is known */
    bool is_pulled;
    enum kolo_store_how how, cell_how; /* for results; for long cells of stages */
};

struct kolo_hub {
    struct kolo_comm *comm;
    struct kolo_board *board;
    int self, count;
    int looks;       /* polls of a flag before other ranks get a turn */
    bool is_crowded; /* ranks share processors: see kolo_hub_makes_room */
    bool is_ready;   /* all members can be seen */
    bool is_refused; /* a collective cannot continue, and this has been reported */
    bool has_shown;  /* the stage has memory for contributions */
    int missing;     /* the member that it waits for to open the board; -1: not known */
    uint64_t where;  /* the processor on which this rank last entered, plus 1 */
    uint64_t number; /* the latest collective */
    uint64_t known;  /* the latest collective that all are known to have entered */
    /* the latest collective whose contribution is in this part of the stage */
    uint64_t shown[KOLO_BOARD_SHOWN];
    uint64_t moves; /* grows whenever progress is seen */
    struct kolo_hub_run run;
    struct kolo_succession succession;
    size_t pull_bytes;  /* block size from which on all pull; 0: not known yet; SIZE_MAX: never */
    bool pull_is_tried; /* pulls only if that is found to be faster */
    struct kolo_pull pull;
    struct kolo_share share; /* of the moves from memory to memory */
    struct kolo_hub_lent lent;
    struct kolo_shows shows;
    struct kolo_hub_ways *ways;
    struct kolo_board_rounds rounds;
    struct kolo_track *tracks;
    struct kolo_hub_member members[];
};

/* ---- board_hub.c ---- */

/** The rank in the world of each member, written to @p room. */
const int *kolo_hub_ranks(const struct kolo_comm *comm, int room[KOLO_BOARD_MEMBERS_MAX]);

/** Begins to open the board of @p comm; afterwards *hub_out is there, though not all members can be
 * seen yet. Held: lock. */
kolo_status kolo_hub_open(struct kolo_comm *comm, kolo_deadline deadline,
                          struct kolo_hub **hub_out) KOLO_NODISCARD;
/** NULL is allowed. The communicator must have no requests any more. Held: lock. */
void kolo_hub_close(struct kolo_hub *hub);
/** Polls of a flag before the links get a turn: few if whoever it waits for may need this
 * processor. */
int kolo_hub_looks(const struct kolo_hub *hub);
/** Publishes on which processor this rank enters. */
void kolo_hub_place(struct kolo_hub *hub);
/** While others have yet to enter: whether one of them, or the expected root of the next broadcast,
 * may be waiting for this rank's processor. False if this rank is that root and what it waits for
 * can arrive. */
bool kolo_hub_makes_room(const struct kolo_hub *hub);
/** Publishes a value and wakes sleepers. */
void kolo_hub_publish(struct kolo_hub *hub, struct kolo_board_word *word, uint64_t value);
/** Whether all members have entered @p number, which must not be later than the latest
 * collective. */
bool kolo_hub_have_entered(struct kolo_hub *hub, uint64_t number);
/** Whether the word at @p offset of every member's notes is at least @p value. Remembers the
 * progress in hub->run.seen, so the next call with the same value continues there. */
bool kolo_hub_all_reached(struct kolo_hub *hub, size_t offset, uint64_t value);
/** The word at @p offset of a member's notes. */
static inline uint64_t kolo_hub_word(const struct kolo_hub *hub, int member, size_t offset)
{
    const uint8_t *notes = (const uint8_t *)hub->members[member].notes;
    const struct kolo_board_word *word = (const void *)(notes + offset);
    return atomic_load_explicit(&word->value, memory_order_acquire);
}
static inline struct kolo_board_entry *kolo_hub_entry(const struct kolo_hub *hub, int member)
{
    return &hub->members[member].notes->entries[hub->number % KOLO_BOARD_ENTRIES];
}
/** The number of the call that @p entry is of. */
static inline uint64_t kolo_entry_number(const struct kolo_board_entry *entry)
{
    return atomic_load_explicit(&entry->number, memory_order_acquire) & ~KOLO_BOARD_LENDS;
}
/** Announces that this rank accesses others' memory, until kolo_hub_untouch; a member that
 * withdraws its memory waits for that. Returns false if a member has revoked its memory: then what
 * was read before may not be as it was sent. */
bool kolo_hub_touch(struct kolo_hub *hub);
void kolo_hub_untouch(struct kolo_hub *hub);
/** Whether another member has revoked its memory. */
bool kolo_hub_is_revoked(const struct kolo_hub *hub);
/** Runs @p move from the members' send buffers to their recv buffers. */
void kolo_hub_move(const struct kolo_hub *hub, const struct kolo_move *move);

/** The operands and results of @p move; *nin_out and *nout_out say how many. */
void kolo_hub_places(const struct kolo_hub *hub, const struct kolo_move *move, const void *in[],
                     size_t *nin_out, void *out[], size_t *nout_out);

/* ---- board_oneshot.c, board_direct.c, board_pull.c, board_staged.c: the ways of the host ---- */

/** Bytes of the longest contribution; saturates at SIZE_MAX. */
size_t kolo_oneshot_bytes(enum kolo_collective collective, const struct kolo_plan_args *args,
                          size_t element_bytes);
/** Enters a call that is a oneshot or may run as one, and decides by which stores, whether or not
 * this member has a contribution. Call before kolo_oneshot_put. A member that has named its memory
 * need not: then no member's call runs as a oneshot, and those that have called this take it
 * back. */
void kolo_oneshot_choose(struct kolo_hub *hub);
/** All members have entered, and all know that the call does not run as a oneshot: it never
 * counted. */
void kolo_oneshot_unchoose(struct kolo_hub *hub);
/** Publishes this member's contribution: in the entry if it is short and the entry has no names,
 * otherwise in the stage. ERR_NO_MEMORY: there is none for that, and nothing is published. */
kolo_status kolo_oneshot_put(struct kolo_hub *hub) KOLO_NODISCARD;
/** All members have entered: takes what this member needs. */
void kolo_oneshot_take(struct kolo_hub *hub);

/** Finds out how much of each member's buffers the moves of the running collective use. */
void kolo_board_extents(struct kolo_hub *hub);
/** Names this member's buffers in its entry, as far as that is possible. False: not all could be
 * named. */
bool kolo_board_direct_put(struct kolo_hub *hub);
enum kolo_board_named { KOLO_BOARD_ALL_NAMED, KOLO_BOARD_NONE_NAMED, KOLO_BOARD_SOME_NAMED };
/** Whether all, none or some members have named all their buffers; the same on all members once all
 * have entered. */
enum kolo_board_named kolo_board_direct_look(const struct kolo_hub *hub);
/** Borrows the others' memory. KOLO_AGAIN: some of it has not arrived yet. */
kolo_status kolo_board_direct_borrow(struct kolo_hub *hub) KOLO_NODISCARD;
/** Moves a part of this member's share. */
enum kolo_board_step kolo_board_direct_step(struct kolo_hub *hub);
/** Revokes this member's memory: on return no other member accesses it. */
void kolo_board_direct_withdraw(struct kolo_hub *hub);

/* ---- board_ways.c ---- */

/** NULL: no memory. Freed by kolo_free_memory like any allocation. */
struct kolo_hub_ways *kolo_ways_create(void);
/** Before this member enters a collective whose contributions are short enough to be shown: whether
 * they are, or are passed on by the ways of memory that cannot be seen. The same on all members. */
bool kolo_ways_shows(struct kolo_hub *hub);
/** Whether contributions that are short enough to be shown always are, unless a setting says that
 * they are pulled. */
bool kolo_ways_only_shows(enum kolo_collective collective, const struct kolo_plan_args *args,
                          size_t element_bytes);
/** This member's contribution has been put up. */
void kolo_ways_put(struct kolo_hub *hub);
/** All members have entered, and all know that some named or lent their memory: kolo_ways_shows
 * never counted. Allowed if it was not called. */
void kolo_ways_unshow(struct kolo_hub *hub);
/** All members have entered a collective that is not a oneshot, and whose contributions are
 * shown. */
void kolo_ways_shown(struct kolo_hub *hub);
/** All members have entered a collective that is not a oneshot, nor shown: decides how it runs
 * (is_pulled, how, cell_how). @p all_see: all buffers have names. */
void kolo_ways_choose(struct kolo_hub *hub, bool all_see);
/** Bytes of all buffers of the running collective, computed from counts only: the same on all
 * members. */
double kolo_ways_bytes(const struct kolo_hub *hub);
/** The running collective is over on this member. */
void kolo_ways_over(struct kolo_hub *hub);

/* ---- board_pull.c ---- */

/** Tests which members this one may read, and publishes the result; called before it first
 * enters. */
void kolo_pull_probe(struct kolo_hub *hub);
/** Whether a collective whose memory the others cannot see can be pulled: each member copies what
 * goes to it from the senders' memory. @p from: block size in bytes from which on all pull; 0: not
 * all do. */
bool kolo_pull_can(enum kolo_collective collective, const struct kolo_plan_args *args,
                   size_t element_bytes, size_t from);
/** Whether pulling pays, given an explicit setting. @p buffer_bytes: of all ranks together. */
bool kolo_pull_pays(enum kolo_collective collective, const struct kolo_plan_args *args,
                    size_t element_bytes, double buffer_bytes, size_t from);
/** Whether the running collective, in which some buffer has no name, must be pulled; and whether it
 * may be. The same on all members once all have entered, and as soon as it is known. */
bool kolo_pull_must(struct kolo_hub *hub);
bool kolo_pull_may(struct kolo_hub *hub);
/** Whether either has been asked before, which all members do in the same collective. */
bool kolo_pull_is_known(const struct kolo_hub *hub);
/** Borrows what is sent to this member and can be borrowed. KOLO_AGAIN: some of it has not arrived
 * yet. */
kolo_status kolo_pull_borrow(struct kolo_hub *hub) KOLO_NODISCARD;
/** Copies a part of what goes to this member. */
enum kolo_board_step kolo_pull_step(struct kolo_hub *hub);
/** All members have reported "done": whether one of them could not read. From then on nobody
 * pulls. */
bool kolo_pull_has_failed(struct kolo_hub *hub);

/* ---- board_staged.c ---- */

/** Whether the cells of the running collective are long enough for stores that bypass the
 * caches. */
bool kolo_staged_may_stream(const struct kolo_hub *hub);
/** All members have entered: prepares the rounds. ERR_NO_MEMORY. */
kolo_status kolo_staged_begin(struct kolo_hub *hub) KOLO_NODISCARD;
enum kolo_board_step kolo_staged_step(struct kolo_hub *hub);
/** Whether this member is waiting for @p member now. */
bool kolo_staged_waits_for(const struct kolo_hub *hub, int member);

/* ---- board_lent.c ---- */

/** Publishes how this member's buffers are mapped; its entry, published afterwards, then says that
 * it lends them. False: the buffers are not lent, or (is_refused) the call has failed. */
bool kolo_board_lent_put(struct kolo_hub *hub);
/** Some members lend their buffers: whether all that have buffers do; the same on all members once
 * all have entered. */
bool kolo_board_lent_by_all(struct kolo_hub *hub);
/** Whether @p member, which has entered, lends its buffers. */
bool kolo_board_lent_by(const struct kolo_hub *hub, int member);
/** Maps what the others lend, and publishes whether that succeeded. KOLO_BOARD_MOVED: it did, and
 * will be published by kolo_board_lent_scale. KOLO_BOARD_STUCK: the device failed, or its driver
 * refused, which is the communicator's failure. */
enum kolo_board_step kolo_board_lent_map(struct kolo_hub *hub);
/** Publishes that this member has mapped everything, once its input is scaled. Until then, and if
 * that failed, as above: KOLO_BOARD_STUCK. */
enum kolo_board_step kolo_board_lent_scale(struct kolo_hub *hub);
/** All members have reported: whether all could map. */
bool kolo_board_lent_agreed(const struct kolo_hub *hub);
/** This call and all later ones of the communicator go through the host: begins to copy there what
 * this member lent. A failure of that copy fails the communicator. */
void kolo_board_lent_give_up(struct kolo_hub *hub);
/** What this member lent is on the host: publishes it. */
kolo_status kolo_board_lent_brought(struct kolo_hub *hub) KOLO_NODISCARD;
/** Runs this member's share. */
enum kolo_board_step kolo_board_lent_step(struct kolo_hub *hub);
/** The kernels are over, or late: releases the mappings that nothing uses any more. */
void kolo_board_lent_end(struct kolo_hub *hub);

#endif
