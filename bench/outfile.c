// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there, see outfile.h. Opened before anything is measured, so that an
// unwritable place costs no measurement.
#include "bench/outfile.h"

#include <errno.h>
#include <unistd.h>

kolo_status bench_outfile_open(struct bench_outfile *file, const char *option, const char *path)
{
    *file = (struct bench_outfile){.option = option, .path = path};
    int length = snprintf(file->beside, sizeof file->beside, "%s.tmp-%ld", path, (long)getpid());
    if (length >= (int)sizeof file->beside)
        return kolo_fail(KOLO_ERR_INVALID, "%s %s: the path is too long", option, path);
    file->stream = fopen(file->beside, "wxe");
    if (!file->stream)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%s %s", option, path);
    return KOLO_OK;
}

kolo_status bench_outfile_close(struct bench_outfile *file, bool keep)
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
