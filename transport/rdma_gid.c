// SPDX-License-Identifier: Apache-2.0
// Reads the addresses of a port and chooses the pair that joins two ports (rdma_gid.h says how).
// The result must never depend on which side asks: pairs are ordered by both addresses, not by
// "ours" and "theirs".
#include "transport/rdma_gid.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/short_file.h"
#include "transport/conn.h"

enum {
    TABLE_MAX = 1024, /* for all ports of a device: some have 256 entries per port */
    PLACES_MAX = 64
};

/** Families never reach each other, even if the kind is the same. Listed in the order of
 *  preference, lowest first. */
enum family { LINK_LOCAL, SITE, IPV6, IPV4 };

static const char *const kind_texts[KOLO_RDMA_KINDS] = {
    [KOLO_RDMA_INFINIBAND] = "InfiniBand",
    [KOLO_RDMA_ROCE_V1] = "RoCE v1",
    [KOLO_RDMA_ROCE_V2] = "RoCE v2",
};

static const char *kind_text(enum kolo_rdma_kind kind)
{
    return kind > 0 && kind < KOLO_RDMA_KINDS ? kind_texts[kind] : "unknown";
}

static enum family family_of(const struct kolo_rdma_gid *gid)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    if (gid->kind == KOLO_RDMA_INFINIBAND)
        return SITE; /* the first half is the subnet, and is compared */
    if (memcmp(gid->bytes, ipv4, sizeof ipv4) == 0)
        return IPV4;
    return gid->bytes[0] == 0xfe && (gid->bytes[1] & 0xc0) == 0x80 ? LINK_LOCAL : IPV6;
}

/** A higher value is better. RoCE v2 passes routers, and reaches whatever v1 reaches. An address
 *  that somebody assigned says more about who is reachable than one that each interface derives for
 *  itself. */
static int rank_of(const struct kolo_rdma_gid *gid)
{
    bool is_local = family_of(gid) == LINK_LOCAL;
    return (int)gid->kind * 4 + (int)family_of(gid) - (is_local ? 2 * 4 : 0);
}

bool kolo_rdma_gid_is_given(const struct kolo_rdma_gid *gid)
{
    return family_of(gid) != LINK_LOCAL;
}

static bool is_null(const uint8_t *bytes)
{
    static const uint8_t null[KOLO_RDMA_GID_BYTES];
    return memcmp(bytes, null, sizeof null) == 0;
}

/** False: we cannot use it. */
static bool take(const struct ibv_gid_entry *entry, struct kolo_rdma_gid *gid_out)
{
    static const enum kolo_rdma_kind kinds[] = {[IBV_GID_TYPE_IB] = KOLO_RDMA_INFINIBAND,
                                                [IBV_GID_TYPE_ROCE_V1] = KOLO_RDMA_ROCE_V1,
                                                [IBV_GID_TYPE_ROCE_V2] = KOLO_RDMA_ROCE_V2};
    if (entry->gid_type >= sizeof kinds / sizeof kinds[0] || entry->gid_index > UINT8_MAX ||
        is_null(entry->gid.raw))
        return false;
    *gid_out =
        (struct kolo_rdma_gid){.kind = kinds[entry->gid_type], .index = (uint8_t)entry->gid_index};
    memcpy(gid_out->bytes, entry->gid.raw, sizeof gid_out->bytes);
    return true;
}

/* ---- interfaces, and what KOLO_NET allows ---- */

/** Which port of its card an interface is, counted from 1. */
static unsigned card_port(const char *interface)
{
    char path[64 + IF_NAMESIZE];
    snprintf(path, sizeof path, "/sys/class/net/%.15s/dev_port", interface);
    const int64_t port = kolo_short_file_number(path); /* -1: it has only one */
    return port < 0 ? 1 : (unsigned)port + 1;
}

/** The interface (IPoIB) of an InfiniBand port; "": it has none. */
static void find_ipoib(const struct ibv_device *device, uint8_t port, char name[IF_NAMESIZE])
{
    char path[IBV_SYSFS_PATH_MAX + 16];
    const struct dirent *entry;
    name[0] = '\0';
    snprintf(path, sizeof path, "%.255s/device/net", device->ibdev_path);
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' && card_port(entry->d_name) == port)
            snprintf(name, IF_NAMESIZE, "%.15s", entry->d_name);
    if (folder)
        (void)closedir(folder);
}

