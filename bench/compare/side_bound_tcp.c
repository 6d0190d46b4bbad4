// SPDX-License-Identifier: Apache-2.0
// The limit over TCP as a side: bare loops over loopback sockets, without frames, checks or
// deadlines. Vectors of up to a few pages are exchanged by recursive doubling (or all at once where
// the ranks are no power of two); longer ones go round a ring as one stream in each direction: what
// has arrived of one step may be sent on in the next, and sums are made while the piece is in the
// cache.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/compare/compare.h"

enum { SMALL_BYTES = 16 << 10, PIECE = 64 << 10, SEND_MOST = 256 << 10, SPINS = 200 };

/** Where in its stream a rank is, in bytes. */
struct cursor {
    int step;
    size_t offset;
};

/** A collective around the ring: in step s a rank sends block (me - s) and receives (me - s - 1).
 */
struct stream {
    const char *send; /* this rank's vector */
    char *recv;
    size_t count, block; /* elements; the last block may be shorter */
    int steps, folds;    /* the first `folds` steps add what arrives to what send holds */
    struct cursor out, in;
    char piece[PIECE]; /* arrived and not yet folded */
    size_t held;
};

static int me, all, sockets[GATE_RANKS];
static bool crowded, broken;

static void relax(int *spins)
{
    if (crowded || ++*spins > SPINS)
        sched_yield();
}

/* ---- sockets ---- */

static int listen_at(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, GATE_RANKS) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

static int dial(uint16_t port, int32_t rank)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        write(fd, &rank, sizeof rank) != sizeof rank)
        return -1;
    return fd;
}

