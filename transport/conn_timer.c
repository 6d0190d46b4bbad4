// SPDX-License-Identifier: Apache-2.0
// Owns the timers of a poller's connections, in a list that exists while there is any timer; and
// keeps the pointer to the room that its listeners share (conn_listener.c) while they do. Must
// never sleep, and never fire a timer twice in one pass: a timer that fires may add and remove any
// timer, including itself.
#include "base/alloc.h"
#include "transport/conn_private.h"

struct kolo_conn_list {
    struct kolo_conn_timer *first;
    uint64_t round;
    struct kolo_conn_room *room;
};

struct kolo_conn_room **kolo_conn_room(struct kolo_poller *poller)
{
    return &(*kolo_poller_conns(poller))->room;
}

kolo_status kolo_conn_timer_add(struct kolo_conn_timer *timer, struct kolo_poller *poller)
{
    struct kolo_conn_list **list = kolo_poller_conns(poller);

    if (!*list)
        *list = kolo_calloc(1, sizeof **list);
    if (!*list)
        return KOLO_ERR_NO_MEMORY;
    timer->poller = poller;
    timer->previous = NULL;
    timer->next = (*list)->first;
    timer->round = (*list)->round; /* not fired by a pass that is under way */
    if (timer->next)
        timer->next->previous = timer;
    (*list)->first = timer;
    return KOLO_OK;
}

void kolo_conn_timer_remove(struct kolo_conn_timer *timer)
{
    struct kolo_conn_list **list;

    if (!timer->poller)
        return;
    list = kolo_poller_conns(timer->poller);
    if (timer->next)
        timer->next->previous = timer->previous;
    if (timer->previous)
        timer->previous->next = timer->next;
    else
        (*list)->first = timer->next;
    timer->poller = NULL;
    if (!(*list)->first && (*list)->round % 2 == 0) {
        kolo_free_memory(*list);
        *list = NULL;
    }
}

/** A timer that is due and was not fired in this pass. Timers that fire may add and remove any
 *  other, so the list is searched from its start. */
static struct kolo_conn_timer *find_due(const struct kolo_conn_list *list, kolo_deadline now)
{
    struct kolo_conn_timer *timer = list->first;

    while (timer && (timer->at > now || timer->round == list->round))
        timer = timer->next;
    return timer;
}

kolo_deadline kolo_conn_expire(struct kolo_poller *poller)
{
    struct kolo_conn_list **list = kolo_poller_conns(poller);
    struct kolo_conn_timer *timer;
    kolo_deadline now, next = KOLO_NEVER;

    if (!*list)
        return KOLO_NEVER;
    if ((*list)->round % 2 == 0) { /* otherwise called from a timer that fires, for the next time
                                    * only */
        now = kolo_now_ns();
        (*list)->round++; /* odd: keeps the list alive */
        while ((timer = find_due(*list, now)) != NULL) {
            timer->round = (*list)->round;
            timer->fire(timer, now);
        }
        (*list)->round++;
    }
    for (timer = (*list)->first; timer; timer = timer->next)
        next = kolo_deadline_min(next, timer->at);
    if (!(*list)->first && (*list)->round % 2 == 0) {
        kolo_free_memory(*list);
        *list = NULL;
    }
    return next;
}
