// SPDX-License-Identifier: Apache-2.0
// What another launcher's variables say: which rank this is, of how many, and where the ranks meet.
// (tests/launcher/others.sh starts real launchers.)
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/adopt.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/** Sets pairs NAME=value, the last one NULL, and adopts. Each test has a process of its own. */
static kolo_status adopt(struct kolo_settings *settings, const char *const variables[])
{
    static const char *const others[] = {
        "TORCHELASTIC_RUN_ID",  "OMPI_COMM_WORLD_RANK", "PMI_RANK",  "MPI_LOCALNRANKS",
        "SLURM_STEP_NUM_TASKS", "SLURM_DISTRIBUTION",   "KOLO_RANK", "KOLO_SIZE",
        "KOLO_SECRET",          "KOLO_LAUNCHER",        "RANK",      "MASTER_ADDR"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    for (; *variables; variables++) {
        char name[64];
        const char *equals = strchr(*variables, '=');
        cr_assert(equals && (size_t)(equals - *variables) < sizeof name);
        memcpy(name, *variables, (size_t)(equals - *variables));
        name[equals - *variables] = '\0';
        cr_assert(setenv(name, equals + 1, 1) == 0);
    }
    kolo_settings_init(settings);
    cr_assert(kolo_settings_load(settings, NULL, NULL, NULL) == KOLO_OK);
    return kolo_adopt(settings);
}

#define ADOPT(settings, ...) adopt(settings, (const char *const[]){__VA_ARGS__, NULL})

static void expect(const struct kolo_settings *settings, int rank, int size, const char *place)
{
    cr_assert(settings->rank == rank && settings->size == size, "rank %d of %d",
              (int)settings->rank, (int)settings->size);
    cr_assert(strncmp(settings->rendezvous, place, strlen(place)) == 0 &&
                  strlen(settings->rendezvous) > strlen(place),
              "%s, not %s", settings->rendezvous, place);
}

static void expect_error(kolo_status status, const char *part)
{
    cr_assert(status == KOLO_ERR_CONFIG, "%s", kolo_status_name(status));
    cr_assert(strstr(kolo_error_detail(), part), "%s: not in: %s", part, kolo_error_detail());
}

Test(adopt, each_launcher_says_who_this_is)
{
    struct kolo_settings settings;
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "OMPI_COMM_WORLD_RANK=3",
                    "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4") == KOLO_OK);
    expect(&settings, 3, 4, "tcp://127.0.0.1:");
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "PMI_RANK=0", "PMI_SIZE=2",
                    "MPI_LOCALNRANKS=2") == KOLO_OK);
    expect(&settings, 0, 2, "tcp://127.0.0.1:");
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "TORCHELASTIC_RUN_ID=x", "RANK=5",
                    "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=fd00::7") == KOLO_OK);
    expect(&settings, 5, 8, "tcp://[fd00::7]:");
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=8", "SLURM_PROCID=7",
                    "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST=gpu[07-08]") == KOLO_OK);
    expect(&settings, 7, 8, "tcp://gpu07:");
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "RANK=5", "WORLD_SIZE=8",
                    "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=job-master-0") == KOLO_OK);
    expect(&settings, 5, 8, "tcp://job-master-0:");
}

/* srun --mpi=pmi2 also sets PMI_RANK, and the hosts are still known; Hydra's proxies may be a
 * step. */
Test(adopt, srun_with_pmi_and_pmi_in_a_step)
{
    struct kolo_settings settings;
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "PMI_RANK=1", "PMI_SIZE=2",
                    "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "SLURM_STEP_NUM_NODES=2",
                    "SLURM_STEP_NODELIST=gpu[07-08]") == KOLO_OK);
    expect(&settings, 1, 2, "tcp://gpu07:");
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "PMI_RANK=3", "PMI_SIZE=4",
                    "MPI_LOCALNRANKS=4", "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0",
                    "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NODELIST=gpu07") == KOLO_OK);
    expect(&settings, 3, 4, "tcp://127.0.0.1:");
}

/* If SLURM_HOSTFILE distributes the ranks, the list of hosts does not say where the first rank
 * is. */
