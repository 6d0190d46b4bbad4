// SPDX-License-Identifier: Apache-2.0
// One rank of one side: sleeps at the gate, does what the command there says, reports, sleeps
// again.
//
//   compare-SIDE --gate FILE --rank R --ranks N [--meet PATH] [--hosts H]
//
// This file is the measuring code for every side. The time of a batch is that of this rank's calls
// between a barrier and the end of its last call; the referee takes the slowest rank. Roots rotate
// from call to call, so no rank can run ahead of the others by more than the algorithm allows. User
// memory is newly mapped (not from malloc), so that no side's buffers depend on the malloc settings
// with which one of the peers is tuned.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/compare/compare.h"

struct buffers {
    int collective;
    size_t count;
    struct operation operation; /* send and recv NULL: none */
};

struct player {
    int rank, nranks, nhosts;
    const char *gate_path, *meet;
    struct gate *gate;
    struct slot *slot;
    struct buffers buffers[MEMORIES];
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- pinning ---- */

/* Each host has its own cores, if there are enough; ranks are placed on hosts in blocks. */
static int core_of(const struct player *player, const cpu_set_t *allowed)
{
    int cores = CPU_COUNT(allowed), ranks = player->nranks / player->nhosts;
    int a_host = cores > player->nhosts ? cores / player->nhosts : 1;
    int place = (player->rank / ranks * a_host + player->rank % ranks % a_host) % cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && place-- == 0)
            return cpu;
    return -1;
}

/* The library may have restricted its threads: of a set of all cores, the kernel keeps those that
 * this process may use. */
static int allowed_cores(cpu_set_t *allowed)
{
    memset(allowed, 0xff, sizeof *allowed);
    if (sched_setaffinity(0, sizeof *allowed, allowed) != 0)
        return -1;
    return sched_getaffinity(0, sizeof *allowed, allowed);
}

static bool is_pinned(int task, const cpu_set_t *one)
{
    cpu_set_t is;
    return sched_getaffinity(task, sizeof is, &is) == 0 ? CPU_EQUAL(one, &is) : errno == ESRCH;
}

/* Whether every thread of this process is bound to core @p cpu; with @p pin, binds it first. */
static bool all_pinned(int cpu, bool pin)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    bool all = tasks != NULL;
    while (tasks && (entry = readdir(tasks)) != NULL) {
        int task = (int)strtol(entry->d_name, NULL, 10);
        if (task <= 0)
            continue;
        if (pin)
            (void)sched_setaffinity(task, sizeof one, &one);
        all = all && is_pinned(task, &one);
    }
    if (tasks)
        closedir(tasks);
    return all;
}

/* After the library's start: a library that sees one core when it starts would assume that all
 * ranks are on it. Threads that it starts later inherit the core. */
static int pin_rank(const struct player *player)
{
    cpu_set_t allowed;
    if (allowed_cores(&allowed) != 0)
        return -1;
    int cpu = core_of(player, &allowed);
    return all_pinned(cpu, true) ? cpu : -1;
}

/* ---- data ---- */

/* Small integers, so that sums are exact in any order. */
static float value_of(int rank, size_t i)
{
    return (float)((i * 5 + (size_t)rank * 3) % 4);
}

static float sum_of(int nranks, size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < nranks; rank++)
        sum += value_of(rank, i);
    return sum;
}

static float expected(const struct player *player, const struct operation *operation, size_t i)
{
    size_t block = operation->block;
    size_t mine = (size_t)player->rank * block;
    switch (operation->collective) {
    case ALLREDUCE:
        return sum_of(player->nranks, i);
    case REDUCE_SCATTER:
        return sum_of(player->nranks, mine + i);
    case BROADCAST:
        return value_of(operation->root, i);
    case ALLGATHER:
        return value_of((int)(i / block), i % block);
    case ALLTOALL:
        return value_of((int)(i / block), mine + i % block);
    case COLLECTIVES:
        break;
    }
    return 0;
}

static size_t send_count(const struct operation *operation)
{
    if (operation->collective == BROADCAST)
        return 0;
    return operation->collective == ALLGATHER ? operation->block : operation->count;
}

