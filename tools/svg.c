// SPDX-License-Identifier: Apache-2.0
// Writes SVG, see svg.h. The reader's fonts are not known, so widths are estimates on the safe
// side.
#include "tools/svg.h"

#include <stdbool.h>
#include <string.h>

#include "tools/letters.h"

void svg_begin(FILE *out, double width, double height)
{
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            width, height, width, height);
}

void svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

void svg_rectangle(FILE *out, double x, double y, double width, double height, const char *stroke)
{
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
            "stroke=\"%s\"/>\n",
            x, y, width, height, stroke);
}

static void dashes(FILE *out, const char *dash)
{
    if (*dash)
        fprintf(out, " stroke-dasharray=\"%s\"", dash);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *colour,
              double width, const char *dash)
{
    fprintf(out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%.1f\"",
            x1, y1, x2, y2, colour, width);
    dashes(out, dash);
    fputs("/>\n", out);
}

void svg_path(FILE *out, const double *points, size_t count, const char *colour, double width,
              const char *dash)
{
    fputs("<polyline points=\"", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%.1f,%.1f", i ? " " : "", points[2 * i], points[2 * i + 1]);
    fprintf(out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linejoin=\"round\"",
            colour, width);
    dashes(out, dash);
    fputs("/>\n", out);
}

void svg_dot(FILE *out, double x, double y, double radius, const char *colour)
{
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius,
            colour);
}

/* U+FFFE and U+FFFF, which XML does not allow. */
static bool is_no_character(const char *text)
{
    return memcmp(text, "\xef\xbf\xbe", 3) == 0 || memcmp(text, "\xef\xbf\xbf", 3) == 0;
}

static void escaped(FILE *out, const char *text)
{
    for (size_t length = 1; *text; text += length) {
        length = letters_first(text);
        if (length != 1) {
            if (length == 0 || (length == 3 && is_no_character(text)))
                fputc('?', out);
            else
                fwrite(text, 1, length, out);
            length += length == 0;
            continue;
        }
        if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    }
}

void svg_text(FILE *out, double x, double y, double size, enum svg_anchor anchor,
              const char *colour, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">",
            x, y, size, anchors[anchor], colour);
    escaped(out, text);
    fputs("</text>\n", out);
}

double svg_text_width(double size, const char *text)
{
    double width = 0;
    for (; *text; text++) /* only the first byte of a letter takes space */
        width += ((unsigned char)*text & 0xc0) == 0x80 ? 0 : 0.58;
    return width * size;
}
