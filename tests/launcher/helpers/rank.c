// SPDX-License-Identifier: Apache-2.0
// The program that the tests of kolorun start: a rank that works until told otherwise, and says
// when things happened by the monotonic clock, which all processes of a machine share.
//
//   rank loop SECONDS              allreduces, then finalizes
//   rank die VICTIM SIGNAL         all loop; VICTIM signals itself after a second
//   rank exit VICTIM STATUS        all loop; VICTIM exits after a second
//   rank desert VICTIM             all loop; VICTIM exits with status 0 without kolo_finalize
//   rank become VICTIM             all loop; VICTIM becomes a program that sleeps
//   rank part VICTIM COMMAND       a barrier; then VICTIM becomes a shell that runs COMMAND, and
//                                  the others end well
//   rank shrink VICTIM,... [during] each VICTIM in turn kills itself, and the others go on without
//                                  it; during: the second dies when it has noticed the first
//   rank start                     some allreduces; SIGUSR1 ends a rank with status 0, also in
//                                  kolo_init
//   rank outlive                   all reduce until somebody is lost; the others shrink and go on
//   rank alone SECONDS [shrink]    rank 1 kills itself; the others, which may shrink before, sleep
//                                  and end well
//   rank busy SECONDS              rank 0 sends to rank 1, which takes it SECONDS later
//   rank read VICTIM FILE          a barrier; then VICTIM reads a byte of FILE, and all reduce once
//   rank dup FOLDER                makes FOLDER/up; once FOLDER/go is there, duplicates the world,
//                                  rank 0 last; then, whatever happened, a barrier; makes
//                                  FOLDER/done
//   rank last FOLDER               makes FOLDER/up; once FOLDER/go is there, rank 0 sends to rank 1
//                                  and finalizes
//   rank late                      a broadcast, and kolo_finalize in a handler of exit() that was
//                                  set before kolo_init
//   rank lines COUNT               COUNT numbered lines each, no kolo
//   rank stubborn                  ignores SIGTERM, starts a child in a session of its own, no kolo
//   rank stubborn-die VICTIM       the same, and VICTIM kills itself
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <kolo/kolo.h>

