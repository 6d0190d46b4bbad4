// SPDX-License-Identifier: Apache-2.0
// Bare loops over TCP: a socket between each two ranks, opened here, and phases in which every rank
// sends something to some ranks and receives something from some, all at once. What is to be summed
// is added piece by piece as it arrives, while it is in the cache. An empty message is sent as one
// byte, so that no rank ends before every other has begun, as in kolo.
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/status.h"
#include "bench/bare.h"
#include "memory/reduce.h"

enum {
    ELEMENT = 4,
    PIECE_BYTES = 64 << 10,
    SPINS = 200, /* idle rounds before sleeping, if there is a core for each rank */
    ADDRESSES = 8,
    DIAL_MS = 3000,
    OPEN_MS = 20000
};

/* What goes to and comes from one other rank in a phase. */
struct bare_flow {
    const uint8_t *out;
    uint8_t *in;
    size_t out_left, in_left, held; /* held: bytes that are not a whole element yet */
    bool folds;                     /* add what comes to `in`; else store it there */
    uint8_t *piece;
    uint8_t nothing_out, nothing_in;
};

/* ---- joining ---- */

/* How a rank can be reached. */
struct place {
    uint32_t address[ADDRESSES]; /* network byte order; 0: none */
    uint16_t port;
    char host[66];
};

struct claim {
    uint64_t token;
    int32_t rank;
};

static void own_addresses(struct place *place)
{
    struct ifaddrs *list = NULL;
    int count = 0;
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *at = list; at && count < ADDRESSES; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) &&
            !(at->ifa_flags & IFF_LOOPBACK))
            place->address[count++] =
                ((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(list);
}

static int listen_here(bool loopback, struct place *place)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BARE_RANKS_MAX) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    place->port = address.sin_port;
    return fd;
}

