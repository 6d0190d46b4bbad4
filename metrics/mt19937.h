// SPDX-License-Identifier: Apache-2.0
// The 32-bit Mersenne Twister (Matsumoto and Nishimura 1998), which is the generator behind
// torch.randperm on a CPU. Owns nothing but its state. It must never be used for secrets.
#ifndef KOLO_METRICS_MT19937_H
#define KOLO_METRICS_MT19937_H

#include <stdint.h>

enum { KOLO_MT_WORDS = 624 };

struct kolo_mt19937 {
    uint32_t word[KOLO_MT_WORDS];
    int at;
};

void kolo_mt19937_seed(struct kolo_mt19937 *mt, uint32_t seed);
/** Returns the next 32 random bits. */
uint32_t kolo_mt19937_next(struct kolo_mt19937 *mt);

#endif
