// SPDX-License-Identifier: Apache-2.0
// The conformance suite: what every transport must do. A transport's test file is:
//
//     #include "tests/support/transport_suite.h"
//     KOLO_TRANSPORT_SUITE(tcp, tcp)
//
// Each case opens a world whose ranks are threads of the test, joined by that transport only, and
// runs one function on every rank. A rank that fails records why in its error, and the main thread
// asserts that none did. All waits are bounded.
#ifndef KOLO_TESTS_TRANSPORT_SUITE_H
#define KOLO_TESTS_TRANSPORT_SUITE_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

#include "transport/transport.h"

// clang-format off
#define KOLO_TRANSPORT_CASES(X, suite)                                                             \
    X(suite, carries_messages_of_every_size)                                                       \
    X(suite, carries_both_directions_at_once_between_three)                                        \
    X(suite, keeps_the_order_of_a_channel)                                                         \
    X(suite, channels_do_not_wait_for_each_other)                                                  \
    X(suite, keeps_what_comes_early)                                                               \
    X(suite, bounds_what_comes_early_by_the_credit)                                                \
    X(suite, closes_with_what_nobody_received)                                                     \
    X(suite, reduces_every_type_on_receive)                                                        \
    X(suite, reports_a_mismatch_on_the_side_that_receives)                                         \
    X(suite, reports_a_wrong_length_as_broken_protocol)                                            \
    X(suite, tells_a_goodbye_and_keeps_what_came_before)                                           \
    X(suite, hands_over_all_before_it_closes)                                                      \
    X(suite, delivers_the_text_of_an_abort)                                                        \
    X(suite, tells_that_a_subject_is_finalized_behind_what_was_sent)                               \
    X(suite, recalls_loans_and_hears_that_they_are_returned)                                       \
    X(suite, takes_back_a_receive)                                                                 \
    X(suite, takes_back_a_send)                                                                    \
    X(suite, receives_nothing_behind_a_send_that_was_taken_back)                                   \
    X(suite, tells_that_a_peer_vanished)                                                           \
    X(suite, wakes_a_sleeper)                                                                      \
    X(suite, settles_simultaneous_dials)                                                           \
    X(suite, gives_up_connecting_at_the_deadline)
// clang-format on

enum { SUITE_RANKS_MAX = 8, SUITE_POINTS = 8 };

/** The events received about one peer. */
struct suite_heard {
    int early, left, down, aborted, finalized, mismatch, recalled, returned;
    uint64_t loan;    /* of the last recalled or returned event */
    uint32_t subject; /* of the last aborted or finalized event */
    uint32_t sequence;
    kolo_status why;
    char text[1200];
    struct kolo_desc expected, arrived;
};

struct suite_rank {
    struct suite_world *world;
    int rank;
    struct kolo_endpoint *endpoint;
    struct kolo_heap *heap;
    struct suite_heard heard[SUITE_RANKS_MAX];
    char error[1600];
    pthread_t thread;
};

struct suite_world {
    const char *transport;
    int size;
    struct kolo_settings settings;
    struct kolo_peer peers[SUITE_RANKS_MAX];
    struct suite_rank ranks[SUITE_RANKS_MAX];
    void (*run)(struct suite_rank *rank);
    atomic_int met[SUITE_POINTS];
    atomic_bool failed;
    bool is_broken; /* a link went down before its rank closed */
};

/** KOLO_NET of the worlds opened after this; a suite's .init may change it. */
extern const char *suite_net;
/** KOLO_CHECKSUM of the worlds opened after this; likewise. NULL: what the environment says. */
extern const char *suite_checksum;
/** KOLO_RDMA_DEVICE of even ranks and of odd ranks; NULL: the default. */
extern const char *suite_devices[2];

/** Opens the endpoints, with @p setting (may be NULL) set to @p value. Asserts success. */
struct suite_world *suite_open(const char *transport, int size, const char *setting,
                               const char *value);
/** Runs @p run on each rank, each in a thread of its own, and asserts that none failed. */
void suite_run(struct suite_world *world, void (*run)(struct suite_rank *rank));
/** Closes the endpoints that are open, each on its own thread, and frees everything. Asserts
 * success; after a link has broken, what was sent over it may be lost. */
void suite_close(struct suite_world *world);

/** Inside run: records the failure and returns from the function. */
#define SUITE_CHECK(rank, condition, ...)                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            suite_fail(rank, #condition, __VA_ARGS__);                                             \
            return;                                                                                \
        }                                                                                          \
    } while (0)
void suite_fail(struct suite_rank *rank, const char *condition, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The link to @p peer. On failure records it and returns NULL. */
struct kolo_link *suite_link(struct suite_rank *rank, int peer);
/** Makes progress until all works are settled. False after a minute, or when another rank has
 * failed. */
bool suite_settle(struct suite_rank *rank, struct kolo_work *works, size_t count);
/** Makes progress until @p is_true(rank, context). */
bool suite_until(struct suite_rank *rank, bool (*is_true)(struct suite_rank *rank, void *context),
                 void *context);
/** Makes progress until all ranks have reached meeting point @p point. Each point is used once a
 * run. */
bool suite_meet(struct suite_rank *rank, int point);
/** Ends the endpoint without a goodbye, as a crash would. */
void suite_crash(struct suite_rank *rank);

#define SUITE_DECLARE(suite, name) void suite_##name(const char *transport);
KOLO_TRANSPORT_CASES(SUITE_DECLARE, unused)
#undef SUITE_DECLARE

#define SUITE_TEST(suite, name)                                                                    \
    Test(suite, name, .timeout = 180)                                                              \
    {                                                                                              \
        suite_##name(suite_transport);                                                             \
    }
#define KOLO_TRANSPORT_SUITE(suite, transport)                                                     \
    static const char *const suite_transport = #transport;                                         \
    KOLO_TRANSPORT_CASES(SUITE_TEST, suite)

#endif
