// SPDX-License-Identifier: Apache-2.0
// Which process descends from which, also if what was read is not a tree, and how many lookups that
// takes.
#include <criterion/criterion.h>

#include <stdlib.h>

#include "launcher/descendants.h"

enum { ROOT = 100 };

static struct kolo_process process(pid_t pid, pid_t parent)
{
    return (struct kolo_process){.pid = pid, .parent = parent, .name = "name"};
}

Test(descendants, children_and_theirs_whatever_their_order)
{
    struct kolo_process list[] = {
        process(7, 9),     process(9, 8),      process(8, ROOT), process(ROOT, 1), process(1, 0),
        process(300, 200), process(200, ROOT), process(50, 1),   process(51, 50),
    };
    enum { COUNT = sizeof list / sizeof *list };
    static const pid_t ours[] = {7, 8, 9, 200, 300};
    size_t found = 0;
    (void)kolo_descendants_mark(list, COUNT, ROOT);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(i == 0 || list[i - 1].pid < list[i].pid, "in the order of their pids: %zu", i);
        if (!list[i].is_ours)
            continue;
        cr_assert(found < sizeof ours / sizeof *ours && list[i].pid == ours[found], "%d is not",
                  (int)list[i].pid);
        found++;
    }
    cr_assert(found == sizeof ours / sizeof *ours, "%zu", found);
}

/* While /proc was read some processes ended, and others got their numbers. */
Test(descendants, what_is_no_tree_comes_to_an_end)
{
    struct kolo_process list[] = {process(5, 5),   process(6, 7),    process(7, 6),
                                  process(8, 9),   process(9, ROOT), process(9, 8),
                                  process(10, 11), process(ROOT, 9)};
    enum { COUNT = sizeof list / sizeof *list };
    (void)kolo_descendants_mark(list, COUNT, ROOT);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert(list[i].is_ours == (list[i].pid == 8 || list[i].pid == 9), "%d",
                  (int)list[i].pid);
    cr_assert(kolo_descendants_mark(NULL, 0, ROOT) == 0);
}

/** Each process is looked up once as a child, and as a parent by binary search. */
static void expect_few_looks(struct kolo_process *list, size_t count, const char *what)
{
    size_t halves = 1;
    while (((size_t)1 << halves) <= count)
        halves++;
    size_t looks = kolo_descendants_mark(list, count, ROOT);
    cr_assert(looks <= (count + 1) * (halves + 1), "%s: %zu looks at %zu", what, looks, count);
    for (size_t i = 0; i < count; i++)
        cr_assert(list[i].is_ours, "%s: %d", what, (int)list[i].pid);
}

Test(descendants, looks_grow_with_the_processes_not_with_their_square)
{
    enum { COUNT = 20000 };
    struct kolo_process *list = calloc(COUNT, sizeof *list);
    cr_assert(list != NULL);
    for (int i = 0; i < COUNT; i++) /* each is the child of the next one */
        list[i] = process(1000 + i, i + 1 < COUNT ? 1001 + i : ROOT);
    expect_few_looks(list, COUNT, "a chain");
    for (int i = 0; i < COUNT; i++)
        list[i] = process(1000 + i, ROOT);
    expect_few_looks(list, COUNT, "all children of one");
    for (int i = 0; i < COUNT; i++) /* two children each */
        list[i] = process(1000 + i, i == 0 ? ROOT : 1000 + (i - 1) / 2);
    expect_few_looks(list, COUNT, "a tree");
    free(list);
}
