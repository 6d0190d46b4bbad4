// SPDX-License-Identifier: Apache-2.0
// Which addresses of two ports reach each other: compared with a plain search over all pairs, from
// both sides.
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_gid.h"

static struct ibv_context *open_fake(int number)
{
    struct ibv_context *context = fake_verbs_table()->open_device(&fake_verbs_device(number)->base);
    cr_assert(context != NULL);
    return context;
}

/** The addresses of port 1 of device @p number. */
static struct kolo_rdma_gids gids_of(int number)
{
    struct kolo_rdma_gids gids;
    struct ibv_context *context = open_fake(number);
    cr_assert(kolo_rdma_gids_read(fake_verbs_table(), context, 1, "", &gids) == KOLO_OK, "%s",
              kolo_error_detail());
    fake_verbs_table()->close_device(context);
    return gids;
}

static const char *text_of(const struct kolo_rdma_gid *gid)
{
    static char text[KOLO_RDMA_GID_TEXT];
    kolo_rdma_gid_format(gid, text, sizeof text);
    return text;
}

static struct fake_port *bare_port(int number)
{
    struct fake_port *port = &fake_verbs_device(number)->ports[0];
    port->gid_count = 0;
    return port;
}

/** Whether the two have a network in common, compared by name. */
static bool share(const struct kolo_rdma_gids *ours, const struct kolo_rdma_gids *theirs)
{
    char one[KOLO_RDMA_GID_TEXT], other[KOLO_RDMA_GID_TEXT];
    for (size_t i = 0; i < ours->count; i++)
        for (size_t j = 0; j < theirs->count; j++) {
            kolo_rdma_gid_network(&ours->all[i], one, sizeof one);
            kolo_rdma_gid_network(&theirs->all[j], other, sizeof other);
            if (strcmp(one, other) == 0)
                return true;
        }
    return false;
}

/** Joins ports 0 and 1 from both sides; "" if they cannot be joined, else "OURS - THEIRS". */
static const char *join(void)
{
    static char text[2 * KOLO_RDMA_GID_TEXT + 8];
    struct kolo_rdma_gids ours = gids_of(0), theirs = gids_of(1);
    struct kolo_why why = {""};
    size_t i = 0, j = 0, j_too = 0, i_too = 0;
    bool joins = kolo_rdma_gids_join(&ours, &theirs, &i, &j, &why);
    cr_assert(joins == kolo_rdma_gids_join(&theirs, &ours, &j_too, &i_too, &why));
    cr_assert(i == i_too && j == j_too, "both sides choose alike");
    cr_assert(joins == share(&ours, &theirs), "the names of networks say another thing");
    if (!joins) {
        cr_assert(strstr(why.text, "have no kind of address in common"), "%s", why.text);
        return "";
    }
    snprintf(text, sizeof text, "%s - ", text_of(&ours.all[i]));
    strncat(text, text_of(&theirs.all[j]), sizeof text - strlen(text) - 1);
    return text;
}

Test(rdma_gid, the_best_comes_first_and_keeps_its_number)
{
    fake_verbs_reset();
    struct kolo_rdma_gids gids = gids_of(0);
    cr_assert(gids.count == 4);
    cr_assert_str_eq(text_of(&gids.all[0]), "RoCE v2 10.0.0.1");
    cr_assert(gids.all[0].index == 3);
    cr_assert_str_eq(text_of(&gids.all[1]), "RoCE v1 10.0.0.1");
    cr_assert_str_eq(text_of(&gids.all[2]), "RoCE v2 fe80::1");
    cr_assert_str_eq(text_of(&gids.all[3]), "RoCE v1 fe80::1");
}

Test(rdma_gid, kinds_and_families_do_not_mix)
{
    fake_verbs_reset();
    cr_assert_str_eq(join(), "RoCE v2 10.0.0.1 - RoCE v2 10.0.0.2");
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_ROCE_V1, "10.0.0.1");
    cr_assert_str_eq(join(), "RoCE v1 10.0.0.1 - RoCE v1 10.0.0.2");
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_ROCE_V2, "fe80::9");
    cr_assert_str_eq(join(), "RoCE v2 fe80::9 - RoCE v2 fe80::2");
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_ROCE_V2, "2001:db8::1");
    cr_assert_str_eq(join(), "");
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_IB, "fe80::1");
    cr_assert_str_eq(join(), "");
}

