// SPDX-License-Identifier: Apache-2.0
// Memory for yajl, which takes it for granted that there is some: it would write to address 0.
#ifndef KOLO_EVALUATE_MEMORY_H
#define KOLO_EVALUATE_MEMORY_H

#include <setjmp.h>
#include <yajl/yajl_common.h>

struct eval_memory_block;

/** Must stay where it is. Zeros: nothing was taken. */
struct eval_memory {
    struct eval_memory_block *first;
    jmp_buf missing; /* where execution goes on if memory is missing, with the detail set */
};

/** What yajl calls to take memory. A function that calls what may take some must have called
 * setjmp(memory->missing), and still run. If that returns again, memory was missing: nothing that
 * has taken any may be used any more, not even to free it. */
yajl_alloc_funcs eval_memory_functions(struct eval_memory *memory);
/** Frees all that was taken and not given back. */
void eval_memory_free(struct eval_memory *memory);

#endif
