// SPDX-License-Identifier: Apache-2.0
// Links between ranks that are threads of one process: moves frames over a pair (inproc_pair.c
// makes the pairs). Must never read a sender's memory after the sender took it back.
//
// A node is a frame. A short payload is copied into it, and its sender is done at once. A longer
// message is lent: the consumer copies or reduces directly from the sender's buffer. The state of a
// loan decides who frees it and who may read:
//
//   PENDING --claim--> TAKEN --release--> DONE        the lender frees it, sees DONE in pull
//      |\--release (dropped unread)-----> DONE
//      \---withdraw--> WITHDRAWN                      the borrower frees it, fails to claim it
//
// Withdrawing a TAKEN loan waits for DONE: the other thread is within a single copy.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/wire.h"
#include "transport/board_private.h"
#include "transport/inproc_pair.h"

enum {
    COPIED_BYTES_MAX = 2048 /* up to this size a copy costs less than waiting for the other */
};
_Static_assert((int)COPIED_BYTES_MAX >= (int)KOLO_CONTROL_BYTES_MAX, "control frames are copied");

struct inproc_link {
    struct kolo_link base;
    struct kolo_inproc_pair *pair;
    int side;
    struct kolo_inproc_loan *loan_first, *loan_last;
    struct kolo_inproc_node *received; /* being received, by callbacks that may end the link */
};

/* ---- ports ---- */

static kolo_status inproc_open(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                               struct kolo_address *address_out)
{
    uint64_t cookie;
    kolo_status status = kolo_random(&cookie, sizeof cookie);
    if (status != KOLO_OK)
        return status;
    struct kolo_inproc_port *port = kolo_calloc(1, sizeof *port);
    if (!port)
        return KOLO_ERR_NO_MEMORY;
    port->cookie = cookie;
    port->rank = kolo_endpoint_config_of(endpoint)->rank;
    port->event_fd = kolo_poller_event_fd(kolo_endpoint_poller(endpoint));
    port->base.doorbell = &port->bell;
    atomic_init(&port->refs, 1);
    pthread_mutex_init(&port->mutex, NULL);
    kolo_inproc_register(port);

    struct kolo_writer writer = kolo_writer_over(address_out->data, sizeof address_out->data);
    kolo_write_u64(&writer, cookie);
    address_out->bytes = sizeof cookie;
    *port_out = &port->base;
    return KOLO_OK;
}

static bool inproc_reaches(const struct kolo_port *port, const struct kolo_peer *peer,
                           struct kolo_why *why_out)
{
    bool is_same =
        kolo_endpoint_config_of(port->endpoint)->identity.process == peer->identity.process;
    snprintf(why_out->text, sizeof why_out->text, "%s",
             is_same ? "same process" : "another process");
    return is_same;
}

static bool inproc_poll(struct kolo_port *base)
{
    struct kolo_inproc_port *port = (struct kolo_inproc_port *)base;
    bool has_news = atomic_load_explicit(&port->has_news, memory_order_relaxed) &&
                    atomic_exchange(&port->has_news, false);
    if (!atomic_load(&port->has_incoming))
        return has_news;
    pthread_mutex_lock(&port->mutex);
    atomic_store(&port->has_incoming, false);
    struct kolo_inproc_pair *list = port->incoming;
    port->incoming = NULL;
    pthread_mutex_unlock(&port->mutex);
    bool found = list || has_news;
    while (list) {
        struct kolo_inproc_pair *pair = list;
        list = pair->next;
        pair->next = NULL;
        int side = kolo_inproc_side(pair, port);
        port->offered = pair;
        kolo_endpoint_attach(base, pair->ports[1 - side]->rank);
        if (port->offered) { /* no link was made of it */
            port->offered = NULL;
            kolo_inproc_pair_close(pair, side);
            kolo_inproc_pair_unref(pair);
        }
    }
    return found;
}

