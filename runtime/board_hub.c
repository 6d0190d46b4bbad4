// SPDX-License-Identifier: Apache-2.0
// Owns a communicator's board and what its ways have in common. Must never take a length or an
// address from another member's notes.
#include "runtime/board_hub.h"

#include <sched.h>

#include "base/alloc.h"

/* Polls of a flag before the links get a turn. If each rank has a core of its own, these take about
 * two microseconds. If ranks share cores, a waiting rank makes room at once. */
enum { LOOKS = 64, LOOKS_CROWDED = 100 };

const int *kolo_hub_ranks(const struct kolo_comm *comm, int room[KOLO_BOARD_MEMBERS_MAX])
{
    for (int member = 0; member < comm->size; member++)
        room[member] = kolo_comm_world_rank(comm, member);
    return room;
}

/** Begins to make the links that the board will use. */
static kolo_status link_members(const struct kolo_comm *comm, kolo_deadline deadline)
{
    struct kolo_link *link;
    kolo_status status = KOLO_OK;
    for (int i = 0; i < comm->size && status == KOLO_OK; i++)
        if (i != comm->rank)
            status = kolo_comm_link(comm, i, deadline, &link);
    return status;
}

static kolo_status open_board(struct kolo_hub *hub, kolo_deadline deadline)
{
    struct kolo_comm *comm = hub->comm;
    int ranks[KOLO_BOARD_MEMBERS_MAX];
    kolo_status status;
    hub->tracks = kolo_calloc(2 * (size_t)comm->size, sizeof *hub->tracks);
    hub->ways = kolo_ways_create();
    if (!hub->tracks || !hub->ways)
        return KOLO_ERR_NO_MEMORY;
    KOLO_TRY(link_members(comm, deadline));
    KOLO_TRY(kolo_board_open(comm->engine->endpoint, comm->number, kolo_hub_ranks(comm, ranks),
                             comm->size, KOLO_BOARD_STAGE_BYTES, deadline, &hub->board));
    hub->self = kolo_board_self(hub->board);
    hub->count = kolo_board_count(hub->board);
    hub->is_crowded = comm->engine->spin_ns == 0;
    hub->looks = hub->is_crowded ? LOOKS_CROWDED : LOOKS;
out:
    return status;
}

kolo_status kolo_hub_open(struct kolo_comm *comm, kolo_deadline deadline, struct kolo_hub **hub_out)
{
    struct kolo_hub *hub =
        kolo_calloc(1, sizeof *hub + (size_t)comm->size * sizeof(struct kolo_hub_member));
    if (!hub)
        return KOLO_ERR_NO_MEMORY;
    hub->comm = comm;
    hub->missing = -1;
    hub->succession.running = KOLO_SUCCESSION_NONE;
    kolo_status status = open_board(hub, deadline);
    if (status != KOLO_OK) {
        kolo_hub_close(hub);
        return status;
    }
    *hub_out = hub;
    return KOLO_OK;
}

void kolo_hub_close(struct kolo_hub *hub)
{
    if (!hub)
        return;
    if (hub->board)
        kolo_board_close(hub->board);
    kolo_free_memory(hub->tracks);
    kolo_free_memory(hub->ways);
    kolo_free_memory(hub->lent.mappings);
    kolo_free_memory(hub);
}

int kolo_hub_looks(const struct kolo_hub *hub)
{
    return kolo_patience_is_short(&hub->comm->engine->patience) ? 1 : hub->looks;
}

void kolo_hub_place(struct kolo_hub *hub)
{
    uint64_t where = (uint64_t)(sched_getcpu() + 1);
    if (where == hub->where)
        return;
    hub->where = where;
    atomic_store_explicit(&hub->members[hub->self].notes->where.value, where, memory_order_relaxed);
}

/** Whether @p member may run on the processor on which this rank runs. */
static bool is_here(const struct kolo_hub *hub, int member)
{
    const struct kolo_board_notes *notes = hub->members[member].notes;
    uint64_t where = atomic_load_explicit(&notes->where.value, memory_order_relaxed);
    return where == hub->where || where == 0;
}

bool kolo_hub_makes_room(const struct kolo_hub *hub)
{
    const int next = kolo_succession_next(&hub->succession);
    if (next == hub->self && hub->run.giver >= 0 && !is_here(hub, hub->run.giver))
        return false;
    if (next >= 0 && next != hub->self && is_here(hub, next))
        return true;
    for (int member = hub->run.seen; member < hub->count; member++) {
        if (member == hub->self)
            continue;
        if (kolo_entry_number(kolo_hub_entry(hub, member)) != hub->number && is_here(hub, member))
            return true;
    }
    return false;
}

