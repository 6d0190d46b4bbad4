// SPDX-License-Identifier: Apache-2.0
// Brings completions back to their requests (rdma_complete.h says how). Must never read more of a
// completion in error than its status, its request number and the vendor's error number, and never
// trust the number of a request that was not posted.
#include "transport/rdma_complete.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/descriptor.h"
#include "base/log.h"

enum { NUMBER_BITS = 40, TRACK_BITS = 24, BATCH = 32 };
static const uint64_t number_mask = (UINT64_C(1) << NUMBER_BITS) - 1;

/* ---- texts ---- */

static const struct {
    const char *text;
    kolo_status send, receive; /* the status if a send, or a receive, failed with this */
} meanings[] = {
    [IBV_WC_LOC_LEN_ERR] =
        {"the message is longer than the buffer for it: do all ranks run the same version of kolo?",
         KOLO_ERR_INTERNAL, KOLO_ERR_PROTOCOL},
    [IBV_WC_LOC_QP_OP_ERR] =
        {"the device could not carry out the request: its interface is down or has no way to the "
         "peer any more (ip link, ip route), or its driver is at fault (dmesg)",
         KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_LOC_PROT_ERR] =
        {"our memory is not registered any more: was it freed while a call used it?", KOLO_ERR_LINK,
         KOLO_ERR_LINK},
    [IBV_WC_WR_FLUSH_ERR] = {"the connection was ended", KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_BAD_RESP_ERR] = {"the peer's device answered nonsense: look at dmesg on both hosts",
                             KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_LOC_ACCESS_ERR] = {"the peer wrote where it must not", KOLO_ERR_PROTOCOL,
                               KOLO_ERR_PROTOCOL},
    [IBV_WC_REM_INV_REQ_ERR] = {"the peer's device refused the message: too long for the buffer "
                                "for it there, or of a kind that it "
                                "does not take",
                                KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_REM_ACCESS_ERR] =
        {"the peer's memory is not there for us any more: it gave up the call, or freed the memory",
         KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_REM_OP_ERR] = {"the peer's device could not carry it out: look at dmesg there",
                           KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_RETRY_EXC_ERR] = {"no answer for KOLO_PEER_TIMEOUT: the peer's process or host is "
                              "gone, or the network between (cable, switch; on "
                              "RoCE a smaller MTU on the way, a filter for UDP port 4791)",
                              KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_RNR_RETRY_EXC_ERR] =
        {"the peer has had no buffer free for a message for too long: is its process stopped?",
         KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_FATAL_ERR] = {"the device broke down: look at dmesg", KOLO_ERR_LINK, KOLO_ERR_LINK},
    [IBV_WC_RESP_TIMEOUT_ERR] = {"the peer's device did not answer in time", KOLO_ERR_LINK,
                                 KOLO_ERR_LINK},
    [IBV_WC_GENERAL_ERR] = {"the device does not say why: look at dmesg", KOLO_ERR_LINK,
                            KOLO_ERR_LINK},
};

static bool is_known(enum ibv_wc_status status)
{
    return (size_t)status < sizeof meanings / sizeof meanings[0] && meanings[status].text;
}

const char *kolo_rdma_status_text(enum ibv_wc_status status)
{
    if (status == IBV_WC_SUCCESS)
        return "success";
    return is_known(status) ? meanings[status].text
                            : "an error that kolo does not know: look at dmesg";
}

/* ---- tracks ---- */

/** Gives it a number that no other track has. */
static kolo_status enter(struct kolo_rdma_track *track)
{
    struct kolo_rdma_completions *completions = track->completions;
    do
        track->number = completions->next_number++ & ((1u << TRACK_BITS) - 1);
    while (kolo_map_get(&completions->tracks, track->number));
    return kolo_map_put(&completions->tracks, track->number, track);
}

kolo_status kolo_rdma_track_open(struct kolo_rdma_track *track,
                                 struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_track_ops *ops, bool is_receive,
                                 uint32_t capacity)
{
    struct kolo_rdma_track made = {
        .ops = ops, .completions = completions, .is_receive = is_receive, .capacity = capacity};
    if (capacity > completions->entries - completions->entries_used)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "rdma %s: the completion queue of %u entries is full, %u more are needed",
                         completions->device->name, completions->entries, capacity);
    made.requests = kolo_calloc(capacity, sizeof *made.requests);
    if (!made.requests)
        return KOLO_ERR_NO_MEMORY;
    *track = made;
    kolo_status status = enter(track);
    if (status != KOLO_OK) {
        kolo_free_memory(made.requests);
        *track = (struct kolo_rdma_track){.requests = NULL};
        return status;
    }
    completions->entries_used += capacity;
    return KOLO_OK;
}