static void inproc_close(struct kolo_port *base)
{
    struct kolo_inproc_port *port = (struct kolo_inproc_port *)base;
    kolo_inproc_unregister(port);
    pthread_mutex_lock(&port->mutex);
    port->is_closed = true;
    struct kolo_inproc_pair *list = port->incoming;
    port->incoming = NULL;
    pthread_mutex_unlock(&port->mutex);
    while (list) {
        struct kolo_inproc_pair *pair = list;
        list = pair->next;
        kolo_inproc_pair_close(pair, kolo_inproc_side(pair, port));
        kolo_inproc_pair_unref(pair);
    }
    kolo_inproc_port_unref(port);
}

/* ---- links ---- */

static kolo_status find_pair(struct kolo_inproc_port *port, int peer,
                             struct kolo_inproc_pair **pair_out)
{
    kolo_status status = KOLO_OK;
    if (port->offered) {
        *pair_out = port->offered;
        port->offered = NULL;
        return KOLO_OK;
    }
    /* A peer that sent something and closed is no longer in the table, but what it sent is here. */
    *pair_out = kolo_inproc_take(port, peer);
    if (*pair_out)
        return KOLO_OK;
    const struct kolo_address *address =
        kolo_port_address_of(&port->base, kolo_endpoint_peer(port->base.endpoint, peer));
    if (address->bytes != sizeof(uint64_t))
        return kolo_fail(KOLO_ERR_DATA, "the inproc address of rank %d is malformed", peer);
    struct kolo_reader reader = kolo_reader_over(address->data, address->bytes);
    struct kolo_inproc_port *other = kolo_inproc_find(kolo_read_u64(&reader));
    if (!other || other->rank != peer) {
        kolo_inproc_port_unref(other);
        return kolo_fail(KOLO_ERR_PEER, "rank %d, a thread of this process, has closed", peer);
    }
    struct kolo_inproc_pair *pair = kolo_inproc_join(port, other, &status);
    kolo_inproc_port_unref(other);
    if (!pair)
        return status;
    *pair_out = pair;
    return KOLO_OK;
}

static void inproc_free_link(struct kolo_link *base)
{
    struct inproc_link *link = (struct inproc_link *)base;
    kolo_link_fini(base);
    kolo_inproc_pair_unref(link->pair);
    kolo_free_memory(link);
}

static kolo_status inproc_connect(struct kolo_port *base, int peer, int fd, kolo_deadline deadline,
                                  struct kolo_link **link_out)
{
    struct kolo_inproc_port *port = (struct kolo_inproc_port *)base;
    kolo_status status;
    (void)fd;
    (void)deadline; /* it is up at once, or fails */
    struct inproc_link *link = kolo_calloc(1, sizeof *link);
    if (!link)
        return KOLO_ERR_NO_MEMORY;
    kolo_link_init(&link->base, base, peer);
    KOLO_TRY(find_pair(port, peer, &link->pair));
    link->side = kolo_inproc_side(link->pair, port);
    kolo_link_set_up(&link->base);
    *link_out = &link->base;
    return KOLO_OK;
out:
    inproc_free_link(&link->base);
    return status;
}

static struct kolo_inproc_port *peer_port(const struct inproc_link *link)
{
    return link->pair->ports[1 - link->side];
}

struct kolo_inproc_port *kolo_inproc_peer(struct kolo_link *link)
{
    return peer_port((struct inproc_link *)link);
}

/* ---- out ---- */

static bool inproc_is_remote(struct kolo_link *link, const struct kolo_work *work)
{
    (void)link;
    return work->bytes > COPIED_BYTES_MAX;
}

static struct kolo_inproc_loan *lend(struct inproc_link *link, const struct kolo_frame *frame)
{
    struct kolo_inproc_loan *loan = kolo_calloc(1, sizeof *loan);
    if (!loan)
        return NULL;
    atomic_init(&loan->state, LOAN_PENDING);
    loan->frame = *frame;
    if (link->loan_last)
        link->loan_last->next = loan;
    else
        link->loan_first = loan;
    link->loan_last = loan;
    return loan;
}

