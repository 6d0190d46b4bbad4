// SPDX-License-Identifier: Apache-2.0
// The description of a job that an agent receives. The linker makes every free() and realloc() of
// this program call those below (--wrap), which look whether the memory still has the secret.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "launcher/frames.h"

static const char secret[] = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2";
static int left_in_memory;

static void look_at(void *memory)
{
    if (memory && memmem(memory, malloc_usable_size(memory), secret, sizeof secret - 1))
        left_in_memory++;
}

void __real_free(void *memory);
void *__real_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);
void *__wrap_realloc(void *memory, size_t bytes);

void __wrap_free(void *memory)
{
    look_at(memory);
    __real_free(memory);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    look_at(memory); /* it may be moved */
    return __real_realloc(memory, bytes);
}

static struct kolo_spec example(void)
{
    struct kolo_spec spec = {.size = 7,
                             .has_input = true,
                             .is_dialogue = true,
                             .bind = KOLO_BIND_CORE,
                             .gpus = 5,
                             .peer_timeout_ms = 900,
                             .exit_timeout_ms = 800,
                             .credit_bytes = 1000,
                             .timeline_calls = 64};
    static const uint32_t ranks[] = {0, 2, 3, 6};
    spec.ranks = (struct kolo_ranks){.at = kolo_calloc(4, sizeof ranks[0]), .count = 4};
    memcpy(spec.ranks.at, ranks, sizeof ranks);
    spec.cwd = kolo_strdup("/tmp/somewhere");
    cr_assert(kolo_texts_add(&spec.argv, "prog") == KOLO_OK);
    cr_assert(kolo_texts_add(&spec.argv, "") == KOLO_OK);
    cr_assert(kolo_texts_add(&spec.argv, "a b\n'c'") == KOLO_OK);
    cr_assert(kolo_texts_define(&spec.env, "A", "1") == KOLO_OK);
    cr_assert(kolo_texts_define(&spec.env, "AB", "2") == KOLO_OK);
    cr_assert(kolo_texts_define(&spec.env, "A", "3=4") == KOLO_OK);
    return spec;
}

