// SPDX-License-Identifier: Apache-2.0
// Reports what the backends of the build find on this host, as lines of facts; `kolorun info` shows
// the same. Loads drivers, so it may take long, hang or crash: it must run in a process of its own.
#include <string.h>

#include "base/build.h"
#include "launcher/examine.h"
#include "launcher/info.h"
#include "memory/memory.h"
#include "transport/devices.h"
#include "transport/transport.h"

static void say_backend(const char *kind, const char *name, bool works, const char *why)
{
    kolo_say("backend", kind, name, works ? "1" : "0", why, NULL);
}

static void say_device(void *context, const char *name, const char *text)
{
    (void)context;
    say_backend("device", name, true, text);
}

/* Reports the ports that ranks here would take, and what two hosts need in common to connect
 * them. */
static void say_choice(void *context, const char *name, const char *addresses, const char *networks)
{
    (void)context;
    say_backend("port", name, true, addresses);
    say_backend("network", name, true, networks);
}

static void say_choices(const char *transport, const struct kolo_settings *settings)
{
    for (size_t i = 0; kolo_device_reports[i]; i++)
        if (strcmp(kolo_device_reports[i]->what, transport) == 0)
            kolo_device_reports[i]->choice(settings, say_choice, NULL);
}

void kolo_examine_backends(const struct kolo_settings *settings)
{
    struct kolo_why why = {.text = ""};
    kolo_status status;
    const char *name;
    for (size_t i = 0; (name = kolo_transport_probe(i, settings, &status, &why)); i++) {
        say_backend("transport", name, status == KOLO_OK, why.text);
        if (status == KOLO_OK)
            say_choices(name, settings);
    }
    for (size_t i = 0; kolo_memory_kinds[i]; i++) {
        const struct kolo_memory_ops *kind = kolo_memory_kinds[i];
        why = (struct kolo_why){.text = ""};
        kolo_say("begin", kind->name, NULL);
        status = kind->survey ? kind->survey(&why) : kind->probe(&why);
        say_backend("memory", kind->name, status == KOLO_OK, why.text);
    }
    why = (struct kolo_why){"KOLO_CMA=0"};
    status = settings->cma ? kolo_info_try_reading(&why) : KOLO_ERR_UNSUPPORTED;
    say_backend("memory", "cma", status == KOLO_OK, why.text);
    for (size_t i = 0; kolo_device_reports[i]; i++) {
        kolo_say("begin", kolo_device_reports[i]->what, NULL);
        if (kolo_device_reports[i]->report(say_device, NULL) != KOLO_OK)
            say_backend("device", kolo_device_reports[i]->what, false, kolo_error_detail());
    }
    for (size_t i = 0; kolo_left_out[i].what; i++)
        say_backend("left", kolo_left_out[i].what, false, kolo_left_out[i].why);
}
