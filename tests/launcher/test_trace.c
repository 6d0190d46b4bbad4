// SPDX-License-Identifier: Apache-2.0
// Merging timelines of ranks: what is refused, and that the output is JSON whatever the input bytes
// are.
#include <criterion/criterion.h>

#include <jansson.h>
#include <stdlib.h>

#include "tests/launcher/trace_maker.h"

Test(trace, refuses_what_does_not_belong_together)
{
    struct kolo_trace trace = {.size = 0};
    struct maker maker = maker_begin(1, 4, 7, "a");
    maker.rank = 2;
    cr_assert(maker_give(&maker, &trace) == KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "of rank 1") != NULL, "%s", kolo_error_detail());
    maker = maker_begin(1, 4, 7, "a");
    cr_assert(maker_give(&maker, &trace) == KOLO_OK);
    maker = maker_begin(1, 4, 7, "a");
    cr_assert(maker_give(&maker, &trace) == KOLO_ERR_DATA);
    maker = maker_begin(2, 5, 7, "a");
    cr_assert(maker_give(&maker, &trace) == KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "5 ranks") != NULL, "%s", kolo_error_detail());
    maker = maker_begin(2, 4, 7, "a");
    maker_head(&maker)->job = 5;
    cr_assert(maker_give(&maker, &trace) == KOLO_OK); /* the first rank did not get that far */
    maker = maker_begin(3, 4, 7, "a");
    maker_head(&maker)->job = 6;
    cr_assert(maker_give(&maker, &trace) == KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "another job") != NULL, "%s", kolo_error_detail());
    cr_assert(kolo_trace_add(&trace, 0, kolo_calloc(10, 1), 10) == KOLO_ERR_DATA);
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK && trace.track_count == 2);
    kolo_trace_fini(&trace);
}

/** The trace as jansson parses it, or NULL. */
static json_t *written(const struct kolo_trace *trace, const char *verdict)
{
    char *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "{");
    cr_assert(kolo_trace_write(trace, verdict, out) == KOLO_OK);
    fclose(out);
    json_t *whole = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    cr_assert(whole != NULL, "line %d: %s near %.80s", error.line, error.text,
              text + (error.position > 80 ? error.position - 80 : 0));
    free(text);
    return whole;
}

static void swallow(void *context, const char *line)
{
    size_t *lines = context;
    cr_assert(!strchr(line, '\n') && strlen(line) > 0);
    ++*lines;
}

static json_t *find(json_t *whole, const char *name, int pid)
{
    json_t *event;
    size_t i;
    json_array_foreach(
        json_object_get(whole, "traceEvents"), i,
        event) if (strcmp(json_string_value(json_object_get(event, "name")), name) == 0 &&
                   json_integer_value(json_object_get(event, "pid")) == pid) return event;
    cr_assert_fail("no event %s of %d", name, pid);
    return NULL;
}

static double number(json_t *event, const char *key)
{
    json_t *value = json_object_get(event, key);
    cr_assert(json_is_number(value), "%s", key);
    return json_number_value(value);
}

