// SPDX-License-Identifier: Apache-2.0
// Owns the rendezvous: parsing its setting, where rank 0 listens and what it publishes, and how the
// other ranks find it. Must never take the presence of a file as proof of a job: only a greeting
// with the job id of that file is proof.
//
// Shared file systems do not report changes. So a rank that finds no file, or whose store does not
// answer, looks again every LOOK_EVERY_MS until its deadline.
#include "runtime/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/wire.h"
#include "runtime/rendezvous_file.h"
#include "runtime/store_dial.h"

enum {
    LOOK_EVERY_MS = 50,
    FILE_MS = 1000 /* that the file's file system may take in any case */
};

struct kolo_rendezvous_host {
    struct kolo_rendezvous rendezvous;
    uint64_t job_id;
    bool has_file;
    struct kolo_store_thread *thread;
};

/* ---- the text ---- */

static const char grammar[] = "tcp://HOST:PORT[,HOST:PORT...] or file:///SHARED/PATH";

kolo_status kolo_rendezvous_parse(const char *text, struct kolo_rendezvous *rendezvous_out)
{
    struct kolo_rendezvous rendezvous = {0};
    const char *where;
    if (strncmp(text, "tcp://", 6) == 0) {
        rendezvous.kind = KOLO_RENDEZVOUS_TCP;
        where = text + 6;
        if (!strchr(where, ':') || strpbrk(where, "/ \t\n"))
            where = "";
    } else if (strncmp(text, "file://", 7) == 0) {
        rendezvous.kind = KOLO_RENDEZVOUS_FILE;
        where = text + 7;
        if (where[0] != '/' || where[strlen(where) - 1] == '/')
            where = "";
    } else {
        where = "";
    }
    if (!where[0] || strlen(where) >= sizeof rendezvous.where)
        return kolo_fail(KOLO_ERR_CONFIG, "rendezvous \"%.200s\": expected %s", text, grammar);
    snprintf(rendezvous.where, sizeof rendezvous.where, "%s", where);
    *rendezvous_out = rendezvous;
    return KOLO_OK;
}

/** When a file system that does not answer is given up: at @p deadline, but even a look at the last
 * moment has time enough. */
static kolo_deadline for_file(kolo_deadline deadline)
{
    const kolo_deadline least = kolo_deadline_in_ms(FILE_MS);
    return deadline > least ? deadline : least;
}

/* ---- rank 0 ---- */

static kolo_status make_job_id(uint64_t *job_id_out)
{
    struct kolo_secret random;
    kolo_status status = kolo_secret_make(&random);
    if (status != KOLO_OK)
        return status;
    struct kolo_reader reader = kolo_reader_over(random.bytes, sizeof random.bytes);
    *job_id_out = kolo_read_u64(&reader) | 1; /* 0 would mean none */
    return KOLO_OK;
}

/** Writes the file with this machine's addresses at @p port. */
static kolo_status publish(struct kolo_rendezvous_host *host, const char *net, uint16_t port,
                           kolo_deadline deadline)
{
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
    size_t count = 0;
    kolo_status status = kolo_places_local(net, port, places, KOLO_RENDEZVOUS_PLACES_MAX, &count);
    if (status == KOLO_OK)
        status =
            kolo_rendezvous_file_put(host->rendezvous.where, deadline, host->job_id, places, count);
    host->has_file = status == KOLO_OK;
    return status == KOLO_ERR_TIMEOUT ? KOLO_ERR_SYSTEM : status; /* nobody is missing */
}

/** In its own /etc/hosts a host's name often means 127.0.1.1, while other hosts know its real
 * address. So if a name other than localhost resolved to a loopback address, listen at all
 * addresses instead. */
