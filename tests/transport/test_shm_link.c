// SPDX-License-Identifier: Apache-2.0
#include "tests/support/shm_side.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/** In a child: rank 1, up, then @p act; the exit status says whether it came that far. */
static pid_t fork_rank(int socket, void (*act)(struct shm_side *side))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    static struct shm_side side;
    struct kolo_peer other;
    shm_side_init(&side, 1);
    if (!shm_side_open(&side) ||
        write(socket, &side.peers[1], sizeof side.peers[1]) != (ssize_t)sizeof side.peers[1] ||
        read(socket, &other, sizeof other) != (ssize_t)sizeof other ||
        !shm_side_meet(&side, &other) || !shm_drive_up(&side, 1))
        _exit(9);
    act(&side);
    _exit(7);
}

/** Rank 0 in this process, met with the child's. */
static void meet_child(struct shm_side *side, int socket)
{
    struct kolo_peer other;
    shm_side_init(side, 0);
    cr_assert(shm_side_open(side), "%s", kolo_error_detail());
    cr_assert(read(socket, &other, sizeof other) == (ssize_t)sizeof other);
    cr_assert(write(socket, &side->peers[0], sizeof other) == (ssize_t)sizeof other);
    cr_assert(shm_side_meet(side, &other), "%s", kolo_error_detail());
    cr_assert(shm_drive_up(side, 1));
}

static void send_forever(struct shm_side *side)
{
    static uint8_t data[MIB];
    for (;;) {
        struct kolo_work work;
        shm_send(side, 3, data, sizeof data, &work);
        if (!shm_drive(side, 1, &work.status) || work.status != KOLO_OK)
            return;
    }
}

static void lend_forever(struct shm_side *side)
{
    void *lent;
    if (kolo_heap_alloc(side->heap, MIB, &lent) != KOLO_OK)
        return;
    for (;;) {
        struct kolo_work work;
        shm_send(side, 3, lent, MIB, &work);
        if (!shm_drive(side, 1, &work.status) || work.status != KOLO_OK)
            return;
    }
}

/** Kills a child that sends, and sleeps as the runtime does until the link is down. */
static void kill_in_mid_transfer(void (*act)(struct shm_side *side))
{
    int pair[2], exit_status, fds = shm_count_fds(), maps = shm_count_maps();
    static struct shm_side side;
    static uint8_t data[MIB];
    struct kolo_work work;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork_rank(pair[1], act);
    meet_child(&side, pair[0]);
    for (int i = 0; i < 20; i++) {
        shm_recv(&side, 3, data, sizeof data, &work);
        cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_OK, "%d: %s",
                  (int)work.status, side.down_text);
    }
    cr_assert(kill(pid, SIGKILL) == 0);
    cr_assert(waitpid(pid, &exit_status, 0) == pid && WIFSIGNALED(exit_status));
    int64_t start = kolo_now_ns();
    while (side.downs == 0 && kolo_now_ns() - start < 5000000000) {
        bool moved;
        shm_recv(&side, 3, data, sizeof data, &work);
        while (work.status == KOLO_AGAIN) {
            kolo_endpoint_arm(side.endpoint);
            cr_assert(kolo_endpoint_progress(side.endpoint, &moved) == KOLO_OK);
            if (!moved)
                kolo_endpoint_sleep(side.endpoint, kolo_deadline_in_ms(5000));
            kolo_endpoint_disarm(side.endpoint);
        }
    }
    cr_assert(side.downs == 1 && side.down_why == KOLO_ERR_LINK);
    cr_assert(kolo_now_ns() - start < 1000000000, "took %lld ms",
              (long long)(kolo_now_ns() - start) / 1000000);
    char expected[128];
    snprintf(expected, sizeof expected, "pid %d: process ended", (int)pid);
    cr_assert(strstr(side.down_text, expected) != NULL, "%s", side.down_text);
    shm_side_close(&side);
    close(pair[0]);
    close(pair[1]);
    cr_assert(shm_count_fds() == fds && shm_count_maps() == maps,
              "%d descriptors, %d mappings left", shm_count_fds() - fds, shm_count_maps() - maps);
}

Test(shm_link, a_peer_killed_while_it_sends_is_noticed, .timeout = 60)
{
    kill_in_mid_transfer(send_forever);
}

Test(shm_link, a_peer_killed_while_it_lends_is_noticed, .timeout = 60)
{
    kill_in_mid_transfer(lend_forever);
}

static void send_and_die(struct shm_side *side)
{
    static uint8_t data[1000];
    struct kolo_work work;
    memset(data, 9, sizeof data);
    for (int i = 0; i < 10; i++)
        shm_send(side, 3, data, sizeof data, &work);
    raise(SIGKILL);
}

Test(shm_link, what_a_killed_peer_had_published_still_arrives, .timeout = 60)
{
    int pair[2], exit_status;
    static struct shm_side side;
    uint8_t data[1000];
    struct kolo_work work;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork_rank(pair[1], send_and_die);
    meet_child(&side, pair[0]);
    cr_assert(waitpid(pid, &exit_status, 0) == pid && WIFSIGNALED(exit_status));
    for (int i = 0; i < 10; i++) {
        memset(data, 0, sizeof data);
        shm_recv(&side, 3, data, sizeof data, &work);
        cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_OK, "message %d: %d", i,
                  (int)work.status);
        cr_assert(data[0] == 9 && data[999] == 9);
    }
    shm_recv(&side, 3, data, sizeof data, &work);
    cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_ERR_LINK);
    shm_side_close(&side);
    close(pair[0]);
    close(pair[1]);
}
