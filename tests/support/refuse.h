// SPDX-License-Identifier: Apache-2.0
// System calls that a thread may not make any more, as in a container that forbids them.
#ifndef KOLO_TESTS_REFUSE_H
#define KOLO_TESTS_REFUSE_H

#include <stdbool.h>
#include <stdint.h>

/** From here on this thread's system call @p number, and that of what it starts, fails with @p
 * error; if @p argument is not negative, only where that argument's low half is @p value. False,
 * and errno: it cannot be so here. */
bool refuse_call(int number, int argument, uint32_t value, int error);
/** process_vm_readv, with EPERM. */
bool refuse_reading(void);

#endif
