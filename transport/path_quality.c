// SPDX-License-Identifier: Apache-2.0
// Measures paths to an address and compares them. Must never wait, and never rule out a path: the
// worst one may be the only one that works.
//
// Detours come last: paths whose round trip exceeds twice the shortest one by more than 200 us.
// Among the other paths these come first, in this order: what KOLO_NET names first, hardware (see
// places.c) before bridges and tunnels, the faster interface, the one on this rank's NUMA node.
// Ranks take turns among interfaces that are equal in all of these, so that the ranks of a host use
// every card; if the noise of round trips decided instead, the distribution would be random. Only
// among several paths by one interface the round trip decides.
#include "transport/path_quality.h"

#include <linux/tcp.h> /* netinet/tcp.h has no tcpi_min_rtt */
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { DETOUR_FACTOR = 2, DETOUR_US = 200 };

static const struct kolo_place *find_local(int fd, const struct kolo_place *locals, size_t count)
{
    struct kolo_place ours = {.bytes = sizeof ours.addr};

    if (getsockname(fd, (struct sockaddr *)&ours.addr, &ours.bytes) != 0)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (kolo_place_is_same_ip(&ours, &locals[i]))
            return &locals[i];
    return NULL;
}

static uint32_t lower_known(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* Not the mean of the round trips (tcpi_rtt): after the few of a handshake, one that found a
 * processor busy would make a detour of the best path. Linux before 4.6 has the mean only. */
int64_t kolo_path_round_trip_us(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    const size_t with_least = offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_rtt == 0)
        return 0;
    if (bytes < with_least || info.tcpi_min_rtt > info.tcpi_rtt)
        return info.tcpi_rtt;
    return info.tcpi_min_rtt > 0 ? info.tcpi_min_rtt : 1;
}

void kolo_path_quality_measure(int fd, const struct kolo_place *place,
                               const struct kolo_place *locals, size_t local_count, int numa_node,
                               struct kolo_path_quality *quality_out)
{
    const struct kolo_place *local = find_local(fd, locals, local_count);
    const int64_t rtt_us = kolo_path_round_trip_us(fd);

    *quality_out = (struct kolo_path_quality){.rtt_us = rtt_us > 0 ? rtt_us : INT64_MAX / 4,
                                              .preference = UINT32_MAX};
    if (!local) {
        quality_out->speed_mbit = place->facts.speed_mbit;
        return; /* its interface is not allowed by KOLO_NET: use it only if no other path exists */
    }
    quality_out->preference = (unsigned)place->facts.entry + local->facts.entry;
    quality_out->is_hardware = place->facts.is_hardware && local->facts.is_hardware;
    quality_out->speed_mbit = lower_known(place->facts.speed_mbit, local->facts.speed_mbit);
    quality_out->is_near = numa_node >= 0 && local->facts.numa_node == numa_node;
    snprintf(quality_out->interface, sizeof quality_out->interface, "%s", local->facts.interface);
}

/** Above 0: @p a is better, whatever the round trips. */
static int compare(const struct kolo_path_quality *a, const struct kolo_path_quality *b)
{
    if (a->preference != b->preference)
        return a->preference < b->preference ? 1 : -1;
    if (a->is_hardware != b->is_hardware)
        return a->is_hardware ? 1 : -1;
    if (a->speed_mbit != b->speed_mbit)
        return a->speed_mbit > b->speed_mbit ? 1 : -1;
    return (int)a->is_near - (int)b->is_near;
}

/** Selects paths that are not a detour, and are as good as the best of those. */
struct equals {
    const struct kolo_path_quality *paths;
    size_t count;
    int64_t limit_us;
    const struct kolo_path_quality *best;
};

static bool is_equal(const struct equals *equals, size_t i)
{
    const struct kolo_path_quality *path = &equals->paths[i];
    return path->rtt_us <= equals->limit_us && compare(path, equals->best) == 0;
}

/** The name of the interface after @p name; NULL: it is the last one. */
static const char *next_interface(const struct equals *equals, const char *name)
{
    const char *next = NULL;

    for (size_t i = 0; i < equals->count; i++) {
        const char *here = equals->paths[i].interface;
        if (is_equal(equals, i) && (!name || strcmp(here, name) > 0) &&
            (!next || strcmp(here, next) < 0))
            next = here;
    }
    return next;
}

static const char *interface_of_turn(const struct equals *equals, unsigned turn)
{
    const char *name = NULL;
    unsigned count = 0;

    while ((name = next_interface(equals, name)) != NULL)
        count++;
    for (turn %= count, name = next_interface(equals, NULL); turn > 0; turn--)
        name = next_interface(equals, name);
    return name;
}

size_t kolo_path_quality_best(const struct kolo_path_quality *paths, size_t count, unsigned turn)
{
    struct equals equals = {paths, count, 0, paths};
    size_t best = count;

    for (size_t i = 1; i < count; i++)
        if (paths[i].rtt_us < equals.best->rtt_us)
            equals.best = &paths[i];
    equals.limit_us = equals.best->rtt_us * DETOUR_FACTOR + DETOUR_US;
    for (size_t i = 0; i < count; i++)
        if (paths[i].rtt_us <= equals.limit_us && compare(&paths[i], equals.best) > 0)
            equals.best = &paths[i];
    const char *interface = interface_of_turn(&equals, turn);
    for (size_t i = 0; i < count; i++)
        if (is_equal(&equals, i) && strcmp(paths[i].interface, interface) == 0 &&
            (best == count || paths[i].rtt_us < paths[best].rtt_us))
            best = i;
    return best;
}

void kolo_path_quality_format(const struct kolo_path_quality *quality, char *text, size_t capacity)
{
    char speed[32] = "speed unknown";

    if (quality->speed_mbit > 0)
        snprintf(speed, sizeof speed, "%u Mbit/s", quality->speed_mbit);
    snprintf(text, capacity, "%s, %s, round trip %lld us",
             quality->interface[0] ? quality->interface : "an interface KOLO_NET does not name",
             speed, (long long)quality->rtt_us);
}
