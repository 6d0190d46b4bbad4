// SPDX-License-Identifier: Apache-2.0
// The command line parsed into a structure. tests/launcher/cli.sh tests what is printed about it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "launcher/options.h"

static char *const no_environment[] = {NULL};

static kolo_status parse(struct kolo_options *options, const char *const *words)
{
    static char copies[32][64];
    static char *argv[33];
    size_t count = 0;
    for (; words[count]; count++) {
        snprintf(copies[count], sizeof copies[count], "%s", words[count]);
        argv[count] = copies[count];
    }
    argv[count] = NULL;
    return kolo_options_parse(argv, no_environment, NULL, options);
}
#define PARSE(options, ...) parse(options, (const char *const[]){__VA_ARGS__, NULL})

Test(options, takes_every_spelling)
{
    static const char *const spellings[][2] = {
        {"-np", "5"}, {"--np", "5"}, {"-n", "5"}, {"--np=5", NULL}, {"-np=5", NULL}};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        struct kolo_options options;
        const char *first = spellings[i][0], *second = spellings[i][1];
        kolo_status status =
            second ? PARSE(&options, first, second, "prog") : PARSE(&options, first, "prog");
        cr_assert(status == KOLO_OK, "%s: %s", first, kolo_error_detail());
        cr_assert(options.np == 5 && strcmp(options.program[0], "prog") == 0, "%s", first);
        kolo_options_fini(&options);
    }
}

Test(options, leaves_the_program_its_arguments)
{
    struct kolo_options options;
    cr_assert(PARSE(&options, "-H", "a:1", "prog", "-np", "x", "--help") == KOLO_OK);
    cr_assert(options.np == 0 && options.command == KOLO_COMMAND_RUN);
    cr_assert(strcmp(options.hosts, "a:1") == 0);
    cr_assert(strcmp(options.program[0], "prog") == 0);
    cr_assert(strcmp(options.program[3], "--help") == 0 && !options.program[4]);
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "-v", "--", "-odd-name") == KOLO_OK);
    cr_assert(options.verbose && strcmp(options.program[0], "-odd-name") == 0);
    kolo_options_fini(&options);
}

Test(options, takes_the_beginning_of_a_name)
{
    struct kolo_options options;
    cr_assert(PARSE(&options, "--over", "-verb", "--no-st", "--hostf=f", "prog") == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(options.oversubscribe && options.verbose && options.no_input);
    cr_assert(strcmp(options.hostfile, "f") == 0);
    kolo_options_fini(&options);
    /* A complete name is not taken as the abbreviation of another. */
    cr_assert(PARSE(&options, "--host", "a", "--help", "prog") == KOLO_OK);
    cr_assert(options.command == KOLO_COMMAND_HELP && strcmp(options.hosts, "a") == 0);
    kolo_options_fini(&options);
}

Test(options, says_which_options_a_beginning_may_mean)
{
    static const char *const unclear[][3] = {{"--no", "--no-prefix", "--no-fold"},
                                             {"--hel", "--help-settings", "--help"},
                                             {"-vv", NULL, NULL},
                                             {"--no=x", "--no-prefix", "--no-fold"},
                                             {"--=x", NULL, NULL},
                                             {"-np2x", "-np", NULL},
                                             {"-n-2", NULL, NULL}};
    for (size_t i = 0; i < sizeof unclear / sizeof unclear[0]; i++) {
        struct kolo_options options;
        const char *const *row = unclear[i];
        cr_assert(PARSE(&options, row[0], "p") < 0, "%s", row[0]);
        const char *detail = kolo_error_detail();
        cr_assert(strstr(detail, row[0]), "%s: %s", row[0], detail);
        cr_assert(!row[1] || strstr(detail, row[1]), "%s: %s", row[0], detail);
        cr_assert(!row[2] || strstr(detail, row[2]), "%s: %s", row[0], detail);
        cr_assert((strstr(detail, "ambiguous") != NULL) == (row[2] != NULL), "%s: %s", row[0],
                  detail);
        kolo_options_fini(&options);
    }
}

/** mpirun's "-c 2" was taken as --chdir 2. */
Test(options, a_letter_is_no_abbreviation)
{
    static const char *const letters[][2] = {{"-c", "-np N, and the directory is --chdir DIR"},
                                             {"--c=2", "'--c=2'; the number of ranks is -np N"},
                                             {"-N", "-H HOST:SLOTS"},
                                             {"-g", "write --gpus"},
                                             {"-s", "write --set, --start-timeout, --ssh"},
                                             {"-z", "try 'kolorun --help'"}};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        struct kolo_options options;
        cr_assert_eq(PARSE(&options, "-v", letters[i][0], "2", "p"), KOLO_ERR_INVALID);
        cr_assert(strstr(kolo_error_detail(), letters[i][1]), "%s", kolo_error_detail());
        kolo_options_fini(&options);
    }
    struct kolo_options options; /* a value, and what belongs to the program, may look like one */
    cr_assert(PARSE(&options, "--chdir", "-c", "p", "-c") == KOLO_OK, "%s", kolo_error_detail());
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "-v", "--", "-c") == KOLO_OK, "%s", kolo_error_detail());
    kolo_options_fini(&options);
}

