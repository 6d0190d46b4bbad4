// SPDX-License-Identifier: Apache-2.0
// CUDA memory that a program gets from the driver, not from kolo, as most programs do.
// program_cuda.c; program_none.c in a build without CUDA.
#ifndef KOLO_BENCH_PROGRAM_MEMORY_H
#define KOLO_BENCH_PROGRAM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <kolo/kolo.h>

/** Allocates memory of the device that kolo_alloc_device would take for this rank, in its primary
 * context; or managed memory, which the driver moves between device and host. May be called from
 * any thread. ERR_UNSUPPORTED: there is no device, or it has no such memory; ERR_NO_MEMORY;
 * ERR_SYSTEM. */
kolo_status bench_program_alloc(struct kolo_comm *comm, size_t bytes, bool is_managed,
                                void **memory_out);
/** NULL is allowed. */
void bench_program_free(void *memory);

#endif
