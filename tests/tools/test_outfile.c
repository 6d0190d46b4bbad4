// SPDX-License-Identifier: Apache-2.0
// tools/outfile.c: an output file appears under its name only when it is complete, and nothing is
// left of one that is not.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/outfile.h"

static char folder[] = "/tmp/kolo-outfile-XXXXXX";

static void go_there(void)
{
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}

/* The number of files, including x. */
static size_t files(void)
{
    glob_t found;
    size_t count = glob("*", 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* Whether the file system of the test's folder supports files without a name: otherwise those
 * tests have nothing to check. */
static bool has_nameless(void)
{
    int fd = open(".", O_TMPFILE | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void clean(void)
{
    glob_t found;
    if (glob("*", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    globfree(&found);
    rmdir(folder);
}

static void write_x(const char *text)
{
    FILE *file = fopen("x", "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void x_is(const char *expected)
{
    char text[64] = "";
    FILE *file = fopen("x", "r");
    cr_assert(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    cr_expect_str_eq(text, expected);
}

TestSuite(outfile, .init = go_there, .fini = clean, .timeout = 60);

/* How many files, besides x, remain after a process that opens x and writes into it is ended by
 * signal @p number. */
static size_t left_by(int number)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct outfile file;
        if (outfile_open(&file, "--json", "x") != KOLO_OK || fputs("half", file.stream) < 0 ||
            fflush(file.stream) != 0)
            _exit(1);
        raise(number);
        _exit(2);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == number, "status %x", (unsigned)status);
    return files() - 1;
}

Test(outfile, a_killed_process_leaves_nothing)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    struct outfile file;
    if (!has_nameless())
        cr_skip_test("no files without a name in /tmp");
    write_x("old");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        cr_expect_eq(left_by(numbers[i]), 0, "signal %d", numbers[i]);
    x_is("old");
    cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK);
    cr_expect_eq(files(), 1, "it has a name before it is whole");
    cr_expect_eq(outfile_close(&file, false), KOLO_OK);
}

Test(outfile, a_signal_takes_a_file_with_a_name_away)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct outfile first, second;
    struct sigaction ignored;
    outfile_has_names_only = true;
    write_x("old");
    signal(SIGHUP, SIG_IGN);
    cr_assert_eq(outfile_open(&first, "--json", "x"), KOLO_OK);
    cr_assert_eq(outfile_open(&second, "--csv", "y"), KOLO_OK);
    cr_expect_eq(files(), 3);
    cr_expect(sigaction(SIGHUP, NULL, &ignored) == 0 && ignored.sa_handler == SIG_IGN);
    cr_assert(fputs("1", first.stream) >= 0);
    cr_expect_eq(outfile_close(&first, true), KOLO_OK);
    x_is("1");
    cr_expect_eq(outfile_close(&second, false), KOLO_OK);
    cr_expect_eq(files(), 1);
    signal(SIGHUP, SIG_DFL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        cr_expect_eq(left_by(numbers[i]), 0, "signal %d", numbers[i]);
    x_is("1");
}

static kolo_status two(const char *a, const char *b)
{
    const struct outfile_place places[] = {{"--json", a}, {"--csv", NULL}, {"--plot", b}};
    return outfile_distinct(places, 3);
}

Test(outfile, two_of_one_file_are_refused)
{
    char long_name[5000];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    cr_expect_eq(two("x", "y"), KOLO_OK);
    cr_expect_eq(two(NULL, NULL), KOLO_OK);
    cr_expect_eq(two("/dev/null", "/dev/null"), KOLO_OK);
    cr_expect_eq(two("x", "x"), KOLO_ERR_CONFIG, "not there yet");
    cr_expect_str_eq(kolo_error_detail(), "--json and --plot both name x; give each its own file");
    cr_expect_eq(two("x", "./x"), KOLO_ERR_CONFIG);
    cr_expect_eq(two("none/x", "none/y"), KOLO_OK, "said when it is opened");
    cr_expect_eq(two(long_name, long_name), KOLO_OK, "said when it is opened");
    write_x("old");
    cr_assert(symlink("x", "y") == 0 && mkfifo("z", 0600) == 0);
    cr_expect_eq(two("y", "x"), KOLO_ERR_CONFIG, "a link");
    cr_expect_eq(two("z", "./z"), KOLO_ERR_CONFIG, "a pipe");
    unlink("x");
    cr_expect_eq(two("y", "x"), KOLO_ERR_CONFIG, "a link to what is not there yet");
    write_x("old");
    cr_expect_eq(two("x", "z"), KOLO_OK);
}

Test(outfile, a_file_that_is_read_is_not_written_over)
{
    const char *const read[] = {"none", "x"};
    write_x("old");
    cr_assert_eq(symlink("x", "y"), 0);
    cr_expect_eq(outfile_spares("--output", "z", read, 2), KOLO_OK);
    cr_expect_eq(outfile_spares("--output", "none", read, 2), KOLO_OK, "said when it is read");
    cr_expect_eq(outfile_spares("--output", "x", read, 1), KOLO_OK);
    cr_expect_eq(outfile_spares("--output", "./x", read, 2), KOLO_ERR_CONFIG);
    cr_expect_str_eq(kolo_error_detail(),
                     "--output ./x: that is x, which is an input; name another file");
    cr_expect_eq(outfile_spares("--output", "y", read, 2), KOLO_ERR_CONFIG, "a link");
}

Test(outfile, the_place_is_tried_before_anything_is_written)
{
    char name[300];
    struct outfile file;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        outfile_has_names_only = i == 1;
        cr_expect_eq(outfile_open(&file, "--json", name), KOLO_ERR_SYSTEM);
        cr_expect(strstr(kolo_error_detail(), "File name too long"), "%s", kolo_error_detail());
        cr_expect_eq(outfile_open(&file, "--json", "none/"), KOLO_ERR_SYSTEM);
        write_x("a file");
        cr_expect_eq(outfile_open(&file, "--json", "x/y"), KOLO_ERR_SYSTEM);
        cr_expect_eq(files(), 1);
    }
}

Test(outfile, takes_its_name_when_it_is_whole)
{
    struct outfile file;
    write_x("old");
    cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK);
    cr_assert(fputs("new", file.stream) >= 0);
    x_is("old");
    cr_expect_eq(outfile_close(&file, true), KOLO_OK);
    x_is("new");
    cr_expect_eq(files(), 1);
    cr_expect_eq(outfile_close(&file, true), KOLO_OK, "a closed one");
}

Test(outfile, leaves_nothing_that_is_not_kept)
{
    struct outfile file;
    write_x("old");
    cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK);
    cr_assert(fputs("new", file.stream) >= 0);
    cr_expect_eq(outfile_close(&file, false), KOLO_OK);
    x_is("old");
    cr_expect_eq(files(), 1);
}

Test(outfile, two_at_once_and_what_was_left_are_no_obstacle)
{
    struct outfile first, second;
    cr_assert_eq(outfile_open(&first, "--json", "x"), KOLO_OK);
    cr_assert_eq(outfile_open(&second, "--json", "x"), KOLO_OK);
    cr_assert(fputs("1", first.stream) >= 0 && fputs("2", second.stream) >= 0);
    cr_expect_eq(outfile_close(&second, true), KOLO_OK);
    x_is("2");
    cr_expect_eq(outfile_close(&first, true), KOLO_OK);
    x_is("1");
    cr_expect_eq(files(), 1);
}

Test(outfile, says_where_it_cannot_write)
{
    struct outfile file;
    cr_expect_eq(outfile_open(&file, "--plot", "none/x"), KOLO_ERR_SYSTEM);
    cr_expect(strstr(kolo_error_detail(), "--plot none/x: No such file"), "%s",
              kolo_error_detail());
    cr_assert_eq(outfile_open(&file, "--plot", "x"), KOLO_OK);
    cr_assert_eq(mkdir("x", 0700), 0);
    cr_expect_eq(outfile_close(&file, true), KOLO_ERR_SYSTEM, "a folder is there");
    cr_expect(strstr(kolo_error_detail(), "--plot x: "), "%s", kolo_error_detail());
    rmdir("x");
    cr_expect_eq(files(), 0);
}

Test(outfile, of_several_none_is_there_if_one_cannot_be_written)
{
    for (int full = 0; full < 2; full++) {
        struct outfile plot, json;
        cr_assert(!full || symlink("/dev/full", "x") == 0);
        cr_assert_eq(outfile_open(&plot, "--plot", "p"), KOLO_OK);
        cr_assert_eq(outfile_open(&json, "--json", "x"), KOLO_OK);
        cr_assert(fputs("plot", plot.stream) >= 0 && fputs("json", json.stream) >= 0);
        const kolo_status status =
            outfile_close_all((struct outfile *const[]){&plot, &json}, 2, true);
        cr_expect_eq(status, full ? KOLO_ERR_SYSTEM : KOLO_OK);
        cr_expect(!full || strstr(kolo_error_detail(), "--json x: No space left"), "%s",
                  kolo_error_detail());
        cr_expect_eq(access("p", F_OK) == 0, !full, "the plot");
        unlink("p");
        unlink("x");
    }
    cr_expect_eq(files(), 0);
}

/** Several buffers are written long before the file is closed, and the first failure counts. */
Test(outfile, a_long_file_says_why_it_could_not_be_written)
{
    static const char letters[100000] = "abc";
    cr_assert_eq(symlink("/dev/full", "x"), 0);
    for (int several = 0; several < 2; several++) {
        struct outfile file;
        cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK);
        (void)fwrite(letters, 1, sizeof letters, file.stream);
        cr_assert(ferror(file.stream), "nothing was written yet");
        errno = EINVAL;
        cr_expect_eq(several ? outfile_close_all((struct outfile *const[]){&file}, 1, true)
                             : outfile_close(&file, true),
                     KOLO_ERR_SYSTEM);
        cr_expect_str_eq(kolo_error_detail(), "--json x: No space left on device");
    }
}

Test(outfile, what_is_no_file_stays_what_it_is)
{
    struct outfile file;
    struct stat there;
    char text[4] = "";
    cr_assert(mkfifo("x", 0600) == 0);
    int reader = open("x", O_RDONLY | O_NONBLOCK);
    cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK);
    cr_assert(fputs("new", file.stream) >= 0);
    cr_expect_eq(outfile_close(&file, true), KOLO_OK);
    cr_expect(read(reader, text, 3) == 3 && strcmp(text, "new") == 0, "%s", text);
    close(reader);
    cr_expect(stat("x", &there) == 0 && S_ISFIFO(there.st_mode), "a file took its place");
    cr_expect_eq(files(), 1);
    unlink("x");
    cr_assert(symlink("/dev/full", "x") == 0);
    cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK);
    cr_assert(fputs("new", file.stream) >= 0);
    cr_expect_eq(outfile_close(&file, true), KOLO_ERR_SYSTEM, "a full device");
    cr_expect(lstat("x", &there) == 0 && S_ISLNK(there.st_mode), "a file took its place");
    unlink("x");
    cr_assert(mkdir("x", 0700) == 0);
    cr_expect_eq(outfile_open(&file, "--json", "x"), KOLO_ERR_SYSTEM, "a folder");
    rmdir("x");
}