Test(trace, is_what_ranks_did)
{
    struct kolo_trace trace = {.size = 0};
    for (int rank = 0; rank < 2; rank++) {
        struct maker maker = maker_begin(rank, 2, 7, "a \"host\"\n");
        maker_call(&maker, 0, 1000000 + 10000 * rank, 1030000);
        maker_call(&maker, 1, 1050000, rank == 0 ? 0 : 1095000);
        maker_head(&maker)->ended_ns = rank == 0 ? 1090000 : 0;
        maker_head(&maker)->wait_status = rank == 0 ? 9 : 3 << 8;
        cr_assert(maker_give(&maker, &trace) == KOLO_OK);
    }
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    json_t *whole = written(&trace, "rank 0 was \"killed\"");
    json_t *event = find(whole, "allreduce", 0), *args = json_object_get(event, "args");
    cr_assert(number(event, "ts") == 0 && number(event, "dur") == 30);
    cr_assert(number(args, "waited_us") == 10 && number(args, "last") == 1 &&
              number(args, "bytes") == 4096 && number(args, "sequence") == 0);
    cr_assert(number(args, "busbw_gbps") > 0.2047 && number(args, "busbw_gbps") < 0.2049);
    event = find(whole, "waits for rank 1", 0);
    cr_assert(number(event, "ts") == 0 && number(event, "dur") == 10);
    event = find(whole, "killed by signal 9", 0);
    cr_assert(number(event, "ts") == 90);
    cr_assert(number(find(whole, "rank 0 was \"killed\"", 0), "ts") == 90);
    /* the end of its last call */
    cr_assert(number(find(whole, "exited with status 3", 1), "ts") == 95);
    event = find(whole, "process_name", 1);
    cr_assert(strcmp(json_string_value(json_object_get(json_object_get(event, "args"), "name")),
                     "rank 1 on a \"host\"?") == 0);
    json_decref(whole);
    kolo_trace_fini(&trace);
}

/** The bus bandwidth that the trace says of a call of @p kind that moves 4096 bytes among 4 ranks
 * within 10 microseconds. */
static double bandwidth_of(const char *kind)
{
    struct kolo_trace trace = {.size = 0};
    for (int rank = 0; rank < 4; rank++) {
        struct maker maker = maker_begin(rank, 4, 7, "a");
        snprintf(maker_head(&maker)->word[MAKER_WORD_ALLREDUCE], KOLO_TIMELINE_WORD_MAX, "%s",
                 kind);
        maker_call(&maker, 0, 1000000, 1010000);
        cr_assert(maker_give(&maker, &trace) == KOLO_OK);
    }
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    json_t *whole = written(&trace, "");
    const double gbps = number(json_object_get(find(whole, kind, 0), "args"), "busbw_gbps");
    json_decref(whole);
    kolo_trace_fini(&trace);
    return gbps;
}

/* kolobench(1) says the same of them. */
Test(trace, has_the_bandwidth_that_kolobench_computes)
{
    static const char *const once[] = {
        "allgather", "allgatherv", "reduce_scatter", "reduce_scatterv", "gather",
        "gatherv",   "scatter",    "scatterv",       "alltoall",        "alltoallv"};
    cr_expect_float_eq(bandwidth_of("allreduce"), 0.6144, 1e-4);
    cr_expect_float_eq(bandwidth_of("reduce"), 0.4096, 1e-4);
    cr_expect_float_eq(bandwidth_of("broadcast"), 0.4096, 1e-4);
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++)
        cr_expect_float_eq(bandwidth_of(once[i]), 0.3072, 1e-4, "%s", once[i]);
}

struct said {
    char text[4096];
};

static void keep_line(void *context, const char *line)
{
    struct said *said = context;
    const size_t used = strlen(said->text);
    snprintf(said->text + used, sizeof said->text - used, "%s\n", line);
}

/** The report on @p size ranks, two per host, that make ten allreduces, to each of which rank r is
 * late_ns[r] late. */
static struct said said_of(int size, const int64_t *late_ns)
{
    struct kolo_trace trace = {.size = 0};
    struct said said = {""};
    for (int rank = 0; rank < size; rank++) {
        struct maker maker =
            maker_begin(rank, size, 7 + (uint64_t)rank / 2, rank < 2 ? "left" : "right");
        for (uint32_t i = 0; i < 10; i++)
            maker_call(&maker, i, 10000000 * (i + 1) + late_ns[rank], 10000000 * (i + 1) + 6000000);
        maker_call(&maker, 10, 200000000, 200000100); /* which aligns the clocks */
        cr_assert(maker_give(&maker, &trace) == KOLO_OK);
    }
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    kolo_trace_summary(&trace, "file", keep_line, &said);
    kolo_trace_fini(&trace);
    return said;
}

