// SPDX-License-Identifier: Apache-2.0
// Plans of two levels, for ranks on several hosts: between hosts goes what must, at once from all
// ranks of a host, and the rest stays inside.
//
//   allreduce  with L = the fewest ranks that any host has: inside each host its first L ranks
//              halve the vector, so that local rank l has the host's sum of share l; the ranks l of
//              all hosts allreduce share l by halving and doubling; inside the hosts doubling
//              spreads the shares. A host sends 2 (H - 1) / H vectors, a flat ring nearly 2. A rank
//              beyond the first L gives its vector to one of them beforehand, and gets the result.
//   broadcast, reduce   a binomial tree over hosts (between the first rank of each, or the root),
//              and below it one inside each host.
//   barrier    all to the first rank of the host, dissemination among those, and back, one message
//              after the other, as a barrier that runs beside another plan must.
//
// Halving and doubling are those of plan_halving.c, run on a part of the ranks and of the vector.
#include "runtime/plan.h"

enum { ANSWERS = 16 /* results on their way to ranks that had to wait */ };

/** This rank among those of its host, and those that are its equals on other hosts. */
struct seat {
    int host, local, first, ranks; /* ranks of the host; where it begins in host order */
    int sharers;                   /* L */
    int guests;                    /* ranks that this one stands for */
    bool is_guest;
};

static struct seat seat_of(const struct kolo_plan_args *args)
{
    const struct kolo_hosts *hosts = args->hosts;
    struct seat seat = {
        .host = hosts->of[args->rank], .local = hosts->local[args->rank], .sharers = hosts->least};
    seat.first = hosts->first[seat.host];
    seat.ranks = hosts->first[seat.host + 1] - seat.first;
    seat.is_guest = seat.local >= seat.sharers;
    if (!seat.is_guest)
        seat.guests = (seat.ranks - 1 - seat.local) / seat.sharers;
    return seat;
}

const char *kolo_twolevel_fits(const struct kolo_plan_args *args)
{
    if (args->hosts == NULL || args->hosts->count < 2)
        return "all ranks are on one host";
    return args->hosts->count == args->size ? "every rank is on a host of its own" : NULL;
}

/** The rank at place @p local of host @p host. */
static int at(const struct kolo_plan_args *args, int host, int local)
{
    return args->hosts->ranks[args->hosts->first[host] + local];
}

/* ---- allreduce ---- */

/** The arguments of halving and doubling inside the host, and across hosts. */
static struct kolo_plan_args inside(const struct kolo_plan_args *args, const struct seat *seat)
{
    return (struct kolo_plan_args){
        .rank = seat->local, .size = seat->sharers, .count = args->count, .segment = 1};
}

static struct kolo_plan_args across(const struct kolo_plan_args *args, const struct seat *seat,
                                    size_t *offset_out)
{
    struct kolo_plan_args sharing = inside(args, seat);
    struct kolo_slice share = kolo_plan_chunk(&sharing, seat->local, KOLO_BUFFER_RECV);
    *offset_out = share.offset;
    return (struct kolo_plan_args){
        .rank = seat->host, .size = args->hosts->count, .count = share.count, .segment = 1};
}

/** How many steps each part of the plan takes on a rank that shares. */
struct parts {
    size_t guests, halving, across, doubling;
};

static struct parts parts_of(const struct kolo_plan_args *args, const struct seat *seat)
{
    size_t offset;
    struct kolo_plan_args in = inside(args, seat), out = across(args, seat, &offset);
    struct parts parts = {.guests = (size_t)seat->guests,
                          .across = kolo_halving_allreduce_nsteps(&out)};
    if (seat->sharers > 1) {
        parts.halving = kolo_halving_half(&in);
        parts.doubling = kolo_halving_allreduce_nsteps(&in) - parts.halving;
    }
    return parts;
}

size_t kolo_twolevel_allreduce_nsteps(const struct kolo_plan_args *args)
{
    struct seat seat = seat_of(args);
    struct parts parts = parts_of(args, &seat);
    if (seat.is_guest)
        return 2;
    return 2 * parts.guests + parts.halving + parts.across + parts.doubling;
}

size_t kolo_twolevel_allreduce_window(const struct kolo_plan_args *args)
{
    struct seat seat = seat_of(args);
    return seat.guests < 2 ? 2 : seat.guests < ANSWERS ? (size_t)seat.guests : ANSWERS;
}

static struct kolo_slice whole(const struct kolo_plan_args *args, enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, 0, args->count};
}

/** Moves a slice of a part of the vector to where it lies in the whole; @p is_held: what the rank
 * brings into the part lies in RECV. */