Test(spec, survives)
{
    struct kolo_spec spec = example(), back;
    uint8_t *data = NULL;
    size_t bytes = 0;
    cr_assert(kolo_spec_pack(&spec, &data, &bytes) == KOLO_OK);
    struct kolo_reader reader = kolo_reader_over(data, bytes);
    cr_assert(kolo_spec_unpack(&reader, &back) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(strcmp(back.cwd, "/tmp/somewhere") == 0);
    cr_assert(back.argv.count == 3 && strcmp(back.argv.at[2], "a b\n'c'") == 0 &&
              !back.argv.at[3] && back.argv.at[1][0] == '\0');
    cr_assert(back.env.count == 2 && strcmp(back.env.at[0], "A=3=4") == 0);
    cr_assert(back.size == 7 && back.ranks.count == 4 && back.has_input && back.is_dialogue);
    cr_assert(memcmp(back.ranks.at, spec.ranks.at, 4 * sizeof(uint32_t)) == 0);
    cr_assert(back.bind == KOLO_BIND_CORE && back.gpus == 5 && back.peer_timeout_ms == 900 &&
              back.exit_timeout_ms == 800 && back.credit_bytes == 1000 &&
              back.timeline_calls == 64);
    kolo_free_memory(data);
    kolo_spec_fini(&spec);
    kolo_spec_fini(&back);
}

Test(spec, refuses_what_is_cut_or_makes_no_sense)
{
    struct kolo_spec spec = example();
    uint8_t *data = NULL;
    size_t bytes = 0;
    cr_assert(kolo_spec_pack(&spec, &data, &bytes) == KOLO_OK);
    for (size_t cut = 0; cut < bytes; cut++) {
        struct kolo_spec back;
        struct kolo_reader reader = kolo_reader_over(data, cut);
        cr_assert(kolo_spec_unpack(&reader, &back) < 0, "cut at %zu of %zu", cut, bytes);
        kolo_spec_fini(&back);
    }
    kolo_free_memory(data);
    static const struct {
        uint32_t size, count, ranks[4];
    } senseless[] = {{7, 4, {3, 4, 5, 7}}, {7, 1, {8}},    {7, 0, {0}},    {0, 1, {0}},
                     {7, 3, {1, 3, 3}},    {7, 2, {3, 1}}, {7, 2, {0, 0}}, {7, 1, {UINT32_MAX}}};
    for (size_t i = 0; i < sizeof senseless / sizeof senseless[0]; i++) {
        struct kolo_spec back;
        spec.size = senseless[i].size;
        spec.ranks.count = senseless[i].count;
        memcpy(spec.ranks.at, senseless[i].ranks, sizeof senseless[i].ranks);
        cr_assert(kolo_spec_pack(&spec, &data, &bytes) == KOLO_OK);
        struct kolo_reader reader = kolo_reader_over(data, bytes);
        cr_assert(kolo_spec_unpack(&reader, &back) == KOLO_ERR_DATA, "case %zu", i);
        kolo_spec_fini(&back);
        kolo_free_memory(data);
    }
    kolo_spec_fini(&spec);
}

Test(spec, memory_may_run_out_anywhere)
{
    for (uint64_t nth = 1; nth < 40; nth++) {
        struct kolo_spec spec = example(), back = {.cwd = NULL};
        uint8_t *data = NULL;
        size_t bytes = 0;
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_spec_pack(&spec, &data, &bytes);
        if (status == KOLO_OK) {
            struct kolo_reader reader = kolo_reader_over(data, bytes);
            status = kolo_spec_unpack(&reader, &back);
        }
        kolo_alloc_fail_nth(0);
        cr_assert(nth < 3 ? status != KOLO_OK : true, "allocation %d was not checked", (int)nth);
        kolo_free_memory(data);
        kolo_spec_fini(&spec);
        kolo_spec_fini(&back);
    }
}

static kolo_status take_job(void *context, enum kolo_frame_type type, struct kolo_reader *body)
{
    cr_assert_eq(type, KOLO_FRAME_JOB);
    return kolo_spec_unpack(body, context);
}

/** Lets @p data come in pieces, as from a pipe. */
static kolo_status receive(const uint8_t *data, size_t bytes, struct kolo_spec *spec)
{
    enum { PIECE = 700 };
    uint8_t head[KOLO_FRAME_HEAD_BYTES], *room;
    struct kolo_frames frames;
    kolo_status status = KOLO_OK;
    size_t capacity;
    kolo_frames_init(&frames, false);
    kolo_frame_head(head, KOLO_FRAME_JOB, bytes);
    KOLO_TRY(kolo_frames_room(&frames, sizeof head, &room, &capacity));
    memcpy(room, head, sizeof head);
    KOLO_TRY(kolo_frames_took(&frames, sizeof head, take_job, spec));
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        KOLO_TRY(kolo_frames_room(&frames, some, &room, &capacity));
        memcpy(room, data + at, some);
        KOLO_TRY(kolo_frames_took(&frames, some, take_job, spec));
    }
out:
    kolo_frames_fini(&frames);
    return status;
}

/** The way of a secret from kolorun to the environment of a rank. */
static kolo_status pass_on(const struct kolo_spec *spec)
{
    struct kolo_spec back = {.cwd = NULL};
    struct kolo_texts env = {.at = NULL};
    uint8_t *data = NULL;
    size_t bytes = 0;
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_spec_pack(spec, &data, &bytes));
    KOLO_TRY(receive(data, bytes, &back));
    KOLO_TRY(kolo_spec_environment(&back, &env));
    KOLO_TRY(kolo_texts_define(&env, "KOLO_SECRET", "another"));
out:
    kolo_free_wiped(data, bytes);
    kolo_spec_fini(&back);
    kolo_texts_fini(&env);
    return status;
}

Test(spec, no_memory_is_freed_with_the_secret_in_it)
{
    static char longer[20000];
    struct kolo_spec spec = example();
    bool has_succeeded = false;
    memset(longer, 'x', sizeof longer - 1);
    cr_assert(setenv("KOLO_SECRET", "old", 1) == 0);
    cr_assert(kolo_texts_define(&spec.env, "KOLO_SECRET", secret) == KOLO_OK);
    cr_assert(kolo_texts_define(&spec.env, "LONGER", longer) == KOLO_OK);
    for (uint64_t nth = 1; !has_succeeded; nth++) { /* also where memory runs out */
        kolo_alloc_fail_nth(nth);
        has_succeeded = pass_on(&spec) == KOLO_OK;
        kolo_alloc_fail_nth(0);
        cr_assert_eq(left_in_memory, 0, "allocation %d", (int)nth);
    }
    kolo_spec_fini(&spec);
    cr_assert_eq(left_in_memory, 0);
    char *copy = kolo_strdup(secret); /* it would be noticed */
    kolo_free_memory(copy);
    cr_assert_eq(left_in_memory, 1);
}
