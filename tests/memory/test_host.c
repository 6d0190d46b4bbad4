// SPDX-License-Identifier: Apache-2.0
// memory/host.c: memory that another process maps, and errors that say what to do. Child processes
// report by their exit status.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/memory.h"
#include "tests/support/refuse.h"

extern const struct kolo_memory_ops kolo_memory_host;

static int child_result(int (*body)(void *), void *argument)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(body(argument));
    int state = 0;
    cr_assert(waitpid(child, &state, 0) == child);
    cr_assert(WIFEXITED(state), "the child was killed by signal %d", WTERMSIG(state));
    return WEXITSTATUS(state);
}

Test(host, is_in_the_table)
{
    bool found = false;
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        found |= kolo_memory_kinds[i] == &kolo_memory_host;
    cr_assert(found);
    struct kolo_why why = {.text = "x"};
    cr_assert(kolo_memory_host.probe(&why) == KOLO_OK, "%s", why.text);
    cr_assert_str_eq(why.text, "");
    cr_assert_str_eq(kolo_memory_host.name, "host");
}

Test(host, zeroed_whole_pages)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {0, 1, page - 1, page, page + 1, 5u << 20, (33u << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kolo_span span;
        cr_assert(kolo_memory_host.alloc(sizes[i], &span) == KOLO_OK, "%s", kolo_error_detail());
        cr_assert(span.bytes >= sizes[i] && span.bytes % page == 0 && span.bytes > 0);
        cr_assert(span.bytes < sizes[i] + page || sizes[i] == 0);
        cr_assert((uintptr_t)span.base % page == 0);
        const unsigned char *bytes = span.base;
        for (size_t k = 0; k < span.bytes; k += 64)
            cr_assert(bytes[k] == 0);
        kolo_memory_host.release(&span);
        cr_assert(!span.base && span.fd == -1);
        kolo_memory_host.release(&span);
    }
}

/** The neighbour opens the memfd by the owner's process id, as another program would. */
static int neighbour(void *argument)
{
    const struct kolo_span *span = argument;
    if (munmap(span->base, span->bytes) != 0)
        return 1;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), span->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return 2;
    unsigned char *memory = mmap(NULL, span->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return 3;
    if (memory[0] != 11 || memory[span->bytes - 1] != 22)
        return 4;
    memory[1] = 33;
    if (ftruncate(fd, 0) == 0 || errno != EPERM)
        return 5;
    return 42;
}

Test(host, neighbours_map_it, .timeout = 60)
{
    struct kolo_span span;
    cr_assert(kolo_memory_host.alloc(100000, &span) == KOLO_OK, "%s", kolo_error_detail());
    unsigned char *memory = span.base;
    memory[0] = 11;
    memory[span.bytes - 1] = 22;
    cr_assert(fcntl(span.fd, F_GETFD) & FD_CLOEXEC);
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", span.fd);
    cr_assert(readlink(path, target, sizeof target - 1) > 0);
    cr_assert(strncmp(target, "/memfd:kolo", 11) == 0, "it is %s", target);
    const int result = child_result(neighbour, &span);
    cr_assert(result == 42, "the neighbour failed at step %d", result);
    cr_assert(memory[1] == 33, "the neighbour's write did not arrive");
    kolo_memory_host.release(&span);
}

Test(host, refuses_the_impossible)
{
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2, (size_t)1 << 62,
                            (size_t)1 << 50};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kolo_span span = {.id = 77};
        cr_assert(kolo_memory_host.alloc(sizes[i], &span) == KOLO_ERR_NO_MEMORY);
        cr_assert(strstr(kolo_error_detail(), "bytes of shared memory") != NULL, "%s",
                  kolo_error_detail());
        cr_assert(span.id == 77, "written without success");
    }
}

struct limit_case {
    int resource;
    rlim_t limit;
    kolo_status expected;
    const char *advice;
};

