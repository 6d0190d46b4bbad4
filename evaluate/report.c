// SPDX-License-Identifier: Apache-2.0
// See report.h. Files are written beside their places and renamed when all is written and said, so that
// nobody finds half a file. Doubles have 17 digits: they are read back with the same bits.
#include "evaluate/report.h"

#include <endian.h>
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <yajl/yajl_gen.h>

#include <kolo/version.h>

#include "evaluate/plot.h"
#include "tools/outfile.h"

enum { SHA256_BYTES = 32, HASHED_AT_ONCE = 1024 };

/* pycocotools' numbers, in its order. Some are of a cap that it names, whatever is set. */
struct number {
    const char *key;
    bool of_recall;
    int threshold; /* its place in T; -1: all */
    size_t area, cap;
    int cap_value; /* 0: the cap is at place `cap` */
};

struct numbers {
    size_t count;
    const struct number *number;
    const char *const *areas;
    size_t shown; /* columns of the table of classes */
    size_t column[KOLO_DETECTION_STATS];
};

static const struct number coco_numbers[] = {
    {"AP", false, -1, 0, 2, 100}, {"AP50", false, 0, 0, 2, 0}, {"AP75", false, 5, 0, 2, 0},
    {"APs", false, -1, 1, 2, 0},  {"APm", false, -1, 2, 2, 0}, {"APl", false, -1, 3, 2, 0},
    {"AR1", true, -1, 0, 0, 0},   {"AR10", true, -1, 0, 1, 0}, {"AR100", true, -1, 0, 2, 0},
    {"ARs", true, -1, 1, 2, 0},   {"ARm", true, -1, 2, 2, 0},  {"ARl", true, -1, 3, 2, 0},
};
static const struct number point_numbers[] = {
    {"AP", false, -1, 0, 0, 20},  {"AP50", false, 0, 0, 0, 20}, {"AP75", false, 5, 0, 0, 20},
    {"APm", false, -1, 1, 0, 20}, {"APl", false, -1, 2, 0, 20}, {"AR", true, -1, 0, 0, 20},
    {"AR50", true, 0, 0, 0, 20},  {"AR75", true, 5, 0, 0, 20},  {"ARm", true, -1, 1, 0, 20},
    {"ARl", true, -1, 2, 0, 20},
};
static const char *const coco_areas[] = {"all", "small", "medium", "large"};
static const char *const point_areas[] = {"all", "medium", "large"};

static const struct numbers *numbers_of(const struct eval_evaluation *evaluation)
{
    static const struct numbers coco = {sizeof coco_numbers / sizeof *coco_numbers,
                                        coco_numbers,
                                        coco_areas,
                                        7,
                                        {0, 1, 2, 3, 4, 5, 8}};
    static const struct numbers points = {sizeof point_numbers / sizeof *point_numbers,
                                          point_numbers,
                                          point_areas,
                                          6,
                                          {0, 1, 2, 3, 4, 5}};
    return evaluation->options->kind == KOLO_DETECTION_KEYPOINTS ? &points : &coco;
}

static void print_number(const struct eval_evaluation *evaluation, size_t i, FILE *out)
{
    const struct numbers *numbers = numbers_of(evaluation);
    const struct number *number = &numbers->number[i];
    const char *threshold = number->threshold < 0    ? "0.50:0.95"
                            : number->threshold == 0 ? "0.50"
                                                     : "0.75";
    fprintf(out, " %-18s %s @[ IoU=%-9s | area=%6s | maxDets=%3d ] = %0.3f\n",
            number->of_recall ? "Average Recall" : "Average Precision",
            number->of_recall ? "(AR)" : "(AP)", threshold, numbers->areas[number->area],
            number->cap_value ? number->cap_value : evaluation->options->caps[number->cap],
            evaluation->result.stats[i]);
}

