// SPDX-License-Identifier: Apache-2.0
// `kolorun doctor`: examines the hosts of a job and the network between them before the job is
// started.
#ifndef KOLO_LAUNCHER_DOCTOR_H
#define KOLO_LAUNCHER_DOCTOR_H

#include <stdio.h>

#include "launcher/doctor_judge.h"
#include "launcher/hosts.h"
#include "launcher/options.h"

/** @return the exit status: 0 if there is nothing to mend, 1 if there is, 2 for wrong options. */
int kolo_doctor_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size);

/** The result, as it is reported. */
struct kolo_diagnosis {
    const struct kolo_checkup *hosts;
    size_t count;
    int size; /* number of ranks */
    const struct kolo_fact_paths *paths;
    const struct kolo_findings *findings; /* sorted */
    double seconds;
};
void kolo_diagnosis_print(const struct kolo_diagnosis *diagnosis, FILE *out);
/** Writes one JSON object. ERR_SYSTEM: it could not be written; ERR_NO_MEMORY: nor made. */
kolo_status kolo_diagnosis_write(const struct kolo_diagnosis *diagnosis, FILE *out) KOLO_NODISCARD;

#endif
