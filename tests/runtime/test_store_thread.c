// SPDX-License-Identifier: Apache-2.0
// runtime/store_thread.c: a store on a thread of its own, and how it stops.
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
