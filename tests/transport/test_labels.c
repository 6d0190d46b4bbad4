// SPDX-License-Identifier: Apache-2.0
// The interfaces of IPv4 addresses whose labels are not the names of their interfaces.
#include <criterion/criterion.h>

#include <sched.h>

#include "tests/support/add_label.h"
#include "transport/labels.h"

/** The name of the interface, or "": not known. */
static const char *interface_of(const char *address, const char *label)
{
    static char name[IF_NAMESIZE];
    struct kolo_labels labels;
    struct in_addr ip = {0};
    kolo_labels_read(&labels);
    const bool is =
        inet_pton(AF_INET, address, &ip) == 1 && kolo_labels_interface(&labels, ip, label, name);
    kolo_labels_fini(&labels);
    cr_assert(labels.count == 0);
    return is ? name : "";
}

Test(labels, this_machine_has_loopback)
{
    cr_assert_str_eq(interface_of("127.0.0.1", "lo"), "lo");
    cr_assert_str_eq(interface_of("127.0.0.1", "lo9"), "", "another label");
    cr_assert_str_eq(interface_of("203.0.113.1", "lo"), "", "another address");
}

Test(labels, a_label_is_any_word)
{
    static const char *const labels[] = {"lo:7", "lo7", "eth0", "a-label-of-15-b"};
    char address[32];
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        cr_skip_test("no network of its own is allowed here");
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        snprintf(address, sizeof address, "10.1.2.%zu", i + 1);
        cr_assert(add_label(labels[i], address));
        cr_assert_str_eq(interface_of(address, labels[i]), "lo", "%s", labels[i]);
    }
}

/* The kernel tells them in several parts. */
Test(labels, many_addresses_are_all_known)
{
    enum { MANY = 1000 };
    char address[32], label[IF_NAMESIZE];
    struct kolo_labels labels;
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        cr_skip_test("no network of its own is allowed here");
    for (int i = 0; i < MANY; i++) {
        snprintf(address, sizeof address, "10.2.%d.%d", i / 250, i % 250 + 1);
        snprintf(label, sizeof label, "label%d", i);
        cr_assert(add_label(label, address));
    }
    kolo_labels_read(&labels);
    cr_assert_eq(labels.count, MANY + 1, "%zu", labels.count); /* and 127.0.0.1 */
    kolo_labels_fini(&labels);
}
