// SPDX-License-Identifier: Apache-2.0
// Whether the progressor spins before it yields the processor, learned from its own waits. Pure: it
// reads no clock.
//
// Ranks spin if each of them can have a core to itself. Ranks that are not bound may share one all
// the same, for as long as the scheduler leaves them there, and a rank that spins then keeps the
// core from the very rank it waits for. This shows when it yields at last: that rank runs, waits in
// its turn, and yields too, so the first look after a short yield succeeds. From then on waits
// yield at once. After KOLO_PATIENCE_LEAST of them a wait spins again, as a trial. Each trial that
// finds the core still shared doubles the time to the next, up to KOLO_PATIENCE_MOST waits.
//
// A yield that takes much longer than a spin gave the core to something that does not wait in its
// turn: another program, or a long computation. A spin is then the smaller loss, so waits spin
// again.
#ifndef KOLO_RUNTIME_PATIENCE_H
#define KOLO_RUNTIME_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KOLO_PATIENCE_LEAST = 64,
    KOLO_PATIENCE_MOST = 4096,
    KOLO_PATIENCE_LONG = 4 /* times a spin: such a yield is long */
};

struct kolo_patience {
    int64_t spin_ns; /* how long a wait spins if ranks have a core each; constant */
    bool learns;     /* false: every wait spins that long; constant */
    /* initially zero: */
    bool is_trial;  /* this wait spins after a period in which waits did not */
    int waits_left; /* that yield at once, and one: the trial; 0: waits spin */
    int period;     /* the latest number of waits between two that spin */
};

/** Whether waits yield at once. */
static inline bool kolo_patience_is_short(const struct kolo_patience *patience)
{
    return patience->waits_left > 0;
}

/** A wait begins: its first look was in vain. Returns for how long it spins. */
int64_t kolo_patience_begin(struct kolo_patience *patience);

/** The wait's first yield took @p took_ns. @p has_helped: the first look after it succeeded. */
void kolo_patience_yielded(struct kolo_patience *patience, int64_t took_ns, bool has_helped);

#endif
