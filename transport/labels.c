// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for all IPv4 addresses by netlink, which alone tells the index of an address's
// interface beside its label. Must never wait: the kernel has the answer ready when the question is
// sent.
#include "transport/labels.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

enum { ANSWER_BYTES = 16 << 10 }; /* the kernel fills at most so much at once */

static bool ask(int fd)
{
    const struct {
        struct nlmsghdr header;
        struct ifaddrmsg body;
    } question = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
                             .nlmsg_type = RTM_GETADDR,
                             .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                  .body = {.ifa_family = AF_INET}};

    return send(fd, &question, question.header.nlmsg_len, 0) == (ssize_t)question.header.nlmsg_len;
}

static void append(struct kolo_labels *labels, const struct kolo_label *label)
{
    void *items = labels->items;

    if (kolo_grow(&items, &labels->capacity, labels->count + 1, sizeof *label) != KOLO_OK)
        return;
    labels->items = items;
    labels->items[labels->count++] = *label;
}

/** What follows @p bytes bytes later. The system's macros for this cast less than clang wants. */
static void *after(void *at, size_t bytes)
{
    return (char *)at + bytes;
}

static void take_address(struct kolo_labels *labels, struct nlmsghdr *message)
{
    struct ifaddrmsg *const body = NLMSG_DATA(message);
    struct kolo_label label = {.index = body->ifa_index};
    struct rtattr *at = after(body, NLMSG_ALIGN(sizeof *body));
    long left = (long)IFA_PAYLOAD(message);

    while (RTA_OK(at, left)) {
        const size_t bytes = RTA_PAYLOAD(at), whole = RTA_ALIGN(at->rta_len);
        if (at->rta_type == IFA_LOCAL && bytes == sizeof label.address)
            memcpy(&label.address, RTA_DATA(at), bytes);
        else if (at->rta_type == IFA_LABEL && bytes <= sizeof label.text)
            memcpy(label.text, RTA_DATA(at), bytes);
        at = after(at, whole);
        left -= (long)whole;
    }
    label.text[sizeof label.text - 1] = '\0';
    append(labels, &label);
}

/** False: that was the last part. */
static bool take_part(struct kolo_labels *labels, struct nlmsghdr *message, long left)
{
    while (NLMSG_OK(message, left)) {
        const size_t bytes = NLMSG_ALIGN(message->nlmsg_len);
        if (message->nlmsg_type == RTM_NEWADDR)
            take_address(labels, message);
        else if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
            return false;
        message = after(message, bytes);
        left -= (long)bytes;
    }
    return true;
}

void kolo_labels_read(struct kolo_labels *labels_out)
{
    _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    ssize_t got;

    *labels_out = (struct kolo_labels){.items = NULL};
    if (fd < 0)
        return;
    if (ask(fd))
        do
            got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
        while (got > 0 && take_part(labels_out, (struct nlmsghdr *)(void *)answer, (long)got));
    close(fd);
}

bool kolo_labels_interface(const struct kolo_labels *labels, struct in_addr address,
                           const char *text, char interface_out[IF_NAMESIZE])
{
    for (size_t i = 0; i < labels->count; i++) {
        const struct kolo_label *const label = &labels->items[i];
        if (label->address.s_addr == address.s_addr && strcmp(label->text, text) == 0)
            return if_indextoname(label->index, interface_out) != NULL;
    }
    return false;
}

void kolo_labels_fini(struct kolo_labels *labels)
{
    kolo_free_memory(labels->items);
    *labels = (struct kolo_labels){.items = NULL};
}
