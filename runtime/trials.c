// SPDX-License-Identifier: Apache-2.0
// Keeps a few times of each way, and says which way is next, see trials.h. Owns no memory and reads
// no clock. Must never return a way that is not open.
#include "runtime/trials.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { PAUSE_LEAST = 64, PAUSE_TIMES = 8, PAUSE_MOST = 4096, PATIENCE = 16 };

/* A way that takes more than left_out times the best is not used again in this round. A way whose
 * time is below still_falls times its time before is still becoming faster. */
static const float left_out = 1.5F, still_falls = 0.97F;

static bool is_open(unsigned open, int way)
{
    return (open >> way & 1) != 0;
}

/** The typical time in this round: the second smallest of the latest times, or the smallest if
 * there are fewer than KOLO_TRIALS_TIMES; infinite: none. */
static float typical(const struct kolo_trials *trials, int way)
{
    float least = INFINITY, second = INFINITY;
    for (int i = 0; i < trials->told[way] && i < KOLO_TRIALS_TIMES; i++) {
        const float took = trials->took[way][i];
        second = fminf(second, fmaxf(least, took));
        least = fminf(least, took);
    }
    return trials->told[way] < KOLO_TRIALS_TIMES ? least : second;
}

/** The expected time of a way, as far as it is known. */
static float expected(const struct kolo_trials *trials, int way)
{
    if (trials->told[way] > 0)
        return typical(trials, way);
    return trials->known[way] > 0 ? trials->known[way] : INFINITY;
}

/** The open way with the smallest time; of equals, the first. */
static int fastest(const struct kolo_trials *trials, unsigned open,
                   float (*takes)(const struct kolo_trials *trials, int way))
{
    int best = __builtin_ctz(open);
    for (int way = best + 1; way < KOLO_TRIALS_WAYS; way++)
        if (is_open(open, way) && takes(trials, way) < takes(trials, best))
            best = way;
    return best;
}

static float least_of(const float *took, int count)
{
    float least = took[0];
    for (int i = 1; i < count; i++)
        least = fminf(least, took[i]);
    return least;
}

/** Whether the way still becomes faster from one four uses to the next (of the first four: from one
 * pair to the next). The smallest of that many is not affected by one disturbed use; and if two
 * kinds of use alternate, each pair has both. */
static bool falls(const struct kolo_trials *trials, int way)
{
    const float *took = trials->took[way];
    const int told = trials->told[way];
    enum { PAIR = KOLO_TRIALS_TIMES / 2 };
    if (told % KOLO_TRIALS_TIMES != 0)
        return true; /* these four uses are not complete */
    if (told == KOLO_TRIALS_TIMES)
        return least_of(took + PAIR, PAIR) < still_falls * least_of(took, PAIR);
    return least_of(took, KOLO_TRIALS_TIMES) < still_falls * trials->before[way];
}

/** Whether @p way has been taken often enough in this round. Of its uses, the time of the latest
 * @p late may still be noted. */
static bool is_known(const struct kolo_trials *trials, int way, float least, int late)
{
    const int taken = trials->taken[way], told = trials->told[way];
    if (trials->is_even)
        return taken >= KOLO_TRIALS_TIMES_EVEN;
    if (taken < KOLO_TRIALS_TIMES)
        return told == 2 && typical(trials, way) > left_out * least;
    return taken >= KOLO_TRIALS_TIMES_MOST || told + late < taken || !falls(trials, way);
}

/** The open way that must be used next; negative: the times of all are known. */
static int next_of(const struct kolo_trials *trials, unsigned open, int late)
{
    const float least = typical(trials, fastest(trials, open, typical));
    for (int way = 0; way < KOLO_TRIALS_WAYS; way++)
        if (is_open(open, way) && !is_known(trials, way, least, late))
            return way;
    return -1;
}

