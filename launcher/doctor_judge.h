// SPDX-License-Identifier: Apache-2.0
// Derives findings from facts: what would prevent a job from running on these hosts, or make it
// slow. Pure.
#ifndef KOLO_LAUNCHER_DOCTOR_JUDGE_H
#define KOLO_LAUNCHER_DOCTOR_JUDGE_H

#include "launcher/doctor_facts.h"

/** The worst comes first. */
enum kolo_severity {
    KOLO_SEVERITY_ERROR,   /* the job would not run, or would not finish */
    KOLO_SEVERITY_WARNING, /* it would be slow, or may fail */
    KOLO_SEVERITY_NOTE,    /* worth knowing; nothing to mend */
    KOLO_SEVERITIES
};
const char *kolo_severity_name(enum kolo_severity severity);

/** One line of the report. The same finding on several hosts is one finding. */
struct kolo_finding {
    enum kolo_severity severity;
    const char *kind; /* a stable word, for programs */
    int *hosts;       /* the numbers of the hosts concerned */
    size_t host_count, capacity;
    char text[1280]; /* what was found, and the next step */
};
struct kolo_findings {
    struct kolo_finding *at;
    size_t count, capacity;
    bool is_short; /* memory ran out: findings are missing */
};
/** @p host -1: it concerns all hosts, or none. */
void kolo_findings_add(struct kolo_findings *findings, enum kolo_severity severity,
                       const char *kind, int host, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** Sorts by severity, the worst first; equal ones stay in the order in which they were found. */
void kolo_findings_sort(struct kolo_findings *findings);
void kolo_findings_fini(struct kolo_findings *findings);

/** The job that is being asked about. */
struct kolo_prognosis {
    int size;                /* number of ranks */
    const char *agent;       /* path of kolorun on the other hosts */
    const char *build;       /* a hash of this kolorun; "": not known */
    const char *machine;     /* machine type that this kolorun runs on */
    const char *ports, *net; /* KOLO_PORTS, KOLO_NET; "": not set */
    const char *transport;   /* the transport that is forced; "auto": none */
    int gpus;                /* --gpus; 0: not given */
};

/** Judges each host by itself, and in comparison with the others. */
void kolo_judge_hosts(const struct kolo_checkup *hosts, size_t count,
                      const struct kolo_prognosis *job, struct kolo_findings *findings);
/** Judges the network between them, from the paths that were tried. */
void kolo_judge_paths(const struct kolo_checkup *hosts, size_t count,
                      const struct kolo_fact_paths *paths, const struct kolo_prognosis *job,
                      struct kolo_findings *findings);

#endif
