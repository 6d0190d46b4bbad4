// SPDX-License-Identifier: Apache-2.0
// The choice of a plan for a communicator. What its ranks know alike (where they are, the figures
// of rank 0) is put into a question once for each size, rounded up to a power of two, and the
// answer is kept. Must never use what only this rank knows.
#include "runtime/choose.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/comm.h"
#include "runtime/kv.h"
#include "runtime/profile.h"

/* A key that no program can set. */
static const struct kolo_kv_key profile_key = {"kolo_init", "figures of rank 0", "\001profile"};

void kolo_choices_free(struct kolo_choices *choices)
{
    kolo_free_memory(choices->hosts);
    kolo_free_memory(choices->map_memory);
    *choices = (struct kolo_choices){0};
}

kolo_status kolo_engine_share_figures(struct kolo_engine *engine, kolo_deadline deadline)
{
    const char *setting = engine->settings.profile;
    struct kolo_profile_source source;
    char text[KOLO_PROFILE_MAX] = "";
    size_t bytes = sizeof text - 1;
    kolo_status status = KOLO_OK;
    if (engine->rank == 0) {
        KOLO_TRY(kolo_profile_load(setting, deadline, &engine->figures, text, &source));
        if (source.path[0] != '\0')
            KOLO_INFO("plans are chosen by the figures of %s", source.path);
    }
    if (engine->world->size == 1)
        return KOLO_OK;
    if (engine->rank == 0)
        bytes = strlen(text);
    KOLO_TRY(kolo_kv_share(engine->world, &profile_key, text, &bytes, deadline));
    if (engine->rank != 0) {
        text[bytes] = '\0';
        kolo_figures_init(&engine->figures);
        KOLO_TRY(kolo_figures_parse(&engine->figures, text, setting));
    }
out:
    return status;
}

/* ---- where the ranks are ---- */

const struct kolo_topology *kolo_choices_hosts(const struct kolo_choices *choices)
{
    return choices->map.count > 0 ? &choices->map : NULL;
}

static enum kolo_path local_path(const struct kolo_comm *comm)
{
    const uint64_t process = kolo_comm_peer(comm, 0)->identity.process;
    bool is_one_process = true;
    for (int rank = 1; rank < comm->size; rank++)
        is_one_process = is_one_process && kolo_comm_peer(comm, rank)->identity.process == process;
    return kolo_path_inside(comm->engine->settings.transport, is_one_process);
}

/** Whether the hosts are connected by RDMA, as far as all ranks know: all have a device. */
static bool is_by_rdma(const struct kolo_comm *comm)
{
    for (int rank = 0; rank < comm->size; rank++)
        if (!kolo_path_can_be_rdma(comm->engine->settings.transport, kolo_comm_peer(comm, rank)))
            return false;
    return true;
}

/** Whether the settings force a plan on a board; then no call may use links. */
static bool forces_board(const struct kolo_comm *comm)
{
    const char *forced = comm->engine->settings.plan;
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        if (plan->on_board && strcmp(plan->name, forced) == 0)
            return true;
    return false;
}

/** The cores of the host that has the fewest, as its ranks see it, so that all ranks choose
 * alike. */
static int least_cores(const struct kolo_comm *comm)
{
    int least = KOLO_CORES_MAX;
    for (int rank = 0; rank < comm->size; rank++)
        if (kolo_comm_peer(comm, rank)->identity.cores < least)
            least = kolo_comm_peer(comm, rank)->identity.cores;
    return least;
}

static bool has_several_nodes(const struct kolo_comm *comm)
{
    for (int rank = 1; rank < comm->size; rank++)
        if (kolo_comm_peer(comm, rank)->identity.numa != kolo_comm_peer(comm, 0)->identity.numa)
            return true;
    return false;
}

/** Returns false if there is no memory. */
static bool map_hosts(struct kolo_comm *comm)
{
    struct kolo_choices *choices = &comm->choices;
    int *nodes = kolo_calloc((size_t)comm->size, sizeof *nodes);
    choices->map_memory = kolo_calloc(KOLO_HOSTS_INTS(comm->size), sizeof(int));
    if (nodes && choices->map_memory) {
        for (int rank = 0; rank < comm->size; rank++)
            nodes[rank] = kolo_comm_peer(comm, rank)->identity.numa;
        kolo_topology_fill(&choices->map, comm->size, choices->hosts, nodes, choices->map_memory);
    }
    kolo_free_memory(nodes);
    return choices->map.count > 0;
}

/** The line of rank @p ranks[@p at] in Mbit/s; 0 if a rank before it there uses the same card. */
static double own_line(const struct kolo_comm *comm, enum kolo_path path, const int *ranks, int at)
{
    const struct kolo_line line = kolo_path_line(path, kolo_comm_peer(comm, ranks[at]));
    for (int before = 0; before < at; before++)
        if (kolo_path_line(path, kolo_comm_peer(comm, ranks[before])).card == line.card)
            return 0;
    return line.mbit;
}

