// SPDX-License-Identifier: Apache-2.0
// kolo_run_threads: runs n ranks as threads of this process. They meet in a store on a thread of
// its own, over socket pairs. If one of them cannot start, the store is stopped, and so the others
// stop waiting.
#include "runtime/init.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/timeline.h"

/* With more ranks than this, each thread gets a stack of 2 MiB instead of the system's default. */
enum { MANY_RANKS = 64, MANY_RANKS_STACK_BYTES = 2 << 20 };

struct team;

struct member {
    struct team *team;
    int rank, fd;
    struct kolo_comm *comm; /* NULL: the rank could not start */
    bool has_thread;
    bool is_inside; /* the rank's function runs */
    bool has_ended; /* its communicator is gone: the function may have finalized it itself */
    pthread_t thread;
    kolo_status status;
    char detail[KOLO_DETAIL_MAX];
};

struct team {
    int size;
    struct kolo_settings settings;
    struct kolo_secret secret;
    kolo_status (*rank_main)(struct kolo_comm *comm, void *arg);
    void *arg;
    struct kolo_store_thread *store;
    struct member *members;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int running;
    const struct member *broken; /* the first that could not start */
};

static kolo_status come_up(struct member *member, struct kolo_comm **comm_out)
{
    struct team *team = member->team;
    struct kolo_engine *engine = NULL;
    kolo_status status = kolo_engine_create(&engine);
    if (status != KOLO_OK) {
        close(member->fd);
        return status;
    }
    engine->settings = team->settings;
    engine->rank = member->rank;
    engine->size = team->size;
    engine->ended = &member->has_ended;
    status = kolo_engine_keep_timeline(engine, kolo_now_ns());
    if (status != KOLO_OK)
        close(member->fd);
    else
        status = kolo_engine_join(engine, &team->secret, member->fd,
                                  kolo_deadline_in_ms(team->settings.start_timeout_ms));
    if (status != KOLO_OK)
        kolo_engine_give_up(engine);
    else
        *comm_out = engine->world;
    return status;
}

static void keep_result(struct member *member, kolo_status status)
{
    member->status = status;
    if (status != KOLO_OK)
        snprintf(member->detail, sizeof member->detail, "%s", kolo_error_detail());
}

/** As keep_result, for what the rank's function returned. A program's own status has no detail. */
static void keep_return(struct member *member, kolo_status status)
{
    keep_result(member, status);
    if (status != KOLO_OK && member->detail[0] == '\0')
        snprintf(member->detail, sizeof member->detail, "rank %d's function returned %s",
                 member->rank, kolo_status_name(status));
}

/** The rank has ended. A function that has ended its thread (pthread_exit) has not returned, and
 * its rank's communicator is still there. */
