// SPDX-License-Identifier: Apache-2.0
// Where in the machine a device of the kernel's is.
#ifndef KOLO_BASE_NUMA_H
#define KOLO_BASE_NUMA_H

/** The NUMA node (its OS index) of the device whose directory in /sys is @p directory; -1: it has
 * none, the firmware does not say, or there is no such device. Threads: any. */
int kolo_numa_node_of(const char *directory);

/** How near two devices are by the directories of /sys that stand for them: how many of what lies
 * between a device and the processors (host bridge, root port, the bridges of a switch) they have
 * in common; 0: nothing, or one of them is not there. Threads: any. */
int kolo_bridges_shared(const char *one, const char *other);

#endif
