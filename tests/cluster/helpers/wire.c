// SPDX-License-Identifier: Apache-2.0
// A cable between two hosts of a cluster that is as bad as is asked for: a rate, a delay, a delay
// that varies (and so changes the order of frames), losses. The kernel's netem does this too, where
// it is built in; this needs /dev/net/tun only. Ends when killed.
//
//   cluster-wire PID_A PID_B NAME MBIT DELAY_US JITTER_US LOST_OF_10000
//
// An interface NAME appears in the network namespaces of the two processes; what is written to one
// comes out of the other. Prints "ready", and at SIGTERM what it did.
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    FRAME_BYTES_MAX = 1600,
    FRAMES_MAX = 16384, /* on their way, each direction */
    QUEUE_MS = 20,      /* what waits longer for the rate is dropped, as a switch does */
    BURST = 64
};

struct frame {
    int64_t due_ns;
    uint32_t bytes;
    uint32_t slot;
};

struct way {
    int in, out;
    int64_t free_ns; /* when the last frame has left at the rate */
    struct frame heap[FRAMES_MAX];
    uint32_t count;
    uint32_t free_slots[FRAMES_MAX];
    uint8_t data[FRAMES_MAX][FRAME_BYTES_MAX];
    uint64_t passed, lost, overflowed;
};

static struct way ways[2];
static int64_t mbit, delay_ns, jitter_ns, lost_of_10000;
static volatile sig_atomic_t is_over;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* xorshift64: the same losses in every run */
static uint64_t any(uint64_t below)
{
    static uint64_t state = 88172645463325252ULL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void die(const char *what)
{
    fprintf(stderr, "cluster-wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_end(const char *pid, const char *name)
{
    char path[64];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) != 0)
        die(path);
    close(namespace);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        die("/dev/net/tun");
    return fd;
}

/* ---- frames by the time at which they are due ---- */

static void put(struct way *way, struct frame frame)
{
    uint32_t at = way->count++;
    while (at > 0 && way->heap[(at - 1) / 2].due_ns > frame.due_ns) {
        way->heap[at] = way->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    way->heap[at] = frame;
}

static struct frame take(struct way *way)
{
    struct frame first = way->heap[0], last = way->heap[--way->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= way->count)
            break;
        if (child + 1 < way->count && way->heap[child + 1].due_ns < way->heap[child].due_ns)
            child++;
        if (last.due_ns <= way->heap[child].due_ns)
            break;
        way->heap[at] = way->heap[child];
        at = child;
    }
    way->heap[at] = last;
    return first;
}

/* ---- the cable ---- */

static void accept_frame(struct way *way, uint32_t slot, uint32_t bytes)
{
    int64_t now = now_ns();
    if (way->free_ns < now)
        way->free_ns = now;
    if (way->free_ns - now > (int64_t)QUEUE_MS * 1000000) {
        way->overflowed++;
        return;
    }
    way->free_ns += ((int64_t)bytes + 24) * 8000 / mbit; /* preamble, checksum and gap as well */
    if ((int64_t)any(10000) < lost_of_10000) {
        way->lost++;
        return;
    }
    int64_t more = jitter_ns > 0 ? (int64_t)any((uint64_t)jitter_ns) : 0;
    put(way, (struct frame){way->free_ns + delay_ns + more, bytes, slot});
}

static void read_frames(struct way *way)
{
    for (int i = 0; i < BURST; i++) {
        uint32_t slot = way->count < FRAMES_MAX ? way->free_slots[way->count] : 0, held;
        uint8_t spare[FRAME_BYTES_MAX];
        uint8_t *into = way->count < FRAMES_MAX ? way->data[slot] : spare;
        ssize_t got = read(way->in, into, FRAME_BYTES_MAX);
        if (got <= 0)
            return;
        held = way->count;
        if (held == FRAMES_MAX)
            way->overflowed++;
        else
            accept_frame(way, slot, (uint32_t)got);
    }
}

/* Gives out what is due; returns when the next is. */
static int64_t write_frames(struct way *way)
{
    while (way->count > 0 && way->heap[0].due_ns <= now_ns()) {
        struct frame frame = take(way);
        way->free_slots[way->count] = frame.slot;
        if (write(way->out, way->data[frame.slot], frame.bytes) == (ssize_t)frame.bytes)
            way->passed++;
        else
            way->overflowed++;
    }
    return way->count > 0 ? way->heap[0].due_ns : INT64_MAX;
}

static void run(void)
{
    while (!is_over) {
        int64_t next = INT64_MAX;
        for (int i = 0; i < 2; i++) {
            int64_t due = write_frames(&ways[i]);
            next = due < next ? due : next;
        }
        struct pollfd fds[2] = {{.fd = ways[0].in, .events = POLLIN},
                                {.fd = ways[1].in, .events = POLLIN}};
        int64_t left = next == INT64_MAX ? 1000000000 : next - now_ns();
        struct timespec timeout = {.tv_sec = left < 0 ? 0 : left / 1000000000,
                                   .tv_nsec = left < 0 ? 0 : left % 1000000000};
        if (ppoll(fds, 2, &timeout, NULL) < 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (fds[i].revents)
                read_frames(&ways[i]);
    }
}

static void end(int number)
{
    (void)number;
    is_over = 1;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: cluster-wire PID_A PID_B NAME MBIT DELAY_US JITTER_US "
                        "LOST_OF_10000\n");
        return 2;
    }
    mbit = strtoll(argv[4], NULL, 10);
    delay_ns = strtoll(argv[5], NULL, 10) * 1000;
    jitter_ns = strtoll(argv[6], NULL, 10) * 1000;
    lost_of_10000 = strtoll(argv[7], NULL, 10);
    if (mbit < 1)
        return 2;
    int a = open_end(argv[1], argv[3]), b = open_end(argv[2], argv[3]);
    ways[0].in = ways[1].out = a;
    ways[0].out = ways[1].in = b;
    for (uint32_t i = 0; i < FRAMES_MAX; i++)
        ways[0].free_slots[i] = ways[1].free_slots[i] = i;
    signal(SIGTERM, end);
    puts("ready");
    fflush(stdout);
    run();
    for (int i = 0; i < 2; i++)
        printf("%s: %llu passed, %llu lost, %llu dropped\n", i == 0 ? "there" : "back",
               (unsigned long long)ways[i].passed, (unsigned long long)ways[i].lost,
               (unsigned long long)ways[i].overflowed);
    return 0;
}