/** The first entry of @p net that allows one of the interface's addresses, or -1. */
static int entry_of_addresses(const char *net, const char *interface)
{
    struct kolo_place places[PLACES_MAX];
    size_t count = 0;
    if (kolo_places_local(net, 0, places, PLACES_MAX, &count) != KOLO_OK)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (strcmp(places[i].facts.interface, interface) == 0)
            return places[i].facts.entry;
    return -1;
}

static int entry_of_interface(const char *net, const char *interface)
{
    const struct kolo_place place = kolo_place_make(AF_INET, NULL, 0);
    if (net[0] == '\0' || interface[0] == '\0')
        return 0;
    if (entry_of_addresses(interface, interface) >= 0) /* it has addresses */
        return entry_of_addresses(net, interface);
    return kolo_places_entry(net, interface, &place); /* it has none, so only its name decides */
}

static int entry_of_address(const char *net, const struct kolo_rdma_gid *gid)
{
    const struct kolo_place place = family_of(gid) == IPV4
                                        ? kolo_place_make(AF_INET, gid->bytes + 12, 0)
                                        : kolo_place_make(AF_INET6, gid->bytes, 0);
    return kolo_places_entry(net, gid->interface, &place);
}

/** Fills in its interface and entry. False: KOLO_NET excludes it. */
static bool allow(const char *net, const char *ipoib, const struct ibv_gid_entry *from,
                  struct kolo_rdma_gid *gid)
{
    bool is_infiniband = gid->kind == KOLO_RDMA_INFINIBAND;
    if (is_infiniband)
        snprintf(gid->interface, sizeof gid->interface, "%s", ipoib);
    else if (from->ndev_ifindex == 0 || !if_indextoname(from->ndev_ifindex, gid->interface))
        gid->interface[0] = '\0';
    int entry = is_infiniband ? entry_of_interface(net, ipoib) : entry_of_address(net, gid);
    gid->entry = (uint8_t)(entry < UINT8_MAX ? entry : UINT8_MAX);
    return entry >= 0;
}

/** Inserts into the sorted list; equal ones stay in the order of the table. */
static void insert(struct kolo_rdma_gids *gids, const struct kolo_rdma_gid *gid)
{
    size_t at = gids->count;
    while (at > 0 && rank_of(&gids->all[at - 1]) < rank_of(gid))
        at--;
    if (at == KOLO_RDMA_GIDS_MAX)
        return;
    if (gids->count < KOLO_RDMA_GIDS_MAX)
        gids->count++;
    memmove(&gids->all[at + 1], &gids->all[at], (gids->count - 1 - at) * sizeof *gid);
    gids->all[at] = *gid;
}

kolo_status kolo_rdma_gids_read(const struct kolo_verbs *verbs, struct ibv_context *context,
                                uint8_t port, const char *net, struct kolo_rdma_gids *gids_out)
{
    struct kolo_rdma_gids gids = {.count = 0};
    struct kolo_rdma_gid gid, left_out = {.kind = 0};
    char ipoib[IF_NAMESIZE], text[KOLO_RDMA_GID_TEXT];
    struct ibv_gid_entry *table = kolo_calloc(TABLE_MAX, sizeof *table);
    if (!table)
        return KOLO_ERR_NO_MEMORY;
    ssize_t count = verbs->query_gid_table(context, table, TABLE_MAX, 0, sizeof *table);
    find_ipoib(context->device, port, ipoib);
    for (ssize_t i = 0; i < count; i++) {
        if (table[i].port_num != port || !take(&table[i], &gid))
            continue;
        if (allow(net, ipoib, &table[i], &gid))
            insert(&gids, &gid);
        else
            left_out = gid;
    }
    kolo_free_memory(table);
    if (count < 0)
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, (int)-count, "its addresses cannot be read");
    if (gids.count == 0 && left_out.kind != 0) {
        kolo_rdma_gid_format(&left_out, text, sizeof text);
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "KOLO_NET=%.64s leaves it out (%s of %s); KOLO_RDMA_DEVICE takes it all the same", net,
            text, left_out.interface[0] != '\0' ? left_out.interface : "an unknown interface");
    }
    if (gids.count == 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "it has no address: give its interface one (ip addr add)");
    *gids_out = gids;
    return KOLO_OK;
}

/* ---- pairs ---- */

size_t kolo_rdma_gid_common_bits(const struct kolo_rdma_gid *one, const struct kolo_rdma_gid *other)
{
    size_t bits = 0;
    while (bits < 8 * KOLO_RDMA_GID_BYTES &&
           ((one->bytes[bits / 8] ^ other->bytes[bits / 8]) >> (7 - bits % 8) & 1) == 0)
        bits++;
    return bits;
}