Test(options, a_number_of_ranks_may_stand_at_its_option)
{
    struct kolo_options options;
    cr_assert(PARSE(&options, "-np2", "-v", "p") == KOLO_OK && options.np == 2 && options.verbose);
    cr_assert_str_eq(options.program[0], "p");
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "-n13", "p") == KOLO_OK && options.np == 13);
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "-n0", "p") != KOLO_OK);
    cr_assert(strstr(kolo_error_detail(), "-np 0: give a number"), "%s", kolo_error_detail());
    kolo_options_fini(&options);
}

Test(options, the_end_of_the_options)
{
    struct kolo_options options;
    cr_assert(PARSE(&options, "-np", "2", "--", "--", "-v") == KOLO_OK);
    cr_assert(!options.verbose && strcmp(options.program[0], "--") == 0);
    cr_assert(strcmp(options.program[1], "-v") == 0 && !options.program[2]);
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "-", "-v", "--nope") == KOLO_OK);
    cr_assert(!options.verbose && strcmp(options.program[0], "-") == 0);
    cr_assert(strcmp(options.program[2], "--nope") == 0);
    kolo_options_fini(&options);
    /* A value may look like the end of the options, or like an option. */
    cr_assert(PARSE(&options, "--chdir", "--", "--env=A=-v", "p") == KOLO_OK);
    cr_assert(strcmp(options.chdir, "--") == 0 && strcmp(options.program[0], "p") == 0);
    cr_assert(strcmp(options.forward.at[0], "A=-v") == 0 && !options.verbose);
    kolo_options_fini(&options);
}

Test(options, sets_settings)
{
    struct kolo_options options;
    kolo_status status =
        PARSE(&options, "--timeout", "2m", "--start-timeout=2.5", "--transport", "tcp", "--bind",
              "none", "--ssh", "ssh -p 22", "--set", "peer_timeout=700ms", "prog");
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(options.settings.job_timeout_ms == 120000);
    cr_assert(options.settings.start_timeout_ms == 2500);
    cr_assert(options.settings.peer_timeout_ms == 700);
    cr_assert(strcmp(options.settings.transport, "tcp") == 0);
    cr_assert(strcmp(options.settings.ssh, "ssh -p 22") == 0);
    cr_assert(options.bind == KOLO_BIND_NONE);
    cr_assert(options.settings.source[KOLO_SET_PEER_TIMEOUT] == KOLO_FROM_OPTION);
    kolo_options_fini(&options);
}

