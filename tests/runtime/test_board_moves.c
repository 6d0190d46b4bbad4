// SPDX-License-Identifier: Apache-2.0
// The moves of every collective, and how they are divided into shares, against a naive definition:
// each element of a result is written by exactly one piece, from the right contributions, and no
// piece writes memory that another reads, however SEND and RECV overlap.
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "runtime/board_moves.h"

enum { ELEMENTS_MAX = 2048 };

struct play {
    enum kolo_collective collective;
    struct kolo_plan_args args;
    size_t align, most;
    bool is_uneven;
};

static size_t counts[64], displs[64];

static const char *say(const struct play *play)
{
    static char text[256];
    snprintf(text, sizeof text, "%s, %d ranks, root %d, count %zu, align %zu, pieces of %zu%s",
             kolo_collective_text(play->collective), play->args.size, play->args.root,
             play->args.count, play->align, play->most, play->is_uneven ? ", uneven" : "");
    return text;
}

/** What element @p at of @p member's RECV must be: from which rank (KOLO_EVERY: the fold), and from
 * which element. False: it must be unchanged. */
static bool expected(const struct play *play, int member, size_t at, int *from, size_t *where)
{
    const struct kolo_plan_args *args = &play->args;
    *from = KOLO_EVERY;
    *where = at;
    switch (play->collective) {
    case KOLO_COLLECTIVE_ALLREDUCE:
        return at < args->count;
    case KOLO_COLLECTIVE_REDUCE:
        return member == args->root && at < args->count;
    case KOLO_COLLECTIVE_BROADCAST:
        *from = args->root;
        return at < args->count;
    case KOLO_COLLECTIVE_GATHER:
    case KOLO_COLLECTIVE_ALLGATHER:
        if (play->collective == KOLO_COLLECTIVE_GATHER && member != args->root)
            return false;
        for (int rank = 0; rank < args->size; rank++) {
            size_t offset = kolo_plan_block_offset(args, rank);
            if (at < offset || at >= offset + kolo_plan_block(args, rank))
                continue;
            *from = rank;
            *where = at - offset;
            return true;
        }
        return false;
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
    case KOLO_COLLECTIVE_SCATTER:
        if (play->collective == KOLO_COLLECTIVE_SCATTER)
            *from = args->root;
        *where = kolo_plan_block_offset(args, member) + at;
        return at < kolo_plan_block(args, member);
    case KOLO_COLLECTIVE_ALLTOALL:
        if (args->count == 0 || at >= args->count * (size_t)args->size)
            return false;
        *from = (int)(at / args->count);
        *where = args->count * (size_t)member + at % args->count;
        return true;
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    return false;
}

/* One byte per element of RECV of each member: how often it was written. */
static unsigned char written[64][ELEMENTS_MAX];

static void note(const struct play *play, const struct kolo_move *move, int member)
{
    for (size_t i = 0; i < move->count; i++) {
        int from;
        size_t where;
        cr_assert(move->recv_at + i < ELEMENTS_MAX);
        cr_assert(expected(play, member, move->recv_at + i, &from, &where),
                  "%s: element %zu of rank %d is no result", say(play), move->recv_at + i, member);
        cr_assert(from == move->from && where == move->send_at + i,
                  "%s: element %zu of rank %d is from %d at %zu, not from %d at %zu", say(play),
                  move->recv_at + i, member, move->from, move->send_at + i, from, where);
        written[member][move->recv_at + i]++;
    }
}

/** The totals that are computed without the moves of a member equal those of its moves. */
static void prove_sums(const struct play *play, int member)
{
    size_t sends = 0, receives = 0, send, recv, first;
    size_t count = kolo_moves_count(play->collective, &play->args);
    size_t to_me = kolo_moves_to(play->collective, &play->args, member, &first);
    cr_assert(to_me == 0 || first + to_me <= count, "%s: moves to %d", say(play), member);
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(play->collective, &play->args, i, &move);
        bool is_to_me = move.to == KOLO_EVERY || move.to == member;
        bool is_from_me = move.from == KOLO_EVERY || move.from == member;
        cr_assert(is_to_me == (i >= first && i < first + to_me), "%s: move %zu is to rank %d",
                  say(play), i, member);
        if (is_from_me && move.count > 0 && move.send_at + move.count > sends)
            sends = move.send_at + move.count;
        if (is_to_me && move.count > 0 && move.recv_at + move.count > receives)
            receives = move.recv_at + move.count;
    }
    kolo_moves_extent(play->collective, &play->args, member, &send, &recv);
    cr_assert(send == sends && recv == receives, "%s: extents %zu and %zu of rank %d, not %zu, %zu",
              say(play), send, recv, member, sends, receives);
}

