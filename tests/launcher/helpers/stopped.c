// SPDX-License-Identifier: Apache-2.0
// A rank that is stopped in the middle of an allreduce, while it may be writing into its
// neighbours' memory, and goes on after they have given up and use that memory for something else.
//
//   stopped PERCENT FILE MS   the last rank is stopped when so much of a call's usual time is over,
//                             and makes FILE when its own call has returned as well
//
// Each of the others says how many of its bytes were changed after its call had returned. All the
// time, a thread of each calls on a communicator without the stopped rank, with deadlines of MS.
// None of these calls may take longer, with the wait for the engine's lock.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <kolo/kolo.h>

enum { COUNT = 8 << 20, BYTES = 4 * COUNT, WARM = 3, RANKS_MAX = 8, WAIT_MS = 60000 };

static void nap(void)
{
    const struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

static long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/** What happens on the communicator of those that are not stopped. */
struct beside {
    struct kolo_comm *comm;
    int timeout_ms;
    atomic_bool is_over; /* on this rank */
    pthread_t thread;
};

/** Calls until it is over on all ranks. */
static void *call_beside(void *argument)
{
    struct beside *beside = argument;
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = beside->timeout_ms};
    kolo_status status;
    long longest = 0;
    int all;
    do {
        int mine = atomic_load(&beside->is_over);
        const long begun = now_us();
        status = kolo_allreduce(beside->comm, &mine, &all, 1, KOLO_INT32, KOLO_MIN, &opts, NULL);
        longest = now_us() - begun > longest ? now_us() - begun : longest;
        nap();
    } while (status == KOLO_OK && all == 0);
    if (status != KOLO_OK)
        printf("beside %s\n", kolo_error_detail());
    else
        printf("beside %s, longest %ld us\n", longest <= 1000L * beside->timeout_ms ? "OK" : "late",
               longest);
    return NULL;
}

/** Has the system stop this process in @p us microseconds. */
static void stop_in(long us)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGSTOP};
    const struct itimerspec when = {.it_value = {us / 1000000, us % 1000000 * 1000}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0)
        perror("timer");
}

static size_t count_changed(const unsigned char *memory, int value)
{
    size_t changed = 0;
    for (size_t i = 0; i < BYTES; i++)
        changed += memory[i] != value;
    return changed;
}

/** After the failed call of a rank that was not stopped. */
static void survive(int rank, pid_t victim, void *send, void *recv, const char *file)
{
    memset(send, rank + 1, BYTES);
    memset(recv, rank + 1, BYTES);
    for (int i = 0; i < WAIT_MS && access(file, F_OK) != 0; i++) {
        if (rank == 0) /* again and again: on a busy machine it may be stopped only now */
            kill(victim, SIGCONT);
        nap();
    }
    printf("changed %zu\n", count_changed(send, rank + 1) + count_changed(recv, rank + 1));
}

static int work(struct kolo_comm *comm, long percent, const char *file, int timeout_ms)
{
    struct beside beside = {.timeout_ms = timeout_ms};
    long begun = 0, usual = 0;
    int pids[RANKS_MAX], mine = getpid(), rank = kolo_rank(comm), last = kolo_size(comm) - 1;
    void *send, *recv;
    kolo_status status = kolo_allgather(comm, &mine, pids, 1, KOLO_INT32, NULL, NULL);
    if (status != KOLO_OK || kolo_alloc(comm, BYTES, &send) != KOLO_OK ||
        kolo_alloc(comm, BYTES, &recv) != KOLO_OK)
        return 1;
    memset(send, 0, BYTES);
    if (kolo_split(comm, rank == last ? -1 : 0, 0, NULL, &beside.comm) != KOLO_OK ||
        (beside.comm && pthread_create(&beside.thread, NULL, call_beside, &beside) != 0))
        return 1;
    for (int i = 0; status == KOLO_OK; i++) {
        if (i == WARM && rank == last)
            stop_in(1 + usual * percent / 100);
        begun = now_us();
        status = kolo_allreduce(comm, send, recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
        usual = now_us() - begun;
    }
    if (rank == last) {
        fclose(fopen(file, "w"));
        return 0;
    }
    survive(rank, pids[last], send, recv, file);
    atomic_store(&beside.is_over, true);
    return pthread_join(beside.thread, NULL);
}

int main(int argc, char **argv)
{
    struct kolo_comm *comm;
    if (argc != 4 || kolo_init(NULL, &comm) != KOLO_OK) {
        fprintf(stderr, "%s\n", kolo_error_detail());
        return 1;
    }
    int code = work(comm, strtol(argv[1], NULL, 10), argv[2], (int)strtol(argv[3], NULL, 10));
    (void)!kolo_finalize(comm);
    return code;
}
