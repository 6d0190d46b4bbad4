// SPDX-License-Identifier: Apache-2.0
// One job, on kolorun's side: its hosts, rendezvous and output, and how it ends.
#ifndef KOLO_LAUNCHER_JOB_H
#define KOLO_LAUNCHER_JOB_H

#include "launcher/hosts.h"
#include "launcher/options.h"

/** Runs the job to its end, prints the verdict, and returns kolorun's exit status. */
int kolo_job_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size);

/** --dry-run: prints which ranks would start where. */
void kolo_job_print(const struct kolo_options *options, const struct kolo_hosts *hosts, int size);

enum {
    KOLO_EXIT_USAGE = 2,
    KOLO_EXIT_TIMEOUT = 124,
    KOLO_EXIT_SHORTAGE = 126, /* something is missing that a start needs */
    KOLO_EXIT_SIGNAL = 128,
    KOLO_EXIT_HOST = 255
};

#endif
