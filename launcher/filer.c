// SPDX-License-Identifier: Apache-2.0
// Over a pair of sockets: a request, its bytes, an answer, the next request. Only the process uses
// rank_files.c, so that nothing in kolorun waits for the file system; not even its exit, which
// would close the files.
//
// The process is a fork without exec, made while kolorun has one thread. It keeps none of kolorun's
// descriptors: whoever reads kolorun's output must not wait for a process that was left behind. It
// ignores the signals of a terminal, and ends when kolorun is gone, after what came before that.
#include "launcher/filer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/parts.h"
#include "launcher/rank_files.h"

enum { STREAMS = 2, PIECE_BYTES = 64 << 10, PARTS_MAX = 64, NONE = -1 };

enum what { WRITE, END_FILE, KEEP, REMOVE };

struct request {
    enum what what;
    int file;       /* of WRITE and END_FILE */
    uint64_t bytes; /* of WRITE; they follow */
};

struct answer {
    int error; /* of WRITE: an error number; else a kolo_status, with its detail */
    uint64_t written;
    char detail[KOLO_DETAIL_MAX];
};

struct kolo_filer {
    const char *directory;
    int size, socket;
    pid_t pid;       /* 0: it was reaped */
    atomic_int file; /* that is being written; NONE */
    atomic_ullong progress;
    atomic_bool is_abandoned;
};

static bool receive_all(int fd, void *data, size_t bytes)
{
    for (uint8_t *to = data; bytes > 0;) {
        const ssize_t got = recv(fd, to, bytes, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        const size_t taken = got > 0 ? (size_t)got : 0;
        to += taken;
        bytes -= taken;
    }
    return true;
}

/* ---- the process ---- */

static void answer_status(int fd, kolo_status status)
{
    struct answer answer = {.error = status};
    if (status != KOLO_OK)
        kolo_detail_keep(answer.detail);
    (void)!send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
}

/* Writes what it receives. After an error it still receives the rest. Returns false if kolorun is
 * gone. */
static bool take_write(int fd, const struct kolo_rank_files *files, const struct request *request)
{
    static uint8_t piece[PIECE_BYTES];
    struct answer answer = {.error = 0};
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
    while (receive_all(fd, &request, sizeof request)) {
        if (request.what == KEEP || request.what == REMOVE) {
            answer_status(fd, kolo_rank_files_close(files, request.what == KEEP));
            return;
        }
        if (request.what == END_FILE)
            answer_status(
                fd, kolo_rank_files_end(files, request.file / STREAMS, request.file % STREAMS));
        else if (!take_write(fd, files, &request))
            break;
    }
    (void)kolo_rank_files_close(files, true);
}

/* Keeps only @p fd, as the descriptor FD. */
static void forget_descriptors(int fd)
{
    enum { FD = STDERR_FILENO + 1 };
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < FD && nothing >= 0; i++)
        (void)dup2(nothing, i);
    if (fd != FD)
        (void)dup2(fd, FD);
    (void)close_range(FD + 1, ~0U, 0);
}

static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP, SIGTTOU,
                                  SIGTTIN, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        (void)signal(ignored[i], SIG_IGN);
}

static void process_main(int fd, const char *directory, int size, size_t others)
{
    struct kolo_rank_files *files = NULL;
    (void)prctl(PR_SET_NAME, "kolorun-files");
    ignore_signals();
    forget_descriptors(fd);
    fd = STDERR_FILENO + 1;
    const kolo_status status = kolo_rank_files_create(directory, size, others, &files);
    answer_status(fd, status);
    if (status == KOLO_OK)
        serve(fd, files);
}

/* ---- kolorun ---- */

enum how { ANSWERED, LATE, GONE };

static enum how await_answer(const struct kolo_filer *filer, kolo_deadline deadline,
                             struct answer *answer_out)
{
    struct pollfd readable = {.fd = filer->socket, .events = POLLIN};
    while (poll(&readable, 1, kolo_deadline_poll_ms(deadline)) <= 0)
        if (kolo_deadline_passed(deadline))
            return LATE;
    return receive_all(filer->socket, answer_out, sizeof *answer_out) ? ANSWERED : GONE;
}

