// SPDX-License-Identifier: Apache-2.0
// What an agent sends of a rank's timeline, whatever the rank has done to the file.
#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/records.h"
#include "runtime/timeline.h"

enum { CALLS = 4096 };

static size_t send_all(struct kolo_records *records, uint8_t *into)
{
    static uint8_t data[KOLO_RECORDS_PIECE_BYTES];
    size_t bytes, sum = 0;
    while ((bytes = kolo_records_next(records, data)) > 0) {
        cr_assert(bytes <= sizeof data);
        memcpy(into + sum, data, bytes);
        sum += bytes;
        cr_assert(sum <= kolo_timeline_bytes(CALLS));
    }
    cr_assert(records->fd == 0 && kolo_records_next(records, data) == 0);
    return sum;
}

static void set_u64(int fd, size_t at, uint64_t value)
{
    cr_assert(pwrite(fd, &value, sizeof value, (off_t)at) == (ssize_t)sizeof value);
}

static void set_capacity(int fd, uint32_t value)
{
    const off_t at = offsetof(struct kolo_timeline_head, capacity);
    cr_assert(pwrite(fd, &value, sizeof value, at) == (ssize_t)sizeof value);
}

Test(records, an_end_by_another_clock_has_no_time)
{
    struct kolo_timeline_head head;
    for (uint64_t other = 0; other < 2; other++) {
        struct kolo_records records;
        cr_assert(kolo_records_open(&records, 3, 4, CALLS) == KOLO_OK);
        set_u64(records.fd, offsetof(struct kolo_timeline_head, clock),
                kolo_timeline_clock() + other);
        kolo_records_ended(&records, 9);
        cr_assert(pread(records.fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
        cr_assert(head.wait_status == 9 && (head.ended_ns == 0) == (other == 1));
        kolo_records_close(&records);
    }
}

Test(records, sends_what_was_written)
{
    static const uint64_t written[] = {0, 1, 3000, CALLS, UINT64_MAX};
    uint8_t *all = kolo_calloc(kolo_timeline_bytes(CALLS), 1);
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        struct kolo_records records;
        struct kolo_timeline_view view;
        cr_assert(kolo_records_open(&records, 3, 4, CALLS) == KOLO_OK && records.fd >= 100);
        cr_assert(ftruncate(records.fd, 10) != 0, "a rank could make it shorter");
        set_u64(records.fd, offsetof(struct kolo_timeline_head, written), written[i]);
        kolo_records_ended(&records, 9);
        const uint64_t count = written[i] < CALLS ? written[i] : CALLS;
        const size_t bytes = send_all(&records, all);
        cr_assert(bytes == KOLO_TIMELINE_HEAD_BYTES + count * KOLO_TIMELINE_RECORD_BYTES);
        if (written[i] == UINT64_MAX)
            continue;
        cr_assert(kolo_timeline_view(all, bytes, &view) == KOLO_OK, "%s", kolo_error_detail());
        cr_assert(view.head->rank == 3 && view.head->size == 4 && view.head->wait_status == 9 &&
                  view.head->ended_ns > 0 && view.head->pid == 0);
    }
    kolo_free_memory(all);
}

Test(records, is_not_led_astray)
{
    static const uint32_t capacities[] = {0, 1, UINT32_MAX, KOLO_TIMELINE_CALLS_MAX};
    uint8_t *all = kolo_calloc(kolo_timeline_bytes(CALLS), 1);
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        struct kolo_records records;
        cr_assert(kolo_records_open(&records, 0, 1, CALLS) == KOLO_OK);
        set_u64(records.fd, offsetof(struct kolo_timeline_head, written), UINT64_MAX);
        set_capacity(records.fd, capacities[i]);
        const size_t bytes = send_all(&records, all);
        cr_assert(bytes >= KOLO_TIMELINE_HEAD_BYTES && bytes <= kolo_timeline_bytes(CALLS));
    }
    kolo_free_memory(all);
}

Test(records, none_is_fine)
{
    struct kolo_records none = {.fd = 0};
    uint8_t data[1];
    kolo_records_ended(&none, 0);
    cr_assert(kolo_records_next(&none, data) == 0);
    kolo_records_close(&none);
}

Test(records, a_limit_of_file_size_is_an_error)
{
    const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    struct kolo_records records;
    (void)signal(SIGXFSZ, SIG_IGN); /* as an agent does (streams_secure) */
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    cr_assert(kolo_records_open(&records, 0, 2, CALLS) == KOLO_ERR_SYSTEM && records.fd == 0);
    cr_assert(strstr(kolo_error_detail(), "raise `ulimit -f`"), "%s", kolo_error_detail());
}
