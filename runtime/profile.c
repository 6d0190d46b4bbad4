// SPDX-License-Identifier: Apache-2.0
// Profiles: the figures of a machine as text, and where those of this host are saved. Must never
// decide for one rank alone: rank 0 reads the profile and gives its text to the others
// (choose_comm.c).
#include "runtime/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errand.h"
#include "base/log.h"
#include "base/settings.h"

enum { LINE_MAX = 256 };

static const char version_name[] = "version";

/** Figure number @p index with its name, for reading and for writing. False: there is no such
 * figure. */
static bool figure_at(struct kolo_figures *figures, size_t index, char name[64], double **at_out)
{
    static const char *const path_fields[] = {
#define KOLO_FIGURE_NAME(field, what) #field,
        KOLO_PATH_FIGURE_MAP(KOLO_FIGURE_NAME)};
    static const char *const host_fields[] = {KOLO_HOST_FIGURE_MAP(KOLO_FIGURE_NAME)};
#undef KOLO_FIGURE_NAME
    enum { FIELDS = sizeof path_fields / sizeof path_fields[0] };
    if (index < KOLO_PATHS * FIELDS) {
        struct kolo_path_figures *path = &figures->path[index / FIELDS];
        double *fields[FIELDS] = {
#define KOLO_FIGURE_AT(field, what) &path->field,
            KOLO_PATH_FIGURE_MAP(KOLO_FIGURE_AT)
#undef KOLO_FIGURE_AT
        };
        snprintf(name, 64, "%s.%s", kolo_path_text((enum kolo_path)(index / FIELDS)),
                 path_fields[index % FIELDS]);
        *at_out = fields[index % FIELDS];
        return true;
    }
    index -= KOLO_PATHS * FIELDS;
    double *fields[] = {
#define KOLO_FIGURE_AT(field, what) &figures->field,
        KOLO_HOST_FIGURE_MAP(KOLO_FIGURE_AT)
#undef KOLO_FIGURE_AT
    };
    if (index >= sizeof fields / sizeof fields[0])
        return false;
    snprintf(name, 64, "%s", host_fields[index]);
    *at_out = fields[index];
    return true;
}

/** Numbers have a decimal point, whatever the program's locale has, for this thread and until
 * end_plain(). If memory is short, the program's locale stays. */
struct plain {
    locale_t made, before;
};
static struct plain begin_plain(void)
{
    struct plain plain = {.made = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    plain.before = uselocale(plain.made);
    return plain;
}

static void end_plain(struct plain plain)
{
    uselocale(plain.before);
    if (plain.made != (locale_t)0)
        freelocale(plain.made);
}

void kolo_figures_write(const struct kolo_figures *figures, FILE *out)
{
    struct kolo_figures copy = *figures;
    char name[64];
    double *at;
    const struct plain plain = begin_plain();
    fprintf(out, "# kolo: nanoseconds, of a message, a byte, a turn (KOLO_PROFILE)\n%s %d\n",
            version_name, KOLO_PROFILE_VERSION);
    for (size_t i = 0; figure_at(&copy, i, name, &at); i++)
        fprintf(out, "%s %.17g\n", name, *at);
    end_plain(plain);
}

static bool set_figure(struct kolo_figures *figures, const char *wanted, double value)
{
    char name[64];
    double *at;
    for (size_t i = 0; figure_at(figures, i, name, &at); i++)
        if (strcmp(name, wanted) == 0) {
            *at = value;
            return true;
        }
    return false;
}

static kolo_status parse_line(struct kolo_figures *figures, char *line, const char *path,
                              size_t number)
{
    char *comment = strchr(line, '#'), *rest = NULL, *end;
    if (comment)
        *comment = '\0';
    const char *name = strtok_r(line, " \t\r", &rest);
    if (!name)
        return KOLO_OK;
    const char *text = strtok_r(NULL, " \t\r", &rest);
    if (!text || strtok_r(NULL, " \t\r", &rest))
        return kolo_fail(KOLO_ERR_CONFIG, "%s:%zu: expected a name and a number", path, number);
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || value < 0)
        return kolo_fail(KOLO_ERR_CONFIG, "%s:%zu: '%s' is not a number of nanoseconds", path,
                         number, text);
    if (strcmp(name, version_name) == 0)
        return !(value < (double)KOLO_PROFILE_VERSION || value > (double)KOLO_PROFILE_VERSION)
                   ? KOLO_OK
                   : kolo_fail(KOLO_ERR_CONFIG,
                               "%s:%zu: the profile has version %s, and only %d is supported: "
                               "write it again with kolobench profile",
                               path, number, text, KOLO_PROFILE_VERSION);
    if (!set_figure(figures, name, value))
        return kolo_fail(KOLO_ERR_CONFIG, "%s:%zu: there is no figure '%s'", path, number, name);
    return KOLO_OK;
}

