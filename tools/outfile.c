// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there, see outfile.h. Opened before anything is measured, so that an
// unwritable place costs no measurement. A device, a pipe or what standard output goes to is written in
// place: renaming something onto it would put a file where /dev/null was.
//
// Until it is whole a file has no name (O_TMPFILE), so that nothing stays of a process that is killed.
// Only a name that is taken needs one beside it, for the moment of the renaming, because no system call
// puts a file without a name into the place of another. Where the file system has no files without a
// name (NFS), or /proc is not mounted, by which they get one, the file is beside its name from the
// beginning, and a signal that would end the process takes it away; kill -9 leaves it there.
#include "tools/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    NAMES = 100,
    MODE = 0666,
    PROC_MAX = 64,
    PATH_BYTES = sizeof((struct outfile *)NULL)->beside
};

bool outfile_has_names_only;

/* ---- names beside, and signals ---- */

/* Files that have, or are about to have, a name beside theirs. A signal may come at any time. */
static struct outfile *_Atomic named;

static void remove_named(int number)
{
    for (const struct outfile *file = named; file; file = file->next)
        unlink(file->beside);
    raise(number); /* it is blocked until this has returned, and then ends the process */
}

/** A signal that would end the process at once takes the files away before. */
static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    struct sigaction watch = {.sa_handler = remove_named, .sa_flags = (int)SA_RESETHAND}, old;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &watch, NULL);
}

static void forget_name(struct outfile *file)
{
    struct outfile *_Atomic *link = &named;
    while (*link && *link != file)
        link = &(*link)->next;
    if (*link)
        *link = file->next;
    file->is_named = false;
}

/** Its name with something behind it that no other process takes, also on another host. False: that
 * is too long. */
