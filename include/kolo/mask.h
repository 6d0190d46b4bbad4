// SPDX-License-Identifier: Apache-2.0
/** Masks of objects as runs of pixels, COCO's run-length encoding, with pycocotools' results to the
 *  bit.
 *
 *  Pixels are taken column by column, each from top to bottom. Runs are lengths: of pixels that are
 *  not the object's, that are, that are not, ...; the first may be 0.
 */
#ifndef KOLO_MASK_H
#define KOLO_MASK_H

#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A mask: the library's, or one that a program makes of runs that it has. */
struct kolo_mask {
    uint32_t height, width; /**< of the image, in pixels; their product is below 2^32 */
    size_t count;           /**< of runs; 0: no pixel */
    uint32_t *runs;         /**< only read where room is 0 */
    size_t room; /**< runs that the library has memory for there; 0: it is the program's */
};

#ifdef __cplusplus
}
#endif
#endif
