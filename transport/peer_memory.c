// SPDX-License-Identifier: Apache-2.0
// Reads memory of other processes of this host. Must never trust a process number without the word
// that proves it, and never take a partial copy for the whole.
#include "transport/peer_memory.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

int32_t kolo_peer_memory_pid(int socket)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 || who.pid <= 0)
        return 0;
    return (int32_t)who.pid;
}

kolo_status kolo_peer_memory_read(const struct kolo_peer_memory *peer, uint64_t at, void *to,
                                  size_t bytes)
{
    uint64_t word = ~peer->word;
    const struct iovec here[] = {{to, bytes}, {&word, sizeof word}};
    const struct iovec there[] = {{(void *)(uintptr_t)at, bytes},
                                  {(void *)(uintptr_t)peer->word_at, sizeof word}};
    if (peer->pid <= 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "its process cannot be seen from here");
    ssize_t got = process_vm_readv(peer->pid, here, 2, there, 2, 0);
    if (got < 0)
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "process_vm_readv of pid %d",
                               (int)peer->pid);
    if ((size_t)got != bytes + sizeof word)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "%zu of %zu bytes of pid %d can be read",
                         (size_t)got, bytes + sizeof word, (int)peer->pid);
    if (word != peer->word)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "pid %d is another process", (int)peer->pid);
    return KOLO_OK;
}
