// SPDX-License-Identifier: Apache-2.0
// What a rank keeps of its images, as bytes, and merging that of two metrics. Owns the format of
// the images in a saved state, where they follow the common part (state.c). It must trust nothing
// that it reads: it accepts only what matching could have made, so that all later steps may rely on
// it.
//
// The format, little-endian:
//   u64 n, n images in the order of their updates:
//     i64 id, u64 records, u64 tallies
//     records   u32 class, f64 score, 5 bytes true, 5 bytes ignored; by class, best first; the
//               position of a record is its index among those of its class
//     tallies   u32 class, u32 truths, u32 counted for each area range; by class
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/wire.h"
#include "metrics/coco.h"

/* The greatest number of ground truths of all images. With it, sums over ranks stay in int64. */
static const uint64_t TRUTHS_MAX = UINT64_C(1) << 40;

enum {
    IMAGE_BYTES = 8 + 8 + 8,
    RECORD_BYTES = 4 + 8 + 2 * KOLO_COCO_FLAG_BYTES,
};

static size_t tally_bytes(const struct kolo_coco_params *params)
{
    return (2 + params->areas) * sizeof(uint32_t);
}

size_t kolo_coco_images_bytes(const struct kolo_coco_images *images,
                              const struct kolo_coco_params *params)
{
    return sizeof(uint64_t) + images->images * IMAGE_BYTES + images->records * RECORD_BYTES +
           images->tallies * tally_bytes(params);
}

/* ---- writing ---- */

static void write_record(const struct kolo_coco_record *record, struct kolo_writer *writer)
{
    uint64_t score;
    memcpy(&score, &record->score, sizeof score);
    kolo_write_u32(writer, record->place);
    kolo_write_u64(writer, score);
    kolo_write_bytes(writer, record->is_true, sizeof record->is_true);
    kolo_write_bytes(writer, record->is_ignored, sizeof record->is_ignored);
}

void kolo_coco_images_write(const struct kolo_coco_images *images,
                            const struct kolo_coco_params *params, struct kolo_writer *writer)
{
    size_t record = 0, tally = 0;
    kolo_write_u64(writer, images->images);
    for (size_t i = 0; i < images->images; i++) {
        size_t records_end = kolo_coco_records_end(images, i);
        size_t tallies_end = kolo_coco_tallies_end(images, i);
        kolo_write_i64(writer, images->image[i].id);
        kolo_write_u64(writer, records_end - record);
        kolo_write_u64(writer, tallies_end - tally);
        for (; record < records_end; record++)
            write_record(&images->record[record], writer);
        for (; tally < tallies_end; tally++) {
            kolo_write_u32(writer, images->tally[tally].category);
            kolo_write_u32(writer, images->tally[tally].truths);
            for (size_t a = 0; a < params->areas; a++)
                kolo_write_u32(writer, images->tally[tally].counted[a]);
        }
    }
}

/* ---- reading ---- */

/* Whether matching could have made this record as the next one of its image after @p before
 * (NULL: as the first). */
static bool accepts_record(const struct kolo_coco_params *params,
                           const struct kolo_coco_record *record,
                           const struct kolo_coco_record *before)
{
    uint64_t is_true = kolo_coco_flags(record->is_true),
             is_ignored = kolo_coco_flags(record->is_ignored);
    if (record->place >= params->classes || !isfinite(record->score) || (is_true & is_ignored) ||
        (is_true | is_ignored) >> params->areas * params->thresholds)
        return false;
    if (!before)
        return true;
    if (record->place != before->place)
        return record->place > before->place;
    return record->score <= before->score && before->position + 1 < params->cap[params->caps - 1];
}

static bool accepts_tally(const struct kolo_coco_params *params,
                          const struct kolo_coco_tally *tally, const struct kolo_coco_tally *before)
{
    bool is_next = !before || tally->category > before->category;
    for (size_t a = 0; a < params->areas; a++)
        is_next = is_next && tally->counted[a] <= tally->truths;
    return is_next && tally->category < params->classes && tally->truths > 0;
}

static kolo_status read_records(struct kolo_coco_images *images,
                                const struct kolo_coco_params *params, size_t count,
                                struct kolo_reader *reader)
{
    struct kolo_coco_record *before = NULL;
    for (size_t i = 0; i < count; i++) {
        struct kolo_coco_record *record = &images->record[images->records];
        *record = (struct kolo_coco_record){.place = kolo_read_u32(reader)};
        uint64_t score = kolo_read_u64(reader);
        memcpy(&record->score, &score, sizeof score);
        kolo_read_bytes(reader, record->is_true, sizeof record->is_true);
        kolo_read_bytes(reader, record->is_ignored, sizeof record->is_ignored);
        if (!accepts_record(params, record, before))
            return kolo_fail(KOLO_ERR_DATA,
                             "kolo_metric_restore: detection %zu of image %lld is not one "
                             "that matching makes",
                             i, (long long)images->image[images->images - 1].id);
        if (before && before->place == record->place)
            record->position = (uint16_t)(before->position + 1);
        before = record;
        images->records++;
    }
    return KOLO_OK;
}

