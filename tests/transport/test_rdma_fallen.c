// SPDX-License-Identifier: Apache-2.0
// Warnings about pairs that fall back to TCP: one for each cause, with a count and an example; and
// when RDMA is no longer tried.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/rdma_fallen.h"

static char logged[2048];
static int warnings;

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    size_t used = strlen(logged);
    (void)context;
    warnings += level == KOLO_LOG_WARN;
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static void begin(void)
{
    logged[0] = '\0';
    warnings = 0;
    kolo_log_set_sink(keep_line, NULL);
}

static void end(void)
{
    kolo_log_set_sink(NULL, NULL);
}

TestSuite(rdma_fallen, .init = begin, .fini = end);

Test(rdma_fallen, one_warning_for_each_cause)
{
    struct kolo_rdma_fallen fallen = {.cause_count = 0};
    for (int peer = 3; peer < 60; peer++)
        kolo_rdma_fallen_note(&fallen, peer, "b", peer == 7 ? "no memory" : "no answer");
    cr_assert(logged[0] == '\0', "before it is asked for: %s", logged);
    kolo_rdma_fallen_tell(&fallen);
    cr_assert(warnings == 2, "%s", logged);
    cr_assert(
        strstr(logged, "56 ranks, such as rank 3 on b, are reached by tcp, not rdma: no answer\n"),
        "%s", logged);
    cr_assert(strstr(logged, "rank 7 on b is reached by tcp, not rdma: no memory\n"), "%s", logged);
    kolo_rdma_fallen_tell(&fallen);
    cr_assert(warnings == 2, "each once: %s", logged);
    kolo_rdma_fallen_note(&fallen, 60, "c", "no answer");
    kolo_rdma_fallen_tell(&fallen);
    cr_assert(warnings == 2, "no second warning of one cause: %s", logged);
}

Test(rdma_fallen, no_cause_is_lost_however_many_there_are)
{
    struct kolo_rdma_fallen fallen = {.cause_count = 0};
    char text[300];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 3 * KOLO_RDMA_CAUSES; i++) {
        snprintf(text, 16, "cause %d", i);
        kolo_rdma_fallen_note(&fallen, i, "b", text);
    }
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0'; /* longer than what is kept of it, and then the same text again */
    kolo_rdma_fallen_note(&fallen, 1, "b", text);
    kolo_rdma_fallen_note(&fallen, 2, "b", text);
    kolo_rdma_fallen_tell(&fallen);
    cr_assert(warnings == 3 * KOLO_RDMA_CAUSES + 1, "%d: %s", warnings, logged);
    for (int i = 0; i < 3 * KOLO_RDMA_CAUSES; i++) {
        snprintf(text, sizeof text, "rank %d on b is reached by tcp, not rdma: cause %d\n", i, i);
        cr_assert(strstr(logged, text), "%s", text);
    }
}

Test(rdma_fallen, tries_in_a_row_take_a_second_in_all)
{
    struct kolo_rdma_fallen fallen = {.cause_count = 0};
    int64_t all_ns = 0;
    while (!kolo_rdma_fallen_gives_up(&fallen)) {
        all_ns += kolo_rdma_fallen_patience_ns(&fallen);
        kolo_rdma_fallen_failed(&fallen);
    }
    cr_assert(fallen.in_a_row == KOLO_RDMA_FALLEN_IN_A_ROW && all_ns < 1000000000, "%d, %ld ns",
              fallen.in_a_row, (long)all_ns);
    for (int i = 0; i < 1000; i++)
        kolo_rdma_fallen_failed(&fallen); /* attempts that were in progress at the same time */
    cr_assert(kolo_rdma_fallen_patience_ns(&fallen) > 10000000);
    kolo_rdma_fallen_succeeded(&fallen);
    cr_assert(!kolo_rdma_fallen_gives_up(&fallen));
}
