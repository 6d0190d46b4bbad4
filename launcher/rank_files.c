// SPDX-License-Identifier: Apache-2.0
// Makes, opens and closes the files of a job's ranks. Must never change a file that was there
// before: an earlier job's output is refused, not replaced, because what a failed job has said may
// be all that is left of it, and not appended to, because nobody could tell the two apart.
#include "launcher/rank_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/open_files.h"

enum { PATH_BYTES = 4096, STREAMS = 2, FILE_MODE = 0666, FOLDER_MODE = 0777 };
enum { OWN = 2 /* descriptors of the directory, while it is looked through */ };

static const char start[] = "rank.";
static const char *const ends[STREAMS] = {".out", ".err"};

struct kolo_rank_files {
    int size;
    size_t opened; /* number of files; file i is stream i % STREAMS of rank i / STREAMS */
    int folder;    /* descriptor of the directory; -1: none */
    int *fds;
    size_t made_from; /* length of the beginning of `path` that was missing first; 0: none was */
    const char *path;
};

void kolo_rank_files_name(int size, int rank, bool is_error, char name[KOLO_RANK_FILE_NAME_BYTES])
{
    const int digits = snprintf(NULL, 0, "%d", size - 1);
    snprintf(name, KOLO_RANK_FILE_NAME_BYTES, "%s%0*d%s", start, digits, rank, ends[is_error]);
}

static void name_of(const struct kolo_rank_files *files, size_t index,
                    char name[KOLO_RANK_FILE_NAME_BYTES])
{
    kolo_rank_files_name(files->size, (int)(index / STREAMS), index % STREAMS, name);
}

static kolo_status refuse(const struct kolo_rank_files *files, int error, const char *name)
{
    char why[KOLO_DETAIL_MAX];
    const bool is_of_place = error != EMFILE && error != ENFILE; /* the text says what to raise */
    (void)kolo_fail_errno(KOLO_ERR_CONFIG, error, "--output-dir %.512s%s%s", files->path,
                          name[0] ? "/" : "", name);
    kolo_detail_keep(why);
    return kolo_fail(KOLO_ERR_CONFIG, "%s%s", why,
                     is_of_place ? "; give a directory that can be written" : "");
}

/* Otherwise only some of the files would be made, and removed again. */
static kolo_status check_limit(const struct kolo_rank_files *files, size_t others)
{
    uintmax_t most = 0;
    const size_t needed = (size_t)files->size * STREAMS + OWN + others;
    if (kolo_open_files_allow(needed, 0, &most))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_CONFIG,
                     "--output-dir %.512s: kolorun needs %zu open files for %d ranks, and "
                     "ulimit -n is %ju at most; raise nofile in /etc/security/limits.conf",
                     files->path, needed, files->size, most);
}

/* ---- the directory ---- */

