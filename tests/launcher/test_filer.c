// SPDX-License-Identifier: Apache-2.0
// The process that writes the files of ranks: what it writes, what it refuses, and that nothing
// waits for it when it does not answer, which a stopped process does not. tests/launcher/hanging.sh
// has calls of the file system that hang.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/clock.h"
#include "launcher/beside.h"
#include "launcher/filer.h"
#include "launcher/spawn.h"
#include "tests/support/await.h"

enum { LONG_MS = 60000, SHORT_MS = 100 };

static char folder[] = "/tmp/kolo-filer-XXXXXX";

static void go_there(void)
{
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}

static void remove_files(void)
{
    char name[64];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "d/rank.%d.%s", i / 2, i % 2 ? "err" : "out");
        (void)unlink(name);
    }
    (void)rmdir("d");
}

static void clean(void)
{
    remove_files();
    (void)rmdir(folder);
}

TestSuite(filer, .init = go_there, .fini = clean, .timeout = 60);

static struct kolo_filer *start(void)
{
    struct kolo_filer *filer = NULL;
    cr_assert_eq(kolo_filer_start("d", 2, LONG_MS, &filer), KOLO_OK, "%s", kolo_error_detail());
    return filer;
}

static void keep_pid(void *context, pid_t pid, const char *name)
{
    if (strcmp(name, "kolorun-files") == 0)
        *(pid_t *)context = pid;
}

static pid_t find_process(void)
{
    pid_t pid = 0;
    kolo_tree_visit(getpid(), keep_pid, &pid);
    cr_assert(pid > 0, "there is no such process");
    return pid;
}

static int put(struct kolo_filer *filer, int file, const char *text)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
    return kolo_filer_write(filer, file, &part, 1);
}

static void expect(const char *path, const char *text)
{
    char got[64] = "";
    const int fd = open(path, O_RDONLY);
    cr_assert(fd >= 0, "%s", path);
    cr_assert_geq(read(fd, got, sizeof got - 1), 0);
    close(fd);
    cr_assert_str_eq(got, text);
}

Test(filer, writes_to_the_files)
{
    struct kolo_filer *filer = start();
    char name[KOLO_RANK_FILE_NAME_BYTES];
    const uint64_t before = kolo_filer_progress(filer);
    cr_assert_eq(put(filer, kolo_filer_file(1, false), "one\n"), 0);
    cr_assert_eq(put(filer, kolo_filer_file(0, true), "two\n"), 0);
    cr_assert_eq(put(filer, kolo_filer_file(1, false), "three\n"), 0);
    cr_assert_neq(kolo_filer_progress(filer), before);
    kolo_filer_at(filer, name);
    cr_assert_str_eq(name, "");
    cr_assert_eq(kolo_filer_end(filer, true, LONG_MS), KOLO_OK, "%s", kolo_error_detail());
    expect("d/rank.1.out", "one\nthree\n");
    expect("d/rank.0.err", "two\n");
    expect("d/rank.0.out", "");
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "its process was not reaped");
    cr_assert_eq(kolo_filer_end(NULL, true, LONG_MS), KOLO_OK);
}

/** What the process needs, and not what kolorun needs beside it. It raises the soft limit, its own
 * only. */
Test(filer, a_limit_is_not_below_what_is_needed)
{
    enum { SIZE = 100, NEEDED = 206 };
    struct kolo_filer *filer = NULL;
    struct rlimit limit = {.rlim_cur = 64, .rlim_max = NEEDED};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(kolo_filer_start("d", SIZE, LONG_MS, &filer), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_filer_end(filer, false, LONG_MS), KOLO_OK);
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64);
    limit.rlim_max = NEEDED - 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(kolo_filer_start("d", SIZE, LONG_MS, &filer), KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "needs 206 open files for 100 ranks, and ulimit -n is "
                                          "205 at most; raise"),
              "%s", kolo_error_detail());
}

/** More parts, and more bytes, than one request has, or a socket holds. */
Test(filer, writes_long_lists)
{
    enum { PARTS = 200, BYTES = 40000 };
    static char data[PARTS][BYTES];
    static struct iovec parts[PARTS];
    struct kolo_filer *filer = start();
    for (int i = 0; i < PARTS; i++) {
        memset(data[i], 'a' + i % 26, BYTES);
        parts[i] = (struct iovec){.iov_base = data[i], .iov_len = BYTES};
    }
    cr_assert_eq(kolo_filer_write(filer, kolo_filer_file(0, false), parts, PARTS), 0);
    for (int i = 0; i < PARTS; i++)
        cr_assert_eq(parts[i].iov_len, 0);
    cr_assert_eq(kolo_filer_end(filer, true, LONG_MS), KOLO_OK);
    static char got[PARTS][BYTES];
    const int fd = open("d/rank.0.out", O_RDONLY);
    cr_assert_eq(read(fd, got, sizeof got), (ssize_t)sizeof got);
    close(fd);
    cr_assert_eq(memcmp(got, data, sizeof got), 0);
}

