// SPDX-License-Identifier: Apache-2.0
// Classes of ways between ranks, as far as a cost model tells them apart. Here the names of
// transports are known, so that runtime/ needs none of them.
#ifndef KOLO_TRANSPORT_PATH_H
#define KOLO_TRANSPORT_PATH_H

#include "transport/transport.h"

/** How two ranks are joined: X(name, text). */
#define KOLO_PATH_MAP(X)                                                                           \
    X(INPROC, "inproc")     /* threads of one process */                                           \
    X(SHM, "shm")           /* one host, shared memory */                                          \
    X(LOOPBACK, "loopback") /* one host, sockets */                                                \
    X(RDMA, "rdma")         /* any two, by RDMA */                                                 \
    X(NETWORK, "network")   /* two hosts, sockets */

enum kolo_path {
#define KOLO_PATH_ENUM(name, text) KOLO_PATH_##name,
    KOLO_PATH_MAP(KOLO_PATH_ENUM)
#undef KOLO_PATH_ENUM
        KOLO_PATHS
};
/** "shm"; "?" if there is no such path. */
const char *kolo_path_text(enum kolo_path path);

/** The path between ranks of one host, who are threads of one process if @p is_one_process, where
 *  KOLO_TRANSPORT is @p setting. */
enum kolo_path kolo_path_inside(const char *setting, bool is_one_process);
/** Whether ranks of other hosts reach @p peer by RDMA where KOLO_TRANSPORT is @p setting, as far as
 *  all ranks know alike: it is forced, or nothing is and the peer offers it. */
bool kolo_path_can_be_rdma(const char *setting, const struct kolo_peer *peer);
/** The line of @p peer on KOLO_PATH_RDMA or _NETWORK. All ranks get the same answer. */
struct kolo_line kolo_path_line(enum kolo_path path, const struct kolo_peer *peer);

#endif
