// SPDX-License-Identifier: Apache-2.0
// See plot.h. Two fields of curves: the mean over the categories at each IoU threshold, and the
// mean over the thresholds for each category; if there are many categories, only the best and the
// worst are named. All are for area range "all" and the last cap; values of -1 are left out of
// means.
#include "evaluate/plot.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "evaluate/summary.h"
#include "tools/svg.h"

enum {
    WIDTH = 800,
    LEFT = 64,
    FIELD_WIDTH = 460,
    FIELD_HEIGHT = 330,
    TOP = 44,
    FIELD_HEAD = 30,
    FIELD_FOOT = 46,
    LEGEND = LEFT + FIELD_WIDTH + 22, /* left side of the legend */
    LEGEND_LINE = 19,
    STEPS = 5, /* of an axis */
    NAMED = 10,
    NAME_BYTES = 24,
};

static const double small = 11, normal = 12, large = 15;
static const char ink[] = "#222222", faint[] = "#dddddd", frame[] = "#888888", other[] = "#bbbbbb";
static const char *const colours[NAMED] = {"#440154", "#482878", "#3e4989", "#31688e", "#26828e",
                                           "#1f9e89", "#35b779", "#6ece58", "#b5a800", "#e07b00"};

/* One curve: a mean over several of the result's curves, and the mean of its points. */
struct curve {
    double *precision; /* per recall */
    double mean;       /* -1: there is none */
    size_t place;      /* index of its threshold or category */
};

struct picture {
    const struct eval_evaluation *evaluation;
    FILE *out;
    double *values, *points; /* of all curves; of one */
    struct curve *curves;
    double top; /* of the current field */
};

/* Adds the precision at a threshold and a category, if there is any. */
static size_t add(const struct kolo_detection_result *result, size_t t, size_t k, double *sums)
{
    size_t stride = result->areas * result->caps, last = result->caps - 1;
    const double *first =
        result->precision + ((t * result->recalls * result->categories + k) * stride + last);
    if (first[0] < 0)
        return 0;
    for (size_t r = 0; r < result->recalls; r++)
        sums[r] += first[r * result->categories * stride];
    return 1;
}

static void average(const struct kolo_detection_result *result, struct curve *curve, size_t count)
{
    curve->mean = count > 0 ? 0 : -1;
    for (size_t r = 0; r < result->recalls && count > 0; r++) {
        curve->precision[r] /= (double)count;
        curve->mean += curve->precision[r] / (double)result->recalls;
    }
}

static void make_curves(struct picture *picture, size_t count, bool by_category)
{
    const struct kolo_detection_result *result = &picture->evaluation->result;
    memset(picture->values, 0, count * result->recalls * sizeof *picture->values);
    for (size_t i = 0; i < count; i++) {
        struct curve *curve = &picture->curves[i];
        size_t added = 0;
        *curve = (struct curve){.precision = picture->values + i * result->recalls, .place = i};
        for (size_t j = 0; j < (by_category ? result->thresholds : result->categories); j++)
            added += by_category ? add(result, j, i, curve->precision)
                                 : add(result, i, j, curve->precision);
        average(result, curve, added);
    }
}

static void draw_axes(const struct picture *picture, const char *head)
{
    double bottom = picture->top + (double)FIELD_HEIGHT;
    for (int i = 0; i <= STEPS; i++) {
        double part = (double)i / (double)STEPS, x = (double)LEFT + part * (double)FIELD_WIDTH,
               y = bottom - part * (double)FIELD_HEIGHT;
        char text[16];
        (void)snprintf(text, sizeof text, "%.1f", part);
        svg_line(picture->out, x, picture->top, x, bottom, faint, 1, "");
        svg_line(picture->out, LEFT, y, LEFT + FIELD_WIDTH, y, faint, 1, "");
        svg_text(picture->out, x, bottom + 16, small, SVG_MIDDLE, ink, text);
        svg_text(picture->out, LEFT - 6, y + small * 0.35, small, SVG_END, ink, text);
    }
    svg_rectangle(picture->out, LEFT, picture->top, FIELD_WIDTH, FIELD_HEIGHT, frame);
    svg_text(picture->out, LEFT, picture->top - 10, normal, SVG_START, ink, head);
    svg_text(picture->out, (double)LEFT + (double)FIELD_WIDTH / 2.0, bottom + 33, small, SVG_MIDDLE,
             ink, "recall; upwards: precision");
}

static void draw_curve(const struct picture *picture, const struct curve *curve, const char *colour,
                       double width)
{
    size_t count = picture->evaluation->result.recalls;
    for (size_t r = 0; r < count; r++) { /* recalls are 0, 0.01, ..., 1 */
        picture->points[2 * r] =
            (double)LEFT + (double)FIELD_WIDTH * (double)r / (double)(count - 1);
        picture->points[2 * r + 1] =
            picture->top + (double)FIELD_HEIGHT * (1 - curve->precision[r]);
    }
    svg_path(picture->out, picture->points, count, colour, width, "");
}

