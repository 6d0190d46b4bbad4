// SPDX-License-Identifier: Apache-2.0
// Replaces the broken queue pair of a link whose peer lives (rdma_resume.h explains the rounds).
// Must never post again what may have arrived and would be taken for something new, and never try
// for ever.
#include "transport/rdma_resume.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/checksum.h"
#include "transport/rdma.h"

enum {
    TRIES = 8,      /* rounds that may fail in a row */
    FIRST_WAIT = 64 /* the first wait is this part of KOLO_PEER_TIMEOUT; it doubles with each try */
};

static int64_t patience_ns(const struct rdma_link *link)
{
    return kolo_tcp_settings(&rdma_port_of(link)->tcp)->peer_timeout_ms * KOLO_NS_PER_MS;
}

/** Replaces a text that is kept. */
static void keep(char **kept, const char *text)
{
    kolo_free_memory(*kept);
    *kept = text ? kolo_strdup(text) : NULL;
}

/** Keeps the detail, which says why the pair broke. */
static void remember(struct rdma_resume *resume, bool is_hearsay)
{
    keep(&resume->why, kolo_error_detail());
    resume->is_hearsay = is_hearsay;
}

/** The pair broke for the first time since it last worked, for the reason in the detail. */
static void begin(struct rdma_link *link, bool is_hearsay)
{
    struct rdma_resume *resume = &link->resume;
    resume->begun = kolo_now_ns();
    resume->until = resume->begun + patience_ns(link);
    resume->tries = 0;
    resume->replayed = 0;
    keep(&resume->failed, NULL);
    remember(resume, is_hearsay);
    KOLO_WARN("%s; trying to bring it back", kolo_error_detail());
}

/** Waits for the next round. */
static void wait_a_little(struct rdma_link *link)
{
    struct rdma_resume *resume = &link->resume;
    resume->step = RESUME_WAITS;
    resume->is_unproved = resume->has_theirs = false;
    resume->begins_at = kolo_now_ns() + (patience_ns(link) / FIRST_WAIT << resume->tries);
    rdma_port_of(link)->has_broken = true;
    kolo_rdma_look_at(rdma_port_of(link), resume->begins_at);
}

bool kolo_rdma_resume_broke(struct kolo_rdma_queue *queue)
{
    struct rdma_link *link = queue->context;
    struct rdma_resume *resume = &link->resume;
    if (link->is_by_rdma) /* the peer's goodbye may be behind what is being verified */
        kolo_rdma_finish_checks(link);
    if (!link->is_by_rdma || link->tcp.base.state != KOLO_LINK_UP || link->tcp.base.heard_goodbye ||
        rdma_port_of(link)->nic.device->is_gone)
        return false;
    bool is_first = resume->step == RESUME_NONE && !resume->is_unproved;
    if (!is_first && ++resume->tries == TRIES)
        return false;
    if (is_first)
        begin(link, false);
    else if (resume->is_hearsay)
        remember(resume, false);
    wait_a_little(link);
    if (kolo_rdma_queue_cut(queue) == KOLO_OK)
        return true;
    kolo_detail_set(resume->why ? resume->why : "");
    return false;
}

/** The pair is not replaced: the link ends with the error with which it broke. */
static void give_up(struct rdma_link *link, kolo_status why, const char *text)
{
    const char *broke = link->resume.why;
    kolo_link_set_down(&link->tcp.base,
                       kolo_fail(why, "%.600s; it could not be brought back: %.300s",
                                 broke ? broke : "the queue pair broke", text));
}

static void give_up_by(struct rdma_link *link, kolo_status why)
{
    char text[KOLO_DETAIL_MAX];
    kolo_detail_keep(text);
    give_up(link, why, text);
}

/** The time is over. A round that failed here says more about the cause than the time does: for
 *  example that the port has lost its address. */
static void give_up_late(struct rdma_link *link)
{
    const char *failed = link->resume.failed;
    char text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "no fresh pair was joined within KOLO_PEER_TIMEOUT%s%s",
             failed ? ": " : "", failed ? failed : "");
    give_up(link, KOLO_ERR_LINK, text);
}

