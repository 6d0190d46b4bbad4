// SPDX-License-Identifier: Apache-2.0
// The route over a board: runs a collective between ranks of one host through shared memory.
//
// A member enters, compares the descriptions of all other members with its own, and continues in
// one of the ways of board_hub.h. Must never block, nor let a member complete before all have
// entered with the same description.
//
// The exception is a short broadcast, which uses one flag. A member that is not the root completes
// with the data when the root has entered. The root completes when all have entered, or at once if
// the descriptions of later calls contain this one (comm->broadcasts.history). If descriptions
// differ, each member finds that out from the root that it expects, or in a later call from a
// member whose history differs.
//
//   OPENING -> HOLDING -> ENTERING --oneshot--------------------------> OVER
//                            |--named, pulled--> BORROWING -> MOVING -> CLOSING -> OVER
//                            |                                             | not all could be read
//                            \------else-------> STAGING <-----------------/
//                                                   \--------------------------> OVER
//   with device memory, as a oneshot too, except for broadcasts:
//              ENTERING --all lend--> MAPPING [-> SCALING] -> AGREEING --all could--> MOVING
//                  \--some lend--> BRINGING <---------------------/ not all could
//                                     \--> as from ENTERING
#include "runtime/route_board.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/board_hub.h"
#include "runtime/mismatch.h"
#include "runtime/own_ops.h"
#include "runtime/relax.h"

static struct kolo_hub *hub_of(const struct kolo_request *request)
{
    struct kolo_hub *hub = request->comm->hub;
    return hub && hub->run.request == request ? hub : NULL;
}

/** The board cannot continue, for the reason in this thread's detail. */
static void refuse(struct kolo_hub *hub, kolo_status status)
{
    if (!hub->is_refused)
        kolo_comm_suspect_here(hub->comm, -1, status);
    hub->is_refused = true;
}

static enum kolo_board_step go_on(struct kolo_hub *hub, enum kolo_board_phase phase)
{
    hub->run.seen = 0;
    hub->run.phase = phase;
    return KOLO_BOARD_MOVED;
}

/* ---- opening and entering ---- */

static enum kolo_board_step open_step(struct kolo_hub *hub)
{
    kolo_status status = hub->is_ready ? KOLO_OK : kolo_board_ready(hub->board, &hub->missing);
    if (status == KOLO_AGAIN)
        return KOLO_BOARD_STUCK;
    if (status != KOLO_OK) {
        refuse(hub, status);
        return KOLO_BOARD_STUCK;
    }
    for (int member = 0; !hub->is_ready && member < hub->count; member++) {
        hub->members[member].notes = kolo_board_notes(hub->board, member);
        hub->members[member].stage = kolo_board_stage(hub->board, member);
    }
    if (!hub->is_ready)
        kolo_pull_probe(hub);
    hub->is_ready = true;
    return KOLO_BOARD_MOVED;
}

/** Whether it is a short broadcast, which uses one flag. */
static bool is_sent(const struct kolo_hub *hub)
{
    return hub->run.is_oneshot && hub->run.collective == KOLO_COLLECTIVE_BROADCAST;
}

/** Publishes this member's contribution, or reports that it has no memory for that. */
static void put_data(struct kolo_hub *hub)
{
    const kolo_status status = kolo_oneshot_put(hub);
    if (status != KOLO_OK)
        refuse(hub, status);
}

/** Publishes the names of the buffers. If they have none and the vector is short, publishes the
 * data as in a oneshot. True: it lends device memory, so that its data is not on the host. */
static bool put_names(struct kolo_hub *hub)
{
    const struct kolo_plan_args *args = &hub->run.request->args;
    size_t bytes = kolo_oneshot_bytes(hub->run.collective, args, hub->run.element_bytes);
    hub->run.may_show =
        bytes <= kolo_comm_shown(hub->comm, hub->run.collective) && kolo_ways_shows(hub);
    hub->run.has_named = kolo_board_direct_put(hub);
    const bool lends = kolo_board_lent_put(hub);
    if (hub->is_refused)
        return false;
    if (hub->run.may_show && !hub->run.has_named) {
        kolo_oneshot_choose(hub);
        if (!lends)
            put_data(hub);
        kolo_ways_put(hub);
    }
    return lends;
}

enum { DESC_WORDS = sizeof(struct kolo_desc) / sizeof(uint64_t) };
_Static_assert(offsetof(struct kolo_board_entry, desc) % sizeof(uint64_t) == 0 &&
                   sizeof(struct kolo_desc) % sizeof(uint64_t) == 0,
               "a description is copied by words");

