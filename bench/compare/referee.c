// SPDX-License-Identifier: Apache-2.0
// Starts the sides of one comparison, lets them play in turn, and prints the time of each batch.
//
//   compare-referee --dir DIR --np N --collectives A,B --sizes N,N --rounds N --batch-us N
//                   --seconds N --turn-timeout-s N --side NAME:MEMORIES:LEAST:COMMAND ...
//
// MEMORIES is user, own or both; LEAST is the size in bytes from which on the side takes part;
// COMMAND, for bash, starts N players with the gate DIR/NAME.gate, and ends when they end. Each
// collective and size begins with one checked operation and a trial batch per side, to find how
// many calls make a batch of --batch-us. Then come the rounds. In each of them every side plays one
// batch, and each round begins with another side. The output is lines of fields separated by tabs:
//
//   sample COLLECTIVE BYTES SIDE MEMORY ROUND MICROSECONDS   one operation, mean of a batch,
//                                                            slowest rank
//   failed COLLECTIVE BYTES SIDE MEMORY WHY                  a crash, a hang, wrong results
//   absent COLLECTIVE SIDE                                   the library does not have it
//   note   TEXT
//
// A side has five turns' time to start. A side that crashed or hung is killed and restarted, a few
// times. When the seconds are over, the remaining points are left out, with a note. Every process
// that was started is in the process group of its side and gets SIGKILL when the referee dies.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/compare/compare.h"

enum {
    SIDES_MAX = 12,
    SIZES_MAX = 64,
    STARTS_MAX = 4,
    HOPELESS = 10,
    AGAIN_CALLS = 4,
    TRIAL_SHARE = 10,
    START_TURNS = 5,
    LEAVE_MS = 2000,
    NAME_MAX_ = 40
};

/* How far beyond the end of the time a turn may last; then its side is killed. */
static const int64_t SPARE_NS = 1000000000;
static const int64_t AGAIN_NS = 2000000000; /* at most, for a side that seems hopeless */

static const char *const collective_names[] = {[ALLREDUCE] = "allreduce",
                                               [ALLGATHER] = "allgather",
                                               [BROADCAST] = "broadcast",
                                               [REDUCE_SCATTER] = "reduce_scatter",
                                               [ALLTOALL] = "alltoall"};
static const char *const memory_names[] = {[MEMORY_USER] = "user", [MEMORY_OWN] = "own"};

struct contestant {
    char name[NAME_MAX_];
    bool takes[MEMORIES];
    size_t least_bytes;
    const char *command;
    struct gate *gate;
    pid_t pid; /* 0: not running */
    int starts;
};

/** One side with one kind of memory at one point. */
struct entry {
    struct contestant *side;
    enum memory memory;
    uint64_t calls;   /* 0: out of this point */
    int64_t trial_ns; /* one operation, by the first estimate */
};

struct referee {
    const char *dir;
    int nranks, rounds, turn_timeout_s;
    bool collectives[COLLECTIVES];
    size_t sizes[SIZES_MAX];
    int sizes_count;
    int64_t batch_ns, deadline_ns;
    struct contestant sides[SIDES_MAX];
    int sides_count;
};

/** A collective at a size, while it is being measured. */
struct point {
    enum collective collective;
    size_t bytes, count;
    bool keep; /* keep buffers between turns */
    struct entry entries[SIDES_MAX * MEMORIES];
    int entries_count;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- starting and ending sides ---- */

static void path_of(const struct referee *referee, const struct contestant *side,
                    const char *suffix, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/%s%s", referee->dir, side->name, suffix);
}

static int make_gate(const struct referee *referee, struct contestant *side)
{
    char path[4096];
    path_of(referee, side, ".gate", path, sizeof path);
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct gate)) != 0) {
        fprintf(stderr, "compare: %s: %s\n", path, strerror(errno));
        return -1;
    }
    void *map = mmap(NULL, sizeof(struct gate), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return -1;
    if (side->gate)
        munmap(side->gate, sizeof(struct gate));
    side->gate = map;
    side->gate->nranks = (uint32_t)referee->nranks;
    side->gate->magic = GATE_MAGIC;
    return 0;
}

