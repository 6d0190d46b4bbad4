// SPDX-License-Identifier: Apache-2.0
// Memory and file descriptors that two processes of a host share: sealed memfds, short messages
// with descriptors over a Unix socket (SCM_RIGHTS), and the doorbell that ends a peer's sleep.
// Private to the shm transport.
//
// Nothing here has a name in the file system, so nothing can be left behind. A descriptor that
// arrives is trusted only as far as it was checked: memory must be a memfd of exactly the expected
// size, sealed against shrinking (a truncated mapping would be SIGBUS) and growing.
#ifndef KOLO_TRANSPORT_SHM_FDS_H
#define KOLO_TRANSPORT_SHM_FDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { KOLO_SHM_MESSAGE_BYTES = 32, KOLO_SHM_MESSAGE_FDS = 3 };

/** A message on the Unix socket. The descriptors in fds are the receiver's to close. */
struct kolo_shm_message {
    uint32_t kind;
    uint64_t id, bytes;
    uint64_t span; /* KOLO_SHM_SPAN: what the sender's heap calls it; 0 in all others */
    int fds[KOLO_SHM_MESSAGE_FDS];
    size_t fd_count;
};

/** What has arrived of the next message. Zero before the first. */
struct kolo_shm_inbox {
    uint8_t data[KOLO_SHM_MESSAGE_BYTES];
    size_t have;
    int fds[KOLO_SHM_MESSAGE_FDS];
    size_t fd_count;
};

/** KOLO_AGAIN: the socket is full, nothing was sent. ERR_LINK: the peer is gone. ERR_SYSTEM:
 * descriptors cannot be passed here. */
kolo_status kolo_shm_message_send(int socket,
                                  const struct kolo_shm_message *message) KOLO_NODISCARD;
/** KOLO_AGAIN: not complete yet. ERR_LINK: the peer has closed. ERR_PROTOCOL, ERR_SYSTEM: why. */
kolo_status kolo_shm_inbox_read(struct kolo_shm_inbox *inbox, int socket,
                                struct kolo_shm_message *message_out) KOLO_NODISCARD;
/** Closes the descriptors of a message that is not used. */
void kolo_shm_message_drop(struct kolo_shm_message *message);
/** Closes what an unfinished message has brought. */
void kolo_shm_inbox_fini(struct kolo_shm_inbox *inbox);

/** @p bytes zeroed bytes, mapped, sealed in size, with a descriptor to pass on. */
kolo_status kolo_shm_memory_create(const char *name, size_t bytes, int *fd_out,
                                   void **base_out) KOLO_NODISCARD;
/** As kolo_shm_memory_create, but only the first @p now_bytes have their pages at once, the others
 * when they are touched, and others can map it for reading only (where the kernel can say so). */
kolo_status kolo_shm_segment_create(const char *name, size_t bytes, size_t now_bytes, int *fd_out,
                                    void **base_out) KOLO_NODISCARD;
/** Gives the first @p bytes their pages. */
kolo_status kolo_shm_segment_reserve(int fd, size_t bytes) KOLO_NODISCARD;
/** Is @p fd a memfd of @p bytes bytes that can neither shrink nor grow? ERR_PROTOCOL saying what it
 * is instead. */
kolo_status kolo_shm_memory_check(int fd, size_t bytes) KOLO_NODISCARD;
/** Checks, then maps. The descriptor stays the caller's. */
kolo_status kolo_shm_memory_map(int fd, size_t bytes, bool is_writable,
                                void **base_out) KOLO_NODISCARD;
/** NULL is fine. */
void kolo_shm_memory_unmap(void *base, size_t bytes);

/** Whether a process of this host can do all this: makes memory, passes it to itself and maps it.
 * The detail says what was refused. */
kolo_status kolo_shm_probe(void) KOLO_NODISCARD;

/** A peer's doorbell: the page with its armed word, and the eventfd that its sleep watches. */
struct kolo_shm_bell {
    _Atomic uint32_t *armed; /* NULL: not connected yet */
    int event_fd;
};
enum { KOLO_SHM_BELL_BYTES = 4096 };

/** Maps the page and takes over @p event_fd; on failure both descriptors stay the caller's. The
 * page's descriptor does so always. */
kolo_status kolo_shm_bell_open(struct kolo_shm_bell *bell, int page_fd,
                               int event_fd) KOLO_NODISCARD;
void kolo_shm_bell_close(struct kolo_shm_bell *bell);
/** Wakes the peer if it sleeps. Comes after a sequentially consistent store of what it shall see.
 */
void kolo_shm_bell_ring(const struct kolo_shm_bell *bell);

#endif
