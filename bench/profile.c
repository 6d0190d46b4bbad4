// SPDX-License-Identifier: Apache-2.0
// kolobench profile: measures every figure that the choice of plans uses, and saves them where jobs
// look for them (runtime/profile.h). Alone, it starts kolorun for each way in which ranks of one
// host are connected: with two ranks, then with more than there are cores. Under kolorun it
// measures between the ranks that it is given. What a run does not measure keeps the value in the
// file.
#include "bench/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "bench/bare.h"
#include "bench/far.h"
#include "memory/reduce.h"
#include "runtime/local.h"
#include "runtime/profile.h"
#include "tools/exit_status.h"
#include "tools/job.h"
#include "tools/outfile.h"

enum {
    FEW_BYTES = 8,
    BLOCK_BYTES = 64 << 10, /* assumed by the model to be in a cache, even if ranks share it */
    SHOWN_BYTES = 16 << 10,
    DIRECT_BYTES = 256 << 10,
    CACHED_BYTES = 128 << 10,
    PULLED_BYTES = 256 << 10, /* that the kernel copies at a time (board_pull.c) */
    ROUNDS = 3,
    STREAM = 8, /* messages of STREAM_BYTES at once */
    STREAM_BYTES = 1 << 20,
    CROWD_MAX = 256, /* ranks of a crowded run */
    PATH_MAX_BYTES = 4096
};

/* What one run measures; it depends on the plan that its ranks are made to take. */
enum kind { OVER_LINKS, SHORT, LONG, KINDS };
static const char *const kinds[KINDS] = {"links", "short", "long"};
static const char *const plans[KINDS] = {"ring", "oneshot", "twoshot"};

struct command {
    const char *out, *transport;
    char place[PATH_MAX_BYTES];
    int64_t time_ns;
    int threads;
    enum kind kind;
    bool quiet;
};

/* ---- steps ---- */

/* Memory of another process. */
struct place {
    int64_t process;
    uint64_t address;
};

struct part {
    struct bare_world world;
    uint8_t *send, *recv; /* from kolo_alloc */
    uint8_t *from, *to;   /* other memory, more than caches hold: rank 0 copies, others read */
    int other;            /* the rank that forms a pair with rank 0 */
    struct place theirs;  /* FROM of the other rank of the pair: PULLED_BYTES to be read */
    size_t bytes;
    int64_t time_ns;
    bool is_network;
};

static bool done(kolo_status status)
{
    return status == KOLO_OK;
}

static bool send_to(struct part *part, int peer, size_t bytes, struct kolo_request **request)
{
    return done(kolo_send(part->world.comm, part->send, bytes, KOLO_UINT8, peer, NULL, request));
}

static bool receive_from(struct part *part, int peer, size_t bytes, struct kolo_request **request)
{
    return done(kolo_recv(part->world.comm, part->recv, bytes, KOLO_UINT8, peer, NULL, request));
}

/* There and back. */
static bool ping_step(struct bare_world *world, void *context)
{
    struct part *part = context;
    int peer = world->rank == 0 ? part->other : 0;
    if (world->rank != 0 && world->rank != part->other)
        return true;
    if (world->rank == 0)
        return send_to(part, peer, FEW_BYTES, NULL) && receive_from(part, peer, FEW_BYTES, NULL);
    return receive_from(part, peer, FEW_BYTES, NULL) && send_to(part, peer, FEW_BYTES, NULL);
}

/* Long messages there, and a short one back. */
static bool stream_step(struct bare_world *world, void *context)
{
    struct part *part = context;
    struct kolo_request *requests[STREAM] = {NULL};
    bool sends = world->rank == 0, ok = true;
    int peer = sends ? part->other : 0;
    if (world->rank != 0 && world->rank != part->other)
        return true;
    for (int i = 0; ok && i < STREAM; i++)
        ok = sends ? send_to(part, peer, STREAM_BYTES, &requests[i])
                   : receive_from(part, peer, STREAM_BYTES, &requests[i]);
    for (int i = 0; i < STREAM; i++)
        ok = done(kolo_wait(&requests[i], -1)) && ok;
    return ok && (sends ? receive_from(part, peer, FEW_BYTES, NULL)
                        : send_to(part, peer, FEW_BYTES, NULL));
}

