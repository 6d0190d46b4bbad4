// SPDX-License-Identifier: Apache-2.0
// runtime/store_thread.c: a store on a thread of its own, and how it stops.
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/await.h"
#include "tests/support/store_rank.h"

TestSuite(store_thread, .timeout = 60);

enum { SOON_MS = 60000 };

static struct kolo_store_thread *start(int size)
{
    struct kolo_store_thread *thread;
    const struct kolo_store_server_config config = {
        .size = size, .start_timeout_ms = SOON_MS, .stall_warn_ms = SOON_MS, .lost_grace_ms = 50};
    cr_assert(kolo_store_thread_start(&config, NULL, 0, NULL, &thread) == KOLO_OK, "%s",
              kolo_error_detail());
    return thread;
}

Test(store_thread, stop_without_ranks_is_at_once)
{
    int64_t begin = kolo_now_ns();
    kolo_store_thread_stop(start(3), kolo_deadline_in_ms(SOON_MS));
    kolo_store_thread_stop(NULL, 0);
    cr_assert(kolo_now_ns() - begin < SOON_MS * INT64_C(500000));
}

Test(store_thread, stop_waits_for_a_rank_up_to_its_deadline)
{
    struct store_rank rank = {0};
    int fd;
    struct kolo_store_thread *thread = start(1);
    cr_assert(kolo_store_thread_pair(thread, &fd) == KOLO_OK);
    cr_assert(store_rank_join(&rank, 0, 1, fd, NULL, 0, NULL, SOON_MS) == KOLO_OK, "%s", rank.why);
    int64_t begin = kolo_now_ns();
    kolo_store_thread_stop(thread, kolo_deadline_in_ms(200));
    cr_assert(kolo_now_ns() - begin >= INT64_C(200000000));
    cr_assert(store_rank_hear(&rank, 0, SOON_MS) && rank.lost == 1);
    store_rank_close(&rank);
}

Test(store_thread, pair_that_is_never_used_is_closed)
{
    int fd;
    char byte;
    struct kolo_store_thread *thread = start(1);
    cr_assert(kolo_store_thread_pair(thread, &fd) == KOLO_OK);
    kolo_store_thread_stop(thread, kolo_now_ns());
    cr_assert(recv(fd, &byte, 1, MSG_DONTWAIT) == 0);
    close(fd);
}

Test(store_thread, open_ports_become_one)
{
    struct kolo_place places[2] = {0};
    struct kolo_store_thread *thread;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct kolo_store_server_config config = {.size = 1, .start_timeout_ms = SOON_MS};
    uint16_t port = 0;
    memcpy(&places[0].addr, &v4, sizeof v4);
    places[0].bytes = sizeof v4;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    memcpy(&places[1].addr, &v4, sizeof v4);
    places[1].bytes = sizeof v4;
    cr_assert(kolo_store_thread_start(&config, places, 2, &port, &thread) == KOLO_OK, "%s",
              kolo_error_detail());
    for (uint32_t i = 0; i < 2; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
        v4.sin_port = htons(port);
        cr_assert(connect(fd, (struct sockaddr *)&v4, sizeof v4) == 0);
        close(fd);
    }
    kolo_store_thread_stop(thread, kolo_now_ns());
}

/* ---- a poller that breaks ---- */

static atomic_int warnings;

static void count_warnings(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    if (level == KOLO_LOG_WARN && strstr(line, "epoll_wait"))
        atomic_fetch_add(&warnings, 1);
}

enum { FDS_MAX = 1024 };

/** Finds the process's epoll descriptor that is not yet in @p known, and adds it there; -1: there
 * is none. */
static int find_epoll(bool known[FDS_MAX])
{
    char path[300], name[64];
    int found = -1;
    DIR *folder = opendir("/proc/self/fd");
    cr_assert(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        const ssize_t length = readlink(path, name, sizeof name - 1);
        name[length > 0 ? length : 0] = '\0';
        const int fd = atoi(entry->d_name);
        if (found < 0 && fd < FDS_MAX && !known[fd] && strcmp(name, "anon_inode:[eventpoll]") == 0)
            found = fd;
    }
    (void)closedir(folder);
    if (found >= 0)
        known[found] = true;
    return found;
}

/** Replaces the descriptor, as a program may that closes what it has not opened. */
static void break_poller(int epoll)
{
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert(other >= 0 && dup2(other, epoll) == epoll);
    (void)close(other);
}

Test(store_thread, a_broken_poller_ends_the_store_and_its_ranks_learn_why)
{
    struct store_rank rank = {0};
    int fd, unused;
    bool known[FDS_MAX] = {false};
    while (find_epoll(known) >= 0) /* the test framework's */
        continue;
    struct kolo_store_thread *thread = start(1);
    const int epoll = find_epoll(known);
    cr_assert(epoll >= 0);
    kolo_log_set_sink(count_warnings, NULL);
    cr_assert(kolo_store_thread_pair(thread, &fd) == KOLO_OK);
    cr_assert(store_rank_join(&rank, 0, 1, fd, NULL, 0, NULL, SOON_MS) == KOLO_OK, "%s", rank.why);
    break_poller(epoll);
    cr_assert(kolo_store_thread_pair(thread, &unused) == KOLO_OK); /* and wakes the thread */
    cr_assert(store_rank_hear(&rank, 0, SOON_MS));
    cr_assert(rank.failed == KOLO_ERR_SYSTEM && rank.failed_scope == KOLO_STORE_JOB, "%s",
              kolo_status_name(rank.failed));
    cr_assert(strstr(rank.text, "store") && strstr(rank.text, "epoll_wait"), "%s", rank.text);
    cr_assert(AWAIT(kolo_store_thread_pair(thread, &fd) != KOLO_OK));
    cr_assert(strstr(kolo_error_detail(), "epoll_wait"), "%s", kolo_error_detail());
    char byte;
    cr_assert(recv(unused, &byte, 1, 0) == 0, "nobody serves it, and nobody closes it");
    cr_assert(atomic_load(&warnings) == 1, "%d warnings", atomic_load(&warnings));
    (void)close(unused);
    store_rank_close(&rank);
    const int64_t begin = kolo_now_ns();
    kolo_store_thread_stop(thread, kolo_deadline_in_ms(SOON_MS));
    cr_assert(kolo_now_ns() - begin < SOON_MS * INT64_C(500000));
    kolo_log_set_sink(NULL, NULL);
}
