// SPDX-License-Identifier: Apache-2.0
// kolorun: starts one program as a number of ranks. This file only determines what is asked for.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <kolo/version.h>

#include "launcher/agent.h"
#include "launcher/allocation.h"
#include "launcher/doctor.h"
#include "launcher/examine.h"
#include "launcher/hosts.h"
#include "launcher/info.h"
#include "launcher/job.h"
#include "launcher/open_files.h"
#include "launcher/options.h"
#include "launcher/spawn.h"
#include "launcher/timeline_command.h"
#include "runtime/local.h"
#include "tools/streams.h"

static int agent_command(void)
{
    (void)prctl(PR_SET_NAME, KOLO_LOCAL_AGENT);
    return kolo_agent_main();
}

static int help_command(void)
{
    kolo_options_help(stdout);
    return 0;
}

static int info_command(void)
{
    struct kolo_settings settings;
    kolo_settings_init(&settings);
    if (kolo_settings_load(&settings, NULL, NULL, NULL) != KOLO_OK) {
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
        return KOLO_EXIT_USAGE;
    }
    kolo_info_print(&settings, stdout);
    return 0;
}

/* A command counts only as the single argument: `kolorun ./info` runs a program of that name. */
static const struct command {
    const char *name;
    int (*run)(void);
} commands[] = {{"--agent", agent_command},
                {"--examine", kolo_examine_main},
                {"help", help_command},
                {"info", info_command}};

