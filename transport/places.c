// SPDX-License-Identifier: Apache-2.0
// Owns places (socket addresses): their content, their text, and the resolution of names to places.
// Must never interpret the bytes of an address family that it does not know.
#include "transport/places.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/log.h"
#include "transport/lookup.h"

/* ---- what is in them ---- */

/* sockaddr_storage is aligned for each of these and large enough to hold it. */
static const struct sockaddr_in *as_v4(const struct kolo_place *place)
{
    return (const struct sockaddr_in *)(const void *)&place->addr;
}

static const struct sockaddr_in6 *as_v6(const struct kolo_place *place)
{
    return (const struct sockaddr_in6 *)(const void *)&place->addr;
}

struct kolo_place kolo_place_make(sa_family_t family, const void *ip, uint16_t port)
{
    struct kolo_place place = {.bytes = 0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    /* all zeroes mean "any" in both families */
    if (family == AF_INET && ip)
        memcpy(&v4.sin_addr, ip, sizeof v4.sin_addr);
    if (family == AF_INET6 && ip)
        memcpy(&v6.sin6_addr, ip, sizeof v6.sin6_addr);
    if (family == AF_INET)
        memcpy(&place.addr, &v4, place.bytes = sizeof v4);
    else
        memcpy(&place.addr, &v6, place.bytes = sizeof v6);
    return place;
}

bool kolo_place_is_ip(const struct kolo_place *place)
{
    return place->addr.ss_family == AF_INET || place->addr.ss_family == AF_INET6;
}

const uint8_t *kolo_place_ip(const struct kolo_place *place, size_t *bytes_out)
{
    *bytes_out = 0;
    if (place->addr.ss_family == AF_INET) {
        *bytes_out = sizeof as_v4(place)->sin_addr;
        return (const uint8_t *)&as_v4(place)->sin_addr;
    }
    if (place->addr.ss_family == AF_INET6) {
        *bytes_out = sizeof as_v6(place)->sin6_addr;
        return (const uint8_t *)&as_v6(place)->sin6_addr;
    }
    return NULL;
}

uint16_t kolo_place_port(const struct kolo_place *place)
{
    if (place->addr.ss_family == AF_INET)
        return ntohs(as_v4(place)->sin_port);
    return place->addr.ss_family == AF_INET6 ? ntohs(as_v6(place)->sin6_port) : 0;
}

void kolo_place_set_port(struct kolo_place *place, uint16_t port)
{
    if (place->addr.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&place->addr)->sin_port = htons(port);
    else if (place->addr.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)&place->addr)->sin6_port = htons(port);
}

bool kolo_places_are_loopback(const struct kolo_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!kolo_place_is_loopback(&places[i]))
            return false;
    return true;
}

bool kolo_place_is_loopback(const struct kolo_place *place)
{
    size_t bytes;
    const uint8_t *ip = kolo_place_ip(place, &bytes);

    if (bytes == sizeof(struct in_addr))
        return ip[0] == IN_LOOPBACKNET;
    return bytes > 0 && memcmp(ip, &in6addr_loopback, bytes) == 0;
}

bool kolo_place_is_same_ip(const struct kolo_place *one, const struct kolo_place *other)
{
    size_t bytes, other_bytes;
    const uint8_t *ip = kolo_place_ip(one, &bytes), *other_ip = kolo_place_ip(other, &other_bytes);

    return bytes > 0 && bytes == other_bytes && memcmp(ip, other_ip, bytes) == 0;
}

/* ---- as text ---- */

static void format_unix(const struct kolo_place *place, char *text, size_t capacity)
{
    const struct sockaddr_un *name = (const struct sockaddr_un *)(const void *)&place->addr;
    size_t head = offsetof(struct sockaddr_un, sun_path);
    size_t length = place->bytes > head ? place->bytes - head : 0;
    char shown[sizeof name->sun_path + 1];

    if (length > sizeof name->sun_path)
        length = sizeof name->sun_path;
    memcpy(shown, name->sun_path, length);
    shown[length] = '\0';
    if (length > 0 && shown[0] == '\0')
        shown[0] = '@';
    for (size_t i = 0; shown[i] != '\0'; i++)
        if (shown[i] < ' ' || shown[i] > '~')
            shown[i] = '?';
    snprintf(text, capacity, "unix:%s", shown);
}

