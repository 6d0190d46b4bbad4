// SPDX-License-Identifier: Apache-2.0
// System calls that a thread may not make any more, as in a container that forbids them.
#ifndef KOLO_TESTS_REFUSE_H
#define KOLO_TESTS_REFUSE_H

#include <stdbool.h>

/** From here on this thread's process_vm_readv fails with EPERM. False: it cannot be so here. */
bool refuse_reading(void);

#endif