/** Writes the description word by word, after the entry's number has been cleared. So a member that
 * looks back (described) finds either the description that belongs to the number, or that the
 * number has changed. */
static void put_desc(struct kolo_board_entry *entry, const struct kolo_desc *desc)
{
    _Atomic uint64_t *to = (void *)&entry->desc;
    uint64_t words[DESC_WORDS];
    memcpy(words, desc, sizeof words);
    atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
    for (int i = 0; i < DESC_WORDS; i++)
        atomic_store_explicit(&to[i], words[i], memory_order_release);
}

static void get_desc(struct kolo_board_entry *entry, struct kolo_desc *desc_out)
{
    _Atomic uint64_t *from = (void *)&entry->desc;
    uint64_t words[DESC_WORDS];
    for (int i = 0; i < DESC_WORDS; i++)
        words[i] = atomic_load_explicit(&from[i], memory_order_acquire);
    memcpy(desc_out, words, sizeof words);
}

static enum kolo_board_step enter(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->run.request;
    hub->number++;
    if (hub->is_crowded)
        kolo_hub_place(hub);
    struct kolo_board_entry *entry = kolo_hub_entry(hub, hub->self);
    put_desc(entry, &request->desc);
    if (hub->run.is_oneshot) {
        kolo_oneshot_choose(hub);
        hub->run.does_any_lend = kolo_board_lent_put(hub);
        if (!hub->run.does_any_lend && !hub->is_refused)
            put_data(hub);
    } else {
        hub->run.does_any_lend = put_names(hub);
    }
    if (hub->is_refused)
        return KOLO_BOARD_STUCK;
    atomic_store(&entry->number, hub->number | (hub->run.does_any_lend ? KOLO_BOARD_LENDS : 0));
    kolo_board_ring(hub->board);
    return go_on(hub, KOLO_BOARD_ENTERING);
}

/** The number of the collective that all members must have entered before this one may publish
 * anything for the next. */
static uint64_t needed(const struct kolo_hub *hub)
{
    uint64_t next = hub->number + 1;
    bool shows = (hub->run.giver < 0 || hub->run.giver == hub->self) &&
                 hub->run.collective != KOLO_COLLECTIVE_BARRIER;
    uint64_t shown = shows ? hub->shown[next % KOLO_BOARD_SHOWN] : 0;
    uint64_t entry = next > KOLO_BOARD_ENTRIES ? next - KOLO_BOARD_ENTRIES : 0;
    uint64_t last = shown > entry ? shown : entry;
    return last > 0 ? last + 1 : 0;
}

static enum kolo_board_step hold_step(struct kolo_hub *hub)
{
    uint64_t number = needed(hub);
    return kolo_hub_have_entered(hub, number) ? enter(hub) : KOLO_BOARD_STUCK;
}

/** Reads the description with which @p member entered call @p number. False: its entry does not
 * exist yet, or no longer. */
static bool described(const struct kolo_hub *hub, int member, uint64_t number,
                      struct kolo_desc *desc_out)
{
    struct kolo_board_entry *entry =
        &hub->members[member].notes->entries[number % KOLO_BOARD_ENTRIES];
    if (kolo_entry_number(entry) != number)
        return false;
    get_desc(entry, desc_out);
    return kolo_entry_number(entry) == number;
}

/** Finds the first call before number @p end that this rank and @p member entered with different
 * descriptions, among those whose entries still exist. False: none. */
static bool find_difference(const struct kolo_hub *hub, int member, uint64_t end,
                            struct kolo_desc *mine, struct kolo_desc *theirs)
{
    const uint64_t before = KOLO_BOARD_ENTRIES - 1;
    uint64_t number = hub->number > before ? hub->number - before : 1;
    for (; number < end; number++)
        if (described(hub, hub->self, number, mine) && described(hub, member, number, theirs) &&
            memcmp(mine, theirs, sizeof *mine) != 0)
            return true;
    return false;
}

/** This rank and @p member have different descriptions of the running collective, or of an earlier
 * broadcast whose root waited for no rank. Reports the first that differs, since all later
 * descriptions differ because of it. */
static void differ(struct kolo_hub *hub, int member)
{
    struct kolo_desc mine, theirs;
    if (!find_difference(hub, member, hub->number, &mine, &theirs)) {
        mine = hub->run.request->desc;
        theirs = kolo_hub_entry(hub, member)->desc;
    }
    kolo_comm_mismatch(hub->comm, member, &mine, &theirs);
}