static void place(struct kolo_slice *slice, size_t offset, bool is_held)
{
    slice->offset += slice->count > 0 ? offset : 0;
    if (is_held && slice->buffer == KOLO_BUFFER_SEND)
        slice->buffer = KOLO_BUFFER_RECV;
}

static void place_step(struct kolo_step *step, size_t offset, bool is_held)
{
    place(&step->copy_from, offset, is_held);
    place(&step->copy_to, offset, is_held);
    place(&step->finish, offset, is_held);
    place(&step->out, offset, is_held);
    place(&step->in, offset, is_held);
    place(&step->local, offset, is_held);
    if (is_held) /* it is there */
        step->copy_from.count = step->copy_to.count = 0;
}

static void guest_step(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                       struct kolo_step *step)
{
    int host_rank = at(args, seat->host, seat->local % seat->sharers);
    if (index == 0) {
        step->to = host_rank;
        step->out = whole(args, KOLO_BUFFER_SEND);
    } else {
        step->from = host_rank;
        step->in = whole(args, KOLO_BUFFER_RECV);
    }
}

static int guest_at(const struct kolo_plan_args *args, const struct seat *seat, size_t index)
{
    return at(args, seat->host, seat->local + ((int)index + 1) * seat->sharers);
}

static void welcome(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                    struct kolo_step *step)
{
    step->from = guest_at(args, seat, index);
    step->in = whole(args, KOLO_BUFFER_RECV);
    step->local = whole(args, index == 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
    step->reduces = true;
}

static void answer(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                   struct kolo_step *step)
{
    step->to = guest_at(args, seat, index);
    step->out = whole(args, KOLO_BUFFER_RECV);
    step->after = index + 1 < ANSWERS ? index + 1 : ANSWERS;
}

static void step_inside(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                        struct kolo_step *step)
{
    struct kolo_plan_args in = inside(args, seat);
    kolo_halving_allreduce_step(&in, index, step);
    place_step(step, 0, seat->guests > 0);
    step->finish.count = 0; /* is done across hosts */
    step->to = step->to < 0 ? -1 : at(args, seat->host, step->to);
    step->from = step->from < 0 ? -1 : at(args, seat->host, step->from);
}

static void step_across(const struct kolo_plan_args *args, const struct seat *seat, size_t index,
                        struct kolo_step *step)
{
    size_t offset;
    struct kolo_plan_args out = across(args, seat, &offset);
    kolo_halving_allreduce_step(&out, index, step);
    place_step(step, offset, seat->guests > 0 || seat->sharers > 1);
    step->to = step->to < 0 ? -1 : at(args, step->to, seat->local);
    step->from = step->from < 0 ? -1 : at(args, step->from, seat->local);
}

void kolo_twolevel_allreduce_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    struct seat seat = seat_of(args);
    struct parts parts = parts_of(args, &seat);
    kolo_step_clear(step_out);
    if (seat.is_guest) {
        guest_step(args, &seat, index, step_out);
        return;
    }
    if (index < parts.guests) {
        welcome(args, &seat, index, step_out);
        return;
    }
    index -= parts.guests;
    if (index < parts.halving) {
        step_inside(args, &seat, index, step_out);
        return;
    }
    index -= parts.halving;
    if (index < parts.across) {
        step_across(args, &seat, index, step_out);
        return;
    }
    index -= parts.across;
    if (index < parts.doubling)
        step_inside(args, &seat, parts.halving + index, step_out);
    else
        answer(args, &seat, index - parts.doubling, step_out);
}

/* ---- broadcast and reduce ---- */

/** A rank in the tree over hosts and inside its host. Positions count from the root's host, and in
 * a host from its head: the root, or its first rank. */
struct node {
    int host, local;  /* positions */
    int far, near;    /* children on other hosts, and on this one */
    int hosts, ranks; /* of the world, of this host */
    int real_host;
};

static int children_of(int position, int size)
{
    int count = 0;
    for (int bit = 1; position + bit < size && (position & bit) == 0; bit <<= 1)
        count++;
    return count;
}

static struct node node_of(const struct kolo_plan_args *args)
{
    const struct kolo_hosts *hosts = args->hosts;
    struct node node = {.hosts = hosts->count, .real_host = hosts->of[args->rank]};
    int roots = hosts->of[args->root], local = hosts->local[args->rank];
    node.ranks = hosts->first[node.real_host + 1] - hosts->first[node.real_host];
    node.host = kolo_plan_wrap(node.real_host - roots, node.hosts);
    node.local =
        node.host != 0 ? local : kolo_plan_wrap(local - hosts->local[args->root], node.ranks);
    node.near = children_of(node.local, node.ranks);
    node.far = node.local == 0 ? children_of(node.host, node.hosts) : 0;
    return node;
}