static kolo_status parse_lines(struct kolo_figures *figures, const char *text, const char *path)
{
    char line[LINE_MAX];
    for (size_t number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        if (length >= sizeof line)
            return kolo_fail(KOLO_ERR_CONFIG, "%s:%zu: the line is too long", path, number);
        memcpy(line, text, length);
        line[length] = '\0';
        kolo_status status = parse_line(figures, line, path, number);
        if (status != KOLO_OK)
            return status;
        text += length + (text[length] != '\0');
    }
    return KOLO_OK;
}

kolo_status kolo_figures_parse(struct kolo_figures *figures, const char *text, const char *path)
{
    struct kolo_figures parsed = *figures;
    const struct plain plain = begin_plain();
    const kolo_status status = parse_lines(&parsed, text, path);
    end_plain(plain);
    if (status == KOLO_OK)
        *figures = parsed;
    return status;
}

/* ---- files ---- */

/** An errand, because the file system may be one that does not answer. */
struct reading {
    const char *path; /* behind the text */
    bool is_there;
    int error;       /* errno; EINVAL: it is not a file, EFBIG: it is too long */
    size_t capacity; /* of the text, with a terminating 0 */
    char text[];
};

/** Opens a file that can be read without waiting for another process. -1, with errno. */
static int open_file(const char *path)
{
    struct stat what;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    const int error = fstat(fd, &what) != 0 ? errno : S_ISREG(what.st_mode) ? 0 : EINVAL;
    if (error == 0)
        return fd;
    (void)close(fd);
    errno = error;
    return -1;
}

/** Returns 0 or an errno. */
static int read_text(int fd, char *text, size_t capacity)
{
    size_t used = 0;
    ssize_t got;
    while ((got = read(fd, text + used, capacity - used)) != 0) {
        if (got < 0 && errno != EINTR)
            return errno;
        used += got > 0 ? (size_t)got : 0;
        if (used == capacity)
            return EFBIG;
    }
    text[used] = '\0';
    return memchr(text, '\0', used) ? EINVAL : 0;
}

static void read_file(void *memory)
{
    struct reading *reading = memory;
    reading->is_there = access(reading->path, F_OK) == 0;
    const int fd = open_file(reading->path);
    reading->error = fd < 0 ? errno : read_text(fd, reading->text, reading->capacity);
    if (fd >= 0)
        (void)close(fd);
}

static struct reading *create_reading(const char *path, size_t capacity)
{
    const size_t path_bytes = strlen(path) + 1;
    struct reading *reading = kolo_errand_create(sizeof *reading + capacity + path_bytes);
    if (!reading)
        return NULL;
    reading->path = memcpy(reading->text + capacity, path, path_bytes);
    reading->capacity = capacity;
    return reading;
}

static kolo_status judge_reading(const struct reading *reading)
{
    const char *path = reading->path;
    if (reading->error == EINVAL)
        return kolo_fail(KOLO_ERR_CONFIG, "KOLO_PROFILE: %s: not a file with text", path);
    if (reading->error == EFBIG)
        return kolo_fail(KOLO_ERR_CONFIG, "KOLO_PROFILE: %s is not a text of at most %zu bytes",
                         path, reading->capacity - 1);
    if (reading->error != 0)
        return kolo_fail_errno(KOLO_ERR_CONFIG, reading->error, "KOLO_PROFILE: %s", path);
    return KOLO_OK;
}

