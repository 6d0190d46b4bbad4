// SPDX-License-Identifier: Apache-2.0
// Opens devices one at a time and reads what they and their ports are; takes the events of a device
// in use. Must never leave a device open that it does not return. Which one is used is decided in
// rdma_choice.c.
#include "transport/rdma_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/numa.h"
#include "transport/rdma_register.h"

/* ---- silence ---- */

struct kolo_rdma_patience kolo_rdma_patience_of(int64_t silent_ms)
{
    /* The number of tries grows by one from 4 to 7, then the time of each try doubles, so steps are
     * at most a quarter. Soft-RoCE takes 7 retries, which are 8 tries, as for ever; every device
     * takes a timeout of 0 as for ever. */
    enum { TRIES_MIN = 4, TRIES_MAX = 7, TIMEOUT_MAX = 31 };
    for (unsigned timeout = 1; timeout <= TIMEOUT_MAX; timeout++)
        for (unsigned tries = TRIES_MIN; tries <= TRIES_MAX; tries++)
            if ((INT64_C(4096) << timeout) * tries >= silent_ms * KOLO_NS_PER_MS)
                return (struct kolo_rdma_patience){(uint8_t)timeout, (uint8_t)(tries - 1)};
    return (struct kolo_rdma_patience){TIMEOUT_MAX, TRIES_MAX - 1};
}

/* ---- one port ---- */

static const char *state_text(enum ibv_port_state state)
{
    static const char *const texts[] = {
        [IBV_PORT_NOP] = "in no state",   [IBV_PORT_DOWN] = "down",
        [IBV_PORT_INIT] = "initialising", [IBV_PORT_ARMED] = "armed",
        [IBV_PORT_ACTIVE] = "active",     [IBV_PORT_ACTIVE_DEFER] = "active (deferred)",
    };
    return (size_t)state < sizeof texts / sizeof texts[0] ? texts[state] : "in an unknown state";
}

/** Whether packets can go through it; if not, the detail says why. */
static kolo_status check_port(const struct ibv_device *device, const struct ibv_port_attr *port)
{
    if (device->transport_type == IBV_TRANSPORT_IWARP)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "iWARP, which kolo does not use (librdmacm alone makes its connections): "
                         "tcp reaches the same peers");
    if (device->transport_type != IBV_TRANSPORT_IB)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "neither InfiniBand nor RoCE (transport type %d)",
                         (int)device->transport_type);
    if (port->state != IBV_PORT_ACTIVE)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "its link is %s: look at the cable, and ip link of its interface",
                         state_text(port->state));
    if (port->link_layer != IBV_LINK_LAYER_ETHERNET && port->lid == 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "it has no LID: is a subnet manager running?");
    if (port->max_msg_sz == 0 || port->active_mtu < IBV_MTU_256 || port->active_mtu > IBV_MTU_4096)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "it reports messages of %u bytes and MTU code %d",
                         port->max_msg_sz, (int)port->active_mtu);
    return KOLO_OK;
}

/** Mbit/s of payload: the width times what a lane carries; 0: not known. */
static uint32_t rate_of(const struct ibv_port_attr *port)
{
    /* Indexed by bit, as InfiniBand numbers them: widths in lanes; speeds SDR, DDR, QDR, FDR10,
     * FDR, EDR, HDR, NDR. */
    static const uint32_t widths[] = {1, 4, 8, 12, 2};
    static const uint32_t speeds[] = {2000, 4000, 8000, 10000, 13600, 25000, 50000, 100000};
    int width = ffs(port->active_width) - 1, speed = ffs(port->active_speed) - 1;
    bool is_known = width >= 0 && width < (int)(sizeof widths / sizeof widths[0]) && speed >= 0 &&
                    speed < (int)(sizeof speeds / sizeof speeds[0]);
    return is_known ? widths[width] * speeds[speed] : 0;
}

