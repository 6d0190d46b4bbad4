// SPDX-License-Identifier: Apache-2.0
// What the options of other launchers are called here.
#ifndef KOLO_LAUNCHER_FOREIGN_H
#define KOLO_LAUNCHER_FOREIGN_H

/** For an option of mpirun, mpiexec, srun, torchrun or horovodrun, as typed (also "--NAME=VALUE"):
 * what to give instead, in a few words. NULL: nothing is known of it. */
const char *kolo_foreign_advice(const char *word);

#endif
