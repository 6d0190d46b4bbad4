// SPDX-License-Identifier: Apache-2.0
// getopt_long_only parses the words, driven by one table that also prints the help. "-name VALUE",
// "--name VALUE" and "--name=VALUE" mean the same, and a name may be abbreviated as long as it is
// unique and has two letters or more: a single letter is more likely another launcher's option.
// Options end at the first word that is not one, or after --. What tunes the library is a
// setting, and goes through the registry.
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "launcher/bind.h"
#include "launcher/foreign.h"
#include "launcher/gpus.h"
#include "launcher/hosts.h"
#include "launcher/options.h"
#include "runtime/plan.h"
#include "runtime/timeline.h"
#include "transport/conn.h"
#include "transport/places.h"
#include "transport/transport.h"

static kolo_status read_number(const char *option, const char *of_what, const char *value, int most,
                               int *number_out)
{
    char *end = NULL;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || number < 1 || number > most)
        return kolo_fail(KOLO_ERR_INVALID, "%s %s: give a number of %s from 1 to %d", option, value,
                         of_what, most);
    *number_out = (int)number;
    return KOLO_OK;
}

static kolo_status apply_np(struct kolo_options *options, const char *value)
{
    return read_number("-np", "ranks", value, KOLO_SLOTS_MAX, &options->np);
}

static kolo_status apply_gpus(struct kolo_options *options, const char *value)
{
    return read_number("--gpus", "devices for each rank", value, KOLO_GPUS_MAX, &options->gpus);
}

static kolo_status apply_map_by(struct kolo_options *options, const char *value)
{
    if (strcmp(value, "node") != 0 && strcmp(value, "slot") != 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "--map-by '%s': give slot, to fill one host after the other, or node, to "
                         "give each host one rank in turn",
                         value);
    options->in_turn = value[0] == 'n';
    return KOLO_OK;
}

bool kolo_options_is_own(enum kolo_setting_index index)
{
    switch ((int)index) {
    case KOLO_SET_RANK:
    case KOLO_SET_SIZE:
    case KOLO_SET_LOCAL_RANK:
    case KOLO_SET_LOCAL_SIZE:
    case KOLO_SET_RENDEZVOUS:
    case KOLO_SET_SECRET:
    case KOLO_SET_LAUNCHER:
        return true;
    default:
        return false;
    }
}

/* Refuses what kolorun sets itself: otherwise it would be accepted without effect. */
static kolo_status refuse_own(const char *option, const char *value, const char *name)
{
    static const char *const of_size[] = {"KOLO_SIZE", "WORLD_SIZE"};
    static const char *const of_job[] = {"KOLO_RENDEZVOUS", "KOLO_SECRET", "KOLO_LAUNCHER"};
    for (size_t i = 0; i < sizeof of_size / sizeof of_size[0]; i++)
        if (strcmp(name, of_size[i]) == 0)
            return kolo_fail(KOLO_ERR_INVALID,
                             "%s %s: kolorun gives every rank %s, the number of ranks; leave it "
                             "out, and give -np N",
                             option, value, name);
    for (size_t i = 0; i < sizeof of_job / sizeof of_job[0]; i++)
        if (strcmp(name, of_job[i]) == 0)
            return kolo_fail(KOLO_ERR_INVALID, "%s %s: kolorun makes one for the job; leave it out",
                             option, value);
    return kolo_fail(KOLO_ERR_INVALID, "%s %s: kolorun gives every rank its own %s; leave it out",
                     option, value, name);
}

static bool is_name(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && strncmp(name, text, length) == 0;
}

/* Of the variables that kolorun sets for each rank, the one whose name is the first @p length bytes
 * of @p text; NULL: none is. MASTER_ADDR and MASTER_PORT are not among them: -x may change them. */
static const char *find_own(const char *text, size_t length)
{
    static const char *const of_others[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++)
        if (is_name(of_others[i], text, length))
            return of_others[i];
    for (enum kolo_setting_index i = 0; i < KOLO_SETTINGS_COUNT; i++)
        if (kolo_options_is_own(i) && is_name(kolo_settings_name(i), text, length))
            return kolo_settings_name(i);
    return NULL;
}

