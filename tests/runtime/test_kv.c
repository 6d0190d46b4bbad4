// SPDX-License-Identifier: Apache-2.0
// The public key-value calls between ranks.
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/kv.h"
#include "tests/support/await.h"
#include "tests/support/world.h"

static kolo_status use_keys(struct kolo_comm *comm, void *argument)
{
    char key[32], value[64];
    int n = kolo_size(comm), rank = kolo_rank(comm);
    int64_t sum = 0;
    size_t bytes;
    (void)argument;
    snprintf(key, sizeof key, "from %d", rank);
    snprintf(value, sizeof value, "hello of %d", rank);
    kolo_status status = kolo_kv_set(comm, key, value, strlen(value));
    if (status != KOLO_OK)
        return status;
    for (int i = 0; i < n; i++) { /* waits for ranks that have not set theirs yet */
        char got[64] = "", want[64];
        snprintf(key, sizeof key, "from %d", i);
        snprintf(want, sizeof want, "hello of %d", i);
        bytes = sizeof got;
        status = kolo_kv_get(comm, key, got, &bytes, -1);
        if (status != KOLO_OK)
            return status;
        WORLD_EXPECT(bytes == strlen(want) && strcmp(got, want) == 0, "'%s' is '%s'", key, got);
    }
    for (int i = 0; i < 10 && status == KOLO_OK; i++)
        status = kolo_kv_add(comm, "counter", rank + 1, &sum);
    if (status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_kv_add(comm, "counter", 0, &sum);
    WORLD_EXPECT(status != KOLO_OK || sum == 5 * (int64_t)n * (n + 1), "counter is %lld",
                 (long long)sum);
    return status;
}

static kolo_status misuse_keys(struct kolo_comm *comm, void *argument)
{
    char value[8], long_key[300];
    size_t bytes = sizeof value;
    int64_t sum = 77;
    (void)argument;
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    WORLD_EXPECT(kolo_kv_get(comm, "none", value, &bytes, 0) == KOLO_ERR_NOT_FOUND, "found none");
    WORLD_EXPECT(kolo_kv_get(comm, "none", value, &bytes, 30) == KOLO_ERR_TIMEOUT &&
                     strstr(kolo_error_detail(),
                            "kolo_kv_get 'none': no value (has a rank set it?) "
                            "arrived within 0.03 s"),
                 "timeout: %s", kolo_error_detail());
    WORLD_EXPECT(kolo_kv_set(comm, "long", "0123456789", 10) == KOLO_OK, "set");
    WORLD_EXPECT(kolo_kv_get(comm, "long", value, &bytes, -1) == KOLO_ERR_INVALID && bytes == 10,
                 "10 bytes fit into 8");
    WORLD_EXPECT(kolo_kv_add(comm, "long", 1, &sum) == KOLO_ERR_INVALID && sum == 77,
                 "added to text: %s", kolo_error_detail());
    WORLD_EXPECT(kolo_kv_set(comm, "", value, 1) == KOLO_ERR_INVALID, "empty key");
    WORLD_EXPECT(kolo_kv_set(comm, NULL, value, 1) == KOLO_ERR_INVALID, "no key");
    WORLD_EXPECT(kolo_kv_add(comm, "\001communicators", 1, &sum) == KOLO_ERR_INVALID && sum == 77 &&
                     strstr(kolo_error_detail(), "byte 0 of the key is the control character 0x01"),
                 "the store's own key: %s", kolo_error_detail());
    WORLD_EXPECT(kolo_kv_set(comm, "two\nlines", value, 1) == KOLO_ERR_INVALID, "two lines");
    WORLD_EXPECT(kolo_kv_set(comm, "bel\xc2\x85", value, 1) == KOLO_ERR_INVALID, "a control of C1");
    WORLD_EXPECT(kolo_kv_set(comm, long_key, value, 1) == KOLO_ERR_INVALID, "long key");
    WORLD_EXPECT(kolo_kv_set(comm, "big", value, (1u << 20) + 1) == KOLO_ERR_INVALID, "big value");
    WORLD_EXPECT(kolo_kv_set(comm, "null", NULL, 1) == KOLO_ERR_INVALID, "NULL value");
    WORLD_EXPECT(kolo_kv_set(NULL, "null", value, 1) == KOLO_ERR_INVALID, "NULL comm");
    bytes = 0;
    WORLD_EXPECT(kolo_kv_set(comm, "empty", NULL, 0) == KOLO_OK, "empty value");
    WORLD_EXPECT(kolo_kv_get(comm, "empty", NULL, &bytes, -1) == KOLO_OK && bytes == 0, "empty");
    return kolo_barrier(comm, NULL, NULL); /* none of that fails the communicator */
}

Test(kv, set_get_add, .timeout = 60)
{
    for (int size = 1; size <= 5; size += 2) {
        struct world world = {.size = size};
        WORLD_MUST_RUN(&world, use_keys, NULL);
    }
}

Test(kv, misuse, .timeout = 60)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, misuse_keys, NULL);
}

static kolo_status big_value(struct kolo_comm *comm, void *argument)
{
    size_t bytes = 1u << 20;
    unsigned char *value = malloc(bytes);
    kolo_status status = KOLO_OK;
    (void)argument;
    memset(value, 7, bytes);
    if (kolo_rank(comm) == 0)
        status = kolo_kv_set(comm, "big", value, bytes);
    memset(value, 0, bytes);
    if (status == KOLO_OK)
        status = kolo_kv_get(comm, "big", value, &bytes, -1);
    if (status == KOLO_OK && (bytes != 1u << 20 || value[0] != 7 || value[bytes - 1] != 7))
        status = kolo_fail(KOLO_ERR_INTERNAL, "1 MiB came back as %zu bytes", bytes);
    free(value);
    return status;
}

