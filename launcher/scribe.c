// SPDX-License-Identifier: Apache-2.0
// Bytes are sent as requests without an answer; after the first failure the process only receives
// them, and tells the failure when it is asked to sync or to keep the file. If kolorun is gone
// before that, the file is not kept.
//
// The process opens the file before it gives up kolorun's descriptors, since the path may be that
// of one (/dev/stdout, /dev/fd/63); but it makes mere names of them first.
#include "launcher/scribe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/beside.h"
#include "launcher/parts.h"
#include "launcher/rank_files.h"
#include "tools/outfile.h"

enum { PIECE_BYTES = 64 << 10, LOOK_MS = 100 };

enum what { WRITE, SYNC, KEEP, DROP };

struct request {
    enum what what;
    uint64_t bytes; /* of WRITE; they follow */
};

struct kolo_scribe {
    struct kolo_beside beside;
    struct kolo_scribe_place place;
    FILE *stream;
    enum kolo_beside_how how; /* LATE, GONE: nothing more can be written */
};

/* ---- the process ---- */

/* Writes what it receives, unless @p error says that something failed before. Returns false if
 * kolorun is gone. */
static bool take_write(int fd, int file, uint64_t bytes, int *error)
{
    static uint8_t piece[PIECE_BYTES];
    while (bytes > 0) {
        const ssize_t got = recv(fd, piece, bytes < sizeof piece ? bytes : sizeof piece, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        struct iovec part = {.iov_base = piece, .iov_len = got > 0 ? (size_t)got : 0};
        bytes -= part.iov_len;
        if (*error == 0)
            *error = kolo_parts_write(file, &part, 1);
    }
    return true;
}

static kolo_status outcome(const struct outfile *file, int error)
{
    return error == 0 ? KOLO_OK
                      : kolo_fail_errno(KOLO_ERR_SYSTEM, error, "%s %s", file->option, file->path);
}

static void finish(int fd, struct outfile *file, int error, bool keep)
{
    const kolo_status closed = outfile_close(file, keep && error == 0);
    kolo_beside_answer(fd, keep && error != 0 ? outcome(file, error) : closed);
}

static void serve(int fd, struct outfile *file)
{
    struct request request;
    int error = 0;
    while (kolo_beside_receive(fd, &request, sizeof request)) {
        if (request.what == KEEP || request.what == DROP) {
            finish(fd, file, error, request.what == KEEP);
            return;
        }
        if (request.what == SYNC)
            kolo_beside_answer(fd, outcome(file, error));
        else if (!take_write(fd, file->fd, request.bytes, &error))
            break;
    }
    (void)outfile_close(file, false);
}

/* As outfile_open, but not of a file that ranks have, or that is read. */
static kolo_status open_file(const struct kolo_scribe_place *place, struct outfile *file)
{
    kolo_status status =
        place->input ? outfile_spares(place->option, place->path, &place->input, 1) : KOLO_OK;
    if (status == KOLO_OK)
        status = outfile_open(file, place->option, place->path);
    if (status != KOLO_OK || !place->output_dir ||
        !kolo_rank_files_claim(place->output_dir, file->target))
        return status;
    (void)outfile_close(file, false);
    return kolo_fail(KOLO_ERR_CONFIG,
                     "%s %.512s: --output-dir %.512s keeps that name for the output of a rank; "
                     "name another file",
                     place->option, place->path, place->output_dir);
}

static void open_main(int fd, void *context)
{
    const struct kolo_scribe_place *place = context;
    struct outfile file;
    kolo_beside_shed(fd);
    const kolo_status status = open_file(place, &file);
    if (status != KOLO_OK) {
        kolo_beside_answer(fd, status);
        return;
    }
    kolo_beside_keep_only(fd, file.fd);
    kolo_beside_begin(fd);
    serve(fd, &file);
}

/* What is no file may notice that it is opened. */
static kolo_status probe(const struct kolo_scribe_place *place)
{
    struct outfile file;
    struct stat facts;
    if (strcmp(place->path, "-") == 0 ||
        (stat(place->path, &facts) == 0 && !S_ISREG(facts.st_mode)))
        return outfile_probe(place->option, place->path);
    const kolo_status status = open_file(place, &file);
    if (status == KOLO_OK)
        (void)outfile_close(&file, false);
    return status;
}

static void probe_main(int fd, void *context)
{
    const struct kolo_scribe_place *place = context;
    kolo_beside_shed(fd);
    kolo_beside_answer(fd, probe(place));
}

/* ---- kolorun ---- */

/* Sends all @p bytes. Returns false, and remembers why, if that is not possible. */
static bool put(struct kolo_scribe *scribe, const void *data, size_t bytes)
{
    struct pollfd room = {.fd = scribe->beside.socket, .events = POLLOUT};
    const uint8_t *at = data;
    int64_t waited = 0;
    while (bytes > 0 && scribe->how == KOLO_BESIDE_ANSWERED) {
        const ssize_t sent = send(room.fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            scribe->how = KOLO_BESIDE_GONE;
        else if (sent < 0 && poll(&room, 1, LOOK_MS) <= 0)
            waited += LOOK_MS;
        else
            waited = 0;
        if (waited > scribe->place.write_limit_ms)
            scribe->how = KOLO_BESIDE_LATE;
        at += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
    }
    return bytes == 0;
}

static ssize_t write_some(void *cookie, const char *data, size_t bytes)
{
    const struct request request = {.what = WRITE, .bytes = bytes};
    return put(cookie, &request, sizeof request) && put(cookie, data, bytes) ? (ssize_t)bytes : 0;
}

static kolo_status fail_gone(const struct kolo_scribe_place *place)
{
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "%s %.512s: kolorun-files, the process that writes it, has died",
                     place->option, place->path);
}

/* Why nothing more is written. */
static kolo_status why_not(const struct kolo_scribe *scribe)
{
    const struct kolo_scribe_place *place = &scribe->place;
    if (scribe->how == KOLO_BESIDE_GONE)
        return fail_gone(place);
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "%s %.512s: its file system did not answer within %.1f s (KOLO_EXIT_TIMEOUT)",
                     place->option, place->path, (double)place->write_limit_ms / 1000);
}