/** Whether @p member has entered with this rank's description. */
static bool has_entered(struct kolo_hub *hub, int member)
{
    const struct kolo_request *request = hub->run.request;
    const struct kolo_board_entry *entry = kolo_hub_entry(hub, member);
    const uint64_t number = atomic_load_explicit(&entry->number, memory_order_acquire);
    if ((number & ~KOLO_BOARD_LENDS) != hub->number)
        return false;
    hub->run.does_any_lend |= number != hub->number;
    if (memcmp(&entry->desc, &request->desc, sizeof entry->desc) == 0)
        return true;
    if (!hub->is_refused)
        differ(hub, member);
    hub->is_refused = true;
    return false;
}

static enum kolo_board_step begin_stages(struct kolo_hub *hub)
{
    kolo_status status = kolo_staged_begin(hub);
    if (status != KOLO_OK) {
        refuse(hub, status);
        return KOLO_BOARD_STUCK;
    }
    return go_on(hub, KOLO_BOARD_STAGING);
}

/** All have entered, and their data is on the host: chooses how it moves. */
static enum kolo_board_step choose_way(struct kolo_hub *hub)
{
    enum kolo_board_named named =
        hub->run.is_oneshot ? KOLO_BOARD_NONE_NAMED : kolo_board_direct_look(hub);
    const bool is_shown = named == KOLO_BOARD_NONE_NAMED && hub->run.may_show;
    if (is_shown)
        kolo_ways_shown(hub);
    if (is_shown || hub->run.is_oneshot) {
        kolo_oneshot_take(hub);
        return KOLO_BOARD_DONE;
    }
    kolo_oneshot_unchoose(hub);
    if (named != KOLO_BOARD_NONE_NAMED)
        kolo_ways_unshow(hub);
    kolo_ways_choose(hub, named == KOLO_BOARD_ALL_NAMED);
    if (named != KOLO_BOARD_ALL_NAMED && !hub->run.is_pulled)
        return begin_stages(hub);
    return go_on(hub, KOLO_BOARD_BORROWING);
}

/* ---- lent ---- */

static enum kolo_board_step begin_bringing(struct kolo_hub *hub)
{
    kolo_board_lent_give_up(hub);
    return go_on(hub, KOLO_BOARD_BRINGING);
}

/** Runs when what this member lent has been copied to the host. */
static enum kolo_board_step bring_step(struct kolo_hub *hub)
{
    const size_t offset = offsetof(struct kolo_board_notes, brought);
    if (hub->run.request->stage == KOLO_STAGING_IN)
        return KOLO_BOARD_STUCK;
    if (hub->run.seen == 0 && kolo_board_lent_by(hub, hub->self) &&
        kolo_hub_word(hub, hub->self, offset) != hub->number) {
        const kolo_status status = kolo_board_lent_brought(hub);
        if (status != KOLO_OK) {
            refuse(hub, status);
            return KOLO_BOARD_STUCK;
        }
    }
    for (; hub->run.seen < hub->count; hub->run.seen++)
        if (hub->run.seen != hub->self && kolo_board_lent_by(hub, hub->run.seen) &&
            kolo_hub_word(hub, hub->run.seen, offset) != hub->number)
            return KOLO_BOARD_STUCK;
    hub->moves++;
    return choose_way(hub);
}

static enum kolo_board_step map_step(struct kolo_hub *hub)
{
    const enum kolo_board_step step = kolo_board_lent_map(hub);
    if (step == KOLO_BOARD_STUCK)
        return step;
    return go_on(hub, step == KOLO_BOARD_MOVED ? KOLO_BOARD_SCALING : KOLO_BOARD_AGREEING);
}

static enum kolo_board_step scale_step(struct kolo_hub *hub)
{
    const enum kolo_board_step step = kolo_board_lent_scale(hub);
    return step == KOLO_BOARD_DONE ? go_on(hub, KOLO_BOARD_AGREEING) : step;
}

static enum kolo_board_step agree_step(struct kolo_hub *hub)
{
    if (!kolo_hub_all_reached(hub, offsetof(struct kolo_board_notes, mapped), 2 * hub->number))
        return KOLO_BOARD_STUCK;
    if (!kolo_board_lent_agreed(hub))
        return begin_bringing(hub);
    return go_on(hub, KOLO_BOARD_MOVING);
}