void kolo_rdma_track_close(struct kolo_rdma_track *track)
{
    if (!track->requests)
        return;
    kolo_map_remove(&track->completions->tracks, track->number);
    track->completions->entries_used -= track->capacity;
    kolo_free_memory(track->requests);
    track->requests = NULL;
}

static struct kolo_rdma_request *request_at(const struct kolo_rdma_track *track, uint64_t number)
{
    return &track->requests[number & (track->capacity - 1)];
}

uint64_t kolo_rdma_track_add(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                             bool is_signaled)
{
    *request_at(track, track->next) = *request;
    uint64_t id = (uint64_t)track->number << NUMBER_BITS | (track->next & number_mask);
    track->next++;
    if (is_signaled)
        track->signaled = track->next;
    return id;
}

uint64_t kolo_rdma_track_add_again(struct kolo_rdma_track *track, bool is_signaled)
{
    const struct kolo_rdma_request request = *request_at(track, track->next);
    return kolo_rdma_track_add(track, &request, is_signaled);
}

void kolo_rdma_track_rewind(struct kolo_rdma_track *track)
{
    track->next = track->signaled = track->first;
}

kolo_status kolo_rdma_track_renew(struct kolo_rdma_track *track)
{
    kolo_map_remove(&track->completions->tracks, track->number);
    track->has_failed = track->is_survivable = false;
    return enter(track);
}

/** Ends the track. @p what: the request, or NULL; @p text: what became of it. */
static void fail(struct kolo_rdma_track *track, kolo_status why,
                 const struct kolo_rdma_request *what, const char *text)
{
    char peer[128], device[KOLO_RDMA_PORT_TEXT_MAX], request[96] = "";
    if (track->has_failed)
        return;
    track->has_failed = true;
    track->ops->describe(track, peer, sizeof peer);
    kolo_rdma_device_format(track->completions->device, device);
    if (what)
        snprintf(request, sizeof request, "%s of %zu bytes: ", what->what, what->bytes);
    kolo_fail(why, "%s by rdma %s: %s%s", peer, device, request, text);
    track->ops->failed(track, why);
}

void kolo_rdma_track_refused(struct kolo_rdma_track *track, int error)
{
    char text[128], words[64];
    const struct kolo_rdma_request *last = request_at(track, track->next - 1);
    snprintf(text, sizeof text, "the device does not take it: %s",
             strerror_r(error, words, sizeof words));
    track->next -= track->is_receive;
    track->is_survivable = true;
    fail(track, KOLO_ERR_LINK, last, text);
}

void kolo_rdma_track_silent(struct kolo_rdma_track *track, const char *text)
{
    track->is_survivable = true;
    fail(track, KOLO_ERR_LINK, request_at(track, track->first), text);
}

/** Whether the peer may have survived the failure. If so, a new pair may succeed where this one
 *  failed. */
static bool is_survivable(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
           status == IBV_WC_RESP_TIMEOUT_ERR || status == IBV_WC_WR_FLUSH_ERR;
}

static void fail_by_status(struct kolo_rdma_track *track, const struct ibv_wc *wc,
                           const struct kolo_rdma_request *request)
{
    char text[KOLO_DETAIL_MAX];
    kolo_status why = KOLO_ERR_LINK;
    if (is_known(wc->status))
        why = track->is_receive ? meanings[wc->status].receive : meanings[wc->status].send;
    snprintf(text, sizeof text, "%s (status %d, vendor's %u)", kolo_rdma_status_text(wc->status),
             (int)wc->status, wc->vendor_err);
    track->is_survivable = is_survivable(wc->status);
    fail(track, why, request, text);
}

/** All requests up to @p number succeeded. */
static void finish(struct kolo_rdma_track *track, uint64_t number, const struct ibv_wc *wc)
{
    while (track->first <= number && !track->has_failed && track->requests) {
        const struct kolo_rdma_request request = *request_at(track, track->first);
        track->first++;
        track->ops->done(track, &request, track->is_receive ? wc : NULL);
    }
}

void kolo_rdma_track_settle(struct kolo_rdma_track *track, uint64_t next)
{
    if (next > track->first)
        finish(track, next - 1, NULL);
}

static void complete(struct kolo_rdma_track *track, const struct ibv_wc *wc)
{
    /* The number modulo 2^40, relative to the first one that has not completed. */
    uint64_t ahead = ((wc->wr_id & number_mask) - track->first) & number_mask;
    uint64_t number = track->first + ahead;
    if (track->has_failed)
        return; /* was flushed after the first error */
    if (number >= track->next) {
        fail(track, KOLO_ERR_INTERNAL, NULL,
             "the device told a request twice, or one that was never posted");
        return;
    }
    if (wc->status != IBV_WC_SUCCESS)
        fail_by_status(track, wc, request_at(track, number));
    else if (track->is_receive && number != track->first)
        fail(track, KOLO_ERR_INTERNAL, request_at(track, number),
             "it was reported before those that were posted before it");
    else
        finish(track, number, wc);
}

