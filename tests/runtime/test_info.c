// SPDX-License-Identifier: Apache-2.0
// What a rank knows of itself and of the others, as threads. test_init.c has processes.
#include <criterion/criterion.h>

#include <string.h>
#include <unistd.h>

#include "tests/support/world.h"

static kolo_status look(struct kolo_comm *comm, void *argument)
{
    struct kolo_info info = {.size = sizeof info};
    struct kolo_peer_info peer = {.size = sizeof peer}, first = {.size = sizeof first};
    char host[65] = "";
    kolo_status status;
    (void)argument;
    gethostname(host, sizeof host - 1);
    KOLO_TRY(kolo_get_info(comm, &info));
    WORLD_EXPECT(info.rank == kolo_rank(comm) && info.nranks == 3 && info.local_nranks == 3 &&
                     info.local_rank == info.rank,
                 "rank %d of %d, here %d of %d", info.rank, info.nranks, info.local_rank,
                 info.local_nranks);
    WORLD_EXPECT(strcmp(info.host, host) == 0, "host %s", info.host);
    WORLD_EXPECT(strstr(info.memory_kinds, "host") != NULL, "kinds %s", info.memory_kinds);
    WORLD_EXPECT(strstr(info.transports, "inproc") && strstr(info.transports, "tcp"),
                 "transports %s", info.transports);
    WORLD_EXPECT(strstr(info.left_out, "rdma") && strstr(info.left_out, "cuda"), "left out: %s",
                 info.left_out);
    for (int rank = 0; rank < 3; rank++) {
        KOLO_TRY(kolo_get_peer_info(comm, rank, &peer));
        WORLD_EXPECT(peer.rank == rank && peer.pid == getpid() && peer.local_rank == rank &&
                         strcmp(peer.host, host) == 0,
                     "rank %d: pid %d on %s", peer.rank, peer.pid, peer.host);
        WORLD_EXPECT(strcmp(peer.transport, rank == info.rank ? "self" : "inproc") == 0 &&
                         peer.why[0] != '\0',
                     "rank %d by %s: %s", rank, peer.transport, peer.why);
    }
    KOLO_TRY(kolo_get_peer_info(comm, info.rank, &first));
    KOLO_TRY(kolo_get_peer_info(comm, (info.rank + 1) % info.nranks, &peer));
    WORLD_EXPECT(strcmp(first.why, "this rank") == 0, "the next question changed it: %s",
                 first.why);
out:
    return status;
}

Test(info, of_itself_and_of_others, .timeout = 120)
{
    struct world world = {.size = 3};
    WORLD_MUST_RUN(&world, look, NULL);
}