/** The rank at position @p local of this host. */
static int neighbour(const struct kolo_plan_args *args, const struct node *node, int local)
{
    int turn = node->host == 0 ? args->hosts->local[args->root] : 0;
    return at(args, node->real_host, kolo_plan_wrap(local + turn, node->ranks));
}

/** The head of the host at position @p host. */
static int head(const struct kolo_plan_args *args, const struct node *node, int host)
{
    int real = kolo_plan_wrap(host + args->hosts->of[args->root], node->hosts);
    return host == 0 ? args->root : at(args, real, 0);
}

/** Child @p index: those inside first, each with the smallest subtree first. */
static int child_at(const struct kolo_plan_args *args, const struct node *node, int index)
{
    if (index < node->near)
        return neighbour(args, node, node->local + (1 << index));
    return head(args, node, node->host + (1 << (index - node->near)));
}

/** -1: the root. */
static int parent_of(const struct kolo_plan_args *args, const struct node *node)
{
    if (node->local != 0)
        return neighbour(args, node, node->local & (node->local - 1));
    return node->host != 0 ? head(args, node, node->host & (node->host - 1)) : -1;
}

size_t kolo_twolevel_broadcast_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return (size_t)(node.near + node.far) + (parent_of(args, &node) >= 0);
}

void kolo_twolevel_broadcast_step(const struct kolo_plan_args *args, size_t index,
                                  struct kolo_step *step_out)
{
    struct node node = node_of(args);
    int parent = parent_of(args, &node), turn = (int)index - (parent >= 0);
    kolo_step_clear(step_out);
    if (turn < 0) {
        step_out->from = parent;
        step_out->in = whole(args, KOLO_BUFFER_RECV);
        return;
    }
    step_out->to = child_at(args, &node, node.near + node.far - 1 - turn);
    step_out->out = whole(args, parent < 0 ? KOLO_BUFFER_SEND : KOLO_BUFFER_RECV);
}

size_t kolo_twolevel_reduce_scratch(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return parent_of(args, &node) >= 0 && node.near + node.far > 0 ? args->count : 0;
}

size_t kolo_twolevel_reduce_nsteps(const struct kolo_plan_args *args)
{
    struct node node = node_of(args);
    return (size_t)(node.near + node.far) + 1; /* the last one sends up, or finishes */
}

void kolo_twolevel_reduce_step(const struct kolo_plan_args *args, size_t index,
                               struct kolo_step *step_out)
{
    struct node node = node_of(args);
    int parent = parent_of(args, &node), children = node.near + node.far;
    enum kolo_buffer sum = parent < 0 ? KOLO_BUFFER_RECV : KOLO_BUFFER_SCRATCH;
    kolo_step_clear(step_out);
    if ((int)index < children) {
        step_out->from = child_at(args, &node, (int)index);
        step_out->in = whole(args, sum);
        step_out->local = whole(args, index == 0 ? KOLO_BUFFER_SEND : sum);
        step_out->reduces = true;
    } else if (parent < 0) {
        step_out->finish = whole(args, KOLO_BUFFER_RECV);
    } else {
        step_out->to = parent;
        step_out->out = whole(args, children == 0 ? KOLO_BUFFER_SEND : sum);
    }
}

/* ---- barrier ---- */

static size_t heads_rounds(const struct kolo_plan_args *args)
{
    size_t rounds = 0;
    while ((1L << rounds) < args->hosts->count)
        rounds++;
    return rounds;
}

size_t kolo_twolevel_barrier_nsteps(const struct kolo_plan_args *args)
{
    struct seat seat = seat_of(args);
    return seat.local != 0 ? 2 : 2 * (size_t)(seat.ranks - 1) + heads_rounds(args);
}

void kolo_twolevel_barrier_step(const struct kolo_plan_args *args, size_t index,
                                struct kolo_step *step_out)
{
    struct seat seat = seat_of(args);
    size_t others = (size_t)seat.ranks - 1, rounds = heads_rounds(args);
    kolo_step_clear(step_out);
    if (seat.local != 0) {
        step_out->to = index == 0 ? at(args, seat.host, 0) : -1;
        step_out->from = index == 0 ? -1 : at(args, seat.host, 0);
    } else if (index < others) {
        step_out->from = at(args, seat.host, (int)index + 1);
    } else if (index < others + rounds) {
        long distance = 1L << (index - others);
        int hosts = args->hosts->count;
        step_out->to = at(args, (int)((seat.host + distance) % hosts), 0);
        step_out->from = at(args, (int)((seat.host - distance + hosts) % hosts), 0);
    } else {
        step_out->to = at(args, seat.host, (int)(index - others - rounds) + 1);
    }
}
