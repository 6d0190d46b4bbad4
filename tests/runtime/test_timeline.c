// SPDX-License-Identifier: Apache-2.0
// The ring of records: what is kept, what is dropped to make room, what a killed rank leaves, and
// what is refused of the memory and files that KOLO_TIMELINE names.
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/timeline.h"

enum { CAPACITY = 16 };

static char folder[] = "/tmp/kolo-timeline-XXXXXX";

static void settings_for(struct kolo_settings *settings, const char *value, const char *calls)
{
    kolo_settings_init(settings);
    cr_assert(kolo_settings_set(settings, "TIMELINE", value, KOLO_FROM_API) == KOLO_OK);
    cr_assert(kolo_settings_set(settings, "TIMELINE_CALLS", calls, KOLO_FROM_API) == KOLO_OK);
}

/** Opens a timeline for rank @p rank of 4, in a file in a new folder; *path_out is its name. */
static struct kolo_timeline *open_file(int rank, char path_out[64])
{
    struct kolo_settings settings;
    struct kolo_timeline *timeline = NULL;
    char prefix[64];
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(prefix, sizeof prefix, "%s/t", folder);
    snprintf(path_out, 64, "%s.%d", prefix, rank);
    settings_for(&settings, prefix, "16");
    cr_assert(kolo_timeline_open(&settings, rank, 4, &timeline) == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(timeline != NULL);
    return timeline;
}

static void *read_whole(const char *path, size_t *bytes_out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    cr_assert(fd >= 0 && fstat(fd, &facts) == 0);
    void *data = kolo_calloc((size_t)facts.st_size, 1);
    cr_assert(read(fd, data, (size_t)facts.st_size) == facts.st_size);
    close(fd);
    *bytes_out = (size_t)facts.st_size;
    unlink(path);
    rmdir(folder);
    return data;
}

static struct kolo_timeline_record call_of(uint32_t sequence)
{
    return (struct kolo_timeline_record){.begin_ns = 1000 + sequence,
                                         .sequence = sequence,
                                         .bytes = 8 * sequence,
                                         .size = 4,
                                         .peer = -1,
                                         .shape_flags = KOLO_SHAPE_ALL};
}

Test(timeline, keeps_the_latest)
{
    char path[64];
    struct kolo_timeline *timeline = open_file(2, path);
    struct kolo_timeline_view view;
    struct kolo_timeline_record record;
    uint64_t first = 0;
    size_t bytes = 0;
    for (uint32_t i = 0; i < 2 * CAPACITY + 3; i++) {
        const struct kolo_timeline_record call = call_of(i);
        const uint64_t ticket = kolo_timeline_begin(timeline, &call);
        cr_assert(ticket == i + 1);
        if (i == 0)
            first = ticket;
        else if (i != 2 * CAPACITY) /* that one stays open */
            kolo_timeline_end(timeline, ticket, i % 2 ? KOLO_OK : KOLO_ERR_PEER);
    }
    /* its record has been dropped to make room: nothing is written */
    kolo_timeline_enter(timeline, first);
    kolo_timeline_end(timeline, first, KOLO_OK);
    kolo_timeline_close(timeline);
    void *data = read_whole(path, &bytes);
    cr_assert(kolo_timeline_view(data, bytes, &view) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(view.first == CAPACITY + 3 && view.end == 2 * CAPACITY + 3);
    cr_assert(view.head->rank == 2 && view.head->size == 4 && view.head->has_left == 1 &&
              view.head->ended_ns > 0 && view.head->pid == (uint32_t)getpid());
    for (uint64_t number = view.first; number < view.end; number++) {
        cr_assert(kolo_timeline_get(&view, number, &record), "%u", (unsigned)number);
        cr_assert(record.sequence == number && record.bytes == 8 * number && record.enter_ns == 0);
        cr_assert((record.end_ns == 0) == (number == 2 * CAPACITY));
        cr_assert(record.end_ns == 0 || record.status == (number % 2 ? KOLO_OK : KOLO_ERR_PEER));
    }
    cr_assert(!kolo_timeline_get(&view, view.first - 1, &record));
    cr_assert(!kolo_timeline_get(&view, view.end, &record));
    kolo_free_memory(data);
}

Test(timeline, what_a_killed_rank_did_is_there)
{
    char path[64];
    size_t bytes = 0;
    struct kolo_timeline *timeline = open_file(0, path);
    struct kolo_timeline_view view;
    struct kolo_timeline_record record;
    const pid_t child = fork();
    if (child == 0) {
        const struct kolo_timeline_record call = call_of(7);
        kolo_timeline_end(timeline, kolo_timeline_begin(timeline, &call), KOLO_OK);
        (void)kolo_timeline_begin(timeline, &call);
        raise(SIGKILL);
    }
    int status = 0;
    cr_assert(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    void *data = read_whole(path, &bytes);
    cr_assert(kolo_timeline_view(data, bytes, &view) == KOLO_OK);
    cr_assert(view.end == 2 && view.head->has_left == 0 && view.head->ended_ns == 0);
    cr_assert(kolo_timeline_get(&view, 0, &record) && record.end_ns > 0);
    cr_assert(kolo_timeline_get(&view, 1, &record) && record.end_ns == 0);
    kolo_timeline_close(timeline);
    kolo_free_memory(data);
}

Test(timeline, words_and_names_are_kept_once)
{
    char path[64], text[KOLO_TIMELINE_NAME_MAX], word[KOLO_TIMELINE_WORD_MAX];
    struct kolo_timeline *timeline = open_file(1, path);
    struct kolo_timeline_view view;
    size_t bytes = 0;
    static const char ring[] = "ring", tree[] = "tree";
    char name[100];
    const uint8_t a = kolo_timeline_word(timeline, ring), b = kolo_timeline_word(timeline, tree);
    cr_assert(a != 0 && b != 0 && a != b && kolo_timeline_word(timeline, ring) == a);
    cr_assert(kolo_timeline_word(timeline, "") == 0 && kolo_timeline_word(timeline, NULL) == 0);
    const uint16_t grad = kolo_timeline_name(timeline, "grad");
    const uint16_t longer = kolo_timeline_name(timeline, "grad/1");
    cr_assert(grad != 0 && longer != grad && kolo_timeline_name(timeline, "grad") == grad);
    cr_assert(kolo_timeline_name(timeline, "") == 0 && kolo_timeline_name(timeline, NULL) == 0);
    memset(name, 'x', sizeof name); /* without a terminating 0 within the bytes that are read */
    name[99] = '\0';
    const uint16_t cut = kolo_timeline_name(timeline, name);
    name[80] = 'y';
    cr_assert(cut != 0 && kolo_timeline_name(timeline, name) == cut);
    for (int i = 0; i < 2 * KOLO_TIMELINE_NAMES; i++) {
        snprintf(name, sizeof name, "step %d", i);
        cr_assert((kolo_timeline_name(timeline, name) != 0) == (i < KOLO_TIMELINE_NAMES - 4));
    }
    cr_assert(kolo_timeline_name(timeline, "grad") == grad);
    kolo_timeline_close(timeline);
    void *data = read_whole(path, &bytes);
    cr_assert(kolo_timeline_view(data, bytes, &view) == KOLO_OK);
    kolo_timeline_word_text(&view, b, word);
    cr_assert(strcmp(word, "tree") == 0);
    kolo_timeline_name_text(&view, longer, text);
    cr_assert(strcmp(text, "grad/1") == 0);
    cr_assert(view.head->names_lost == KOLO_TIMELINE_NAMES + 4, "%u",
              (unsigned)view.head->names_lost);
    kolo_free_memory(data);
}

Test(timeline, off_and_places_that_cannot_be)
{
    struct kolo_settings settings;
    struct kolo_timeline *timeline = NULL;
    settings_for(&settings, "", "0");
    cr_assert(kolo_timeline_open(&settings, 0, 1, &timeline) == KOLO_OK && !timeline);
    settings_for(&settings, "/nonexistent/t", "0");
    cr_assert(kolo_timeline_open(&settings, 0, 1, &timeline) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "/nonexistent/t.0") != NULL, "%s", kolo_error_detail());
    cr_assert(kolo_timeline_calls(0, 1) == 16384 && kolo_timeline_calls(0, 1 << 20) == 256 &&
              kolo_timeline_calls(1000, 8) == 1024 && kolo_timeline_calls(1, 8) == 16);
}

/** The status that another process gets that opens the file of rank 0 at @p prefix. */
static kolo_status open_elsewhere(const char *prefix)
{
    int status = 0;
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        struct kolo_settings settings;
        struct kolo_timeline *timeline = NULL;
        settings_for(&settings, prefix, "16");
        const kolo_status got = kolo_timeline_open(&settings, 0, 4, &timeline);
        kolo_timeline_close(timeline);
        if (got == KOLO_ERR_CONFIG && !strstr(kolo_error_detail(), "another process"))
            _exit(255);
        _exit(-(int)got);
    }
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return (kolo_status)-WEXITSTATUS(status);
}

Test(timeline, a_file_is_of_one_process_at_a_time)
{
    char path[64], prefix[64];
    struct kolo_timeline *timeline = open_file(0, path);
    snprintf(prefix, sizeof prefix, "%s/t", folder);
    cr_assert(open_elsewhere(prefix) == KOLO_ERR_CONFIG);
    /* a refused attempt leaves the file as it is */
    cr_assert(open_elsewhere(prefix) == KOLO_ERR_CONFIG);
    kolo_timeline_close(timeline);
    cr_assert(open_elsewhere(prefix) == KOLO_OK); /* the file of a job that is over is replaced */
    unlink(path);
    rmdir(folder);
}

static char warned[512];

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    snprintf(warned, sizeof warned, "%s", line);
}

