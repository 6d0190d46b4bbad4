// SPDX-License-Identifier: Apache-2.0
// Owns the list of other launchers and their variables. Must never use a variable as the rank
// unless the launcher has set it for this process (each launcher has a variable that shows this),
// nor make up a secret, which only the user can give.
//
// The rendezvous: the host of rank 0 is known if all ranks are on one host, from torchrun's
// MASTER_ADDR, or from Slurm's list of hosts. No launcher gives a port, so the ranks compute it
// from what all of them know: the job's secret and the launcher's name for this run. The secret
// alone is not enough: it may be set in a user's .bashrc, and two job steps that run at once would
// mix their ranks in one world.
#include "runtime/adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "transport/conn.h"

enum { HOST_MAX = 200, PORT_LEAST = 20000, PORTS = 12000 /* below those that systems give out */ };

struct launcher {
    const char *name, *command; /* the command that needs KOLO_SECRET; NULL: it differs */
    const char *mark;           /* is set only for its ranks */
    const char *also;           /* is set for them too; NULL: the mark is enough */
    const char *unless; /* is set if the ranks belong to another launcher, which this one started */
    const char *rank, *size;
    const char *job[2];     /* differ from run to run, and are the same on all ranks of a run */
    const char *local_size; /* number of ranks on this host; or */
    const char *hosts;      /* number of hosts; NULL: it does not say */
    const char *host; /* the host of rank 0, or a list that begins with it; NULL: it does not say */
    /* if this variable has this value, the list may begin with another host */
    const char *order, *any_order;
};

/* One launcher may run under another. The inner one comes first, because its variables describe
 * this process. */
static const struct launcher launchers[] = {
    {.name = "torchrun",
     .command = "torchrun",
     .mark = "TORCHELASTIC_RUN_ID",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .job = {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
     .local_size = "LOCAL_WORLD_SIZE",
     .host = "MASTER_ADDR"},
    {.name = "Open MPI's mpirun",
     .command = "mpirun -x KOLO_SECRET",
     .mark = "OMPI_COMM_WORLD_RANK",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .job = {"PMIX_NAMESPACE"},
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    /* With --mpi=pmi2 its ranks have PMI_RANK too, but not MPI_LOCALNRANKS. */
    {.name = "srun",
     .command = "srun",
     .mark = "SLURM_STEP_NUM_TASKS",
     .unless = "MPI_LOCALNRANKS",
     .rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     .hosts = "SLURM_STEP_NUM_NODES",
     .host = "SLURM_STEP_NODELIST",
     .order = "SLURM_DISTRIBUTION",
     .any_order = "arbitrary"},
    {.name = "mpiexec (PMI)",
     .command = "mpiexec",
     .mark = "PMI_RANK",
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local_size = "MPI_LOCALNRANKS"},
    /* Operators of Kubernetes, DeepSpeed and scripts set what torch's env:// reads. RANK differs
     * between processes, so it is not left over from a batch script, as MASTER_ADDR may be. */
    {.name = "a launcher that sets RANK and MASTER_ADDR",
     .mark = "RANK",
     .also = "MASTER_ADDR",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .job = {"MASTER_PORT"},
     .local_size = "LOCAL_WORLD_SIZE",
     .host = "MASTER_ADDR"},
};

static bool has_started_this(const struct launcher *launcher)
{
    return kolo_environment(launcher->mark) &&
           !(launcher->also && !kolo_environment(launcher->also)) &&
           !(launcher->unless && kolo_environment(launcher->unless));
}

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (has_started_this(&launchers[i]))
            return &launchers[i];
    return NULL;
}

/** A variable that says that this process is one of several ranks, but is not read because the
 * program has more rights than the user who started it; NULL: there is none. */
static const char *withheld_sign(void)
{
    if (kolo_environment_withholds("KOLO_SIZE"))
        return "KOLO_SIZE";
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (kolo_environment_withholds(launchers[i].mark) &&
            !(launchers[i].also && !kolo_environment_withholds(launchers[i].also)))
            return launchers[i].mark;
    return NULL;
}

/** Reads a number from @p least to @p most from a variable of the launcher. */
static kolo_status read_number(const struct launcher *launcher, const char *variable, long least,
                               long most, long *number_out)
{
    const char *text = variable ? kolo_environment(variable) : NULL;
    char *end = NULL;
    long number = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end != '\0' || number < least || number > most)
        return kolo_fail(KOLO_ERR_CONFIG,
                         "this program was started by %s, and %s=%.80s is not a number from %ld "
                         "to %ld: set KOLO_RANK and KOLO_SIZE, or start it with kolorun",
                         launcher->name, variable, text ? text : "", least, most);
    *number_out = number;
    return KOLO_OK;
}

/** Whether the launcher says that all ranks are on this host. */
static bool is_one_host(const struct launcher *launcher, long size)
{
    const char *local = launcher->local_size ? kolo_environment(launcher->local_size) : NULL;
    const char *hosts = launcher->hosts ? kolo_environment(launcher->hosts) : NULL;
    return (local && strtol(local, NULL, 10) == size) || (hosts && strcmp(hosts, "1") == 0);
}

/** The first host of a list in Slurm's notation: "a[01-04,7]b,c" begins with a01b. False: the name
 * is too long. */
static bool first_host(const char *list, char host[HOST_MAX])
{
    size_t used = 0;
    bool is_skipping = false;
    for (int depth = 0; *list != '\0' && (*list != ',' || depth > 0); list++) {
        if (*list == '[' || *list == ']') {
            depth += *list == '[' ? 1 : -1;
            is_skipping = false;
            continue;
        }
        is_skipping = is_skipping || (depth > 0 && (*list == '-' || *list == ','));
        if (is_skipping)
            continue;
        if (used + 1 >= HOST_MAX)
            return false;
        host[used++] = *list;
    }
    host[used] = '\0';
    return used > 0;
}

