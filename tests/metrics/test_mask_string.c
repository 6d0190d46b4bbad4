// SPDX-License-Identifier: Apache-2.0
// COCO's strings, valid and invalid: every file of corpus/masks (a line with the height and width
// of the image, then the string), and the same truncated and with wrong characters. A string that
// is accepted is written back with the same runs; any other is refused, and the error names the
// position. Sanitizers check the rest.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/mask.h"

enum { ROOM = 4096 };

Test(mask_string, both_ways)
{
    static const uint32_t runs[] = {10, 3, 13, 5, 26, 16, 24, 28};
    struct kolo_mask mask = {.runs = NULL};
    char text[64];
    size_t length;
    cr_assert_eq(kolo_mask_from_runs(runs, 8, 25, 5, &mask), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_mask_to_string(&mask, text, sizeof text, &length), KOLO_OK);
    cr_assert_eq(length, strlen(text));
    /* 10 3 13, then 5 - 3, 26 - 13, 16 - 5, 24 - 26, 28 - 16 */
    cr_assert_str_eq(text, ":3=2=;N<");
    struct kolo_mask again = {.runs = NULL};
    cr_assert_eq(kolo_mask_from_string(text, length, 25, 5, &again), KOLO_OK);
    cr_assert_eq(again.count, 8);
    cr_assert_arr_eq(again.runs, runs, sizeof runs);
    cr_assert_eq(kolo_mask_to_string(&mask, text, length, &length), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "give 9"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_mask_to_string(&mask, NULL, 0, NULL), KOLO_ERR_INVALID);
    kolo_mask_free(&again);
    kolo_mask_free(&mask);
}

static void refused(const char *text, const char *what)
{
    struct kolo_mask mask = {.runs = NULL};
    cr_assert_eq(kolo_mask_from_string(text, strlen(text), 4, 4, &mask), KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), what), "%s", kolo_error_detail());
    cr_assert_eq(mask.count, 0);
    kolo_mask_free(&mask);
}

Test(mask_string, says_what_is_wrong_and_where)
{
    refused("35X", "ends at character 3");
    refused("3 5", "character 1 has the code 32");
    refused("3O", "run 1, before character 2, has -1 pixels; 13 of 4 x 4 are left");
    refused("359", "run 2, before character 3, has 9 pixels; 8 ");
    refused("357", "3 runs leave 1 pixels of 4 x 4");
    refused("oooooooooooooooo", "more than 12 digits");
    struct kolo_mask mask = {.runs = NULL};
    cr_assert_eq(kolo_mask_from_string(NULL, 3, 4, 4, &mask), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_from_string("358", 3, 4, 4, NULL), KOLO_ERR_INVALID);
}

Test(mask_string, a_mask_without_runs_has_a_string_of_one_run)
{
    struct kolo_mask mask = {.height = 4, .width = 4};
    char text[8];
    size_t length = 9;
    cr_assert_eq(kolo_mask_to_string(&mask, text, sizeof text, &length), KOLO_OK);
    cr_assert(length == 2 && strcmp(text, "`0") == 0, "%s", text);
    cr_assert_eq(kolo_mask_from_string(text, length, 4, 4, &mask), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert(mask.count == 1 && mask.runs[0] == 16);
    kolo_mask_free(&mask);
}

/* ---- the corpus ---- */

/* Reads the string; one that is accepted has the same meaning when it is written and read again. */
static kolo_status read_and_write(const char *text, size_t length, uint32_t height, uint32_t width)
{
    struct kolo_mask mask = {.runs = NULL}, again = {.runs = NULL};
    /* so that a sanitizer checks where it ends */
    char *copy = kolo_aligned(1, length), written[8 * ROOM];
    cr_assert(copy);
    memcpy(copy, text, length);
    kolo_status status = kolo_mask_from_string(copy, length, height, width, &mask);
    kolo_free_memory(copy);
    if (status != KOLO_OK) {
        cr_assert(status == KOLO_ERR_DATA || status == KOLO_ERR_INVALID);
        cr_assert_eq(mask.count, 0);
        cr_assert(kolo_error_detail()[0]);
        kolo_mask_free(&mask);
        return status;
    }
    size_t bytes;
    double box[4];
    cr_assert_eq(kolo_mask_check(&mask), KOLO_OK);
    cr_assert_eq(kolo_mask_box(&mask, box), KOLO_OK);
    cr_assert(box[0] + box[2] <= width && box[1] + box[3] <= height);
    cr_assert_eq(kolo_mask_to_string(&mask, written, sizeof written, &bytes), KOLO_OK);
    cr_assert_eq(kolo_mask_from_string(written, bytes, height, width, &again), KOLO_OK);
    cr_assert_eq(again.count, mask.count);
    cr_assert_arr_eq(again.runs, mask.runs, mask.count * sizeof *mask.runs);
    kolo_mask_free(&again);
    kolo_mask_free(&mask);
    return KOLO_OK;
}

/* Truncated at every position, and with each character replaced in three ways. */
static void spoil(const char *text, size_t length, uint32_t height, uint32_t width)
{
    char spoilt[ROOM];
    for (size_t cut = 0; cut <= length; cut++)
        (void)read_and_write(text, cut, height, width);
    for (size_t at = 0; at < length; at++) {
        static const char others[] = {'0', 'o', 'P'};
        for (size_t i = 0; i < 3 + 8; i++) {
            memcpy(spoilt, text, length);
            spoilt[at] = i < 3 ? others[i] : (char)(text[at] ^ 1 << (i - 3));
            (void)read_and_write(spoilt, length, height, width);
        }
    }
}

static void replay(const char *folder, const char *name)
{
    char path[ROOM], bytes[ROOM];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    size_t length = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    bytes[length] = 0;
    unsigned height, width;
    char *line = strchr(bytes, '\n');
    cr_assert(line && sscanf(bytes, "%u %u", &height, &width) == 2, "%s", path);
    const char *text = line + 1;
    length -= (size_t)(text - bytes);
    kolo_status expected = strncmp(name, "good", 4) == 0 ? KOLO_OK : KOLO_ERR_DATA;
    kolo_status status = read_and_write(text, length, height, width);
    cr_assert((status == KOLO_OK) == (expected == KOLO_OK), "%s: %s", name, kolo_error_detail());
    spoil(text, length, height, width);
}

Test(mask_string, corpus)
{
    DIR *folder = opendir(MASK_CORPUS);
    cr_assert(folder, "%s", MASK_CORPUS);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strncmp(entry->d_name, "good-", 5) == 0 || strncmp(entry->d_name, "bad-", 4) == 0) {
            replay(MASK_CORPUS, entry->d_name);
            files++;
        }
    closedir(folder);
    cr_assert(files > 20, "%d", files);
}