/** The agent's memory for rank 3 of 4. */
static int lend(uint32_t capacity, int seals)
{
    struct kolo_timeline_head *head = kolo_calloc(1, sizeof *head);
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)kolo_timeline_bytes(CAPACITY)) == 0);
    kolo_timeline_format(head, 3, 4, capacity);
    cr_assert(pwrite(fd, head, sizeof *head, 0) == (ssize_t)sizeof *head);
    cr_assert(fcntl(fd, F_ADD_SEALS, seals) == 0);
    kolo_free_memory(head);
    return fd;
}

/** Opens descriptor @p fd as rank @p rank. The descriptor is closed only if it could be used. */
static struct kolo_timeline *borrow(int fd, int rank)
{
    struct kolo_settings settings;
    struct kolo_timeline *timeline = NULL;
    char value[32];
    snprintf(value, sizeof value, "fd://%d", fd);
    settings_for(&settings, value, "0");
    warned[0] = '\0';
    cr_assert(kolo_timeline_open(&settings, rank, 4, &timeline) == KOLO_OK);
    return timeline;
}

static void refused(int fd, int rank, const char *why)
{
    cr_assert(borrow(fd, rank) == NULL);
    cr_assert(strstr(warned, why) != NULL, "'%s' instead of '%s'", warned, why);
}

