// SPDX-License-Identifier: Apache-2.0
// Decides which NVIDIA devices each rank of a host sees, if kolorun is asked to (--gpus).
#ifndef KOLO_LAUNCHER_GPUS_H
#define KOLO_LAUNCHER_GPUS_H

#include <stddef.h>

#include "launcher/frames.h"

enum { KOLO_GPU_NAME_MAX = 96, KOLO_GPU_ADDRESS_MAX = 24 };

struct kolo_gpu {
    char name[KOLO_GPU_NAME_MAX];       /* as in CUDA_VISIBLE_DEVICES: "GPU-..." or a number */
    char address[KOLO_GPU_ADDRESS_MAX]; /* PCI address, as in /sys; "": not known */
    int node;                           /* NUMA node, its OS index; -1: not known */
    int ranks;                          /* number of ranks that see it */
    int last;                           /* the last of these ranks */
};
struct kolo_gpus {
    struct kolo_gpu *all;
    size_t count, capacity;
    char stranger[48]; /* the beginning of what ended CUDA_VISIBLE_DEVICES and is no device; "" */
};

/** One text per rank, or none if --gpus was not given. */
struct kolo_gpu_shares {
    struct kolo_texts names;     /* the rank's devices, separated by commas */
    struct kolo_texts addresses; /* address of the first of them; "": not known */
};

/** Finds the devices of this host that may be assigned: those of @p visible (CUDA_VISIBLE_DEVICES;
 * NULL: not set) in that order, up to the first entry that cannot be one for CUDA; else all that
 * the driver lists, by PCI address. The address and node of a device of @p visible are known if it
 * is given by name, or by number if @p order (CUDA_DEVICE_ORDER; NULL: not set) is PCI_BUS_ID.
 * @p root is put before /proc and /sys ("" except in tests). Finding none is not an error.
 * *gpus_out must be finished in every case.
 *  @return KOLO_OK; ERR_CONFIG names an entry of @p visible that is too long to be a device;
 * ERR_NO_MEMORY. */
kolo_status kolo_gpus_find(const char *root, const char *visible, const char *order,
                           struct kolo_gpus *gpus_out) KOLO_NODISCARD;
/** Assigns @p each devices to each of @p ranks ranks. The numbers of ranks per device differ by at
 * most one; within that, a rank gets devices on @p nodes[rank] first (NULL, or -1: not bound to one
 * node), then those with the fewest ranks. *shares must be finished in every case.
 *  @return KOLO_OK; ERR_UNSUPPORTED: there are fewer than @p each devices; ERR_NO_MEMORY. */
kolo_status kolo_gpus_deal(struct kolo_gpus *gpus, int each, const int *nodes, int ranks,
                           struct kolo_gpu_shares *shares) KOLO_NODISCARD;
void kolo_gpus_fini(struct kolo_gpus *gpus);
void kolo_gpu_shares_fini(struct kolo_gpu_shares *shares);

#endif
