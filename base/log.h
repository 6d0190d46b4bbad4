// SPDX-License-Identifier: Apache-2.0
// Log lines for decisions (INFO) and for trouble that kolo has recovered from (WARN). Errors are
// returned, not logged. The process has one sink; the default one writes "kolo: [rank] level: text"
// to standard error with one write().
#ifndef KOLO_BASE_LOG_H
#define KOLO_BASE_LOG_H

#include <stdbool.h>

#include "base/status.h"

enum kolo_log_level {
    KOLO_LOG_NONE,
    KOLO_LOG_ERROR,
    KOLO_LOG_WARN,
    KOLO_LOG_INFO,
    KOLO_LOG_DEBUG,
    KOLO_LOG_LEVELS
};

/** Sets the highest level that is logged; atomic. Threads: any. */
void kolo_log_set_level(enum kolo_log_level level);
bool kolo_log_on(enum kolo_log_level level);

/** The level named by @p text (setting KOLO_LOG). ERR_CONFIG: the detail names the valid levels. */
kolo_status kolo_log_level_parse(const char *text, enum kolo_log_level *level_out) KOLO_NODISCARD;

/** Replaces the sink (NULL: the default). @p line has no newline. When this returns, no thread runs
 *  the old sink any more; a sink must therefore not call this function. */
void kolo_log_set_sink(void (*sink)(void *context, enum kolo_log_level level, const char *line),
                       void *context);

/** To be called before kolo opens descriptors: if standard error is closed, one of them will get
 *  its number, so the default sink writes nothing from now on. Threads: any. */
void kolo_log_look(void);

/** Sets this thread's rank, for the prefix; -1: none. */
void kolo_log_set_rank(int rank);

void kolo_log_write(enum kolo_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The macros test the level before their arguments are evaluated. */
#define KOLO_LOG(level, ...)                                                                       \
    do {                                                                                           \
        if (kolo_log_on(level))                                                                    \
            kolo_log_write(level, __VA_ARGS__);                                                    \
    } while (0)
#define KOLO_WARN(...) KOLO_LOG(KOLO_LOG_WARN, __VA_ARGS__)
#define KOLO_INFO(...) KOLO_LOG(KOLO_LOG_INFO, __VA_ARGS__)
#define KOLO_DEBUG(...) KOLO_LOG(KOLO_LOG_DEBUG, __VA_ARGS__)

#endif