static void become_side(const struct referee *referee, const struct contestant *side, pid_t parent)
{
    char path[4096];
    path_of(referee, side, ".log", path, sizeof path);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int in = open("/dev/null", O_RDONLY), out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (getppid() != parent || in < 0 || out < 0)
        _exit(127);
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    execl("/bin/bash", "bash", "-c", side->command, (char *)NULL);
    _exit(127);
}

static int launch(const struct referee *referee, struct contestant *side)
{
    if (make_gate(referee, side) != 0)
        return -1;
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        become_side(referee, side, parent);
    setpgid(pid, pid);
    side->pid = pid;
    side->starts++;
    return 0;
}

/* The launcher has ended; `why` says how. */
static bool has_exited(struct contestant *side, char *why, size_t capacity)
{
    int status;
    if (side->pid && waitpid(side->pid, &status, WNOHANG) == side->pid) {
        kill(-side->pid, SIGKILL);
        side->pid = 0;
        if (WIFSIGNALED(status))
            snprintf(why, capacity, "killed by signal %d", WTERMSIG(status));
        else
            snprintf(why, capacity, "exited with %d", WEXITSTATUS(status));
    }
    return side->pid == 0;
}

static void kill_side(struct contestant *side)
{
    if (!side->pid)
        return;
    kill(-side->pid, SIGKILL);
    while (waitpid(side->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    side->pid = 0;
}

/* A rank that failed says so in its slot before it ends. */
static bool has_failed(const struct contestant *side, char *why, size_t capacity)
{
    for (uint32_t rank = 0; rank < side->gate->nranks; rank++) {
        const struct slot *slot = &side->gate->slots[rank];
        if (slot->outcome == OUTCOME_FAILED && slot->detail[0]) {
            snprintf(why, capacity, "rank %u: %.120s", rank, slot->detail);
            return true;
        }
    }
    return false;
}

/* Waits until all ranks have reported. */
static int await(struct contestant *side, int64_t deadline_ns, char *why, size_t capacity)
{
    struct gate *gate = side->gate;
    for (;;) {
        uint32_t done = __atomic_load_n(&gate->done, __ATOMIC_ACQUIRE);
        if (done == gate->nranks)
            return has_failed(side, why, capacity) ? -1 : 0;
        gate_sleep(&gate->done, done, 100);
        if (__atomic_load_n(&gate->done, __ATOMIC_ACQUIRE) == gate->nranks)
            continue;
        if (has_exited(side, why, capacity)) {
            (void)has_failed(side, why, capacity);
            return -1;
        }
        if (now_ns() > deadline_ns) {
            if (!has_failed(side, why, capacity))
                snprintf(why, capacity, "timeout");
            return -1;
        }
    }
}

static void say_why(const struct referee *referee, const struct contestant *side, const char *what,
                    const char *why)
{
    char path[4096];
    path_of(referee, side, ".log", path, sizeof path);
    printf("note\t%s of %d ranks %s: %s\n", side->name, referee->nranks, what, why);
    FILE *log = fopen(path, "re");
    char line[256];
    for (int lines = 0; log && lines < 5 && fgets(line, sizeof line, log); lines++) {
        line[strcspn(line, "\n\t")] = 0;
        if (line[0])
            printf("note\t%s says: %s\n", side->name, line);
    }
    if (log)
        fclose(log);
    fflush(stdout);
}

static int await_start(const struct referee *referee, struct contestant *side)
{
    char why[256] = "";
    if (!side->pid)
        return -1;
    int64_t deadline = now_ns() + START_TURNS * referee->turn_timeout_s * INT64_C(1000000000);
    if (await(side, deadline < referee->deadline_ns ? deadline : referee->deadline_ns, why,
              sizeof why) != 0) {
        say_why(referee, side, "did not start", why);
        kill_side(side);
        return -1;
    }
    for (int rank = 0; rank < referee->nranks; rank++)
        if (side->gate->slots[rank].cpu < 0)
            printf("note\t%s: rank %d could not be pinned\n", side->name, rank);
    return 0;
}

static void restart(const struct referee *referee, struct contestant *side)
{
    kill_side(side);
    if (side->starts >= STARTS_MAX || now_ns() > referee->deadline_ns)
        printf("note\t%s is not started again\n", side->name);
    else if (launch(referee, side) == 0)
        (void)await_start(referee, side);
}

/* ---- a turn ---- */

static int turn(const struct referee *referee, struct contestant *side,
                const struct command *command, char *why, size_t capacity)
{
    struct gate *gate = side->gate;
    gate->command = *command;
    __atomic_store_n(&gate->done, 0, __ATOMIC_RELEASE);
    __atomic_add_fetch(&gate->turn, 1, __ATOMIC_ACQ_REL);
    gate_wake(&gate->turn);
    int64_t deadline = now_ns() + referee->turn_timeout_s * INT64_C(1000000000);
    int64_t over = referee->deadline_ns + SPARE_NS;
    if (await(side, deadline < over ? deadline : over, why, capacity) != 0)
        return -1;
    for (uint32_t rank = 0; rank < gate->nranks; rank++)
        if (gate->slots[rank].errors) {
            snprintf(why, capacity, "wrong results: %llu elements on rank %u",
                     (unsigned long long)gate->slots[rank].errors, rank);
            return -1;
        }
    return 0;
}

static int64_t slowest_ns(const struct gate *gate)
{
    int64_t most = 1;
    for (uint32_t rank = 0; rank < gate->nranks; rank++)
        most = gate->slots[rank].ns > most ? gate->slots[rank].ns : most;
    return most;
}

static bool is_pinned(const struct contestant *side)
{
    for (uint32_t rank = 0; rank < side->gate->nranks; rank++)
        if (side->gate->slots[rank].cpu < 0)
            return false;
    return true;
}

static struct command command_of(const struct point *point, const struct entry *entry)
{
    return (struct command){.collective = point->collective,
                            .memory = entry->memory,
                            .count = point->count,
                            .forget = !point->keep};
}

static void fail(const struct referee *referee, const struct point *point, struct entry *entry,
                 const char *why)
{
    entry->calls = 0;
    if (now_ns() > referee->deadline_ns) { /* not the side's fault */
        kill_side(entry->side);
        return;
    }
    printf("failed\t%s\t%zu\t%s\t%s\t%s\n", collective_names[point->collective], point->bytes,
           entry->side->name, memory_names[entry->memory], why);
    say_why(referee, entry->side, "failed", why);
    restart(referee, entry->side);
}

/* ---- a point ---- */

/* Determines how many calls make a batch; 0 if the side cannot do it. */
static void try_entry(const struct referee *referee, const struct point *point, struct entry *entry)
{
    char why[256] = "";
    struct command command = command_of(point, entry);
    command.check = true;
    command.calls = 1;
    if (!entry->side->pid)
        return;
    if (turn(referee, entry->side, &command, why, sizeof why) != 0) {
        fail(referee, point, entry, why);
        return;
    }
    if (entry->side->gate->slots[0].outcome == OUTCOME_UNSUPPORTED) {
        printf("absent\t%s\t%s\n", collective_names[point->collective], entry->side->name);
        return;
    }
    entry->trial_ns = slowest_ns(entry->side->gate);
    if (entry->trial_ns < referee->batch_ns / TRIAL_SHARE) {
        command.check = false;
        command.warm = 1;
        command.calls = (uint64_t)(referee->batch_ns / TRIAL_SHARE / (entry->trial_ns + 1)) + 1;
        if (turn(referee, entry->side, &command, why, sizeof why) != 0) {
            fail(referee, point, entry, why);
            return;
        }
        entry->trial_ns = slowest_ns(entry->side->gate) / (int64_t)command.calls + 1;
    }
    entry->calls = 1 + (uint64_t)(referee->batch_ns / entry->trial_ns);
}

static void print_sample(const struct point *point, const struct entry *entry, int round, double us)
{
    printf("sample\t%s\t%zu\t%s\t%s\t%d\t%.3f\n", collective_names[point->collective], point->bytes,
           entry->side->name, memory_names[entry->memory], round, us);
}

static void play_entry(const struct referee *referee, const struct point *point,
                       struct entry *entry, int round)
{
    char why[256] = "";
    struct command command = command_of(point, entry);
    uint64_t nranks = (uint64_t)referee->nranks;
    command.calls = entry->calls > nranks ? entry->calls / nranks * nranks : entry->calls;
    command.warm = 1 + command.calls / 10;
    command.first_root = (uint64_t)round;
    if (turn(referee, entry->side, &command, why, sizeof why) != 0) {
        fail(referee, point, entry, why);
        return;
    }
    if (!is_pinned(entry->side))
        printf("note\t%s has threads that are not pinned\n", entry->side->name);
    print_sample(point, entry, round,
                 (double)slowest_ns(entry->side->gate) / 1e3 / (double)command.calls);
}

static int64_t least_trial_ns(const struct entry *entries, int count)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < count; i++)
        if (entries[i].calls && entries[i].trial_ns < least)
            least = entries[i].trial_ns;
    return least;
}

