// SPDX-License-Identifier: Apache-2.0
// The internal state of an examination, shared by doctor.c (its beginning, its end and the report),
// doctor_phases.c (its course) and doctor_visit.c (one host).
#ifndef KOLO_LAUNCHER_DOCTOR_STATE_H
#define KOLO_LAUNCHER_DOCTOR_STATE_H

#include <uv.h>

#include "launcher/doctor.h"
#include "launcher/remote.h"
#include "launcher/scribe.h"
#include "transport/conn.h"

enum kolo_doctor_phase {
    DOCTOR_REACHING,
    DOCTOR_LOOKING,
    DOCTOR_TRYING,
    DOCTOR_SURVEYING,
    DOCTOR_ENDING,
    DOCTOR_OVER
};
enum {
    DOCTOR_REACH_MORE_MS = 1000, /* ssh has the same limit: time for it to say why it failed */
    DOCTOR_WHOLE_MAX = 64        /* with more hosts, each tries only some of the others */
};

/* One host: its checkup, and how far it has come. */
struct kolo_visit {
    struct kolo_remote remote;
    struct kolo_host host;
    struct kolo_checkup *checkup;
    struct kolo_doctor *doctor;
    char *text; /* the examiner's output that has not been parsed yet */
    size_t used, capacity;
    int64_t asked_ns;     /* wall clock when its clock was asked for */
    size_t paths_pending; /* paths asked for whose results are missing */
    bool has_greeted, has_started, is_lost, is_given_up;
};

struct kolo_doctor {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t child;
    const struct kolo_options *options;
    const struct kolo_hosts *hosts;
    int size;
    struct kolo_remote_config config;
    struct kolo_secret secret;
    struct kolo_checkup *checkups;
    struct kolo_visit *visits;
    size_t count, called, calling, gone;
    struct kolo_fact_paths paths;
    struct kolo_scribe *json; /* NULL: without --json */
    enum kolo_doctor_phase phase;
    int64_t began_ns, reach_ms;
    bool is_advancing;
};

#define DOCTOR_SAY(doctor, ...)                                                                    \
    do {                                                                                           \
        if ((doctor)->options->verbose)                                                            \
            fprintf(stderr, "kolorun: " __VA_ARGS__);                                              \
    } while (0)

/* doctor_phases.c */
void kolo_doctor_enter(struct kolo_doctor *doctor, enum kolo_doctor_phase phase, int64_t limit_ms);
/** Advances through all phases that are over. */
void kolo_doctor_advance(struct kolo_doctor *doctor);

/* doctor_visit.c */
/** Calls as many of the remaining hosts as may be called at a time. */
void kolo_doctor_call_hosts(struct kolo_doctor *doctor);
/** Asks the host to try its paths; returns their number. */
size_t kolo_visit_ask_paths(struct kolo_visit *visit);
struct kolo_remote_events kolo_doctor_events(struct kolo_doctor *doctor);

#endif
