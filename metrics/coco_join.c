// SPDX-License-Identifier: Apache-2.0
// Curves to all ranks. Of the pieces of one class, each needs what stands before it (sums) and the
// highest precision behind it (maxima): two exchanges of counts, before any curve is sent. Then the
// owner of a piece says, for each cap, area range and threshold, which recalls its true detections
// reach, and writes precision and score there into its arrays, and into a message while it has them
// at hand: no entry comes from two ranks, and entries that nobody reaches are not sent. Owns the
// messages:
//
//   a message   pieces, one after the other
//   a piece     its number; a head for each cap, area range and threshold; per head, its precisions,
//               then its scores
//   a head      how many true detections the piece has << 32 | recalls << 16 | the first recall
//
// A few pieces are made and sent at a time, so that messages need little memory; each rank begins with
// its largest, so that a turn takes all about as long.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_share.h"

/* Bytes of the messages of all ranks in one turn. */
enum { TURN_BYTES = 1 << 20 };
enum { RECALL_BITS = 16, TRUE_SHIFT = 32 };
enum {
    COURSE_WORDS = sizeof(struct kolo_coco_course) / sizeof(int64_t),
    HIGHEST = KOLO_DETECTION_CAPS_MAX * KOLO_DETECTION_FLAGS_MAX
};
_Static_assert(KOLO_DETECTION_RECALLS_MAX < 1 << RECALL_BITS, "a head has room for a recall");

/* What is kept of a piece of a cut class until what is behind it is known. */
struct drawn {
    struct kolo_coco_arc arc;
    struct kolo_coco_course after;
};

/* A piece of this rank. */
struct own {
    size_t piece; /* in share->piece */
    struct kolo_coco_run run;
    struct drawn *drawn; /* NULL: of a whole class */
};

struct join {
    struct kolo_coco_share *share;
    struct kolo_coco_arrays *arrays;
    size_t flags, recalls, heads; /* heads: caps times flags */
    size_t *owned;                /* pieces per rank */
    size_t most;                  /* that one rank owns */
    struct own *own;
    struct kolo_coco_course *before; /* per piece of a cut class: what is in it, then before it */
    double *highest;                 /* the same: HIGHEST each, then behind it */
    struct kolo_coco_needed *needed; /* of needed_class */
    size_t needed_class;
    struct drawn whole;       /* one piece after the other */
    double *climb;            /* VOC alone: as many as a piece has records, and one */
    size_t piece_words, turn; /* words of a piece at most; pieces of a turn */
    int64_t *mine, *all;      /* messages */
    int64_t *said;            /* words of each rank */
    size_t *counts;           /* the same */
};

static bool allocate_climb(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    size_t most = 0;
    if (share->params->rules != KOLO_DETECTION_VOC)
        return true;
    for (size_t p = 0; p < share->pieces; p++)
        if (share->piece[p].owner == share->rank && (size_t)share->piece[p].total > most)
            most = (size_t)share->piece[p].total;
    join->climb = kolo_calloc(most + 1, sizeof *join->climb);
    return join->climb != NULL;
}

