// SPDX-License-Identifier: Apache-2.0
// See sigmas.h. Sigmas belong to a set of keypoints. COCO's are for its 17, so a category that
// lists another number is not evaluated with these.
#include "evaluate/sigmas.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COCO_POINTS = 17, FILE_BYTES_MAX = 1 << 16, WORD_SHOWN = 40 };

static const char between[] = ", \t\r\n[]";

static kolo_status take(struct eval_sigmas *sigmas, const char *given, const char *text)
{
    for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
        char *end;
        double value = strtod(at, &end);
        size_t length = strcspn(at, between);
        if (end != at + length || !(value > 0) || !isfinite(value))
            return kolo_fail(KOLO_ERR_CONFIG, "--sigmas %s: '%.*s' is not a number above 0", given,
                             length < WORD_SHOWN ? (int)length : WORD_SHOWN, at);
        if (sigmas->count == KOLO_DETECTION_POINTS_MAX)
            return kolo_fail(KOLO_ERR_CONFIG, "--sigmas %s: more than %d numbers", given,
                             KOLO_DETECTION_POINTS_MAX);
        sigmas->sigma[sigmas->count++] = value;
        at = end;
    }
    if (sigmas->count == 0)
        return kolo_fail(KOLO_ERR_CONFIG, "--sigmas %s: no number in it", given);
    return KOLO_OK;
}

static kolo_status take_file(struct eval_sigmas *sigmas, const char *path)
{
    char text[FILE_BYTES_MAX];
    FILE *file = fopen(path, "re");
    if (!file)
        return kolo_fail_errno(KOLO_ERR_CONFIG, errno,
                               "--sigmas %s is neither numbers with commas between them nor a "
                               "file that can be read",
                               path);
    size_t bytes = fread(text, 1, sizeof text, file);
    int error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error)
        return kolo_fail_errno(KOLO_ERR_CONFIG, error, "--sigmas %s", path);
    if (bytes == sizeof text)
        return kolo_fail(KOLO_ERR_CONFIG, "--sigmas %s: the file has more than %d bytes", path,
                         FILE_BYTES_MAX - 1);
    text[bytes] = '\0';
    if (strlen(text) != bytes)
        return kolo_fail(KOLO_ERR_CONFIG, "--sigmas %s: the file is not text", path);
    return take(sigmas, path, text);
}

kolo_status eval_sigmas_read(struct eval_sigmas *sigmas, const char *given)
{
    sigmas->count = 0;
    if (!given)
        return KOLO_OK;
    bool is_list = given[strspn(given, "0123456789.eE+-, ")] == '\0';
    return is_list ? take(sigmas, given, given) : take_file(sigmas, given);
}

kolo_status eval_sigmas_fit(struct eval_sigmas *sigmas, const struct eval_truths *truths,
                            const char *path, size_t *points_out)
{
    size_t points = sigmas->count > 0 ? sigmas->count : COCO_POINTS;
    for (size_t k = 0; k < truths->categories; k++) {
        const struct eval_category *category = &truths->category[k];
        if (sigmas->count == 1 && category->points > 1 &&
            category->points <= KOLO_DETECTION_POINTS_MAX) /* the same for all */
            while (sigmas->count < category->points)
                sigmas->sigma[sigmas->count++] = sigmas->sigma[0];
        points = sigmas->count > 0 ? sigmas->count : COCO_POINTS;
        if (category->points == 0 || category->points == points)
            continue;
        if (sigmas->count == 0)
            return kolo_fail(KOLO_ERR_DATA,
                             "%s: category %lld has %zu keypoints, COCO's sigmas are of %d; give "
                             "theirs with --sigmas",
                             path, (long long)category->id, category->points, COCO_POINTS);
        return kolo_fail(KOLO_ERR_DATA, "%s: category %lld has %zu keypoints, --sigmas %zu", path,
                         (long long)category->id, category->points, points);
    }
    *points_out = points;
    return KOLO_OK;
}
