// SPDX-License-Identifier: Apache-2.0
// Forbids system calls to a thread, as a container may.
#ifndef KOLO_TESTS_REFUSE_H
#define KOLO_TESTS_REFUSE_H

#include <stdbool.h>
#include <stdint.h>

/** From now on system call @p number fails with @p error for this thread and for the threads and
 * processes that it starts. If @p argument is not negative, only if the low half of that argument
 * is @p value. Returns false, with errno set, if this is not possible here. */
bool refuse_call(int number, int argument, uint32_t value, int error);
/** Forbids process_vm_readv, with EPERM. */
bool refuse_reading(void);

#endif