static bool all_of(int fd, void *data, size_t bytes, bool sends, kolo_deadline deadline)
{
    uint8_t *at = data;
    while (bytes > 0) {
        struct pollfd poller = {.fd = fd, .events = sends ? POLLOUT : POLLIN};
        if (poll(&poller, 1, kolo_deadline_poll_ms(deadline)) <= 0)
            return false;
        ssize_t moved = sends ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(fd, at, bytes, MSG_DONTWAIT);
        if (moved <= 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (moved == 0)
            return false;
        at += moved > 0 ? moved : 0;
        bytes -= moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static int dial_address(uint32_t address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = address, .sin_port = port};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t length = sizeof error;
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    if (fd < 0)
        return -1;
    if ((connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS) &&
        poll(&poller, 1, DIAL_MS) == 1 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0)
        return fd;
    close(fd);
    return -1;
}

static int dial(const struct place *place, const char *host, struct claim claim)
{
    bool same = strcmp(place->host, host) == 0;
    kolo_deadline deadline = kolo_deadline_in_ms(DIAL_MS);
    for (int i = 0; i < (same ? 1 : ADDRESSES); i++) {
        uint32_t address = same ? htonl(INADDR_LOOPBACK) : place->address[i];
        int fd = address ? dial_address(address, place->port) : -1;
        if (fd < 0)
            continue;
        if (all_of(fd, &claim, sizeof claim, true, deadline))
            return fd;
        close(fd);
    }
    return -1;
}

/* Accepts connections from the ranks above, in the order in which they come; closes those that do
 * not know the token. */
static bool accept_all(struct bare_world *world, int listener, uint64_t token)
{
    kolo_deadline deadline = kolo_deadline_in_ms(OPEN_MS);
    for (int missing = world->nranks - 1 - world->rank; missing > 0;) {
        struct pollfd poller = {.fd = listener, .events = POLLIN};
        struct claim claim;
        if (poll(&poller, 1, kolo_deadline_poll_ms(deadline)) <= 0)
            return false;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        bool known = all_of(fd, &claim, sizeof claim, false, kolo_deadline_in_ms(DIAL_MS)) &&
                     claim.token == token && claim.rank > world->rank &&
                     claim.rank < world->nranks && world->sockets[claim.rank] < 0;
        if (!known) {
            close(fd);
            continue;
        }
        world->sockets[claim.rank] = fd;
        missing--;
    }
    return true;
}

static void tune(struct bare_world *world, const char *congestion)
{
    int on = 1;
    for (int rank = 0; rank < world->nranks; rank++) {
        int fd = world->sockets[rank];
        socklen_t length = sizeof world->congestion - 1;
        if (fd < 0)
            continue;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (congestion[0])
            (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion,
                             (socklen_t)strlen(congestion));
        (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, world->congestion, &length);
    }
}

static kolo_status join(struct bare_world *world, struct place *places, int listener,
                        uint64_t token)
{
    const char *host = places[world->rank].host;
    bool ok = true;
    int64_t failed;
    for (int rank = 0; ok && rank < world->rank; rank++) {
        world->sockets[rank] = dial(&places[rank], host, (struct claim){token, world->rank});
        ok = world->sockets[rank] >= 0;
    }
    failed = !(ok && accept_all(world, listener, token));
    kolo_status status =
        kolo_allreduce(world->comm, &failed, &failed, 1, KOLO_INT64, KOLO_MAX, NULL, NULL);
    if (status == KOLO_OK && failed)
        status = kolo_fail(KOLO_ERR_CONNECT,
                           "limits: plain TCP sockets (IPv4) between all ranks cannot be made");
    return status;
}

kolo_status bare_tcp_open(struct bare_world *world, const char *congestion)
{
    struct place own = {.port = 0};
    size_t n = (size_t)world->nranks;
    struct place *places = kolo_calloc(n, sizeof *places);
    struct kolo_info info = {.size = sizeof info};
    uint64_t token = 0;
    int listener = -1;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    world->sockets = kolo_calloc(n, sizeof *world->sockets);
    world->flows = kolo_calloc(n, sizeof *world->flows);
    if (!places || !world->sockets || !world->flows)
        goto out;
    for (size_t i = 0; i < n; i++)
        world->sockets[i] = -1;
    for (size_t i = 0; i < n; i++)
        if (!(world->flows[i].piece = kolo_aligned(64, PIECE_BYTES)))
            goto out;
    KOLO_TRY(kolo_get_info(world->comm, &info));
    snprintf(own.host, sizeof own.host, "%s", info.host);
    own_addresses(&own);
    listener = listen_here(info.local_nranks == info.nranks, &own);
    KOLO_TRY(kolo_allgather(world->comm, &own, places, sizeof own, KOLO_UINT8, NULL, NULL));
    if (world->rank == 0 && kolo_random(&token, sizeof token) != KOLO_OK)
        token = 0;
    KOLO_TRY(kolo_broadcast(world->comm, &token, 1, KOLO_INT64, 0, NULL, NULL));
    KOLO_TRY(join(world, places, listener, token));
    tune(world, congestion);
out:
    if (listener >= 0)
        close(listener);
    kolo_free_memory(places);
    return status;
}

void bare_tcp_close(struct bare_world *world)
{
    for (int rank = 0; rank < world->nranks; rank++) {
        if (world->sockets && world->sockets[rank] >= 0)
            close(world->sockets[rank]);
        if (world->flows)
            kolo_free_memory(world->flows[rank].piece);
    }
    kolo_free_memory(world->sockets);
    kolo_free_memory(world->flows);
    world->sockets = NULL;
    world->flows = NULL;
}

/* ---- a phase ---- */

static void to_send(struct bare_world *world, int rank, const uint8_t *data, size_t bytes)
{
    struct bare_flow *flow = &world->flows[rank];
    flow->out = bytes ? data : &flow->nothing_out;
    flow->out_left = bytes ? bytes : 1;
}

static void to_receive(struct bare_world *world, int rank, uint8_t *data, size_t bytes, bool folds)
{
    struct bare_flow *flow = &world->flows[rank];
    flow->in = bytes ? data : &flow->nothing_in;
    flow->in_left = bytes ? bytes : 1;
    flow->folds = folds && bytes;
    flow->held = 0;
}

static bool give(struct bare_flow *flow, int fd, bool *moved)
{
    ssize_t sent = send(fd, flow->out, flow->out_left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    flow->out += sent;
    flow->out_left -= (size_t)sent;
    *moved = true;
    return true;
}

static bool take(struct bare_flow *flow, int fd, bool *moved)
{
    uint8_t *to = flow->folds ? flow->piece + flow->held : flow->in;
    size_t room = flow->folds ? PIECE_BYTES - flow->held : flow->in_left;
    ssize_t got = recv(fd, to, room < flow->in_left ? room : flow->in_left, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    *moved = true;
    flow->in_left -= (size_t)got;
    if (!flow->folds) {
        flow->in += got;
        return true;
    }
    size_t have = flow->held + (size_t)got, whole = have / ELEMENT;
    kolo_reduce_function(KOLO_FLOAT32, KOLO_SUM)(flow->in, flow->in, flow->piece, whole);
    flow->in += whole * ELEMENT;
    flow->held = have - whole * ELEMENT;
    memcpy(flow->piece, flow->piece + whole * ELEMENT, flow->held);
    return true;
}

static bool sleep_until_ready(const struct bare_world *world)
{
    struct pollfd pollers[BARE_RANKS_MAX];
    nfds_t count = 0;
    for (int rank = 0; rank < world->nranks; rank++) {
        const struct bare_flow *flow = &world->flows[rank];
        short events = (short)((flow->out_left ? POLLOUT : 0) | (flow->in_left ? POLLIN : 0));
        if (events)
            pollers[count++] = (struct pollfd){.fd = world->sockets[rank], .events = events};
    }
    return poll(pollers, count, kolo_deadline_poll_ms(world->deadline)) > 0;
}

static bool run_phase(struct bare_world *world)
{
    for (int idle = 0;;) {
        bool moved = false, open = false;
        for (int i = 1; i < world->nranks; i++) {
            int rank = (world->rank + i) % world->nranks;
            struct bare_flow *flow = &world->flows[rank];
            if (flow->out_left && !give(flow, world->sockets[rank], &moved))
                return false;
            if (flow->in_left && !take(flow, world->sockets[rank], &moved))
                return false;
            open = open || flow->out_left || flow->in_left;
        }
        if (!open)
            return true;
        idle = moved ? 0 : idle + 1;
        if ((idle > (world->crowded ? 0 : SPINS)) && !sleep_until_ready(world))
            return false;
    }
}

/* ---- patterns ---- */

static size_t edge(const struct bare_world *world, size_t count, int rank)
{
    return count * (size_t)rank / (size_t)world->nranks;
}

static size_t slice_bytes(const struct bare_world *world, size_t count, int rank)
{
    return (edge(world, count, rank + 1) - edge(world, count, rank)) * ELEMENT;
}

/* What rank @p from has for rank @p to, and where it lies on either side. */
static size_t part(const struct bare_loop *loop, int from, int to, size_t *out_at, size_t *in_at)
{
    const struct bare_pattern *p = loop->pattern;
    size_t bytes = loop->count * ELEMENT;
    *out_at = p->send == BENCH_ALL ? (size_t)to * bytes : 0;
    *in_at = p->recv == BENCH_ALL ? (size_t)from * bytes : 0;
    bool nothing = (p->on_root && to != 0) || (p->result == BENCH_ROOTS && from != 0);
    return nothing ? 0 : bytes;
}

static bool one_phase(struct bare_world *world, void *context)
{
    const struct bare_loop *loop = context;
    bool folds = loop->pattern->result == BENCH_REDUCED;
    size_t out_at, in_at, bytes = part(loop, world->rank, world->rank, &out_at, &in_at);
    if (bytes)
        memcpy(world->user_recv + in_at, world->user_send + out_at, bytes);
    for (int rank = 0; rank < world->nranks; rank++) {
        if (rank == world->rank)
            continue;
        bytes = part(loop, world->rank, rank, &out_at, &in_at);
        to_send(world, rank, world->user_send + out_at, bytes);
        bytes = part(loop, rank, world->rank, &out_at, &in_at);
        to_receive(world, rank, world->user_recv + in_at, bytes, folds);
    }
    return run_phase(world);
}

/* First each rank gets its slice, summed or from the root; then it goes to the ranks that need
 * it. */
static bool two_phases(struct bare_world *world, void *context)
{
    const struct bare_loop *loop = context;
    const struct bare_pattern *p = loop->pattern;
    bool folds = p->result == BENCH_REDUCED;
    size_t at = edge(world, loop->count, world->rank) * ELEMENT;
    size_t own = slice_bytes(world, loop->count, world->rank);
    if (folds)
        memcpy(world->user_recv + at, world->user_send + at, own);
    for (int rank = 0; rank < world->nranks; rank++) {
        size_t there = edge(world, loop->count, rank) * ELEMENT;
        bool sends = folds || world->rank == 0, receives = folds || rank == 0;
        if (rank == world->rank)
            continue;
        to_send(world, rank, world->user_send + there,
                sends ? slice_bytes(world, loop->count, rank) : 0);
        to_receive(world, rank, world->user_recv + at, receives ? own : 0, folds);
    }
    if (!run_phase(world))
        return false;
    const uint8_t *from = !folds && world->rank == 0 ? world->user_send : world->user_recv;
    for (int rank = 0; rank < world->nranks; rank++) {
        size_t there = edge(world, loop->count, rank) * ELEMENT;
        bool sends = p->on_root ? rank == 0 : folds || rank != 0;
        bool receives = p->on_root ? world->rank == 0 : folds || world->rank != 0;
        if (rank == world->rank)
            continue;
        to_send(world, rank, from + at, sends ? own : 0);
        to_receive(world, rank, world->user_recv + there,
                   receives ? slice_bytes(world, loop->count, rank) : 0, false);
    }
    return run_phase(world);
}

bool bare_tcp_fits(const struct bare_pattern *pattern, int phases)
{
    return phases == 1 || (pattern->send == BENCH_ONE && pattern->recv == BENCH_ONE);
}

void bare_tcp_run(const struct bare_world *world, const struct bare_pattern *pattern, int phases,
                  size_t bytes, struct bare_run *run_out)
{
    bool by_rank = pattern->send == BENCH_ALL || pattern->recv == BENCH_ALL;
    *run_out = (struct bare_run){
        .name = pattern->name,
        .step = phases == 1 ? one_phase : two_phases,
        .loop = {.pattern = pattern,
                 .phases = phases,
                 .count = bytes / ELEMENT / (by_rank ? (size_t)world->nranks : 1)}};
}
