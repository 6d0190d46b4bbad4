// SPDX-License-Identifier: Apache-2.0
// Which of a few ways to do the same thing again and again is the fastest here, found out by taking
// them in turn: for what no figure of one machine stands for another. Pure: who is told the same
// takes the same way, so ranks that share what they are told need not ask each other.
//
//   a round each open way four times in a row, measured, and on by fours while the latest take less
//             than those before, as caches fill; two times, if both took much longer than a way
//             before it. Of the latest four the second least counts: one that was disturbed, or
//             found in the caches what another way had left there, does not; and where two kinds of
//             use alternate, of which one takes longer, each way is judged by the other.
//   between   the open way that took least, not measured: for 64 uses after the first round, eight
//             times as many after each, at most 4096. So a machine that changes is found out about.
//
// Who is told other things than the others, and still shall try each way while they do, has even
// rounds: each way sixteen times, whatever it takes, of which the second least counts.
//
// Not all ways are open to all uses: a round waits a while for those that some of its uses can take
// and the others not, and of a way that is not open nothing is forgotten.
#ifndef KOLO_RUNTIME_TRIALS_H
#define KOLO_RUNTIME_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KOLO_TRIALS_WAYS = 5,
    KOLO_TRIALS_TIMES = 4,
    KOLO_TRIALS_TIMES_MOST = 32,
    KOLO_TRIALS_TIMES_EVEN = 16
};

/** Zero at first: in the first round. */
struct kolo_trials {
    float took[KOLO_TRIALS_WAYS]
              [KOLO_TRIALS_TIMES];   /* in this round: the latest; if rounds are even the least */
    float before[KOLO_TRIALS_WAYS];  /* the least of the four that these have replaced */
    float known[KOLO_TRIALS_WAYS];   /* what each typically took in its latest round; 0: none */
    uint8_t told[KOLO_TRIALS_WAYS];  /* times, in this round */
    uint8_t taken[KOLO_TRIALS_WAYS]; /* the same, with those that nobody told of */
    uint8_t wanted;                  /* ways that were open to a use in this round, a bit each */
    uint8_t waited;                  /* uses in this round that had nothing left to find out */
    bool is_even;                    /* rounds are; set at first */
    bool has_found;                  /* something by itself */
    uint16_t left, pause;            /* uses until the next round, and between the last two */
};

/** The way to take, one of those whose bits are set in @p open (at least one, the first
 * KOLO_TRIALS_WAYS). *is_measured_out: kolo_trials_note shall be told what it took, before the
 * next. */
int kolo_trials_take(struct kolo_trials *trials, unsigned open, bool *is_measured_out);
/** Was nothing taken by them yet? Then what others have found out, of something alike, may stand
 * for their first round. False: those have found out nothing. */
bool kolo_trials_is_new(const struct kolo_trials *trials);
bool kolo_trials_adopt(struct kolo_trials *trials, const struct kolo_trials *other);
/** The latest use, which was to be measured, was none: the round goes on as if it had not been. */
void kolo_trials_untake(struct kolo_trials *trials, int way);
/** What a use of @p way took, in a unit that is the same for all uses. */
void kolo_trials_note(struct kolo_trials *trials, int way, double took);

#endif