/** Whether the launcher's list of hosts begins with that of rank 0. */
static bool is_in_order(const struct launcher *launcher)
{
    const char *order = launcher->order ? kolo_environment(launcher->order) : NULL;
    return !order || strcmp(order, launcher->any_order) != 0;
}

static kolo_status find_host(const struct launcher *launcher, long size, char host[HOST_MAX])
{
    const char *list = launcher->host ? kolo_environment(launcher->host) : NULL;
    const bool has_order = is_in_order(launcher);
    if (is_one_host(launcher, size)) {
        snprintf(host, HOST_MAX, "127.0.0.1");
        return KOLO_OK;
    }
    if (list && has_order && first_host(list, host))
        return KOLO_OK;
    return kolo_fail(
        KOLO_ERR_CONFIG,
        "this is a rank of %ld started by %s%s%s, which does not say on which host rank 0 is: give "
        "KOLO_RENDEZVOUS=tcp://HOST:PORT (or file:///SHARED/PATH), the same to all",
        size, launcher->name, has_order ? "" : " -m ", has_order ? "" : launcher->any_order);
}

/** Includes the terminating zero of @p text. */
static uint32_t mix(uint32_t hash, const char *text)
{
    return kolo_hash32(hash, text, strlen(text) + 1);
}

/** Computes the port: the same on all ranks of a run, different for other runs. */
static kolo_status find_port(const struct launcher *launcher, const struct kolo_settings *settings,
                             unsigned *port_out)
{
    struct kolo_ports ports;
    uint32_t hash = mix(KOLO_HASH32_START, settings->secret);
    kolo_status status = kolo_ports_parse(settings->ports, &ports);
    if (status != KOLO_OK)
        return status;
    for (size_t i = 0; i < sizeof launcher->job / sizeof launcher->job[0]; i++) {
        const char *part = launcher->job[i] ? kolo_environment(launcher->job[i]) : NULL;
        hash = part ? mix(hash, part) : hash;
    }
    const unsigned count = kolo_ports_count(&ports);
    *port_out = ports.low == 0 ? PORT_LEAST + hash % PORTS : kolo_ports_at(&ports, hash % count);
    return KOLO_OK;
}

static kolo_status find_rendezvous(const struct launcher *launcher, long size,
                                   struct kolo_settings *settings)
{
    char host[HOST_MAX], text[HOST_MAX + 32];
    unsigned port;
    kolo_status status;
    KOLO_TRY(find_host(launcher, size, host));
    KOLO_TRY(find_port(launcher, settings, &port));
    snprintf(text, sizeof text, strchr(host, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u", host, port);
    status = kolo_settings_set(settings, "KOLO_RENDEZVOUS", text, KOLO_FROM_ENVIRONMENT);
out:
    return status;
}

static kolo_status set_number(struct kolo_settings *settings, const char *name, long number)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", number);
    return kolo_settings_set(settings, name, text, KOLO_FROM_ENVIRONMENT);
}

/** A world of one rank is what it is without these settings, unless it has a rendezvous, which
 * needs them. */
static kolo_status adopt_alone(struct kolo_settings *settings)
{
    kolo_status status = KOLO_OK;
    if (settings->rendezvous[0] == '\0')
        return KOLO_OK;
    KOLO_TRY(set_number(settings, "KOLO_SIZE", 1));
    KOLO_TRY(set_number(settings, "KOLO_RANK", 0));
out:
    return status;
}

kolo_status kolo_adopt(struct kolo_settings *settings)
{
    const struct launcher *launcher;
    const char *sign;
    long rank = 0, size = 0;
    kolo_status status;
    if (settings->launcher[0] != '\0' || settings->rank >= 0 || settings->size >= 0)
        return KOLO_OK;
    sign = withheld_sign();
    if (sign)
        return kolo_fail(KOLO_ERR_CONFIG,
                         "%s is not read, since this program has more rights than the user who "
                         "started it (set-user-id, set-group-id or capabilities), and without it "
                         "this rank would be a world of its own: give kolo_init a struct "
                         "kolo_config with rank, nranks, rendezvous and secret, or take those "
                         "rights away",
                         sign);
    launcher = find_launcher();
    if (!launcher)
        return KOLO_OK;
    KOLO_TRY(read_number(launcher, launcher->size, 1, KOLO_SIZE_MAX, &size));
    if (size == 1)
        return adopt_alone(settings);
    KOLO_TRY(read_number(launcher, launcher->rank, 0, size - 1, &rank));
    if (settings->secret[0] == '\0')
        return kolo_fail(
            KOLO_ERR_CONFIG,
            "this is rank %ld of %ld started by %s: the ranks need a secret, the same on all: "
            "`export KOLO_SECRET=$(openssl rand -hex 32)`%s%s%s; KOLO_RANK=0 KOLO_SIZE=1 "
            "makes each a world of its own",
            rank, size, launcher->name, launcher->command ? " before `" : "",
            launcher->command ? launcher->command : "", launcher->command ? "`" : "");
    if (settings->rendezvous[0] == '\0')
        KOLO_TRY(find_rendezvous(launcher, size, settings));
    KOLO_TRY(set_number(settings, "KOLO_SIZE", size));
    KOLO_TRY(set_number(settings, "KOLO_RANK", rank));
out:
    return status;
}
