// SPDX-License-Identifier: Apache-2.0
// Which NVIDIA devices each rank of a host sees, where kolorun is asked to say so (--gpus).
#ifndef KOLO_LAUNCHER_GPUS_H
#define KOLO_LAUNCHER_GPUS_H

#include <stddef.h>

#include "launcher/frames.h"

enum { KOLO_GPU_NAME_MAX = 96, KOLO_GPU_ADDRESS_MAX = 24 };

struct kolo_gpu {
    char name[KOLO_GPU_NAME_MAX];       /* as CUDA_VISIBLE_DEVICES has it: "GPU-..." or a number */
    char address[KOLO_GPU_ADDRESS_MAX]; /* of PCI, as /sys has it; "": not known */
    int node;                           /* NUMA, its OS index; -1: not known */
    int ranks;                          /* that see it */
    int last;                           /* of them */
};
struct kolo_gpus {
    struct kolo_gpu *all;
    size_t count, capacity;
};

/** A text for each rank, or none where nobody asked. */
struct kolo_gpu_shares {
    struct kolo_texts names;     /* with commas between */
    struct kolo_texts addresses; /* of the first of them; "": not known */
};

/** The devices of this host that may be given out: those of @p visible (CUDA_VISIBLE_DEVICES; NULL:
 * not set) in their order, else all that the driver names, by PCI address. Where a device of @p
 * visible is, is known of a name, and of a number where @p order (CUDA_DEVICE_ORDER; NULL: not set)
 * is PCI_BUS_ID. @p root comes before /proc and /sys ("" but in tests). None is no error. *gpus_out
 * must be finished in every case.
 *  @return KOLO_OK; ERR_CONFIG names what in @p visible can be no device; ERR_NO_MEMORY. */
kolo_status kolo_gpus_find(const char *root, const char *visible, const char *order,
                           struct kolo_gpus *gpus_out) KOLO_NODISCARD;
/** Gives each of @p ranks ranks @p each devices. Devices have as many ranks as others, or one more;
 * within that a rank gets those at @p nodes[rank] (NULL, or -1: not bound in one node), then those
 * with the fewest. *shares must be finished in every case.
 *  @return KOLO_OK; ERR_UNSUPPORTED: there are not as many; ERR_NO_MEMORY. */
kolo_status kolo_gpus_deal(struct kolo_gpus *gpus, int each, const int *nodes, int ranks,
                           struct kolo_gpu_shares *shares) KOLO_NODISCARD;
void kolo_gpus_fini(struct kolo_gpus *gpus);
void kolo_gpu_shares_fini(struct kolo_gpu_shares *shares);

#endif