Test(timeline, an_agents_memory_is_looked_at)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    kolo_log_set_sink(keep_line, NULL);
    int fd = lend(CAPACITY, seals);
    refused(fd, 2, "belongs to another rank");
    const int copy = dup(fd);
    struct kolo_timeline *timeline = borrow(fd, 3);
    cr_assert(timeline && warned[0] == '\0', "%s", warned);
    cr_assert(fcntl(fd, F_GETFD) < 0); /* programs that this process starts must not inherit it */
    refused(copy, 3, "written already");
    kolo_timeline_close(timeline);
    refused(fd, 3, "closed");
    refused(lend(CAPACITY, F_SEAL_SHRINK), 3, "not memory of an agent");
    refused(lend(2 * CAPACITY, seals), 3, "length");
    refused(lend(0, seals), 3, "length");
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    refused(fd, 3, "not memory of an agent");
    fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(ftruncate(fd, (off_t)kolo_timeline_bytes(CAPACITY)) == 0 &&
              fcntl(fd, F_ADD_SEALS, seals) == 0);
    refused(fd, 3, "no timeline");
    kolo_log_set_sink(NULL, NULL);
}

Test(timeline, a_descriptor_is_a_number)
{
    static const char *const values[] = {"fd://", "fd://x", "fd://-1", "fd://3x", "fd://99999999"};
    kolo_log_set_sink(keep_line, NULL);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct kolo_settings settings;
        struct kolo_timeline *timeline = NULL;
        settings_for(&settings, values[i], "0");
        cr_assert(kolo_timeline_open(&settings, 0, 1, &timeline) == KOLO_OK && !timeline);
        cr_assert(strstr(warned, "no number") != NULL, "%s", warned);
    }
    kolo_log_set_sink(NULL, NULL);
}

/* The signal would end the program; and what an earlier job left there remains. */
Test(timeline, a_limit_of_file_size_is_an_error)
{
    const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    struct kolo_settings settings;
    struct kolo_timeline *timeline = NULL;
    char prefix[64], path[72];
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(prefix, sizeof prefix, "%s/t", folder);
    snprintf(path, sizeof path, "%s.1", prefix);
    settings_for(&settings, prefix, "4096");
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    cr_assert(kolo_timeline_open(&settings, 1, 2, &timeline) == KOLO_ERR_CONFIG);
    cr_assert(!timeline && strstr(kolo_error_detail(), path) &&
                  strstr(kolo_error_detail(), "raise `ulimit -f`"),
              "%s", kolo_error_detail());
    cr_assert(unlink(path) == 0 && rmdir(folder) == 0, "%s was taken away", path);
}
