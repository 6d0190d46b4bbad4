// SPDX-License-Identifier: Apache-2.0
// Chooses the RDMA port of a rank: the one that KOLO_RDMA_DEVICE names, or the best one that is
// there. It goes over all ports twice: first it compares them, opening only one at a time, then it
// opens the best one and keeps it. Must never leave a port open that it does not return.
#include "transport/rdma_device.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/numa.h"
#include "transport/rdma_direct.h"

enum {
    PORTS_MAX = 255,
    ENTRY_BYTES = IBV_SYSFS_NAME_MAX + 8, /* "NAME:PORT" */
    REASONS_BYTES = 512
};

/* ---- KOLO_RDMA_DEVICE ---- */

/** What the settings ask for. */
struct wanted {
    char name[IBV_SYSFS_NAME_MAX]; /* "": any */
    unsigned port;                 /* 0: any */
};

/** Copies entry @p number of a comma-separated list. ERR_UNSUPPORTED: there is no such entry. */
static kolo_status take_entry(const char *list, int number, char text_out[ENTRY_BYTES])
{
    const size_t capacity = ENTRY_BYTES;
    for (; number > 0; number--) {
        const char *comma = strchr(list, ',');
        if (!comma)
            return kolo_fail(KOLO_ERR_UNSUPPORTED, "KOLO_RDMA_DEVICE names no further port");
        list = comma + 1;
    }
    size_t length = strcspn(list, ",");
    snprintf(text_out, capacity, "%.*s", (int)(length < capacity ? length : capacity - 1), list);
    return KOLO_OK;
}

static kolo_status parse_wanted(const char *text, struct wanted *wanted_out)
{
    struct wanted wanted = {.port = 0};
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    bool is_good = length < sizeof wanted.name && (length > 0 || !colon);
    for (const char *at = colon ? colon + 1 : ""; is_good && *at != '\0'; at++) {
        is_good = *at >= '0' && *at <= '9' && wanted.port <= PORTS_MAX;
        wanted.port = wanted.port * 10 + (unsigned)(*at - '0');
    }
    if (!is_good || (colon && (wanted.port < 1 || wanted.port > PORTS_MAX)))
        return kolo_fail(KOLO_ERR_CONFIG,
                         "RDMA device '%s': expected NAME or NAME:PORT, such as mlx5_0:1", text);
    memcpy(wanted.name, text, length);
    wanted.name[length] = '\0';
    *wanted_out = wanted;
    return KOLO_OK;
}

/** Checks that each entry of the list is a name, since an empty one would mean any port. */
static kolo_status check_list(const char *list)
{
    char entry[ENTRY_BYTES];
    struct wanted unused;
    kolo_status status = KOLO_OK;
    for (int i = 0; status == KOLO_OK && take_entry(list, i, entry) == KOLO_OK; i++) {
        status = parse_wanted(entry, &unused);
        if (entry[0] == '\0')
            status = kolo_fail(KOLO_ERR_CONFIG,
                               "KOLO_RDMA_DEVICE=%s: entry %d is empty: expected NAME "
                               "or NAME:PORT between commas",
                               list, i + 1);
    }
    return status;
}

int kolo_rdma_device_named(const struct kolo_settings *settings)
{
    int count = settings->rdma_device[0] != '\0';
    for (const char *at = settings->rdma_device; *at != '\0'; at++)
        count += *at == ',';
    return count;
}

/* ---- the best of them ---- */

/** The criteria by which ports are compared. */
struct merit {
    uint8_t number; /* 0: there is no port */
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t entry;
    bool is_given, is_near;
    int bridges_shared;
    uint32_t rate_mbit;
};

struct search {
    struct wanted wanted;
    char entry[ENTRY_BYTES];                     /* of KOLO_RDMA_DEVICE; "": it names no port */
    const char *net;                             /* KOLO_NET if it applies, otherwise "" */
    const struct kolo_rdma_device *const *taken; /* those already in use */
    int taken_count;
    int numa_node;
    char near[PATH_MAX]; /* KOLO_NEAR's directory; "": not given */
    struct merit best;
    struct kolo_rdma_device *found;
    kolo_status status;          /* KOLO_ERR_NO_MEMORY ends the search */
    char reasons[REASONS_BYTES]; /* such as "rxe0 port 1: its link is down...; " */
};