static void leave(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    if (member->is_inside)
        keep_result(member, kolo_fail(KOLO_ERR_INVALID,
                                      "rank %d's function has ended its thread "
                                      "(pthread_exit) instead of returning",
                                      member->rank));
    if (member->comm && !member->has_ended) {
        const kolo_status left = kolo_finalize(member->comm);
        if (member->status == KOLO_OK)
            keep_result(member, left);
    }
    pthread_mutex_lock(&team->lock);
    if (!member->comm && !team->broken)
        team->broken = member;
    team->running--;
    pthread_cond_signal(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    pthread_cleanup_push(leave, member);
    kolo_log_set_rank(member->rank);
    keep_result(member, come_up(member, &member->comm));
    if (member->comm) {
        kolo_detail_set("");
        member->is_inside = true;
        keep_return(member, team->rank_main(member->comm, team->arg));
        member->is_inside = false;
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static kolo_status start_member(struct team *team, struct member *member)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        if (team->size > MANY_RANKS)
            error = pthread_attr_setstacksize(&attributes, MANY_RANKS_STACK_BYTES);
        if (error == 0)
            error = pthread_create(&member->thread, &attributes, member_main, member);
        pthread_attr_destroy(&attributes);
    }
    if (error != 0)
        return kolo_fail_start(error, "cannot start rank %d of %d as a thread", member->rank,
                               team->size);
    member->has_thread = true;
    return KOLO_OK;
}

/** Connects every rank to the store, before any rank begins. */
static kolo_status prepare(struct team *team)
{
    struct kolo_store_server_config config;
    kolo_status status;
    team->members = kolo_calloc((size_t)team->size, sizeof *team->members);
    if (!team->members)
        return KOLO_ERR_NO_MEMORY;
    for (int rank = 0; rank < team->size; rank++)
        team->members[rank] = (struct member){.team = team, .rank = rank, .fd = -1};
    KOLO_TRY(kolo_secret_make(&team->secret));
    KOLO_TRY(kolo_store_config(&team->settings, team->size, &team->secret, &config));
    KOLO_TRY(kolo_store_thread_start(&config, NULL, 0, NULL, &team->store));
    for (int rank = 0; rank < team->size; rank++)
        KOLO_TRY(kolo_store_thread_pair(team->store, &team->members[rank].fd));
out:
    return status;
}

/** Ends the store: ranks that wait there for others get an error. */
static void stop_store(struct team *team, kolo_deadline deadline)
{
    if (team->store)
        kolo_store_thread_stop(team->store, deadline);
    team->store = NULL;
}

/** Starts all members and waits for them. */
static kolo_status run_members(struct team *team)
{
    kolo_status status = KOLO_OK;
    for (int rank = 0; rank < team->size && status == KOLO_OK; rank++) {
        pthread_mutex_lock(&team->lock);
        team->running++;
        pthread_mutex_unlock(&team->lock);
        status = start_member(team, &team->members[rank]);
        if (status != KOLO_OK) {
            pthread_mutex_lock(&team->lock);
            team->running--;
            pthread_mutex_unlock(&team->lock);
        }
    }
    if (status != KOLO_OK)
        stop_store(team, 0);
    pthread_mutex_lock(&team->lock);
    while (team->running > 0 && !team->broken)
        pthread_cond_wait(&team->changed, &team->lock);
    bool is_broken = team->broken != NULL;
    pthread_mutex_unlock(&team->lock);
    if (is_broken)
        stop_store(team, 0);
    for (int rank = 0; rank < team->size; rank++) {
        struct member *member = &team->members[rank];
        if (member->has_thread)
            pthread_join(member->thread, NULL);
        else if (member->fd >= 0)
            close(member->fd);
    }
    return status;
}

/** Whether this failure only follows from that of another rank. */
static bool is_consequence(kolo_status status)
{
    return status == KOLO_ERR_PEER || status == KOLO_ERR_ABORTED;
}

/** The lowest rank that failed, and if @p by_itself not only because another rank did; NULL: there
 * is none. */
static const struct member *lowest_failure(const struct team *team, bool by_itself)
{
    for (int rank = 0; rank < team->size; rank++) {
        const struct member *member = &team->members[rank];
        if (member->status != KOLO_OK && !(by_itself && is_consequence(member->status)))
            return member;
    }
    return NULL;
}

/** Returns the cause: the failure of the rank that could not start, else of the lowest rank that
 * failed. A failure that follows from another comes last, also that of a rank that could not start,
 * since a rank that had started may have aborted. */
static kolo_status result_of(const struct team *team)
{
    const struct member *broken = team->broken, *member = lowest_failure(team, true);
    if (broken && (!member || !is_consequence(broken->status)))
        member = broken;
    if (!member)
        member = lowest_failure(team, false);
    if (!member)
        return KOLO_OK;
    kolo_detail_set(member->detail);
    return member->status;
}

static kolo_status run_team(struct team *team)
{
    kolo_status status = prepare(team);
    if (status == KOLO_OK) {
        status = run_members(team);
    } else {
        for (int rank = 0; team->members && rank < team->size; rank++)
            if (team->members[rank].fd >= 0)
                close(team->members[rank].fd);
    }
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    stop_store(team, kolo_deadline_in_ms(team->settings.exit_timeout_ms));
    kolo_detail_set(detail);
    return status == KOLO_OK ? result_of(team) : status;
}

/* This world is independent of the world in which kolorun started this process. If the timeline is
 * a descriptor although kolorun did not start it, somebody expected a timeline, so there is a
 * warning. */
static void leave_outer_world(struct kolo_settings *settings)
{
    const bool is_lent = kolo_timeline_is_lent(settings);
    if (is_lent && settings->launcher[0] == '\0')
        KOLO_WARN("no timeline: KOLO_TIMELINE=%s is for a rank that kolorun starts with "
                  "--timeline; give KOLO_TIMELINE=FILE to ranks that are threads",
                  settings->timeline);
    settings->launcher[0] = '\0';
    if (is_lent)
        settings->timeline[0] = '\0';
}

kolo_status kolo_run_threads(int nranks, const struct kolo_config *config,
                             kolo_status (*rank_main)(struct kolo_comm *comm, void *arg), void *arg)
{
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (nranks < 1 || nranks > KOLO_SIZE_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_run_threads: nranks is %d", nranks);
    if (!rank_main)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_run_threads: rank_main is NULL");
    struct team *team = kolo_calloc(1, sizeof *team);
    if (!team)
        return status;
    team->size = nranks;
    team->rank_main = rank_main;
    team->arg = arg;
    pthread_mutex_init(&team->lock, NULL); /* with default attributes these cannot fail here */
    pthread_cond_init(&team->changed, NULL);
    KOLO_TRY(kolo_config_settings(config, &team->settings));
    leave_outer_world(&team->settings);
    kolo_config_warn_unknown();
    KOLO_TRY(run_team(team));
out:
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
    kolo_free_memory(team->members);
    explicit_bzero(team, sizeof *team);
    kolo_free_memory(team);
    return status;
}
