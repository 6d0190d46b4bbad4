// SPDX-License-Identifier: Apache-2.0
// The way for device memory that all members lend: every member maps what the others lend, and its
// kernels read the operands from all members' memory and write the results there, each element
// once. No data goes through the host. Must never launch such a kernel before all members have
// reported that they could map everything, since a call that goes through the host after all needs
// its inputs unchanged (or scaled in place: scaling.is_on_device). Must never let a kernel wait
// for another rank.
//
//   entered    the entry says that the member lends, its notes say what (struct kolo_loan)
//   mapped     all report whether they could map, once their input is scaled if the call asks for
//              that. If one could not map, or has its buffers in host memory, this call and all
//              later ones go through the host, and members report when their data is there
//              (brought)
//   moving     touching = number until the kernels are over; then done, as in board_direct.c
//
// Each member moves its share, with one exception: if all are processes with the same device, one
// member moves everything. A device runs kernels of different processes in turn, not at the same
// time, so many kernels would take as long as one, plus the switches.
//
// What another member publishes is not trusted: the driver says whether a loan is valid, and an
// address must be inside it. After a failed call a neighbour's late kernel may still write memory
// that was withdrawn. Kernels do not wait for anything, so one is late only if its device is; the
// withdrawal waits for that.
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/board_hub.h"
#include "runtime/device_memory.h"
#include "runtime/loans.h"
#include "runtime/staging_private.h"

enum { PAGE_BYTES = 4096 };

/** The call fails for the reason in this thread's detail. */
static enum kolo_board_step fail(struct kolo_hub *hub, kolo_status status)
{
    hub->is_refused = true;
    (void)kolo_staging_fail(hub->run.request, status);
    return KOLO_BOARD_STUCK;
}

/* ---- what is published ---- */

static bool has_buffers(const struct kolo_hub *hub, int member)
{
    return hub->members[member].send_bytes + hub->members[member].recv_bytes > 0;
}

/** Publishes the device memory for which the address @p host stands. */
static bool show(struct kolo_hub *hub, const void *host, size_t bytes, struct kolo_board_lent *lent)
{
    const struct kolo_request *request = hub->run.request;
    memset(lent, 0, sizeof *lent);
    if (bytes == 0)
        return true;
    const uint8_t *device = kolo_staging_address(request, (uint8_t *)(uintptr_t)host);
    const struct kolo_loan *loan =
        device ? kolo_device_memory_lend(hub->comm, device, bytes) : NULL;
    if (!loan)
        return false;
    lent->loan = *loan;
    lent->address = (uint64_t)(uintptr_t)device;
    return true;
}

bool kolo_board_lent_put(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->run.request;
    const struct kolo_hub_member *self = &hub->members[hub->self];
    struct kolo_board_lent *lent = self->notes->lent;
    if (request->stage != KOLO_STAGING_LENT)
        return false;
    if (hub->run.is_oneshot)
        kolo_board_extents(hub);
    if (!has_buffers(hub, hub->self))
        return false;
    const bool is_shown = show(hub, request->send, self->send_bytes, &lent[0]) &&
                          show(hub, request->recv, self->recv_bytes, &lent[1]);
    if (!is_shown) /* nothing of it is on the host, so that the call cannot go there either */
        (void)fail(hub, kolo_fail(KOLO_ERR_INVALID,
                                  "its device memory was freed while the call has it, or there is "
                                  "no memory to lend it"));
    return is_shown;
}

bool kolo_board_lent_by(const struct kolo_hub *hub, int member)
{
    const struct kolo_board_entry *entry = kolo_hub_entry(hub, member);
    return (atomic_load_explicit(&entry->number, memory_order_relaxed) & KOLO_BOARD_LENDS) != 0;
}

bool kolo_board_lent_by_all(struct kolo_hub *hub)
{
    int lenders = 0, touched = 0;
    for (int member = 0; member < hub->count; member++)
        lenders += kolo_board_lent_by(hub, member);
    if (hub->run.is_oneshot)
        kolo_board_extents(hub);
    for (int member = 0; member < hub->count; member++)
        touched += has_buffers(hub, member);
    return lenders == touched;
}

/* ---- shares ---- */

static const struct kolo_loan *any_loan(const struct kolo_hub *hub, int member)
{
    const struct kolo_board_lent *lent = hub->members[member].notes->lent;
    return hub->members[member].send_bytes > 0 ? &lent[0].loan : &lent[1].loan;
}

/** Whether all members are processes with the same device, and there are several processes. */
static bool is_shared(const struct kolo_hub *hub)
{
    static const uint8_t unknown[sizeof((struct kolo_loan){0}.device)];
    const struct kolo_loan *first = NULL;
    bool are_many = false;
    for (int member = 0; member < hub->count; member++) {
        const struct kolo_loan *loan = any_loan(hub, member);
        if (!has_buffers(hub, member))
            continue;
        if (!first)
            first = loan;
        are_many |= loan->process != first->process;
        if (memcmp(loan->device, first->device, sizeof unknown) != 0)
            return false;
    }
    return are_many && memcmp(first->device, unknown, sizeof unknown) != 0;
}

