// SPDX-License-Identifier: Apache-2.0
// Which plan carries out a call: the one that is expected to be over first among those
// that can do it. Pure functions of what all ranks know alike, so that all come to the same answer;
// kolobench prints the same reasons without running a rank.
#ifndef KOLO_RUNTIME_CHOOSE_H
#define KOLO_RUNTIME_CHOOSE_H

#include <kolo/types.h>

#include "base/clock.h"
#include "runtime/cost.h"

/** What a result must not depend on. */
enum kolo_order {
    KOLO_ORDER_FREE,   /* any order of operands gives the bits that are asked for */
    KOLO_ORDER_WIDE,   /* 16-bit floats: ordered plans accumulate in float32, if none is forced */
    KOLO_ORDER_STRICT, /* KOLO_DETERMINISTIC: ordered plans only */
};
/** What operator and type ask for: the order of operands shows in sums, products and averages of
 * floats alone. */
enum kolo_order kolo_order_of(kolo_dtype dtype, kolo_redop op, bool is_deterministic);

/** A call, as all its ranks see it. */
struct kolo_question {
    enum kolo_collective collective;
    struct kolo_plan_args args; /* rank is not looked at */
    bool is_uneven;             /* blocks have lengths of their own, which args does not say */
    size_t element_bytes;
    struct kolo_layout layout;
    enum kolo_order order;
};

/** What is to be said of one plan. */
struct kolo_answer {
    const struct kolo_plan *plan;
    double ns; /* expected; negative: it cannot do it */
    bool is_chosen;
    char why[160]; /* "fastest", "2.3 times slower", "cannot: ..." */
};

/** NULL, or why @p plan cannot answer @p question. */
const char *kolo_plan_bars(const struct kolo_plan *plan, const struct kolo_question *question);
/** NULL: no plan can. */
const struct kolo_plan *kolo_choose(const struct kolo_question *question,
                                    const struct kolo_figures *figures);
/** All plans of the collective, fastest first, those that cannot last; how many there are, of which
 * at most @p capacity are written. */
size_t kolo_explain(const struct kolo_question *question, const struct kolo_figures *figures,
                    struct kolo_answer *answers_out, size_t capacity);

/* ---- of a communicator ---- */

struct kolo_comm;
struct kolo_engine;

/** What is chosen for a communicator, by collective, whether blocks have lengths of their own,
 * order and size; 0: not asked yet, else the plan's index + 1. Held: lock. */
struct kolo_choices {
    struct kolo_layout layout; /* size 0: not found out yet */
    struct kolo_topology map;  /* count 0: one host, and one NUMA node or none that is known */
    int *hosts, *map_memory;
    uint8_t plans[KOLO_COLLECTIVES][2][3][65];
    /** kolo_board_shown + 1; 0: not asked yet. */
    size_t shown[KOLO_COLLECTIVES];
};
void kolo_choices_free(struct kolo_choices *choices);
/** Which ranks share a host and a NUMA node, for plans; NULL: all do. Known once a plan has been
 * chosen. */
const struct kolo_topology *kolo_choices_hosts(const struct kolo_choices *choices);
/** The figures that all ranks of the world use: those of rank 0, from KOLO_PROFILE or built in. At
 * the end of joining. */
kolo_status kolo_engine_share_figures(struct kolo_engine *engine,
                                      kolo_deadline deadline) KOLO_NODISCARD;
/** The plan for a call. ERR_UNSUPPORTED: one was forced that cannot do it, or none can. A plan that
 * is forced does not bar what is the library's own (@p is_own): that takes another. Held: lock. */
kolo_status kolo_comm_choose(struct kolo_comm *comm, enum kolo_collective collective,
                             const struct kolo_plan_args *args, size_t element_bytes,
                             enum kolo_order order, bool is_own,
                             const struct kolo_plan **plan_out) KOLO_NODISCARD;
/** From true to false, collectives are the library's own, parts of a call that is none
 * (metrics). */
void kolo_comm_own(struct kolo_comm *comm, bool is_own);
/** kolo_board_shown, for a communicator that has chosen a plan on its board. Held: lock. */
size_t kolo_comm_shown(struct kolo_comm *comm, enum kolo_collective collective);

#endif