static kolo_status apply_env(struct kolo_options *options, const char *value)
{
    if (value[0] == '=' || value[0] == '\0')
        return kolo_fail(KOLO_ERR_INVALID, "-x '%s': give NAME or NAME=VALUE", value);
    const char *equals = strchr(value, '=');
    const size_t length = strcspn(value, "=");
    if (strcspn(value, " \t\r\n") < length)
        return kolo_fail(KOLO_ERR_INVALID,
                         "-x '%s': the name '%.*s' has a blank; give -x once for each variable",
                         value, (int)length, value);
    const char *taken = find_own(value, length);
    if (taken)
        return refuse_own("-x", taken, taken);
    if (equals)
        return kolo_texts_add(&options->forward, value);
    const char *own = kolo_environment(value);
    if (!own)
        return kolo_fail(KOLO_ERR_INVALID,
                         "-x %s: the environment has no such variable; give %s="
                         "VALUE",
                         value, value);
    return kolo_texts_define(&options->forward, value, own);
}

static kolo_status set(struct kolo_options *options, const char *name, const char *value)
{
    return kolo_settings_set(&options->settings, name, value, KOLO_FROM_OPTION);
}

static kolo_status apply_set(struct kolo_options *options, const char *value)
{
    char name[64];
    size_t len = strcspn(value, "=");
    if (value[len] != '=' || len == 0 || len >= sizeof name)
        return kolo_fail(KOLO_ERR_INVALID,
                         "--set '%s': give NAME=VALUE; 'kolorun --help-settings' lists the names",
                         value);
    memcpy(name, value, len);
    name[len] = '\0';
    kolo_status status = set(options, name, value + len + 1);
    for (int i = 0; i < KOLO_SETTINGS_COUNT && status == KOLO_OK; i++)
        if (kolo_options_is_own((enum kolo_setting_index)i) &&
            options->settings.source[i] == KOLO_FROM_OPTION)
            status = refuse_own("--set", name, kolo_settings_name((enum kolo_setting_index)i));
    return status;
}

/* Puts what was typed before the error, if @p status is one. */
static kolo_status name_option(const char *option, kolo_status status)
{
    char why[KOLO_DETAIL_MAX];
    if (status == KOLO_OK)
        return KOLO_OK;
    kolo_detail_keep(why);
    return kolo_fail(status, "%s: %s", option, why);
}

static kolo_status apply_agent(struct kolo_options *options, const char *value)
{
    if (value[0] != '/')
        return kolo_fail(KOLO_ERR_INVALID,
                         "--agent '%s': give the absolute path of kolorun on the "
                         "other hosts",
                         value);
    options->agent = value;
    return KOLO_OK;
}

static bool are_same_file(int fd, int other)
{
    struct stat facts, others;
    return fstat(fd, &facts) == 0 && fstat(other, &others) == 0 && facts.st_dev == others.st_dev &&
           facts.st_ino == others.st_ino;
}

bool kolo_options_is_one_output(void)
{
    return are_same_file(STDOUT_FILENO, STDERR_FILENO);
}

bool kolo_options_is_dialogue(const struct kolo_options *options)
{
    return !options->no_input && isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 &&
           kolo_options_is_one_output();
}

uint32_t kolo_options_timeline_calls(const struct kolo_options *options, int size)
{
    return options->timeline ? kolo_timeline_calls(options->settings.timeline_calls, size) : 0;
}

/* What an option does, where it needs no function of its own. */
enum effect {
    CALLS,    /* apply() does it */
    SWITCHES, /* `member` becomes true */
    UNDOES,   /* `member` becomes false */
    NAMES,    /* the value is a text, for `member`; not "" if it names `what` (a file, say) */
    TUNES,    /* the value is that of a setting, `what` */
    ASKS      /* for `command` */
};
#define MEMBER(name) .member = offsetof(struct kolo_options, name)