/** A round failed on this side, for the reason in the detail. */
static void try_again(struct rdma_link *link)
{
    struct rdma_resume *resume = &link->resume;
    keep(&resume->failed, kolo_error_detail());
    kolo_status status = kolo_rdma_queue_cut(link->queue);
    if (status != KOLO_OK || ++resume->tries == TRIES)
        give_up_by(link, KOLO_ERR_LINK);
    else
        wait_a_little(link);
}

/* ---- blocks ---- */

static void say(struct rdma_link *link, bool is_joined)
{
    uint8_t block[KOLO_RDMA_HELLO_BYTES];
    struct kolo_rdma_hello mine;
    kolo_rdma_queue_hello(link->queue, &link->gid, &mine);
    mine.round = link->resume.round;
    mine.received = kolo_rdma_queue_received(link->queue);
    mine.is_joined = is_joined;
    kolo_rdma_hello_pack(&mine, block);
    kolo_block_seal(&link->tcp.base, block, sizeof block);
    const ssize_t sent =
        send(link->tcp.socket.watch.fd, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)sizeof block)
        return;
    if (sent >= 0 || errno == EAGAIN)
        give_up(link, KOLO_ERR_LINK, "the connection to the peer takes no data");
    else /* the connection has ended, and most likely the peer: that is why the pair broke */
        kolo_tcp_fail(&link->tcp, errno);
}

static void offer(struct rdma_link *link)
{
    if (kolo_rdma_device_look_again(rdma_port_of(link)->nic.device, &link->gid) != KOLO_OK) {
        if (!link->resume.has_theirs) /* the peer was told nothing: it expects this number yet */
            link->resume.round--;
        try_again(link);
        return;
    }
    kolo_status status = kolo_rdma_queue_renew(link->queue);
    if (status != KOLO_OK) {
        give_up_by(link, status);
        return;
    }
    keep(&link->resume.failed, NULL); /* from here on it is the peer that is waited for */
    link->resume.step = RESUME_OFFERED;
    say(link, false);
}

/** Both offers are there. */
static void join(struct rdma_link *link)
{
    struct rdma_resume *resume = &link->resume;
    kolo_status status = kolo_rdma_queue_settle(link->queue, resume->theirs.received);
    if (status != KOLO_OK) {
        give_up_by(link, status);
        return;
    }
    if (kolo_rdma_queue_connect(link->queue, &link->gid, &resume->theirs) != KOLO_OK) {
        try_again(link);
        return;
    }
    resume->step = RESUME_JOINED;
    say(link, true);
}

/** The peer begins a round that is new to us. */
static void follow(struct rdma_link *link, const struct kolo_rdma_hello *theirs)
{
    struct rdma_resume *resume = &link->resume;
    if (resume->step == RESUME_NONE && !resume->is_unproved) {
        kolo_fail(KOLO_ERR_LINK, "rank %d on %.63s by rdma: its queue pair broke there",
                  link->tcp.base.peer, kolo_rdma_peer_host(link));
        begin(link, true);
    } else if (resume->step != RESUME_WAITS && ++resume->tries == TRIES) {
        give_up(link, KOLO_ERR_LINK, "too many tries");
        return;
    }
    wait_a_little(link);
    resume->round = theirs->round;
    resume->theirs = *theirs;
    resume->has_theirs = true;
    resume->step = RESUME_DRAINS;
    if (!link->queue->is_cut && kolo_rdma_queue_cut(link->queue) != KOLO_OK)
        give_up_by(link, KOLO_ERR_LINK);
}

/** The peer's pair is joined to ours. */
static void go_on(struct rdma_link *link)
{
    struct rdma_resume *resume = &link->resume;
    resume->step = RESUME_NONE;
    resume->is_unproved = true;
    resume->replayed += kolo_rdma_queue_replay(link->queue);
    resume->proves = link->queue->sends.next;
    (void)kolo_link_push(&link->tcp.base);
}

