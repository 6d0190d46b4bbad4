// SPDX-License-Identifier: Apache-2.0
// The records of a category from all ranks that had some, merged as they are read: best score first,
// equal scores by image. Owns where the reader stands in each rank's list. Must never: copy a record,
// or keep a list of the whole, which would be as long as all records.
//
// How it works: a tree of losers. Each list's first record not yet taken is a leaf, each node keeps
// the one of two that comes later, the root the one that comes first; when that is taken, its list's
// next plays against the losers on its way up. Records that stand anywhere in memory are asked for
// before their turn.
#include "base/alloc.h"
#include "metrics/coco.h"

enum { AHEAD = 16 };

struct kolo_coco_head {
    uint64_t key; /* of the score */
    uint32_t place;
    const struct kolo_coco_record *record; /* NULL: the list is over */
    size_t at;                             /* in its list */
};

kolo_status kolo_coco_run_make(struct kolo_coco_run *run, size_t sources)
{
    run->source = kolo_calloc(sources, sizeof *run->source);
    run->head = kolo_calloc(sources, sizeof *run->head);
    run->loser = kolo_calloc(sources, sizeof *run->loser);
    return run->source && run->head && run->loser ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

void kolo_coco_run_free(struct kolo_coco_run *run)
{
    kolo_free_memory(run->source);
    kolo_free_memory(run->head);
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

static void look(struct kolo_coco_run *run, size_t list)
{
    const struct kolo_coco_source *source = &run->source[list];
    struct kolo_coco_head *head = &run->head[list];
    if (head->at == source->count) {
        *head = (struct kolo_coco_head){.key = UINT64_MAX, .place = UINT32_MAX, .at = head->at};
        return;
    }
    size_t number = source->order ? source->order[head->at] : head->at;
    if (source->order && head->at + AHEAD < source->count)
        __builtin_prefetch(&source->record[source->order[head->at + AHEAD]]);
    head->record = &source->record[number];
    head->key = kolo_coco_score_key(head->record->score);
    head->place = source->place_of ? source->place_of[number] : head->record->place;
}

/* Nothing to merge. */
static void take_straight(struct kolo_coco_run *run, const struct kolo_coco_record **taken,
                          size_t count)
{
    const struct kolo_coco_source *source = run->source;
    size_t at = run->head->at;
    for (size_t i = 0; i < count; i++, at++) {
        taken[i] = &source->record[source->order ? source->order[at] : at];
        __builtin_prefetch(taken[i]);
    }
    run->head->at = at;
}

/* ---- the tree ---- */

/* Records of two lists are of two images. */
static bool comes_before(const struct kolo_coco_head *a, const struct kolo_coco_head *b)
{
    return a->key != b->key ? a->key < b->key : a->place < b->place;
}

/* @return the first of the lists below a node; nodes from `sources` on are the lists. */
static size_t play(struct kolo_coco_run *run, size_t node)
{
    if (node >= run->sources)
        return node - run->sources;
    size_t left = play(run, 2 * node), right = play(run, 2 * node + 1);
    bool is_right = comes_before(&run->head[right], &run->head[left]);
    run->loser[node] = is_right ? left : right;
    return is_right ? right : left;
}

void kolo_coco_run_rewind(struct kolo_coco_run *run)
{
    run->left = run->count;
    for (size_t list = 0; list < run->sources; list++)
        run->head[list].at = 0;
    for (size_t list = 0; run->sources > 1 && list < run->sources; list++)
        look(run, list);
    if (run->sources > 1)
        run->loser[0] = play(run, 1);
}

static const struct kolo_coco_record *pop(struct kolo_coco_run *run)
{
    size_t first = run->loser[0];
    const struct kolo_coco_record *record = run->head[first].record;
    run->head[first].at++;
    look(run, first);
    for (size_t node = (first + run->sources) / 2; node > 0; node /= 2) {
        size_t loser = run->loser[node];
        bool is_loser_first = comes_before(&run->head[loser], &run->head[first]);
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
    else
        for (size_t i = 0; i < count; i++)
            taken[i] = pop(run);
    return count;
}
