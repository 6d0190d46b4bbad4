// SPDX-License-Identifier: Apache-2.0
// Owns the epoll descriptor and the eventfd of one rank. Must never run a callback for a watch that
// was removed, and never lose a wake.
//
// The watched descriptors are in the epoll set; the eventfd is not. A sleep polls both, and only a
// sleep drains the eventfd, so that a thread that dispatches meanwhile cannot consume the wake that
// was meant for the sleeper. As a result dispatch costs no system call while nothing is watched.
//
// Removal: dispatch works through a batch on its stack. The batches form a list, since a callback
// may dispatch again, and remove() deletes the watch from every one of them.
#include "transport/poller.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"

enum { BATCH_EVENTS = 64 };

struct batch {
    struct epoll_event events[BATCH_EVENTS];
    int count;
    struct batch *outer;
};

struct kolo_poller {
    int epoll_fd;
    int event_fd;
    size_t watches;
    struct batch *batch;
    struct kolo_conn_list *conns;
};

kolo_status kolo_poller_create(struct kolo_poller **poller_out)
{
    kolo_status status = KOLO_ERR_NO_MEMORY;
    struct kolo_poller *poller = kolo_calloc(1, sizeof *poller);
    if (!poller)
        return status;
    poller->event_fd = -1;
    poller->epoll_fd = kolo_descriptor_keep(epoll_create1(EPOLL_CLOEXEC));
    if (poller->epoll_fd < 0) {
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "epoll_create1");
        goto out;
    }
    poller->event_fd = kolo_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (poller->event_fd < 0) {
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "eventfd");
        goto out;
    }
    *poller_out = poller;
    return KOLO_OK;
out:
    kolo_poller_destroy(poller);
    return status;
}

void kolo_poller_destroy(struct kolo_poller *poller)
{
    if (!poller)
        return;
    if (poller->epoll_fd >= 0)
        close(poller->epoll_fd);
    if (poller->event_fd >= 0)
        close(poller->event_fd);
    kolo_free_memory(poller);
}

kolo_status kolo_poller_add(struct kolo_poller *poller, struct kolo_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) != 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "epoll_ctl: cannot watch fd %d", watch->fd);
    poller->watches++;
    return KOLO_OK;
}

void kolo_poller_modify(struct kolo_poller *poller, struct kolo_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    (void)epoll_ctl(poller->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void kolo_poller_remove(struct kolo_poller *poller, struct kolo_watch *watch)
{
    struct epoll_event unused = {0};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, watch->fd, &unused) == 0)
        poller->watches--;
    for (struct batch *batch = poller->batch; batch; batch = batch->outer)
        for (int i = 0; i < batch->count; i++)
            if (batch->events[i].data.ptr == watch)
                batch->events[i].data.ptr = NULL;
}

kolo_status kolo_poller_dispatch(struct kolo_poller *poller, int *count_out)
{
    int ran = 0;
    if (poller->watches > 0) {
        struct batch batch = {.outer = poller->batch};
        batch.count = epoll_wait(poller->epoll_fd, batch.events, BATCH_EVENTS, 0);
        if (batch.count < 0) {
            if (errno != EINTR)
                return kolo_fail_errno(KOLO_ERR_SYSTEM, errno,
                                       "epoll_wait (did the program close file descriptors that "
                                       "it had not opened, as closefrom does?)");
            batch.count = 0;
        }
        poller->batch = &batch;
        for (int i = 0; i < batch.count; i++) {
            struct kolo_watch *watch = batch.events[i].data.ptr;
            if (!watch)
                continue;
            watch->ready(watch, batch.events[i].events);
            ran++;
        }
        poller->batch = batch.outer;
    }
    if (count_out)
        *count_out = ran;
    return KOLO_OK;
}

void kolo_poller_sleep(struct kolo_poller *poller, kolo_deadline deadline)
{
    struct pollfd fds[] = {{.fd = poller->event_fd, .events = POLLIN},
                           {.fd = poller->epoll_fd, .events = POLLIN}};
    struct timespec left, *timeout = NULL;
    if (deadline != KOLO_NEVER) {
        int64_t now = kolo_now_ns();
        int64_t left_ns = deadline > now ? deadline - now : 0;
        left = kolo_timespec(left_ns);
        timeout = &left;
    }
    if (ppoll(fds, 2, timeout, NULL) > 0 && fds[0].revents != 0) {
        uint64_t wakes;
        (void)!read(poller->event_fd, &wakes, sizeof wakes);
    }
}

void kolo_poller_wake(struct kolo_poller *poller)
{
    uint64_t one = 1;
    (void)!write(poller->event_fd, &one, sizeof one);
}

int kolo_poller_event_fd(const struct kolo_poller *poller)
{
    return poller->event_fd;
}

struct kolo_conn_list **kolo_poller_conns(struct kolo_poller *poller)
{
    return &poller->conns;
}

int kolo_poller_fd(const struct kolo_poller *poller)
{
    return poller->epoll_fd;
}