static kolo_status read_tallies(struct kolo_coco_images *images,
                                const struct kolo_coco_params *params, size_t count,
                                struct kolo_reader *reader)
{
    struct kolo_coco_tally *before = NULL;
    for (size_t i = 0; i < count; i++) {
        struct kolo_coco_tally *tally = &images->tally[images->tallies];
        *tally = (struct kolo_coco_tally){.category = kolo_read_u32(reader)};
        tally->truths = kolo_read_u32(reader);
        for (size_t a = 0; a < params->areas; a++)
            tally->counted[a] = kolo_read_u32(reader);
        if (!accepts_tally(params, tally, before))
            return kolo_fail(KOLO_ERR_DATA,
                             "kolo_metric_restore: tally %zu of the ground truth of image %lld "
                             "cannot be a result of matching",
                             i, (long long)images->image[images->images - 1].id);
        before = tally;
        images->tallies++;
    }
    return KOLO_OK;
}

/* For each class, area range and threshold, an image has at most one true detection for each
 * ground truth that counts. With more, recall would exceed 1, and sums over ranks their bounds. */
static bool has_truths_for_all(const struct kolo_coco_images *images,
                               const struct kolo_coco_params *params, size_t record, size_t tally)
{
    while (record < images->records) {
        uint32_t found[KOLO_DETECTION_FLAGS_MAX] = {0}, category = images->record[record].place;
        while (tally < images->tallies && images->tally[tally].category < category)
            tally++;
        bool is_there = tally < images->tallies && images->tally[tally].category == category;
        for (; record < images->records && images->record[record].place == category; record++) {
            uint64_t left = kolo_coco_flags(images->record[record].is_true);
            for (; left; left &= left - 1) {
                size_t flag = (size_t)__builtin_ctzll(left), area = flag / params->thresholds;
                if (!is_there || ++found[flag] > images->tally[tally].counted[area])
                    return false;
            }
        }
    }
    return true;
}

static kolo_status read_image(struct kolo_coco_images *images,
                              const struct kolo_coco_params *params, struct kolo_reader *reader)
{
    int64_t id = kolo_read_i64(reader);
    uint64_t records = kolo_read_u64(reader), tallies = kolo_read_u64(reader);
    size_t left = kolo_reader_left(reader), tally = tally_bytes(params);
    if (reader->failed || records > left / RECORD_BYTES ||
        tallies > (left - records * RECORD_BYTES) / tally)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %llu detections and %llu tallies of image number "
                         "%zu cannot be in the %zu bytes left",
                         (unsigned long long)records, (unsigned long long)tallies, images->images,
                         left);
    kolo_status status = kolo_coco_images_room(images, 1, (size_t)records, (size_t)tallies);
    if (status != KOLO_OK)
        return status;
    images->image[images->images++] =
        (struct kolo_coco_image){.id = id, .records = images->records, .tallies = images->tallies};
    size_t first_record = images->records, first_tally = images->tallies;
    status = read_records(images, params, (size_t)records, reader);
    if (status == KOLO_OK)
        status = read_tallies(images, params, (size_t)tallies, reader);
    if (status == KOLO_OK && !has_truths_for_all(images, params, first_record, first_tally))
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: image %lld has more true detections than ground "
                         "truths",
                         (long long)id);
    return status;
}

kolo_status kolo_coco_images_read(struct kolo_coco_images *images,
                                  const struct kolo_coco_params *params, struct kolo_reader *reader)
{
    uint64_t count = kolo_read_u64(reader), truths = 0;
    if (reader->failed || count > kolo_reader_left(reader) / IMAGE_BYTES)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %llu images cannot be in the %zu bytes left",
                         (unsigned long long)count, kolo_reader_left(reader));
    for (uint64_t i = 0; i < count; i++) {
        kolo_status status = read_image(images, params, reader);
        if (status != KOLO_OK)
            return status;
    }
    for (size_t i = 0; i < images->tallies; i++)
        truths += images->tally[i].truths;
    if (truths > TRUTHS_MAX)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %llu ground truths are more than a metric counts",
                         (unsigned long long)truths);
    return KOLO_OK;
}

/* ---- merging ---- */

kolo_status kolo_coco_images_append(struct kolo_coco_images *into,
                                    const struct kolo_coco_images *from)
{
    kolo_status status = kolo_coco_images_room(into, from->images, from->records, from->tallies);
    if (status != KOLO_OK || from->images == 0)
        return status;
    for (size_t i = 0; i < from->images; i++)
        into->image[into->images + i] =
            (struct kolo_coco_image){.id = from->image[i].id,
                                     .records = into->records + from->image[i].records,
                                     .tallies = into->tallies + from->image[i].tallies};
    if (from->records > 0)
        memcpy(into->record + into->records, from->record, from->records * sizeof *from->record);
    if (from->tallies > 0)
        memcpy(into->tally + into->tallies, from->tally, from->tallies * sizeof *from->tally);
    into->images += from->images;
    into->records += from->records;
    into->tallies += from->tallies;
    return KOLO_OK;
}
