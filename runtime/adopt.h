// SPDX-License-Identifier: Apache-2.0
// Programs that another launcher started: srun, mpirun (Open MPI), mpiexec of MPICH's family,
// torchrun. Each tells its processes by variables of its own which rank of how many they are.
// Without a look at them every process would be a world of one, and a wrong result nobody's fault.
#ifndef KOLO_RUNTIME_ADOPT_H
#define KOLO_RUNTIME_ADOPT_H

#include "base/settings.h"

/** Where neither kolorun nor the program has said which rank this is, and another launcher's
 * variables do: sets rank and size, and where they are not given and can be known, the rendezvous.
 * A world of one is left as it is.
 *  @return KOLO_OK; ERR_CONFIG naming the launcher's variable, or what the ranks lack. */
kolo_status kolo_adopt(struct kolo_settings *settings) KOLO_NODISCARD;

#endif