/** Returns 42 if all is as expected. */
static int under_limit(void *argument)
{
    const struct limit_case *given = argument;
    struct rlimit limit = {.rlim_cur = given->limit, .rlim_max = RLIM_INFINITY};
    struct rlimit old;
    struct kolo_span span;
    getrlimit((__rlimit_resource_t)given->resource, &old);
    limit.rlim_max = old.rlim_max;
    if (setrlimit((__rlimit_resource_t)given->resource, &limit) != 0)
        return 1;
    const kolo_status status = kolo_memory_host.alloc(8u << 20, &span);
    setrlimit((__rlimit_resource_t)given->resource, &old);
    if (status != given->expected)
        return 2;
    return strstr(kolo_error_detail(), given->advice) ? 42 : 3;
}

Test(host, says_which_limit_to_raise, .timeout = 60)
{
    const struct limit_case cases[] = {
        {RLIMIT_FSIZE, 1u << 20, KOLO_ERR_NO_MEMORY, "ulimit -f"},
        {RLIMIT_NOFILE, 1, KOLO_ERR_SYSTEM, "ulimit -n"},
        {RLIMIT_AS, 1u << 20, KOLO_ERR_NO_MEMORY, "ulimit -v"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int result = child_result(under_limit, (void *)(uintptr_t)&cases[i]);
        cr_assert(result == 42, "limit %s: step %d", cases[i].advice, result);
    }
}

static int probe_without_files(void *argument)
{
    (void)argument;
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_NOFILE, &none);
    struct kolo_why why = {.text = ""};
    if (kolo_memory_host.probe(&why) != KOLO_ERR_UNSUPPORTED)
        return 1;
    return strstr(why.text, "ulimit -n") ? 42 : 2;
}

Test(host, probe_says_why_not, .timeout = 60)
{
    cr_assert(child_result(probe_without_files, NULL) == 42);
}

/** Returns 42 if an allocation exists, with its pages, except for what the kernel refuses. */
static int in_a_sandbox(void *argument)
{
    const int number = *(const int *)argument;
    struct kolo_why why = {.text = ""};
    struct kolo_span span;
    struct stat facts;
    if (!refuse_call(number, number == SYS_fcntl ? 1 : -1, F_ADD_SEALS, ENOSYS))
        return 1;
    if (kolo_memory_host.alloc((3u << 20) + 5, &span) != KOLO_OK)
        return 2;
    if (fstat(span.fd, &facts) != 0 || (size_t)facts.st_size != span.bytes ||
        (size_t)facts.st_blocks * 512 < span.bytes)
        return 3;
    const unsigned char *bytes = span.base;
    for (size_t i = 0; i < span.bytes; i++)
        if (bytes[i] != 0)
            return 4;
    kolo_memory_host.release(&span);
    if (kolo_memory_host.probe(&why) != KOLO_OK)
        return 5;
    return (strstr(why.text, "forbids memfd_create") != NULL) == (number == SYS_memfd_create) ? 42
                                                                                              : 6;
}

Test(host, does_without_what_a_sandbox_refuses, .timeout = 60)
{
    static int calls[] = {SYS_memfd_create, SYS_fallocate, SYS_fcntl};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const int result = child_result(in_a_sandbox, &calls[i]);
        if (result == 1)
            cr_skip("no system call can be refused here");
        cr_assert(result == 42, "call %d: step %d", calls[i], result);
    }
}

static void on_alarm(int signal)
{
    (void)signal;
}

/** Frequent signals do not keep an allocation from ending. */
Test(host, survives_signals, .timeout = 60)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    cr_assert(sigaction(SIGALRM, &action, NULL) == 0);
    const pid_t parent = getpid(), child = fork();
    if (child == 0)
        for (;;) {
            if (kill(parent, SIGALRM) != 0 || getppid() != parent)
                _exit(0);
            usleep(500);
        }
    struct kolo_span span;
    const kolo_status status = kolo_memory_host.alloc(100u << 20, &span);
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    kolo_memory_host.release(&span);
}
