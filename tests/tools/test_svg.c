// SPDX-License-Identifier: Apache-2.0
// tools/svg.c: drawings are valid XML whatever their texts are.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tools/svg.h"

static void has(const char *text, const char *part)
{
    cr_expect(strstr(text, part), "no '%s' in '%s'", part, text);
}

Test(svg, shapes_between_begin_and_end)
{
    char *text = NULL;
    size_t bytes = 0;
    const double points[] = {1, 2, 3.25, 4};
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out);
    svg_begin(out, 300, 200);
    svg_rectangle(out, 1, 2, 3, 4, "#123456");
    svg_line(out, 0, 0, 10, 10, "#000000", 1, "");
    svg_path(out, points, 2, "#ff0000", 2, "3 4");
    svg_dot(out, 5, 6, 2.6, "#0000ff");
    svg_end(out);
    fclose(out);
    cr_expect_eq(strncmp(text, "<?xml ", 6), 0);
    has(text, "viewBox=\"0 0 300 200\"");
    has(text, "points=\"1.0,2.0 3.2,4.0\"");
    has(text, "stroke-dasharray=\"3 4\"");
    has(text, "r=\"2.6\"");
    cr_expect_str_eq(text + bytes - strlen("</svg>\n"), "</svg>\n");
    free(text);
}

Test(svg, text_cannot_end_its_element)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out);
    svg_text(out, 1, 2, 10, SVG_MIDDLE, "#000000", "</text>&\x1b[1m\xc3\xa9");
    fclose(out);
    has(text, "text-anchor=\"middle\"");
    has(text, ">&lt;/text&gt;&amp;[1m\xc3\xa9</text>");
    cr_expect(!strchr(text, 0x1b));
    free(text);
}

Test(svg, bytes_that_are_no_letters)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out);
    svg_text(out, 1, 2, 10, SVG_START, "#000000",
             "a\xff\xc0\x80\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\x80\xc3");
    fclose(out);
    has(text, ">a"
              "\?\?\?"
              "\xe2\x82\xac\xf0\x9f\x98\x80\?\?\?\?</text>");
    free(text);
}

Test(svg, letters_that_xml_has_not)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out);
    svg_text(out, 1, 2, 10, SVG_START, "#000000", "a\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd");
    fclose(out);
    has(text, ">a\?\?\xef\xbf\xbd</text>");
    free(text);
}

Test(svg, widths_count_letters)
{
    cr_expect_float_eq(svg_text_width(10, "ab"), svg_text_width(10, "\xc3\xa9\xc3\xa9"), 1e-9);
    cr_expect_gt(svg_text_width(10, "abc"), svg_text_width(10, "ab"));
}
