// SPDX-License-Identifier: Apache-2.0
// Valid and invalid profiles, and where the profile of this host is looked for.
#include <criterion/criterion.h>

#include <limits.h>
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
    memset(&written, 0, sizeof(written));
    memset(&read, 0, sizeof(read));
    kolo_figures_init(&written);
    written.path[KOLO_PATH_SHM].byte = 0.1 + 0.2;
    written.turn = 12345.678;
    kolo_figures_write(&written, file);
    fclose(file);
    cr_assert(kolo_figures_read(path, text, sizeof(text)) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_figures_parse(&read, text, path) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(memcmp(&read, &written, sizeof(read)) == 0);
    cr_assert(kolo_figures_read(path, text, 16) == KOLO_ERR_CONFIG);
    unlink(path);
    cr_assert(kolo_figures_read(path, text, sizeof(text)) == KOLO_ERR_CONFIG);
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
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert(kolo_figures_parse(&after, wrong[i], "p") == KOLO_ERR_CONFIG, "'%s'", wrong[i]);
        cr_assert(strncmp(kolo_error_detail(), "p:", 2) == 0, "%s", kolo_error_detail());
        cr_assert(memcmp(&before, &after, sizeof(before)) == 0, "'%s'", wrong[i]);
    }
    char longest[1000];
    memset(longest, ' ', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
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
    snprintf(kolo, sizeof(kolo), "%s/kolo", folder);
    mkdir(kolo, 0700);
    cr_assert(kolo_profile_place(path, sizeof(path)));
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
    cr_assert(kolo_profile_place(path, sizeof(path)) && remove(path) == 0);
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
    cr_assert(kolo_profile_load("auto", &figures, text, &source) == KOLO_OK);
    cr_assert(figures.turn == 7 && strncmp(source.path, folder, strlen(folder)) == 0);
    cr_assert(strcmp(text, "version 1\nturn 7\n") == 0, "%s", text);
    cr_assert(kolo_profile_load("none", &figures, text, &source) == KOLO_OK);
    cr_assert(memcmp(&figures, &usual, sizeof(usual)) == 0 && !source.path[0] && !text[0]);
    cr_assert(kolo_profile_load("", &figures, text, &source) == KOLO_OK);
    cr_assert(memcmp(&figures, &usual, sizeof(usual)) == 0);
    cr_assert(kolo_profile_load("/none/such", &figures, text, &source) == KOLO_ERR_CONFIG);
    remove_profile(folder);
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    cr_assert(kolo_profile_load("auto", &figures, text, &source) == KOLO_OK);
    cr_assert(memcmp(&figures, &usual, sizeof(usual)) == 0);
}

Test(profile, of_this_host_that_is_of_no_use_is_left_alone)
{
    static const char *const texts[] = {"version 99\nturn 7\n", "turn many\n", "\177ELF"};
    struct kolo_figures figures, usual;
    struct kolo_profile_source source;
    char folder[64], text[KOLO_PROFILE_MAX];
    kolo_figures_init(&usual);
    kolo_log_set_level(KOLO_LOG_NONE);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        save_profile(folder, texts[i]);
        cr_assert(kolo_profile_load("auto", &figures, text, &source) == KOLO_OK, "%s", texts[i]);
        cr_assert(memcmp(&figures, &usual, sizeof(usual)) == 0, "%s", texts[i]);
        cr_assert(!text[0] && !source.path[0], "%s", texts[i]);
        remove_profile(folder);
    }
}
