// SPDX-License-Identifier: Apache-2.0
// Links between ranks that are threads of one process. Owns the queues between them. Must never
// read a sender's memory after the sender took it back, nor write to the eventfd of a rank that has
// closed.
//
// A pair joins two ranks; side 0 is the lower one. It has one queue for each direction, with one
// producer and one consumer. A node is a frame: short payload is copied into it (its sender is done
// at once), a longer message is lent: the consumer copies or reduces straight out of the sender's
// buffer. The state of a loan settles who frees it and who may read:
//
//   PENDING --claim--> TAKEN --release--> DONE        the lender frees it, sees DONE in pull
//      |\--release (dropped unread)-----> DONE
//      \---withdraw--> WITHDRAWN                      the borrower frees it, fails to claim it
//
// Withdrawing a TAKEN loan waits for DONE: the other thread is inside one copy.
//
// Ranks find each other by a random cookie in a table of the process (the one thing here that all
// ranks share, as ports share a host): a pointer in the address could not be checked once its owner
// has closed. The side that connects first makes the pair, under the locks of both ports (lower
// rank first), and puts it into the other's list of incoming ones, so there is never a second.
//
// Wake-up: bell is the doorbell word; who publishes something reads it afterwards, and writes to
// the eventfd under the port's lock, which close takes too.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/wire.h"
#include "transport/link.h"

enum {
    COPIED_BYTES_MAX = 2048, /* up to here a copy costs less than waiting for the other's thread */
    REGISTRY_BUCKETS = 256,
    LINE_BYTES = 64
};
_Static_assert((int)COPIED_BYTES_MAX >= (int)KOLO_CONTROL_BYTES_MAX, "control frames are copied");

enum loan_state { LOAN_PENDING, LOAN_TAKEN, LOAN_DONE, LOAN_WITHDRAWN };

struct loan {
    _Atomic int state;
    struct kolo_frame frame;
    struct loan *next;
};

struct node {
    struct node *_Atomic next;
    struct kolo_header header;
    struct loan *loan; /* NULL: the payload is here */
    uint8_t payload[];
};

/* Head is the node consumed last (at first an empty one); its next is the first to come. */
struct queue {
    struct node *head; /* the consumer's */
    uint8_t apart[LINE_BYTES];
    struct node *tail; /* the producer's */
    uint8_t apart_too[LINE_BYTES];
};

struct inproc_port {
    struct kolo_port base;
    struct inproc_port *next; /* in the registry */
    uint64_t cookie;
    int rank;
    atomic_int refs;
    _Atomic uint32_t bell;
    atomic_bool has_incoming;
    pthread_mutex_t mutex;
    bool is_closed;        /* mutex */
    int event_fd;          /* mutex */
    struct pair *incoming; /* mutex */
    struct pair *offered;  /* the owner's: what poll hands to connect */
};

struct pair {
    atomic_int refs;
    struct inproc_port *ports[2];
    atomic_bool is_closed[2];
    struct queue queues[2]; /* [i]: toward side i */
    struct pair *next;      /* in a list of incoming ones */
};

struct inproc_link {
    struct kolo_link base;
    struct pair *pair;
    int side;
    struct loan *loan_first, *loan_last;
};

