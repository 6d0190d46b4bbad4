// SPDX-License-Identifier: Apache-2.0
// Random numbers come from SplitMix64 of (seed, image). Arithmetic uses + - * /, floor, ldexp and a
// polynomial, but no function of libm that rounds differently elsewhere. The distribution follows
// COCO's: seven ground truths per image, log-normal sizes, one category with 30 %, 1.2 % crowds. A
// large object is found more often than a small one, up to four times; the rest is background.
#include "bench/coco_data.h"

#include <math.h>
#include <string.h>

static uint64_t next_bits(uint64_t *state)
{
    uint64_t bits = *state += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

/* [0, 1) */
static double uniform(uint64_t *state)
{
    return (double)(next_bits(state) >> 11) * 0x1p-53;
}

/* Approximately normal: mean 0, deviation 1. */
static double normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform(state);
    return sum;
}

/* Approximately 2^x; exact at whole numbers. */
static double power_of_2(double x)
{
    double whole = floor(x), f = x - whole;
    double rest = 1 + f * (0.6951786 + f * (0.2275734 + f * 0.0772480));
    return ldexp(rest, (int)whole);
}

static int64_t category(uint64_t *state)
{
    double left = uniform(state);
    if (left < 0.30)
        return 1;
    left = (left - 0.30) / 0.70 * 3.0; /* the sum of 1 / (k + 3) over the other 79 */
    for (int k = 1; k < COCO_DATA_CATEGORIES - 1; k++) {
        left -= 1.0 / (k + 3);
        if (left < 0)
            return k + 1;
    }
    return COCO_DATA_CATEGORIES;
}

static void make_truth(struct coco_image *out, int g, const int64_t *palette, int colours,
                       uint64_t *state)
{
    double area = power_of_2(10.773 + 3.397 * normal(state));
    double aspect = power_of_2(0.7 * normal(state));
    double w = sqrt(area * aspect), h = w / aspect;
    w = w < 2 ? 2 : w > 640 ? 640 : w;
    h = h < 2 ? 2 : h > 480 ? 480 : h;
    double *box = out->truth_box + 4 * g;
    box[0] = uniform(state) * (640 - w);
    box[1] = uniform(state) * (480 - h);
    box[2] = w;
    box[3] = h;
    out->truth_area[g] = w * h * (0.45 + 0.5 * uniform(state));
    if (uniform(state) < 0.01)
        out->truth_area[g] = 1024;
    out->truth_crowd[g] = uniform(state) < 0.012;
    out->truth_category[g] = palette[next_bits(state) % (uint64_t)colours];
}

static double score_of(const struct coco_data *data, double score)
{
    score = score < 0.001 ? 0.001 : score > 0.999 ? 0.999 : score;
    return data->has_few_digits ? floor(score * 1000) / 1000 : (double)(float)score;
}

static void add(const struct coco_data *data, struct coco_image *out, const double *box,
                int64_t of_category, double score)
{
    memcpy(out->box + 4 * out->found, box, 4 * sizeof *box);
    out->category[out->found] = of_category;
    out->score[out->found++] = score_of(data, score);
}

/* Up to four detections of a ground truth that is found, each further off. */
static void find(const struct coco_data *data, struct coco_image *out, int g, uint64_t *state)
{
    double area = out->truth_area[g];
    double chance = area < 1024 ? 0.62 : area < 9216 ? 0.88 : 0.96;
    if (uniform(state) >= chance)
        return;
    int copies = 1 + (int)(next_bits(state) % 4);
    for (int i = 0; i < copies && out->found < data->found; i++) {
        const double *truth = out->truth_box + 4 * g;
        double off = 0.03 + 0.12 * i * uniform(state);
        double box[4] = {
            truth[0] + truth[2] * off * normal(state), truth[1] + truth[3] * off * normal(state),
            truth[2] * power_of_2(off * normal(state)), truth[3] * power_of_2(off * normal(state))};
        int64_t of = uniform(state) < 0.08 ? category(state) : out->truth_category[g];
        add(data, out, box, of, 0.95 - 1.6 * off - 0.3 * uniform(state));
    }
}

void coco_data_make(const struct coco_data *data, uint64_t image, struct coco_image *out)
{
    uint64_t state = data->seed * UINT64_C(0xd1342543de82ef95) + image;
    state = next_bits(&state);
    int64_t palette[7];
    int colours = 1 + (int)(next_bits(&state) % 7);
    for (int i = 0; i < colours; i++)
        palette[i] = category(&state);
    double many = 1 + floor(power_of_2(2.2 + 1.25 * normal(&state)));
    out->truths = many > COCO_DATA_TRUTHS_MAX ? COCO_DATA_TRUTHS_MAX : (int)many;
    if (uniform(&state) < 0.01)
        out->truths = 0;
    out->found = 0;
    for (int g = 0; g < out->truths; g++)
        make_truth(out, g, palette, colours, &state);
    for (int g = 0; g < out->truths; g++)
        find(data, out, g, &state);
    while (out->found < data->found) {
        double u = uniform(&state), side = power_of_2(5 + 1.5 * normal(&state));
        double box[4] = {uniform(&state) * 600, uniform(&state) * 440, side,
                         side * power_of_2(0.5 * normal(&state))};
        int64_t of = uniform(&state) < 0.7 ? palette[next_bits(&state) % (uint64_t)colours]
                                           : category(&state);
        add(data, out, box, of, 0.001 + 0.45 * u * u * u * u);
    }
}

void coco_data_draw(const double *box, uint64_t seed, double corners[2 * COCO_DATA_CORNERS])
{
    for (int i = 0; i < COCO_DATA_CORNERS; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double radius = 0.38 + 0.12 * (double)(seed >> 40) / (1 << 24);
        double angle = 2 * 3.14159265358979 * i / COCO_DATA_CORNERS;
        corners[2 * i] = box[0] + box[2] * (0.5 + radius * cos(angle));
        corners[2 * i + 1] = box[1] + box[3] * (0.5 + radius * sin(angle));
    }
}

void coco_data_pose(const double *box, uint64_t seed, double points[3 * COCO_DATA_POINTS])
{
    uint64_t state = seed;
    for (int i = 0; i < COCO_DATA_POINTS; i++) {
        uint64_t bits = next_bits(&state);
        points[3 * i] = box[0] + box[2] * (0.1 + 0.8 * (i % 5) / 4);
        points[3 * i + 1] = box[1] + box[3] * (i + 0.5) / COCO_DATA_POINTS;
        points[3 * i + 2] = bits % 4 == 0 ? 0 : 2;
    }
}
