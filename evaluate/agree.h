// SPDX-License-Identifier: Apache-2.0
// What went wrong on one rank goes wrong on all, with the same words.
#ifndef KOLO_EVALUATE_AGREE_H
#define KOLO_EVALUATE_AGREE_H

#include <kolo/kolo.h>

#include "base/status.h"

/** A failure that is not at a place of what the ranks have divided among them. */
#define EVAL_NO_PLACE UINT64_MAX

/** Every rank says how it went: @p mine, with this thread's detail. All get the same answer:
 *  KOLO_OK if it went well everywhere, else the failure, with its detail, that has the lowest
 *  @p place and of these that of the lowest rank. It is named where not all failed. Collective. */
kolo_status eval_agree(struct kolo_comm *comm, kolo_status mine, uint64_t place) KOLO_NODISCARD;

/** Whether all ranks have read the same file: so many bytes with this sum. Collective. */
kolo_status eval_agree_file(struct kolo_comm *comm, const char *path, uint64_t bytes,
                            uint32_t sum) KOLO_NODISCARD;

#endif
