// SPDX-License-Identifier: Apache-2.0
// Chooses the plan of a call: the one that is expected to finish first among those that can carry
// it out. The functions of choose.c are pure and depend only on what all ranks know alike, so all
// ranks choose the same plan, and kolobench can print the reasons without running a rank.
#ifndef KOLO_RUNTIME_CHOOSE_H
#define KOLO_RUNTIME_CHOOSE_H

#include <kolo/types.h>

#include "base/clock.h"
#include "runtime/cost.h"

/** How far the result may depend on the order of operands. */
enum kolo_order {
    KOLO_ORDER_FREE, /* any order gives acceptable bits */
    /* 16-bit floats: ordered plans accumulate in float32, unless a plan is forced */
    KOLO_ORDER_WIDE,
    KOLO_ORDER_STRICT, /* KOLO_DETERMINISTIC: ordered plans only */
};
/** What operator and type require. The order of operands shows only in sums, products and averages
 * of floats. */
enum kolo_order kolo_order_of(kolo_dtype dtype, kolo_redop op, bool is_deterministic);

/** A call, in the parts that all its ranks know. */
struct kolo_question {
    enum kolo_collective collective;
    struct kolo_plan_args args; /* rank is not used */
    bool is_uneven;             /* blocks have their own lengths, which are not in args */
    size_t element_bytes;
    struct kolo_layout layout;
    enum kolo_order order;
};

/** The result for one plan. */
struct kolo_answer {
    const struct kolo_plan *plan;
    double ns; /* expected time; negative: it cannot carry out the call */
    bool is_chosen;
    char why[160]; /* "fastest", "2.30 times as long", "cannot: ..." */
};

/** NULL, or why @p plan cannot answer @p question. */
const char *kolo_plan_bars(const struct kolo_plan *plan, const struct kolo_question *question);
/** NULL: no plan can. */
const struct kolo_plan *kolo_choose(const struct kolo_question *question,
                                    const struct kolo_figures *figures);
/** All plans of the collective, the fastest first and those that cannot carry out the call last.
 * Returns how many there are; at most @p capacity are written. */
size_t kolo_explain(const struct kolo_question *question, const struct kolo_figures *figures,
                    struct kolo_answer *answers_out, size_t capacity);

/* ---- of a communicator ---- */

struct kolo_comm;
struct kolo_engine;

/* Of sizes in bytes: up to 1, and each power of two. */
enum { KOLO_SIZE_CLASSES = 65 };

/** The choices of a communicator, by collective, whether blocks have their own lengths, order, and
 * class of size; 0: not chosen yet, else the plan's index + 1. Held: lock. */
struct kolo_choices {
    struct kolo_layout layout; /* size 0: not determined yet */
    struct kolo_topology map;  /* count 0: one host, with one NUMA node or none that is known */
    int *hosts, *map_memory;
    uint8_t plans[KOLO_COLLECTIVES][2][KOLO_ORDER_STRICT + 1][KOLO_SIZE_CLASSES];
    /** kolo_board_shown + 1; 0: not computed yet. */
    size_t shown[KOLO_COLLECTIVES];
};
void kolo_choices_free(struct kolo_choices *choices);
/** Which ranks share a host and a NUMA node, for plans; NULL: all ranks do. Known once a plan has
 * been chosen, or kolo_comm_know_hosts called. */
const struct kolo_topology *kolo_choices_hosts(const struct kolo_choices *choices);
/** Distributes the figures that all ranks of the world use: those of rank 0, from KOLO_PROFILE or
 * built in. Called at the end of joining. */
kolo_status kolo_engine_share_figures(struct kolo_engine *engine,
                                      kolo_deadline deadline) KOLO_NODISCARD;
/** Determines which ranks share a host, if that is not known yet. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_comm_know_hosts(struct kolo_comm *comm) KOLO_NODISCARD;
/** The plan for a call. ERR_UNSUPPORTED: the forced plan cannot carry it out, or no plan can. A
 * call of the library's own (@p is_own) ignores a forced plan that cannot carry it out. Held:
 * lock. */
kolo_status kolo_comm_choose(struct kolo_comm *comm, enum kolo_collective collective,
                             const struct kolo_plan_args *args, size_t element_bytes,
                             enum kolo_order order, bool is_own,
                             const struct kolo_plan **plan_out) KOLO_NODISCARD;
/** Between true and false, collectives are the library's own: parts of a call that is not a
 * collective itself (metrics). */
void kolo_comm_own(struct kolo_comm *comm, bool is_own);
/** kolo_board_shown for a communicator that has chosen a plan on its board. Held: lock. */
size_t kolo_comm_shown(struct kolo_comm *comm, enum kolo_collective collective);

#endif