static void add_reason(struct search *search, const char *name, uint8_t number)
{
    size_t used = strlen(search->reasons);
    char port[16] = "";
    if (number > 0)
        snprintf(port, sizeof port, " port %u", number);
    snprintf(search->reasons + used, sizeof search->reasons - used, "%s%s%s: %s",
             used > 0 ? "; " : "", name, port, kolo_error_detail());
}

/** Finds the directory of KOLO_NEAR's device in /sys. A device that is not there (a container may
 *  hide it) only causes a warning. */
static kolo_status find_near(const char *setting, char near[PATH_MAX])
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT; /* this runs for each port that is opened */
    near[0] = '\0';
    if (setting[0] == '\0')
        return KOLO_OK;
    if (setting[0] != '/' && setting[strspn(setting, "0123456789abcdefABCDEF:.")] != '\0')
        return kolo_fail(KOLO_ERR_CONFIG,
                         "KOLO_NEAR=%s: expected a PCI address, such as 0000:3b:00.0", setting);
    snprintf(near, PATH_MAX, "%s%s", setting[0] == '/' ? "" : "/sys/bus/pci/devices/", setting);
    if (access(near, F_OK) == 0)
        return KOLO_OK;
    if (!atomic_flag_test_and_set(&has_warned))
        KOLO_WARN("KOLO_NEAR=%s: there is no %s: the RDMA port is chosen by the NUMA node alone",
                  setting, near);
    near[0] = '\0';
    return KOLO_OK;
}

static struct merit merit_of(const struct kolo_rdma_device *device, const struct search *search)
{
    const int numa_node = search->numa_node;
    struct merit merit = {.number = device->port,
                          .entry = UINT8_MAX,
                          .is_near = numa_node >= 0 && device->numa_node == numa_node,
                          .rate_mbit = device->rate_mbit};
    if (search->near[0] != '\0')
        merit.bridges_shared = kolo_bridges_shared(search->near, device->directory);
    snprintf(merit.name, sizeof merit.name, "%s", device->name);
    for (size_t i = 0; i < device->gids.count; i++) {
        merit.is_given |= kolo_rdma_gid_is_given(&device->gids.all[i]);
        if (device->gids.all[i].entry < merit.entry)
            merit.entry = device->gids.all[i].entry;
    }
    return merit;
}

static bool is_better(const struct merit *one, const struct merit *other)
{
    if (other->number == 0 || one->entry != other->entry)
        return other->number == 0 || one->entry < other->entry;
    if (one->is_given != other->is_given)
        return one->is_given;
    if (one->rate_mbit != other->rate_mbit)
        return one->rate_mbit > other->rate_mbit;
    if (one->bridges_shared != other->bridges_shared)
        return one->bridges_shared > other->bridges_shared;
    return one->is_near && !other->is_near;
}

static bool is_wanted(const struct search *search, uint8_t number)
{
    return search->wanted.port == 0 || number == 0 || number == search->wanted.port;
}

static bool is_taken(const struct search *search, const char *name, uint8_t number)
{
    for (int i = 0; i < search->taken_count; i++)
        if (search->taken[i]->port == number && strcmp(search->taken[i]->name, name) == 0)
            return true;
    return false;
}

/** Keeps the best port, and the reasons why others cannot be used. */
static bool compare(void *context, struct kolo_rdma_device *device, const char *name,
                    uint8_t number, kolo_status status)
{
    struct search *search = context;
    if (!is_wanted(search, number) || is_taken(search, name, number))
        return true;
    if (status == KOLO_ERR_NO_MEMORY)
        search->status = status;
    if (status != KOLO_OK) {
        add_reason(search, name, number);
        return true;
    }
    const struct merit merit = merit_of(device, search);
    if (is_better(&merit, &search->best))
        search->best = merit;
    return true;
}

static bool take(void *context, struct kolo_rdma_device *device, const char *name, uint8_t number,
                 kolo_status status)
{
    struct search *search = context;
    if (!is_wanted(search, number))
        return true;
    if (status == KOLO_OK)
        status = kolo_rdma_device_prepare(device);
    if (status != KOLO_OK) {
        add_reason(search, name, number);
        return true;
    }
    search->found = device;
    return false;
}

/** Fills in @p search from the settings. ERR_CONFIG, ERR_UNSUPPORTED. */
static kolo_status read_settings(const struct kolo_settings *settings, struct search *search)
{
    if (settings->rdma_device[0] == '\0') {
        search->net = settings->net;
        return find_near(settings->near, search->near);
    }
    kolo_status status = check_list(settings->rdma_device);
    if (status == KOLO_OK)
        status = take_entry(settings->rdma_device, search->taken_count, search->entry);
    return status == KOLO_OK ? parse_wanted(search->entry, &search->wanted) : status;
}

