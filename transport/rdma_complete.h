// SPDX-License-Identifier: Apache-2.0
// Completions: what a device says about posted requests, brought back to the request, its queue
// pair and peer.
//
// A completion queue (`kolo_rdma_completions`) serves all pairs of a device. Each side of a pair
// (sends, receives) is a track: the requests that were posted on it and have not completed, in
// order. The 64 bits that a completion returns name the track and the request on it. Nothing else
// in a completion in error is defined, and nothing else of it is read. So a completion that arrives
// twice, out of order, or for a pair that is gone can be told from one that is due.
//
//   wr_id:  number of the track (24 bits) | number of the request on it (40 bits)
//
// Not every send is signaled, that is, asks for a completion of its own (completion moderation):
// the completion of a send also completes all sends before it. Every receive has its own
// completion.
//
// Threads: those of the endpoint, one at a time.
#ifndef KOLO_TRANSPORT_RDMA_COMPLETE_H
#define KOLO_TRANSPORT_RDMA_COMPLETE_H

#include "transport/map.h"
#include "transport/rdma_device.h"

/** A request that was posted. */
struct kolo_rdma_request {
    const char *what; /* "a write": for error texts; must be a constant */
    size_t bytes;
    void *context; /* used by the poster only */
    bool is_piece; /* used by the poster, who reports when each such request is over */
};

struct kolo_rdma_track;
struct kolo_rdma_track_ops {
    /** The request succeeded. For a receive, @p wc has the number of bytes and the 32-bit number;
     *  otherwise it is NULL. */
    void (*done)(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                 const struct ibv_wc *wc);
    /** The pair cannot be used any more: @p why, and the detail. Called once for each track. Its
     *  other requests will not succeed. */
    void (*failed)(struct kolo_rdma_track *track, kolo_status why);
    /** Writes who is at the other end: "rank 3 on host b". */
    void (*describe)(const struct kolo_rdma_track *track, char *text, size_t capacity);
};

struct kolo_rdma_track {
    const struct kolo_rdma_track_ops *ops;
    struct kolo_rdma_completions *completions;
    uint32_t number;
    bool is_receive, has_failed;
    bool is_survivable; /* has_failed: peer and device may outlive it (a pulled cable) */
    uint32_t capacity;
    struct kolo_rdma_request *requests; /* a ring, indexed by number */
    uint64_t first, next;               /* numbers first to next - 1 have not completed */
    uint64_t signaled;                  /* one more than the number of the last signaled request */
};

struct kolo_rdma_completions {
    struct kolo_rdma_device *device;
    struct ibv_comp_channel *channel; /* its fd is non-blocking, for the poller */
    struct ibv_cq *queue;
    struct kolo_map tracks;
    uint32_t next_number, entries, entries_used;
    uint64_t late; /* completions for tracks that are gone: for tests and diagnosis */
};

/** Makes a queue of @p entries entries, or as many as the device allows. ERR_UNSUPPORTED,
 *  ERR_SYSTEM. */
kolo_status
kolo_rdma_completions_open(struct kolo_rdma_device *device, uint32_t entries,
                           struct kolo_rdma_completions **completions_out) KOLO_NODISCARD;
/** To be called after its tracks and pairs are closed. @p completions may be NULL. */
void kolo_rdma_completions_close(struct kolo_rdma_completions *completions);

enum { KOLO_RDMA_COMPLETIONS_POLL_MAX = 64 };
/** Takes up to that many completions and tells their tracks; if it takes fewer, the queue was
 *  empty. ERR_LINK: the queue cannot be used any more. */
kolo_status kolo_rdma_completions_poll(struct kolo_rdma_completions *completions,
                                       bool *moved_out) KOLO_NODISCARD;
/** Makes the channel's fd readable with the next completion. Completions that arrived before do not
 *  do so: poll once more. */
kolo_status kolo_rdma_completions_arm(struct kolo_rdma_completions *completions) KOLO_NODISCARD;
/** Empties the channel after it became readable. ERR_LINK: it tells nothing any more, and may stay
 *  readable for ever. */
kolo_status kolo_rdma_completions_heard(struct kolo_rdma_completions *completions) KOLO_NODISCARD;

/** Opens a track for up to @p capacity requests at a time (a power of two), for which it reserves
 *  room in the completion queue as long as it lives. ERR_UNSUPPORTED: the queue has no room. */
kolo_status kolo_rdma_track_open(struct kolo_rdma_track *track,
                                 struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_track_ops *ops, bool is_receive,
                                 uint32_t capacity) KOLO_NODISCARD;
/** Closes a track; completions for it that come later are dropped. Its pair must have been
 *  destroyed before: only then none of its requests touches memory any more. */
void kolo_rdma_track_close(struct kolo_rdma_track *track);

/** The track's pair is gone and another one takes its place: completions of the old one are dropped
 *  from now on. Requests that have not completed are kept. ERR_NO_MEMORY. */
kolo_status kolo_rdma_track_renew(struct kolo_rdma_track *track) KOLO_NODISCARD;
/** The peer says that all requests before @p next succeeded. */
void kolo_rdma_track_settle(struct kolo_rdma_track *track, uint64_t next);
/** Requests that have not completed count as not posted any more; they stay in the ring. */
void kolo_rdma_track_rewind(struct kolo_rdma_track *track);
/** As _add, for the request that has been in the ring since before a _rewind. */
uint64_t kolo_rdma_track_add_again(struct kolo_rdma_track *track, bool is_signaled);

static inline bool kolo_rdma_track_is_full(const struct kolo_rdma_track *track)
{
    return track->next - track->first >= track->capacity;
}
/** Whether the next send must be signaled, so that at most a quarter of the ring waits for a
 *  signaled one. */
static inline bool kolo_rdma_track_wants_signal(const struct kolo_rdma_track *track)
{
    return track->next - track->signaled >= track->capacity / 4;
}
/** Records a request that is about to be posted, and returns its wr_id. The track must not be
 *  full. */
uint64_t kolo_rdma_track_add(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                             bool is_signaled);
/** Posting the last request failed with errno @p error: the track fails. The peer may live; some
 *  devices refuse what is posted to a pair that has broken before they report why it broke. A send
 *  counts as posted, so that it can be posted again with another pair; a receive is removed. */
void kolo_rdma_track_refused(struct kolo_rdma_track *track, int error);

/** The oldest request that has not completed takes too long: the track fails, with @p text. */
void kolo_rdma_track_silent(struct kolo_rdma_track *track, const char *text);

/** What the status of a completion means, and its most likely cause. */
const char *kolo_rdma_status_text(enum ibv_wc_status status);

#endif
