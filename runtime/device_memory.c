// SPDX-License-Identifier: Apache-2.0
// kolo_alloc_device: device memory that the program has asked for. Owns the list of allocations,
// through which kolo_free and the end of the rank find them, and for each the ranks that may have
// it mapped. Must never wait for a device under the engine's lock, nor free what another rank may
// have mapped.
//
// Ranks of the host keep mapped what a collective has lent them (runtime/board_lent.c), for the
// next call. So kolo_free recalls the memory from each of them (runtime/loans.c); if not all have
// returned it yet, or while a stream is held, it is freed later (kolo_device_memory_reap) by the
// tidying thread, which the first allocation starts.
//
// When the last allocation of a context is freed, its hold on the context stays in the list until
// the rank ends, because lanes have streams in the context and pages of the host are locked in it,
// which would go with it. If the device is still busy then, the hold remains until the process
// ends.
#include "runtime/device_memory.h"

#include "base/alloc.h"
#include "base/log.h"
#include "memory/held.h"
#include "memory/memory.h"
#include "runtime/comm.h"
#include "runtime/loans.h"
#include "runtime/staging.h"

struct kolo_device_memory {
    struct kolo_device_memory *next;
    struct kolo_pointer pointer; /* if its memory is NULL: only a hold on its context */
    size_t bytes;
    bool is_freed; /* by the program; it is freed once nobody has it mapped */
    bool is_kept;  /* mapped by a process whose driver cannot unmap it: never freed */
    bool is_looked_at, has_loan;
    struct kolo_loan loan;
    uint8_t *borrowers; /* one bit for each rank in the world that may have it mapped; NULL: none */
};

static bool is_lent(const struct kolo_engine *engine, const struct kolo_device_memory *memory)
{
    const size_t bytes = memory->borrowers ? ((size_t)engine->size + 7) / 8 : 0;
    for (size_t i = 0; i < bytes; i++)
        if (memory->borrowers[i] != 0)
            return true;
    return false;
}

static void destroy(struct kolo_device_memory *memory)
{
    kolo_free_memory(memory->borrowers);
    kolo_free_memory(memory);
}

static void add(struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    kolo_engine_enter(engine);
    memory->next = engine->device_memory;
    engine->device_memory = memory;
    kolo_engine_leave(engine);
}

/** Removes it from the list; NULL: it is not there. */
static struct kolo_device_memory *take(struct kolo_engine *engine, const void *memory)
{
    kolo_engine_enter(engine);
    struct kolo_device_memory **at = &engine->device_memory, *found;
    while (*at && ((*at)->pointer.memory != memory || (*at)->is_freed))
        at = &(*at)->next;
    found = *at;
    if (found) {
        *at = found->next;
        kolo_endpoint_device_gone(engine->endpoint, memory);
    }
    kolo_engine_leave(engine);
    return found;
}

/** Ends an allocation whose memory is freed. The last one of its context becomes a hold on it. */
static void retire(struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    kolo_engine_enter(engine);
    const struct kolo_device_memory *other = engine->device_memory;
    while (other && other->pointer.context != memory->pointer.context)
        other = other->next;
    if (!other) {
        memory->pointer.memory = NULL;
        memory->next = engine->device_memory;
        engine->device_memory = memory;
    }
    kolo_engine_leave(engine);
    if (other) {
        kolo_device_release(&memory->pointer);
        destroy(memory);
    }
}

static struct kolo_device_share share_of(const struct kolo_comm *world)
{
    const struct kolo_identity *mine = &kolo_comm_peer(world, world->rank)->identity;
    struct kolo_device_share share = {.numa_node = mine->numa, .turn = world->local_rank};
    for (int rank = 0; rank < world->rank; rank++) {
        const struct kolo_identity *other = &kolo_comm_peer(world, rank)->identity;
        share.turn_there += other->host_id == mine->host_id && other->numa == mine->numa;
    }
    return share;
}

kolo_status kolo_alloc_device(struct kolo_comm *comm, size_t bytes, int device, void **memory_out)
{
    kolo_status status = kolo_comm_check(comm, "kolo_alloc_device");
    if (status != KOLO_OK)
        return status;
    if (!memory_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_alloc_device: memory_out is NULL");
    if (device < -1)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_alloc_device: device is %d; -1 lets kolo choose",
                         device);
    struct kolo_engine *engine = comm->engine;
    status = kolo_loans_start(engine); /* now, so that kolo_free need not start it */
    if (status != KOLO_OK)
        return status;
    struct kolo_device_memory *memory = kolo_calloc(1, sizeof *memory);
    if (!memory)
        return KOLO_ERR_NO_MEMORY;
    const struct kolo_device_share share = share_of(engine->world);
    const int timeout_ms = (int)engine->settings.timeout_ms;
    status = kolo_device_alloc(device, &share, bytes, &memory->pointer);
    if (status == KOLO_ERR_NO_MEMORY) { /* freed memory may be on its way back */
        kolo_loans_settle(engine, kolo_deadline_in_ms(timeout_ms));
        status = kolo_device_alloc(device, &share, bytes, &memory->pointer);
    }
    if (status != KOLO_OK) {
        destroy(memory);
        return status;
    }
    memory->bytes = bytes;
    add(engine, memory);
    kolo_lent_expect(engine, &memory->pointer);
    *memory_out = (void *)(uintptr_t)memory->pointer.memory;
    return KOLO_OK;
}