static kolo_status allocate_lists(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    join->owned = kolo_calloc(share->ranks, sizeof *join->owned);
    join->said = kolo_calloc(share->ranks, sizeof *join->said);
    join->counts = kolo_calloc(share->ranks, sizeof *join->counts);
    join->before = kolo_calloc(share->cut_pieces, sizeof *join->before);
    join->highest = kolo_calloc(share->cut_pieces * HIGHEST, sizeof *join->highest);
    join->needed = kolo_calloc(1, sizeof *join->needed);
    bool is_there =
        join->owned && join->said && join->counts && join->before && join->highest && join->needed;
    for (size_t p = 0; is_there && p < share->pieces; p++) {
        size_t owned = ++join->owned[share->piece[p].owner];
        join->most = owned > join->most ? owned : join->most;
    }
    if (is_there)
        join->own = kolo_calloc(join->owned[share->rank], sizeof *join->own);
    is_there = is_there && join->own && allocate_climb(join);
    return is_there ? kolo_coco_arc_make(&join->whole.arc, share->params) : KOLO_ERR_NO_MEMORY;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static kolo_status allocate_messages(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    size_t come = 0;
    if (share->ranks == 1)
        return KOLO_OK;
    join->piece_words = 1 + join->heads * (1 + 2 * join->recalls);
    join->turn = TURN_BYTES / share->ranks / (join->piece_words * sizeof(int64_t));
    join->turn = join->turn > 0 ? join->turn : 1;
    for (size_t r = 0; r < share->ranks; r++)
        come += least(join->owned[r], join->turn);
    size_t go = least(join->owned[share->rank], join->turn);
    join->mine = kolo_calloc(go * join->piece_words, sizeof *join->mine);
    join->all = kolo_calloc(come * join->piece_words, sizeof *join->all);
    return join->mine && join->all ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(struct join *join)
{
    for (size_t i = 0; join->own && i < join->owned[join->share->rank]; i++)
        if (join->own[i].drawn) {
            kolo_coco_arc_free(&join->own[i].drawn->arc);
            kolo_free_memory(join->own[i].drawn);
        }
    kolo_coco_arc_free(&join->whole.arc);
    kolo_free_memory(join->owned);
    kolo_free_memory(join->said);
    kolo_free_memory(join->counts);
    kolo_free_memory(join->before);
    kolo_free_memory(join->highest);
    kolo_free_memory(join->needed);
    kolo_free_memory(join->own);
    kolo_free_memory(join->climb);
    kolo_free_memory(join->mine);
    kolo_free_memory(join->all);
}

static int by_size(const void *a, const void *b)
{
    const struct own *x = a, *y = b;
    if (x->run.count != y->run.count)
        return x->run.count > y->run.count ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

/* The lists of this rank's pieces stand in order or merged, one after the other. */
static void find_own(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    const uint32_t *order = share->ranks > 1 ? share->merged : share->order;
    struct own *own = join->own;
    for (size_t p = 0; p < share->pieces; p++) {
        if (share->piece[p].owner != share->rank)
            continue;
        size_t count = (size_t)share->piece[p].total;
        *own++ = (struct own){.piece = p,
                              .run = {.own = share->images->record,
                                      .others = share->in,
                                      .owned = share->images->records,
                                      .order = order,
                                      .count = count}};
        order += count;
    }
    qsort(join->own, join->owned[share->rank], sizeof *join->own, by_size);
}

/* ---- pieces of cut classes ---- */

static int64_t number_of(const struct join *join, const struct own *own)
{
    return join->share->piece[own->piece].number;
}

static const struct kolo_coco_needed *needed_of(struct join *join, const struct own *own)
{
    const struct kolo_coco_share *share = join->share;
    size_t class = share->piece[own->piece].class;
    if (join->needed_class != class)
        kolo_coco_need(share->params, share->sums + class * share->params->areas, join->needed);
    join->needed_class = class;
    return join->needed;
}

/* What is in each piece becomes what stands before it. */
static void sum_up(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    int64_t sums[COURSE_WORDS];
    size_t class = SIZE_MAX;
    for (size_t p = 0; p < share->pieces; p++) {
        if (share->piece[p].number < 0)
            continue;
        if (share->piece[p].class != class)
            memset(sums, 0, sizeof sums);
        class = share->piece[p].class;
        int64_t *words = (int64_t *)(void *)&join->before[share->piece[p].number];
        for (size_t i = 0; i < COURSE_WORDS; i++) {
            int64_t here = words[i];
            words[i] = sums[i];
            sums[i] += here;
        }
    }
}

/* The highest of each piece becomes the highest behind it. */
static void raise_up(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    double highest[HIGHEST];
    size_t class = SIZE_MAX;
    for (size_t p = share->pieces; p-- > 0;) {
        if (share->piece[p].number < 0)
            continue;
        if (share->piece[p].class != class)
            memset(highest, 0, sizeof highest);
        class = share->piece[p].class;
        double *values = join->highest + (size_t)share->piece[p].number * HIGHEST;
        for (size_t i = 0; i < HIGHEST; i++) {
            double here = values[i];
            values[i] = highest[i];
            highest[i] = here > highest[i] ? here : highest[i];
        }
    }
}

static kolo_status draw_cut(struct join *join)
{
    const struct kolo_coco_params *params = join->share->params;
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && i < join->owned[join->share->rank]; i++) {
        struct own *own = &join->own[i];
        if (number_of(join, own) < 0)
            continue;
        struct drawn *drawn = own->drawn = kolo_calloc(1, sizeof *own->drawn);
        status = drawn ? kolo_coco_arc_make(&drawn->arc, params) : KOLO_ERR_NO_MEMORY;
        if (status != KOLO_OK)
            break;
        drawn->after = join->before[number_of(join, own)];
        kolo_coco_draw(params, &own->run, needed_of(join, own), &drawn->after, &drawn->arc);
        memcpy(join->highest + (size_t)number_of(join, own) * HIGHEST, drawn->arc.highest,
               sizeof drawn->arc.highest);
    }
    return status;
}

static kolo_status connect(struct join *join)
{
    struct kolo_coco_share *share = join->share;
    if (share->cut_pieces == 0)
        return KOLO_OK;
    for (size_t i = 0; i < join->owned[share->rank]; i++)
        if (number_of(join, &join->own[i]) >= 0)
            kolo_coco_pass(share->params, &join->own[i].run,
                           &join->before[number_of(join, &join->own[i])]);
    kolo_status status =
        kolo_allreduce(share->comm, join->before, join->before, share->cut_pieces * COURSE_WORDS,
                       KOLO_INT64, KOLO_SUM, share->opts, NULL);
    if (status != KOLO_OK)
        return status;
    sum_up(join);
    status = kolo_coco_agree(share, draw_cut(join));
    if (status == KOLO_OK)
        status =
            kolo_allreduce(share->comm, join->highest, join->highest, share->cut_pieces * HIGHEST,
                           KOLO_FLOAT64, KOLO_MAX, share->opts, NULL);
    if (status == KOLO_OK)
        raise_up(join);
    return status;
}

/* ---- entries ---- */

/* The first recall that so many true detections do not reach. */
static size_t reached_by(const int64_t *needed, size_t recalls, int64_t found)
{
    size_t low = 0, high = recalls;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (needed[middle] <= found)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entries of a head: of some recalls that follow each other. */
struct span {
    size_t first, count;
    double *precision, *score;
};
enum { HEADS_MAX = KOLO_DETECTION_CAPS_MAX * KOLO_DETECTION_FLAGS_MAX };

/* Writes spans to the arrays. Entries of a class and point stand together in memory, so all caps and
 * areas of a point are taken before the next. */
static void write_spans(const struct join *join, size_t piece, const struct span *span)
{
    const struct kolo_coco_params *params = join->share->params;
    double *precision = join->arrays->precision, *scores = join->arrays->scores;
    size_t class = join->share->piece[piece].class;
    for (size_t t = 0; t < params->thresholds; t++)
        for (size_t r = 0; r < join->recalls; r++) {
            size_t at = kolo_coco_at(params, t * join->recalls + r, class, 0, 0);
            for (size_t a = 0; a < params->areas; a++)
                for (size_t m = 0; m < params->caps; m++, at++) {
                    const struct span *one = &span[m * join->flags + a * params->thresholds + t];
                    size_t i = r - one->first;
                    if (i >= one->count)
                        continue;
                    precision[at] = one->precision[i];
                    scores[at] = one->score[i];
                }
        }
}

/* Which recalls a head's true detections reach, and the highest precision from each on. */
static struct span span_of(const struct join *join, size_t head, struct drawn *drawn,
                           const struct kolo_coco_course *before, double behind)
{
    size_t m = head / join->flags, flag = head % join->flags, recalls = join->recalls;
    const int64_t *needed = join->needed->count[flag / join->share->params->thresholds];
    bool is_first = before->seen[m] == 0 && drawn->after.seen[m] > 0;
    size_t first = is_first ? 0 : reached_by(needed, recalls, before->is_true[m][flag]);
    size_t end = reached_by(needed, recalls, drawn->after.is_true[m][flag]);
    double *precision = drawn->arc.precision + head * recalls, highest = behind;
    for (size_t r = end; r-- > first;) {
        highest = precision[r] > highest ? precision[r] : highest;
        precision[r] = highest;
    }
    return (struct span){.first = first,
                         .count = end - first,
                         .precision = precision + first,
                         .score = drawn->arc.score + head * recalls + first};
}

static void add_recall(const struct join *join, size_t piece, const int64_t *heads)
{
    const struct kolo_coco_params *params = join->share->params;
    size_t class = join->share->piece[piece].class;
    for (size_t head = 0; head < join->heads; head++) {
        size_t flag = head % join->flags;
        size_t at = kolo_coco_at(params, flag % params->thresholds, class,
                                 flag / params->thresholds, head / join->flags);
        join->arrays->recall[at] += (double)((uint64_t)heads[head] >> TRUE_SHIFT);
    }
}

static double *as_values(int64_t *words)
{
    return (double *)(void *)words;
}

/* Writes one piece to a message; where the next begins. */
static int64_t *write_piece(const struct join *join, size_t piece, const int64_t *heads,
                            const struct span *span, int64_t *words)
{
    words[0] = (int64_t)piece;
    memcpy(words + 1, heads, join->heads * sizeof *words);
    double *values = as_values(words + 1 + join->heads);
    for (size_t head = 0; head < join->heads; head++) {
        size_t count = span[head].count;
        memcpy(values, span[head].precision, count * sizeof *values);
        memcpy(values + count, span[head].score, count * sizeof *values);
        values += 2 * count;
    }
    return (int64_t *)(void *)values;
}

/* Writes the entries of one of this rank's pieces, and to a message; where its next begins.
 * @param words  NULL: on one rank there is none */
static int64_t *write_own(struct join *join, const struct own *own, int64_t *words)
{
    static const struct kolo_coco_course nothing;
    int64_t number = number_of(join, own);
    struct drawn *drawn = number < 0 ? &join->whole : own->drawn;
    const struct kolo_coco_needed *needed = needed_of(join, own);
    const struct kolo_coco_course *before = number < 0 ? &nothing : &join->before[number];
    struct span span[HEADS_MAX];
    int64_t heads[HEADS_MAX];
    if (number < 0) {
        drawn->after = nothing;
        kolo_coco_draw(join->share->params, &own->run, needed, &drawn->after, &drawn->arc);
    }
    for (size_t head = 0; head < join->heads; head++) {
        size_t m = head / join->flags, flag = head % join->flags;
        double behind = 0;
        if (number >= 0)
            behind = join->highest[(size_t)number * HIGHEST + m * KOLO_DETECTION_FLAGS_MAX + flag];
        span[head] = span_of(join, head, drawn, before, behind);
        int64_t found = drawn->after.is_true[m][flag] - before->is_true[m][flag];
        heads[head] = (int64_t)((uint64_t)found << TRUE_SHIFT | span[head].count << RECALL_BITS |
                                span[head].first);
    }
    write_spans(join, own->piece, span);
    add_recall(join, own->piece, heads);
    if (join->climb)
        kolo_voc_areas(join->share, &own->run, join->share->piece[own->piece].class, join->climb,
                       join->arrays->voc_areas);
    return words ? write_piece(join, own->piece, heads, span, words) : NULL;
}

/* ---- messages ---- */

/* Reads one; where the next begins. */
static int64_t *read_piece(const struct join *join, int64_t *words)
{
    const uint64_t mask = (1 << RECALL_BITS) - 1;
    struct span span[HEADS_MAX];
    double *values = as_values(words + 1 + join->heads);
    for (size_t head = 0; head < join->heads; head++) {
        uint64_t word = (uint64_t)words[1 + head];
        size_t count = word >> RECALL_BITS & mask;
        span[head] = (struct span){
            .first = word & mask, .count = count, .precision = values, .score = values + count};
        values += 2 * count;
    }
    write_spans(join, (size_t)words[0], span);
    add_recall(join, (size_t)words[0], words + 1);
    return (int64_t *)(void *)values;
}

static kolo_status send_turn(struct join *join, size_t first)
{
    struct kolo_coco_share *share = join->share;
    size_t owned = join->owned[share->rank];
    int64_t *words = join->mine;
    for (size_t i = first; i < least(first + join->turn, owned); i++)
        words = write_own(join, &join->own[i], words);
    int64_t mine = words - join->mine;
    kolo_status status =
        kolo_allgather(share->comm, &mine, join->said, 1, KOLO_INT64, share->opts, NULL);
    for (size_t r = 0; status == KOLO_OK && r < share->ranks; r++)
        join->counts[r] = (size_t)join->said[r];
    if (status == KOLO_OK)
        status = kolo_allgatherv(share->comm, join->mine, join->all, join->counts, NULL, KOLO_INT64,
                                 share->opts, NULL);
    words = join->all;
    for (size_t r = 0; status == KOLO_OK && r < share->ranks; r++) {
        int64_t *end = words + join->counts[r];
        while (r != share->rank && words < end)
            words = read_piece(join, words);
        words = end;
    }
    return status;
}

/* Recall from true detections; and what has no ground truth. */
static void finish(struct join *join)
{
    const struct kolo_coco_params *params = join->share->params;
    struct kolo_coco_arrays *arrays = join->arrays;
    for (size_t k = 0; k < params->classes; k++)
        for (size_t a = 0; a < params->areas; a++) {
            int64_t counted = join->share->sums[k * params->areas + a];
            size_t rows = params->thresholds * (counted > 0 ? 1 : join->recalls);
            for (size_t row = 0; row < rows; row++) {
                size_t at = kolo_coco_at(params, row, k, a, 0);
                for (size_t m = 0; m < params->caps; m++, at++) {
                    if (row < params->thresholds)
                        arrays->recall[at] =
                            counted > 0 ? arrays->recall[at] / (double)counted : -1;
                    if (counted == 0)
                        arrays->precision[at] = arrays->scores[at] = -1;
                }
            }
        }
}

kolo_status kolo_coco_join(struct kolo_coco_share *share, struct kolo_coco_arrays *arrays)
{
    const struct kolo_coco_params *params = share->params;
    struct join join = {.share = share,
                        .arrays = arrays,
                        .flags = params->areas * params->thresholds,
                        .recalls = params->recalls,
                        .heads = params->caps * params->areas * params->thresholds,
                        .needed_class = SIZE_MAX};
    kolo_status status;
    KOLO_TRY(kolo_coco_agree(share, allocate_lists(&join)));
    KOLO_TRY(kolo_coco_agree(share, allocate_messages(&join)));
    find_own(&join);
    KOLO_TRY(connect(&join));
    for (size_t i = 0; share->ranks == 1 && i < join.owned[share->rank]; i++)
        (void)write_own(&join, &join.own[i], NULL);
    for (size_t i = 0; status == KOLO_OK && share->ranks > 1 && i < join.most; i += join.turn)
        status = send_turn(&join, i);
    if (status == KOLO_OK)
        finish(&join);
    if (status == KOLO_OK && params->rules == KOLO_DETECTION_VOC)
        status = kolo_voc_join(share, arrays);
out:
    release(&join);
    return status;
}
