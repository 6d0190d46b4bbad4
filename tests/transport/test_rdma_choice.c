// SPDX-License-Identifier: Apache-2.0
// Which port a rank uses: by name, else by network, rate and distance, with simulated devices and
// folders that describe their bridges and NUMA nodes.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_open.h"
#include "tests/support/fake_verbs.h"
#include "transport/devices.h"
#include "transport/rdma_device.h"

static char near[64]; /* value of KOLO_NEAR */

/** The name of the device that a rank at @p numa_node uses, of those that @p net allows. */
static const char *taken(const char *net, int numa_node)
{
    static char name[KOLO_RDMA_PORT_TEXT_MAX];
    struct kolo_rdma_device *device = NULL;
    struct kolo_settings *settings = fake_verbs_settings("");
    snprintf(settings->net, sizeof settings->net, "%s", net);
    snprintf(settings->near, sizeof settings->near, "%s", near);
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, numa_node, &device) == KOLO_OK,
              "%s", kolo_error_detail());
    kolo_rdma_device_format(device, name);
    kolo_rdma_device_close(device);
    return name;
}

static char told[1024];

static void keep_told(void *context, const char *name, const char *addresses, const char *networks)
{
    const size_t used = strlen(told);
    (void)context;
    snprintf(told + used, sizeof told - used, "%s: %s: %s\n", name, addresses, networks);
}

/** What `kolorun doctor` prints about it: as many ports as there are to be rails. */
Test(rdma_choice, what_is_taken_is_told_with_its_networks)
{
    fake_verbs_reset();
    fake_verbs_device(1)->ports[0].attr.state = IBV_PORT_DOWN;
    kolo_verbs_replace(fake_verbs_table());
    struct kolo_settings *settings = fake_verbs_settings("");
    settings->rdma_rails = 0;
    kolo_devices_rdma.choice(settings, keep_told, NULL);
    cr_assert(strncmp(told, "fake0:1: RoCE v2 10.0.0.1; ", 27) == 0 &&
                  strstr(told, ": RoCE v2 IPv4; ") && !strstr(told, "fake1") &&
                  !strstr(strstr(told, "RoCE v2 IPv4") + 1, "RoCE v2 IPv4"),
              "%s", told);
    fake_verbs_device(1)->ports[0].attr.state = IBV_PORT_ACTIVE;
    told[0] = '\0';
    kolo_devices_rdma.choice(settings, keep_told, NULL);
    cr_assert(strstr(told, "fake0:1: ") && strstr(told, "fake1:1: RoCE v2 10.0.0.2; "), "%s", told);
    settings->rdma_rails = 1;
    snprintf(settings->rdma_device, sizeof settings->rdma_device, "fake1,fake0");
    told[0] = '\0';
    kolo_devices_rdma.choice(settings, keep_told, NULL);
    cr_assert(strncmp(told, "fake1:1: ", 9) == 0 && !strstr(told, "fake0"), "%s", told);
    kolo_verbs_replace(NULL);
    cr_assert(fake_verbs_living() == 0);
}

static struct ibv_port_attr *attr_of(int device, int port)
{
    return &fake_verbs_device(device)->ports[port].attr;
}

Test(rdma_choice, the_fastest_port_is_taken)
{
    fake_verbs_reset();
    fake_verbs_device_count(3);
    attr_of(0, 0)->active_width = attr_of(1, 0)->active_width = 2; /* 4 lanes */
    attr_of(0, 0)->active_speed = 64;                              /* HDR: 200 Gbit/s */
    attr_of(1, 0)->active_speed = 32;                              /* EDR: 100 */
    attr_of(2, 0)->active_width = 1;
    attr_of(2, 0)->active_speed = (uint8_t)128; /* one lane of NDR: 100 */
    cr_assert_str_eq(taken("", -1), "fake0 port 1");
    attr_of(0, 0)->active_speed = 1;
    cr_assert_str_eq(taken("", -1), "fake1 port 1");
    attr_of(1, 0)->active_speed = 0;
    cr_assert_str_eq(taken("", -1), "fake2 port 1");
    attr_of(2, 0)->state = IBV_PORT_DOWN;
    cr_assert_str_eq(taken("", -1), "fake0 port 1", "one that says nothing is the slowest");
    fake_verbs_device(0)->attr.phys_port_cnt = 2;
    *attr_of(0, 1) = *attr_of(1, 0);
    fake_verbs_device(0)->ports[1].attr.active_speed = 2;
    fake_verbs_add_gid(&fake_verbs_device(0)->ports[1], IBV_GID_TYPE_ROCE_V2, "10.1.0.1");
    cr_assert_str_eq(taken("", -1), "fake0 port 2");
    cr_assert(fake_verbs_living() == 0);
}