static bool is_hopeless(const struct referee *referee, const struct entry *entry, int64_t least_ns)
{
    return entry->calls && entry->trial_ns / HOPELESS >= least_ns &&
           entry->trial_ns >= referee->batch_ns;
}

/* The first call of a side, on fresh buffers with more ranks than cores, can take hundreds of times
 * as long as the others. A side that seems hopeless because of it is tried again, with more calls
 * each time, as long as each try shows it to be twice as fast. */
static void try_again(const struct referee *referee, const struct point *point, struct entry *entry,
                      int64_t least_ns)
{
    char why[256] = "";
    struct command command = command_of(point, entry);
    int64_t before = INT64_MAX;
    command.warm = 1;
    command.calls = AGAIN_CALLS;
    while (is_hopeless(referee, entry, least_ns) && entry->trial_ns < before / 2 &&
           entry->side->pid && (int64_t)(command.calls + 1) * entry->trial_ns < AGAIN_NS) {
        before = entry->trial_ns;
        if (turn(referee, entry->side, &command, why, sizeof why) != 0) {
            fail(referee, point, entry, why);
            return;
        }
        int64_t took_ns = slowest_ns(entry->side->gate) / (int64_t)command.calls + 1;
        entry->trial_ns = took_ns < before ? took_ns : before;
        entry->calls = 1 + (uint64_t)(referee->batch_ns / entry->trial_ns);
        command.calls *= AGAIN_CALLS;
    }
}

