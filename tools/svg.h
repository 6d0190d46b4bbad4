// SPDX-License-Identifier: Apache-2.0
// A few shapes of SVG, written to a stream. Coordinates are in pixels, y downwards.
#ifndef KOLO_TOOLS_SVG_H
#define KOLO_TOOLS_SVG_H

#include <stddef.h>
#include <stdio.h>

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

void svg_begin(FILE *out, double width, double height);
void svg_end(FILE *out);
void svg_rectangle(FILE *out, double x, double y, double width, double height, const char *stroke);
/** @p dash "" for a solid line. */
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *colour,
              double width, const char *dash);
/** @p points has @p count pairs x, y. */
void svg_path(FILE *out, const double *points, size_t count, const char *colour, double width,
              const char *dash);
void svg_dot(FILE *out, double x, double y, double radius, const char *colour);
/** @p text may be any text; what XML does not allow is escaped or left out. */
void svg_text(FILE *out, double x, double y, double size, enum svg_anchor anchor,
              const char *colour, const char *text);
/** Its approximate width. */
double svg_text_width(double size, const char *text);

#endif
