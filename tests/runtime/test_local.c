// SPDX-License-Identifier: Apache-2.0
// runtime/local.c: what a rank finds out about its host and its own process.
#include "runtime/local.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(local, .timeout = 60);

Test(local, facts_are_plausible_and_found_once)
{
    const struct kolo_local *local = kolo_local_facts();
    cr_assert(local->error[0] == '\0', "%s", local->error);
    cr_assert(local->cpus >= 1 && local->cpus == kolo_local_cpus(), "%d and %d", local->cpus,
              kolo_local_cpus());
    cr_assert(local->cores >= 1 && local->cores <= local->cpus);
    cr_assert(local->numa_nodes >= 1 && local->numa_node >= -1);
    cr_assert(kolo_local_facts() == local);
}

Test(local, a_stopped_process_is_known)
{
    int state = 0;
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    cr_assert(waitpid(child, &state, WUNTRACED) == child && WIFSTOPPED(state));
    cr_assert(kolo_local_is_stopped((int)child));
    kill(child, SIGCONT);
    cr_assert(waitpid(child, &state, WCONTINUED) == child && WIFCONTINUED(state));
    cr_assert(!kolo_local_is_stopped((int)child));
    kill(child, SIGKILL);
    cr_assert(waitpid(child, &state, 0) == child);
    cr_assert(!kolo_local_is_stopped((int)child) && !kolo_local_is_stopped((int)getpid()));
}

/** A child of this name forks another, whose answer is the exit status. */
static int ask_grandchild(const char *name, const char *sought)
{
    int state = 0;
    const pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_NAME, name);
        const pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(kolo_local_ancestor(sought) == (int)getppid() ? 1
                  : kolo_local_ancestor(sought) == 0            ? 0
                                                                : 2);
        _exit(waitpid(grandchild, &state, 0) == grandchild ? WEXITSTATUS(state) : 3);
    }
    return waitpid(child, &state, 0) == child && WIFEXITED(state) ? WEXITSTATUS(state) : 4;
}

Test(local, an_ancestor_is_found_by_its_whole_name)
{
    cr_assert(ask_grandchild("sought-for", "sought-for") == 1);
    cr_assert(ask_grandchild(") S 1 (", ") S 1 (") == 1); /* a name may contain anything */
    cr_assert(ask_grandchild("sought-for", "sought") == 0);
    cr_assert(ask_grandchild("sought", "sought-for") == 0);
}

/** In a process of its own, because hwloc asks about all threads of the process. */
static int look_bound(void)
{
    cpu_set_t set;
    int cpu = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 2;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return 3;
    if (kolo_local_cpus() != 1)
        return 4;
    if (kolo_local_facts()->cpus != 1 || kolo_local_facts()->cores != 1)
        return 5;
    return kolo_local_numa() == kolo_local_facts()->numa_node ? 0 : 6;
}

/** A child that is bound to @p cpus (one bit each, of the first 64) and then stops. */
static int start_bound(uint64_t cpus)
{
    cpu_set_t set;
    const int pid = fork();
    if (pid != 0)
        return pid;
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < 64; cpu++)
        if ((cpus >> cpu & 1) != 0)
            CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        _exit(1);
    kill(getpid(), SIGSTOP);
    _exit(0);
}

/** Whether processes with these bindings can each have a processor of their own. */
static bool can_have(const uint64_t *cpus, int count)
{
    int pids[4], status;
    bool can = false, later, is_known;
    for (int i = 0; i < count; i++) {
        pids[i] = start_bound(cpus[i]);
        cr_assert(pids[i] > 0 && waitpid(pids[i], &status, WUNTRACED) == pids[i]);
        cr_assert(WIFSTOPPED(status), "it cannot be bound to %#llx", (unsigned long long)cpus[i]);
    }
    is_known = kolo_local_has_cores(pids, count, &can);
    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
    }
    cr_assert(is_known);
    cr_assert(!kolo_local_has_cores(pids, count, &later), "they are gone, and not to be seen");
    return can;
}

Test(local, who_has_a_processor_to_itself)
{
    cpu_set_t set;
    int first = 0, second;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(first, &set))
        first++;
    for (second = first + 1; second < 64 && !CPU_ISSET(second, &set); second++)
        ;
    if (second >= 64)
        cr_skip("there is one processor");
    const uint64_t one = UINT64_C(1) << first, other = UINT64_C(1) << second, both = one | other;
    cr_assert(can_have((uint64_t[]){one, other}, 2));
    cr_assert(can_have((uint64_t[]){both, one}, 2), "the first makes room");
    cr_assert(can_have((uint64_t[]){both, both}, 2));
    cr_assert(!can_have((uint64_t[]){one, one}, 2));
    cr_assert(!can_have((uint64_t[]){one, both, other}, 3));
    cr_assert(!can_have((uint64_t[]){both, both, both}, 3));
    bool can = false;
    cr_assert(kolo_local_has_cores((int[]){0}, 1, &can) && can, "this thread");
}

/** Simulates a machine with two NUMA nodes of two cores, more memory for each of them and for both,
 * and a process bound to one node. */
static int look_at_two_nodes(void)
{
    cpu_set_t set;
    int cpu = 0;
    if (setenv("HWLOC_SYNTHETIC", "[numa] pack:2 [numa] [numa] core:2 pu:1", 1) != 0 ||
        setenv("HWLOC_THISSYSTEM", "1", 1) != 0 || sched_getaffinity(0, sizeof set, &set) != 0)
        return 2;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    if (cpu > 3)
        return 0; /* this process may not use these processors */
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return 3;
    const struct kolo_local *local = kolo_local_facts();
    if (local->error[0] != '\0' || local->numa_nodes != 2)
        return 4;
    return local->numa_node == 2 * (cpu / 2) && local->cores == 1 ? 0 : 5;
}

Test(local, a_bound_rank_knows_its_numa_node)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(look_at_two_nodes());
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "exit %d", WEXITSTATUS(status));
}

Test(local, binding_counts)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(look_bound());
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "exit %d", WEXITSTATUS(status));
}
