// SPDX-License-Identifier: Apache-2.0
// The limit over TCP as a side: bare loops over loopback sockets, without frames, checks or
// deadlines. Each collective is one pattern. A rank has two streams, outgoing and incoming, which
// wait for each other only if a byte must have come before it can be passed on:
//
//   ring    allreduce: a block is summed on its way round, and then passed on once more
//   pairs   allgather, reduce_scatter, alltoall: in step s to the rank s + 1 behind this one, while
//           the rank s + 1 before it sends here
//   chain   broadcast: each passes on what has come
//   star    a short broadcast: from the root to all
//
// Sums are computed while a piece is in the cache. A short allreduce is exchanged by recursive
// doubling (or all at once if the number of ranks is not a power of two).
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

enum { SMALL_BYTES = 16 << 10, PIECE = 64 << 10, SEND_MOST = 1 << 20, SPINS = 200 };

/** Where a rank is in its stream, in bytes. */
struct cursor {
    int step;
    size_t offset;
};

struct stream;

/** What a step sends or receives; length 0: nothing. */
struct part {
    int peer;
    const char *from;
    size_t ready; /* of length, what can be sent already */
    char *to;
    const float *mine; /* what comes is added to it; NULL: is not added */
    size_t length;
};

/** A pattern, and where each direction of it is. */
struct stream {
    struct part (*out_part)(const struct stream *, int step);
    struct part (*in_part)(const struct stream *, int step);
    const struct operation *operation;
    size_t block; /* elements; the last block may be shorter */
    int steps, folds;
    struct cursor out, in;
    char piece[PIECE]; /* arrived and not yet added */
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
    snprintf(detail, GATE_TEXT, "the ranks cannot be connected: %s", strerror(errno));
    return -1;
}

/* Bytes that could be moved; 0: none now. A connection that ended breaks the side. */
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

static void add_to(float *restrict sum, const float *restrict more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += more[i];
}

