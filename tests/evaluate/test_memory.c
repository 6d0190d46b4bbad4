// SPDX-License-Identifier: Apache-2.0
// evaluate/memory.c: when memory is missing, whatever needs it in an evaluation, from its files to
// the JSON of its results, it fails with a reason, and leaves neither memory nor a file.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "evaluate/agree.h"
#include "evaluate/memory.h"
#include "evaluate/report.h"
#include "tests/support/world.h"

/* ---- blocks ---- */

enum { BLOCKS = 5, BYTES = 100 };

static void fill(char **block, const yajl_alloc_funcs *functions, size_t bytes)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = functions->realloc(functions->ctx, block[i], bytes);
        cr_assert((uintptr_t)block[i] % _Alignof(max_align_t) == 0);
        memset(block[i] + bytes / 2, (int)('a' + i), bytes - bytes / 2);
    }
}

static void is_filled(char *const *block, size_t i, size_t bytes)
{
    for (size_t at = bytes / 2; block[i] && at < bytes; at++)
        cr_assert(block[i][at] == (char)('a' + i), "block %zu, byte %zu", i, at);
}

Test(memory, blocks_keep_their_bytes)
{
    struct eval_memory memory = {.first = NULL};
    const yajl_alloc_funcs functions = eval_memory_functions(&memory);
    char *block[BLOCKS] = {NULL};
    cr_assert(setjmp(memory.missing) == 0);
    fill(block, &functions, BYTES);
    functions.free(functions.ctx, block[2]);
    functions.free(functions.ctx, block[4]); /* the first of the list */
    functions.free(functions.ctx, NULL);
    block[2] = block[4] = NULL;
    for (size_t i = 0; i < BLOCKS; i++)
        is_filled(block, i, BYTES);
    fill(block, &functions, 1000 * BYTES);
    for (size_t i = 0; i < BLOCKS; i++)
        is_filled(block, i, 1000 * BYTES);
    eval_memory_free(&memory);
    cr_assert(!memory.first);
    eval_memory_free(&memory);
}

static bool takes(struct eval_memory *memory, size_t bytes)
{
    const yajl_alloc_funcs functions = eval_memory_functions(memory);
    if (setjmp(memory->missing) != 0)
        return false;
    return functions.malloc(functions.ctx, bytes) != NULL;
}

Test(memory, a_lack_is_told)
{
    struct eval_memory memory = {.first = NULL};
    cr_assert(takes(&memory, BYTES));
    kolo_alloc_fail_nth(1);
    cr_assert(!takes(&memory, BYTES));
    cr_assert(strstr(kolo_error_detail(), "cannot grow"), "%s", kolo_error_detail());
    cr_assert(!takes(&memory, SIZE_MAX));
    cr_assert(takes(&memory, BYTES));
    eval_memory_free(&memory);
}

/* ---- an evaluation ---- */

static char folder[] = "/tmp/kolo-memory-XXXXXX";

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void begin(void)
{
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
    put("gt.json",
        "{\"images\": [{\"id\": 1, \"height\": 9, \"width\": 9}], \"categories\": [{\"id\": 3, "
        "\"name\": \"d\\u00f6g\"}], \"annotations\": [{\"id\": 1, \"image_id\": 1, "
        "\"category_id\": 3, \"bbox\": [1, 1, 6, 6], \"area\": 36, \"iscrowd\": 0, "
        "\"segmentation\": [[1, 1, 7, 1, 7, 7, 1, 7]]}]}");
    put("dt.json",
        "{\"annotations\": [{\"image_id\": 1, \"category_id\": 3, \"score\": 0.5, "
        "\"segmentation\": {\"size\": [9, 9], \"counts\": \"\\u003a5R2\"}},\n{\"image_id\": 1, "
        "\"category_id\": 3, \"score\": 0.4, "
        "\"segmentation\": {\"size\": [9, 9], \"counts\": [10, 5, 66]}}]}");
}

static void end(void)
{
    cr_assert(unlink("gt.json") == 0 && unlink("dt.json") == 0);
    cr_assert(chdir("/") == 0 && rmdir(folder) == 0, "something is left in %s", folder);
}

