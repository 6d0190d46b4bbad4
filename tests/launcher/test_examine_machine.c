// SPDX-License-Identifier: Apache-2.0
// What cgroups allow, on simulated hosts (folders).
#include <criterion/criterion.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/examine.h"

static char root[64];

static void write_file(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        cr_assert(mkdir(whole, 0700) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(whole, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void begin(void)
{
    snprintf(root, sizeof root, "/tmp/test-cgroup-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void end(void)
{
    cr_assert(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}
TestSuite(examine_machine, .init = begin, .fini = end);

static void expect(int64_t quota_milli, int64_t limit, int64_t room)
{
    struct kolo_cgroup cgroup;
    kolo_cgroup_read(root, &cgroup);
    cr_assert(cgroup.quota_milli == quota_milli, "%lld", (long long)cgroup.quota_milli);
    cr_assert(cgroup.memory_limit_bytes == limit, "%lld", (long long)cgroup.memory_limit_bytes);
    cr_assert(cgroup.memory_room_bytes == room, "%lld", (long long)cgroup.memory_room_bytes);
}

Test(examine_machine, nothing_there)
{
    expect(-1, -1, -1);
    write_file("/proc/self/cgroup", "0::/\n");
    expect(-1, -1, -1);
}

Test(examine_machine, version_2_the_tightest_of_all_groups_counts)
{
    write_file("/proc/self/cgroup", "0::/job/step\n");
    write_file("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    write_file("/sys/fs/cgroup/job/step/memory.max", "max\n");
    expect(-1, -1, -1);
    write_file("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    write_file("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    write_file("/sys/fs/cgroup/job/memory.current", "73741824\n");
    expect(1500, 1073741824, 1000000000);
    write_file("/sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
    write_file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    expect(500, 1073741824, 1000000000);
    write_file("/sys/fs/cgroup/job/step/cpu.max", "20000 100000\n");
    write_file("/sys/fs/cgroup/job/memory.current", "2000000000\n");
    expect(200, 1073741824, 0);
}

Test(examine_machine, a_container_sees_its_own_group_at_the_top)
{
    write_file("/proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
    write_file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    expect(2000, -1, -1);
}

Test(examine_machine, version_1_with_both_in_one_hierarchy)
{
    write_file("/proc/self/cgroup", "4:cpu,memory:/x\n");
    write_file("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "150000\n");
    write_file("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000\n");
    write_file("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "400\n");
    expect(1500, 1000, 600);
}

Test(examine_machine, version_1)
{
    write_file("/proc/self/cgroup",
               "12:memory:/m\n4:cpu,cpuacct:/c\n3:cpuset:/s\n1:name=systemd:/\n");
    write_file("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "250000\n");
    write_file("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
    expect(2500, -1, -1);
    write_file("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1000000\n");
    write_file("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "400000\n");
    expect(2500, 1000000, 600000);
    /* groups of that name, which this process is not in */
    write_file("/sys/fs/cgroup/memory/s/memory.limit_in_bytes", "10\n");
    write_file("/sys/fs/cgroup/cpu/s/cpu.cfs_quota_us", "10\n");
    write_file("/sys/fs/cgroup/cpu/s/cpu.cfs_period_us", "100000\n");
    expect(2500, 1000000, 600000);
}

Test(examine_machine, nonsense_is_no_limit)
{
    write_file("/proc/self/cgroup", "::\nnothing\n0::relative\n0::/g\n");
    write_file("/sys/fs/cgroup/g/cpu.max", "lots\n");
    write_file("/sys/fs/cgroup/g/memory.max", "-5\n");
    expect(-1, -1, -1);
    write_file("/sys/fs/cgroup/g/cpu.max", "100 0\n");
    expect(-1, -1, -1);
}

Test(examine_machine, one_build_has_one_hash)
{
    char first[17], second[17];
    kolo_build_hash(first);
    kolo_build_hash(second);
    cr_assert(strlen(first) == 16 && strspn(first, "0123456789abcdef") == 16, "%s", first);
    cr_assert(strcmp(first, second) == 0);
}
