// SPDX-License-Identifier: Apache-2.0
// The addresses of this machine that others may reach: finds them and the facts about their
// interfaces, and applies KOLO_NET and an order. Must never offer an address that means something
// else on the peer's machine: no link-local addresses, and loopback only if there is nothing else.
//
// Their order: those of the first entry of KOLO_NET first; then hardware (including its bonds and
// VLANs) before bridges and tunnels, faster before slower interfaces, IPv4 before IPv6, loopback
// last.
#include "transport/places.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/numa.h"
#include "base/short_file.h"
#include "transport/labels.h"

/* ---- interfaces ---- */

enum { NOT_NAMED = -1, EXCLUDED = -2 };

/** One address of this machine, with the facts that decide its order. */
struct local {
    struct kolo_place place;
    char interface[IF_NAMESIZE];
    char label[IF_NAMESIZE]; /* of an IPv4 address, such as "eth0:1"; mostly the interface's name */
    int entry;               /* the entry of KOLO_NET that allows it, or NOT_NAMED, EXCLUDED */
    bool is_loopback, is_hardware;
    long speed; /* Mbit/s, 0: unknown */
};

struct locals {
    struct local *items;
    size_t count, capacity;
    char unnamed[256];  /* entries of KOLO_NET that match none of them, separated by commas */
    char unusable[512]; /* what the system lists, but nobody can listen there, and why */
    const char *net;    /* of these, only those that this KOLO_NET would allow; NULL: all */
};

static long interface_speed(const char *interface)
{
    char path[64 + IF_NAMESIZE];
    int64_t speed;

    snprintf(path, sizeof path, "/sys/class/net/%s/speed", interface);
    speed = kolo_short_file_number(path);
    return speed > 0 ? speed : 0; /* -1, or a read error: the driver does not know the speed */
}

static int interface_numa_node(const char *interface)
{
    char path[64 + IF_NAMESIZE];

    snprintf(path, sizeof path, "/sys/class/net/%s/device", interface);
    return kolo_numa_node_of(path);
}

/** Several cards used as one, or one of several networks on a card: what goes through it goes
 *  through hardware. A tunnel has a lower interface too, but costs processor time. */
static bool interface_is_bond_or_vlan(const char *interface)
{
    char path[64 + IF_NAMESIZE], text[512];

    snprintf(path, sizeof path, "/sys/class/net/%s/uevent", interface);
    return kolo_short_file_read(path, text, sizeof text) > 0 &&
           (strstr(text, "DEVTYPE=bond\n") || strstr(text, "DEVTYPE=vlan\n"));
}

/** An interface below @p interface; all those below a bond are of one kind. False: there is
 *  none. */
static bool find_lower(const char *interface, char lower_out[IF_NAMESIZE])
{
    static const char mark[] = "lower_";
    char path[64 + IF_NAMESIZE];
    const struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof path, "/sys/class/net/%s", interface);
    folder = opendir(path);
    while (folder && !found && (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name + sizeof mark - 1;
        found = strncmp(entry->d_name, mark, sizeof mark - 1) == 0 && strlen(name) < IF_NAMESIZE;
        if (found)
            memcpy(lower_out, name, strlen(name) + 1);
    }
    if (folder)
        closedir(folder);
    return found;
}

static bool interface_is_hardware(const char *interface)
{
    enum { LEVELS_MAX = 4 }; /* VLANs in a VLAN, on a bond, on cards */
    char path[64 + IF_NAMESIZE], at[IF_NAMESIZE], lower[IF_NAMESIZE];

    snprintf(at, sizeof at, "%s", interface);
    for (int level = 0; level < LEVELS_MAX; level++) {
        snprintf(path, sizeof path, "/sys/class/net/%s/device", at);
        if (access(path, F_OK) == 0)
            return true;
        if (!interface_is_bond_or_vlan(at) || !find_lower(at, lower))
            return false;
        memcpy(at, lower, sizeof at);
    }
    return false;
}

static bool is_offered(const struct ifaddrs *at)
{
    const struct sockaddr_in6 *v6;

    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || !(at->ifa_flags & IFF_RUNNING))
        return false;
    if (at->ifa_addr->sa_family == AF_INET)
        return true;
    if (at->ifa_addr->sa_family != AF_INET6)
        return false;
    v6 = (const struct sockaddr_in6 *)(const void *)at->ifa_addr;
    return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && !IN6_IS_ADDR_MULTICAST(&v6->sin6_addr);
}

