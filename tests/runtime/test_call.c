// SPDX-License-Identifier: Apache-2.0
// The description of a call, as bytes and as text.
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/call.h"

static void says(const struct kolo_call *call, const char *want)
{
    char words[KOLO_WORDS_MAX];
    kolo_call_words(call, words, sizeof words);
    cr_assert(strcmp(words, want) == 0, "'%s', not '%s'", words, want);
}

Test(call, words)
{
    struct kolo_call call = {.kind = KOLO_CALL_ALLREDUCE,
                             .count = 10,
                             .dtype = KOLO_FLOAT32,
                             .op = KOLO_SUM,
                             .root = 2,
                             .peer = 3,
                             .name = "grad/3"};
    says(&call, "allreduce(count 10, float32, sum) 'grad/3'");
    call.kind = KOLO_CALL_REDUCE;
    says(&call, "reduce(count 10, float32, sum, root 2) 'grad/3'");
    call.name = NULL;
    call.kind = KOLO_CALL_SCATTER;
    says(&call, "scatter(count 10, float32, root 2)");
    call.kind = KOLO_CALL_BARRIER;
    says(&call, "barrier()");
    call.kind = KOLO_CALL_SEND;
    says(&call, "send(count 10, float32, to rank 3)");
    call.kind = KOLO_CALL_RECV;
    says(&call, "recv(count 10, float32, from rank 3)");
}

Test(call, words_of_an_operator)
{
    struct kolo_call call = {
        .kind = KOLO_CALL_ALLREDUCE, .count = 5, .op = (kolo_redop)KOLO_REDOP_OWN};
    char words[200];
    kolo_call_words(&call, words, sizeof words);
    cr_assert(strstr(words, ", an operator of its own") != NULL, "%s", words);
    call.op_name = "mine";
    kolo_call_words(&call, words, sizeof words);
    cr_assert(strstr(words, ", operator 'mine'") != NULL, "%s", words);
}

Test(call, words_are_bounded)
{
    char name[500], words[KOLO_WORDS_MAX];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct kolo_call call = {.kind = KOLO_CALL_REDUCE_SCATTER,
                             .count = UINT64_MAX,
                             .name = name,
                             .dtype = KOLO_BFLOAT16,
                             .op = KOLO_AVERAGE};
    kolo_call_words(&call, words, sizeof words);
    cr_assert(strlen(words) < sizeof words && words[strlen(words) - 1] == '\'', "%s", words);
    for (size_t capacity = 1; capacity < 40; capacity++) {
        memset(words, 'x', sizeof words);
        kolo_call_words(&call, words, capacity);
        cr_assert(strlen(words) < capacity && words[capacity] == 'x', "capacity %zu", capacity);
    }
}

Test(call, packs_and_unpacks)
{
    srand(1);
    for (int i = 0; i < 1000; i++) {
        struct kolo_call call = {.kind = (enum kolo_call_kind)(rand() % KOLO_CALL_RECV),
                                 .sequence = (uint32_t)rand(),
                                 .dtype = (kolo_dtype)(rand() % KOLO_DTYPES),
                                 .op = (kolo_redop)(rand() % KOLO_REDOPS),
                                 .plan = rand() % 11,
                                 .root = rand() % 4096,
                                 .count = (uint64_t)rand() << 20,
                                 .hash = (uint32_t)rand()},
                         back;
        struct kolo_desc desc, again;
        kolo_call_pack(&call, &desc);
        kolo_call_unpack(&desc, &back);
        kolo_call_pack(&back, &again);
        cr_assert(back.kind == call.kind && back.sequence == call.sequence &&
                  back.dtype == call.dtype && back.op == call.op && back.plan == call.plan &&
                  back.root == call.root && back.count == call.count && back.hash == call.hash);
        cr_assert(memcmp(&desc, &again, sizeof desc) == 0);
    }
}

/** An opaque type's size shares a word with the count. */
Test(call, packs_and_unpacks_opaque_types_and_own_operators)
{
    static const uint64_t counts[] = {0, 1, 77, KOLO_OPAQUE_COUNT_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const struct kolo_call call = {.kind = KOLO_CALL_ALLREDUCE,
                                       .dtype = KOLO_OPAQUE(12),
                                       .op = (kolo_redop)KOLO_REDOP_OWN,
                                       .count = counts[i]};
        struct kolo_call back;
        struct kolo_desc desc;
        kolo_call_pack(&call, &desc);
        kolo_call_unpack(&desc, &back);
        cr_assert(back.dtype == call.dtype && back.op == call.op && back.count == call.count,
                  "%llu", (unsigned long long)back.count);
    }
}

/** The layout is the wire format. */
Test(call, layout_is_pinned)
{
    struct kolo_call call = {.kind = KOLO_CALL_GATHERV,
                             .sequence = 0x04030201,
                             .op = KOLO_MAX,
                             .dtype = KOLO_FLOAT64,
                             .plan = 8,
                             .root = 0x0d0c0b0a,
                             .count = 0x1716151413121110,
                             .hash = 0x23222120};
    static const uint8_t want[24] = {1,    2,    3,    4,    7,    8,    2,    8,
                                     0x0a, 0x0b, 0x0c, 0x0d, 0x10, 0x11, 0x12, 0x13,
                                     0x14, 0x15, 0x16, 0x17, 0x20, 0x21, 0x22, 0x23};
    struct kolo_desc desc;
    kolo_call_pack(&call, &desc);
    cr_assert(memcmp(desc.bytes, want, sizeof want) == 0);
}

