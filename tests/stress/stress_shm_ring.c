// SPDX-License-Identifier: Apache-2.0
// Two threads over one shm ring, with random record lengths, that sleep on eventfds as ranks do.
// Every byte is compared, and neither may sleep through a record or a wake-up. A program without
// Criterion, for ThreadSanitizer.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/shm_ring.h"

enum { RECORDS = 200000, CAPACITY = KOLO_SHM_RING_MIN, SLEEP_MAX_MS = 20000 };

struct side {
    _Atomic uint32_t armed;
    int event_fd;
    uint64_t sleeps;
};

struct world {
    void *memory;
    struct side writer, reader;
    _Atomic int failed;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t length_of(uint64_t *state)
{
    size_t bytes = next_random(state) % (kolo_shm_record_max(CAPACITY) + 1);
    return next_random(state) % 2 == 0 ? bytes : bytes % 32;
}

static void ring_bell(struct side *side)
{
    uint64_t one = 1;
    if (atomic_load(&side->armed) != 0 && atomic_exchange(&side->armed, 0) != 0 &&
        write(side->event_fd, &one, sizeof one) != sizeof one)
        abort();
}

/** Sleeps until the bell rings; false: it did not for so long that a wake-up must have been
 * lost. */
static bool sleep_on(struct side *side)
{
    struct pollfd ready = {.fd = side->event_fd, .events = POLLIN};
    uint64_t count;
    side->sleeps++;
    bool rang = poll(&ready, 1, SLEEP_MAX_MS) == 1;
    atomic_store(&side->armed, 0);
    return rang && read(side->event_fd, &count, sizeof count) == sizeof count;
}

static void fail(struct world *world, const char *what, uint64_t record)
{
    fprintf(stderr, "stress_shm_ring: %s at record %llu: %s\n", what, (unsigned long long)record,
            kolo_error_detail());
    atomic_store(&world->failed, 1);
}

/** Waits for room as a rank does: check, arm, check again, sleep. */
static bool await_room(struct world *world, struct kolo_shm_writer *writer, size_t bytes)
{
    for (;;) {
        if (kolo_shm_writer_room(writer, bytes) == KOLO_OK)
            return true;
        atomic_store(&world->writer.armed, 1);
        if (kolo_shm_writer_room(writer, bytes) == KOLO_OK) {
            atomic_store(&world->writer.armed, 0);
            return true;
        }
        if (!sleep_on(&world->writer) || atomic_load(&world->failed))
            return false;
    }
}

static void *write_all(void *context)
{
    struct world *world = context;
    struct kolo_shm_writer writer;
    uint8_t header[KOLO_SHM_RECORD_HEADER] = {0}, payload[CAPACITY];
    uint64_t state = 42;
    kolo_shm_writer_init(&writer, world->memory, CAPACITY);
    for (uint64_t i = 0; i < RECORDS; i++) {
        size_t bytes = length_of(&state);
        memset(payload, (int)(i & 0xff), bytes);
        if (!await_room(world, &writer, bytes)) {
            fail(world, "the writer was not woken", i);
            return NULL;
        }
        kolo_shm_writer_put(&writer, (uint32_t)i, header, payload, bytes);
        ring_bell(&world->reader);
    }
    return NULL;
}

static bool await_record(struct world *world, struct kolo_shm_reader *reader,
                         struct kolo_shm_record *record)
{
    for (;;) {
        if (kolo_shm_reader_peek(reader, record) == KOLO_OK)
            return true;
        atomic_store(&world->reader.armed, 1);
        if (kolo_shm_reader_peek(reader, record) == KOLO_OK) {
            atomic_store(&world->reader.armed, 0);
            return true;
        }
        if (!sleep_on(&world->reader) || atomic_load(&world->failed))
            return false;
    }
}

static bool is_as_sent(const struct kolo_shm_record *record, uint64_t i, size_t bytes)
{
    bool same = record->kind == (uint32_t)i && record->bytes == bytes;
    for (int piece = 0; piece < 2; piece++)
        for (size_t at = 0; at < record->pieces[piece].bytes; at++)
            same = same && record->pieces[piece].at[at] == (uint8_t)i;
    return same;
}

static void *read_all(void *context)
{
    struct world *world = context;
    struct kolo_shm_reader reader;
    struct kolo_shm_record record;
    uint64_t state = 42;
    kolo_shm_reader_init(&reader, world->memory, CAPACITY);
    for (uint64_t i = 0; i < RECORDS; i++) {
        size_t bytes = length_of(&state);
        if (!await_record(world, &reader, &record) || !is_as_sent(&record, i, bytes)) {
            fail(world, "the reader was not woken, or the record changed", i);
            return NULL;
        }
        if (kolo_shm_reader_pop(&reader, &record))
            ring_bell(&world->writer);
    }
    return NULL;
}

int main(void)
{
    struct world world = {.writer.event_fd = eventfd(0, EFD_CLOEXEC),
                          .reader.event_fd = eventfd(0, EFD_CLOEXEC)};
    size_t footprint = kolo_shm_ring_footprint(CAPACITY);
    pthread_t writer, reader;
    struct kolo_shm_writer init;

    world.memory = aligned_alloc(KOLO_SHM_LINE, footprint);
    memset(world.memory, 0, footprint);
    kolo_shm_writer_init(&init, world.memory, CAPACITY); // wake_at, before the reader reads it
    if (pthread_create(&writer, NULL, write_all, &world) != 0 ||
        pthread_create(&reader, NULL, read_all, &world) != 0)
        return 1;
    pthread_join(writer, NULL);
    pthread_join(reader, NULL);
    close(world.writer.event_fd);
    close(world.reader.event_fd);
    free(world.memory);
    printf("%d records; writer slept %llu times, reader %llu\n", RECORDS,
           (unsigned long long)world.writer.sleeps, (unsigned long long)world.reader.sleeps);
    return atomic_load(&world.failed);
}
