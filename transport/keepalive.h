// SPDX-License-Identifier: Apache-2.0
// How often this host's kernel asks a peer that is silent, on TCP connections that wait for one
// timeout before they give the peer up. Private to transport/ and runtime/.
#ifndef KOLO_TRANSPORT_KEEPALIVE_H
#define KOLO_TRANSPORT_KEEPALIVE_H

#include <stdint.h>

/** On the TCP connection @p fd, whose peer counts as lost when it is silent for @p timeout_ms: an
 *  idle connection is asked at least seven times within that time, but at most once a second, and
 *  fails at its end, or up to a second later. Bytes that are not acknowledged are sent again at
 *  least once every quarter of that time, or every second if that is longer, where the kernel can
 *  do so (Linux 6.15); whether they take too long is for the caller to find out. Other sockets
 *  cannot lose their peer silently; they stay as they are. */
void kolo_keepalive_set(int fd, int64_t timeout_ms);

#endif