static enum kolo_board_step all_entered(struct kolo_hub *hub)
{
    if (!hub->run.does_any_lend)
        return choose_way(hub);
    if (!kolo_board_lent_by_all(hub))
        return begin_bringing(hub);
    hub->run.is_lent = true;
    kolo_oneshot_unchoose(hub);
    kolo_ways_unshow(hub);
    return go_on(hub, KOLO_BOARD_MAPPING);
}

static enum kolo_board_step enter_step(struct kolo_hub *hub)
{
    if (hub->run.giver >= 0) {
        if (!has_entered(hub, hub->run.giver))
            return KOLO_BOARD_STUCK;
        hub->members[hub->run.giver].entered = hub->number;
        hub->moves++;
        if (hub->count == 2 && hub->run.giver != hub->self)
            hub->known = hub->number;
        return all_entered(hub);
    }
    for (; hub->run.seen < hub->count; hub->run.seen++) {
        if (hub->run.seen != hub->self && !has_entered(hub, hub->run.seen))
            return KOLO_BOARD_STUCK;
        hub->moves++;
    }
    hub->known = hub->number;
    return all_entered(hub);
}

/* ---- direct, pulled ---- */

static enum kolo_board_step borrow_step(struct kolo_hub *hub)
{
    kolo_status status = hub->run.is_pulled ? kolo_pull_borrow(hub) : kolo_board_direct_borrow(hub);
    if (status == KOLO_OK)
        return go_on(hub, KOLO_BOARD_MOVING);
    if (status != KOLO_AGAIN)
        refuse(hub, status);
    return KOLO_BOARD_STUCK;
}

static enum kolo_board_step move_step(struct kolo_hub *hub)
{
    enum kolo_board_step step = hub->run.is_lent     ? kolo_board_lent_step(hub)
                                : hub->run.is_pulled ? kolo_pull_step(hub)
                                                     : kolo_board_direct_step(hub);
    if (step != KOLO_BOARD_DONE)
        return step;
    kolo_hub_publish(hub, &hub->members[hub->self].notes->done, hub->number);
    return go_on(hub, KOLO_BOARD_CLOSING);
}

static enum kolo_board_step close_step(struct kolo_hub *hub)
{
    size_t offset = offsetof(struct kolo_board_notes, done);
    if (!kolo_hub_all_reached(hub, offset, hub->number))
        return KOLO_BOARD_STUCK;
    return hub->run.is_pulled && kolo_pull_has_failed(hub) ? begin_stages(hub) : KOLO_BOARD_DONE;
}

/* ---- the route ---- */

static enum kolo_board_step step(struct kolo_hub *hub)
{
    enum kolo_board_step opened;
    switch (hub->run.phase) {
    case KOLO_BOARD_OPENING:
        opened = open_step(hub);
        if (opened != KOLO_BOARD_MOVED)
            return opened;
        hub->run.phase = KOLO_BOARD_HOLDING;
        return hold_step(hub);
    case KOLO_BOARD_HOLDING:
        return hold_step(hub);
    case KOLO_BOARD_ENTERING:
        return enter_step(hub);
    case KOLO_BOARD_BRINGING:
        return bring_step(hub);
    case KOLO_BOARD_MAPPING:
        return map_step(hub);
    case KOLO_BOARD_SCALING:
        return scale_step(hub);
    case KOLO_BOARD_AGREEING:
        return agree_step(hub);
    case KOLO_BOARD_BORROWING:
        return borrow_step(hub);
    case KOLO_BOARD_MOVING:
        return move_step(hub);
    case KOLO_BOARD_CLOSING:
        return close_step(hub);
    case KOLO_BOARD_STAGING:
        return kolo_staged_step(hub);
    case KOLO_BOARD_OVER:
        break;
    }
    return KOLO_BOARD_DONE;
}

/** Opens the hub of the board. NULL: that failed, and has been reported. */
static struct kolo_hub *open_hub(const struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    if (comm->hub)
        return comm->hub;
    const struct kolo_request *call = kolo_comm_is_part(comm) ? comm->parent->collectives.first
                                                              : request; /* whose deadline counts */
    kolo_status status = kolo_hub_open(comm, call->deadline, &comm->hub);
    if (status != KOLO_OK)
        kolo_comm_suspect_here(comm, -1, status);
    return comm->hub;
}

/** The one member whose entry this member waits for; -1: all. The root of a broadcast that later
 * calls close waits for no rank once it knows that all have opened the board: from then on they can
 * read what it publishes, even if it leaves. If a rank is known to have left, the root waits for
 * all, and so gets the error. For the same reason every member waits for all in the first call of
 * a communicator that it may finalize at once. */
