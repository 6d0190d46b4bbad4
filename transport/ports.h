// SPDX-License-Identifier: Apache-2.0
// KOLO_PORTS: the range of ports at which kolo may listen.
#ifndef KOLO_TRANSPORT_PORTS_H
#define KOLO_TRANSPORT_PORTS_H

#include <stdint.h>

#include "base/status.h"

/** The ports at which kolo may listen. low 0: the system chooses. */
struct kolo_ports {
    uint16_t low, high;
};
/** Parses KOLO_PORTS: "LOW-HIGH", "PORT" or "". ERR_CONFIG. */
kolo_status kolo_ports_parse(const char *text, struct kolo_ports *ports_out) KOLO_NODISCARD;
/** How many ports there are to try; 1 if the system chooses. */
unsigned kolo_ports_count(const struct kolo_ports *ports);
/** The index at which to begin. */
unsigned kolo_ports_first(const struct kolo_ports *ports);
/** Port number @p index of the range, cyclically; 0: the system chooses. */
uint16_t kolo_ports_at(const struct kolo_ports *ports, unsigned index);

#endif