static bool can_join(const struct kolo_rdma_gid *one, const struct kolo_rdma_gid *other)
{
    bool same_subnet = memcmp(one->bytes, other->bytes, KOLO_RDMA_GID_BYTES / 2) == 0;
    return one->kind == other->kind && family_of(one) == family_of(other) &&
           (one->kind != KOLO_RDMA_INFINIBAND || same_subnet);
}

/** Whether the first of two pairs that can join is the better one. */
static bool is_better(const struct kolo_rdma_gid *a1, const struct kolo_rdma_gid *a2,
                      const struct kolo_rdma_gid *b1, const struct kolo_rdma_gid *b2)
{
    if (rank_of(a1) != rank_of(b1))
        return rank_of(a1) > rank_of(b1);
    size_t a_bits = kolo_rdma_gid_common_bits(a1, a2), b_bits = kolo_rdma_gid_common_bits(b1, b2);
    if (a_bits != b_bits)
        return a_bits > b_bits;
    bool a_swaps = memcmp(a1->bytes, a2->bytes, KOLO_RDMA_GID_BYTES) > 0;
    bool b_swaps = memcmp(b1->bytes, b2->bytes, KOLO_RDMA_GID_BYTES) > 0;
    int low = memcmp((a_swaps ? a2 : a1)->bytes, (b_swaps ? b2 : b1)->bytes, KOLO_RDMA_GID_BYTES);
    int high = memcmp((a_swaps ? a1 : a2)->bytes, (b_swaps ? b1 : b2)->bytes, KOLO_RDMA_GID_BYTES);
    return low != 0 ? low < 0 : high < 0;
}

static void say_none(const struct kolo_rdma_gids *ours, const struct kolo_rdma_gids *theirs,
                     struct kolo_why *why_out)
{
    char one[KOLO_RDMA_GID_TEXT] = "no address", other[KOLO_RDMA_GID_TEXT] = "no address";
    if (ours->count > 0)
        kolo_rdma_gid_format(&ours->all[0], one, sizeof one);
    if (theirs->count > 0)
        kolo_rdma_gid_format(&theirs->all[0], other, sizeof other);
    snprintf(why_out->text, sizeof why_out->text, "%s and %s have no kind of address in common",
             one, other);
}

bool kolo_rdma_gids_join(const struct kolo_rdma_gids *ours, const struct kolo_rdma_gids *theirs,
                         size_t *ours_out, size_t *theirs_out, struct kolo_why *why_out)
{
    size_t best_ours = SIZE_MAX, best_theirs = 0;
    for (size_t i = 0; i < ours->count; i++)
        for (size_t j = 0; j < theirs->count; j++)
            if (can_join(&ours->all[i], &theirs->all[j]) &&
                (best_ours == SIZE_MAX ||
                 is_better(&ours->all[i], &theirs->all[j], &ours->all[best_ours],
                           &theirs->all[best_theirs]))) {
                best_ours = i;
                best_theirs = j;
            }
    if (best_ours == SIZE_MAX) {
        say_none(ours, theirs, why_out);
        return false;
    }
    *ours_out = best_ours;
    *theirs_out = best_theirs;
    return true;
}

void kolo_rdma_gid_network(const struct kolo_rdma_gid *gid, char *text, size_t capacity)
{
    static const char *const families[] = {
        [IPV4] = "IPv4", [IPV6] = "IPv6", [LINK_LOCAL] = "link-local"};
    struct kolo_rdma_gid subnet = {.kind = gid->kind};
    if (gid->kind != KOLO_RDMA_INFINIBAND) {
        snprintf(text, capacity, "%s %s", kind_text(gid->kind), families[family_of(gid)]);
        return;
    }
    memcpy(subnet.bytes, gid->bytes, KOLO_RDMA_GID_BYTES / 2);
    kolo_rdma_gid_format(&subnet, text, capacity);
}

void kolo_rdma_gid_format(const struct kolo_rdma_gid *gid, char *text, size_t capacity)
{
    char address[INET6_ADDRSTRLEN] = "?";
    bool is_ipv4 = family_of(gid) == IPV4;
    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, gid->bytes + (is_ipv4 ? 12 : 0), address,
                    sizeof address);
    snprintf(text, capacity, "%s %s", kind_text(gid->kind), address);
}
