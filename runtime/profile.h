// SPDX-License-Identifier: Apache-2.0
// Profiles: files with the figures by which plans are chosen, as lines "name number".
#ifndef KOLO_RUNTIME_PROFILE_H
#define KOLO_RUNTIME_PROFILE_H

#include <stdio.h>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/cost.h"

enum {
    KOLO_PROFILE_MAX = 8192, /* bytes of a profile, including the terminating 0 */
    /** The version of the figures' meaning. A profile of another version is refused; one without a
     * version is accepted. */
    KOLO_PROFILE_VERSION = 1
};

/** Reads the text of a profile into @p figures: lines "path.field number" and "field number"; #
 * begins a comment. Figures that are not named keep their values. ERR_CONFIG: the detail names the
 * file (@p path), the line and what is wrong, and nothing is changed. */
kolo_status kolo_figures_parse(struct kolo_figures *figures, const char *text,
                               const char *path) KOLO_NODISCARD;
/** Reads the file of a profile without interpreting it, into @p text of @p capacity bytes with the
 * terminating 0. ERR_CONFIG: it cannot be read, or is no such text; ERR_TIMEOUT: its file system
 * does not answer by @p deadline; ERR_NO_MEMORY; ERR_SYSTEM. @p text is then "". */
kolo_status kolo_figures_read(const char *path, char *text, size_t capacity,
                              kolo_deadline deadline) KOLO_NODISCARD;
/** Writes a text that kolo_figures_parse accepts. */
void kolo_figures_write(const struct kolo_figures *figures, FILE *out);

/** The path of this host's saved profile: kolo/profile-HOST in XDG_CACHE_HOME or ~/.cache. False,
 * and "": the environment names no such folder. */
bool kolo_profile_place(char *path, size_t capacity);

/** Where figures came from; "": built in. */
struct kolo_profile_source {
    char path[4096];
};
/** The figures for KOLO_PROFILE = @p setting, and in @p text, of KOLO_PROFILE_MAX bytes, the same
 * as text. A file: ERR_CONFIG if it is not a profile, else as kolo_figures_read. "auto": the
 * profile saved on this host, or the built-in figures if there is none or it is unusable (with a
 * warning). "none": the built-in figures. A file system that does not answer is waited for during
 * half of the time until @p deadline. */
kolo_status kolo_profile_load(const char *setting, kolo_deadline deadline,
                              struct kolo_figures *figures, char *text,
                              struct kolo_profile_source *source) KOLO_NODISCARD;

#endif