/** Fills in what is known of port number @p number. @p net: KOLO_NET if it applies. */
static kolo_status read_port(struct kolo_rdma_device *device, uint8_t number, const char *net)
{
    struct ibv_port_attr port = {.state = IBV_PORT_NOP};
    device->gids.count = 0;
    device->rate_mbit = 0;
    device->state = IBV_PORT_NOP;
    int error = device->verbs->query_port(device->verbs, device->context, number, &port);
    if (error != 0)
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, error, "it cannot be asked");
    device->port = number;
    device->is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    device->state = port.state;
    device->rate_mbit = rate_of(&port);
    kolo_status status = check_port(device->context->device, &port);
    if (status != KOLO_OK)
        return status;
    device->lid = device->is_ethernet ? 0 : port.lid;
    device->mtu = port.active_mtu;
    device->message_bytes_max = port.max_msg_sz;
    return kolo_rdma_gids_read(device->verbs, device->context, number, net, &device->gids);
}

/* ---- one device ---- */

/** libibverbs reports "no such file" for every file that it cannot open, so we check what is wrong
 *  with it. */
static kolo_status cannot_open(const struct ibv_device *which, int error)
{
    char path[64 + IBV_SYSFS_NAME_MAX];
    snprintf(path, sizeof path, "/dev/infiniband/%s", which->dev_name);
    if (which->dev_name[0] != '\0' && access(path, R_OK | W_OK) != 0)
        error = errno;
    if (error == EACCES || error == EPERM)
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "no permission: %s must be readable and writable for this user (group rdma)", path);
    if (error == ENOENT)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "%s is not there: a container must be given it (--device)", path);
    return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, error, "it cannot be opened");
}

void kolo_rdma_device_close(struct kolo_rdma_device *device)
{
    if (!device)
        return;
    kolo_rdma_unregister_refused(device);
    if (device->domain && device->verbs->dealloc_pd(device->domain) != 0)
        KOLO_WARN("rdma %s: its protection domain is still in use", device->name);
    const int error = device->context ? device->verbs->close_device(device->context) : 0;
    if (error != 0)
        KOLO_WARN("rdma %s: it cannot be closed: what it holds goes with the process",
                  device->name);
    kolo_free_memory(device);
}

/** Opens the device without a port. */
static kolo_status open_context(const struct kolo_verbs *verbs, struct ibv_device *which,
                                struct kolo_rdma_device **device_out, uint8_t *ports_out)
{
    struct ibv_device_attr attr;
    struct kolo_rdma_device *device = kolo_calloc(1, sizeof *device);
    if (!device)
        return KOLO_ERR_NO_MEMORY;
    device->verbs = verbs;
    snprintf(device->name, sizeof device->name, "%s", verbs->get_device_name(which));
    errno = 0;
    device->context = verbs->open_device(which);
    kolo_status status = KOLO_OK;
    if (!device->context)
        status = cannot_open(which, errno);
    int error = status == KOLO_OK ? verbs->query_device(device->context, &attr) : 0;
    if (error != 0)
        status = kolo_fail_errno(KOLO_ERR_UNSUPPORTED, error, "it cannot be asked");
    if (status != KOLO_OK) {
        kolo_rdma_device_close(device);
        return status;
    }
    snprintf(device->directory, sizeof device->directory, "%.255s/device", which->ibdev_path);
    device->numa_node = kolo_numa_node_of(device->directory);
    device->is_hardware = access(device->directory, F_OK) == 0;
    device->parts_max = (uint32_t)attr.max_sge;
    device->completions_max = (uint32_t)attr.max_cqe;
    *device_out = device;
    *ports_out = attr.phys_port_cnt;
    return KOLO_OK;
}

kolo_status kolo_rdma_device_prepare(struct kolo_rdma_device *device)
{
    if (!kolo_descriptor_set_nonblocking(device->context->async_fd))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "its news cannot be read");
    errno = 0;
    device->domain = device->verbs->alloc_pd(device->context);
    return device->domain
               ? KOLO_OK
               : kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "it has no protection domain for us");
}

/* ---- all of them ---- */

static kolo_status list_devices(const struct kolo_verbs *verbs, struct ibv_device ***list_out,
                                int *count_out)
{
    int count = 0;
    errno = 0;
    struct ibv_device **list = verbs->get_device_list(&count);
    if (!list && errno != ENOSYS)
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "RDMA devices cannot be listed");
    if (!list || count == 0) {
        if (list)
            verbs->free_device_list(list);
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "no RDMA device on this host; if it has a card, is "
                                               "the kernel module loaded (ib_uverbs)?");
    }
    *list_out = list;
    *count_out = count;
    return KOLO_OK;
}

