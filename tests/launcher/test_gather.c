// SPDX-License-Identifier: Apache-2.0
// What kolorun does with the timelines that agents send.
#include <criterion/criterion.h>

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/gather.h"
#include "tests/launcher/trace_maker.h"

enum { LONG_MS = 60000 };

static char folder[] = "/tmp/kolo-gather-XXXXXX";
static char path[64];

static struct kolo_scribe_place at(const char *name)
{
    return (struct kolo_scribe_place){
        .option = "--timeline", .path = name, .open_limit_ms = LONG_MS, .write_limit_ms = LONG_MS};
}

static struct kolo_gather *begin(int size)
{
    struct kolo_gather *gather = NULL;
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/t.json", folder);
    const struct kolo_scribe_place place = at(path);
    cr_assert(kolo_gather_create(&place, size, MAKER_CAPACITY, &gather) == KOLO_OK, "%s",
              kolo_error_detail());
    return gather;
}

static void give(struct kolo_gather *gather, struct maker *maker, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 1000) {
        const size_t piece = bytes - at < 1000 ? bytes - at : 1000;
        cr_assert(kolo_gather_take(gather, maker->rank, (uint8_t *)maker->data + at, piece) ==
                  KOLO_OK);
    }
    kolo_free_memory(maker->data);
}

/** The number of calls of rank @p rank in the file; -1: the rank is not in it. */
static int calls_of(int rank)
{
    int count = -1;
    size_t i;
    json_t *fact, *whole = json_load_file(path, 0, NULL);
    cr_assert(whole != NULL);
    json_array_foreach(json_object_get(json_object_get(whole, "otherData"), "ranks"), i,
                       fact) if (json_integer_value(json_object_get(fact, "rank")) == rank) count =
        (int)json_integer_value(json_object_get(fact, "calls"));
    json_decref(whole);
    return count;
}

Test(gather, whole_cut_silent_and_false)
{
    struct kolo_gather *gather = begin(5);
    for (int rank = 0; rank < 4; rank++) {
        /* rank 3 claims to be 2 */
        struct maker maker = maker_begin(rank == 3 ? 2 : rank, 5, 7, "a");
        maker.rank = rank;
        for (uint32_t i = 0; i < 10; i++)
            maker_call(&maker, i, 1000 * i + 1000, 1000 * i + 1900);
        if (rank == 2) { /* never started */
            maker_head(&maker)->pid = 0;
            maker_head(&maker)->written = 0;
        }
        give(gather, &maker, rank == 1 ? kolo_timeline_bytes(4) : maker_bytes());
    }
    cr_assert(access(path, F_OK) != 0);
    cr_assert(kolo_gather_finish(gather, "why", true) == KOLO_OK);
    cr_assert(calls_of(0) == 10 && calls_of(1) == 4 && calls_of(2) == -1 && calls_of(3) == -1 &&
              calls_of(4) == -1);
    kolo_gather_destroy(gather);
    unlink(path);
    rmdir(folder);
}

Test(gather, takes_no_more_than_there_can_be)
{
    static const uint8_t data[1000];
    struct kolo_gather *gather = begin(2);
    size_t taken = 0;
    while (kolo_gather_take(gather, 1, data, sizeof data) == KOLO_OK)
        taken += sizeof data;
    cr_assert(taken <= maker_bytes() && strstr(kolo_error_detail(), "rank 1"));
    cr_assert(kolo_gather_take(gather, 2, data, 1) == KOLO_ERR_PROTOCOL);
    cr_assert(kolo_gather_take(gather, -1, data, 1) == KOLO_ERR_PROTOCOL);
    cr_assert(kolo_gather_take(NULL, 0, data, 1) == KOLO_ERR_PROTOCOL);
    kolo_gather_destroy(gather);
    cr_assert(access(path, F_OK) != 0);
    rmdir(folder);
}

Test(gather, refuses_a_place_that_cannot_be_written)
{
    struct kolo_gather *gather = NULL;
    const struct kolo_scribe_place none = at("/nonexistent/t"), full = at("/dev/full");
    cr_assert(kolo_gather_create(&none, 1, 16, &gather) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "--timeline /nonexistent/t") != NULL);
    cr_assert(kolo_gather_create(&full, 1, 16, &gather) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "No space left") != NULL, "%s", kolo_error_detail());
}