/* Makes the directory, and those above it, where they are missing, and opens it. */
static kolo_status open_folder(struct kolo_rank_files *files)
{
    char text[PATH_BYTES];
    int error = 0;
    const size_t length = strlen(files->path);
    if (length >= sizeof text)
        return refuse(files, ENAMETOOLONG, "");
    memcpy(text, files->path, length + 1);
    for (size_t end = 1; end <= length; end++) {
        if (files->path[end] != '/' && files->path[end] != '\0')
            continue;
        text[end] = '\0';
        if (mkdir(text, FOLDER_MODE) == 0)
            files->made_from = files->made_from ? files->made_from : end;
        else if (errno != EEXIST && error == 0)
            error = errno; /* why it is missing, if it is; for what is below, the reason is that */
        text[end] = files->path[end];
    }
    files->folder = open(files->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return files->folder < 0 ? refuse(files, error ? error : errno, "") : KOLO_OK;
}

/* Removes the directories that open_folder has made, unless somebody has put something there. */
static void remove_folders(const struct kolo_rank_files *files)
{
    char text[PATH_BYTES];
    size_t end = strlen(files->path);
    memcpy(text, files->path, end + 1);
    for (; end >= files->made_from; end--)
        if (text[end] == '/' || text[end] == '\0') {
            text[end] = '\0';
            (void)rmdir(text);
        }
}

static bool is_name_of_a_rank(const char *name)
{
    if (strncmp(name, start, sizeof start - 1) != 0)
        return false;
    const char *digits = name + sizeof start - 1;
    const char *end = digits + strspn(digits, "0123456789");
    return end > digits && (strcmp(end, ends[0]) == 0 || strcmp(end, ends[1]) == 0);
}

/* Whether the file of a rank with this name is one that was opened. */
static bool is_own(const struct kolo_rank_files *files, const char *name)
{
    char own[KOLO_RANK_FILE_NAME_BYTES];
    const unsigned long rank = strtoul(name + sizeof start - 1, NULL, 10);
    for (size_t i = 0; i < STREAMS && rank < files->opened / STREAMS; i++) {
        name_of(files, rank * STREAMS + i, own);
        if (strcmp(name, own) == 0)
            return true;
    }
    return false;
}

static kolo_status refuse_earlier(const struct kolo_rank_files *files, const char *name)
{
    return kolo_fail(
        KOLO_ERR_CONFIG,
        "--output-dir %.512s: there is %s of an earlier job; give another directory, or "
        "remove that job's files",
        files->path, name);
}

/* Also files of ranks that this job does not have: they would seem to be this job's. */
static kolo_status look_for_earlier(const struct kolo_rank_files *files)
{
    char first[KOLO_RANK_FILE_NAME_BYTES] = "";
    DIR *folder = opendir(files->path);
    if (!folder)
        return refuse(files, errno, "");
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (is_name_of_a_rank(entry->d_name) && !is_own(files, entry->d_name) &&
            strlen(entry->d_name) < sizeof first && (!first[0] || strcmp(entry->d_name, first) < 0))
            memcpy(first, entry->d_name, strlen(entry->d_name) + 1);
    (void)closedir(folder);
    return first[0] ? refuse_earlier(files, first) : KOLO_OK;
}

/* On a full disk files can be made, but not written. Not all file systems say how full they are.
 * What is kept for root is of no use to others. */
static kolo_status check_room(const struct kolo_rank_files *files)
{
    struct statvfs facts;
    if (fstatvfs(files->folder, &facts) != 0 || facts.f_blocks == 0)
        return KOLO_OK;
    const fsblkcnt_t room = geteuid() == 0 ? facts.f_bfree : facts.f_bavail;
    return room == 0 ? refuse(files, ENOSPC, "") : KOLO_OK;
}

/* ---- the files ---- */

static kolo_status open_files(struct kolo_rank_files *files)
{
    while (files->opened < (size_t)files->size * STREAMS) {
        char name[KOLO_RANK_FILE_NAME_BYTES];
        name_of(files, files->opened, name);
        const int fd =
            openat(files->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
        if (fd < 0) /* EEXIST: of another job that starts at this moment */
            return errno == EEXIST ? refuse_earlier(files, name) : refuse(files, errno, name);
        files->fds[files->opened++] = fd;
    }
    return KOLO_OK;
}

kolo_status kolo_rank_files_create(const char *directory, int size, size_t others,
                                   struct kolo_rank_files **files_out)
{
    char why[KOLO_DETAIL_MAX];
    kolo_status status = KOLO_OK;
    struct kolo_rank_files *files = kolo_calloc(1, sizeof *files);
    if (!files)
        return KOLO_ERR_NO_MEMORY;
    *files = (struct kolo_rank_files){.size = size, .folder = -1, .path = directory};
    files->fds = kolo_calloc((size_t)size * STREAMS, sizeof files->fds[0]);
    if (!files->fds) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    KOLO_TRY(check_limit(files, others));
    KOLO_TRY(open_folder(files));
    KOLO_TRY(look_for_earlier(files));
    KOLO_TRY(check_room(files));
    KOLO_TRY(open_files(files));
    /* again: a job that starts at this moment may have other digits, or more ranks */
    status = look_for_earlier(files);
out:
    if (status == KOLO_OK) {
        *files_out = files;
        return KOLO_OK;
    }
    kolo_detail_keep(why);
    (void)kolo_rank_files_close(files, false);
    kolo_detail_set(why);
    return status;
}

bool kolo_rank_files_claim(const char *directory, const char *path)
{
    char text[PATH_BYTES] = ".";
    struct stat own, other;
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (!is_name_of_a_rank(path + length) || length >= sizeof text)
        return false;
    memcpy(text, path, length);
    text[length > 0 ? length : 1] = '\0';
    return stat(directory, &own) == 0 && stat(text, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

int kolo_rank_files_fd(const struct kolo_rank_files *files, int rank, bool is_error)
{
    return files->fds[(size_t)rank * STREAMS + is_error];
}

kolo_status kolo_rank_files_end(struct kolo_rank_files *files, int rank, bool is_error)
{
    const size_t index = (size_t)rank * STREAMS + is_error;
    char name[KOLO_RANK_FILE_NAME_BYTES];
    const int fd = files->fds[index];
    files->fds[index] = -1;
    if (fd < 0 || close(fd) == 0 || errno == EINTR)
        return KOLO_OK;
    const int error = errno;
    name_of(files, index, name);
    return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "--output-dir %s/%s", files->path, name);
}

kolo_status kolo_rank_files_close(struct kolo_rank_files *files, bool keep)
{
    char why[KOLO_DETAIL_MAX] = "";
    if (!files)
        return KOLO_OK;
    for (size_t i = 0; i < files->opened; i++) {
        char name[KOLO_RANK_FILE_NAME_BYTES];
        name_of(files, i, name);
        if (kolo_rank_files_end(files, (int)(i / STREAMS), i % STREAMS) != KOLO_OK && keep &&
            !why[0])
            kolo_detail_keep(why);
        if (!keep)
            (void)unlinkat(files->folder, name, 0);
    }
    if (files->folder >= 0)
        close(files->folder);
    if (!keep && files->made_from > 0)
        remove_folders(files);
    kolo_free_memory(files->fds);
    kolo_free_memory(files);
    if (why[0])
        kolo_detail_set(why);
    return why[0] ? KOLO_ERR_SYSTEM : KOLO_OK;
}
