// SPDX-License-Identifier: Apache-2.0
// An open RDMA device and one of its ports: how to find it, what it can do, its name in messages,
// and the events that say that it is gone. Also the list of all devices for `kolorun info`.
//
// Owns the verbs context and the protection domain. Other files make queues and regions on them,
// which must be gone before the device is closed.
//
// iWARP ports are listed and not used: only librdmacm can make their connections, and TCP reaches
// whatever they reach.
#ifndef KOLO_TRANSPORT_RDMA_DEVICE_H
#define KOLO_TRANSPORT_RDMA_DEVICE_H

#include "base/settings.h"
#include "transport/devices.h"
#include "transport/rdma_gid.h"

/** How long a queue pair tolerates silence: it sends again after 4.096 us * 2^timeout, this many
 *  times. */
struct kolo_rdma_patience {
    uint8_t timeout, retries;
};
/** Values that tolerate @p silent_ms, and at most a quarter more. At most 17 hours, which is the
 *  longest that a device can count; never for ever. */
struct kolo_rdma_patience kolo_rdma_patience_of(int64_t silent_ms);

struct kolo_rdma_refused; /* a registration that could not be undone (rdma_register.h) */
struct kolo_rdma_device {
    const struct kolo_verbs *verbs;
    struct ibv_context *context; /* its async_fd is non-blocking, for the poller */
    struct ibv_pd *domain;
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    bool is_ethernet;
    enum ibv_port_state state;
    uint32_t rate_mbit;                      /* 0: not known */
    int numa_node;                           /* -1: not known */
    char directory[IBV_SYSFS_PATH_MAX + 32]; /* of its card, in /sys */
    bool is_hardware;                        /* there is such a card; else rate_mbit means little */
    bool is_gone;                            /* nothing of it works any more */
    uint16_t lid;                            /* of InfiniBand; otherwise 0 */
    enum ibv_mtu mtu;
    struct kolo_rdma_patience patience; /* for its queue pairs, from KOLO_PEER_TIMEOUT */
    struct kolo_rdma_gids gids;
    uint32_t parts_max;         /* of one request (SGEs) */
    uint32_t completions_max;   /* in one completion queue */
    uint32_t message_bytes_max; /* of one write or send */
    struct kolo_rdma_refused *refused;
};

/** @p device may be NULL. */
void kolo_rdma_device_close(struct kolo_rdma_device *device);

/** Called for a port: it is open, or why it cannot be used (@p status, and the detail). For a
 *  device that cannot be opened, @p device is NULL and @p number is 0. Return true to continue with
 *  the next port; false takes over the device, which is open. */
typedef bool kolo_rdma_port_visit(void *context, struct kolo_rdma_device *device, const char *name,
                                  uint8_t number, kolo_status status);
/** Visits the ports of device @p name ("": of all devices), with the addresses that @p net allows
 *  (as KOLO_NET). ERR_UNSUPPORTED: there is no device at all, or devices cannot be listed. */
kolo_status kolo_rdma_ports_visit(const struct kolo_verbs *verbs, const char *name, const char *net,
                                  kolo_rdma_port_visit *told, void *context) KOLO_NODISCARD;
/** Prepares a device for use: makes a protection domain, and makes its events non-blocking.
 *  ERR_UNSUPPORTED, ERR_SYSTEM. */
kolo_status kolo_rdma_device_prepare(struct kolo_rdma_device *device) KOLO_NODISCARD;

/** Takes the device's events; never blocks. ERR_LINK: the device is gone or broken, as the detail
 *  says, and its file may stay readable for ever. Temporary events (a port that lost its cable may
 *  get it back) are logged; the retries of the queue pairs decide. */
kolo_status kolo_rdma_device_news(struct kolo_rdma_device *device) KOLO_NODISCARD;

/** Queries the state of its port: "active", "down". */
const char *kolo_rdma_device_ask_state(struct kolo_rdma_device *device);

/** To be called after the port was down: reads its state, MTU and LID again, and where *@p gid, one
 *  of its addresses, is in its table. ERR_LINK: the port is not active, or does not have that
 *  address any more. */
kolo_status kolo_rdma_device_look_again(struct kolo_rdma_device *device,
                                        struct kolo_rdma_gid *gid) KOLO_NODISCARD;
/** To be called before a pair is made at an address that was read earlier: the same, except that a
 *  port that is down is no error, since it may come back while the pair is tried. */
kolo_status kolo_rdma_device_find_gid(struct kolo_rdma_device *device,
                                      struct kolo_rdma_gid *gid) KOLO_NODISCARD;

enum { KOLO_RDMA_PORT_TEXT_MAX = 128 };
/** Writes "rxe0 port 1". Returns @p text. */
const char *kolo_rdma_device_format(const struct kolo_rdma_device *device,
                                    char text[KOLO_RDMA_PORT_TEXT_MAX]);

/* ---- rdma_choice.c ---- */

/** Opens the port that KOLO_RDMA_DEVICE names: "NAME" or "NAME:PORT", the first of several
 *  separated by commas, regardless of KOLO_NET; or, for "", the best of those that are active and
 *  have an address that KOLO_NET allows. The best port is the one of the first entry of KOLO_NET;
 *  then one with an address that was assigned to it; then the fastest; then the one that shares
 *  most bridges with KOLO_NEAR; then one at @p numa_node (-1: any); then the first.
 *  ERR_UNSUPPORTED: there is none; the detail says for each port why not. ERR_CONFIG: the setting
 *  is malformed, or has an empty entry; or no port is named and KOLO_NEAR cannot be a device. */
kolo_status kolo_rdma_device_open(const struct kolo_verbs *verbs,
                                  const struct kolo_settings *settings, int numa_node,
                                  struct kolo_rdma_device **device_out) KOLO_NODISCARD;
/** As kolo_device_report's choice; @p verbs and @p numa_node as above. */
void kolo_rdma_choice_tell(const struct kolo_verbs *verbs, const struct kolo_settings *settings,
                           void (*line)(void *context, const char *name, const char *addresses,
                                        const char *networks),
                           void *context);
/** The same for one more port that is not in @p taken: the next one that KOLO_RDMA_DEVICE names, or
 *  the best of the others. */
kolo_status kolo_rdma_device_open_next(const struct kolo_verbs *verbs,
                                       const struct kolo_settings *settings, int numa_node,
                                       const struct kolo_rdma_device *const *taken, int taken_count,
                                       struct kolo_rdma_device **device_out) KOLO_NODISCARD;
/** How many ports KOLO_RDMA_DEVICE names; 0: any may be used. */
int kolo_rdma_device_named(const struct kolo_settings *settings);

/* ---- the list of all ---- */

/** For kolo_device_reports[]. */
extern const struct kolo_device_report kolo_devices_rdma;

#endif
