// SPDX-License-Identifier: Apache-2.0
// Owns memfds, messages with descriptors (SCM_RIGHTS) and doorbells. Must never block, and never
// trust a descriptor to be what its sender says.
//
// Wire format of a message, little-endian: u32 magic, u32 kind, u64 id, u64 bytes, u64 span. Its
// descriptors travel with its first byte. A read from a stream socket ends where descriptors begin,
// so reading 32 bytes at a time keeps each message with its descriptors.
#include "transport/shm_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/wire.h"
#include "memory/memory.h"
#include "memory/shared_file.h"

static const uint32_t message_magic = 0x316d686b; /* "khm1" */
static const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

enum { SEAL_FUTURE_WRITE = 0x10 /* F_SEAL_FUTURE_WRITE of Linux 5.1 */ };

/** Room for the descriptors of one message, aligned as the kernel requires. */
union ancillary {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(int[KOLO_SHM_MESSAGE_FDS]))];
};

/* ---- messages ---- */

static kolo_status pack(const struct kolo_shm_message *message,
                        uint8_t data[KOLO_SHM_MESSAGE_BYTES])
{
    struct kolo_writer writer = kolo_writer_over(data, KOLO_SHM_MESSAGE_BYTES);
    size_t bytes;
    kolo_write_u32(&writer, message_magic);
    kolo_write_u32(&writer, message->kind);
    kolo_write_u64(&writer, message->id);
    kolo_write_u64(&writer, message->bytes);
    kolo_write_u64(&writer, message->span);
    return kolo_writer_finish(&writer, data, &bytes);
}

static void attach_fds(struct msghdr *header, union ancillary *ancillary, const int *fds,
                       size_t count)
{
    if (count == 0)
        return;
    memset(ancillary, 0, sizeof *ancillary);
    header->msg_control = ancillary->bytes;
    header->msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *rights = &ancillary->align;
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
}

kolo_status kolo_shm_message_send(int socket, const struct kolo_shm_message *message)
{
    uint8_t data[KOLO_SHM_MESSAGE_BYTES];
    kolo_status status = pack(message, data);
    if (status != KOLO_OK)
        return status;
    struct iovec piece = {.iov_base = data, .iov_len = sizeof data};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    union ancillary ancillary;
    attach_fds(&header, &ancillary, message->fds, message->fd_count);
    ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    int error = errno;
    if (sent == (ssize_t)sizeof data)
        return KOLO_OK;
    if (sent >= 0) // a Unix socket takes 32 bytes completely or not at all
        return kolo_fail(KOLO_ERR_INTERNAL, "shm: %zd of %zu bytes sent", sent, sizeof data);
    // ETOOMANYREFS: of all descriptors that processes of this user have passed, too many have not
    // been taken yet, for the sender's limit of open files
    if (error == EAGAIN || error == EINTR || error == ENOBUFS || error == ETOOMANYREFS)
        return KOLO_AGAIN;
    if (error == EPIPE || error == ECONNRESET)
        return kolo_fail_errno(KOLO_ERR_LINK, error, "shm: send to the peer");
    return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "shm: pass %zu descriptors to the peer",
                           message->fd_count);
}

static void close_fds(int *fds, size_t *count)
{
    while (*count > 0)
        close(fds[--*count]);
}

void kolo_shm_message_drop(struct kolo_shm_message *message)
{
    close_fds(message->fds, &message->fd_count);
}

void kolo_shm_inbox_fini(struct kolo_shm_inbox *inbox)
{
    close_fds(inbox->fds, &inbox->fd_count);
}

/** Keeps the descriptors that came with a read; surplus ones are closed. */
static bool keep_fds(struct kolo_shm_inbox *inbox, struct msghdr *header)
{
    bool fit = true;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (inbox->fd_count < KOLO_SHM_MESSAGE_FDS) {
                inbox->fds[inbox->fd_count++] = kolo_descriptor_keep(fd);
            } else {
                close(fd);
                fit = false;
            }
        }
    }
    return fit;
}

/** Reads once. KOLO_OK: some bytes arrived. */
static kolo_status fill(struct kolo_shm_inbox *inbox, int socket)
{
    union ancillary ancillary;
    struct iovec piece = {.iov_base = inbox->data + inbox->have,
                          .iov_len = sizeof inbox->data - inbox->have};
    struct msghdr header = {.msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = ancillary.bytes,
                            .msg_controllen = sizeof ancillary.bytes};
    ssize_t got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    int error = errno;
    if (got < 0 && (error == EAGAIN || error == EINTR))
        return KOLO_AGAIN;
    if (got < 0 && error != ECONNRESET) // reset: it was closed with unread messages of ours
        return kolo_fail_errno(KOLO_ERR_LINK, error, "receive from the peer");
    if (got <= 0)
        return kolo_fail(KOLO_ERR_LINK, "process ended");
    if (!keep_fds(inbox, &header))
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: a message brings more than %d descriptors",
                         KOLO_SHM_MESSAGE_FDS);
    if (header.msg_flags & MSG_CTRUNC)
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "shm: the system dropped the descriptors that the peer passed: raise the "
                         "limit of open files (ulimit -n)"); /* the link's end adds a second way */
    inbox->have += (size_t)got;
    return KOLO_OK;
}

