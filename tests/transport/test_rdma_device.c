// SPDX-License-Identifier: Apache-2.0
// Devices that are absent, refused, down, of another kind, or pulled out: what is said, and that
// nothing stays open.
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_device.h"

static struct kolo_rdma_device *open_good(const char *wanted)
{
    struct kolo_rdma_device *device = NULL;
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings(wanted), -1, &device) ==
                  KOLO_OK,
              "%s", kolo_error_detail());
    return device;
}

/** Must fail so, saying so, and leave nothing. */
static void refused(const char *wanted, kolo_status status, const char *text)
{
    struct kolo_rdma_device *device = NULL;
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings(wanted), -1, &device) ==
                  status,
              "'%s' %s", wanted, text);
    cr_assert(device == NULL && fake_verbs_living() == 0);
    cr_assert(strstr(kolo_error_detail(), text), "'%s' is not in: %s", text, kolo_error_detail());
}

Test(rdma_device, the_first_usable_port_is_taken)
{
    char name[64];
    fake_verbs_reset();
    struct kolo_rdma_device *device = open_good("");
    kolo_rdma_device_format(device, name, sizeof name);
    cr_assert_str_eq(name, "fake0 port 1");
    cr_assert(device->mtu == IBV_MTU_1024 && device->is_ethernet && device->lid == 0 &&
              device->gids.count == 4);
    cr_assert(device->requests_max == 1024 && device->parts_max == 4 &&
              device->message_bytes_max == 1u << 23);
    kolo_rdma_device_close(device);
    fake_verbs_device(0)->ports[0].attr.state = IBV_PORT_DOWN;
    device = open_good("");
    cr_assert_str_eq(device->name, "fake1");
    kolo_rdma_device_close(device);
    kolo_rdma_device_close(NULL);
    cr_assert(fake_verbs_living() == 0);
}

static char near[64]; /* KOLO_NEAR */

/** The name of the device that is taken by a rank at @p numa_node, of those that @p net allows. */
static const char *taken(const char *net, int numa_node)
{
    static char name[64];
    struct kolo_rdma_device *device = NULL;
    struct kolo_settings *settings = fake_verbs_settings("");
    snprintf(settings->net, sizeof settings->net, "%s", net);
    snprintf(settings->near, sizeof settings->near, "%s", near);
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, numa_node, &device) == KOLO_OK,
              "%s", kolo_error_detail());
    kolo_rdma_device_format(device, name, sizeof name);
    kolo_rdma_device_close(device);
    return name;
}

static struct ibv_port_attr *attr_of(int device, int port)
{
    return &fake_verbs_device(device)->ports[port].attr;
}

Test(rdma_device, the_fastest_port_is_taken)
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

Test(rdma_device, an_address_that_somebody_gave_comes_before_speed)
{
    fake_verbs_reset();
    fake_verbs_device(0)->ports[0].gid_count = 2; /* link-local ones */
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
    cr_assert(file != NULL && fputs(node, file) >= 0 && fclose(file) == 0);
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

Test(rdma_device, of_equal_ones_the_nearest_is_taken)
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

/** Two switches with a card and a GPU each, at one NUMA node, and a GPU at neither. */
Test(rdma_device, of_equal_ones_that_is_taken_which_shares_bridges_with_the_gpu)
{
    char folder[] = "/tmp/kolo-device-XXXXXX", one[64], other[64], near_one[64], near_other[64];
    char apart[64];
    fake_verbs_reset();
    cr_assert(mkdtemp(folder));
    make_directory(one, sizeof one, folder, "b");
    make_directory(other, sizeof other, folder,
                   "b1"); /* the same letters are not the same bridge */
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

Test(rdma_device, a_gpu_that_can_be_none_is_an_error)
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

Test(rdma_device, the_network_of_the_settings_counts_unless_a_device_is_named)
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

Test(rdma_device, a_device_and_a_port_can_be_asked_for)
{
    fake_verbs_reset();
    fake_verbs_device(1)->attr.phys_port_cnt = 2;
    fake_verbs_device(1)->ports[1].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake_verbs_device(1)->ports[1].attr.lid = 17;
    fake_verbs_add_gid(&fake_verbs_device(1)->ports[1], IBV_GID_TYPE_IB, "fe80::17");
    struct kolo_rdma_device *device = open_good("fake1:2");
    cr_assert(device->port == 2 && device->lid == 17 && !device->is_ethernet);
    kolo_rdma_device_close(device);
    device = open_good("fake1");
    cr_assert(device->port == 1);
    kolo_rdma_device_close(device);
    refused("fake1:3", KOLO_ERR_UNSUPPORTED, "there is no RDMA port 'fake1:3'");
    refused("fake7", KOLO_ERR_UNSUPPORTED, "there is no RDMA port 'fake7'");
}

Test(rdma_device, what_is_no_name_is_refused)
{
    char text[128];
    static const char *const bad[] = {":",         ":1",      "fake0:",   "fake0:0",
                                      "fake0:256", "fake0:x", "fake0:1 ", "fake0:1:1"};
    fake_verbs_reset();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "RDMA device '%s'", bad[i]);
        refused(bad[i], KOLO_ERR_CONFIG, text);
    }
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    refused(text, KOLO_ERR_CONFIG, "expected NAME or NAME:PORT");
}

