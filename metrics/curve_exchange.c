// SPDX-License-Identifier: Apache-2.0
// Sorts the records of an exact curve over all ranks. Owns the buffers of one exchange.
//
// Each rank sorts its entries by label and falling score; for a micro average each is entered once
// more, as of a label after all others. Equal entries become one tie with counts, so that many
// equal scores cost nothing. Every rank offers keys at regular positions, each weighted by the
// number of ties that it stands for, and these divide the keys into one range per rank; a tie is
// never divided. What a rank then has of a label comes directly after what lower ranks have of it,
// so their totals are where its walk along the scores begins.
//
// The collectives, the same on every rank:
//   1. allreduce: does every rank have the memory?
//   2. allgather: the number of ties, and SAMPLES_PER_RANK of the keys
//   3. alltoall: the number of ties for each rank
//   4. allreduce: does every rank have the memory to receive them?
//   5. alltoallv: the ties
//   6. allgather: positives and negatives of each label
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/curve.h"

enum { SAMPLES_PER_RANK = 64, OFFER_WORDS = 1 + SAMPLES_PER_RANK, TIE_WORDS = 3 };
_Static_assert(sizeof(struct kolo_tie) == TIE_WORDS * sizeof(int64_t), "a tie is three int64");

struct exchange {
    const struct kolo_curve *curve;
    struct kolo_comm *comm;
    const struct kolo_opts *opts;
    size_t ranks, labels; /* labels: including that of the micro average */
    struct kolo_tie *own, *got;
    size_t own_count, got_count;
    int64_t offer[OFFER_WORDS], *offers; /* of all ranks */
    struct kolo_tie *weighted;           /* the keys offered; positives is the weight of each */
    int64_t *to, *from;                  /* number of ties for and from each rank */
    size_t *to_words, *from_words;
    int64_t *totals, *all_totals; /* positives and negatives of each label; those of all ranks */
};

/* Orders by key; equal keys by weight, so that every library's qsort gives the same order. */
static int by_key(const void *a, const void *b)
{
    const struct kolo_tie *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->positives > y->positives) - (x->positives < y->positives);
}

/* Sorts ties, merges those with the same key, and returns how many are left. */
static size_t gather_ties(struct kolo_tie *ties, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(ties, count, sizeof *ties, by_key);
    for (size_t i = 0; i < count; i++) {
        if (kept && ties[kept - 1].key == ties[i].key) {
            ties[kept - 1].positives += ties[i].positives;
            ties[kept - 1].negatives += ties[i].negatives;
        } else {
            ties[kept++] = ties[i];
        }
    }
    return kept;
}

static struct kolo_tie tie_of(const struct kolo_curve_entry *entry, size_t label)
{
    return (struct kolo_tie){.key = (int64_t)((uint64_t)label << 32 | entry->place),
                             .positives = entry->truth == 1,
                             .negatives = entry->truth == 0};
}

static void take_records(struct exchange *x, const size_t *chosen, size_t count)
{
    size_t at = 0, labels = (size_t)x->curve->labels;
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const uint8_t *record = kolo_metric_record(&x->curve->metric, chosen[i], &bytes);
        for (size_t l = 0; l < labels; l++) {
            struct kolo_curve_entry entry;
            memcpy(&entry, record + l * sizeof entry, sizeof entry);
            if (entry.truth > 1)
                continue;
            x->own[at++] = tie_of(&entry, l);
            if (x->curve->micro)
                x->own[at++] = tie_of(&entry, labels);
        }
    }
    x->own_count = gather_ties(x->own, at);
}

static kolo_status allocate(struct exchange *x, size_t records)
{
    size_t entries, each = (size_t)x->curve->labels * (x->curve->micro ? 2 : 1);
    if (__builtin_mul_overflow(records, each, &entries))
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "curve: %zu records of %lld labels are too many for the memory", records,
                         (long long)x->curve->labels);
    x->own = kolo_calloc(entries, sizeof *x->own);
    x->offers = kolo_calloc(x->ranks * OFFER_WORDS, sizeof *x->offers);
    x->weighted = kolo_calloc(x->ranks * SAMPLES_PER_RANK, sizeof *x->weighted);
    x->to = kolo_calloc(x->ranks, sizeof *x->to);
    x->from = kolo_calloc(x->ranks, sizeof *x->from);
    x->to_words = kolo_calloc(x->ranks, sizeof *x->to_words);
    x->from_words = kolo_calloc(x->ranks, sizeof *x->from_words);
    x->totals = kolo_calloc(x->labels * 2, sizeof *x->totals);
    x->all_totals = kolo_calloc(x->ranks * x->labels * 2, sizeof *x->all_totals);
    bool has_all = x->own && x->offers && x->weighted && x->to && x->from && x->to_words &&
                   x->from_words && x->totals && x->all_totals;
    return has_all ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static void release(struct exchange *x)
{
    kolo_free_memory(x->own);
    kolo_free_memory(x->got);
    kolo_free_memory(x->offers);
    kolo_free_memory(x->weighted);
    kolo_free_memory(x->to);
    kolo_free_memory(x->from);
    kolo_free_memory(x->to_words);
    kolo_free_memory(x->from_words);
    kolo_free_memory(x->totals);
    kolo_free_memory(x->all_totals);
}

