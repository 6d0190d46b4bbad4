// SPDX-License-Identifier: Apache-2.0
// Composes the line that says why a host cannot be reached, or was lost: from the last output of
// ssh and the agent, and from how the process ended. Must never print a byte of theirs that a
// terminal would interpret.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "launcher/remote_parts.h"

/* Copies the last line of @p words before *end that is not blank, and sets *end to its
 * beginning. */
static void line_before(const char *words, size_t *end, char *text, size_t capacity)
{
    size_t used = 0;
    while (*end > 0 && isspace((unsigned char)words[*end - 1]))
        (*end)--;
    size_t begin = *end;
    while (begin > 0 && words[begin - 1] != '\n')
        begin--;
    for (size_t i = begin; i < *end && used + 1 < capacity; i++)
        if (words[i] != '\0')
            text[used++] = words[i];
    text[used] = '\0';
    *end = begin;
    kolo_text_clean(text);
}

/* The last line of standard error that is not blank. */
static void last_words(const struct kolo_remote *remote, char *text, size_t capacity)
{
    size_t end = remote->words_len;
    line_before(remote->words, &end, text, capacity);
}

/* The last line of standard output that is not blank, if no agent has answered. */
static void last_noise(const struct kolo_remote *remote, char *text, size_t capacity)
{
    char noise[KOLO_NOISE_KEPT];
    size_t end = kolo_frames_noise(&remote->channel.frames, noise);
    line_before(noise, &end, text, capacity);
}

/* The last line that the agent there printed, which says why it cannot start. */
static bool agent_words(const struct kolo_remote *remote, char *text, size_t capacity)
{
    static const char name[] = "kolorun: ", sign[] = "agent: ";
    for (size_t end = remote->words_len; end > 0;) {
        line_before(remote->words, &end, text, capacity);
        if (strncmp(text, name, strlen(name)) == 0)
            memmove(text, text + strlen(name), strlen(text + strlen(name)) + 1);
        if (strncmp(text, sign, strlen(sign)) == 0)
            return true;
    }
    return false;
}

static int exit_code(const struct kolo_remote *remote)
{
    return remote->process_ended && WIFEXITED(remote->wait_status)
               ? WEXITSTATUS(remote->wait_status)
               : REMOTE_SSH_FAILED;
}

static bool has_sign(const char *words, const char *const signs[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(words, signs[i]))
            return true;
    return false;
}

static bool has_timed_out(const char *line)
{
    static const char begin[] = "Connection to ", end[] = " timed out";
    const size_t length = strlen(line);
    return strncmp(line, begin, strlen(begin)) == 0 && length >= strlen(end) &&
           strcmp(line + length - strlen(end), end) == 0;
}

/* What @p last means, the last line of ssh, after the line @p before: the host went silent when it
 * was connected. If it never was, ssh says "connect to host X port 22: Connection timed out". */
static const char *meaning(const char *before, const char *last)
{
    if (has_timed_out(last) && strstr(before, "banner exchange"))
        return "; it said nothing: its sshd hangs, or a jump host cannot reach it";
    if (has_timed_out(last) || strstr(last, " not responding"))
        return "; it answered at first: now it hangs, or only short messages arrive (MTU)";
    return "";
}

/* What the ssh of a ProxyJump said of its way from the jump host to the host, if that failed. The
 * ssh that it serves then only says that its connection was closed. */
static bool jump_words(const struct kolo_remote *remote, char *text, size_t capacity)
{
    for (size_t end = remote->words_len; end > 0;) {
        line_before(remote->words, &end, text, capacity);
        if (strcmp(text, "stdio forwarding failed") != 0)
            continue;
        line_before(remote->words, &end, text, capacity);
        return true;
    }
    return false;
}

/* Why ssh itself failed. Some of its last lines only say that it did; then the line before is added
 * (which host of a ProxyJump, a key that is unknown or has changed, how far it came). */
static void ssh_words(const struct kolo_remote *remote, char *text, size_t capacity)
{
    static const char *const vague[] = {"Host key verification failed", "Connection closed by",
                                        "Connection reset by"};
    char last[256], before[256];
    size_t end = remote->words_len;
    if (jump_words(remote, last, sizeof last)) {
        snprintf(text, capacity, "from its jump host: %s", last);
        return;
    }
    line_before(remote->words, &end, last, sizeof last);
    before[0] = '\0';
    if (has_sign(last, vague, sizeof vague / sizeof vague[0]) || has_timed_out(last))
        line_before(remote->words, &end, before, sizeof before);
    size_t stop = strlen(before);
    if (stop > 0 && before[stop - 1] == '.')
        before[stop - 1] = '\0';
    snprintf(text, capacity, "%s%s%s%s", before, stop > 0 ? "; " : "", last, meaning(before, last));
}

static void describe_process(const struct kolo_remote *remote, char *text, size_t capacity)
{
    if (!remote->process_ended)
        snprintf(text, capacity, "still running");
    else if (WIFSIGNALED(remote->wait_status))
        snprintf(text, capacity, "killed by signal %d", WTERMSIG(remote->wait_status));
    else
        snprintf(text, capacity, "exit status %d", WEXITSTATUS(remote->wait_status));
}