/** Whether @p member has entered @p number, or a later collective with an entry in the same
 * place. */
static bool look_up(struct kolo_hub *hub, int member, uint64_t number)
{
    struct kolo_hub_member *of = &hub->members[member];
    uint64_t entered = kolo_entry_number(&of->notes->entries[number % KOLO_BOARD_ENTRIES]);
    if (entered < number)
        return false;
    of->entered = entered;
    return true;
}

bool kolo_hub_have_entered(struct kolo_hub *hub, uint64_t number)
{
    uint64_t least = hub->number;
    if (hub->known >= number)
        return true;
    for (int member = 0; member < hub->count; member++) {
        const uint64_t *entered = &hub->members[member].entered;
        if (member == hub->self)
            continue;
        if (*entered < number && !look_up(hub, member, hub->number) &&
            !look_up(hub, member, number))
            return false;
        least = *entered < least ? *entered : least;
    }
    hub->known = least; /* often more than asked for: the next few calls need not check */
    return true;
}

void kolo_hub_publish(struct kolo_hub *hub, struct kolo_board_word *word, uint64_t value)
{
    atomic_store(&word->value, value); /* in one order with the flag of a member about to sleep */
    kolo_board_ring(hub->board);
}

bool kolo_hub_all_reached(struct kolo_hub *hub, size_t offset, uint64_t value)
{
    for (; hub->run.seen < hub->count; hub->run.seen++) {
        if (hub->run.seen != hub->self && kolo_hub_word(hub, hub->run.seen, offset) < value)
            return false;
        hub->moves++;
    }
    return true;
}

/** Folds or copies (@p nin is 1) @p count elements as the running collective does. A copy skips a
 * result that is its own input. */
static void fold(const struct kolo_hub *hub, void *const out[], size_t nout, const void *const in[],
                 size_t nin, size_t count)
{
    static const struct kolo_fold as_bytes = {.dtype = KOLO_UINT8, .op = KOLO_SUM};
    void *others[KOLO_BOARD_MEMBERS_MAX];
    size_t bytes = count * hub->run.element_bytes, kept = 0;
    if (nin > 1) {
        kolo_fold(&hub->run.fold, out, nout, in, nin, count, hub->run.how);
        return;
    }
    for (size_t i = 0; i < nout; i++)
        if (out[i] != in[0])
            others[kept++] = out[i];
    if (kept == 1)
        kolo_copy(others[0], in[0], bytes, hub->run.how);
    else if (kept > 1)
        kolo_fold(&as_bytes, others, kept, in, 1, bytes, hub->run.how);
}

bool kolo_hub_is_revoked(const struct kolo_hub *hub)
{
    for (int i = 0; i < hub->count; i++)
        if (i != hub->self && atomic_load(&hub->members[i].notes->revoked.value) != 0)
            return true;
    return false;
}

bool kolo_hub_touch(struct kolo_hub *hub)
{
    atomic_store(&hub->members[hub->self].notes->touching.value, hub->number);
    return !kolo_hub_is_revoked(hub);
}

void kolo_hub_untouch(struct kolo_hub *hub)
{
    atomic_store_explicit(&hub->members[hub->self].notes->touching.value, 0, memory_order_release);
}

void kolo_hub_places(const struct kolo_hub *hub, const struct kolo_move *move, const void *in[],
                     size_t *nin_out, void *out[], size_t *nout_out)
{
    size_t send_at = move->send_at * hub->run.element_bytes, nin = 0, nout = 0;
    size_t recv_at = move->recv_at * hub->run.element_bytes;
    for (int member = 0; member < hub->count; member++) {
        if (move->from == KOLO_EVERY || move->from == member)
            in[nin++] = hub->members[member].send + send_at;
        if (move->to == KOLO_EVERY || move->to == member)
            out[nout++] = hub->members[member].recv + recv_at;
    }
    *nin_out = nin;
    *nout_out = nout;
}

void kolo_hub_move(const struct kolo_hub *hub, const struct kolo_move *move)
{
    const void *in[KOLO_BOARD_MEMBERS_MAX];
    void *out[KOLO_BOARD_MEMBERS_MAX];
    size_t nin, nout;
    kolo_hub_places(hub, move, in, &nin, out, &nout);
    fold(hub, out, nout, in, nin, move->count);
}
