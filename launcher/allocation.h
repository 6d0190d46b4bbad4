// SPDX-License-Identifier: Apache-2.0
// The hosts that a batch system (Slurm) has given to this job, where kolorun runs in one.
#ifndef KOLO_LAUNCHER_ALLOCATION_H
#define KOLO_LAUNCHER_ALLOCATION_H

#include "launcher/hosts.h"

struct kolo_allocation {
    const char *job;  /* its number there; NULL: this process is in none, and no host was added */
    const char *list; /* of its hosts, as Slurm writes it */
    bool is_here;     /* it is this machine alone, whose slots are not enforced */
};

/** Adds the hosts of the allocation that this process was started in, by its environment, with a
 * slot for each task. A process that is itself one of several ranks of a launcher's (a task of
 * srun, a rank of mpirun, torchrun or kolorun) is in none: each of them would take all.
 *  @return KOLO_OK; ERR_INVALID names a variable that is not as Slurm writes it. */
kolo_status kolo_allocation_find(struct kolo_hosts *hosts,
                                 struct kolo_allocation *found_out) KOLO_NODISCARD;

#endif