/** The speed in Mbit/s of all cards that the @p count ranks of a host use. 0: not known. */
static double host_line(const struct kolo_comm *comm, enum kolo_path path, const int *ranks,
                        size_t count)
{
    const struct kolo_line first = kolo_path_line(path, kolo_comm_peer(comm, ranks[0]));
    double line = 0;
    if (first.cards > 0)
        return (double)first.mbit * (double)(first.cards < count ? first.cards : count);
    for (size_t at = 0; at < count; at++)
        line += own_line(comm, path, ranks, (int)at);
    return line;
}

/** Nanoseconds per byte on the line of the slowest host. 0: no host knows the speed, or it was
 * measured. Hosts that do not know it are assumed not to be slower. */
static double line_byte(const struct kolo_comm *comm, bool by_rdma)
{
    const struct kolo_topology *map = &comm->choices.map;
    double slowest = 0;
    if (!kolo_figures_guess_line(&comm->engine->figures, by_rdma))
        return 0;
    for (int host = 0; host < map->count; host++) {
        const double line = host_line(comm, by_rdma ? KOLO_PATH_RDMA : KOLO_PATH_NETWORK,
                                      &map->ranks[map->first[host]],
                                      (size_t)(map->first[host + 1] - map->first[host]));
        if (line > 0 && (slowest <= 0 || line < slowest))
            slowest = line;
    }
    if (slowest <= 0)
        return 0;
    KOLO_INFO("communicator %u: plans are chosen for lines of %g Gbit/s between hosts, the speed "
              "of the slowest host's %s",
              comm->number, slowest / 1000, by_rdma ? "RDMA ports" : "cards");
    return 8000 / slowest;
}

/** Numbers the hosts in the order of their lowest ranks. */
static kolo_status find_hosts(struct kolo_comm *comm)
{
    struct kolo_choices *choices = &comm->choices;
    int nhosts = 0;
    choices->hosts = kolo_calloc((size_t)comm->size, sizeof *choices->hosts);
    if (!choices->hosts)
        return KOLO_ERR_NO_MEMORY;
    for (int rank = 0; rank < comm->size; rank++) {
        uint64_t host = kolo_comm_peer(comm, rank)->identity.host_id;
        int first =
            rank > 0 && kolo_comm_peer(comm, rank - 1)->identity.host_id == host ? rank - 1 : 0;
        while (first < rank && kolo_comm_peer(comm, first)->identity.host_id != host)
            first++;
        choices->hosts[rank] = first < rank ? choices->hosts[first] : nhosts++;
    }
    bool has_order = nhosts > 1 || has_several_nodes(comm);
    if (has_order && !map_hosts(comm)) {
        kolo_choices_free(choices);
        return KOLO_ERR_NO_MEMORY;
    }
    if (!has_order) {
        kolo_free_memory(choices->hosts);
        choices->hosts = NULL;
    }
    const bool by_rdma = nhosts > 1 && is_by_rdma(comm);
    choices->layout = (struct kolo_layout){.size = comm->size,
                                           .local = local_path(comm),
                                           .hosts = choices->hosts,
                                           .nhosts = nhosts,
                                           .by_rdma = by_rdma,
                                           .line_byte = nhosts > 1 ? line_byte(comm, by_rdma) : 0,
                                           .cores = least_cores(comm),
                                           .domains = choices->map.domains.count,
                                           .has_board = comm->has_board &&
                                                        (comm->plan_is_auto || forces_board(comm))};
    return KOLO_OK;
}

kolo_status kolo_comm_know_hosts(struct kolo_comm *comm)
{
    return comm->choices.layout.size == 0 ? find_hosts(comm) : KOLO_OK;
}

/* ---- the choice ---- */

/** 0 for at most one byte, else the exponent of the next power of two. */
static size_t class_of(size_t bytes)
{
    return bytes <= 1 ? 0 : 64 - (size_t)__builtin_clzll((unsigned long long)bytes - 1);
}

/** The error of a forced plan. @p plan is its name in the setting: the plan that stands for it here
 * may have another. */
static kolo_status cannot(const struct kolo_question *question, const char *plan, const char *why)
{
    const struct kolo_plan_args *args = &question->args;
    char elements[40] = "with counts by rank"; /* there is no single count then */
    if (!args->counts && !args->send_counts)
        snprintf(elements, sizeof elements, "of %zu elements", args->count);
    return kolo_fail(KOLO_ERR_UNSUPPORTED, "KOLO_PLAN=%s: %s %s on %d rank%s: %s", plan,
                     kolo_collective_text(question->collective), elements, args->size,
                     args->size == 1 ? "" : "s", why);
}

/** The plan that the settings force, if any. A call of the library's own (@p is_own) uses it only
 * if it can carry out the call. */
