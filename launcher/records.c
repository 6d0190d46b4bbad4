// SPDX-License-Identifier: Apache-2.0
// The memfd of a rank's timeline. It is sealed against changes of its size, since the rank maps it.
// The agent accesses it by system calls only, so that nothing a rank does to it can cause a signal
// in the agent. kolorun judges its contents; the agent reads only the two numbers that say how much
// there is to send.
#include "launcher/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/timeline.h"

enum { FD_LEAST = 100 /* numbers below this may be used by shells */ };

static kolo_status fill(int fd, int rank, int size, uint32_t calls)
{
    struct kolo_timeline_head *head = kolo_calloc(1, sizeof *head);
    if (!head)
        return KOLO_ERR_NO_MEMORY;
    kolo_timeline_format(head, rank, size, calls);
    const bool is_there = ftruncate(fd, (off_t)kolo_timeline_bytes(calls)) == 0 &&
                          pwrite(fd, head, sizeof *head, 0) == (ssize_t)sizeof *head &&
                          fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    kolo_free_memory(head);
    return is_there ? KOLO_OK
                    : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "memory for the timeline of rank %d",
                                      rank);
}

kolo_status kolo_records_open(struct kolo_records *records, int rank, int size, uint32_t calls)
{
    const int fd = memfd_create("kolo-timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    *records = (struct kolo_records){.fd = 0};
    if (fd < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "memory for the timeline of rank %d", rank);
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);
    records->fd = high >= 0 ? high : fd; /* the limit of descriptors is lower than that */
    if (high >= 0)
        (void)close(fd);
    kolo_status status = fill(records->fd, rank, size, calls);
    if (status != KOLO_OK)
        kolo_records_close(records);
    return status;
}

/** A rank that entered another time namespace has other times than this process. */
static bool has_clock(int fd)
{
    uint64_t clock = 0;
    const ssize_t got = pread(fd, &clock, sizeof clock, offsetof(struct kolo_timeline_head, clock));
    return got == (ssize_t)sizeof clock && (clock == 0 || clock == kolo_timeline_clock());
}

void kolo_records_ended(struct kolo_records *records, int wait_status)
{
    const int32_t status = wait_status;
    const int64_t now_ns = kolo_now_ns();
    if (records->fd <= 0)
        return;
    /* if this fails, only the rank's end is missing in the trace */
    (void)!pwrite(records->fd, &status, sizeof status,
                  offsetof(struct kolo_timeline_head, wait_status));
    if (has_clock(records->fd))
        (void)!pwrite(records->fd, &now_ns, sizeof now_ns,
                      offsetof(struct kolo_timeline_head, ended_ns));
}

/** How many bytes have been written: the head, and records from the first on. If a rank wrote a
 * number that is too large, the file ends before. */
static uint64_t length_of(int fd)
{
    uint32_t capacity = 0;
    uint64_t written = 0;
    if (pread(fd, &capacity, sizeof capacity, offsetof(struct kolo_timeline_head, capacity)) !=
            (ssize_t)sizeof capacity ||
        pread(fd, &written, sizeof written, offsetof(struct kolo_timeline_head, written)) !=
            (ssize_t)sizeof written)
        return 0;
    return kolo_timeline_bytes(written < capacity ? (uint32_t)written : capacity);
}

size_t kolo_records_next(struct kolo_records *records, void *data)
{
    if (records->fd <= 0)
        return 0;
    if (records->end == 0)
        records->end = length_of(records->fd);
    const uint64_t left = records->end - records->at;
    const size_t most = left < KOLO_RECORDS_PIECE_BYTES ? (size_t)left : KOLO_RECORDS_PIECE_BYTES;
    const ssize_t got = pread(records->fd, data, most, (off_t)records->at);
    if (got <= 0) { /* everything was sent, or the length was wrong */
        kolo_records_close(records);
        return 0;
    }
    records->at += (uint64_t)got;
    return (size_t)got;
}

void kolo_records_close(struct kolo_records *records)
{
    if (records->fd > 0)
        (void)close(records->fd);
    records->fd = 0;
}
