// SPDX-License-Identifier: Apache-2.0
// Which of a few ways to do the same thing again and again is the fastest here, found out by taking
// them in turn: for what no figure of one machine stands for another. Pure: who is told the same
// takes the same way, so ranks that share what they are told need not ask each other.
//
//   a round   each open way three times in a row, measured; two times, if both took much longer than
//             a way before it. The median of each counts: one that was disturbed, or found in the
//             caches what another way had left there, does not.
//   between   the best of the round, not measured: for 16 uses after the first round, eight times
//             as many after each, at most 4096. So a machine that changes is found out about.
#ifndef KOLO_RUNTIME_TRIALS_H
#define KOLO_RUNTIME_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

enum { KOLO_TRIALS_WAYS = 5, KOLO_TRIALS_TIMES = 3 };

/** Zero at first: in the first round. */
struct kolo_trials {
    float took[KOLO_TRIALS_WAYS][KOLO_TRIALS_TIMES]; /* in this round, ascending */
    uint8_t told[KOLO_TRIALS_WAYS];                  /* of them */
    uint8_t taken[KOLO_TRIALS_WAYS];                 /* times, in this round */
    uint8_t best;                                    /* of the round before */
    uint16_t left, pause; /* uses until the next round, and between the last two */
};

/** The way to take, one of those whose bits are set in @p open (at least one, the first
 * KOLO_TRIALS_WAYS). *is_measured_out: kolo_trials_note shall be told what it took, before the next. */
int kolo_trials_take(struct kolo_trials *trials, unsigned open, bool *is_measured_out);
/** Was nothing taken by them yet? Then what others have found out, of something alike, may stand for
 * their first round. False: those have found out nothing. */
bool kolo_trials_is_new(const struct kolo_trials *trials);
bool kolo_trials_adopt(struct kolo_trials *trials, const struct kolo_trials *other);
/** What a use of @p way took, in a unit that is the same for all uses. */
void kolo_trials_note(struct kolo_trials *trials, int way, double took);

#endif
