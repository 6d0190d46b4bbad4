// SPDX-License-Identifier: Apache-2.0
// Files that a process beside this one writes: what it writes, what it refuses, and that nothing
// waits for it when it does not answer, which a stopped process does not. tests/launcher/hanging.sh
// has calls of the file system that hang.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/scribe.h"
#include "launcher/spawn.h"

enum { LONG_MS = 60000, SHORT_MS = 100 };

static char folder[] = "/tmp/kolo-scribe-XXXXXX";

static void go_there(void)
{
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}

static void clean(void)
{
    (void)unlink("x");
    cr_expect_eq(rmdir(folder), 0, "something is left behind");
}

TestSuite(scribe, .init = go_there, .fini = clean, .timeout = 60);

static struct kolo_scribe_place place_of(const char *path, int64_t limit_ms)
{
    return (struct kolo_scribe_place){
        .option = "--json", .path = path, .open_limit_ms = limit_ms, .write_limit_ms = limit_ms};
}

static struct kolo_scribe *start(const char *path, int64_t limit_ms)
{
    struct kolo_scribe *scribe = NULL;
    const struct kolo_scribe_place place = place_of(path, limit_ms);
    cr_assert_eq(kolo_scribe_open(&place, &scribe), KOLO_OK, "%s", kolo_error_detail());
    return scribe;
}

static void keep_pid(void *context, pid_t pid, const char *name)
{
    if (strcmp(name, "kolorun-files") == 0)
        *(pid_t *)context = pid;
}

static void tell_process(int number)
{
    pid_t pid = 0;
    kolo_tree_visit(getpid(), keep_pid, &pid);
    cr_assert(pid > 0, "there is no such process");
    cr_assert_eq(kill(pid, number), 0);
}

static void expect_detail(const char *text)
{
    cr_assert(strstr(kolo_error_detail(), text), "%s", kolo_error_detail());
}

Test(scribe, the_file_is_there_when_it_is_kept)
{
    enum { LINES = 200000 }; /* more than a socket holds */
    struct stat facts;
    struct kolo_scribe *scribe = start("x", LONG_MS);
    for (int i = 0; i < LINES; i++)
        cr_assert_eq(fprintf(kolo_scribe_stream(scribe), "%08d\n", i), 9);
    cr_assert_eq(kolo_scribe_sync(scribe), KOLO_OK);
    cr_assert_eq(access("x", F_OK), -1);
    cr_assert_eq(kolo_scribe_close(scribe, true), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(stat("x", &facts), 0);
    cr_assert_eq(facts.st_size, 9 * LINES);
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "its process was not reaped");
    cr_assert_eq(kolo_scribe_close(NULL, true), KOLO_OK);
}

/** A socket takes a part of them. */
Test(scribe, many_bytes_at_once_arrive_in_order)
{
    enum { COUNT = 1 << 20 };
    static uint32_t numbers[COUNT], got[COUNT];
    struct kolo_scribe *scribe = start("x", LONG_MS);
    for (uint32_t i = 0; i < COUNT; i++)
        numbers[i] = i;
    cr_assert_eq(fwrite(numbers, sizeof numbers, 1, kolo_scribe_stream(scribe)), 1);
    cr_assert_eq(kolo_scribe_close(scribe, true), KOLO_OK, "%s", kolo_error_detail());
    FILE *file = fopen("x", "re");
    cr_assert(file && fread(got, sizeof got, 1, file) == 1 && getc(file) == EOF);
    cr_assert_eq(fclose(file), 0);
    cr_assert(memcmp(got, numbers, sizeof got) == 0);
}

Test(scribe, leaves_nothing_that_is_not_kept)
{
    struct kolo_scribe *scribe = start("x", LONG_MS);
    fprintf(kolo_scribe_stream(scribe), "text");
    cr_assert_eq(kolo_scribe_close(scribe, false), KOLO_OK);
    cr_assert_eq(access("x", F_OK), -1);
    const struct kolo_scribe_place place = place_of("x", LONG_MS);
    cr_assert_eq(kolo_scribe_probe(&place), KOLO_OK);
    cr_assert_eq(access("x", F_OK), -1);
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
}