/** Uses of other ways than @p way whose times have yet to be noted were not needed. */
static void close_others(struct kolo_trials *trials, int way)
{
    for (int i = 0; i < KOLO_TRIALS_WAYS; i++)
        if (i != way && trials->taken[i] < KOLO_TRIALS_TIMES_MOST)
            trials->taken[i] = trials->told[i];
}

/** Ends the round. A round in which no time was noted does not count. */
static void end_round(struct kolo_trials *trials)
{
    const int pause = trials->pause == 0 ? PAUSE_LEAST : trials->pause * PAUSE_TIMES;
    bool has_found = false;
    for (int way = 0; way < KOLO_TRIALS_WAYS; way++)
        if (trials->told[way] > 0) {
            trials->known[way] = typical(trials, way);
            has_found = true;
        }
    memset(trials->told, 0, sizeof trials->told);
    memset(trials->taken, 0, sizeof trials->taken);
    trials->wanted = trials->waited = 0;
    if (!has_found)
        return;
    trials->pause = (uint16_t)(pause < PAUSE_MOST ? pause : PAUSE_MOST);
    trials->left = trials->pause;
    trials->has_found = true;
}

/** The open way with the smallest known time; if none is known, the first. */
static int best_of(const struct kolo_trials *trials, unsigned open)
{
    return fastest(trials, open, expected);
}

static int take(struct kolo_trials *trials, unsigned open, int late, bool *is_measured_out)
{
    *is_measured_out = false;
    if ((open & (open - 1)) == 0) /* there is only one way */
        return __builtin_ctz(open);
    if (isinf(expected(trials, best_of(trials, open))))
        trials->left = 0; /* the time of none of them is known */
    if (trials->left == 0) {
        const int way = next_of(trials, open, late);
        trials->wanted |= (uint8_t)open;
        if (way >= 0) {
            if (late > 0)
                close_others(trials, way);
            trials->taken[way]++;
            *is_measured_out = true;
            return way;
        }
        if (next_of(trials, trials->wanted, late) < 0 || ++trials->waited == PATIENCE)
            end_round(trials);
    }
    if (trials->left > 0)
        trials->left--;
    return best_of(trials, open);
}

int kolo_trials_take(struct kolo_trials *trials, unsigned open, bool *is_measured_out)
{
    return take(trials, open, 0, is_measured_out);
}

int kolo_trials_take_early(struct kolo_trials *trials, unsigned open, bool *is_measured_out)
{
    return take(trials, open, 1, is_measured_out);
}

bool kolo_trials_is_new(const struct kolo_trials *trials)
{
    static const uint8_t none[KOLO_TRIALS_WAYS];
    return trials->pause == 0 && memcmp(trials->taken, none, sizeof none) == 0;
}

bool kolo_trials_adopt(struct kolo_trials *trials, const struct kolo_trials *other)
{
    if (!other->has_found)
        return false;
    memcpy(trials->known, other->known, sizeof trials->known);
    trials->left = trials->pause = PAUSE_LEAST;
    return true;
}

static void replace_greatest(float took[KOLO_TRIALS_TIMES], float one)
{
    int greatest = 0;
    for (int i = 1; i < KOLO_TRIALS_TIMES; i++)
        if (took[i] > took[greatest])
            greatest = i;
    took[greatest] = fminf(took[greatest], one);
}

void kolo_trials_note(struct kolo_trials *trials, int way, double took)
{
    const float one = fmaxf((float)took, FLT_MIN); /* 0 would mean that nothing is known */
    if (trials->told[way] >= trials->taken[way])
        return; /* no time was asked for */
    if (trials->told[way] % KOLO_TRIALS_TIMES == 0 && trials->told[way] > 0)
        trials->before[way] = least_of(trials->took[way], KOLO_TRIALS_TIMES);
    if (trials->is_even && trials->told[way] >= KOLO_TRIALS_TIMES)
        replace_greatest(trials->took[way], one);
    else
        trials->took[way][trials->told[way] % KOLO_TRIALS_TIMES] = one;
    trials->told[way]++;
}
