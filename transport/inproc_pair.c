// SPDX-License-Identifier: Apache-2.0
// How threads of one process find each other, and what lies between two of them. Must never write
// to the eventfd of a rank that has closed, and never make a second pair for two ranks.
//
// A pair joins two ranks; side 0 is the one with the lower rank. It has a queue for each direction,
// with one producer and one consumer.
//
// Ranks find each other by a random cookie, which is in their addresses, in a table of the process
// (the only state here that all ranks share). A pointer in the address would not do, since nobody
// could check it after its owner has closed. The side that connects first makes the pair, under the
// locks of both ports (lower rank first), and puts it into the other side's list of incoming pairs.
//
// Waking: `bell` is the doorbell word. Whoever publishes something reads it afterwards, and writes
// to the eventfd under the port's lock; close takes that lock too.
#include "transport/inproc_pair.h"

#include <unistd.h>

#include "base/alloc.h"

enum { REGISTRY_BUCKETS = 256 };

static struct {
    pthread_mutex_t mutex;
    struct kolo_inproc_port *buckets[REGISTRY_BUCKETS];
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- ports ---- */

void kolo_inproc_port_unref(struct kolo_inproc_port *port)
{
    if (!port || atomic_fetch_sub(&port->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&port->mutex);
    kolo_free_memory(port);
}

void kolo_inproc_register(struct kolo_inproc_port *port)
{
    struct kolo_inproc_port **bucket = &registry.buckets[port->cookie % REGISTRY_BUCKETS];
    pthread_mutex_lock(&registry.mutex);
    port->next = *bucket;
    *bucket = port;
    pthread_mutex_unlock(&registry.mutex);
}

void kolo_inproc_unregister(struct kolo_inproc_port *port)
{
    struct kolo_inproc_port **at = &registry.buckets[port->cookie % REGISTRY_BUCKETS];
    pthread_mutex_lock(&registry.mutex);
    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    pthread_mutex_unlock(&registry.mutex);
}

struct kolo_inproc_port *kolo_inproc_find(uint64_t cookie)
{
    pthread_mutex_lock(&registry.mutex);
    struct kolo_inproc_port *port = registry.buckets[cookie % REGISTRY_BUCKETS];
    while (port && port->cookie != cookie)
        port = port->next;
    if (port)
        atomic_fetch_add(&port->refs, 1);
    pthread_mutex_unlock(&registry.mutex);
    return port;
}

void kolo_inproc_ring(struct kolo_inproc_port *port)
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

/* ---- pairs ---- */

static void queue_fini(struct kolo_inproc_queue *queue)
{
    while (queue->head) {
        struct kolo_inproc_node *node = queue->head;
        queue->head = atomic_load_explicit(&node->next, memory_order_relaxed);
        kolo_free_memory(node->loan); /* withdrawn, since its lender has closed as well */
        kolo_free_memory(node);
    }
}

void kolo_inproc_pair_unref(struct kolo_inproc_pair *pair)
{
    if (!pair || atomic_fetch_sub(&pair->refs, 1) > 1)
        return;
    for (int side = 0; side < 2; side++) {
        queue_fini(&pair->queues[side]);
        kolo_inproc_port_unref(pair->ports[side]);
    }
    kolo_free_memory(pair);
}

/* Makes a pair of the two, with its own references to both ports. */
static struct kolo_inproc_pair *pair_create(struct kolo_inproc_port *lower,
                                            struct kolo_inproc_port *higher)
{
    struct kolo_inproc_pair *pair = kolo_calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    atomic_init(&pair->refs, 1);
    for (int side = 0; side < 2; side++) {
        struct kolo_inproc_node *empty = kolo_calloc(1, sizeof *empty);
        pair->queues[side].head = pair->queues[side].tail = empty;
        if (!empty) {
            kolo_inproc_pair_unref(pair);
            return NULL;
        }
    }
    pair->ports[0] = lower;
    pair->ports[1] = higher;
    atomic_fetch_add(&lower->refs, 1);
    atomic_fetch_add(&higher->refs, 1);
    return pair;
}

int kolo_inproc_side(const struct kolo_inproc_pair *pair, const struct kolo_inproc_port *port)
{
    return pair->ports[0] == port ? 0 : 1;
}

void kolo_inproc_pair_close(struct kolo_inproc_pair *pair, int side)
{
    atomic_store(&pair->is_closed[side], true);
    kolo_inproc_ring(pair->ports[1 - side]);
}

/* Removes the pair that rank @p peer made for us from our list and returns it; our mutex must be
 * held. */
static struct kolo_inproc_pair *take_incoming(struct kolo_inproc_port *ours, int peer)
{
    for (struct kolo_inproc_pair **at = &ours->incoming; *at; at = &(*at)->next) {
        struct kolo_inproc_pair *pair = *at;
        if (pair->ports[1 - kolo_inproc_side(pair, ours)]->rank != peer)
            continue;
        *at = pair->next;
        pair->next = NULL;
        return pair;
    }
    return NULL;
}

struct kolo_inproc_pair *kolo_inproc_take(struct kolo_inproc_port *ours, int peer)
{
    pthread_mutex_lock(&ours->mutex);
    struct kolo_inproc_pair *pair = take_incoming(ours, peer);
    pthread_mutex_unlock(&ours->mutex);
    return pair;
}

struct kolo_inproc_pair *kolo_inproc_join(struct kolo_inproc_port *ours,
                                          struct kolo_inproc_port *theirs, kolo_status *status_out)
{
    struct kolo_inproc_port *lower = ours->rank < theirs->rank ? ours : theirs;
    struct kolo_inproc_port *higher = lower == ours ? theirs : ours;
    pthread_mutex_lock(&lower->mutex);
    pthread_mutex_lock(&higher->mutex);
    struct kolo_inproc_pair *pair = take_incoming(ours, theirs->rank);
    if (!pair && theirs->is_closed) {
        *status_out =
            kolo_fail(KOLO_ERR_PEER, "rank %d, a thread of this process, has closed", theirs->rank);
    } else if (!pair) {
        pair = pair_create(lower, higher);
        *status_out = KOLO_ERR_NO_MEMORY;
        if (pair) {
            atomic_fetch_add(&pair->refs, 1);
            pair->next = theirs->incoming;
            theirs->incoming = pair;
            atomic_store(&theirs->has_incoming, true);
        }
    }
    pthread_mutex_unlock(&higher->mutex);
    pthread_mutex_unlock(&lower->mutex);
    if (pair)
        kolo_inproc_ring(theirs);
    return pair;
}
