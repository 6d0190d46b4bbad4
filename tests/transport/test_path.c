// SPDX-License-Identifier: Apache-2.0
// transport/path.c: which class of path a setting means, and whose line counts.
#include "transport/path.h"

#include <criterion/criterion.h>
#include <string.h>

#include "transport/link.h"
#include "transport/tcp.h"

static int index_of(const char *transport)
{
    int index = 0;
    while (kolo_transports[index] && strcmp(kolo_transports[index]->name, transport) != 0)
        index++;
    return index;
}

Test(path, has_a_name)
{
    for (enum kolo_path path = 0; path < KOLO_PATHS; path++)
        for (enum kolo_path other = 0; other < path; other++)
            cr_assert_str_neq(kolo_path_text(path), kolo_path_text(other));
    cr_assert_str_eq(kolo_path_text(KOLO_PATH_LOOPBACK), "loopback");
    cr_assert_str_eq(kolo_path_text(KOLO_PATHS), "?");
}

Test(path, inside_a_host_is_what_the_setting_forces_or_the_nearest)
{
    cr_assert_eq(kolo_path_inside("auto", true), KOLO_PATH_INPROC);
    cr_assert_eq(kolo_path_inside("auto", false), KOLO_PATH_SHM);
    cr_assert_eq(kolo_path_inside("inproc", true), KOLO_PATH_INPROC);
    for (int is_one_process = 0; is_one_process < 2; is_one_process++) {
        cr_assert_eq(kolo_path_inside("shm", is_one_process), KOLO_PATH_SHM);
        cr_assert_eq(kolo_path_inside("tcp", is_one_process), KOLO_PATH_LOOPBACK);
        cr_assert_eq(kolo_path_inside("rdma", is_one_process), KOLO_PATH_RDMA);
    }
}

Test(path, is_rdma_if_that_is_forced_or_offered)
{
    struct kolo_peer peer = {.identity = {.rank = 1}};
    cr_assert(kolo_path_can_be_rdma("rdma", &peer));
    cr_assert_not(kolo_path_can_be_rdma("auto", &peer), "it offers nothing");
    const int rdma = index_of("rdma");
    if (!kolo_transports[rdma])
        return; /* a build without RDMA: no peer can offer it */
    peer.addresses[rdma].bytes = 1;
    cr_assert(kolo_path_can_be_rdma("auto", &peer));
    cr_assert_not(kolo_path_can_be_rdma("tcp", &peer));
}

Test(path, has_the_line_of_its_own_transport)
{
    static const uint8_t ip[] = {10, 0, 0, 1};
    struct kolo_peer peer = {.identity = {.rank = 1}};
    struct kolo_place place = kolo_place_make(AF_INET, ip, 4000);
    place.facts.is_hardware = true;
    place.facts.speed_mbit = 25000;
    cr_assert_eq(kolo_tcp_write_places(&place, 1, &peer.addresses[index_of("tcp")]), KOLO_OK);
    cr_assert_eq(kolo_path_line(KOLO_PATH_NETWORK, &peer).mbit, 25000);
    cr_assert_eq(kolo_path_line(KOLO_PATH_RDMA, &peer).mbit, 0);
}
