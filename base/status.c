// SPDX-License-Identifier: Apache-2.0
// Owns the texts of the statuses and each thread's detail. A detail is always one line: control
// bytes, which may come from a stranger, are replaced by '?'. Never logs, never allocates.
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/short_file.h"
#include "base/text.h"

enum { STACK_UNLIMITED = 2 << 20 }; /* glibc's stack of a thread, if stacks have no limit */

static _Thread_local char thread_detail[KOLO_DETAIL_MAX];

const char *kolo_status_text(kolo_status status)
{
    switch (status) {
#define CASE(name, value, lost, text)                                                              \
    case KOLO_##name:                                                                              \
        return text;
        KOLO_STATUS_MAP(CASE)
#undef CASE
    }
    return "unknown status";
}

const char *kolo_status_name(kolo_status status)
{
    switch (status) {
#define CASE(name, value, lost, text)                                                              \
    case KOLO_##name:                                                                              \
        return "KOLO_" #name;
        KOLO_STATUS_MAP(CASE)
#undef CASE
    }
    return "KOLO_?";
}

kolo_lost kolo_status_lost(kolo_status status)
{
    switch (status) {
#define CASE(name, value, lost, text)                                                              \
    case KOLO_##name:                                                                              \
        return KOLO_LOST_##lost;
        KOLO_STATUS_MAP(CASE)
#undef CASE
    }
    return KOLO_LOST_PROCESS;
}

const char *kolo_error_detail(void)
{
    return thread_detail;
}

/* Formats into a buffer of its own first, since the arguments may point into the old detail. */
__attribute__((format(printf, 2, 0))) static void format_detail(const char *suffix,
                                                                const char *format, va_list args)
{
    char text[KOLO_DETAIL_MAX];
    int length = vsnprintf(text, sizeof text, format, args);
    size_t used = length < 0 ? 0 : (size_t)length;
    text[length < 0 ? 0 : sizeof text - 1] = '\0';
    if (used < sizeof text && suffix)
        snprintf(text + used, sizeof text - used, ": %s", suffix);
    kolo_text_clean(text);
    memcpy(thread_detail, text, strlen(text) + 1);
}

kolo_status kolo_fail(kolo_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    format_detail(NULL, format, args);
    va_end(args);
    return status;
}

/* The next step to take, if the system's text has none and the step is the same wherever the error
 * comes from. */
static const char *advice(int error)
{
    switch (error) {
    case EMFILE:
        return ": raise `ulimit -n`";
    case ENFILE:
        return ": raise fs.file-max";
    case EFBIG:
        return ": raise `ulimit -f`";
    case ENOSYS:
        return ": this kernel has no such call, or a sandbox's filter refuses it: have it allowed";
    default:
        return "";
    }
}

kolo_status kolo_check_struct(const char *function, const char *what, const char *type,
                              const void *object, size_t size)
{
    if (!object)
        return kolo_fail(KOLO_ERR_INVALID, "%s: %s is NULL", function, what);
    if (*(const size_t *)object != size)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: %s->size is %zu, not %zu: set it to sizeof(struct %s)", function,
                         what, *(const size_t *)object, size, type);
    return KOLO_OK;
}

kolo_status kolo_check_text(const char *function, const char *what, const char *kind,
                            const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        const size_t length = kolo_text_control(at);
        if (length > 0) /* of two bytes, the second is its number */
            return kolo_fail(
                KOLO_ERR_INVALID, "%s: byte %zu of %s is the control character 0x%02x: %s are text",
                function, (size_t)(at - text), what, (unsigned)(unsigned char)at[length - 1], kind);
    }
    return KOLO_OK;
}

kolo_status kolo_fail_errno(kolo_status status, int error, const char *format, ...)
{
    char buffer[128], words[160];
    va_list args;
    snprintf(words, sizeof words, "%s%s", strerror_r(error, buffer, sizeof buffer), advice(error));
    va_start(args, format);
    format_detail(words, format, args);
    va_end(args);
    return status;
}

/* Of /proc/self/statm: how much of the address space is mapped, and how much of that is data, in
 * bytes. */
static bool read_usage(rlim_t *mapped_out, rlim_t *data_out)
{
    char pages[160], *at = pages;
    unsigned long fields[6] = {0};
    const bool is_known = kolo_short_file_read("/proc/self/statm", pages, sizeof pages) > 0;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        fields[i] = strtoul(at, &at, 10);
    *mapped_out = fields[0] * (rlim_t)sysconf(_SC_PAGESIZE);
    *data_out = fields[5] * (rlim_t)sysconf(_SC_PAGESIZE);
    return is_known;
}

static bool is_beyond(const struct rlimit *limit, rlim_t used, rlim_t wanted)
{
    return limit->rlim_cur != RLIM_INFINITY &&
           (used >= limit->rlim_cur || limit->rlim_cur - used < wanted);
}

/* What to do if no thread or process can be started now (EAGAIN). pthread_create says that too if a
 * stack of the usual size does not fit into what a limit leaves. */
static const char *start_advice(void)
{
    struct rlimit stack, limit;
    rlim_t mapped, data, wanted = STACK_UNLIMITED;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY)
        wanted = stack.rlim_cur;
    if (read_usage(&mapped, &data)) {
        if (getrlimit(RLIMIT_AS, &limit) == 0 && is_beyond(&limit, mapped, wanted))
            return ": no room for its stack in the address space; raise `ulimit -v`";
        if (getrlimit(RLIMIT_DATA, &limit) == 0 && is_beyond(&limit, data, wanted))
            return ": no room for its stack in the memory for data; raise `ulimit -d`";
    }
    return ": too many processes and threads; raise `ulimit -u`, or pids.max of the cgroup";
}

kolo_status kolo_fail_start(int error, const char *format, ...)
{
    char buffer[128], words[200];
    va_list args;
    snprintf(words, sizeof words, "%s%s", strerror_r(error, buffer, sizeof buffer),
             error == EAGAIN ? start_advice() : advice(error == EPERM ? ENOSYS : error));
    va_start(args, format);
    format_detail(words, format, args);
    va_end(args);
    return KOLO_ERR_SYSTEM;
}

void kolo_detail_keep(char detail_out[KOLO_DETAIL_MAX])
{
    memcpy(detail_out, thread_detail, strlen(thread_detail) + 1);
}

void kolo_detail_set(const char *text)
{
    size_t bytes = text ? strnlen(text, KOLO_DETAIL_MAX - 1) : 0;
    if (bytes)
        memmove(thread_detail, text, bytes); /* text may point into the detail */
    thread_detail[bytes] = '\0';
}
