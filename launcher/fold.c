// SPDX-License-Identifier: Apache-2.0
// The latest lines that were shown are kept in a ring, and in a queue for each rank that is held
// those that were not. Each text is kept once, so equal lines are equal pointers, and what many
// ranks repeat needs little memory. What a rank repeats is found through the lines that have the
// text, each of which knows the one before, and the one that its rank wrote next.
//
// Everything is bounded: the ring, the queues, and the lines that are compared with one that comes.
// Where a bound is met, or memory is short, lines are shown as they are.
#include "launcher/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "launcher/line_end.h"
#include "launcher/ranks.h"

enum {
    RECENT_MS = 2000, /* how long a line that was shown may be repeated */
    SHOWN_LINES = 1024,
    SHOWN_BYTES = 256 << 10,
    HELD_LINES_MAX = 64 << 10,
    TEXT_BYTES_MAX = 1 << 20, /* of all texts, each counted once */
    WHOLE_MAX = 4096,         /* longer lines are not compared */
    TRIES_MAX = 32,           /* lines of the same text that are looked at */
    BUCKET_BITS = 11,
    TEXT_STEP = 128,           /* texts have room for multiples of it */
    TOGETHER_BYTES = 16 << 10, /* of lines of one rank that are shown at once */
    BRIEF_MAX = 72,            /* bytes of a text that are repeated */
    RANKS_TEXT_MAX = 256
};

struct text {
    struct text *next; /* in its bucket */
    uint64_t hash;
    uint64_t latest; /* number of the latest line shown that has it; it may have left the ring */
    size_t refs, bytes, capacity;
    uint8_t data[];
};

/** A line that was shown. Lines are numbered from 1; 0 means none. */
struct shown {
    struct text *text;
    uint64_t older; /* the one before that has the same text; likewise */
    uint64_t next;  /* what its rank wrote next; 0: nothing yet, or nothing that can be folded */
    int64_t at_ms;
    int rank;
};

struct rank {
    struct text **queue; /* what is held: from `done` up to `count` */
    size_t done, count, capacity;
    uint64_t last;  /* its latest line, unless it has left the ring or was folded */
    uint64_t since; /* only what it has shown from here on can be referred to */
    int owner;
    bool is_open; /* its last line has no end yet */
};

/** What the queue of a rank begins with: lines that another rank has shown. */
struct block {
    uint64_t first; /* of the lines shown */
    size_t lines;   /* 0: there is none */
    size_t group;   /* place of the first held rank whose queue begins with the same */
    size_t members; /* of that group, at that place */
};

struct kolo_fold {
    struct kolo_fold_events events;
    struct rank *ranks;
    int rank_count, owner_count;
    size_t held_max;
    size_t *owed;   /* for each owner: bytes that are held, */
    size_t *folded; /* and that were not shown */
    struct text *buckets[1 << BUCKET_BITS];
    struct text *spare; /* the next one that is needed is probably as long; or NULL */
    size_t text_bytes;
    struct shown ring[SHOWN_LINES];
    uint64_t begin, end; /* what the ring has; end: the next number */
    size_t ring_bytes;
    uint64_t between;     /* something else was shown before this line */
    int *held;            /* the ranks that are held, */
    struct block *blocks; /* what the queue of each begins with, */
    uint32_t *members;    /* and room for a group of them */
    size_t held_count, held_lines;
    uint64_t need; /* the earliest line that a rank was held for; UINT64_MAX: none */
    int64_t now_ms;
    int together_rank; /* whose lines are to be shown */
    size_t together_bytes;
    uint8_t together[TOGETHER_BYTES];
};