/** Opens the best port. If it then turns out to lack something, that is an error: the next best
 *  port may lead to other peers. */
static kolo_status find_best(const struct kolo_verbs *verbs, struct search *search)
{
    kolo_status status =
        kolo_rdma_ports_visit(verbs, search->wanted.name, search->net, compare, search);
    if (status != KOLO_OK || search->best.number == 0)
        return status;
    search->wanted.port = search->best.number;
    memcpy(search->wanted.name, search->best.name, sizeof search->wanted.name);
    return kolo_rdma_ports_visit(verbs, search->wanted.name, search->net, take, search);
}

static kolo_status fail_none(const struct search *search)
{
    if (search->status == KOLO_ERR_NO_MEMORY)
        return search->status;
    if (search->reasons[0] == '\0')
        return kolo_fail(
            search->status,
            "there is no%s RDMA port '%s' on this host; kolorun info lists what there is",
            search->taken_count > 0 ? " further" : "", search->entry);
    return kolo_fail(search->status, "no RDMA port can be used here: %s", search->reasons);
}

kolo_status kolo_rdma_device_open(const struct kolo_verbs *verbs,
                                  const struct kolo_settings *settings, int numa_node,
                                  struct kolo_rdma_device **device_out)
{
    return kolo_rdma_device_open_next(verbs, settings, numa_node, NULL, 0, device_out);
}

kolo_status kolo_rdma_device_open_next(const struct kolo_verbs *verbs,
                                       const struct kolo_settings *settings, int numa_node,
                                       const struct kolo_rdma_device *const *taken, int taken_count,
                                       struct kolo_rdma_device **device_out)
{
    struct search search = {.net = "",
                            .taken = taken,
                            .taken_count = taken_count,
                            .numa_node = numa_node,
                            .status = KOLO_ERR_UNSUPPORTED};
    kolo_status status = read_settings(settings, &search);
    if (status == KOLO_OK)
        status = find_best(verbs, &search);
    if (status == KOLO_OK && !search.found)
        status = fail_none(&search);
    if (status != KOLO_OK)
        return status;
    search.found->patience = kolo_rdma_patience_of(settings->peer_timeout_ms);
    *device_out = search.found;
    return KOLO_OK;
}

/* ---- reporting ---- */

enum { LIST_BYTES = 512 };

/** Appends @p entry, once, if there is room for all of it. */
static void list(char text[LIST_BYTES], const char *entry)
{
    const size_t length = strlen(entry), used = strlen(text);
    for (const char *at = text; (at = strstr(at, entry)) != NULL; at += length)
        if ((at == text || at[-1] == ' ') && (at[length] == '\0' || at[length] == ';'))
            return;
    if (used + length + 3 <= LIST_BYTES)
        snprintf(text + used, LIST_BYTES - used, "%s%s", used > 0 ? "; " : "", entry);
}

void kolo_rdma_choice_tell(const struct kolo_verbs *verbs, const struct kolo_settings *settings,
                           void (*line)(void *context, const char *name, const char *addresses,
                                        const char *networks),
                           void *context)
{
    const struct kolo_rdma_device *taken[KOLO_RDMA_RAILS_MAX];
    struct kolo_rdma_device *devices[KOLO_RDMA_RAILS_MAX];
    const int most = settings->rdma_rails > 0 ? (int)settings->rdma_rails : KOLO_RDMA_RAILS_MAX;
    int count = 0;
    while (count < most && kolo_rdma_device_open_next(verbs, settings, (int)settings->numa_node,
                                                      taken, count, &devices[count]) == KOLO_OK) {
        taken[count] = devices[count];
        count++;
    }
    for (int i = 0; i < count; i++) {
        char name[ENTRY_BYTES], text[KOLO_RDMA_GID_TEXT];
        char addresses[LIST_BYTES] = "", networks[LIST_BYTES] = "";
        const struct kolo_rdma_gids *gids = &devices[i]->gids;
        for (size_t j = 0; j < gids->count; j++) {
            kolo_rdma_gid_format(&gids->all[j], text, sizeof text);
            list(addresses, text);
            kolo_rdma_gid_network(&gids->all[j], text, sizeof text);
            list(networks, text);
        }
        snprintf(name, sizeof name, "%s:%u", devices[i]->name, devices[i]->port);
        line(context, name, addresses, networks);
        kolo_rdma_device_close(devices[i]);
    }
}