static struct {
    pthread_mutex_t mutex;
    struct inproc_port *buckets[REGISTRY_BUCKETS];
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- ports ---- */

static void port_unref(struct inproc_port *port)
{
    if (port == NULL || atomic_fetch_sub(&port->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&port->mutex);
    kolo_free_memory(port);
}

static void registry_add(struct inproc_port *port)
{
    struct inproc_port **bucket = &registry.buckets[port->cookie % REGISTRY_BUCKETS];
    pthread_mutex_lock(&registry.mutex);
    port->next = *bucket;
    *bucket = port;
    pthread_mutex_unlock(&registry.mutex);
}

static void registry_remove(struct inproc_port *port)
{
    struct inproc_port **at = &registry.buckets[port->cookie % REGISTRY_BUCKETS];
    pthread_mutex_lock(&registry.mutex);
    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    pthread_mutex_unlock(&registry.mutex);
}

/* The live port of @p cookie with a reference for the caller, or NULL. */
static struct inproc_port *registry_find(uint64_t cookie)
{
    pthread_mutex_lock(&registry.mutex);
    struct inproc_port *port = registry.buckets[cookie % REGISTRY_BUCKETS];
    while (port != NULL && port->cookie != cookie)
        port = port->next;
    if (port != NULL)
        atomic_fetch_add(&port->refs, 1);
    pthread_mutex_unlock(&registry.mutex);
    return port;
}

/* After something was published for the rank of @p port. */
static void ring(struct inproc_port *port)
{
    if (atomic_load(&port->bell) == 0 || atomic_exchange(&port->bell, 0) == 0)
        return;
    pthread_mutex_lock(&port->mutex);
    if (!port->is_closed) {
        uint64_t one = 1;
        (void)!write(port->event_fd, &one, sizeof one);
    }
    pthread_mutex_unlock(&port->mutex);
}

static kolo_status inproc_open(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                               struct kolo_address *address_out)
{
    uint64_t cookie;
    if (getrandom(&cookie, sizeof cookie, 0) != (ssize_t)sizeof cookie)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "getrandom");
    struct inproc_port *port = kolo_calloc(1, sizeof *port);
    if (port == NULL)
        return KOLO_ERR_NO_MEMORY;
    port->cookie = cookie;
    port->rank = kolo_endpoint_config_of(endpoint)->rank;
    port->event_fd = kolo_poller_event_fd(kolo_endpoint_poller(endpoint));
    port->base.doorbell = &port->bell;
    atomic_init(&port->refs, 1);
    pthread_mutex_init(&port->mutex, NULL);
    registry_add(port);

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

/* ---- pairs ---- */

static void queue_fini(struct queue *queue)
{
    while (queue->head != NULL) {
        struct node *node = queue->head;
        queue->head = atomic_load_explicit(&node->next, memory_order_relaxed);
        kolo_free_memory(node->loan); /* withdrawn, since its lender is gone as well */
        kolo_free_memory(node);
    }
}

static void pair_unref(struct pair *pair)
{
    if (pair == NULL || atomic_fetch_sub(&pair->refs, 1) > 1)
        return;
    for (int side = 0; side < 2; side++) {
        queue_fini(&pair->queues[side]);
        port_unref(pair->ports[side]);
    }
    kolo_free_memory(pair);
}

/* A pair of the two, with references of its own to both ports. */
static struct pair *pair_create(struct inproc_port *lower, struct inproc_port *higher)
{
    struct pair *pair = kolo_calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    atomic_init(&pair->refs, 1);
    for (int side = 0; side < 2; side++) {
        struct node *empty = kolo_calloc(1, sizeof *empty);
        pair->queues[side].head = pair->queues[side].tail = empty;
        if (empty == NULL) {
            pair_unref(pair);
            return NULL;
        }
    }
    pair->ports[0] = lower;
    pair->ports[1] = higher;
    atomic_fetch_add(&lower->refs, 1);
    atomic_fetch_add(&higher->refs, 1);
    return pair;
}

static int side_of(const struct pair *pair, const struct inproc_port *port)
{
    return pair->ports[0] == port ? 0 : 1;
}

/* Tells the other side that nothing moves any more on ours. */
static void pair_close(struct pair *pair, int side)
{
    atomic_store(&pair->is_closed[side], true);
    ring(pair->ports[1 - side]);
}

/* The pair that @p theirs made for us, out of our list; held: our mutex. */
static struct pair *take_incoming(struct inproc_port *ours, const struct inproc_port *theirs)
{
    for (struct pair **at = &ours->incoming; *at != NULL; at = &(*at)->next) {
        struct pair *pair = *at;
        if (pair->ports[1 - side_of(pair, ours)] != theirs)
            continue;
        *at = pair->next;
        pair->next = NULL;
        return pair;
    }
    return NULL;
}

/* Takes the pair that @p theirs made, or makes one and puts it into their list. NULL with
 * *status_out set. */
static struct pair *join(struct inproc_port *ours, struct inproc_port *theirs,
                         kolo_status *status_out)
{
    struct inproc_port *lower = ours->rank < theirs->rank ? ours : theirs;
    struct inproc_port *higher = lower == ours ? theirs : ours;
    pthread_mutex_lock(&lower->mutex);
    pthread_mutex_lock(&higher->mutex);
    struct pair *pair = take_incoming(ours, theirs);
    if (pair == NULL && theirs->is_closed) {
        *status_out = kolo_fail(KOLO_ERR_CONNECT, "rank %d, a thread of this process, has closed",
                                theirs->rank);
    } else if (pair == NULL) {
        pair = pair_create(lower, higher);
        *status_out = KOLO_ERR_NO_MEMORY;
        if (pair != NULL) {
            atomic_fetch_add(&pair->refs, 1);
            pair->next = theirs->incoming;
            theirs->incoming = pair;
            atomic_store(&theirs->has_incoming, true);
        }
    }
    pthread_mutex_unlock(&higher->mutex);
    pthread_mutex_unlock(&lower->mutex);
    if (pair != NULL)
        ring(theirs);
    return pair;
}

static bool inproc_poll(struct kolo_port *base)
{
    struct inproc_port *port = (struct inproc_port *)base;
    if (!atomic_load(&port->has_incoming))
        return false;
    pthread_mutex_lock(&port->mutex);
    atomic_store(&port->has_incoming, false);
    struct pair *list = port->incoming;
    port->incoming = NULL;
    pthread_mutex_unlock(&port->mutex);
    bool found = list != NULL;
    while (list != NULL) {
        struct pair *pair = list;
        list = pair->next;
        pair->next = NULL;
        int side = side_of(pair, port);
        port->offered = pair;
        kolo_endpoint_attach(base, pair->ports[1 - side]->rank);
        if (port->offered != NULL) { /* no link came of it */
            port->offered = NULL;
            pair_close(pair, side);
            pair_unref(pair);
        }
    }
    return found;
}

static void inproc_close(struct kolo_port *base)
{
    struct inproc_port *port = (struct inproc_port *)base;
    registry_remove(port);
    pthread_mutex_lock(&port->mutex);
    port->is_closed = true;
    struct pair *list = port->incoming;
    port->incoming = NULL;
    pthread_mutex_unlock(&port->mutex);
    while (list != NULL) {
        struct pair *pair = list;
        list = pair->next;
        pair_close(pair, side_of(pair, port));
        pair_unref(pair);
    }
    port_unref(port);
}

/* ---- links ---- */

static kolo_status find_pair(struct inproc_port *port, int peer, struct pair **pair_out)
{
    kolo_status status = KOLO_OK;
    if (port->offered != NULL) {
        *pair_out = port->offered;
        port->offered = NULL;
        return KOLO_OK;
    }
    const struct kolo_address *address = NULL;
    const struct kolo_peer *theirs = kolo_endpoint_peer(port->base.endpoint, peer);
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i] != NULL; i++)
        if (kolo_transports[i] == port->base.transport)
            address = &theirs->addresses[i];
    if (address == NULL || address->bytes != sizeof(uint64_t))
        return kolo_fail(KOLO_ERR_DATA, "the inproc address of rank %d is malformed", peer);
    struct kolo_reader reader = kolo_reader_over(address->data, address->bytes);
    struct inproc_port *other = registry_find(kolo_read_u64(&reader));
    if (other == NULL || other->rank != peer) {
        port_unref(other);
        return kolo_fail(KOLO_ERR_CONNECT, "rank %d, a thread of this process, has closed", peer);
    }
    struct pair *pair = join(port, other, &status);
    port_unref(other);
    if (pair == NULL)
        return status;
    *pair_out = pair;
    return KOLO_OK;
}