/** Visits each port of one device. True: continue. */
static bool visit_ports(const struct kolo_verbs *verbs, struct ibv_device *which, const char *net,
                        kolo_rdma_port_visit *told, void *context)
{
    struct kolo_rdma_device *device = NULL;
    const char *name = verbs->get_device_name(which);
    uint8_t ports = 0;
    bool goes_on = true;
    kolo_status status = open_context(verbs, which, &device, &ports);
    if (status != KOLO_OK)
        return told(context, NULL, name, 0, status);
    for (unsigned number = 1; number <= ports && goes_on; number++)
        goes_on =
            told(context, device, name, (uint8_t)number, read_port(device, (uint8_t)number, net));
    if (goes_on)
        kolo_rdma_device_close(device);
    return goes_on;
}

kolo_status kolo_rdma_ports_visit(const struct kolo_verbs *verbs, const char *name, const char *net,
                                  kolo_rdma_port_visit *told, void *context)
{
    struct ibv_device **list = NULL;
    int count = 0;
    bool goes_on = true;
    kolo_status status = list_devices(verbs, &list, &count);
    if (status != KOLO_OK)
        return status;
    for (int i = 0; i < count && goes_on; i++)
        if (name[0] == '\0' || strcmp(name, verbs->get_device_name(list[i])) == 0)
            goes_on = visit_ports(verbs, list[i], net, told, context);
    verbs->free_device_list(list);
    return KOLO_OK;
}

const char *kolo_rdma_device_format(const struct kolo_rdma_device *device,
                                    char text[KOLO_RDMA_PORT_TEXT_MAX])
{
    snprintf(text, KOLO_RDMA_PORT_TEXT_MAX, "%s port %u", device->name, device->port);
    return text;
}

/* ---- events ---- */

const char *kolo_rdma_device_ask_state(struct kolo_rdma_device *device)
{
    struct ibv_port_attr port = {.state = IBV_PORT_NOP};
    int error = device->verbs->query_port(device->verbs, device->context, device->port, &port);
    device->state = error == 0 ? port.state : IBV_PORT_NOP;
    return error == 0 ? state_text(port.state) : "not there any more";
}

/** Finds where the address is in the table now. One that is beyond the entries that are read is
 *  assumed to be where it was. */
static bool find_again(const struct kolo_rdma_gids *gids, struct kolo_rdma_gid *gid)
{
    for (size_t i = 0; i < gids->count; i++)
        if (gids->all[i].kind == gid->kind &&
            memcmp(gids->all[i].bytes, gid->bytes, sizeof gid->bytes) == 0) {
            gid->index = gids->all[i].index;
            return true;
        }
    return gids->count == KOLO_RDMA_GIDS_MAX;
}

kolo_status kolo_rdma_device_look_again(struct kolo_rdma_device *device, struct kolo_rdma_gid *gid)
{
    struct ibv_port_attr port = {.state = IBV_PORT_NOP};
    struct kolo_rdma_gids gids;
    char text[KOLO_RDMA_GID_TEXT];
    int error = device->verbs->query_port(device->verbs, device->context, device->port, &port);
    if (error != 0)
        return kolo_fail_errno(KOLO_ERR_LINK, error, "rdma %s: its port cannot be asked",
                               device->name);
    device->state = port.state;
    if (port.state != IBV_PORT_ACTIVE)
        return kolo_fail(KOLO_ERR_LINK, "rdma %s: its port is %s", device->name,
                         state_text(port.state));
    if (kolo_rdma_gids_read(device->verbs, device->context, device->port, "", &gids) != KOLO_OK ||
        !find_again(&gids, gid)) {
        kolo_rdma_gid_format(gid, text, sizeof text);
        return kolo_fail(KOLO_ERR_LINK,
                         "rdma %s: its port has the address %s no more: give it back", device->name,
                         text);
    }
    device->lid = device->is_ethernet ? 0 : port.lid;
    device->mtu = port.active_mtu;
    return KOLO_OK;
}

kolo_status kolo_rdma_device_find_gid(struct kolo_rdma_device *device, struct kolo_rdma_gid *gid)
{
    kolo_status status = kolo_rdma_device_look_again(device, gid);
    return device->state == IBV_PORT_ACTIVE ? status : KOLO_OK;
}

