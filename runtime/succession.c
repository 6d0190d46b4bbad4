// SPDX-License-Identifier: Apache-2.0
// Predicts the next root from the last two calls after the running one's, see succession.h. The
// result must never be used as more than a hint.
#include "runtime/succession.h"

void kolo_succession_begin(struct kolo_succession *succession, int root)
{
    const int before = succession->running;
    succession->running = root;
    if (before == KOLO_SUCCESSION_NONE)
        return;
    succession->after[before].is_steady = root == succession->after[before].next;
    succession->after[before].next = (int8_t)root;
}

int kolo_succession_next(const struct kolo_succession *succession)
{
    const int running = succession->running;
    if (running == KOLO_SUCCESSION_NONE || !succession->after[running].is_steady)
        return KOLO_SUCCESSION_NONE;
    return succession->after[running].next;
}
