// SPDX-License-Identifier: Apache-2.0
// The earliest evidence decides. A rank's connection to the store breaks the moment it dies, often
// before its agent reports its end. Both count as evidence, and the rank with the earliest evidence
// is named, once it is known how it ended. The evidence of a silent host is the time when it was
// last heard: ranks elsewhere may have failed because of it before it had been silent for long
// enough.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/verdict.h"
#include "tools/exit_status.h"

enum { TROUBLE_MAX = KOLO_DETAIL_MAX, LATE_TEXT_MAX = 320, SIGNAL_STATUS = 128 };

struct fate {
    const char *host;
    uint32_t pid;
    int64_t seen_ns; /* first evidence of its end */
    bool is_seen;
    bool has_left, was_lost, has_ended;
    bool was_ours; /* kolorun ended it */
    bool was_late; /* it had not called kolo_init when the others gave up waiting for it */
    bool is_of_lost_host;
    const char *behind; /* kolorun ends it, since nothing can follow: what it did; NULL: no */
    struct kolo_outcome outcome;
};

struct kolo_verdict {
    int size;
    bool has_trouble, keeps_going, has_waited;
    bool sends_term, sends_kill;
    int64_t late_ns;          /* when they gave up */
    char late[LATE_TEXT_MAX]; /* what the first of those that were late did then; "": not known */
    int64_t trouble_ns;
    int trouble_status;
    const struct kolo_ranks *trouble_ranks; /* of a lost host; NULL: the text is complete */
    char trouble[TROUBLE_MAX];
    struct fate fates[];
};

kolo_status kolo_verdict_create(int size, struct kolo_verdict **verdict_out)
{
    struct kolo_verdict *verdict =
        kolo_calloc(1, sizeof *verdict + (size_t)size * sizeof verdict->fates[0]);
    if (!verdict)
        return KOLO_ERR_NO_MEMORY;
    verdict->size = size;
    *verdict_out = verdict;
    return KOLO_OK;
}

void kolo_verdict_destroy(struct kolo_verdict *verdict)
{
    kolo_free_memory(verdict);
}

static bool is_rank(const struct kolo_verdict *verdict, int rank)
{
    return rank >= 0 && rank < verdict->size;
}

static void see(struct fate *fate, int64_t when_ns)
{
    if (fate->is_seen && fate->seen_ns <= when_ns)
        return;
    fate->is_seen = true;
    fate->seen_ns = when_ns;
}

void kolo_verdict_behind(struct kolo_verdict *verdict, int rank, const char *how)
{
    if (is_rank(verdict, rank))
        verdict->fates[rank].behind = how;
}

void kolo_verdict_keep_going(struct kolo_verdict *verdict)
{
    verdict->keeps_going = true;
}

void kolo_verdict_waited(struct kolo_verdict *verdict)
{
    verdict->has_waited = true;
}

void kolo_verdict_sends(struct kolo_verdict *verdict, int number)
{
    verdict->sends_term = verdict->sends_term || number == SIGTERM;
    verdict->sends_kill = verdict->sends_kill || number == SIGKILL;
}

void kolo_verdict_started(struct kolo_verdict *verdict, int rank, const char *host, uint32_t pid)
{
    if (!is_rank(verdict, rank))
        return;
    verdict->fates[rank].host = host;
    verdict->fates[rank].pid = pid;
}

uint32_t kolo_verdict_pid(const struct kolo_verdict *verdict, int rank)
{
    return is_rank(verdict, rank) ? verdict->fates[rank].pid : 0;
}

void kolo_verdict_left(struct kolo_verdict *verdict, int rank)
{
    if (is_rank(verdict, rank))
        verdict->fates[rank].has_left = true;
}

void kolo_verdict_lost(struct kolo_verdict *verdict, int rank, int64_t when_ns)
{
    if (!is_rank(verdict, rank))
        return;
    verdict->fates[rank].was_lost = true;
    see(&verdict->fates[rank], when_ns);
}

static bool is_failure(const struct fate *fate)
{
    return fate->has_ended && (fate->outcome.signal != 0 || fate->outcome.status != 0);
}

bool kolo_verdict_ended(struct kolo_verdict *verdict, const struct kolo_outcome *outcome,
                        int64_t when_ns)
{
    if (outcome->rank >= (uint32_t)verdict->size)
        return false;
    struct fate *fate = &verdict->fates[outcome->rank];
    if (fate->has_ended)
        return false;
    fate->outcome = *outcome;
    fate->has_ended = true;
    fate->was_ours = (verdict->sends_term && outcome->signal == SIGTERM) ||
                     (verdict->sends_kill && outcome->signal == SIGKILL);
    see(fate, when_ns);
    return is_failure(fate);
}

