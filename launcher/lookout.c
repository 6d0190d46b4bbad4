// SPDX-License-Identifier: Apache-2.0
// Looks in a thread of its own, since some files of /proc wait for a process that is stuck in the
// kernel: that must not keep the agent from its heartbeat. kolorun does not wait for it long. Each
// request is two looks with SAMPLE_MS between them, over which processor time is measured.
//
//   wanted --thread--> working --thread--> seen --loop: first look--> resting --time--> wanted
//                                               --loop: second look--> answered
//
// Threads: the thread's lock guards wanted and seen; working is the thread's, resting the loop's.
#include "launcher/lookout.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/side_thread.h"
#include "launcher/sight.h"

enum { SAMPLE_MS = 200 };

struct look {
    uint32_t round;
    int64_t begun_ns; /* 0: nobody has looked yet */
    bool is_complete;
    size_t count;
    struct kolo_sight *sights;
    struct kolo_lookout_target targets[];
};

struct kolo_lookout {
    struct kolo_side_thread side;
    struct kolo_agent_channel *channel;
    uv_timer_t timer;
    struct look *wanted, *working, *seen, *resting;
};

static void free_look(struct look *look)
{
    if (look)
        kolo_free_memory(look->sights);
    kolo_free_memory(look);
}

static bool is_wanted(void *owner)
{
    const struct kolo_lookout *lookout = owner;
    return lookout->wanted != NULL;
}

static void take_wanted(void *owner)
{
    struct kolo_lookout *lookout = owner;
    lookout->working = lookout->wanted;
    lookout->wanted = NULL;
}

static void begin(struct look *look)
{
    look->begun_ns = kolo_now_ns();
    for (size_t i = 0; i < look->count; i++) {
        const struct kolo_lookout_target *target = &look->targets[i];
        kolo_sight_begin(&look->sights[i], target->rank, target->child, target->said);
    }
}

static void complete(struct look *look)
{
    const int64_t ms = (kolo_now_ns() - look->begun_ns) / KOLO_NS_PER_MS;
    for (size_t i = 0; i < look->count; i++)
        kolo_sight_end(&look->sights[i], ms);
    look->is_complete = true;
}

static void look_at_all(void *owner)
{
    const struct kolo_lookout *lookout = owner;
    if (lookout->working->begun_ns == 0)
        begin(lookout->working);
    else
        complete(lookout->working);
}

static void give_seen(void *owner)
{
    struct kolo_lookout *lookout = owner;
    free_look(lookout->seen); /* nobody has fetched it, and this one is newer */
    lookout->seen = lookout->working;
    lookout->working = NULL;
}

static void send_sight(struct kolo_agent_channel *channel, uint32_t round,
                       const struct kolo_sight *sight)
{
    uint8_t body[sizeof round + KOLO_SIGHT_BYTES];
    size_t bytes = 0;
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, round);
    kolo_sight_write(&writer, sight);
    if (kolo_writer_finish(&writer, body, &bytes) == KOLO_OK)
        kolo_agent_channel_send(channel, KOLO_FRAME_SEEN, body, bytes);
}

static void answer(struct kolo_agent_channel *channel, const struct look *look)
{
    for (size_t i = 0; i < look->count; i++)
        send_sight(channel, look->round, &look->sights[i]);
    kolo_agent_channel_send_u32(channel, KOLO_FRAME_LOOKED, look->round);
}

/* Puts @p look in the place of a request that has not been taken. */
static void want(struct kolo_lookout *lookout, struct look *look)
{
    kolo_side_lock(&lookout->side);
    free_look(lookout->wanted);
    lookout->wanted = look;
    kolo_side_unlock(&lookout->side);
}

static void on_rested(uv_timer_t *timer)
{
    struct kolo_lookout *lookout = timer->data;
    struct look *look = lookout->resting, *late = NULL;
    lookout->resting = NULL;
    kolo_side_lock(&lookout->side);
    if (lookout->wanted || lookout->seen || kolo_side_is_working(&lookout->side))
        late = look; /* there is a newer request */
    else
        lookout->wanted = look;
    kolo_side_unlock(&lookout->side);
    free_look(late);
}

static void on_seen(void *owner)
{
    struct kolo_lookout *lookout = owner;
    kolo_side_lock(&lookout->side);
    struct look *look = lookout->seen;
    lookout->seen = NULL;
    kolo_side_unlock(&lookout->side);
    if (look && !look->is_complete) {
        free_look(lookout->resting);
        lookout->resting = look;
        (void)uv_timer_start(&lookout->timer, on_rested, SAMPLE_MS, 0);
        return;
    }
    if (look)
        answer(lookout->channel, look);
    free_look(look);
}

static void free_lookout(void *owner)
{
    struct kolo_lookout *lookout = owner;
    free_look(lookout->wanted);
    free_look(lookout->working);
    free_look(lookout->seen);
    free_look(lookout->resting);
    kolo_free_memory(lookout);
}

kolo_status kolo_lookout_create(uv_loop_t *loop, struct kolo_agent_channel *channel,
                                struct kolo_lookout **lookout_out)
{
    static const struct kolo_side_calls calls = {.can = is_wanted,
                                                 .take = take_wanted,
                                                 .work = look_at_all,
                                                 .give = give_seen,
                                                 .heard = on_seen,
                                                 .free = free_lookout};
    struct kolo_lookout *lookout = kolo_calloc(1, sizeof *lookout);
    if (!lookout)
        return KOLO_ERR_NO_MEMORY;
    lookout->channel = channel;
    kolo_status status = kolo_side_start(&lookout->side, loop, &calls, lookout, "looks at ranks");
    if (status != KOLO_OK) {
        kolo_free_memory(lookout);
        return status;
    }
    (void)uv_timer_init(loop, &lookout->timer);
    lookout->timer.data = lookout;
    *lookout_out = lookout;
    return KOLO_OK;
}

kolo_status kolo_lookout_ask(struct kolo_lookout *lookout, uint32_t round,
                             const struct kolo_lookout_target *targets, size_t count)
{
    struct look *look = kolo_calloc(1, sizeof *look + count * sizeof targets[0]);
    if (!look)
        return KOLO_ERR_NO_MEMORY;
    look->round = round;
    look->count = count;
    look->sights = kolo_calloc(count, sizeof look->sights[0]);
    if (!look->sights) {
        free_look(look);
        return KOLO_ERR_NO_MEMORY;
    }
    memcpy(look->targets, targets, count * sizeof targets[0]);
    (void)uv_timer_stop(&lookout->timer);
    free_look(lookout->resting);
    lookout->resting = NULL;
    want(lookout, look);
    return KOLO_OK;
}

void kolo_lookout_close(struct kolo_lookout *lookout)
{
    if (!lookout || uv_is_closing((uv_handle_t *)&lookout->timer))
        return;
    uv_close((uv_handle_t *)&lookout->timer, NULL);
    kolo_side_close(&lookout->side);
}

void kolo_lookout_destroy(struct kolo_lookout *lookout)
{
    if (lookout)
        kolo_side_drop(&lookout->side);
}
