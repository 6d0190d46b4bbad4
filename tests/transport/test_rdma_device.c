// SPDX-License-Identifier: Apache-2.0
// Devices that are absent, refused, down, of another kind, or unplugged: the error texts, and that
// nothing stays open.
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tests/support/fake_open.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_device.h"

Test(rdma_device, the_first_usable_port_is_taken)
{
    char name[KOLO_RDMA_PORT_TEXT_MAX];
    fake_verbs_reset();
    struct kolo_rdma_device *device = fake_open("");
    kolo_rdma_device_format(device, name);
    cr_assert_str_eq(name, "fake0 port 1");
    cr_assert(device->mtu == IBV_MTU_1024 && device->is_ethernet && device->lid == 0 &&
              device->gids.count == 4);
    cr_assert(device->parts_max == 4 && device->message_bytes_max == 1u << 23);
    kolo_rdma_device_close(device);
    fake_verbs_device(0)->ports[0].attr.state = IBV_PORT_DOWN;
    device = fake_open("");
    cr_assert_str_eq(device->name, "fake1");
    kolo_rdma_device_close(device);
    kolo_rdma_device_close(NULL);
    cr_assert(fake_verbs_living() == 0);
}

Test(rdma_device, each_port_says_why_not)
{
    fake_verbs_reset();
    fake_verbs_device_count(3);
    fake_verbs_device(0)->open_error = EACCES;
    fake_verbs_device(1)->ports[0].attr.state = IBV_PORT_INIT;
    fake_verbs_device(2)->base.transport_type = IBV_TRANSPORT_IWARP;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "fake0: no permission: /dev/infiniband");
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "fake1 port 1: its link is initialising");
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "fake2 port 1: iWARP");
    fake_verbs_device_count(1);
    fake_verbs_device(0)->open_error = EIO;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "fake0: it cannot be opened: Input/output error");
    strcpy(fake_verbs_device(0)->base.dev_name, "kolo-nothing");
    fake_open_refused("", KOLO_ERR_UNSUPPORTED,
                      "fake0: /dev/infiniband/kolo-nothing is not there: a container");
    fake_verbs_device(0)->open_error = 0;
    fake_verbs_device(0)->base.transport_type = IBV_TRANSPORT_USNIC;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "neither InfiniBand nor RoCE");
}

Test(rdma_device, nonsense_of_a_driver_is_refused)
{
    fake_verbs_reset();
    fake_verbs_device_count(1);
    struct fake_port *port = &fake_verbs_device(0)->ports[0];
    port->attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "is a subnet manager running");
    port->attr.lid = 3;
    port->attr.max_msg_sz = 0;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "messages of 0 bytes");
    port->attr.max_msg_sz = 4096;
    port->attr.active_mtu = 77;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "MTU code 77");
    port->attr.active_mtu = IBV_MTU_256;
    port->attr.state = 99;
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "in an unknown state");
}

Test(rdma_device, no_device_at_all)
{
    fake_verbs_reset();
    fake_verbs_device_count(0);
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "no RDMA device on this host");
    fake_verbs_fail("get_device_list", 1, ENOSYS);
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "no RDMA device on this host");
    fake_verbs_fail("get_device_list", 1, EMFILE);
    fake_open_refused("", KOLO_ERR_UNSUPPORTED, "cannot be listed: Too many open files");
}

Test(rdma_device, every_call_may_fail)
{
    static const char *const calls[] = {"open_device", "query_device", "query_port",
                                        "query_gid_table", "alloc_pd"};
    fake_verbs_reset();
    fake_verbs_device_count(1);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fake_verbs_fail(calls[i], 1, ENOMEM);
        fake_open_refused("", KOLO_ERR_UNSUPPORTED, "Cannot allocate memory");
    }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kolo_alloc_fail_nth(nth);
        fake_open_refused("", KOLO_ERR_NO_MEMORY, "");
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

/* ---- events ---- */

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
    struct kolo_rdma_device *device = fake_open("");
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
        int living; /* objects that exist afterwards */
    } faults[] = {{"dealloc_pd", "fake0: its protection domain is still in use", 0},
                  {"close_device", "fake0: it cannot be closed", 1}};
    kolo_log_set_sink(keep_line, NULL);
    for (size_t i = 0; i < 2; i++) {
        fake_verbs_reset();
        struct kolo_rdma_device *device = fake_open("");
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
    struct kolo_rdma_device *device = fake_open("");
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
    fake_verbs_device(0)->ports[0].attr.active_width = 2;
    fake_verbs_device(0)->ports[0].attr.active_speed = 32;
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

/* ---- after the port was down ---- */

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
    struct kolo_rdma_device *device = fake_open("");
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
