// SPDX-License-Identifier: Apache-2.0
// The statuses that the headers list. A table of calls provokes each status; the comment above the
// function's declaration, or above the function that it refers to, must list it. So this test fails
// if a call begins to return a status that its header does not list.
#include <criterion/criterion.h>

#include <kolo/classification.h>
#include <kolo/detection.h>
#include <kolo/metrics.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build.h"
#include "tests/support/world.h"

/* ---- what the headers list ---- */

/** The text of a public header, which the caller frees. */
static char *read_header(const char *name)
{
    char path[4096];
    long bytes;
    snprintf(path, sizeof path, PUBLIC_HEADERS "/%s", name);
    FILE *file = fopen(path, "re");
    cr_assert(file && fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) > 0, "%s", path);
    char *text = calloc(1, (size_t)bytes + 1);
    rewind(file);
    cr_assert(text && fread(text, 1, (size_t)bytes, file) == (size_t)bytes, "%s", path);
    fclose(file);
    return text;
}

/** The declaration of @p function, where its first parameter has a type. NULL: it is not in @p
 * text. */
static const char *declaration(const char *text, const char *function)
{
    static const char *const types[] = {"struct ", "const ", "int "};
    for (const char *at = text; (at = strstr(at, function)) != NULL; at++) {
        const char *behind = at + strlen(function);
        if (*behind != '(')
            continue;
        behind += 1 + strspn(behind + 1, " \n");
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            if (strncmp(behind, types[i], strlen(types[i])) == 0)
                return at;
    }
    return NULL;
}

/** Copies the comment above the declaration into @p doc. */
static void copy_doc(const char *header, const char *function, char *doc, size_t capacity)
{
    const char *end = declaration(header, function), *begin = NULL;
    cr_assert(end != NULL, "%s is not declared there", function);
    for (const char *at = header; (at = strstr(at, "/**")) != NULL && at < end; at++)
        begin = at;
    cr_assert(begin && (size_t)(end - begin) < capacity, "%s", function);
    snprintf(doc, capacity, "%.*s", (int)(end - begin), begin);
}

/** "ERR_PEER", or "_PEER" in a list that has the prefix only once. */
static bool lists(const char *doc, kolo_status status)
{
    const char *name = kolo_status_name(status) + strlen("KOLO_ERR");
    for (const char *at = doc; (at = strstr(at, name)) != NULL; at++)
        if (strchr(" ,;:.)\n", at[strlen(name)]))
            return true;
    return false;
}

static void must_list(const char *header_name, const char *function, kolo_status status)
{
    char doc[8192], other[64];
    char *header = read_header(header_name);
    copy_doc(header, function, doc, sizeof doc);
    bool has = lists(doc, status);
    const char *as = strstr(doc, "as of kolo_");
    if (!has && as && sscanf(as, "as of %63[a-z0-9_]", other) == 1) {
        copy_doc(header, other, doc, sizeof doc);
        has = lists(doc, status);
    }
    cr_expect(has, "%s returned %s, which %s does not list", function, kolo_status_name(status),
              header_name);
    free(header);
}

/* ---- kolo_init and kolo_run_threads ---- */

static char folder[] = "/tmp/kolo-statuses-XXXXXX";

static void make_folder(void)
{
    cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    char path[sizeof folder + 16];
    snprintf(path, sizeof path, "%s/place", folder);
    (void)unlink(path);
    cr_expect(rmdir(folder) == 0, "something else is left in %s", folder);
}

static const struct start {
    int nranks, rank;
    const char *rendezvous; /* follows file://FOLDER/ if it contains no colon */
    const char *setting;
    kolo_status status;
} starts[] = {
    {2, 0, "place", "KOLO_START_TIMEOUT=50ms", KOLO_ERR_TIMEOUT},
    {2, 1, "tcp://127.0.0.1:1", "KOLO_START_TIMEOUT=50ms", KOLO_ERR_CONNECT},
    {2, 0, "no-folder/place", "KOLO_LOG=warn", KOLO_ERR_SYSTEM},
    {2, 2, "place", "KOLO_LOG=warn", KOLO_ERR_CONFIG},
    /* OK if there is an RDMA device */
    {1, 0, "place", "KOLO_TRANSPORT=rdma", KOLO_ERR_UNSUPPORTED},
};

/** A transport that is not in the build is an invalid value of the setting. */
static kolo_status expected_of(const struct start *start)
{
    for (size_t i = 0; kolo_left_out[i].what; i++)
        if (start->status == KOLO_ERR_UNSUPPORTED && strcmp(kolo_left_out[i].what, "rdma") == 0)
            return KOLO_ERR_CONFIG;
    return start->status;
}

