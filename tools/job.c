// SPDX-License-Identifier: Apache-2.0
// What kolorun's environment says of a job, and who complains of a wrong command line; see job.h.
// Ranks with a wrong command line do not meet: one that has it alone would wait for the others
// until KOLO_START_TIMEOUT, and they may be busy, or be no programs of kolo. If it gave up sooner,
// it would end their start with a message that names a missing rank.
#include "tools/job.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/settings.h"

enum { PATIENCE_MIN_MS = 4000, PATIENCE_PART = 15, COMPLAINT_MAX = 8192 };

static char kept[COMPLAINT_MAX]; /* what this process has not printed yet; "": nothing */

bool job_speaks(void)
{
    const char *rank = kolo_environment("KOLO_RANK");
    return !rank || strcmp(rank, "0") == 0;
}

static void print_kept(void)
{
    fprintf(stderr, "%s\n", kept);
    kept[0] = '\0';
}

void job_complain_args(const char *program, const char *format, va_list args)
{
    const int begin = snprintf(kept, sizeof kept, "%s: ", program);
    (void)vsnprintf(kept + begin, sizeof kept - (size_t)begin, format, args);
    if (job_speaks() || !kolo_environment("KOLO_LAUNCHER"))
        print_kept();
}

void job_complain(const char *program, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    job_complain_args(program, format, args);
    va_end(args);
}

/** If rank 0 is late, or has a right command line, the others should not all complain. kolorun ends
 * them a second after the first one, since ranks that wait in kolo_init have that time to report
 * the failure (launcher/job_phases.c), and sooner if no rank is there yet. So rank 1 waits for a
 * quarter of the time, mostly a second, rank 2 for five eighths, rank 3 for three quarters, and so
 * on.
 */
static int64_t patience_ms(void)
{
    struct kolo_settings settings;
    kolo_settings_init(&settings);
    (void)!kolo_settings_load(&settings, NULL, NULL, NULL); /* else the defaults will do */
    const int64_t start_ms = settings.start_timeout_ms, rank = settings.rank;
    int64_t whole_ms = start_ms / PATIENCE_PART;
    if (whole_ms < PATIENCE_MIN_MS)
        whole_ms = start_ms < PATIENCE_MIN_MS ? start_ms : PATIENCE_MIN_MS;
    explicit_bzero(&settings, sizeof settings);
    return whole_ms - whole_ms * 3 / 4 / (rank > 0 ? rank : 1);
}

void job_leave(void)
{
    if (!kept[0])
        return;
    const kolo_deadline deadline = kolo_deadline_in_ms(patience_ms());
    while (!kolo_deadline_passed(deadline)) /* kolorun's SIGTERM ends this process */
        (void)poll(NULL, 0, kolo_deadline_poll_ms(deadline));
    print_kept();
}
