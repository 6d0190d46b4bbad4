// SPDX-License-Identifier: Apache-2.0
// The course of an examination. Hosts progress side by side; if one of them takes too long, that is
// noted, and the others continue without it.
//
//   REACHING --all have greeted, are lost, or are late--> LOOKING
//   LOOKING --all have said their facts, are lost, or are late--> TRYING
//   TRYING (the paths between those that said them) --all are tried, or late--> SURVEYING
//   SURVEYING (what asks drivers) --all, or late--> ENDING --all gone--> OVER
#include "launcher/doctor_state.h"

#include "base/clock.h"
#include "launcher/examine.h"

enum {
    FACTS_MS = 20000, /* from the last greeting */
    MARGIN_MS = 5000, /* for messages still on their way */
    END_MS = 5000
};

static void on_timer(uv_timer_t *timer);

void kolo_doctor_enter(struct kolo_doctor *doctor, enum kolo_doctor_phase phase, int64_t limit_ms)
{
    doctor->phase = phase;
    (void)uv_timer_start(&doctor->timer, on_timer, (uint64_t)(limit_ms > 0 ? limit_ms : 0), 0);
}

static bool is_there(const struct kolo_visit *visit)
{
    return !visit->is_lost && !visit->is_given_up;
}

static bool is_done(const struct kolo_visit *visit, enum kolo_doctor_phase phase)
{
    if (!is_there(visit))
        return true;
    switch ((int)phase) {
    case DOCTOR_REACHING:
        return visit->has_greeted;
    case DOCTOR_LOOKING:
        return visit->checkup->has_facts;
    case DOCTOR_TRYING:
        return visit->checkup->has_paths;
    case DOCTOR_SURVEYING:
        return visit->checkup->has_survey;
    default:
        return false;
    }
}

static bool all_done(const struct kolo_doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        if (!is_done(&doctor->visits[i], doctor->phase))
            return false;
    return true;
}

static void begin_paths(struct kolo_doctor *doctor)
{
    size_t most = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        size_t count = is_there(&doctor->visits[i]) ? kolo_visit_ask_paths(&doctor->visits[i]) : 0;
        most = count > most ? count : most;
    }
    DOCTOR_SAY(doctor, "trying the network: at most %zu paths from each host\n", most);
    int64_t rounds = (int64_t)(most + KOLO_PATHS_AT_ONCE - 1) / KOLO_PATHS_AT_ONCE;
    kolo_doctor_enter(doctor, DOCTOR_TRYING,
                      MARGIN_MS + rounds * (KOLO_PATH_DIAL_MS + KOLO_PATH_LONG_MS));
}

static void begin_end(struct kolo_doctor *doctor)
{
    kolo_doctor_enter(doctor, DOCTOR_ENDING, END_MS);
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->visits[i].remote.state != KOLO_REMOTE_GONE)
            kolo_remote_dismiss(&doctor->visits[i].remote);
}

static int64_t survey_left_ms(const struct kolo_doctor *doctor)
{
    int64_t left_ms = 0, now_ns = kolo_now_ns();
    for (size_t i = 0; i < doctor->count; i++) {
        const struct kolo_visit *visit = &doctor->visits[i];
        int64_t age_ms = (now_ns - visit->remote.called_ns) / KOLO_NS_PER_MS;
        if (!is_done(visit, DOCTOR_SURVEYING) && KOLO_SURVEY_MS - age_ms > left_ms)
            left_ms = KOLO_SURVEY_MS - age_ms;
    }
    return left_ms;
}

static void leave_if_gone(struct kolo_doctor *doctor)
{
    if (doctor->phase != DOCTOR_ENDING || doctor->gone < doctor->count)
        return;
    doctor->phase = DOCTOR_OVER;
    uv_stop(&doctor->loop);
}

void kolo_doctor_advance(struct kolo_doctor *doctor)
{
    if (doctor->is_advancing) /* called from an event that it caused itself */
        return;
    doctor->is_advancing = true;
    if (doctor->phase == DOCTOR_REACHING && all_done(doctor))
        kolo_doctor_enter(doctor, DOCTOR_LOOKING, FACTS_MS);
    if (doctor->phase == DOCTOR_LOOKING && all_done(doctor))
        begin_paths(doctor);
    if (doctor->phase == DOCTOR_TRYING && all_done(doctor))
        kolo_doctor_enter(doctor, DOCTOR_SURVEYING, survey_left_ms(doctor));
    if (doctor->phase == DOCTOR_SURVEYING && all_done(doctor))
        begin_end(doctor);
    leave_if_gone(doctor);
    doctor->is_advancing = false;
}

/* ---- who is late ---- */

static void describe_unheard(const struct kolo_visit *visit, char *text, size_t capacity)
{
    double limit_s = (double)visit->doctor->reach_ms / 1000;
    char words[384];
    kolo_remote_quote(&visit->remote, words, sizeof words);
    if (visit->checkup->is_here)
        snprintf(text, capacity, "the agent on this machine did not answer within %.0f s", limit_s);
    else
        snprintf(text, capacity,
                 "no answer by ssh within %.0f s%s%s; see that it is up, that no start-up file of "
                 "the shell there waits (ssh HOST true), or give it longer: --start-timeout",
                 limit_s, words[0] ? ", and it printed " : "", words);
}

static void describe_late(struct kolo_visit *visit)
{
    struct kolo_checkup *checkup = visit->checkup;
    if (!visit->has_greeted)
        describe_unheard(visit, checkup->unreached, sizeof checkup->unreached);
    else if (!visit->has_started)
        snprintf(checkup->unfinished, sizeof checkup->unfinished,
                 "its agent greeted, and could not look at the directory and the program within "
                 "%d s; see whether a file system there hangs (df)",
                 FACTS_MS / 1000);
    else if (visit->doctor->phase == DOCTOR_LOOKING)
        snprintf(
            checkup->unfinished, sizeof checkup->unfinished,
            "did not say within %d s what it has; see its load, and whether a file system there "
            "hangs (df)",
            FACTS_MS / 1000);
    else
        snprintf(checkup->unfinished, sizeof checkup->unfinished,
                 "did not finish trying the network; see its load, and start again");
}

static void give_up_late(struct kolo_doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        struct kolo_visit *visit = &doctor->visits[i];
        if (is_done(visit, doctor->phase))
            continue;
        DOCTOR_SAY(doctor, "host %s: is not waited for any longer\n", visit->host.name);
        describe_late(visit);
        visit->is_given_up = true;
        kolo_remote_dismiss(&visit->remote);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct kolo_doctor *doctor = timer->data;
    doctor->is_advancing = true;
    if (doctor->phase <= DOCTOR_TRYING) {
        give_up_late(doctor);
    } else if (doctor->phase == DOCTOR_SURVEYING) { /* the finding is that it did not end */
        begin_end(doctor);
    } else if (doctor->phase == DOCTOR_ENDING) {
        for (size_t i = 0; i < doctor->count; i++)
            kolo_remote_kill(&doctor->visits[i].remote);
        doctor->phase = DOCTOR_OVER;
        uv_stop(&doctor->loop);
    }
    doctor->is_advancing = false;
    kolo_doctor_advance(doctor);
}