static void inproc_free_link(struct kolo_link *base)
{
    struct inproc_link *link = (struct inproc_link *)base;
    kolo_link_fini(base);
    pair_unref(link->pair);
    kolo_free_memory(link);
}

static kolo_status inproc_connect(struct kolo_port *base, int peer, int fd, kolo_deadline deadline,
                                  struct kolo_link **link_out)
{
    struct inproc_port *port = (struct inproc_port *)base;
    kolo_status status;
    (void)fd;
    (void)deadline; /* it is up at once, or not at all */
    struct inproc_link *link = kolo_calloc(1, sizeof *link);
    if (link == NULL)
        return KOLO_ERR_NO_MEMORY;
    KOLO_TRY(kolo_link_init(&link->base, base, peer));
    KOLO_TRY(find_pair(port, peer, &link->pair));
    link->side = side_of(link->pair, port);
    kolo_link_set_up(&link->base);
    *link_out = &link->base;
    return KOLO_OK;
out:
    inproc_free_link(&link->base);
    return status;
}

static struct inproc_port *peer_port(const struct inproc_link *link)
{
    return link->pair->ports[1 - link->side];
}

/* ---- out ---- */

static bool inproc_is_remote(struct kolo_link *link, const struct kolo_work *work)
{
    (void)link;
    return work->bytes > COPIED_BYTES_MAX;
}