static const struct entry {
    const char *name, *alias; /* as written */
    const char *value;        /* NULL: takes no value */
    const char *help;
    enum effect effect;
    kolo_status (*apply)(struct kolo_options *options, const char *value);
    size_t member; /* its offset */
    const char *what;
    enum kolo_command command;
} table[] = {
    {"-np", "-n", "N",
     "number of ranks (default: one per slot, Slurm task or, without either, core)",
     .apply = apply_np},
    {"--host", "-H", "HOST[:SLOTS],...", "the hosts, and how many ranks each may take", NAMES,
     MEMBER(hosts)},
    {"--hostfile", NULL, "FILE", "the hosts, one per line: HOST:SLOTS or HOST slots=N", NAMES,
     MEMBER(hostfile)},
    {"--oversubscribe", NULL, NULL, "allow more ranks than slots", SWITCHES, MEMBER(oversubscribe)},
    {"--map-by", NULL, "slot|node",
     "fill one host after the other (default), or give each host one rank in turn",
     .apply = apply_map_by},
    {"--bind", NULL, "none|core|numa|auto", "which processors each rank may use (default auto)",
     TUNES, .what = "BIND"},
    {"--gpus", NULL, "N", "show each rank only N GPUs, by CUDA_VISIBLE_DEVICES (default: all GPUs)",
     .apply = apply_gpus},
    {"--env", "-x", "NAME[=VALUE]",
     "pass a variable to every rank; on other hosts only KOLO_*, PATH, LD_LIBRARY_PATH and LANG "
     "are passed without it",
     .apply = apply_env},
    {"--chdir", NULL, "DIR", "run in DIR on every host (default: the current directory)", NAMES,
     MEMBER(chdir), .what = "directory"},
    {"--set", NULL, "NAME=VALUE",
     "give a setting to kolorun and to every rank, as KOLO_NAME=VALUE in the environment does",
     .apply = apply_set},
    {"--transport", NULL, "NAME", "use only this transport: inproc, shm, rdma or tcp", TUNES,
     .what = "TRANSPORT"},
    {"--prefix", NULL, NULL, "begin each line of output with [rank] (the default)", UNDOES,
     MEMBER(no_prefix)},
    {"--no-prefix", NULL, NULL, "pass output on as it is, byte for byte", SWITCHES,
     MEMBER(no_prefix)},
    {"--fold", NULL, NULL,
     "show once what three or more ranks repeat on standard error (the default)", UNDOES,
     MEMBER(no_fold)},
    {"--no-fold", NULL, NULL, "show each rank's lines, also if they are the same", SWITCHES,
     MEMBER(no_fold)},
    {"--no-stdin", NULL, NULL, "do not read standard input (otherwise rank 0 gets it)", SWITCHES,
     MEMBER(no_input)},
    {"--output-dir", NULL, "DIR",
     "also write each rank's output to DIR/rank.N.out and DIR/rank.N.err", NAMES,
     MEMBER(output_dir), .what = "directory"},
    {"--no-copy", NULL, NULL, "with --output-dir: to these files only", SWITCHES, MEMBER(no_copy)},
    {"--timeline", NULL, "FILE", "write every call of every rank as a trace for Perfetto", NAMES,
     MEMBER(timeline), .what = "file"},
    {"--timeout", NULL, "TIME", "end the job after this time, such as 90s, 5m or 1.5h", TUNES,
     .what = "JOB_TIMEOUT"},
    {"--start-timeout", NULL, "TIME", "how long hosts and ranks may take to start (default 60s)",
     TUNES, .what = "START_TIMEOUT"},
    {"--keep-going", NULL, NULL,
     "when a rank dies, let the others continue (they may call kolo_shrink)", SWITCHES,
     MEMBER(keep_going)},
    {"--ssh", NULL, "COMMAND", "the command that reaches other hosts (default ssh)", TUNES,
     .what = "SSH"},
    {"--agent", NULL, "PATH", "path of kolorun on the other hosts (default: the same as here)",
     .apply = apply_agent},
    {"--dry-run", NULL, NULL, "print what would be started where, and start nothing", SWITCHES,
     MEMBER(dry_run)},
    {"--json", NULL, "FILE", "doctor: also write everything as JSON", NAMES, MEMBER(json),
     .what = "file"},
    {"--verbose", "-v", NULL, "report what is being done", SWITCHES, MEMBER(verbose)},
    {"--help-settings", NULL, NULL, "list the settings", ASKS,
     .command = KOLO_COMMAND_HELP_SETTINGS},
    {"--print-settings", NULL, NULL, "print the value of every setting, and where it came from",
     ASKS, .command = KOLO_COMMAND_PRINT_SETTINGS},
    {"--help", "-h", NULL, "print this text", ASKS, .command = KOLO_COMMAND_HELP},
    {"--version", "-V", NULL, "print the version", ASKS, .command = KOLO_COMMAND_VERSION},
};
enum { OPTIONS = sizeof table / sizeof table[0] };

