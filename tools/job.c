// SPDX-License-Identifier: Apache-2.0
// What kolorun's environment says of a job, and a world that only meets; see job.h.
#include "tools/job.h"

#include <kolo/kolo.h>
#include <string.h>

#include "base/settings.h"

bool job_speaks(void)
{
    const char *rank = kolo_environment("KOLO_RANK");
    return !rank || strcmp(rank, "0") == 0;
}

void job_leave_together(void)
{
    struct kolo_comm *comm = NULL;
    if (kolo_environment("KOLO_LAUNCHER") && kolo_init(NULL, &comm) == KOLO_OK)
        (void)kolo_finalize(comm); /* if they cannot meet, they leave one by one */
}
