// SPDX-License-Identifier: Apache-2.0
// A request, its bytes, an answer, the next request. Only the process (beside.h) uses rank_files.c,
// so that nothing in kolorun waits for the file system; not even its exit, which would close the
// files.
#include "launcher/filer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/beside.h"
#include "launcher/parts.h"
#include "launcher/rank_files.h"

enum { STREAMS = 2, PIECE_BYTES = 64 << 10, PARTS_MAX = 64, NONE = -1 };
enum { OPEN_BEFORE = STDERR_FILENO + 2 /* with the socket */ };

enum what { WRITE, END_FILE, KEEP, REMOVE };

struct request {
    enum what what;
    int file;       /* of WRITE and END_FILE */
    uint64_t bytes; /* of WRITE; they follow */
};

struct kolo_filer {
    struct kolo_beside beside;
    const char *directory;
    int size;
    atomic_int file; /* that is being written; NONE */
    atomic_ullong progress;
    atomic_bool is_abandoned;
};

/* ---- the process ---- */

/* Writes what it receives. After an error it still receives the rest. Returns false if kolorun is
 * gone. */
static bool take_write(int fd, const struct kolo_rank_files *files, const struct request *request)
{
    static uint8_t piece[PIECE_BYTES];
    struct kolo_beside_answer answer = {.error = 0};
    const int file = kolo_rank_files_fd(files, request->file / STREAMS, request->file % STREAMS);
    for (uint64_t left = request->bytes; left > 0;) {
        const ssize_t got = recv(fd, piece, left < sizeof piece ? left : sizeof piece, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        struct iovec part = {.iov_base = piece, .iov_len = got > 0 ? (size_t)got : 0};
        left -= part.iov_len;
        if (answer.error == 0) {
            answer.error = kolo_parts_write(file, &part, 1);
            answer.written += (got > 0 ? (size_t)got : 0) - part.iov_len;
        }
    }
    return send(fd, &answer, sizeof answer, MSG_NOSIGNAL) == (ssize_t)sizeof answer;
}

static void serve(int fd, struct kolo_rank_files *files)
{
    struct request request;
    while (kolo_beside_receive(fd, &request, sizeof request)) {
        if (request.what == KEEP || request.what == REMOVE) {
            kolo_beside_answer(fd, kolo_rank_files_close(files, request.what == KEEP));
            return;
        }
        if (request.what == END_FILE)
            kolo_beside_answer(
                fd, kolo_rank_files_end(files, request.file / STREAMS, request.file % STREAMS));
        else if (!take_write(fd, files, &request))
            break;
    }
    (void)kolo_rank_files_close(files, true);
}

static void process_main(int fd, void *context)
{
    const struct kolo_filer *filer = context;
    struct kolo_rank_files *files = NULL;
    kolo_beside_keep_only(fd, -1);
    const kolo_status status =
        kolo_rank_files_create(filer->directory, filer->size, OPEN_BEFORE, &files);
    if (status != KOLO_OK) {
        kolo_beside_answer(fd, status);
        return;
    }
    kolo_beside_begin(fd);
    serve(fd, files);
}

/* ---- kolorun ---- */

static kolo_status is_gone(const struct kolo_filer *filer)
{
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "--output-dir %.512s: kolorun-files, the process that writes them, has died",
                     filer->directory);
}

/* Waits for the end of a process that has answered to the last: it does nothing more but end. */
static void free_filer(struct kolo_filer *filer)
{
    kolo_beside_end(&filer->beside, !atomic_load(&filer->is_abandoned));
    kolo_free_memory(filer);
}

static kolo_status await_files(struct kolo_filer *filer, int64_t limit_ms)
{
    struct kolo_beside_answer answer;
    const enum kolo_beside_how how = kolo_beside_await(&filer->beside, limit_ms, &answer);
    if (how != KOLO_BESIDE_ANSWERED)
        kolo_filer_abandon(filer);
    if (how == KOLO_BESIDE_GONE)
        return is_gone(filer);
    if (how == KOLO_BESIDE_LATE)
        return kolo_fail(KOLO_ERR_CONFIG,
                         "--output-dir %.512s: its file system did not answer within %.1f s "
                         "(--start-timeout); give a directory that can be written",
                         filer->directory, (double)limit_ms / 1000);
    if (answer.error != KOLO_OK)
        kolo_detail_set(answer.detail);
    return answer.error;
}

kolo_status kolo_filer_start(const char *directory, int size, int64_t limit_ms,
                             struct kolo_filer **filer_out)
{
    kolo_status status = KOLO_OK;
    struct kolo_filer *filer = kolo_calloc(1, sizeof *filer);
    if (!filer)
        return KOLO_ERR_NO_MEMORY;
    *filer = (struct kolo_filer){.directory = directory, .size = size, .file = NONE};
    KOLO_TRY(kolo_beside_start(&filer->beside, "--output-dir", process_main, filer));
    KOLO_TRY(await_files(filer, limit_ms));
    *filer_out = filer;
    return KOLO_OK;
out:
    free_filer(filer);
    return status;
}

int kolo_filer_file(int rank, bool is_error)
{
    return rank * STREAMS + is_error;
}

