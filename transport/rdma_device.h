// SPDX-License-Identifier: Apache-2.0
// An RDMA device and one of its ports, open: finding it, what it can do, what it is called in
// messages, and the news that it is gone. Also the list of all of them for `kolorun info`.
//
// Owns the verbs context and the protection domain; queues and regions are made on them by other
// files and must be gone before it is closed.
//
// iWARP ports are named and not used: their connections are made by librdmacm alone, and TCP
// reaches what they reach.
#ifndef KOLO_TRANSPORT_RDMA_DEVICE_H
#define KOLO_TRANSPORT_RDMA_DEVICE_H

#include "base/settings.h"
#include "transport/devices.h"
#include "transport/rdma_gid.h"

/** How a queue pair takes silence: it sends again after 4.096 us * 2^timeout, so often. */
struct kolo_rdma_patience {
    uint8_t timeout, retries;
};
/** That bears @p silent_ms, and at most a quarter more; 17 hours at most, for no device counts
 * further. Never for ever. */
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
    uint32_t rate_mbit;                      /* 0: it does not say */
    int numa_node;                           /* -1: not known */
    char directory[IBV_SYSFS_PATH_MAX + 32]; /* of its card, in /sys */
    bool is_gone;                            /* nothing of it works any more */
    uint16_t lid;                            /* of InfiniBand; 0 else */
    enum ibv_mtu mtu;
    struct kolo_rdma_patience patience; /* of its queue pairs: KOLO_PEER_TIMEOUT */
    struct kolo_rdma_gids gids;
    uint32_t requests_max;      /* in a queue of a pair */
    uint32_t parts_max;         /* of one request (SGEs) */
    uint32_t completions_max;   /* in one completion queue */
    uint32_t message_bytes_max; /* of one write or send */
    struct kolo_rdma_refused *refused;
};

/** NULL is fine. */
void kolo_rdma_device_close(struct kolo_rdma_device *device);

/** Told of a port: it is open, or why it cannot be used (@p status, and the detail); of a device
 * that cannot be opened with @p device NULL and @p number 0. True: go on with the next; false: the
 * device, which is open, is the callee's. */
typedef bool kolo_rdma_port_visit(void *context, struct kolo_rdma_device *device, const char *name,
                                  uint8_t number, kolo_status status);
/** Goes over the ports of device @p name ("": of all devices), with the addresses that @p net, as
 * KOLO_NET, allows. ERR_UNSUPPORTED: there is no device at all, or they cannot be listed. */
kolo_status kolo_rdma_ports_visit(const struct kolo_verbs *verbs, const char *name, const char *net,
                                  kolo_rdma_port_visit *told, void *context) KOLO_NODISCARD;
/** What a device needs besides that is to be used: a protection domain, and news that never block.
 * ERR_UNSUPPORTED, ERR_SYSTEM. */
kolo_status kolo_rdma_device_prepare(struct kolo_rdma_device *device) KOLO_NODISCARD;

/** Takes the device's news; never blocks. ERR_LINK: it is gone, or broken; the detail says what it
 * said, and its file may be ready for ever. What passes (a
 * port that lost its cable may get it back) is logged: the retries of the queue pairs decide. */
kolo_status kolo_rdma_device_news(struct kolo_rdma_device *device) KOLO_NODISCARD;

/** Asks how its port is: "active", "down". */
const char *kolo_rdma_device_ask_state(struct kolo_rdma_device *device);

/** After the port was out: what it is now, its MTU, its LID, and where *@p gid, an address of it,
 * stands in its table. ERR_LINK: the port is not active, or has that address no more. */
kolo_status kolo_rdma_device_look_again(struct kolo_rdma_device *device,
                                        struct kolo_rdma_gid *gid) KOLO_NODISCARD;

/** "rxe0 port 1". */
void kolo_rdma_device_format(const struct kolo_rdma_device *device, char *text, size_t capacity);

/* ---- rdma_choice.c ---- */

/** Opens the port that KOLO_RDMA_DEVICE names: "NAME" or "NAME:PORT", the first of several with
 * commas between, whatever KOLO_NET says, or "": the best of those that are active and have an
 * address that KOLO_NET allows. The best is of the foremost entry of KOLO_NET; then one with an
 * address that somebody gave it; then the fastest; then one that shares most bridges with
 * KOLO_NEAR; then one at @p numa_node (-1: wherever); then the first. ERR_UNSUPPORTED: there is
 * none; the detail says of each port why not. ERR_CONFIG: it is no such text, or an entry of it is
 * empty; or no port is named and KOLO_NEAR can be no device. */
kolo_status kolo_rdma_device_open(const struct kolo_verbs *verbs,
                                  const struct kolo_settings *settings, int numa_node,
                                  struct kolo_rdma_device **device_out) KOLO_NODISCARD;
/** As kolo_device_report's choice; @p verbs and @p numa_node as above. */
void kolo_rdma_choice_tell(const struct kolo_verbs *verbs, const struct kolo_settings *settings,
                           void (*line)(void *context, const char *name, const char *addresses,
                                        const char *networks),
                           void *context);
/** The same for one more port, which is none of @p taken: the next that KOLO_RDMA_DEVICE names, or
 * the best that is left. */
kolo_status kolo_rdma_device_open_next(const struct kolo_verbs *verbs,
                                       const struct kolo_settings *settings, int numa_node,
                                       const struct kolo_rdma_device *const *taken, int taken_count,
                                       struct kolo_rdma_device **device_out) KOLO_NODISCARD;
/** How many ports KOLO_RDMA_DEVICE names; 0: any may be taken. */
int kolo_rdma_device_named(const struct kolo_settings *settings);

/* ---- the list of all ---- */

/** For kolo_device_reports[]. */
extern const struct kolo_device_report kolo_devices_rdma;

#endif
