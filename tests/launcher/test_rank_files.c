// SPDX-License-Identifier: Apache-2.0
// The files of ranks: their names, what is refused, and that nothing is left of a job that did not
// start. tests/launcher/output.sh looks at their contents.
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/rank_files.h"

static char folder[] = "/tmp/kolo-rank-files-XXXXXX";

static void go_there(void)
{
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}

static size_t count(const char *pattern)
{
    glob_t found;
    size_t number = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return number;
}

static void remove_all(const char *pattern)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            (void)remove(found.gl_pathv[i]);
    globfree(&found);
}

static void clean(void)
{
    static const char *const levels[] = {"*/*/*", "*/*", "*"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        remove_all(levels[i]);
    rmdir(folder);
}

TestSuite(rank_files, .init = go_there, .fini = clean);

static struct kolo_rank_files *create(const char *path, int size)
{
    struct kolo_rank_files *files = NULL;
    cr_assert_eq(kolo_rank_files_create(path, size, 0, &files), KOLO_OK, "%s", kolo_error_detail());
    return files;
}

static void refused(const char *path, int size, const char *why)
{
    struct kolo_rank_files *files = NULL;
    cr_assert_eq(kolo_rank_files_create(path, size, 0, &files), KOLO_ERR_CONFIG, "%s", path);
    cr_assert(strstr(kolo_error_detail(), why), "%s", kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "--output-dir "), "%s", kolo_error_detail());
    cr_assert_null(files);
}

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");
    cr_assert(file && fclose(file) == 0, "%s", path);
}

Test(rank_files, each_stream_of_each_rank_has_one)
{
    struct kolo_rank_files *files = create("a/b/", 11);
    cr_assert_eq(count("a/b/rank.*.*"), 22);
    cr_assert_eq(write(kolo_rank_files_fd(files, 3, false), "out", 3), 3);
    cr_assert_eq(write(kolo_rank_files_fd(files, 10, true), "error", 5), 5);
    cr_assert_eq(kolo_rank_files_close(files, true), KOLO_OK);
    struct stat facts;
    cr_assert(stat("a/b/rank.03.out", &facts) == 0 && facts.st_size == 3);
    cr_assert(stat("a/b/rank.10.err", &facts) == 0 && facts.st_size == 5);
    cr_assert(stat("a/b/rank.10.out", &facts) == 0 && facts.st_size == 0);
}

Test(rank_files, digits_are_those_of_the_last_rank)
{
    cr_assert_eq(kolo_rank_files_close(create("ten", 10), true), KOLO_OK);
    cr_assert_eq(kolo_rank_files_close(create("one", 1), true), KOLO_OK);
    cr_assert_eq(count("ten/rank.[0-9].out"), 10);
    cr_assert_eq(count("one/rank.0.err"), 1);
}

/** What else kolorun writes must not take the name of a rank's file. */
Test(rank_files, names_in_the_directory_are_claimed)
{
    char path[2 * sizeof folder + 16], deep[6000];
    cr_assert(mkdir("sub", 0700) == 0);
    snprintf(path, sizeof path, "%s/sub/../rank.0.err", folder);
    cr_expect(kolo_rank_files_claim(folder, "rank.0.out"));
    cr_expect(kolo_rank_files_claim(".", path));
    cr_expect(kolo_rank_files_claim("sub", "sub/rank.12.out"));
    cr_expect(kolo_rank_files_claim("sub", "./sub/rank.12.out"));
    cr_expect_not(kolo_rank_files_claim("sub", "rank.0.out"));
    cr_expect_not(kolo_rank_files_claim(folder, "sub/rank.0.out"));
    cr_expect_not(kolo_rank_files_claim(folder, "there is none/rank.0.out"));
    cr_expect_not(kolo_rank_files_claim("there is none", "rank.0.out"));
    cr_expect_not(kolo_rank_files_claim(folder, "trace.json"));
    cr_expect_not(kolo_rank_files_claim(folder, "rank.0.out.json"));
    memset(deep, '/', sizeof deep);
    snprintf(deep + sizeof deep - 16, 16, "rank.0.out");
    cr_expect_not(kolo_rank_files_claim("/", deep), "longer than a path may be");
}

