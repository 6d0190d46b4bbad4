// SPDX-License-Identifier: Apache-2.0
// Reads the hosts of a job from Slurm's variables. Must never ask Slurm, or take a host that is not
// in its list.
//
// salloc and sbatch set SLURM_JOB_NODELIST ("n[01-04,7],gpu1") and the tasks per host in the same
// order, as "2(x3),1". There SLURM_TASKS_PER_NODE is the job's, but inside a step (srun --pty
// inside salloc) it is the step's: if it is for another number of hosts, the processors of each
// host count instead.
#include "launcher/allocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"

#define NEXT_STEP "give the hosts by -H, or -H localhost for this machine only"

struct list {
    const char *text; /* the whole list, for messages */
    struct kolo_hosts *hosts;
};

static kolo_status refuse(const struct list *list)
{
    return kolo_fail(KOLO_ERR_INVALID,
                     "SLURM_JOB_NODELIST=%.200s is not a host list in Slurm's notation; " NEXT_STEP,
                     list->text);
}

static kolo_status refuse_number(const struct list *list)
{
    return kolo_fail(KOLO_ERR_INVALID,
                     "SLURM_JOB_NODELIST=%.200s names more than %d hosts, the most that kolorun "
                     "takes; " NEXT_STEP,
                     list->text, (int)KOLO_HOSTS_MAX);
}

/* ---- names ---- */

static kolo_status expand(const struct list *list, const char *name, size_t used, const char *rest);

static kolo_status add_host(const struct list *list, const char *name)
{
    kolo_status status = kolo_hosts_add(list->hosts, name, 1, false);
    if (status != KOLO_ERR_INVALID)
        return status;
    return list->hosts->count == KOLO_HOSTS_MAX ? refuse_number(list) : refuse(list);
}

/* Expands a range such as "01-04": for each number, @p name's first @p used letters, the number and
 * what @p rest expands to. @p end is behind the range. */
static kolo_status expand_range(const struct list *list, const char *name, size_t used,
                                const char *range, const char *end, const char *rest)
{
    char longer[KOLO_HOST_MAX];
    const size_t width = strspn(range, "0123456789");
    char *stop;
    const unsigned long low = strtoul(range, &stop, 10);
    const unsigned long high = *stop == '-' ? strtoul(stop + 1, &stop, 10) : low;
    if (width == 0 || width > 9 || stop != end || high < low)
        return refuse(list);
    if (high - low >= KOLO_HOSTS_MAX)
        return refuse_number(list);
    for (unsigned long number = low; number <= high; number++) {
        int put = snprintf(longer, sizeof longer, "%.*s%0*lu", (int)used, name, (int)width, number);
        if (put < 0 || (size_t)put >= sizeof longer)
            return refuse(list);
        kolo_status status = expand(list, longer, (size_t)put, rest);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

/* Adds the hosts that @p rest, up to the next comma outside brackets, expands to after @p name. */
static kolo_status expand(const struct list *list, const char *name, size_t used, const char *rest)
{
    char longer[KOLO_HOST_MAX];
    const size_t plain = strcspn(rest, "[],");
    if (used + plain >= sizeof longer)
        return refuse(list);
    memcpy(longer, name, used);
    memcpy(longer + used, rest, plain);
    longer[used + plain] = '\0';
    if (rest[plain] == '\0' || rest[plain] == ',')
        return add_host(list, longer);
    const char *range = rest + plain + 1;
    const char *close = rest[plain] == '[' ? strchr(range, ']') : NULL;
    if (!close)
        return refuse(list);
    while (range <= close) {
        const char *end = range + strcspn(range, ",]");
        kolo_status status = expand_range(list, longer, used + plain, range, end, close + 1);
        if (status != KOLO_OK)
            return status;
        range = end + 1;
    }
    return KOLO_OK;
}

static kolo_status add_hosts(const struct list *list)
{
    const char *item = list->text;
    for (;;) {
        kolo_status status = expand(list, "", 0, item);
        if (status != KOLO_OK)
            return status;
        for (bool is_inside = false; *item != '\0' && (*item != ',' || is_inside); item++)
            is_inside = *item == '[' || (is_inside && *item != ']');
        if (*item++ == '\0')
            return KOLO_OK;
    }
}

/* ---- slots ---- */

/* Sets the slots of each host from a list such as "2(x3),1", divided by @p share. Returns false and
 * sets nothing if the list is for another number of hosts. */
static bool set_slots(struct kolo_hosts *hosts, const char *counts, long share)
{
    size_t at = 0;
    for (int is_set = 0; is_set < 2; is_set++) { /* the first pass only checks */
        const char *text = counts;
        for (at = 0; *text != '\0' && at < hosts->count;) {
            char *end;
            long count = strtol(text, &end, 10), times = 1;
            if (end == text || count < 1 || count > KOLO_SLOTS_MAX)
                return false;
            if (strncmp(end, "(x", 2) == 0)
                times = strtol(end + 2, &end, 10);
            end += *end == ')';
            if (times < 1 || (size_t)times > hosts->count - at || (*end != ',' && *end != '\0'))
                return false;
            for (long i = 0; i < times; i++, at++)
                if (is_set)
                    hosts->at[at].slots = count >= share ? (int)(count / share) : 1;
            text = *end == ',' ? end + 1 : end;
        }
        if (*text != '\0' || at != hosts->count)
            return false;
    }
    return true;
}

static void find_slots(struct kolo_hosts *hosts)
{
    const char *tasks = kolo_environment("SLURM_TASKS_PER_NODE");
    const char *cpus = kolo_environment("SLURM_JOB_CPUS_PER_NODE");
    const char *each = kolo_environment("SLURM_CPUS_PER_TASK");
    const long share = each ? strtol(each, NULL, 10) : 1;
    if (tasks && set_slots(hosts, tasks, 1))
        return;
    if (cpus && set_slots(hosts, cpus, share > 0 ? share : 1))
        return;
    for (size_t i = 0; i < hosts->count; i++)
        hosts->at[i].is_open = true;
}

/* ---- whether ---- */

static bool is_rank_of_several(void)
{
    static const char *const marks[] = {"KOLO_RANK", "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK",
                                        "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (kolo_environment(marks[i]))
            return true;
    const char *tasks = kolo_environment("SLURM_STEP_NUM_TASKS");
    return tasks && strcmp(tasks, "1") != 0 && !kolo_environment("SLURM_PTY_PORT");
}

/* Slurm's name of a host can differ from the host's own name. */
static void find_here(struct kolo_hosts *hosts)
{
    const char *here = kolo_environment("SLURMD_NODENAME");
    for (size_t i = 0; here && i < hosts->count; i++)
        if (strcmp(hosts->at[i].name, here) == 0)
            hosts->at[i].is_here = true;
}

kolo_status kolo_allocation_find(struct kolo_hosts *hosts, struct kolo_allocation *found_out)
{
    const char *job = kolo_environment("SLURM_JOB_ID");
    struct list list = {.text = kolo_environment("SLURM_JOB_NODELIST"), .hosts = hosts};
    *found_out = (struct kolo_allocation){.job = NULL};
    if (!job || !list.text || is_rank_of_several())
        return KOLO_OK;
    kolo_status status = add_hosts(&list);
    if (status != KOLO_OK)
        return status;
    find_slots(hosts);
    find_here(hosts);
    *found_out = (struct kolo_allocation){.job = job, .list = list.text};
    if (hosts->count == 1 && hosts->at[0].is_here)
        found_out->is_here = hosts->at[0].is_open = true;
    return KOLO_OK;
}