Test(options, an_error_names_the_option_that_was_typed)
{
    struct kolo_options options;
    cr_assert_eq(PARSE(&options, "--timeout", "5d", "prog"), KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(),
                     "--timeout: KOLO_JOB_TIMEOUT=5d: expected time such as "
                     "500ms, 90s, 5m, 1.5h or 90 (seconds)") == kolo_error_detail(),
              "%s", kolo_error_detail());
    kolo_options_fini(&options);
    cr_assert_eq(PARSE(&options, "--set", "JOB_TIMEOUT=5d", "prog"), KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "KOLO_JOB_TIMEOUT=5d: ") == kolo_error_detail(), "%s",
              kolo_error_detail());
    kolo_options_fini(&options);
}

Test(options, forwards_variables)
{
    struct kolo_options options;
    cr_assert(PARSE(&options, "-x", "A=1 2", "--env=B=", "prog") == KOLO_OK);
    cr_assert(options.forward.count == 2);
    cr_assert(strcmp(options.forward.at[0], "A=1 2") == 0);
    cr_assert(strcmp(options.forward.at[1], "B=") == 0);
    kolo_options_fini(&options);
}

/** Otherwise a rank would find them after the start. */
Test(options, what_is_wrong_in_a_forwarded_setting)
{
    static const char *const wrong[][2] = {
        {"KOLO_TIMEOUT=abc", "-x: KOLO_TIMEOUT=abc: expected time such as 500ms, "},
        {"KOLO_TIMEOOUT=5", "-x: unknown setting KOLO_TIMEOOUT; did you mean KOLO_TIMEOUT?"},
        {"KOLO_timeout=5", "-x: unknown setting KOLO_timeout; did you mean KOLO_TIMEOUT?"},
        {"KOLO_TRANSPORT=tpc", "-x: KOLO_TRANSPORT=tpc: "},
        {"KOLO_BIND=l3", "-x: "},
        {"KOLO_NET=10.0.0.0/33", "-x: KOLO_NET: "}};
    struct kolo_options options;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert(PARSE(&options, "-x", wrong[i][0], "prog") != KOLO_OK, "%s", wrong[i][0]);
        cr_assert(strstr(kolo_error_detail(), wrong[i][1]) == kolo_error_detail(), "%s",
                  kolo_error_detail());
        kolo_options_fini(&options);
    }
    /* The last of two counts, and each must be valid. */
    cr_assert(PARSE(&options, "-x", "KOLO_TIMEOUT=5", "-x", "KOLO_TIMEOUT=x", "prog") != KOLO_OK);
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "-x", "KOLO_TIMEOUT=x", "-x", "KOLO_TIMEOUT=5", "prog") != KOLO_OK);
    kolo_options_fini(&options);
    /* kolorun does not read what it passes on. */
    cr_assert(PARSE(&options, "-x", "KOLO_TIMEOUT=7s", "-x", "KOLOSSUS=x", "prog") == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(options.settings.source[KOLO_SET_TIMEOUT] == KOLO_FROM_DEFAULT);
    kolo_options_fini(&options);
}

/** kolorun would overwrite them. */
Test(options, what_kolorun_gives_every_rank_is_not_forwarded)
{
    static const char *const own[] = {"RANK=1",           "LOCAL_WORLD_SIZE=1", "KOLO_RANK=1",
                                      "KOLO_SIZE",        "KOLO_LOCAL_RANK=1",  "KOLO_LOCAL_SIZE=1",
                                      "KOLO_RENDEZVOUS=", "KOLO_SECRET=1",      "KOLO_LAUNCHER=1"};
    struct kolo_options options;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        cr_assert_eq(PARSE(&options, "-x", own[i], "p"), KOLO_ERR_INVALID, "%s", own[i]);
        cr_assert(strstr(kolo_error_detail(), "leave it out"), "%s", kolo_error_detail());
        kolo_options_fini(&options);
    }
    cr_assert_eq(PARSE(&options, "--timeline", "f", "-x", "A=1", "-x", "KOLO_TIMELINE=t", "p"),
                 KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "exclude each other"), "%s", kolo_error_detail());
    kolo_options_fini(&options);
}