/* Sends a request and the bytes of @p parts, and receives the answer. */
static bool exchange(struct kolo_filer *filer, const struct request *request,
                     const struct iovec *parts, int count, struct kolo_beside_answer *answer_out)
{
    struct iovec rest[PARTS_MAX + 1] = {
        {.iov_base = (void *)(uintptr_t)request, .iov_len = sizeof *request}};
    struct iovec *at = rest;
    memcpy(rest + 1, parts, (size_t)count * sizeof parts[0]);
    for (count++; count > 0; atomic_fetch_add(&filer->progress, 1)) {
        const struct msghdr message = {.msg_iov = at, .msg_iovlen = (size_t)count};
        const ssize_t sent = sendmsg(filer->beside.socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        at = kolo_parts_advance(at, &count, sent > 0 ? (size_t)sent : 0);
    }
    return kolo_beside_receive(filer->beside.socket, answer_out, sizeof *answer_out);
}

/* Writes up to PARTS_MAX parts. */
static int write_some(struct kolo_filer *filer, int file, struct iovec *parts, int count)
{
    struct request request = {.what = WRITE, .file = file};
    struct kolo_beside_answer answer;
    for (int i = 0; i < count; i++)
        request.bytes += parts[i].iov_len;
    if (!exchange(filer, &request, parts, count, &answer))
        return atomic_load(&filer->is_abandoned) ? ETIMEDOUT : EOWNERDEAD;
    atomic_fetch_add(&filer->progress, 1);
    (void)kolo_parts_advance(parts, &count, answer.written);
    return answer.error;
}

int kolo_filer_write(struct kolo_filer *filer, int file, struct iovec *parts, int count)
{
    int error = 0;
    atomic_store(&filer->file, file);
    while (error == 0 && count > 0) {
        const int some = count < PARTS_MAX ? count : PARTS_MAX;
        error = write_some(filer, file, parts, some);
        parts += some;
        count -= some;
    }
    atomic_store(&filer->file, NONE);
    return error;
}

uint64_t kolo_filer_progress(const struct kolo_filer *filer)
{
    return atomic_load(&filer->progress);
}

void kolo_filer_at(const struct kolo_filer *filer, char name[KOLO_RANK_FILE_NAME_BYTES])
{
    const int file = atomic_load(&filer->file);
    name[0] = '\0';
    if (file != NONE)
        kolo_rank_files_name(filer->size, file / STREAMS, file % STREAMS, name);
}

void kolo_filer_abandon(struct kolo_filer *filer)
{
    atomic_store(&filer->is_abandoned, true);
    kolo_beside_abandon(&filer->beside);
}

/* Lets the process do what a request without bytes says. If that does not end, @p what says what
 * it was. */
static kolo_status command(struct kolo_filer *filer, struct request request, const char *what,
                           int64_t limit_ms)
{
    struct kolo_beside_answer answer;
    if (atomic_load(&filer->is_abandoned))
        return KOLO_OK;
    enum kolo_beside_how how = KOLO_BESIDE_GONE;
    if (send(filer->beside.socket, &request, sizeof request, MSG_NOSIGNAL) ==
        (ssize_t)sizeof request)
        how = kolo_beside_await(&filer->beside, limit_ms, &answer);
    if (how == KOLO_BESIDE_ANSWERED) {
        if (answer.error != KOLO_OK)
            kolo_detail_set(answer.detail);
        return answer.error;
    }
    kolo_filer_abandon(filer);
    if (how == KOLO_BESIDE_GONE)
        return is_gone(filer);
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "--output-dir %.512s: %s did not end within %.1f s (KOLO_EXIT_TIMEOUT)",
                     filer->directory, what, (double)limit_ms / 1000);
}

/* Closes all files, and returns the first failure. */
static kolo_status end_files(struct kolo_filer *filer, int64_t limit_ms)
{
    char what[64], why[KOLO_DETAIL_MAX];
    kolo_status first = KOLO_OK;
    for (int file = 0; file < filer->size * STREAMS; file++) {
        char name[KOLO_RANK_FILE_NAME_BYTES];
        kolo_rank_files_name(filer->size, file / STREAMS, file % STREAMS, name);
        snprintf(what, sizeof what, "closing %s", name);
        const kolo_status status =
            command(filer, (struct request){.what = END_FILE, .file = file}, what, limit_ms);
        if (first != KOLO_OK || status == KOLO_OK)
            continue;
        first = status;
        kolo_detail_keep(why);
    }
    if (first != KOLO_OK)
        kolo_detail_set(why);
    return first;
}

kolo_status kolo_filer_end(struct kolo_filer *filer, bool keep, int64_t limit_ms)
{
    char why[KOLO_DETAIL_MAX];
    if (!filer)
        return KOLO_OK;
    const kolo_status ended = keep ? end_files(filer, limit_ms) : KOLO_OK;
    kolo_detail_keep(why);
    const kolo_status closed = command(filer, (struct request){.what = keep ? KEEP : REMOVE},
                                       keep ? "closing it" : "removing its files", limit_ms);
    if (ended != KOLO_OK)
        kolo_detail_set(why);
    free_filer(filer);
    return ended != KOLO_OK ? ended : closed;
}