/* What getopt returns for the first entry of the table; characters and its own '?' and ':' are
 * below. */
enum { FIRST_VALUE = 256 };

static const char *bare(const char *word)
{
    return word + strspn(word, "-");
}

static size_t add_name(struct option *names, size_t count, const char *name, size_t index)
{
    if (name)
        names[count++] =
            (struct option){.name = bare(name),
                            .has_arg = table[index].value ? required_argument : no_argument,
                            .val = FIRST_VALUE + (int)index};
    return count;
}

/* Builds the table for getopt. Letters are entered as names of one letter, so that -npx is not -n
 * with the value "px". */
static void list_names(struct option names[2 * OPTIONS + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        count = add_name(names, count, table[i].name, i);
        count = add_name(names, count, table[i].alias, i);
    }
    names[count] = (struct option){.name = NULL};
}

/* The entry that shares most letters with @p word at the beginning, a whole name counting as one
 * more: for "did you mean". */
static const struct entry *nearest(const char *word)
{
    const struct entry *best = NULL;
    size_t most = 2;
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *name = bare(table[i].name), *other = bare(word);
        size_t same = 0;
        while (name[same] && name[same] == other[same])
            same++;
        if (name[same] == '\0')
            same++;
        if (same <= most)
            continue;
        most = same;
        best = &table[i];
    }
    return best;
}

/* Writes the names that begin like @p word, up to its end or '=', and returns their number. */
static size_t list_beginning(const char *word, char *list, size_t capacity)
{
    size_t len = strcspn(bare(word), "="), used = 0, count = 0;
    list[0] = '\0';
    for (size_t i = 0; i < OPTIONS && len > 0; i++) {
        if (strncmp(bare(table[i].name), bare(word), len) != 0)
            continue;
        int put =
            snprintf(list + used, capacity - used, "%s%s", count++ ? ", " : "", table[i].name);
        if (put > 0 && used + (size_t)put < capacity)
            used += (size_t)put;
    }
    return count;
}

static kolo_status unknown_option(const char *word)
{
    const char *advice = kolo_foreign_advice(word);
    if (advice)
        return kolo_fail(KOLO_ERR_INVALID, "unknown option '%s'; %s", word, advice);
    const struct entry *entry = nearest(word);
    return kolo_fail(KOLO_ERR_INVALID, "unknown option '%s'%s%s%s; try 'kolorun --help'", word,
                     entry ? ", did you mean " : "", entry ? entry->name : "", entry ? "?" : "");
}

/* @p word is the beginning of no option, or of several; the error says which. */
static kolo_status unclear_option(const char *word)
{
    char list[256];
    if (word[2] == '-' || list_beginning(word, list, sizeof list) < 2)
        return unknown_option(word);
    return kolo_fail(KOLO_ERR_INVALID,
                     "option '%s' is ambiguous: it may be any of %s; write one in full", word,
                     list);
}

/* "-c", "--c" or "-c=2", if -c is no option. getopt would take it as the beginning of --chdir, and
 * "-c 2" of mpirun would start the next word in the directory 2. */
