// SPDX-License-Identifier: Apache-2.0
// The collectives of one communicator over a board: what stands in the members' notes, and the
// state of the one collective that runs. Private to runtime/board_*.c and route_board.c.
//
// Each collective has a number, counted alike on all members. Entering it, a member fills its entry
// [number % ENTRIES] and publishes the number. Whoever has entered k + 1 is done with k. Who
// completes a closed collective has seen all enter it, so it is never more than one ahead. Of a
// short broadcast the root goes on at once, if calls after it close it (else it alone waits for
// all), the others as soon as they have its data. So before a member puts something where there was
// something of number k, it makes sure that all have entered k + 1 (kolo_hub_have_entered), which
// they nearly always have: a member that is late finds the entries of its own call, or that nobody
// has gone further.
//
//   oneshot   the entry (or the stage) holds the member's whole contribution; everybody takes what
//             it needs from all, and is over: one flag, no second one
//   direct    all buffers are kolo_alloc memory: the entry names them; everybody runs its share of
//             the moves from memory to memory, says done, and waits until all have
//   pulled    some buffer is not, but all members may read each other: the entry names what is sent
//             or says its address; everybody takes what goes to it, says done, and waits until all
//             have
//   staged    else: chunks go through the stages in rounds, told by three counters
//   lent      all buffers are memory of devices that their ranks lend: notes beside the entry say
//             how others map them; all say whether they could, everybody runs its share of the
//             moves by kernels, says done, and waits until all have
//
// Nothing in another member's notes is trusted: a number is compared, a name is checked by whoever
// borrows, an address is one in that member's own process, and no length is taken from there. What
// a call took is believed: it says which way is faster, never where anything lies.
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
    KOLO_BOARD_ENTRIES = 8,               /* calls that a member may be ahead, and one */
    KOLO_BOARD_SHOWN = 2,                 /* contributions in a stage at a time, and of */
    KOLO_BOARD_SHORT_BYTES = 4 << 10,     /* broadcasts so short as many as there are entries */
    KOLO_BOARD_INLINE_BYTES = 32,         /* of a contribution that stands in the entry */
    KOLO_BOARD_ONESHOT_BYTES = 128 << 10, /* the longest contribution of a oneshot */
    KOLO_BOARD_LONG_BYTES = 8 << 10,      /* of one, from which on its stores are tried */
    KOLO_BOARD_STAGED_BYTES = 1536 << 10, /* of the stage, for chunks on their way */
    KOLO_BOARD_LENT_BUFFERS = 2,          /* that a call has of a rank: send, recv */
    KOLO_BOARD_SHORT_AT = KOLO_BOARD_SHOWN * KOLO_BOARD_ONESHOT_BYTES,
    KOLO_BOARD_SHOWN_BYTES = KOLO_BOARD_SHORT_AT + KOLO_BOARD_ENTRIES * KOLO_BOARD_SHORT_BYTES,
    KOLO_BOARD_STAGE_BYTES = KOLO_BOARD_SHOWN_BYTES + KOLO_BOARD_STAGED_BYTES
};

/** One line: with a contribution of a few bytes, all that another member has to read. The next line
 * stays empty: the processor fetches lines in pairs, and the other entry is about to be written. */
struct kolo_board_entry {
    alignas(2 * KOLO_BOARD_LINE) _Atomic uint64_t number; /* written last */
    struct kolo_desc desc;
    union {
        struct {
            struct kolo_board_name send, recv; /* send with span 0: offset is its address, or 0 */
        } names;
        uint8_t data[KOLO_BOARD_INLINE_BYTES];
    };
};

/** A counter on lines of its own: the processor fetches lines in pairs. */
struct kolo_board_word {
    alignas(2 * KOLO_BOARD_LINE) _Atomic uint64_t value;
};

/** When the latest collective that was measured (board_ways.c) began here, all having entered, and
 * ended, by the clock that all processes of a host share. */
struct kolo_board_took {
    alignas(2 * KOLO_BOARD_LINE) _Atomic uint64_t number; /* written last */
    _Atomic int64_t began, ended;
};

/** In an entry's offset of recv: its member lends. */
#define KOLO_BOARD_LENDS ((uint64_t)1 << 63)
/** Memory of a device that a member lends for the call whose entry says so. */
struct kolo_board_lent {
    struct kolo_loan loan;
    uint64_t address; /* in its process */
};