static void prove(const struct play *play)
{
    int size = play->args.size;
    for (int member = 0; member < size; member++)
        prove_sums(play, member);
    memset(written, 0, sizeof written[0] * (size_t)size);
    for (int part = 0; part < size; part++) {
        struct kolo_share share;
        struct kolo_move move;
        kolo_share_begin(play->collective, &play->args, part, size, play->align, &share);
        while (kolo_share_next(&share, play->most, &move)) {
            cr_assert(move.count > 0 && move.count <= play->most, "%s", say(play));
            for (int member = 0; member < size; member++)
                if (move.to == KOLO_EVERY || move.to == member)
                    note(play, &move, member);
        }
    }
    for (int member = 0; member < size; member++) {
        size_t send, recv, where;
        int from;
        kolo_moves_extent(play->collective, &play->args, member, &send, &recv);
        for (size_t at = 0; at < recv + 20 && at < ELEMENTS_MAX; at++) {
            bool is_result = expected(play, member, at, &from, &where);
            cr_assert(written[member][at] == is_result,
                      "%s: element %zu of rank %d was written %d times", say(play), at, member,
                      written[member][at]);
            cr_assert(!is_result || at < recv, "%s: extent of RECV", say(play));
        }
    }
}

/** For a call in place, where SEND of a rank begins, in elements relative to RECV. */
static ptrdiff_t send_in_recv(const struct play *play, int member)
{
    ptrdiff_t offset = (ptrdiff_t)kolo_plan_block_offset(&play->args, member);
    switch (play->collective) {
    case KOLO_COLLECTIVE_ALLGATHER:
    case KOLO_COLLECTIVE_GATHER:
        return offset;
    case KOLO_COLLECTIVE_REDUCE_SCATTER:
    case KOLO_COLLECTIVE_SCATTER:
        return -offset;
    case KOLO_COLLECTIVE_ALLREDUCE:
    case KOLO_COLLECTIVE_REDUCE:
    case KOLO_COLLECTIVE_BROADCAST:
    case KOLO_COLLECTIVE_ALLTOALL:
    case KOLO_COLLECTIVE_BARRIER:
    case KOLO_COLLECTIVES:
        break;
    }
    return 0;
}

/** In place on every rank: only the part that writes an element reads it, at the same position. */
static void prove_in_place(const struct play *play)
{
    /* for one member's memory, from its RECV - ELEMENTS_MAX: the part that reads it, -1 none, -2
     * several */
    static int reader[ELEMENTS_MAX * 2];
    int size = play->args.size;
    for (int member = 0; member < size; member++) {
        ptrdiff_t base = ELEMENTS_MAX + send_in_recv(play, member);
        struct kolo_share share;
        struct kolo_move move;
        for (size_t i = 0; i < ELEMENTS_MAX * 2; i++)
            reader[i] = -1;
        for (int part = 0; part < size; part++) {
            kolo_share_begin(play->collective, &play->args, part, size, play->align, &share);
            while (kolo_share_next(&share, play->most, &move))
                for (size_t i = 0; i < move.count; i++) {
                    if (move.from != KOLO_EVERY && move.from != member)
                        continue;
                    int *at = &reader[base + (ptrdiff_t)(move.send_at + i)];
                    *at = *at == -1 ? part : -2;
                }
        }
        for (int part = 0; part < size; part++) {
            kolo_share_begin(play->collective, &play->args, part, size, play->align, &share);
            while (kolo_share_next(&share, play->most, &move)) {
                bool reads = move.from == KOLO_EVERY || move.from == member;
                if (move.to != KOLO_EVERY && move.to != member)
                    continue;
                for (size_t i = 0; i < move.count; i++) {
                    int by = reader[ELEMENTS_MAX + move.recv_at + i];
                    ptrdiff_t own = base + (ptrdiff_t)(move.send_at + i) - ELEMENTS_MAX;
                    cr_assert(by == -1 ||
                                  (by == part && reads && own == (ptrdiff_t)(move.recv_at + i)),
                              "%s: element %zu of rank %d is written while another needs it",
                              say(play), move.recv_at + i, member);
                }
            }
        }
    }
}