static bool make_name(struct outfile *file)
{
    int length = snprintf(file->beside, sizeof file->beside, "%s.tmp-%ld-%llu", file->path,
                          (long)getpid(), (unsigned long long)kolo_now_ns());
    if (length < (int)sizeof file->beside)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/** @p give makes a file of the name file->beside: 0, or -1 and errno. False: errno. */
static bool take_name(struct outfile *file, int (*give)(struct outfile *file))
{
    int given = -1;
    watch_signals();
    errno = EEXIST;
    for (int i = 0; i < NAMES && given != 0 && errno == EEXIST && make_name(file); i++) {
        file->next = named;
        file->is_named = true;
        named = file; /* before it is there: between the two a signal would leave it */
        given = give(file);
        int cause = errno;
        if (given != 0)
            forget_name(file);
        errno = cause;
    }
    return given == 0;
}

/* ---- opening ---- */

/** The folder of @p path, in @p text, which is as long as it needs to be; "." where it names none. */
static const char *folder_of(const char *path, char *text)
{
    const char *slash = strrchr(path, '/'); /* "/x" is in "/" */
    if (!slash)
        return ".";
    memcpy(text, path, (size_t)(slash - path) + 1);
    text[slash - path + 1] = '\0';
    return text;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_one(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/** Both name one file, be it there or not. */
static bool are_same(const char *a, const char *b)
{
    char folder[PATH_BYTES];
    struct stat facts[2];
    bool is_there[2] = {stat(a, &facts[0]) == 0, stat(b, &facts[1]) == 0};
    if (is_there[0] && is_there[1])
        return is_one(&facts[0], &facts[1]) && !S_ISCHR(facts[0].st_mode);
    if (is_there[0] || is_there[1] || strcmp(last_part(a), last_part(b)) != 0)
        return false;
    return strlen(a) < sizeof folder && strlen(b) < sizeof folder &&
           stat(folder_of(a, folder), &facts[0]) == 0 &&
           stat(folder_of(b, folder), &facts[1]) == 0 && is_one(&facts[0], &facts[1]);
}

kolo_status outfile_distinct(const struct outfile_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i && places[i].path; j++)
            if (places[j].path && are_same(places[i].path, places[j].path))
                return kolo_fail(KOLO_ERR_CONFIG, "%s and %s both name %s; give each its own file",
                                 places[j].option, places[i].option, places[i].path);
    return KOLO_OK;
}

kolo_status outfile_spares(const char *option, const char *path, const char *const *read,
                           size_t count)
{
    struct stat facts;
    for (size_t i = 0; i < count; i++)
        if (stat(read[i], &facts) == 0 && are_same(path, read[i]))
            return kolo_fail(KOLO_ERR_CONFIG,
                             "%s %s: that is the file %s, which is read; name another", option,
                             path, read[i]);
    return KOLO_OK;
}

/** There is something at @p path that no file may take the place of. */
static bool must_stay(const char *path)
{
    struct stat there, output;
    if (stat(path, &there) != 0)
        return false;
    return !S_ISREG(there.st_mode) ||
           (fstat(STDOUT_FILENO, &output) == 0 && is_one(&output, &there));
}

/** The name by which a file without one can be given one. */
static const char *by_descriptor(int fd, char text[PROC_MAX])
{
    snprintf(text, PROC_MAX, "/proc/self/fd/%d", fd);
    return text;
}

/** A file without a name in the folder of its path, whose name it can take later; -1 where that is not
 * possible, for whatever reason. */
static int open_nameless(struct outfile *file)
{
    char proc[PROC_MAX];
    struct stat there;
    if (outfile_has_names_only || !make_name(file) || *last_part(file->path) == '\0' ||
        (lstat(file->beside, &there) != 0 && errno != ENOENT))
        return -1;
    int fd = open(folder_of(file->path, file->beside), O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE);
    if (fd >= 0 && access(by_descriptor(fd, proc), F_OK) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int create_beside(struct outfile *file)
{
    file->stream = fopen(file->beside, "wxe");
    return file->stream ? 0 : -1;
}

kolo_status outfile_open(struct outfile *file, const char *option, const char *path)
{
    *file = (struct outfile){.option = option, .path = path};
    errno = 0;
    if (must_stay(path)) {
        file->is_in_place = true;
        file->stream = fopen(path, "ae");
    } else {
        int fd = open_nameless(file);
        if (fd < 0)
            (void)take_name(file, create_beside);
        else if (!(file->stream = fdopen(fd, "w")))
            close(fd);
    }
    return file->stream ? KOLO_OK : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
}

/* ---- closing ---- */

static int link_beside(struct outfile *file)
{
    char proc[PROC_MAX];
    return linkat(AT_FDCWD, by_descriptor(file->fd, proc), AT_FDCWD, file->beside,
                  AT_SYMLINK_FOLLOW);
}

/** Gives a file that is whole its name. False: errno. */
static bool take_place(struct outfile *file)
{
    char proc[PROC_MAX];
    if (file->is_in_place)
        return true;
    if (!file->is_named && linkat(AT_FDCWD, by_descriptor(file->fd, proc), AT_FDCWD, file->path,
                                  AT_SYMLINK_FOLLOW) == 0)
        return true;
    if (!file->is_named && (errno != EEXIST || !take_name(file, link_beside)))
        return false;
    return rename(file->beside, file->path) == 0;
}

/** Has what was written left the buffer? False: errno. */
static bool is_written(const struct outfile *file)
{
    errno = 0;
    return fflush(file->stream) == 0 && !ferror(file->stream);
}

kolo_status outfile_close(struct outfile *file, bool keep)
{
    if (!file->stream)
        return KOLO_OK;
    bool ok = keep && is_written(file);
    if (ok) {
        file->fd = dup(fileno(file->stream)); /* closing it may yet say that it is not whole */
        ok = file->fd >= 0;
    }
    bool has_fd = ok;
    int cause = errno;
    if (fclose(file->stream) != 0 && ok) {
        ok = false;
        cause = errno;
    }
    file->stream = NULL;
    if (ok && !take_place(file)) {
        ok = false;
        cause = errno;
    }
    if (has_fd)
        close(file->fd);
    if (file->is_named) {
        if (!ok)
            unlink(file->beside);
        forget_name(file);
    }
    return ok || !keep ? KOLO_OK
                       : kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "%s %s", file->option, file->path);
}

kolo_status outfile_close_all(struct outfile *const *files, size_t count, bool keep)
{
    kolo_status status = KOLO_OK, closed;
    for (size_t i = 0; keep && i < count && status == KOLO_OK; i++)
        if (files[i]->stream && !is_written(files[i]))
            status =
                kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", files[i]->option, files[i]->path);
    for (size_t i = 0; i < count; i++) {
        closed = outfile_close(files[i], keep && status == KOLO_OK);
        status = status == KOLO_OK ? closed : status;
    }
    return status;
}
