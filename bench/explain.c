// SPDX-License-Identifier: Apache-2.0
// kolobench plan: asks the choice of plans, with the figures of a profile or the built-in ones,
// what it would choose in a world that need not exist.
#include "bench/explain.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "bench/bench.h"
#include "runtime/choose.h"
#include "runtime/init.h"
#include "runtime/local.h"
#include "runtime/profile.h"
#include "tools/exit_status.h"
#include "transport/board.h"
#include "transport/transport.h"

enum { RANKS_MOST = 4096, ANSWERS_MAX = 32, LINE_MOST_MBIT = 100000000 };

struct command {
    const struct bench_operation *operation;
    int64_t ranks, hosts, domains, cores, bytes, root, line_mbit;
    kolo_dtype dtype;
    kolo_redop op;
    bool deterministic, user_memory;
    const char *transport, *profile, *plan;
};

#define TAKE(name)                                                                                 \
    static int take_##name(const struct bench_flag *flag, const char *value, void *target)
#define COMMAND                                                                                    \
    struct command *c = target;                                                                    \
    (void)flag, (void)value

TAKE(ranks)
{
    COMMAND;
    return bench_parse_integer(value, 1, RANKS_MOST, &c->ranks)
               ? BENCH_GO_ON
               : bench_refuse("-np", value, "an integer from 1 to 4096", NULL);
}

TAKE(hosts)
{
    COMMAND;
    return bench_parse_integer(value, 1, RANKS_MOST, &c->hosts)
               ? BENCH_GO_ON
               : bench_refuse("--hosts", value, "an integer from 1 to 4096", NULL);
}

TAKE(line)
{
    COMMAND;
    return bench_parse_integer(value, 1, LINE_MOST_MBIT, &c->line_mbit)
               ? BENCH_GO_ON
               : bench_refuse("--line", value, "Mbit/s, an integer from 1 to 100000000", NULL);
}

TAKE(domains)
{
    COMMAND;
    return bench_parse_integer(value, 1, RANKS_MOST, &c->domains)
               ? BENCH_GO_ON
               : bench_refuse("--domains", value, "an integer from 1 to 4096", NULL);
}

TAKE(cores)
{
    COMMAND;
    return bench_parse_integer(value, 1, 1 << 20, &c->cores)
               ? BENCH_GO_ON
               : bench_refuse("--cores", value, "an integer from 1", NULL);
}

TAKE(size)
{
    COMMAND;
    return kolo_size_parse(value, &c->bytes) && c->bytes >= 1
               ? BENCH_GO_ON
               : bench_refuse("--size", value, "a size in bytes such as 4, 64K or 64M", NULL);
}

TAKE(root)
{
    COMMAND;
    return bench_parse_integer(value, 0, RANKS_MOST - 1, &c->root)
               ? BENCH_GO_ON
               : bench_refuse("--root", value, "a rank", NULL);
}

TAKE(dtype)
{
    COMMAND;
    return bench_take_dtype(value, &c->dtype);
}

TAKE(op)
{
    COMMAND;
    return bench_take_redop(value, &c->op);
}

TAKE(deterministic)
{
    COMMAND;
    c->deterministic = true;
    return BENCH_GO_ON;
}

static const char *const transports[] = {"inproc", "shm", "rdma", "tcp", NULL};

/* Returns the transport's own string; NULL: there is no such transport. */
static const char *find_transport(const char *name)
{
    for (int i = 0; transports[i]; i++)
        if (strcmp(name, transports[i]) == 0)
            return transports[i];
    return NULL;
}

TAKE(transport)
{
    COMMAND;
    c->transport = find_transport(value);
    return c->transport ? BENCH_GO_ON
                        : bench_refuse("--transport", value, "inproc, shm, rdma or tcp",
                                       bench_nearest(value, transports));
}

TAKE(memory)
{
    COMMAND;
    c->user_memory = strcmp(value, "user") == 0;
    return c->user_memory || strcmp(value, "kolo") == 0
               ? BENCH_GO_ON
               : bench_refuse("--memory", value, "kolo or user", NULL);
}

TAKE(profile)
{
    COMMAND;
    c->profile = value;
    return BENCH_GO_ON;
}

TAKE(plan)
{
    COMMAND;
    c->plan = value;
    return BENCH_GO_ON;
}

