// SPDX-License-Identifier: Apache-2.0
// What each host is told about the job: the command, and the environment of its ranks.
#ifndef KOLO_LAUNCHER_JOB_SPEC_H
#define KOLO_LAUNCHER_JOB_SPEC_H

#include "launcher/hosts.h"
#include "launcher/meeting.h"
#include "launcher/options.h"

/** Output that a host may send before any of it is written; the last frame may exceed it. */
enum { KOLO_JOB_CREDIT_BYTES = 1 << 20 };

struct kolo_job_facts {
    const struct kolo_options *options;
    const struct kolo_host *host, *first_host;
    int size;
    const struct kolo_meeting
        *meeting; /* NULL: the job is examined, not started; no program is needed either */
};

/** Packs the body of the JOB frame for facts->host (kolo_free_wiped: it contains the secret). */
kolo_status kolo_job_spec_pack(const struct kolo_job_facts *facts, uint8_t **data_out,
                               size_t *bytes_out) KOLO_NODISCARD;

#endif
