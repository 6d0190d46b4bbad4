// SPDX-License-Identifier: Apache-2.0
// Gives lo an IPv4 address with any label, as `ip addr add 10.1.2.3/8 dev lo label NAME` does.
#ifndef KOLO_TESTS_SUPPORT_ADD_LABEL_H
#define KOLO_TESTS_SUPPORT_ADD_LABEL_H

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool lo_is_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_flags = IFF_UP;
    const bool is = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    close(fd);
    return is;
}

static inline bool add_label(const char *label, const char *address)
{
    struct {
        struct nlmsghdr header;
        struct ifaddrmsg body;
        struct rtattr local_header;
        struct in_addr local;
        struct rtattr label_header;
        char label[IF_NAMESIZE];
    } order = {
        .header = {.nlmsg_len = sizeof order,
                   .nlmsg_type = RTM_NEWADDR,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
        .body = {.ifa_family = AF_INET, .ifa_prefixlen = 8},
        .local_header = {.rta_len = RTA_LENGTH(sizeof(struct in_addr)), .rta_type = IFA_LOCAL},
        .label_header = {.rta_len = RTA_LENGTH(IF_NAMESIZE), .rta_type = IFA_LABEL}};
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } answer = {.error = {.error = -1}};
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    order.body.ifa_index = if_nametoindex("lo");
    snprintf(order.label, sizeof order.label, "%s", label);
    const bool is = lo_is_up() && inet_pton(AF_INET, address, &order.local) == 1 &&
                    send(fd, &order, sizeof order, 0) == (ssize_t)sizeof order &&
                    recv(fd, &answer, sizeof answer, 0) > 0 && answer.error.error == 0;
    close(fd);
    return is;
}

#endif
