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

/* What kolorun has open without the files of --output-dir. Measured: 18, 1 for each rank and 3 for
 * each host; tests/launcher/doctor.sh compares it with a real job. */
static inline size_t kolo_job_open_files(int size, size_t hosts)
{
    return 32 + (size_t)size + 3 * hosts;
}

enum { KOLO_EXIT_USAGE = 2, KOLO_EXIT_TIMEOUT = 124, KOLO_EXIT_HOST = 255, KOLO_EXIT_SIGNAL = 128 };

#endif