/** For an address that is offered: the two families differ. */
static socklen_t address_bytes(const struct ifaddrs *at)
{
    return at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                              : sizeof(struct sockaddr_in6);
}

/** False: the system lists the address, but nobody can listen there. An IPv6 address is tentative
 *  for a second or two after its interface came up, and stays unusable if another host has it. */
static bool is_usable(const struct ifaddrs *at)
{
    const int fd = socket(at->ifa_addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true; /* not known to be unusable */
    const bool is = bind(fd, at->ifa_addr, address_bytes(at)) == 0 || errno != EADDRNOTAVAIL;
    close(fd);
    return is;
}

/** Appends to a list that people read. What has no room in it is replaced by three dots. */
static void append_words(char *text, size_t capacity, const char *words, const char *more)
{
    static const char rest[] = ", ...";
    const size_t used = strlen(text), room = capacity - used - (sizeof rest - 1);
    const bool is_full = used >= sizeof rest && strcmp(text + used - (sizeof rest - 1), rest) == 0;

    if (!is_full &&
        (size_t)snprintf(text + used, room, "%s%s %s", used == 0 ? "" : ", ", words, more) >= room)
        memcpy(text + used, rest, sizeof rest);
}

/** The kernel's flags of an IPv6 address, of which getifaddrs says nothing; 0: not known. */
static unsigned int flags_of(const struct in6_addr *address, const char *interface)
{
    char wanted[2 * sizeof *address + 1] = "", listed[2 * sizeof *address + 1], name[IF_NAMESIZE];
    unsigned int flags = 0;
    FILE *file = fopen("/proc/self/net/if_inet6", "re");

    for (size_t i = 0; i < sizeof *address; i++)
        snprintf(wanted + 2 * i, 3, "%02x", (unsigned int)address->s6_addr[i]);
    while (file && fscanf(file, "%32s %*x %*x %*x %x %15s", listed, &flags, name) == 3 &&
           (strcmp(listed, wanted) != 0 || strcmp(name, interface) != 0))
        flags = 0;
    if (file)
        fclose(file);
    return flags;
}

static const char *why_unusable(const struct ifaddrs *at)
{
    const struct sockaddr_in6 *const v6 = (const struct sockaddr_in6 *)(const void *)at->ifa_addr;
    const unsigned int flags =
        at->ifa_addr->sa_family == AF_INET6 ? flags_of(&v6->sin6_addr, at->ifa_name) : 0;

    if (flags & IFA_F_DADFAILED)
        return "is in use by another host too";
    if (flags & IFA_F_TENTATIVE)
        return "is tentative: the kernel still looks whether another host has it";
    return "cannot be listened at";
}

static void note_unusable(struct locals *locals, const struct ifaddrs *at)
{
    struct kolo_place place = {.bytes = address_bytes(at)};
    char address[INET6_ADDRSTRLEN] = "", words[2 * INET6_ADDRSTRLEN];
    const char *const why = why_unusable(at);

    memcpy(&place.addr, at->ifa_addr, place.bytes);
    if (locals->net && kolo_places_entry(locals->net, at->ifa_name, &place) < 0)
        return;
    (void)getnameinfo(at->ifa_addr, address_bytes(at), address, sizeof address, NULL, 0,
                      NI_NUMERICHOST);
    snprintf(words, sizeof words, "%.16s %s", at->ifa_name, address);
    append_words(locals->unusable, sizeof locals->unusable, words, why);
    KOLO_DEBUG("%s is left out: it %s", words, why);
}

/** getifaddrs gives an IPv4 address the name that is its label. If the kernel does not say which
 *  interface that is: its name, or what begins with its name and a colon, which no interface has in
 *  its name. */
static void name_local(struct local *local, const struct ifaddrs *at,
                       const struct kolo_labels *labels)
{
    const struct sockaddr_in *const v4 = (const struct sockaddr_in *)(const void *)at->ifa_addr;
    const char *const label = at->ifa_name;

    snprintf(local->label, sizeof local->label, "%s", label);
    if (at->ifa_addr->sa_family != AF_INET ||
        !kolo_labels_interface(labels, v4->sin_addr, label, local->interface))
        snprintf(local->interface, sizeof local->interface, "%.*s", (int)strcspn(label, ":"),
                 label);
}

static kolo_status append_local(struct locals *locals, const struct ifaddrs *at,
                                const struct kolo_labels *labels)
{
    void *items = locals->items;
    kolo_status status =
        kolo_grow(&items, &locals->capacity, locals->count + 1, sizeof *locals->items);
    struct local *local;

    if (status != KOLO_OK)
        return status;
    locals->items = items;
    local = &locals->items[locals->count++];
    *local = (struct local){.is_loopback = at->ifa_flags & IFF_LOOPBACK};
    name_local(local, at, labels);
    local->is_hardware = interface_is_hardware(local->interface);
    local->speed = interface_speed(local->interface);
    local->place.bytes = address_bytes(at);
    memcpy(&local->place.addr, at->ifa_addr, local->place.bytes);
    return KOLO_OK;
}

static kolo_status list_locals(struct locals *locals)
{
    struct ifaddrs *all = NULL;
    struct kolo_labels labels;
    kolo_status status = KOLO_OK;

    if (getifaddrs(&all) != 0)
        return kolo_fail_errno(
            KOLO_ERR_SYSTEM, errno,
            "addresses of this machine, for which a sandbox must allow sockets of "
            "AF_NETLINK");
    kolo_labels_read(&labels);
    for (const struct ifaddrs *at = all; at && status == KOLO_OK; at = at->ifa_next)
        if (is_offered(at) && !is_usable(at))
            note_unusable(locals, at);
        else if (is_offered(at))
            status = append_local(locals, at, &labels);
    kolo_labels_fini(&labels);
    freeifaddrs(all);
    return status;
}

/* ---- KOLO_NET ---- */

/** One entry: the name of an interface, the label of an address, or a network (an address is a
 *  network of one). */
struct net {
    char name[IF_NAMESIZE];
    int family; /* AF_UNSPEC: a name */
    uint8_t prefix[16];
    unsigned bits;
    bool excludes; /* written with ! or ^ */
};

static bool net_allows(const struct net *net, const struct local *local)
{
    size_t bytes;
    const uint8_t *address = kolo_place_ip(&local->place, &bytes);
    unsigned whole = net->bits / 8, rest = net->bits % 8;

    if (net->family == AF_UNSPEC)
        return strcmp(net->name, local->interface) == 0 || strcmp(net->name, local->label) == 0;
    if (net->family != local->place.addr.ss_family || memcmp(net->prefix, address, whole) != 0)
        return false;
    return rest == 0 || (net->prefix[whole] ^ address[whole]) >> (8 - rest) == 0;
}

static kolo_status parse_net(const char *entry, size_t length, struct net *out)
{
    char text[INET6_ADDRSTRLEN + 8];
    char *slash, *rest;
    unsigned long bits, max;

    memset(out, 0, sizeof *out);
    out->excludes = length > 0 && (entry[0] == '!' || entry[0] == '^');
    entry += out->excludes;
    length -= out->excludes;
    if (length > 0 && length < sizeof text && entry[0] != '!' && entry[0] != '^') {
        memcpy(text, entry, length);
        text[length] = '\0';
        slash = strchr(text, '/');
        if (slash)
            *slash = '\0';
        out->family = inet_pton(AF_INET, text, out->prefix) == 1    ? AF_INET
                      : inet_pton(AF_INET6, text, out->prefix) == 1 ? AF_INET6
                                                                    : AF_UNSPEC;
        max = out->family == AF_INET ? 32 : 128;
        bits = slash && slash[1] >= '0' && slash[1] <= '9' ? strtoul(slash + 1, &rest, 10) : max;
        out->bits = (unsigned)bits;
        if (out->family != AF_UNSPEC && bits <= max &&
            (!slash || (slash[1] >= '0' && slash[1] <= '9' && *rest == '\0')))
            return KOLO_OK;
        if (out->family == AF_UNSPEC && !slash && length < sizeof out->name) {
            memcpy(out->name, text, length + 1);
            return KOLO_OK;
        }
    }
    return kolo_fail(
        KOLO_ERR_CONFIG,
        "KOLO_NET: \"%.*s\" is neither an interface name nor a network: expected such as "
        "eth0, 10.0.0.0/8 or fd00::/8, or ^ and one of these to leave it out",
        (int)length, entry);
}

/** Returns ERR_CONFIG, with a detail that lists what could have been named. */
static kolo_status fail_no_match(const char *net, const struct locals *locals)
{
    char have[512] = "", place[64];

    for (size_t i = 0; i < locals->count; i++) {
        kolo_place_format(&locals->items[i].place, place, sizeof place);
        *strrchr(place, ':') = '\0';
        append_words(have, sizeof have, locals->items[i].interface, place);
    }
    return kolo_fail(
        KOLO_ERR_CONFIG, "KOLO_NET: nothing of this machine matches \"%s\"; up are %s%s%s", net,
        have[0] ? have : "no addresses at all", locals->unusable[0] ? "; " : "", locals->unusable);
}

/** No entry includes anything: allows all, but loopback only if there is nothing else. */
static void allow_all(struct locals *locals)
{
    bool has_other = false;

    for (size_t i = 0; i < locals->count; i++)
        has_other |= !locals->items[i].is_loopback && locals->items[i].entry != EXCLUDED;
    for (size_t i = 0; i < locals->count; i++)
        if (locals->items[i].entry == NOT_NAMED && !(has_other && locals->items[i].is_loopback))
            locals->items[i].entry = 0;
}

/** False: the entry matches nothing here. */
static bool apply_entry(const struct net *net, int index, struct locals *locals)
{
    bool names_some = false;
    for (size_t i = 0; i < locals->count; i++) {
        struct local *local = &locals->items[i];
        if (!net_allows(net, local))
            continue;
        names_some = true;
        if (net->excludes)
            local->entry = EXCLUDED;
        else if (local->entry == NOT_NAMED)
            local->entry = index;
    }
    return names_some;
}

static void note_unnamed(struct locals *locals, const char *entry, size_t length)
{
    size_t used = strlen(locals->unnamed);

    snprintf(locals->unnamed + used, sizeof locals->unnamed - used, "%s%.*s", used > 0 ? ", " : "",
             (int)length, entry);
}

kolo_status kolo_places_check(const char *net)
{
    kolo_status status = KOLO_OK;
    for (const char *entry = net; *net != '\0' && status == KOLO_OK; entry++) {
        const size_t length = strcspn(entry, ",");
        struct net parsed;
        status = parse_net(entry, length, &parsed);
        entry += length;
        if (*entry == '\0')
            break;
    }
    return status;
}

/** Marks each address with the first entry that matches it. What an entry with ! or ^ matches is
 *  excluded, whatever the others say. Since hosts differ, some entries may match nothing here, but
 *  not all. */
static kolo_status apply_net(const char *net, struct locals *locals)
{
    bool has_includes = false;
    int index = 0;

    for (size_t i = 0; i < locals->count; i++)
        locals->items[i].entry = NOT_NAMED;
    for (const char *entry = net; *net != '\0'; entry++, index++) {
        size_t length = strcspn(entry, ",");
        struct net parsed;
        kolo_status status = parse_net(entry, length, &parsed);
        if (status != KOLO_OK)
            return status;
        has_includes |= !parsed.excludes;
        if (!apply_entry(&parsed, index, locals) && !parsed.excludes)
            note_unnamed(locals, entry, length);
        entry += length;
        if (*entry == '\0')
            break;
    }
    if (!has_includes)
        allow_all(locals);
    for (size_t i = 0; i < locals->count; i++)
        if (locals->items[i].entry >= 0)
            return KOLO_OK;
    return *net == '\0' ? kolo_fail(KOLO_ERR_UNSUPPORTED,
                                    "no network interface is up (try: ip link set lo up)")
                        : fail_no_match(net, locals);
}

static int compare_locals(const void *left, const void *right)
{
    const struct local *a = left, *b = right;
    size_t bytes, same;
    const uint8_t *ip = kolo_place_ip(&a->place, &bytes), *other;

    if (a->entry != b->entry)
        return a->entry < b->entry ? -1 : 1;
    if (a->is_loopback != b->is_loopback)
        return a->is_loopback ? 1 : -1;
    if (a->is_hardware != b->is_hardware)
        return a->is_hardware ? -1 : 1;
    if (a->speed != b->speed)
        return a->speed > b->speed ? -1 : 1;
    if (a->place.addr.ss_family != b->place.addr.ss_family)
        return a->place.addr.ss_family == AF_INET ? -1 : 1;
    other = kolo_place_ip(&b->place, &same); /* same family, so same length */
    return memcmp(ip, other, bytes);
}

static void set_facts(struct kolo_place *place, const struct local *local)
{
    place->facts.entry = (uint8_t)(local->entry < UINT8_MAX ? local->entry : UINT8_MAX);
    place->facts.is_hardware = local->is_hardware;
    place->facts.speed_mbit = (uint32_t)local->speed;
    place->facts.numa_node = interface_numa_node(local->interface);
    snprintf(place->facts.interface, sizeof place->facts.interface, "%s", local->interface);
}

kolo_status kolo_places_local(const char *net, uint16_t port, struct kolo_place *places_out,
                              size_t max, size_t *count_out)
{
    struct locals locals = {0};
    kolo_status status;
    size_t count = 0;

    KOLO_TRY(list_locals(&locals));
    KOLO_TRY(apply_net(net, &locals));
    if (locals.count > 0)
        qsort(locals.items, locals.count, sizeof locals.items[0], compare_locals);
    for (size_t i = 0; i < locals.count && count < max; i++) {
        if (locals.items[i].entry < 0)
            continue;
        places_out[count] = locals.items[i].place;
        set_facts(&places_out[count], &locals.items[i]);
        kolo_place_set_port(&places_out[count++], port);
    }
    *count_out = count;
out:
    kolo_free_memory(locals.items);
    return status;
}

/** Finds the label of an address of which only the interface is known. */
static void find_label(struct local *local)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        struct kolo_place place = {.bytes = sizeof(struct sockaddr_in)};
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&place.addr, at->ifa_addr, place.bytes);
        if (kolo_place_is_same_ip(&place, &local->place))
            snprintf(local->label, sizeof local->label, "%s", at->ifa_name);
    }
    freeifaddrs(all);
}