/* The command on the host ended without a greeting, and ssh itself did not fail. If there is no
 * login, or a start-up file ends the shell, the reason is on standard output, if anywhere. */
static void describe_answer(const struct kolo_remote *remote, const char *words,
                            const char *process, char *text, size_t capacity)
{
    const char *ssh = remote->config->ssh;
    char said[KOLO_NOISE_KEPT + 1];
    last_noise(remote, said, sizeof said);
    const char *why = words[0] ? words : said;
    snprintf(text, capacity,
             "host %s: %s did not answer there as kolorun's agent (%.*s: %s%s%s); give --agent the "
             "path of kolorun there%s",
             remote->host->name, remote->config->agent, (int)strcspn(ssh, " \t"), ssh, why,
             why[0] ? ", " : "", process,
             words[0] ? ""
                      : ", or see that no start-up file of the shell there (.bashrc) exits or "
                        "redirects its streams");
}

void kolo_remote_describe_call(const struct kolo_remote *remote, char *text, size_t capacity)
{
    char words[640], process[64];
    last_words(remote, words, sizeof words);
    describe_process(remote, process, sizeof process);
    const int code = exit_code(remote);
    const char *name = remote->host->name;
    if (strcmp(remote->broken, "closed") == 0 && !remote->process_ended)
        snprintf(text, capacity,
                 "host %s: %.*s has closed its output without an answer, and has not ended", name,
                 (int)strcspn(remote->config->ssh, " \t"), remote->config->ssh);
    else if (remote->broken[0] && !remote->process_ended)
        snprintf(text, capacity, "host %s: %s", name, remote->broken);
    else if (remote->host->is_here)
        snprintf(text, capacity, "the agent on this machine did not start (%s)%s%s", process,
                 words[0] ? ": " : "", words);
    else if (code != REMOTE_SSH_FAILED && agent_words(remote, words, sizeof words))
        snprintf(text, capacity, "host %s: %s", name, words);
    else if (code == 126 || code == 127)
        snprintf(text, capacity,
                 "host %s: cannot run %s there: %s; install kolo at the same path, or give --agent",
                 name, remote->config->agent, words[0] ? words : process);
    else if (code != REMOTE_SSH_FAILED)
        describe_answer(remote, words, process, text, capacity);
    else {
        ssh_words(remote, words, sizeof words);
        snprintf(text, capacity, "host %s: cannot be reached by ssh: %s", name,
                 words[0] ? words : process);
    }
}

bool kolo_remote_lacks_something(const struct kolo_remote *remote)
{
    char words[64];
    if (remote->agent_pid != 0)
        return false;
    return remote->host->is_here ||
           (exit_code(remote) != REMOTE_SSH_FAILED && agent_words(remote, words, sizeof words));
}

void kolo_remote_quote(const struct kolo_remote *remote, char *text, size_t capacity)
{
    char words[160] = "", noise[160] = "";
    if (remote->state == KOLO_REMOTE_CALLING) {
        last_words(remote, words, sizeof words);
        last_noise(remote, noise, sizeof noise);
    }
    if (words[0] && noise[0])
        snprintf(text, capacity, "'%s' and '%s'", noise, words);
    else if (words[0] || noise[0])
        snprintf(text, capacity, "'%s'", words[0] ? words : noise);
    else
        text[0] = '\0';
}

void kolo_remote_describe_loss(const struct kolo_remote *remote, char *text, size_t capacity)
{
    char words[512], process[64], ranks[128];
    const struct kolo_host *host = remote->host;
    last_words(remote, words, sizeof words);
    describe_process(remote, process, sizeof process);
    kolo_ranks_text(&host->ranks, ranks, sizeof ranks);
    int code = remote->process_ended && WIFEXITED(remote->wait_status)
                   ? WEXITSTATUS(remote->wait_status)
                   : -1;
    if (remote->process_ended && WIFSIGNALED(remote->wait_status) && host->is_here)
        code = 128 + WTERMSIG(remote->wait_status);
    if (remote->is_silent)
        snprintf(text, capacity, "host %s was %s and counts as lost, with %s", host->name,
                 remote->broken, ranks);
    else if (code > 128 && code != REMOTE_SSH_FAILED)
        snprintf(text, capacity, "the agent on host %s (pid %u) was killed by signal %d; %s lost",
                 host->name, remote->agent_pid, code - 128, ranks);
    else
        snprintf(text, capacity, "the connection to host %s broke (%s%s%s), with %s", host->name,
                 words[0] ? words : remote->broken, words[0] || remote->broken[0] ? ", " : "",
                 process, ranks);
}

bool kolo_remote_is_refused_by_load(const struct kolo_remote *remote)
{
    static const char *const signs[] = {"kex_exchange_identification", "Connection reset by",
                                        "Connection closed by"};
    char words[512];
    if (jump_words(remote, words, sizeof words))
        return false;
    last_words(remote, words, sizeof words);
    return has_sign(words, signs, sizeof signs / sizeof signs[0]);
}