/** The report on four ranks, the last of which is late to their only call. */
static struct said one_call(int64_t late_ns)
{
    struct kolo_trace trace = {.size = 0};
    struct said said = {""};
    for (int rank = 0; rank < 4; rank++) {
        struct maker maker = maker_begin(rank, 4, 7, "a");
        maker_call(&maker, 0, 1000 + (rank == 3 ? late_ns : 0), 2000 + late_ns);
        cr_assert(maker_give(&maker, &trace) == KOLO_OK);
    }
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    kolo_trace_summary(&trace, "file", keep_line, &said);
    kolo_trace_fini(&trace);
    return said;
}

static void says(struct said said, const char *wanted)
{
    cr_assert(strstr(said.text, wanted) != NULL, "no '%s' in: %s", wanted, said.text);
}

/** For example, it was lost with its host, which is not in the trace. */
Test(trace, who_was_waited_for_may_have_left_no_timeline)
{
    struct kolo_trace trace = {.size = 0};
    struct said said = {""};
    for (int rank = 0; rank < 2; rank++) {
        struct maker maker = maker_begin(rank, 3, 7, "a");
        maker_call(&maker, 0, 1000, 50000000);
        maker_fail(&maker, KOLO_ERR_PEER);
        cr_assert(maker_give(&maker, &trace) == KOLO_OK);
    }
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    kolo_trace_summary(&trace, "file", keep_line, &said);
    kolo_trace_fini(&trace);
    says(said, "waited for most: rank 2 (of which there is no timeline) in 1 of 1 calls, ");
}

Test(trace, names_who_was_waited_for)
{
    enum { MS = 1000000 };
    says(said_of(4, (int64_t[]){0, 0, 5 * MS, 0}),
         "one rank was waited for most: rank 2 (host right) in 10 of 11 calls, 100 % of all "
         "waiting, 150 ms");
    says(said_of(4, (int64_t[]){0, 5 * MS, 5 * MS + 1000, 0}),
         "2 ranks were waited for most: rank 1 (host left) in 10 of 11 calls, 50 % of all "
         "waiting, 50 ms; rank 2 (host right) in 10 of 11 calls, 50 % of all waiting, 50 ms");
    says(said_of(4, (int64_t[]){0, 0, 5 * MS, 5 * MS + 1000}),
         "one host was waited for most: right with its 2 ranks (the lowest is 2), 100 % of all "
         "waiting, 100 ms");
    /* 333 ms for each of the three that wait: neither "1e+03 ms" nor "1.25e+03 s" */
    says(one_call(333333300), "100 % of all waiting, 1 s");
    says(one_call(416000000000), "100 % of all waiting, 1248 s");
    says(said_of(4, (int64_t[]){0, 10, 30, 20}), "no rank was waited for long");
    says(said_of(4, (int64_t[]){0, 0, 0, 0}), "no rank was waited for long");
    says(said_of(2, (int64_t[]){0, 2 * MS}), "one rank was waited for most: rank 1 (host left)");
}

/** No two slices of one lane of one rank may overlap, except waits within their call. */
static size_t check_lanes(json_t *whole, double *end_us, size_t lanes_max)
{
    json_t *event;
    size_t i, lanes = 0;
    json_array_foreach(json_object_get(whole, "traceEvents"), i, event)
    {
        const json_t *category = json_object_get(event, "cat");
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0 ||
            strcmp(json_string_value(category), "wait") == 0)
            continue;
        const size_t lane = (size_t)number(event, "tid");
        cr_assert(lane < lanes_max);
        cr_assert(number(event, "ts") >= end_us[lane], "lane %zu", lane);
        end_us[lane] = number(event, "ts") + number(event, "dur");
        lanes = lane + 1 > lanes ? lane + 1 : lanes;
    }
    return lanes;
}