/* Removes sides from this point that are many times slower than the fastest. */
static void dismiss_hopeless(const struct referee *referee, const struct point *point,
                             struct entry *entries, int64_t least_ns)
{
    for (int i = 0; i < point->entries_count; i++) {
        struct entry *entry = &entries[i];
        if (!is_hopeless(referee, entry, least_ns))
            continue;
        entry->calls = 0;
        print_sample(point, entry, 0, (double)entry->trial_ns / 1e3);
    }
}

static void forget_buffers(const struct referee *referee, struct point *point)
{
    char why[256];
    for (int i = 0; point->keep && i < point->entries_count; i++) {
        struct entry *entry = &point->entries[i];
        struct command command = command_of(point, entry);
        command.forget = true;
        if (entry->side->pid && entry->trial_ns)
            (void)turn(referee, entry->side, &command, why, sizeof why);
    }
}

static void measure(const struct referee *referee, struct point *point, int64_t until_ns)
{
    int count = point->entries_count;
    for (int i = 0; i < count; i++)
        try_entry(referee, point, &point->entries[i]);
    int64_t least = least_trial_ns(point->entries, count);
    for (int i = 0; i < count; i++)
        try_again(referee, point, &point->entries[i], least);
    dismiss_hopeless(referee, point, point->entries, least);
    for (int round = 0; round < referee->rounds; round++) {
        if (round > 0 && now_ns() > until_ns)
            break;
        for (int i = 0; i < count; i++) {
            struct entry *entry = &point->entries[(i + round) % count];
            if (entry->calls && entry->side->pid && now_ns() < referee->deadline_ns)
                play_entry(referee, point, entry, round);
        }
    }
    forget_buffers(referee, point);
    fflush(stdout);
}