Test(rdma_choice, an_address_that_somebody_gave_comes_before_speed)
{
    fake_verbs_reset();
    fake_verbs_device(0)->ports[0].gid_count = 2; /* link-local ones only */
    attr_of(0, 0)->active_width = 2;
    attr_of(0, 0)->active_speed = 64;
    cr_assert_str_eq(taken("", -1), "fake1 port 1");
}

static void place_at(int number, const char *folder, const char *node)
{
    char path[300];
    struct ibv_device *base = &fake_verbs_device(number)->base;
    snprintf(base->ibdev_path, sizeof base->ibdev_path, "%s/%d", folder, number);
    cr_assert(mkdir(base->ibdev_path, 0700) == 0);
    snprintf(path, sizeof path, "%.200s/device", base->ibdev_path);
    cr_assert(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%.200s/device/numa_node", base->ibdev_path);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(node, file) >= 0 && fclose(file) == 0);
}

static void displace(int number)
{
    static const char *const parts[] = {"/device/numa_node", "/device", ""};
    char path[300];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%.200s%s", fake_verbs_device(number)->base.ibdev_path,
                 parts[i]);
        cr_assert(remove(path) == 0, "%s", path);
    }
}

Test(rdma_choice, of_equal_ones_the_nearest_is_taken)
{
    char folder[] = "/tmp/kolo-device-XXXXXX";
    fake_verbs_reset();
    cr_assert(mkdtemp(folder));
    place_at(0, folder, "0\n");
    place_at(1, folder, "1\n");
    cr_assert_str_eq(taken("", 1), "fake1 port 1");
    cr_assert_str_eq(taken("", 0), "fake0 port 1");
    cr_assert_str_eq(taken("", -1), "fake0 port 1");
    attr_of(0, 0)->active_width = 2;
    attr_of(0, 0)->active_speed = 32;
    cr_assert_str_eq(taken("", 1), "fake0 port 1", "a faster one further off comes first");
    displace(0);
    displace(1);
    place_at(0, folder, "-1\n");
    place_at(1, folder, "x\n");
    cr_assert_str_eq(taken("", 0), "fake0 port 1", "unknown is not near");
    displace(0);
    displace(1);
    cr_assert(rmdir(folder) == 0);
}

static void make_directory(char *path, size_t capacity, const char *folder, const char *name)
{
    snprintf(path, capacity, "%s/%s", folder, name);
    cr_assert(mkdir(path, 0700) == 0);
}

/** Two switches at one NUMA node, with a card and a GPU each, and a GPU at neither switch. */
Test(rdma_choice, of_equal_ones_that_is_taken_which_shares_bridges_with_the_gpu)
{
    char folder[] = "/tmp/kolo-device-XXXXXX", one[64], other[64], near_one[64], near_other[64];
    char apart[64];
    fake_verbs_reset();
    cr_assert(mkdtemp(folder));
    make_directory(one, sizeof one, folder, "b");
    make_directory(other, sizeof other, folder, "b1"); /* a common prefix is not a common bridge */
    make_directory(near_one, sizeof near_one, one, "gpu");
    make_directory(near_other, sizeof near_other, other, "gpu");
    make_directory(apart, sizeof apart, folder, "gpu");
    place_at(0, one, "1\n");
    place_at(1, other, "0\n");
    const struct {
        const char *near;
        int node;
        const char *wanted, *why;
    } cases[] = {
        {"", 0, "fake1 port 1", "by node"},
        {near_one, 1, "fake0 port 1", "by both"},
        {near_one, 0, "fake0 port 1", "by switch, not by node"},
        {near_other, 1, "fake1 port 1", "the other one"},
        {apart, 0, "fake1 port 1", "as near as the other: by node"},
        {"0000:00:1e.7", 0, "fake1 port 1", "not there: by node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(near, sizeof near, "%s", cases[i].near);
        const char *name = taken("", cases[i].node);
        cr_assert_str_eq(name, cases[i].wanted, "%s: %s", cases[i].why, name);
    }
    attr_of(1, 0)->active_width = 2;
    attr_of(1, 0)->active_speed = 64;
    snprintf(near, sizeof near, "%s", near_one);
    cr_assert_str_eq(taken("", 1), "fake1 port 1", "a faster one further off comes first");
    displace(0);
    displace(1);
    cr_assert(rmdir(near_one) == 0 && rmdir(near_other) == 0 && rmdir(apart) == 0);
    cr_assert(rmdir(one) == 0 && rmdir(other) == 0 && rmdir(folder) == 0);
}

Test(rdma_choice, a_gpu_that_can_be_none_is_an_error)
{
    fake_verbs_reset();
    struct kolo_rdma_device *device = NULL;
    struct kolo_settings *settings = fake_verbs_settings("");
    snprintf(settings->near, sizeof settings->near, "GPU-aa");
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, -1, &device) == KOLO_ERR_CONFIG);
    cr_assert_str_eq(kolo_error_detail(),
                     "KOLO_NEAR=GPU-aa: expected a PCI address, such as 0000:3b:00.0");
    snprintf(settings->rdma_device, sizeof settings->rdma_device, "fake1");
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, -1, &device) == KOLO_OK,
              "of one that is named nobody asks where it is: %s", kolo_error_detail());
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0);
}

