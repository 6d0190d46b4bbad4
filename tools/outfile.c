// SPDX-License-Identifier: Apache-2.0
// Files that are either complete or absent, see outfile.h. A file is opened before anything is
// measured, so that an unwritable place costs no measurement. A device, a pipe or the file behind
// standard output is written in place: renaming something onto it would replace /dev/null by a
// file.
//
// Until it is complete, a file has no name (O_TMPFILE), so nothing stays behind if the process is
// killed. Only if the name is taken, the new file gets a temporary name beside it for the moment of
// the renaming, because no system call can replace a file by one without a name. If the file system
// has no files without names (NFS), or /proc, which is needed to name them, is not mounted, the
// file has a temporary name from the beginning; a signal that would end the process removes it, but
// kill -9 leaves it there.
//
// To a reader it looks as if the file had been overwritten: a link still leads to it, it keeps its
// mode, and a file that is not writable is not replaced. But it is another file: other hard links
// of the old one keep the old contents.
//
// Some files can be written but not replaced: mount points, as `docker -v FILE:FILE` makes them,
// and those in a folder where this user may make or remove no files. These are overwritten when all
// else is done, with what was gathered in a file without a name, and only if there is room for it:
// so they are incomplete only if the process, or the machine, dies in that moment.
//
// The stream writes through a function of this file, which keeps the reason of the first failure:
// stdio remembers only that something failed, and a file of more than one buffer mostly fails long
// before it is closed.
#include "tools/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    NAMES = 100,
    PIECE_BYTES = 16 << 10,
    MODE = 0666,
    KEPT_MODE = 0777, /* bits kept of an existing file's mode: not those like setuid */
    PROC_MAX = 64,
    LINKS_MAX = 40, /* as in the kernel */
    PATH_BYTES = sizeof((struct outfile *)NULL)->beside
};

bool outfile_has_names_only;

/* ---- names beside, and signals ---- */

/* Files that have, or are about to have, a temporary name. A signal handler may read the list at
 * any time. */
static struct outfile *_Atomic named;

static void remove_named(int number)
{
    for (const struct outfile *file = named; file; file = file->next)
        unlink(file->beside);
    raise(number); /* it is blocked until the handler returns, then ends the process */
}

/** Makes signals that would end the process remove the temporary files first. */
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

/** Builds the temporary name: the file's name and a suffix that no other process uses, on any host.
 * Returns false if it is too long. */
