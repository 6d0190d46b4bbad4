// SPDX-License-Identifier: Apache-2.0
// What two processes of a host share: sealed memfds, short messages with file descriptors over a
// Unix socket (SCM_RIGHTS), and the doorbell that wakes a sleeping peer. Private to the shm
// transport.
//
// Nothing here has a name in the file system, so nothing can be left behind. A descriptor that
// arrives is not trusted before it was checked: memory must be a memfd of exactly the expected
// size, sealed against shrinking (a truncated mapping would cause SIGBUS) and growing.
#ifndef KOLO_TRANSPORT_SHM_FDS_H
#define KOLO_TRANSPORT_SHM_FDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { KOLO_SHM_MESSAGE_BYTES = 32, KOLO_SHM_MESSAGE_FDS = 3 };

/** A message on the Unix socket. The receiver must close the descriptors in fds. */
struct kolo_shm_message {
    uint32_t kind;
    uint64_t id, bytes;
    uint64_t span; /* KOLO_SHM_SPAN: the span's number in the sender's heap; 0 in all others */
    int fds[KOLO_SHM_MESSAGE_FDS];
    size_t fd_count;
};

/** The part of the next message that has arrived. Must be zero before the first message. */
struct kolo_shm_inbox {
    uint8_t data[KOLO_SHM_MESSAGE_BYTES];
    size_t have;
    int fds[KOLO_SHM_MESSAGE_FDS];
    size_t fd_count;
};

/** KOLO_AGAIN: the socket is full, or the processes of this user have passed too many descriptors
 *  that were not taken yet; nothing was sent, and only time tells when it may be. ERR_LINK: the
 *  peer is gone. ERR_SYSTEM: descriptors cannot be passed on this system. */
kolo_status kolo_shm_message_send(int socket,
                                  const struct kolo_shm_message *message) KOLO_NODISCARD;
/** KOLO_AGAIN: not complete yet. ERR_LINK: the peer has closed. ERR_PROTOCOL, ERR_SYSTEM: the
 *  detail says why. */
kolo_status kolo_shm_inbox_read(struct kolo_shm_inbox *inbox, int socket,
                                struct kolo_shm_message *message_out) KOLO_NODISCARD;
/** Closes the descriptors of a message that is not used. */
void kolo_shm_message_drop(struct kolo_shm_message *message);
/** Closes the descriptors of an unfinished message. */
void kolo_shm_inbox_fini(struct kolo_shm_inbox *inbox);

/** Makes @p bytes zeroed bytes, mapped, sealed in size, with a descriptor to pass on. */
kolo_status kolo_shm_memory_create(const char *name, size_t bytes, int *fd_out,
                                   void **base_out) KOLO_NODISCARD;
/** As kolo_shm_memory_create, but only the first @p now_bytes have pages at once, the others when
 *  they are touched, and other processes can only map it for reading (if the kernel can enforce
 *  that). */
kolo_status kolo_shm_segment_create(const char *name, size_t bytes, size_t now_bytes, int *fd_out,
                                    void **base_out) KOLO_NODISCARD;
/** Allocates pages for the first @p bytes bytes. */
kolo_status kolo_shm_segment_reserve(int fd, size_t bytes) KOLO_NODISCARD;
/** Checks that @p fd is a memfd of @p bytes bytes that can neither shrink nor grow. ERR_PROTOCOL
 *  says what it is instead. */
kolo_status kolo_shm_memory_check(int fd, size_t bytes) KOLO_NODISCARD;
/** Checks, then maps with @p protection (PROT_READ...). The descriptor stays the caller's. */
kolo_status kolo_shm_memory_map(int fd, size_t bytes, int protection,
                                void **base_out) KOLO_NODISCARD;
/** @p base may be NULL. */
void kolo_shm_memory_unmap(void *base, size_t bytes);

/** Tries whether processes of this host can do all this: makes memory, passes it to itself and maps
 *  it. The detail says what was refused. */
kolo_status kolo_shm_probe(void) KOLO_NODISCARD;

/** A peer's doorbell: the page with its `armed` word, and the eventfd that ends its sleep. */
struct kolo_shm_bell {
    _Atomic uint32_t *armed; /* NULL: not connected yet */
    int event_fd;
};
enum { KOLO_SHM_BELL_BYTES = 4096 };

/** Maps the page and takes over @p event_fd; on failure it stays the caller's. @p page_fd stays the
 *  caller's in every case. ERR_PROTOCOL: they are not what they should be. */
kolo_status kolo_shm_bell_open(struct kolo_shm_bell *bell, int page_fd,
                               int event_fd) KOLO_NODISCARD;
void kolo_shm_bell_close(struct kolo_shm_bell *bell);
/** Wakes the peer if it sleeps. To be called after a sequentially consistent store of what it
 *  should see. */
void kolo_shm_bell_ring(const struct kolo_shm_bell *bell);

#endif