static int giver_of(const struct kolo_hub *hub, const struct kolo_request *request)
{
    const int root = request->args.root;
    if (!is_sent(hub) || (hub->known == 0 && hub->comm->number != 0))
        return -1;
    if (root != hub->self)
        return root;
    const bool is_open = request->args.closing == KOLO_CLOSING_LATER && hub->known > 0;
    return is_open && !hub->comm->engine->has_left ? root : -1;
}

static void start(struct kolo_hub *hub, struct kolo_request *request)
{
    const struct kolo_call *call = &request->call;
    hub->run = (struct kolo_hub_run){.request = request,
                                     .collective = request->plan->collective,
                                     .element_bytes = kolo_dtype_bytes(call->dtype),
                                     .fold = {.dtype = call->dtype,
                                              .op = call->op,
                                              .own = kolo_own_operator(request),
                                              .divisor = request->divisor},
                                     .phase = KOLO_BOARD_OPENING,
                                     .is_oneshot = request->plan->is_oneshot};
    hub->run.giver = giver_of(hub, request);
    hub->shows.taken = hub->shows.measured = NULL; /* if a call was given up */
    kolo_succession_begin(&hub->succession,
                          is_sent(hub) ? request->args.root : KOLO_SUCCESSION_NONE);
}

static void board_begin(struct kolo_request *request)
{
    (void)request; /* enters when it is at the head of comm->collectives */
}

/** Whether to give up the processor at once instead of polling. While the others have yet to enter,
 * this is known; otherwise it is assumed. */
static bool makes_room(const struct kolo_hub *hub)
{
    return hub->run.phase != KOLO_BOARD_ENTERING || kolo_hub_makes_room(hub);
}

static bool board_advance(struct kolo_request *request)
{
    struct kolo_hub *hub = open_hub(request);
    if (!hub)
        return false;
    if (hub->run.request != request)
        start(hub, request);
    const int most = kolo_hub_looks(hub);
    for (int looks = most; looks > 0 && !hub->is_refused; looks--) {
        const enum kolo_board_phase before = hub->run.phase;
        enum kolo_board_step result = step(hub);
        if (result == KOLO_BOARD_DONE) {
            hub->run.phase = KOLO_BOARD_OVER;
            kolo_ways_over(hub);
            if (!hub->run.is_oneshot || hub->run.is_lent)
                kolo_board_settle(hub->board);
            return true;
        }
        if (result == KOLO_BOARD_MOVED) {
            request->comm->engine->has_moved = true;
            if (hub->run.phase == before &&
                (before == KOLO_BOARD_MOVING || before == KOLO_BOARD_STAGING))
                return false; /* a long call: lets others have their turn */
            looks = most + 1;
        } else if (hub->is_crowded && makes_room(hub)) {
            return false;
        } else {
            request->comm->engine->looks++;
            kolo_relax();
        }
    }
    return false;
}

static void board_cancel(struct kolo_request *request)
{
    struct kolo_hub *hub = hub_of(request);
    if (!hub)
        return;
    const bool is_open = hub->run.phase > KOLO_BOARD_HOLDING && hub->run.phase < KOLO_BOARD_STAGING;
    if (!hub->run.is_oneshot || hub->run.is_lent)
        kolo_board_lent_end(hub);
    if (is_open && (!hub->run.is_oneshot || hub->run.is_lent))
        kolo_board_direct_withdraw(hub);
    if (hub->run.phase != KOLO_BOARD_OVER)
        kolo_board_settle(hub->board);
    hub->run.request = NULL;
}

/** Whether @p member may still need what this one would overwrite. */
static bool is_behind(const struct kolo_hub *hub, int member)
{
    uint64_t number = needed(hub);
    return kolo_entry_number(&hub->members[member].notes->entries[number % KOLO_BOARD_ENTRIES]) <
           number;
}

