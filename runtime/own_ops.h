// SPDX-License-Identifier: Apache-2.0
// Operators that the program made (kolo_op_create).
#ifndef KOLO_RUNTIME_OWN_OPS_H
#define KOLO_RUNTIME_OWN_OPS_H

#include "memory/operator.h"
#include "runtime/submit.h"

/** An operator of the program's own. */
struct kolo_own_op {
    struct kolo_operator op;
    char name[KOLO_OP_NAME_MAX + 1];
    bool is_commutative;
    atomic_int uses; /* requests that have it */
};
/** What folds take; NULL: the operator is built in. */
static inline const struct kolo_operator *kolo_own_operator(const struct kolo_request *request)
{
    return request->own_op != NULL ? &request->own_op->op : NULL;
}

/** Whether task->op is an operator that this rank has made. Takes the lock. */
kolo_status kolo_own_op_check(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Holds on to the operator of @p task, if it is one of those. Takes the lock. */
kolo_status kolo_own_op_take(struct kolo_comm *comm, struct kolo_request *request,
                             const struct kolo_task *task) KOLO_NODISCARD;
/** Gives it back. */
void kolo_own_op_give_back(struct kolo_request *request);
/** Whether a plan may take the operands of @p task in any order, as far as its operator goes. */
bool kolo_own_op_is_free(const struct kolo_request *request);
/** All that are left, at the end. */
void kolo_own_ops_free(struct kolo_engine *engine);

#endif
