// SPDX-License-Identifier: Apache-2.0
// The labels of this machine's IPv4 addresses, by which getifaddrs names them, and the interfaces
// that have these addresses. A label is mostly the interface's name, but can be any other word,
// also the name of another interface.
#ifndef KOLO_TRANSPORT_LABELS_H
#define KOLO_TRANSPORT_LABELS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

struct kolo_label {
    struct in_addr address;
    unsigned int index; /* of the interface */
    char text[IF_NAMESIZE];
};
struct kolo_labels {
    struct kolo_label *items;
    size_t count, capacity;
};

/** Asks the kernel for all of them. Those that it does not tell are missing. */
void kolo_labels_read(struct kolo_labels *labels_out);
/** Writes the name of the interface that has @p address under the label @p text. False: not known.
 */
bool kolo_labels_interface(const struct kolo_labels *labels, struct in_addr address,
                           const char *text, char interface_out[IF_NAMESIZE]);
void kolo_labels_fini(struct kolo_labels *labels);

#endif
