// SPDX-License-Identifier: Apache-2.0
// Completions: what a device says about requests that were posted, brought back to the request, its
// queue pair and peer.
//
// A completion queue (`kolo_rdma_completions`) serves all pairs of a device. Each side of a pair
// (sends, receives) is a track: the requests that were posted on it and have not completed, in
// order. The 64 bits that a completion brings back say which track and which request of it; nothing
// else of a completion in error is defined, and nothing else of it is read. So a completion that
// comes twice, out of order, or for a pair that is gone, is known from one that is due.
//
//   wr_id:  number of the track (24 bits) | number of the request on it (40 bits)
//
// Not every send is signaled, that is, asks for a completion of its own (completion moderation):
// the completion of one is that of all before it. Every receive has its own.
//
// Threads: those of the endpoint, one at a time.
#ifndef KOLO_TRANSPORT_RDMA_COMPLETE_H
#define KOLO_TRANSPORT_RDMA_COMPLETE_H

#include "transport/map.h"
#include "transport/rdma_device.h"

/** A request that was posted. */
struct kolo_rdma_request {
    const char *what; /* "a write": for messages; a constant */
    size_t bytes;
    void *context; /* the poster's */
    bool is_piece; /* the poster's: it tells of each of these when it is over */
};

struct kolo_rdma_track;
struct kolo_rdma_track_ops {
    /** The request is over, and has done what it should; of receives @p wc has the bytes and the
     * number, of others it is NULL. */
    void (*done)(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                 const struct ibv_wc *wc);
    /** The pair is of no use any more: @p why, and the detail, once per track. Its other requests
     * come to nothing. */
    void (*failed)(struct kolo_rdma_track *track, kolo_status why);
    /** Who is at the other end: "rank 3 on host b". */
    void (*describe)(const struct kolo_rdma_track *track, char *text, size_t capacity);
};

struct kolo_rdma_track {
    const struct kolo_rdma_track_ops *ops;
    struct kolo_rdma_completions *completions;
    uint32_t number;
    bool is_receive, has_failed;
    bool is_survivable; /* has_failed: by what peer and device may outlive, a cable's pull, say */
    uint32_t capacity;
    struct kolo_rdma_request *requests; /* a ring, by number */
    uint64_t first, next;               /* numbers: not completed from first to next - 1 */
    uint64_t signaled;                  /* one more than the last that was posted signaled */
};

struct kolo_rdma_completions {
    struct kolo_rdma_device *device;
    struct ibv_comp_channel *channel; /* its fd is non-blocking, for the poller */
    struct ibv_cq *queue;
    struct kolo_map tracks;
    uint32_t next_number, entries, entries_used;
    uint64_t late; /* completions of tracks that are gone: for tests and curious people */
};

/** A queue of @p entries entries, at most what the device allows. ERR_UNSUPPORTED, ERR_SYSTEM. */
kolo_status
kolo_rdma_completions_open(struct kolo_rdma_device *device, uint32_t entries,
                           struct kolo_rdma_completions **completions_out) KOLO_NODISCARD;
/** After its tracks and pairs. NULL is fine. */
void kolo_rdma_completions_close(struct kolo_rdma_completions *completions);

enum { KOLO_RDMA_COMPLETIONS_POLL_MAX = 64 };
/** Takes at most so many completions and tells the tracks; if it takes fewer, the queue was empty.
 * ERR_LINK: the queue is of no use any more. */
kolo_status kolo_rdma_completions_poll(struct kolo_rdma_completions *completions,
                                       bool *moved_out) KOLO_NODISCARD;
/** From here on the channel's fd becomes readable with the next completion; what had come before
 * does not tell: poll once more. */
kolo_status kolo_rdma_completions_arm(struct kolo_rdma_completions *completions) KOLO_NODISCARD;
/** Empties the channel after it became readable. ERR_LINK: it tells nothing any more, and may be
 * ready for ever. */
kolo_status kolo_rdma_completions_heard(struct kolo_rdma_completions *completions) KOLO_NODISCARD;

/** A track for up to @p capacity requests at a time (a power of two), which have room in the queue
 * for as long as it lives. ERR_UNSUPPORTED: the queue has not. */
kolo_status kolo_rdma_track_open(struct kolo_rdma_track *track,
                                 struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_track_ops *ops, bool is_receive,
                                 uint32_t capacity) KOLO_NODISCARD;
/** What comes for it later is dropped. Close it after its pair was destroyed: only then none of its
 * requests touches memory. */
void kolo_rdma_track_close(struct kolo_rdma_track *track);

/** Its pair is gone, and another takes its place: what still comes of the old one is dropped. What
 * has not completed stays noted. ERR_NO_MEMORY. */
kolo_status kolo_rdma_track_renew(struct kolo_rdma_track *track) KOLO_NODISCARD;
/** The requests before @p next have done what they should, as somebody else says. */
void kolo_rdma_track_settle(struct kolo_rdma_track *track, uint64_t next);
/** What has not completed is not posted any more; it lies where it lay. */
void kolo_rdma_track_rewind(struct kolo_rdma_track *track);
/** As _add, of the request that lies there since before a _rewind. */
uint64_t kolo_rdma_track_add_again(struct kolo_rdma_track *track, bool is_signaled);

static inline bool kolo_rdma_track_is_full(const struct kolo_rdma_track *track)
{
    return track->next - track->first >= track->capacity;
}
/** Shall the next send be signaled? So that a quarter of the ring at most waits for one that is. */
static inline bool kolo_rdma_track_wants_signal(const struct kolo_rdma_track *track)
{
    return track->next - track->signaled >= track->capacity / 4;
}
/** Notes a request that is about to be posted, not on a full track, and gives its wr_id. */
uint64_t kolo_rdma_track_add(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                             bool is_signaled);
/** The post of the last one was refused with errno @p error: it is forgotten, and the track
 * fails. */
void kolo_rdma_track_refused(struct kolo_rdma_track *track, int error);

/** The first that has not completed takes too long: the track fails, with @p text. */
void kolo_rdma_track_silent(struct kolo_rdma_track *track, const char *text);

/** What a status of a completion means, and what is most likely behind it. */
const char *kolo_rdma_status_text(enum ibv_wc_status status);

#endif
