// SPDX-License-Identifier: Apache-2.0
// Valid and invalid profiles, and where the profile of this host is looked for.
#include <criterion/criterion.h>

#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "runtime/profile.h"

Test(profile, profiles_are_read_as_they_are_written)
{
    struct kolo_figures written, read;
    char path[] = "/tmp/kolo-profile-XXXXXX", text[KOLO_PROFILE_MAX];
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    memset(&written, 0, sizeof written);
    memset(&read, 0, sizeof read);
    kolo_figures_init(&written);
    written.path[KOLO_PATH_SHM].byte = 0.1 + 0.2;
    written.turn = 12345.678;
    kolo_figures_write(&written, file);
    fclose(file);
    cr_assert(kolo_figures_read(path, text, sizeof text, KOLO_NEVER) == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(kolo_figures_parse(&read, text, path) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(memcmp(&read, &written, sizeof read) == 0);
    const size_t bytes = strlen(text);
    cr_assert(bytes > 100 && bytes < sizeof text - 1);
    cr_assert(kolo_figures_read(path, text, bytes + 1, KOLO_NEVER) == KOLO_OK);
    cr_assert(strlen(text) == bytes);
    cr_assert(kolo_figures_read(path, text, bytes, KOLO_NEVER) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "not a text of at most"), "%s", kolo_error_detail());
    cr_assert(text[0] == '\0');
    unlink(path);
    cr_assert(kolo_figures_read(path, text, sizeof text, KOLO_NEVER) == KOLO_ERR_CONFIG);
}

/** A locale of numbers with a decimal comma, as localedef writes it for glibc: magic number, count,
 * and offsets of the decimal point, the separator of thousands, the grouping, both as wide
 * characters, and the character set. */
static const unsigned char comma_locale[] = {
    0x14, 0x11, 0x03, 0x20, 6,   0, 0,  0, 0x20, 0, 0,  0, 0x22, 0,   0,   0,   0x24, 0,
    0,    0,    0x28, 0,    0,   0, 44, 0, 0,    0, 48, 0, 0,    0,   ',', 0,   '.',  0,
    3,    3,    0,    0,    ',', 0, 0,  0, '.',  0, 0,  0, 'U',  'T', 'F', '-', '8',  0};

static bool set_comma_locale(const char *folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s/comma", folder);
    bool is_there = mkdir(path, 0700) == 0;
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", folder);
    FILE *file = fopen(path, "w");
    is_there = is_there && file && fwrite(comma_locale, sizeof comma_locale, 1, file) == 1 &&
               fclose(file) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
               setlocale(LC_NUMERIC, "comma");
    unlink(path);
    snprintf(path, sizeof path, "%s/comma", folder);
    rmdir(path);
    return is_there;
}

/** Programs with a graphical interface set the user's locale. */
Test(profile, numbers_have_a_decimal_point_whatever_the_locale)
{
    char folder[] = "/tmp/kolo-locale-XXXXXX", here[8], *text = NULL;
    size_t bytes = 0;
    struct kolo_figures written, read;
    cr_assert(mkdtemp(folder) != NULL);
    const bool is_set = set_comma_locale(folder);
    rmdir(folder);
    if (!is_set)
        cr_skip_test("this C library has locales of another form");
    kolo_figures_init(&written);
    read = written;
    written.turn = 0.25;
    FILE *file = open_memstream(&text, &bytes);
    kolo_figures_write(&written, file);
    fclose(file);
    cr_assert(strstr(text, "turn 0.25\n") != NULL, "%s", text);
    cr_assert(kolo_figures_parse(&read, text, "p") == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(read.turn > 0.2 && read.turn < 0.3);
    snprintf(here, sizeof here, "%.2f", 0.5);
    cr_assert_str_eq(here, "0,50", "the program's own locale stays");
    free(text);
}

/** Opening the end of a pipe would wait for its other end. */
Test(profile, a_pipe_is_refused_at_once, .timeout = 20)
{
    char folder[] = "/tmp/kolo-pipe-XXXXXX", path[64], text[KOLO_PROFILE_MAX];
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/pipe", folder);
    cr_assert(mkfifo(path, 0600) == 0);
    cr_assert(kolo_figures_read(path, text, sizeof text, KOLO_NEVER) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "not a file with text"), "%s", kolo_error_detail());
    cr_assert(kolo_figures_read(folder, text, sizeof text, KOLO_NEVER) == KOLO_ERR_CONFIG);
    unlink(path);
    rmdir(folder);
}

Test(profile, wrong_profiles_change_nothing)
{
    static const char *const wrong[] = {"turn",         "turn 1 2",   "turn x",
                                        "turn -1",      "turn nan",   "turn inf",
                                        "turns 1",      "shm. 3",     "shm.latency 5\nshm.lat 6",
                                        "turn 1e999\n", ".latency 1", "turn 0x",
                                        "version 2",    "version",    "version 1.5"};
    struct kolo_figures before, after;
    kolo_figures_init(&before);
    after = before;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert(kolo_figures_parse(&after, wrong[i], "p") == KOLO_ERR_CONFIG, "'%s'", wrong[i]);
        cr_assert(strncmp(kolo_error_detail(), "p:", 2) == 0, "%s", kolo_error_detail());
        cr_assert(memcmp(&before, &after, sizeof before) == 0, "'%s'", wrong[i]);
    }
    char longest[1000];
    memset(longest, ' ', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    cr_assert(kolo_figures_parse(&after, longest, "p") == KOLO_ERR_CONFIG);
    cr_assert(kolo_figures_parse(&after, "# all\n\n turn  7 # us\r\n", "p") == KOLO_OK);
    cr_assert(after.turn == 7);
}

/** Makes a cache folder with a profile of this host that contains @p text. */
static void save_profile(char folder[64], const char *text)
{
    char path[PATH_MAX], kolo[PATH_MAX];
    snprintf(folder, 64, "/tmp/kolo-cache-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(kolo, sizeof kolo, "%s/kolo", folder);
    mkdir(kolo, 0700);
    cr_assert(kolo_profile_place(path, sizeof path));
    cr_assert(strncmp(path, kolo, strlen(kolo)) == 0, "%s", path);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL, "%s", path);
    fputs(text, file);
    fclose(file);
}

/** Removes what save_profile() made, while XDG_CACHE_HOME still names it. */
static void remove_profile(const char *folder)
{
    char path[PATH_MAX];
    cr_assert(kolo_profile_place(path, sizeof path) && remove(path) == 0);
    *strrchr(path, '/') = '\0';
    cr_assert(rmdir(path) == 0 && rmdir(folder) == 0);
}

Test(profile, that_of_this_host_is_found_by_auto_alone)
{
    struct kolo_figures figures, usual;
    struct kolo_profile_source source;
    char folder[64], text[KOLO_PROFILE_MAX];
    kolo_figures_init(&usual);
    save_profile(folder, "version 1\nturn 7\n");
    cr_assert(kolo_profile_load("auto", KOLO_NEVER, &figures, text, &source) == KOLO_OK);
    cr_assert(figures.turn == 7 && strncmp(source.path, folder, strlen(folder)) == 0);
    cr_assert(strcmp(text, "version 1\nturn 7\n") == 0, "%s", text);
    cr_assert(kolo_profile_load("none", KOLO_NEVER, &figures, text, &source) == KOLO_OK);
    cr_assert(memcmp(&figures, &usual, sizeof usual) == 0 && !source.path[0] && !text[0]);
    cr_assert(kolo_profile_load("", KOLO_NEVER, &figures, text, &source) == KOLO_OK);
    cr_assert(memcmp(&figures, &usual, sizeof usual) == 0);
    cr_assert(kolo_profile_load("/none/such", KOLO_NEVER, &figures, text, &source) ==
              KOLO_ERR_CONFIG);
    remove_profile(folder);
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    cr_assert(kolo_profile_load("auto", KOLO_NEVER, &figures, text, &source) == KOLO_OK);
    cr_assert(memcmp(&figures, &usual, sizeof usual) == 0);
}

Test(profile, of_this_host_that_is_of_no_use_is_left_alone)
{
    static const char *const texts[] = {"version 99\nturn 7\n", "turn many\n", "\177ELF"};
    struct kolo_figures figures, usual;
    struct kolo_profile_source source;
    char folder[64], text[KOLO_PROFILE_MAX];
    kolo_figures_init(&usual);
    kolo_log_set_level(KOLO_LOG_NONE);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        save_profile(folder, texts[i]);
        cr_assert(kolo_profile_load("auto", KOLO_NEVER, &figures, text, &source) == KOLO_OK, "%s",
                  texts[i]);
        cr_assert(memcmp(&figures, &usual, sizeof usual) == 0, "%s", texts[i]);
        cr_assert(!text[0] && !source.path[0], "%s", texts[i]);
        remove_profile(folder);
    }
}
