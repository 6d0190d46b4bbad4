// SPDX-License-Identifier: Apache-2.0
// The command line of kolo-coco, see options.h. All ranks get the same words, so only rank 0
// reports mistakes in them.
#include "evaluate/options.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/version.h>

#include "base/settings.h"
#include "tools/job.h"

enum {
    USAGE = 2,
    JSON = 256,
    PLOT,
    PER_CLASS,
    IOU_TYPE,
    MODE,
    NUMPY,
    MAX_DETS,
    ANY,
    SKIP,
    RULES,
    AREAS,
    THRESHOLDS,
    THRESHOLD_MODE,
    SIGMAS,
    PIXELS,
    VERBOSE,
    VERSION
};

static const struct option table[] = {{"iou-type", required_argument, NULL, IOU_TYPE},
                                      {"rules", required_argument, NULL, RULES},
                                      {"json", required_argument, NULL, JSON},
                                      {"plot", required_argument, NULL, PLOT},
                                      {"per-class", no_argument, NULL, PER_CLASS},
                                      {"max-dets", required_argument, NULL, MAX_DETS},
                                      {"areas", required_argument, NULL, AREAS},
                                      {"iou-thresholds", required_argument, NULL, THRESHOLDS},
                                      {"threshold-mode", required_argument, NULL, THRESHOLD_MODE},
                                      {"sigmas", required_argument, NULL, SIGMAS},
                                      {"pixel-boxes", no_argument, NULL, PIXELS},
                                      {"any-category", no_argument, NULL, ANY},
                                      {"mode", required_argument, NULL, MODE},
                                      {"numpy", required_argument, NULL, NUMPY},
                                      {"skip-unknown", no_argument, NULL, SKIP},
                                      {"verbose", no_argument, NULL, VERBOSE},
                                      {"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, VERSION},
                                      {NULL, 0, NULL, 0}};

static const char help[] =
    "usage: kolo-coco GT.json DT.json [options]\n"
    "       kolorun -np N kolo-coco GT.json DT.json [options]\n"
    "Prints COCO's average precision and recall of the detections DT.json against the ground "
    "truth\n"
    "GT.json, byte-identical to pycocotools' for any number of ranks. Files may be gzipped.\n"
    "  --iou-type TYPE     bbox (the default), segm or keypoints\n"
    "  --rules RULES       coco (the default); lvis: as the lvis package; voc: PASCAL VOC's "
    "average\n"
    "                      precision at 11 recalls (2007) and under the curve (2010 on)\n"
    "  --json FILE         write all numbers, those of each class, and SHA-256 of the arrays\n"
    "  --plot FILE.svg     draw precision over recall, by IoU threshold and by category\n"
    "  --per-class         also print a line for each category\n"
    "  --max-dets A,B,C    detections counted per image and category (1,10,100; keypoints: 20;\n"
    "                      lvis: per image, 300; voc: all)\n"
    "  --areas A,B         where medium and large objects begin, in pixels (1024,9216)\n"
    "  --iou-thresholds T  overlaps that a match needs, by commas (0.5,0.55 to 0.95; voc: 0.5)\n"
    "  --threshold-mode M  how default thresholds and recalls are computed: numpy64 (the "
    "default),\n"
    "                      as pycocotools; torch32, in float32 as TorchMetrics with PyTorch 2;\n"
    "                      torch32-v1, with an older PyTorch\n"
    "  --sigmas LIST|FILE  tolerance of each keypoint, or one for all (COCO's 17 of persons)\n"
    "  --any-category      match boxes whatever their category is (useCats = 0); with\n"
    "                      --max-dets 100,300,1000 the last lines are the recall of proposals\n"
    "  --pixel-boxes       voc: a width is right - left, and both pixels belong to the box\n"
    "  --mode MODE         compat (the default): as pycocotools; fixed: without its peculiarities\n"
    "  --numpy VERSION     the NumPy whose mean decides last bits: 2.3 (and later, the default) or "
    "1\n"
    "  --skip-unknown      leave out what has a category or image that GT.json does not list, as\n"
    "                      pycocotools does (a detection of such an image stays an error)\n"
    "  --verbose           report on standard error what was read, and images without detections\n"
    "  --help, --version   print this text, or the version\n";

static int refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    job_complain_args("kolo-coco", format, args);
    va_end(args);
    return USAGE;
}

static int say(const char *text)
{
    if (job_speaks())
        fputs(text, stdout);
    return 0;
}

static const char *const kinds[] = {[KOLO_DETECTION_BOXES] = "bbox",
                                    [KOLO_DETECTION_MASKS] = "segm",
                                    [KOLO_DETECTION_KEYPOINTS] = "keypoints"};

const char *eval_kind_name(kolo_detection_kind kind)
{
    return kinds[kind];
}

static int take_type(struct eval_options *options, const char *value)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(value, kinds[i]) == 0)
            options->kind = (kolo_detection_kind)i;
    if (strcmp(value, kinds[options->kind]) != 0)
        return refuse("--iou-type %s: unknown; use bbox, segm or keypoints", value);
    return EVAL_GO_ON;
}