/** An empty one would be any port, and what is wrong with a later one is told before anything is
 * opened. */
Test(rdma_device, each_entry_of_a_list_is_a_name)
{
    fake_verbs_reset();
    refused(",", KOLO_ERR_CONFIG, "KOLO_RDMA_DEVICE=,: entry 1 is empty");
    refused(",fake0", KOLO_ERR_CONFIG, "entry 1 is empty: expected NAME or NAME:PORT");
    refused("fake0,", KOLO_ERR_CONFIG, "entry 2 is empty");
    refused("fake0,,fake1", KOLO_ERR_CONFIG, "entry 2 is empty");
    refused("fake0,fake1:x", KOLO_ERR_CONFIG, "RDMA device 'fake1:x'");
    cr_assert(kolo_rdma_device_named(fake_verbs_settings("fake0,fake1:2,fake2")) == 3);
    cr_assert(kolo_rdma_device_named(fake_verbs_settings("fake0")) == 1);
    cr_assert(kolo_rdma_device_named(fake_verbs_settings("")) == 0);
}

Test(rdma_device, each_port_says_why_not)
{
    fake_verbs_reset();
    fake_verbs_device_count(3);
    fake_verbs_device(0)->open_error = EACCES;
    fake_verbs_device(1)->ports[0].attr.state = IBV_PORT_INIT;
    fake_verbs_device(2)->base.transport_type = IBV_TRANSPORT_IWARP;
    refused("", KOLO_ERR_UNSUPPORTED, "fake0: no permission: /dev/infiniband");
    refused("", KOLO_ERR_UNSUPPORTED, "fake1 port 1: its link is initialising");
    refused("", KOLO_ERR_UNSUPPORTED, "fake2 port 1: iWARP");
    fake_verbs_device_count(1);
    fake_verbs_device(0)->open_error = EIO;
    refused("", KOLO_ERR_UNSUPPORTED, "fake0: it cannot be opened: Input/output error");
    strcpy(fake_verbs_device(0)->base.dev_name, "kolo-nothing");
    refused("", KOLO_ERR_UNSUPPORTED,
            "fake0: /dev/infiniband/kolo-nothing is not there: a container");
    fake_verbs_device(0)->open_error = 0;
    fake_verbs_device(0)->base.transport_type = IBV_TRANSPORT_USNIC;
    refused("", KOLO_ERR_UNSUPPORTED, "neither InfiniBand nor RoCE");
}

Test(rdma_device, nonsense_of_a_driver_is_refused)
{
    fake_verbs_reset();
    fake_verbs_device_count(1);
    struct fake_port *port = &fake_verbs_device(0)->ports[0];
    port->attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    refused("", KOLO_ERR_UNSUPPORTED, "is a subnet manager running");
    port->attr.lid = 3;
    port->attr.max_msg_sz = 0;
    refused("", KOLO_ERR_UNSUPPORTED, "messages of 0 bytes");
    port->attr.max_msg_sz = 4096;
    port->attr.active_mtu = 77;
    refused("", KOLO_ERR_UNSUPPORTED, "MTU code 77");
    port->attr.active_mtu = IBV_MTU_256;
    port->attr.state = 99;
    refused("", KOLO_ERR_UNSUPPORTED, "in an unknown state");
}

