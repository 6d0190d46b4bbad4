// SPDX-License-Identifier: Apache-2.0
// Reports what the machine gives to a process: processors, memory and limits, from /proc, /sys and
// the C library. Reports -1 rather than guess.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/short_file.h"
#include "launcher/examine.h"
#include "launcher/gpus.h"
#include "runtime/local.h"
#include "transport/transport.h"

enum { PATH_BYTES = 4096, CAP_IPC_LOCK_BIT = 14 };

/* ---- cgroups ---- */

static int64_t read_limit(const char *root, const char *mount, const char *group, const char *name)
{
    char path[PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return -1;
    const int64_t value = kolo_short_file_number(path); /* "max" is not a number */
    return value >= INT64_MAX / 2 ? -1 : value;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static void take_memory(int64_t limit, int64_t used, struct kolo_cgroup *cgroup)
{
    /* version 1 writes "no limit" as the greatest number of pages */
    if (limit < 0 || limit > INT64_MAX - (1 << 20))
        return;
    cgroup->memory_limit_bytes = lesser(cgroup->memory_limit_bytes, limit);
    if (used >= 0)
        cgroup->memory_room_bytes =
            lesser(cgroup->memory_room_bytes, used < limit ? limit - used : 0);
}

static void take_quota(int64_t quota, int64_t period, struct kolo_cgroup *cgroup)
{
    if (quota > 0 && period > 0)
        cgroup->quota_milli = lesser(cgroup->quota_milli, quota * 1000 / period);
}

/* Version 2: "QUOTA PERIOD", or "max PERIOD". */
static void read_unified(const char *root, const char *group, struct kolo_cgroup *cgroup)
{
    static const char mount[] = "/sys/fs/cgroup";
    char path[PATH_BYTES], text[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s%s%s/cpu.max", root, mount, group);
    if (kolo_short_file_read(path, text, sizeof text) > 0 &&
        sscanf(text, "%lld %lld", &quota, &period) == 2)
        take_quota(quota, period, cgroup);
    take_memory(read_limit(root, mount, group, "memory.max"),
                read_limit(root, mount, group, "memory.current"), cgroup);
}

static void read_separate_cpu(const char *root, const char *group, struct kolo_cgroup *cgroup)
{
    static const char mount[] = "/sys/fs/cgroup/cpu";
    take_quota(read_limit(root, mount, group, "cpu.cfs_quota_us"),
               read_limit(root, mount, group, "cpu.cfs_period_us"), cgroup);
}

static void read_separate_memory(const char *root, const char *group, struct kolo_cgroup *cgroup)
{
    static const char mount[] = "/sys/fs/cgroup/memory";
    take_memory(read_limit(root, mount, group, "memory.limit_in_bytes"),
                read_limit(root, mount, group, "memory.usage_in_bytes"), cgroup);
}

static bool has_controller(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* Reads this group and all around it, since each may have a limit. In a container the path may be
 * the host's, which is not visible there; then the group is what is mounted at the top. */
static void climb(const char *root, const char *from,
                  void (*look)(const char *root, const char *group, struct kolo_cgroup *cgroup),
                  struct kolo_cgroup *cgroup)
{
    char group[PATH_BYTES];
    snprintf(group, sizeof group, "%s", from);
    for (;;) {
        char *slash = strrchr(group, '/');
        look(root, strcmp(group, "/") == 0 ? "" : group, cgroup);
        if (!slash || strcmp(group, "/") == 0)
            return;
        slash[slash == group ? 1 : 0] = '\0';
    }
}

void kolo_cgroup_read(const char *root, struct kolo_cgroup *cgroup_out)
{
    char path[PATH_BYTES], text[PATH_BYTES];
    char *rest = text;
    *cgroup_out = (struct kolo_cgroup){-1, -1, -1};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (kolo_short_file_read(path, text, sizeof text) <= 0)
        return;
    for (char *line;
         (line = strsep(&rest, "\n")) != NULL;) { /* "0::/group", "4:cpu,cpuacct:/group" */
        char *fields = line;
        (void)strsep(&fields, ":");
        const char *controllers = strsep(&fields, ":");
        if (!fields || fields[0] != '/')
            continue;
        if (controllers[0] == '\0')
            climb(root, fields, read_unified, cgroup_out);
        if (has_controller(controllers, "cpu"))
            climb(root, fields, read_separate_cpu, cgroup_out);
        if (has_controller(controllers, "memory"))
            climb(root, fields, read_separate_memory, cgroup_out);
    }
}

/* ---- the build ---- */

void kolo_build_hash(char text[17])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    struct stat about;
    text[0] = '\0';
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *data = MAP_FAILED;
    if (fstat(fd, &about) == 0 && about.st_size > 0)
        data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return;
    if (EVP_Digest(data, (size_t)about.st_size, digest, &bytes, EVP_sha256(), NULL) == 1)
        for (int i = 0; i < 8; i++)
            snprintf(text + 2 * i, 3, "%02x", digest[i]);
    (void)munmap(data, (size_t)about.st_size);
}

/* ---- facts ---- */

static void say_limit(enum kolo_fact_number number, enum kolo_fact_number most, int resource)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY)
        kolo_say_number(number, (int64_t)limit.rlim_cur);
    if (most != number && limit.rlim_max != RLIM_INFINITY)
        kolo_say_number(most, (int64_t)limit.rlim_max);
}

static void say_limits(void)
{
    char text[4096], *line;
    say_limit(KOLO_FACT_open_files, KOLO_FACT_open_files_most, RLIMIT_NOFILE);
    say_limit(KOLO_FACT_file_bytes, KOLO_FACT_file_bytes, RLIMIT_FSIZE);
    say_limit(KOLO_FACT_locked_bytes, KOLO_FACT_locked_bytes, RLIMIT_MEMLOCK);
    if (kolo_short_file_read("/proc/self/status", text, sizeof text) > 0 &&
        (line = strstr(text, "\nCapEff:")) != NULL)
        kolo_say_number(KOLO_FACT_may_lock, strtoull(line + 8, NULL, 16) >> CAP_IPC_LOCK_BIT & 1);
}

static void say_processors(void)
{
    char text[64];
    const struct kolo_local *local = kolo_local_facts();
    kolo_say_number(KOLO_FACT_cpus, local->cpus);
    kolo_say_number(KOLO_FACT_cores, local->cores);
    kolo_say_number(KOLO_FACT_numa_nodes, local->numa_nodes);
    if (kolo_short_file_read("/proc/loadavg", text, sizeof text) > 0)
        kolo_say_number(KOLO_FACT_load_milli, (int64_t)(strtod(text, NULL) * 1000));
}

static void say_memory(void)
{
    char text[4096], *line;
    kolo_say_number(KOLO_FACT_memory_bytes,
                    (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    if (kolo_short_file_read("/proc/meminfo", text, sizeof text) > 0 &&
        (line = strstr(text, "\nMemAvailable:")) != NULL)
        kolo_say_number(KOLO_FACT_available_bytes, strtoll(line + 14, NULL, 10) * 1024);
    int fd = memfd_create("kolo-doctor", MFD_CLOEXEC);
    bool works = fd >= 0 && ftruncate(fd, sysconf(_SC_PAGESIZE)) == 0;
    if (works || errno != EFBIG) /* say_limits reports EFBIG */
        kolo_say_number(KOLO_FACT_memfd_works, works);
    if (fd >= 0)
        close(fd);
}

static void say_cgroup(void)
{
    struct kolo_cgroup cgroup;
    kolo_cgroup_read("", &cgroup);
    kolo_say_number(KOLO_FACT_quota_milli, cgroup.quota_milli);
    kolo_say_number(KOLO_FACT_memory_limit_bytes, cgroup.memory_limit_bytes);
    kolo_say_number(KOLO_FACT_memory_room_bytes, cgroup.memory_room_bytes);
}

static void say_names(void)
{
    struct kolo_identity self;
    struct utsname names;
    char text[256], build[17];
    kolo_identity_here(0, &self);
    kolo_say_text(KOLO_FACT_host, self.host);
    snprintf(text, sizeof text, "%016" PRIx64, self.host_id);
    kolo_say_text(KOLO_FACT_identity, text);
    if (uname(&names) == 0) {
        snprintf(text, sizeof text, "%s %s", names.sysname, names.release);
        kolo_say_text(KOLO_FACT_kernel, text);
        kolo_say_text(KOLO_FACT_machine, names.machine);
    }
    kolo_build_hash(build);
    kolo_say_text(KOLO_FACT_build, build);
}

static void say_gpus(void)
{
    struct kolo_gpus gpus = {.all = NULL};
    if (kolo_gpus_find("", kolo_environment("CUDA_VISIBLE_DEVICES"),
                       kolo_environment("CUDA_DEVICE_ORDER"), &gpus) == KOLO_OK)
        kolo_say_number(KOLO_FACT_gpus, (int64_t)gpus.count);
    kolo_gpus_fini(&gpus);
}

/* Returns 0 or an errno. */
static int try_to_listen(uint16_t port)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    bool can = bind(fd, (const struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 1) == 0;
    const int error = can ? 0 : errno;
    close(fd);
    return error;
}

/* How many ranks can still listen here, if they are bound to certain ports. */
static void say_ports(const struct kolo_settings *settings)
{
    struct kolo_ports ports;
    int64_t free_count = 0, denied = 0;
    if (kolo_ports_parse(settings->ports, &ports) != KOLO_OK || ports.low == 0)
        return;
    for (unsigned i = 0; i < kolo_ports_count(&ports); i++) {
        const int error = try_to_listen(kolo_ports_at(&ports, i));
        free_count += error == 0;
        denied += error == EACCES;
    }
    kolo_say_number(KOLO_FACT_ports_free, free_count);
    kolo_say_number(KOLO_FACT_ports_denied, denied);
}

void kolo_examine_machine(const struct kolo_settings *settings)
{
    char unnamed[256], unusable[KOLO_FACT_TEXT_MAX];
    say_names();
    say_processors();
    say_memory();
    say_cgroup();
    say_limits();
    say_gpus();
    say_ports(settings);
    kolo_say_number(KOLO_FACT_loopback_works, kolo_places_loopback_works());
    kolo_places_unnamed(settings->net, unnamed, sizeof unnamed);
    if (unnamed[0] != '\0')
        kolo_say_text(KOLO_FACT_net_unnamed, unnamed);
    kolo_places_unusable(settings->net, unusable, sizeof unusable);
    if (unusable[0] != '\0')
        kolo_say_text(KOLO_FACT_net_unusable, unusable);
}