static const char *const rules[] = {
    [KOLO_DETECTION_COCO] = "coco", [KOLO_DETECTION_LVIS] = "lvis", [KOLO_DETECTION_VOC] = "voc"};

const char *eval_rules_name(kolo_detection_rules which)
{
    return rules[which];
}

static int take_rules(struct eval_options *options, const char *value)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(value, rules[i]) == 0)
            options->rules = (kolo_detection_rules)i;
    if (strcmp(value, rules[options->rules]) != 0)
        return refuse("--rules %s: unknown; use coco, lvis or voc", value);
    return EVAL_GO_ON;
}

static int take_file(const char *option, const char *value, const char **path_out)
{
    if (!*value)
        return refuse("%s '': give the name of a file", option);
    *path_out = value;
    return EVAL_GO_ON;
}

static int take_mode(struct eval_options *options, const char *value)
{
    if (strcmp(value, "compat") != 0 && strcmp(value, "fixed") != 0)
        return refuse("--mode %s: unknown; use compat or fixed", value);
    options->mode = value[0] == 'f' ? KOLO_DETECTION_FIXED : KOLO_DETECTION_COMPAT;
    return EVAL_GO_ON;
}

static int take_numpy(struct eval_options *options, const char *value)
{
    if (strcmp(value, "2.3") != 0 && strcmp(value, "1") != 0)
        return refuse("--numpy %s: unknown; use 2.3 or 1", value);
    options->mean_rule = value[0] == '1' ? KOLO_MEAN_NUMPY_1 : KOLO_MEAN_NUMPY_2_3;
    return EVAL_GO_ON;
}

static const char *const threshold_modes[] = {[KOLO_THRESHOLDS_NUMPY64] = "numpy64",
                                              [KOLO_THRESHOLDS_TORCH32] = "torch32",
                                              [KOLO_THRESHOLDS_TORCH32_V1] = "torch32-v1"};

const char *eval_threshold_mode_name(kolo_threshold_mode mode)
{
    return threshold_modes[mode];
}

static int take_threshold_mode(struct eval_options *options, const char *value)
{
    for (size_t i = 0; i < sizeof threshold_modes / sizeof threshold_modes[0]; i++)
        if (strcmp(value, threshold_modes[i]) == 0) {
            options->threshold_mode = (kolo_threshold_mode)i;
            return EVAL_GO_ON;
        }
    return refuse("--threshold-mode %s: unknown; use numpy64, torch32 or torch32-v1", value);
}

/* A single number is for keypoints, and for rules that have one cap; COCO's rules have three. */
static int take_caps(struct eval_options *options, const char *value)
{
    bool is_points = options->kind == KOLO_DETECTION_KEYPOINTS;
    bool is_one = is_points || options->rules != KOLO_DETECTION_COCO;
    const char *usual = options->rules == KOLO_DETECTION_LVIS  ? "300"
                        : options->rules == KOLO_DETECTION_VOC ? "100"
                        : is_points                            ? "20"
                                                               : "1,10,100";
    const char *text = value ? value : usual, *at = text;
    if (!value && options->rules == KOLO_DETECTION_VOC)
        return EVAL_GO_ON;
    options->cap_count = is_one ? 1 : EVAL_CAPS;
    for (size_t i = 0; i < options->cap_count; i++) {
        char *end;
        long cap = strtol(at, &end, 10);
        if (end == at || cap < 1 || cap > KOLO_DETECTION_CAP_MAX ||
            (i > 0 && cap <= options->caps[i - 1]) ||
            *end != (i + 1 < options->cap_count ? ',' : '\0'))
            return refuse("--max-dets %s: give %s from 1 to %d, as %s", text,
                          is_one ? "one number" : "three ascending numbers", KOLO_DETECTION_CAP_MAX,
                          usual);
        options->caps[i] = (int)cap;
        at = end + 1;
    }
    return EVAL_GO_ON;
}

/* Parses ascending positive numbers, separated by commas. @return their number; 0: it is not such a
 * list. */
static size_t read_numbers(const char *text, double *numbers, size_t most)
{
    size_t count = 0;
    for (const char *at = text; count < most; at++) {
        char *end;
        numbers[count] = strtod(at, &end);
        if (end == at || !isfinite(numbers[count]) ||
            !(numbers[count] > (count > 0 ? numbers[count - 1] : 0)))
            return 0;
        count++;
        if (*end != ',')
            return *end ? 0 : count;
        at = end;
    }
    return 0;
}

static int take_areas(struct eval_options *options, const char *value)
{
    const double all = 1e10; /* pycocotools' */
    double border[EVAL_AREA_BORDERS];
    bool is_points = options->kind == KOLO_DETECTION_KEYPOINTS;
    size_t count = 0;
    if (!value)
        return EVAL_GO_ON;
    if (options->rules == KOLO_DETECTION_VOC)
        return refuse("--areas %s: --rules voc has no ranges of area", value);
    if (read_numbers(value, border, EVAL_AREA_BORDERS) != EVAL_AREA_BORDERS || border[1] >= all)
        return refuse("--areas %s: give two ascending numbers above 0 and below 1e10, as 1024,9216",
                      value);
    options->areas[count++] = (struct kolo_area_range){0, all};
    if (!is_points)
        options->areas[count++] = (struct kolo_area_range){0, border[0]};
    options->areas[count++] = (struct kolo_area_range){border[0], border[1]};
    options->areas[count++] = (struct kolo_area_range){border[1], all};
    options->area_count = count;
    return EVAL_GO_ON;
}

