// SPDX-License-Identifier: Apache-2.0
// The public key-value calls: a request to the store, and a wait for its answer. Must never accept
// a key that begins with a control character: such keys are the library's own.
#include "runtime/kv.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

static kolo_status check_key(const struct kolo_comm *comm, const char *function, const char *key)
{
    kolo_status status = kolo_comm_check(comm, function);
    if (status != KOLO_OK)
        return status;
    if (!key || key[0] == '\0')
        return kolo_fail(KOLO_ERR_INVALID, "%s: key is %s", function, !key ? "NULL" : "empty");
    if (strlen(key) > KOLO_STORE_KEY_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "%s: key of %zu bytes is longer than %d", function,
                         strlen(key), KOLO_STORE_KEY_MAX);
    return kolo_check_text(function, "the key", "keys", key); /* the library's begin with one */
}

static const char no_answer[] = "no answer from the job's store";

/** The wait for the answer is over. Puts an error into words; @p awaited: what has not arrived in a
 * timeout. Held: lock. */
static kolo_status judge(struct kolo_comm *comm, const struct kolo_kv_key *key, const char *awaited,
                         struct kolo_store_call *call, int64_t timeout_ms)
{
    if (call->status == KOLO_AGAIN) {
        kolo_store_client_cancel(comm->engine->store, call);
        if (comm->failure.status != KOLO_OK)
            return kolo_comm_failed(comm, NULL);
        return kolo_fail(KOLO_ERR_TIMEOUT, "%s '%s': %s arrived within %g s", key->function,
                         key->shown, awaited, (double)timeout_ms / 1000);
    }
    if (call->status == KOLO_OK)
        return KOLO_OK;
    if (comm->failure.status != KOLO_OK && kolo_status_lost(call->status) != KOLO_LOST_CALL)
        return kolo_comm_failed(comm, NULL);
    return kolo_fail(call->status, "%s '%s': %s", key->function, key->shown,
                     call->why[0] != '\0' ? call->why : kolo_status_text(call->status));
}

/** Held: lock. */
static kolo_status await(struct kolo_comm *comm, const struct kolo_kv_key *key, const char *awaited,
                         struct kolo_store_call *call, int64_t timeout_ms)
{
    (void)kolo_engine_wait(comm, &call->status, kolo_deadline_in_ms(timeout_ms));
    return judge(comm, key, awaited, call, timeout_ms);
}

kolo_status kolo_kv_set(struct kolo_comm *comm, const char *key, const void *value, size_t bytes)
{
    const struct kolo_kv_key asked = {"kolo_kv_set", key, key};
    struct kolo_store_call call = {0};
    kolo_status status = check_key(comm, asked.function, key);
    if (status != KOLO_OK)
        return status;
    if (bytes > KOLO_STORE_VALUE_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_kv_set '%s': %zu bytes are more than %d", key,
                         bytes, KOLO_STORE_VALUE_MAX);
    if (!value && bytes > 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_kv_set '%s': value is NULL for %zu bytes", key,
                         bytes);
    kolo_comm_enter(comm);
    if (comm->failure.status != KOLO_OK) {
        status = kolo_comm_failed(comm, NULL);
    } else {
        kolo_store_client_set(comm->engine->store, key, value, bytes, &call);
        status = await(comm, &asked, no_answer, &call, comm->engine->settings.timeout_ms);
    }
    kolo_comm_leave(comm);
    return status;
}

static kolo_status hand_over(const struct kolo_kv_key *key, const struct kolo_store_call *call,
                             void *value, size_t *bytes)
{
    size_t capacity = *bytes;
    *bytes = call->bytes;
    if (call->bytes > capacity)
        return kolo_fail(KOLO_ERR_INVALID, "%s '%s': %zu bytes do not fit into %zu", key->function,
                         key->shown, call->bytes, capacity);
    if (call->bytes > 0)
        memcpy(value, call->value, call->bytes);
    return KOLO_OK;
}

/* How often a rank that waits for what rank 0 shares looks whether rank 0 is gone. */
enum { LOOK_MS = 50 };

/** The store answers whatever becomes of the ranks: if the world has failed after the start, waits
 * for the answer all the same, unless rank 0 is gone and has set nothing. It may go while this rank
 * waits, because another one was lost first. Held: lock. */