/* As the number of all classes; -1 where its cap is not set, as there. */
static kolo_status class_number(const struct eval_evaluation *evaluation, size_t class, size_t i,
                                double *value_out)
{
    const struct number *number = &numbers_of(evaluation)->number[i];
    const struct eval_options *options = evaluation->options;
    size_t cap = number->cap;
    if (number->cap_value) {
        for (cap = 0; cap < options->cap_count && options->caps[cap] != number->cap_value;)
            cap++;
        *value_out = -1;
        if (cap == options->cap_count)
            return KOLO_OK;
    }
    const struct kolo_detection_slice slice = {.size = sizeof slice,
                                               .of_recall = number->of_recall,
                                               .threshold = number->threshold,
                                               .category = (int64_t) class,
                                               .area = number->area,
                                               .cap = cap};
    return kolo_detection_average(evaluation->detection, &slice, value_out);
}

static const char *class_name(const struct eval_evaluation *evaluation, size_t class)
{
    const char *name =
        evaluation->options->any_category ? NULL : evaluation->truths.category[class].name;
    return name ? name : "";
}

/* A name comes from a file: what could move a terminal's cursor does not get there. */
static void print_name(const char *name, FILE *out)
{
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        bool is_c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; /* controls of 8 bits */
        at += is_c1;
        fputc(is_c1 || *at < 0x20 || *at == 0x7f ? '?' : *at, out);
    }
}

static kolo_status print_classes(const struct eval_evaluation *evaluation, FILE *out)
{
    const struct numbers *numbers = numbers_of(evaluation);
    fprintf(out, "\n%8s", "category");
    for (size_t i = 0; i < numbers->shown; i++) {
        const struct number *number = &numbers->number[numbers->column[i]];
        fprintf(out, " %6s", number->of_recall ? "AR" : number->key);
    }
    fputs("  name\n", out);
    for (size_t k = 0; k < evaluation->result.categories; k++) {
        fprintf(out, "%8lld", (long long)evaluation->result.category_ids[k]);
        for (size_t i = 0; i < numbers->shown; i++) {
            double value;
            kolo_status status = class_number(evaluation, k, numbers->column[i], &value);
            if (status != KOLO_OK)
                return status;
            fprintf(out, " %6.3f", value);
        }
        fputs("  ", out);
        print_name(class_name(evaluation, k), out);
        fputc('\n', out);
    }
    return KOLO_OK;
}

static kolo_status print(const struct eval_evaluation *evaluation, FILE *out)
{
    kolo_status status = KOLO_OK;
    errno = 0;
    for (size_t i = 0; i < numbers_of(evaluation)->count; i++)
        print_number(evaluation, i, out);
    if (evaluation->options->per_class)
        status = print_classes(evaluation, out);
    if (status == KOLO_OK && (fflush(out) != 0 || ferror(out)))
        status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "cannot write to standard output");
    return status;
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

static void put_head(yajl_gen gen, const struct eval_evaluation *evaluation)
{
    const struct eval_options *options = evaluation->options;
    const struct kolo_detection_result *result = &evaluation->result;
    put_pair(gen, "kolo", KOLO_VERSION);
    put_pair(gen, "ground_truth", options->truths);
    put_pair(gen, "results", options->detections);
    put_pair(gen, "iou_type", eval_kind_name(options->kind));
    put_pair(gen, "mode", options->mode == KOLO_DETECTION_FIXED ? "fixed" : "compat");
    put_pair(gen, "numpy", options->mean_rule == KOLO_MEAN_NUMPY_1 ? "1" : "2.3");
    put_text(gen, "max_dets");
    (void)yajl_gen_array_open(gen);
    for (size_t i = 0; i < options->cap_count; i++)
        (void)yajl_gen_integer(gen, options->caps[i]);
    (void)yajl_gen_array_close(gen);
    put_count(gen, "images", result->images);
    put_count(gen, "annotations", result->truths);
    put_count(gen, "detections", (int64_t)evaluation->detections.all);
    put_count(gen, "detections_counted", result->detections);
}

