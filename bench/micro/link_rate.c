// SPDX-License-Identifier: Apache-2.0
// What one link between two processes of this host can carry: `link_rate [TRANSPORT]` (shm) prints
// the one-way latency of 8 bytes when both ranks spin and when both sleep, and the rate of messages
// of 1 and 16 MiB from ordinary memory and from kolo_alloc, received by copy and by float32 sum.
// The first line is the rate of memcpy between buffers of the same size (bytes copied, once). Best
// of several runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/micro/check.h"
#include "transport/transport.h"

enum { MIB = 1 << 20, RUNS = 7, PINGS = 20000, WINDOW = 2 };
static const size_t traffic_bytes = (size_t)256 << 20; /* per run */

struct rank {
    struct kolo_endpoint *endpoint;
    struct kolo_heap *heap;
    struct kolo_link *link;
    struct kolo_peer peers[2];
    uint8_t *plain, *lent; /* 16 MiB each */
    int rank;
    bool sleeps;
};

/** Makes progress until the work is done: by spinning, or sleeping as the runtime does. */
static void await(struct rank *rank, const struct kolo_work *work)
{
    bool moved;
    while (work->status == KOLO_AGAIN) {
        if (rank->sleeps)
            kolo_endpoint_arm(rank->endpoint);
        check(kolo_endpoint_progress(rank->endpoint, &moved), "progress");
        if (rank->sleeps && !moved && work->status == KOLO_AGAIN)
            kolo_endpoint_sleep(rank->endpoint, kolo_deadline_in_ms(10000));
        if (rank->sleeps)
            kolo_endpoint_disarm(rank->endpoint);
    }
    check(work->status, "message");
}

static void open_rank(struct rank *rank, int number, int socket, const char *transport)
{
    static struct kolo_settings settings;
    struct kolo_endpoint_config config = {.rank = number, .size = 2, .settings = &settings};
    void *memory;
    kolo_settings_init(&settings);
    check(kolo_settings_load(&settings, NULL, NULL, NULL), "settings");
    check(kolo_settings_set(&settings, "TRANSPORT", transport, KOLO_FROM_OPTION), "transport");
    check(kolo_heap_create(&rank->heap), "heap");
    config.heap = rank->heap;
    kolo_identity_here(number, &config.identity);
    check(kolo_endpoint_open(&config, &rank->endpoint), "open");
    kolo_endpoint_self(rank->endpoint, &rank->peers[number]);
    size_t bytes = sizeof rank->peers[0];
    if (write(socket, &rank->peers[number], bytes) != (ssize_t)bytes ||
        recv(socket, &rank->peers[1 - number], bytes, MSG_WAITALL) != (ssize_t)bytes)
        exit(1);
    check(kolo_endpoint_set_peers(rank->endpoint, rank->peers), "peers");
    check(kolo_endpoint_link(rank->endpoint, 1 - number, kolo_deadline_in_ms(10000), &rank->link),
          "link");
    check(kolo_heap_alloc(rank->heap, 16 * MIB, &memory), "kolo_alloc");
    rank->lent = memory;
    rank->plain = aligned_alloc(4096, 16 * MIB);
    memset(rank->plain, 0, 16 * MIB);
    memset(rank->lent, 0, 16 * MIB);
    rank->rank = number;
}

static const struct kolo_desc desc = {{1}};

/** Microseconds one way. */
static double ping(struct rank *rank)
{
    uint64_t value = 0;
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        int64_t start = kolo_now_ns();
        for (int i = 0; i < PINGS; i++) {
            for (int turn = 0; turn < 2; turn++) {
                struct kolo_work work;
                if (turn == rank->rank)
                    kolo_link_send(rank->link, 1, &desc, &value, sizeof value, &work);
                else
                    kolo_link_recv(rank->link, 1, &desc, &value, sizeof value, NULL, &work);
                await(rank, &work);
            }
        }
        double each = (double)(kolo_now_ns() - start) / 1e3 / PINGS / 2;
        best = each < best ? each : best;
    }
    return best;
}

/** Gigabytes per second from rank 1's @p src to rank 0. */
static double stream(struct rank *rank, uint8_t *src, size_t bytes, bool reduces)
{
    struct kolo_action action = {
        .kind = reduces ? KOLO_REDUCE : KOLO_COPY, .dtype = KOLO_FLOAT32, .local = rank->plain};
    struct kolo_work works[WINDOW];
    size_t count = traffic_bytes / bytes;
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        int64_t start = kolo_now_ns();
        for (size_t i = 0; i < count + WINDOW; i++) {
            if (i >= WINDOW)
                await(rank, &works[i % WINDOW]);
            if (i >= count)
                continue;
            if (rank->rank == 1)
                kolo_link_send(rank->link, 2, &desc, src, bytes, &works[i % WINDOW]);
            else
                kolo_link_recv(rank->link, 2, &desc, rank->plain, bytes, &action,
                               &works[i % WINDOW]);
        }
        double rate = (double)(count * bytes) / (double)(kolo_now_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static double copy_rate(struct rank *rank, size_t bytes)
{
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        int64_t start = kolo_now_ns();
        for (size_t done = 0; done < traffic_bytes; done += bytes)
            memcpy(rank->plain, rank->lent, bytes);
        double rate = (double)traffic_bytes / (double)(kolo_now_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static void measure(struct rank *rank, const char *transport)
{
    double spinning = ping(rank);
    rank->sleeps = true;
    double sleeping = ping(rank);
    rank->sleeps = false;
    if (rank->rank == 0)
        printf("%s: 8 bytes one way: spinning %.2f us, sleeping %.2f us\n", transport, spinning,
               sleeping);
    for (size_t bytes = MIB; bytes <= 16 * MIB; bytes *= 16) {
        for (int reduces = 0; reduces < 2; reduces++) {
            double plain = stream(rank, rank->plain, bytes, reduces);
            double lent = stream(rank, rank->lent, bytes, reduces);
            if (rank->rank == 0)
                printf("%s: %2zu MiB by %-11s from ordinary memory %.1f GB/s, kolo_alloc %.1f\n",
                       transport, bytes / MIB, reduces ? "float32 sum" : "copy", plain, lent);
        }
    }
}

int main(int argc, char **argv)
{
    const char *transport = argc > 1 ? argv[1] : "shm";
    struct rank rank = {0};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 1;
    pid_t child = fork();
    open_rank(&rank, child == 0, pair[child == 0], transport);
    if (child != 0)
        printf("memcpy: 1 MiB %.1f GB/s, 16 MiB %.1f\n", copy_rate(&rank, MIB),
               copy_rate(&rank, 16 * MIB));
    measure(&rank, transport);
    check(kolo_endpoint_close(rank.endpoint, kolo_deadline_in_ms(5000)), "close");
    kolo_heap_destroy(rank.heap);
    free(rank.plain);
    if (child == 0)
        return 0;
    int exit_status;
    return waitpid(child, &exit_status, 0) == child && exit_status == 0 ? 0 : 1;
}
