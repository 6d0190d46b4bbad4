// SPDX-License-Identifier: Apache-2.0
// Polygons known by hand, and random ones against a walk over all points of their borders, as
// pycocotools does it. (oracle/masks.py proves that it does.)
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/mask.h"

static void expect(const double *xy, size_t points, uint32_t height, uint32_t width,
                   const char *rows)
{
    struct kolo_mask mask = {.runs = NULL};
    uint8_t pixels[256];
    cr_assert_eq(kolo_mask_from_polygon(xy, points, height, width, &mask), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(kolo_mask_to_pixels(&mask, true, pixels), KOLO_OK);
    for (size_t i = 0; i < strlen(rows); i++)
        cr_assert_eq(pixels[i] ? '#' : '.', rows[i], "pixel %zu of %s", i, rows);
    kolo_mask_free(&mask);
}

Test(mask_polygon, by_hand)
{
    expect((double[]){1, 1, 1, 3, 3, 3, 3, 1}, 4, 4, 4, ".....##..##.....");
    expect((double[]){0, 0, 0, 4, 4, 4, 4, 0}, 4, 4, 4, "################");
    expect((double[]){-9, -9, -9, 9, 9, 9, 9, -9}, 4, 4, 4, "################");
    expect((double[]){0, 0, 4, 4, 0, 4}, 3, 4, 4, "#...##..###.####");
    expect((double[]){2, 2}, 1, 4, 4, "................");
    expect(NULL, 0, 4, 4, "................");
    expect((double[]){5, 0, 5, 4, 9, 4}, 3, 4, 4, "................");
    /* going around twice leaves nothing */
    expect((double[]){1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1, 3, 3, 3, 3, 1}, 8, 4, 4, "................");
}

Test(mask_polygon, boxes)
{
    struct kolo_mask mask = {.runs = NULL};
    uint32_t area;
    cr_assert_eq(kolo_mask_from_box((double[]){2, 1, 3, 2}, 8, 8, &mask), KOLO_OK);
    cr_assert_eq(kolo_mask_area(&mask, &area), KOLO_OK);
    cr_assert_eq(area, 6);
    cr_assert_eq(mask.runs[0], 2 * 8 + 1);
    cr_assert_eq(kolo_mask_from_box(NULL, 8, 8, &mask), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_from_box((double[]){NAN, 1, 3, 2}, 8, 8, &mask), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "kolo_mask_from_box: corner 0 is nan, 1"), "%s",
              kolo_error_detail());
    cr_assert_eq(kolo_mask_from_box((double[]){2, 1, 3, 2}, 0, 8, &mask), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "kolo_mask_from_box: mask 0"), "%s", kolo_error_detail());
    kolo_mask_free(&mask);
}

Test(mask_polygon, refuses_numbers_that_are_none)
{
    struct kolo_mask mask = {.runs = NULL};
    double xy[] = {0, 0, 4, NAN, 4, 4};
    cr_assert_eq(kolo_mask_from_polygon(xy, 3, 8, 8, &mask), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "corner 1"), "%s", kolo_error_detail());
    xy[3] = 1e9;
    cr_assert_eq(kolo_mask_from_polygon(xy, 3, 8, 8, &mask), KOLO_ERR_INVALID);
    xy[3] = -INFINITY;
    cr_assert_eq(kolo_mask_from_polygon(xy, 3, 8, 8, &mask), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_from_polygon(NULL, 3, 8, 8, &mask), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_from_polygon(xy, 1, 0, 8, &mask), KOLO_ERR_INVALID);
    kolo_mask_free(&mask);
}

/** Back and forth over a wide image: 200,000 corners, 2 * 10^11 steps. */
Test(mask_polygon, refuses_what_goes_to_and_fro_without_end, .timeout = 200)
{
    enum { CORNERS_MANY = 200000, WIDE = 1 << 20 };
    struct kolo_mask mask = {.runs = NULL};
    double *xy = kolo_calloc(2 * CORNERS_MANY, sizeof *xy);
    for (size_t i = 0; i < CORNERS_MANY; i++) {
        xy[2 * i] = i % 2 ? (1 << 28) : -(1 << 28);
        xy[2 * i + 1] = (double)(i % 1000);
    }
    cr_assert_eq(kolo_mask_from_polygon(xy, CORNERS_MANY, 1000, WIDE, &mask), KOLO_ERR_INVALID);
    cr_expect(strstr(kolo_error_detail(), "more than 16777216 times (1000 x 1048576 pixels)"), "%s",
              kolo_error_detail());
    cr_expect(mask.room <= (size_t)4 << 24, "room for %zu runs", mask.room);
    /* in a narrow image long edges take little time */
    cr_expect_eq(kolo_mask_from_polygon(xy, CORNERS_MANY, 1000, 8, &mask), KOLO_OK);
    kolo_mask_free(&mask);
    kolo_free_memory(xy);
}