static kolo_status put_arrays(yajl_gen gen, const struct kolo_detection_result *result)
{
    size_t ends = result->thresholds * result->categories * result->areas * result->caps;
    const struct {
        const char *key;
        const double *values;
        size_t count;
    } arrays[] = {{"precision", result->precision, ends * result->recalls},
                  {"recall", result->recall, ends},
                  {"scores", result->scores, ends * result->recalls}};
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
        status = hash(arrays[i].values, arrays[i].count, text);
        if (status == KOLO_OK)
            put_pair(gen, arrays[i].key, text);
    }
    (void)yajl_gen_map_close(gen);
    return status;
}

static kolo_status put_classes(yajl_gen gen, const struct eval_evaluation *evaluation)
{
    put_text(gen, "per_class");
    (void)yajl_gen_array_open(gen);
    for (size_t k = 0; k < evaluation->result.categories; k++) {
        (void)yajl_gen_map_open(gen);
        put_count(gen, "id", evaluation->result.category_ids[k]);
        put_pair(gen, "name", class_name(evaluation, k));
        for (size_t i = 0; i < numbers_of(evaluation)->count; i++) {
            double value;
            kolo_status status = class_number(evaluation, k, i, &value);
            if (status != KOLO_OK)
                return status;
            put_text(gen, numbers_of(evaluation)->number[i].key);
            put_number(gen, value);
        }
        (void)yajl_gen_map_close(gen);
    }
    (void)yajl_gen_array_close(gen);
    return KOLO_OK;
}

static kolo_status generate(yajl_gen gen, const struct eval_evaluation *evaluation)
{
    (void)yajl_gen_config(gen, yajl_gen_beautify, 1);
    (void)yajl_gen_config(gen, yajl_gen_indent_string, " ");
    (void)yajl_gen_map_open(gen);
    put_head(gen, evaluation);
    put_text(gen, "stats");
    (void)yajl_gen_map_open(gen);
    for (size_t i = 0; i < numbers_of(evaluation)->count; i++) {
        put_text(gen, numbers_of(evaluation)->number[i].key);
        put_number(gen, evaluation->result.stats[i]);
    }
    (void)yajl_gen_map_close(gen);
    kolo_status status = put_arrays(gen, &evaluation->result);
    if (status == KOLO_OK)
        status = put_classes(gen, evaluation);
    (void)yajl_gen_map_close(gen);
    return status;
}

static kolo_status write_json(const struct eval_evaluation *evaluation, FILE *out)
{
    yajl_gen gen = yajl_gen_alloc(NULL);
    if (!gen)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "no memory for --json");
    kolo_status status = generate(gen, evaluation);
    const unsigned char *text = NULL;
    size_t bytes = 0;
    if (status == KOLO_OK && yajl_gen_get_buf(gen, &text, &bytes) != yajl_gen_status_ok)
        status = kolo_fail(KOLO_ERR_INTERNAL, "--json: the generator is in no good state");
    if (status == KOLO_OK)
        (void)fwrite(text, 1, bytes, out); /* a failure is seen when it is closed */
    yajl_gen_free(gen);
    return status;
}

/* A target must be writable, and none of the files that are read. */
static kolo_status probe(const struct eval_options *options, const char *option, const char *path)
{
    const char *const read[] = {options->truths, options->detections};
    struct outfile file;
    struct stat target, facts;
    bool is_there = path && stat(path, &target) == 0;
    if (!path)
        return KOLO_OK;
    if (is_there && S_ISDIR(target.st_mode))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, EISDIR, "%s %s", option, path);
    for (size_t i = 0; is_there && i < 2; i++)
        if (stat(read[i], &facts) == 0 && facts.st_dev == target.st_dev &&
            facts.st_ino == target.st_ino)
            return kolo_fail(KOLO_ERR_INVALID, "%s %s: that is the file %s, which is read", option,
                             path, read[i]);
    kolo_status status = outfile_open(&file, option, path);
    if (status == KOLO_OK)
        (void)outfile_close(&file, false);
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

kolo_status eval_report_write(const struct eval_evaluation *evaluation, FILE *out)
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
    KOLO_TRY(print(evaluation, out));
out:
    closed = outfile_close(&plot, status == KOLO_OK);
    status = status == KOLO_OK ? closed : status;
    closed = outfile_close(&json, status == KOLO_OK);
    return status == KOLO_OK ? closed : status;
}
