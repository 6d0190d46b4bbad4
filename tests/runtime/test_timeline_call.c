// SPDX-License-Identifier: Apache-2.0
// What timelines record of calls: calls of ranks that are threads, over a board and over links, are
// read back from the files of all ranks.
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/timeline.h"
#include "tests/support/world.h"

enum { RANKS = 3, COUNT = 100, CALLS_MAX = 64 };

static char folder[] = "/tmp/kolo-calls-XXXXXX";

struct kept {
    void *data;
    struct kolo_timeline_view view;
    struct kolo_timeline_record calls[CALLS_MAX];
    char kinds[CALLS_MAX][KOLO_TIMELINE_WORD_MAX];
    size_t count;
};

static void read_rank(int rank, struct kept *kept)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof path, "%s/t.%d", folder, rank);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && fstat(fd, &facts) == 0, "%s", path);
    kept->data = kolo_calloc((size_t)facts.st_size, 1);
    cr_assert(read(fd, kept->data, (size_t)facts.st_size) == facts.st_size);
    close(fd);
    unlink(path);
    cr_assert(kolo_timeline_view(kept->data, (size_t)facts.st_size, &kept->view) == KOLO_OK);
    kept->count = (size_t)kept->view.end;
    cr_assert(kept->count <= CALLS_MAX && kept->view.first == 0);
    for (size_t i = 0; i < kept->count; i++) {
        cr_assert(kolo_timeline_get(&kept->view, i, &kept->calls[i]));
        kolo_timeline_word_text(&kept->view, kept->calls[i].kind, kept->kinds[i]);
    }
}

/** The nth call of a kind. */
static const struct kolo_timeline_record *find(const struct kept *kept, const char *kind, int n)
{
    for (size_t i = 0; i < kept->count; i++)
        if (strcmp(kept->kinds[i], kind) == 0 && n-- == 0)
            return &kept->calls[i];
    cr_assert_fail("rank %d has no %s", kept->view.head->rank, kind);
    return NULL;
}

static bool word_is(const struct kept *kept, uint8_t word, const char *text)
{
    char got[KOLO_TIMELINE_WORD_MAX];
    kolo_timeline_word_text(&kept->view, word, got);
    return strcmp(got, text) == 0;
}

/** Rank 0 polls for a message that rank 2 sends only afterwards; polling leaves no records. */
static kolo_status ask(struct kolo_comm *comm)
{
    struct kolo_request *request = NULL;
    float got = 0, sent = 1;
    if (kolo_rank(comm) == 0) {
        WORLD_TRY(kolo_recv(comm, &got, 1, KOLO_FLOAT32, 2, NULL, &request));
        for (int i = 0; i < 2 * CALLS_MAX; i++)
            cr_assert(kolo_wait(&request, 0) == KOLO_AGAIN && kolo_test(&request) == KOLO_AGAIN);
        cr_assert(kolo_wait(&request, 1) == KOLO_AGAIN); /* but this wait does */
        WORLD_TRY(kolo_send(comm, &sent, 1, KOLO_FLOAT32, 2, NULL, NULL));
        WORLD_TRY(kolo_wait(&request, -1));
    } else if (kolo_rank(comm) == 2) {
        WORLD_TRY(kolo_recv(comm, &got, 1, KOLO_FLOAT32, 0, NULL, NULL));
        WORLD_TRY(kolo_send(comm, &sent, 1, KOLO_FLOAT32, 0, NULL, NULL));
    }
    return KOLO_OK;
}

static kolo_status calls(struct kolo_comm *comm, void *argument)
{
    static const struct kolo_opts named = {.size = sizeof named, .name = "grad/1"};
    float data[COUNT] = {0}, all[RANKS * COUNT];
    struct kolo_request *request = NULL;
    struct kolo_comm *half = NULL;
    const int rank = kolo_rank(comm);
    (void)argument;
    for (int i = 0; i < 3; i++)
        WORLD_TRY(kolo_allreduce(comm, data, data, COUNT, KOLO_FLOAT32, KOLO_MAX, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, data, data, COUNT, KOLO_FLOAT32, KOLO_SUM, &named, &request));
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_TRY(kolo_allgather(comm, data, all, COUNT, KOLO_FLOAT32, NULL, NULL));
    WORLD_TRY(kolo_reduce(comm, data, all, COUNT, KOLO_FLOAT32, KOLO_SUM, 2, NULL, NULL));
    if (rank == 0)
        WORLD_TRY(kolo_send(comm, data, COUNT, KOLO_FLOAT32, 2, NULL, NULL));
    if (rank == 2)
        WORLD_TRY(kolo_recv(comm, data, COUNT, KOLO_FLOAT32, 0, NULL, NULL));
    WORLD_TRY(kolo_split(comm, rank == 1, 0, NULL, &half));
    WORLD_TRY(kolo_barrier(half, NULL, NULL));
    if (rank == 2) /* a rank of the world, not of the communicator */
        WORLD_TRY(kolo_send(half, data, 1, KOLO_FLOAT32, 0, NULL, NULL));
    if (rank == 0)
        WORLD_TRY(kolo_recv(half, data, 1, KOLO_FLOAT32, 1, NULL, NULL));
    WORLD_TRY(kolo_finalize(half));
    return ask(comm);
}

