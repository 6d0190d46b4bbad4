// SPDX-License-Identifier: Apache-2.0
// RDMA devices in memory, behind the table of functions of transport/rdma_verbs.h: reliable
// connected queue pairs between devices of one process. They treat a careless program as real
// devices do: a send queue stays full until completions are polled, a receiver may be not ready,
// keys and bounds are checked, the fields of a completion in error hold garbage, and after the
// first error everything that is posted is flushed. Tests inject faults on demand. Bytes move when
// a request is posted, or when a thread polls a completion queue.
//
// Threads: any; one lock guards everything. The state is global, so call fake_verbs_reset() before
// each test.
#ifndef KOLO_TESTS_SUPPORT_FAKE_VERBS_H
#define KOLO_TESTS_SUPPORT_FAKE_VERBS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/settings.h"
#include "transport/rdma_verbs.h"

enum { FAKE_DEVICES_MAX = 4, FAKE_PORTS_MAX = 2, FAKE_GIDS_MAX = 8 };

struct fake_port {
    struct ibv_port_attr attr;
    struct ibv_gid_entry gids[FAKE_GIDS_MAX];
    int gid_count;
};

/** Change its fields before the device is opened. */
struct fake_device {
    struct ibv_device base; /* must be the first member */
    int open_error;         /* errno of ibv_open_device; 0: it succeeds */
    struct ibv_device_attr attr;
    struct fake_port ports[FAKE_PORTS_MAX];
    bool is_removed, is_unplugged;
    int fail_in;
    enum ibv_wc_status fail_as;
    bool fails_late;
    int refuse_in;
    uint32_t inline_most; /* sends of at most this many bytes need no registered memory */
    int slow;             /* number of polls that each request is delayed by */
    size_t written;       /* bytes written by its queue pairs */
};

/** Resets to two devices, fake0 (10.0.0.1) and fake1 (10.0.0.2): RoCE, with one active port each,
 * whose GIDs are RoCE v1 and v2 ones of that address and of a link-local one, of the interface lo.
 * All faults and counters are cleared. */
void fake_verbs_reset(void);
const struct kolo_verbs *fake_verbs_table(void);
/** The default settings, with KOLO_RDMA_DEVICE=@p device. Valid until the next call of this
 * thread. */
struct kolo_settings *fake_verbs_settings(const char *device);
struct fake_device *fake_verbs_device(int number);
/** Sets the number of devices; 0 is one of the faults. */
void fake_verbs_device_count(int count);
/** Adds a GID of @p type; @p address is "10.0.0.3" or an IPv6 address. GIDs of RoCE belong to the
 * interface lo. */
void fake_verbs_add_gid(struct fake_port *port, uint32_t type, const char *address);
/** Moves the first GID to the end of the table, so that every one has another index. */
void fake_verbs_turn_gids(struct fake_port *port);

/** The @p nth call from now of @p function (the name of its field in the table) fails with errno @p
 * error. An object whose destruction fails in this way lives until its device is closed, or for
 * ever if closing fails. */
void fake_verbs_fail(const char *function, int nth, int error);
/** The @p nth send request executed from now completes with @p status. */
void fake_verbs_complete_as(int nth, enum ibv_wc_status status);
/** Like fake_verbs_complete_as() with IBV_WC_RETRY_EXC_ERR, but the message has arrived: only the
 * acknowledgement was lost. */
void fake_verbs_lose_answer(int nth);
/** From now on nothing passes between any two devices (true), or everything does again (false). */
void fake_verbs_cut_cable(bool is_cut);
/** The same for one device. */
void fake_verbs_unplug(struct fake_device *device, bool is_unplugged);
/** From now on each request of that device is delayed by @p polls polls. */
void fake_verbs_slow(struct fake_device *device, int polls);
/** The @p nth request that the device executes from now completes with @p status; with @p
 * has_arrived the message arrives nevertheless. */
void fake_verbs_fail_on(struct fake_device *device, int nth, enum ibv_wc_status status,
                        bool has_arrived);
/** The @p nth receive posted on the device from now is refused. */
void fake_verbs_refuse_receive(struct fake_device *device, int nth);
/** One bit of the @p nth request of at least @p least bytes that is executed from now is flipped on
 * the way: in byte @p at, which counts from the end if it is negative. A message begins with the
 * header of its frame. The second function does it to @p bits of the 32-bit number of the @p nth
 * request with that opcode. The third one says whether that has happened. */
void fake_verbs_flip(int nth, size_t least, ptrdiff_t at);
void fake_verbs_flip_number(enum ibv_wr_opcode opcode, int nth, uint32_t bits);
bool fake_verbs_flipped(void);
/** From now on requests of more than @p most bytes are lost, as on a path with a smaller MTU. */
void fake_verbs_narrow(size_t most);
/** The @p nth send request executed from now is delayed by @p polls polls. */
void fake_verbs_delay(int nth, int polls);
/** The @p nth completion from now is delivered twice. */
void fake_verbs_duplicate(int nth);
/** The @p nth completion from now changes places with the one after it in its queue. */
void fake_verbs_swap(int nth);
/** The device is unplugged from the machine: its queue pairs fail, posts fail, and an event reports
 * it. From then on its event descriptor is always readable, and reading gives EIO. */
void fake_verbs_remove(struct fake_device *device);
/** Raises the event only. */
void fake_verbs_tell(struct fake_device *device, enum ibv_event_type type, int port);

/** The number of contexts, domains, regions, queues, channels and queue pairs that exist. */
int fake_verbs_living(void);
/** The number of regions that exist, and the number ever registered. */
int fake_verbs_regions(void);
int fake_verbs_registered(void);
/** How often device events were read. */
int fake_verbs_asked_news(void);
/** How often completion queues were polled. */
int fake_verbs_polls(void);
/** Bytes that were written directly to an address of the peer; of all devices, and of one. */
size_t fake_verbs_written(void);
size_t fake_verbs_written_by(struct fake_device *device);
/** Bytes of sends after the first element of their scatter-gather list. */
size_t fake_verbs_lent(void);
/** Sends that were executed, and how many of them were signalled. */
void fake_verbs_sends(int *done_out, int *told_out);
/** How often a sender met a receiver that was not ready. */
int fake_verbs_not_ready(void);

/** Resets the devices and makes the library use them. */
static inline void fake_verbs_install(void)
{
    fake_verbs_reset();
    kolo_verbs_replace(fake_verbs_table());
}
static inline void fake_verbs_uninstall(void)
{
    kolo_verbs_replace(NULL);
}

#endif
