// SPDX-License-Identifier: Apache-2.0
// kolorun's command line. One table defines both the parser and the help.
#ifndef KOLO_LAUNCHER_OPTIONS_H
#define KOLO_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/settings.h"
#include "launcher/frames.h"

/** What the command line asks for. */
enum kolo_command {
    KOLO_COMMAND_RUN,
    KOLO_COMMAND_DOCTOR, /* options as for a run, but a program is not needed */
    KOLO_COMMAND_HELP,
    KOLO_COMMAND_VERSION,
    KOLO_COMMAND_HELP_SETTINGS,
    KOLO_COMMAND_PRINT_SETTINGS
};

struct kolo_options {
    enum kolo_command command;
    int np;            /* 0: not given */
    const char *hosts; /* -H */
    const char *hostfile;
    const char *agent; /* path of kolorun on the other hosts */
    const char *chdir;
    const char *json;          /* file of the doctor's report */
    const char *timeline;      /* file of the trace */
    const char *output_dir;    /* of the files with the output of ranks */
    struct kolo_texts forward; /* -x: NAME=VALUE */
    enum kolo_bind bind;
    int gpus; /* devices that each rank sees; 0: not given */
    bool oversubscribe, in_turn, no_prefix, no_fold, no_input, no_copy, keep_going, verbose,
        dry_run;
    char *const *program; /* argv of the program, NULL-terminated */
    struct kolo_settings settings;
};

/** Reads @p argv (without the program's own name; "doctor" as the first word asks for that) and the
 * KOLO_* variables of @p environ (NULL: this process's environment). @p unknown is called for
 * KOLO_* variables that are not settings.
 *  @return KOLO_OK; ERR_INVALID, ERR_CONFIG or ERR_NOT_FOUND with one line that says what is wrong
 * and what to do. *options_out must be finished in every case. */
kolo_status kolo_options_parse(char *const *argv, char *const *environ,
                               void (*unknown)(void *context, const char *name,
                                               const char *nearest),
                               struct kolo_options *options_out) KOLO_NODISCARD;
/** Is this a setting that kolorun itself sets for each rank? */
bool kolo_options_is_own(enum kolo_setting_index index);
/** Standard output and error are one file, pipe or terminal. */
bool kolo_options_is_one_output(void);
/** A person at a terminal types what rank 0 reads, and sees there all that the ranks write. */
bool kolo_options_is_dialogue(const struct kolo_options *options);
/** How many calls each of @p size ranks keeps; 0: no timeline was asked for. */
uint32_t kolo_options_timeline_calls(const struct kolo_options *options, int size);
void kolo_options_fini(struct kolo_options *options);
void kolo_options_help(FILE *out);

#endif
