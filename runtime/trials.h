// SPDX-License-Identifier: Apache-2.0
// Which of a few ways to do the same thing is the fastest here, found out by taking them in turn.
// For choices that no figure of another machine can decide. Pure: whoever is told the same takes
// the same way, so ranks that share what they are told need not ask each other.
//
// It alternates between rounds, in which uses are measured, and long pauses, in which the way that
// took least is taken unmeasured.
//
//   A round: each open way is taken four times in a row. If the last four took less than the four
//   before (as they do while caches fill), four more follow, up to KOLO_TRIALS_TIMES_MOST. A way
//   that takes much longer than one before it in its first two uses is left at that. Of the last
//   four the second least counts. That leaves out a use that was disturbed and one that found the
//   caches filled by another way; and where two kinds of use alternate, one of which takes
//   longer, each way is judged by the other kind.
//
//   A pause: 64 uses after the first round, eight times as many after each further one, at most
//   4096. So a change of the machine is noticed.
//
// Even rounds are for whoever is told something else than the others but must try each way while
// they do: each way is taken KOLO_TRIALS_TIMES_EVEN times, whatever it takes, and the second least
// counts.
//
// Not every way is open to every use. A round waits a while for ways that only some of its uses can
// take. What was learned of a way is kept while it is not open.
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
