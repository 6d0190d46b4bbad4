// SPDX-License-Identifier: Apache-2.0
// Where in the machine a kernel device is: its NUMA node and its PCI bridges, from /sys.
#ifndef KOLO_BASE_NUMA_H
#define KOLO_BASE_NUMA_H

/** The NUMA node (its OS index) of the device with directory @p directory in /sys. -1: it has none,
 *  the firmware does not say, or there is no such device. Threads: any. */
int kolo_numa_node_of(const char *directory);

/** How near two devices, given by their directories in /sys, are to each other: how many components
 *  of the paths between them and the processors (host bridge, root port, bridges of a switch) they
 *  share. 0: none, or one of the devices does not exist. Threads: any. */
int kolo_bridges_shared(const char *one, const char *other);

#endif