Test(rdma_device, no_device_at_all)
{
    fake_verbs_reset();
    fake_verbs_device_count(0);
    refused("", KOLO_ERR_UNSUPPORTED, "no RDMA device on this host");
    fake_verbs_fail("get_device_list", 1, ENOSYS);
    refused("", KOLO_ERR_UNSUPPORTED, "no RDMA device on this host");
    fake_verbs_fail("get_device_list", 1, EMFILE);
    refused("", KOLO_ERR_UNSUPPORTED, "cannot be listed: Too many open files");
}

Test(rdma_device, every_call_may_fail)
{
    static const char *const calls[] = {"open_device", "query_device", "query_port",
                                        "query_gid_table", "alloc_pd"};
    fake_verbs_reset();
    fake_verbs_device_count(1);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fake_verbs_fail(calls[i], 1, ENOMEM);
        refused("", KOLO_ERR_UNSUPPORTED, "Cannot allocate memory");
    }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kolo_alloc_fail_nth(nth);
        refused("", KOLO_ERR_NO_MEMORY, "");
    }
}

Test(rdma_device, a_queue_pair_bears_silence_for_as_long_as_a_peer_may_be_silent)
{
    static const int64_t times_ms[] = {0, 100, 101, 2000, 10000, 60000, 3600000, 604800000};
    const int64_t most_ns = 7 * (INT64_C(4096) << 31);
    for (size_t i = 0; i < sizeof times_ms / sizeof times_ms[0]; i++) {
        struct kolo_rdma_patience patience = kolo_rdma_patience_of(times_ms[i]);
        int64_t asked = times_ms[i] * 1000000;
        int64_t borne = (patience.retries + 1) * (INT64_C(4096) << patience.timeout);
        cr_assert(patience.timeout > 0 && patience.timeout < 32 && patience.retries < 7, "%u %u",
                  patience.timeout, patience.retries);
        cr_assert(asked > most_ns ? borne == most_ns : borne >= asked, "%ld ms", (long)times_ms[i]);
        cr_assert(borne <= asked + asked / 4 || times_ms[i] == 0, "%ld ms: %ld ns",
                  (long)times_ms[i], (long)borne);
    }
}

Test(rdma_device, the_settings_say_how_long_a_peer_may_be_silent)
{
    struct kolo_rdma_device *device = NULL;
    fake_verbs_reset();
    struct kolo_settings *settings = fake_verbs_settings("");
    settings->peer_timeout_ms = 100;
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), settings, -1, &device) == KOLO_OK);
    cr_assert(device->patience.timeout == kolo_rdma_patience_of(100).timeout &&
              device->patience.retries == kolo_rdma_patience_of(100).retries);
    kolo_rdma_device_close(device);
}

/* ---- news ---- */

static char logged[256];

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

Test(rdma_device, news_that_cannot_be_read_are_its_end)
{
    fake_verbs_reset();
    struct kolo_rdma_device *device = open_good("");
    fake_verbs_fail("get_async_event", 1, EIO);
    cr_assert(kolo_rdma_device_news(device) == KOLO_ERR_LINK && device->is_gone);
    cr_assert(strstr(kolo_error_detail(), "rdma fake0 port 1: its news cannot be read any more"),
              "%s", kolo_error_detail());
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0);
}

Test(rdma_device, what_cannot_be_given_back_is_told)
{
    static const struct {
        const char *call, *words;
        int living; /* afterwards */
    } faults[] = {{"dealloc_pd", "fake0: its protection domain is still in use", 0},
                  {"close_device", "fake0: it cannot be closed", 1}};
    kolo_log_set_sink(keep_line, NULL);
    for (size_t i = 0; i < 2; i++) {
        fake_verbs_reset();
        struct kolo_rdma_device *device = open_good("");
        fake_verbs_fail(faults[i].call, 1, EBUSY);
        kolo_rdma_device_close(device);
        cr_assert(strstr(logged, faults[i].words), "%s", logged);
        cr_assert(fake_verbs_living() == faults[i].living, "%s: %d", faults[i].call,
                  fake_verbs_living());
    }
    kolo_log_set_sink(NULL, NULL);
}

