// SPDX-License-Identifier: Apache-2.0
// Merges the records of a category from all ranks that have some, while they are read: best score
// first, equal scores by image. Owns the reader's position in each rank's list. It must never copy
// a record, nor keep a list of the whole, which would be as long as all records.
//
// The next few records of each list are looked up together, and prefetched, because they may be
// anywhere in memory. Two lists are merged without a branch that depends on the records, which a
// processor could not predict. More than two are merged with a tree of losers: each list's first
// record not yet taken is a leaf, each node keeps the later of its two candidates, and the root has
// the first of all. When that record is taken, the next of its list plays against the losers on its
// way up.
#include "base/alloc.h"
#include "metrics/coco.h"

enum { AHEAD = 16 };

enum { WINDOW = 32 };

/* A record that has not been taken yet. */
struct head {
    uint64_t key; /* of the score */
    uint32_t place;
    const struct kolo_coco_record *record; /* NULL: the end of the list */
};

/* The next records of a list. There always is one: the end of a list is a record too. */
struct kolo_coco_window {
    size_t at;          /* index in the list of the first record after the window */
    size_t next, count; /* in the window: index of the next record, number of records */
    struct head head[WINDOW];
};

kolo_status kolo_coco_run_make(struct kolo_coco_run *run, size_t sources)
{
    run->source = kolo_calloc(sources, sizeof *run->source);
    run->window = kolo_calloc(sources, sizeof *run->window);
    run->loser = kolo_calloc(sources, sizeof *run->loser);
    return run->source && run->window && run->loser ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

void kolo_coco_run_free(struct kolo_coco_run *run)
{
    kolo_free_memory(run->source);
    kolo_free_memory(run->window);
    kolo_free_memory(run->loser);
    *run = (struct kolo_coco_run){.source = NULL};
}

void kolo_coco_run_clear(struct kolo_coco_run *run)
{
    run->sources = run->count = run->left = 0;
}

void kolo_coco_run_add(struct kolo_coco_run *run, const struct kolo_coco_source *source)
{
    if (source->count == 0)
        return;
    run->source[run->sources++] = *source;
    run->count += source->count;
}

/* ---- one list ---- */

static void look(const struct kolo_coco_source *source, size_t at, struct head *head)
{
    size_t number = source->order ? source->order[at] : at;
    head->record = &source->record[number];
    head->key = kolo_coco_score_key(head->record->score);
    head->place = source->place_of ? source->place_of[number] : head->record->place;
}

/* Loads the next records when all of a window have been taken. */
static void refill(struct kolo_coco_run *run, size_t list)
{
    const struct kolo_coco_source *source = &run->source[list];
    struct kolo_coco_window *window = &run->window[list];
    size_t left = source->count - window->at;
    if (window->next < window->count)
        return;
    window->next = 0;
    window->count = left < WINDOW ? left : WINDOW;
    for (size_t i = 0; i < window->count; i++, window->at++) {
        if (source->order && i + AHEAD < left)
            __builtin_prefetch(&source->record[source->order[window->at + AHEAD]]);
        look(source, window->at, &window->head[i]);
    }
    if (left == 0) {
        window->head[0] = (struct head){.key = UINT64_MAX, .place = UINT32_MAX};
        window->count = 1;
    }
}

static const struct head *head_of(const struct kolo_coco_run *run, size_t list)
{
    const struct kolo_coco_window *window = &run->window[list];
    return &window->head[window->next];
}

/* Takes from the only list: there is nothing to merge. */
static void take_straight(struct kolo_coco_run *run, const struct kolo_coco_record **taken,
                          size_t count)
{
    const struct kolo_coco_source *source = run->source;
    size_t at = run->window->at;
    for (size_t i = 0; i < count; i++, at++) {
        taken[i] = &source->record[source->order ? source->order[at] : at];
        __builtin_prefetch(taken[i]);
    }
    run->window->at = at;
}

/* Never equal: records of two lists are of two images. */
static bool comes_before(const struct head *a, const struct head *b)
{
    return (a->key < b->key) | ((a->key == b->key) & (a->place < b->place));
}

/* ---- two lists ---- */

static void take_of_two(struct kolo_coco_run *run, const struct kolo_coco_record **taken,
                        size_t count)
{
    struct kolo_coco_window *one = &run->window[0], *other = &run->window[1];
    for (size_t n = 0; n < count;) {
        size_t i = one->next, j = other->next;
        while (n < count && i < one->count && j < other->count) {
            bool is_other = comes_before(&other->head[j], &one->head[i]);
            const struct head *first = is_other ? &other->head[j] : &one->head[i];
            taken[n++] = first->record;
            i += !is_other;
            j += is_other;
        }
        one->next = i;
        other->next = j;
        refill(run, 0);
        refill(run, 1);
    }
}

/* ---- the tree ---- */

/* Plays all matches below a node. Nodes from `sources` on are the lists.
 * @return the list below the node whose record comes first */
static size_t play(struct kolo_coco_run *run, size_t node)
{
    if (node >= run->sources)
        return node - run->sources;
    size_t left = play(run, 2 * node), right = play(run, 2 * node + 1);
    bool is_right = comes_before(head_of(run, right), head_of(run, left));
    run->loser[node] = is_right ? left : right;
    return is_right ? right : left;
}

void kolo_coco_run_rewind(struct kolo_coco_run *run)
{
    run->left = run->count;
    for (size_t list = 0; list < run->sources; list++) {
        struct kolo_coco_window *window = &run->window[list];
        window->at = window->next = window->count = 0;
        if (run->sources > 1)
            refill(run, list);
    }
    if (run->sources > 2)
        run->loser[0] = play(run, 1);
}

static const struct kolo_coco_record *pop(struct kolo_coco_run *run)
{
    size_t first = run->loser[0];
    const struct kolo_coco_record *record = head_of(run, first)->record;
    run->window[first].next++;
    refill(run, first);
    for (size_t node = (first + run->sources) / 2; node > 0; node /= 2) {
        size_t loser = run->loser[node];
        bool is_loser_first = comes_before(head_of(run, loser), head_of(run, first));
        run->loser[node] = is_loser_first ? first : loser;
        first = is_loser_first ? loser : first;
    }
    run->loser[0] = first;
    return record;
}

size_t kolo_coco_run_take(struct kolo_coco_run *run,
                          const struct kolo_coco_record *taken[KOLO_COCO_TAKEN_MAX])
{
    size_t count = run->left < KOLO_COCO_TAKEN_MAX ? run->left : KOLO_COCO_TAKEN_MAX;
    run->left -= count;
    if (run->sources == 1)
        take_straight(run, taken, count);
    else if (run->sources == 2)
        take_of_two(run, taken, count);
    else
        for (size_t i = 0; i < count; i++)
            taken[i] = pop(run);
    return count;
}
