// SPDX-License-Identifier: Apache-2.0
// Owns the user-defined operators of a rank (kolo_op_create). Must never call one; the folds do
// that (memory/operator.h). A handle is the operator's index in this rank's table. Other ranks may
// have other indices, so the name is what travels.
#include "runtime/own_ops.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

enum { OWN_OPS_MAX = KOLO_REDOP_LAST - KOLO_REDOP_OWN + 1 };

static kolo_status check_name(const char *name)
{
    if (!name || name[0] == '\0' || strnlen(name, KOLO_OP_NAME_MAX + 1) > KOLO_OP_NAME_MAX)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_op_create: op->name must be 1 to %d bytes of text, the same on all "
                         "ranks",
                         KOLO_OP_NAME_MAX);
    return kolo_check_text("kolo_op_create", "op->name", "names", name); /* messages have it */
}

static kolo_status check(const struct kolo_comm *comm, const struct kolo_op *op,
                         const kolo_redop *op_out)
{
    kolo_status status = kolo_comm_check(comm, "kolo_op_create");
    if (status != KOLO_OK)
        return status;
    status = kolo_check_struct("kolo_op_create", "op", "kolo_op", op, sizeof *op);
    if (status != KOLO_OK)
        return status;
    if (!op_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_op_create: op_out is NULL");
    if (!op->fold)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_op_create: op->fold is NULL");
    if ((op->flags & ~(unsigned)KOLO_COMMUTATIVE) != 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_op_create: op->flags 0x%x has unknown flags",
                         op->flags);
    return check_name(op->name);
}

/** Finds a free place in the table. Held: lock. */
static kolo_status make_room(struct kolo_engine *engine, int *number_out)
{
    int count = engine->own_op_count, more = count == 0 ? 4 : 2 * count;
    for (*number_out = 0; *number_out < count; ++*number_out)
        if (!engine->own_ops[*number_out])
            return KOLO_OK;
    if (more > OWN_OPS_MAX)
        more = OWN_OPS_MAX;
    if (more == count)
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "kolo_op_create: there are %d operators, and may be no more", count);
    struct kolo_own_op **grown = kolo_calloc((size_t)more, sizeof(struct kolo_own_op *));
    if (!grown)
        return KOLO_ERR_NO_MEMORY;
    if (count > 0)
        memcpy(grown, engine->own_ops, (size_t)count * sizeof *grown);
    kolo_free_memory(engine->own_ops);
    engine->own_ops = grown;
    engine->own_op_count = more;
    return KOLO_OK;
}

kolo_status kolo_op_create(struct kolo_comm *comm, const struct kolo_op *op, kolo_redop *op_out)
{
    kolo_status status = check(comm, op, op_out);
    if (status != KOLO_OK)
        return status;
    struct kolo_own_op *made = kolo_calloc(1, sizeof *made);
    if (!made)
        return KOLO_ERR_NO_MEMORY;
    made->op = (struct kolo_operator){op->fold, op->context};
    made->is_commutative = (op->flags & KOLO_COMMUTATIVE) != 0;
    memcpy(made->name, op->name, strlen(op->name));
    kolo_comm_enter(comm);
    int number;
    status = make_room(comm->engine, &number);
    if (status == KOLO_OK)
        comm->engine->own_ops[number] = made;
    kolo_comm_leave(comm);
    if (status != KOLO_OK) {
        kolo_free_memory(made);
        return status;
    }
    *op_out = (kolo_redop)(KOLO_REDOP_OWN + number);
    return KOLO_OK;
}

/** NULL: there is none. Held: lock. */
static struct kolo_own_op **find(struct kolo_engine *engine, kolo_redop op)
{
    unsigned number = (unsigned)op - KOLO_REDOP_OWN;
    bool is_there = (unsigned)op >= KOLO_REDOP_OWN && number < (unsigned)engine->own_op_count &&
                    engine->own_ops[number];
    return is_there ? &engine->own_ops[number] : NULL;
}

kolo_status kolo_op_free(struct kolo_comm *comm, kolo_redop op)
{
    kolo_status status = kolo_comm_check(comm, "kolo_op_free");
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm);
    struct kolo_own_op **found = find(comm->engine, op);
    int uses = found ? atomic_load(&(*found)->uses) : 0;
    if (found && uses == 0) {
        kolo_free_memory(*found);
        *found = NULL;
    }
    kolo_comm_leave(comm);
    if (!found)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_op_free: op %d was not made by kolo_op_create() here", (int)op);
    if (uses > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_op_free: op %d is in use by %d %s first", (int)op,
                         uses, uses == 1 ? "request: wait for it" : "requests: wait for them");
    return KOLO_OK;
}

kolo_status kolo_own_op_check(struct kolo_comm *comm, const struct kolo_task *task)
{
    kolo_comm_enter(comm);
    bool is_there = find(comm->engine, task->op) != NULL;
    kolo_comm_leave(comm);
    if (is_there)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID,
                     "%s: op %d is not an operator: it was not made by kolo_op_create on this "
                     "rank, or was freed",
                     task->function, (int)task->op);
}

kolo_status kolo_own_op_take(struct kolo_comm *comm, struct kolo_request *request,
                             const struct kolo_task *task)
{
    if ((unsigned)task->op < KOLO_REDOP_OWN)
        return KOLO_OK;
    kolo_comm_enter(comm);
    struct kolo_own_op **found = find(comm->engine, task->op);
    if (found)
        atomic_fetch_add(&(*found)->uses, 1);
    request->own_op = found ? *found : NULL;
    kolo_comm_leave(comm);
    if (!request->own_op) /* another thread has freed it since the check */
        return kolo_own_op_check(comm, task);
    request->call.op_name = request->own_op->name;
    request->call.hash =
        kolo_call_hash(request->call.hash, request->own_op->name, strlen(request->own_op->name));
    return KOLO_OK;
}

void kolo_own_op_give_back(struct kolo_request *request)
{
    if (request->own_op)
        atomic_fetch_sub(&request->own_op->uses, 1);
    request->own_op = NULL;
}

bool kolo_own_op_takes_any_order(const struct kolo_request *request)
{
    return request->own_op->is_commutative &&
           KOLO_FRAME_STEP_BYTES % kolo_dtype_bytes(request->call.dtype) == 0;
}

void kolo_own_ops_free(struct kolo_engine *engine)
{
    for (int i = 0; i < engine->own_op_count; i++)
        kolo_free_memory(engine->own_ops[i]);
    kolo_free_memory(engine->own_ops);
}
