// SPDX-License-Identifier: Apache-2.0
// The shm transport's port. Links of this transport join ranks of one host over rings in memfds,
// and read kolo_alloc memory in place. Owns the listener on an abstract Unix name and the page with
// the rank's doorbell. Must never put a name into the file system or /dev/shm, so that nothing can
// be left behind.
//
// A rank sleeps in its poller, as with any other transport. Its peers wake it by writing to its
// eventfd, which they were passed, if the `armed` word in its page says that it sleeps.
#include "transport/shm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "transport/board_private.h"

static kolo_status shm_probe(const struct kolo_settings *settings, struct kolo_why *why_out)
{
    (void)settings;
    kolo_status status = kolo_shm_probe();
    if (status == KOLO_OK)
        why_out->text[0] = '\0';
    else
        snprintf(why_out->text, sizeof why_out->text, "%.200s", kolo_error_detail());
    return status;
}

/** Makes an abstract name that nobody else has. */
static kolo_status make_name(struct kolo_place *place_out, struct kolo_address *address_out)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    uint64_t number;
    kolo_status status = kolo_random(&number, sizeof number);
    if (status != KOLO_OK)
        return status;
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "kolo-%016" PRIx64, number);
    *place_out = (struct kolo_place){0};
    memcpy(&place_out->addr, &name, sizeof name);
    place_out->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    address_out->bytes = (uint16_t)length;
    memcpy(address_out->data, name.sun_path + 1, (size_t)length);
    return KOLO_OK;
}

static kolo_status open_listener(struct kolo_shm_port *port, struct kolo_endpoint *endpoint,
                                 struct kolo_address *address_out)
{
    struct kolo_address address = {0};
    struct kolo_place place;
    kolo_status status = make_name(&place, &address);
    if (status != KOLO_OK)
        return status;
    status = kolo_endpoint_listen(endpoint, &port->base, KOLO_PURPOSE_SHM, &place, &port->listener);
    if (status == KOLO_OK)
        *address_out = address;
    return status;
}

static void shm_close(struct kolo_port *base)
{
    struct kolo_shm_port *port = (struct kolo_shm_port *)(void *)base;
    if (!port)
        return;
    kolo_listener_close(port->listener);
    kolo_shm_memory_unmap(port->page, KOLO_SHM_BELL_BYTES);
    if (port->page_fd >= 0)
        close(port->page_fd);
    kolo_free_memory(port);
}

static kolo_status shm_open_port(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                                 struct kolo_address *address_out)
{
    struct kolo_shm_port *port = kolo_calloc(1, sizeof *port);
    kolo_status status;
    if (!port)
        return KOLO_ERR_NO_MEMORY;
    port->page_fd = -1;
    KOLO_TRY(
        kolo_shm_memory_create("kolo-doorbell", KOLO_SHM_BELL_BYTES, &port->page_fd, &port->page));
    port->base.doorbell = port->page;
    KOLO_TRY(open_listener(port, endpoint, address_out));
    *port_out = &port->base;
    return KOLO_OK;
out:
    shm_close(&port->base);
    return status;
}

static bool shm_reaches(const struct kolo_port *port, const struct kolo_peer *peer,
                        struct kolo_why *why_out)
{
    const struct kolo_identity *mine = &kolo_endpoint_config_of(port->endpoint)->identity;
    bool is_here = peer->identity.host_id == mine->host_id;
    snprintf(why_out->text, sizeof why_out->text, is_here ? "same host" : "on another host");
    return is_here;
}

static size_t shm_direct_bytes(const struct kolo_settings *settings)
{
    return settings->shm_direct_bytes;
}

const struct kolo_transport kolo_transport_shm = {
    .name = "shm",
    .purpose = KOLO_PURPOSE_SHM,
    .probe = shm_probe,
    .open = shm_open_port,
    .close = shm_close,
    .reaches = shm_reaches,
    .connect = kolo_shm_connect,
    .adopt = kolo_shm_adopt,
    .push = kolo_shm_push,
    .put = kolo_shm_put,
    .take = kolo_shm_take,
    .pull = kolo_shm_pull,
    .direct_bytes = shm_direct_bytes,
    .is_remote = kolo_shm_is_remote,
    .claim = kolo_shm_claim,
    .release = kolo_shm_release,
    .span_gone = kolo_shm_span_gone,
    .withdraw = kolo_shm_withdraw,
    .describe = kolo_shm_describe,
    .down = kolo_shm_down,
    .free_link = kolo_shm_free,
    .boards = &kolo_board_shm,
};