static bool barrier_step(struct bare_world *world, void *context)
{
    (void)context;
    return done(kolo_barrier(world->comm, NULL, NULL));
}

/* In place, so that nothing is copied. */
static bool gather_step(struct bare_world *world, void *context)
{
    struct part *part = context;
    const uint8_t *own = part->recv + (size_t)world->rank * part->bytes;
    return done(kolo_allgather(world->comm, own, part->recv, part->bytes, KOLO_UINT8, NULL, NULL));
}

static bool sum_step(struct bare_world *world, void *context)
{
    struct part *part = context;
    return done(kolo_allreduce(world->comm, part->send, part->recv, part->bytes / sizeof(float),
                               KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
}

static bool copy_step(struct bare_world *world, void *context)
{
    struct part *part = context;
    if (world->rank == 0)
        memcpy(part->to, part->from, BARE_LARGE_BYTES);
    return true;
}

static bool combine_step(struct bare_world *world, void *context)
{
    struct part *part = context;
    if (world->rank == 0)
        kolo_reduce_function(KOLO_FLOAT32, KOLO_SUM)(part->recv, part->recv, part->send,
                                                     CACHED_BYTES / sizeof(float));
    return true;
}

/* Both at the same time, as in an alltoall. */
static bool pull_step(struct bare_world *world, void *context)
{
    const struct part *part = context;
    const struct iovec to = {part->to, PULLED_BYTES};
    const struct iovec from = {(void *)(uintptr_t)part->theirs.address, PULLED_BYTES};
    if (world->rank != 0 && world->rank != part->other)
        return true;
    return process_vm_readv((pid_t)part->theirs.process, &to, 1, &from, 1, 0) == PULLED_BYTES;
}

/* ---- one world ---- */

/* The least of the medians over this many rounds, since other work of the machine comes and
 * goes. */
static kolo_status take(struct part *part, const char *name, bare_step step, size_t bytes,
                        double *ns_out)
{
    double us = 0, least = 0;
    kolo_status status = KOLO_OK;
    part->bytes = bytes;
    for (int round = 0; round < ROUNDS; round++) {
        KOLO_TRY(bare_time(&part->world, name, step, part, part->time_ns / ROUNDS, &us));
        least = round == 0 || us < least ? us : least;
    }
    *ns_out = least * 1e3;
out:
    return status;
}

static kolo_status measure_network(struct part *part, struct profile_times *times)
{
    kolo_status status;
    KOLO_TRY(take(part, "there and back", ping_step, FEW_BYTES, &times->one_way));
    times->one_way /= 2;
    KOLO_TRY(take(part, "a stream", stream_step, STREAM_BYTES, &times->stream_byte));
    times->stream_byte =
        (times->stream_byte - 2 * times->one_way) / (double)STREAM / (double)STREAM_BYTES;
out:
    return status;
}

/* A rank without memory for it fails, and the job with it. */
static kolo_status measure_copies(struct part *part, struct profile_times *times)
{
    kolo_status status = KOLO_OK;
    if (part->world.rank == 0 || part->world.rank == part->other) {
        part->from = kolo_aligned(4096, BARE_LARGE_BYTES);
        part->to = kolo_aligned(4096, BARE_LARGE_BYTES);
        if (!part->from || !part->to)
            return KOLO_ERR_NO_MEMORY;
        bare_fill(part->from, BARE_LARGE_BYTES);
        bare_fill(part->to, PULLED_BYTES);
    }
    KOLO_TRY(take(part, "copies", copy_step, BARE_LARGE_BYTES, &times->copy_byte));
    times->copy_byte /= (double)BARE_LARGE_BYTES;
out:
    return status;
}

/* Exchanges where each other's memory is. */
static kolo_status find_places(struct part *part)
{
    struct kolo_comm *comm = part->world.comm;
    const struct place own = {getpid(), (uintptr_t)part->from};
    struct place *places = kolo_calloc((size_t)part->world.nranks, sizeof *places);
    if (!places)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = kolo_allgather(comm, &own, places, sizeof *places, KOLO_UINT8, NULL, NULL);
    part->theirs = places[part->world.rank == 0 ? part->other : 0];
    kolo_free_memory(places);
    return status;
}

/* Measures nothing if the system does not allow it: such memory is not pulled then. */
static kolo_status measure_pulls(struct part *part, struct profile_times *times)
{
    int32_t may;
    kolo_status status;
    KOLO_TRY(find_places(part));
    may = pull_step(&part->world, part);
    KOLO_TRY(kolo_allreduce(part->world.comm, &may, &may, 1, KOLO_INT32, KOLO_MIN, NULL, NULL));
    if (may) {
        KOLO_TRY(take(part, "pulls", pull_step, PULLED_BYTES, &times->pull_byte));
        times->pull_byte /= (double)PULLED_BYTES;
    }
out:
    return status;
}

static kolo_status measure_links(struct part *part, struct profile_times *times)
{
    kolo_status status;
    times->ring_bytes = BLOCK_BYTES;
    KOLO_TRY(take(part, "there and back", ping_step, FEW_BYTES, &times->one_way));
    times->one_way /= 2;
    KOLO_TRY(take(part, "a barrier", barrier_step, 0, &times->barrier));
    KOLO_TRY(take(part, "a ring", gather_step, FEW_BYTES, &times->ring));
    KOLO_TRY(take(part, "a long ring", gather_step, BLOCK_BYTES, &times->ring_long));
    if (times->ranks > times->cores)
        return KOLO_OK;
    KOLO_TRY(measure_copies(part, times));
    KOLO_TRY(measure_pulls(part, times));
    KOLO_TRY(take(part, "sums", combine_step, CACHED_BYTES, &times->combine_byte));
    times->combine_byte /= (double)CACHED_BYTES;
out:
    return status;
}

static kolo_status measure_board(struct part *part, enum kind kind, struct profile_times *times)
{
    double *few = kind == SHORT ? &times->shown : &times->direct;
    double *many = kind == SHORT ? &times->shown_long : &times->direct_long;
    kolo_status status;
    times->shown_bytes = SHOWN_BYTES;
    times->direct_bytes = DIRECT_BYTES;
    KOLO_TRY(take(part, "a short sum", sum_step, FEW_BYTES, few));
    KOLO_TRY(take(part, "a long sum", sum_step, kind == SHORT ? SHOWN_BYTES : DIRECT_BYTES, many));
out:
    return status;
}

static kolo_status measure(struct part *part, enum kind kind, struct profile_times *times)
{
    return part->is_network     ? measure_network(part, times)
           : kind == OVER_LINKS ? measure_links(part, times)
                                : measure_board(part, kind, times);
}

/* How all ranks but this one are connected to it. */
static kolo_status find_path(struct part *part, enum kolo_path *path_out)
{
    struct kolo_peer_info info = {.size = sizeof info};
    kolo_status status =
        kolo_get_peer_info(part->world.comm, part->world.rank == 0 ? part->other : 0, &info);
    *path_out = strcmp(info.transport, "rdma") == 0     ? KOLO_PATH_RDMA
                : part->is_network                      ? KOLO_PATH_NETWORK
                : strcmp(info.transport, "tcp") == 0    ? KOLO_PATH_LOOPBACK
                : strcmp(info.transport, "inproc") == 0 ? KOLO_PATH_INPROC
                                                        : KOLO_PATH_SHM;
    return status;
}

/* ---- the file ---- */

/* ~/.cache/kolo may not exist yet. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0777); /* opening the file reports what is wrong */
        *slash = '/';
    }
}