kolo_status kolo_fold_create(int ranks, int owners, size_t held_max,
                             const struct kolo_fold_events *events, struct kolo_fold **fold_out)
{
    struct kolo_fold *fold = kolo_calloc(1, sizeof *fold);
    if (!fold)
        return KOLO_ERR_NO_MEMORY;
    fold->events = *events;
    fold->rank_count = ranks;
    fold->owner_count = owners;
    fold->held_max = held_max;
    fold->begin = fold->end = fold->between = 1;
    fold->need = UINT64_MAX;
    fold->ranks = kolo_calloc((size_t)ranks, sizeof *fold->ranks);
    fold->held = kolo_calloc((size_t)ranks, sizeof *fold->held);
    fold->blocks = kolo_calloc((size_t)ranks, sizeof *fold->blocks);
    fold->members = kolo_calloc((size_t)ranks, sizeof *fold->members);
    fold->owed = kolo_calloc((size_t)owners, sizeof *fold->owed);
    fold->folded = kolo_calloc((size_t)owners, sizeof *fold->folded);
    if (!fold->ranks || !fold->held || !fold->blocks || !fold->members || !fold->owed ||
        !fold->folded) {
        kolo_fold_destroy(fold);
        return KOLO_ERR_NO_MEMORY;
    }
    *fold_out = fold;
    return KOLO_OK;
}

/* ---- texts ---- */

/* Lines often differ in a digit or two, so each word is spread over all bits. */
static uint64_t hash_of(const uint8_t *data, size_t bytes)
{
    static const uint64_t SPREAD = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = bytes, word;
    for (size_t part; bytes > 0; data += part, bytes -= part) {
        part = bytes < sizeof word ? bytes : sizeof word;
        word = 0;
        memcpy(&word, data, part);
        hash = (hash ^ word) * SPREAD;
        hash ^= hash >> 29;
    }
    return hash;
}

static struct text **bucket_of(struct kolo_fold *fold, uint64_t hash)
{
    return &fold->buckets[hash * UINT64_C(0xC4CEB9FE1A85EC53) >> (64 - BUCKET_BITS)];
}

/* Room for a new text. NULL: no memory. */
static struct text *make_text(struct kolo_fold *fold, size_t bytes)
{
    struct text *text = fold->spare;
    if (text && text->capacity >= bytes) {
        fold->spare = NULL;
        return text;
    }
    const size_t capacity = (bytes + TEXT_STEP - 1) / TEXT_STEP * TEXT_STEP;
    text = kolo_calloc(1, sizeof *text + capacity);
    if (text)
        text->capacity = capacity;
    return text;
}

/* A reference to the text of these bytes. NULL: no memory. */
static struct text *get_text(struct kolo_fold *fold, const uint8_t *data, size_t bytes)
{
    const uint64_t hash = hash_of(data, bytes);
    struct text **bucket = bucket_of(fold, hash), *text = *bucket;
    while (text &&
           (text->hash != hash || text->bytes != bytes || memcmp(text->data, data, bytes) != 0))
        text = text->next;
    if (!text) {
        text = make_text(fold, bytes);
        if (!text)
            return NULL;
        memcpy(text->data, data, bytes);
        text->hash = hash;
        text->bytes = bytes;
        text->latest = 0;
        text->next = *bucket;
        *bucket = text;
        fold->text_bytes += bytes;
    }
    text->refs++;
    return text;
}

/* @p text: NULL is allowed. */
static void drop_text(struct kolo_fold *fold, struct text *text)
{
    if (!text || --text->refs > 0)
        return;
    struct text **at = bucket_of(fold, text->hash);
    while (*at != text)
        at = &(*at)->next;
    *at = text->next;
    fold->text_bytes -= text->bytes;
    kolo_free_memory(fold->spare);
    fold->spare = text;
}

/* ---- what was shown ---- */

static struct shown *shown_at(struct kolo_fold *fold, uint64_t number)
{
    return &fold->ring[number % SHOWN_LINES];
}

static void forget_oldest(struct kolo_fold *fold)
{
    struct shown *oldest = shown_at(fold, fold->begin);
    fold->ring_bytes -= oldest->text->bytes;
    drop_text(fold, oldest->text);
    fold->begin++;
}

/* Whether a line must be forgotten before one of so many bytes is noted. */
static bool is_full(const struct kolo_fold *fold, size_t bytes)
{
    return fold->end - fold->begin == SHOWN_LINES ||
           (fold->begin < fold->end && fold->ring_bytes + bytes > SHOWN_BYTES);
}