static void unlink_loan(struct inproc_link *link, struct kolo_inproc_loan *loan,
                        struct kolo_inproc_loan *before)
{
    if (before)
        before->next = loan->next;
    else
        link->loan_first = loan->next;
    if (link->loan_last == loan)
        link->loan_last = before;
}

/* Puts one frame into the peer's queue. */
static kolo_status publish(struct inproc_link *link, const struct kolo_frame *frame)
{
    struct kolo_inproc_queue *queue = &link->pair->queues[1 - link->side];
    size_t bytes = frame->is_remote ? 0 : frame->bytes;
    struct kolo_inproc_node *node = kolo_aligned(_Alignof(max_align_t), sizeof *node + bytes);
    if (!node)
        return KOLO_ERR_NO_MEMORY;
    atomic_init(&node->next, NULL);
    node->header = frame->header;
    node->loan = NULL;
    if (frame->is_remote) {
        node->loan = lend(link, frame);
        if (!node->loan) {
            kolo_free_memory(node);
            return KOLO_ERR_NO_MEMORY;
        }
    } else if (bytes > 0) {
        memcpy(node->payload, frame->payload, bytes);
    }
    atomic_store(&queue->tail->next, node);
    queue->tail = node;
    if (!frame->is_remote)
        kolo_link_frame_done(&link->base, frame);
    return KOLO_OK;
}

static bool inproc_push(struct kolo_link *base)
{
    struct inproc_link *link = (struct inproc_link *)base;
    struct kolo_frame frame;
    bool moved = false;
    if (atomic_load_explicit(&link->pair->is_closed[1 - link->side], memory_order_relaxed))
        return false; /* pull reads what is left, and ends the link */
    while (kolo_link_next_frame(base, COPIED_BYTES_MAX, &frame)) {
        kolo_status status = publish(link, &frame);
        moved = true;
        if (status != KOLO_OK) {
            kolo_link_set_down(base, status);
            kolo_link_frame_done(base, &frame);
            break;
        }
    }
    if (moved)
        kolo_inproc_ring(peer_port(link));
    return moved;
}

/* ---- in ---- */

static bool inproc_claim(struct kolo_link *link, uint64_t cookie)
{
    struct kolo_inproc_loan *loan = (struct kolo_inproc_loan *)(uintptr_t)cookie;
    int expected = LOAN_PENDING;
    (void)link;
    if (atomic_compare_exchange_strong(&loan->state, &expected, LOAN_TAKEN))
        return true;
    kolo_free_memory(loan);
    return false;
}

static bool inproc_release(struct kolo_link *link, uint64_t cookie)
{
    struct kolo_inproc_loan *loan = (struct kolo_inproc_loan *)(uintptr_t)cookie;
    int expected = LOAN_PENDING;
    if (atomic_compare_exchange_strong(&loan->state, &expected, LOAN_DONE)) {
        kolo_inproc_ring(peer_port((struct inproc_link *)link));
    } else if (expected == LOAN_TAKEN) {
        atomic_store(&loan->state, LOAN_DONE);
        kolo_inproc_ring(peer_port((struct inproc_link *)link));
    } else {
        kolo_free_memory(loan);
    }
    return true; /* a sender that takes back what is being read waits for the end of the copy */
}

static kolo_status receive(struct kolo_link *link, const struct kolo_inproc_node *node)
{
    struct kolo_inproc_loan *loan = node->loan;
    if (loan)
        return kolo_link_rx_remote(link, &node->header, loan->frame.payload, loan->frame.bytes,
                                   (uint64_t)(uintptr_t)loan);
    kolo_status status = kolo_link_rx_begin(link, &node->header);
    if (status != KOLO_OK)
        return status;
    kolo_sink_put(&link->sink, node->payload, node->header.bytes);
    return kolo_link_rx_end(link);
}

/* The next node, which still belongs to the queue until the one after it is taken; NULL: the queue
 * is empty. */
static struct kolo_inproc_node *take(struct inproc_link *link)
{
    struct kolo_inproc_queue *queue = &link->pair->queues[link->side];
    struct kolo_inproc_node *node = atomic_load(&queue->head->next);
    if (!node)
        return NULL;
    if (queue->head != link->received)
        kolo_free_memory(queue->head);
    queue->head = node;
    return node;
}

