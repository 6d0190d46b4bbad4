// SPDX-License-Identifier: Apache-2.0
// A program's place in a job of kolorun, before it has a communicator.
#ifndef KOLO_TOOLS_JOB_H
#define KOLO_TOOLS_JOB_H

#include <stdbool.h>

/** Whether this process prints messages for its job: it is rank 0, or not in a job of kolorun. */
bool job_speaks(void);

/** For a process that ends without having been a rank (kolo_init), since all ranks have the same
 *  wrong command line, about which rank 0 has printed a message. kolorun ends the job with the
 *  first rank that fails, so the others wait here until rank 0 is here too. */
void job_leave_together(void);

#endif