/** What a member shows the others. Zero at first. */
struct kolo_board_notes {
    struct kolo_board_entry entries[KOLO_BOARD_ENTRIES];
    struct kolo_board_word done;     /* the latest direct collective whose share is moved */
    struct kolo_board_word staged;   /* rounds copied in, of all staged collectives so far */
    struct kolo_board_word worked;   /* rounds folded, or copied out of the senders' cells */
    struct kolo_board_word taken;    /* rounds copied out of the folders' out-slots */
    struct kolo_board_word touching; /* the collective for which it moves others' memory just now */
    struct kolo_board_word where;    /* the processor on which it last entered, plus 1 */
    struct kolo_board_word revoked;  /* not 0: its memory must not be touched any more */
    struct kolo_board_word pulls;    /* bytes of a block from which on it would pull, 0: never; the
                                        highest bit: where it is found to be faster */
    struct kolo_board_word unread;   /* the latest collective for which it could not pull */
    /* twice the latest for which it has mapped, plus 1 if it could */
    struct kolo_board_word mapped;
    struct kolo_board_word brought; /* the latest for which it took to the host what it had lent */
    struct kolo_board_took took;
    alignas(2 * KOLO_BOARD_LINE) struct kolo_board_lent lent[KOLO_BOARD_LENT_BUFFERS];
};
_Static_assert(offsetof(struct kolo_board_entry, data) + KOLO_BOARD_INLINE_BYTES == KOLO_BOARD_LINE,
               "an entry is one line");
_Static_assert(sizeof(struct kolo_board_notes) <= KOLO_BOARD_NOTES_BYTES - KOLO_BOARD_CARD_BYTES,
               "fits a board's notes");

enum kolo_board_phase {
    KOLO_BOARD_OPENING,   /* until all members can be seen */
    KOLO_BOARD_HOLDING,   /* until none needs what this one showed where it shows the next */
    KOLO_BOARD_ENTERING,  /* until all have entered, or the root from whom this one has all */
    KOLO_BOARD_BRINGING,  /* until all that was lent for nothing is on the host */
    KOLO_BOARD_MAPPING,   /* until what they lent is mapped */
    KOLO_BOARD_AGREEING,  /* until all have said whether they could map it */
    KOLO_BOARD_BORROWING, /* until all memory that they named is mapped */
    KOLO_BOARD_MOVING,    /* my share, from memory to memory */
    KOLO_BOARD_CLOSING,   /* until all have moved theirs */
    KOLO_BOARD_STAGING,   /* rounds through the stages */
    KOLO_BOARD_OVER
};

/** What a look at the board gave. */
enum kolo_board_step { KOLO_BOARD_STUCK, KOLO_BOARD_MOVED, KOLO_BOARD_DONE };

struct kolo_hub_member {
    uint64_t entered;               /* a collective that it is known to have entered */
    struct kolo_board_notes *notes; /* read only, but one's own */
    uint8_t *stage;
    uint8_t *send, *recv;          /* where the running collective finds its buffers */
    uint64_t address;              /* of send NULL in the member's process, to be pulled from */
    size_t send_bytes, recv_bytes; /* what of them the moves touch */
};

/** How far this member is with the moves that go to it. */
struct kolo_pull {
    size_t first, count; /* of them */
    size_t turn, at;     /* the next: move, element in it */
};

/** Kernels of a collective whose buffers are lent. */
struct kolo_hub_lent {
    struct kolo_lane *lane;
    struct kolo_mapping **mappings; /* two for each member; made when first needed */
    int mapping_count;              /* that are held */
    int part, parts;                /* the share of this member; part -1: none */
    bool is_launched;
    uint64_t mark; /* after them */
};

/** Rounds of a staged collective. */
struct kolo_board_rounds {
    uint64_t base;                /* rounds of all staged collectives before */
    size_t count;                 /* of rounds */
    size_t staged, worked, taken; /* of them, by this member */
    size_t chunk, cell_bytes;     /* elements, bytes of a cell */
    size_t slots, in_bytes;       /* slots of each kind, bytes of an in-slot */
    size_t track_count;           /* tracks in which this member has a part */
    bool copies_in, goes_out, copies_out;
};

enum { KOLO_SHOWS_KINDS = 4, KOLO_SHOWS_LENGTHS = 5 };

/** By which stores long contributions to a oneshot go up. Each member finds out for itself, by what
 * its own calls take. All take their trials of the same calls, those that are as long and of the
 * same collective, in even rounds: so the others put theirs up in the same way meanwhile. */
struct kolo_shows {
    struct kolo_trials trials[KOLO_SHOWS_KINDS][KOLO_SHOWS_LENGTHS];
    /* to be told what the running call took; NULL: none, as at its start */
    struct kolo_trials *measured;
    enum kolo_store_how how;   /* of the running call */
    enum kolo_store_how found; /* by the latest call that was not measured */
    int64_t began_ns;          /* to put up */
};

