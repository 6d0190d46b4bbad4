// SPDX-License-Identifier: Apache-2.0
// Finds out which of a few ways to do the same thing is the fastest on this machine, by using them
// in turn. For choices that figures from another machine cannot decide. Pure: the same inputs give
// the same choice, so ranks that share their measurements need not agree by messages.
//
// Rounds, in which uses are measured, alternate with long pauses, in which the fastest way is used
// without measuring.
//
//   A round: each open way is used four times in a row. If the last four uses were faster than the
//   four before (as while caches fill), four more follow, up to KOLO_TRIALS_TIMES_MOST. A way whose
//   first two uses take much longer than another way is not used further in that round. The time
//   that counts is the second smallest of the last four. This ignores a use that was disturbed, and
//   one that found the caches filled by another way. If two kinds of use alternate and one of them
//   takes longer, each way is judged by the faster kind.
//
//   A pause: 64 uses after the first round, eight times as many after each further round, at most
//   4096. So a change of the machine is noticed.
//
// Even rounds are for ranks whose measurements differ from each other's, but which must try each
// way at the same time: each way is used KOLO_TRIALS_TIMES_EVEN times, whatever its times are, and
// the second smallest time counts.
//
// Not every way is open to every use. A round waits a while for ways that only some uses can take.
// The time of a way is kept while it is not open.
#ifndef KOLO_RUNTIME_TRIALS_H
#define KOLO_RUNTIME_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KOLO_TRIALS_WAYS = 6,
    KOLO_TRIALS_TIMES = 4,
    KOLO_TRIALS_TIMES_MOST = 32,
    KOLO_TRIALS_TIMES_EVEN = 16
};

/** Initially zero, which means the first round. */
struct kolo_trials {
    /** The latest times of this round; in even rounds the smallest. */
    float took[KOLO_TRIALS_WAYS][KOLO_TRIALS_TIMES];
    float before[KOLO_TRIALS_WAYS];  /* the smallest of the four times that these replaced */
    float known[KOLO_TRIALS_WAYS];   /* typical time of each in its latest round; 0: unknown */
    uint8_t told[KOLO_TRIALS_WAYS];  /* number of times noted in this round */
    uint8_t taken[KOLO_TRIALS_WAYS]; /* uses in this round, including those not noted yet */
    uint8_t wanted;                  /* ways that were open to some use in this round, a bit each */
    uint8_t waited;                  /* uses in this round that had nothing left to measure */
    bool is_even;                    /* rounds are even; set at the beginning */
    bool has_found;                  /* a round has been completed with times of its own */
    uint16_t left, pause;            /* uses until the next round; length of the latest pause */
};

/** Returns the way to use, one of those whose bits are set in @p open (at least one of the first
 * KOLO_TRIALS_WAYS). *is_measured_out: kolo_trials_note must be called with its time before the
 * next use. */
int kolo_trials_take(struct kolo_trials *trials, unsigned open, bool *is_measured_out);
/** As kolo_trials_take, for a use that is chosen before the time of the one before it is known:
 * that may be noted afterwards, before the next use but one. */
int kolo_trials_take_early(struct kolo_trials *trials, unsigned open, bool *is_measured_out);
/** Whether no way has been used yet. If so, kolo_trials_adopt can replace the first round by the
 * results of @p other, which are for something similar. False: @p other has no results. */
bool kolo_trials_is_new(const struct kolo_trials *trials);
bool kolo_trials_adopt(struct kolo_trials *trials, const struct kolo_trials *other);
/** Notes the time of a use of @p way, in a unit that is the same for all uses. */
void kolo_trials_note(struct kolo_trials *trials, int way, double took);

#endif