static void open_up(const char *where, struct kolo_place *places, size_t count)
{
    bool is_literal = where[0] == '[' || (where[0] >= '0' && where[0] <= '9');
    if (is_literal || strncmp(where, "localhost", strlen("localhost")) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (kolo_place_is_loopback(&places[i]))
            places[i] =
                kolo_place_make(places[i].addr.ss_family, NULL, kolo_place_port(&places[i]));
}

/** Where to listen: at the places of a tcp:// setting, else at any address. */
static kolo_status find_places(const struct kolo_rendezvous *rendezvous, kolo_deadline deadline,
                               struct kolo_place *places, size_t *count_out)
{
    if (rendezvous->kind == KOLO_RENDEZVOUS_TCP) {
        kolo_status status = kolo_places_resolve(rendezvous->where, deadline, places,
                                                 KOLO_RENDEZVOUS_PLACES_MAX, count_out);
        if (status == KOLO_OK)
            open_up(rendezvous->where, places, *count_out);
        return status;
    }
    places[0] = kolo_place_make(AF_INET, NULL, 0);
    places[1] = kolo_place_make(AF_INET6, NULL, 0);
    *count_out = 2;
    return KOLO_OK;
}

/** Listens at every place that this machine has. One is enough (there may be no IPv6, or the name
 * may also have an address of another interface). */
static kolo_status start_store(struct kolo_rendezvous_host *host,
                               const struct kolo_store_server_config *config,
                               kolo_deadline deadline, uint16_t *port_out)
{
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
    size_t count = 0;
    char why[KOLO_DETAIL_MAX];
    kolo_status status = find_places(&host->rendezvous, deadline, places, &count);
    if (status != KOLO_OK)
        return status;
    status = kolo_store_thread_start(config, places, count, port_out, &host->thread);
    for (size_t i = 0; status == KOLO_ERR_CONNECT && count > 1 && i < count; i++)
        status = kolo_store_thread_start(config, &places[i], 1, port_out, &host->thread);
    if (status != KOLO_ERR_CONNECT) // what else it lacks has nothing to do with the place
        return status;
    if (host->rendezvous.kind == KOLO_RENDEZVOUS_FILE)
        return KOLO_ERR_SYSTEM;
    kolo_detail_keep(why);
    return kolo_fail(
        KOLO_ERR_CONNECT,
        "rank 0 cannot listen at tcp://%s: %s; the rendezvous names a free port of the "
        "host that rank 0 runs on",
        host->rendezvous.where, why);
}

kolo_status kolo_rendezvous_host_open(const struct kolo_rendezvous *rendezvous, const char *net,
                                      const struct kolo_store_server_config *config,
                                      kolo_deadline deadline,
                                      struct kolo_rendezvous_host **host_out)
{
    uint16_t port = 0;
    kolo_status status;
    struct kolo_store_server_config own = *config;
    struct kolo_rendezvous_host *host = kolo_calloc(1, sizeof *host);
    if (!host)
        return KOLO_ERR_NO_MEMORY;
    host->rendezvous = *rendezvous;
    if (rendezvous->kind == KOLO_RENDEZVOUS_FILE)
        KOLO_TRY(make_job_id(&host->job_id));
    own.job_id = host->job_id;
    KOLO_TRY(start_store(host, &own, deadline, &port));
    if (rendezvous->kind == KOLO_RENDEZVOUS_FILE)
        KOLO_TRY(publish(host, net, port, deadline));
    *host_out = host;
    return KOLO_OK;
out:
    kolo_rendezvous_host_close(host, kolo_now_ns());
    return status;
}

struct kolo_store_thread *kolo_rendezvous_host_store(struct kolo_rendezvous_host *host)
{
    return host->thread;
}

void kolo_rendezvous_host_close(struct kolo_rendezvous_host *host, kolo_deadline deadline)
{
    if (!host)
        return;
    if (host->has_file)
        kolo_rendezvous_file_remove(host->rendezvous.where, for_file(deadline), host->job_id);
    kolo_store_thread_stop(host->thread, deadline);
    kolo_free_memory(host);
}

/* ---- the other ranks ---- */

struct looking {
    const char *path;
    kolo_deadline deadline;
    const struct kolo_rendezvous_file *seen;
};

static bool has_changed(void *context)
{
    const struct looking *looking = context;
    return kolo_rendezvous_file_has_changed(looking->path, looking->deadline, looking->seen);
}

/** Waits until it is time to look at the file again. */
static void pause_look(struct kolo_poller *poller, kolo_deadline deadline)
{
    kolo_poller_sleep(poller, kolo_deadline_min(deadline, kolo_deadline_in_ms(LOOK_EVERY_MS)));
}

/** The final error of a rank that did not reach the store. @p why: the failure of the last
 * attempt. */
static kolo_status give_up(const char *path, kolo_status status, const char *why)
{
    if (status == KOLO_ERR_NOT_FOUND && !why[0])
        return kolo_fail(
            KOLO_ERR_CONNECT,
            "rendezvous file %s did not appear in time; is rank 0 running, and does it "
            "share this path?",
            path);
    return kolo_fail(status == KOLO_ERR_AUTH ? KOLO_ERR_AUTH : KOLO_ERR_CONNECT,
                     "the store that rendezvous file %s names could not be reached in time: %s; a "
                     "file that an older run left may be removed",
                     path, why);
}

static kolo_status dial_by_file(const char *path, const struct kolo_secret *secret, int rank,
                                kolo_deadline deadline, int *fd_out)
{
    char why[KOLO_DETAIL_MAX / 2] = "";
    struct kolo_rendezvous_file state = {0};
    struct looking looking = {path, deadline, &state};
    struct kolo_poller *poller;
    kolo_status status = kolo_poller_create(&poller);
    kolo_status last = KOLO_ERR_NOT_FOUND;
    if (status != KOLO_OK)
        return status;
    for (;;) {
        status = kolo_rendezvous_file_load(path, for_file(deadline), &state);
        if (status == KOLO_ERR_TIMEOUT) {
            status = KOLO_ERR_CONNECT; /* nobody is known to be missing */
            break;
        }
        const bool is_there = status == KOLO_OK;
        if (is_there)
            status = kolo_store_dial(&(struct kolo_store_dial_config){.places = state.places,
                                                                      .count = state.count,
                                                                      .secret = secret,
                                                                      .rank = rank,
                                                                      .job_id = state.job_id,
                                                                      .deadline = deadline,
                                                                      .is_stale = has_changed,
                                                                      .context = &looking},
                                     fd_out);
        if (status == KOLO_OK || status == KOLO_ERR_NO_MEMORY ||
            (is_there && status == KOLO_ERR_SYSTEM)) // no other file helps
            break;
        if (status != KOLO_AGAIN && (status != KOLO_ERR_NOT_FOUND || state.count > 0)) {
            last = status;
            snprintf(why, sizeof why, "%s", kolo_error_detail());
        }
        if (kolo_deadline_passed(deadline)) {
            status = give_up(path, last, why);
            break;
        }
        if (status != KOLO_AGAIN)
            pause_look(poller, deadline);
    }
    kolo_poller_destroy(poller);
    return status;
}

static kolo_status dial_by_tcp(const struct kolo_rendezvous *rendezvous,
                               const struct kolo_secret *secret, int rank, kolo_deadline deadline,
                               int *fd_out)
{
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
    size_t count = 0;
    kolo_status status = kolo_places_resolve(rendezvous->where, deadline, places,
                                             KOLO_RENDEZVOUS_PLACES_MAX, &count);
    if (status != KOLO_OK)
        return status;
    const struct kolo_store_dial_config dial_config = {
        .places = places, .count = count, .secret = secret, .rank = rank, .deadline = deadline};
    status = kolo_store_dial(&dial_config, fd_out);
    if (status != KOLO_ERR_CONNECT && status != KOLO_ERR_TIMEOUT)
        return status;
    return kolo_fail(KOLO_ERR_CONNECT,
                     "%s; is rank 0 (or kolorun) running, KOLO_RENDEZVOUS=tcp://%s its host and "
                     "port, and does a firewall let that through?",
                     kolo_error_detail(), rendezvous->where);
}

/** The store's host offers only addresses of the networks that KOLO_NET names. If this machine has
 * none of these networks, the error says that this is the reason. */
static kolo_status blame_net(const char *net, kolo_status status)
{
    struct kolo_place place;
    size_t count = 0;
    char why[KOLO_DETAIL_MAX];
    kolo_detail_keep(why);
    if (kolo_places_local(net, 1, &place, 1, &count) == KOLO_ERR_CONFIG)
        return kolo_fail(status, "%s, and %s", kolo_error_detail(), why);
    kolo_detail_set(why);
    return status;
}

kolo_status kolo_rendezvous_dial(const struct kolo_rendezvous *rendezvous, const char *net,
                                 const struct kolo_secret *secret, int rank, kolo_deadline deadline,
                                 int *fd_out)
{
    kolo_status status = rendezvous->kind == KOLO_RENDEZVOUS_FILE
                             ? dial_by_file(rendezvous->where, secret, rank, deadline, fd_out)
                             : dial_by_tcp(rendezvous, secret, rank, deadline, fd_out);
    if (status == KOLO_ERR_CONNECT)
        return blame_net(net, status);
    return status;
}
