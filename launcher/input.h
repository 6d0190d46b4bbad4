// SPDX-License-Identifier: Apache-2.0
// kolorun's standard input, for rank 0: a thread reads, at most a window ahead of what was taken.
#ifndef KOLO_LAUNCHER_INPUT_H
#define KOLO_LAUNCHER_INPUT_H

#include <uv.h>

#include "base/status.h"

struct kolo_input;
/** @p read is told on the loop: bytes, or 0 for the end. */
kolo_status kolo_input_create(uv_loop_t *loop, int fd,
                              void (*read)(void *context, const void *data, size_t bytes),
                              void *context, struct kolo_input **input_out) KOLO_NODISCARD;
/** Rank 0 took @p bytes. */
void kolo_input_taken(struct kolo_input *input, size_t bytes);
/** No call comes afterwards. NULL is fine. */
void kolo_input_close(struct kolo_input *input);
/** After the loop ran. A thread stuck in a read keeps its memory until the process ends. */
void kolo_input_destroy(struct kolo_input *input);

#endif