static int take_thresholds(struct eval_options *options, const char *value)
{
    enum { MOST = 10 }; /* each of 4 area ranges has a flag */
    if (!value)
        return EVAL_GO_ON;
    size_t count = read_numbers(value, options->thresholds, MOST);
    if (count == 0 || options->thresholds[count - 1] > 1)
        return refuse("--iou-thresholds %s: give 1 to %d ascending numbers above 0 up to 1, as "
                      "0.5,0.75",
                      value, MOST);
    options->threshold_count = count;
    return EVAL_GO_ON;
}

/* Checks what depends on more than one option. */
static int take_lists(struct eval_options *options)
{
    if (options->rules != KOLO_DETECTION_COCO && options->kind == KOLO_DETECTION_KEYPOINTS)
        return refuse("--rules %s is for bbox and segm; keypoints have COCO's",
                      rules[options->rules]);
    if (options->sigmas && options->kind != KOLO_DETECTION_KEYPOINTS)
        return refuse("--sigmas belongs to --iou-type keypoints");
    if (options->pixel_boxes &&
        (options->rules != KOLO_DETECTION_VOC || options->kind != KOLO_DETECTION_BOXES))
        return refuse("--pixel-boxes belongs to --rules voc and --iou-type bbox");
    int exit_status = take_caps(options, options->max_dets);
    if (exit_status == EVAL_GO_ON)
        exit_status = take_areas(options, options->area_list);
    if (exit_status == EVAL_GO_ON)
        exit_status = take_thresholds(options, options->threshold_list);
    return exit_status;
}

/* Reports a word that getopt_long() refuses. @p word is the one before the next, except for a
 * letter with more characters after it. */
static int refuse_option(const char *word)
{
    if (optopt == 'h' || optopt >= JSON) /* long options that are known */
        return refuse("option %s: it takes no value; try --help", word);
    if (optopt != 0) /* a letter; one of several bytes may be negative */
        return refuse("unknown option -%c; try --help",
                      optopt > ' ' && optopt < 127 ? optopt : '?');
    return refuse("unknown option %s; try --help", word);
}

static int take(struct eval_options *options, int option, const char *word)
{
    switch (option) {
    case IOU_TYPE:
        return take_type(options, optarg);
    case MODE:
        return take_mode(options, optarg);
    case NUMPY:
        return take_numpy(options, optarg);
    case THRESHOLD_MODE:
        return take_threshold_mode(options, optarg);
    case RULES:
        return take_rules(options, optarg);
    case AREAS:
        options->area_list = optarg;
        return EVAL_GO_ON;
    case THRESHOLDS:
        options->threshold_list = optarg;
        return EVAL_GO_ON;
    case SIGMAS:
        options->sigmas = optarg;
        return EVAL_GO_ON;
    case VERBOSE:
        options->verbose = true;
        return EVAL_GO_ON;
    case PIXELS:
        options->pixel_boxes = true;
        return EVAL_GO_ON;
    case MAX_DETS:
        options->max_dets = optarg;
        return EVAL_GO_ON;
    case JSON:
        return take_file("--json", optarg, &options->json);
    case PLOT:
        return take_file("--plot", optarg, &options->plot);
    case PER_CLASS:
        options->per_class = true;
        return EVAL_GO_ON;
    case ANY:
        options->any_category = true;
        return EVAL_GO_ON;
    case SKIP:
        options->skip_unknown = true;
        return EVAL_GO_ON;
    case 'h':
        return say(help);
    case VERSION:
        return say("kolo-coco " KOLO_VERSION "\n");
    case ':':
        return refuse("option %s needs a value; try --help", word);
    default:
        return refuse_option(word);
    }
}

int eval_options_parse(int argc, char **argv, struct eval_options *options)
{
    *options = (struct eval_options){.truths = NULL};
    opterr = 0;
    int at, exit_status = EVAL_GO_ON;
    while (exit_status == EVAL_GO_ON && (at = getopt_long(argc, argv, ":h", table, NULL)) != -1)
        exit_status = take(options, at, argv[optind - 1]);
    if (exit_status != EVAL_GO_ON)
        return exit_status;
    if (argc - optind != 2)
        return refuse("%d file%s given; give two: ground truth and results; try --help",
                      argc - optind, argc - optind == 1 ? "" : "s");
    options->truths = argv[optind];
    options->detections = argv[optind + 1];
    if (!options->truths[0] || !options->detections[0])
        return refuse("the name of the %s is empty; try --help",
                      options->truths[0] ? "results" : "ground truth");
    return take_lists(options);
}