Test(adopt, an_arbitrary_distribution_has_no_first_host)
{
    struct kolo_settings settings;
    expect_error(ADOPT(&settings, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1",
                       "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST=a,b",
                       "SLURM_DISTRIBUTION=arbitrary"),
                 "started by srun -m arbitrary, which does not say on which host rank 0 is: give "
                 "KOLO_RENDEZVOUS");
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1",
                    "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NODELIST=a",
                    "SLURM_DISTRIBUTION=arbitrary") == KOLO_OK);
    expect(&settings, 1, 2, "tcp://127.0.0.1:");
}

Test(adopt, the_first_host_of_slurms_lists)
{
    static const char *const lists[][2] = {{"n1", "n1"},
                                           {"n1,n2", "n1"},
                                           {"n[1,3]", "n1"},
                                           {"n[001-128]", "n001"},
                                           {"rack-2", "rack-2"},
                                           {"a[01-04,7]b,c", "a01b"},
                                           {"r[1-2]n[10-20]", "r1n10"},
                                           {"a.b-c.de,f", "a.b-c.de"}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct kolo_settings settings;
        char list[96], place[96];
        snprintf(list, sizeof list, "SLURM_STEP_NODELIST=%s", lists[i][0]);
        snprintf(place, sizeof place, "tcp://%s:", lists[i][1]);
        cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=2",
                        "SLURM_PROCID=1", "SLURM_STEP_NUM_NODES=2", list) == KOLO_OK);
        expect(&settings, 1, 2, place);
    }
}