/* Notes that a line of @p rank is shown. NULL: one that cannot be folded. */
static void note_shown(struct kolo_fold *fold, int rank, struct text *text)
{
    struct rank *from = &fold->ranks[rank];
    if (!text) {
        from->since = fold->between = fold->end;
        return;
    }
    while (is_full(fold, text->bytes))
        forget_oldest(fold);
    if (from->last >= fold->begin)
        shown_at(fold, from->last)->next = fold->end;
    *shown_at(fold, fold->end) =
        (struct shown){.text = text, .older = text->latest, .at_ms = fold->now_ms, .rank = rank};
    text->refs++;
    text->latest = from->last = fold->end++;
    fold->ring_bytes += text->bytes;
}

/* Whether the line of this number is one that @p rank may repeat. */
static bool is_usable(struct kolo_fold *fold, uint64_t number, int rank)
{
    const struct shown *shown = shown_at(fold, number);
    return shown->rank != rank && number >= fold->ranks[shown->rank].since &&
           fold->now_ms - shown->at_ms <= RECENT_MS;
}

/* The latest line before @p number (0: of all) that has the text, and that @p rank may repeat; 0:
 * none. */
static uint64_t next_try(struct kolo_fold *fold, int rank, const struct text *text, uint64_t number,
                         int *tries)
{
    number = number == 0 ? text->latest : shown_at(fold, number)->older;
    while (number >= fold->begin && ++*tries <= TRIES_MAX) {
        if (is_usable(fold, number, rank))
            return number;
        number = shown_at(fold, number)->older;
    }
    return 0;
}

/* The latest of all; 0: none. */
static uint64_t find_known(struct kolo_fold *fold, int rank, const struct text *text)
{
    int tries = 0;
    return next_try(fold, rank, text, 0, &tries);
}

/* ---- what is held ---- */

static bool is_held(const struct rank *rank)
{
    return rank->done < rank->count;
}

static bool has_room(const struct kolo_fold *fold, int owner, size_t bytes)
{
    return fold->held_lines < HELD_LINES_MAX && fold->text_bytes < TEXT_BYTES_MAX &&
           fold->owed[owner] + bytes <= fold->held_max;
}

/* Takes the reference over on success. */
static bool hold(struct kolo_fold *fold, int rank, struct text *text)
{
    struct rank *from = &fold->ranks[rank];
    void *queue = from->queue;
    if (kolo_grow(&queue, &from->capacity, from->count + 1, sizeof(struct text *)) != KOLO_OK)
        return false;
    from->queue = queue;
    if (!is_held(from)) {
        const uint64_t known = find_known(fold, rank, text);
        fold->need = known < fold->need ? known : fold->need;
        fold->held[fold->held_count++] = rank;
    }
    from->queue[from->count++] = text;
    fold->owed[from->owner] += text->bytes;
    fold->held_lines++;
    return true;
}

/* Takes the first line that is held off the queue. */
static void drop_first(struct kolo_fold *fold, struct rank *from)
{
    struct text *text = from->queue[from->done++];
    fold->owed[from->owner] -= text->bytes;
    fold->held_lines--;
    drop_text(fold, text);
}

static void show_together(struct kolo_fold *fold)
{
    if (fold->together_bytes > 0)
        fold->events.show(fold->events.context, fold->ranks[fold->together_rank].owner,
                          fold->together_rank, fold->together, fold->together_bytes);
    fold->together_bytes = 0;
}

static void show_first(struct kolo_fold *fold, int rank)
{
    struct rank *from = &fold->ranks[rank];
    struct text *text = from->queue[from->done];
    if (fold->together_rank != rank || fold->together_bytes + text->bytes > TOGETHER_BYTES)
        show_together(fold);
    fold->together_rank = rank;
    memcpy(fold->together + fold->together_bytes, text->data, text->bytes);
    fold->together_bytes += text->bytes;
    note_shown(fold, rank, text);
    drop_first(fold, from);
}