static bool is_letter_of_others(const char *word)
{
    if (word[0] != '-' || !isalpha((unsigned char)bare(word)[0]) ||
        (bare(word)[1] != '\0' && bare(word)[1] != '='))
        return false;
    for (size_t i = 0; i < OPTIONS; i++)
        if (table[i].alias && bare(table[i].alias)[0] == bare(word)[0])
            return false;
    return true;
}

static kolo_status unknown_letter(const char *word)
{
    char list[256];
    if (kolo_foreign_advice(word) || list_beginning(word, list, sizeof list) == 0)
        return unknown_option(word);
    return kolo_fail(KOLO_ERR_INVALID,
                     "unknown option '%s'; a name may be shortened, but not to one letter: write "
                     "%s",
                     word, list);
}

/* For -np2 and -n2: the digits attached to the name, if the word is no other option; else NULL. */
static const char *attached_number(const char *word)
{
    static const char *const names[] = {"-np", "-n"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *digits = word + strlen(names[i]);
        if (strncmp(word, names[i], strlen(names[i])) == 0 && *digits &&
            digits[strspn(digits, "0123456789")] == '\0')
            return digits;
    }
    return NULL;
}

static kolo_status apply(const struct entry *entry, struct kolo_options *options, const char *value)
{
    void *member = (char *)options + entry->member;
    switch (entry->effect) {
    case CALLS:
        return entry->apply(options, value);
    case SWITCHES:
    case UNDOES:
        *(bool *)member = entry->effect == SWITCHES;
        return KOLO_OK;
    case NAMES:
        if (entry->what && value[0] == '\0')
            return kolo_fail(KOLO_ERR_INVALID, "%s '': give the name of a %s", entry->name,
                             entry->what);
        *(const char **)member = value;
        return KOLO_OK;
    case TUNES: /* an option that stands for a setting is what an error names */
        return name_option(entry->name, set(options, entry->what, value));
    case ASKS:
        options->command = entry->command;
        return KOLO_OK;
    }
    return KOLO_ERR_INTERNAL;
}

/* Applies the option for which getopt returned @p got; @p word is the last word that it
 * consumed. */
static kolo_status take_option(struct kolo_options *options, int got, const char *word)
{
    if (got == '?' && optopt < FIRST_VALUE && attached_number(word))
        return apply_np(options, attached_number(word));
    if (got == '?' && optopt < FIRST_VALUE)
        return unclear_option(word);
    const struct entry *entry = &table[(got < FIRST_VALUE ? optopt : got) - FIRST_VALUE];
    if (got == '?')
        return kolo_fail(KOLO_ERR_INVALID, "option '%s' takes no value", entry->name);
    if (got == ':')
        return kolo_fail(KOLO_ERR_INVALID, "option '%s' needs a value: %s", word, entry->value);
    return apply(entry, options, optarg);
}

/* Sets *program_out to the index of the program. */
static kolo_status take_options(struct kolo_options *options, char *const *argv,
                                char *const **program_out)
{
    static char self[] = "kolorun"; /* getopt begins after the program's name */
    struct option names[2 * OPTIONS + 1];
    kolo_status status = KOLO_OK;
    size_t count = 0;
    int got;
    while (argv[count])
        count++;
    if (count > INT_MAX - 2)
        return kolo_fail(KOLO_ERR_INVALID, "%zu arguments are too many; give fewer", count);
    char **words = kolo_calloc(count + 2, sizeof *words);
    if (!words)
        return KOLO_ERR_NO_MEMORY;
    words[0] = self;
    memcpy(words + 1, argv, count * sizeof *words);
    list_names(names);
    optind = 0; /* glibc: start again, even if it was used before */
    opterr = 0;
    for (;;) {
        const char *next = words[optind > 0 ? optind : 1];
        if (next && is_letter_of_others(next))
            KOLO_TRY(unknown_letter(next));
        if (next && next[0] == '-' && kolo_foreign_advice(next))
            KOLO_TRY(unknown_option(next)); /* before it is taken as a beginning */
        got = getopt_long_only((int)count + 1, words, "+:", names, NULL);
        if (got == -1)
            break;
        KOLO_TRY(take_option(options, got, words[optind - 1]));
    }
    *program_out = argv + optind - 1;
out:
    kolo_free_memory(words);
    return status;
}