static void add_up(float *restrict sum, const float *restrict a, const float *restrict b,
                   size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

static void add(float *sum, const float *a, const float *b, size_t count)
{
    if (sum == a)
        add_to(sum, b, count);
    else
        add_up(sum, a, b, count);
}

static void small_allreduce(const float *from, float *to, size_t count)
{
    static float other[SMALL_BYTES / sizeof(float)];
    bool even = (all & (all - 1)) == 0;
    const float *mine = from;
    for (int i = even ? 1 : 0; i < all; i = even ? i * 2 : i + 1) {
        /* pairs whose sum is i modulo the number of ranks are disjoint */
        int peer = even ? me ^ i : ((i - me) % all + all) % all;
        if (peer == me)
            continue;
        exchange(peer, even ? mine : from, other, count * sizeof(float));
        add(to, mine, other, count);
        mine = to;
    }
}

/* ---- patterns ---- */

static int behind(int distance)
{
    return (me + distance) % all;
}

static int before(int distance)
{
    return (me - distance % all + all) % all;
}

/* The bytes of a block of the vector, and where it begins. */
static size_t block_at(const struct stream *stream, int block, size_t *begin)
{
    size_t count = stream->operation->count;
    size_t first = stream->block * (size_t)block, last = first + stream->block;
    first = first < count ? first : count;
    last = last < count ? last : count;
    *begin = first * sizeof(float);
    return (last - first) * sizeof(float);
}

/* What a step has received may be passed on in the next. */
static size_t come(const struct stream *stream, int step, size_t length)
{
    if (stream->in.step > step)
        return length;
    return stream->in.step == step ? stream->in.offset : 0;
}

static struct part ring_out(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    size_t begin, length = block_at(stream, before(step), &begin);
    const char *from = step == 0 ? operation->send : operation->recv;
    return (struct part){.peer = behind(1),
                         .from = from + begin,
                         .ready = step == 0 ? length : come(stream, step - 1, length),
                         .length = length};
}

static struct part ring_in(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    size_t begin, length = block_at(stream, before(step + 1), &begin);
    const char *mine = (const char *)operation->send + begin;
    return (struct part){.peer = before(1),
                         .to = (char *)operation->recv + begin,
                         .mine = step < stream->folds ? (const float *)mine : NULL,
                         .length = length};
}

static struct part pairs_out(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    int peer = behind(step + 1);
    size_t bytes = operation->block * sizeof(float);
    size_t begin = operation->collective == ALLGATHER ? 0 : (size_t)peer * bytes;
    return (struct part){.peer = peer,
                         .from = (const char *)operation->send + begin,
                         .ready = bytes,
                         .length = bytes};
}

static struct part pairs_in(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    int peer = before(step + 1);
    size_t bytes = operation->block * sizeof(float);
    bool sums = operation->collective == REDUCE_SCATTER;
    const float *own = (const float *)operation->send + (size_t)me * operation->block;
    const float *mine = step == 0 ? own : operation->recv;
    return (struct part){.peer = peer,
                         .to = (char *)operation->recv + (sums ? 0 : (size_t)peer * bytes),
                         .mine = sums ? mine : NULL,
                         .length = bytes};
}

static struct part chain_out(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    size_t length = behind(step + 1) == operation->root ? 0 : operation->count * sizeof(float);
    return (struct part){.peer = behind(1),
                         .from = operation->recv,
                         .ready = me == operation->root ? length : come(stream, step, length),
                         .length = length};
}

static struct part chain_in(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    (void)step;
    return (struct part){.peer = before(1),
                         .to = operation->recv,
                         .length = me == operation->root ? 0 : operation->count * sizeof(float)};
}

static struct part star_out(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    size_t length = me == operation->root ? operation->count * sizeof(float) : 0;
    return (struct part){
        .peer = behind(step + 1), .from = operation->recv, .ready = length, .length = length};
}

static struct part star_in(const struct stream *stream, int step)
{
    const struct operation *operation = stream->operation;
    int peer = before(step + 1);
    size_t length = peer == operation->root ? operation->count * sizeof(float) : 0;
    return (struct part){.peer = peer, .to = operation->recv, .length = length};
}

/* ---- streams ---- */

/* Skips empty steps. */
static void advance(const struct stream *stream, struct cursor *cursor, bool goes_out, size_t bytes)
{
    cursor->offset += bytes;
    while (cursor->step < stream->steps) {
        struct part part = goes_out ? stream->out_part(stream, cursor->step)
                                    : stream->in_part(stream, cursor->step);
        if (cursor->offset < part.length)
            return;
        cursor->offset = 0;
        cursor->step++;
    }
}

static bool send_some(struct stream *stream)
{
    if (stream->out.step == stream->steps)
        return false;
    struct part part = stream->out_part(stream, stream->out.step);
    if (part.ready <= stream->out.offset)
        return false;
    size_t most = part.ready - stream->out.offset;
    size_t sent = moved(send(sockets[part.peer], part.from + stream->out.offset,
                             most < SEND_MOST ? most : SEND_MOST, MSG_NOSIGNAL));
    advance(stream, &stream->out, true, sent);
    return sent > 0;
}

static bool receive_some(struct stream *stream)
{
    if (stream->in.step == stream->steps)
        return false;
    struct part part = stream->in_part(stream, stream->in.step);
    size_t offset = stream->in.offset, left = part.length - offset - stream->held;
    if (!part.mine) {
        size_t got = moved(recv(sockets[part.peer], part.to + offset, left, 0));
        advance(stream, &stream->in, false, got);
        return got > 0;
    }
    size_t room = PIECE - stream->held;
    size_t got =
        moved(recv(sockets[part.peer], stream->piece + stream->held, left < room ? left : room, 0));
    size_t whole = (stream->held + got) / sizeof(float) * sizeof(float);
    add((float *)(part.to + offset), part.mine + offset / sizeof(float),
        (const float *)stream->piece, whole / sizeof(float));
    stream->held += got - whole;
    memmove(stream->piece, stream->piece + whole, stream->held);
    advance(stream, &stream->in, false, whole);
    return got > 0;
}

static void run_stream(struct stream *stream)
{
    int spins = 0;
    advance(stream, &stream->out, true, 0);
    advance(stream, &stream->in, false, 0);
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
    (void)collective;
    return memory == MEMORY_USER;
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

static void choose_pattern(struct stream *stream)
{
    const struct operation *operation = stream->operation;
    bool is_short = operation->count * sizeof(float) <= SMALL_BYTES;
    stream->steps = all - 1;
    if (operation->collective == ALLREDUCE) {
        stream->block = (operation->count + (size_t)all - 1) / (size_t)all;
        stream->steps = 2 * (all - 1);
        stream->folds = all - 1;
        stream->out_part = ring_out;
        stream->in_part = ring_in;
    } else if (operation->collective != BROADCAST) {
        stream->out_part = pairs_out;
        stream->in_part = pairs_in;
    } else if (is_short) {
        stream->out_part = star_out;
        stream->in_part = star_in;
    } else {
        stream->steps = 1;
        stream->out_part = chain_out;
        stream->in_part = chain_in;
    }
}

/* Copies what a rank has for itself. */
static void keep_own(const struct operation *operation)
{
    bool gathers = operation->collective == ALLGATHER;
    size_t at = (size_t)me * operation->block;
    if (gathers || operation->collective == ALLTOALL)
        memcpy((float *)operation->recv + at, (const float *)operation->send + (gathers ? 0 : at),
               operation->block * sizeof(float));
}

static int play(const struct operation *operation, char *detail)
{
    static struct stream stream;
    if (operation->collective == ALLREDUCE && operation->count * sizeof(float) <= SMALL_BYTES) {
        small_allreduce(operation->send, operation->recv, operation->count);
        return told(detail);
    }
    stream.operation = operation;
    choose_pattern(&stream);
    stream.out = stream.in = (struct cursor){0, 0};
    stream.held = 0;
    keep_own(operation);
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