Test(trace, has_as_many_lanes_as_calls_overlap)
{
    enum { COMMS = 600, CAPACITY = 2048 };
    static double end_us[2 * COMMS];
    struct kolo_trace trace = {.size = 0};
    struct maker maker = maker_begin_of(0, 1, 7, "a", CAPACITY);
    struct kolo_timeline_record call = {.size = 1,
                                        .peer = -1,
                                        .kind = MAKER_WORD_ALLREDUCE,
                                        .shape_flags = KOLO_SHAPE_ALL | KOLO_TIMELINE_IS_ASYNC
                                                                            << 4};
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t comm = 0; comm < COMMS; comm++) {
            call.comm = comm;
            call.sequence = round;
            call.begin_ns = 1000000 * (round + 1) + comm;
            call.end_ns = call.begin_ns + 900000;
            maker_add(&maker, &call);
        }
    call.end_ns = 0;
    call.enter_ns = -1; /* its turn never came */
    maker_add(&maker, &call);
    cr_assert(maker_give(&maker, &trace) == KOLO_OK && kolo_trace_merge(&trace) == KOLO_OK);
    json_t *whole = written(&trace, "");
    cr_assert(check_lanes(whole, end_us, 2 * COMMS) == COMMS + 1);
    find(whole, "thread_name", 0);
    json_decref(whole);
    kolo_trace_fini(&trace);
}

/** xorshift, which gives the same bytes in each run. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void spoil(struct maker *maker, uint64_t *state)
{
    uint8_t *data = maker->data;
    const size_t used = KOLO_TIMELINE_HEAD_BYTES + 12 * KOLO_TIMELINE_RECORD_BYTES;
    const size_t words = offsetof(struct kolo_timeline_head, word);
    for (uint64_t i = next(state) % 24; i > 0; i--) {
        size_t at = next(state) % (i % 3 == 0 ? words + 200 : used);
        if (i % 3 == 1) /* within the records */
            at = KOLO_TIMELINE_HEAD_BYTES + at % (12 * KOLO_TIMELINE_RECORD_BYTES);
        data[at] = (uint8_t)next(state);
    }
    memcpy(data, KOLO_TIMELINE_MAGIC, 8);
    maker_head(maker)->head_bytes = KOLO_TIMELINE_HEAD_BYTES;
    maker_head(maker)->record_bytes = KOLO_TIMELINE_RECORD_BYTES;
    if (next(state) % 2)
        maker_head(maker)->written = 12;
}

static void check_events(json_t *whole)
{
    json_t *event;
    size_t i;
    json_array_foreach(json_object_get(whole, "traceEvents"), i, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        if (strcmp(phase, "M") == 0)
            continue;
        cr_assert(number(event, "ts") >= 0);
        cr_assert(strcmp(phase, "X") != 0 || number(event, "dur") >= 0);
    }
}

Test(trace, of_random_bytes_is_json, .timeout = 300)
{
    uint64_t state = 4101842887655102017u;
    size_t lines = 0;
    for (int round = 0; round < 600; round++) {
        struct kolo_trace trace = {.size = 0};
        for (int rank = 0; rank < 4; rank++) {
            struct maker maker = maker_begin(rank, 4, rank < 2 ? 7 : 8, "h");
            for (uint32_t i = 0; i < 10; i++)
                maker_call(&maker, i, 1000 * i + 1000, 1000 * i + 1900);
            maker_message(&maker, rank % 2 ? KOLO_SHAPE_RECV : KOLO_SHAPE_SEND, rank ^ 1, 0, 50000,
                          60000);
            maker_message(&maker, KOLO_SHAPE_WAIT, -1, 1, 50000, 60000);
            spoil(&maker, &state);
            maker.rank = -1;
            (void)maker_give(&maker, &trace);
        }
        cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
        json_t *whole = written(&trace, "why");
        check_events(whole);
        json_decref(whole);
        kolo_trace_summary(&trace, "file", swallow, &lines);
        kolo_trace_fini(&trace);
    }
    cr_assert(lines > 600);
}

Test(trace, of_nobody_is_json)
{
    struct kolo_trace trace = {.size = 0};
    size_t lines = 0;
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    json_decref(written(&trace, "nothing was started"));
    kolo_trace_summary(&trace, "file", swallow, &lines);
    cr_assert(lines == 1);
    kolo_trace_fini(&trace);
}