static struct loan *lend(struct inproc_link *link, const struct kolo_frame *frame)
{
    struct loan *loan = kolo_calloc(1, sizeof *loan);
    if (loan == NULL)
        return NULL;
    atomic_init(&loan->state, LOAN_PENDING);
    loan->frame = *frame;
    if (link->loan_last != NULL)
        link->loan_last->next = loan;
    else
        link->loan_first = loan;
    link->loan_last = loan;
    return loan;
}

static void unlink_loan(struct inproc_link *link, struct loan *loan, struct loan *before)
{
    if (before != NULL)
        before->next = loan->next;
    else
        link->loan_first = loan->next;
    if (link->loan_last == loan)
        link->loan_last = before;
}

/* Puts one frame into the peer's queue. */
static kolo_status publish(struct inproc_link *link, const struct kolo_frame *frame)
{
    struct queue *queue = &link->pair->queues[1 - link->side];
    size_t bytes = frame->is_remote ? 0 : frame->bytes;
    struct node *node = kolo_aligned(_Alignof(max_align_t), sizeof *node + bytes);
    if (node == NULL)
        return KOLO_ERR_NO_MEMORY;
    atomic_init(&node->next, NULL);
    node->header = frame->header;
    node->loan = NULL;
    if (frame->is_remote) {
        node->loan = lend(link, frame);
        if (node->loan == NULL) {
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
        return false; /* pull reads what is left and ends the link */
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
        ring(peer_port(link));
    return moved;
}

/* ---- in ---- */

static bool inproc_claim(struct kolo_link *link, uint64_t cookie)
{
    struct loan *loan = (struct loan *)(uintptr_t)cookie;
    int expected = LOAN_PENDING;
    (void)link;
    if (atomic_compare_exchange_strong(&loan->state, &expected, LOAN_TAKEN))
        return true;
    kolo_free_memory(loan);
    return false;
}

static void inproc_release(struct kolo_link *link, uint64_t cookie)
{
    struct loan *loan = (struct loan *)(uintptr_t)cookie;
    int expected = LOAN_PENDING;
    if (atomic_compare_exchange_strong(&loan->state, &expected, LOAN_DONE)) {
        ring(peer_port((struct inproc_link *)link));
    } else if (expected == LOAN_TAKEN) {
        atomic_store(&loan->state, LOAN_DONE);
        ring(peer_port((struct inproc_link *)link));
    } else {
        kolo_free_memory(loan);
    }
}

static kolo_status receive(struct kolo_link *link, const struct node *node)
{
    struct loan *loan = node->loan;
    if (loan != NULL)
        return kolo_link_rx_remote(link, &node->header, loan->frame.payload, loan->frame.bytes,
                                   (uint64_t)(uintptr_t)loan);
    kolo_status status = kolo_link_rx_begin(link, &node->header);
    if (status != KOLO_OK)
        return status;
    kolo_sink_put(&link->sink, node->payload, node->header.bytes);
    return kolo_link_rx_end(link);
}

/* The next node, which the queue goes on to own until the one after it is taken; NULL: empty. */
static struct node *take(struct queue *queue)
{
    struct node *node = atomic_load(&queue->head->next);
    if (node == NULL)
        return NULL;
    kolo_free_memory(queue->head);
    queue->head = node;
    return node;
}

static bool collect_loans(struct inproc_link *link)
{
    struct loan *before = NULL;
    bool moved = false;
    for (struct loan *loan = link->loan_first, *next; loan != NULL; loan = next) {
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
    struct node *node;
    bool is_closed = atomic_load(&link->pair->is_closed[1 - link->side]);
    bool moved = collect_loans(link);
    while (base->state == KOLO_LINK_UP && (node = take(&link->pair->queues[link->side])) != NULL) {
        kolo_status status = receive(base, node);
        node->loan = NULL; /* settled or in the stash */
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
    struct loan *before = NULL;
    for (struct loan *loan = link->loan_first, *next; loan != NULL; loan = next) {
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
    struct node *node;
    atomic_store(&link->pair->is_closed[link->side], true);
    while ((node = take(&link->pair->queues[link->side])) != NULL) {
        if (node->loan != NULL)
            inproc_release(base, (uint64_t)(uintptr_t)node->loan);
        node->loan = NULL;
    }
    ring(peer_port(link));
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
};
