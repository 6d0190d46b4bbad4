// SPDX-License-Identifier: Apache-2.0
// Memory of another process of this host that is not shared, read by the kernel
// (process_vm_readv, "cross memory attach"): one copy, from where it lies to where it belongs.
// Private to transport/.
//
// Whether that is allowed is the system's affair (kernel.yama.ptrace_scope, containers, namespaces,
// users, seccomp), so it is tried. A number of a process can come to mean another one: each read
// takes, by the same call and so from the same process, a random word of the peer's along with it.
#ifndef KOLO_TRANSPORT_PEER_MEMORY_H
#define KOLO_TRANSPORT_PEER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** By what a process is found, and known again. All 0: it does not want to be read. */
struct kolo_peer_memory {
    int32_t pid;      /* as this process sees it; 0: it does not */
    uint64_t word_at; /* an address in that process, where there is ... */
    uint64_t word;
};

/** The process at the other end of a Unix socket, as the kernel knows it; 0: none that this process
 * could name. */
int32_t kolo_peer_memory_pid(int socket);

/** @p bytes bytes at address @p at of the peer, into @p to. Else ERR_UNSUPPORTED and why: the
 * memory or the peer is gone, or it must not be read; what is in @p to then means nothing. What the
 * peer writes there meanwhile may come as it was before or after. */
kolo_status kolo_peer_memory_read(const struct kolo_peer_memory *peer, uint64_t at, void *to,
                                  size_t bytes) KOLO_NODISCARD;

#endif
