// SPDX-License-Identifier: Apache-2.0
// See report.h. Files are written under temporary names and renamed when everything is written and
// printed, so that nobody finds half a file. Doubles are written with 17 digits, which give the
// same bits when read back.
#include "evaluate/report.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <yajl/yajl_gen.h>

#include <kolo/version.h>

#include "evaluate/memory.h"
#include "evaluate/plot.h"
#include "evaluate/summary.h"
#include "tools/letters.h"
#include "tools/outfile.h"
#include "tools/streams.h"

enum { SHA256_BYTES = 32, HASHED_AT_ONCE = 1024 };

void eval_report_counts(const struct eval_evaluation *evaluation, FILE *out)
{
    const struct eval_options *options = evaluation->options;
    const struct kolo_detection_result *result = &evaluation->result;
    const struct eval_bare *bare = &evaluation->bare;
    fprintf(out, "kolo-coco: %s: %lld images, %zu categories, %lld annotations\n", options->truths,
            (long long)result->images, evaluation->truths.categories, (long long)result->truths);
    fprintf(out, "kolo-coco: %s: %llu detections, %lld of them counted\n", options->detections,
            (unsigned long long)evaluation->detections.all, (long long)result->detections);
    if (bare->count > 0)
        fprintf(out, "kolo-coco: no detection is of %lld image%s:", (long long)bare->count,
                bare->count == 1 ? "" : "s");
    for (int64_t i = 0; i < bare->count && i < EVAL_BARE_NAMED; i++)
        fprintf(out, " %lld", (long long)bare->first[i]);
    if (bare->count > 0)
        fputs(bare->count > EVAL_BARE_NAMED ? " and others\n" : "\n", out);
}

static kolo_status print(const struct eval_evaluation *evaluation)
{
    kolo_status status = KOLO_OK;
    eval_summary_print(evaluation, stdout);
    if (evaluation->options->per_class)
        status = eval_summary_print_classes(evaluation, stdout);
    return status == KOLO_OK ? streams_flush() : status;
}