static kolo_status share_offers(struct exchange *x)
{
    x->offer[0] = (int64_t)x->own_count;
    for (size_t i = 0; x->own_count && i < SAMPLES_PER_RANK; i++)
        x->offer[1 + i] = x->own[x->own_count * i / SAMPLES_PER_RANK].key;
    return kolo_allgather(x->comm, x->offer, x->offers, OFFER_WORDS, KOLO_INT64, x->opts, NULL);
}

/* Sets x->to, so that each rank gets about the same number of ties. The range of rank r begins
 * at the first offered key that has r / ranks of the total weight before it. All ranks find the
 * same ranges. */
static void part(struct exchange *x)
{
    size_t offered = 0;
    uint64_t total = 0, passed = 0;
    for (size_t r = 0; r < x->ranks; r++) {
        const int64_t *offer = x->offers + r * OFFER_WORDS;
        total += (uint64_t)offer[0];
        for (size_t i = 1; offer[0] && i < OFFER_WORDS; i++)
            x->weighted[offered++] = (struct kolo_tie){.key = offer[i], .positives = offer[0]};
    }
    if (offered)
        qsort(x->weighted, offered, sizeof *x->weighted, by_key);
    size_t at = 0, rank = 0;
    for (size_t i = 0; i < offered; i++) {
        /* weights are in units of 1 / SAMPLES_PER_RANK ties */
        while (rank + 1 < x->ranks && (double)passed >= (double)total * (double)SAMPLES_PER_RANK *
                                                            (double)(rank + 1) / (double)x->ranks) {
            size_t begin = at;
            while (at < x->own_count && x->own[at].key < x->weighted[i].key)
                at++;
            x->to[rank++] = (int64_t)(at - begin);
        }
        passed += (uint64_t)x->weighted[i].positives;
    }
    x->to[rank] = (int64_t)(x->own_count - at);
}

static kolo_status make_room(struct exchange *x)
{
    for (size_t r = 0; r < x->ranks; r++) {
        x->to_words[r] = (size_t)x->to[r] * TIE_WORDS;
        x->from_words[r] = (size_t)x->from[r] * TIE_WORDS;
        x->got_count += (size_t)x->from[r];
    }
    x->got = kolo_calloc(x->got_count, sizeof *x->got);
    return x->got ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static size_t label_of(const struct kolo_tie *tie)
{
    return (size_t)((uint64_t)tie->key >> 32);
}

static kolo_status share_totals(struct exchange *x)
{
    for (size_t i = 0; i < x->got_count; i++) {
        x->totals[label_of(x->got + i) * 2] += x->got[i].positives;
        x->totals[label_of(x->got + i) * 2 + 1] += x->got[i].negatives;
    }
    return kolo_allgather(x->comm, x->totals, x->all_totals, x->labels * 2, KOLO_INT64, x->opts,
                          NULL);
}

/* Returns where this rank's walk along the scores of a label begins. */
static struct kolo_area begin_of(const struct exchange *x, size_t label)
{
    struct kolo_area area = {.positives = 0};
    for (size_t r = 0; r < (size_t)kolo_rank(x->comm); r++) {
        area.positives += x->all_totals[(r * x->labels + label) * 2];
        area.negatives += x->all_totals[(r * x->labels + label) * 2 + 1];
    }
    return area;
}

/* Writes what this rank's ties add to the areas. */
static void walk(const struct exchange *x, int64_t *words)
{
    size_t i = 0;
    for (size_t l = 0; l < x->labels; l++, words += KOLO_AREA_WORDS) {
        struct kolo_area area = begin_of(x, l);
        for (; i < x->got_count && label_of(x->got + i) == l; i++)
            kolo_area_add(&area, x->got[i].positives, x->got[i].negatives);
        for (int limb = 0; limb < KOLO_AREA_LIMBS; limb++, area.twice_pairs >>= 32)
            words[limb] = (int64_t)(uint32_t)area.twice_pairs;
        words[KOLO_AREA_POSITIVES] = x->totals[l * 2];
        words[KOLO_AREA_NEGATIVES] = x->totals[l * 2 + 1];
        memcpy(words + KOLO_AREA_PRECISION, &area.precision, sizeof area.precision);
    }
}

static kolo_status move(struct exchange *x, const size_t *chosen, size_t count)
{
    kolo_status status;
    KOLO_TRY(kolo_metric_agree(x->comm, allocate(x, count), x->opts));
    take_records(x, chosen, count);
    KOLO_TRY(share_offers(x));
    part(x);
    KOLO_TRY(kolo_alltoall(x->comm, x->to, x->from, 1, KOLO_INT64, x->opts, NULL));
    KOLO_TRY(kolo_metric_agree(x->comm, make_room(x), x->opts));
    KOLO_TRY(kolo_alltoallv(x->comm, x->own, x->to_words, NULL, x->got, x->from_words, NULL,
                            KOLO_INT64, x->opts, NULL));
    x->got_count = gather_ties(x->got, x->got_count);
    KOLO_TRY(share_totals(x));
out:
    return status;
}

kolo_status kolo_curve_exchange(struct kolo_metric *metric, struct kolo_comm *comm,
                                const size_t *chosen, size_t count, int64_t *words,
                                const struct kolo_opts *opts)
{
    struct exchange x = {.curve = (const struct kolo_curve *)metric,
                         .comm = comm,
                         .opts = opts,
                         .ranks = (size_t)kolo_size(comm),
                         .labels = metric->words / KOLO_AREA_WORDS};
    kolo_status status = move(&x, chosen, count);
    if (status == KOLO_OK)
        walk(&x, words);
    release(&x);
    return status;
}
