// SPDX-License-Identifier: Apache-2.0
// The command line of kolo-coco, see options.h. All ranks are given the same words, so rank 0 alone
// speaks of mistakes in them.
#include "evaluate/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/version.h>

#include "base/settings.h"

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
    VERSION
};

static const struct option table[] = {
    {"iou-type", required_argument, NULL, IOU_TYPE}, {"json", required_argument, NULL, JSON},
    {"plot", required_argument, NULL, PLOT},         {"per-class", no_argument, NULL, PER_CLASS},
    {"max-dets", required_argument, NULL, MAX_DETS}, {"any-category", no_argument, NULL, ANY},
    {"mode", required_argument, NULL, MODE},         {"numpy", required_argument, NULL, NUMPY},
    {"skip-unknown", no_argument, NULL, SKIP},       {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, VERSION},         {NULL, 0, NULL, 0}};

static const char help[] =
    "usage: kolo-coco GT.json DT.json [options]\n"
    "       kolorun -np N kolo-coco GT.json DT.json [options]\n"
    "COCO's average precision and recall of the results DT.json on the ground truth GT.json, with\n"
    "pycocotools' bits at any number of ranks. Files may be gzipped.\n"
    "  --iou-type TYPE     bbox (the default), segm or keypoints\n"
    "  --json FILE         write all numbers, those of each class, and SHA-256 of the arrays\n"
    "  --plot FILE.svg     draw precision over recall, by IoU threshold and by category\n"
    "  --per-class         a line for each category\n"
    "  --max-dets A,B,C    detections counted per image and category (1,10,100; keypoints: 20)\n"
    "  --any-category      boxes match whatever their category is (useCats = 0)\n"
    "  --mode MODE         compat: as pycocotools; fixed: without its peculiarities\n"
    "  --numpy VERSION     the NumPy whose mean decides last bits: 2.3 (and later) or 1 (before)\n"
    "  --skip-unknown      leave out what is of a category or image that GT.json does not list,\n"
    "                      as pycocotools does (a detection of such an image stays an error)\n"
    "  --help, --version   say so and end\n";

bool eval_speaks(void)
{
    const char *rank = kolo_environment("KOLO_RANK");
    return !rank || strcmp(rank, "0") == 0;
}

static int refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int refuse(const char *format, ...)
{
    va_list args;
    if (!eval_speaks())
        return USAGE;
    fputs("kolo-coco: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return USAGE;
}

static int say(const char *text)
{
    return eval_speaks() && (fputs(text, stdout) < 0 || fflush(stdout) != 0);
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

/* @p value NULL: pycocotools' caps of the kind. */
static int take_caps(struct eval_options *options, const char *value)
{
    bool is_points = options->kind == KOLO_DETECTION_KEYPOINTS;
    const char *usual = is_points ? "20" : "1,10,100", *text = value ? value : usual, *at = text;
    options->cap_count = is_points ? 1 : EVAL_CAPS;
    for (size_t i = 0; i < options->cap_count; i++) {
        char *end;
        long cap = strtol(at, &end, 10);
        if (end == at || cap < 1 || cap > KOLO_DETECTION_CAP_MAX ||
            (i > 0 && cap <= options->caps[i - 1]) ||
            *end != (i + 1 < options->cap_count ? ',' : '\0'))
            return refuse("--max-dets %s: give %s from 1 to %d, as %s", text,
                          is_points ? "one number" : "three ascending numbers",
                          KOLO_DETECTION_CAP_MAX, usual);
        options->caps[i] = (int)cap;
        at = end + 1;
    }
    return EVAL_GO_ON;
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
    case MAX_DETS:
        options->max_dets = optarg;
        return EVAL_GO_ON;
    case JSON:
        options->json = optarg;
        return EVAL_GO_ON;
    case PLOT:
        options->plot = optarg;
        return EVAL_GO_ON;
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
        return refuse("unknown option %s; try --help", word);
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
    return take_caps(options, options->max_dets);
}
