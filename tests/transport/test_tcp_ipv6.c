// SPDX-License-Identifier: Apache-2.0
// The conformance suite over IPv6. test_tcp.c has all other tests of TCP.
#include "tests/support/transport_suite.h"

static void use_ipv6(void)
{
    suite_net = "::1";
}
TestSuite(tcp_ipv6, .init = use_ipv6);

KOLO_TRANSPORT_SUITE(tcp_ipv6, tcp)