/* Checks settings that a program which does not use kolo, or not that transport, would never read,
 * so that a mistake would go unnoticed. What depends on the host (whether KOLO_NET names something
 * there, KOLO_RDMA_DEVICE) is left to its ranks. */
static kolo_status check_settings(const struct kolo_settings *settings)
{
    enum kolo_log_level level;
    struct kolo_ports ports;
    enum kolo_bind bind;
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_bind_parse(settings->bind, &bind));
    KOLO_TRY(kolo_transport_name_check(settings->transport));
    KOLO_TRY(kolo_log_level_parse(settings->log_level, &level));
    KOLO_TRY(kolo_ports_parse(settings->ports, &ports));
    KOLO_TRY(kolo_places_check(settings->net));
    KOLO_TRY(kolo_plan_check(settings->plan));
out:
    return status;
}

/* Checks the settings that -x gives to the ranks alone. A rank would find a mistake only after the
 * start, and a program that does not use kolo never. */
static kolo_status check_forwarded(const struct kolo_options *options)
{
    struct kolo_settings of_ranks = options->settings;
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < options->forward.count; i++)
        KOLO_TRY(
            kolo_settings_set_variable(&of_ranks, options->forward.at[i], KOLO_FROM_ENVIRONMENT));
    status = check_settings(&of_ranks);
out:
    return name_option("-x", status);
}

/* "$program" in a script may be nothing. mpirun starts another program after a lone ':': here it
 * would be an argument, and what follows would be ignored without a word. */
static kolo_status check_program(char *const *program)
{
    if (program[0] && program[0][0] == '\0')
        return kolo_fail(KOLO_ERR_INVALID,
                         "the name of the program is empty; give a program (perhaps a variable in "
                         "quotes has no value)");
    for (; program[0] && program[1]; program++)
        if (strcmp(program[0], ":") == 0 && program[1][0] == '-')
            return kolo_fail(KOLO_ERR_INVALID,
                             "': %s': mpirun would start another program here, kolorun starts one "
                             "on all ranks; give a script that chooses by RANK",
                             program[1]);
    return KOLO_OK;
}

/* --timeline sets KOLO_TIMELINE for each rank. */
static bool forwards_timeline(const struct kolo_options *options)
{
    static const char start[] = "KOLO_TIMELINE=";
    for (size_t i = 0; i < options->forward.count; i++)
        if (strncmp(options->forward.at[i], start, sizeof start - 1) == 0)
            return true;
    return false;
}

static kolo_status check_words(const struct kolo_options *options)
{
    if (options->timeline && forwards_timeline(options))
        return kolo_fail(KOLO_ERR_INVALID,
                         "-x KOLO_TIMELINE and --timeline exclude each other; give one");
    if (options->no_copy && !options->output_dir)
        return kolo_fail(KOLO_ERR_INVALID,
                         "--no-copy: the output of ranks would go nowhere; give --output-dir DIR");
    if (options->hosts && options->hostfile)
        return kolo_fail(KOLO_ERR_INVALID, "-H and --hostfile exclude each other; give one");
    if (options->command == KOLO_COMMAND_RUN && !*options->program)
        return kolo_fail(KOLO_ERR_INVALID, "no program given; try 'kolorun --help'");
    if (options->command == KOLO_COMMAND_RUN || options->command == KOLO_COMMAND_DOCTOR)
        if (check_program(options->program) != KOLO_OK)
            return KOLO_ERR_INVALID;
    if (options->command == KOLO_COMMAND_RUN && options->json)
        return kolo_fail(KOLO_ERR_INVALID,
                         "--json %s: a job writes none; it is for 'kolorun doctor'", options->json);
    if (options->command == KOLO_COMMAND_DOCTOR && options->dry_run)
        return kolo_fail(KOLO_ERR_INVALID,
                         "--dry-run: doctor starts no ranks anyway; leave it out");
    return KOLO_OK;
}