Test(rank_files, nothing_is_left_of_a_job_that_did_not_start)
{
    cr_assert_eq(kolo_rank_files_close(create("new", 3), false), KOLO_OK);
    cr_assert_eq(count("new"), 0);
    cr_assert_eq(mkdir("there", 0700), 0);
    cr_assert_eq(kolo_rank_files_close(create("there/a//b/c/", 3), false), KOLO_OK);
    cr_assert_eq(count("there"), 1);
    cr_assert_eq(count("there/*"), 0);
    cr_assert_eq(mkdir("old", 0700), 0);
    touch("old/notes");
    cr_assert_eq(kolo_rank_files_close(create("old", 3), false), KOLO_OK);
    cr_assert_eq(count("old/*"), 1);
    cr_assert_eq(kolo_rank_files_close(NULL, false), KOLO_OK);
}

/** Also those of ranks that this job does not have, or that have other digits. */
Test(rank_files, an_earlier_job_is_refused_and_kept)
{
    static const char *const names[] = {"d/rank.0.out", "d/rank.007.err", "d/rank.99.out"};
    cr_assert_eq(mkdir("d", 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        touch(names[i]);
        refused("d", 2, names[i] + 2);
        cr_assert(strstr(kolo_error_detail(), "of an earlier job; give another directory"));
        cr_assert_eq(count("d/*"), 1);
        unlink(names[i]);
    }
    touch("d/rank.out"); /* of nobody */
    touch("d/rank.1.output");
    touch("d/franky.1.out");
    cr_assert_eq(kolo_rank_files_close(create("d", 2), true), KOLO_OK);
    cr_assert_eq(count("d/*"), 7);
}

/** Of two jobs that start at once, with other digits, at most one gets the directory. Other files
 * are there, so that it takes them time to see that there are none of an earlier job. */
Test(rank_files, jobs_that_start_at_once_are_not_mixed, .timeout = 60)
{
    enum { ROUNDS = 50, OTHERS = 3000 };
    cr_assert_eq(mkdir("d", 0700), 0);
    for (int i = 0; i < OTHERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "d/%d", i);
        touch(name);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct kolo_rank_files *files = NULL;
        int begin[2], wait_status;
        char byte;
        cr_assert_eq(pipe(begin), 0);
        const pid_t other = fork();
        close(begin[other != 0 ? 0 : 1]);
        if (other == 0) {
            (void)!read(begin[0], &byte, 1);
            _exit(kolo_rank_files_create("d", 11, 0, &files) == KOLO_OK);
        }
        close(begin[1]);
        const bool mine = kolo_rank_files_create("d", 10, 0, &files) == KOLO_OK;
        cr_assert_eq(waitpid(other, &wait_status, 0), other);
        cr_assert(WIFEXITED(wait_status) && !(mine && WEXITSTATUS(wait_status) != 0), "round %d",
                  i);
        cr_assert_eq(kolo_rank_files_close(files, false), KOLO_OK);
        remove_all("d/rank.*");
    }
}

Test(rank_files, a_place_that_cannot_be_written_is_refused)
{
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    touch("file");
    refused("file", 1, "Not a directory; give a directory that can be written");
    refused("file/below", 1, "Not a directory");
    refused("/proc/none", 1, "--output-dir /proc/none: No such file or directory");
    refused(longest, 1, "File name too long");
}

/** Not that of what is below, which is only that the one above is missing. */
Test(rank_files, the_reason_is_that_of_the_first_directory)
{
    struct kolo_rank_files *files = NULL;
    if (mkdir("/sys/kolo", 0700) == 0 || errno == ENOENT) {
        rmdir("/sys/kolo");
        cr_skip("/sys is not what it is on other machines");
    }
    const char *why = strerror(errno);
    cr_assert_eq(kolo_rank_files_create("/sys/kolo/a/b", 1, 0, &files), KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), why), "%s", kolo_error_detail());
}

/** Also if only what the process has open beside them is too much. */
Test(rank_files, too_many_files_are_refused_before_any_is_made)
{
    struct kolo_rank_files *files = NULL;
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max = 64;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    refused("many", 100, "needs 202 open files for 100 ranks, and ulimit -n is 64 at most; raise");
    cr_assert_eq(kolo_rank_files_create("many", 10, 43, &files), KOLO_ERR_CONFIG);
    refused("many", 31, "Too many open files: raise `ulimit -n`"); /* some are open already */
    cr_assert_eq(kolo_rank_files_create("few", 10, 42, &files), KOLO_OK);
    cr_assert_eq(kolo_rank_files_close(files, false), KOLO_OK);
    cr_assert_eq(count("many"), 0);
}
