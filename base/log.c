// SPDX-License-Identifier: Apache-2.0
// Owns the process's log: the level, the sink, and each thread's rank. A line is formatted on the
// caller's stack, with control bytes (which may come from a stranger) replaced by '?', and passed
// to the sink at once. The sink and its context change together under a reader-writer lock: when
// kolo_log_set_sink returns, no thread runs the old sink any more. Never changes errno.
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* With prefix and newline a line is shorter than PIPE_BUF, so that lines of several processes are
 * never mixed. */
enum { LINE_MAX_BYTES = 2048 };

typedef void log_sink(void *context, enum kolo_log_level level, const char *line);

static const char *const level_texts[KOLO_LOG_LEVELS] = {
    [KOLO_LOG_NONE] = "none", [KOLO_LOG_ERROR] = "error", [KOLO_LOG_WARN] = "warn",
    [KOLO_LOG_INFO] = "info", [KOLO_LOG_DEBUG] = "debug",
};

static atomic_int log_level = KOLO_LOG_WARN;
static pthread_rwlock_t sink_lock = PTHREAD_RWLOCK_INITIALIZER;
static log_sink *current_sink; /* protected by sink_lock; NULL: standard error */
static void *current_context;  /* protected by sink_lock */
static atomic_bool is_closed;  /* there was no standard error before kolo opened descriptors */
static _Thread_local int thread_rank = -1;

void kolo_log_set_level(enum kolo_log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

bool kolo_log_on(enum kolo_log_level level)
{
    return level != KOLO_LOG_NONE &&
           (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

kolo_status kolo_log_level_parse(const char *text, enum kolo_log_level *level_out)
{
    for (int level = KOLO_LOG_NONE; level < KOLO_LOG_LEVELS; level++)
        if (strcmp(text, level_texts[level]) == 0) {
            *level_out = (enum kolo_log_level)level;
            return KOLO_OK;
        }
    return kolo_fail(KOLO_ERR_CONFIG, "KOLO_LOG=%.64s: expected none, error, warn, info or debug",
                     text);
}

void kolo_log_set_sink(void (*sink)(void *context, enum kolo_log_level level, const char *line),
                       void *context)
{
    pthread_rwlock_wrlock(&sink_lock);
    current_sink = sink;
    current_context = context;
    pthread_rwlock_unlock(&sink_lock);
}

void kolo_log_look(void)
{
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        atomic_store_explicit(&is_closed, true, memory_order_relaxed);
}

void kolo_log_set_rank(int rank)
{
    thread_rank = rank;
}

/* If standard error is full or closed, the line is lost, since there is nobody to tell. */
static void write_all(const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(STDERR_FILENO, data, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        data += done;
        bytes -= (size_t)done;
    }
}

static void write_standard_error(enum kolo_log_level level, const char *text)
{
    char line[LINE_MAX_BYTES + 64];
    char rank[24] = "";
    if (thread_rank >= 0)
        snprintf(rank, sizeof rank, "[%d] ", thread_rank);
    int length = snprintf(line, sizeof line, "kolo: %s%s: %s\n", rank, level_texts[level], text);
    write_all(line, (size_t)length);
}

void kolo_log_write(enum kolo_log_level level, const char *format, ...)
{
    if (!kolo_log_on(level) || level >= KOLO_LOG_LEVELS)
        return;
    int saved_errno = errno;
    char text[LINE_MAX_BYTES] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    kolo_text_clean(text);

    pthread_rwlock_rdlock(&sink_lock);
    if (current_sink)
        current_sink(current_context, level, text);
    else if (!atomic_load_explicit(&is_closed, memory_order_relaxed))
        write_standard_error(level, text);
    pthread_rwlock_unlock(&sink_lock);
    errno = saved_errno;
}
