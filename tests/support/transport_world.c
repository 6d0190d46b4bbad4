// SPDX-License-Identifier: Apache-2.0
// Worlds whose ranks are threads, for the conformance suite. Its cases are in transport_suite.c.
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/transport_suite.h"
#include "transport/core.h"

enum { WAIT_MS = 60000, NAP_MS = 5, SPINS = 200 };

/* ---- events ---- */

static void on_mismatch(void *context, int peer, uint32_t channel, const struct kolo_desc *expected,
                        const struct kolo_desc *arrived)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    (void)channel;
    heard->mismatch++;
    heard->expected = *expected;
    heard->arrived = *arrived;
}

static void on_early(void *context, int peer, uint32_t channel, const struct kolo_desc *arrived)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    (void)channel;
    heard->early++;
    heard->arrived = *arrived;
}

static void on_aborted(void *context, int peer, uint32_t subject, kolo_status why, const char *text)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    heard->aborted++;
    heard->subject = subject;
    heard->why = why;
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static void on_finalized(void *context, int peer, uint32_t subject, uint32_t sequence)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    heard->finalized++;
    heard->subject = subject;
    heard->sequence = sequence;
}

static void on_recalled(void *context, int peer, uint64_t number)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    heard->recalled++;
    heard->loan = number;
}

static void on_returned(void *context, int peer, uint64_t number)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    heard->returned++;
    heard->loan = number;
}

static void on_left(void *context, int peer)
{
    ((struct suite_rank *)context)->heard[peer].left++;
}

static void on_down(void *context, int peer, kolo_status why, const char *text)
{
    struct suite_heard *heard = &((struct suite_rank *)context)->heard[peer];
    heard->down++;
    heard->why = why;
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

/* ---- worlds ---- */

/* Passes the description through its wire format, as in a job. */
static void publish(struct suite_world *world, int rank)
{
    static uint8_t bytes[sizeof(struct kolo_peer) * 2];
    struct kolo_peer peer;
    size_t written = 0;
    kolo_endpoint_self(world->ranks[rank].endpoint, &peer);
    struct kolo_writer writer = kolo_writer_over(bytes, sizeof bytes);
    kolo_peer_write(&writer, &peer);
    cr_assert_eq(kolo_writer_finish(&writer, bytes, &written), KOLO_OK);
    struct kolo_reader reader = kolo_reader_over(bytes, written);
    cr_assert_eq(kolo_peer_read(&reader, &world->peers[rank]), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_reader_left(&reader), 0);
}

static void open_rank(struct suite_world *world, int number, const struct kolo_secret *secret)
{
    struct suite_rank *rank = &world->ranks[number];
    rank->world = world;
    rank->rank = number;
    cr_assert_eq(kolo_heap_create(&rank->heap), KOLO_OK);
    struct kolo_endpoint_config config = {
        .rank = number,
        .size = world->size,
        .settings = &world->settings,
        .secret = *secret,
        .heap = rank->heap,
        .events = {rank, on_mismatch, on_early, on_aborted, on_left, on_down, on_finalized,
                   on_recalled, on_returned, .words = NULL},
    };
    kolo_identity_here(number, &config.identity);
    cr_assert_eq(kolo_endpoint_open(&config, &rank->endpoint), KOLO_OK, "%s", kolo_error_detail());
    publish(world, number);
}

const char *suite_net = "lo";
const char *suite_checksum;
const char *suite_devices[2];

static const char *checksum(void)
{
    const char *value = suite_checksum ? suite_checksum : getenv("KOLO_CHECKSUM");
    return value ? value : "0";
}

struct suite_world *suite_open(const char *transport, int size, const char *setting,
                               const char *value)
{
    struct suite_world *world = calloc(1, sizeof *world);
    struct kolo_settings *settings;
    struct kolo_secret secret;
    cr_assert_not_null(world);
    settings = &world->settings;
    world->transport = transport;
    world->size = size;
    kolo_settings_init(settings);
    cr_assert_eq(kolo_settings_set(settings, "TRANSPORT", transport, KOLO_FROM_API), KOLO_OK);
    cr_assert_eq(kolo_settings_set(settings, "NET", suite_net, KOLO_FROM_API), KOLO_OK);
    cr_assert_eq(kolo_settings_set(settings, "CHECKSUM", checksum(), KOLO_FROM_API), KOLO_OK);
    if (setting)
        cr_assert_eq(kolo_settings_set(settings, setting, value, KOLO_FROM_API), KOLO_OK);
    cr_assert_eq(kolo_secret_make(&secret), KOLO_OK);
    for (int i = 0; i < size; i++) {
        const char *device = suite_devices[i % 2]; /* it is read when the endpoint opens */
        if (device)
            cr_assert_eq(kolo_settings_set(settings, "RDMA_DEVICE", device, KOLO_FROM_API),
                         KOLO_OK);
        open_rank(world, i, &secret);
    }
    for (int i = 0; i < size; i++)
        cr_assert_eq(kolo_endpoint_set_peers(world->ranks[i].endpoint, world->peers), KOLO_OK, "%s",
                     kolo_error_detail());
    return world;
}

static void *run_rank(void *argument)
{
    struct suite_rank *rank = argument;
    rank->world->run(rank);
    return NULL;
}

void suite_run(struct suite_world *world, void (*run)(struct suite_rank *rank))
{
    world->run = run;
    for (int i = 0; i < SUITE_POINTS; i++)
        atomic_store(&world->met[i], 0);
    for (int i = 0; i < world->size; i++)
        cr_assert_eq(pthread_create(&world->ranks[i].thread, NULL, run_rank, &world->ranks[i]), 0);
    for (int i = 0; i < world->size; i++)
        pthread_join(world->ranks[i].thread, NULL);
    char errors[2048] = "";
    for (int i = 0; i < world->size; i++) {
        size_t used = strlen(errors);
        if (world->ranks[i].error[0] != '\0')
            snprintf(errors + used, sizeof errors - used, "\n  rank %d of %d: %.900s", i,
                     world->size, world->ranks[i].error);
    }
    cr_assert(errors[0] == '\0', "%s:%s", world->transport, errors);
}

static void close_rank(struct suite_rank *rank)
{
    struct kolo_endpoint *endpoint = rank->endpoint;
    rank->endpoint = NULL;
    kolo_status status = kolo_endpoint_close(endpoint, kolo_deadline_in_ms(WAIT_MS));
    bool may_lose = rank->world->is_broken && status == KOLO_ERR_LINK;
    SUITE_CHECK(rank, status == KOLO_OK || may_lose, "%s: %s", kolo_status_name(status),
                kolo_error_detail());
}

void suite_close(struct suite_world *world)
{
    for (int i = 0; i < world->size; i++)
        for (int peer = 0; peer < world->size; peer++)
            world->is_broken |= world->ranks[i].heard[peer].down > 0;
    suite_run(world, close_rank);
    for (int i = 0; i < world->size; i++)
        kolo_heap_destroy(world->ranks[i].heap);
    free(world);
}

void suite_crash(struct suite_rank *rank)
{
    struct kolo_endpoint *endpoint = rank->endpoint;
    rank->endpoint = NULL;
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next) {
        link->said_goodbye = true;
        kolo_link_fail_works(link, KOLO_ERR_ABORTED);
    }
    (void)kolo_endpoint_close(endpoint, kolo_deadline_in_ms(WAIT_MS));
}

