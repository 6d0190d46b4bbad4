// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there, see outfile.h. Opened before anything is measured, so that an
// unwritable place costs no measurement. Another host's process may have the same number and a killed
// one may have left its file: then another name is taken. A device, a pipe or what standard output goes
// to is written in place: renaming something onto it would put a file where /dev/null was.
#include "tools/outfile.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES = 100 };

/** There is something at @p path that no file may take the place of. */
static bool must_stay(const char *path)
{
    struct stat there, output;
    if (stat(path, &there) != 0)
        return false;
    return !S_ISREG(there.st_mode) ||
           (fstat(STDOUT_FILENO, &output) == 0 && output.st_dev == there.st_dev &&
            output.st_ino == there.st_ino);
}

kolo_status outfile_open(struct outfile *file, const char *option, const char *path)
{
    *file = (struct outfile){.option = option, .path = path};
    errno = 0;
    if (must_stay(path)) {
        file->is_in_place = true;
        file->stream = fopen(path, "ae");
        return file->stream ? KOLO_OK
                            : kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
    }
    for (unsigned n = 0; n < NAMES && !file->stream && (n == 0 || errno == EEXIST); n++) {
        int length =
            snprintf(file->beside, sizeof file->beside, "%s.tmp-%ld-%u", path, (long)getpid(), n);
        if (length >= (int)sizeof file->beside)
            return kolo_fail(KOLO_ERR_INVALID, "%s %s: the path is too long", option, path);
        file->stream = fopen(file->beside, "wxe");
    }
    if (!file->stream)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
    return KOLO_OK;
}

kolo_status outfile_close(struct outfile *file, bool keep)
{
    if (!file->stream)
        return KOLO_OK;
    errno = 0;
    bool ok = keep && fflush(file->stream) == 0 && !ferror(file->stream);
    ok = fclose(file->stream) == 0 && ok;
    file->stream = NULL;
    if (ok && (file->is_in_place || rename(file->beside, file->path) == 0))
        return KOLO_OK;
    int cause = errno;
    if (!file->is_in_place)
        unlink(file->beside);
    return keep ? kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "%s %s", file->option, file->path)
                : KOLO_OK;
}