static size_t recv_count(const struct operation *operation)
{
    return operation->collective == REDUCE_SCATTER ? operation->block : operation->count;
}

static void fill(const struct player *player, const struct operation *operation)
{
    float *send = operation->send, *recv = operation->recv;
    size_t sends = send_count(operation), receives = recv_count(operation);
    bool root = operation->collective == BROADCAST && operation->root == player->rank;
    for (size_t i = 0; i < sends; i++)
        send[i] = value_of(player->rank, i);
    for (size_t i = 0; i < receives; i++)
        recv[i] = root ? value_of(player->rank, i) : -1;
}

static uint64_t count_errors(const struct player *player, const struct operation *operation)
{
    const float *recv = operation->recv;
    uint64_t errors = 0;
    for (size_t i = 0; i < recv_count(operation); i++)
        errors += !(recv[i] == expected(player, operation, i));
    return errors;
}

/* ---- buffers ---- */

static void *map_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static void *take(enum memory memory, size_t count)
{
    size_t bytes = (count ? count : 1) * sizeof(float);
    return memory == MEMORY_OWN ? this_side.allocate(bytes) : map_pages(bytes);
}

static void give(enum memory memory, void *buffer, size_t count)
{
    if (!buffer)
        return;
    if (memory == MEMORY_OWN)
        this_side.release(buffer);
    else
        munmap(buffer, (count ? count : 1) * sizeof(float));
}

static void forget(struct player *player, enum memory memory)
{
    struct buffers *buffers = &player->buffers[memory];
    give(memory, buffers->operation.send, send_count(&buffers->operation));
    give(memory, buffers->operation.recv, recv_count(&buffers->operation));
    memset(buffers, 0, sizeof *buffers);
}

static int obtain(struct player *player, const struct command *command)
{
    enum memory memory = (enum memory)command->memory;
    struct buffers *buffers = &player->buffers[memory];
    struct operation *operation = &buffers->operation;
    if (operation->recv && (int)operation->collective == command->collective &&
        operation->count == command->count)
        return 0;
    forget(player, memory);
    operation->collective = (enum collective)command->collective;
    operation->count = command->count;
    operation->block = command->count / (size_t)player->nranks;
    operation->send = take(memory, send_count(operation));
    operation->recv = operation->send ? take(memory, recv_count(operation)) : NULL;
    if (!operation->recv) {
        forget(player, memory);
        snprintf(player->slot->detail, GATE_TEXT, "no memory for %zu elements",
                 (size_t)command->count);
        return -1;
    }
    fill(player, operation);
    return this_side.prepare ? this_side.prepare(operation, player->slot->detail) : 0;
}

/* ---- a turn ---- */

static int play(struct player *player, struct operation *operation, uint64_t first, uint64_t calls)
{
    int root = (int)(first % (uint64_t)player->nranks);
    for (uint64_t i = 0; i < calls; i++) {
        operation->root = root;
        if (this_side.play(operation, player->slot->detail) != 0)
            return -1;
        if (++root == player->nranks)
            root = 0;
    }
    return 0;
}

static int check(struct player *player, struct operation *operation, uint64_t root)
{
    operation->root = (int)(root % (uint64_t)player->nranks);
    fill(player, operation);
    if (play(player, operation, root, 1) != 0)
        return -1;
    player->slot->errors = count_errors(player, operation);
    return 0;
}

static int time_calls(struct player *player, struct operation *operation,
                      const struct command *command)
{
    char *detail = player->slot->detail;
    if (play(player, operation, command->first_root, command->warm) != 0 ||
        this_side.barrier(detail) != 0)
        return -1;
    int64_t begun = now_ns();
    if (play(player, operation, command->first_root, command->calls) != 0)
        return -1;
    player->slot->ns = now_ns() - begun;
    return this_side.barrier(detail);
}

