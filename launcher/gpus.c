// SPDX-License-Identifier: Apache-2.0
// Reads what the NVIDIA driver says in /proc: the agent must never load CUDA, which takes seconds
// and memory on each device. Must never give out a device that CUDA_VISIBLE_DEVICES, which a batch
// system may have set, leaves out.
#include "launcher/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/numa.h"

static const char driver_directory[] = "/proc/driver/nvidia/gpus";

static kolo_status add(struct kolo_gpus *gpus, const char *name, size_t length,
                       const struct kolo_gpu *where)
{
    void *all = gpus->all;
    if (length >= KOLO_GPU_NAME_MAX || gpus->count == KOLO_GPUS_MAX)
        return kolo_fail(KOLO_ERR_CONFIG, "CUDA_VISIBLE_DEVICES: '%.*s' is not a device",
                         (int)(length < 100 ? length : 100), name);
    kolo_status status = kolo_grow(&all, &gpus->capacity, gpus->count + 1, sizeof *gpus->all);
    if (status != KOLO_OK)
        return status;
    gpus->all = all;
    struct kolo_gpu *gpu = &gpus->all[gpus->count++];
    *gpu = *where;
    memset(gpu->name, 0, sizeof gpu->name);
    memcpy(gpu->name, name, length);
    return KOLO_OK;
}

/* ---- what the driver says ---- */

/** Reads the word after "GPU UUID:" in the file @p path; "": there is none. */
static void read_uuid(const char *path, char uuid[KOLO_GPU_NAME_MAX])
{
    char line[256];
    FILE *file = fopen(path, "re");
    uuid[0] = '\0';
    while (file && uuid[0] == '\0' && fgets(line, sizeof line, file))
        (void)sscanf(line, "GPU UUID: %95s", uuid);
    if (file)
        (void)fclose(file);
}

static const struct kolo_gpu nowhere = {.node = -1, .last = -1};

/** Where the device at a PCI address is; /sys writes the address in lower case. */
static struct kolo_gpu place_of(const char *root, const char *address)
{
    struct kolo_gpu gpu = nowhere;
    char path[PATH_MAX];
    int length = snprintf(gpu.address, sizeof gpu.address, "%s", address);
    if (length >= (int)sizeof gpu.address)
        return nowhere;
    for (char *at = gpu.address; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    length = snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, gpu.address);
    if (length < (int)sizeof path)
        gpu.node = kolo_numa_node_of(path);
    return gpu;
}