Test(statuses, init, .init = make_folder, .fini = remove_folder, .timeout = 60)
{
    static const char secret[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct kolo_comm *comm = NULL;
    must_list("kolo.h", "kolo_init", kolo_init(NULL, NULL));
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const struct start *start = &starts[i];
        char rendezvous[128];
        const char *settings[] = {start->setting, NULL};
        const struct kolo_config config = {.size = sizeof config,
                                           .nranks = start->nranks,
                                           .rank = start->rank,
                                           .rendezvous = rendezvous,
                                           .secret = secret,
                                           .settings = settings};
        snprintf(rendezvous, sizeof rendezvous, "%s%s%s%s",
                 !strchr(start->rendezvous, ':') ? "file://" : "",
                 !strchr(start->rendezvous, ':') ? folder : "",
                 !strchr(start->rendezvous, ':') ? "/" : "", start->rendezvous);
        const kolo_status status = kolo_init(&config, &comm);
        if (status == KOLO_OK && start->status == KOLO_ERR_UNSUPPORTED) {
            kolo_finalize(comm);
            continue;
        }
        cr_expect(status == expected_of(start), "row %zu: %s: %s", i, kolo_status_name(status),
                  kolo_error_detail());
        must_list("kolo.h", "kolo_init", status);
    }
}

static kolo_status do_nothing(struct kolo_comm *comm, void *argument)
{
    (void)comm;
    (void)argument;
    return KOLO_OK;
}

Test(statuses, run_threads, .timeout = 60)
{
    const char *settings[] = {"KOLO_PLAN=none", NULL};
    const struct kolo_config config = {.size = sizeof config, .settings = settings};
    const kolo_status none = kolo_run_threads(0, NULL, do_nothing, NULL),
                      plan = kolo_run_threads(2, &config, do_nothing, NULL);
    cr_expect(none == KOLO_ERR_INVALID, "%s", kolo_status_name(none));
    must_list("kolo.h", "kolo_run_threads", none);
    cr_expect(plan == KOLO_ERR_CONFIG, "%s", kolo_status_name(plan));
    must_list("kolo.h", "kolo_run_threads", plan);
}

/* ---- calls on a communicator ---- */

/** What the calls of the rows use. */
struct stage {
    struct kolo_comm *comm;
    struct kolo_metric *mean;
    struct kolo_sampler *sampler;
    void *memory;
    size_t bytes;
    char value[8];
};

static kolo_status get_now(struct stage *s)
{
    return kolo_kv_get(s->comm, "none", s->value, &s->bytes, 0);
}
static kolo_status get_later(struct stage *s)
{
    return kolo_kv_get(s->comm, "none", s->value, &s->bytes, 5);
}
static kolo_status get_nothing(struct stage *s)
{
    return kolo_kv_get(s->comm, NULL, s->value, &s->bytes, 5);
}
static kolo_status set_nothing(struct stage *s)
{
    return kolo_kv_set(s->comm, NULL, s->value, 1);
}
static kolo_status add_nothing(struct stage *s)
{
    return kolo_kv_add(s->comm, NULL, 1, NULL);
}
static kolo_status alloc_all(struct stage *s)
{
    return kolo_alloc(s->comm, SIZE_MAX, &s->memory);
}
static kolo_status alloc_nowhere(struct stage *s)
{
    return kolo_alloc(s->comm, 1, NULL);
}
static kolo_status alloc_nowhere_device(struct stage *s)
{
    return kolo_alloc_device(s->comm, 1, 0, NULL);
}
static kolo_status alloc_no_device(struct stage *s)
{
    return kolo_alloc_device(s->comm, 1, 0, &s->memory);
}
static kolo_status free_another(struct stage *s)
{
    return kolo_free(s->comm, s->value);
}
static kolo_status make_no_op(struct stage *s)
{
    return kolo_op_create(s->comm, NULL, NULL);
}
static kolo_status free_no_op(struct stage *s)
{
    return kolo_op_free(s->comm, KOLO_SUM);
}
static kolo_status split_badly(struct stage *s)
{
    struct kolo_comm *made;
    return kolo_split(s->comm, -7, 0, NULL, &made);
}
static kolo_status shrink_nowhere(struct stage *s)
{
    return kolo_shrink(s->comm, NULL, NULL);
}

static int no_stream; /* its address is never used as one */
static const struct kolo_opts behind_stream = {.size = sizeof behind_stream, .stream = &no_stream};
static kolo_status split_behind(struct stage *s)
{
    struct kolo_comm *made;
    return kolo_split(s->comm, 0, 0, &behind_stream, &made);
}
static kolo_status shrink_behind(struct stage *s)
{
    struct kolo_comm *made;
    return kolo_shrink(s->comm, &behind_stream, &made);
}
static kolo_status group_behind(struct stage *s)
{
    const kolo_status status = kolo_group_begin(s->comm);
    return status == KOLO_OK ? kolo_group_end(s->comm, &behind_stream, NULL) : status;
}

