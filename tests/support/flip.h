// SPDX-License-Identifier: Apache-2.0
// Flips one bit of a frame after its checksum was made and before it leaves, as a bad card would.
// Only in programs that are linked with -Wl,--wrap=kolo_frame_pack; over RDMA it changes only what
// is copied into eager buffers (fake_verbs_flip() changes what is on the wire).
//
// Threads: any. The frame is counted when it is packed.
#ifndef KOLO_TESTS_SUPPORT_FLIP_H
#define KOLO_TESTS_SUPPORT_FLIP_H

#include <stdbool.h>
#include <stddef.h>

enum flip_place { FLIP_FIRST, FLIP_MIDDLE, FLIP_LAST, FLIP_HEADER };

/** Arms it: the @p nth data frame (1: the next) of at least @p least bytes that rank @p rank (-1:
 *  any) sends loses its innocence at @p place of its payload; or a bit of the channel in its header
 *  does. */
void flip_arm(int rank, int nth, size_t least, enum flip_place place);
/** The same for the next control frame, at byte @p at of its header. */
void flip_arm_control(int rank, size_t at);
/** Whether the bit was flipped since it was armed; *from_out and *to_out (may be NULL): which rank
 *  sent that frame to which. */
bool flip_done(int *from_out, int *to_out);
/** Disarms it, and frees what it has copied: no frame may be on its way. */
void flip_end(void);

#endif
