// SPDX-License-Identifier: Apache-2.0
// transport/shm_fds.c: shared memory and messages with descriptors over a socket, and the wake-up
// of a peer.
#include "transport/shm_fds.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/wire.h"
#include "tests/support/refuse.h"

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void make_pair(int pair[2])
{
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
}

static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

Test(shm_fds, memory_is_shared_through_its_descriptor)
{
    int before = count_fds(), fd;
    void *mine, *theirs;
    cr_assert(kolo_shm_memory_create("kolo-test", 10000, &fd, &mine) == KOLO_OK);
    cr_assert(kolo_shm_memory_map(fd, 10000, PROT_READ, &theirs) == KOLO_OK, "%s",
              kolo_error_detail());
    memcpy(mine, "ring", 5);
    cr_assert(strcmp(theirs, "ring") == 0);
    cr_assert(ftruncate(fd, 4096) != 0, "memory that can shrink is a SIGBUS");
    cr_assert(ftruncate(fd, 20000) != 0);
    kolo_shm_memory_unmap(mine, 10000);
    kolo_shm_memory_unmap(theirs, 10000);
    kolo_shm_memory_unmap(NULL, 10000);
    close(fd);
    cr_assert(count_fds() == before);
}

Test(shm_fds, only_sealed_memory_of_the_right_size_is_mapped)
{
    int fd, pipes[2];
    void *base;
    cr_assert(kolo_shm_memory_create("kolo-test", 8192, &fd, &base) == KOLO_OK);
    cr_assert(kolo_shm_memory_check(fd, 8193) == KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "8192 bytes where 8193"), "%s", kolo_error_detail());
    kolo_shm_memory_unmap(base, 8192);
    close(fd);

    fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(ftruncate(fd, 8192) == 0);
    cr_assert(kolo_shm_memory_map(fd, 8192, PROT_READ | PROT_WRITE, &base) == KOLO_ERR_PROTOCOL);
    cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == 0);
    cr_assert(kolo_shm_memory_map(fd, 8192, PROT_READ | PROT_WRITE, &base) == KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "not sealed"), "%s", kolo_error_detail());
    cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    cr_assert(kolo_shm_memory_map(fd, 8192, PROT_READ | PROT_WRITE, &base) == KOLO_OK);
    kolo_shm_memory_unmap(base, 8192);
    close(fd);

    cr_assert(pipe(pipes) == 0);
    cr_assert(kolo_shm_memory_map(pipes[0], 8192, PROT_READ | PROT_WRITE, &base) ==
              KOLO_ERR_PROTOCOL);
    close_pair(pipes);
    cr_assert(kolo_shm_memory_map(-1, 8192, PROT_READ | PROT_WRITE, &base) == KOLO_ERR_PROTOCOL);
}

/* Otherwise the kernel would end the process by SIGXFSZ. */
Test(shm_fds, a_limit_of_file_size_is_an_error)
{
    const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    int fd = -1;
    void *base = NULL;
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    cr_assert(kolo_shm_memory_create("kolo-test", 8192, &fd, &base) == KOLO_ERR_NO_MEMORY);
    cr_assert(fd == -1 && !base && strstr(kolo_error_detail(), "ulimit -f"), "%s",
              kolo_error_detail());
    cr_assert(kolo_shm_segment_create("kolo-test", 8192, 4096, &fd, &base) == KOLO_ERR_NO_MEMORY);
}

/** The same next step as for kolo_alloc(), whatever the memory is for. */
Test(shm_fds, memory_that_is_refused_is_told_with_the_next_step)
{
    void *base = NULL, *same = NULL;
    int fd = -1, none = -1;
    cr_assert(kolo_shm_memory_create("test", 4096, &fd, &base) == KOLO_OK);
    if (!refuse_call(SYS_mmap, 3, MAP_SHARED, ENOMEM) || !refuse_call(SYS_fallocate, -1, 0, ENOSPC))
        cr_skip("no system call can be refused here");
    cr_assert_eq(kolo_shm_memory_map(fd, 4096, PROT_READ | PROT_WRITE, &same), KOLO_ERR_NO_MEMORY);
    cr_assert(strstr(kolo_error_detail(), "4096 bytes") && strstr(kolo_error_detail(), "ulimit -v"),
              "%s", kolo_error_detail());
    cr_assert_eq(kolo_shm_memory_create("test", 8192, &none, &same), KOLO_ERR_NO_MEMORY);
    cr_assert(strstr(kolo_error_detail(), "8192 bytes") &&
                  strstr(kolo_error_detail(), "raise the limit of memory of this container or job"),
              "%s", kolo_error_detail());
    kolo_shm_memory_unmap(base, 4096);
    close(fd);
}