static kolo_status load(const char *path, struct kolo_figures *figures)
{
    char text[KOLO_PROFILE_MAX];
    struct kolo_figures old;
    kolo_figures_init(figures);
    kolo_figures_init(&old);
    if (access(path, F_OK) != 0)
        return KOLO_OK;
    /* without a deadline: the file is also written here, and by no other deadline */
    kolo_status status = kolo_figures_read(path, text, sizeof text, KOLO_NEVER);
    status = status == KOLO_OK ? kolo_figures_parse(&old, text, path) : status;
    if (status == KOLO_OK)
        *figures = old;
    return status;
}

static kolo_status save(const char *path, const struct kolo_figures *figures)
{
    struct outfile file;
    kolo_status status = outfile_open(&file, "--output", path);
    if (status != KOLO_OK)
        return status;
    kolo_figures_write(figures, file.stream);
    return outfile_close(&file, true);
}

/* ---- under kolorun, or threads ---- */

static kolo_status add_to_file(const struct command *c, const struct profile_times *times,
                               enum kolo_path path)
{
    struct kolo_figures figures;
    kolo_status status;
    KOLO_TRY(load(c->out, &figures));
    profile_solve(times, path, &figures);
    KOLO_TRY(save(c->out, &figures));
    if (!c->quiet)
        printf("# %s: %s, %d ranks on %d cores\n", c->out, kolo_path_text(path), times->ranks,
               times->cores);
out:
    return status;
}