/* Returns false if something earlier is known. */
static bool take_trouble(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                         const char *text)
{
    if (verdict->has_trouble && verdict->trouble_ns <= when_ns)
        return false;
    verdict->has_trouble = true;
    verdict->trouble_ns = when_ns;
    verdict->trouble_status = exit_status;
    verdict->trouble_ranks = NULL;
    snprintf(verdict->trouble, sizeof verdict->trouble, "%s", text);
    return true;
}

void kolo_verdict_trouble(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                          const char *format, ...)
{
    char text[TROUBLE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)take_trouble(verdict, when_ns, exit_status, text);
}

void kolo_verdict_host(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                       const char *text, const struct kolo_ranks *ranks)
{
    if (take_trouble(verdict, when_ns, exit_status, text))
        verdict->trouble_ranks = ranks;
    for (uint32_t i = 0; i < ranks->count && is_rank(verdict, (int)ranks->at[i]); i++)
        verdict->fates[ranks->at[i]].is_of_lost_host = true;
}

int64_t kolo_verdict_evidence(const struct kolo_verdict *verdict, const struct kolo_ranks *ranks,
                              int64_t when_ns)
{
    for (uint32_t i = 0; i < ranks->count && is_rank(verdict, (int)ranks->at[i]); i++) {
        const struct fate *fate = &verdict->fates[ranks->at[i]];
        if (fate->was_lost && !fate->has_ended && !fate->has_left && fate->seen_ns < when_ns)
            when_ns = fate->seen_ns;
    }
    return when_ns;
}

bool kolo_verdict_ended_well(const struct kolo_verdict *verdict, int rank)
{
    if (!is_rank(verdict, rank))
        return false;
    const struct fate *fate = &verdict->fates[rank];
    return fate->has_ended && !is_failure(fate);
}

bool kolo_verdict_is_deserter(const struct kolo_verdict *verdict, int rank)
{
    return kolo_verdict_ended_well(verdict, rank) && verdict->fates[rank].was_lost &&
           !verdict->fates[rank].has_left;
}

bool kolo_verdict_started_as(const struct kolo_verdict *verdict, int rank, const char **host_out,
                             uint32_t *pid_out)
{
    if (!is_rank(verdict, rank) || !verdict->fates[rank].host || verdict->fates[rank].pid == 0)
        return false;
    *host_out = verdict->fates[rank].host;
    *pid_out = verdict->fates[rank].pid;
    return true;
}

void kolo_verdict_late(struct kolo_verdict *verdict, int rank, int64_t when_ns)
{
    if (!is_rank(verdict, rank) || verdict->fates[rank].has_ended)
        return;
    verdict->fates[rank].was_late = true;
    verdict->late_ns = when_ns;
}

int kolo_verdict_first_late(const struct kolo_verdict *verdict)
{
    for (int rank = 0; rank < verdict->size; rank++)
        if (verdict->fates[rank].was_late)
            return rank;
    return -1;
}

void kolo_verdict_late_does(struct kolo_verdict *verdict, const char *what)
{
    snprintf(verdict->late, sizeof verdict->late, "%s", what);
}

bool kolo_verdict_has_left(const struct kolo_verdict *verdict, int rank)
{
    return is_rank(verdict, rank) && verdict->fates[rank].has_left;
}

bool kolo_verdict_has_ended(const struct kolo_verdict *verdict, int rank)
{
    return is_rank(verdict, rank) && verdict->fates[rank].has_ended;
}