static bool make_fast(int fd)
{
    int one = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
           fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* The lower rank of a pair listens. */
static int join(int listener, volatile uint16_t *ports)
{
    for (int rank = 0; rank < me; rank++) {
        int spins = SPINS;
        while (!ports[rank])
            relax(&spins);
        sockets[rank] = dial(ports[rank], me);
    }
    for (int i = me + 1; i < all; i++) {
        int32_t rank = -1;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0 || recv(fd, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank <= me ||
            rank >= all)
            return -1;
        sockets[rank] = fd;
    }
    for (int rank = 0; rank < all; rank++)
        if (rank != me && (sockets[rank] < 0 || !make_fast(sockets[rank])))
            return -1;
    return 0;
}

static int start(int rank, int nranks, const char *meet, char *detail)
{
    int fd = open(meet, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t bytes = GATE_RANKS * sizeof(uint16_t);
    me = rank;
    all = nranks;
    crowded = nranks > sysconf(_SC_NPROCESSORS_ONLN);
    uint16_t *ports = fd < 0 || ftruncate(fd, (off_t)bytes) != 0
                          ? MAP_FAILED
                          : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint16_t port = 0;
    int listener = listen_at(&port);
    if (ports != MAP_FAILED && listener >= 0) {
        ((volatile uint16_t *)ports)[rank] = port;
        if (join(listener, ports) == 0)
            return 0;
    }
    snprintf(detail, GATE_TEXT, "the ranks cannot be joined: %s", strerror(errno));
    return -1;
}

/* As many bytes as go now; 0: none; a connection that ended breaks the side. */
static size_t moved(ssize_t result)
{
    if (result > 0)
        return (size_t)result;
    if (result == 0 || (errno != EAGAIN && errno != EINTR))
        broken = true;
    return 0;
}

/* ---- small vectors ---- */

static void exchange(int peer, const void *out, void *in, size_t bytes)
{
    size_t sent = 0, received = 0;
    int spins = 0;
    while ((sent < bytes || received < bytes) && !broken) {
        size_t before = sent + received;
        if (sent < bytes)
            sent +=
                moved(send(sockets[peer], (const char *)out + sent, bytes - sent, MSG_NOSIGNAL));
        if (received < bytes)
            received += moved(recv(sockets[peer], (char *)in + received, bytes - received, 0));
        if (sent + received == before)
            relax(&spins);
    }
}

static void add(float *restrict sum, const float *restrict a, const float *restrict b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

static void small_allreduce(const float *from, float *to, size_t count)
{
    static float other[SMALL_BYTES / sizeof(float)];
    bool even = (all & (all - 1)) == 0;
    const float *mine = from;
    for (int i = even ? 1 : 0; i < all; i = even ? i * 2 : i + 1) {
        /* pairs whose sum is i modulo the ranks are disjoint */
        int peer = even ? me ^ i : ((i - me) % all + all) % all;
        if (peer == me)
            continue;
        exchange(peer, even ? mine : from, other, count * sizeof(float));
        add(to, mine, other, count);
        mine = to;
    }
}

/* ---- the ring ---- */

static int block_of(int step)
{
    return ((me - step) % all + all) % all;
}

static void place(const struct stream *stream, int block, size_t *begin, size_t *length)
{
    size_t first = stream->block * (size_t)block, last = first + stream->block;
    first = first < stream->count ? first : stream->count;
    last = last < stream->count ? last : stream->count;
    *begin = first * sizeof(float);
    *length = (last - first) * sizeof(float);
}

static void advance(const struct stream *stream, struct cursor *cursor, int shift, size_t bytes)
{
    size_t begin, length; /* blocks of length 0 are passed by */
    cursor->offset += bytes;
    for (;;) {
        place(stream, block_of(cursor->step + shift), &begin, &length);
        if (cursor->step == stream->steps || cursor->offset < length)
            return;
        cursor->offset = 0;
        cursor->step++;
    }
}

static bool send_some(struct stream *stream)
{
    size_t begin, length, most;
    if (stream->out.step == stream->steps)
        return false;
    place(stream, block_of(stream->out.step), &begin, &length);
    if (stream->out.step == 0 || stream->in.step >= stream->out.step)
        most = length;
    else if (stream->in.step == stream->out.step - 1)
        most = stream->in.offset;
    else
        return false;
    if (most <= stream->out.offset)
        return false;
    most -= stream->out.offset;
    const char *from = (stream->out.step == 0 ? stream->send : stream->recv) + begin;
    size_t sent = moved(send(sockets[(me + 1) % all], from + stream->out.offset,
                             most < SEND_MOST ? most : SEND_MOST, MSG_NOSIGNAL));
    advance(stream, &stream->out, 0, sent);
    return sent > 0;
}

static bool receive_some(struct stream *stream)
{
    size_t begin, length;
    int from = sockets[(me - 1 + all) % all];
    if (stream->in.step == stream->steps)
        return false;
    place(stream, block_of(stream->in.step + 1), &begin, &length);
    size_t left = length - stream->in.offset - stream->held;
    char *to = stream->recv + begin + stream->in.offset;
    if (stream->in.step >= stream->folds) {
        size_t got = moved(recv(from, to, left, 0));
        advance(stream, &stream->in, 1, got);
        return got > 0;
    }
    size_t room = PIECE - stream->held;
    size_t got = moved(recv(from, stream->piece + stream->held, left < room ? left : room, 0));
    size_t whole = (stream->held + got) / sizeof(float) * sizeof(float);
    const float *mine = (const float *)(stream->send + begin + stream->in.offset);
    add((float *)to, mine, (const float *)stream->piece, whole / sizeof(float));
    stream->held += got - whole;
    memmove(stream->piece, stream->piece + whole, stream->held);
    advance(stream, &stream->in, 1, whole);
    return got > 0;
}

static void run_stream(struct stream *stream)
{
    int spins = 0;
    while ((stream->out.step < stream->steps || stream->in.step < stream->steps) && !broken) {
        bool sent = send_some(stream), received = receive_some(stream);
        if (sent || received)
            spins = 0;
        else
            relax(&spins);
    }
}

/* ---- the side ---- */

static bool can(enum collective collective, enum memory memory)
{
    return memory == MEMORY_USER && collective == ALLREDUCE;
}

static void *allocate(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void release(void *memory)
{
    (void)memory;
}

static int told(char *detail)
{
    if (broken)
        snprintf(detail, GATE_TEXT, "a connection ended");
    return broken ? -1 : 0;
}

static int barrier(char *detail)
{
    float in = 1, out = 0;
    small_allreduce(&in, &out, 1);
    return told(detail);
}

static int play(const struct operation *operation, char *detail)
{
    static struct stream stream;
    if (operation->count * sizeof(float) <= SMALL_BYTES) {
        small_allreduce(operation->send, operation->recv, operation->count);
        return told(detail);
    }
    stream.send = operation->send;
    stream.recv = operation->recv;
    stream.count = operation->count;
    stream.block = (operation->count + (size_t)all - 1) / (size_t)all;
    stream.steps = 2 * (all - 1);
    stream.folds = all - 1;
    stream.out = stream.in = (struct cursor){0, 0};
    stream.held = 0;
    run_stream(&stream);
    return told(detail);
}

static void end(void)
{
}

const struct side this_side = {.start = start,
                               .can = can,
                               .allocate = allocate,
                               .release = release,
                               .barrier = barrier,
                               .play = play,
                               .end = end};