/* SHA-256 of float64 numbers as little-endian bytes. */
static kolo_status hash(const double *values, size_t count, char text[2 * SHA256_BYTES + 1])
{
    uint64_t block[HASHED_AT_ONCE];
    unsigned char sum[SHA256_BYTES];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (size_t i = 0; ok && i < count;) {
        size_t some = count - i < HASHED_AT_ONCE ? count - i : HASHED_AT_ONCE;
        memcpy(block, values + i, some * sizeof *block);
        for (size_t j = 0; j < some; j++)
            block[j] = htole64(block[j]);
        ok = EVP_DigestUpdate(context, block, some * sizeof *block);
        i += some;
    }
    ok = ok && EVP_DigestFinal_ex(context, sum, NULL);
    EVP_MD_CTX_free(context);
    if (!ok)
        return kolo_fail(KOLO_ERR_SYSTEM, "libcrypto refuses SHA-256");
    for (size_t i = 0; i < SHA256_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", sum[i]);
    return KOLO_OK;
}

static void put_text(yajl_gen gen, const char *text)
{
    (void)yajl_gen_string(gen, (const unsigned char *)text, strlen(text));
}

static void put_number(yajl_gen gen, double value)
{
    char text[40];
    int length = snprintf(text, sizeof text, "%.17g", value);
    (void)yajl_gen_number(gen, text, (size_t)length);
}

static void put_count(yajl_gen gen, const char *key, int64_t value)
{
    put_text(gen, key);
    (void)yajl_gen_integer(gen, value);
}

static void put_pair(yajl_gen gen, const char *key, const char *value)
{
    put_text(gen, key);
    put_text(gen, value);
}

/* The name of a file may be any bytes; JSON must be UTF-8. It has been opened, so it is no longer
 * than PATH_MAX. */
static void put_path(yajl_gen gen, const char *key, const char *path)
{
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", path);
    letters_repair(copy, strlen(copy));
    put_pair(gen, key, copy);
}

static void put_bare(yajl_gen gen, const struct eval_bare *bare)
{
    put_count(gen, "images_without_detections", bare->count);
    put_text(gen, "first_of_them");
    (void)yajl_gen_array_open(gen);
    for (int64_t i = 0; i < bare->count && i < EVAL_BARE_NAMED; i++)
        (void)yajl_gen_integer(gen, bare->first[i]);
    (void)yajl_gen_array_close(gen);
}

static void put_head(yajl_gen gen, const struct eval_evaluation *evaluation)
{
    const struct eval_options *options = evaluation->options;
    const struct kolo_detection_result *result = &evaluation->result;
    put_pair(gen, "kolo", KOLO_VERSION);
    put_path(gen, "ground_truth", options->truths);
    put_path(gen, "results", options->detections);
    put_pair(gen, "iou_type", eval_kind_name(options->kind));
    put_pair(gen, "rules", eval_rules_name(options->rules));
    put_pair(gen, "mode", options->mode == KOLO_DETECTION_FIXED ? "fixed" : "compat");
    put_pair(gen, "numpy", options->mean_rule == KOLO_MEAN_NUMPY_1 ? "1" : "2.3");
    put_pair(gen, "threshold_mode", eval_threshold_mode_name(options->threshold_mode));
    put_text(gen, "max_dets");
    (void)yajl_gen_array_open(gen);
    for (size_t i = 0; i < options->cap_count; i++)
        (void)yajl_gen_integer(gen, options->caps[i]);
    (void)yajl_gen_array_close(gen);
    put_count(gen, "images", result->images);
    put_count(gen, "annotations", result->truths);
    put_count(gen, "detections", (int64_t)evaluation->detections.all);
    put_count(gen, "detections_counted", result->detections);
    put_bare(gen, &evaluation->bare);
}

static kolo_status put_arrays(yajl_gen gen, const struct kolo_detection_result *result)
{
    size_t ends = result->thresholds * result->categories * result->areas * result->caps;
    const struct {
        const char *key;
        const double *values; /* NULL: the rules have none */
        size_t count;
    } arrays[] = {{"precision", result->precision, ends * result->recalls},
                  {"recall", result->recall, ends},
                  {"scores", result->scores, ends * result->recalls},
                  {"AP11", result->voc_points, ends},
                  {"APauc", result->voc_areas, ends}};
    const size_t shape[] = {result->thresholds, result->recalls, result->categories, result->areas,
                            result->caps};
    put_text(gen, "shape");
    (void)yajl_gen_array_open(gen);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        (void)yajl_gen_integer(gen, (long long)shape[i]);
    (void)yajl_gen_array_close(gen);
    put_text(gen, "sha256");
    (void)yajl_gen_map_open(gen);
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && i < sizeof arrays / sizeof *arrays; i++) {
        char text[2 * SHA256_BYTES + 1];
        if (!arrays[i].values)
            continue;
        status = hash(arrays[i].values, arrays[i].count, text);
        if (status == KOLO_OK)
            put_pair(gen, arrays[i].key, text);
    }
    (void)yajl_gen_map_close(gen);
    return status;
}

static void put_stat(yajl_gen gen, const struct eval_evaluation *evaluation, size_t i, double value)
{
    char key[EVAL_KEY_BYTES];
    eval_summary_key(evaluation, i, key);
    put_text(gen, key);
    put_number(gen, value);
}

static kolo_status put_class(yajl_gen gen, const struct eval_evaluation *evaluation, size_t k)
{
    static const char *const groups[] = {NULL, "r", "c", "f"};
    put_count(gen, "id", evaluation->result.category_ids[k]);
    put_pair(gen, "name", eval_summary_name(evaluation, k));
    if (!evaluation->options->any_category && evaluation->truths.category[k].frequency > 0)
        put_pair(gen, "frequency", groups[evaluation->truths.category[k].frequency]);
    for (size_t i = 0; i < eval_summary_count(evaluation); i++) {
        double value;
        if (!eval_summary_is_of_classes(evaluation, i))
            continue;
        kolo_status status = eval_summary_of_class(evaluation, k, i, &value);
        if (status != KOLO_OK)
            return status;
        put_stat(gen, evaluation, i, value);
    }
    return KOLO_OK;
}