static bool is_same_shape(const struct rdma_link *link, const struct kolo_rdma_hello *theirs)
{
    return theirs->offers && theirs->buffers == link->theirs.buffers &&
           theirs->buffer_bytes == link->theirs.buffer_bytes;
}

void kolo_rdma_resume_heard(struct rdma_link *link, const struct kolo_rdma_hello *theirs)
{
    struct rdma_resume *resume = &link->resume;
    bool is_of_ours = theirs->round == resume->round && resume->step != RESUME_WAITS;
    bool is_good = is_same_shape(link, theirs) && theirs->round > 0;
    if (is_good && !theirs->is_joined && theirs->round == resume->round + 1) {
        follow(link, theirs);
    } else if (is_good && !theirs->is_joined && is_of_ours && !resume->has_theirs &&
               (resume->step == RESUME_DRAINS || resume->step == RESUME_OFFERED)) {
        resume->theirs = *theirs;
        resume->has_theirs = true;
    } else if (is_good && theirs->is_joined && is_of_ours && resume->step == RESUME_JOINED) {
        go_on(link);
    } else if (!is_good || is_of_ours || theirs->round > resume->round) {
        give_up(link,
                kolo_fail(
                    KOLO_ERR_PROTOCOL,
                    "rank %d sent a word of round %u of bringing a queue pair back, in step %d of "
                    "round %u",
                    link->tcp.base.peer, theirs->round, (int)resume->step, resume->round),
                kolo_error_detail());
    }
}

/* ---- the steps ---- */

/** The wait is over, or the port works again: begins a round. */
static void begin_round(struct rdma_link *link, kolo_deadline now)
{
    struct rdma_resume *resume = &link->resume;
    if (now < resume->begins_at)
        return;
    (void)kolo_rdma_device_ask_state(rdma_port_of(link)->nic.device);
    if (rdma_port_of(link)->nic.device->state != IBV_PORT_ACTIVE) {
        resume->begins_at = now + patience_ns(link) / FIRST_WAIT;
        return;
    }
    resume->round++;
    resume->step = RESUME_DRAINS;
}

static void take_step(struct rdma_link *link, kolo_deadline now)
{
    struct rdma_resume *resume = &link->resume;
    if (resume->step == RESUME_WAITS)
        begin_round(link, now);
    if (resume->step == RESUME_DRAINS && kolo_rdma_queue_is_still(link->queue))
        offer(link);
    if (resume->step == RESUME_OFFERED && resume->has_theirs &&
        link->tcp.base.state == KOLO_LINK_UP)
        join(link);
}

kolo_deadline kolo_rdma_resume_step(struct rdma_link *link)
{
    const struct rdma_resume *resume = &link->resume;
    if (resume->step == RESUME_NONE || link->tcp.base.state != KOLO_LINK_UP)
        return KOLO_NEVER;
    kolo_deadline now = kolo_now_ns();
    if (now >= resume->until)
        give_up_late(link);
    else
        take_step(link, now);
    if (resume->step == RESUME_NONE || link->tcp.base.state != KOLO_LINK_UP)
        return KOLO_NEVER;
    return resume->step == RESUME_WAITS ? kolo_deadline_min(resume->begins_at, resume->until)
                                        : resume->until;
}

void kolo_rdma_resume_proved(struct rdma_link *link)
{
    struct rdma_resume *resume = &link->resume;
    /* Proved by what was posted again, since any of it may be what broke the pair before. */
    if (!resume->is_unproved || resume->step != RESUME_NONE ||
        link->queue->sends.first < resume->proves)
        return;
    resume->is_unproved = false;
    KOLO_WARN(
        "rank %d on %.63s by rdma: back after %.3f s with another queue pair, %u requests were "
        "posted again",
        link->tcp.base.peer, kolo_rdma_peer_host(link),
        (double)(kolo_now_ns() - resume->begun) / 1e9, resume->replayed);
}

void kolo_rdma_resume_end(struct rdma_resume *resume)
{
    resume->step = RESUME_NONE;
    keep(&resume->why, NULL);
    keep(&resume->failed, NULL);
}
