// SPDX-License-Identifier: Apache-2.0
// Owns nothing: see patience.h.
#include "runtime/patience.h"

int64_t kolo_patience_begin(struct kolo_patience *patience)
{
    patience->is_trial = patience->waits_left == 1;
    if (patience->waits_left > 0)
        patience->waits_left--;
    return patience->waits_left > 0 ? 0 : patience->spin_ns;
}

void kolo_patience_yielded(struct kolo_patience *patience, int64_t took_ns, bool has_helped)
{
    if (!patience->learns)
        return;
    if (took_ns >= KOLO_PATIENCE_LONG * patience->spin_ns) {
        patience->waits_left = 0;
        return;
    }
    if (!has_helped || patience->waits_left > 0)
        return;
    if (!patience->is_trial)
        patience->period = KOLO_PATIENCE_LEAST;
    else if (patience->period < KOLO_PATIENCE_MOST)
        patience->period *= 2;
    patience->waits_left = patience->period + 1;
}