static kolo_status is_gone(const struct kolo_filer *filer)
{
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "--output-dir %.512s: kolorun-files, the process that writes them, has died",
                     filer->directory);
}

static void free_filer(struct kolo_filer *filer)
{
    (void)close(filer->socket);
    kolo_free_memory(filer);
}

static kolo_status start_process(struct kolo_filer *filer, size_t others)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return kolo_fail_start(errno, "cannot start a process for --output-dir");
    filer->pid = fork();
    if (filer->pid == 0) {
        process_main(ends[1], filer->directory, filer->size, others);
        _exit(0);
    }
    const int error = errno;
    (void)close(ends[1]);
    filer->socket = ends[0];
    return filer->pid > 0 ? KOLO_OK
                          : kolo_fail_start(error, "cannot start a process for --output-dir");
}

static kolo_status await_files(struct kolo_filer *filer, int64_t limit_ms)
{
    struct answer answer;
    const enum how how = await_answer(filer, kolo_deadline_in_ms(limit_ms), &answer);
    if (how == GONE)
        return is_gone(filer);
    if (how == LATE) {
        kolo_filer_abandon(filer);
        return kolo_fail(KOLO_ERR_CONFIG,
                         "--output-dir %.512s: its file system did not answer within %.1f s "
                         "(--start-timeout); give a directory that can be written",
                         filer->directory, (double)limit_ms / 1000);
    }
    if (answer.error != KOLO_OK)
        kolo_detail_set(answer.detail);
    return answer.error;
}

kolo_status kolo_filer_start(const char *directory, int size, size_t others, int64_t limit_ms,
                             struct kolo_filer **filer_out)
{
    kolo_status status = KOLO_OK;
    struct kolo_filer *filer = kolo_calloc(1, sizeof *filer);
    if (!filer)
        return KOLO_ERR_NO_MEMORY;
    *filer = (struct kolo_filer){.directory = directory, .size = size, .socket = -1, .file = NONE};
    KOLO_TRY(start_process(filer, others));
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
                     const struct iovec *parts, int count, struct answer *answer_out)
{
    struct iovec rest[PARTS_MAX + 1] = {
        {.iov_base = (void *)(uintptr_t)request, .iov_len = sizeof *request}};
    struct iovec *at = rest;
    memcpy(rest + 1, parts, (size_t)count * sizeof parts[0]);
    for (count++; count > 0; atomic_fetch_add(&filer->progress, 1)) {
        const struct msghdr message = {.msg_iov = at, .msg_iovlen = (size_t)count};
        const ssize_t sent = sendmsg(filer->socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        at = kolo_parts_advance(at, &count, sent > 0 ? (size_t)sent : 0);
    }
    return receive_all(filer->socket, answer_out, sizeof *answer_out);
}

/* Writes up to PARTS_MAX parts. */
static int write_some(struct kolo_filer *filer, int file, struct iovec *parts, int count)
{
    struct request request = {.what = WRITE, .file = file};
    struct answer answer;
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
    (void)shutdown(filer->socket, SHUT_RDWR);
    if (filer->pid > 0)
        (void)kill(filer->pid, SIGKILL);
}

bool kolo_filer_reaped(struct kolo_filer *filer, pid_t pid)
{
    if (!filer || filer->pid != pid)
        return false;
    filer->pid = 0;
    return true;
}

/* Lets the process do what a request without bytes says. If that does not end, @p what says what
 * it was. */
static kolo_status command(struct kolo_filer *filer, struct request request, const char *what,
                           int64_t limit_ms)
{
    struct answer answer;
    if (atomic_load(&filer->is_abandoned))
        return KOLO_OK;
    enum how how = GONE;
    if (send(filer->socket, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request)
        how = await_answer(filer, kolo_deadline_in_ms(limit_ms), &answer);
    if (how == ANSWERED) {
        if (answer.error != KOLO_OK)
            kolo_detail_set(answer.detail);
        return answer.error;
    }
    kolo_filer_abandon(filer);
    if (how == GONE)
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
    if (filer->pid > 0 && !atomic_load(&filer->is_abandoned)) /* it ends at once */
        (void)waitpid(filer->pid, NULL, 0);
    if (ended != KOLO_OK)
        kolo_detail_set(why);
    free_filer(filer);
    return ended != KOLO_OK ? ended : closed;
}