void kolo_signal_text(int number, char *text, size_t capacity)
{
    const char *name = sigabbrev_np(number);
    if (name)
        snprintf(text, capacity, "SIG%s", name);
    else if (number == SIGRTMIN)
        snprintf(text, capacity, "SIGRTMIN");
    else if (number > SIGRTMIN && number <= SIGRTMAX)
        snprintf(text, capacity, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(text, capacity, "unknown");
}

void kolo_outcome_text(const struct kolo_outcome *outcome, char *text, size_t capacity)
{
    if (outcome->signal == 0) {
        snprintf(text, capacity, "exited with status %u", outcome->status);
        return;
    }
    char name[32];
    kolo_signal_text((int)outcome->signal, name, sizeof name);
    snprintf(text, capacity, "was killed by signal %u (%s)%s%s", outcome->signal, name,
             outcome->core_dumped ? ", core dumped" : "",
             outcome->time_ran_out     ? ", when its processor time was used up (ulimit -t)"
             : outcome->memory_ran_out ? ", while the kernel's out-of-memory killer was at work"
                                       : "");
}

static int status_of_end(const struct fate *fate)
{
    return fate->outcome.signal ? SIGNAL_STATUS + (int)fate->outcome.signal
                                : (int)fate->outcome.status;
}

static void describe(const struct kolo_verdict *verdict, const struct fate *fate, char *text,
                     size_t capacity)
{
    char how[256] = "";
    if (fate->has_ended)
        kolo_outcome_text(&fate->outcome, how, sizeof how);
    snprintf(text, capacity, "rank %d (%s, pid %u)%s%s", (int)(fate - verdict->fates),
             fate->host ? fate->host : "?", fate->pid ? fate->pid : fate->outcome.pid,
             how[0] ? " " : "", how);
}

void kolo_verdict_name(const struct kolo_verdict *verdict, int rank, char *text, size_t capacity)
{
    describe(verdict, &verdict->fates[rank], text, capacity);
}

static bool has_failed(const struct kolo_verdict *verdict, int rank)
{
    return is_failure(&verdict->fates[rank]);
}

static bool has_failed_alone(const struct kolo_verdict *verdict, int rank)
{
    return has_failed(verdict, rank) && !verdict->fates[rank].was_ours;
}

/* Its connection broke, but it ran on until kolorun ended it: for example, it became another
 * program. */
static bool has_cut_off(const struct kolo_verdict *verdict, int rank)
{
    const struct fate *fate = &verdict->fates[rank];
    return fate->has_ended && fate->was_ours && fate->was_lost && !fate->has_left;
}

/* It ended with status 0, and never joined the other ranks. */
static bool is_absent(const struct kolo_verdict *verdict, int rank)
{
    const struct fate *fate = &verdict->fates[rank];
    return kolo_verdict_ended_well(verdict, rank) && !fate->was_lost && !fate->has_left;
}

void kolo_verdict_strayed(struct kolo_verdict *verdict, int rank, const char *how)
{
    char who[512];
    if (!kolo_verdict_ended_well(verdict, rank))
        return;
    describe(verdict, &verdict->fates[rank], who, sizeof who);
    kolo_verdict_trouble(verdict, verdict->fates[rank].seen_ns, EXIT_STATUS_FAILED,
                         "%s, and what it left in the background %s; let the program stay in the "
                         "foreground: no daemon, no '&', exec or wait at the end of a script",
                         who, how);
}

/* The first by evidence of those that match @p fits; NULL: none. */
static const struct fate *first_of(const struct kolo_verdict *verdict,
                                   bool (*fits)(const struct kolo_verdict *verdict, int rank))
{
    const struct fate *first = NULL;
    for (int rank = 0; rank < verdict->size; rank++) {
        const struct fate *fate = &verdict->fates[rank];
        if (fits(verdict, rank) && (!first || fate->seen_ns < first->seen_ns))
            first = fate;
    }
    return first;
}

/* Writes which ranks had not called kolo_init when @p failed gave up waiting for them. Returns
 * false if there are none, or it had failed before. */
static bool describe_late(const struct kolo_verdict *verdict, const struct fate *failed, char *text,
                          size_t capacity)
{
    const int first = kolo_verdict_first_late(verdict);
    int more = 0;
    if (first < 0 || failed->was_late || failed->seen_ns < verdict->late_ns)
        return false;
    for (int rank = first + 1; rank < verdict->size; rank++)
        more += verdict->fates[rank].was_late;
    const struct fate *fate = &verdict->fates[first];
    snprintf(text, capacity, "rank %d (%s, pid %u)", first, fate->host ? fate->host : "?",
             fate->pid);
    size_t used = strlen(text);
    if (more > 0)
        snprintf(text + used, capacity - used, " and %d more", more);
    used = strlen(text);
    snprintf(text + used, capacity - used, " had not called kolo_init%s%s",
             !verdict->late[0] ? ""
             : more == 0       ? ": "
                               : "; the first of them: ",
             verdict->late);
    return true;
}

/* Writes which rank made @p failed fail by ending before it, and how. Returns false if none did. */
static bool describe_leaver(const struct kolo_verdict *verdict, const struct fate *failed,
                            char *text, size_t capacity)
{
    const struct fate *found = first_of(verdict, has_cut_off);
    if (found && found->seen_ns <= failed->seen_ns) {
        snprintf(text, capacity, "rank %d (%s, pid %u) lost its connections and ran on",
                 (int)(found - verdict->fates), found->host ? found->host : "?",
                 found->outcome.pid);
        return true;
    }
    const char *lack = "kolo_finalize";
    found = first_of(verdict, kolo_verdict_is_deserter);
    if (!found && verdict->has_waited) {
        found = first_of(verdict, is_absent);
        lack = "kolo_init";
    }
    if (!found || found->seen_ns > failed->seen_ns)
        return describe_late(verdict, failed, text, capacity);
    char how[512];
    describe(verdict, found, how, sizeof how);
    snprintf(text, capacity, "%s without %s", how, lack);
    return true;
}

static bool is_lost(const struct kolo_verdict *verdict, int rank)
{
    const struct fate *fate = &verdict->fates[rank];
    return has_failed_alone(verdict, rank) || fate->behind ||
           (fate->is_of_lost_host && !fate->has_ended);
}

/* Appends which ranks were ended because nothing could follow, but not @p told. */
static void say_behind(const struct kolo_verdict *verdict, const struct fate *told, char *text,
                       size_t capacity)
{
    int count = 0;
    const struct fate *first = NULL;
    for (const struct fate *fate = verdict->fates; fate < verdict->fates + verdict->size; fate++) {
        if (!fate->behind || fate == told)
            continue;
        first = first ? first : fate;
        count++;
    }
    const size_t used = strlen(text);
    if (count == 1)
        snprintf(text + used, capacity - used, "; rank %d (%s), %s, was ended",
                 (int)(first - verdict->fates), first->host ? first->host : "?", first->behind);
    else if (count > 1)
        snprintf(text + used, capacity - used, "; %d ranks that were left were ended", count);
}

/* What happened to the job when @p ranks were lost, and who else was lost. */
static void say_end(const struct kolo_verdict *verdict, const struct kolo_ranks *ranks, char *text,
                    size_t capacity)
{
    enum { NAMED = 4 };
    int lost = 0;
    size_t used = 0;
    snprintf(text, capacity, "%s",
             verdict->keeps_going ? "the others went on" : "the job was ended");
    for (int rank = 0; rank < verdict->size && verdict->keeps_going; rank++) {
        const char *host = verdict->fates[rank].host;
        uint32_t place;
        if (kolo_ranks_find(ranks, (uint32_t)rank, &place) || !is_lost(verdict, rank))
            continue;
        used = strlen(text);
        if (lost++ < NAMED)
            snprintf(text + used, capacity - used, "%s rank %d (%s)", lost == 1 ? ", but for" : ",",
                     rank, host ? host : "?");
    }
    used = strlen(text);
    if (lost + (int)ranks->count == verdict->size && lost > 0)
        snprintf(text, capacity, "then the others failed too");
    else if (lost > NAMED)
        snprintf(text + used, capacity - used, " and %d more", lost - NAMED);
}

int kolo_verdict_finish(const struct kolo_verdict *verdict, char *line, size_t capacity)
{
    const struct fate *failed = first_of(verdict, has_failed_alone);
    char text[512], before[600], end[1200];
    line[0] = '\0';
    failed = failed ? failed : first_of(verdict, has_failed);
    if (verdict->has_trouble && (!failed || verdict->trouble_ns <= failed->seen_ns)) {
        end[0] = '\0';
        if (verdict->trouble_ranks)
            say_end(verdict, verdict->trouble_ranks, end, sizeof end);
        if (end[0])
            say_behind(verdict, NULL, end, sizeof end);
        snprintf(line, capacity, "%s%s%s", verdict->trouble, end[0] ? "; " : "", end);
        return verdict->trouble_status;
    }
    if (!failed)
        return 0;
    describe(verdict, failed, text, sizeof text);
    uint32_t rank = (uint32_t)(failed - verdict->fates);
    say_end(verdict, &(struct kolo_ranks){.at = &rank, .count = 1}, end, sizeof end);
    say_behind(verdict, failed, end, sizeof end);
    double age = (double)failed->outcome.age_ms / 1000;
    if (failed->behind)
        snprintf(line, capacity, "rank %u (%s, pid %u), %s, was ended after %.1f s; %s", rank,
                 failed->host ? failed->host : "?", failed->pid, failed->behind, age, end);
    else if (describe_leaver(verdict, failed, before, sizeof before))
        snprintf(line, capacity, "%s, then %s after %.1f s; %s", before, text, age, end);
    else
        snprintf(line, capacity, "%s after %.1f s; %s", text, age, end);
    return status_of_end(failed);
}