static void divide(struct kolo_hub *hub)
{
    struct kolo_hub_lent *lent = &hub->lent;
    int before = 0, all = 0;
    for (int member = 0; member < hub->count; member++) {
        before += member < hub->self && has_buffers(hub, member);
        all += has_buffers(hub, member);
    }
    lent->parts = is_shared(hub) ? 1 : all;
    lent->part = has_buffers(hub, hub->self) && before < lent->parts ? before : -1;
}

/* ---- mapping ---- */

static kolo_status map(struct kolo_hub *hub, int member, const struct kolo_board_lent *shown,
                       size_t bytes, uint8_t **memory_out)
{
    const struct kolo_board_lent copy = *shown; /* check and use the same copy */
    struct kolo_hub_lent *lent = &hub->lent;
    void *memory = NULL;
    kolo_status status = KOLO_OK;
    if (bytes > 0) {
        struct kolo_mapping **mapping = &lent->mappings[lent->mapping_count];
        status =
            kolo_lane_map(lent->lane, kolo_comm_world_rank(hub->comm, member), &copy.loan, mapping);
        if (status != KOLO_OK)
            return status;
        lent->mapping_count++;
        status = kolo_lane_reach(lent->lane, *mapping, copy.address, bytes, &memory);
    }
    *memory_out = memory;
    return status;
}

static kolo_status map_all(struct kolo_hub *hub)
{
    struct kolo_hub_lent *lent = &hub->lent;
    if (!lent->mappings)
        lent->mappings = kolo_calloc(KOLO_BOARD_LENT_BUFFERS * (size_t)hub->count,
                                     sizeof(struct kolo_mapping *));
    if (!lent->mappings)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = KOLO_OK;
    for (int i = 0; i < hub->count && status == KOLO_OK; i++) {
        struct kolo_hub_member *member = &hub->members[i];
        const struct kolo_board_lent *shown = member->notes->lent;
        if (i == hub->self)
            continue;
        status = map(hub, i, &shown[0], member->send_bytes, &member->send);
        if (status == KOLO_OK)
            status = map(hub, i, &shown[1], member->recv_bytes, &member->recv);
    }
    return status;
}

/** The address of the memory for which @p host stands, as this member's kernels see it. */
static uint8_t *own(const struct kolo_hub *hub, const void *host, size_t bytes)
{
    return bytes > 0 ? kolo_staging_address(hub->run.request, (uint8_t *)(uintptr_t)host) : NULL;
}

static kolo_status prepare(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->run.request;
    struct kolo_hub_lent *lent = &hub->lent;
    struct kolo_hub_member *self = &hub->members[hub->self];
    const size_t page = PAGE_BYTES / hub->run.element_bytes;
    divide(hub);
    lent->mapping_count = 0;
    lent->is_launched = false;
    if (lent->part < 0)
        return KOLO_OK;
    lent->lane = kolo_lent_lane(request);
    self->send = own(hub, request->send, self->send_bytes);
    self->recv = own(hub, request->recv, self->recv_bytes);
    kolo_share_begin(hub->run.collective, &request->args, lent->part, lent->parts,
                     page > 0 ? page : 1, &hub->share);
    return map_all(hub);
}

static void let_go(struct kolo_hub *hub)
{
    struct kolo_hub_lent *lent = &hub->lent;
    for (int i = 0; i < lent->mapping_count; i++)
        kolo_lane_done(lent->lane, lent->mappings[i]);
    lent->mapping_count = 0;
    if (hub->comm->engine->tidier.recalls)
        kolo_loans_look(hub->comm->engine);
}

static void say_mapped(struct kolo_hub *hub, bool is_mapped)
{
    kolo_hub_publish(hub, &hub->members[hub->self].notes->mapped, 2 * hub->number + is_mapped);
}

enum kolo_board_step kolo_board_lent_map(struct kolo_hub *hub)
{
    kolo_status status = prepare(hub);
    if (status != KOLO_OK) {
        KOLO_INFO("communicator %u: from now on its calls copy device memory to the host: %s",
                  hub->comm->number, kolo_error_detail());
        let_go(hub);
        say_mapped(hub, false);
        return KOLO_BOARD_DONE;
    }
    if (hub->run.request->scaling.prescale == 0) {
        say_mapped(hub, true);
        return KOLO_BOARD_DONE;
    }
    status = kolo_lent_scale_input(hub->run.request);
    return status == KOLO_OK ? KOLO_BOARD_MOVED : fail(hub, status);
}