static bool collect_loans(struct inproc_link *link)
{
    struct kolo_inproc_loan *before = NULL;
    bool moved = false;
    for (struct kolo_inproc_loan *loan = link->loan_first, *next; loan; loan = next) {
        next = loan->next;
        if (atomic_load(&loan->state) != LOAN_DONE) {
            before = loan;
            continue;
        }
        unlink_loan(link, loan, before);
        kolo_link_frame_done(&link->base, &loan->frame);
        kolo_free_memory(loan);
        moved = true;
    }
    return moved;
}

static bool inproc_pull(struct kolo_link *base)
{
    struct inproc_link *link = (struct inproc_link *)base;
    struct kolo_inproc_node *node;
    bool is_closed = atomic_load(&link->pair->is_closed[1 - link->side]);
    bool moved = collect_loans(link);
    while (base->state == KOLO_LINK_UP && (node = take(link)) != NULL) {
        /* first what the peer read before it sent this, since a goodbye would fail those sends */
        moved |= collect_loans(link);
        link->received = node;
        kolo_status status = receive(base, node);
        node->loan = NULL; /* done, or in the stash */
        link->received = NULL;
        if (link->pair->queues[link->side].head != node) /* inproc_down() has taken all others */
            kolo_free_memory(node);
        moved = true;
        if (status != KOLO_OK)
            kolo_link_set_down(base, status);
    }
    if (is_closed && base->state == KOLO_LINK_UP) {
        kolo_fail(KOLO_ERR_LINK, "rank %d, a thread of this process, closed without a goodbye",
                  base->peer);
        kolo_link_set_down(base, KOLO_ERR_LINK);
        moved = true;
    }
    return moved;
}

/* ---- taking back ---- */

static void inproc_withdraw(struct kolo_link *base, struct kolo_work *work)
{
    struct inproc_link *link = (struct inproc_link *)base;
    struct kolo_inproc_loan *before = NULL;
    for (struct kolo_inproc_loan *loan = link->loan_first, *next; loan; loan = next) {
        next = loan->next;
        if (loan->frame.work != work) {
            before = loan;
            continue;
        }
        unlink_loan(link, loan, before);
        int expected = LOAN_PENDING;
        if (atomic_compare_exchange_strong(&loan->state, &expected, LOAN_WITHDRAWN))
            continue;
        while (atomic_load(&loan->state) != LOAN_DONE)
            sched_yield();
        kolo_free_memory(loan);
    }
}

static void inproc_down(struct kolo_link *base)
{
    struct inproc_link *link = (struct inproc_link *)base;
    struct kolo_inproc_node *node;
    atomic_store(&link->pair->is_closed[link->side], true);
    while ((node = take(link)) != NULL) {
        if (node->loan)
            inproc_release(base, (uint64_t)(uintptr_t)node->loan);
        node->loan = NULL;
    }
    kolo_inproc_ring(peer_port(link));
}

static bool inproc_is_drained(const struct kolo_link *link)
{
    return ((const struct inproc_link *)link)->loan_first == NULL;
}

static void inproc_describe(const struct kolo_link *link, char *text, size_t capacity)
{
    snprintf(text, capacity, "inproc rank %d", link->peer);
}

const struct kolo_transport kolo_transport_inproc = {
    .name = "inproc",
    .open = inproc_open,
    .close = inproc_close,
    .reaches = inproc_reaches,
    .connect = inproc_connect,
    .poll = inproc_poll,
    .push = inproc_push,
    .pull = inproc_pull,
    .is_remote = inproc_is_remote,
    .claim = inproc_claim,
    .release = inproc_release,
    .withdraw = inproc_withdraw,
    .describe = inproc_describe,
    .is_drained = inproc_is_drained,
    .down = inproc_down,
    .free_link = inproc_free_link,
    .boards = &kolo_board_inproc,
};