TAKE(help);

static const struct bench_flag flags[] = {
    {'n', "np", "N", "number of ranks [2]", take_ranks},
    {0, "hosts", "N", "number of hosts, which hold consecutive ranks [1]", take_hosts},
    {0, "line", "MBIT",
     "speed of each host's network cards together, in Mbit/s; a job without a profile asks the "
     "system [the profile's, or 10000]",
     take_line},
    {0, "domains", "N", "number of NUMA domains of each host, which hold consecutive ranks [1]",
     take_domains},
    {0, "cores", "N", "cores of a host; a job uses the smallest number of any host [this host's]",
     take_cores},
    {'s', "size", "SIZE", "size of the whole vector in bytes [1M]", take_size},
    {'d', "dtype", "TYPE", "element type [float32]", take_dtype},
    {'o', "op", "OP", "operator [sum]", take_op},
    {0, "root", "RANK", "root of rooted collectives [0]", take_root},
    {0, "transport", "NAME",
     "between ranks of one host: inproc, shm, rdma (then also between hosts) or tcp "
     "[KOLO_TRANSPORT, or shm]",
     take_transport},
    {0, "memory", "KIND", "memory of the call: kolo (kolo_alloc) or user (plain memory) [kolo]",
     take_memory},
    {0, "deterministic", NULL, "as if KOLO_DETERMINISTIC=1 were set", take_deterministic},
    {0, "plan", "NAME", "show only this plan, beside the one that is chosen", take_plan},
    {0, "profile", "FILE", "the figures: a file of kolobench profile, auto or none [KOLO_PROFILE]",
     take_profile},
    {'h', "help", NULL, "print this text", take_help},
    {0},
};

static int take_help(const struct bench_flag *flag, const char *value, void *target)
{
    (void)flag, (void)value, (void)target;
    printf("usage: kolobench plan COLLECTIVE [options]\n"
           "Shows which plan (algorithm) a call would use, its expected time, and why the others "
           "are not chosen.\n\n");
    bench_flags_help(flags, stdout);
    return 0;
}

static int take_word(const char *word, void *target)
{
    struct command *c = target;
    if (c->operation)
        return bench_refuse("plan", word, "one collective", NULL);
    return bench_take_planned(word, &c->operation);
}

/* ---- the question ---- */

/* Where the ranks are: hosts in blocks of ranks, and on each host its domains in blocks. */
struct ground {
    struct kolo_topology map;
    int *hosts, *domains, *memory;
};

static void free_ground(struct ground *ground)
{
    kolo_free_memory(ground->hosts);
    kolo_free_memory(ground->domains);
    kolo_free_memory(ground->memory);
}

static kolo_status lay_ground(const struct command *c, struct ground *ground)
{
    size_t ranks = (size_t)c->ranks;
    ground->hosts = kolo_calloc(ranks, sizeof *ground->hosts);
    ground->domains = kolo_calloc(ranks, sizeof *ground->domains);
    ground->memory = kolo_calloc(KOLO_HOSTS_INTS(ranks), sizeof *ground->memory);
    if (!ground->hosts || !ground->domains || !ground->memory) {
        free_ground(ground);
        return KOLO_ERR_NO_MEMORY;
    }
    for (int64_t host = 0; host < c->hosts; host++) {
        int64_t first = (host * c->ranks + c->hosts - 1) / c->hosts;
        int64_t end = ((host + 1) * c->ranks + c->hosts - 1) / c->hosts;
        for (int64_t rank = first; rank < end; rank++) {
            ground->hosts[rank] = (int)host;
            ground->domains[rank] = (int)((rank - first) * c->domains / (end - first));
        }
    }
    kolo_topology_fill(&ground->map, (int)ranks, ground->hosts, ground->domains, ground->memory);
    return KOLO_OK;
}

static struct kolo_layout layout_of(const struct command *c, const struct ground *ground)
{
    struct kolo_layout layout = {.size = (int)c->ranks,
                                 .cores = (int)c->cores,
                                 .local = kolo_path_inside(c->transport, true),
                                 .hosts = ground->hosts,
                                 .by_rdma = kolo_path_inside(c->transport, true) == KOLO_PATH_RDMA,
                                 .nhosts = (int)c->hosts,
                                 .line_byte = c->line_mbit > 0 ? 8000.0 / (double)c->line_mbit : 0,
                                 .domains = ground->map.domains.count,
                                 .is_unseen = c->user_memory};
    bool has_memory = layout.local == KOLO_PATH_INPROC || layout.local == KOLO_PATH_SHM;
    layout.has_board =
        c->hosts == 1 && has_memory && c->ranks > 1 && c->ranks <= KOLO_BOARD_MEMBERS_MAX;
    return layout;
}