/** The allocation that contains these bytes, unless the program has freed it. Held: lock. */
static struct kolo_device_memory *find(const struct kolo_engine *engine, const void *address,
                                       size_t bytes)
{
    struct kolo_device_memory *memory = engine->device_memory;
    for (; memory; memory = memory->next) {
        const uintptr_t offset = (uintptr_t)address - (uintptr_t)memory->pointer.memory;
        if (!memory->pointer.memory || memory->is_freed || offset > memory->bytes ||
            bytes > memory->bytes - offset)
            continue;
        return memory;
    }
    return NULL;
}

bool kolo_device_memory_find(const struct kolo_engine *engine, const void *address, size_t bytes,
                             struct kolo_pointer *pointer_out)
{
    const struct kolo_device_memory *memory = find(engine, address, bytes);
    if (memory)
        *pointer_out = memory->pointer;
    return memory != NULL;
}

/* ---- loans ---- */

bool kolo_device_memory_may_lend(struct kolo_engine *engine, const void *address, size_t bytes)
{
    struct kolo_loan loan;
    kolo_engine_enter(engine);
    struct kolo_device_memory *memory = find(engine, address, bytes);
    const bool is_new = memory && !memory->is_looked_at;
    bool has_loan = memory && memory->has_loan;
    const struct kolo_pointer pointer =
        is_new ? memory->pointer : (struct kolo_pointer){.device = -1};
    kolo_engine_leave(engine);
    if (!is_new)
        return has_loan;
    has_loan = kolo_pointer_lend(&pointer, &loan) == KOLO_OK;
    if (!has_loan)
        KOLO_INFO("collectives copy memory of device %d to the host: %s", pointer.device,
                  kolo_error_detail());
    kolo_engine_enter(engine);
    memory = find(engine, address, bytes); /* another thread may have freed it */
    if (memory) {
        memory->is_looked_at = true;
        memory->has_loan = has_loan;
        memory->loan = has_loan ? loan : (struct kolo_loan){.id = 0};
    }
    kolo_engine_leave(engine);
    return memory && has_loan;
}

bool kolo_device_memory_has_loan(const struct kolo_engine *engine, const void *address,
                                 size_t bytes)
{
    const struct kolo_device_memory *memory = find(engine, address, bytes);
    return memory && memory->has_loan;
}

/** The set of ranks that may have it mapped; NULL: no memory. */
static uint8_t *borrowers_of(const struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    if (!memory->borrowers)
        memory->borrowers = kolo_calloc(((size_t)engine->size + 7) / 8, 1);
    return memory->borrowers;
}

const struct kolo_loan *kolo_device_memory_lend(const struct kolo_comm *comm, const void *address,
                                                size_t bytes)
{
    struct kolo_device_memory *memory = find(comm->engine, address, bytes);
    if (!memory || !memory->has_loan) /* freed while a call uses it */
        return NULL;
    uint8_t *borrowers = borrowers_of(comm->engine, memory);
    for (int member = 0; borrowers && member < comm->size; member++) {
        const int world_rank = kolo_comm_world_rank(comm, member);
        if (member != comm->rank)
            borrowers[world_rank / 8] |= (uint8_t)(1u << world_rank % 8);
    }
    return borrowers ? &memory->loan : NULL;
}

void kolo_device_memory_returned(struct kolo_engine *engine, int world_rank, uint64_t id)
{
    for (struct kolo_device_memory *memory = engine->device_memory; memory; memory = memory->next)
        if (memory->borrowers && (id == 0 || id == memory->loan.id))
            memory->borrowers[world_rank / 8] &= (uint8_t) ~(1u << world_rank % 8);
}

void kolo_device_memory_kept(struct kolo_engine *engine, uint64_t id)
{
    for (struct kolo_device_memory *memory = engine->device_memory; memory; memory = memory->next)
        if (memory->has_loan && memory->loan.id == id)
            memory->is_kept = true;
}

/** Asks all ranks that may have it mapped to return it. A rank that cannot be reached has it no
 * more. */
static void recall(struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    for (int rank = 0; memory->borrowers && rank < engine->size; rank++)
        if ((memory->borrowers[rank / 8] & 1u << rank % 8) != 0 &&
            !kolo_endpoint_recall(engine->endpoint, rank, memory->loan.id))
            memory->borrowers[rank / 8] &= (uint8_t) ~(1u << rank % 8);
}