static void await_in_loss(struct kolo_comm *comm, const char *key, struct kolo_store_call *call,
                          kolo_deadline deadline)
{
    struct kolo_engine *engine = comm->engine;
    bool may_wait = comm->rank != 0;
    while (call->status == KOLO_AGAIN && !kolo_deadline_passed(deadline)) {
        kolo_deadline until = deadline;
        if (may_wait && (engine->left_ns[0] != 0 || engine->has_lost_first)) {
            may_wait = false;
            kolo_store_client_cancel(engine->store, call);
            *call = (struct kolo_store_call){0};
            kolo_store_client_get(engine->store, key, false, call);
        }
        if (may_wait)
            until = kolo_deadline_min(deadline, kolo_deadline_in_ms(LOOK_MS));
        (void)kolo_engine_await(engine, NULL, &call->status, until);
    }
}

static const char no_share[] = "nothing (raise KOLO_START_TIMEOUT?)";

kolo_status kolo_kv_share(struct kolo_comm *comm, const struct kolo_kv_key *key, void *value,
                          size_t *bytes, kolo_deadline deadline)
{
    struct kolo_store_call call = {0};
    const int left_ms = kolo_deadline_poll_ms(deadline);
    kolo_comm_enter(comm);
    if (comm->rank == 0)
        kolo_store_client_set(comm->engine->store, key->key, value, *bytes, &call);
    else
        kolo_store_client_get(comm->engine->store, key->key, true, &call);
    (void)kolo_engine_wait(comm, &call.status, deadline);
    if (call.status == KOLO_AGAIN && kolo_comm_failed_after_start(comm))
        await_in_loss(comm, key->key, &call, deadline);
    kolo_status status = call.status == KOLO_ERR_NOT_FOUND
                             ? kolo_comm_failed(comm, NULL)
                             : judge(comm, key, no_share, &call, left_ms);
    kolo_comm_leave(comm);
    if (status == KOLO_OK && comm->rank != 0)
        status = hand_over(key, &call, value, bytes);
    kolo_free_memory(call.value);
    return status;
}

kolo_status kolo_kv_get(struct kolo_comm *comm, const char *key, void *value, size_t *bytes,
                        int timeout_ms)
{
    const struct kolo_kv_key asked = {"kolo_kv_get", key, key};
    const bool waits = timeout_ms != 0;
    struct kolo_store_call call = {0};
    kolo_status status = check_key(comm, asked.function, key);
    if (status != KOLO_OK)
        return status;
    if (!bytes || (!value && *bytes > 0))
        return kolo_fail(KOLO_ERR_INVALID, "kolo_kv_get '%s': %s is NULL", key,
                         !bytes ? "bytes" : "value");
    kolo_comm_enter(comm);
    if (comm->failure.status != KOLO_OK) {
        status = kolo_comm_failed(comm, NULL);
    } else {
        kolo_store_client_get(comm->engine->store, key, waits, &call);
        status = await(comm, &asked, waits ? "no value (has a rank set it?)" : no_answer, &call,
                       timeout_ms > 0 ? timeout_ms : comm->engine->settings.timeout_ms);
    }
    kolo_comm_leave(comm);
    if (status == KOLO_OK)
        status = hand_over(&asked, &call, value, bytes);
    kolo_free_memory(call.value);
    return status;
}

static kolo_status add(struct kolo_comm *comm, const struct kolo_kv_key *key, int64_t amount,
                       int64_t timeout_ms, int64_t *sum_out)
{
    struct kolo_store_call call = {0};
    kolo_status status;
    kolo_comm_enter(comm);
    if (comm->failure.status != KOLO_OK) {
        status = kolo_comm_failed(comm, NULL);
    } else {
        kolo_store_client_add(comm->engine->store, key->key, amount, &call);
        status = await(comm, key, no_answer, &call, timeout_ms);
    }
    kolo_comm_leave(comm);
    if (status == KOLO_OK && sum_out)
        *sum_out = call.sum;
    return status;
}

kolo_status kolo_kv_add(struct kolo_comm *comm, const char *key, int64_t amount, int64_t *sum_out)
{
    const struct kolo_kv_key asked = {"kolo_kv_add", key, key};
    kolo_status status = check_key(comm, asked.function, key);
    if (status != KOLO_OK)
        return status;
    return add(comm, &asked, amount, comm->engine->settings.timeout_ms, sum_out);
}

kolo_status kolo_kv_take(struct kolo_comm *comm, const char *function, int count, int timeout_ms,
                         int64_t *last_out)
{
    const struct kolo_kv_key numbers = {function, "number", KOLO_STORE_NUMBERS_KEY};
    return add(comm, &numbers, count, timeout_ms, last_out);
}
