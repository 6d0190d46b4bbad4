// SPDX-License-Identifier: Apache-2.0
// The list of findings. Hosts with the same finding are combined: a cluster of a hundred hosts with
// one fault gives one line. Some of the text comes from a host, or from ssh.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "launcher/doctor_judge.h"

const char *kolo_severity_name(enum kolo_severity severity)
{
    static const char *const names[KOLO_SEVERITIES] = {
        [KOLO_SEVERITY_ERROR] = "error",
        [KOLO_SEVERITY_WARNING] = "warning",
        [KOLO_SEVERITY_NOTE] = "note",
    };
    return names[severity];
}

static struct kolo_finding *find(struct kolo_findings *findings, enum kolo_severity severity,
                                 const char *kind, const char *text)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct kolo_finding *finding = &findings->at[i];
        if (finding->severity == severity && strcmp(finding->kind, kind) == 0 &&
            strcmp(finding->text, text) == 0)
            return finding;
    }
    return NULL;
}

static struct kolo_finding *add(struct kolo_findings *findings)
{
    void *at = findings->at;
    if (kolo_grow(&at, &findings->capacity, findings->count + 1, sizeof findings->at[0]) != KOLO_OK)
        return NULL;
    findings->at = at;
    findings->at[findings->count] = (struct kolo_finding){.hosts = NULL};
    return &findings->at[findings->count++];
}

/* Inserts a host, for which there is room, in the order of numbers unless it is there already. */
static void add_host(struct kolo_finding *finding, int host)
{
    size_t to = finding->host_count;
    while (to > 0 && finding->hosts[to - 1] > host)
        to--;
    if (to > 0 && finding->hosts[to - 1] == host)
        return;
    memmove(finding->hosts + to + 1, finding->hosts + to,
            (finding->host_count - to) * sizeof finding->hosts[0]);
    finding->hosts[to] = host;
    finding->host_count++;
}

void kolo_findings_add(struct kolo_findings *findings, enum kolo_severity severity,
                       const char *kind, int host, const char *format, ...)
{
    char text[sizeof findings->at->text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    kolo_text_clean(text);
    struct kolo_finding *finding = find(findings, severity, kind, text);
    if (!finding && (finding = add(findings)) != NULL) {
        finding->severity = severity;
        finding->kind = kind;
        memcpy(finding->text, text, sizeof text);
    }
    void *hosts = finding ? finding->hosts : NULL;
    if (!finding || kolo_grow(&hosts, &finding->capacity, finding->host_count + 1,
                              sizeof finding->hosts[0]) != KOLO_OK) {
        findings->is_short = true;
        return;
    }
    finding->hosts = hosts;
    if (host >= 0)
        add_host(finding, host);
}

void kolo_findings_sort(struct kolo_findings *findings)
{
    for (size_t i = 1; i < findings->count; i++) {
        struct kolo_finding moved = findings->at[i];
        size_t to = i;
        for (; to > 0 && findings->at[to - 1].severity > moved.severity; to--)
            findings->at[to] = findings->at[to - 1];
        findings->at[to] = moved;
    }
}

void kolo_findings_fini(struct kolo_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        kolo_free_memory(findings->at[i].hosts);
    kolo_free_memory(findings->at);
    *findings = (struct kolo_findings){.at = NULL};
}