Test(rdma_gid, infiniband_reaches_its_own_subnet)
{
    fake_verbs_reset();
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_IB, "fe80::1");
    fake_verbs_add_gid(bare_port(1), IBV_GID_TYPE_IB, "fe80::2");
    cr_assert_str_eq(join(), "InfiniBand fe80::1 - InfiniBand fe80::2");
    fake_verbs_add_gid(bare_port(1), IBV_GID_TYPE_IB, "fec0:0:0:1::2");
    cr_assert_str_eq(join(), "");
}

Test(rdma_gid, addresses_of_one_network_find_each_other)
{
    fake_verbs_reset();
    fake_verbs_add_gid(&fake_verbs_device(0)->ports[0], IBV_GID_TYPE_ROCE_V2, "192.168.7.1");
    fake_verbs_add_gid(bare_port(1), IBV_GID_TYPE_ROCE_V2, "172.16.0.2");
    fake_verbs_add_gid(&fake_verbs_device(1)->ports[0], IBV_GID_TYPE_ROCE_V2, "192.168.7.2");
    cr_assert_str_eq(join(), "RoCE v2 192.168.7.1 - RoCE v2 192.168.7.2");
}

Test(rdma_gid, what_is_of_no_use_is_left_out)
{
    struct kolo_rdma_gids gids;
    fake_verbs_reset();
    fake_verbs_device(0)->attr.phys_port_cnt = 2;
    fake_verbs_add_gid(&fake_verbs_device(0)->ports[1], IBV_GID_TYPE_ROCE_V2, "10.9.9.9");
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_ROCE_V2, "::");
    fake_verbs_add_gid(&fake_verbs_device(0)->ports[0], 77, "10.0.0.1");
    struct ibv_context *context = open_fake(0);
    cr_assert(kolo_rdma_gids_read(fake_verbs_table(), context, 1, "", &gids) ==
              KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "no address"), "%s", kolo_error_detail());
    fake_verbs_fail("query_gid_table", 1, EIO);
    cr_assert(kolo_rdma_gids_read(fake_verbs_table(), context, 2, "", &gids) ==
              KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "cannot be read: Input/output error"), "%s",
              kolo_error_detail());
    kolo_alloc_fail_nth(1);
    cr_assert(kolo_rdma_gids_read(fake_verbs_table(), context, 2, "", &gids) == KOLO_ERR_NO_MEMORY);
    cr_assert(kolo_rdma_gids_read(fake_verbs_table(), context, 2, "", &gids) == KOLO_OK &&
              gids.count == 1);
    fake_verbs_table()->close_device(context);
}

Test(rdma_gid, the_settings_choose_interfaces_and_networks)
{
    static const struct {
        const char *net;
        size_t count;
        int entry; /* of the best pair */
    } cases[] = {{"", 4, 0},          {"lo", 4, 0},          {"^lo", 0, 0},
                 {"eth9,lo", 4, 1},   {"10.0.0.0/24", 2, 0}, {"fe80::/10", 2, 0},
                 {"^10.0.0.1", 2, 0}, {"11.0.0.0/8", 0, 0},  {"11.0.0.0/8,10.0.0.0/8", 2, 1}};
    struct kolo_rdma_gids gids;
    fake_verbs_reset();
    struct ibv_context *context = open_fake(0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kolo_status status =
            kolo_rdma_gids_read(fake_verbs_table(), context, 1, cases[i].net, &gids);
        cr_assert((status == KOLO_OK) == (cases[i].count > 0), "%s: %s", cases[i].net,
                  kolo_error_detail());
        cr_assert(status == KOLO_OK ||
                      strstr(kolo_error_detail(), "leaves it out (RoCE v2 10.0.0.1 of lo)"),
                  "%s: %s", cases[i].net, kolo_error_detail());
        cr_assert(status != KOLO_OK ||
                      (gids.count == cases[i].count && gids.all[0].entry == cases[i].entry),
                  "%s: %zu, entry %u", cases[i].net, gids.count, gids.all[0].entry);
    }
    fake_verbs_table()->close_device(context);
}

