// SPDX-License-Identifier: Apache-2.0
// See shm_side.h.
#include "tests/support/shm_side.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static void heard_down(void *context, int peer, kolo_status why, const char *text)
{
    struct shm_side *side = context;
    (void)peer;
    side->downs++;
    side->down_why = why;
    snprintf(side->down_text, sizeof side->down_text, "%s", text);
}

static void heard_left(void *context, int peer)
{
    (void)peer;
    ((struct shm_side *)context)->lefts++;
}

void shm_side_init(struct shm_side *side, int rank)
{
    memset(side, 0, sizeof *side);
    kolo_settings_init(&side->settings);
    snprintf(side->settings.transport, sizeof side->settings.transport, "shm");
    memset(&side->secret, 0x5a, sizeof side->secret);
    side->rank = rank;
}

bool shm_side_open(struct shm_side *side)
{
    struct kolo_endpoint_config config = {
        .rank = side->rank,
        .size = 2,
        .settings = &side->settings,
        .secret = side->secret,
        .events = {.context = side, .down = heard_down, .left = heard_left},
    };
    if (kolo_heap_create(&side->heap) != KOLO_OK)
        return false;
    config.heap = side->heap;
    kolo_identity_here(side->rank, &config.identity);
    if (kolo_endpoint_open(&config, &side->endpoint) != KOLO_OK)
        return false;
    kolo_endpoint_self(side->endpoint, &side->peers[side->rank]);
    return true;
}

bool shm_side_meet(struct shm_side *side, const struct kolo_peer *other)
{
    side->peers[1 - side->rank] = *other;
    return kolo_endpoint_set_peers(side->endpoint, side->peers) == KOLO_OK;
}

static bool make_link(struct shm_side *side)
{
    return side->link || kolo_endpoint_link(side->endpoint, 1 - side->rank,
                                            kolo_deadline_in_ms(50000), &side->link) == KOLO_OK;
}

void shm_side_close(struct shm_side *side)
{
    kolo_status status = kolo_endpoint_close(side->endpoint, kolo_deadline_in_ms(2000));
    (void)status;
    side->endpoint = NULL;
    side->link = NULL;
    kolo_heap_destroy(side->heap);
    side->heap = NULL;
}

bool shm_pair_open(struct shm_side sides[2], bool both_dial)
{
    if (!shm_side_open(&sides[0]) || !shm_side_open(&sides[1]))
        return false;
    if (!shm_side_meet(&sides[0], &sides[1].peers[1]) ||
        !shm_side_meet(&sides[1], &sides[0].peers[0]))
        return false;
    if (!make_link(&sides[0]) || (both_dial && !make_link(&sides[1])))
        return false;
    return true;
}

static void close_together(struct shm_side sides[2])
{
    // Both sides are in one thread, so neither close waits for the other: what it sends stays in
    // the ring.
    shm_side_close(&sides[0]);
    shm_side_close(&sides[1]);
}

void shm_pair_close(struct shm_side sides[2])
{
    close_together(sides);
}

static void drive_once(struct shm_side *sides, int count)
{
    bool moved;
    for (int i = 0; i < count; i++) {
        kolo_endpoint_arm(sides[i].endpoint); // also asks the poller
        kolo_status status = kolo_endpoint_progress(sides[i].endpoint, &moved);
        (void)status;
        kolo_endpoint_disarm(sides[i].endpoint);
    }
}

bool shm_drive(struct shm_side *sides, int count, const kolo_status *flag)
{
    kolo_deadline deadline = kolo_deadline_in_ms(50000);
    while (*(const volatile kolo_status *)flag == KOLO_AGAIN) {
        if (kolo_deadline_passed(deadline))
            return false;
        drive_once(sides, count);
    }
    return true;
}

bool shm_drive_up(struct shm_side *sides, int count)
{
    kolo_deadline deadline = kolo_deadline_in_ms(50000);
    for (;;) {
        int ready = 0;
        drive_once(sides, count);
        for (int i = 0; i < count; i++)
            ready += make_link(&sides[i]) && sides[i].link->state != KOLO_LINK_CONNECTING;
        if (ready == count)
            return true;
        if (kolo_deadline_passed(deadline))
            return false;
    }
}

void shm_drive_rounds(struct shm_side *sides, int count, int rounds)
{
    for (int i = 0; i < rounds; i++)
        drive_once(sides, count);
}

static struct kolo_desc desc_of(uint32_t channel)
{
    struct kolo_desc desc = {{0}};
    memcpy(desc.bytes, &channel, sizeof channel);
    return desc;
}

void shm_send(struct shm_side *side, uint32_t channel, const void *src, size_t bytes,
              struct kolo_work *work)
{
    struct kolo_desc desc = desc_of(channel);
    kolo_link_send(side->link, channel, &desc, src, bytes, work);
}

void shm_recv(struct shm_side *side, uint32_t channel, void *dst, size_t bytes,
              struct kolo_work *work)
{
    struct kolo_desc desc = desc_of(channel);
    kolo_link_recv(side->link, channel, &desc, dst, bytes, NULL, work);
}

void shm_pair_up(struct shm_side sides[2], bool both_dial)
{
    for (int rank = 0; rank < 2; rank++)
        if (sides[rank].settings.transport[0] == '\0')
            shm_side_init(&sides[rank], rank);
    cr_assert(shm_pair_open(sides, both_dial), "%s", kolo_error_detail());
    cr_assert(shm_drive_up(sides, 2), "not up");
    for (int rank = 0; rank < 2; rank++)
        cr_assert(sides[rank].link->state == KOLO_LINK_UP, "%s", sides[rank].down_text);
}

/** Sends @p bytes bytes from side @p from to the other and compares them. */
void shm_transfer(struct shm_side sides[2], int from, uint8_t *src, uint8_t *dst, size_t bytes)
{
    struct kolo_work send, recv;
    for (size_t i = 0; i < bytes; i++)
        src[i] = (uint8_t)(i * 7 + (i >> 9) + bytes);
    memset(dst, 0, bytes);
    shm_recv(&sides[1 - from], 5, dst, bytes, &recv);
    shm_send(&sides[from], 5, src, bytes, &send);
    cr_assert(shm_drive(sides, 2, &recv.status) && recv.status == KOLO_OK, "%zu bytes: recv %d %s",
              bytes, (int)recv.status, sides[1 - from].down_text);
    cr_assert(shm_drive(sides, 2, &send.status) && send.status == KOLO_OK, "%zu bytes: send %d",
              bytes, (int)send.status);
    cr_assert(memcmp(src, dst, bytes) == 0, "%zu bytes came out changed", bytes);
}

int shm_count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    closedir(dir);
    return count;
}

int shm_count_maps(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:") != NULL;
    fclose(maps);
    return count;
}
