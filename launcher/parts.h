// SPDX-License-Identifier: Apache-2.0
// Lists of buffers for writev, of which a call may have written a part.
#ifndef KOLO_LAUNCHER_PARTS_H
#define KOLO_LAUNCHER_PARTS_H

#include <stddef.h>
#include <sys/uio.h>

/** Takes the first @p bytes bytes off @p parts, which keep what is left of each. Returns the first
 * that is not empty; *count becomes the number from there on. */
struct iovec *kolo_parts_advance(struct iovec *parts, int *count, size_t bytes);
/** Writes all, and leaves in each part what was not written. Returns 0, or the error. */
int kolo_parts_write(int fd, struct iovec *parts, int count);

#endif