Test(shm_fds, messages_bring_their_descriptors_in_order)
{
    int before = count_fds(), pair[2], fds[2];
    void *bases[2];
    struct kolo_shm_inbox inbox = {0};
    struct kolo_shm_message got;
    make_pair(pair);
    for (int i = 0; i < 2; i++) {
        cr_assert(kolo_shm_memory_create("kolo-test", 4096, &fds[i], &bases[i]) == KOLO_OK);
        memset(bases[i], 'a' + i, 4096);
    }
    const struct kolo_shm_message both = {
        .kind = 7, .id = UINT64_MAX, .bytes = 42, .fds = {fds[0], fds[1]}, .fd_count = 2};
    const struct kolo_shm_message none = {.kind = 8, .id = 1};
    cr_assert(kolo_shm_message_send(pair[0], &both) == KOLO_OK);
    cr_assert(kolo_shm_message_send(pair[0], &none) == KOLO_OK);
    cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_OK);
    cr_assert(got.kind == 7 && got.id == UINT64_MAX && got.bytes == 42 && got.fd_count == 2);
    for (int i = 0; i < 2; i++) {
        void *mapped;
        cr_assert(kolo_shm_memory_map(got.fds[i], 4096, PROT_READ, &mapped) == KOLO_OK);
        cr_assert(*(char *)mapped == 'a' + i);
        cr_assert((fcntl(got.fds[i], F_GETFD) & FD_CLOEXEC) != 0);
        kolo_shm_memory_unmap(mapped, 4096);
        kolo_shm_memory_unmap(bases[i], 4096);
        close(fds[i]);
    }
    kolo_shm_message_drop(&got);
    cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_OK);
    cr_assert(got.kind == 8 && got.id == 1 && got.fd_count == 0);
    cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_AGAIN);
    close(pair[0]);
    cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_ERR_LINK);
    cr_assert(kolo_shm_message_send(pair[1], &none) == KOLO_ERR_LINK);
    close(pair[1]);
    cr_assert(count_fds() == before);
}

/** The bytes of a message on the wire. */
static void pack(uint8_t data[KOLO_SHM_MESSAGE_BYTES], uint32_t magic)
{
    struct kolo_writer writer = kolo_writer_over(data, KOLO_SHM_MESSAGE_BYTES);
    kolo_write_u32(&writer, magic);
    kolo_write_u32(&writer, 3);
    kolo_write_u64(&writer, 4);
    kolo_write_u64(&writer, 5);
    kolo_write_u64(&writer, 6);
}

Test(shm_fds, a_message_may_come_byte_by_byte)
{
    int pair[2];
    uint8_t data[KOLO_SHM_MESSAGE_BYTES];
    struct kolo_shm_inbox inbox = {0};
    struct kolo_shm_message got;
    make_pair(pair);
    pack(data, 0x316d686b);
    for (size_t i = 0; i < sizeof data; i++) {
        cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_AGAIN);
        cr_assert(write(pair[0], data + i, 1) == 1);
    }
    cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_OK);
    cr_assert(got.kind == 3 && got.id == 4 && got.bytes == 5 && got.span == 6);
    close_pair(pair);
}

Test(shm_fds, garbage_is_a_protocol_error)
{
    const uint32_t cases[] = {0, 0x316d686c, 0x6b686d31, UINT32_MAX};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int pair[2];
        uint8_t data[KOLO_SHM_MESSAGE_BYTES];
        struct kolo_shm_inbox inbox = {0};
        struct kolo_shm_message got;
        make_pair(pair);
        pack(data, cases[i]);
        cr_assert(write(pair[0], data, sizeof data) == (ssize_t)sizeof data);
        cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_ERR_PROTOCOL, "case %zu", i);
        kolo_shm_inbox_fini(&inbox);
        close_pair(pair);
    }
}

/** Sends @p data with @p count copies of descriptor 2. */
static void send_with_fds(int socket, const void *data, size_t bytes, size_t count)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(8 * sizeof(int))];
    } ancillary = {0};
    uint8_t copy[KOLO_SHM_MESSAGE_BYTES];
    memcpy(copy, data, bytes);
    struct iovec piece = {copy, bytes};
    struct msghdr header = {.msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = ancillary.bytes,
                            .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    ancillary.align.cmsg_level = SOL_SOCKET;
    ancillary.align.cmsg_type = SCM_RIGHTS;
    ancillary.align.cmsg_len = CMSG_LEN(count * sizeof(int));
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(&ancillary.align) + i * sizeof(int), &(int){2}, sizeof(int));
    cr_assert(sendmsg(socket, &header, MSG_NOSIGNAL) == (ssize_t)bytes);
}

Test(shm_fds, too_many_descriptors_are_refused_and_closed)
{
    int before = count_fds();
    for (size_t count = 4; count <= 8; count++) {
        int pair[2];
        uint8_t data[KOLO_SHM_MESSAGE_BYTES];
        struct kolo_shm_inbox inbox = {0};
        struct kolo_shm_message got;
        make_pair(pair);
        pack(data, 0x316d686b);
        send_with_fds(pair[0], data, sizeof data, count);
        kolo_status status = kolo_shm_inbox_read(&inbox, pair[1], &got);
        cr_assert(status == KOLO_ERR_PROTOCOL || status == KOLO_ERR_SYSTEM, "%d", (int)status);
        kolo_shm_inbox_fini(&inbox);
        close_pair(pair);
    }
    cr_assert(count_fds() == before, "%d descriptors left", count_fds() - before);
}