kolo_status kolo_options_parse(char *const *argv, char *const *environ_list,
                               void (*unknown)(void *context, const char *name,
                                               const char *nearest),
                               struct kolo_options *options_out)
{
    kolo_status status = KOLO_OK;
    *options_out = (struct kolo_options){.command = KOLO_COMMAND_RUN};
    kolo_settings_init(&options_out->settings);
    KOLO_TRY(kolo_settings_load(&options_out->settings, environ_list, unknown, NULL));
    if (argv[0] && strcmp(argv[0], "doctor") == 0) {
        options_out->command = KOLO_COMMAND_DOCTOR;
        argv++;
    }
    KOLO_TRY(take_options(options_out, argv, &options_out->program));
    KOLO_TRY(kolo_bind_parse(options_out->settings.bind, &options_out->bind));
    KOLO_TRY(check_words(options_out));
    if (options_out->command != KOLO_COMMAND_RUN && options_out->command != KOLO_COMMAND_DOCTOR)
        goto out;
    KOLO_TRY(check_settings(&options_out->settings));
    status = check_forwarded(options_out);
out:
    return status;
}

void kolo_options_fini(struct kolo_options *options)
{
    kolo_texts_fini(&options->forward);
}

/* Prints @p text as words, in lines that end before column WIDTH and begin at column INDENT. The
 * first one has begun. */
static void print_words(const char *text, FILE *out)
{
    enum { INDENT = 33, WIDTH = 80 };
    size_t column = INDENT;
    while (*text) {
        const size_t len = strcspn(text, " ");
        if (column == INDENT) {
            fprintf(out, "%.*s", (int)len, text);
        } else if (column + 1 + len < WIDTH) {
            fprintf(out, " %.*s", (int)len, text);
            column++;
        } else {
            fprintf(out, "\n%*s%.*s", INDENT, "", (int)len, text);
            column = INDENT;
        }
        column += len;
        text += len + strspn(text + len, " ");
    }
    fputc('\n', out);
}

/* The title above the option of this name, if it has one. */
static void print_title(const char *name, FILE *out)
{
    static const struct {
        const char *first, *title;
    } groups[] = {{"-np", "where ranks run"},
                  {"--env", "what they run with"},
                  {"--prefix", "their input and output"},
                  {"--timeout", "time limits and failures"},
                  {"--ssh", "reaching other hosts"},
                  {"--dry-run", "information"}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i].first, name) == 0)
            fprintf(out, "\n%s:\n", groups[i].title);
}

void kolo_options_help(FILE *out)
{
    fprintf(out, "usage: kolorun [options] program [arguments]\n"
                 "       kolorun doctor [options] [program]    check its hosts and the network\n"
                 "                                             between them, start nothing\n"
                 "       kolorun info                          show what this machine can use\n"
                 "       kolorun timeline FILE... -o OUT.json  merge files of KOLO_TIMELINE=FILE\n"
                 "       kolorun help                          print this text\n\n"
                 "Starts one program as many ranks, on this machine or, by ssh, on several, and\n"
                 "ends all of them when one fails. The exit status is that of the first rank that\n"
                 "failed. Options come before the program; a name may be shortened to two letters\n"
                 "or more.\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        char left[64];
        print_title(table[i].name, out);
        snprintf(left, sizeof left, "%s%s%s%s%s", table[i].name, table[i].alias ? ", " : "",
                 table[i].alias ? table[i].alias : "", table[i].value ? " " : "",
                 table[i].value ? table[i].value : "");
        fprintf(out, "  %-30s ", left);
        print_words(table[i].help, out);
    }
    fprintf(out,
            "\nexamples:\n"
            "  kolorun -np 4 ./train\n"
            "  kolorun -H host1:2,host2:2 ./train --epochs 3\n"
            "  kolorun -np 4 --output-dir logs --no-copy --timeout 2h ./train\n\n"
            "Ctrl-\\ (SIGQUIT): says what each rank waits in or does, and ends nothing.\n"
            "Exit status 2: nothing was started; 124: --timeout; 126, 127: the program cannot\n"
            "be run; 128+N: signal N; 255: a host was lost. More: man kolorun.\n");
}