Test(kv, one_mebibyte, .timeout = 60)
{
    struct world world = {.size = 4};
    WORLD_MUST_RUN(&world, big_value, NULL);
}

struct beside {
    struct kolo_comm *comm;
    atomic_bool has_answer;
    kolo_status status;
};

static void *ask(void *argument)
{
    struct beside *beside = argument;
    for (int i = 0; i < 50 && beside->status == KOLO_OK; i++)
        beside->status = kolo_kv_add(beside->comm, "beside", 1, NULL);
    beside->has_answer = true;
    return NULL;
}

/** Rank 0 is in a barrier that rank 1 enters only after rank 0's other thread has its answers. */
static kolo_status ask_beside(struct kolo_comm *comm, void *argument)
{
    struct beside *beside = argument;
    pthread_t thread;
    if (kolo_rank(comm) == 0) {
        beside->comm = comm;
        if (pthread_create(&thread, NULL, ask, beside) != 0)
            return KOLO_ERR_SYSTEM;
    }
    bool is_late = kolo_rank(comm) == 1 && !AWAIT(beside->has_answer);
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (kolo_rank(comm) == 0)
        pthread_join(thread, NULL);
    WORLD_EXPECT(!is_late, "no answer while another thread was in a barrier");
    return status == KOLO_OK && kolo_rank(comm) == 0 ? beside->status : status;
}

Test(kv, beside_a_collective, .timeout = 60)
{
    for (int i = 0; world_transports[i]; i++) {
        struct beside beside = {0};
        struct world world = {.size = 2, .transport = world_transports[i]};
        WORLD_MUST_RUN(&world, ask_beside, &beside);
    }
}

/* ---- what the library shares ---- */

static void lose(struct kolo_comm *comm, kolo_status why)
{
    kolo_comm_enter(comm);
    kolo_comm_fail_quietly(comm, why, "a rank was lost");
    kolo_comm_leave(comm);
}

static const struct kolo_kv_key shared_key = {"test", "it", "\001it"};

static kolo_status share_in_loss(struct kolo_comm *comm, void *argument)
{
    const kolo_status why = *(const kolo_status *)argument;
    const bool is_root = kolo_rank(comm) == 0;
    const kolo_deadline deadline = kolo_deadline_in_ms(20000);
    char text[16] = "";
    size_t bytes = is_root ? 7 : sizeof text;
    kolo_status status;
    memcpy(text, "figures", is_root ? 7 : 0);
    lose(comm, why);
    KOLO_TRY(kolo_kv_share(comm, &shared_key, text, &bytes, deadline));
    WORLD_EXPECT(bytes == 7 && memcmp(text, "figures", 7) == 0, "%zu bytes: %.16s", bytes, text);
    WORLD_EXPECT(kolo_kv_set(comm, "k", "v", 1) == why, "the world is not lost");
out:
    return status;
}

/* A rank that is lost while others are in kolo_init does not matter to them, nor does what differs
 * between ranks that are through it. */
Test(kv, shares_although_the_world_has_failed, .timeout = 120)
{
    kolo_status causes[] = {KOLO_ERR_PEER, KOLO_ERR_MISMATCH, KOLO_ERR_TIMEOUT};
    struct world world = {.size = 3};
    for (int i = 0; i < 3; i++)
        WORLD_MUST_RUN(&world, share_in_loss, &causes[i]);
}

static kolo_status share_in_start(struct kolo_comm *comm, void *argument)
{
    char text[16] = "";
    size_t bytes = sizeof text;
    (void)argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    comm->is_unmet = true;
    lose(comm, KOLO_ERR_MISMATCH);
    if (kolo_rank(comm) == 0)
        return KOLO_OK;
    WORLD_EXPECT(kolo_kv_share(comm, &shared_key, text, &bytes, kolo_deadline_in_ms(60000)) ==
                     KOLO_ERR_MISMATCH,
                 "%s", kolo_error_detail());
    return KOLO_OK;
}

/* What differs between ranks that have not made the world ends its start. */
Test(kv, shares_nothing_if_the_start_has_failed, .timeout = 30)
{
    struct world world = {.size = 3};
    WORLD_MUST_RUN(&world, share_in_start, NULL);
}

/** @p argument: a bool, whether the store has said that rank 0 died; else it has left. */
static kolo_status share_without_rank_0(struct kolo_comm *comm, void *argument)
{
    char text[16] = "";
    size_t bytes = sizeof text;
    const bool *has_died = argument;
    lose(comm, KOLO_ERR_PEER);
    if (kolo_rank(comm) == 0)
        return KOLO_OK;
    kolo_comm_enter(comm);
    if (*has_died)
        comm->engine->has_lost_first = true;
    else
        comm->engine->left_ns[0] = kolo_now_ns();
    kolo_comm_leave(comm);
    WORLD_EXPECT(kolo_kv_share(comm, &shared_key, text, &bytes, kolo_deadline_in_ms(60000)) ==
                     KOLO_ERR_PEER,
                 "%s", kolo_error_detail());
    WORLD_EXPECT(strstr(kolo_error_detail(), "a rank was lost") != NULL, "%s", kolo_error_detail());
    return KOLO_OK;
}

Test(kv, shares_nothing_of_a_rank_0_that_is_lost, .timeout = 30)
{
    bool has_died[] = {false, true};
    for (int i = 0; i < 2; i++) {
        struct world world = {.size = 2};
        WORLD_MUST_RUN(&world, share_without_rank_0, &has_died[i]);
    }
}
