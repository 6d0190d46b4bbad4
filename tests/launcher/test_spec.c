// SPDX-License-Identifier: Apache-2.0
// The description of a job that an agent receives.
#include <string.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "launcher/frames.h"

static struct kolo_spec example(void)
{
    struct kolo_spec spec = {.size = 7,
                             .first_rank = 3,
                             .ranks = 4,
                             .has_input = true,
                             .bind = KOLO_BIND_CORE,
                             .gpus = 5,
                             .peer_timeout_ms = 900,
                             .credit_bytes = 1000,
                             .timeline_calls = 64};
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
              back.argv.at[3] == NULL && back.argv.at[1][0] == '\0');
    cr_assert(back.env.count == 2 && strcmp(back.env.at[0], "A=3=4") == 0);
    cr_assert(back.size == 7 && back.first_rank == 3 && back.ranks == 4 && back.has_input);
    cr_assert(back.bind == KOLO_BIND_CORE && back.gpus == 5 && back.peer_timeout_ms == 900 &&
              back.credit_bytes == 1000 && back.timeline_calls == 64);
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
    static const uint32_t senseless[][3] = {{7, 3, 5}, {7, 8, 1}, {7, 0, 0}, {0, 0, 1}};
    for (size_t i = 0; i < sizeof senseless / sizeof senseless[0]; i++) {
        struct kolo_spec back;
        spec.size = senseless[i][0];
        spec.first_rank = senseless[i][1];
        spec.ranks = senseless[i][2];
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
