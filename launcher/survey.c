// SPDX-License-Identifier: Apache-2.0
// One survey is in progress at a time, and lasts ANSWER_MS at most: a host that does not answer is
// left out. An answer that comes later than that is not used. While it is held, what is under way
// is forgotten: it begins anew when it may go on.
#include "launcher/survey.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum {
    ANSWER_MS = 1500, /* an agent itself looks for a fifth of a second */
    LATE_MS = 250     /* a timer that is later than that shows that kolorun did not run */
};

static void end(struct kolo_survey *survey)
{
    survey->is_asking = false;
    (void)uv_timer_stop(&survey->timer);
    survey->done(survey->context);
}

/* The loop calls timers before it reads. If kolorun itself did not run, because it was stopped or
 * the machine was too busy, answers may be there that it could not read: it waits once more. */
static void on_time(uv_timer_t *timer)
{
    struct kolo_survey *survey = timer->data;
    const int64_t ms = (kolo_now_ns() - survey->began_ns) / KOLO_NS_PER_MS;
    if (survey->missing == 0 || survey->waits_again || ms < ANSWER_MS + LATE_MS) {
        end(survey);
        return;
    }
    survey->waits_again = true;
    uv_update_time(timer->loop);
    (void)uv_timer_start(timer, on_time, ANSWER_MS, 0);
}

kolo_status kolo_survey_init(struct kolo_survey *survey, uv_loop_t *loop, int size,
                             struct kolo_remote *remotes, size_t count, void (*done)(void *context),
                             void *context)
{
    *survey = (struct kolo_survey){
        .remotes = remotes, .count = count, .size = size, .done = done, .context = context};
    (void)uv_timer_init(loop, &survey->timer);
    survey->timer.data = survey;
    survey->sights = kolo_calloc((size_t)size, sizeof survey->sights[0]);
    survey->is_seen = kolo_calloc((size_t)size, sizeof survey->is_seen[0]);
    survey->is_asked = kolo_calloc(count, sizeof survey->is_asked[0]);
    return survey->sights && survey->is_seen && survey->is_asked ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static bool ask_host(struct kolo_survey *survey, struct kolo_remote *remote,
                     const struct kolo_meeting *meeting)
{
    const struct kolo_ranks *ranks = &remote->host->ranks;
    const size_t capacity = sizeof(uint32_t) * (1 + (size_t)ranks->count);
    uint8_t *body = kolo_calloc(capacity, 1);
    size_t bytes = 0;
    if (!body)
        return false;
    struct kolo_writer writer = kolo_writer_over(body, capacity);
    kolo_write_u32(&writer, survey->round);
    for (uint32_t i = 0; i < ranks->count; i++)
        kolo_write_u32(&writer, (uint32_t)kolo_meeting_pid(meeting, (int)ranks->at[i]));
    const bool is_whole = kolo_writer_finish(&writer, body, &bytes) == KOLO_OK;
    if (is_whole)
        kolo_agent_channel_send(&remote->channel, KOLO_FRAME_LOOK, body, bytes);
    kolo_free_memory(body);
    return is_whole;
}

static void begin(struct kolo_survey *survey, const struct kolo_meeting *meeting)
{
    survey->round++;
    survey->missing = 0;
    memset(survey->is_seen, 0, (size_t)survey->size * sizeof survey->is_seen[0]);
    for (size_t i = 0; i < survey->count; i++) {
        survey->is_asked[i] = survey->remotes[i].state == KOLO_REMOTE_RUNNING &&
                              ask_host(survey, &survey->remotes[i], meeting);
        survey->missing += survey->is_asked[i];
    }
    /* If no host runs ranks any more, what the store knows is told in the loop's next turn. */
    survey->began_ns = kolo_now_ns();
    survey->waits_again = false;
    (void)uv_timer_start(&survey->timer, on_time, survey->missing > 0 ? ANSWER_MS : 0, 0);
}

void kolo_survey_ask(struct kolo_survey *survey, const struct kolo_meeting *meeting)
{
    if (survey->is_asking)
        return;
    survey->is_asking = true;
    if (!survey->is_held)
        begin(survey, meeting);
}

void kolo_survey_hold(struct kolo_survey *survey)
{
    survey->is_held = true;
    survey->round++;
    (void)uv_timer_stop(&survey->timer);
}

void kolo_survey_go_on(struct kolo_survey *survey, const struct kolo_meeting *meeting)
{
    survey->is_held = false;
    if (survey->is_asking)
        begin(survey, meeting);
}

void kolo_survey_seen(struct kolo_survey *survey, uint32_t round, const struct kolo_sight *sight)
{
    if (!survey->is_asking || round != survey->round)
        return;
    survey->sights[sight->rank] = *sight;
    survey->is_seen[sight->rank] = true;
}

void kolo_survey_looked(struct kolo_survey *survey, const struct kolo_remote *remote,
                        uint32_t round)
{
    if (!survey->is_asking || round != survey->round || !survey->is_asked[remote->index])
        return;
    survey->is_asked[remote->index] = false;
    if (--survey->missing == 0)
        end(survey);
}

const struct kolo_sight *kolo_survey_sight(const struct kolo_survey *survey, int rank)
{
    return survey->is_seen && survey->is_seen[rank] ? &survey->sights[rank] : NULL;
}

void kolo_survey_fini(struct kolo_survey *survey)
{
    kolo_free_memory(survey->sights);
    kolo_free_memory(survey->is_seen);
    kolo_free_memory(survey->is_asked);
}