static void fold_first(struct kolo_fold *fold, struct rank *from)
{
    fold->folded[from->owner] += from->queue[from->done]->bytes;
    from->last = 0;
    drop_first(fold, from);
}

/* ---- blocks of lines ---- */

/* How many lines from @p number on, all that its rank wrote, the queue of @p from begins with. */
static size_t count_same(struct kolo_fold *fold, const struct rank *from, uint64_t number)
{
    size_t lines = 0;
    for (; number != 0 && from->done + lines < from->count; lines++) {
        const struct shown *shown = shown_at(fold, number);
        if (shown->text != from->queue[from->done + lines])
            break;
        number = shown->next;
    }
    return lines;
}

/* The longest, and of several the latest. */
static struct block find_block(struct kolo_fold *fold, int rank)
{
    const struct rank *from = &fold->ranks[rank];
    struct block best = {.lines = 0};
    if (!is_held(from))
        return best;
    const struct text *text = from->queue[from->done];
    int tries = 0;
    uint64_t number = next_try(fold, rank, text, 0, &tries);
    while (number != 0 && best.lines < from->count - from->done) {
        const size_t lines = count_same(fold, from, number);
        if (lines > best.lines)
            best = (struct block){.first = number, .lines = lines};
        number = next_try(fold, rank, text, number, &tries);
    }
    return best;
}

/* Whether the queues of two held ranks begin with the same block. */
static bool is_same_block(const struct kolo_fold *fold, size_t a, size_t b)
{
    const struct rank *one = &fold->ranks[fold->held[a]], *other = &fold->ranks[fold->held[b]];
    const size_t lines = fold->blocks[a].lines;
    return lines == fold->blocks[b].lines &&
           memcmp(one->queue + one->done, other->queue + other->done, lines * sizeof *one->queue) ==
               0;
}

static void form_groups(struct kolo_fold *fold)
{
    for (size_t i = 0; i < fold->held_count; i++) {
        struct block *block = &fold->blocks[i];
        size_t group = 0;
        block->members = 0;
        if (block->lines == 0)
            continue;
        while (group < i && (fold->blocks[group].members == 0 || !is_same_block(fold, group, i)))
            group++;
        block->group = group;
        fold->blocks[group].members++;
    }
}

static const struct text *first_text(const struct kolo_fold *fold, size_t place)
{
    const struct rank *from = &fold->ranks[fold->held[place]];
    return from->queue[from->done];
}

static bool is_in_small_group(const struct kolo_fold *fold, size_t place)
{
    const struct block *block = &fold->blocks[place];
    return block->lines > 0 && fold->blocks[block->group].members < KOLO_FOLD_RANKS_MIN;
}

/* How many lines at the beginning of two blocks are the same. */
static size_t count_common(const struct kolo_fold *fold, size_t a, size_t b)
{
    const struct rank *one = &fold->ranks[fold->held[a]], *other = &fold->ranks[fold->held[b]];
    size_t lines = 0;
    while (lines < fold->blocks[a].lines && lines < fold->blocks[b].lines &&
           one->queue[one->done + lines] == other->queue[other->done + lines])
        lines++;
    return lines;
}

/* Cuts the block at @p place, and those that begin alike, to what they have in common, if that is
 * most of it, and all of them together are enough: some ranks may have got further than others when
 * the time was over. */
static bool cut_alike(struct kolo_fold *fold, size_t place)
{
    const struct text *first = first_text(fold, place);
    size_t members = 0, lines = fold->blocks[place].lines, most = lines;
    for (size_t i = place; i < fold->held_count; i++) {
        if (!is_in_small_group(fold, i) || first_text(fold, i) != first)
            continue;
        const size_t common = count_common(fold, place, i);
        lines = common < lines ? common : lines;
        most = fold->blocks[i].lines > most ? fold->blocks[i].lines : most;
        members++;
    }
    if (members < KOLO_FOLD_RANKS_MIN || 2 * lines < most)
        return false;
    for (size_t i = place; i < fold->held_count; i++)
        if (is_in_small_group(fold, i) && first_text(fold, i) == first)
            fold->blocks[i].lines = lines;
    return true;
}