/** Its first wait for a receive names the sender and the number of the message. */
static void check_wait(const struct kept *kept)
{
    const struct kolo_timeline_record *wait = NULL, *recv = find(kept, "recv", 1);
    for (size_t i = 0; i < kept->count && !wait; i++)
        if (strcmp(kept->kinds[i], "wait") == 0 && kept->calls[i].plan == 0)
            wait = &kept->calls[i];
    cr_assert(wait && kolo_timeline_shape(wait) == KOLO_SHAPE_WAIT);
    cr_assert(wait->status == KOLO_AGAIN && wait->peer == 2 && wait->comm == recv->comm &&
                  wait->sequence == recv->sequence,
              "peer %d, sequence %u, not %u", wait->peer, wait->sequence, recv->sequence);
}

static void check_rank(int rank, const char *transport)
{
    struct kept kept;
    char name[KOLO_TIMELINE_NAME_MAX];
    read_rank(rank, &kept);
    const struct kolo_timeline_record *call = find(&kept, "init", 0);
    cr_assert(call->comm == KOLO_TIMELINE_NO_COMM && call->end_ns > call->begin_ns);
    call = find(&kept, "allreduce", 2);
    cr_assert(call->bytes == COUNT * 4 && call->dtype == KOLO_FLOAT32 && call->op == KOLO_MAX &&
              call->comm == 0 && call->sequence == 2 && call->size == RANKS && call->peer == -1 &&
              kolo_timeline_shape(call) == KOLO_SHAPE_ALL && kolo_timeline_flags(call) == 0 &&
              call->end_ns >= call->begin_ns && call->plan != 0);
    cr_assert(transport ? word_is(&kept, call->transport, transport)
                        : word_is(&kept, call->transport, "board"));
    call = find(&kept, "allreduce", 3);
    kolo_timeline_name_text(&kept.view, call->name, name);
    cr_assert(kolo_timeline_flags(call) == KOLO_TIMELINE_IS_ASYNC && strcmp(name, "grad/1") == 0);
    cr_assert(find(&kept, "allgather", 0)->bytes == RANKS * COUNT * 4);
    cr_assert(find(&kept, "reduce", 0)->peer == 2);
    cr_assert(find(&kept, "split", 0)->comm == 0);
    cr_assert(find(&kept, "barrier", 1)->comm != 0 &&
              find(&kept, "barrier", 1)->size == (rank == 1 ? 1 : 2));
    if (rank == 0) {
        cr_assert(find(&kept, "send", 0)->peer == 2 && find(&kept, "send", 0)->end_ns > 0 &&
                  kolo_timeline_shape(find(&kept, "send", 0)) == KOLO_SHAPE_SEND);
        cr_assert(find(&kept, "recv", 0)->peer == 2 && find(&kept, "recv", 0)->comm != 0);
        check_wait(&kept);
    } else if (rank == 2) {
        cr_assert(find(&kept, "recv", 0)->peer == 0 && find(&kept, "recv", 0)->end_ns > 0 &&
                  kolo_timeline_shape(find(&kept, "recv", 0)) == KOLO_SHAPE_RECV);
        cr_assert(find(&kept, "send", 0)->peer == 0);
    }
    for (size_t i = 0; i < kept.count; i++)
        cr_assert(kept.calls[i].end_ns > 0 &&
                      (kept.calls[i].status == KOLO_OK ||
                       kolo_timeline_shape(&kept.calls[i]) == KOLO_SHAPE_WAIT),
                  "%s", kept.kinds[i]);
    kolo_free_memory(kept.data);
}

static void check(const char *transport)
{
    char setting[64];
    struct world world = {.size = RANKS, .transport = transport, .settings = {setting}};
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(setting, sizeof setting, "TIMELINE=%s/t", folder);
    WORLD_MUST_RUN(&world, calls, NULL);
    for (int rank = 0; rank < RANKS; rank++)
        check_rank(rank, transport);
    rmdir(folder);
}

Test(timeline_call, over_a_board, .timeout = 120)
{
    check(NULL);
}

Test(timeline_call, over_links, .timeout = 120)
{
    check("tcp");
}

/** Three calls at once: the second and third begin only when the ones before them are over. */
static kolo_status at_once(struct kolo_comm *comm, void *argument)
{
    static float data[3][RANKS][COUNT];
    struct kolo_request *requests[3] = {NULL};
    (void)argument;
    for (int i = 0; i < 3; i++)
        WORLD_TRY(kolo_allreduce(comm, data[i][kolo_rank(comm)], data[i][kolo_rank(comm)], COUNT,
                                 KOLO_FLOAT32, KOLO_SUM, NULL, &requests[i]));
    for (int i = 0; i < 3; i++)
        WORLD_TRY(kolo_wait(&requests[i], -1));
    return KOLO_OK;
}

Test(timeline_call, calls_in_a_queue_do_not_overlap, .timeout = 120)
{
    char setting[64];
    struct world world = {.size = RANKS, .transport = "tcp", .settings = {setting}};
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(setting, sizeof setting, "TIMELINE=%s/t", folder);
    WORLD_MUST_RUN(&world, at_once, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        struct kept kept;
        read_rank(rank, &kept);
        for (int i = 1; i < 3; i++) {
            const struct kolo_timeline_record *call = find(&kept, "allreduce", i);
            const int64_t entered = call->enter_ns > 0 ? call->enter_ns : call->begin_ns;
            cr_assert(entered >= find(&kept, "allreduce", i - 1)->end_ns);
        }
        kolo_free_memory(kept.data);
    }
    rmdir(folder);
}