enum kolo_board_step kolo_board_lent_scale(struct kolo_hub *hub)
{
    const kolo_status status = kolo_lent_input_is_scaled(hub->run.request);
    if (status == KOLO_AGAIN)
        return KOLO_BOARD_STUCK;
    if (status != KOLO_OK)
        return fail(hub, status);
    say_mapped(hub, true);
    return KOLO_BOARD_DONE;
}

bool kolo_board_lent_agreed(const struct kolo_hub *hub)
{
    const size_t offset = offsetof(struct kolo_board_notes, mapped);
    for (int member = 0; member < hub->count; member++)
        if (kolo_hub_word(hub, member, offset) != 2 * hub->number + 1)
            return false;
    return true;
}

/* ---- calls that go through the host after all ---- */

void kolo_board_lent_give_up(struct kolo_hub *hub)
{
    struct kolo_request *request = hub->run.request;
    char words[KOLO_WORDS_MAX];
    kolo_request_words(request, words, sizeof words);
    if (hub->comm->lends)
        KOLO_INFO("communicator %u: not all ranks lend device memory in %s: from now on its calls "
                  "copy it to the host",
                  hub->comm->number, words);
    hub->run.is_lent = false;
    hub->comm->lends = false;
    let_go(hub);
    if (kolo_board_lent_by(hub, hub->self) && !kolo_lent_take_in(request))
        hub->is_refused = true;
}

kolo_status kolo_board_lent_brought(struct kolo_hub *hub)
{
    struct kolo_hub_member *self = &hub->members[hub->self];
    kolo_status status = KOLO_OK;
    if (hub->run.is_oneshot || (hub->run.may_show && !hub->run.has_named))
        KOLO_TRY(kolo_oneshot_put(hub));
    kolo_hub_publish(hub, &self->notes->brought, hub->number);
out:
    return status;
}

/* ---- kernels ---- */

static kolo_status launch(struct kolo_hub *hub, const struct kolo_move *move)
{
    static const struct kolo_fold as_bytes = {.dtype = KOLO_UINT8, .op = KOLO_SUM};
    const void *in[KOLO_BOARD_MEMBERS_MAX];
    void *out[KOLO_BOARD_MEMBERS_MAX];
    size_t nin, nout, kept = 0;
    kolo_hub_places(hub, move, in, &nin, out, &nout);
    if (nin > 1)
        return kolo_lane_fold(hub->lent.lane, KOLO_WAY_OUT, &hub->run.fold, out, nout, in, nin,
                              move->count);
    for (size_t i = 0; i < nout; i++) /* a copy skips its own input */
        if (out[i] != in[0])
            out[kept++] = out[i];
    if (kept == 0)
        return KOLO_OK;
    return kolo_lane_fold(hub->lent.lane, KOLO_WAY_OUT, &as_bytes, out, kept, in, 1,
                          move->count * hub->run.element_bytes);
}

static kolo_status launch_all(struct kolo_hub *hub)
{
    struct kolo_move move;
    kolo_status status = KOLO_OK;
    hub->lent.mark = KOLO_LANE_IDLE; /* until a kernel is launched */
    while (status == KOLO_OK && kolo_share_next(&hub->share, SIZE_MAX, &move))
        status = launch(hub, &move);
    if (status == KOLO_OK)
        status = kolo_lane_mark(hub->lent.lane, KOLO_WAY_OUT, &hub->lent.mark);
    kolo_lent_marked(hub->run.request, hub->lent.mark);
    return status;
}

/** Launches the kernels, or checks whether they are over. KOLO_AGAIN: they are not. */
static kolo_status run(struct kolo_hub *hub)
{
    struct kolo_hub_lent *lent = &hub->lent;
    kolo_status status = KOLO_OK;
    if (lent->part < 0)
        return KOLO_OK;
    if (!lent->is_launched) {
        if (!kolo_hub_touch(hub)) {
            kolo_hub_untouch(hub);
            return KOLO_AGAIN; /* its owner has failed, and the news is on its way */
        }
        lent->is_launched = true;
        status = launch_all(hub);
    }
    return status == KOLO_OK ? kolo_lane_passed(lent->lane, KOLO_WAY_OUT, lent->mark) : status;
}

enum kolo_board_step kolo_board_lent_step(struct kolo_hub *hub)
{
    const kolo_status status = run(hub);
    if (status == KOLO_AGAIN)
        return KOLO_BOARD_STUCK;
    if (status != KOLO_OK)
        return fail(hub, status);
    kolo_board_lent_end(hub);
    hub->moves++;
    return KOLO_BOARD_DONE;
}

void kolo_board_lent_end(struct kolo_hub *hub)
{
    struct kolo_hub_lent *lent = &hub->lent;
    if (lent->is_launched && !kolo_lane_is_over(lent->lane, KOLO_WAY_OUT, lent->mark, 0))
        return; /* late: it still uses the mappings */
    if (lent->is_launched)
        kolo_hub_untouch(hub);
    lent->is_launched = false;
    let_go(hub);
}
