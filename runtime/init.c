// SPDX-License-Identifier: Apache-2.0
// kolo_init and kolo_finalize. A start determines the rank, finds the place where ranks meet, and
// joins:
//
//   a launcher (KOLO_LAUNCHER)  the launcher serves the store; every rank connects to it at the
//                               rendezvous
//   rank, size, rendezvous      rank 0 serves the store in a thread of its own; the others connect
//   none of these               a world of one rank, with its own store
#include "runtime/init.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/adopt.h"
#include "runtime/finalized.h"
#include "runtime/group.h"
#include "runtime/loans.h"
#include "runtime/local.h"
#include "runtime/mismatch.h"
#include "runtime/nest.h"
#include "runtime/route_board.h"
#include "runtime/submit.h"
#include "runtime/timeline_call.h"

/* A failed communicator has only the news of its failure to deliver. */
static const int64_t failed_exit_ms = 1000;

/* ---- settings ---- */

static kolo_status apply_text(struct kolo_settings *settings, const char *text)
{
    char name[64];
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= sizeof name)
        return kolo_fail(KOLO_ERR_CONFIG, "config.settings has '%s': expected NAME=value", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    kolo_status status = kolo_settings_set(settings, name, equals + 1, KOLO_FROM_API);
    if (status == KOLO_ERR_NOT_FOUND) /* a wrong setting is a wrong configuration */
        return kolo_fail(KOLO_ERR_CONFIG, "config.settings: %s", kolo_error_detail());
    return status;
}

static kolo_status apply_number(struct kolo_settings *settings, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return kolo_settings_set(settings, name, text, KOLO_FROM_API);
}

/** Applies nranks and rank, which stand for KOLO_SIZE and KOLO_RANK. They are checked here, since
 * the settings' messages would name variables that nobody has set. */
static kolo_status apply_place(struct kolo_settings *settings, const struct kolo_config *config)
{
    kolo_status status;
    if (config->nranks < 0)
        return kolo_fail(KOLO_ERR_CONFIG,
                         "config->nranks is %d: give the number of ranks, or 0 to take it from "
                         "KOLO_SIZE",
                         config->nranks);
    if (config->nranks == 0)
        return KOLO_OK;
    if (config->rank < 0 || config->rank >= config->nranks)
        return kolo_fail(KOLO_ERR_CONFIG,
                         "config->rank is %d: with config->nranks %d it is from 0 to %d",
                         config->rank, config->nranks, config->nranks - 1);
    KOLO_TRY(apply_number(settings, "KOLO_SIZE", config->nranks));
    KOLO_TRY(apply_number(settings, "KOLO_RANK", config->rank));
out:
    return status;
}

static kolo_status apply_config(struct kolo_settings *settings, const struct kolo_config *config)
{
    kolo_status status = KOLO_OK;
    if (config->size != sizeof *config)
        return kolo_fail(KOLO_ERR_INVALID,
                         "config->size is %zu, not %zu: set it to sizeof(struct kolo_config)",
                         config->size, sizeof *config);
    for (size_t i = 0; config->settings && config->settings[i]; i++)
        KOLO_TRY(apply_text(settings, config->settings[i]));
    KOLO_TRY(apply_place(settings, config));
    if (config->rendezvous)
        KOLO_TRY(kolo_settings_set(settings, "KOLO_RENDEZVOUS", config->rendezvous, KOLO_FROM_API));
    if (config->secret)
        KOLO_TRY(kolo_settings_set(settings, "KOLO_SECRET", config->secret, KOLO_FROM_API));
out:
    return status;
}

kolo_status kolo_config_settings(const struct kolo_config *config,
                                 struct kolo_settings *settings_out)
{
    enum kolo_log_level level;
    kolo_status status;
    kolo_log_look();
    kolo_settings_init(settings_out);
    KOLO_TRY(kolo_settings_load(settings_out, NULL, NULL, NULL));
    if (config)
        KOLO_TRY(apply_config(settings_out, config));
    KOLO_TRY(kolo_log_level_parse(settings_out->log_level, &level));
    kolo_log_set_level(level);
    status = kolo_plan_check(settings_out->plan);
out:
    return status;
}

