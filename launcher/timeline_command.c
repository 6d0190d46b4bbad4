// SPDX-License-Identifier: Apache-2.0
// `kolorun timeline FILE... -o OUT`: merges the files that ranks have written by
// KOLO_TIMELINE=FILE.
#include "launcher/timeline_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "launcher/fetch.h"
#include "launcher/scribe.h"
#include "launcher/trace.h"
#include "tools/exit_status.h"
#include "tools/outfile.h"

struct words {
    const char *out;
    const char **files;
    size_t count;
};

static kolo_status take_words(int count, char *const *words, struct words *taken)
{
    for (int i = 0; i < count; i++) {
        const bool is_out = strcmp(words[i], "-o") == 0;
        if (is_out && (i + 1 == count || taken->out))
            return kolo_fail(KOLO_ERR_INVALID, "timeline: -o takes the name of one file; give -o "
                                               "OUT.json");
        if (is_out)
            taken->out = words[++i];
        else if (words[i][0] == '-' && words[i][1] != '\0')
            return kolo_fail(KOLO_ERR_INVALID,
                             "timeline: unknown option '%s'; usage: kolorun timeline FILE... -o "
                             "OUT.json",
                             words[i]);
        else
            taken->files[taken->count++] = words[i];
    }
    if (taken->count == 0 || !taken->out)
        return kolo_fail(KOLO_ERR_INVALID,
                         "timeline: %s; usage: kolorun timeline FILE... -o "
                         "OUT.json",
                         taken->count == 0 ? "no file is given" : "-o is missing");
    return KOLO_OK;
}

/** Does not wait for something that is not a file, such as a pipe. */
static FILE *open_file(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        (void)close(fd);
    return file;
}

/** Copies the file, which a rank may be writing. */
static kolo_status read_file(const char *path, void **data_out, size_t *bytes_out)
{
    const size_t most = kolo_timeline_bytes(KOLO_TIMELINE_CALLS_MAX);
    struct stat facts;
    void *data = NULL;
    kolo_status status = KOLO_OK;
    FILE *file = open_file(path);
    if (!file)
        return kolo_fail_errno(KOLO_ERR_INVALID, errno, "timeline: %s", path);
    if (fstat(fileno(file), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        (size_t)facts.st_size > most) {
        status = kolo_fail(
            KOLO_ERR_INVALID,
            "timeline: %s is not a timeline file; give files that KOLO_TIMELINE=FILE has made",
            path);
        goto out;
    }
    data = kolo_calloc((size_t)facts.st_size + 1, 1);
    if (!data) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    *bytes_out = fread(data, 1, (size_t)facts.st_size, file);
    *data_out = data;
    if (ferror(file)) {
        status = kolo_fail_errno(KOLO_ERR_INVALID, errno, "timeline: read %s", path);
        kolo_free_memory(data);
    }
out:
    (void)fclose(file);
    return status;
}

/** One file that is read, and the one that is written, which must be another. */
struct pair {
    const char *out, *path;
};

static kolo_status read_pair(const void *context, void **data_out, size_t *bytes_out)
{
    const struct pair *pair = context;
    kolo_status status = outfile_spares("-o", pair->out, &pair->path, 1);
    return status == KOLO_OK ? read_file(pair->path, data_out, bytes_out) : status;
}

static kolo_status add_file(struct kolo_trace *trace, const struct pair *pair, int64_t limit_ms)
{
    const char *path = pair->path;
    char why[KOLO_DETAIL_MAX], what[KOLO_DETAIL_MAX];
    void *data = NULL;
    size_t bytes = 0;
    snprintf(what, sizeof what, "timeline: %.512s", path);
    kolo_status status = kolo_fetch(
        &(struct kolo_fetch){
            .what = what, .limit_ms = limit_ms, .read = read_pair, .context = pair},
        &data, &bytes);
    if (status != KOLO_OK)
        return status;
    status = kolo_trace_add(trace, -1, data, bytes);
    if (status != KOLO_ERR_DATA)
        return status;
    kolo_detail_keep(why);
    return kolo_fail(status,
                     "timeline: %s: %s; give the files that KOLO_TIMELINE=FILE has made in one job",
                     path, why);
}

static void say(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "kolorun: %s\n", line);
}

/** Names the lowest rank of which there is no file. */
static void say_missing(const struct kolo_trace *trace)
{
    int lowest = 0;
    while ((size_t)lowest < trace->track_count && trace->tracks[lowest].rank == lowest)
        lowest++;
    if (lowest < trace->size)
        fprintf(stderr,
                "kolorun: timeline: there are files of %zu of %d ranks; give that of rank %d%s "
                "too: how long others waited for them is not known\n",
                trace->track_count, trace->size, lowest,
                trace->track_count + 1 < (size_t)trace->size ? " and the others" : "");
}

static kolo_status write_out(const struct kolo_trace *trace, const char *out,
                             const struct kolo_settings *settings)
{
    const struct kolo_scribe_place place = {.option = "-o",
                                            .path = out,
                                            .open_limit = "KOLO_START_TIMEOUT",
                                            .open_limit_ms = settings->start_timeout_ms,
                                            .write_limit_ms = settings->exit_timeout_ms};
    struct kolo_scribe *scribe = NULL;
    kolo_status status = kolo_scribe_open(&place, &scribe);
    if (status != KOLO_OK)
        return status;
    fprintf(kolo_scribe_stream(scribe), "{");
    status = kolo_trace_write(trace, "", kolo_scribe_stream(scribe));
    const kolo_status closed = kolo_scribe_close(scribe, status == KOLO_OK);
    return status == KOLO_OK ? closed : status;
}

static kolo_status merge(const struct words *words, struct kolo_trace *trace)
{
    struct kolo_settings settings;
    kolo_status status = KOLO_OK;
    kolo_settings_init(&settings);
    KOLO_TRY(kolo_settings_load(&settings, NULL, NULL, NULL));
    for (size_t i = 0; i < words->count; i++)
        KOLO_TRY(add_file(trace, &(struct pair){.out = words->out, .path = words->files[i]},
                          settings.start_timeout_ms));
    KOLO_TRY(kolo_trace_merge(trace));
    KOLO_TRY(write_out(trace, words->out, &settings));
    kolo_trace_summary(trace, words->out, say, NULL);
    say_missing(trace);
out:
    return status;
}

int kolo_timeline_command(int count, char *const *words)
{
    if (count == 1 && (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0))
        return printf("usage: kolorun timeline FILE... -o OUT.json\n"
                      "Merges the files that the ranks of one job wrote by KOLO_TIMELINE=FILE\n"
                      "into one trace for Perfetto.\n") < 0 ||
                       fflush(stdout) != 0
                   ? EXIT_STATUS_FAILED
                   : 0;
    struct kolo_trace trace = {.size = 0};
    struct words taken = {.files = kolo_calloc((size_t)count + 1, sizeof(char *))};
    kolo_status status = taken.files ? take_words(count, words, &taken) : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = merge(&taken, &trace);
    if (status != KOLO_OK)
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
    kolo_trace_fini(&trace);
    kolo_free_memory(taken.files);
    if (status == KOLO_ERR_INVALID || status == KOLO_ERR_DATA)
        return EXIT_STATUS_REFUSED;
    return exit_status_of(status);
}
