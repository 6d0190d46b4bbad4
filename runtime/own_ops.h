// SPDX-License-Identifier: Apache-2.0
// User-defined operators (kolo_op_create).
#ifndef KOLO_RUNTIME_OWN_OPS_H
#define KOLO_RUNTIME_OWN_OPS_H

#include "memory/operator.h"
#include "runtime/submit.h"

/** A user-defined operator. */
struct kolo_own_op {
    struct kolo_operator op;
    char name[KOLO_OP_NAME_MAX + 1];
    bool is_commutative;
    atomic_int uses; /* requests that use it */
};
/** The operator for the fold functions; NULL: it is built in. */
static inline const struct kolo_operator *kolo_own_operator(const struct kolo_request *request)
{
    return request->own_op ? &request->own_op->op : NULL;
}

/** Checks that task->op is an operator that this rank has made. Takes the lock. */
kolo_status kolo_own_op_check(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Takes a reference to the operator of @p task if it is user-defined. Takes the lock. */
kolo_status kolo_own_op_take(struct kolo_comm *comm, struct kolo_request *request,
                             const struct kolo_task *task) KOLO_NODISCARD;
/** Releases that reference. */
void kolo_own_op_give_back(struct kolo_request *request);
/** Whether the operator of @p request allows plans that combine the operands in any order. */
bool kolo_own_op_takes_any_order(const struct kolo_request *request);
/** Frees all that are left, at the end. */
void kolo_own_ops_free(struct kolo_engine *engine);

#endif
