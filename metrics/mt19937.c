// SPDX-License-Identifier: Apache-2.0
// See mt19937.h. The recurrence is x[i+624] = x[i+397] ^ A(upper bit of x[i], lower bits of
// x[i+1]). 624 words are generated at a time, and each is tempered when it is taken.
#include "metrics/mt19937.h"

enum { MIDDLE = 397 };

void kolo_mt19937_seed(struct kolo_mt19937 *mt, uint32_t seed)
{
    mt->word[0] = seed;
    for (uint32_t i = 1; i < KOLO_MT_WORDS; i++) {
        uint32_t before = mt->word[i - 1];
        mt->word[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    mt->at = KOLO_MT_WORDS;
}

static void refill(struct kolo_mt19937 *mt)
{
    uint32_t *word = mt->word;
    for (int i = 0; i < KOLO_MT_WORDS; i++) {
        uint32_t joined = (word[i] & 0x80000000u) | (word[(i + 1) % KOLO_MT_WORDS] & 0x7fffffffu);
        uint32_t twisted = (joined >> 1) ^ (joined & 1 ? 0x9908b0dfu : 0);
        word[i] = word[(i + MIDDLE) % KOLO_MT_WORDS] ^ twisted;
    }
    mt->at = 0;
}

uint32_t kolo_mt19937_next(struct kolo_mt19937 *mt)
{
    if (mt->at == KOLO_MT_WORDS)
        refill(mt);
    uint32_t y = mt->word[mt->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}
