// SPDX-License-Identifier: Apache-2.0
// RDMA devices in memory, behind the table of transport/rdma_verbs.h: reliable connected queue
// pairs between devices of one process, with what real ones do to a program that is careless (a
// send queue that is full until completions are polled, a receiver that is not ready, keys and
// bounds that are checked, garbage in the fields of a completion in error, all that is posted
// flushed after the first), and faults on demand. Bytes move when they are posted, or when somebody
// polls a completion queue.
//
// Threads: any; one lock. All is one world: fake_verbs_reset() before each test.
#ifndef KOLO_TESTS_SUPPORT_FAKE_VERBS_H
#define KOLO_TESTS_SUPPORT_FAKE_VERBS_H

#include <stdbool.h>

#include "base/settings.h"
#include "transport/rdma_verbs.h"

enum { FAKE_DEVICES_MAX = 4, FAKE_PORTS_MAX = 2, FAKE_GIDS_MAX = 8 };

struct fake_port {
    struct ibv_port_attr attr;
    struct ibv_gid_entry gids[FAKE_GIDS_MAX];
    int gid_count;
};

/** Change what is in it before the device is opened. */
struct fake_device {
    struct ibv_device base; /* first */
    int open_error;         /* what ibv_open_device fails with; 0: it does not */
    struct ibv_device_attr attr;
    struct fake_port ports[FAKE_PORTS_MAX];
    bool is_removed, is_unplugged;
    int fail_in;
    enum ibv_wc_status fail_as;
    bool fails_late;
    int refuse_in;
    uint32_t inline_most; /* bytes of a send that need not be registered */
    int slow;             /* polls that each request waits for */
    size_t written;       /* bytes, by its pairs */
};

/** Two devices, fake0 (10.0.0.1) and fake1 (10.0.0.2): RoCE, one active port, GIDs of RoCE v1 and
 * v2 for the address and for a link-local one, of the interface lo. No fault, nothing counted. */
void fake_verbs_reset(void);
const struct kolo_verbs *fake_verbs_table(void);
/** Settings as they are by default, but for KOLO_RDMA_DEVICE. Good until the next call of this
 * thread. */
struct kolo_settings *fake_verbs_settings(const char *device);
struct fake_device *fake_verbs_device(int number);
/** How many there are; 0 is one of the faults. */
void fake_verbs_device_count(int count);
/** Adds a GID of @p type: "10.0.0.3" or an IPv6 address. Those of RoCE belong to the interface
 * lo. */
void fake_verbs_add_gid(struct fake_port *port, uint32_t type, const char *address);

/** The @p nth call from now of that function of the table (its field's name) fails with errno @p
 * error. What is not destroyed so goes on until its device is closed, or for ever if that
 * failed. */
void fake_verbs_fail(const char *function, int nth, int error);
/** The @p nth send request carried out from now ends in @p status. */
void fake_verbs_complete_as(int nth, enum ibv_wc_status status);
/** The same, IBV_WC_RETRY_EXC_ERR, but it has arrived: the answer was lost. */
void fake_verbs_lose_answer(int nth);
/** From here on nothing gets through between any devices, or all does again. */
void fake_verbs_cut_cable(bool is_cut);
/** The same for one device alone. */
void fake_verbs_unplug(struct fake_device *device, bool is_unplugged);
/** From here on each request of that device waits for so many polls first. */
void fake_verbs_slow(struct fake_device *device, int polls);
/** The @p nth request that device carries out from now ends in @p status; @p has_arrived: but it
 * has arrived. */
void fake_verbs_fail_on(struct fake_device *device, int nth, enum ibv_wc_status status,
                        bool has_arrived);
/** The @p nth receive posted on that device from now is refused. */
void fake_verbs_refuse_receive(struct fake_device *device, int nth);
/** From here on requests of more than @p most bytes are lost, as where the way has a smaller
 * MTU. */
void fake_verbs_narrow(size_t most);
/** The @p nth send request carried out from now waits for so many polls first. */
void fake_verbs_delay(int nth, int polls);
/** The @p nth completion from now comes twice. */
void fake_verbs_duplicate(int nth);
/** The @p nth completion from now and the one after it in its queue change places. */
void fake_verbs_swap(int nth);
/** The device is pulled out: its queue pairs fail, posts fail, and an event says so. The file of
 * events is ready for ever then, and gives EIO. */
void fake_verbs_remove(struct fake_device *device);
/** The event alone. */
void fake_verbs_tell(struct fake_device *device, enum ibv_event_type type, int port);

/** Contexts, domains, regions, queues, channels and pairs that live. */
int fake_verbs_living(void);
/** Regions that live, and how many were made. */
int fake_verbs_regions(void);
int fake_verbs_registered(void);
/** How often events of devices were asked for. */
int fake_verbs_asked_news(void);
/** How often completions were asked for. */
int fake_verbs_polls(void);
/** Bytes that were written by their address; of one device's pairs. */
size_t fake_verbs_written(void);
size_t fake_verbs_written_by(struct fake_device *device);
/** Bytes of sends that lay elsewhere than what the send begins with. */
size_t fake_verbs_lent(void);
/** Sends that were carried out, and how many of them were told. */
void fake_verbs_sends(int *done_out, int *told_out);
/** How often a sender met a receiver that was not ready. */
int fake_verbs_not_ready(void);

/** The library uses it, anew. */
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
