// SPDX-License-Identifier: Apache-2.0
// Reads files, see source.h; unpack.c gives their content. Lines are counted only if asked for: the
// line ends of a piece are counted when the next piece is read.
#include "evaluate/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { PIECE_BYTES = 1 << 20 };

static int64_t ns_of(const struct timespec *time)
{
    const int64_t second_ns = 1000000000;
    return time->tv_sec * second_ns + time->tv_nsec;
}

static kolo_status open_file(const char *path, int *fd_out, struct stat *facts_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int cause = fd < 0                        ? errno
                : fstat(fd, facts_out) < 0    ? errno
                : S_ISDIR(facts_out->st_mode) ? EISDIR
                                              : 0;
    if (cause && fd >= 0)
        (void)close(fd);
    *fd_out = fd;
    return cause ? kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "%s", path) : KOLO_OK;
}

kolo_status eval_source_open(struct eval_source *source, const char *path, bool is_summed)
{
    int fd;
    struct stat facts;
    *source = (struct eval_source){.path = path, .is_summed = is_summed};
    kolo_status status = open_file(path, &fd, &facts);
    if (status != KOLO_OK)
        return status;
    source->is_regular = S_ISREG(facts.st_mode);
    source->size = facts.st_size;
    source->written_ns = ns_of(&facts.st_mtim);
    status = eval_unpack_open(&source->content, path, fd);
    if (status != KOLO_OK)
        return status;
    source->data = kolo_calloc(1, PIECE_BYTES);
    if (!source->data) {
        eval_source_close(source);
        return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: no memory to read it", path);
    }
    source->sum = (uint32_t)crc32(0, NULL, 0);
    eval_progress_begin(&source->progress, path, (uint64_t)facts.st_size);
    return KOLO_OK;
}

struct eval_identity eval_source_identify(const char *path, char first)
{
    struct eval_identity identity = {.bytes = 0};
    struct stat facts;
    char begin = 0;
    /* before opening it: opening and closing a pipe would end its writer */
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))
        return identity;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return identity;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && pread(fd, &begin, 1, 0) == 1 &&
        begin == first)
        identity = (struct eval_identity){.device = (int64_t)facts.st_dev,
                                          .inode = (int64_t)facts.st_ino,
                                          .bytes = facts.st_size,
                                          .changed_ns = ns_of(&facts.st_ctim),
                                          .written_ns = ns_of(&facts.st_mtim)};
    (void)close(fd);
    return identity;
}

kolo_status eval_source_skip(struct eval_source *source, uint64_t to)
{
    kolo_status status = eval_unpack_skip(&source->content, to);
    if (status != KOLO_OK)
        return status;
    source->before = to;
    source->is_summed = false;
    return KOLO_OK;
}

static void leave_piece(struct eval_source *source)
{
    const unsigned char *at = source->data, *end = at + source->bytes;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        source->lines++;
        source->line_start = source->before + (uint64_t)(at - source->data);
    }
    source->before += source->bytes;
    source->bytes = 0;
}

/* Python's json refuses it too. */
static kolo_status check_first_piece(const struct eval_source *source)
{
    static const struct {
        unsigned char bytes[3];
        size_t count;
        const char *words;
    } marks[] = {{{0xef, 0xbb, 0xbf},
                  3,
                  "a byte order mark (EF BB BF); write the file as UTF-8 without one"},
                 {{0xff, 0xfe}, 2, "a byte order mark of UTF-16 (FF FE); write the file as UTF-8"},
                 {{0xfe, 0xff}, 2, "a byte order mark of UTF-16 (FE FF); write the file as UTF-8"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (source->bytes >= marks[i].count &&
            memcmp(source->data, marks[i].bytes, marks[i].count) == 0)
            return eval_source_fail(source, 0, marks[i].words);
    return KOLO_OK;
}

kolo_status eval_source_next(struct eval_source *source)
{
    leave_piece(source);
    eval_progress_at(&source->progress, eval_unpack_used(&source->content));
    kolo_status status =
        eval_unpack_read(&source->content, source->data, PIECE_BYTES, &source->bytes);
    if (status != KOLO_OK) {
        source->bytes = 0;
        return status;
    }
    if (source->is_summed)
        source->sum = (uint32_t)crc32(source->sum, source->data, (unsigned)source->bytes);
    return source->before == 0 ? check_first_piece(source) : KOLO_OK;
}

kolo_status eval_source_judge(const struct eval_source *source, kolo_status status)
{
    struct stat facts;
    const bool is_about_content = status == KOLO_OK || status == KOLO_ERR_DATA;
    if (!source->is_regular || !is_about_content || fstat(source->content.fd, &facts) != 0 ||
        (facts.st_size == source->size && ns_of(&facts.st_mtim) == source->written_ns))
        return status;
    return kolo_fail(KOLO_ERR_DATA,
                     "%s: it was written to while it was read; try again when it is complete",
                     source->path);
}

kolo_status eval_source_fail(const struct eval_source *source, size_t at, const char *what)
{
    uint64_t line = source->lines + 1, start = source->line_start;
    for (size_t i = 0; i < at && i < source->bytes; i++)
        if (source->data[i] == '\n') {
            line++;
            start = source->before + i + 1;
        }
    uint64_t byte = source->before + at;
    return kolo_fail(KOLO_ERR_DATA, "%s: line %llu, column %llu (byte %llu): %s", source->path,
                     (unsigned long long)line, (unsigned long long)(byte - start + 1),
                     (unsigned long long)byte, what);
}

void eval_source_close(struct eval_source *source)
{
    eval_progress_end(&source->progress);
    eval_unpack_close(&source->content);
    kolo_free_memory(source->data);
    *source = (struct eval_source){.path = source->path};
}