Test(rdma_choice, the_network_of_the_settings_counts_unless_a_device_is_named)
{
    struct kolo_rdma_device *device = NULL;
    fake_verbs_reset();
    cr_assert_str_eq(taken("10.0.0.2", -1), "fake1 port 1");
    cr_assert_str_eq(taken("^10.0.0.1,^fe80::/10", -1), "fake1 port 1");
    cr_assert_str_eq(taken("10.0.0.2,10.0.0.1", -1), "fake1 port 1", "the preferred one first");
    struct kolo_settings *settings = fake_verbs_settings("");
    snprintf(settings->net, sizeof settings->net, "eth9");
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, -1, &device) ==
              KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "fake0 port 1: KOLO_NET=eth9 leaves it out") &&
                  strstr(kolo_error_detail(), "fake1 port 1: KOLO_NET=eth9 leaves it out"),
              "%s", kolo_error_detail());
    snprintf(settings->rdma_device, sizeof settings->rdma_device, "fake1");
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, -1, &device) == KOLO_OK);
    cr_assert_str_eq(device->name, "fake1");
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0);
}

Test(rdma_choice, a_device_and_a_port_can_be_asked_for)
{
    fake_verbs_reset();
    fake_verbs_device(1)->attr.phys_port_cnt = 2;
    fake_verbs_device(1)->ports[1].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake_verbs_device(1)->ports[1].attr.lid = 17;
    fake_verbs_add_gid(&fake_verbs_device(1)->ports[1], IBV_GID_TYPE_IB, "fe80::17");
    struct kolo_rdma_device *device = fake_open("fake1:2");
    cr_assert(device->port == 2 && device->lid == 17 && !device->is_ethernet);
    kolo_rdma_device_close(device);
    device = fake_open("fake1");
    cr_assert(device->port == 1);
    kolo_rdma_device_close(device);
    fake_open_refused("fake1:3", KOLO_ERR_UNSUPPORTED, "there is no RDMA port 'fake1:3'");
    fake_open_refused("fake7", KOLO_ERR_UNSUPPORTED, "there is no RDMA port 'fake7'");
}

Test(rdma_choice, what_is_no_name_is_refused)
{
    char text[128];
    static const char *const bad[] = {":",         ":1",      "fake0:",   "fake0:0",
                                      "fake0:256", "fake0:x", "fake0:1 ", "fake0:1:1"};
    fake_verbs_reset();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "RDMA device '%s'", bad[i]);
        fake_open_refused(bad[i], KOLO_ERR_CONFIG, text);
    }
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    fake_open_refused(text, KOLO_ERR_CONFIG, "expected NAME or NAME:PORT");
}

/** An empty entry would select any port. Errors in later entries are found before anything is
 * opened. */
Test(rdma_choice, each_entry_of_a_list_is_a_name)
{
    fake_verbs_reset();
    fake_open_refused(",", KOLO_ERR_CONFIG, "KOLO_RDMA_DEVICE=,: entry 1 is empty");
    fake_open_refused(",fake0", KOLO_ERR_CONFIG, "entry 1 is empty: expected NAME or NAME:PORT");
    fake_open_refused("fake0,", KOLO_ERR_CONFIG, "entry 2 is empty");
    fake_open_refused("fake0,,fake1", KOLO_ERR_CONFIG, "entry 2 is empty");
    fake_open_refused("fake0,fake1:x", KOLO_ERR_CONFIG, "RDMA device 'fake1:x'");
    cr_assert(kolo_rdma_device_named(fake_verbs_settings("fake0,fake1:2,fake2")) == 3);
    cr_assert(kolo_rdma_device_named(fake_verbs_settings("fake0")) == 1);
    cr_assert(kolo_rdma_device_named(fake_verbs_settings("")) == 0);
}