struct kolo_hub {
    struct kolo_comm *comm;
    struct kolo_board *board;
    int self, count;
    int looks;                        /* at a flag, before others shall have their turn */
    bool is_crowded;                  /* ranks share processors: see kolo_hub_makes_room */
    uint64_t where;                   /* the processor on which this rank last entered, plus 1 */
    bool is_ready;                    /* all members can be seen */
    bool is_refused;                  /* the running collective cannot go on, which has been told */
    uint64_t number;                  /* of the latest collective */
    uint64_t known;                   /* a collective that all have entered */
    uint64_t shown[KOLO_BOARD_SHOWN]; /* the latest whose contribution stands in the stage */
    uint64_t moves;                   /* grows with everything that is seen to move */
    struct kolo_request *running;
    enum kolo_collective collective;
    enum kolo_board_phase phase;
    bool is_oneshot;
    int giver; /* the one member that this one waits for to enter; -1: all */
    struct kolo_succession succession;
    bool has_named; /* this member, all that the moves touch */
    bool may_show;  /* not a oneshot, but goes that way if nobody's memory can be seen */
    bool is_inline; /* contributions stand in the entries */
    bool is_short;  /* that of the root stands in the place of its number's entry in the stage */
    bool is_pulled;
    size_t pull_bytes;  /* of a block from which on all pull; 0: not known yet; SIZE_MAX: never */
    bool pull_is_tried; /* and only where it is found to be faster */
    struct kolo_pull pull;
    bool is_lent; /* by all, as far as is known */
    struct kolo_hub_lent lent;
    int seen;    /* members before this one have been seen to be in this phase */
    int missing; /* for whom it waits to open the board; -1: not known */
    size_t element_bytes;
    struct kolo_fold fold;
    struct kolo_share share;
    struct kolo_shows shows;
    struct kolo_hub_ways *ways;
    enum kolo_store_how how, cell_how; /* into results, into long cells of stages */
    struct kolo_board_rounds rounds;
    struct kolo_track *tracks;
    struct kolo_hub_member members[];
};

/* ---- board_hub.c ---- */

/** Ranks in the world, by member; the caller's. NULL: no memory. */
int *kolo_hub_ranks(const struct kolo_comm *comm);

/** Begins to open the board of @p comm; there is one from then on. Held: lock. */
kolo_status kolo_hub_open(struct kolo_comm *comm, kolo_deadline deadline,
                          struct kolo_hub **hub_out) KOLO_NODISCARD;
/** NULL is fine. No request of the communicator is left. Held: lock. */
void kolo_hub_close(struct kolo_hub *hub);
/** Says on which processor this rank enters. */
void kolo_hub_place(struct kolo_hub *hub);
/** While others have to enter: whether one of them, or the expected root of the next broadcast, may
 * be waiting for this rank's processor. Not if this rank is that root, and what it waits for can
 * come. */
bool kolo_hub_makes_room(const struct kolo_hub *hub);
/** Publishes a value and wakes who sleeps. */
void kolo_hub_publish(struct kolo_hub *hub, struct kolo_board_word *word, uint64_t value);
/** Whether all members have entered @p number, which is not after the latest. */
bool kolo_hub_have_entered(struct kolo_hub *hub, uint64_t number);
/** All members' words at @p offset of the notes are at least @p value? Remembers in hub->seen how
 * far it came, for the next time with the same value. */
bool kolo_hub_all_reached(struct kolo_hub *hub, size_t offset, uint64_t value);
/** A member's word at @p offset of its notes. */
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
/** From here on the others must not be left with memory that we touch, until kolo_hub_untouch; and
 * what was read before was as it was sent. False: some took it back. */
bool kolo_hub_touch(struct kolo_hub *hub);
void kolo_hub_untouch(struct kolo_hub *hub);
/** Has some other member taken its memory back? */
bool kolo_hub_is_revoked(const struct kolo_hub *hub);
/** Runs @p move from the members' send to their recv. */
void kolo_hub_move(const struct kolo_hub *hub, const struct kolo_move *move);

/** Where @p move finds its operands and its results; how many stands in *nin_out and *nout_out. */
void kolo_hub_places(const struct kolo_hub *hub, const struct kolo_move *move, const void *in[],
                     size_t *nin_out, void *out[], size_t *nout_out);

/* ---- board_oneshot.c, board_direct.c, board_pull.c, board_staged.c: the ways of the host ---- */

/** Bytes of the longest contribution; saturates. */
size_t kolo_oneshot_bytes(enum kolo_collective collective, const struct kolo_plan_args *args,
                          size_t element_bytes);
/** Enters a call that is a oneshot or may go as one, whether or not this member puts anything up:
 * decides by which stores. Before kolo_oneshot_put. */
void kolo_oneshot_choose(struct kolo_hub *hub);
/** All have entered, and it goes another way, as all know. */
void kolo_oneshot_unchoose(struct kolo_hub *hub);
/** Puts up this member's contribution, in its stage or, if short and the entry has no names, there.
 */
void kolo_oneshot_put(struct kolo_hub *hub);
/** Everybody has entered: takes what this member needs. */
void kolo_oneshot_take(struct kolo_hub *hub);

