// SPDX-License-Identifier: Apache-2.0
// "Did you mean": finds the setting whose name is nearest to a mistyped one.
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/settings_table.h"

enum { NAME_MAX_BYTES = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many insertions, deletions, replacements and swaps of neighbours turn @p a into @p b,
 * ignoring case. Both are at most NAME_MAX_BYTES long. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][NAME_MAX_BYTES + 1];
    size_t width = strlen(b);
    for (size_t j = 0; j <= width; j++)
        rows[0][j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            int from = toupper((unsigned char)a[i - 1]);
            int to = toupper((unsigned char)b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (from != to));
            if (i > 1 && j > 1 && from == toupper((unsigned char)b[j - 2]) &&
                toupper((unsigned char)a[i - 2]) == to)
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[strlen(a) % 3][width];
}

/* Up to a third of the letters may be wrong: KOLO_SEGMENT_SIZE finds KOLO_SEGMENT_BYTES, KOLO_X
 * finds nothing. */
enum kolo_setting_index kolo_setting_nearest(const char *name)
{
    static const char prefix[] = "KOLO_";
    enum { PREFIX_BYTES = sizeof prefix - 1 };
    if (strncasecmp(name, prefix, PREFIX_BYTES) == 0)
        name += PREFIX_BYTES;
    size_t nearest = KOLO_SETTINGS_COUNT;
    size_t bytes = strnlen(name, NAME_MAX_BYTES + 1);
    if (bytes > NAME_MAX_BYTES)
        return KOLO_SETTINGS_COUNT;
    size_t best = bytes / 3 + 1;
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        size_t distance = edit_distance(name, kolo_setting_rows[i].name + PREFIX_BYTES);
        if (distance < best) {
            best = distance;
            nearest = i;
        }
    }
    return (enum kolo_setting_index)nearest;
}