static int take_turn(struct player *player, const struct command *command)
{
    struct slot *slot = player->slot;
    slot->errors = 0;
    slot->ns = 0;
    slot->detail[0] = 0;
    slot->outcome = OUTCOME_UNSUPPORTED;
    if (!this_side.can((enum collective)command->collective, (enum memory)command->memory))
        return 0;
    slot->outcome = OUTCOME_FAILED;
    if (obtain(player, command) != 0)
        return -1;
    struct operation *operation = &player->buffers[command->memory].operation;
    if (command->check && check(player, operation, command->first_root) != 0)
        return -1;
    if (command->calls && time_calls(player, operation, command) != 0)
        return -1;
    if (command->forget)
        forget(player, (enum memory)command->memory);
    slot->outcome = OUTCOME_OK;
    return 0;
}

static void report(struct player *player)
{
    if (__atomic_add_fetch(&player->gate->done, 1, __ATOMIC_ACQ_REL) == player->gate->nranks)
        gate_wake(&player->gate->done);
}

/* Ends with the command to leave, or with a failure, which the referee reads in the slot. */
static int play_turns(struct player *player)
{
    uint32_t seen = 0;
    for (;;) {
        while (__atomic_load_n(&player->gate->turn, __ATOMIC_ACQUIRE) == seen)
            gate_sleep(&player->gate->turn, seen, 1000);
        seen = __atomic_load_n(&player->gate->turn, __ATOMIC_ACQUIRE);
        struct command command = player->gate->command;
        if (command.leave)
            return 0;
        int result = take_turn(player, &command);
        if (!all_pinned(player->slot->cpu, false))
            player->slot->cpu = -1;
        report(player);
        if (result != 0)
            return -1;
    }
}

/* ---- start ---- */

static int open_gate(struct player *player)
{
    int fd = open(player->gate_path, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED
                       : mmap(NULL, sizeof(struct gate), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED) {
        fprintf(stderr, "compare: gate %s: %s\n", player->gate_path, strerror(errno));
        return -1;
    }
    player->gate = map;
    if (player->gate->magic != GATE_MAGIC || player->gate->nranks != (uint32_t)player->nranks) {
        fprintf(stderr, "compare: %s is not a gate of %d ranks\n", player->gate_path,
                player->nranks);
        return -1;
    }
    player->slot = &player->gate->slots[player->rank];
    return 0;
}

static bool number(const char *text, int least, int most, int *out)
{
    int64_t value;
    if (!parse_number(text, least, most, &value))
        return false;
    *out = (int)value;
    return true;
}

static int parse(int argc, char **argv, struct player *player)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--gate") == 0)
            player->gate_path = value;
        else if (strcmp(argv[i], "--meet") == 0)
            player->meet = value;
        else if (strcmp(argv[i], "--rank") == 0 && number(value, 0, GATE_RANKS - 1, &player->rank))
            continue;
        else if (strcmp(argv[i], "--ranks") == 0 && number(value, 1, GATE_RANKS, &player->nranks))
            continue;
        else if (strcmp(argv[i], "--hosts") == 0 && number(value, 1, GATE_RANKS, &player->nhosts))
            continue;
        else
            return -1;
    }
    bool is_placed = player->rank >= 0 && player->rank < player->nranks;
    return player->gate_path && is_placed && player->nranks % player->nhosts == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct player player = {.rank = -1, .nhosts = 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parse(argc, argv, &player) != 0) {
        fprintf(stderr, "usage: %s --gate FILE --rank R --ranks N [--meet PATH] [--hosts H]\n",
                argv[0]);
        return 2;
    }
    if (open_gate(&player) != 0)
        return 1;
    struct slot *slot = player.slot;
    slot->outcome = OUTCOME_FAILED;
    int result = this_side.start(player.rank, player.nranks, player.meet, slot->detail);
    if (result == 0) {
        slot->outcome = OUTCOME_OK;
        slot->cpu = pin_rank(&player);
    }
    report(&player);
    if (result == 0)
        result = play_turns(&player);
    if (result == 0) {
        for (int memory = 0; memory < MEMORIES; memory++)
            forget(&player, (enum memory)memory);
        this_side.end();
    }
    return result == 0 ? 0 : 1;
}