Test(options, suggests_the_name_that_shares_most_letters)
{
    static const char *const unknown[][2] = {{"--timelinr", ", did you mean --timeline?"},
                                             {"--versoin", ", did you mean --version?"},
                                             {"--zzz", "unknown option '--zzz'; try"}};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct kolo_options options;
        cr_assert_eq(PARSE(&options, unknown[i][0], "p"), KOLO_ERR_INVALID);
        cr_assert(strstr(kolo_error_detail(), unknown[i][1]), "%s", kolo_error_detail());
        kolo_options_fini(&options);
    }
}

Test(options, refuses)
{
    static const char *const bad[][3] = {{"-np", NULL},
                                         {"-np", "0", "p"},
                                         {"-np", "-1", "p"},
                                         {"-np", "1 ", "p"},
                                         {"-np", "1048577", "p"},
                                         {"--nope", "p"},
                                         {"---np", "1", "p"},
                                         {"-vv", "p"},
                                         {"--verbose=1", "p"},
                                         {"--set", "X", "p"},
                                         {"--set", "=1", "p"},
                                         {"--set", "NOPE=1", "p"},
                                         {"--set", "TIMEOUT=x", "p"},
                                         {"--timeout", "x", "p"},
                                         {"--bind", "l3", "p"},
                                         {"--map-by", "core", "p"},
                                         {"--map-by", "", "p"},
                                         {"-x", "", "p"},
                                         {"-x", "=1", "p"},
                                         {"-x", "A B=1", "p"},
                                         {"-x", "A B", "p"},
                                         {"-x", "A =1", "p"},
                                         {"--agent", "rel", "p"},
                                         {"--chdir", "", "p"},
                                         {"-v", ""},
                                         {"doctor", ""},
                                         {"doctor", "--dry-run"},
                                         {"--json", "f", "p"},
                                         {"--json", "", "p"},
                                         {"--timeline", "", "p"},
                                         {"--output-dir", "", "p"},
                                         {"--no-copy", "p"},
                                         {"-np", "2"},
                                         {"--", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_options options;
        const char *words[4] = {bad[i][0], bad[i][1], bad[i][2], NULL};
        cr_assert(parse(&options, words) < 0, "%s %s", bad[i][0], bad[i][1] ? bad[i][1] : "");
        cr_assert(kolo_error_detail()[0] != '\0', "%s", bad[i][0]);
        kolo_options_fini(&options);
    }
}

Test(options, a_bad_environment_is_an_error)
{
    struct kolo_options options;
    char bad[] = "KOLO_TIMEOUT=soon", program[] = "p";
    char *const environment[] = {bad, NULL};
    char *const argv[] = {program, NULL};
    cr_assert(kolo_options_parse(argv, environment, NULL, &options) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "KOLO_TIMEOUT"), "%s", kolo_error_detail());
    kolo_options_fini(&options);
}

Test(options, doctor_needs_no_program)
{
    struct kolo_options options;
    cr_assert(PARSE(&options, "doctor") == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(options.command == KOLO_COMMAND_DOCTOR && !options.dry_run);
    kolo_options_fini(&options);
    cr_assert(PARSE(&options, "--dry-run", "p") == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(options.command == KOLO_COMMAND_RUN && options.dry_run);
    kolo_options_fini(&options);
}

/** cli.sh reads the lines of options. */
Test(options, the_help_has_titles_and_fits_in_80_columns)
{
    static const char *const titles[] = {
        "\nwhere ranks run:\n",          "\nwhat they run with:\n",   "\ntheir input and output:\n",
        "\ntime limits and failures:\n", "\nreaching other hosts:\n", "\ninformation:\n"};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out != NULL);
    kolo_options_help(out);
    cr_assert_eq(fclose(out), 0);
    const char *at = text;
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        const char *next = strstr(at, titles[i]);
        cr_assert(next != NULL, "%s", titles[i]);
        cr_assert(strstr(next + 1, titles[i]) == NULL, "%s twice", titles[i]);
        at = next;
    }
    for (at = text; *at; at += strcspn(at, "\n") + 1)
        cr_assert(strcspn(at, "\n") <= 80, "%.*s", (int)strcspn(at, "\n"), at);
    free(text);
}