static kolo_status put_classes(yajl_gen gen, const struct eval_evaluation *evaluation)
{
    kolo_status status = KOLO_OK;
    put_text(gen, "per_class");
    (void)yajl_gen_array_open(gen);
    for (size_t k = 0; status == KOLO_OK && k < evaluation->result.categories; k++) {
        (void)yajl_gen_map_open(gen);
        status = put_class(gen, evaluation, k);
        (void)yajl_gen_map_close(gen);
    }
    (void)yajl_gen_array_close(gen);
    return status;
}

static kolo_status generate(yajl_gen gen, const struct eval_evaluation *evaluation)
{
    (void)yajl_gen_config(gen, yajl_gen_beautify, 1);
    (void)yajl_gen_config(gen, yajl_gen_indent_string, " ");
    (void)yajl_gen_map_open(gen);
    put_head(gen, evaluation);
    put_text(gen, "stats");
    (void)yajl_gen_map_open(gen);
    for (size_t i = 0; i < eval_summary_count(evaluation); i++)
        put_stat(gen, evaluation, i, evaluation->result.stats[i]);
    (void)yajl_gen_map_close(gen);
    kolo_status status = put_arrays(gen, &evaluation->result);
    if (status == KOLO_OK)
        status = put_classes(gen, evaluation);
    (void)yajl_gen_map_close(gen);
    return status;
}

/* The generator and its text have the memory @p memory. */
static kolo_status write_text(struct eval_memory *memory, const struct eval_evaluation *evaluation,
                              FILE *out)
{
    const yajl_alloc_funcs functions = eval_memory_functions(memory);
    const unsigned char *text = NULL;
    size_t bytes = 0;
    yajl_gen gen;
    if (setjmp(memory->missing) != 0)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "--json %s: %s", evaluation->options->json,
                         kolo_error_detail());
    gen = yajl_gen_alloc(&functions);
    kolo_status status = generate(gen, evaluation);
    if (status == KOLO_OK && yajl_gen_get_buf(gen, &text, &bytes) != yajl_gen_status_ok)
        status = kolo_fail(KOLO_ERR_INTERNAL, "--json: internal error of the JSON generator");
    if (status == KOLO_OK)
        (void)fwrite(text, 1, bytes, out); /* a failure is noticed when it is closed */
    return status;
}

static kolo_status write_json(const struct eval_evaluation *evaluation, FILE *out)
{
    struct eval_memory memory = {.first = NULL};
    kolo_status status = write_text(&memory, evaluation, out);
    eval_memory_free(&memory);
    return status;
}

/* An output file must be writable, and not one of the files that are read. */
static kolo_status probe(const struct eval_options *options, const char *option, const char *path)
{
    const char *const read[] = {options->truths, options->detections};
    struct stat target;
    kolo_status status;
    if (!path)
        return KOLO_OK;
    if (stat(path, &target) == 0 && S_ISDIR(target.st_mode))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, EISDIR, "%s %s", option, path);
    KOLO_TRY(outfile_spares(option, path, read, sizeof read / sizeof *read));
    KOLO_TRY(outfile_probe(option, path));
out:
    return status;
}

kolo_status eval_report_probe(const struct eval_options *options)
{
    const struct outfile_place places[] = {{"--json", options->json}, {"--plot", options->plot}};
    kolo_status status;
    KOLO_TRY(probe(options, "--json", options->json));
    KOLO_TRY(probe(options, "--plot", options->plot));
    KOLO_TRY(outfile_distinct(places, sizeof places / sizeof *places));
out:
    return status;
}

kolo_status eval_report_write(const struct eval_evaluation *evaluation)
{
    const struct eval_options *options = evaluation->options;
    struct outfile json = {.stream = NULL}, plot = {.stream = NULL};
    kolo_status status, closed;
    if (options->json) {
        KOLO_TRY(outfile_open(&json, "--json", options->json));
        KOLO_TRY(write_json(evaluation, json.stream));
    }
    if (options->plot) {
        KOLO_TRY(outfile_open(&plot, "--plot", options->plot));
        KOLO_TRY(eval_plot_write(evaluation, plot.stream));
    }
    KOLO_TRY(print(evaluation));
out:
    closed = outfile_close_all((struct outfile *const[]){&plot, &json}, 2, status == KOLO_OK);
    return status == KOLO_OK ? closed : status;
}
