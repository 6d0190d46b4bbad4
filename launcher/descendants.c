// SPDX-License-Identifier: Apache-2.0
// Which processes of a list descend from one of them. A machine may have tens of thousands, and an
// agent that ends its ranks looks again and again: each is looked for once, among all in the order
// of their parents. Must never go round: what was read of processes one after the other, while some
// ended and others took their numbers, need not be a tree.
#include "launcher/descendants.h"

#include <stdlib.h>

static int by_parent(const void *a, const void *b)
{
    const struct kolo_process *x = a, *y = b;
    return (x->parent > y->parent) - (x->parent < y->parent);
}

static int by_pid(const void *a, const void *b)
{
    const struct kolo_process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/** The processes, and those that are ours whose children are yet to be marked. */
struct search {
    struct kolo_process *at;
    size_t count, looks;
    struct kolo_process *waiting;
    pid_t root;
};

/** Where the children of @p parent begin, if there are any. */
static size_t first_child(struct search *search, pid_t parent)
{
    size_t low = 0, high = search->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        search->looks++;
        if (search->at[middle].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void mark_children(struct search *search, pid_t parent)
{
    size_t i = first_child(search, parent);
    for (; i < search->count && search->at[i].parent == parent; i++) {
        struct kolo_process *child = &search->at[i];
        search->looks++;
        if (child->is_ours || child->pid == search->root)
            continue;
        child->is_ours = true;
        child->next = search->waiting;
        search->waiting = child;
    }
}

size_t kolo_descendants_mark(struct kolo_process *processes, size_t count, pid_t root)
{
    struct search search = {.at = processes, .count = count, .root = root};
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        processes[i].is_ours = false;
    qsort(processes, count, sizeof *processes, by_parent);
    mark_children(&search, root);
    while (search.waiting != NULL) {
        const struct kolo_process *process = search.waiting;
        search.waiting = process->next;
        mark_children(&search, process->pid);
    }
    qsort(processes, count, sizeof *processes, by_pid);
    return search.looks;
}