static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    const struct command *c = arg;
    struct part part = {.world = {.comm = comm, .rank = kolo_rank(comm), .nranks = kolo_size(comm)},
                        .time_ns = c->time_ns};
    struct profile_times times = {.ranks = kolo_size(comm)};
    enum kolo_path path;
    kolo_status status;
    if (kolo_size(comm) < 2)
        return kolo_fail(KOLO_ERR_CONFIG, "profile: it needs two ranks: kolorun -np 2");
    if (kolo_rank(comm) == 0)
        KOLO_TRY(outfile_probe("--output", c->out));
    KOLO_TRY(bench_cores(comm, &times.cores));
    size_t bytes = (size_t)kolo_size(comm) * BLOCK_BYTES; /* of what a ring gathers */
    bytes = bytes > STREAM_BYTES ? bytes : STREAM_BYTES;  /* the longest of the others */
    KOLO_TRY(kolo_alloc(comm, bytes, (void **)&part.send));
    KOLO_TRY(kolo_alloc(comm, bytes, (void **)&part.recv));
    bare_fill(part.send, bytes);
    bare_fill(part.recv, bytes);
    KOLO_TRY(bare_other(&part.world, &part.other, &part.is_network));
    KOLO_TRY(find_path(&part, &path));
    KOLO_TRY(measure(&part, c->kind, &times));
    if (kolo_rank(comm) == 0)
        status = add_to_file(c, &times, path);
out:
    kolo_free(comm, part.send);
    kolo_free(comm, part.recv);
    kolo_free_memory(part.from);
    kolo_free_memory(part.to);
    return status;
}

/* ---- alone ---- */

/* Finds kolorun, which is installed beside kolobench. */
static kolo_status find_kolorun(char own[PATH_MAX_BYTES], char kolorun[PATH_MAX_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", own, PATH_MAX_BYTES - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    int folder = slash ? (int)(slash - own) : 0;
    int written = snprintf(kolorun, PATH_MAX_BYTES, "%.*s/kolorun", folder, own);
    if (slash && written < PATH_MAX_BYTES && access(kolorun, X_OK) == 0)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "profile: %s is not there; run kolorun -np 2 kolobench profile", kolorun);
}

static kolo_status run_one(const char *const *argv)
{
    int how = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execv(argv[0], (char *const *)(uintptr_t)argv); /* which does not write to them */
        _exit(127);
    }
    if (child < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "profile: fork");
    while (waitpid(child, &how, 0) < 0)
        if (errno != EINTR)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "profile: waitpid");
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_SYSTEM, "profile: a run of %s failed, and said why", argv[0]);
}