Test(adopt, all_ranks_of_a_job_meet_at_one_port_and_jobs_at_different_ones)
{
    struct kolo_settings first, second, other;
    const char *const hosts[] = {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2"};
    cr_assert(ADOPT(&first, "KOLO_SECRET=" SECRET, "OMPI_COMM_WORLD_RANK=0", hosts[0], hosts[1]) ==
              KOLO_OK);
    cr_assert(ADOPT(&second, "KOLO_SECRET=" SECRET, "OMPI_COMM_WORLD_RANK=1", hosts[0], hosts[1]) ==
              KOLO_OK);
    cr_assert(ADOPT(&other, "KOLO_SECRET=11" SECRET, "OMPI_COMM_WORLD_RANK=0", hosts[0],
                    hosts[1]) == KOLO_OK);
    cr_assert(strcmp(first.rendezvous, second.rendezvous) == 0);
    cr_assert(strcmp(first.rendezvous, other.rendezvous) != 0);
    cr_assert(ADOPT(&other, "KOLO_SECRET=" SECRET, "KOLO_PORTS=40000-40000",
                    "OMPI_COMM_WORLD_RANK=0", hosts[0], hosts[1]) == KOLO_OK);
    cr_assert(strcmp(other.rendezvous, "tcp://127.0.0.1:40000") == 0, "%s", other.rendezvous);
}

/* With a secret from .bashrc, steps of one job that run at the same time do not meet. */
Test(adopt, runs_under_one_secret_meet_at_different_ports)
{
    static const char *const runs[][4] = {
        {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_ID=1", "SLURM_PROCID=0"},
        {"SLURM_STEP_ID=0", "SLURM_JOB_ID=7", "SLURM_JOB_ID=8", "SLURM_PROCID=1"},
    };
    struct kolo_settings first, second;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const char *const *run = runs[i];
        cr_assert(ADOPT(&first, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=2",
                        "SLURM_STEP_NUM_NODES=1", run[0], run[1], run[3]) == KOLO_OK);
        cr_assert(ADOPT(&second, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=2",
                        "SLURM_STEP_NUM_NODES=1", run[0], run[2], run[3]) == KOLO_OK);
        cr_assert(strcmp(first.rendezvous, second.rendezvous) != 0, "%s", run[2]);
    }
    cr_assert(ADOPT(&first, "KOLO_SECRET=" SECRET, "PMIX_NAMESPACE=1", "OMPI_COMM_WORLD_RANK=0",
                    "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2") == KOLO_OK);
    cr_assert(ADOPT(&second, "KOLO_SECRET=" SECRET, "PMIX_NAMESPACE=2", "OMPI_COMM_WORLD_RANK=0",
                    "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2") == KOLO_OK);
    cr_assert(strcmp(first.rendezvous, second.rendezvous) != 0);
}

Test(adopt, what_is_said_already_stays)
{
    struct kolo_settings settings;
    cr_assert(ADOPT(&settings, "KOLO_RANK=0", "KOLO_SIZE=1", "OMPI_COMM_WORLD_RANK=3",
                    "OMPI_COMM_WORLD_SIZE=4") == KOLO_OK);
    cr_assert(settings.rank == 0 && settings.size == 1 && settings.rendezvous[0] == '\0');
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "KOLO_RENDEZVOUS=file:///shared/x",
                    "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                    "OMPI_COMM_WORLD_LOCAL_SIZE=2") == KOLO_OK);
    cr_assert(settings.rank == 3 && strcmp(settings.rendezvous, "file:///shared/x") == 0);
    unsetenv("KOLO_RENDEZVOUS");
    cr_assert(ADOPT(&settings, "RANK=1", "WORLD_SIZE=2") == KOLO_OK, "anybody's variables");
    cr_assert(settings.rank == -1 && settings.size == -1);
    cr_assert(ADOPT(&settings, "MASTER_ADDR=a", "WORLD_SIZE=2") == KOLO_OK, "a batch script's");
    cr_assert(settings.rank == -1 && settings.size == -1);
    cr_assert(ADOPT(&settings, "PMI_RANK=0", "PMI_SIZE=1") == KOLO_OK, "a world of one");
    cr_assert(settings.rank == -1 && settings.size == -1);
    cr_assert(ADOPT(&settings, "PMI_RANK=0", "PMI_SIZE=1",
                    "KOLO_RENDEZVOUS=tcp://127.0.0.1:29999") == KOLO_OK);
    cr_assert(settings.rank == 0 && settings.size == 1, "a world of one with a rendezvous");
    unsetenv("KOLO_RENDEZVOUS");
}

Test(adopt, an_inner_launcher_goes_before_the_outer_one)
{
    struct kolo_settings settings;
    cr_assert(ADOPT(&settings, "KOLO_SECRET=" SECRET, "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0",
                    "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST=a,b", "OMPI_COMM_WORLD_RANK=5",
                    "OMPI_COMM_WORLD_SIZE=6", "OMPI_COMM_WORLD_LOCAL_SIZE=6") == KOLO_OK);
    expect(&settings, 5, 6, "tcp://127.0.0.1:");
}

Test(adopt, what_is_missing_is_named)
{
    struct kolo_settings settings;
    expect_error(ADOPT(&settings, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
                 "this is rank 1 of 2 started by Open MPI's mpirun: the ranks need a secret");
    expect_error(ADOPT(&settings, "KOLO_SECRET=" SECRET, "OMPI_COMM_WORLD_RANK=1",
                       "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1"),
                 "does not say on which host rank 0 is: give KOLO_RENDEZVOUS=");
    expect_error(ADOPT(&settings, "KOLO_SECRET=" SECRET, "PMI_RANK=2", "PMI_SIZE=2"),
                 "PMI_RANK=2 is not a number from 0 to 1");
    expect_error(ADOPT(&settings, "PMI_RANK=2", "PMI_SIZE=2x"), "PMI_SIZE=2x is not a number");
    expect_error(ADOPT(&settings, "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a"),
                 "started by a launcher that sets RANK and MASTER_ADDR: the ranks need a secret, "
                 "the same on all: `export KOLO_SECRET=$(openssl rand -hex 32)`; KOLO_RANK=0");
    unsetenv("WORLD_SIZE");
    expect_error(ADOPT(&settings, "RANK=1", "MASTER_ADDR=a"), "WORLD_SIZE= is not a number");
    expect_error(ADOPT(&settings, "TORCHELASTIC_RUN_ID=x", "RANK=0"),
                 "WORLD_SIZE= is not a number");
}