enum { COUNT = 4096 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void say(const char *what, const char *text)
{
    printf("%s %.6f %s\n", what, now_s(), text);
    fflush(stdout);
}

static int number(const char *text)
{
    return text ? (int)strtol(text, NULL, 10) : 0;
}

static void meet_fate(const char *mode, const char *argument)
{
    say("fate", mode);
    if (strcmp(mode, "die") == 0)
        raise(number(argument));
    if (strcmp(mode, "exit") == 0)
        _exit(number(argument));
    if (strcmp(mode, "desert") == 0)
        _exit(0);
    if (strcmp(mode, "become") == 0)
        execlp("sleep", "sleep", "100", (char *)NULL);
}

/* One allreduce after the other. Returns the exit status. */
static int work(struct kolo_comm *comm, const char *mode, int victim, const char *argument)
{
    static float data[COUNT];
    double begun = now_s();
    double seconds = strcmp(mode, "loop") == 0 ? (double)victim : 1.0;
    for (;;) {
        int go_on = now_s() - begun < seconds;
        for (int i = 0; i < COUNT; i++)
            data[i] = 1;
        kolo_status status =
            kolo_allreduce(comm, data, data, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
        if (status == KOLO_OK)
            status = kolo_allreduce(comm, &go_on, &go_on, 1, KOLO_INT32, KOLO_MIN, NULL, NULL);
        if (status != KOLO_OK) {
            say("error", kolo_error_detail());
            return 1;
        }
        if (data[7] != (float)kolo_size(comm)) {
            say("wrong", "sum");
            return 2;
        }
        if (go_on)
            continue;
        if (strcmp(mode, "loop") == 0)
            return 0;
        if (kolo_rank(comm) == victim)
            meet_fate(mode, argument);
    }
}

/* How the others are reached: "path 0.123 rank 1: tcp: ..." */
static void say_paths(struct kolo_comm *comm)
{
    for (int rank = 0; rank < kolo_size(comm); rank++) {
        struct kolo_peer_info info = {.size = sizeof info};
        char text[512];
        if (rank == kolo_rank(comm) || kolo_get_peer_info(comm, rank, &info) != KOLO_OK)
            continue;
        snprintf(text, sizeof text, "rank %d: %s: %s", rank, info.transport, info.why);
        say("path", text);
    }
}

/* Verified allreduces until one fails, or, if nobody is to die, a few. */
static kolo_status reduce_on(struct kolo_comm *comm, int victim, int me)
{
    enum { ROUNDS = 30 };
    static int64_t data[COUNT];
    for (int round = 0; victim >= 0 || round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = i;
        kolo_status status =
            kolo_allreduce(comm, data, data, COUNT, KOLO_INT64, KOLO_SUM, NULL, NULL);
        if (status != KOLO_OK)
            return status;
        for (int i = 0; i < COUNT; i++)
            if (data[i] != (int64_t)i * kolo_size(comm))
                say("wrong", "sum");
        if (round == ROUNDS && victim == me) {
            say("fate", "shrink");
            raise(SIGKILL);
        }
    }
    return KOLO_OK;
}

static int next_victim(const char **victims)
{
    char *end = NULL;
    if (!*victims || **victims == '\0')
        return -1;
    long victim = strtol(*victims, &end, 10);
    *victims = *end == ',' ? end + 1 : end;
    return (int)victim;
}

/* The last rounds, on the communicator of those that are left. */
static int finish(struct kolo_comm *comm, int me)
{
    char text[64];
    if (reduce_on(comm, -1, me) != KOLO_OK) {
        say("error", kolo_error_detail());
        return 1;
    }
    snprintf(text, sizeof text, "as %d of %d", kolo_rank(comm), kolo_size(comm));
    say("survived", text);
    return 0;
}

static int outlive(struct kolo_comm *world)
{
    struct kolo_comm *rest;
    if (reduce_on(world, kolo_size(world), kolo_rank(world)) == KOLO_OK) /* nobody kills itself */
        return 3;
    say("error", kolo_error_detail());
    if (kolo_shrink(world, NULL, &rest) != KOLO_OK) {
        say("shrink", kolo_error_detail());
        return 6;
    }
    return finish(rest, kolo_rank(world));
}

static int survive(struct kolo_comm *world, const char *victims, int dies_during)
{
    struct kolo_comm *comm = world, *next;
    int me = kolo_rank(world), victim;
    while ((victim = next_victim(&victims)) >= 0) {
        if (reduce_on(comm, victim, me) == KOLO_OK)
            return 3;
        say("error", kolo_error_detail());
        if (dies_during && next_victim(&victims) == me)
            raise(SIGKILL);
        if (kolo_shrink(comm, NULL, &next) != KOLO_OK) {
            say("shrink", kolo_error_detail());
            return 6;
        }
        if (comm != world)
            kolo_finalize(comm);
        comm = next;
    }
    return finish(comm, me);
}

static int go_on_alone(struct kolo_comm *comm, unsigned seconds, int shrinks)
{
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 1)
        raise(SIGKILL);
    if (shrinks) {
        while (status == KOLO_OK)
            status = kolo_barrier(comm, NULL, NULL);
        status = kolo_shrink(comm, NULL, &comm);
    }
    say("alone", kolo_status_name(status));
    while (seconds > 0)
        seconds = sleep(seconds);
    say("done", "");
    return 0;
}

static int part(struct kolo_comm *comm, int victim, const char *command)
{
    const kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == victim)
        execlp("sh", "sh", "-c", command, (char *)NULL);
    return status == KOLO_OK ? 0 : 7;
}

static int keep_waiting(struct kolo_comm *comm, unsigned seconds)
{
    enum { LONG = 64 << 20 };
    static char data[LONG];
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* they are joined from here on */
    if (status == KOLO_OK && kolo_rank(comm) == 1)
        sleep(seconds);
    if (status == KOLO_OK)
        status = kolo_rank(comm) == 0 ? kolo_send(comm, data, LONG, KOLO_UINT8, 1, NULL, NULL)
                                      : kolo_recv(comm, data, LONG, KOLO_UINT8, 0, NULL, NULL);
    if (status == KOLO_OK)
        return 0;
    say("error", kolo_error_detail());
    return 7;
}

static int read_first(struct kolo_comm *comm, int victim, const char *path)
{
    int sum = 1;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    FILE *file = fopen(path, "r+"); /* a FIFO is opened at once */
    say("ready", "");
    if (file && kolo_rank(comm) == victim)
        (void)getc(file);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, &sum, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    if (file)
        fclose(file);
    if (status == KOLO_OK && sum == kolo_size(comm))
        return 0;
    say("error", kolo_error_detail());
    return 7;
}

