// SPDX-License-Identifier: Apache-2.0
// Finds the hosts that a batch system (Slurm) has allocated to this job, if kolorun runs in one.
#ifndef KOLO_LAUNCHER_ALLOCATION_H
#define KOLO_LAUNCHER_ALLOCATION_H

#include "launcher/hosts.h"

struct kolo_allocation {
    const char *job;  /* the allocation's number; NULL: no allocation, no host was added */
    const char *list; /* its hosts, in Slurm's notation */
    bool is_here;     /* it is this machine only, and its slots are not enforced */
};

/** Adds the hosts of the allocation that this process was started in, according to its environment,
 * with one slot per task. A process that is itself one of several ranks of a launcher (a task of
 * srun, a rank of mpirun, torchrun or kolorun) counts as outside: otherwise each of these ranks
 * would take the whole allocation.
 *  @return KOLO_OK; ERR_INVALID names a variable that is not in Slurm's notation. */
kolo_status kolo_allocation_find(struct kolo_hosts *hosts,
                                 struct kolo_allocation *found_out) KOLO_NODISCARD;

#endif
