// SPDX-License-Identifier: Apache-2.0
// Passes kolorun's standard input to rank 0: a thread reads it, at most one window ahead of what
// rank 0 has taken.
#ifndef KOLO_LAUNCHER_INPUT_H
#define KOLO_LAUNCHER_INPUT_H

#include <uv.h>

#include "base/status.h"

struct kolo_input;
/** @p read is called on the loop with bytes, or with 0 bytes at the end. */
kolo_status kolo_input_create(uv_loop_t *loop, int fd,
                              void (*read)(void *context, const void *data, size_t bytes),
                              void *context, struct kolo_input **input_out) KOLO_NODISCARD;
/** To be called in read() at the end: the errno of the read that ended the input early. 0: it is
 *  whole, or there is none (a descriptor that is closed or cannot be read, as nohup leaves it), or
 *  its terminal belongs to others. */
int kolo_input_error(const struct kolo_input *input);
/** Rank 0 has taken @p bytes bytes. */
void kolo_input_taken(struct kolo_input *input, size_t bytes);
/** No callback is called afterwards. NULL is allowed. */
void kolo_input_close(struct kolo_input *input);
/** To be called after the loop has run. The memory is freed once no thread is in a read. */
void kolo_input_destroy(struct kolo_input *input);

#endif
