// SPDX-License-Identifier: Apache-2.0
// Builds the command that reaches a host: ssh, its options, and what is to run there, quoted for
// the shell there. Must never start it.
#include <stdio.h>
#include <string.h>

#include "launcher/remote_parts.h"

enum { SSH_ALIVE_COUNT = 2 };

/* 'text' for a POSIX shell. */
static kolo_status quote(const char *text, char *out, size_t capacity)
{
    size_t used = 0;
    for (const char *c = text; *c; c++)
        used += *c == '\'' ? 4 : 1;
    if (used + 3 > capacity)
        return kolo_fail(KOLO_ERR_INVALID, "the path '%s' is too long", text);
    *out++ = '\'';
    for (const char *c = text; *c; c++) {
        if (*c == '\'') {
            memcpy(out, "'\\''", 4);
            out += 4;
        } else {
            *out++ = *c;
        }
    }
    memcpy(out, "'", 2);
    return KOLO_OK;
}

static kolo_status add_words(struct kolo_texts *argv, const char *words)
{
    char copy[KOLO_HOST_MAX + 1];
    snprintf(copy, sizeof copy, "%s", words);
    char *rest = NULL;
    for (char *word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        kolo_status status = kolo_texts_add(argv, word);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

static int64_t seconds(int64_t ms)
{
    return ms < 1000 ? 1 : (ms + 999) / 1000;
}

kolo_status kolo_remote_make_command(const struct kolo_remote_config *config,
                                     const struct kolo_host *host, struct kolo_texts *argv)
{
    char option[64], path[4096], command[4096 + 32];
    kolo_status status = KOLO_OK;
    KOLO_TRY(add_words(argv, config->ssh));
    if (argv->count == 0)
        return kolo_fail(KOLO_ERR_CONFIG, "the ssh command is empty; give --ssh COMMAND");
    static const char *const fixed[] = {"-T", "-x", "-o", "BatchMode=yes"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        KOLO_TRY(kolo_texts_add(argv, fixed[i]));
    const struct {
        const char *name;
        int64_t value;
    } options[] = {
        {"ConnectTimeout", seconds(config->start_timeout_ms)},
        {"ServerAliveInterval", seconds(config->peer_timeout_ms / SSH_ALIVE_COUNT)},
        {"ServerAliveCountMax", SSH_ALIVE_COUNT},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        snprintf(option, sizeof option, "%s=%lld", options[i].name, (long long)options[i].value);
        KOLO_TRY(kolo_texts_add(argv, "-o"));
        KOLO_TRY(kolo_texts_add(argv, option));
    }
    KOLO_TRY(quote(config->agent, path, sizeof path));
    snprintf(command, sizeof command, "exec %s --agent", path);
    KOLO_TRY(kolo_texts_add(argv, "--"));
    KOLO_TRY(kolo_texts_add(argv, host->name));
    KOLO_TRY(kolo_texts_add(argv, command));
out:
    return status;
}

void kolo_remote_command(const struct kolo_remote_config *config, const struct kolo_host *host,
                         struct kolo_texts *argv)
{
    if (kolo_remote_make_command(config, host, argv) != KOLO_OK)
        kolo_texts_fini(argv);
}