static void print_answers(const struct command *c, const struct kolo_profile_source *source,
                          const struct kolo_answer *answers, size_t count)
{
    char size[32], time[32];
    char domains[48] = "", line[64] = "";
    if (c->line_mbit > 0)
        snprintf(line, sizeof line, ", lines of %g Gbit/s", (double)c->line_mbit / 1000);
    if (c->domains > 1)
        snprintf(domains, sizeof domains, " in %" PRId64 " NUMA domains", c->domains);
    printf("# %s of %s (%s) on %" PRId64 " rank%s, %" PRId64 " host%s of %" PRId64
           " core%s%s, %s inside, %s memory%s\n",
           c->operation->name, bench_size_text((double)c->bytes, size, sizeof size),
           kolo_dtype_text(c->dtype), c->ranks, c->ranks == 1 ? "" : "s", c->hosts,
           c->hosts == 1 ? "" : "s", c->cores, c->cores == 1 ? "" : "s", domains, c->transport,
           c->user_memory ? "ordinary" : "kolo_alloc", c->deterministic ? ", deterministic" : "");
    printf("# expected times by %s%s%s\n",
           source->path[0] ? "the figures of "
                           : "built-in figures (kolobench profile measures this machine's)",
           source->path, line);
    printf("#  %-14s %12s  why it is or is not chosen (what it does)\n", "plan", "expected");
    for (size_t i = 0; i < count; i++) {
        const struct kolo_answer *a = &answers[i];
        bool known = a->ns > 0;
        if (c->plan && strcmp(c->plan, a->plan->name) != 0 && !a->is_chosen)
            continue;
        printf("%s %-14s %12s  %s (%s)\n", a->is_chosen ? "->" : "  ", a->plan->name,
               known ? bench_time_text(a->ns / 1e3, time, sizeof time) : "-", a->why,
               a->plan->summary);
    }
}

/* A job asks once for all sizes up to a power of two, see choose_comm.c. */
static void print_rounding(const struct kolo_question *question, const struct kolo_figures *figures,
                           const struct kolo_answer *first, size_t segment_bytes)
{
    struct kolo_question rounded = *question;
    size_t bytes = question->args.count * question->element_bytes, up = 1;
    while (up < bytes && up <= SIZE_MAX / 4)
        up *= 2;
    rounded.element_bytes = 1;
    rounded.args.count = up;
    rounded.args.segment = segment_bytes;
    const struct kolo_plan *plan = kolo_choose(&rounded, figures);
    if (plan && plan != first->plan && !kolo_plan_bars(plan, question))
        printf("# a job rounds sizes up to a power of two before it chooses, and runs %s here\n",
               plan->name);
}

/* With KOLO_PLAN a job does not choose; says what it would take, and still shows the choice. */
static void print_forced(const char *name, const struct kolo_answer *answers, size_t count)
{
    size_t i = 0;
    if (strcmp(name, "auto") == 0)
        return;
    while (i < count && strcmp(answers[i].plan->name, name) != 0)
        i++;
    if (i == count)
        printf("# KOLO_PLAN=%s is not one of these plans, and does not change the choice here\n",
               name);
    else if (!answers[i].is_chosen)
        printf("# KOLO_PLAN=%s: a job with this setting uses %s here, or refuses the call if it "
               "cannot\n",
               name, name);
}