static void warn_unknown(void *context, const char *name, const char *nearest)
{
    (void)context;
    if (nearest)
        KOLO_WARN("%s is not a setting of kolo (did you mean %s?)", name, nearest);
    else
        KOLO_WARN("%s is not a setting of kolo (kolorun --help-settings lists them)", name);
}

void kolo_config_warn_unknown(void)
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;
    struct kolo_settings settings;
    if (atomic_flag_test_and_set(&has_warned))
        return;
    if (kolo_environment_is_withheld())
        KOLO_WARN("KOLO_* in the environment is not read, since this program has more rights than "
                  "the user who started it (set-user-id, set-group-id or capabilities): give "
                  "kolo_init a struct kolo_config");
    kolo_settings_init(&settings);
    if (kolo_settings_load(&settings, NULL, warn_unknown, NULL) != KOLO_OK)
        kolo_detail_set(""); /* the settings could be loaded earlier, so this is no error */
    explicit_bzero(&settings, sizeof settings);
}

static void on_notice(void *context, const char *text)
{
    (void)context;
    KOLO_WARN("%s", text);
}

kolo_status kolo_store_config(const struct kolo_settings *settings, int size,
                              const struct kolo_secret *secret,
                              struct kolo_store_server_config *config_out)
{
    struct kolo_ports ports;
    kolo_status status = kolo_ports_parse(settings->ports, &ports);
    if (status != KOLO_OK)
        return status;
    *config_out = (struct kolo_store_server_config){.size = size,
                                                    .owner = "rank 0",
                                                    .secret = *secret,
                                                    .start_timeout_ms = settings->start_timeout_ms,
                                                    .stall_warn_ms = settings->stall_warn_ms,
                                                    .peer_timeout_ms = settings->peer_timeout_ms,
                                                    .ports = ports,
                                                    .events = {.notice = on_notice}};
    return KOLO_OK;
}

/* ---- joining ---- */

/** Whether each rank of this host can have a processor to itself, judged by the bindings of all
 * ranks. If those cannot be seen (in containers): by this rank's binding, or because kolorun has
 * bound the ranks. */
static bool has_cores_for_all(const struct kolo_engine *engine)
{
    enum { MANY = 256 };
    const struct kolo_settings *settings = &engine->settings;
    const struct kolo_comm *world = engine->world;
    const struct kolo_identity *self = &kolo_comm_peer(world, world->rank)->identity;
    const bool is_bound = settings->launcher[0] != '\0' && strcmp(settings->bind, "none") != 0;
    int pids[MANY], count = 0;
    bool has_cores;
    for (int rank = 0; rank < world->size && count < MANY; rank++) {
        const struct kolo_identity *identity = &kolo_comm_peer(world, rank)->identity;
        if (identity->host_id == self->host_id) /* threads of one program have the same binding */
            pids[count++] = identity->process == self->process ? 0 : (int)identity->pid;
    }
    if (world->local_size <= MANY && kolo_local_has_cores(pids, count, &has_cores))
        return has_cores;
    return kolo_local_cpus() >= world->local_size ||
           (is_bound && sysconf(_SC_NPROCESSORS_ONLN) >= (long)world->local_size);
}

/** Spinning pays only if every rank of this host has a core to itself. Otherwise a rank yields for
 * long: what it waits for is often done meanwhile on its own core, and a core on which all ranks
 * sleep stays idle until another core wakes it. */
static void choose_waiting(struct kolo_engine *engine)
{
    enum { SPIN_US = 50, YIELD_US = 50, YIELD_SHARED_US = 1000 };
    const struct kolo_settings *settings = &engine->settings;
    const bool has_cores = has_cores_for_all(engine);
    const int64_t spin_us = has_cores ? SPIN_US : 0;
    const int64_t yield_us = has_cores ? YIELD_US : YIELD_SHARED_US;
    engine->spin_ns = (settings->spin_us >= 0 ? settings->spin_us : spin_us) * 1000;
    engine->yield_ns = (settings->yield_us >= 0 ? settings->yield_us : yield_us) * 1000;
    engine->patience.spin_ns = engine->spin_ns;
    engine->patience.learns = has_cores && settings->spin_us < 0;
}