static void find_groups(struct kolo_fold *fold)
{
    for (size_t i = 0; i < fold->held_count; i++)
        fold->blocks[i] = find_block(fold, fold->held[i]);
    form_groups(fold);
    bool has_cut = false;
    for (size_t i = 0; i < fold->held_count; i++)
        has_cut = (is_in_small_group(fold, i) && cut_alike(fold, i)) || has_cut;
    if (has_cut)
        form_groups(fold);
}

/* ---- the lines that stand for others ---- */

/* A text as it is repeated: its first @p max bytes, without control characters. */
static void brief(const struct text *text, size_t max, char shown[WHOLE_MAX + 4])
{
    size_t bytes = text->bytes - 1;
    if (bytes > 0 && text->data[bytes - 1] == '\r')
        bytes--;
    const bool is_cut = bytes > max;
    if (is_cut)
        for (bytes = max; bytes > 0 && (text->data[bytes] & 0xC0) == 0x80;) /* UTF-8 */
            bytes--;
    memcpy(shown, text->data, bytes);
    shown[bytes] = '\0';
    kolo_text_clean_bytes(shown, bytes);
    if (is_cut)
        memcpy(shown + bytes, "...", sizeof "...");
}

/* Whether what was shown ends with the lines of the block, and nothing else. */
static bool is_above(const struct kolo_fold *fold, const struct block *block)
{
    return block->first >= fold->between && block->first + block->lines == fold->end;
}

/* Whether a reader may take @p line for the one that @p shown repeats: dots at its end may stand
 * for what was cut off, or may be its own. */
static bool may_be(const char *line, const char *shown)
{
    const size_t bytes = strlen(shown);
    if (bytes >= 3 && strcmp(shown + bytes - 3, "...") == 0)
        return strncmp(line, shown, bytes - 3) == 0;
    return strcmp(line, shown) == 0;
}

/* Whether @p shown, with which the block begins, says which lines are meant: no later ones of that
 * rank could be. For a reader, what of that rank was folded does not stand between its lines. */
static bool is_clear(struct kolo_fold *fold, const struct block *block, const char *shown)
{
    char other[WHOLE_MAX + 4];
    const int rank = shown_at(fold, block->first)->rank;
    size_t lines = 0; /* of that rank, from this one on */
    for (uint64_t number = fold->end - 1; number > block->first; number--) {
        if (shown_at(fold, number)->rank != rank || ++lines < block->lines)
            continue;
        brief(shown_at(fold, number)->text, WHOLE_MAX, other);
        if (may_be(other, shown))
            return false;
    }
    return true;
}

/* Says that these ranks wrote the same; in several lines if their numbers do not fit one. */
static void say_same(struct kolo_fold *fold, uint32_t *members, size_t count, const char *what)
{
    char names[RANKS_TEXT_MAX], line[RANKS_TEXT_MAX + WHOLE_MAX + 128];
    const struct kolo_ranks ranks = {.at = members, .count = (uint32_t)count};
    kolo_ranks_brief(&ranks, names, sizeof names);
    if (count > 1 && strcmp(names + strlen(names) - 3, "...") == 0) {
        say_same(fold, members, count / 2, what);
        say_same(fold, members + count / 2, count - count / 2, what);
        return;
    }
    const int len = snprintf(line, sizeof line, "[%s] the same%s\n", strchr(names, ' ') + 1, what);
    fold->events.same(fold->events.context, line, (size_t)len);
}

