// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there, see outfile.h. Opened before anything is measured, so that an
// unwritable place costs no measurement. Another host's process may have the same number and a killed
// one may have left its file: then another name is taken.
#include "tools/outfile.h"

#include <errno.h>
#include <unistd.h>

enum { NAMES = 100 };

kolo_status outfile_open(struct outfile *file, const char *option, const char *path)
{
    *file = (struct outfile){.option = option, .path = path};
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
    if (ok && rename(file->beside, file->path) == 0)
        return KOLO_OK;
    int cause = errno;
    unlink(file->beside);
    return keep ? kolo_fail_errno(KOLO_ERR_SYSTEM, cause, "%s %s", file->option, file->path)
                : KOLO_OK;
}
