// SPDX-License-Identifier: Apache-2.0
// Owns KOLO_PORTS, the range of ports at which kolo may listen. Must never give out a port outside
// of it.
//
// Each listener begins somewhere in the range and tries every port of it once. If all ranks of a
// host began at its lower end, each would first try the ports of all the ranks before it.
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "transport/ports.h"

/** Reads a port number at *text, which is moved past it; 0: there is none. */
static uint16_t read_port(const char **text)
{
    char *rest = NULL;
    unsigned long port = **text >= '0' && **text <= '9' ? strtoul(*text, &rest, 10) : 0;

    if (!rest || port > 65535)
        return 0;
    *text = rest;
    return (uint16_t)port;
}

kolo_status kolo_ports_parse(const char *text, struct kolo_ports *ports_out)
{
    struct kolo_ports ports = {0};
    const char *at = text;

    if (*text != '\0') {
        ports.low = ports.high = read_port(&at);
        if (*at == '-') {
            at++;
            ports.high = read_port(&at);
        }
        if (*at != '\0' || ports.low == 0 || ports.high < ports.low)
            return kolo_fail(KOLO_ERR_CONFIG,
                             "KOLO_PORTS=%s is no range of ports: expected LOW-HIGH such as "
                             "50000-50099, from 1 to 65535",
                             text);
    }
    *ports_out = ports;
    return KOLO_OK;
}

unsigned kolo_ports_count(const struct kolo_ports *ports)
{
    return ports->low == 0 ? 1 : (unsigned)(ports->high - ports->low) + 1;
}

unsigned kolo_ports_first(const struct kolo_ports *ports)
{
    unsigned any = 0;

    if (ports->low == 0 || kolo_random(&any, sizeof any) != KOLO_OK)
        any = 0; /* the lower end works as well, and is only slower */
    return any % kolo_ports_count(ports);
}

uint16_t kolo_ports_at(const struct kolo_ports *ports, unsigned index)
{
    unsigned port = ports->low + index % kolo_ports_count(ports);
    return ports->low == 0 ? 0 : (uint16_t)port;
}