static kolo_status choose_forced(const struct kolo_comm *comm, struct kolo_question *question,
                                 bool is_own, const struct kolo_plan **plan_out)
{
    const struct kolo_settings *settings = &comm->engine->settings;
    const struct kolo_plan *plan =
        comm->plan_is_auto ? NULL : kolo_plan_find(question->collective, settings->plan);
    bool wants_board = !comm->plan_is_auto && forces_board(comm);
    *plan_out = NULL;
    if (wants_board && comm->size == 1)
        return KOLO_OK;       /* there is nobody to share memory with */
    if (!plan && wants_board) /* a barrier has only one plan on a board */
        plan = kolo_plan_on_board(question->collective, true);
    if (plan) {
        if (question->order == KOLO_ORDER_WIDE)
            question->order = KOLO_ORDER_FREE; /* a forced plan is used however it rounds */
        const char *why = kolo_plan_bars(plan, question);
        if (why && !is_own)
            return cannot(question, settings->plan, why);
        *plan_out = !why ? plan : NULL;
    } else if (settings->source[KOLO_SET_SMALL_BYTES] != KOLO_FROM_DEFAULT &&
               question->order == KOLO_ORDER_FREE && !question->layout.has_board) {
        *plan_out = kolo_plan_choose(question->collective, &question->args,
                                     question->args.count * question->element_bytes,
                                     settings->small_bytes, "auto");
    }
    return KOLO_OK;
}

void kolo_comm_own(struct kolo_comm *comm, bool is_own)
{
    kolo_comm_enter(comm);
    comm->own_calls += is_own ? 1 : -1;
    kolo_comm_leave(comm);
}

/** The plan for all sizes of @p class. */
static const struct kolo_plan *choose_class(struct kolo_comm *comm,
                                            const struct kolo_question *question, size_t class)
{
    bool is_uneven = question->args.counts != NULL;
    uint8_t *kept = &comm->choices.plans[question->collective][is_uneven][question->order][class];
    struct kolo_question rounded = *question;
    if (*kept != 0)
        return kolo_plans[*kept - 1];
    rounded.is_uneven = is_uneven;
    rounded.element_bytes = 1;
    rounded.args = (struct kolo_plan_args){.size = comm->size,
                                           .count = class < 63 ? (size_t)1 << class : SIZE_MAX / 2,
                                           .hosts = question->args.hosts,
                                           .closing = question->args.closing,
                                           .segment = comm->engine->settings.segment_bytes};
    const struct kolo_plan *plan = kolo_choose(&rounded, &comm->engine->figures);
    if (plan)
        *kept = (uint8_t)(plan->number + 1);
    return plan;
}

/** The plan kept for calls of this size, if it is on a board; else NULL. A shortcut without the
 * questions of the full path, which would take longer than a call over a board. */
static const struct kolo_plan *kept_plan(const struct kolo_comm *comm,
                                         enum kolo_collective collective,
                                         const struct kolo_plan_args *args, size_t element_bytes,
                                         enum kolo_order order)
{
    const struct kolo_choices *choices = &comm->choices;
    if (args->counts || !choices->layout.has_board || !comm->plan_is_auto)
        return NULL;
    uint8_t kept = choices->plans[collective][false][order][class_of(args->count * element_bytes)];
    return kept != 0 && kolo_plans[kept - 1]->on_board ? kolo_plans[kept - 1] : NULL;
}

size_t kolo_comm_shown(struct kolo_comm *comm, enum kolo_collective collective)
{
    struct kolo_choices *choices = &comm->choices;
    if (choices->shown[collective] == 0)
        choices->shown[collective] =
            kolo_board_shown(collective, &choices->layout, &comm->engine->figures) + 1;
    return choices->shown[collective] - 1;
}

kolo_status kolo_comm_choose(struct kolo_comm *comm, enum kolo_collective collective,
                             const struct kolo_plan_args *args, size_t element_bytes,
                             enum kolo_order order, bool is_own, const struct kolo_plan **plan_out)
{
    kolo_status status = KOLO_OK;
    *plan_out = kept_plan(comm, collective, args, element_bytes, order);
    if (*plan_out)
        return KOLO_OK;
    KOLO_TRY(kolo_comm_know_hosts(comm));
    struct kolo_question question = {.collective = collective,
                                     .args = *args,
                                     .element_bytes = element_bytes,
                                     .layout = comm->choices.layout,
                                     .order = order};
    question.args.hosts = kolo_choices_hosts(&comm->choices);
    question.args.in_place = false; /* differs from rank to rank */
    question.args.closing = comm->number == 0 ? KOLO_CLOSING_LATER : KOLO_CLOSING_NOTES;
    KOLO_TRY(choose_forced(comm, &question, is_own, plan_out));
    if (!*plan_out)
        *plan_out =
            choose_class(comm, &question, class_of(kolo_plan_mean_block(args) * element_bytes));
    if (!*plan_out || kolo_plan_bars(*plan_out, &question))
        *plan_out = kolo_choose(&question, &comm->engine->figures);
    if (!*plan_out && order == KOLO_ORDER_WIDE) {
        question.order = KOLO_ORDER_FREE; /* the world is too large for a fold at once */
        *plan_out = kolo_choose(&question, &comm->engine->figures);
    }
    if (!*plan_out)
        status = cannot(&question, comm->engine->settings.plan,
                        "no plan can combine it in the order of ranks");
out:
    return status;
}
