// SPDX-License-Identifier: Apache-2.0
// Unpacks files, see unpack.h. Uses inflate() rather than zlib's gzread(), which takes whatever
// follows the gzip data for padding: a file to which something was appended would be read without a
// word. As with gzip(1) several members may follow one another, and zeros behind the last are
// padding. Never gives out a part of a file that is cut or damaged as if it were the whole.
#include "evaluate/unpack.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { PACKED_BYTES = 1 << 18, GZIP_WINDOW = 15 + 16 };

kolo_status eval_unpack_open(struct eval_unpack *unpack, const char *path, int fd)
{
    *unpack = (struct eval_unpack){.path = path, .fd = fd, .packed = kolo_calloc(1, PACKED_BYTES)};
    if (unpack->packed && inflateInit2(&unpack->stream, GZIP_WINDOW) == Z_OK)
        return KOLO_OK;
    kolo_free_memory(unpack->packed);
    unpack->packed = NULL;
    (void)close(fd);
    return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: no memory to read it", path);
}

/* As read(), and tells the end. */
static kolo_status read_some(struct eval_unpack *unpack, unsigned char *into, size_t capacity,
                             size_t *got_out)
{
    ssize_t got;
    do {
        got = read(unpack->fd, into, capacity);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s", unpack->path);
    unpack->is_over = got == 0;
    unpack->taken += (uint64_t)got;
    *got_out = (size_t)got;
    return KOLO_OK;
}

/* Reads until @p need bytes are there, or the file is over. */
static kolo_status fill(struct eval_unpack *unpack, size_t need)
{
    z_stream *stream = &unpack->stream;
    if (stream->avail_in >= need)
        return KOLO_OK;
    if (stream->avail_in > 0)
        memmove(unpack->packed, stream->next_in, stream->avail_in);
    stream->next_in = unpack->packed;
    while (stream->avail_in < need && !unpack->is_over) {
        size_t got = 0;
        kolo_status status = read_some(unpack, unpack->packed + stream->avail_in,
                                       PACKED_BYTES - stream->avail_in, &got);
        if (status != KOLO_OK)
            return status;
        stream->avail_in += (uInt)got;
    }
    return KOLO_OK;
}

/* Begins a member if one is next. */
static kolo_status begin_member(struct eval_unpack *unpack)
{
    kolo_status status = fill(unpack, 2);
    const unsigned char *next = unpack->stream.next_in;
    unpack->is_inside =
        status == KOLO_OK && unpack->stream.avail_in >= 2 && next[0] == 0x1f && next[1] == 0x8b;
    if (unpack->is_inside)
        (void)inflateReset(&unpack->stream); /* fails only for a stream that was not initialised */
    return status;
}

static kolo_status look(struct eval_unpack *unpack)
{
    if (unpack->kind != EVAL_NOT_LOOKED)
        return KOLO_OK;
    kolo_status status = begin_member(unpack);
    if (status == KOLO_OK)
        unpack->kind = unpack->is_inside ? EVAL_GZIP : EVAL_PLAIN;
    return status;
}

kolo_status eval_unpack_skip(struct eval_unpack *unpack, uint64_t to)
{
    kolo_status status = look(unpack);
    if (status != KOLO_OK)
        return status;
    if (unpack->kind == EVAL_GZIP)
        return kolo_fail(KOLO_ERR_DATA, "%s: a part of a packed file", unpack->path);
    if (lseek(unpack->fd, (off_t)to, SEEK_SET) != (off_t)to)
        return kolo_fail(KOLO_ERR_SYSTEM, "%s: no byte %llu in it", unpack->path,
                         (unsigned long long)to);
    unpack->stream.avail_in = 0;
    unpack->is_over = false;
    unpack->taken = unpack->content = to;
    return KOLO_OK;
}

/* What the look at the beginning has read comes first. */
static kolo_status read_plain(struct eval_unpack *unpack, unsigned char *into, size_t capacity,
                              size_t *got_out)
{
    z_stream *stream = &unpack->stream;
    size_t at = stream->avail_in < capacity ? stream->avail_in : capacity;
    kolo_status status = KOLO_OK;
    if (at > 0)
        memcpy(into, stream->next_in, at);
    stream->next_in += at;
    stream->avail_in -= (uInt)at;
    while (status == KOLO_OK && at < capacity && !unpack->is_over) {
        size_t got = 0;
        status = read_some(unpack, into + at, capacity - at, &got);
        at += got;
    }
    *got_out = at;
    return status;
}

/* After a member: the next one, or the end, perhaps behind zeros. */
static kolo_status go_on(struct eval_unpack *unpack, uint64_t content)
{
    z_stream *stream = &unpack->stream;
    kolo_status status = begin_member(unpack);
    const uint64_t end = eval_unpack_used(unpack);
    while (status == KOLO_OK && !unpack->is_inside && stream->avail_in > 0 &&
           *stream->next_in == 0) {
        stream->next_in++;
        stream->avail_in--;
        status = begin_member(unpack);
    }
    if (status == KOLO_OK && !unpack->is_inside && stream->avail_in > 0)
        status = kolo_fail(KOLO_ERR_DATA,
                           "%s: damaged gzip data after %llu bytes of content: byte %llu of the "
                           "file, behind its gzip data, begins something else",
                           unpack->path, (unsigned long long)content, (unsigned long long)end);
    return status;
}

static kolo_status unpack_some(struct eval_unpack *unpack, uint64_t content)
{
    z_stream *stream = &unpack->stream;
    kolo_status status = fill(unpack, 1);
    if (status != KOLO_OK)
        return status;
    if (stream->avail_in == 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "%s: the gzip file is cut: it ends after %llu bytes of content",
                         unpack->path, (unsigned long long)content);
    int result = inflate(stream, Z_NO_FLUSH);
    unpack->is_inside = result != Z_STREAM_END;
    if (result == Z_MEM_ERROR)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: no memory to unpack it", unpack->path);
    if (result != Z_STREAM_END && result != Z_OK && result != Z_BUF_ERROR)
        return kolo_fail(KOLO_ERR_DATA, "%s: damaged gzip data after %llu bytes of content: %s",
                         unpack->path, (unsigned long long)content,
                         stream->msg ? stream->msg : zError(result));
    return KOLO_OK;
}

static kolo_status read_packed(struct eval_unpack *unpack, unsigned char *into, size_t capacity,
                               size_t *got_out)
{
    z_stream *stream = &unpack->stream;
    kolo_status status = KOLO_OK;
    bool is_over = false;
    stream->next_out = into;
    stream->avail_out = (uInt)capacity;
    while (status == KOLO_OK && stream->avail_out > 0 && !is_over) {
        const uint64_t content = unpack->content + (capacity - stream->avail_out);
        status = unpack->is_inside ? unpack_some(unpack, content) : go_on(unpack, content);
        is_over = !unpack->is_inside && unpack->is_over && stream->avail_in == 0;
    }
    *got_out = capacity - stream->avail_out;
    return status;
}

kolo_status eval_unpack_read(struct eval_unpack *unpack, unsigned char *into, size_t capacity,
                             size_t *got_out)
{
    kolo_status status = look(unpack);
    *got_out = 0;
    if (status == KOLO_OK)
        status = unpack->kind == EVAL_GZIP ? read_packed(unpack, into, capacity, got_out)
                                           : read_plain(unpack, into, capacity, got_out);
    unpack->content += *got_out;
    return status;
}

uint64_t eval_unpack_used(const struct eval_unpack *unpack)
{
    return unpack->taken - unpack->stream.avail_in;
}

void eval_unpack_close(struct eval_unpack *unpack)
{
    if (unpack->packed) {
        (void)inflateEnd(&unpack->stream);
        (void)close(unpack->fd);
    }
    kolo_free_memory(unpack->packed);
    unpack->packed = NULL;
}