Test(shm_fds, an_unfinished_message_leaves_no_descriptor)
{
    int before = count_fds(), pair[2];
    struct kolo_shm_inbox inbox = {0};
    struct kolo_shm_message got;
    uint8_t data[KOLO_SHM_MESSAGE_BYTES];
    make_pair(pair);
    pack(data, 0x316d686b);
    send_with_fds(pair[0], data, 9, 2);
    cr_assert(kolo_shm_inbox_read(&inbox, pair[1], &got) == KOLO_AGAIN);
    cr_assert(count_fds() > before + 2);
    kolo_shm_inbox_fini(&inbox);
    close_pair(pair);
    cr_assert(count_fds() == before);
}

Test(shm_fds, probe_works_here_and_leaves_nothing)
{
    int before = count_fds();
    cr_assert(kolo_shm_probe() == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(count_fds() == before);
}

Test(shm_fds, a_full_socket_says_again)
{
    int pair[2], sent = 0;
    const struct kolo_shm_message message = {.kind = 1};
    make_pair(pair);
    kolo_status status;
    while ((status = kolo_shm_message_send(pair[0], &message)) == KOLO_OK)
        sent++;
    cr_assert(status == KOLO_AGAIN && sent > 0);
    close_pair(pair);
}

Test(shm_fds, a_bell_rings_once_and_only_for_a_sleeper)
{
    int before = count_fds(), page_fd, event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;
    void *page;
    struct kolo_shm_bell bell;
    cr_assert(kolo_shm_memory_create("kolo-bell", KOLO_SHM_BELL_BYTES, &page_fd, &page) == KOLO_OK);
    _Atomic uint32_t *armed = page;
    cr_assert(kolo_shm_bell_open(&bell, page_fd, dup(event_fd)) == KOLO_OK);
    kolo_shm_bell_ring(&bell);
    cr_assert(read(event_fd, &count, sizeof count) < 0, "rang for one that is awake");
    atomic_store(armed, 1);
    kolo_shm_bell_ring(&bell);
    kolo_shm_bell_ring(&bell);
    cr_assert(read(event_fd, &count, sizeof count) == sizeof count);
    cr_assert(count == 1 && atomic_load(armed) == 0);
    kolo_shm_bell_close(&bell);
    kolo_shm_bell_close(&bell);
    kolo_shm_memory_unmap(page, KOLO_SHM_BELL_BYTES);
    close(page_fd);
    close(event_fd);
    cr_assert(count_fds() == before);
}

/** Makes something that can be written to without blocking, and is no eventfd. */
static int make_other(int kind)
{
    int pair[2], fd;
    if (kind == 0) { /* a write would raise SIGPIPE */
        cr_assert(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
        close(pair[0]);
        return pair[1];
    }
    if (kind == 1) { /* the same */
        make_pair(pair);
        close(pair[0]);
        return pair[1];
    }
    fd = kind == 2   ? memfd_create("kolo-test", MFD_CLOEXEC)
         : kind == 3 ? epoll_create1(EPOLL_CLOEXEC)
                     : open("/dev/null", O_RDWR | O_CLOEXEC);
    cr_assert(fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    return fd;
}

Test(shm_fds, only_an_eventfd_is_a_bell)
{
    int page_fd;
    void *page;
    cr_assert(kolo_shm_memory_create("kolo-bell", KOLO_SHM_BELL_BYTES, &page_fd, &page) == KOLO_OK);
    for (int kind = 0; kind < 5; kind++) {
        struct kolo_shm_bell bell = {0};
        const int fd = make_other(kind), before = count_fds();
        cr_assert(kolo_shm_bell_open(&bell, page_fd, fd) == KOLO_ERR_PROTOCOL, "kind %d", kind);
        cr_assert(strstr(kolo_error_detail(), "no eventfd") && !bell.armed, "kind %d: %s", kind,
                  kolo_error_detail());
        cr_assert(count_fds() == before, "it stays the caller's");
        close(fd);
    }
    kolo_shm_memory_unmap(page, KOLO_SHM_BELL_BYTES);
    close(page_fd);
}

Test(shm_fds, a_bell_that_could_block_is_refused)
{
    int page_fd, event_fd = eventfd(0, EFD_CLOEXEC);
    void *page;
    struct kolo_shm_bell bell;
    cr_assert(kolo_shm_memory_create("kolo-bell", KOLO_SHM_BELL_BYTES, &page_fd, &page) == KOLO_OK);
    cr_assert(kolo_shm_bell_open(&bell, page_fd, event_fd) == KOLO_ERR_PROTOCOL);
    kolo_shm_memory_unmap(page, KOLO_SHM_BELL_BYTES);
    close(page_fd);
    close(event_fd);
}