static kolo_status taken(const struct kolo_beside_answer *answer)
{
    if (answer->error != KOLO_OK)
        kolo_detail_set(answer->detail);
    return answer->error;
}

static kolo_status command(struct kolo_scribe *scribe, enum what what)
{
    const struct request request = {.what = what};
    struct kolo_beside_answer answer;
    if (fflush(scribe->stream) != 0 || !put(scribe, &request, sizeof request))
        return why_not(scribe);
    scribe->how = kolo_beside_await(&scribe->beside, scribe->place.write_limit_ms, &answer);
    return scribe->how == KOLO_BESIDE_ANSWERED ? taken(&answer) : why_not(scribe);
}

/* Starts the process and waits for its first answer. On failure, ends it. */
static kolo_status begin(struct kolo_beside *beside, const struct kolo_scribe_place *place,
                         void (*serve_main)(int fd, void *context))
{
    struct kolo_beside_answer answer;
    kolo_status status =
        kolo_beside_start(beside, place->option, serve_main, (void *)(uintptr_t)place);
    if (status != KOLO_OK)
        return status;
    const enum kolo_beside_how how = kolo_beside_await(beside, place->open_limit_ms, &answer);
    if (how == KOLO_BESIDE_LATE)
        kolo_beside_abandon(beside);
    status = how == KOLO_BESIDE_ANSWERED ? taken(&answer)
             : how == KOLO_BESIDE_GONE
                 ? fail_gone(place)
                 : kolo_fail(KOLO_ERR_CONFIG,
                             "%s %.512s: not opened within %.1f s (%s), as its file "
                             "system, or the reader of a pipe, did not answer; give a file that "
                             "can be written",
                             place->option, place->path, (double)place->open_limit_ms / 1000,
                             place->open_limit ? place->open_limit : "--start-timeout");
    if (status != KOLO_OK)
        kolo_beside_end(beside, how == KOLO_BESIDE_ANSWERED);
    return status;
}

kolo_status kolo_scribe_probe(const struct kolo_scribe_place *place)
{
    struct kolo_beside beside;
    const kolo_status status = begin(&beside, place, probe_main);
    if (status == KOLO_OK)
        kolo_beside_end(&beside, true);
    return status;
}

static void free_scribe(struct kolo_scribe *scribe)
{
    if (scribe->stream)
        (void)fclose(scribe->stream);
    kolo_free_memory(scribe);
}

kolo_status kolo_scribe_open(const struct kolo_scribe_place *place, struct kolo_scribe **scribe_out)
{
    static const cookie_io_functions_t functions = {.write = write_some};
    kolo_status status = KOLO_ERR_NO_MEMORY;
    struct kolo_scribe *scribe = kolo_calloc(1, sizeof *scribe);
    if (!scribe)
        return status;
    *scribe = (struct kolo_scribe){.place = *place, .how = KOLO_BESIDE_ANSWERED};
    scribe->stream = fopencookie(scribe, "w", functions);
    if (scribe->stream)
        status = begin(&scribe->beside, place, open_main);
    if (status == KOLO_OK)
        *scribe_out = scribe;
    else
        free_scribe(scribe);
    return status;
}

FILE *kolo_scribe_stream(const struct kolo_scribe *scribe)
{
    return scribe->stream;
}

kolo_status kolo_scribe_sync(struct kolo_scribe *scribe)
{
    return command(scribe, SYNC);
}

kolo_status kolo_scribe_close(struct kolo_scribe *scribe, bool keep)
{
    char why[KOLO_DETAIL_MAX];
    if (!scribe)
        return KOLO_OK;
    const kolo_status status = command(scribe, keep ? KEEP : DROP);
    kolo_detail_keep(why);
    const enum kolo_beside_how how = scribe->how;
    if (how != KOLO_BESIDE_ANSWERED)
        kolo_beside_abandon(&scribe->beside);
    kolo_beside_end(&scribe->beside, how == KOLO_BESIDE_ANSWERED);
    free_scribe(scribe);
    if (status != KOLO_OK)
        kolo_detail_set(why);
    return keep || how != KOLO_BESIDE_ANSWERED ? status : KOLO_OK;
}
