// SPDX-License-Identifier: Apache-2.0
// Ranks started by another launcher: srun, mpirun (Open MPI), mpiexec of MPICH's family, torchrun.
// Each of these tells a process its rank and the number of ranks in variables of its own. If kolo
// ignored them, every process would be a world of one rank and silently compute a wrong result.
#ifndef KOLO_RUNTIME_ADOPT_H
#define KOLO_RUNTIME_ADOPT_H

#include "base/settings.h"

/** If neither kolorun nor the program has set the rank, and another launcher's variables do, sets
 * the rank, the size, and the rendezvous if it is not set and can be derived. Leaves a world of one
 * rank as it is.
 * @return KOLO_OK; ERR_CONFIG: the detail names the launcher's variable, or what the ranks lack. */
kolo_status kolo_adopt(struct kolo_settings *settings) KOLO_NODISCARD;

#endif