/* What follows "the same". Returns false if it cannot be said which lines are meant. */
static bool say_what(struct kolo_fold *fold, const struct block *block, char what[WHOLE_MAX + 128])
{
    static const size_t lengths[] = {BRIEF_MAX, WHOLE_MAX};
    char count[48] = "", shown[WHOLE_MAX + 4];
    if (block->first < fold->begin)
        return false;
    if (block->lines > 1)
        snprintf(count, sizeof count, " %zu lines", block->lines);
    if (is_above(fold, block)) {
        snprintf(what, WHOLE_MAX + 128, "%s", count);
        return true;
    }
    const struct shown *first = shown_at(fold, block->first);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        brief(first->text, lengths[i], shown);
        if (!is_clear(fold, block, shown))
            continue;
        snprintf(what, WHOLE_MAX + 128, "%s as rank %d: %s", count, first->rank, shown);
        return true;
    }
    return false;
}

/* ---- settling ---- */

static void show_block(struct kolo_fold *fold, int rank, size_t lines)
{
    while (lines-- > 0)
        show_first(fold, rank);
}

static void fold_block(struct kolo_fold *fold, int rank, size_t lines)
{
    while (lines-- > 0)
        fold_first(fold, &fold->ranks[rank]);
}

/* If it cannot be said which lines are meant, those of the first member are shown and meant. */
static void settle_group(struct kolo_fold *fold, size_t group)
{
    struct block block = fold->blocks[group];
    char what[WHOLE_MAX + 128];
    size_t place = group, count = 0;
    bool is_folded = block.members >= KOLO_FOLD_RANKS_MIN && say_what(fold, &block, what);
    if (!is_folded && block.members > KOLO_FOLD_RANKS_MIN) {
        show_block(fold, fold->held[place++], block.lines);
        block.first = fold->end - block.lines;
        is_folded = say_what(fold, &block, what);
    }
    for (; place < fold->held_count; place++) {
        const int rank = fold->held[place];
        if (fold->blocks[place].lines == 0 || fold->blocks[place].group != group)
            continue;
        if (is_folded)
            fold_block(fold, rank, block.lines);
        else
            show_block(fold, rank, block.lines);
        fold->members[count++] = (uint32_t)rank;
    }
    if (!is_folded)
        return;
    show_together(fold);
    say_same(fold, fold->members, count, what);
    fold->between = fold->end;
}

/* Settles the groups of up to @p most members. Returns whether there were any. */
static bool settle_groups(struct kolo_fold *fold, size_t most)
{
    bool has_settled = false;
    for (size_t i = 0; i < fold->held_count; i++) {
        if (fold->blocks[i].members == 0 || fold->blocks[i].members > most)
            continue;
        settle_group(fold, i);
        has_settled = true;
    }
    return has_settled;
}

static void free_queue(struct rank *from)
{
    kolo_free_memory(from->queue);
    from->queue = NULL;
    from->done = from->count = from->capacity = 0;
}

/* Shows what is new, and drops the ranks that have nothing left. */
static void show_new(struct kolo_fold *fold)
{
    size_t left = 0;
    for (size_t i = 0; i < fold->held_count; i++) {
        const int rank = fold->held[i];
        struct rank *from = &fold->ranks[rank];
        while (is_held(from) && find_known(fold, rank, from->queue[from->done]) == 0)
            show_first(fold, rank);
        if (is_held(from))
            fold->held[left++] = rank;
        else
            free_queue(from);
    }
    fold->held_count = left;
}

static int compare_ranks(const void *a, const void *b)
{
    const int one = *(const int *)a, other = *(const int *)b;
    return (one > other) - (one < other);
}

static void tell_folded(struct kolo_fold *fold)
{
    for (int owner = 0; owner < fold->owner_count; owner++) {
        const size_t bytes = fold->folded[owner];
        fold->folded[owner] = 0;
        if (bytes > 0)
            fold->events.folded(fold->events.context, owner, bytes);
    }
}

/* In rounds: each takes from every queue a block, or what is new up to the next. The lines of a
 * rank that repeats a block with few others are shown first: more ranks may repeat those and what
 * the rank had written before. */
void kolo_fold_settle(struct kolo_fold *fold)
{
    if (fold->held_count == 0)
        return;
    qsort(fold->held, fold->held_count, sizeof *fold->held, compare_ranks);
    while (fold->held_count > 0) {
        find_groups(fold);
        if (settle_groups(fold, KOLO_FOLD_RANKS_MIN - 1))
            find_groups(fold);
        (void)settle_groups(fold, SIZE_MAX);
        show_new(fold);
    }
    fold->need = UINT64_MAX;
    show_together(fold);
    tell_folded(fold);
}