/* ---- the queue ---- */

static kolo_status make(struct kolo_rdma_completions *completions)
{
    struct kolo_rdma_device *device = completions->device;
    errno = 0;
    completions->channel = device->verbs->create_comp_channel(device->context);
    if (!completions->channel)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno,
                               "rdma %s: a completion channel cannot be made", device->name);
    if (!kolo_descriptor_set_nonblocking(completions->channel->fd))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "a completion channel");
    errno = 0;
    completions->queue = device->verbs->create_cq(device->context, (int)completions->entries, NULL,
                                                  completions->channel, 0);
    if (!completions->queue)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno,
                               "rdma %s: a completion queue of %u entries cannot be made",
                               device->name, completions->entries);
    return KOLO_OK;
}

kolo_status kolo_rdma_completions_open(struct kolo_rdma_device *device, uint32_t entries,
                                       struct kolo_rdma_completions **completions_out)
{
    if (entries == 0 || entries > device->completions_max)
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "rdma %s: a completion queue of %u entries is too large: the device has at most %u",
            device->name, entries, device->completions_max);
    struct kolo_rdma_completions *completions = kolo_calloc(1, sizeof *completions);
    if (!completions)
        return KOLO_ERR_NO_MEMORY;
    completions->device = device;
    completions->entries = entries;
    kolo_status status = make(completions);
    if (status != KOLO_OK) {
        kolo_rdma_completions_close(completions);
        return status;
    }
    *completions_out = completions;
    return KOLO_OK;
}

/** Empties the channel. Returns 0, or why it cannot be read. */
static int hear(const struct kolo_rdma_completions *completions)
{
    const struct kolo_verbs *verbs = completions->device->verbs;
    struct ibv_cq *queue = NULL;
    void *context = NULL;
    errno = 0;
    while (verbs->get_cq_event(completions->channel, &queue, &context) == 0) {
        verbs->ack_cq_events(queue, 1);
        errno = 0;
    }
    return errno == EAGAIN ? 0 : errno != 0 ? errno : EIO;
}

void kolo_rdma_completions_close(struct kolo_rdma_completions *completions)
{
    if (!completions)
        return;
    const struct kolo_verbs *verbs = completions->device->verbs;
    if (completions->queue) {
        /* the library waits for events that are not acknowledged */
        (void)hear(completions);
        if (verbs->destroy_cq(completions->queue) != 0)
            KOLO_WARN("rdma %s: a completion queue is still in use", completions->device->name);
    }
    if (completions->channel)
        (void)verbs->destroy_comp_channel(completions->channel);
    kolo_map_fini(&completions->tracks);
    kolo_free_memory(completions);
}

kolo_status kolo_rdma_completions_poll(struct kolo_rdma_completions *completions, bool *moved_out)
{
    struct ibv_wc wcs[BATCH];
    int count = BATCH;
    *moved_out = false;
    for (int taken = 0; taken < KOLO_RDMA_COMPLETIONS_POLL_MAX && count == BATCH; taken += count) {
        count = completions->device->verbs->poll_cq(completions->queue, BATCH, wcs);
        if (count < 0)
            return kolo_fail(KOLO_ERR_LINK,
                             "rdma %s: its completions cannot be read: look at dmesg",
                             completions->device->name);
        for (int i = 0; i < count; i++) {
            struct kolo_rdma_track *track =
                kolo_map_get(&completions->tracks, (uint32_t)(wcs[i].wr_id >> NUMBER_BITS));
            if (track)
                complete(track, &wcs[i]);
            else
                completions->late++;
        }
        *moved_out |= count > 0;
    }
    return KOLO_OK;
}

kolo_status kolo_rdma_completions_arm(struct kolo_rdma_completions *completions)
{
    int error = completions->device->verbs->req_notify_cq(completions->queue, 0);
    if (error != 0)
        return kolo_fail_errno(KOLO_ERR_LINK, error,
                               "rdma %s: its completions cannot be waited for",
                               completions->device->name);
    return KOLO_OK;
}

kolo_status kolo_rdma_completions_heard(struct kolo_rdma_completions *completions)
{
    const int error = hear(completions);
    if (error == 0)
        return KOLO_OK;
    return kolo_fail_errno(KOLO_ERR_LINK, error,
                           "rdma %s: it does not tell of completions any more",
                           completions->device->name);
}