Test(rdma_device, news_never_wait_and_only_an_end_is_an_error)
{
    fake_verbs_reset();
    kolo_log_set_sink(keep_line, NULL);
    struct kolo_rdma_device *device = open_good("");
    cr_assert(kolo_rdma_device_news(device) == KOLO_OK);
    fake_verbs_tell(fake_verbs_device(0), IBV_EVENT_PORT_ERR, 1);
    cr_assert(kolo_rdma_device_news(device) == KOLO_OK && !device->is_gone);
    cr_assert(strstr(logged, "fake0 port 1 lost its link"), "%s", logged);
    fake_verbs_tell(fake_verbs_device(0), IBV_EVENT_PORT_ACTIVE, 1);
    fake_verbs_remove(fake_verbs_device(0));
    cr_assert(kolo_rdma_device_news(device) == KOLO_ERR_LINK && device->is_gone);
    cr_assert(strstr(kolo_error_detail(), "rdma fake0 port 1: the device was removed"), "%s",
              kolo_error_detail());
    cr_assert(kolo_rdma_device_news(device) == KOLO_OK, "each is told once");
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0);
    kolo_log_set_sink(NULL, NULL);
}

/* ---- the list ---- */

static char listed[1024];

static void add_line(void *context, const char *name, const char *text)
{
    size_t used = strlen(listed);
    (void)context;
    snprintf(listed + used, sizeof listed - used, "%s %s\n", name, text);
}

Test(rdma_device, the_list_has_every_port)
{
    fake_verbs_reset();
    fake_verbs_device_count(3);
    fake_verbs_device(1)->attr.phys_port_cnt = 2;
    fake_verbs_device(1)->ports[1].attr.state = IBV_PORT_DOWN;
    fake_verbs_device(2)->open_error = EPERM;
    attr_of(0, 0)->active_width = 2;
    attr_of(0, 0)->active_speed = 32;
    kolo_verbs_replace(fake_verbs_table());
    cr_assert(kolo_devices_rdma.report(add_line, NULL) == KOLO_OK);
    kolo_verbs_replace(NULL);
    cr_assert(
        strstr(listed, "fake0:1 RoCE v2 10.0.0.1 of lo, MTU 1024 (Ethernet, active, 100 Gbit/s)\n"),
        "%s", listed);
    cr_assert(strstr(listed, "fake1:1 RoCE v2 10.0.0.2 of lo, MTU 1024 (Ethernet, "
                             "active, of unknown rate)\n"),
              "%s", listed);
    cr_assert(strstr(listed, "fake1:2 cannot be used: its link is down"), "%s", listed);
    cr_assert(strstr(listed, "(Ethernet, down, of unknown rate)"), "%s", listed);
    cr_assert(strstr(listed, "fake2 cannot be used: no permission"), "%s", listed);
    cr_assert(fake_verbs_living() == 0);
}

/* ---- after the port was out ---- */

static void lost(struct kolo_rdma_device *device, struct kolo_rdma_gid *gid, const char *text)
{
    const struct kolo_rdma_gid before = *gid;
    cr_assert(kolo_rdma_device_look_again(device, gid) == KOLO_ERR_LINK);
    cr_assert(strstr(kolo_error_detail(), text), "'%s' is not in: %s", text, kolo_error_detail());
    cr_assert(memcmp(&before, gid, sizeof before) == 0);
}

Test(rdma_device, a_port_is_looked_at_again)
{
    fake_verbs_reset();
    struct kolo_rdma_device *device = open_good("");
    struct kolo_rdma_gid gid = device->gids.all[0];
    struct fake_port *port = &fake_verbs_device(0)->ports[0];
    const struct ibv_gid_entry old = port->gids[gid.index];
    cr_assert(kolo_rdma_device_look_again(device, &gid) == KOLO_OK);
    cr_assert(gid.index == device->gids.all[0].index);
    port->gids[port->gid_count++] = old;
    port->gids[gid.index] = port->gids[0];
    port->attr.active_mtu = IBV_MTU_512;
    cr_assert(kolo_rdma_device_look_again(device, &gid) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(gid.index == port->gid_count - 1 && device->mtu == IBV_MTU_512);
    port->gid_count--;
    lost(device, &gid, "has the address RoCE v2 10.0.0.1 no more");
    port->attr.state = IBV_PORT_DOWN;
    lost(device, &gid, "its port is down");
    fake_verbs_fail("query_port", 1, ENODEV);
    lost(device, &gid, "cannot be asked");
    kolo_rdma_device_close(device);
}