static void make_point(struct referee *referee, enum collective collective, size_t bytes,
                       struct point *point)
{
    size_t nranks = (size_t)referee->nranks;
    size_t block = bytes / sizeof(float) / nranks;
    *point = (struct point){.collective = collective, .count = bytes / sizeof(float)};
    if (collective == ALLGATHER || collective == REDUCE_SCATTER || collective == ALLTOALL)
        point->count = nranks * (block ? block : 1);
    point->bytes = point->count * sizeof(float);
    for (int i = 0; i < referee->sides_count; i++)
        for (int memory = MEMORIES - 1; memory >= 0; memory--)
            if (referee->sides[i].takes[memory] && bytes >= referee->sides[i].least_bytes)
                point->entries[point->entries_count++] =
                    (struct entry){.side = &referee->sides[i], .memory = (enum memory)memory};
    long pages = sysconf(_SC_AVPHYS_PAGES);
    size_t available = pages > 0 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
    point->keep = 2 * point->bytes * nranks * (size_t)point->entries_count < available / 4;
}

static void measure_all(struct referee *referee)
{
    struct point point;
    int left = 0, skipped = 0;
    for (int collective = 0; collective < COLLECTIVES; collective++)
        left += referee->collectives[collective] ? referee->sizes_count : 0;
    for (int i = 0; i < referee->sizes_count; i++)
        for (int collective = 0; collective < COLLECTIVES; collective++) {
            if (!referee->collectives[collective])
                continue;
            int64_t now = now_ns();
            make_point(referee, (enum collective)collective, referee->sizes[i], &point);
            if (now > referee->deadline_ns)
                skipped++;
            else if (i == 0 || point.bytes > referee->sizes[i - 1])
                measure(referee, &point, now + (referee->deadline_ns - now) / left);
            left--;
        }
    if (skipped)
        printf("note\t%d points of %d ranks left out: the time is over\n", skipped,
               referee->nranks);
}

static void end_all(struct referee *referee)
{
    char why[256];
    int64_t now = now_ns(), spare = referee->deadline_ns + SPARE_NS - now;
    int64_t deadline =
        now + (spare < LEAVE_MS * INT64_C(1000000) ? spare : LEAVE_MS * INT64_C(1000000));
    for (int i = 0; i < referee->sides_count; i++) {
        struct contestant *side = &referee->sides[i];
        if (!side->pid)
            continue;
        side->gate->command.leave = true;
        __atomic_add_fetch(&side->gate->turn, 1, __ATOMIC_ACQ_REL);
        gate_wake(&side->gate->turn);
    }
    for (int i = 0; i < referee->sides_count; i++) {
        struct contestant *side = &referee->sides[i];
        uint32_t never = 0;
        while (!has_exited(side, why, sizeof why) && now_ns() < deadline)
            gate_sleep(&never, 0, 5);
        kill_side(side);
    }
}

/* ---- options ---- */

