// SPDX-License-Identifier: Apache-2.0
// Owns the rendezvous file:
//
//   kolo-rendezvous 1 job 0123456789abcdef place 10.0.0.5:4711 place [2001:db8::5]:4711 end
//
// It is put in place by rename, so it is complete or does not exist. It contains nothing secret: if
// somebody writes a false file, ranks dial in vain, because the proof of the secret fails. Must
// never wait for what is there instead of a regular file (a pipe) or for a name server, nor replace
// what is not a regular file.
//
// The file is shared by hosts, often over a network, and such a file system may stop answering. So
// each access is an errand (base/errand.h), which its caller leaves at a deadline.
#include "runtime/rendezvous_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errand.h"

enum { FILE_BYTES_MAX = 4096, LINE_MAX_BYTES = 160 };

/* ---- reading the file ---- */

/** Reads at most FILE_BYTES_MAX - 1 bytes of the regular file at @p path, NUL-terminated. */
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

/** Parses one line. Host names must be numeric addresses, so that resolving one never waits for a
 * name server. */
static bool take_line(const char *line, struct kolo_rendezvous_file *state)
{
    size_t more = 0;
    if (strncmp(line, "job ", 4) == 0)
        return read_job_id(line + 4, &state->job_id);
    if (strncmp(line, "place ", 6) != 0 || state->count == KOLO_RENDEZVOUS_PLACES_MAX ||
        (line[6] != '[' && strspn(line + 6, "0123456789.:") != strlen(line + 6)))
        return false;
    if (kolo_places_resolve(line + 6, 0, &state->places[state->count], 1, &more) != KOLO_OK)
        return false;
    state->count += more;
    return true;
}

static bool parse_file(char *text, struct kolo_rendezvous_file *state)
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

static kolo_status load(const char *path, struct kolo_rendezvous_file *state_out)
{
    char text[FILE_BYTES_MAX];
    struct stat info;
    struct kolo_rendezvous_file state = {0};
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

static bool has_changed(const char *path, const struct kolo_rendezvous_file *seen)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return false;
    return info.st_ino != seen->inode || info.st_mtim.tv_sec != seen->changed.tv_sec ||
           info.st_mtim.tv_nsec != seen->changed.tv_nsec;
}

/* ---- writing the file ---- */

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

/** Makes the rename durable where the file system supports it; the file can be read without
 * that. */
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

/** What a file may not hold must not be written: that would end the program by SIGXFSZ. */
static bool may_hold(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
}

/** Writes @p text to @p path: all of it or nothing. */
static kolo_status put_file(const char *path, const char *text, size_t bytes)
{
    char fresh[KOLO_TEXT_MAX + 8];
    struct stat there;
    if (!may_hold(bytes))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, EFBIG, "cannot write rendezvous file %s", path);
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) /* the rename would replace it */
        return kolo_fail(KOLO_ERR_CONFIG, "rendezvous file %s: exists and is not a regular file",
                         path);
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

static size_t write_text(char text[FILE_BYTES_MAX], uint64_t job_id,
                         const struct kolo_place *places, size_t count)
{
    size_t used = (size_t)snprintf(text, FILE_BYTES_MAX, "kolo-rendezvous 1\njob %016llx\n",
                                   (unsigned long long)job_id);
    for (size_t i = 0; i < count; i++) {
        char place[KOLO_PLACE_TEXT_MAX];
        kolo_place_format(&places[i], place, sizeof place);
        used += (size_t)snprintf(text + used, FILE_BYTES_MAX - used, "place %s\n", place);
    }
    return used + (size_t)snprintf(text + used, FILE_BYTES_MAX - used, "end\n");
}

/* ---- by a deadline ---- */

/** One access to the file, all of which is the errand's. */
struct access {
    kolo_status (*act)(struct access *access);
    char path[KOLO_TEXT_MAX];
    struct kolo_rendezvous_file state; /* that was read, or that is asked about */
    size_t bytes;
    char text[FILE_BYTES_MAX]; /* to be written */
    kolo_status status;
    char detail[KOLO_DETAIL_MAX]; /* of the errand's thread */
};

static kolo_status act_load(struct access *access)
{
    return load(access->path, &access->state);
}

static kolo_status act_has_changed(struct access *access)
{
    return has_changed(access->path, &access->state) ? KOLO_OK : KOLO_AGAIN;
}

static kolo_status act_put(struct access *access)
{
    return put_file(access->path, access->text, access->bytes);
}

static kolo_status act_remove(struct access *access)
{
    struct kolo_rendezvous_file there;
    const kolo_status status = load(access->path, &there);
    if (status == KOLO_OK && there.job_id == access->state.job_id)
        (void)unlink(access->path);
    return status;
}

static void run(void *memory)
{
    struct access *access = memory;
    access->status = access->act(access);
    kolo_detail_keep(access->detail);
}

static struct access *create(const char *path, kolo_status (*act)(struct access *access))
{
    struct access *access = kolo_errand_create(sizeof *access);
    if (!access)
        return NULL;
    access->act = act;
    snprintf(access->path, sizeof access->path, "%s", path);
    return access;
}

/** Runs @p access to @p path, and consumes it. @param state_out what was read; may be NULL. */
static kolo_status perform(struct access *access, const char *path, kolo_deadline deadline,
                           struct kolo_rendezvous_file *state_out)
{
    static const struct kolo_errand errand = {.run = run};
    const int error = kolo_errand_run(&errand, access, deadline, NULL);
    if (error == ETIMEDOUT)
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "rendezvous file %s: its file system did not answer in time", path);
    kolo_status status = access->status;
    if (error != 0)
        status =
            kolo_fail_start(error, "rendezvous file %s: cannot start a thread to use it", path);
    else if (status != KOLO_OK)
        kolo_detail_set(access->detail);
    else if (state_out)
        *state_out = access->state;
    kolo_errand_destroy(access);
    return status;
}

kolo_status kolo_rendezvous_file_load(const char *path, kolo_deadline deadline,
                                      struct kolo_rendezvous_file *state_out)
{
    struct access *access = create(path, act_load);
    return access ? perform(access, path, deadline, state_out) : KOLO_ERR_NO_MEMORY;
}

bool kolo_rendezvous_file_has_changed(const char *path, kolo_deadline deadline,
                                      const struct kolo_rendezvous_file *seen)
{
    struct access *access = create(path, act_has_changed);
    if (!access)
        return false;
    access->state = *seen;
    return perform(access, path, deadline, NULL) == KOLO_OK;
}

kolo_status kolo_rendezvous_file_put(const char *path, kolo_deadline deadline, uint64_t job_id,
                                     const struct kolo_place *places, size_t count)
{
    struct access *access = create(path, act_put);
    if (!access)
        return KOLO_ERR_NO_MEMORY;
    access->bytes = write_text(access->text, job_id, places, count);
    return perform(access, path, deadline, NULL);
}

void kolo_rendezvous_file_remove(const char *path, kolo_deadline deadline, uint64_t job_id)
{
    struct access *access = create(path, act_remove);
    if (!access)
        return;
    access->state.job_id = job_id;
    (void)perform(access, path, deadline, NULL);
}