static kolo_status open_endpoint(struct kolo_engine *engine, const struct kolo_secret *secret,
                                 const struct kolo_endpoint_events *events)
{
    struct kolo_endpoint_config config = {.rank = engine->rank,
                                          .size = engine->size,
                                          .settings = &engine->settings,
                                          .secret = *secret,
                                          .heap = engine->heap,
                                          .events = *events};
    kolo_identity_here(engine->rank, &config.identity);
    config.identity.numa =
        engine->settings.numa_node >= 0 ? (int32_t)engine->settings.numa_node : kolo_local_numa();
    kolo_status status = kolo_endpoint_open(&config, &engine->endpoint);
    explicit_bzero(&config.secret, sizeof config.secret);
    return status;
}

static kolo_status open_local(struct kolo_engine *engine, const struct kolo_secret *secret,
                              const struct kolo_endpoint_events *events)
{
    kolo_status status = KOLO_ERR_NO_MEMORY;
    engine->left_ns = kolo_calloc((size_t)engine->size, sizeof *engine->left_ns);
    if (!engine->left_ns)
        goto out;
    KOLO_TRY(kolo_comm_create(engine, engine->size, &engine->world));
    for (int rank = 0; rank < engine->size; rank++)
        engine->world->ranks[rank] = rank;
    kolo_comm_open(engine->world, 0, engine->rank, engine->size);
    engine->world->is_unmet = true;
    KOLO_TRY(kolo_heap_create(&engine->heap));
    KOLO_TRY(open_endpoint(engine, secret, events));
out:
    return status;
}

/** The end of the start, in which this rank had @p status: KOLO_OK also if only the world's calls
 * have failed. They return that. */
static kolo_status end_start(struct kolo_comm *world, kolo_status status)
{
    kolo_comm_enter(world);
    if (kolo_comm_failed_after_start(world))
        status = KOLO_OK;
    if (status == KOLO_OK)
        world->is_unmet = false;
    kolo_comm_leave(world);
    return status;
}

/** All ranks have met: does what remains before the first call. A rank that is lost from now on
 * fails the world only: the others may go on without it (kolo_shrink). */
static kolo_status begin_in_world(struct kolo_engine *engine, kolo_deadline deadline)
{
    kolo_status status = kolo_endpoint_set_peers(engine->endpoint, engine->peers);
    if (status != KOLO_OK)
        return status;
    kolo_comm_count_local(engine->world);
    choose_waiting(engine);
    status = kolo_engine_share_figures(engine, deadline);
    if (status != KOLO_OK)
        return status;
    return end_start(engine->world, kolo_nest_open(engine->world, deadline));
}

/** The others have met this rank and would wait for it: tells them why it has failed, unless the
 * cause is that one of them was lost. */
static void tell_others(struct kolo_engine *engine, kolo_status why)
{
    const struct kolo_comm *world = engine->world;
    if (world->failure.status != KOLO_OK || world->suspicion.status != KOLO_OK)
        return;
    char who[KOLO_RANK_TEXT_MAX], text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "%s: %s", kolo_engine_rank_text(engine, engine->rank, who),
             kolo_error_detail());
    kolo_store_client_abort(engine->store, KOLO_STORE_JOB, why, text);
}

static kolo_status join(struct kolo_engine *engine, const struct kolo_secret *secret, int fd,
                        kolo_deadline deadline)
{
    struct kolo_peer *self = kolo_calloc(1, sizeof *self);
    struct kolo_store_client_config config = {
        .fd = fd, .self = self, .size = engine->size, .deadline = deadline};
    struct kolo_endpoint_events events;
    kolo_engine_events(engine, &events, &config.events);
    kolo_status status = self ? open_local(engine, secret, &events) : KOLO_ERR_NO_MEMORY;
    if (status != KOLO_OK) {
        close(fd);
        goto out;
    }
    kolo_endpoint_self(engine->endpoint, self);
    config.poller = kolo_endpoint_poller(engine->endpoint);
    KOLO_TRY(kolo_store_client_join(&config, &engine->store, &engine->peers));
    kolo_store_client_keepalive(engine->store, engine->settings.peer_timeout_ms);
    status = begin_in_world(engine, deadline);
    if (status != KOLO_OK)
        tell_others(engine, status);
out:
    kolo_free_memory(self);
    return status;
}

