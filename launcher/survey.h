// SPDX-License-Identifier: Apache-2.0
// Asks the agents of all hosts what their ranks' processes do (LOOK), and keeps the answers.
#ifndef KOLO_LAUNCHER_SURVEY_H
#define KOLO_LAUNCHER_SURVEY_H

#include <uv.h>

#include "launcher/meeting.h"
#include "launcher/remote.h"

struct kolo_survey {
    uv_timer_t timer;
    struct kolo_remote *remotes;
    size_t count;
    int size;
    struct kolo_sight *sights; /* of each rank */
    bool *is_seen;             /* whether the latest round has a sight of the rank */
    bool *is_asked;            /* of each host: it has still to answer */
    bool is_asking, is_held, waits_again;
    uint32_t round;
    int64_t began_ns;
    size_t missing; /* hosts that have not answered */
    void (*done)(void *context);
    void *context;
};

/** @p remotes (@p count hosts of @p size ranks) are the caller's. ERR_NO_MEMORY. */
kolo_status kolo_survey_init(struct kolo_survey *survey, uv_loop_t *loop, int size,
                             struct kolo_remote *remotes, size_t count, void (*done)(void *context),
                             void *context) KOLO_NODISCARD;
/** Asks all hosts that run ranks. `done` is called, on the loop, when all have answered, or soon.
 * If a survey is in progress, that one goes on. */
void kolo_survey_ask(struct kolo_survey *survey, const struct kolo_meeting *meeting);
/** From now on nobody is asked, and no answer counts: kolorun itself stops the ranks. */
void kolo_survey_hold(struct kolo_survey *survey);
/** The ranks go on; so does a survey that was asked for, from its beginning. */
void kolo_survey_go_on(struct kolo_survey *survey, const struct kolo_meeting *meeting);
/** SEEN has come; of an earlier round, it is not used. */
void kolo_survey_seen(struct kolo_survey *survey, uint32_t round, const struct kolo_sight *sight);
/** LOOKED has come from @p remote. */
void kolo_survey_looked(struct kolo_survey *survey, const struct kolo_remote *remote,
                        uint32_t round);
/** What was seen of @p rank in the latest survey; NULL: nothing. */
const struct kolo_sight *kolo_survey_sight(const struct kolo_survey *survey, int rank);
void kolo_survey_fini(struct kolo_survey *survey);

#endif
