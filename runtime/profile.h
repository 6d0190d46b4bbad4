// SPDX-License-Identifier: Apache-2.0
// Profiles: the figures by which plans are chosen, as lines "name number" in a file.
#ifndef KOLO_RUNTIME_PROFILE_H
#define KOLO_RUNTIME_PROFILE_H

#include <stdio.h>

#include "base/status.h"
#include "runtime/cost.h"

enum {
    KOLO_PROFILE_MAX = 8192, /* bytes of a profile, with the 0 at its end */
    /** What the figures mean; a profile of another version is refused. One that says none is
     * taken. */
    KOLO_PROFILE_VERSION = 1
};

/** Takes a profile's text: lines "path.field number" and "field number", # begins a comment; what
 * is not named keeps its value. ERR_CONFIG names file (@p path), line and what is wrong; nothing is
 * changed then. */
kolo_status kolo_figures_parse(struct kolo_figures *figures, const char *text,
                               const char *path) KOLO_NODISCARD;
/** Reads the file of a profile, not looking at what it says. ERR_CONFIG. */
kolo_status kolo_figures_read(const char *path, char *text, size_t capacity) KOLO_NODISCARD;
/** Writes what kolo_figures_parse takes. */
void kolo_figures_write(const struct kolo_figures *figures, FILE *out);

/** Where the profile of this host is saved: kolo/profile-HOST in XDG_CACHE_HOME or ~/.cache. False
 * (and ""): the environment names no such place. */
bool kolo_profile_place(char *path, size_t capacity);

/** Where figures came from; "": they are the built-in ones. */
struct kolo_profile_source {
    char path[4096];
};
/** The figures that KOLO_PROFILE = @p setting asks for, and the text of KOLO_PROFILE_MAX bytes that
 * says the same: of a file, ERR_CONFIG if it is not one; "auto": of the one saved on this host, or
 * built in if there is none or it is of no use (a warning); "none": built in. */
kolo_status kolo_profile_load(const char *setting, struct kolo_figures *figures, char *text,
                              struct kolo_profile_source *source) KOLO_NODISCARD;

#endif
