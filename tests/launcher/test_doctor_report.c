// SPDX-License-Identifier: Apache-2.0
// launcher/doctor_report.c: the JSON is whole, or a failure; doctor.sh compares it with the lines.
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/doctor.h"

static long left; /* allocations of jansson until one fails; 0: all succeed */

static void *take(size_t bytes)
{
    return left > 0 && --left == 0 ? NULL : malloc(bytes);
}

static struct kolo_checkup hosts[2];
static struct kolo_fact_path path = {.from = 0, .to = 1, .rtt_us = 50, .words = "well"};
static const struct kolo_fact_paths paths = {.at = &path, .count = 1};
static struct kolo_findings findings;

static void fill(void)
{
    for (int i = 0; i < 2; i++) {
        struct kolo_facts *facts = &hosts[i].facts;
        hosts[i].name = i == 0 ? "a" : "b";
        hosts[i].has_facts = true;
        kolo_facts_init(facts);
        facts->backend_count = facts->place_count = facts->other_count = 1;
        snprintf(facts->places[0].address, sizeof facts->places[0].address, "10.0.0.%d", i + 1);
    }
    kolo_findings_add(&findings, KOLO_SEVERITY_NOTE, "sample", 1, "words");
}

/* What is written while allocation @p nth of jansson fails; NULL: a failure. */
static char *written(long nth)
{
    const struct kolo_diagnosis diagnosis = {
        .hosts = hosts, .count = 2, .size = 2, .paths = &paths, .findings = &findings};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_not_null(out);
    left = nth;
    const kolo_status status = kolo_diagnosis_write(&diagnosis, out);
    cr_assert(status == KOLO_OK || kolo_error_detail()[0]);
    cr_assert(fclose(out) == 0);
    if (status == KOLO_OK)
        return text;
    free(text);
    return NULL;
}

Test(doctor_report, what_lacks_memory_is_not_left_out)
{
    long nth = 1, failures = 0;
    json_set_alloc_funcs(take, free);
    fill();
    char *whole = written(0);
    cr_assert(whole && strstr(whole, "10.0.0.2") && strstr(whole, "\"sample\""), "%s", whole);
    for (bool is_enough = false; !is_enough; nth++) {
        char *text = written(nth);
        is_enough = left > 0;
        cr_assert(!text || strcmp(text, whole) == 0, "allocation %ld: %s", nth, text);
        failures += !text;
        free(text);
    }
    cr_assert(failures > 100, "%ld failures", failures);
    free(whole);
    kolo_findings_fini(&findings);
}
