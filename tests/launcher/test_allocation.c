// SPDX-License-Identifier: Apache-2.0
// A job's hosts from Slurm's variables, as salloc, sbatch, srun --pty and srun set them.
// (tests/cluster/slurm.sh runs a real Slurm.)
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/allocation.h"

static struct kolo_hosts hosts;
static struct kolo_allocation found;

/* Each test has a process of its own, and ignores Slurm's variables that it was started with. */
static kolo_status find(const char *const variables[])
{
    static const char *const all[] = {
        "SLURM_JOB_ID",        "SLURM_JOB_NODELIST",   "SLURM_TASKS_PER_NODE",
        "SLURM_CPUS_PER_TASK", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_CPUS_PER_NODE",
        "SLURM_PTY_PORT",      "SLURMD_NODENAME",      "KOLO_RANK",
        "MPI_LOCALNRANKS",     "TORCHELASTIC_RUN_ID",  "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        unsetenv(all[i]);
    for (; *variables; variables++) {
        char name[64];
        const size_t length = strcspn(*variables, "=");
        snprintf(name, sizeof name, "%.*s", (int)length, *variables);
        cr_assert(setenv(name, *variables + length + 1, 1) == 0);
    }
    kolo_hosts_fini(&hosts);
    return kolo_allocation_find(&hosts, &found);
}

#define FIND(...) find((const char *const[]){__VA_ARGS__, NULL})
#define JOB "SLURM_JOB_ID=12"

static void expect(const char *want)
{
    char text[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < hosts.count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%d", i ? "," : "",
                                 hosts.at[i].name, hosts.at[i].slots);
    cr_assert(strcmp(text, want) == 0, "%s, not %s", text, want);
}

Test(allocation, expands_every_list)
{
    static const char *const lists[][2] = {
        {"n1,n2", "n1:1,n2:1"},
        {"n[1-3]", "n1:1,n2:1,n3:1"},
        {"n[008-010,7]b,gpu-1", "n008b:1,n009b:1,n010b:1,n7b:1,gpu-1:1"},
        {"r[1-2]n[3,5].x", "r1n3.x:1,r1n5.x:1,r2n3.x:1,r2n5.x:1"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char list[128];
        snprintf(list, sizeof list, "SLURM_JOB_NODELIST=%s", lists[i][0]);
        cr_assert(FIND(JOB, list) == KOLO_OK, "%s: %s", list, kolo_error_detail());
        expect(lists[i][1]);
        cr_assert(strcmp(found.job, "12") == 0 && strcmp(found.list, lists[i][0]) == 0);
        cr_assert(!found.is_here && hosts.at[0].is_open, "no counts: as many as must be");
    }
}

Test(allocation, refuses_what_is_no_list)
{
    static const char *const lists[] = {
        "",    ",a",        "a,",         "a[",      "a[]",          "a[1",
        "a]1", "a[3-1]",    "a[x]",       "a[1-]",   "a[1,]",        "a[1-2-3]",
        "a b", "-oProxy=x", "a[0-99999]", "a[1[2]]", "a[9999999999]"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char list[128];
        snprintf(list, sizeof list, "SLURM_JOB_NODELIST=%s", lists[i]);
        cr_assert(FIND(JOB, list) == KOLO_ERR_INVALID, "%s", list);
    }
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a[1") == KOLO_ERR_INVALID);
    cr_assert(strcmp(kolo_error_detail(),
                     "SLURM_JOB_NODELIST=a[1 is not a host list in Slurm's notation; give the "
                     "hosts by -H, or -H localhost for this machine only") == 0,
              "%s", kolo_error_detail());
}

/* As many as kolorun allows, plus one: as a range, as ranges of ranges, and as several. */
Test(allocation, refuses_too_many_by_their_number)
{
    static const char *const many[] = {"a[1-99999]", "r[0-255]n[0-256]", "a[1-65536],b",
                                       "a[1-99999999999999999999]"};
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=r[0-255]n[0-255]") == KOLO_OK);
    cr_assert(hosts.count == 65536 && strcmp(hosts.at[65535].name, "r255n255") == 0);
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        char list[128], want[256];
        snprintf(list, sizeof list, "SLURM_JOB_NODELIST=%s", many[i]);
        snprintf(want, sizeof want,
                 "%s names more than 65536 hosts, the most that kolorun takes; give the hosts by "
                 "-H, or -H localhost for this machine only",
                 list);
        cr_assert(FIND(JOB, list) == KOLO_ERR_INVALID, "%s", list);
        cr_assert(strcmp(kolo_error_detail(), want) == 0, "%s", kolo_error_detail());
    }
}

Test(allocation, slots_are_tasks_or_processors)
{
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a[1-4]", "SLURM_TASKS_PER_NODE=2(x3),1",
                   "SLURM_JOB_CPUS_PER_NODE=8(x4)") == KOLO_OK);
    expect("a1:2,a2:2,a3:2,a4:1");
    cr_assert(!hosts.at[0].is_open);
    /* Within srun --pty with one task, in an allocation of two hosts. */
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a[1-2]", "SLURM_TASKS_PER_NODE=1",
                   "SLURM_JOB_CPUS_PER_NODE=8,6", "SLURM_CPUS_PER_TASK=4") == KOLO_OK);
    expect("a1:2,a2:1");
    static const char *const bad[] = {"",        "2",     "2,", "2,2,2",  "2(x3)", "2(x",
                                      "2(x2),1", "0(x2)", "x",  "2(x-2)", "2 2",   "99999999,1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char counts[64];
        snprintf(counts, sizeof counts, "SLURM_TASKS_PER_NODE=%s", bad[i]);
        cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a,b", counts) == KOLO_OK);
        expect("a:1,b:1");
        cr_assert(hosts.at[1].is_open, "%s", bad[i]);
    }
}

Test(allocation, this_machine_by_slurms_name_for_it)
{
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a.invalid,b.invalid", "SLURM_TASKS_PER_NODE=3(x2)",
                   "SLURMD_NODENAME=b.invalid") == KOLO_OK);
    cr_assert(!hosts.at[0].is_here && hosts.at[1].is_here && !found.is_here);
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=b.invalid", "SLURM_TASKS_PER_NODE=3",
                   "SLURMD_NODENAME=b.invalid") == KOLO_OK);
    expect("b.invalid:3");
    cr_assert(found.is_here && hosts.at[0].is_open);
}

Test(allocation, is_for_one_process_alone)
{
    static const char *const marks[] = {"SLURM_STEP_NUM_TASKS=2", "KOLO_RANK=0",
                                        "OMPI_COMM_WORLD_RANK=1", "MPI_LOCALNRANKS=2",
                                        "TORCHELASTIC_RUN_ID=x"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a,b", marks[i]) == KOLO_OK);
        cr_assert(!found.job && hosts.count == 0, "%s", marks[i]);
    }
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a,b", "SLURM_STEP_NUM_TASKS=1") == KOLO_OK);
    cr_assert(found.job && hosts.count == 2);
    cr_assert(FIND(JOB, "SLURM_JOB_NODELIST=a,b", "SLURM_STEP_NUM_TASKS=2", "SLURM_PTY_PORT=1") ==
              KOLO_OK);
    cr_assert(found.job, "a shell by srun --pty");
    cr_assert(FIND("SLURM_JOB_NODELIST=a,b") == KOLO_OK && !found.job);
    cr_assert(FIND(JOB) == KOLO_OK && !found.job);
}