Test(filer, refuses_as_the_files_do_and_removes_them)
{
    struct kolo_filer *filer = NULL;
    cr_assert_eq(kolo_filer_end(start(), true, LONG_MS), KOLO_OK);
    cr_assert_eq(kolo_filer_start("d", 2, LONG_MS, &filer), KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "--output-dir d: there is rank.0.err of an earlier job"),
              "%s", kolo_error_detail());
    cr_assert_null(filer);
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "its process was not reaped");
    remove_files();
    cr_assert_eq(kolo_filer_end(start(), false, LONG_MS), KOLO_OK);
    cr_assert_eq(access("d", F_OK), -1);
}

Test(filer, says_what_was_not_written)
{
    const struct rlimit before = {.rlim_cur = 6, .rlim_max = RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    struct kolo_filer *filer = start();
    char text[] = "0123456789";
    struct iovec parts[2] = {{.iov_base = text, .iov_len = 4}, {.iov_base = text, .iov_len = 4}};
    cr_assert_eq(kolo_filer_write(filer, 0, parts, 2), EFBIG);
    cr_assert(parts[0].iov_len == 0 && parts[1].iov_len == 2);
    cr_assert_eq(kolo_filer_end(filer, true, LONG_MS), KOLO_OK);
    expect("d/rank.0.out", "012301");
}

struct writer {
    struct kolo_filer *filer;
    int error;
};

static void *write_much(void *context)
{
    static char much[4 << 20];
    struct writer *writer = context;
    struct iovec part = {.iov_base = much, .iov_len = sizeof much};
    writer->error = kolo_filer_write(writer->filer, kolo_filer_file(1, true), &part, 1);
    return NULL;
}

static bool is_at(const struct kolo_filer *filer, const char *expected)
{
    char name[KOLO_RANK_FILE_NAME_BYTES];
    kolo_filer_at(filer, name);
    return strcmp(name, expected) == 0;
}

Test(filer, a_write_that_is_stuck_ends_when_it_is_given_up)
{
    struct writer writer = {.filer = start()};
    pthread_t thread;
    const pid_t process = find_process();
    cr_assert_eq(kill(process, SIGSTOP), 0);
    cr_assert_eq(pthread_create(&thread, NULL, write_much, &writer), 0);
    cr_assert(AWAIT(is_at(writer.filer, "rank.1.err")));
    kolo_filer_abandon(writer.filer);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(writer.error, ETIMEDOUT);
    cr_assert_eq(put(writer.filer, 0, "more"), ETIMEDOUT);
    cr_assert_eq(kolo_filer_end(writer.filer, true, LONG_MS), KOLO_OK);
    cr_assert_eq(waitpid(process, NULL, 0), process); /* it was killed */
}

Test(filer, an_end_that_is_stuck_is_given_up)
{
    struct kolo_filer *filer = start();
    cr_assert_eq(kill(find_process(), SIGSTOP), 0);
    cr_assert_eq(kolo_filer_end(filer, true, SHORT_MS), KOLO_ERR_SYSTEM);
    cr_assert_str_eq(kolo_error_detail(),
                     "--output-dir d: closing rank.0.out did not end within 0.1 s "
                     "(KOLO_EXIT_TIMEOUT)");
    filer = NULL;
    remove_files();
    filer = start();
    cr_assert_eq(kill(find_process(), SIGSTOP), 0);
    cr_assert_eq(kolo_filer_end(filer, false, SHORT_MS), KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "removing its files did not end"), "%s",
              kolo_error_detail());
}

Test(filer, a_process_that_is_gone_is_an_error_not_a_wait)
{
    struct kolo_filer *filer = start();
    const pid_t process = find_process();
    cr_assert_eq(kill(process, SIGKILL), 0);
    cr_assert_eq(waitpid(process, NULL, 0), process);
    cr_assert(kolo_beside_reaped(process) && !kolo_beside_reaped(process));
    cr_assert_eq(put(filer, 0, "text"), EOWNERDEAD);
    cr_assert_eq(kolo_filer_end(filer, true, LONG_MS), KOLO_ERR_SYSTEM);
    cr_assert_str_eq(kolo_error_detail(),
                     "--output-dir d: kolorun-files, the process that writes them, has died");
}

/** The last writer of a pipe that others read must not be this process. */
Test(filer, keeps_no_descriptor_of_kolorun)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    struct kolo_filer *filer = start();
    close(ends[1]);
    cr_assert_eq(read(ends[0], &byte, 1), 0);
    cr_assert_eq(kolo_filer_end(filer, true, LONG_MS), KOLO_OK);
}