bool kolo_device_memory_recall(struct kolo_engine *engine)
{
    bool is_any_lent = false;
    for (struct kolo_device_memory *memory = engine->device_memory; memory; memory = memory->next) {
        recall(engine, memory);
        is_any_lent |= is_lent(engine, memory);
    }
    return is_any_lent;
}

bool kolo_device_memory_is_lent(const struct kolo_engine *engine)
{
    for (const struct kolo_device_memory *memory = engine->device_memory; memory;
         memory = memory->next)
        if (is_lent(engine, memory))
            return true;
    return false;
}

/* ---- freeing ---- */

/** Recalls the memory. If a rank still has it, or it @p must_wait, keeps it in the list as freed,
 * and returns true. */
static bool put_aside(struct kolo_engine *engine, struct kolo_device_memory *memory, bool must_wait)
{
    kolo_engine_enter(engine);
    recall(engine, memory);
    memory->is_freed = must_wait || is_lent(engine, memory) || memory->is_kept;
    if (memory->is_freed) {
        memory->next = engine->device_memory;
        engine->device_memory = memory;
        kolo_loans_look(engine);
    }
    const bool is_aside = memory->is_freed; /* from here on another thread may free it */
    kolo_engine_leave(engine);
    return is_aside;
}

/** Removes a freed allocation that has been returned; NULL: there is none. */
static struct kolo_device_memory *take_returned(struct kolo_engine *engine)
{
    kolo_engine_enter(engine);
    struct kolo_device_memory **at = &engine->device_memory, *found;
    while (*at && (!(*at)->is_freed || (*at)->is_kept || is_lent(engine, *at)))
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    kolo_engine_leave(engine);
    return found;
}

void kolo_device_memory_reap(struct kolo_engine *engine, const struct kolo_unless *unless)
{
    struct kolo_device_memory *memory;
    while ((memory = take_returned(engine)) != NULL) {
        const kolo_status status = kolo_device_free(&memory->pointer, KOLO_NEVER, unless);
        if (status == KOLO_AGAIN || status == KOLO_ERR_UNSUPPORTED) { /* busy, or being captured */
            add(engine, memory);
            return;
        }
        memory->is_freed = false;
        retire(engine, memory);
    }
}

bool kolo_device_memory_has_freed(const struct kolo_engine *engine)
{
    for (const struct kolo_device_memory *memory = engine->device_memory; memory;
         memory = memory->next)
        if (memory->is_freed && !memory->is_kept)
            return true;
    return false;
}

/** Frees it in this thread, while no stream is held. */
static kolo_status free_now(struct kolo_engine *engine, struct kolo_device_memory *memory)
{
    const int timeout_ms = (int)engine->settings.timeout_ms;
    const kolo_status status =
        kolo_device_free(&memory->pointer, kolo_deadline_in_ms(timeout_ms), NULL);
    if (status == KOLO_AGAIN) {
        add(engine, memory);
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "kolo_free: device %d has not finished its earlier work within %d ms",
                         memory->pointer.device, timeout_ms);
    }
    if (status == KOLO_ERR_UNSUPPORTED) { /* a stream is being captured */
        add(engine, memory);
        return status;
    }
    retire(engine, memory);
    return status;
}

kolo_status kolo_device_memory_free(struct kolo_engine *engine, void *address)
{
    struct kolo_device_memory *memory = take(engine, address);
    if (!memory)
        return KOLO_ERR_INVALID;
    /* A held stream may wait for a call that this thread is about to make, if it is another rank's
     * of this process. */
    const bool is_any_held = kolo_none_held_begin(NULL, 0, NULL) != KOLO_OK;
    kolo_status status = KOLO_OK;
    if (!put_aside(engine, memory, is_any_held))
        status = free_now(engine, memory);
    if (!is_any_held)
        kolo_none_held_end(NULL);
    return status;
}

/** Frees an allocation or a hold. If the device is still busy, keeps both: with the last hold the
 * context would go, although the work and the thread that waits for it still need it. */
static void close_one(const struct kolo_engine *engine, struct kolo_device_memory *memory,
                      kolo_deadline deadline)
{
    kolo_status status = KOLO_OK;
    const char *why = NULL;
    const bool is_mapped = is_lent(engine, memory) || memory->is_kept;
    if (is_mapped) {
        why = "another rank may have it mapped";
    } else if (memory->pointer.memory) {
        status = kolo_device_free(&memory->pointer, deadline, NULL);
        if (status != KOLO_OK)
            why = status == KOLO_AGAIN ? "the device is still at work" : kolo_error_detail();
    }
    if (why)
        KOLO_WARN("memory of device %d stays allocated until the process ends: %s",
                  memory->pointer.device, why);
    if (!is_mapped && status != KOLO_AGAIN)
        kolo_device_release(&memory->pointer);
    destroy(memory);
}

void kolo_device_memory_close(struct kolo_engine *engine, kolo_deadline deadline)
{
    while (engine->device_memory) {
        struct kolo_device_memory *memory = engine->device_memory;
        engine->device_memory = memory->next;
        close_one(engine, memory, deadline);
    }
}