/** The text of an event after which the device cannot be used; NULL: it still can. */
static const char *end_text(enum ibv_event_type type)
{
    switch ((int)type) { /* -Wswitch-enum: the others concern queues and pairs, or are temporary */
    case IBV_EVENT_DEVICE_FATAL:
        return "the device was removed or broke down: look at dmesg";
    case IBV_EVENT_CQ_ERR:
        return "a completion queue broke down";
    default:
        return NULL;
    }
}

static void log_event(const struct kolo_rdma_device *device, const struct ibv_async_event *event)
{
    bool is_ours = event->element.port_num == device->port;
    if (event->event_type == IBV_EVENT_PORT_ERR && is_ours)
        KOLO_WARN("rdma %s port %u lost its link; what waits is tried again", device->name,
                  device->port);
    else if (event->event_type == IBV_EVENT_PORT_ACTIVE && is_ours)
        KOLO_INFO("rdma %s port %u has its link again", device->name, device->port);
    else
        KOLO_DEBUG("rdma %s: event %d", device->name, (int)event->event_type);
}

kolo_status kolo_rdma_device_news(struct kolo_rdma_device *device)
{
    struct ibv_async_event event;
    const char *end = NULL;
    errno = 0;
    while (device->verbs->get_async_event(device->context, &event) == 0) {
        if (!end)
            end = end_text(event.event_type);
        log_event(device, &event);
        device->verbs->ack_async_event(&event);
        errno = 0;
    }
    if (!end && errno != EAGAIN && !device->is_gone)
        end = "its news cannot be read any more: look at dmesg";
    if (!end)
        return KOLO_OK;
    device->is_gone = true;
    return kolo_fail(KOLO_ERR_LINK, "rdma %s port %u: %s", device->name, device->port, end);
}

/* ---- the list ---- */

struct listing {
    void (*line)(void *context, const char *name, const char *text);
    void *context;
};

/** Writes "Ethernet, active, 100 Gbit/s". */
static void format_port(const struct kolo_rdma_device *device, char *text, size_t capacity)
{
    char rate[32] = "of unknown rate";
    if (device->rate_mbit > 0)
        snprintf(rate, sizeof rate, "%g Gbit/s", device->rate_mbit / 1000.0);
    snprintf(text, capacity, "%s, %s, %s", device->is_ethernet ? "Ethernet" : "InfiniBand",
             state_text(device->state), rate);
}

static bool tell_port(void *context, struct kolo_rdma_device *device, const char *name,
                      uint8_t number, kolo_status status)
{
    const struct listing *listing = context;
    char port[IBV_SYSFS_NAME_MAX + 8], text[KOLO_DETAIL_MAX], gid[KOLO_RDMA_GID_TEXT], what[96];
    if (device)
        format_port(device, what, sizeof what);
    if (number > 0)
        snprintf(port, sizeof port, "%s:%u", name, number);
    else
        snprintf(port, sizeof port, "%s", name);
    if (status == KOLO_OK) {
        const char *interface = device->gids.all[0].interface;
        kolo_rdma_gid_format(&device->gids.all[0], gid, sizeof gid);
        snprintf(text, sizeof text, "%s of %s, MTU %d (%s)", gid,
                 interface[0] != '\0' ? interface : "no interface", 128 << device->mtu, what);
    } else if (device) {
        snprintf(text, sizeof text, "cannot be used: %.800s (%s)", kolo_error_detail(), what);
    } else {
        snprintf(text, sizeof text, "cannot be used: %.800s", kolo_error_detail());
    }
    listing->line(listing->context, port, text);
    return true;
}

static kolo_status report(void (*line)(void *context, const char *name, const char *text),
                          void *context)
{
    struct listing listing = {line, context};
    const struct kolo_verbs *verbs = NULL;
    kolo_status status = kolo_verbs_load(&verbs);
    return status == KOLO_OK ? kolo_rdma_ports_visit(verbs, "", "", tell_port, &listing) : status;
}

static void choice(const struct kolo_settings *settings,
                   void (*line)(void *context, const char *name, const char *addresses,
                                const char *networks),
                   void *context)
{
    const struct kolo_verbs *verbs = NULL;
    if (kolo_verbs_load(&verbs) == KOLO_OK)
        kolo_rdma_choice_tell(verbs, settings, line, context);
}

const struct kolo_device_report kolo_devices_rdma = {
    .what = "rdma", .report = report, .choice = choice};
