// SPDX-License-Identifier: Apache-2.0
// Sends the curves to all ranks. Owns the messages.
//
// Of the pieces of one class, each needs the counts before it (sums) and the highest precision
// after it (maxima). Two exchanges of counts give both, before any curve is sent. The owner of a
// piece then finds, for each cap, area range and threshold, which recalls its true detections
// reach, and writes precision and score at these recalls into a message. No entry comes from two
// ranks, and entries that are not reached are not sent. Every rank, the owner too, fills its arrays
// from the messages of all.
//
//   a message   pieces, one after the other
//   a piece     its number; a head for each cap, area range and threshold; for each head, its
//               precisions, then its scores
//   a head      number of true detections in the piece << 32 | number of recalls << 16 | the first
//               recall; if SAME is set, its values are those of the cap before and not repeated
//
// All curves are made before any is sent, so that ranks wait for each other only once. In memory
// they replace the records that came from other ranks, which are then not needed any more. Each
// rank sends its curves in TURNS turns, so that only a part of what others send is in memory at a
// time. A single rank reads each piece as soon as it is written, so that only one is in memory at a
// time.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco_share.h"

/* The same for every evaluation, so that the number of collectives is fixed. */
enum { TURNS = 16 };
enum { RECALL_BITS = 16, SAME_SHIFT = 31, TRUE_SHIFT = 32 };
#define SAME (UINT64_C(1) << SAME_SHIFT)
enum {
    COURSE_WORDS = sizeof(struct kolo_coco_course) / sizeof(int64_t),
    HIGHEST = KOLO_DETECTION_CAPS_MAX * KOLO_DETECTION_FLAGS_MAX
};
_Static_assert(KOLO_DETECTION_RECALLS_MAX < 1 << (RECALL_BITS - 1), "a head has room for a recall");

/* What is kept of a piece of a cut class until the highest precision after it is known. */
struct drawn {
    struct kolo_coco_arc arc;
    struct kolo_coco_course after;
};

/* A piece of this rank. */
struct own {
    size_t piece;        /* in share->piece */
    struct drawn *drawn; /* NULL: the piece is a whole class */
    size_t words;        /* length in its message */
};

struct join {
    struct kolo_coco_share *share;
    struct kolo_coco_arrays *arrays;
    size_t flags, recalls, heads; /* heads: caps times flags */
    size_t owned;                 /* pieces of this rank */
    struct own *own;
    size_t *begin; /* per own piece and rank: where its records begin, in `order` or in `in` */
    struct kolo_coco_run run; /* reused for one piece after the other */
    /* per piece of a cut class: first the counts in it, then those before it */
    struct kolo_coco_course *before;
    double *highest; /* per piece of a cut class, HIGHEST each: first in it, then after it */
    struct kolo_coco_needed *needed; /* for needed_class */
    size_t needed_class;
    struct drawn whole;  /* reused for one whole class after the other */
    double *climb;       /* VOC only: one element more than the longest piece has records */
    size_t piece_words;  /* of a piece, at most */
    int64_t *mine, *all; /* all pieces of this rank; the messages of one turn */
    size_t mine_words;   /* capacity of mine */
    size_t *done;        /* per rank: records of `in`, or of `order`, whose memory was given back */
    int64_t *said;       /* per rank and turn: words of its message */
    size_t *counts;      /* per rank: words of its message in this turn */
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
    join->said = kolo_calloc(share->ranks, TURNS * sizeof *join->said);
    join->done = kolo_calloc(share->ranks, sizeof *join->done);
    join->counts = kolo_calloc(share->ranks, sizeof *join->counts);
    join->before = kolo_calloc(share->cut_pieces, sizeof *join->before);
    join->highest = kolo_calloc(share->cut_pieces * HIGHEST, sizeof *join->highest);
    join->needed = kolo_calloc(1, sizeof *join->needed);
    for (size_t p = 0; p < share->pieces; p++)
        join->owned += share->piece[p].owner == share->rank;
    join->own = kolo_calloc(join->owned, sizeof *join->own);
    join->begin = kolo_calloc(join->owned * share->ranks, sizeof *join->begin);
    bool is_there = join->own && join->begin && join->said && join->done && join->counts &&
                    join->before && join->highest && join->needed && allocate_climb(join);
    if (!is_there || kolo_coco_run_make(&join->run, share->ranks) != KOLO_OK)
        return KOLO_ERR_NO_MEMORY;
    return kolo_coco_arc_make(&join->whole.arc, share->params);
}

