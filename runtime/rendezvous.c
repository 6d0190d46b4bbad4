// SPDX-License-Identifier: Apache-2.0
// Owns the rendezvous text and file. The file:
//
//   kolo-rendezvous 1
//   job 0123456789abcdef
//   place 10.0.0.5:4711
//   place [2001:db8::5]:4711
//   end
//
// It appears by rename, complete or not at all, and says nothing secret: whoever writes a false one
// makes ranks dial in vain, the proof of the secret fails. Shared file systems do not tell of
// changes, so a rank looks again every 50 ms, under its deadline. Must never take a file's presence
// for a job's: only a greeting with the file's job id is one.
#include "runtime/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/wire.h"
#include "runtime/store_dial.h"

enum { FILE_BYTES_MAX = 4096, LOOK_EVERY_MS = 50, LINE_MAX_BYTES = 160 };

/** One version of the file. */
struct file_state {
    uint64_t inode;
    struct timespec changed;
    uint64_t job_id;
    size_t count;
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
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

/* ---- reading the file ---- */

/** At most FILE_BYTES_MAX - 1 bytes of the regular file at @p path, NUL-terminated. */
static kolo_status read_file(const char *path, char text[FILE_BYTES_MAX], struct stat *stat_out)
{
    size_t bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kolo_fail_errno(errno == ENOENT ? KOLO_ERR_NOT_FOUND : KOLO_ERR_SYSTEM, errno,
                               "rendezvous file %s", path);
    kolo_status status = KOLO_OK;
    if (fstat(fd, stat_out) < 0 || !S_ISREG(stat_out->st_mode))
        status = kolo_fail(KOLO_ERR_DATA, "rendezvous file %s: not a regular file", path);
    while (status == KOLO_OK && bytes < FILE_BYTES_MAX - 1) {
        ssize_t got = read(fd, text + bytes, FILE_BYTES_MAX - 1 - bytes);
        if (got == 0)
            break;
        if (got > 0)
            bytes += (size_t)got;
        else if (errno != EINTR)
            status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "rendezvous file %s", path);
    }
    close(fd);
    text[bytes] = '\0';
    return status;
}

/** 16 hexadecimal digits, not all 0. */
static bool read_job_id(const char *text, uint64_t *job_id_out)
{
    char *end;
    if (strspn(text, "0123456789abcdef") != 16 || text[16] != '\0')
        return false;
    *job_id_out = strtoull(text, &end, 16);
    return *job_id_out != 0;
}

/** Takes one line. The host names are numbers, so that resolving one never waits for a server. */
static bool take_line(const char *line, struct file_state *state)
{
    size_t more = 0;
    if (strncmp(line, "job ", 4) == 0)
        return read_job_id(line + 4, &state->job_id);
    if (strncmp(line, "place ", 6) != 0 || state->count == KOLO_RENDEZVOUS_PLACES_MAX ||
        (line[6] != '[' && strspn(line + 6, "0123456789.:") != strlen(line + 6)))
        return false;
    if (kolo_places_resolve(line + 6, &state->places[state->count], 1, &more) != KOLO_OK)
        return false;
    state->count += more;
    return true;
}

static bool parse_file(char *text, struct file_state *state)
{
    char *rest = NULL;
    char *line = strtok_r(text, "\n", &rest);
    if (!line || strcmp(line, "kolo-rendezvous 1") != 0)
        return false;
    while ((line = strtok_r(NULL, "\n", &rest))) {
        if (strcmp(line, "end") == 0)
            return state->job_id != 0 && state->count > 0;
        if (strlen(line) >= LINE_MAX_BYTES || !take_line(line, state))
            return false;
    }
    return false;
}

/** ERR_NOT_FOUND: no file yet; ERR_DATA: not a rendezvous file; ERR_SYSTEM. */
static kolo_status load_file(const char *path, struct file_state *state_out)
{
    char text[FILE_BYTES_MAX];
    struct stat info;
    struct file_state state = {0};
    kolo_status status = read_file(path, text, &info);
    if (status != KOLO_OK)
        return status;
    if (!parse_file(text, &state))
        return kolo_fail(KOLO_ERR_DATA, "%s is not a rendezvous file", path);
    state.inode = info.st_ino;
    state.changed = info.st_mtim;
    *state_out = state;
    return KOLO_OK;
}

/* ---- writing the file ---- */

