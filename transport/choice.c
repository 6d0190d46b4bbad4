// SPDX-License-Identifier: Apache-2.0
// Chooses which transports a rank opens, and which of them joins it to a peer: the first one in the
// build's table that is open here, that the peer has published, and that reaches the peer. Both
// sides get the same result, since each condition is about the pair. Must never fall back silently
// from a transport that was asked for by name.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/core.h"

static bool is_auto(const struct kolo_endpoint *endpoint)
{
    return strcmp(endpoint->config.settings->transport, "auto") == 0;
}

static void list(char *known, size_t capacity, const char *name)
{
    strncat(known, *known ? ", " : "", capacity - strlen(known) - 1);
    strncat(known, name, capacity - strlen(known) - 1);
}

kolo_status kolo_transport_name_check(const char *name)
{
    static const char *const names[] = {"auto", "inproc", "shm", "rdma", "tcp"};
    char known[KOLO_TEXT_MAX] = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return KOLO_OK;
        list(known, sizeof known, names[i]);
    }
    return kolo_fail(KOLO_ERR_CONFIG,
                     "KOLO_TRANSPORT=%s: there is no such transport; use one of %s", name, known);
}

static kolo_status unknown_transport(const char *name)
{
    char known[KOLO_TEXT_MAX] = "auto";
    for (int i = 0; kolo_transports[i]; i++)
        list(known, sizeof known, kolo_transports[i]->name);
    return kolo_fail(KOLO_ERR_CONFIG, "KOLO_TRANSPORT=%s: this build has %s", name, known);
}

const char *kolo_transport_name(size_t number)
{
    for (size_t i = 0; kolo_transports[i]; i++)
        if (i == number)
            return kolo_transports[i]->name;
    return NULL;
}

const char *kolo_transport_probe(size_t number, const struct kolo_settings *settings,
                                 kolo_status *status_out, struct kolo_why *why_out)
{
    if (!kolo_transport_name(number))
        return NULL;
    const struct kolo_transport *transport = kolo_transports[number];
    *why_out = (struct kolo_why){""};
    *status_out = transport->probe ? transport->probe(settings, why_out) : KOLO_OK;
    return transport->name;
}

static kolo_status open_port(struct kolo_endpoint *endpoint, int index)
{
    const struct kolo_transport *transport = kolo_transports[index];
    struct kolo_why why;
    struct kolo_port *port = NULL;
    kolo_status status;
    (void)kolo_transport_probe((size_t)index, endpoint->config.settings, &status, &why);
    if (status != KOLO_OK)
        return kolo_fail(status == KOLO_ERR_CONFIG ? status : KOLO_ERR_UNSUPPORTED,
                         "transport %s cannot be used here: %s", transport->name, why.text);
    status = transport->open(endpoint, &port, &endpoint->addresses[index]);
    if (status != KOLO_OK)
        return status;
    port->endpoint = endpoint;
    port->transport = transport;
    endpoint->ports[index] = port;
    return KOLO_OK;
}

/** Continues without the transport with index @p index. The reason in the detail is kept for a pair
 *  that no other transport joins. A user who named a device in the settings is warned. */
static void leave_out(struct kolo_endpoint *endpoint, int index)
{
    const char *device = endpoint->config.settings->rdma_device,
               *name = kolo_transports[index]->name;
    snprintf(endpoint->left_out[index].text, sizeof endpoint->left_out[index].text, "%s",
             kolo_error_detail());
    if (strcmp(name, "rdma") == 0 && device[0] != '\0')
        KOLO_WARN("KOLO_RDMA_DEVICE=%.64s is not used: %s", device, kolo_error_detail());
    else
        KOLO_INFO("transport %s left out: %s", name, kolo_error_detail());
}

kolo_status kolo_endpoint_open_ports(struct kolo_endpoint *endpoint)
{
    const char *forced = endpoint->config.settings->transport;
    kolo_status status = KOLO_OK;
    int opened = 0, known = 0;
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++) {
        const char *name = kolo_transports[i]->name;
        if (!is_auto(endpoint) && strcmp(forced, name) != 0)
            continue;
        known++;
        status = open_port(endpoint, i);
        if (status == KOLO_OK)
            opened++;
        else if (!is_auto(endpoint))
            return status;
        else
            leave_out(endpoint, i);
    }
    if (known == 0)
        return unknown_transport(forced);
    return opened > 0 || endpoint->config.size == 1 ? KOLO_OK : status;
}

int kolo_transport_index(const char *name)
{
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++)
        if (strcmp(kolo_transports[i]->name, name) == 0)
            return i;
    return -1;
}