/** Makes a message from a full inbox, and empties it. */
static kolo_status take(struct kolo_shm_inbox *inbox, struct kolo_shm_message *message_out)
{
    struct kolo_reader reader = kolo_reader_over(inbox->data, sizeof inbox->data);
    struct kolo_shm_message message = {.fd_count = inbox->fd_count};
    uint32_t magic = kolo_read_u32(&reader);
    message.kind = kolo_read_u32(&reader);
    message.id = kolo_read_u64(&reader);
    message.bytes = kolo_read_u64(&reader);
    message.span = kolo_read_u64(&reader);
    kolo_status status = kolo_reader_finish(&reader, "shm message");
    if (status != KOLO_OK)
        return status;
    if (magic != message_magic)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "shm: a message begins with 0x%08x where 0x%08x is expected", magic,
                         message_magic);
    memcpy(message.fds, inbox->fds, sizeof message.fds);
    inbox->fd_count = 0;
    inbox->have = 0;
    *message_out = message;
    return KOLO_OK;
}

kolo_status kolo_shm_inbox_read(struct kolo_shm_inbox *inbox, int socket,
                                struct kolo_shm_message *message_out)
{
    while (inbox->have < sizeof inbox->data) {
        kolo_status status = fill(inbox, socket);
        if (status != KOLO_OK)
            return status;
    }
    return take(inbox, message_out);
}

/* ---- memory ---- */

/** From now on only existing mappings may write to it. False: an old kernel, which cannot enforce
 *  that. */
static bool seal_for_readers(int fd)
{
    return fcntl(fd, F_ADD_SEALS, size_seals | SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
}

/** Makes a memfd of @p bytes bytes, of which the first @p now_bytes have pages. They are allocated
 *  now, since a lack of them later would cause SIGBUS; by kolo_shared_file_allocate, since zeros
 *  must not be written into what is in use, and the seal forbids it. */
static kolo_status create(const char *name, size_t bytes, size_t now_bytes, bool is_for_readers,
                          int *fd_out, void **base_out)
{
    void *base = MAP_FAILED;
    kolo_status status = kolo_shared_memory_check(bytes);
    if (status != KOLO_OK)
        return status;
    int fd = kolo_memfd_create(name);
    if (fd < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "memfd_create %s", name);
    int error =
        ftruncate(fd, (off_t)bytes) == 0 ? kolo_shared_file_allocate(fd, 0, now_bytes) : errno;
    if (error != 0) {
        status = kolo_shared_memory_refused(error, bytes);
        goto out;
    }
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        status = kolo_shared_memory_unmappable(errno, bytes);
        goto out;
    }
    if (!(is_for_readers && seal_for_readers(fd)) &&
        fcntl(fd, F_ADD_SEALS, size_seals | F_SEAL_SEAL) != 0) {
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "seal %s", name);
        kolo_shm_memory_unmap(base, bytes);
        goto out;
    }
    *fd_out = fd;
    *base_out = base;
    return KOLO_OK;
out:
    close(fd);
    return status;
}

kolo_status kolo_shm_memory_create(const char *name, size_t bytes, int *fd_out, void **base_out)
{
    return create(name, bytes, bytes, false, fd_out, base_out);
}

kolo_status kolo_shm_segment_create(const char *name, size_t bytes, size_t now_bytes, int *fd_out,
                                    void **base_out)
{
    return create(name, bytes, now_bytes, true, fd_out, base_out);
}

kolo_status kolo_shm_segment_reserve(int fd, size_t bytes)
{
    int error = kolo_shared_file_allocate(fd, 0, bytes);
    return error == 0 ? KOLO_OK : kolo_shared_memory_refused(error, bytes);
}

