// SPDX-License-Identifier: Apache-2.0
/** Statuses, which every function of kolo that can fail returns, and their texts.
 *
 *  A status also says what an error costs at least: only this call, the link to one peer, the whole
 *  communicator, or (a bug in kolo) trust in the library. The first function that knows the cause
 *  of an error writes a detail for the calling thread; kolo_error_detail() returns it.
 */
#ifndef KOLO_STATUS_H
#define KOLO_STATUS_H

#if defined(__GNUC__)
#define KOLO_API __attribute__((visibility("default")))
#define KOLO_NODISCARD __attribute__((warn_unused_result))
#else
#define KOLO_API
#define KOLO_NODISCARD
#endif

/* All declarations are C, in C++ too. A result and the function that returns it share a name, like
 * struct stat and stat(); -Wshadow of g++ would warn of that in every program. */
#ifndef __cplusplus
#define KOLO_BEGIN_DECLS
#define KOLO_END_DECLS
#elif defined(__GNUC__)
#define KOLO_BEGIN_DECLS                                                                           \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"") extern "C"       \
    {
#define KOLO_END_DECLS                                                                             \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")
#else
#define KOLO_BEGIN_DECLS extern "C" {
#define KOLO_END_DECLS }
#endif

KOLO_BEGIN_DECLS

// clang-format off
/** Every status: X(name, value, what is lost, text). KOLO_ is prefixed to the name. The values are
 *  part of the ABI. What is lost is the least: see kolo_status_lost(). KOLO_ERR_LINK is used within
 *  the library: a call that needs a link that broke returns KOLO_ERR_PEER to the program, and the
 *  detail says how the link broke. */
#define KOLO_STATUS_MAP(X)                                                                         \
    X(OK,               0, NONE,    "success")                                                     \
    X(AGAIN,            1, NONE,    "not finished yet")                                            \
    X(ERR_INVALID,     -1, CALL,    "invalid argument")                                            \
    X(ERR_CONFIG,      -2, CALL,    "invalid setting")                                             \
    X(ERR_NO_MEMORY,   -3, CALL,    "out of memory")                                               \
    X(ERR_UNSUPPORTED, -4, CALL,    "not supported here")                                          \
    X(ERR_NOT_FOUND,   -5, CALL,    "not found")                                                   \
    X(ERR_SYSTEM,      -6, CALL,    "a system call failed")                                        \
    X(ERR_DATA,        -7, CALL,    "malformed or corrupt data")                                   \
    X(ERR_CONNECT,    -20, LINK,    "cannot connect to a peer")                                    \
    X(ERR_LINK,       -21, LINK,    "the link to a peer broke")                                    \
    X(ERR_AUTH,       -22, LINK,    "a peer does not know the job's secret")                       \
    X(ERR_PROTOCOL,   -23, LINK,    "a peer broke the protocol or speaks another version")         \
    X(ERR_PEER,       -40, COMM,    "a rank died or left the communicator")                        \
    X(ERR_TIMEOUT,    -41, COMM,    "the deadline passed")                                         \
    X(ERR_MISMATCH,   -42, COMM,    "ranks made different calls")                                  \
    X(ERR_ABORTED,    -43, COMM,    "the communicator was aborted")                                \
    X(ERR_INTERNAL,   -60, PROCESS, "internal error, a bug in kolo")
// clang-format on

/** The result of a call: 0 is success, 1 is "not finished yet", negative values are errors. */
typedef enum kolo_status {
#define KOLO_STATUS_ENUM(name, value, lost, text) KOLO_##name = (value),
    KOLO_STATUS_MAP(KOLO_STATUS_ENUM)
#undef KOLO_STATUS_ENUM
} kolo_status;

/** What is lost with a status: see kolo_status_lost(). */
typedef enum kolo_lost {
    KOLO_LOST_NONE,    /**< nothing */
    KOLO_LOST_CALL,    /**< only this call */
    KOLO_LOST_LINK,    /**< the link to one peer */
    KOLO_LOST_COMM,    /**< the communicator, on all of its ranks */
    KOLO_LOST_PROCESS, /**< trust in the library in this process */
} kolo_lost;

/** The text of a status, a constant string; "unknown status" for a value that is not a status.
 *  Threads: any. */
KOLO_API const char *kolo_status_text(kolo_status status);

/** The name of a status as written in C, such as "KOLO_ERR_PEER"; "KOLO_?" for a value that is not
 *  a status. Threads: any. */
KOLO_API const char *kolo_status_name(kolo_status status);

/** What is lost with a status, in the least case. KOLO_ERR_SYSTEM, _NO_MEMORY, _UNSUPPORTED, _DATA,
 *  _CONNECT, _AUTH and _PROTOCOL from a collective, send or receive may lose the communicator: if
 *  so, the next call on it returns the same status. A program that repeats a call that failed with
 *  KOLO_LOST_CALL must therefore do so a limited number of times only. Two statuses lose less than
 *  is said here, and leave the communicator usable: KOLO_ERR_MISMATCH of kolo_metrics_compute(), if
 *  the lists of metrics differ, and KOLO_ERR_TIMEOUT of functions whose description says so.
 *  Threads: any. */
KOLO_API kolo_lost kolo_status_lost(kolo_status status);

/** Explains the last failed call of this thread in one line: which rank, host or value, and what to
 *  do.
 *  @return a string that is valid until this thread's next call of the library, except a
 *  kolo_free() that succeeds; "" if nothing is known beyond the status.
 *  Threads: any; each has its own detail. */
KOLO_API const char *kolo_error_detail(void);

KOLO_END_DECLS
#endif
