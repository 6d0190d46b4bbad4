// SPDX-License-Identifier: Apache-2.0
// Reads private memory of another process of this host through the kernel (process_vm_readv, "cross
// memory attach"): one copy, from its source directly to its destination. Private to transport/,
// except that kolorun info asks whether it is allowed.
//
// Whether that is allowed depends on the system (kernel.yama.ptrace_scope, containers, namespaces,
// users, seccomp), so it is tried. A process number can be reused by another process. Each read
// therefore also reads a random word of the peer's in the same call, and so from the same process.
#ifndef KOLO_TRANSPORT_PEER_MEMORY_H
#define KOLO_TRANSPORT_PEER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** How to find and recognise a process. All 0: it does not want to be read. */
struct kolo_peer_memory {
    int32_t pid;      /* in this process's namespace; 0: not visible here */
    uint64_t word_at; /* an address in that process that holds ... */
    uint64_t word;
};

/** The number of the process at the other end of a Unix socket, as the kernel knows it; 0: no
 *  process that is visible here. */
int32_t kolo_peer_memory_pid(int socket);

/** Copies @p bytes bytes at address @p at of the peer to @p to. ERR_UNSUPPORTED, with the reason:
 *  the memory or the peer is gone, or reading is not allowed; the content of @p to is then
 *  undefined. If the peer writes there meanwhile, the copy may have old or new bytes. */
kolo_status kolo_peer_memory_read(const struct kolo_peer_memory *peer, uint64_t at, void *to,
                                  size_t bytes) KOLO_NODISCARD;

#endif