const struct kolo_address *kolo_port_address_of(const struct kolo_port *port,
                                                const struct kolo_peer *peer)
{
    static const struct kolo_address none; /* for a transport that is not in this build's table */
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++)
        if (kolo_transports[i] == port->transport)
            return &peer->addresses[i];
    return &none;
}

bool kolo_transport_is_offered(const char *name, const struct kolo_peer *peer)
{
    int index = kolo_transport_index(name);
    return index >= 0 && peer->addresses[index].bytes > 0;
}

struct kolo_line kolo_transport_line(const char *name, const struct kolo_peer *peer)
{
    int index = kolo_transport_index(name);
    if (index < 0 || peer->addresses[index].bytes == 0 || !kolo_transports[index]->line)
        return (struct kolo_line){.mbit = 0};
    return kolo_transports[index]->line(&peer->addresses[index]);
}

/* Whether the transport with index @p index joins this rank and @p peer. */
static bool joins(const struct kolo_endpoint *endpoint, int index, int peer,
                  struct kolo_why *why_out)
{
    const struct kolo_peer *theirs = &endpoint->peers[peer];
    const struct kolo_port *port = endpoint->ports[index];
    const struct kolo_transport *transport = kolo_transports[index];
    if (!port) {
        if (endpoint->left_out[index].text[0] != '\0')
            snprintf(why_out->text, sizeof why_out->text, "no %s here: %.200s", transport->name,
                     endpoint->left_out[index].text);
        return false;
    }
    if (theirs->addresses[index].bytes == 0) {
        snprintf(why_out->text, sizeof why_out->text, "rank %d on %.64s does not offer %s", peer,
                 theirs->identity.host, transport->name);
        return false;
    }
    return transport->reaches(port, theirs, why_out);
}

int kolo_endpoint_choose(const struct kolo_endpoint *endpoint, int peer, struct kolo_why *why_out)
{
    snprintf(why_out->text, sizeof why_out->text, "no transport is open");
    if (!endpoint->peers || peer < 0 || peer >= endpoint->config.size)
        return -1;
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++) {
        if (!joins(endpoint, i, peer, why_out))
            continue;
        if (!is_auto(endpoint))
            snprintf(why_out->text, sizeof why_out->text, "forced by KOLO_TRANSPORT");
        return i;
    }
    return -1;
}

size_t kolo_endpoint_direct_bytes(const struct kolo_endpoint *endpoint, int peer)
{
    struct kolo_why why;
    const int index = kolo_endpoint_choose(endpoint, peer, &why);
    if (index < 0 || !kolo_transports[index]->direct_bytes)
        return SIZE_MAX;
    return kolo_transports[index]->direct_bytes(endpoint->config.settings);
}

/** The link to @p peer if it is up, otherwise NULL. */
static const struct kolo_link *link_up(const struct kolo_endpoint *endpoint, int peer)
{
    const struct kolo_link *link = kolo_map_get(&endpoint->links, (uint32_t)peer);
    return link && link->state == KOLO_LINK_UP ? link : NULL;
}

/** Appends to endpoint->why which path the existing link takes. */
static void explain(struct kolo_endpoint *endpoint, const struct kolo_link *link)
{
    size_t used = strlen(endpoint->why.text);
    char path[sizeof endpoint->why.text];
    if (!link->transport->explain)
        return;
    link->transport->explain(link, path, sizeof path);
    snprintf(endpoint->why.text + used, sizeof endpoint->why.text - used, "; %s", path);
}

/** The name of the transport that a link which is up uses. */
static const char *name_of(const struct kolo_link *link)
{
    return link->transport->goes_by ? link->transport->goes_by(link) : link->transport->name;
}

const char *kolo_endpoint_goes_by(struct kolo_endpoint *endpoint, int peer)
{
    struct kolo_why why;
    const struct kolo_link *link = link_up(endpoint, peer);
    if (link)
        return name_of(link);
    const int index = kolo_endpoint_choose(endpoint, peer, &why);
    return index < 0 ? "none" : kolo_transports[index]->name;
}

void kolo_endpoint_choice(struct kolo_endpoint *endpoint, int peer, const char **transport_out,
                          const char **why_out)
{
    int index = kolo_endpoint_choose(endpoint, peer, &endpoint->why);
    const struct kolo_link *link = link_up(endpoint, peer);
    *transport_out = link ? name_of(link) : index < 0 ? "none" : kolo_transports[index]->name;
    *why_out = endpoint->why.text;
    if (link)
        explain(endpoint, link);
}
