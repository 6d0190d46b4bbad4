// SPDX-License-Identifier: Apache-2.0
// The environment of the ranks. On this machine they inherit all of kolorun's; on others they get
// that of the login, and in addition a short list of variables. HOME stays that of the login.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/job_spec.h"

static const char *const inherited[] = {"PATH", "LD_LIBRARY_PATH", "LANG"};

static kolo_status add_settings(const struct kolo_settings *settings, struct kolo_texts *env)
{
    for (int i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        enum kolo_setting_index index = (enum kolo_setting_index)i;
        char value[KOLO_TEXT_MAX];
        if (kolo_options_is_own(index) || settings->source[i] == KOLO_FROM_DEFAULT)
            continue;
        kolo_settings_value(settings, index, value, sizeof value);
        kolo_status status = kolo_texts_define(env, kolo_settings_name(index), value);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

/* For a job that is started: the store, its secret, and that kolorun started it. */
static kolo_status add_meeting(const struct kolo_meeting *meeting, struct kolo_texts *env)
{
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_texts_define(env, "KOLO_LAUNCHER", "kolorun"));
    KOLO_TRY(kolo_texts_define(env, "KOLO_RENDEZVOUS", kolo_meeting_place(meeting)));
    KOLO_TRY(kolo_texts_define(env, "KOLO_SECRET", kolo_meeting_secret(meeting)));
out:
    return status;
}

/* MASTER_ADDR and MASTER_PORT, at which programs of other frameworks let rank 0 listen. */
static kolo_status add_master(const struct kolo_job_facts *facts, struct kolo_texts *env)
{
    char address[KOLO_HOST_MAX], port[8];
    const char *user = strchr(facts->first_host->name, '@');
    if (facts->first_host->is_here)
        kolo_meeting_address(facts->meeting, address, sizeof address);
    else
        snprintf(address, sizeof address, "%s", user ? user + 1 : facts->first_host->name);
    snprintf(port, sizeof port, "%u", (unsigned)kolo_meeting_master_port(facts->meeting));
    kolo_status status = kolo_texts_define(env, "MASTER_ADDR", address);
    return status == KOLO_OK ? kolo_texts_define(env, "MASTER_PORT", port) : status;
}

static kolo_status make_env(const struct kolo_job_facts *facts, struct kolo_texts *env)
{
    const struct kolo_options *options = facts->options;
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < sizeof inherited / sizeof inherited[0]; i++) {
        const char *value = kolo_environment(inherited[i]);
        if (value && !facts->host->is_here)
            KOLO_TRY(kolo_texts_define(env, inherited[i], value));
    }
    KOLO_TRY(add_settings(&options->settings, env));
    if (facts->meeting)
        KOLO_TRY(add_master(facts, env));
    for (size_t i = 0; i < options->forward.count; i++)
        KOLO_TRY(kolo_texts_add(env, options->forward.at[i]));
    if (facts->meeting)
        KOLO_TRY(add_meeting(facts->meeting, env));
out:
    return status;
}

/* The current directory as the user's shell calls it, if that is so; NULL: not known. */
static const char *logical_cwd(void)
{
    struct stat there, here;
    const char *path = kolo_environment("PWD");
    return path && path[0] == '/' && strlen(path) < PATH_MAX && stat(path, &there) == 0 &&
                   stat(".", &here) == 0 && there.st_dev == here.st_dev &&
                   there.st_ino == here.st_ino
               ? path
               : NULL;
}

/* On other hosts, links of the path may lead elsewhere or be directories: there the path that the
 * user knows must be followed, not where it leads to here. */
static kolo_status make_cwd(const struct kolo_options *options, char **cwd_out)
{
    char physical[PATH_MAX], there[2 * PATH_MAX];
    const bool is_whole = options->chdir && options->chdir[0] == '/';
    const char *cwd = is_whole ? options->chdir : logical_cwd();
    if (!cwd)
        cwd = getcwd(physical, sizeof physical);
    if (!cwd)
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "the current directory: %s; go to one that is there, or give --chdir its "
                         "whole path",
                         strerror(errno));
    if (options->chdir && !is_whole) {
        snprintf(there, sizeof there, "%s/%s", cwd, options->chdir);
        cwd = there;
    }
    *cwd_out = kolo_strdup(cwd);
    return *cwd_out ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static kolo_status copy_ranks(const struct kolo_ranks *ranks, struct kolo_ranks *copy_out)
{
    uint32_t *at = kolo_calloc(ranks->count, sizeof *at);
    if (!at)
        return KOLO_ERR_NO_MEMORY;
    memcpy(at, ranks->at, ranks->count * sizeof *at);
    *copy_out = (struct kolo_ranks){.at = at, .count = ranks->count};
    return KOLO_OK;
}

kolo_status kolo_job_spec_pack(const struct kolo_job_facts *facts, uint8_t **data_out,
                               size_t *bytes_out)
{
    const struct kolo_options *options = facts->options;
    struct kolo_spec spec = {.size = (uint32_t)facts->size,
                             .has_input = !options->no_input,
                             .is_dialogue = kolo_options_is_dialogue(options),
                             .bind = options->bind,
                             .gpus = (uint32_t)options->gpus,
                             .peer_timeout_ms = (uint32_t)options->settings.peer_timeout_ms,
                             .exit_timeout_ms = (uint32_t)options->settings.exit_timeout_ms,
                             .credit_bytes = KOLO_JOB_CREDIT_BYTES,
                             .timeline_calls = kolo_options_timeline_calls(options, facts->size)};
    kolo_status status = KOLO_OK;
    KOLO_TRY(copy_ranks(&facts->host->ranks, &spec.ranks));
    KOLO_TRY(make_cwd(options, &spec.cwd));
    for (size_t i = 0; options->program[i]; i++)
        KOLO_TRY(kolo_texts_add(&spec.argv, options->program[i]));
    if (!options->program[0])
        KOLO_TRY(kolo_texts_add(&spec.argv, "/proc/self/exe"));
    KOLO_TRY(make_env(facts, &spec.env));
    status = kolo_spec_pack(&spec, data_out, bytes_out);
out:
    kolo_spec_fini(&spec);
    return status;
}