/* Creates or replaces the file @p path with @p text. */
static void replace(const char *path, const char *text)
{
    struct outfile file;
    cr_assert_eq(outfile_open(&file, "--json", path), KOLO_OK, "%s", kolo_error_detail());
    cr_assert(fputs(text, file.stream) >= 0);
    cr_expect_eq(outfile_close(&file, true), KOLO_OK, "%s", kolo_error_detail());
}

static bool is_link(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
}

Test(outfile, a_link_stays_and_what_it_leads_to_is_replaced)
{
    char here[64], away[80], back[80];
    cr_assert(getcwd(here, sizeof here));
    snprintf(away, sizeof away, "%s-away", here);
    snprintf(back, sizeof back, "%s/x", here);
    cr_assert(mkdir(away, 0700) == 0 && symlink(away, "folder") == 0);
    cr_assert(symlink("z", "y") == 0 && symlink("folder/back", "z") == 0);
    cr_assert_eq(symlink(back, "folder/back"), 0);
    for (int i = 0; i < 2; i++) {
        outfile_has_names_only = i == 1;
        unlink("x");
        replace("y", "not there");
        x_is("not there");
        replace("y", "there");
        x_is("there");
        cr_expect(is_link("y") && is_link("z") && is_link("folder/back"), "a link was replaced");
        cr_expect_eq(files(), 4, "x, y, z and folder");
    }
    unlink("folder/back");
    cr_expect_eq(rmdir(away), 0, "something is left");
}