static const struct eval_options options = {.truths = "gt.json",
                                            .detections = "dt.json",
                                            .json = "r.json",
                                            .kind = KOLO_DETECTION_MASKS,
                                            .caps = {1, 10, 100},
                                            .cap_count = EVAL_CAPS};

/* Evaluates while allocation @p nth fails. Returns false if there are not as many. */
static bool evaluate(uint64_t nth)
{
    struct eval_evaluation evaluation = {.options = &options};
    struct kolo_comm *comm = NULL;
    cr_assert(kolo_init(NULL, &comm) == KOLO_OK, "%s", kolo_error_detail());
    const uint64_t before = kolo_alloc_count();
    kolo_alloc_fail_nth(nth);
    kolo_status status = eval_evaluation_run(&evaluation, comm, &options);
    if (status == KOLO_OK)
        status = eval_report_write(&evaluation);
    kolo_alloc_fail_nth(0);
    const bool has_failed = kolo_alloc_count() - before >= nth;
    cr_assert(status == (has_failed ? KOLO_ERR_NO_MEMORY : KOLO_OK), "allocation %llu: %s: %s",
              (unsigned long long)nth, kolo_status_text(status), kolo_error_detail());
    cr_assert(!has_failed || kolo_error_detail()[0], "allocation %llu: no reason",
              (unsigned long long)nth);
    cr_assert((unlink("r.json") == 0) == !has_failed);
    eval_evaluation_free(&evaluation);
    cr_assert(kolo_finalize(comm) == KOLO_OK);
    return has_failed;
}

Test(memory, an_evaluation_fails_with_a_reason, .init = begin, .fini = end)
{
    uint64_t nth = 1;
    while (evaluate(nth))
        nth++;
    cr_assert(nth > 50, "%llu allocations", (unsigned long long)nth);
}

/* ---- among ranks ---- */

/* As kolo-coco does. */
static kolo_status evaluate_together(struct kolo_comm *comm, void *argument)
{
    struct eval_evaluation evaluation = {.options = &options};
    char detail[KOLO_DETAIL_MAX];
    (void)argument;
    kolo_status status = eval_evaluation_run(&evaluation, comm, &options);
    kolo_detail_keep(detail);
    if (status != KOLO_OK)
        (void)!kolo_barrier(comm, NULL, NULL);
    kolo_detail_set(detail);
    eval_evaluation_free(&evaluation);
    return status;
}

static void is_of_memory(const struct world *world, uint64_t nth)
{
    for (int rank = 0; rank < world->size; rank++) {
        const struct world_result *result = &world->results[rank];
        cr_expect(result->status == KOLO_ERR_NO_MEMORY ||
                      (result->status == KOLO_ERR_ABORTED &&
                       strstr(result->text, "aborted: out of memory: ")),
                  "allocation %llu: rank %d: %s: %s", (unsigned long long)nth, rank,
                  kolo_status_name(result->status), result->text);
    }
}

/* Whichever rank lacks it, no rank takes that for a fault of another kind. The allocations of
 * kolo_init() come first; those that fail it are not of this test. */
Test(memory, all_ranks_hear_what_is_missing, .init = begin, .fini = end, .timeout = 300)
{
    uint64_t nth = 1, failures = 0, before;
    bool is_enough = false;
    for (; !is_enough; nth++) {
        struct world world = {.size = 2, .transport = "inproc"};
        before = kolo_alloc_count();
        kolo_alloc_fail_nth(nth);
        const kolo_status status = world_run(&world, evaluate_together, NULL);
        kolo_alloc_fail_nth(0);
        is_enough = kolo_alloc_count() - before < nth;
        if (status == KOLO_OK || world.results[0].status == KOLO_AGAIN ||
            world.results[1].status == KOLO_AGAIN || world_heard_late(&world))
            continue;
        is_of_memory(&world, nth);
        failures++;
    }
    cr_assert(failures > 50, "%llu failures", (unsigned long long)failures);
}
