// SPDX-License-Identifier: Apache-2.0
// What each host is told of the job: the command, and the environment its ranks get.
#ifndef KOLO_LAUNCHER_JOB_SPEC_H
#define KOLO_LAUNCHER_JOB_SPEC_H

#include "launcher/hosts.h"
#include "launcher/meeting.h"
#include "launcher/options.h"

struct kolo_job_facts {
    const struct kolo_options *options;
    const struct kolo_host *host, *first_host;
    int size;
    const struct kolo_meeting
        *meeting; /* NULL: the job is looked at, not started; then a program is
                                           not needed either */
};

/** The body of the JOB frame for facts->host (kolo_free_memory; it holds the secret). */
kolo_status kolo_job_spec_pack(const struct kolo_job_facts *facts, uint8_t **data_out,
                               size_t *bytes_out) KOLO_NODISCARD;

#endif
