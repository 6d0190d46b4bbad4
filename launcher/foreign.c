// SPDX-License-Identifier: Apache-2.0
// The options of other launchers that people type by habit. Must not list an option that kolorun
// has. A beginning of one that is listed is no abbreviation any more: --output of srun was taken as
// --output-dir.
#include "launcher/foreign.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define RANKS_OF_A_HOST "the number of ranks of each host is -H HOST:SLOTS,..."
#define RANKS "the number of ranks is -np N"
#define DIRECTORY "the directory is --chdir DIR"
#define HOSTS "the hosts are -H HOST:SLOTS,... or --hostfile FILE"
#define VARIABLE "a variable is passed by -x NAME or -x NAME=VALUE"
#define MEET "the ranks of all hosts are started here and meet by themselves: leave it out"
#define FILES "files with each rank's output are made by --output-dir DIR"
#define PREFIX "every line begins with its rank already, unless --no-prefix is given"

/* torchrun's options are written with - or _, which count as the same. */
static const char *const advice[][2] = {
    {"c", RANKS ", and " DIRECTORY},
    {"num-proc", RANKS},
    {"ntasks", RANKS},
    {"N", RANKS_OF_A_HOST},
    {"npernode", RANKS_OF_A_HOST},
    {"ppn", RANKS_OF_A_HOST},
    {"perhost", RANKS_OF_A_HOST},
    {"nproc-per-node", RANKS_OF_A_HOST},
    {"ntasks-per-node", RANKS_OF_A_HOST},
    {"nnodes", HOSTS},
    {"nodes", HOSTS},
    {"w", HOSTS},
    {"nodelist", HOSTS},
    {"f", HOSTS},
    {"machinefile", HOSTS},
    {"D", DIRECTORY},
    {"wd", DIRECTORY},
    {"wdir", DIRECTORY},
    {"t", "the time limit is --timeout TIME"},
    {"o", FILES},
    {"output", FILES},
    {"output-filename", FILES},
    {"log-dir", FILES},
    {"redirects", "only the files are written with --output-dir DIR --no-copy"},
    {"distribution", "ranks are placed on hosts in turn by --map-by node"},
    {"l", PREFIX},
    {"label", PREFIX},
    {"tag-output", PREFIX},
    {"prepend-rank", PREFIX},
    {"genv", VARIABLE},
    {"genvlist", VARIABLE},
    {"export", VARIABLE},
    {"mca", "a setting of kolo is given by --set NAME=VALUE"},
    {"allow-run-as-root", "root needs no permission here: leave it out"},
    {"no-python", "any program is started as it is: leave it out"},
    {"standalone", MEET},
    {"node-rank", MEET},
    {"master-addr", MEET},
    {"master-port", MEET},
    {"rdzv-endpoint", MEET},
    {"rdzv-backend", MEET},
};

/* Is @p typed, up to its end or '=', the name @p name? After a letter also a digit ends it: the
 * value of -N2 or -t10:00 is attached. */
static bool is_called(const char *typed, const char *name)
{
    const bool is_letter = name[1] == '\0';
    for (; *name; typed++, name++)
        if (*typed != *name && !(*typed == '_' && *name == '-'))
            return false;
    return *typed == '\0' || *typed == '=' || (is_letter && isdigit((unsigned char)*typed));
}

const char *kolo_foreign_advice(const char *word)
{
    const char *typed = word + strspn(word, "-");
    for (size_t i = 0; i < sizeof advice / sizeof advice[0]; i++)
        if (is_called(typed, advice[i][0]))
            return advice[i][1];
    return NULL;
}
