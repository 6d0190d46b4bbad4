// SPDX-License-Identifier: Apache-2.0
// The internal part of <kolo/status.h>. Whoever knows the cause of a failure writes the detail;
// everybody else passes the status on.
#ifndef KOLO_BASE_STATUS_H
#define KOLO_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include <kolo/status.h>

enum { KOLO_DETAIL_MAX = 1024 };

/** Writes this thread's detail (cut to KOLO_DETAIL_MAX - 1 bytes) and returns @p status, for
 *  `return kolo_fail(...)`. The detail is always one line: control bytes become '?'. Arguments may
 *  point into the old detail. */
kolo_status kolo_fail(kolo_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** As kolo_fail, and appends ": " and the text of errno value @p error. */
kolo_status kolo_fail_errno(kolo_status status, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** As kolo_fail_errno, for a process or a thread that cannot be started. Returns
 *  KOLO_ERR_SYSTEM. */
kolo_status kolo_fail_start(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Checks @p object, the caller's argument @p what of @p function: a struct @p type, which begins
 *  with its size. ERR_INVALID: it is NULL, or its size is not @p size. */
kolo_status kolo_check_struct(const char *function, const char *what, const char *type,
                              const void *object, size_t size) KOLO_NODISCARD;

/** Refuses control characters in @p text, an argument of @p function that its detail calls
 *  @p what, such as "op->name". @p kind: what such texts are, such as "names". */
kolo_status kolo_check_text(const char *function, const char *what, const char *kind,
                            const char *text) KOLO_NODISCARD;

/** Copies this thread's detail, so that kolo_detail_set() can set it again after calls that may
 *  write another. */
void kolo_detail_keep(char detail_out[KOLO_DETAIL_MAX]);
/** Sets this thread's detail to @p text; NULL or "" clears it. */
void kolo_detail_set(const char *text);

/** The only control-flow macro of the project: on a failure, jumps to the function's label `out`.
 *  It needs a local `kolo_status status`. KOLO_AGAIN counts as a failure. */
#define KOLO_TRY(expr)                                                                             \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != KOLO_OK)                                                                     \
            goto out;                                                                              \
    } while (0)

#endif