int kolo_places_entry(const char *net, const char *interface, const struct kolo_place *place)
{
    struct local local = {.place = *place};
    struct locals one = {.items = &local, .count = 1};

    snprintf(local.label, sizeof local.label, "%s", interface);
    snprintf(local.interface, sizeof local.interface, "%s", interface);
    if (net[0] != '\0' && place->addr.ss_family == AF_INET) /* it may have a label */
        find_label(&local);
    return apply_net(net, &one) == KOLO_OK ? local.entry : -1;
}

size_t kolo_places_missed(const char *net, const struct kolo_place *places, size_t count)
{
    struct locals locals = {0};
    size_t all = 0;

    if (count > 0 && places[0].facts.is_hardware && !places[count - 1].facts.is_hardware)
        return 0;
    if (list_locals(&locals) == KOLO_OK && apply_net(net, &locals) == KOLO_OK)
        for (size_t i = 0; i < locals.count; i++)
            all += locals.items[i].entry >= 0;
    kolo_free_memory(locals.items);
    return all > count ? all : 0;
}

void kolo_places_unnamed(const char *net, char *text, size_t capacity)
{
    struct locals locals = {0};

    if (list_locals(&locals) != KOLO_OK || apply_net(net, &locals) != KOLO_OK)
        locals.unnamed[0] = '\0';
    snprintf(text, capacity, "%s", locals.unnamed);
    kolo_free_memory(locals.items);
}

void kolo_places_unusable(const char *net, char *text, size_t capacity)
{
    struct locals locals = {.net = net};

    if (list_locals(&locals) != KOLO_OK)
        locals.unusable[0] = '\0';
    snprintf(text, capacity, "%s", locals.unusable);
    kolo_free_memory(locals.items);
}

/** Sends nothing: looks for a way there only. What is refused for another reason (a sandbox) is not
 * known to be missing. */
static bool is_cut_off(const struct kolo_place *place)
{
    const int fd = socket(place->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno == EAFNOSUPPORT;
    const bool is = connect(fd, (const struct sockaddr *)&place->addr, place->bytes) != 0 &&
                    (errno == ENETUNREACH || errno == EHOSTUNREACH || errno == EADDRNOTAVAIL);
    close(fd);
    return is;
}

bool kolo_places_loopback_works(void)
{
    enum { ANY_PORT = 9 };
    const struct in_addr four = {.s_addr = htonl(INADDR_LOOPBACK)};
    const struct kolo_place places[] = {kolo_place_make(AF_INET, &four, ANY_PORT),
                                        kolo_place_make(AF_INET6, &in6addr_loopback, ANY_PORT)};
    return !is_cut_off(&places[0]) || !is_cut_off(&places[1]);
}