kolo_status kolo_shm_memory_check(int fd, size_t bytes)
{
    struct stat facts;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return kolo_fail_errno(KOLO_ERR_PROTOCOL, errno, "shm: a descriptor is no memfd");
    if ((seals & size_seals) != size_seals)
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: memory is not sealed in size (seals 0x%x)",
                         (unsigned)seals);
    if (fstat(fd, &facts) != 0)
        return kolo_fail_errno(KOLO_ERR_PROTOCOL, errno, "shm: fstat of memory");
    if (facts.st_size < 0 || (uint64_t)facts.st_size != bytes)
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: memory of %lld bytes where %zu are announced",
                         (long long)facts.st_size, bytes);
    return KOLO_OK;
}

kolo_status kolo_shm_memory_map(int fd, size_t bytes, int protection, void **base_out)
{
    kolo_status status = kolo_shm_memory_check(fd, bytes);
    if (status != KOLO_OK)
        return status;
    void *base = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return kolo_shared_memory_unmappable(errno, bytes);
    *base_out = base;
    return KOLO_OK;
}

void kolo_shm_memory_unmap(void *base, size_t bytes)
{
    if (base)
        munmap(base, bytes);
}

/* ---- probe ---- */

/** Passes @p fd through the socket pair and maps what arrives. */
static kolo_status pass_to_self(const int pair[2], int fd)
{
    struct kolo_shm_inbox inbox = {0};
    struct kolo_shm_message message = {.kind = 1, .fds = {fd}, .fd_count = 1}, arrived;
    void *base = NULL;
    kolo_status status;
    KOLO_TRY(kolo_shm_message_send(pair[0], &message));
    KOLO_TRY(kolo_shm_inbox_read(&inbox, pair[1], &arrived));
    if (arrived.fd_count != 1) {
        status = kolo_fail(KOLO_ERR_SYSTEM, "a descriptor that was passed did not arrive");
        goto out;
    }
    status =
        kolo_shm_memory_map(arrived.fds[0], KOLO_SHM_BELL_BYTES, PROT_READ | PROT_WRITE, &base);
    kolo_shm_memory_unmap(base, KOLO_SHM_BELL_BYTES);
    kolo_shm_message_drop(&arrived);
out:
    kolo_shm_inbox_fini(&inbox);
    return status;
}

kolo_status kolo_shm_probe(void)
{
    int pair[2], fd;
    void *base;
    kolo_status status = kolo_shm_memory_create("kolo-probe", KOLO_SHM_BELL_BYTES, &fd, &base);
    if (status != KOLO_OK)
        return status;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "socketpair");
    } else {
        status = pass_to_self(pair, fd);
        close(pair[0]);
        close(pair[1]);
    }
    kolo_shm_memory_unmap(base, KOLO_SHM_BELL_BYTES);
    close(fd);
    return status;
}

/* ---- doorbell ---- */

/** A write to a pipe or a socket could end the program by SIGPIPE. Files without a type are the
 *  kernel's own objects, none of which does that; which of them it is only /proc says, if it is
 *  there. */
static bool is_eventfd(int fd)
{
    static const char expected[] = "anon_inode:[eventfd]";
    char path[32], name[sizeof expected];
    struct stat facts;
    if (fstat(fd, &facts) != 0 || (facts.st_mode & S_IFMT) != 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, name, sizeof name);
    return length < 0 ||
           (length == sizeof expected - 1 && memcmp(name, expected, sizeof expected - 1) == 0);
}

kolo_status kolo_shm_bell_open(struct kolo_shm_bell *bell, int page_fd, int event_fd)
{
    void *page = NULL;
    int flags = fcntl(event_fd, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) == 0)
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: the peer's eventfd could block us");
    if (!is_eventfd(event_fd))
        return kolo_fail(KOLO_ERR_PROTOCOL, "shm: the peer's doorbell is no eventfd");
    kolo_status status =
        kolo_shm_memory_map(page_fd, KOLO_SHM_BELL_BYTES, PROT_READ | PROT_WRITE, &page);
    if (status != KOLO_OK)
        return status;
    *bell = (struct kolo_shm_bell){.armed = page, .event_fd = event_fd};
    return KOLO_OK;
}

void kolo_shm_bell_close(struct kolo_shm_bell *bell)
{
    if (!bell->armed)
        return;
    kolo_shm_memory_unmap(bell->armed, KOLO_SHM_BELL_BYTES);
    close(bell->event_fd);
    *bell = (struct kolo_shm_bell){.event_fd = -1};
}

void kolo_shm_bell_ring(const struct kolo_shm_bell *bell)
{
    static const uint64_t one = 1;
    if (atomic_load_explicit(bell->armed, memory_order_seq_cst) == 0 ||
        atomic_exchange_explicit(bell->armed, 0, memory_order_seq_cst) == 0)
        return;
    ssize_t written = write(bell->event_fd, &one, sizeof one);
    (void)written; // EAGAIN: the counter is full, so the peer is awake or about to wake
}