static void prove_size(int size)
{
    static const size_t some[] = {0, 1, 2, 7, 16, 31};
    for (int c = 0; c < KOLO_COLLECTIVES; c++)
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
            for (int variant = 0; variant < 4; variant++) {
                if (size > 12 && ((int)i + variant + c) % 6 != size % 6)
                    continue; /* one part for each */
                int root = (int)((i * 5 + (size_t)variant) % (size_t)size);
                bool by_blocks = c == KOLO_COLLECTIVE_ALLGATHER || c == KOLO_COLLECTIVE_GATHER ||
                                 c == KOLO_COLLECTIVE_REDUCE_SCATTER;
                struct play play = {.collective = (enum kolo_collective)c,
                                    .args = {.size = size, .root = root, .count = some[i]},
                                    .align = variant % 2 == 0 ? 1 : 4,
                                    .most = variant == 1 ? 3 : ELEMENTS_MAX,
                                    .is_uneven = variant >= 2 && by_blocks};
                if (c <= KOLO_COLLECTIVE_BROADCAST)
                    play.args.count = some[i] * 13;
                for (size_t rank = 0, at = 1; rank < 64; rank++) {
                    counts[rank] = (rank * 7 + some[i]) % 23;
                    displs[rank] = at;
                    at += counts[rank] + rank % 2;
                }
                if (play.is_uneven)
                    play.args.counts = counts, play.args.displs = displs;
                prove(&play);
                if (c != KOLO_COLLECTIVE_ALLTOALL)
                    prove_in_place(&play);
            }
}

Test(board_moves, every_collective_for_1_to_64, .timeout = 120)
{
    for (int size = 1; size <= 64; size++)
        prove_size(size);
}

/* Equal blocks are not divided, so that the rank that has a block in its cache moves it. */
Test(board_moves, equal_blocks_are_not_cut)
{
    struct kolo_plan_args args = {.size = 5, .count = 7};
    for (int part = 0; part < 5; part++) {
        struct kolo_share share;
        struct kolo_move move;
        kolo_share_begin(KOLO_COLLECTIVE_ALLGATHER, &args, part, 5, 16, &share);
        cr_assert(kolo_share_next(&share, SIZE_MAX, &move) && move.from == part && move.count == 7);
        cr_assert(!kolo_share_next(&share, SIZE_MAX, &move));
    }
}

/* Shares differ by less than two alignments, for any length. */
Test(board_moves, shares_are_equal)
{
    struct kolo_plan_args args = {.size = 3, .count = (size_t)3 << 31};
    for (int part = 0; part < 3; part++) {
        struct kolo_share share;
        struct kolo_move move;
        kolo_share_begin(KOLO_COLLECTIVE_ALLREDUCE, &args, part, 3, 1024, &share);
        cr_assert(kolo_share_next(&share, SIZE_MAX, &move));
        cr_assert(move.count + 2048 > (size_t)1 << 31 && move.count < ((size_t)1 << 31) + 2048);
    }
}