/* Allocates for the greatest length that each of this rank's pieces can have: pages that are
 * never written cost nothing. */
static kolo_status allocate_mine(struct join *join)
{
    bool is_alone = join->share->ranks == 1;
    join->piece_words = 1 + join->heads * (1 + 2 * join->recalls);
    join->mine_words = (is_alone ? 1 : join->owned) * join->piece_words;
    join->mine = kolo_pages(join->mine_words, sizeof *join->mine);
    return join->mine ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(struct join *join)
{
    for (size_t i = 0; join->own && i < join->owned; i++)
        if (join->own[i].drawn) {
            kolo_coco_arc_free(&join->own[i].drawn->arc);
            kolo_free_memory(join->own[i].drawn);
        }
    kolo_coco_arc_free(&join->whole.arc);
    kolo_free_memory(join->done);
    kolo_free_memory(join->said);
    kolo_free_memory(join->counts);
    kolo_free_memory(join->before);
    kolo_free_memory(join->highest);
    kolo_free_memory(join->needed);
    kolo_free_memory(join->own);
    kolo_free_memory(join->begin);
    kolo_coco_run_free(&join->run);
    kolo_free_memory(join->climb);
    kolo_pages_free(join->mine, join->mine_words, sizeof *join->mine);
    kolo_free_memory(join->all);
}

/* Finds where the records of this rank's pieces begin. `order` has this rank's own records of
 * all pieces one after the other; `in` has, for each other rank, only those of this rank's
 * pieces. */
static void find_own(struct join *join)
{
    const struct kolo_coco_share *share = join->share;
    size_t in = 0;
    for (size_t r = 0; r < share->ranks; r++) {
        size_t own = 0, order = 0, *at = r == share->rank ? &order : &in;
        for (size_t p = 0; p < share->pieces; p++) {
            bool is_own = share->piece[p].owner == share->rank;
            if (is_own) {
                join->own[own].piece = p;
                join->begin[own++ * share->ranks + r] = *at;
            }
            *at += is_own || r == share->rank ? kolo_coco_count_of(share, r, p) : 0;
        }
    }
}

/* Returns the run of one piece, which is valid until the next call. */
static struct kolo_coco_run *run_of(struct join *join, const struct own *own)
{
    const struct kolo_coco_share *share = join->share;
    const size_t *begin = join->begin + (size_t)(own - join->own) * share->ranks;
    kolo_coco_run_clear(&join->run);
    for (size_t r = 0; r < share->ranks; r++) {
        struct kolo_coco_source source = {.count = kolo_coco_count_of(share, r, own->piece)};
        if (r == share->rank) {
            source.record = share->images->record;
            source.order = share->order + begin[r];
            source.place_of = share->place_of;
        } else {
            source.record = share->in + begin[r];
        }
        kolo_coco_run_add(&join->run, &source);
    }
    return &join->run;
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

/* Replaces the counts in each piece by the counts before it. */
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

/* Replaces the highest precision in each piece by the highest after it. */
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
    for (size_t i = 0; status == KOLO_OK && i < join->owned; i++) {
        struct own *own = &join->own[i];
        if (number_of(join, own) < 0)
            continue;
        struct drawn *drawn = own->drawn = kolo_calloc(1, sizeof *own->drawn);
        status = drawn ? kolo_coco_arc_make(&drawn->arc, params) : KOLO_ERR_NO_MEMORY;
        if (status != KOLO_OK)
            break;
        drawn->after = join->before[number_of(join, own)];
        kolo_coco_draw(params, run_of(join, own), needed_of(join, own), &drawn->after, &drawn->arc);
        memcpy(join->highest + (size_t)number_of(join, own) * HIGHEST, drawn->arc.highest,
               sizeof drawn->arc.highest);
    }
    return status;
}

static kolo_status connect(struct join *join)
{
    struct kolo_coco_share *share = join->share;
    for (size_t i = 0; i < join->owned; i++)
        if (number_of(join, &join->own[i]) >= 0)
            kolo_coco_pass(share->params, run_of(join, &join->own[i]),
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

/* Returns the first recall that @p found true detections do not reach. */
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

/* The entries of a head, for recalls that follow each other. */
struct span {
    size_t first, count;
    double *precision, *score;
};
enum { HEADS_MAX = KOLO_DETECTION_CAPS_MAX * KOLO_DETECTION_FLAGS_MAX };

/* How many points ahead entries are prefetched: each point is elsewhere in memory. */
enum { POINTS_AHEAD = 8, LINE_VALUES = 64 / sizeof(double) };

static void ask_for(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i += LINE_VALUES)
        __builtin_prefetch(values + i, 1);
}

/* Writes the spans of a piece to the arrays. The entries of a class and a point are adjacent in
 * memory, so all caps and areas of a point are written before the next point. */
static void write_spans(const struct join *join, size_t piece, const struct span *span)
{
    const struct kolo_coco_params *params = join->share->params;
    struct span row[KOLO_DETECTION_AREAS_MAX * KOLO_DETECTION_CAPS_MAX];
    size_t class = join->share->piece[piece].class, width = params->areas * params->caps;
    for (size_t t = 0; t < params->thresholds; t++) {
        size_t first = join->recalls, end = 0;
        for (size_t i = 0; i < width; i++) {
            size_t a = i / params->caps, m = i % params->caps;
            row[i] = span[m * join->flags + a * params->thresholds + t];
            if (row[i].count > 0) {
                first = row[i].first < first ? row[i].first : first;
                end = row[i].first + row[i].count > end ? row[i].first + row[i].count : end;
            }
        }
        for (size_t r = first; r < end; r++) {
            size_t at = kolo_coco_at(params, t * join->recalls + r, class, 0, 0);
            double *precision = join->arrays->precision + at, *scores = join->arrays->scores + at;
            size_t ahead = r + POINTS_AHEAD < end ? POINTS_AHEAD * params->classes * width : 0;
            ask_for(precision + ahead, width);
            ask_for(scores + ahead, width);
            for (size_t i = 0; i < width; i++) {
                size_t place = r - row[i].first;
                if (place >= row[i].count)
                    continue;
                precision[i] = row[i].precision[place];
                scores[i] = row[i].score[place];
            }
        }
    }
}

/* Returns the recalls that the true detections of a head reach, with the highest precision from
 * each of them on. */
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

static bool is_same(const struct span *one, const struct span *other)
{
    size_t bytes = one->count * sizeof *one->precision;
    return one->first == other->first && one->count == other->count &&
           memcmp(one->precision, other->precision, bytes) == 0 &&
           memcmp(one->score, other->score, bytes) == 0;
}

/* Writes one piece to a message, and returns where the next begins. Few images have so many
 * detections of a class that the values of the caps differ, so equal ones are written once. */
static int64_t *write_piece(const struct join *join, size_t piece, const int64_t *heads,
                            const struct span *span, int64_t *words)
{
    words[0] = (int64_t)piece;
    memcpy(words + 1, heads, join->heads * sizeof *words);
    double *values = as_values(words + 1 + join->heads);
    for (size_t head = 0; head < join->heads; head++) {
        size_t count = span[head].count;
        if (head >= join->flags && is_same(&span[head], &span[head - join->flags])) {
            words[1 + head] = (int64_t)((uint64_t)heads[head] | SAME);
            continue;
        }
        memcpy(values, span[head].precision, count * sizeof *values);
        memcpy(values + count, span[head].score, count * sizeof *values);
        values += 2 * count;
    }
    return (int64_t *)(void *)values;
}

/* Makes the curve of one of this rank's pieces and writes it as a message. */
static void write_own(struct join *join, struct own *own, int64_t *words)
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
        kolo_coco_draw(join->share->params, run_of(join, own), needed, &drawn->after, &drawn->arc);
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
    own->words = (size_t)(write_piece(join, own->piece, heads, span, words) - words);
    if (join->climb)
        kolo_voc_areas(join->share, run_of(join, own), join->share->piece[own->piece].class,
                       join->climb, join->arrays->voc_areas);
}

/* ---- messages ---- */

/* Reads one piece of a message into the arrays, and returns where the next begins. */
static int64_t *read_piece(const struct join *join, int64_t *words)
{
    const uint64_t mask = (1 << (RECALL_BITS - 1)) - 1;
    struct span span[HEADS_MAX];
    double *values = as_values(words + 1 + join->heads);
    for (size_t head = 0; head < join->heads; head++) {
        uint64_t word = (uint64_t)words[1 + head];
        size_t count = word >> RECALL_BITS & mask;
        if (word & SAME && head >= join->flags) {
            span[head] = span[head - join->flags];
            continue;
        }
        span[head] = (struct span){
            .first = word & mask, .count = count, .precision = values, .score = values + count};
        values += 2 * count;
    }
    write_spans(join, (size_t)words[0], span);
    add_recall(join, (size_t)words[0], words + 1);
    return (int64_t *)(void *)values;
}

/* Gives back the memory of the records of this rank's first @p pieces pieces, which are not read
 * again: the messages, which grow at the same time, take its place. */
static void let_go(struct join *join, size_t pieces)
{
    enum { LEAST = 1 << 16 };
    struct kolo_coco_share *share = join->share;
    const size_t *end = join->begin + pieces * share->ranks;
    for (size_t r = 0; pieces < join->owned && r < share->ranks; r++) {
        size_t from = join->done[r] > join->begin[r] ? join->done[r] : join->begin[r];
        size_t count = end[r] - from;
        void *first = r == share->rank ? (void *)(share->order + from) : share->in + from;
        size_t bytes = count * (r == share->rank ? sizeof *share->order : sizeof *share->in);
        if (bytes < LEAST)
            continue;
        kolo_memory_done(first, bytes);
        join->done[r] = end[r];
    }
}

/* Makes all pieces of this rank. A single rank reads each of them at once. */
static void write_mine(struct join *join)
{
    struct kolo_coco_share *share = join->share;
    int64_t *words = join->mine;
    for (size_t i = 0; i < join->owned; i++) {
        write_own(join, &join->own[i], words);
        if (share->ranks == 1)
            (void)read_piece(join, words);
        else
            words += join->own[i].words;
        let_go(join, i + 1);
    }
    kolo_free_memory(share->in);
    kolo_free_memory(share->order);
    kolo_free_memory(share->place_of);
    share->in = NULL;
    share->order = share->place_of = NULL;
}

/* Divides the pieces into turns of about the same number of words. */
static void part_mine(const struct join *join, int64_t *turns)
{
    size_t sum = 0, passed = 0;
    for (size_t i = 0; i < join->owned; i++)
        sum += join->own[i].words;
    for (size_t i = 0; i < join->owned; i++) {
        turns[passed * TURNS / sum] += (int64_t)join->own[i].words;
        passed += join->own[i].words;
    }
}

/* Allocates memory that is enough for the messages of any turn. */
static kolo_status allocate_turn(struct join *join)
{
    size_t most = 0;
    for (size_t turn = 0; turn < TURNS; turn++) {
        size_t words = 0;
        for (size_t r = 0; r < join->share->ranks; r++)
            words += (size_t)join->said[r * TURNS + turn];
        most = words > most ? words : most;
    }
    join->all = kolo_calloc(most, sizeof *join->all);
    return join->all ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static kolo_status send_turn(struct join *join, size_t turn, int64_t **mine)
{
    struct kolo_coco_share *share = join->share;
    int64_t *words = join->all;
    for (size_t r = 0; r < share->ranks; r++)
        join->counts[r] = (size_t)join->said[r * TURNS + turn];
    kolo_status status = kolo_allgatherv(share->comm, *mine, join->all, join->counts, NULL,
                                         KOLO_INT64, share->opts, NULL);
    kolo_memory_done(*mine, join->counts[share->rank] * sizeof **mine);
    *mine += join->counts[share->rank];
    for (size_t r = 0; status == KOLO_OK && r < share->ranks; r++)
        for (int64_t *end = words + join->counts[r]; words < end;)
            words = read_piece(join, words);
    return status;
}

static kolo_status send_mine(struct join *join)
{
    struct kolo_coco_share *share = join->share;
    int64_t turns[TURNS] = {0}, *mine = join->mine;
    kolo_status status;
    part_mine(join, turns);
    KOLO_TRY(kolo_allgather(share->comm, turns, join->said, TURNS, KOLO_INT64, share->opts, NULL));
    KOLO_TRY(kolo_coco_agree(share, allocate_turn(join)));
    for (size_t turn = 0; turn < TURNS; turn++)
        KOLO_TRY(send_turn(join, turn, &mine));
out:
    return status;
}

/* Converts numbers of true detections to recall, and sets entries without ground truth to -1. */
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
    kolo_status status = allocate_lists(&join);
    KOLO_TRY(kolo_coco_agree(share, status == KOLO_OK ? allocate_mine(&join) : status));
    find_own(&join);
    KOLO_TRY(connect(&join));
    write_mine(&join);
    if (share->ranks > 1)
        KOLO_TRY(send_mine(&join));
    finish(&join);
    if (params->rules == KOLO_DETECTION_VOC)
        status = kolo_voc_join(share, arrays);
out:
    release(&join);
    return status;
}