/** Makes a folder like that of a device in /sys, with the interface @p name ("": none). */
static void make_sys(struct ibv_device *device, const char *name)
{
    char path[IBV_SYSFS_PATH_MAX];
    strcpy(device->ibdev_path, "/tmp/kolo-gid-XXXXXX");
    cr_assert(mkdtemp(device->ibdev_path));
    snprintf(path, sizeof path, "%.200s/device", device->ibdev_path);
    cr_assert(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%.200s/device/net", device->ibdev_path);
    cr_assert(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%.200s/device/net/%s", device->ibdev_path, name);
    cr_assert(name[0] == '\0' || mkdir(path, 0700) == 0);
}

static void drop_sys(const struct ibv_device *device, const char *name)
{
    static const char *const parts[] = {"/device/net/", "/device/net", "/device", ""};
    char path[IBV_SYSFS_PATH_MAX];
    for (size_t i = name[0] == '\0'; i < 4; i++) {
        snprintf(path, sizeof path, "%.200s%s%s", device->ibdev_path, parts[i], i == 0 ? name : "");
        cr_assert(rmdir(path) == 0, "%s", path);
    }
}

Test(rdma_gid, a_port_of_infiniband_is_allowed_as_its_interface_is)
{
    static const struct {
        const char *interface, *net;
        bool is_allowed;
    } cases[] = {{"lo", "", true},     {"lo", "lo", true},
                 {"lo", "^lo", false}, {"lo", "127.0.0.0/8", true},
                 {"ib7", "lo", false}, {"ib7", "lo,ib7", true},
                 {"ib7", "^lo", true}, {"", "lo", true},
                 {"", "^lo", true}};
    struct kolo_rdma_gids gids;
    fake_verbs_reset();
    fake_verbs_add_gid(bare_port(0), IBV_GID_TYPE_IB, "fe80::17");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_sys(&fake_verbs_device(0)->base, cases[i].interface);
        struct ibv_context *context = open_fake(0);
        kolo_status status =
            kolo_rdma_gids_read(fake_verbs_table(), context, 1, cases[i].net, &gids);
        cr_assert((status == KOLO_OK) == cases[i].is_allowed, "%s %s: %s", cases[i].interface,
                  cases[i].net, kolo_error_detail());
        fake_verbs_table()->close_device(context);
        drop_sys(&fake_verbs_device(0)->base, cases[i].interface);
    }
}

/* ---- against a plain search ---- */

static int family(const struct kolo_rdma_gid *gid)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, gid->bytes, text, sizeof text);
    return strncmp(text, "::ffff:", 7) == 0 ? 4 : strncmp(text, "fe80", 4) == 0 ? 1 : 6;
}

static struct kolo_rdma_gids random_gids(unsigned *seed)
{
    struct kolo_rdma_gids gids = {.count = (size_t)rand_r(seed) % 6};
    for (size_t i = 0; i < gids.count; i++) {
        struct kolo_rdma_gid *gid = &gids.all[i];
        gid->kind = (enum kolo_rdma_kind)(1 + rand_r(seed) % 3);
        int which = gid->kind == KOLO_RDMA_INFINIBAND ? 0 : rand_r(seed) % 3;
        if (which == 2)
            gid->bytes[10] = gid->bytes[11] = 0xff;
        else
            gid->bytes[0] = which == 0 ? 0xfe : 0x20, gid->bytes[1] = which == 0 ? 0x80 : 1;
        gid->bytes[7] = gid->kind == KOLO_RDMA_INFINIBAND ? (uint8_t)(rand_r(seed) % 2) : 0;
        gid->bytes[14] = (uint8_t)(rand_r(seed) % 3);
        gid->bytes[15] = (uint8_t)(rand_r(seed) % 3);
    }
    return gids;
}

Test(rdma_gid, both_sides_find_the_same_pair_wherever_there_is_one, .timeout = 60)
{
    unsigned seed = 7;
    struct kolo_why why;
    int joined = 0;
    for (int round = 0; round < 20000; round++) {
        struct kolo_rdma_gids a = random_gids(&seed), b = random_gids(&seed);
        size_t i = 0, j = 0, i_too = 0, j_too = 0;
        bool expected = false;
        for (size_t x = 0; x < a.count; x++)
            for (size_t y = 0; y < b.count; y++)
                expected |= a.all[x].kind == b.all[y].kind &&
                            family(&a.all[x]) == family(&b.all[y]) &&
                            (a.all[x].kind != KOLO_RDMA_INFINIBAND ||
                             memcmp(a.all[x].bytes, b.all[y].bytes, 8) == 0);
        bool is = kolo_rdma_gids_join(&a, &b, &i, &j, &why);
        cr_assert(is == expected && kolo_rdma_gids_join(&b, &a, &j_too, &i_too, &why) == is,
                  "round %d", round);
        if (!is)
            continue;
        joined++;
        cr_assert(a.all[i].kind == b.all[j].kind && family(&a.all[i]) == family(&b.all[j]),
                  "round %d", round);
        cr_assert(memcmp(a.all[i].bytes, a.all[i_too].bytes, 16) == 0 &&
                      memcmp(b.all[j].bytes, b.all[j_too].bytes, 16) == 0 &&
                      a.all[i].kind == a.all[i_too].kind,
                  "round %d: the sides differ", round);
    }
    cr_assert(joined > 1000, "%d", joined);
}