static kolo_status inform_nobody(struct stage *s)
{
    return kolo_get_info(s->comm, NULL);
}
static kolo_status inform_of_nobody(struct stage *s)
{
    return kolo_get_peer_info(s->comm, 1, NULL);
}
static kolo_status begin_nothing(struct stage *s)
{
    (void)s;
    return kolo_group_begin(NULL);
}
static kolo_status end_nothing(struct stage *s)
{
    return kolo_group_end(s->comm, NULL, NULL);
}
static kolo_status start_nothing(struct stage *s)
{
    (void)s;
    return kolo_start(NULL);
}
static kolo_status run_nothing(struct stage *s)
{
    (void)s;
    return kolo_run(NULL);
}
static kolo_status test_nothing(struct stage *s)
{
    (void)s;
    return kolo_test(NULL);
}
static kolo_status wait_for_nothing(struct stage *s)
{
    (void)s;
    return kolo_wait(NULL, 1);
}
static kolo_status free_nothing(struct stage *s)
{
    (void)s;
    return kolo_request_free(NULL);
}

static kolo_status sampler_of_nothing(struct stage *s)
{
    return kolo_sampler_create(NULL, &s->sampler);
}
static kolo_status epoch_of_nothing(struct stage *s)
{
    (void)s;
    return kolo_sampler_set_epoch(NULL, 1);
}
static kolo_status mean_of_nothing(struct stage *s)
{
    return kolo_mean_create(NULL, &s->mean);
}
static kolo_status update_badly(struct stage *s)
{
    const int64_t index = 0;
    const float value = 1;
    return kolo_mean_update_float32(s->mean, &value, 1, &index);
}
static kolo_status batch_badly(struct stage *s)
{
    return kolo_mean_update_batch(s->mean, 1, -1);
}
static kolo_status result_too_early(struct stage *s)
{
    struct kolo_mean_result result = {.size = sizeof result};
    return kolo_mean_result(s->mean, &result);
}
static kolo_status compute_nothing(struct stage *s)
{
    return kolo_metrics_compute(s->comm, NULL, 1, NULL);
}
static kolo_status merge_itself(struct stage *s)
{
    return kolo_metric_merge(s->mean, s->mean);
}
static kolo_status save_too_much(struct stage *s)
{
    return kolo_metric_save(s->mean, s->value, 1, &s->bytes);
}
static kolo_status restore_little(struct stage *s)
{
    return kolo_metric_restore(s->mean, s->value, 1);
}
static kolo_status restore_nothing(struct stage *s)
{
    return kolo_metric_restore(s->mean, NULL, 1);
}

static const struct row {
    const char *header, *function;
    kolo_status (*call)(struct stage *stage);
    kolo_status status;
} rows[] = {
    {"kolo.h", "kolo_kv_get", get_now, KOLO_ERR_NOT_FOUND},
    {"kolo.h", "kolo_kv_get", get_later, KOLO_ERR_TIMEOUT},
    {"kolo.h", "kolo_kv_get", get_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_kv_set", set_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_kv_add", add_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_alloc", alloc_all, KOLO_ERR_NO_MEMORY},
    {"kolo.h", "kolo_alloc", alloc_nowhere, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_alloc_device", alloc_nowhere_device, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_alloc_device", alloc_no_device, KOLO_ERR_UNSUPPORTED},
    {"kolo.h", "kolo_free", free_another, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_op_create", make_no_op, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_op_free", free_no_op, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_split", split_badly, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_split", split_behind, KOLO_ERR_UNSUPPORTED},
    {"kolo.h", "kolo_shrink", shrink_nowhere, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_shrink", shrink_behind, KOLO_ERR_UNSUPPORTED},
    {"kolo.h", "kolo_get_info", inform_nobody, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_get_peer_info", inform_of_nobody, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_group_begin", begin_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_group_end", end_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_group_end", group_behind, KOLO_ERR_UNSUPPORTED},
    {"kolo.h", "kolo_start", start_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_run", run_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_test", test_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_wait", wait_for_nothing, KOLO_ERR_INVALID},
    {"kolo.h", "kolo_request_free", free_nothing, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_sampler_create", sampler_of_nothing, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_sampler_set_epoch", epoch_of_nothing, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_mean_create", mean_of_nothing, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_mean_update_float32", update_badly, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_mean_update_batch", batch_badly, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_mean_result", result_too_early, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_metrics_compute", compute_nothing, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_metric_merge", merge_itself, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_metric_save", save_too_much, KOLO_ERR_INVALID},
    {"metrics.h", "kolo_metric_restore", restore_little, KOLO_ERR_DATA},
    {"metrics.h", "kolo_metric_restore", restore_nothing, KOLO_ERR_INVALID},
};

Test(statuses, calls, .timeout = 60)
{
    const struct kolo_mean_config config = {.size = sizeof config};
    struct stage stage = {.bytes = sizeof stage.value};
    cr_assert(kolo_init(NULL, &stage.comm) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_mean_create(&config, &stage.mean) == KOLO_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        const kolo_status status = row->call(&stage);
        cr_expect(status == row->status, "%s, row %zu: %s instead of %s: %s", row->function, i,
                  kolo_status_name(status), kolo_status_name(row->status), kolo_error_detail());
        if (status != KOLO_OK)
            must_list(row->header, row->function, status);
    }
    kolo_metric_destroy(stage.mean);
    cr_expect(kolo_finalize(stage.comm) == KOLO_OK);
}
