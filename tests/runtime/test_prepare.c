// SPDX-License-Identifier: Apache-2.0
// What a request keeps of its call, and which of it ranks compare. Persistent requests, which are
// prepared but not started.
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/request.h"
#include "tests/support/world.h"

enum { RANKS = 2, ROOM = 16 };

static void run(kolo_status (*body)(struct kolo_comm *comm, void *argument))
{
    struct world world = {.size = RANKS, .transport = "inproc", .settings = {"KOLO_TIMEOUT=30"}};
    WORLD_MUST_RUN(&world, body, NULL);
}

/** The hash of an allgatherv of these blocks, with this name. */
static kolo_status hash_of(struct kolo_comm *comm, const size_t *counts, const size_t *displs,
                           const char *name, uint32_t *hash_out)
{
    const struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_PERSISTENT, .name = name};
    const int32_t data[ROOM] = {0};
    int32_t into[ROOM];
    struct kolo_request *request = NULL;
    WORLD_TRY(kolo_allgatherv(comm, data, into, counts, displs, KOLO_INT32, &opts, &request));
    *hash_out = request->call.hash;
    return kolo_request_free(&request);
}

static kolo_status say_what_differs(struct kolo_comm *comm, void *argument)
{
    static const size_t one[RANKS] = {1, 2}, other[RANKS] = {2, 1}, with_none[RANKS] = {3, 0};
    static const size_t packed[RANKS] = {0, 1}, apart[RANKS] = {0, 5}, far[RANKS] = {0, 9};
    uint32_t plain, hash;
    (void)argument;
    WORLD_TRY(hash_of(comm, one, NULL, NULL, &plain));
    WORLD_TRY(hash_of(comm, one, packed, NULL, &hash));
    WORLD_EXPECT(hash == plain, "displs that are those of none");
    WORLD_TRY(hash_of(comm, one, packed, "", &hash));
    WORLD_EXPECT(hash == plain, "a name without letters is none");
    WORLD_TRY(hash_of(comm, one, NULL, "grad", &hash));
    WORLD_EXPECT(hash != plain, "a name");
    WORLD_TRY(hash_of(comm, other, NULL, NULL, &hash));
    WORLD_EXPECT(hash != plain, "other counts of the same sum");
    WORLD_TRY(hash_of(comm, one, apart, NULL, &hash));
    WORLD_EXPECT(hash != plain, "other displs");
    WORLD_TRY(hash_of(comm, with_none, apart, NULL, &plain));
    WORLD_TRY(hash_of(comm, with_none, far, NULL, &hash));
    WORLD_EXPECT(hash == plain, "an empty block lies nowhere");
    return KOLO_OK;
}

Test(prepare, names_counts_and_displs_are_held_against_each_other, .timeout = 60)
{
    run(say_what_differs);
}

/** The program may overwrite all arguments except the buffers as soon as the call has returned. */
static kolo_status write_over(struct kolo_comm *comm, void *argument)
{
    char name[] = "grad/1";
    size_t counts[RANKS] = {2, 3}, displs[RANKS] = {4, 0};
    struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_PERSISTENT, .name = name};
    const int rank = kolo_rank(comm);
    const int32_t data[3] = {rank + 1, rank + 1, rank + 1};
    static const int32_t expected[ROOM] = {2, 2, 2, 0, 1, 1};
    int32_t into[ROOM] = {0};
    struct kolo_request *request = NULL;
    (void)argument;
    WORLD_TRY(kolo_allgatherv(comm, data, into, counts, displs, KOLO_INT32, &opts, &request));
    memset(name, 'x', sizeof name - 1);
    memset(counts, 0xff, sizeof counts);
    memset(displs, 0xff, sizeof displs);
    opts.name = NULL;
    WORLD_EXPECT(strcmp(request->call.name, "grad/1") == 0, "%s", request->call.name);
    WORLD_EXPECT(request->call.count == 5, "%llu", (unsigned long long)request->call.count);
    WORLD_TRY(kolo_run(request));
    WORLD_EXPECT(memcmp(into, expected, sizeof into) == 0, "the blocks are not where they belong");
    return kolo_request_free(&request);
}

Test(prepare, what_outlives_the_call_is_the_requests, .timeout = 60)
{
    run(write_over);
}