void kolo_place_format(const struct kolo_place *place, char *text, size_t capacity)
{
    char host[INET6_ADDRSTRLEN] = "";

    switch (place->addr.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &as_v4(place)->sin_addr, host, sizeof host);
        snprintf(text, capacity, "%s:%d", host, ntohs(as_v4(place)->sin_port));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &as_v6(place)->sin6_addr, host, sizeof host);
        snprintf(text, capacity, "[%s]:%d", host, ntohs(as_v6(place)->sin6_port));
        break;
    case AF_UNIX:
        format_unix(place, text, capacity);
        break;
    default:
        snprintf(text, capacity, "address family %d", place->addr.ss_family);
        break;
    }
}

/* ---- names ---- */

struct host_port {
    char host[256];
    char port[8];
};

static kolo_status fail_grammar(const char *entry, size_t length)
{
    return kolo_fail(
        KOLO_ERR_CONFIG,
        "\"%.*s\" is not an address: expected HOST:PORT or [IPV6]:PORT, PORT from 1 to 65535",
        (int)length, entry);
}

/** Splits one entry of @p length characters into host and port. */
static kolo_status split(const char *entry, size_t length, struct host_port *out)
{
    const char *end = entry + length;
    const char *colon = memrchr(entry, ':', length);
    const char *host = entry;
    size_t host_length, port_length;
    char *rest;
    long port;

    if (!colon)
        return fail_grammar(entry, length);
    host_length = (size_t)(colon - entry);
    port_length = (size_t)(end - colon - 1);
    if (host_length > 2 && host[0] == '[' && colon[-1] == ']') {
        host++;
        host_length -= 2;
    } else if (memchr(host, ':', host_length)) {
        return fail_grammar(entry, length); /* IPv6 without brackets: where does the port begin? */
    }
    if (host_length == 0 || host_length >= sizeof out->host || port_length == 0 ||
        port_length >= sizeof out->port || colon[1] < '0' || colon[1] > '9')
        return fail_grammar(entry, length);
    memcpy(out->host, host, host_length);
    out->host[host_length] = '\0';
    memcpy(out->port, colon + 1, port_length);
    out->port[port_length] = '\0';
    port = strtol(out->port, &rest, 10);
    if (*rest != '\0' || port < 1 || port > 65535)
        return fail_grammar(entry, length);
    return KOLO_OK;
}

static bool is_known(const struct kolo_place *places, size_t count, const struct kolo_place *place)
{
    for (size_t i = 0; i < count; i++)
        if (places[i].bytes == place->bytes &&
            memcmp(&places[i].addr, &place->addr, place->bytes) == 0)
            return true;
    return false;
}

/** Appends the addresses of one host. */
static kolo_status append(const struct host_port *at, kolo_deadline deadline,
                          struct kolo_place *places, size_t max, size_t *count)
{
    struct addrinfo *found;
    const kolo_status status = kolo_lookup(at->host, at->port, deadline, &found);

    if (status != KOLO_OK)
        return status;
    for (const struct addrinfo *info = found; info && *count < max; info = info->ai_next) {
        struct kolo_place place = {.bytes = info->ai_addrlen};
        if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) ||
            info->ai_addrlen > sizeof place.addr)
            continue;
        memcpy(&place.addr, info->ai_addr, info->ai_addrlen);
        if (!is_known(places, *count, &place))
            places[(*count)++] = place;
    }
    freeaddrinfo(found);
    return KOLO_OK;
}

/** When to give up the first of @p left entries, so that each of the others has as long, and more
 * if those before it are found sooner. */
static kolo_deadline share(kolo_deadline deadline, int64_t left)
{
    const kolo_deadline now = kolo_now_ns();
    return deadline == KOLO_NEVER || deadline <= now ? deadline : now + (deadline - now) / left;
}

kolo_status kolo_places_resolve(const char *text, kolo_deadline deadline,
                                struct kolo_place *places_out, size_t max, size_t *count_out)
{
    int64_t left = 1;
    kolo_status status = KOLO_OK, worst = KOLO_OK;
    size_t count = 0;

    for (const char *comma = text; (comma = strchr(comma, ',')) != NULL; comma++)
        left++;
    for (const char *entry = text;; entry++, left--) {
        size_t length = strcspn(entry, ",");
        struct host_port at;
        status = split(entry, length, &at);
        if (status != KOLO_OK)
            return status;
        /* The places are alternatives: one that this machine cannot resolve may work for another
         * machine. */
        status = append(&at, share(deadline, left), places_out, max, &count);
        if (status != KOLO_OK) {
            worst = status;
            KOLO_INFO("%s", kolo_error_detail());
        }
        entry += length;
        if (*entry == '\0')
            break;
    }
    if (count == 0)
        return worst != KOLO_OK ? worst
                                : kolo_fail(KOLO_ERR_CONNECT, "\"%s\" has no address", text);
    *count_out = count;
    return KOLO_OK;
}