/* ---- against every point of the border ---- */

enum { SIDE = 40, CORNERS = 9 };

struct border {
    int u[200000], v[200000];
    size_t points;
};

static void walk_edge(struct border *border, const int *from, const int *to)
{
    int dx = abs(to[0] - from[0]), dy = abs(to[1] - from[1]), length = dx >= dy ? dx : dy;
    bool is_turned = dx >= dy ? from[0] > to[0] : from[1] > to[1];
    const int *low = is_turned ? to : from, *high = is_turned ? from : to;
    for (int i = 0; i <= length; i++) {
        int t = is_turned ? length - i : i;
        double rise = dx >= dy ? (double)(high[1] - low[1]) / dx : (double)(high[0] - low[0]) / dy;
        double side = length ? (dx >= dy ? low[1] : low[0]) + rise * t + .5 : low[1];
        border->u[border->points] = dx >= dy ? low[0] + t : (int)side;
        border->v[border->points++] = dx >= dy ? (int)side : low[1] + t;
    }
}

/* 1 for each pixel at which its column changes, plus one for the end. */
static void change(const struct border *border, uint8_t *changes)
{
    for (size_t i = 1; i < border->points; i++) {
        int u = border->u[i], before = border->u[i - 1];
        int v = border->v[i] < border->v[i - 1] ? border->v[i] : border->v[i - 1];
        double x = ((u < before ? u : u - 1) + .5) / 5 - .5, y = (v + .5) / 5 - .5;
        if (u == before || floor(x) != x || x < 0 || x > SIDE - 1)
            continue;
        changes[(int)x * SIDE + (int)ceil(y < 0 ? 0 : y > SIDE ? SIDE : y)] ^= 1;
    }
}

static double coordinate(unsigned *seed, int how)
{
    int n = rand_r(seed) % 1000;
    return how == 0   ? n / 25.
           : how == 1 ? n % (SIDE + 1)
           : how == 2 ? n / 5. - 80
                      : n % 60 / 5. - 2;
}

Test(mask_polygon, as_by_every_point)
{
    static struct border border;
    unsigned seed = 1;
    struct kolo_mask mask = {.runs = NULL};
    for (int round = 0; round < 3000; round++) {
        double xy[2 * CORNERS];
        int fifths[2 * CORNERS + 2], corners = 1 + rand_r(&seed) % CORNERS, how = round % 4;
        for (int i = 0; i < 2 * corners; i++)
            fifths[i] = (int)(5 * (xy[i] = coordinate(&seed, how)) + .5);
        memcpy(fifths + 2 * corners, fifths, 2 * sizeof *fifths);
        border.points = 0;
        for (int i = 0; i < corners; i++)
            walk_edge(&border, fifths + 2 * i, fifths + 2 * i + 2);
        uint8_t changes[SIDE * SIDE + 1] = {0}, pixels[SIDE * SIDE];
        change(&border, changes);
        cr_assert_eq(kolo_mask_from_polygon(xy, (size_t)corners, SIDE, SIDE, &mask), KOLO_OK);
        cr_assert_eq(kolo_mask_to_pixels(&mask, false, pixels), KOLO_OK);
        for (int i = 0, is_in = 0; i < SIDE * SIDE; i++) {
            is_in ^= changes[i];
            cr_assert_eq(pixels[i], is_in, "round %d, pixel %d", round, i);
        }
    }
    kolo_mask_free(&mask);
}

Test(mask_polygon, to_and_fro_takes_no_more_memory_than_the_image)
{
    enum { MANY = 100001 };
    double *xy = kolo_calloc((size_t)MANY * 2, sizeof *xy);
    struct kolo_mask mask = {.runs = NULL};
    for (size_t i = 0; i < MANY; i++) {
        xy[2 * i] = i % 2 ? 20 : 0;
        xy[2 * i + 1] = (double)(i % 7);
    }
    cr_assert_eq(kolo_mask_from_polygon(xy, MANY, 10, 20, &mask), KOLO_OK);
    cr_assert_eq(kolo_mask_check(&mask), KOLO_OK);
    cr_assert_lt(mask.room, 4096);
    kolo_free_memory(xy);
    kolo_mask_free(&mask);
}

Test(mask_polygon, without_memory)
{
    const double xy[] = {1, 1, 1, 3, 3, 3, 3, 1};
    struct kolo_mask mask = {.runs = NULL};
    kolo_alloc_fail_nth(1);
    kolo_status status = kolo_mask_from_polygon(xy, 4, 4, 4, &mask);
    kolo_alloc_fail_nth(0);
    cr_assert_eq(status, KOLO_ERR_NO_MEMORY);
    cr_assert_eq(mask.count, 0);
    kolo_mask_free(&mask);
}
