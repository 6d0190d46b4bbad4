// SPDX-License-Identifier: Apache-2.0
// `kolorun doctor`: looks at the hosts of a job and at the network between them before the job is
// started.
#ifndef KOLO_LAUNCHER_DOCTOR_H
#define KOLO_LAUNCHER_DOCTOR_H

#include <stdio.h>

#include "launcher/doctor_judge.h"
#include "launcher/hosts.h"
#include "launcher/options.h"

/** @return the exit status: 0 nothing to mend, 1 something is, 2 it was asked wrongly. */
int kolo_doctor_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size);

/** What is told in the end. */
struct kolo_diagnosis {
    const struct kolo_checkup *hosts;
    size_t count;
    int size; /* ranks */
    const struct kolo_paths *paths;
    const struct kolo_findings *findings; /* sorted */
    double seconds;
};
void kolo_diagnosis_print(const struct kolo_diagnosis *diagnosis, FILE *out);
/** One JSON object. ERR_SYSTEM: it could not be written. */
kolo_status kolo_diagnosis_write(const struct kolo_diagnosis *diagnosis, FILE *out) KOLO_NODISCARD;

#endif