/** As kolo_figures_read. @param is_there_out whether there is such a file. */
static kolo_status read_profile(const char *path, char *text, size_t capacity,
                                kolo_deadline deadline, bool *is_there_out)
{
    static const struct kolo_errand errand = {.run = read_file};
    struct reading *reading = create_reading(path, capacity);
    kolo_status status = KOLO_OK;
    *is_there_out = true;
    text[0] = '\0';
    if (!reading)
        return KOLO_ERR_NO_MEMORY;
    const int error = kolo_errand_run(&errand, reading, deadline, NULL);
    if (error == ETIMEDOUT)
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "KOLO_PROFILE: %s: its file system did not answer in time; "
                         "KOLO_PROFILE=none reads no file",
                         path);
    if (error == 0) {
        status = judge_reading(reading);
        *is_there_out = reading->is_there;
        if (status == KOLO_OK)
            memcpy(text, reading->text, strlen(reading->text) + 1);
    } else {
        status = kolo_fail_start(error, "KOLO_PROFILE: %s: cannot start a thread to read it", path);
    }
    kolo_errand_destroy(reading);
    return status;
}

kolo_status kolo_figures_read(const char *path, char *text, size_t capacity, kolo_deadline deadline)
{
    bool is_there;
    return read_profile(path, text, capacity, deadline, &is_there);
}

/* ---- which profile ---- */

bool kolo_profile_place(char *path, size_t capacity)
{
    const char *cache = kolo_environment("XDG_CACHE_HOME"), *home = kolo_environment("HOME");
    char host[65] = "";
    bool has_cache = cache && cache[0] == '/';
    path[0] = '\0';
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0' || strchr(host, '/'))
        return false;
    if (!has_cache && (!home || home[0] != '/'))
        return false;
    int length = snprintf(path, capacity, "%s%s/kolo/profile-%s", has_cache ? cache : home,
                          has_cache ? "" : "/.cache", host);
    if (length > 0 && (size_t)length < capacity)
        return true;
    path[0] = '\0';
    return false;
}

/** Half of the time until @p deadline: the other ranks, who wait for what becomes of the profile,
 * are to hear of it in the rest. */
static kolo_deadline half_of(kolo_deadline deadline)
{
    const int64_t now = kolo_now_ns();
    return deadline == KOLO_NEVER || deadline <= now ? deadline : now + (deadline - now) / 2;
}

/** Loads the profile of this host, if there is a usable one. */
static void load_saved(struct kolo_figures *figures, char *text, struct kolo_profile_source *source,
                       kolo_deadline deadline)
{
    bool is_there = false;
    if (!kolo_profile_place(source->path, sizeof source->path))
        return;
    kolo_status status = read_profile(source->path, text, KOLO_PROFILE_MAX, deadline, &is_there);
    if (status == KOLO_OK)
        status = kolo_figures_parse(figures, text, source->path);
    if (status == KOLO_OK)
        return;
    if (is_there)
        KOLO_WARN("the profile of this host is not used: %s", kolo_error_detail());
    text[0] = '\0';
    source->path[0] = '\0';
}

kolo_status kolo_profile_load(const char *setting, kolo_deadline deadline,
                              struct kolo_figures *figures, char *text,
                              struct kolo_profile_source *source)
{
    kolo_status status = KOLO_OK;
    kolo_figures_init(figures);
    *source = (struct kolo_profile_source){0};
    text[0] = '\0';
    if (strcmp(setting, "auto") == 0) {
        load_saved(figures, text, source, half_of(deadline));
    } else if (setting[0] != '\0' && strcmp(setting, "none") != 0) {
        KOLO_TRY(kolo_figures_read(setting, text, KOLO_PROFILE_MAX, half_of(deadline)));
        KOLO_TRY(kolo_figures_parse(figures, text, setting));
        snprintf(source->path, sizeof source->path, "%s", setting);
    }
out:
    return status;
}