static bool parse_collectives(struct referee *referee, char *list)
{
    char *rest = list, *word;
    while ((word = strsep(&rest, ",")) != NULL) {
        int found = -1;
        for (int i = 0; i < COLLECTIVES; i++)
            if (strcmp(word, collective_names[i]) == 0)
                found = i;
        if (found < 0)
            return false;
        referee->collectives[found] = true;
    }
    return true;
}

static bool parse_sizes(struct referee *referee, char *list)
{
    char *rest = list, *word;
    int64_t bytes;
    while ((word = strsep(&rest, ",")) != NULL) {
        if (!parse_number(word, (int64_t)sizeof(float), INT64_C(1) << 32, &bytes) ||
            referee->sizes_count == SIZES_MAX)
            return false;
        referee->sizes[referee->sizes_count++] = (size_t)bytes / sizeof(float) * sizeof(float);
    }
    return true;
}

static bool parse_side(struct referee *referee, char *text)
{
    struct contestant *side = &referee->sides[referee->sides_count];
    char *rest = text;
    const char *name = strsep(&rest, ":"), *memories = rest ? strsep(&rest, ":") : NULL,
               *least = rest ? strsep(&rest, ":") : NULL;
    int64_t bytes;
    if (referee->sides_count == SIDES_MAX || !rest || strlen(name) >= sizeof side->name ||
        !parse_number(least, 0, INT64_C(1) << 32, &bytes))
        return false;
    snprintf(side->name, sizeof side->name, "%s", name);
    side->takes[MEMORY_USER] = strcmp(memories, "own") != 0;
    side->takes[MEMORY_OWN] = strcmp(memories, "user") != 0;
    side->least_bytes = (size_t)bytes;
    side->command = rest;
    referee->sides_count++;
    return true;
}

static bool parse_one(struct referee *referee, const char *option, char *value)
{
    int64_t n;
    if (strcmp(option, "--dir") == 0)
        referee->dir = value;
    else if (strcmp(option, "--collectives") == 0)
        return parse_collectives(referee, value);
    else if (strcmp(option, "--sizes") == 0)
        return parse_sizes(referee, value);
    else if (strcmp(option, "--side") == 0)
        return parse_side(referee, value);
    else if (strcmp(option, "--np") == 0 && parse_number(value, 1, GATE_RANKS, &n))
        referee->nranks = (int)n;
    else if (strcmp(option, "--rounds") == 0 && parse_number(value, 1, 1000, &n))
        referee->rounds = (int)n;
    else if (strcmp(option, "--batch-us") == 0 && parse_number(value, 1, 60000000, &n))
        referee->batch_ns = n * 1000;
    else if (strcmp(option, "--seconds") == 0 && parse_number(value, 1, 86400, &n))
        referee->deadline_ns = now_ns() + n * INT64_C(1000000000);
    else if (strcmp(option, "--turn-timeout-s") == 0 && parse_number(value, 1, 3600, &n))
        referee->turn_timeout_s = (int)n;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    static struct referee referee = {.nranks = 2, .rounds = 3, .turn_timeout_s = 20};
    referee.batch_ns = 10000000;
    referee.deadline_ns = now_ns() + INT64_C(3600000000000);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc || !parse_one(&referee, argv[i], argv[i + 1])) {
            fprintf(stderr, "compare: bad option %s %s\n", argv[i],
                    i + 1 < argc ? argv[i + 1] : "");
            return 2;
        }
    if (!referee.dir || !referee.sides_count) {
        fprintf(stderr, "compare: --dir and a --side are needed\n");
        return 2;
    }
    for (int i = 0; i < referee.sides_count; i++)
        if (launch(&referee, &referee.sides[i]) != 0)
            return 1;
    for (int i = 0; i < referee.sides_count; i++)
        (void)await_start(&referee, &referee.sides[i]);
    measure_all(&referee);
    end_all(&referee);
    return 0;
}