static int is_device(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/** The same order in every locale. */
static int by_address(const struct dirent **a, const struct dirent **b)
{
    return strcasecmp((*a)->d_name, (*b)->d_name);
}

/** All devices of the host; none if there is no driver. */
static kolo_status read_all(const char *root, struct kolo_gpus *gpus)
{
    char path[PATH_MAX], uuid[KOLO_GPU_NAME_MAX];
    struct dirent **entries = NULL;
    kolo_status status = KOLO_OK;
    (void)snprintf(path, sizeof path, "%s%s", root, driver_directory);
    int count = scandir(path, &entries, is_device, by_address);
    for (int i = 0; i < count; i++) {
        const char *address = entries[i]->d_name;
        int length =
            snprintf(path, sizeof path, "%s%s/%s/information", root, driver_directory, address);
        const struct kolo_gpu place = place_of(root, address);
        if (length < (int)sizeof path)
            read_uuid(path, uuid);
        if (status == KOLO_OK && uuid[0] != '\0')
            status = add(gpus, uuid, strlen(uuid), &place);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- CUDA_VISIBLE_DEVICES ---- */

/** A device may be given by the beginning of its UUID, or by its number, whose order CUDA may
 * choose by itself. */
static const struct kolo_gpu *place_by_name(const struct kolo_gpus *known, bool is_by_bus,
                                            const char *name, size_t length)
{
    if (is_by_bus && strspn(name, "0123456789") >= length) {
        const unsigned long number = strtoul(name, NULL, 10); /* ULONG_MAX: out of range */
        return number < known->count ? &known->all[number] : &nowhere;
    }
    for (size_t i = 0; length > 4 && i < known->count; i++)
        if (strncmp(known->all[i].name, name, length) == 0)
            return &known->all[i];
    return &nowhere;
}

/** Whether it can be one for CUDA, which takes nothing else. Older Slurm writes NoDevFiles where a
 * step has no device. */
static bool is_device_name(const char *name, size_t length)
{
    return strspn(name, "0123456789") >= length ||
           (length > 4 && (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0));
}

static kolo_status add_visible(const struct kolo_gpus *known, const char *visible, bool is_by_bus,
                               struct kolo_gpus *gpus)
{
    kolo_status status = KOLO_OK;
    for (const char *at = visible; status == KOLO_OK;) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ", ");
        if (length == 0 || at[0] == '-') /* as CUDA does: it ignores what follows */
            break;
        if (!is_device_name(at, length)) {
            snprintf(gpus->stranger, sizeof gpus->stranger, "%.*s", (int)length, at);
            break; /* so does CUDA here, but the user may not have meant it */
        }
        status = add(gpus, at, length, place_by_name(known, is_by_bus, at, length));
        at += length;
        at += strspn(at, " ");
        at += *at == ',';
    }
    return status;
}

kolo_status kolo_gpus_find(const char *root, const char *visible, const char *order,
                           struct kolo_gpus *gpus_out)
{
    struct kolo_gpus known = {.all = NULL};
    *gpus_out = known;
    kolo_status status = read_all(root, &known);
    if (!visible) {
        *gpus_out = known;
        return status;
    }
    if (status == KOLO_OK)
        status = add_visible(&known, visible, order && strcmp(order, "PCI_BUS_ID") == 0, gpus_out);
    kolo_gpus_fini(&known);
    return status;
}

void kolo_gpus_fini(struct kolo_gpus *gpus)
{
    kolo_free_memory(gpus->all);
    *gpus = (struct kolo_gpus){.all = NULL};
}

/* ---- dealing ---- */

/** The device with the fewest ranks, fewer than @p most, at @p node (-1: anywhere) that @p rank
 * does not have yet; NULL: none. */
static struct kolo_gpu *least_used(struct kolo_gpus *gpus, int node, int most, int rank)
{
    struct kolo_gpu *best = NULL;
    for (size_t i = 0; i < gpus->count; i++) {
        struct kolo_gpu *gpu = &gpus->all[i];
        if (gpu->last != rank && gpu->ranks < most && (node < 0 || gpu->node == node) &&
            (!best || gpu->ranks < best->ranks))
            best = gpu;
    }
    return best;
}

static kolo_status deal_one(struct kolo_gpus *gpus, int each, int node, int most, int rank,
                            struct kolo_gpu_shares *shares)
{
    const char *address = "";
    const size_t capacity = (size_t)each * (KOLO_GPU_NAME_MAX + 1);
    char *text = kolo_calloc(capacity, 1);
    size_t used = 0;
    if (!text)
        return KOLO_ERR_NO_MEMORY;
    for (int i = 0; i < each; i++) {
        struct kolo_gpu *gpu = node < 0 ? NULL : least_used(gpus, node, most, rank);
        if (!gpu)
            gpu = least_used(gpus, -1, INT_MAX, rank);
        if (!gpu) /* cannot happen: each <= count */
            break;
        address = i == 0 ? gpu->address : address;
        gpu->ranks++;
        gpu->last = rank;
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i > 0 ? "," : "", gpu->name);
    }
    kolo_status status = kolo_texts_add(&shares->names, text);
    if (status == KOLO_OK)
        status = kolo_texts_add(&shares->addresses, address);
    kolo_free_memory(text);
    return status;
}

kolo_status kolo_gpus_deal(struct kolo_gpus *gpus, int each, const int *nodes, int ranks,
                           struct kolo_gpu_shares *shares)
{
    const long long count = (long long)gpus->count, wanted = (long long)each * ranks;
    if (each > count && gpus->stranger[0] != '\0')
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "--gpus %d: this host has %lld NVIDIA device%s to give out: "
            "CUDA_VISIBLE_DEVICES ends, for CUDA, at '%s', which is no number, GPU-... "
            "or MIG-...; correct it, ask a batch system for devices, or leave out "
            "--gpus",
            each, count, count == 1 ? "" : "s", gpus->stranger);
    if (each > count)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "--gpus %d: this host has %lld NVIDIA device%s to give out (%s, and "
                         "CUDA_VISIBLE_DEVICES where it is set): ask for fewer, or see what "
                         "nvidia-smi -L says there",
                         each, count, count == 1 ? "" : "s", driver_directory);
    kolo_status status = KOLO_OK;
    const int most = (int)((wanted + count - 1) / count);
    for (int rank = 0; rank < ranks && status == KOLO_OK; rank++)
        status = deal_one(gpus, each, nodes ? nodes[rank] : -1, most, rank, shares);
    return status;
}

void kolo_gpu_shares_fini(struct kolo_gpu_shares *shares)
{
    kolo_texts_fini(&shares->names);
    kolo_texts_fini(&shares->addresses);
}