kolo_status kolo_engine_join(struct kolo_engine *engine, const struct kolo_secret *secret, int fd,
                             kolo_deadline deadline)
{
    kolo_status status = join(engine, secret, fd, deadline);
    if (!engine->timeline)
        return status;
    if (engine->peers) /* the process of rank 0 distinguishes the job from others */
        kolo_timeline_set_job(engine->timeline, engine->peers[0].identity.process);
    kolo_timeline_end(engine->timeline, engine->start_ticket, status);
    return status;
}

kolo_status kolo_engine_keep_timeline(struct kolo_engine *engine, int64_t begun_ns)
{
    kolo_status status =
        kolo_timeline_open(&engine->settings, engine->rank, engine->size, &engine->timeline);
    if (engine->timeline)
        engine->start_ticket = kolo_timeline_start(engine, begun_ns);
    return status;
}

/* ---- kolo_init ---- */

static kolo_status check_world(const struct kolo_settings *settings)
{
    if (settings->size == 0 || settings->size < -1)
        return kolo_fail(KOLO_ERR_CONFIG, "KOLO_SIZE=%lld: a world has at least 1 rank",
                         (long long)settings->size);
    if ((settings->size < 0) != (settings->rank < 0))
        return kolo_fail(KOLO_ERR_CONFIG,
                         "%s is given without %s: set both (kolorun does), or neither for a world "
                         "of one rank",
                         settings->rank < 0 ? "KOLO_SIZE" : "KOLO_RANK",
                         settings->rank < 0 ? "KOLO_RANK" : "KOLO_SIZE");
    if (settings->size < 0 && settings->rendezvous[0] != '\0')
        return kolo_fail(KOLO_ERR_CONFIG,
                         "KOLO_RENDEZVOUS (or config.rendezvous) is given without KOLO_RANK and "
                         "KOLO_SIZE: set both, or KOLO_RANK=0 KOLO_SIZE=1 for a world of one rank");
    if (settings->rank >= settings->size && settings->size > 0)
        return kolo_fail(KOLO_ERR_CONFIG, "KOLO_RANK=%lld is not below KOLO_SIZE=%lld",
                         (long long)settings->rank, (long long)settings->size);
    if (settings->size > 1 && settings->rendezvous[0] == '\0')
        return kolo_fail(KOLO_ERR_CONFIG,
                         "%lld ranks need KOLO_RENDEZVOUS (or config.rendezvous): tcp://HOST:PORT "
                         "or file:///SHARED/PATH; or start the program with kolorun",
                         (long long)settings->size);
    if (settings->size > 1 && settings->secret[0] == '\0')
        return kolo_fail(KOLO_ERR_CONFIG,
                         "%lld ranks need KOLO_SECRET (or config.secret), the same on all: make "
                         "one with `openssl rand -hex 32`; or start the program with kolorun",
                         (long long)settings->size);
    return KOLO_OK;
}

/** Makes the connection to the store, which this rank may first have to start itself. */
static kolo_status reach_store(struct kolo_engine *engine, const struct kolo_secret *secret,
                               kolo_deadline deadline, int *fd_out)
{
    struct kolo_store_server_config config;
    struct kolo_rendezvous rendezvous;
    bool is_launched = engine->settings.launcher[0] != '\0';
    kolo_status status;
    status = kolo_store_config(&engine->settings, engine->size, secret, &config);
    if (status != KOLO_OK)
        return status;
    if (engine->size == 1 && !is_launched) {
        KOLO_TRY(kolo_store_thread_start(&config, NULL, 0, NULL, &engine->own_store));
        KOLO_TRY(kolo_store_thread_pair(engine->own_store, fd_out));
        goto out;
    }
    KOLO_TRY(kolo_rendezvous_parse(engine->settings.rendezvous, &rendezvous));
    if (is_launched || engine->rank != 0) {
        KOLO_DEBUG("start: reaching for the job's store");
        KOLO_TRY(kolo_rendezvous_dial(&rendezvous, engine->settings.net, secret, engine->rank,
                                      deadline, fd_out));
        goto out;
    }
    KOLO_TRY(kolo_rendezvous_host_open(&rendezvous, engine->settings.net, &config, deadline,
                                       &engine->host));
    KOLO_TRY(kolo_store_thread_pair(kolo_rendezvous_host_store(engine->host), fd_out));
out:
    explicit_bzero(&config.secret, sizeof config.secret);
    return status;
}

/** No variable tells the rank. If kolorun has started this program, somebody has removed them. It
 * cannot be an error: a rank may run other programs of kolo by themselves. */
