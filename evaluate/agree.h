// SPDX-License-Identifier: Apache-2.0
// Makes a failure on one rank a failure on all ranks, with the same message.
#ifndef KOLO_EVALUATE_AGREE_H
#define KOLO_EVALUATE_AGREE_H

#include <kolo/kolo.h>

#include "base/status.h"

/** The place of a failure that is not at any place of what the ranks have divided among them. */
#define EVAL_NO_PLACE UINT64_MAX

/** Returns what a collective has returned on this rank. If it could not begin here for want of
 * memory, the others wait in it: this ends their calls, with the reason. */
kolo_status eval_called(struct kolo_comm *comm, kolo_status status) KOLO_NODISCARD;

/** Every rank passes its own status, @p mine, with this thread's detail. All get the same answer:
 * KOLO_OK if all succeeded; otherwise the failure with the lowest @p place, and among these that
 * of the lowest rank, with its detail. The rank is named if not all failed. Collective. */
kolo_status eval_agree(struct kolo_comm *comm, kolo_status mine, uint64_t place) KOLO_NODISCARD;

/** Checks that all ranks have read the same file: the same number of bytes with the same sum.
 * Collective. */
kolo_status eval_agree_file(struct kolo_comm *comm, const char *path, uint64_t bytes,
                            uint32_t sum) KOLO_NODISCARD;

#endif