/** Another program writes to it before and after, as to a file that a shell opened. */
Test(outfile, a_descriptor_is_written_in_place)
{
    char path[32];
    const int fd = open("x", O_WRONLY | O_CREAT | O_APPEND, 0600);
    cr_assert(fd > STDERR_FILENO && write(fd, "first ", 6) == 6);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    replace(path, "second ");
    cr_assert(write(fd, "third", 5) == 5);
    close(fd);
    x_is("first second third");
}

/** As in all other programs, and no file of that name is made. */
Test(outfile, a_dash_is_standard_output)
{
    const int out = dup(STDOUT_FILENO), fd = open("x", O_WRONLY | O_CREAT | O_APPEND, 0600);
    cr_assert(out >= 0 && fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
    cr_expect_eq(outfile_probe("--json", "-"), KOLO_OK);
    replace("-", "all");
    const struct outfile_place places[] = {{"--json", "-"}, {"--csv", "/dev/stdout"}};
    const kolo_status same = outfile_distinct(places, 2);
    cr_assert(dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
    close(fd);
    close(out);
    cr_expect_eq(same, KOLO_ERR_CONFIG, "one file by two names");
    x_is("all");
    cr_expect_eq(files(), 1);
}

/** Finding out whether it can be written must not end the input of its reader. */
Test(outfile, a_pipe_is_not_opened_to_find_out)
{
    cr_assert(mkfifo("x", 0600) == 0);
    (void)signal(SIGPIPE, SIG_IGN);
    const int reader = open("x", O_RDONLY | O_NONBLOCK);
    const int writer = open("x", O_WRONLY | O_NONBLOCK);
    cr_assert(reader >= 0 && writer >= 0);
    cr_expect_eq(outfile_probe("--json", "x"), KOLO_OK);
    close(reader); /* a writer that opened it would find no reader, and wait for ever */
    cr_expect_eq(outfile_probe("--json", "x"), KOLO_OK);
    cr_expect(write(writer, "x", 1) < 0, "somebody reads");
    close(writer);
}

Test(outfile, a_link_that_leads_nowhere_is_said_at_once)
{
    struct outfile file;
    cr_assert(symlink("y", "x") == 0 && symlink("x", "y") == 0 && symlink("none/x", "z") == 0);
    cr_expect_eq(outfile_open(&file, "--json", "x"), KOLO_ERR_SYSTEM);
    cr_expect(strstr(kolo_error_detail(), "--json x: Too many levels"), "%s", kolo_error_detail());
    cr_expect_eq(outfile_open(&file, "--json", "z"), KOLO_ERR_SYSTEM);
    cr_expect(strstr(kolo_error_detail(), "--json z: No such file"), "%s", kolo_error_detail());
}

/* As a system does that writes to its disk only when a file is closed. */
Test(outfile, no_file_is_kept_if_closing_one_fails)
{
    struct outfile plot, json;
    write_x("old");
    cr_assert_eq(outfile_open(&plot, "--plot", "p"), KOLO_OK);
    cr_assert_eq(outfile_open(&json, "--json", "x"), KOLO_OK);
    cr_assert(fputs("new", json.stream) >= 0 && fflush(json.stream) == 0 && close(json.fd) == 0);
    json.fd = INT_MAX; /* nothing else gets this number */
    cr_expect_eq(outfile_close_all((struct outfile *const[]){&plot, &json}, 2, true),
                 KOLO_ERR_SYSTEM);
    cr_expect_str_eq(kolo_error_detail(), "--json x: Bad file descriptor");
    x_is("old");
    cr_expect_eq(files(), 1);
}

/* Another program may replace the file at any moment: it is then replaced too, not appended to. */
Test(outfile, a_file_that_is_replaced_meanwhile_is_not_written_to)
{
    enum { TIMES = 5000 };
    struct outfile file;
    size_t in_place = 0;
    write_x("old");
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        while (getppid() == parent) {
            const int fd = open("y", O_WRONLY | O_CREAT, 0600);
            if (fd < 0 || close(fd) != 0 || rename("y", "x") != 0)
                _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < TIMES; i++) {
        cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK, "%s", kolo_error_detail());
        in_place += file.is_in_place;
        cr_assert_eq(outfile_close(&file, false), KOLO_OK);
    }
    cr_expect_eq(in_place, 0, "%zu of %d", in_place, TIMES);
    cr_assert(child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    unlink("y");
}

Test(outfile, the_mode_is_kept)
{
    struct stat facts;
    umask(027);
    for (int i = 0; i < 2; i++) {
        outfile_has_names_only = i == 1;
        unlink("x");
        replace("x", "new");
        cr_expect(stat("x", &facts) == 0 && (facts.st_mode & 0777) == 0640, "%o", facts.st_mode);
        cr_assert_eq(chmod("x", 0606), 0);
        replace("x", "newer");
        cr_expect(stat("x", &facts) == 0 && (facts.st_mode & 0777) == 0606, "%o", facts.st_mode);
    }
}

Test(outfile, what_may_not_be_written_is_not_replaced)
{
    struct outfile file;
    write_x("old");
    cr_assert(chmod("x", 0444) == 0 && chmod(".", 0777) == 0);
    const bool is_root = geteuid() == 0; /* root may write everything */
    cr_assert(!is_root || seteuid(65534) == 0);
    cr_expect_eq(outfile_open(&file, "--json", "x"), KOLO_ERR_SYSTEM);
    cr_expect_str_eq(kolo_error_detail(), "--json x may not be written; name another file, or "
                                          "chmod u+w it: Permission denied");
    cr_assert(!is_root || seteuid(0) == 0);
    x_is("old");
    cr_expect_eq(files(), 1);
}

/* A file without a name could be made for it, but could not be given that name. */
/** Writes @p bytes letters to x; returns what closing it returns. */
static kolo_status write_letters(size_t bytes)
{
    struct outfile file;
    cr_assert_eq(outfile_probe("--json", "x"), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(outfile_open(&file, "--json", "x"), KOLO_OK, "%s", kolo_error_detail());
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(putc('a' + (int)(i % 26), file.stream), 'a' + (int)(i % 26));
    return outfile_close(&file, true);
}

static void x_has_letters(size_t bytes)
{
    FILE *in = fopen("x", "r");
    cr_assert(in);
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(getc(in), 'a' + (int)(i % 26), "byte %zu", i);
    cr_expect_eq(getc(in), EOF);
    fclose(in);
}

/** From now on this process may mount things, which no other process sees. */
static void allow_mounts(void)
{
    char map[32];
    const int length = snprintf(map, sizeof map, "0 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            cr_skip_test("no mounts are allowed here");
        const int fd = open("/proc/self/uid_map", O_WRONLY);
        cr_assert(fd >= 0 && write(fd, map, (size_t)length) == length);
        close(fd);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        cr_skip_test("no mounts are allowed here");
}

/** Makes @p over the same file as @p file, as docker -v FILE:FILE does. */
static void mount_over(const char *file, const char *over)
{
    cr_assert_eq(mount(file, over, NULL, MS_BIND, NULL), 0);
}

static void expect_mount_point(void)
{
    write_x("old, and longer than what comes then");
    allow_mounts();
    mount_over("x", "x");
    cr_expect_eq(write_letters(3), KOLO_OK, "%s", kolo_error_detail());
    x_is("abc");
    cr_expect_eq(write_letters(100000), KOLO_OK, "%s", kolo_error_detail());
    x_has_letters(100000);
    cr_expect_eq(files(), 1);
    cr_expect_eq(umount("x"), 0);
}

Test(outfile, a_mount_point_is_overwritten)
{
    expect_mount_point();
}

Test(outfile, a_mount_point_is_overwritten_without_files_without_names)
{
    outfile_has_names_only = true;
    expect_mount_point();
}

Test(outfile, a_mount_point_keeps_its_contents_if_there_is_no_room)
{
    allow_mounts();
    write_x("old");
    cr_assert_eq(mkdir("m", 0777), 0);
    cr_assert_eq(mount("none", "m", "tmpfs", 0, "size=64k"), 0);
    FILE *in = fopen("m/x", "w");
    cr_assert(in && fputs("small", in) >= 0 && fclose(in) == 0);
    mount_over("m/x", "x");
    cr_expect_eq(write_letters(100000), KOLO_ERR_SYSTEM);
    cr_expect_str_eq(kolo_error_detail(), "--json x: No space left on device");
    x_is("small");
    cr_expect_eq(files(), 2);
    cr_expect(umount("x") == 0 && umount("m") == 0 && rmdir("m") == 0);
}

/** A process, as another user if this is root, who may make files anywhere. */
static void in_closed_folder(void)
{
    struct outfile file;
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
        _exit(77);
    if (outfile_probe("--json", "x") != KOLO_OK || outfile_open(&file, "--json", "x") != KOLO_OK)
        _exit(1);
    if (fputs("abc", file.stream) < 0 || outfile_close(&file, true) != KOLO_OK)
        _exit(2);
    _exit(files() == 1 ? 0 : 3);
}

/** 01777: files can be made, but that of another user cannot be replaced. */
Test(outfile, a_file_that_may_not_be_replaced_is_overwritten)
{
    static const mode_t modes[] = {0555, 01777};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        int status = 0;
        write_x("old");
        cr_assert(chmod("x", 0666) == 0 && chmod(".", modes[i]) == 0);
        pid_t child = fork();
        if (child == 0)
            in_closed_folder();
        cr_assert(child > 0 && waitpid(child, &status, 0) == child);
        cr_assert_eq(chmod(".", 0777), 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            cr_skip_test("this process cannot become another user");
        cr_expect_eq(status, 0, "mode %o", (unsigned)modes[i]);
        x_is("abc");
    }
}

Test(outfile, no_name_is_said_at_once)
{
    struct outfile file;
    cr_expect_eq(outfile_probe("-o", ""), KOLO_ERR_CONFIG);
    cr_expect(strstr(kolo_error_detail(), "-o ''"), "%s", kolo_error_detail());
    cr_expect_eq(outfile_open(&file, "-o", ""), KOLO_ERR_CONFIG);
    cr_expect_null(file.stream);
}