/* What is measured alone, in this order: crowding is added to figures that are there. */
static const struct run {
    const char *transport;
    enum kind kind;
    bool crowded; /* twice as many ranks as cores, else two */
} runs[] = {{"inproc", OVER_LINKS, false}, {"shm", OVER_LINKS, false}, {"tcp", OVER_LINKS, false},
            {"shm", LONG, false},          {"shm", SHORT, false},      {"inproc", OVER_LINKS, true},
            {"shm", OVER_LINKS, true},     {"tcp", OVER_LINKS, true},  {"shm", SHORT, true}};

static kolo_status run_part(const struct command *c, const struct run *run, const char *beside)
{
    char own[PATH_MAX_BYTES], kolorun[PATH_MAX_BYTES], count[32], threads[48], time[48];
    long cores = kolo_local_cpus(), ranks = run->crowded ? 2 * cores : 2;
    kolo_status status;
    KOLO_TRY(find_kolorun(own, kolorun));
    snprintf(time, sizeof time, "%.6fs", (double)c->time_ns / 1e9);
    snprintf(count, sizeof count, "%ld", ranks > CROWD_MAX ? CROWD_MAX : ranks);
    snprintf(threads, sizeof threads, "--threads=%s", count);
    const char *const by_kolorun[] = {
        kolorun,       "-np",          count,     "--no-stdin", "--no-prefix",
        "--timeout",   "300s",         own,       "profile",    "-o",
        beside,        "--time",       time,      "--part",     kinds[run->kind],
        "--transport", run->transport, "--quiet", NULL};
    const char *const by_threads[] = {
        own,  "profile", threads,          "-o",      beside, "--time",
        time, "--part",  kinds[run->kind], "--quiet", NULL};
    if (!c->quiet)
        printf("# %s (%s) between %s ranks on %ld cores\n", run->transport, kinds[run->kind], count,
               cores);
    status = run_one(strcmp(run->transport, "inproc") == 0 ? by_threads : by_kolorun);
out:
    return status;
}

/* Adds what lies between NUMA nodes; nothing if there is one node. */
static kolo_status add_far(const struct command *c, const char *beside,
                           struct kolo_figures *figures)
{
    int nodes;
    kolo_status status;
    KOLO_TRY(load(beside, figures));
    KOLO_TRY(far_measure(figures, &nodes));
    if (nodes < 2)
        return KOLO_OK;
    if (!c->quiet)
        printf("# between two NUMA nodes\n");
    KOLO_TRY(save(beside, figures));
out:
    return status;
}

static kolo_status run_alone(const struct command *c)
{
    char beside[PATH_MAX_BYTES];
    struct kolo_figures figures;
    struct stat there;
    kolo_status status;
    if (stat(c->out, &there) == 0 && !S_ISREG(there.st_mode)) /* a file would replace it */
        return kolo_fail(KOLO_ERR_CONFIG, "--output %s: exists and is not a file", c->out);
    snprintf(beside, sizeof beside, "%s.new-%ld", c->out, (long)getpid());
    KOLO_TRY(outfile_probe("--output", c->out));
    KOLO_TRY(load(c->out, &figures));
    KOLO_TRY(save(beside, &figures));
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (runs[i].crowded || kolo_local_cpus() > 1) /* else two ranks share it */
            KOLO_TRY(run_part(c, &runs[i], beside));
    KOLO_TRY(add_far(c, beside, &figures));
    KOLO_TRY(save(c->out, &figures));
    if (c->quiet)
        goto out;
    kolo_figures_write(&figures, stdout);
    if (c->out == c->place)
        printf("# saved as %s: jobs whose rank 0 is on this host choose plans by it\n"
               "# (KOLO_PROFILE=none: by built-in figures). With --host A,B under kolorun the "
               "network is measured too.\n",
               c->out);
    else
        printf("# saved as %s: for jobs with KOLO_PROFILE=%s\n", c->out, c->out);
out:
    (void)unlink(beside);
    return status;
}

/* ---- the command ---- */

#define TAKE(name)                                                                                 \
    static int take_##name(const struct bench_flag *flag, const char *value, void *target)