static kolo_status make_job_id(uint64_t *job_id_out)
{
    struct kolo_secret random;
    kolo_status status = kolo_secret_make(&random);
    if (status != KOLO_OK)
        return status;
    struct kolo_reader reader = kolo_reader_over(random.bytes, sizeof random.bytes);
    *job_id_out = kolo_read_u64(&reader) | 1; /* 0 means none */
    return KOLO_OK;
}

static kolo_status write_all(int fd, const char *path, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(fd, text, bytes);
        if (done < 0 && errno != EINTR)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot write rendezvous file %s", path);
        if (done > 0) {
            text += done;
            bytes -= (size_t)done;
        }
    }
    if (fsync(fd) < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot write rendezvous file %s", path);
    return KOLO_OK;
}

/** Makes the rename last where the file system supports it; the file is readable without. */
static void sync_folder(const char *path)
{
    char folder[KOLO_TEXT_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/** Puts @p text at @p path: complete or not at all. */
static kolo_status put_file(const char *path, const char *text, size_t bytes)
{
    char fresh[KOLO_TEXT_MAX + 8];
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) /* a file would take its place */
        return kolo_fail(KOLO_ERR_CONFIG, "rendezvous file %s: is there and is no file", path);
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot write rendezvous file %s", path);
    kolo_status status = write_all(fd, path, text, bytes);
    close(fd);
    if (status == KOLO_OK && rename(fresh, path) < 0)
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot write rendezvous file %s", path);
    if (status == KOLO_OK)
        sync_folder(path);
    else
        (void)unlink(fresh);
    return status;
}

static kolo_status publish(struct kolo_rendezvous_host *host, const char *net, uint16_t port)
{
    char text[FILE_BYTES_MAX];
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
    size_t count = 0, used;
    kolo_status status = kolo_places_local(net, port, places, KOLO_RENDEZVOUS_PLACES_MAX, &count);
    if (status != KOLO_OK)
        return status;
    used = (size_t)snprintf(text, sizeof text, "kolo-rendezvous 1\njob %016llx\n",
                            (unsigned long long)host->job_id);
    for (size_t i = 0; i < count; i++) {
        char place[128];
        kolo_place_format(&places[i], place, sizeof place);
        used += (size_t)snprintf(text + used, sizeof text - used, "place %s\n", place);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "end\n");
    status = put_file(host->rendezvous.where, text, used);
    host->has_file = status == KOLO_OK;
    return status;
}

/* ---- rank 0 ---- */

/** A host's own name often means 127.0.1.1 in its /etc/hosts, and its true address elsewhere: where
 * a name other than localhost led to loopback, all addresses are listened at. */
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

/** Where to listen: the text's own places, or any. */
static kolo_status find_places(const struct kolo_rendezvous *rendezvous, struct kolo_place *places,
                               size_t *count_out)
{
    if (rendezvous->kind == KOLO_RENDEZVOUS_TCP) {
        kolo_status status =
            kolo_places_resolve(rendezvous->where, places, KOLO_RENDEZVOUS_PLACES_MAX, count_out);
        if (status == KOLO_OK)
            open_up(rendezvous->where, places, *count_out);
        return status;
    }
    places[0] = kolo_place_make(AF_INET, NULL, 0);
    places[1] = kolo_place_make(AF_INET6, NULL, 0);
    *count_out = 2;
    return KOLO_OK;
}

/** Listens at every place that this machine has; one is enough (a machine without IPv6, a name
 * with an address of another interface). */
static kolo_status start_store(struct kolo_rendezvous_host *host,
                               const struct kolo_store_server_config *config, uint16_t *port_out)
{
    struct kolo_place places[KOLO_RENDEZVOUS_PLACES_MAX];
    size_t count = 0;
    char why[KOLO_DETAIL_MAX];
    kolo_status status = find_places(&host->rendezvous, places, &count);
    if (status != KOLO_OK)
        return status;
    status = kolo_store_thread_start(config, places, count, port_out, &host->thread);
    for (size_t i = 0; status != KOLO_OK && count > 1 && i < count; i++)
        status = kolo_store_thread_start(config, &places[i], 1, port_out, &host->thread);
    if (status == KOLO_OK || host->rendezvous.kind == KOLO_RENDEZVOUS_FILE)
        return status;
    snprintf(why, sizeof why, "%s", kolo_error_detail());
    return kolo_fail(
        KOLO_ERR_CONNECT,
        "rank 0 cannot listen at tcp://%s: %s; the rendezvous names a free port of the "
        "host that rank 0 runs on",
        host->rendezvous.where, why);
}

kolo_status kolo_rendezvous_host_open(const struct kolo_rendezvous *rendezvous, const char *net,
                                      const struct kolo_store_server_config *config,
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
    KOLO_TRY(start_store(host, &own, &port));
    if (rendezvous->kind == KOLO_RENDEZVOUS_FILE)
        KOLO_TRY(publish(host, net, port));
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
    struct file_state state;
    if (!host)
        return;
    if (host->has_file && load_file(host->rendezvous.where, &state) == KOLO_OK &&
        state.job_id == host->job_id)
        (void)unlink(host->rendezvous.where);
    kolo_store_thread_stop(host->thread, deadline);
    kolo_free_memory(host);
}

/* ---- the other ranks ---- */

struct looking {
    const char *path;
    const struct file_state *seen;
};

/** The file is no longer the one that is being dialled. One that is gone may come back. */
static bool has_changed(void *context)
{
    const struct looking *looking = context;
    struct stat info;
    if (stat(looking->path, &info) < 0)
        return false;
    return info.st_ino != looking->seen->inode ||
           info.st_mtim.tv_sec != looking->seen->changed.tv_sec ||
           info.st_mtim.tv_nsec != looking->seen->changed.tv_nsec;
}

/** Waits for @p path to be another version than @p seen, or to be looked at again. */
static void pause_look(struct kolo_poller *poller, kolo_deadline deadline)
{
    kolo_poller_sleep(poller, kolo_deadline_min(deadline, kolo_deadline_in_ms(LOOK_EVERY_MS)));
}

/** Says in the end why nothing came of it; @p why is what the last attempt met. */
static kolo_status give_up(const char *path, kolo_status status, const char *why)
{
    if (status == KOLO_ERR_NOT_FOUND && !why[0])
        return kolo_fail(
            KOLO_ERR_TIMEOUT,
            "rendezvous file %s did not appear in time; is rank 0 running, and does it "
            "share this path?",
            path);
    return kolo_fail(status == KOLO_ERR_AUTH ? KOLO_ERR_AUTH : KOLO_ERR_TIMEOUT,
                     "the store that rendezvous file %s names could not be reached in time: %s; a "
                     "file that an older run left may be removed",
                     path, why);
}

static kolo_status dial_by_file(const char *path, const struct kolo_secret *secret, int rank,
                                kolo_deadline deadline, int *fd_out)
{
    char why[KOLO_DETAIL_MAX / 2] = "";
    struct file_state state = {0};
    struct looking looking = {path, &state};
    struct kolo_poller *poller;
    kolo_status status = kolo_poller_create(&poller);
    kolo_status last = KOLO_ERR_NOT_FOUND;
    if (status != KOLO_OK)
        return status;
    for (;;) {
        status = load_file(path, &state);
        if (status == KOLO_OK)
            status = kolo_store_dial(&(struct kolo_store_dial_config){.places = state.places,
                                                                      .count = state.count,
                                                                      .secret = secret,
                                                                      .rank = rank,
                                                                      .job_id = state.job_id,
                                                                      .deadline = deadline,
                                                                      .is_stale = has_changed,
                                                                      .context = &looking},
                                     fd_out);
        if (status == KOLO_OK || status == KOLO_ERR_NO_MEMORY)
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
    kolo_status status =
        kolo_places_resolve(rendezvous->where, places, KOLO_RENDEZVOUS_PLACES_MAX, &count);
    if (status != KOLO_OK)
        return status;
    const struct kolo_store_dial_config dial_config = {
        .places = places, .count = count, .secret = secret, .rank = rank, .deadline = deadline};
    status = kolo_store_dial(&dial_config, fd_out);
    if (status != KOLO_ERR_CONNECT && status != KOLO_ERR_TIMEOUT)
        return status;
    return kolo_fail(status,
                     "%s; is rank 0 (or kolorun) running, KOLO_RENDEZVOUS=tcp://%s its host and "
                     "port, and does a firewall let that through?",
                     kolo_error_detail(), rendezvous->where);
}

/** What the store's host offers is of the networks that KOLO_NET names: where this machine has none
 * of them, that is why it was not reached. */
static kolo_status blame_net(const char *net, kolo_status status)
{
    struct kolo_place place;
    size_t count = 0;
    char why[KOLO_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", kolo_error_detail());
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
    if (status == KOLO_ERR_CONNECT || status == KOLO_ERR_TIMEOUT)
        return blame_net(net, status);
    return status;
}