static void warn_unknown(void *context, const char *name, const char *nearest)
{
    (void)context;
    fprintf(stderr, "kolorun: warning: %s is not a setting of kolo%s%s%s\n", name,
            nearest ? ", did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static int shortage(kolo_status status)
{
    fprintf(stderr, "kolorun: %s%s\n",
            status == KOLO_ERR_NO_MEMORY ? "cannot start: out of memory: " : "",
            kolo_error_detail());
    return KOLO_EXIT_SHORTAGE;
}

/* What was asked for is wrong; or kolorun has no memory, or no process, to read it. */
static int refused(kolo_status status)
{
    if (status == KOLO_ERR_NO_MEMORY || status == KOLO_ERR_UNSUPPORTED)
        return shortage(status);
    const char *detail = kolo_error_detail();
    const char *next = strstr(detail, "; ") ? "" : "; try 'kolorun --help'";
    fprintf(stderr, "kolorun: %s%s\n", detail, next);
    return KOLO_EXIT_USAGE;
}

/* No hosts were given: takes those of the batch job around this process, and says so, or this
 * machine. */
static kolo_status find_hosts(struct kolo_hosts *hosts)
{
    struct kolo_allocation allocation;
    kolo_status status = kolo_allocation_find(hosts, &allocation);
    if (status == KOLO_OK && !allocation.job)
        return kolo_hosts_here(hosts, kolo_local_cpus());
    if (status == KOLO_OK && !allocation.is_here)
        fprintf(stderr,
                "kolorun: the hosts are those of Slurm's job %.20s: %.200s%s (-H localhost: this "
                "machine alone)\n",
                allocation.job, allocation.list, strlen(allocation.list) > 200 ? "..." : "");
    return status;
}

static int run(const struct kolo_options *options)
{
    const struct kolo_hosts_rule rule = {options->np, options->oversubscribe, options->in_turn};
    struct kolo_hosts hosts = {.at = NULL};
    int size = 0, exit_status = 0;
    kolo_status status = KOLO_OK;
    if (options->hosts)
        status = kolo_hosts_parse(&hosts, options->hosts);
    else if (options->hostfile)
        status = kolo_hosts_read(&hosts, options->hostfile, options->settings.start_timeout_ms);
    else
        status = find_hosts(&hosts);
    if (status == KOLO_OK)
        status = kolo_hosts_map(&hosts, &rule, &size);
    if (status != KOLO_OK)
        exit_status = refused(status);
    else if (options->command == KOLO_COMMAND_DOCTOR)
        exit_status = kolo_doctor_run(options, &hosts, size);
    else if (options->dry_run)
        kolo_job_print(options, &hosts, size);
    else if ((status = kolo_open_files_allow_job(size, hosts.count)) != KOLO_OK)
        exit_status = refused(status);
    else
        exit_status = kolo_job_run(options, &hosts, size);
    kolo_hosts_fini(&hosts);
    return exit_status;
}

static int perform(const struct kolo_options *options)
{
    switch (options->command) {
    case KOLO_COMMAND_HELP:
        kolo_options_help(stdout);
        return 0;
    case KOLO_COMMAND_VERSION:
        printf("kolorun %s\n", KOLO_VERSION);
        return 0;
    case KOLO_COMMAND_HELP_SETTINGS:
        kolo_settings_print_help(stdout);
        return 0;
    case KOLO_COMMAND_PRINT_SETTINGS:
        kolo_settings_print_values(&options->settings, stdout);
        return 0;
    case KOLO_COMMAND_RUN:
    case KOLO_COMMAND_DOCTOR:
        break;
    }
    return run(options);
}

static const struct command *find_command(const char *word)
{
    for (size_t i = 0; word && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(word, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* A command followed by more words is a program of that name. If there is no such program, the
 * extra words are an error. */
static kolo_status check_alone(char *const *words)
{
    char path[4096];
    int error = 0;
    const char *search = kolo_environment("PATH");
    if (words[0][0] == '-' || kolo_program_find(words[0], ".", search ? search : "/usr/bin:/bin",
                                                path, sizeof path, &error) == KOLO_OK)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID,
                     "%s takes no more words, such as '%s', and no program has this name; try "
                     "'kolorun %s'",
                     words[0], words[1], words[0]);
}

/* `kolorun info --help`: there is only one help. */
static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* A rank of a job with --timeline may be a kolorun itself. The memory that KOLO_TIMELINE names
 * belongs to that one rank, and the ranks that this kolorun starts have no such descriptor. Outside
 * of a rank, somebody has set it by hand and expects a timeline, so a warning is due. */
static void drop_lent_timeline(void)
{
    const char *value = kolo_environment("KOLO_TIMELINE");
    if (!value || strncmp(value, "fd://", 5) != 0)
        return;
    if (!kolo_environment("KOLO_LAUNCHER"))
        fprintf(stderr,
                "kolorun: warning: KOLO_TIMELINE=%.32s is ignored: only --timeline gives ranks "
                "such memory; give --timeline FILE, or KOLO_TIMELINE=FILE\n",
                value);
    (void)unsetenv("KOLO_TIMELINE");
}

/* Does what the words after the program's name ask for. */
static int perform_words(int count, char **words)
{
    struct kolo_options options;
    if (count > 0 && strcmp(words[0], "timeline") == 0)
        return kolo_timeline_command(count - 1, words + 1);
    const struct command *command = find_command(words[0]);
    if (command && count == 1)
        return command->run();
    kolo_status status = command ? check_alone(words) : KOLO_OK;
    if (status != KOLO_OK)
        return is_help(words[1]) ? help_command() : refused(status);
    status = kolo_options_parse(words, NULL, warn_unknown, &options);
    int exit_status = status == KOLO_OK ? perform(&options) : refused(status);
    kolo_options_fini(&options);
    return exit_status;
}

/* Who starts kolorun may have blocked signals, as a program does that takes them with sigwait, and
 * exec keeps the mask: no signal would end kolorun, or reach the ranks, and the end of none of its
 * processes would be noticed. */
static void unblock_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
    unblock_signals();
    const kolo_status status = streams_secure();
    if (status != KOLO_OK)
        return shortage(status);
    drop_lent_timeline();
    int named = argc > 0; /* its own name */
    return streams_end("kolorun", perform_words(argc - named, argv + named));
}