#define COMMAND                                                                                    \
    struct command *c = target;                                                                    \
    (void)flag, (void)value

TAKE(output)
{
    COMMAND;
    return bench_take_file(flag, value, &c->out);
}

TAKE(time)
{
    COMMAND;
    return bench_parse_time(value, &c->time_ns)
               ? BENCH_GO_ON
               : bench_refuse("--time", value, "a time such as 20ms", NULL);
}

TAKE(transport)
{
    COMMAND;
    c->transport = value;
    return BENCH_GO_ON;
}

TAKE(threads)
{
    COMMAND;
    int64_t threads;
    if (!bench_parse_integer(value, 2, CROWD_MAX, &threads))
        return bench_refuse("--threads", value, "an integer from 2 to 256", NULL);
    c->threads = (int)threads;
    return BENCH_GO_ON;
}

TAKE(part)
{
    COMMAND;
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(value, kinds[kind]) == 0) {
            c->kind = (enum kind)kind;
            return BENCH_GO_ON;
        }
    return bench_refuse("--part", value, "links, short or long", NULL);
}

TAKE(quiet)
{
    COMMAND;
    c->quiet = true;
    return BENCH_GO_ON;
}

TAKE(help);

static const struct bench_flag flags[] = {
    {'o', "output", "FILE", "the file to write [kolo/profile-HOST in XDG_CACHE_HOME or ~/.cache]",
     take_output},
    {'t', "time", "TIME", "how long each figure is measured [0.1s]", take_time},
    {0, "transport", "NAME", "under kolorun: use only inproc, shm, rdma or tcp", take_transport},
    {0, "threads", "N", "measure only between N threads of this process", take_threads},
    {0, "part", "NAME",
     "what to measure inside a host: links, or short or long vectors over a board [links]",
     take_part},
    {'q', "quiet", NULL, "print nothing", take_quiet},
    {'h', "help", NULL, "print this text", take_help},
    {0},
};

static int take_help(const struct bench_flag *flag, const char *value, void *target)
{
    (void)flag, (void)value, (void)target;
    if (!job_speaks())
        return 0;
    printf("usage: kolobench profile [options]\n"
           "       kolorun --host A,B -np 2 kolobench profile [options]\n"
           "Measures the figures by which plans are chosen, and saves them where later jobs find "
           "them\n(KOLO_PROFILE). Without kolorun it measures all figures of this host. Under "
           "kolorun it measures\nthose between the ranks (on several hosts, the network), and adds "
           "them to the file of rank 0.\n\n");
    bench_flags_help(flags, stdout);
    return 0;
}

static int take_word(const char *word, void *target)
{
    (void)target;
    return bench_refuse("profile", word, "options alone", NULL);
}

int profile_main(char *const *argv)
{
    static struct command command = {.time_ns = 100000000};
    char transport[BENCH_TEXT_MAX], plan[64];
    kolo_status status;
    int exit_status = bench_flags_parse(flags, argv, &command, take_word);
    if (exit_status != BENCH_GO_ON)
        return exit_status;
    if (!command.out && !kolo_profile_place(command.place, sizeof command.place))
        return bench_refuse("profile", "has no place for its figures",
                            "--output FILE, or HOME as an absolute path", NULL);
    if (!command.out) {
        command.out = command.place;
        make_folders(command.out);
    }
    snprintf(transport, sizeof transport, "KOLO_TRANSPORT=%s",
             command.transport ? command.transport : "auto");
    snprintf(plan, sizeof plan, "KOLO_PLAN=%s", plans[command.kind]);
    const char *const settings[] = {"KOLO_PROFILE=none", plan, command.transport ? transport : NULL,
                                    NULL};
    if (command.threads > 0 || kolo_environment("KOLO_RANK"))
        return exit_status_of(bench_run_ranks(command.threads, settings, rank_main, &command));
    status = run_alone(&command);
    if (status != KOLO_OK)
        fprintf(stderr, "kolobench: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    return exit_status_of(status);
}