static void make_file(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

static int has_file(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void await_go(const char *folder)
{
    const struct timespec nap = {0, 10000000};
    make_file(folder, "up");
    while (!has_file(folder, "go"))
        nanosleep(&nap, NULL);
}

static int send_last(struct kolo_comm *comm, const char *folder)
{
    int value = 1;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    await_go(folder);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        status = kolo_send(comm, &value, 1, KOLO_INT32, 1, NULL, NULL);
    else if (status == KOLO_OK && kolo_rank(comm) == 1)
        status = kolo_recv(comm, &value, 1, KOLO_INT32, 0, NULL, NULL);
    if (status == KOLO_OK)
        return 0;
    say("error", kolo_error_detail());
    return 7;
}

static int duplicate(struct kolo_comm *comm, const char *folder)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 4000};
    struct kolo_comm *copy = NULL;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    await_go(folder);
    if (kolo_rank(comm) == 0)
        sleep(1);
    if (status == KOLO_OK)
        status = kolo_dup(comm, &opts, &copy);
    say(kolo_status_name(status), kolo_error_detail());
    status = kolo_barrier(comm, NULL, NULL);
    make_file(folder, "done");
    if (status != KOLO_OK)
        say("error", kolo_error_detail());
    return status == KOLO_OK ? 0 : 1;
}

static int run_mode(struct kolo_comm *comm, const char *mode, const char *first,
                    const char *argument)
{
    if (strcmp(mode, "shrink") == 0)
        return survive(comm, first, argument != NULL);
    if (strcmp(mode, "outlive") == 0)
        return outlive(comm);
    if (strcmp(mode, "alone") == 0)
        return go_on_alone(comm, (unsigned)number(first), argument != NULL);
    if (strcmp(mode, "part") == 0)
        return part(comm, number(first), argument);
    if (strcmp(mode, "dup") == 0)
        return duplicate(comm, first);
    if (strcmp(mode, "last") == 0)
        return send_last(comm, first);
    if (strcmp(mode, "busy") == 0)
        return keep_waiting(comm, (unsigned)number(first));
    if (strcmp(mode, "read") == 0)
        return read_first(comm, number(first), argument ? argument : "");
    int exit_status = work(comm, mode, number(first), argument);
    if (exit_status == 0)
        say_paths(comm);
    return exit_status;
}

static int run_kolo(const char *mode, const char *first, const char *argument)
{
    struct kolo_comm *comm = NULL;
    if (kolo_init(NULL, &comm) != KOLO_OK) {
        say("init", kolo_error_detail());
        return 4;
    }
    say("up", "");
    int exit_status = run_mode(comm, mode, first, argument);
    if (kolo_finalize(comm) != KOLO_OK && exit_status == 0) {
        say("finalize", kolo_error_detail());
        return 5;
    }
    return exit_status;
}

static struct kolo_comm *left_open;

static void finalize_late(void)
{
    const kolo_status status = kolo_finalize(left_open);
    say("finalize", status == KOLO_OK ? "KOLO_OK" : kolo_error_detail());
}

/* At once after the broadcast, so that links are still to be made at exit. */
static int finalize_at_exit(void)
{
    float data = 1;
    if (atexit(finalize_late) != 0 || kolo_init(NULL, &left_open) != KOLO_OK)
        return 4;
    return kolo_broadcast(left_open, &data, 1, KOLO_FLOAT32, 0, NULL, NULL) == KOLO_OK ? 0 : 1;
}

static int write_lines(long count)
{
    const char *rank = getenv("RANK");
    for (long i = 0; i < count; i++)
        printf("rank %s line %ld of %ld: a line of some length, so that a pipe fills up soon\n",
               rank ? rank : "?", i, count);
    return 0;
}

static void end_at_once(int number)
{
    (void)number;
    _exit(0);
}

static void be_stubborn(const char *victim)
{
    const char *rank = getenv("RANK");
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (fork() == 0)
        setsid();
    else if (victim && rank && number(victim) == number(rank))
        raise(SIGKILL);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : NULL;
    if (strcmp(mode, "lines") == 0)
        return write_lines(first ? strtol(first, NULL, 10) : 0);
    if (strcmp(mode, "late") == 0)
        return finalize_at_exit();
    if (strncmp(mode, "stubborn", 8) == 0)
        be_stubborn(first);
    if (strcmp(mode, "start") == 0) {
        (void)signal(SIGUSR1, end_at_once);
        mode = "loop";
    }
    return run_kolo(mode, first, argc > 3 ? argv[3] : NULL);
}
