// SPDX-License-Identifier: Apache-2.0
// Determines to which rank a process that outlives it belongs: by KOLO_RANK in its initial
// environment, which every descendant inherits. Must never end a process, or wait.
//
// Whether a process uses kolo is seen from its mappings. One that is statically linked with libkolo
// is known as soon as it calls kolo_init (launcher/job_ranks.c).
#include "launcher/strays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "launcher/spawn.h"

struct search {
    const struct kolo_ranks *ranks;
    struct kolo_stray *strays;
};

static FILE *open_fact(pid_t pid, const char *fact)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, fact);
    return fopen(path, "re");
}

/* -1: it has none, or may not be read. */
static long rank_of(pid_t pid)
{
    static const char variable[] = "KOLO_RANK=";
    char entry[32];
    size_t used = 0;
    long rank = -1;
    FILE *file = open_fact(pid, "environ");
    for (int c; file && rank < 0 && (c = getc(file)) != EOF;) {
        if (used < sizeof entry - 1)
            entry[used++] = (char)c;
        if (c != '\0')
            continue;
        entry[used] = '\0';
        if (strncmp(entry, variable, sizeof variable - 1) == 0)
            rank = strtol(entry + sizeof variable - 1, NULL, 10);
        used = 0;
    }
    if (file)
        fclose(file);
    return rank;
}

static bool has_library(pid_t pid)
{
    char line[4096];
    bool found = false;
    FILE *file = open_fact(pid, "maps");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, "/libkolo.so") != NULL;
    if (file)
        fclose(file);
    return found;
}

static void look_at(void *context, pid_t pid, const char *name)
{
    struct search *search = context;
    const long rank = rank_of(pid);
    uint32_t place;
    if (rank < 0 || rank > UINT32_MAX || !kolo_ranks_find(search->ranks, (uint32_t)rank, &place))
        return;
    struct kolo_stray *stray = &search->strays[place];
    if (stray->is_of_kolo)
        return;
    const bool is_of_kolo = has_library(pid);
    if (stray->pid != 0 && !is_of_kolo)
        return;
    stray->pid = (uint32_t)pid;
    stray->is_of_kolo = is_of_kolo;
    snprintf(stray->name, sizeof stray->name, "%s", name);
}

void kolo_strays_find(pid_t root, const struct kolo_ranks *ranks, struct kolo_stray *strays)
{
    struct search search = {.ranks = ranks, .strays = strays};
    for (uint32_t i = 0; i < ranks->count; i++)
        strays[i] = (struct kolo_stray){.rank = ranks->at[i]};
    kolo_tree_visit(root, look_at, &search);
}

void kolo_stray_write(struct kolo_writer *writer, const struct kolo_stray *stray)
{
    kolo_write_u32(writer, stray->rank);
    kolo_write_u32(writer, stray->pid);
    kolo_write_u8(writer, stray->is_of_kolo);
    kolo_write_text(writer, stray->name);
}

kolo_status kolo_stray_read(struct kolo_reader *reader, struct kolo_stray *stray_out)
{
    struct kolo_stray stray = {.rank = kolo_read_u32(reader), .pid = kolo_read_u32(reader)};
    stray.is_of_kolo = kolo_read_u8(reader) != 0;
    kolo_read_text(reader, stray.name, sizeof stray.name);
    kolo_text_clean(stray.name);
    kolo_status status = kolo_reader_finish(reader, "an agent's STRAY");
    if (status == KOLO_OK)
        *stray_out = stray;
    return status;
}
