// SPDX-License-Identifier: Apache-2.0
// Asks every backend of the build whether it can be used here.
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kolo/version.h>

#include "base/build.h"
#include "launcher/info.h"
#include "memory/memory.h"
#include "runtime/local.h"
#include "transport/conn.h"
#include "transport/devices.h"
#include "transport/peer_memory.h"
#include "transport/transport.h"

static void print_line(FILE *out, const char *kind, const char *name, kolo_status status,
                       const struct kolo_why *why)
{
    bool works = status == KOLO_OK;
    fprintf(out, "%-10s %-8s %s%s%s\n", kind, name, works ? "works" : "no",
            why->text[0] ? ": " : "", why->text);
}

static void print_machine(FILE *out)
{
    struct utsname names;
    const struct kolo_local *local = kolo_local_facts();
    if (uname(&names) == 0)
        fprintf(out, "host       %s, %s %s, %s\n", names.nodename, names.sysname, names.release,
                names.machine);
    fprintf(out, "processor  %d core%s, %d hardware thread%s, %d NUMA node%s\n", local->cores,
            local->cores == 1 ? "" : "s", local->cpus, local->cpus == 1 ? "" : "s",
            local->numa_nodes, local->numa_nodes == 1 ? "" : "s");
    if (local->error[0])
        fprintf(out, "processor  hwloc: %s\n", local->error);
    fprintf(out, "memory     %lld MiB\n",
            (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (1 << 20));
}

/** Prints the addresses that this host offers to others under KOLO_NET, the preferred one first. */
static void print_network(const struct kolo_settings *settings, FILE *out)
{
    enum { SHOWN_MAX = 32 };
    struct kolo_place places[SHOWN_MAX];
    char address[64], unnamed[256];
    size_t count = 0;
    if (kolo_places_local(settings->net, 0, places, SHOWN_MAX, &count) != KOLO_OK) {
        fprintf(out, "network    no: %s\n", kolo_error_detail());
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char speed[32] = "";
        kolo_place_format(&places[i], address, sizeof address);
        *strrchr(address, ':') = '\0'; /* each rank has its own port */
        if (places[i].facts.speed_mbit > 0)
            snprintf(speed, sizeof speed, ", %u Mbit/s", (unsigned int)places[i].facts.speed_mbit);
        fprintf(out, "network    %-8s %s%s%s\n", places[i].facts.interface, address,
                places[i].facts.is_hardware ? ", hardware" : "", speed);
    }
    kolo_places_unnamed(settings->net, unnamed, sizeof unnamed);
    if (unnamed[0] != '\0')
        fprintf(out, "network    KOLO_NET: %s: nothing of this host has this name\n", unnamed);
}

static void print_device(void *context, const char *name, const char *text)
{
    fprintf(context, "device     %-8s %s\n", name, text);
}

/** Prints the devices that backends find. */
static void print_devices(FILE *out)
{
    for (size_t i = 0; kolo_device_reports[i]; i++)
        if (kolo_device_reports[i]->report(print_device, out) != KOLO_OK)
            print_device(out, kolo_device_reports[i]->what, kolo_error_detail());
}

kolo_status kolo_info_try_reading(struct kolo_why *why_out)
{
    const uint64_t word = (uint64_t)getpid();
    const struct kolo_peer_memory self = {
        .pid = (int32_t)getpid(), .word_at = (uint64_t)(uintptr_t)&word, .word = word};
    uint64_t seen;
    int result = 0;
    fflush(NULL); /* _exit in the child writes nothing; nothing may be buffered all the same */
    pid_t child = fork();
    if (child == 0)
        _exit(kolo_peer_memory_read(&self, self.word_at, &seen, sizeof seen) != KOLO_OK);
    while (child > 0 && waitpid(child, &result, 0) < 0 && errno == EINTR)
        ;
    *why_out = (struct kolo_why){""};
    if (child > 0 && WIFEXITED(result) && WEXITSTATUS(result) == 0)
        return KOLO_OK;
    snprintf(why_out->text, sizeof why_out->text,
             "the system does not let processes read each other's memory "
             "(kernel.yama.ptrace_scope, a container): "
             "KOLO_CMA does nothing");
    return KOLO_ERR_UNSUPPORTED;
}

static void print_reading(const struct kolo_settings *settings, FILE *out)
{
    struct kolo_why why = {"KOLO_CMA=0"};
    kolo_status status = settings->cma ? kolo_info_try_reading(&why) : KOLO_ERR_UNSUPPORTED;
    print_line(out, "memory", "cma", status, &why);
}

void kolo_info_print(const struct kolo_settings *settings, FILE *out)
{
    fprintf(out, "kolo       %s\n", KOLO_VERSION);
    print_machine(out);
    print_network(settings, out);
    struct kolo_why transport_why;
    kolo_status usable;
    const char *name;
    for (size_t i = 0; (name = kolo_transport_probe(i, settings, &usable, &transport_why)); i++)
        print_line(out, "transport", name, usable, &transport_why);
    for (size_t i = 0; kolo_memory_kinds[i]; i++) {
        const struct kolo_memory_ops *kind = kolo_memory_kinds[i];
        struct kolo_why why = {.text = ""};
        kolo_status status = kind->survey ? kind->survey(&why) : kind->probe(&why);
        print_line(out, "memory", kind->name, status, &why);
    }
    print_reading(settings, out);
    print_devices(out);
    for (size_t i = 0; kolo_left_out[i].what; i++)
        fprintf(out, "left out   %-8s %s\n", kolo_left_out[i].what, kolo_left_out[i].why);
}
