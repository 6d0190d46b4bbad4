// SPDX-License-Identifier: Apache-2.0
// Reads files, see source.h. zlib reads plain files as they are and unpacks gzip; a truncated or
// damaged gzip file is an error here, never a short file. Lines are counted only if asked for: the
// line ends of a piece are counted when the next piece is read.
#include "evaluate/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { PIECE_BYTES = 1 << 20, PACKED_BYTES = 1 << 18 };

static kolo_status open_file(const char *path, int *fd_out, uint64_t *bytes_out)
{
    struct stat facts = {.st_size = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int cause = fd < 0                   ? errno
                : fstat(fd, &facts) < 0  ? errno
                : S_ISDIR(facts.st_mode) ? EISDIR
                                         : 0;
    if (cause && fd >= 0)
        (void)close(fd);
    *fd_out = fd;
    *bytes_out = (uint64_t)facts.st_size;
    return cause ? kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "%s", path) : KOLO_OK;
}

kolo_status eval_source_open(struct eval_source *source, const char *path, bool is_summed)
{
    int fd;
    uint64_t bytes;
    *source = (struct eval_source){.path = path, .is_summed = is_summed};
    kolo_status status = open_file(path, &fd, &bytes);
    if (status != KOLO_OK)
        return status;
    source->data = kolo_calloc(1, PIECE_BYTES);
    source->file = source->data ? gzdopen(fd, "rb") : NULL;
    if (!source->file || gzbuffer(source->file, PACKED_BYTES) != 0) {
        if (!source->file)
            (void)close(fd);
        eval_source_close(source);
        return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: no memory to read it", path);
    }
    source->sum = (uint32_t)crc32(0, NULL, 0);
    eval_progress_begin(&source->progress, path, bytes);
    return KOLO_OK;
}

struct eval_identity eval_source_identify(const char *path, char first)
{
    const int64_t second_ns = 1000000000;
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
        identity = (struct eval_identity){
            .device = (int64_t)facts.st_dev,
            .inode = (int64_t)facts.st_ino,
            .bytes = facts.st_size,
            .changed_ns = facts.st_ctim.tv_sec * second_ns + facts.st_ctim.tv_nsec,
            .written_ns = facts.st_mtim.tv_sec * second_ns + facts.st_mtim.tv_nsec};
    (void)close(fd);
    return identity;
}

kolo_status eval_source_skip(struct eval_source *source, uint64_t to)
{
    if (!gzdirect(source->file))
        return kolo_fail(KOLO_ERR_DATA, "%s: a part of a packed file", source->path);
    if (gzseek(source->file, (z_off_t)to, SEEK_SET) != (z_off_t)to)
        return kolo_fail(KOLO_ERR_SYSTEM, "%s: no byte %llu in it", source->path,
                         (unsigned long long)to);
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

/* zlib's message, without the "<fd:5>: " that it begins with if it was given no name. */
static const char *zlib_words(struct eval_source *source, int *error_out)
{
    const char *words = gzerror(source->file, error_out), *end = strstr(words, ">: ");
    return strncmp(words, "<fd:", strlen("<fd:")) == 0 && end ? end + strlen(">: ") : words;
}

kolo_status eval_source_next(struct eval_source *source)
{
    leave_piece(source);
    z_off_t packed = gzoffset(source->file); /* a pipe has none */
    eval_progress_at(&source->progress, packed < 0 ? source->before : (uint64_t)packed);
    errno = 0;
    int got = gzread(source->file, source->data, PIECE_BYTES), error = Z_OK;
    int cause = errno;
    if (got < PIECE_BYTES) {
        const char *words = zlib_words(source, &error);
        if (error == Z_ERRNO)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "%s", source->path);
        if (error == Z_BUF_ERROR)
            return kolo_fail(
                KOLO_ERR_DATA, "%s: the gzip file is cut: it ends after %llu bytes of content",
                source->path, (unsigned long long)source->before + (got > 0 ? (unsigned)got : 0));
        if (error != Z_OK || got < 0)
            return kolo_fail(KOLO_ERR_DATA, "%s: damaged gzip data after %llu bytes of content: %s",
                             source->path, (unsigned long long)source->before, words);
    }
    source->bytes = (size_t)got;
    if (source->is_summed)
        source->sum = (uint32_t)crc32(source->sum, source->data, (unsigned)got);
    return source->before == 0 ? check_first_piece(source) : KOLO_OK;
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
    if (source->file)
        (void)gzclose(source->file);
    kolo_free_memory(source->data);
    *source = (struct eval_source){.path = source->path};
}
