// SPDX-License-Identifier: Apache-2.0
// Asks every backend of the build whether it can be used here.
#include <sys/utsname.h>
#include <unistd.h>

#include <kolo/version.h>

#include "base/build.h"
#include "launcher/info.h"
#include "memory/memory.h"
#include "runtime/local.h"
#include "transport/transport.h"

static void print_line(FILE *out, const char *kind, const char *name, kolo_status status,
                       const struct kolo_why *why)
{
    bool works = status == KOLO_OK;
    fprintf(out, "%-10s %-8s %s%s%s\n", kind, name, works ? "works" : "no",
            !works && why->text[0] ? ": " : "", works ? "" : why->text);
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

void kolo_info_print(const struct kolo_settings *settings, FILE *out)
{
    fprintf(out, "kolo       %s\n", KOLO_VERSION);
    print_machine(out);
    struct kolo_why transport_why;
    kolo_status usable;
    const char *name;
    for (size_t i = 0; (name = kolo_transport_probe(i, settings, &usable, &transport_why)); i++)
        print_line(out, "transport", name, usable, &transport_why);
    for (size_t i = 0; kolo_memory_kinds[i]; i++) {
        struct kolo_why why = {.text = ""};
        kolo_status status = kolo_memory_kinds[i]->probe(&why);
        print_line(out, "memory", kolo_memory_kinds[i]->name, status, &why);
    }
    for (size_t i = 0; kolo_left_out[i].what; i++)
        fprintf(out, "left out   %-8s %s\n", kolo_left_out[i].what, kolo_left_out[i].why);
}