static void warn_lost(void)
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&has_warned) || kolo_environment_is_withheld())
        return; /* withheld: kolo_config_warn_unknown says so */
    const int agent = kolo_local_ancestor(KOLO_LOCAL_AGENT);
    if (agent != 0)
        KOLO_WARN("kolo_init: this is a world of one rank, and has not joined the job of kolorun "
                  "that started it (process %d, " KOLO_LOCAL_AGENT
                  "): KOLO_RANK is not in its environment; let what clears that (env -i, sudo) "
                  "keep KOLO_*, or set KOLO_RANK=0 KOLO_SIZE=1 if it is meant to run alone",
                  agent);
}

static kolo_status start(struct kolo_engine *engine)
{
    struct kolo_secret secret;
    const int64_t begun_ns = kolo_now_ns();
    kolo_deadline deadline = kolo_deadline_in_ms(engine->settings.start_timeout_ms);
    bool is_alone = engine->settings.size < 0;
    int fd = -1;
    kolo_status status;
    KOLO_TRY(check_world(&engine->settings));
    engine->rank = is_alone ? 0 : (int)engine->settings.rank;
    engine->size = is_alone ? 1 : (int)engine->settings.size;
    kolo_log_set_rank(engine->size > 1 ? engine->rank : -1);
    if (engine->rank == 0)
        kolo_config_warn_unknown();
    if (is_alone)
        warn_lost();
    KOLO_TRY(kolo_engine_keep_timeline(engine, begun_ns));
    if (engine->settings.secret[0] != '\0')
        KOLO_TRY(kolo_secret_parse(engine->settings.secret, &secret));
    else
        KOLO_TRY(kolo_secret_make(&secret)); /* nobody else needs it */
    KOLO_TRY(reach_store(engine, &secret, deadline, &fd));
    KOLO_TRY(kolo_engine_join(engine, &secret, fd, deadline));
out:
    explicit_bzero(&secret, sizeof secret);
    return status;
}