/* ---- what comes ---- */

static void show(struct kolo_fold *fold, int rank, const uint8_t *begin, const uint8_t *end)
{
    if (begin < end)
        fold->events.show(fold->events.context, fold->ranks[rank].owner, rank, begin,
                          (size_t)(end - begin));
}

/* A reference to the text of a line; NULL if it cannot be folded. */
static struct text *take_line(struct kolo_fold *fold, struct rank *from, const uint8_t *at,
                              const uint8_t *end)
{
    const size_t bytes = (size_t)(end - at);
    const bool has_end = end[-1] == '\n', is_whole = has_end && !from->is_open;
    from->is_open = !has_end;
    return is_whole && bytes <= WHOLE_MAX ? get_text(fold, at, bytes) : NULL;
}

/* Whether what is held must be shown before the next line of @p from: that cannot be held, or what
 * is repeated would be forgotten for it. */
static bool must_settle(const struct kolo_fold *fold, const struct rank *from,
                        const struct text *text, size_t bytes, bool is_to_wait)
{
    if (fold->held_count == 0)
        return false;
    if (is_held(from))
        return !text || !has_room(fold, from->owner, bytes);
    return !is_to_wait && fold->begin >= fold->need && is_full(fold, bytes);
}

void kolo_fold_add(struct kolo_fold *fold, int owner, int rank, const void *data, size_t bytes,
                   int64_t now_ms)
{
    struct rank *from = &fold->ranks[rank];
    const uint8_t *begin = data, *past = begin + bytes, *end;
    from->owner = owner;
    fold->now_ms = now_ms;
    for (const uint8_t *at = begin; at < past; at = end) {
        end = kolo_line_end(at, past);
        struct text *text = take_line(fold, from, at, end);
        bool is_to_wait = text && (is_held(from) || find_known(fold, rank, text) != 0);
        if (must_settle(fold, from, text, (size_t)(end - at), is_to_wait)) {
            show(fold, rank, begin, at);
            begin = at;
            kolo_fold_settle(fold);
            is_to_wait = text && find_known(fold, rank, text) != 0;
        }
        if (is_to_wait) {
            show(fold, rank, begin, at);
            begin = at;
            if (hold(fold, rank, text)) {
                begin = end;
                continue;
            }
            kolo_fold_settle(fold);
        }
        note_shown(fold, rank, text);
        drop_text(fold, text);
    }
    show(fold, rank, begin, past);
}

void kolo_fold_interrupt(struct kolo_fold *fold)
{
    fold->between = fold->end;
}

void kolo_fold_beside(struct kolo_fold *fold, int rank, const void *data, size_t bytes)
{
    struct rank *from = &fold->ranks[rank];
    if (bytes == 0)
        return;
    if (is_held(from))
        kolo_fold_settle(fold);
    from->is_open = ((const uint8_t *)data)[bytes - 1] != '\n';
    note_shown(fold, rank, NULL);
}

size_t kolo_fold_held(const struct kolo_fold *fold)
{
    return fold->held_lines;
}

void kolo_fold_destroy(struct kolo_fold *fold)
{
    if (!fold)
        return;
    while (fold->begin < fold->end)
        forget_oldest(fold);
    for (int rank = 0; fold->ranks && rank < fold->rank_count; rank++) {
        struct rank *from = &fold->ranks[rank];
        while (is_held(from))
            drop_text(fold, from->queue[from->done++]);
        free_queue(from);
    }
    kolo_free_memory(fold->spare);
    kolo_free_memory(fold->ranks);
    kolo_free_memory(fold->held);
    kolo_free_memory(fold->blocks);
    kolo_free_memory(fold->members);
    kolo_free_memory(fold->owed);
    kolo_free_memory(fold->folded);
    kolo_free_memory(fold);
}