/** Names this member's buffers in its entry, as far as they can be named. False: not all. */
bool kolo_board_direct_put(struct kolo_hub *hub);
enum kolo_board_named { KOLO_BOARD_ALL_NAMED, KOLO_BOARD_NONE_NAMED, KOLO_BOARD_SOME_NAMED };
/** How many members have named all their buffers; the same on all, once all have entered. */
enum kolo_board_named kolo_board_direct_look(const struct kolo_hub *hub);
/** Borrows the others' memory. KOLO_AGAIN: not all has arrived. */
kolo_status kolo_board_direct_borrow(struct kolo_hub *hub) KOLO_NODISCARD;
/** Moves a part of this member's share. */
enum kolo_board_step kolo_board_direct_step(struct kolo_hub *hub);
/** Takes this member's memory back from the others: on return none of them touches it. */
void kolo_board_direct_withdraw(struct kolo_hub *hub);

/* ---- board_ways.c ---- */

/** NULL: no memory. Freed as memory is. */
struct kolo_hub_ways *kolo_ways_create(void);
/** All have entered a collective that is no oneshot: decides how it goes (is_pulled, how,
 * cell_how). @p all_see: all buffers have names. */
void kolo_ways_choose(struct kolo_hub *hub, bool all_see);
/** Bytes of all buffers of the running collective, by counts alone: the same on all members. */
double kolo_ways_bytes(const struct kolo_hub *hub);
/** It is over here. */
void kolo_ways_over(struct kolo_hub *hub);

/* ---- board_pull.c ---- */

/** Finds out whom this member may read, and says so; before it first enters. */
void kolo_pull_probe(struct kolo_hub *hub);
/** Whether a collective of memory that the others cannot see can be pulled, where all pull blocks
 * of @p from bytes and more (0: not all do): each takes what goes to it out of the senders'
 * memory. */
bool kolo_pull_can(enum kolo_collective collective, const struct kolo_plan_args *args,
                   size_t element_bytes, size_t from);
/** Whether it is, where a setting says so. @p buffer_bytes: of all ranks together. */
bool kolo_pull_pays(enum kolo_collective collective, const struct kolo_plan_args *args,
                    size_t element_bytes, double buffer_bytes, size_t from);
/** Whether the running collective, of which some buffer has no name, has to be pulled; whether it
 * may be. The same on all, once all have entered. */
bool kolo_pull_must(struct kolo_hub *hub);
bool kolo_pull_may(struct kolo_hub *hub);
/** Borrows what is sent to this member and can be borrowed. KOLO_AGAIN: not all has arrived. */
kolo_status kolo_pull_borrow(struct kolo_hub *hub) KOLO_NODISCARD;
/** Takes a part of what goes to this member. */
enum kolo_board_step kolo_pull_step(struct kolo_hub *hub);
/** All have said done: has somebody not been able to read? Then nobody pulls any more. */
bool kolo_pull_has_failed(struct kolo_hub *hub);

/** Whether cells of the running collective are long enough to be stored round the caches. */
bool kolo_staged_may_stream(const struct kolo_hub *hub);
/** Everybody has entered. ERR_NO_MEMORY. */
kolo_status kolo_staged_begin(struct kolo_hub *hub) KOLO_NODISCARD;
enum kolo_board_step kolo_staged_step(struct kolo_hub *hub);
/** Whether this member waits for @p member just now. */
bool kolo_staged_waits_for(const struct kolo_hub *hub, int member);

/* ---- board_lent.c ---- */

/** Says in this member's notes how its buffers are mapped, and in its entry, which has names, that
 * it does. False: they are not lent. */
bool kolo_board_lent_put(struct kolo_hub *hub);
/** How many members with buffers lend them; the same on all, once all have entered. */
enum kolo_board_named kolo_board_lent_look(const struct kolo_hub *hub);
/** Does @p member lend its buffers? It has entered. */
bool kolo_board_lent_by(const struct kolo_hub *hub, int member);
/** Maps what the others lend, and says whether it could. */
void kolo_board_lent_map(struct kolo_hub *hub);
/** All have said: could all? */
bool kolo_board_lent_agreed(const struct kolo_hub *hub);
/** From here on the communicator's calls go by the host, this one too: begins to take there what
 * this member lent. A failure is the communicator's. */
void kolo_board_lent_give_up(struct kolo_hub *hub);
/** What this member lent is on the host: shows it, and says so. */
void kolo_board_lent_brought(struct kolo_hub *hub);
/** Runs this member's share. */
enum kolo_board_step kolo_board_lent_step(struct kolo_hub *hub);
/** Its kernels are over, or late: lets go of what is mapped, if nothing uses it any more. */
void kolo_board_lent_end(struct kolo_hub *hub);

#endif