kolo_status kolo_init(const struct kolo_config *config, struct kolo_comm **comm_out)
{
    struct kolo_engine *engine = NULL;
    kolo_status status;
    if (!comm_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_init: comm_out is NULL");
    KOLO_TRY(kolo_engine_create(&engine));
    KOLO_TRY(kolo_config_settings(config, &engine->settings));
    KOLO_TRY(kolo_adopt(&engine->settings));
    KOLO_TRY(start(engine));
    *comm_out = engine->world;
    return KOLO_OK;
out:
    kolo_engine_give_up(engine);
    return status;
}

/** After a broadcast this rank may not know whether all ranks have called the same. So each rank
 * that leaves tells all others, as in a barrier; a rank that has not heard from all by @p deadline
 * leaves anyway. */
static kolo_status hear_of_last(struct kolo_comm *comm, kolo_deadline deadline)
{
    const struct kolo_task task = {
        .kind = KOLO_CALL_FINALIZE, .function = "kolo_finalize", .is_own = true};
    struct kolo_request *request = NULL;
    if (kolo_task_prepare(comm, &task, &request) != KOLO_OK)
        return comm->failure.status;
    request->timeout_ms = -1; /* reaching the deadline is not a failure */
    comm->is_leaving = true;
    kolo_status status = kolo_chain_start(request, false);
    kolo_comm_enter(comm);
    if (status == KOLO_OK)
        status = kolo_chain_wait(request, deadline);
    if (request->status == KOLO_AGAIN && comm->collectives.first == request)
        kolo_request_end(request, KOLO_ERR_ABORTED);
    kolo_request_drop(request);
    kolo_comm_leave(comm);
    return status;
}

/** Finalizes a communicator other than the world: the rank goes on, and so do the links. */
static kolo_status finalize_part(struct kolo_comm *comm)
{
    struct kolo_engine *engine = comm->engine;
    char detail[KOLO_DETAIL_MAX];
    kolo_engine_enter(engine);
    if (comm->is_open && comm->failure.status == KOLO_OK) {
        kolo_engine_poll(engine);
        kolo_comm_settle(comm);
    }
    const kolo_status status = kolo_comm_last_word(comm);
    kolo_detail_keep(detail);
    kolo_comm_tell_store(comm->engine, comm->number, comm->ranks, comm->size);
    if (comm->half_made.ranks)
        kolo_comm_tell_store(engine, comm->half_made.number, comm->half_made.ranks,
                             comm->half_made.size);
    kolo_comm_close(comm);
    kolo_comm_free(comm);
    kolo_engine_leave(engine);
    kolo_detail_set(detail);
    return status;
}

/** Ends the remaining requests. Returns whether all collectives were over. */
static bool end_requests(struct kolo_engine *engine)
{
    bool are_over = engine->world->collectives.first == NULL;
    for (struct kolo_comm *comm = engine->comms; comm; comm = comm->listed.next) {
        kolo_group_drop(comm);
        kolo_requests_calm(comm);
    }
    while (engine->asyncs) {
        struct kolo_request *request = engine->asyncs;
        if (request->status == KOLO_AGAIN)
            kolo_request_end(request, KOLO_ERR_ABORTED);
        kolo_request_drop(request);
    }
    return are_over;
}

/** Whether a broadcast that this rank has not called has arrived. No call waits for it then. Held:
 * lock. */
static bool has_missed_one(struct kolo_comm *comm)
{
    kolo_engine_poll(comm->engine);
    kolo_comm_look_early(comm);
    return comm->early.is_broadcast || kolo_board_has_missed(comm);
}

/** When a leaving rank gives up delivering what it has sent. After an open broadcast that is as
 * long as its root would have waited for late ranks, even if others have left meanwhile. */
static kolo_deadline handover_deadline(const struct kolo_engine *engine, kolo_deadline deadline,
                                       bool was_open)
{
    kolo_deadline call = kolo_deadline_in_ms(engine->settings.timeout_ms);
    return was_open && call > deadline ? call : deadline;
}

static kolo_status last_word(struct kolo_comm *comm)
{
    kolo_engine_enter(comm->engine);
    const kolo_status status = kolo_comm_last_word(comm);
    kolo_engine_leave(comm->engine);
    return status;
}

static kolo_status finalize_world(struct kolo_comm *comm)
{
    struct kolo_engine *engine = comm->engine;
    char detail[KOLO_DETAIL_MAX];
    kolo_status heard = KOLO_OK;
    if (engine->ended)
        *engine->ended = true;
    kolo_engine_stop_thread(engine);
    kolo_engine_enter(engine);
    kolo_deadline deadline = kolo_deadline_in_ms(engine->settings.exit_timeout_ms);
    bool had_failed = comm->failure.status != KOLO_OK;
    bool are_over = end_requests(engine);
    bool was_open = are_over && !had_failed && comm->is_open;
    if (was_open)
        kolo_board_look_back(comm);
    bool is_asked = was_open || (are_over && !had_failed && has_missed_one(comm));
    kolo_engine_leave(engine);
    if (is_asked) /* the other half is for delivering what was sent */
        heard = hear_of_last(comm, kolo_deadline_in_ms(engine->settings.exit_timeout_ms / 2));
    if (heard != KOLO_ERR_MISMATCH)
        heard = last_word(comm);
    kolo_detail_keep(detail);
    /* If members have left before a late rank came, that is not a failure. */
    bool has_failed =
        comm->failure.status != KOLO_OK && !(was_open && comm->failure.status == KOLO_ERR_PEER);
    if (has_failed)
        deadline = kolo_deadline_min(deadline, kolo_deadline_in_ms(failed_exit_ms));
    kolo_loans_end(engine, kolo_deadline_min(deadline, kolo_deadline_in_ms(
                                                           engine->settings.exit_timeout_ms / 2)));
    kolo_status status = kolo_engine_destroy(
        engine, deadline, handover_deadline(engine, deadline, was_open && !has_failed));
    if (heard == KOLO_ERR_MISMATCH) {
        kolo_detail_set(detail);
        return heard;
    }
    if (status == KOLO_ERR_LINK) /* programs do not know links */
        status = KOLO_ERR_PEER;
    return has_failed ? KOLO_OK : status;
}

kolo_status kolo_finalize(struct kolo_comm *comm)
{
    kolo_status status = KOLO_OK;
    if (!comm)
        return KOLO_OK;
    KOLO_TRY(kolo_comm_check(comm, "kolo_finalize"));
    if (comm == comm->engine->world)
        return finalize_world(comm);
    status = finalize_part(comm);
out:
    return status;
}