static kolo_status explain(const struct command *c, const struct kolo_settings *settings)
{
    struct kolo_figures figures;
    struct kolo_profile_source source;
    char text[KOLO_PROFILE_MAX];
    struct kolo_answer answers[ANSWERS_MAX];
    size_t element = kolo_dtype_bytes(c->dtype);
    bool by_rank = c->operation->send == BENCH_ALL || c->operation->recv == BENCH_ALL;
    kolo_status status;
    KOLO_TRY(kolo_profile_load(c->profile ? c->profile : settings->profile,
                               kolo_deadline_in_ms(settings->start_timeout_ms), &figures, text,
                               &source));
    struct kolo_question question = {
        .collective = bench_collective_of(c->operation),
        .args = {.size = (int)c->ranks,
                 .root = (int)c->root,
                 .count = (size_t)c->bytes / element / (by_rank ? (size_t)c->ranks : 1),
                 .segment = settings->segment_bytes / element},
        .element_bytes = element,
        .order = kolo_order_of(c->dtype, c->operation->reduces ? c->op : KOLO_MIN,
                               c->deterministic || settings->deterministic)};
    struct ground ground;
    KOLO_TRY(lay_ground(c, &ground));
    question.layout = layout_of(c, &ground);
    if (question.layout.local == KOLO_PATH_SHM)
        question.layout.pull_from = kolo_pull_from(settings, &question.layout.pull_is_tried);
    question.args.hosts = ground.map.domains.count > 1 ? &ground.map : NULL;
    size_t count = kolo_explain(&question, &figures, answers, ANSWERS_MAX);
    if (count > ANSWERS_MAX)
        count = ANSWERS_MAX;
    print_answers(c, &source, answers, count);
    print_forced(settings->plan, answers, count);
    if (count > 0)
        print_rounding(&question, &figures, &answers[0], (size_t)settings->segment_bytes);
    free_ground(&ground);
out:
    return status;
}

/* Takes the settings of a job started here; the question has its own transport, or theirs. */
static kolo_status load_settings(struct command *c, struct kolo_settings *settings)
{
    kolo_status status = kolo_config_settings(NULL, settings);
    if (status == KOLO_OK)
        status = kolo_transport_name_check(settings->transport);
    if (status == KOLO_OK && !c->transport)
        c->transport = find_transport(settings->transport);
    if (!c->transport)
        c->transport = "shm";
    return status;
}

/* Refuses what a job that makes the call refuses. */
static int check_call(const struct command *c)
{
    const struct bench_options options = {.dtype = c->dtype};
    const size_t least = bench_unit_bytes(c->operation, &options, (int)c->ranks);
    char size[32], expected[80];
    if (bench_check_redop(c->dtype, c->op) != BENCH_GO_ON)
        return 2;
    snprintf(size, sizeof size, "%" PRId64, c->bytes);
    snprintf(expected, sizeof expected,
             "at least %zu bytes, the least of %s among %" PRId64 " rank%s", least,
             c->operation->name, c->ranks, c->ranks == 1 ? "" : "s");
    return (size_t)c->bytes >= least ? BENCH_GO_ON : bench_refuse("--size", size, expected, NULL);
}

int explain_main(char *const *argv)
{
    struct command command = {.ranks = 2,
                              .hosts = 1,
                              .domains = 1,
                              .bytes = 1 << 20,
                              .dtype = KOLO_FLOAT32,
                              .op = KOLO_SUM};
    char text[32];
    int exit_status = bench_flags_parse(flags, argv, &command, take_word);
    if (exit_status != BENCH_GO_ON)
        return exit_status;
    if (!command.operation)
        return bench_refuse("plan", "(none)", "a collective, such as allreduce", NULL);
    if (command.plan && bench_check_plan(command.operation, command.plan) != BENCH_GO_ON)
        return 2;
    snprintf(text, sizeof text, "%" PRId64, command.hosts);
    if (command.hosts > command.ranks)
        return bench_refuse("--hosts", text, "at most one a rank", NULL);
    snprintf(text, sizeof text, "%" PRId64, command.domains);
    if (command.domains > command.ranks / command.hosts)
        return bench_refuse("--domains", text, "at most one for each rank of a host", NULL);
    if (command.cores == 0)
        command.cores = kolo_local_cpus();
    snprintf(text, sizeof text, "%" PRId64, command.root);
    if (command.root >= command.ranks)
        return bench_refuse("--root", text, "a rank below -np", NULL);
    if (check_call(&command) != BENCH_GO_ON)
        return 2;
    struct kolo_settings settings;
    kolo_status status = load_settings(&command, &settings);
    if (status == KOLO_OK)
        status = explain(&command, &settings);
    if (status != KOLO_OK)
        fprintf(stderr, "kolobench: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    return exit_status_of(status);
}