Test(call, hostile_bytes_still_make_words)
{
    srand(2);
    for (int i = 0; i < 20000; i++) {
        struct kolo_desc desc;
        struct kolo_call call;
        char words[KOLO_WORDS_MAX];
        for (size_t k = 0; k < sizeof desc.bytes; k++)
            desc.bytes[k] = (uint8_t)rand();
        kolo_call_unpack(&desc, &call);
        kolo_call_words(&call, words, sizeof words);
        cr_assert(strlen(words) > 2);
    }
}

Test(call, differences_that_words_do_not_show)
{
    struct kolo_call mine = {.kind = KOLO_CALL_ALLREDUCE, .count = 5}, theirs = mine;
    cr_assert(strcmp(kolo_call_difference(&mine, &theirs), "") == 0);
    theirs.hash = 1;
    cr_assert(strstr(kolo_call_difference(&mine, &theirs), "another name") != NULL);
    theirs.plan = 1;
    cr_assert(strstr(kolo_call_difference(&mine, &theirs), "KOLO_PLAN") != NULL);
    theirs.count = 6;
    cr_assert(strcmp(kolo_call_difference(&mine, &theirs), "") == 0);
    theirs.count = mine.count;
    theirs.op = (kolo_redop)KOLO_REDOP_OWN; /* the words show that only one has its own operator */
    cr_assert(strcmp(kolo_call_difference(&mine, &theirs), "") == 0);
    cr_assert(strcmp(kolo_call_difference(&theirs, &mine), "") == 0);
    mine.op = theirs.op;
    mine.plan = theirs.plan;
    cr_assert(strstr(kolo_call_difference(&mine, &theirs), "another operator") != NULL);
}

/** Information about earlier broadcasts changes the message, and nothing else. */
Test(call, speaks_of_broadcasts)
{
    struct kolo_call call = {.kind = KOLO_CALL_BROADCAST, .count = 8, .sequence = 5}, theirs;
    struct kolo_desc plain, other, broadcast;
    kolo_call_pack(&call, &broadcast);
    uint32_t history = kolo_call_history(0, &broadcast);
    call.root = 1;
    kolo_call_pack(&call, &other);
    cr_assert(history != 0 && history != kolo_call_history(0, &other));
    cr_assert(kolo_call_history(history, &other) != kolo_call_history(0, &other));
    call = (struct kolo_call){.kind = KOLO_CALL_ALLTOALLV, .count = 3, .sequence = 6, .hash = 77};
    kolo_call_pack(&call, &plain);
    call.history = history;
    kolo_call_pack(&call, &other);
    cr_assert(memcmp(&plain, &other, sizeof plain) != 0);
    kolo_call_unpack(&other, &theirs);
    cr_assert(strcmp(kolo_call_difference(&call, &theirs), "") == 0);
    kolo_call_unpack(&plain, &theirs);
    cr_assert(strstr(kolo_call_difference(&call, &theirs), "broadcasts") != NULL);
    plain = kolo_call_message(&call, &other, 9); /* packed again, with another length */
    cr_assert(kolo_call_is_same(&plain, &other));
}

Test(call, which_have_a_root_and_which_an_operator)
{
    static const enum kolo_call_kind rooted[] = {KOLO_CALL_REDUCE,  KOLO_CALL_BROADCAST,
                                                 KOLO_CALL_GATHER,  KOLO_CALL_GATHERV,
                                                 KOLO_CALL_SCATTER, KOLO_CALL_SCATTERV};
    static const enum kolo_call_kind reducing[] = {KOLO_CALL_ALLREDUCE, KOLO_CALL_REDUCE,
                                                   KOLO_CALL_REDUCE_SCATTER,
                                                   KOLO_CALL_REDUCE_SCATTERV, KOLO_CALL_COMPUTE};
    bool is_rooted[KOLO_CALLS] = {false}, reduces[KOLO_CALLS] = {false};
    for (size_t i = 0; i < sizeof rooted / sizeof *rooted; i++)
        is_rooted[rooted[i]] = true;
    for (size_t i = 0; i < sizeof reducing / sizeof *reducing; i++)
        reduces[reducing[i]] = true;
    for (int i = 0; i < KOLO_CALLS; i++) {
        enum kolo_call_kind kind = (enum kolo_call_kind)i;
        cr_assert(kolo_call_is_rooted(kind) == is_rooted[i], "%s", kolo_call_text(kind));
        cr_assert(kolo_call_reduces(kind) == reduces[i], "%s", kolo_call_text(kind));
    }
    cr_assert(!kolo_call_is_rooted(KOLO_CALLS) && !kolo_call_reduces(KOLO_CALLS), "a peer's");
}