/** What the running collective waits for from @p member; NULL: nothing. */
static const char *wait_of(const struct kolo_hub *hub, int member)
{
    if (member == hub->self)
        return NULL;
    switch (hub->run.phase) {
    case KOLO_BOARD_OPENING:
        if (hub->missing < 0 || hub->missing == kolo_comm_world_rank(hub->comm, member))
            return "has not come to its first call";
        return NULL;
    case KOLO_BOARD_HOLDING:
        return is_behind(hub, member) ? "is some calls behind this rank, which waits for it" : NULL;
    case KOLO_BOARD_ENTERING:
        if ((hub->run.giver < 0 || hub->run.giver == member) &&
            kolo_entry_number(kolo_hub_entry(hub, member)) != hub->number)
            return "has not come to this call";
        return NULL;
    case KOLO_BOARD_BRINGING:
        if (kolo_board_lent_by(hub, member) &&
            kolo_hub_word(hub, member, offsetof(struct kolo_board_notes, brought)) != hub->number)
            return "has come, but its device memory is not on the host yet";
        return NULL;
    case KOLO_BOARD_MAPPING:
    case KOLO_BOARD_SCALING:
        return NULL;
    case KOLO_BOARD_AGREEING:
        if (kolo_hub_word(hub, member, offsetof(struct kolo_board_notes, mapped)) < 2 * hub->number)
            return "has come, but has not mapped the others' memory or scaled its input yet";
        return NULL;
    case KOLO_BOARD_BORROWING:
        return "has come, but its memory has not been passed yet";
    case KOLO_BOARD_MOVING:
        return kolo_hub_word(hub, member, offsetof(struct kolo_board_notes, revoked)) != 0
                   ? "has come, but has taken its memory back"
                   : NULL;
    case KOLO_BOARD_CLOSING:
        if (kolo_hub_word(hub, member, offsetof(struct kolo_board_notes, done)) < hub->number)
            return "has come, but its share is not done";
        return NULL;
    case KOLO_BOARD_STAGING:
        return kolo_staged_waits_for(hub, member) ? "has come, but its part of a round is not done"
                                                  : NULL;
    case KOLO_BOARD_OVER:
        break;
    }
    return NULL;
}

static int board_waits_for(const struct kolo_request *request, int peers[], int capacity)
{
    const struct kolo_hub *hub = hub_of(request);
    int count = 0;
    for (int member = 0; hub && member < hub->count && count < capacity; member++)
        if (wait_of(hub, member))
            peers[count++] = member;
    return count;
}

static void board_describe(const struct kolo_request *request, char *text, size_t capacity)
{
    const struct kolo_hub *hub = hub_of(request);
    char who[KOLO_RANK_TEXT_MAX];
    int first = -1, others = 0;
    text[0] = '\0';
    for (int member = 0; hub && member < hub->count; member++) {
        if (!wait_of(hub, member))
            continue;
        others += first >= 0;
        first = first < 0 ? member : first;
    }
    if (first < 0)
        return;
    snprintf(text, capacity, "%s: shared memory, it %s",
             kolo_comm_rank_text(request->comm, first, who), wait_of(hub, first));
    size_t used = strlen(text);
    if (others > 0)
        snprintf(text + used, capacity - used, "; and %d more", others);
}

static uint64_t board_moves(const struct kolo_request *request)
{
    const struct kolo_hub *hub = hub_of(request);
    return hub ? hub->moves : 0;
}

const struct kolo_route kolo_route_board = {
    .is_on_board = true,
    .begin = board_begin,
    .advance = board_advance,
    .cancel = board_cancel,
    .waits_for = board_waits_for,
    .describe = board_describe,
    .moves = board_moves,
};

/* ---- which communicators have a board ---- */

bool kolo_board_has(const struct kolo_comm *comm)
{
    int room[KOLO_BOARD_MEMBERS_MAX];
    struct kolo_why why;
    return comm->size > 1 && comm->size <= KOLO_BOARD_MEMBERS_MAX &&
           kolo_board_fits(comm->engine->endpoint, kolo_hub_ranks(comm, room), comm->size, &why);
}

/* ---- earlier broadcasts ---- */

bool kolo_board_has_missed(const struct kolo_comm *comm)
{
    const struct kolo_hub *hub = comm->hub;
    struct kolo_desc desc;
    struct kolo_call call;
    for (int member = 0; hub && hub->is_ready && member < hub->count; member++) {
        if (member == hub->self || !described(hub, member, hub->number + 1, &desc))
            continue;
        kolo_call_unpack(&desc, &call);
        if (call.kind == KOLO_CALL_BROADCAST)
            return true;
    }
    return false;
}

void kolo_board_look_back(struct kolo_comm *comm)
{
    const struct kolo_hub *hub = comm->hub;
    struct kolo_desc mine, theirs;
    for (int member = 0; hub && hub->is_ready && member < hub->count; member++)
        if (member != hub->self && find_difference(hub, member, hub->number + 1, &mine, &theirs)) {
            kolo_comm_mismatch(comm, member, &mine, &theirs);
            return;
        }
}
