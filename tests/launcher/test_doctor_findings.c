// SPDX-License-Identifier: Apache-2.0
// The list of findings: one line for the same finding on several hosts, the worst first.
#include <criterion/criterion.h>

#include <string.h>

#include "base/alloc.h"
#include "launcher/doctor_judge.h"

Test(doctor_findings, hosts_of_one_finding_stand_together)
{
    struct kolo_findings findings = {.at = NULL};
    static const int order[] = {3, 1, 2, 3, 0, 1};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        kolo_findings_add(&findings, KOLO_SEVERITY_WARNING, "noise", order[i], "%d bytes", 12);
    kolo_findings_add(&findings, KOLO_SEVERITY_WARNING, "noise", 3, "%d bytes", 13);
    kolo_findings_add(&findings, KOLO_SEVERITY_ERROR, "noise", 3, "%d bytes", 12);
    cr_assert(findings.count == 3 && !findings.is_short);
    kolo_findings_add(&findings, KOLO_SEVERITY_NOTE, "far", -1, "of no host");
    cr_assert(findings.at[3].host_count == 0);
    cr_assert(findings.at[0].host_count == 4);
    for (int i = 0; i < 4; i++)
        cr_assert(findings.at[0].hosts[i] == i);
    kolo_findings_fini(&findings);
}

Test(doctor_findings, the_worst_come_first_and_else_nothing_moves)
{
    struct kolo_findings findings = {.at = NULL};
    static const enum kolo_severity order[] = {KOLO_SEVERITY_NOTE,  KOLO_SEVERITY_WARNING,
                                               KOLO_SEVERITY_ERROR, KOLO_SEVERITY_WARNING,
                                               KOLO_SEVERITY_ERROR, KOLO_SEVERITY_NOTE};
    static const char *const sorted[] = {"2", "4", "1", "3", "0", "5"};
    for (int i = 0; i < 6; i++)
        kolo_findings_add(&findings, order[i], "kind", 0, "%d", i);
    kolo_findings_sort(&findings);
    for (int i = 0; i < 6; i++)
        cr_assert(strcmp(findings.at[i].text, sorted[i]) == 0, "%d: %s", i, findings.at[i].text);
    kolo_findings_fini(&findings);
}

/* Texts of ssh, or of an agent that says why it ends, do not pass through facts. */
Test(doctor_findings, no_control_character_gets_to_a_terminal)
{
    struct kolo_findings findings = {.at = NULL};
    kolo_findings_add(&findings, KOLO_SEVERITY_NOTE, "noise", 0, "says %s",
                      "\x1b[31m \xc2\x9b"
                      "2J \xc3\x9b");
    cr_assert(strcmp(findings.at[0].text, "says ?[31m ??2J \xc3\x9b") == 0, "%s",
              findings.at[0].text);
    kolo_findings_fini(&findings);
}

Test(doctor_findings, short_memory_is_told)
{
    for (uint64_t nth = 1; nth < 3; nth++) {
        struct kolo_findings findings = {.at = NULL};
        kolo_alloc_fail_nth(nth);
        kolo_findings_add(&findings, KOLO_SEVERITY_NOTE, "kind", 0, "a");
        kolo_alloc_fail_nth(0);
        cr_assert(findings.is_short);
        kolo_findings_fini(&findings);
    }
}