/* ---- inside a rank ---- */

void suite_fail(struct suite_rank *rank, const char *condition, const char *format, ...)
{
    va_list arguments;
    atomic_store(&rank->world->failed, true);
    if (rank->error[0] != '\0')
        return;
    int used = snprintf(rank->error, sizeof rank->error, "%.400s: ", condition);
    va_start(arguments, format);
    vsnprintf(rank->error + used, sizeof rank->error - (size_t)used, format, arguments);
    va_end(arguments);
}

struct kolo_link *suite_link(struct suite_rank *rank, int peer)
{
    struct kolo_link *link = NULL;
    kolo_status status =
        kolo_endpoint_link(rank->endpoint, peer, kolo_deadline_in_ms(WAIT_MS), &link);
    if (status != KOLO_OK)
        suite_fail(rank, "kolo_endpoint_link", "to %d: %s: %s", peer, kolo_status_name(status),
                   kolo_error_detail());
    return link;
}

/* Spins for a moment, then sleeps as the runtime does, but never for long, because another rank
 * may have failed. */
bool suite_until(struct suite_rank *rank, bool (*is_true)(struct suite_rank *rank, void *context),
                 void *context)
{
    kolo_deadline deadline = kolo_deadline_in_ms(WAIT_MS);
    for (int idle = 0; !is_true(rank, context);) {
        bool moved = false, is_tired = idle > SPINS;
        if (kolo_deadline_passed(deadline) || atomic_load(&rank->world->failed))
            return false;
        if (is_tired)
            kolo_endpoint_arm(rank->endpoint);
        if (kolo_endpoint_progress(rank->endpoint, &moved) != KOLO_OK)
            return false;
        if (is_tired && !moved && !is_true(rank, context))
            kolo_endpoint_sleep(rank->endpoint, kolo_deadline_in_ms(NAP_MS));
        if (is_tired)
            kolo_endpoint_disarm(rank->endpoint);
        else if (!moved)
            sched_yield();
        idle = moved ? 0 : idle + 1;
    }
    return true;
}

struct works {
    struct kolo_work *works;
    size_t count;
};

static bool are_settled(struct suite_rank *rank, void *context)
{
    const struct works *works = context;
    (void)rank;
    for (size_t i = 0; i < works->count; i++)
        if (works->works[i].status == KOLO_AGAIN)
            return false;
    return true;
}

bool suite_settle(struct suite_rank *rank, struct kolo_work *works, size_t count)
{
    struct works all = {works, count};
    return suite_until(rank, are_settled, &all);
}

static bool have_met(struct suite_rank *rank, void *context)
{
    return atomic_load(&rank->world->met[*(int *)context]) >= rank->world->size;
}

bool suite_meet(struct suite_rank *rank, int point)
{
    atomic_fetch_add(&rank->world->met[point], 1);
    return suite_until(rank, have_met, &point);
}
