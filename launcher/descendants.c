// SPDX-License-Identifier: Apache-2.0
// Determines which processes of a list descend from one of them. A machine may have tens of
// thousands of processes, and an agent that ends its ranks asks again and again; so the list is
// sorted by parent, and each process is searched for once. Must never loop: the processes were read
// one after the other, while some ended and others reused their numbers, so they need not form a
// tree.
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

/** The processes, and the descendants whose children are still to be marked. */
struct search {
    struct kolo_process *at;
    size_t count, looks;
    struct kolo_process *waiting;
    pid_t root;
};

/** The index of the first child of @p parent, if there is one. */
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
    while (search.waiting) {
        const struct kolo_process *process = search.waiting;
        search.waiting = process->next;
        mark_children(&search, process->pid);
    }
    qsort(processes, count, sizeof *processes, by_pid);
    return search.looks;
}