Test(scribe, says_what_cannot_be_written)
{
    struct kolo_scribe *scribe = NULL;
    const struct kolo_scribe_place none = place_of("/nonexistent/x", LONG_MS);
    cr_assert_neq(kolo_scribe_open(&none, &scribe), KOLO_OK);
    expect_detail("--json /nonexistent/x: No such file");
    cr_assert_neq(kolo_scribe_probe(&none), KOLO_OK);
    expect_detail("--json /nonexistent/x: No such file");
    scribe = start("/dev/full", LONG_MS);
    for (int i = 0; i < 100000; i++) /* all of it is taken, whatever comes of it */
        fprintf(kolo_scribe_stream(scribe), "text\n");
    cr_assert_eq(kolo_scribe_sync(scribe), KOLO_ERR_SYSTEM);
    expect_detail("--json /dev/full: No space left on device");
    cr_assert_eq(kolo_scribe_close(scribe, true), KOLO_ERR_SYSTEM);
    expect_detail("--json /dev/full: No space left on device");
}

/** "-" and /dev/fd/N are descriptors of this process. */
Test(scribe, writes_to_a_descriptor)
{
    char text[16] = "", path[32];
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    struct kolo_scribe *scribe = start(path, LONG_MS);
    close(ends[1]);
    fprintf(kolo_scribe_stream(scribe), "one");
    cr_assert_eq(kolo_scribe_close(scribe, true), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(read(ends[0], text, sizeof text), 3);
    cr_assert_eq(read(ends[0], text, sizeof text), 0, "somebody still has the pipe open");
    cr_assert_str_eq(text, "one");
}

/** Not even while the process waits for a file system, or here for the reader of a pipe. And it is
 * not left there. */
Test(scribe, the_process_keeps_no_descriptor_of_this_one)
{
    char byte;
    int ends[2];
    struct kolo_scribe *scribe = NULL;
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    cr_assert_eq(mkfifo("x", 0600), 0);
    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct kolo_scribe_place place = place_of("x", LONG_MS);
        close(ends[0]);
        _exit(kolo_scribe_open(&place, &scribe) == KOLO_OK);
    }
    close(ends[1]);
    pid_t waiting = 0;
    while (waiting == 0)
        kolo_tree_visit(child, keep_pid, &waiting);
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(read(ends[0], &byte, 1), 0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(waitpid(waiting, NULL, 0), waiting);
}

Test(scribe, late_is_an_error_not_a_wait)
{
    struct kolo_scribe *scribe = NULL;
    const struct kolo_scribe_place place = place_of("x", SHORT_MS);
    cr_assert_eq(mkfifo("x", 0600), 0);
    cr_assert_eq(kolo_scribe_open(&place, &scribe), KOLO_ERR_CONFIG);
    expect_detail("--json x: not opened within 0.1 s (--start-timeout)");
    cr_assert_eq(unlink("x"), 0);
    for (int lines = 0; lines < 1000000; lines += 500000) {
        scribe = start("x", SHORT_MS);
        tell_process(SIGSTOP);
        for (int i = 0; i < lines; i++)
            fprintf(kolo_scribe_stream(scribe), "text\n");
        cr_assert_eq(kolo_scribe_close(scribe, true), KOLO_ERR_SYSTEM);
        expect_detail("--json x: its file system did not answer within 0.1 s (KOLO_EXIT_TIMEOUT)");
        cr_assert_eq(access("x", F_OK), -1);
    }
}

Test(scribe, a_process_that_is_gone_is_an_error)
{
    struct kolo_scribe *scribe = start("x", LONG_MS);
    tell_process(SIGKILL);
    fprintf(kolo_scribe_stream(scribe), "text\n");
    cr_assert_eq(kolo_scribe_sync(scribe), KOLO_ERR_SYSTEM);
    cr_assert_eq(kolo_scribe_close(scribe, true), KOLO_ERR_SYSTEM);
    cr_assert_str_eq(kolo_error_detail(),
                     "--json x: kolorun-files, the process that writes it, has died");
    cr_assert_eq(access("x", F_OK), -1);
}
