// SPDX-License-Identifier: Apache-2.0
// KOLO_PORTS: the range of ports at which kolo may listen.
#ifndef KOLO_TRANSPORT_PORTS_H
#define KOLO_TRANSPORT_PORTS_H

#include <stdint.h>

#include "base/status.h"

/** The ports at which kolo may listen; low 0: whichever the system chooses. */
struct kolo_ports {
    uint16_t low, high;
};
/** KOLO_PORTS: "LOW-HIGH", "PORT" or "". ERR_CONFIG. */
kolo_status kolo_ports_parse(const char *text, struct kolo_ports *ports_out) KOLO_NODISCARD;
/** How many there are to try; one where the system chooses. */
unsigned kolo_ports_count(const struct kolo_ports *ports);
/** Where to begin. */
unsigned kolo_ports_first(const struct kolo_ports *ports);
/** Number @p index of them, counted round and round; 0: the system chooses. */
uint16_t kolo_ports_at(const struct kolo_ports *ports, unsigned index);

#endif