static bool make_name(struct outfile *file)
{
    int length = snprintf(file->beside, sizeof file->beside, "%s.tmp-%ld-%llu", file->target,
                          (long)getpid(), (unsigned long long)kolo_now_ns());
    if (length < (int)sizeof file->beside)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/** @p give creates a file of the name file->beside, and returns 0, or -1 and errno. Returns false
 * on failure, with errno. */
static bool take_name(struct outfile *file, int (*give)(struct outfile *file))
{
    int given = -1;
    watch_signals();
    errno = EEXIST;
    for (int i = 0; i < NAMES && given != 0 && errno == EEXIST && make_name(file); i++) {
        file->next = named;
        file->is_named = true;
        named = file; /* first, since a signal may come in between */
        given = give(file);
        int cause = errno;
        if (given != 0)
            forget_name(file);
        errno = cause;
    }
    return given == 0;
}

/* ---- opening ---- */

/** Writes the folder of @p path into @p text, which must have room for it; "." if it names none. */
static const char *folder_of(const char *path, char *text)
{
    const char *slash = strrchr(path, '/'); /* "/x" is in "/" */
    if (!slash)
        return ".";
    memcpy(text, path, (size_t)(slash - path) + 1);
    text[slash - path + 1] = '\0';
    return text;
}

/** Whether the link @p link is in /proc. Such a link leads to a file descriptor's file, whatever
 * name that has. */
static bool is_descriptor(const char *link)
{
    char folder[PATH_BYTES];
    struct statfs facts;
    return statfs(folder_of(link, folder), &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

/** The path that is meant: "-" stands for standard output. */
static const char *meant_by(const char *path)
{
    return strcmp(path, "-") == 0 ? "/dev/stdout" : path;
}

/** Writes into @p target the path that writing to @p path would write to: the end of a chain of
 * links, whether or not it exists, or a link that leads to a descriptor. Returns false on failure,
 * with errno. */
static bool follow(const char *path, char target[PATH_BYTES])
{
    char link[PATH_BYTES], folder[PATH_BYTES];
    bool fits = (size_t)snprintf(target, PATH_BYTES, "%s", path) < PATH_BYTES;
    for (int i = 0; fits; i++) {
        ssize_t bytes = readlink(target, link, sizeof link);
        if (bytes < 0 || is_descriptor(target))
            return true; /* not a link; if something else is wrong, opening it will say so */
        fits = (size_t)bytes < sizeof link;
        if (!fits)
            break;
        link[bytes] = '\0';
        if (i == LINKS_MAX) {
            errno = ELOOP;
            return false;
        }
        const char *from = link[0] == '/' ? "" : folder_of(target, folder);
        fits = (size_t)snprintf(target, PATH_BYTES, "%s%s%s", from, *from ? "/" : "", link) <
               PATH_BYTES;
    }
    errno = ENAMETOOLONG;
    return false;
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

/** Whether both paths name the same file, whether or not it exists. */
static bool are_same(const char *first, const char *second)
{
    char a[PATH_BYTES], b[PATH_BYTES], folder[PATH_BYTES];
    if (!follow(meant_by(first), a) || !follow(meant_by(second), b))
        return false;
    struct stat facts[2];
    bool is_there[2] = {stat(a, &facts[0]) == 0, stat(b, &facts[1]) == 0};
    if (is_there[0] && is_there[1])
        return is_one(&facts[0], &facts[1]) && !S_ISCHR(facts[0].st_mode);
    if (is_there[0] || is_there[1] || strcmp(last_part(a), last_part(b)) != 0)
        return false;
    return stat(folder_of(a, folder), &facts[0]) == 0 &&
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
                             "%s %s: that is %s, which is an input; name another file", option,
                             path, read[i]);
    return KOLO_OK;
}

/** Whether what is at the place of @p file, with the attributes @p facts, must not be replaced: it
 * is not a regular file, or other output goes to it, or it is the file of a descriptor
 * (/dev/fd/3). */
static bool must_stay(const struct outfile *file, const struct stat *facts)
{
    struct stat other;
    if (!S_ISREG(facts->st_mode))
        return true;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &other) == 0 && is_one(&other, facts))
            return true;
    return lstat(file->target, &other) == 0 && S_ISLNK(other.st_mode);
}

/** The path by which a file without a name can be linked to one. */
static const char *by_descriptor(int fd, char text[PROC_MAX])
{
    snprintf(text, PROC_MAX, "/proc/self/fd/%d", fd);
    return text;
}

/** Opens a file without a name in the folder of its path, to be named later; -1 if that is not
 * possible, for whatever reason. */
static int open_nameless(struct outfile *file)
{
    char proc[PROC_MAX];
    struct stat there;
    if (outfile_has_names_only || !make_name(file) || *last_part(file->target) == '\0' ||
        (lstat(file->beside, &there) != 0 && errno != ENOENT))
        return -1;
    int fd = open(folder_of(file->target, file->beside), O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
    if (fd >= 0 && access(by_descriptor(fd, proc), F_OK) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int create_beside(struct outfile *file)
{
    file->fd = open(file->beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    return file->fd >= 0 ? 0 : -1;
}

/** Gives a new file the owner, the group and the mode of the one that it replaces, as far as
 * permitted. If it cannot have that group, its group gets no more rights than others. */
static void inherit(const struct outfile *file, const struct stat *old)
{
    const mode_t group = 070;
    mode_t mode = old->st_mode & KEPT_MODE;
    struct stat new;
    const int fd = file->fd;
    if (fstat(fd, &new) == 0 && new.st_gid != old->st_gid &&
        fchown(fd, (uid_t)-1, old->st_gid) != 0)
        mode &= ~group | mode << 3;
    if (fstat(fd, &new) == 0 && new.st_uid != old->st_uid)
        (void)!fchown(fd, old->st_uid, (gid_t)-1);
    (void)!fchmod(fd, mode);
}

static void open_apart(struct outfile *file)
{
    file->fd = open_nameless(file);
    if (file->fd < 0)
        (void)take_name(file, create_beside);
}

/** Returns a file that nobody can find, of which nothing stays; -1 and errno on failure. */
static int open_temporary(void)
{
    FILE *stream = tmpfile();
    if (!stream)
        return -1;
    const int fd = fcntl(fileno(stream), F_DUPFD_CLOEXEC, 0), cause = errno;
    (void)fclose(stream);
    errno = cause;
    return fd;
}

/** Whether @p error says that a name may not be made, or not be replaced. The file that has the
 * name may be writable even so. */
static bool is_about_names(int error)
{
    return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

/** Opens what shall become the contents of @p file, which has the attributes @p old; NULL: does not
 * exist. Without a descriptor, errno says why. */
static void open_new(struct outfile *file, const struct stat *old)
{
    open_apart(file);
    if (file->fd >= 0 && old) {
        inherit(file, old);
    } else if (file->fd < 0 && old && is_about_names(errno)) {
        file->is_copied = true;
        file->fd = open_temporary();
    }
}

/** Writes all of it, or keeps the reason in the file and returns how much was written. */
static ssize_t write_all(void *cookie, const char *data, size_t bytes)
{
    struct outfile *file = cookie;
    size_t done = 0;
    while (done < bytes) {
        const ssize_t written = write(file->fd, data + done, bytes - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            file->error = file->error != 0 ? file->error : written < 0 ? errno : EIO;
            break;
        }
        done += (size_t)written;
    }
    return (ssize_t)done;
}

/** Gives @p file a stream to its descriptor. Returns false on failure, with errno, and leaves
 * nothing. */
static bool open_stream(struct outfile *file)
{
    static const cookie_io_functions_t functions = {.write = write_all};
    if (file->fd < 0)
        return false;
    file->stream = fopencookie(file, "w", functions);
    if (file->stream && isatty(file->fd))
        (void)setvbuf(file->stream, NULL, _IOLBF, 0); /* as stdio does with what it opens */
    if (file->stream)
        return true;
    const int cause = errno;
    close(file->fd);
    if (file->is_named) {
        unlink(file->beside);
        forget_name(file);
    }
    errno = cause;
    return false;
}

kolo_status outfile_open(struct outfile *file, const char *option, const char *path)
{
    struct stat old;
    path = meant_by(path);
    *file = (struct outfile){.option = option, .path = path, .fd = -1};
    if (path[0] == '\0')
        return kolo_fail(KOLO_ERR_CONFIG, "%s '': give the name of a file", option);
    bool is_there = stat(path, &old) == 0;
    if (!is_there && errno != ENOENT) /* for example, a link that the system refuses to follow */
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
    errno = 0;
    if (is_there && S_ISREG(old.st_mode) && eaccess(path, W_OK) != 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno,
                               "%s %s may not be written; name another file, or chmod u+w it",
                               option, path);
    if (!follow(path, file->target))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
    if (is_there && must_stay(file, &old)) {
        file->is_in_place = true;
        file->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, MODE);
    } else {
        open_new(file, is_there ? &old : NULL);
    }
    return open_stream(file) ? KOLO_OK
                             : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
}

/* ---- closing ---- */

static int link_beside(struct outfile *file)
{
    char proc[PROC_MAX];
    return linkat(AT_FDCWD, by_descriptor(file->fd, proc), AT_FDCWD, file->beside,
                  AT_SYMLINK_FOLLOW);
}

/** Whether there is room for @p bytes in the file @p fd, as far as can be known; it keeps its
 * contents. Returns false with errno. */
static bool has_room(int fd, off_t bytes)
{
    struct stat old;
    if (fstat(fd, &old) != 0)
        return false;
    if (bytes <= old.st_size || fallocate(fd, 0, 0, bytes) == 0)
        return true;
    int cause = errno;
    (void)!ftruncate(fd, old.st_size);
    errno = cause;
    return cause != ENOSPC && cause != EDQUOT && cause != EFBIG;
}

/** Writes the first @p bytes of @p from over those of @p to, and ends @p to there. Returns false
 * with errno. */
static bool copy(int from, int to, off_t bytes)
{
    char piece[PIECE_BYTES];
    off_t at = 0;
    while (at < bytes) {
        ssize_t got = pread(from, piece, sizeof piece, at), written = 0;
        for (ssize_t done = 0; done < got && written >= 0; done += written)
            written = pwrite(to, piece + done, (size_t)(got - done), at + done);
        if (got == 0)
            errno = EIO; /* somebody has cut it off */
        if (got <= 0 || written < 0)
            return false;
        at += got;
    }
    return ftruncate(to, bytes) == 0;
}

/** Gives the file of that name the contents of a complete one. Returns false on failure, with
 * errno. */
static bool overwrite(const struct outfile *file)
{
    struct stat complete;
    int fd = open(file->target, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = fstat(file->fd, &complete) == 0 && has_room(fd, complete.st_size) &&
              copy(file->fd, fd, complete.st_size);
    int cause = errno;
    if (close(fd) != 0 && ok)
        return false;
    errno = cause;
    return ok;
}

/** Renames a complete file that has a temporary name. What cannot be replaced is overwritten. */
static bool replace(const struct outfile *file)
{
    if (rename(file->beside, file->target) == 0)
        return true;
    if (!is_about_names(errno) || !overwrite(file))
        return false;
    unlink(file->beside);
    return true;
}

/** Gives a complete file its name. Returns false on failure, with errno. */
static bool take_place(struct outfile *file)
{
    char proc[PROC_MAX];
    if (file->is_in_place)
        return true;
    if (file->is_copied)
        return overwrite(file);
    if (!file->is_named && linkat(AT_FDCWD, by_descriptor(file->fd, proc), AT_FDCWD, file->target,
                                  AT_SYMLINK_FOLLOW) == 0)
        return true;
    if (!file->is_named && (errno != EEXIST || !take_name(file, link_beside)))
        return false;
    return replace(file);
}

/** Flushes the buffer; returns false on failure, also on one before, with errno. */
static bool is_written(const struct outfile *file)
{
    if (fflush(file->stream) == 0 && !ferror(file->stream))
        return true;
    errno = file->error != 0 ? file->error : EIO;
    return false;
}

/** Writes what is left and closes the stream, but keeps a descriptor. Returns false if the file is
 * not complete, with errno. */
static bool settle(struct outfile *file)
{
    bool ok = is_written(file);
    int cause = errno;
    (void)fclose(file->stream); /* nothing is left to be written */
    file->stream = NULL;
    file->is_settled = true;
    const int open_fd = file->fd;
    file->fd = dup(open_fd); /* closing may still report that it is not complete */
    if (ok && file->fd < 0) {
        ok = false;
        cause = errno;
    }
    if (close(open_fd) != 0 && ok) {
        ok = false;
        cause = errno;
    }
    errno = cause;
    return ok;
}

/** Gives a settled file its name, if it is kept. Returns false on failure, with errno. */
static bool end(struct outfile *file, bool keep)
{
    const bool is_placed = keep && take_place(file);
    const int cause = errno;
    file->is_settled = false;
    if (file->fd >= 0)
        close(file->fd);
    if (file->is_named) {
        if (!is_placed)
            unlink(file->beside);
        forget_name(file);
    }
    errno = cause;
    return is_placed || !keep;
}

static kolo_status fail(const struct outfile *file)
{
    return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", file->option, file->path);
}

kolo_status outfile_close_all(struct outfile *const *files, size_t count, bool keep)
{
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < count; i++)
        if (files[i]->stream && !settle(files[i]) && keep && status == KOLO_OK)
            status = fail(files[i]);
    for (size_t i = 0; i < count; i++)
        if (files[i]->is_settled && !end(files[i], keep && status == KOLO_OK))
            status = fail(files[i]);
    return status;
}

kolo_status outfile_close(struct outfile *file, bool keep)
{
    return outfile_close_all(&file, 1, keep);
}

kolo_status outfile_probe(const char *option, const char *path)
{
    struct outfile file;
    struct stat facts;
    path = meant_by(path);
    if (stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode)) /* its reader would see an end */
        return eaccess(path, W_OK) == 0
                   ? KOLO_OK
                   : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
    kolo_status status = outfile_open(&file, option, path);
    (void)outfile_close(&file, false);
    return status;
}