static void draw_legend(const struct picture *picture, size_t line, const char *colour,
                        const char *text)
{
    double y = picture->top + 8 + (double)line * (double)LEGEND_LINE;
    svg_line(picture->out, LEGEND, y, LEGEND + 22, y, colour, 2, "");
    svg_text(picture->out, LEGEND + 28, y + small * 0.35, small, SVG_START, ink, text);
}

static void draw_thresholds(struct picture *picture)
{
    const struct kolo_detection_result *result = &picture->evaluation->result;
    make_curves(picture, result->thresholds, false);
    draw_axes(picture, "by IoU threshold, mean over the categories");
    for (size_t t = 0; t < result->thresholds; t++) {
        const struct curve *curve = &picture->curves[t];
        char text[64];
        if (curve->mean < 0)
            continue;
        draw_curve(picture, curve, colours[t % NAMED], 2);
        (void)snprintf(text, sizeof text, "%s %.2f: AP %.3f",
                       picture->evaluation->options->kind == KOLO_DETECTION_KEYPOINTS ? "OKS"
                                                                                      : "IoU",
                       eval_summary_threshold(picture->evaluation, t), curve->mean);
        draw_legend(picture, t, colours[t % NAMED], text);
    }
}

/* The best first; categories without ground truth last; equal ones in their order. */
static int by_mean(const void *a, const void *b)
{
    const struct curve *x = a, *y = b;
    if (x->mean < y->mean || x->mean > y->mean)
        return x->mean < y->mean ? 1 : -1;
    return (x->place > y->place) - (x->place < y->place);
}

static void category_words(const struct picture *picture, const struct curve *curve, char *text,
                           size_t room)
{
    const struct eval_evaluation *evaluation = picture->evaluation;
    const char *name = evaluation->options->any_category
                           ? "any category"
                           : evaluation->truths.category[curve->place].name;
    char id[32];
    (void)snprintf(id, sizeof id, "%lld", (long long)evaluation->result.category_ids[curve->place]);
    name = name && *name ? name : id;
    size_t length = strlen(name);
    if (length > NAME_BYTES) /* not in the middle of a letter */
        for (length = NAME_BYTES; length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80;)
            length--;
    (void)snprintf(text, room, "%.*s: AP %.3f", (int)length, name, curve->mean);
}

static void draw_categories(struct picture *picture)
{
    size_t count = picture->evaluation->result.categories, some = 0, line = 0;
    make_curves(picture, count, true);
    qsort(picture->curves, count, sizeof *picture->curves, by_mean);
    while (some < count && picture->curves[some].mean >= 0)
        some++;
    draw_axes(picture, some > NAMED
                           ? "by category, mean over the IoU thresholds; best and worst named"
                           : "by category, mean over the IoU thresholds");
    for (size_t i = NAMED / 2; some > NAMED && i < some - NAMED / 2; i++)
        draw_curve(picture, &picture->curves[i], other, 0.8);
    for (size_t i = 0; i < some; i++) {
        char text[128];
        if (some > NAMED && i >= NAMED / 2 && i < some - NAMED / 2)
            continue;
        draw_curve(picture, &picture->curves[i], colours[line], 2);
        category_words(picture, &picture->curves[i], text, sizeof text);
        draw_legend(picture, line + (some > NAMED && i >= NAMED / 2), colours[line], text);
        line++;
    }
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void draw(struct picture *picture)
{
    const struct eval_evaluation *evaluation = picture->evaluation;
    double field = FIELD_HEAD + FIELD_HEIGHT + FIELD_FOOT;
    char title[512];
    svg_begin(picture->out, WIDTH, (double)TOP + 2 * field);
    (void)snprintf(title, sizeof title, "%.60s on %.60s: AP %.3f",
                   last_part(evaluation->options->detections),
                   last_part(evaluation->options->truths), evaluation->result.stats[0]);
    svg_text(picture->out, LEFT, 26, large, SVG_START, ink, title);
    picture->top = TOP + FIELD_HEAD;
    draw_thresholds(picture);
    picture->top += field;
    draw_categories(picture);
    svg_end(picture->out);
}

kolo_status eval_plot_write(const struct eval_evaluation *evaluation, FILE *out)
{
    const struct kolo_detection_result *result = &evaluation->result;
    size_t most = result->categories > result->thresholds ? result->categories : result->thresholds;
    struct picture picture = {.evaluation = evaluation,
                              .out = out,
                              .values = kolo_calloc(most * result->recalls, sizeof(double)),
                              .points = kolo_calloc(2 * result->recalls, sizeof(double)),
                              .curves = kolo_calloc(most, sizeof *picture.curves)};
    bool ok = picture.values && picture.points && picture.curves;
    if (ok)
        draw(&picture);
    kolo_free_memory(picture.values);
    kolo_free_memory(picture.points);
    kolo_free_memory(picture.curves);
    return ok ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}
