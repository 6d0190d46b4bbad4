// SPDX-License-Identifier: Apache-2.0
// The state of a metric as bytes, and merging two states. Owns the format of a saved state. It must
// know no kind of metric, and trust nothing that it reads.
//
// The format, little-endian (base/wire.h):
//   "KOLOMET1"                      the magic and the version
//   text kind, u64 settings, i64 samples
//   i64 samples without index, i64 duplicates
//   u64 n, n * i64                  the words
//   u64 n, n * (i64 index, blob)    the records
//   what the kind keeps besides them, in a form of its own
//   32 bytes                        the SHA-256 of everything before
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/wire.h"
#include "metrics/metric.h"

enum { MAGIC_BYTES = 8, KIND_MAX = 64, RECORD_HEAD_BYTES = 8 + 4 };
static const char magic[MAGIC_BYTES] = {'K', 'O', 'L', 'O', 'M', 'E', 'T', '1'};

static size_t bytes_needed(const struct kolo_metric *metric)
{
    size_t records = metric->record_count ? metric->ends[metric->record_count - 1] : 0;
    size_t integers = 2 + 2 + 1 + metric->words + 1;
    size_t own = metric->ops->store ? metric->ops->store->bytes(metric) : 0;
    return MAGIC_BYTES + sizeof(uint16_t) + strlen(metric->ops->name) + integers * sizeof(int64_t) +
           metric->record_count * RECORD_HEAD_BYTES + records + own + KOLO_SHA256_BYTES;
}

static void write_state(struct kolo_writer *writer, const struct kolo_metric *metric)
{
    kolo_write_bytes(writer, magic, sizeof magic);
    kolo_write_text(writer, metric->ops->name);
    kolo_write_u64(writer, metric->settings);
    kolo_write_i64(writer, metric->samples);
    kolo_write_i64(writer, metric->direct_count);
    kolo_write_i64(writer, metric->local_duplicates);
    kolo_write_u64(writer, metric->words);
    for (size_t i = 0; i < metric->words; i++)
        kolo_write_i64(writer, metric->direct[i]);
    kolo_write_u64(writer, metric->record_count);
    for (size_t i = 0; i < metric->record_count; i++) {
        size_t bytes;
        const void *record = kolo_metric_record(metric, i, &bytes);
        kolo_write_i64(writer, metric->indices[i]);
        kolo_write_blob(writer, record, bytes);
    }
    if (metric->ops->store)
        metric->ops->store->write(metric, writer);
}

static void carry(struct kolo_metric *metric)
{
    if (metric->ops->carry)
        metric->ops->carry(metric, metric->direct);
}

kolo_status kolo_metric_save(struct kolo_metric *metric, void *buffer, size_t capacity,
                             size_t *bytes_out)
{
    if (!metric || !bytes_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_metric_save: %s is NULL",
                         metric ? "bytes_out" : "metric");
    size_t need = bytes_needed(metric);
    if (!buffer) {
        *bytes_out = need;
        return KOLO_OK;
    }
    if (capacity < need)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_metric_save: capacity %zu is less than the %zu bytes of this state; "
                         "ask with buffer NULL first",
                         capacity, need);
    carry(metric);
    struct kolo_writer writer = kolo_writer_over(buffer, need - KOLO_SHA256_BYTES);
    write_state(&writer, metric);
    size_t written;
    kolo_status status = kolo_writer_finish(&writer, buffer, &written);
    if (status == KOLO_OK)
        status = kolo_sha256(buffer, written, (uint8_t *)buffer + written);
    if (status == KOLO_OK)
        *bytes_out = written + KOLO_SHA256_BYTES;
    return status;
}

/* Reads the parts that say which metric the state belongs to, and compares them with this one. */
static kolo_status read_head(struct kolo_reader *reader, const struct kolo_metric *metric)
{
    char kind[KIND_MAX], start[MAGIC_BYTES];
    kolo_read_bytes(reader, start, sizeof start);
    kolo_read_text(reader, kind, sizeof kind);
    uint64_t settings = kolo_read_u64(reader);
    int64_t samples = kolo_read_i64(reader);
    if (reader->failed)
        return kolo_fail(KOLO_ERR_DATA, "kolo_metric_restore: the state ends within its header");
    if (strcmp(kind, metric->ops->name) != 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: the state is of a metric of kind '%s', this one is "
                         "of kind '%s'",
                         kind, metric->ops->name);
    if (samples != metric->samples)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: the state is of %lld samples, this metric of %lld",
                         (long long)samples, (long long)metric->samples);
    if (settings != metric->settings)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: the state is of a metric of kind '%s' that was "
                         "created with another configuration",
                         kind);
    return KOLO_OK;
}

static bool is_count(int64_t count)
{
    return count >= 0 && count <= KOLO_COUNT_MAX;
}

/* Reads the words into an empty metric. */
static kolo_status read_words(struct kolo_reader *reader, struct kolo_metric *metric)
{
    metric->direct_count = kolo_read_i64(reader);
    metric->local_duplicates = kolo_read_i64(reader);
    uint64_t words = kolo_read_u64(reader);
    if (!is_count(metric->direct_count) || !is_count(metric->local_duplicates))
        return kolo_fail(
            KOLO_ERR_DATA,
            "kolo_metric_restore: %lld samples without index or %lld duplicates are out of range",
            (long long)metric->direct_count, (long long)metric->local_duplicates);
    if (words != metric->words || kolo_reader_left(reader) / sizeof(int64_t) < metric->words)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %llu words of state where %zu are expected, in the "
                         "%zu bytes left",
                         (unsigned long long)words, metric->words, kolo_reader_left(reader));
    for (size_t i = 0; i < metric->words; i++)
        metric->direct[i] = kolo_read_i64(reader);
    if (metric->words && !metric->ops->accepts_words(metric, metric->direct))
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: no updates of a metric of kind '%s' lead to the "
                         "counts in this state",
                         metric->ops->name);
    return KOLO_OK;
}

static kolo_status read_record(struct kolo_reader *reader, struct kolo_metric *metric,
                               uint64_t number)
{
    size_t bytes;
    int64_t index = kolo_read_i64(reader);
    const uint8_t *record = kolo_read_blob(reader, &bytes);
    bool is_indexed = metric->samples > 0;
    if (reader->failed || !record)
        return kolo_fail(KOLO_ERR_DATA, "kolo_metric_restore: the state ends within record %llu",
                         (unsigned long long)number);
    if (is_indexed ? index < 0 || index >= metric->samples : index != -1)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: record %llu has index %lld of %lld samples",
                         (unsigned long long)number, (long long)index, (long long)metric->samples);
    if (is_indexed && metric->seen[index / 64] >> index % 64 & 1)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: record %llu has index %lld, as one before it",
                         (unsigned long long)number, (long long)index);
    if (!metric->ops->accepts_record || !metric->ops->accepts_record(metric, record, bytes))
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: record %llu of %zu bytes does not fit a metric of "
                         "kind '%s'",
                         (unsigned long long)number, bytes, metric->ops->name);
    kolo_status status =
        kolo_metric_prepare("kolo_metric_restore", metric, 1, bytes, is_indexed ? &index : NULL);
    if (status == KOLO_OK)
        kolo_metric_add(metric, is_indexed ? &index : NULL, record, bytes);
    return status;
}

static kolo_status read_records(struct kolo_reader *reader, struct kolo_metric *metric)
{
    uint64_t records = kolo_read_u64(reader);
    bool keeps = metric->samples > 0 || metric->ops->exchange;
    int64_t direct_count = metric->direct_count;
    metric->direct_count = 0; /* records without index are counted again when they are added */
    if (records > (keeps ? kolo_reader_left(reader) / RECORD_HEAD_BYTES : 0))
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %llu records cannot be in the %zu bytes left",
                         (unsigned long long)records, kolo_reader_left(reader));
    for (uint64_t i = 0; i < records; i++) {
        kolo_status status = read_record(reader, metric, i);
        if (status != KOLO_OK)
            return status;
    }
    metric->direct_count = direct_count;
    if (!metric->samples && keeps && (uint64_t)direct_count != records)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %llu records, but %lld samples are counted",
                         (unsigned long long)records, (long long)direct_count);
    return KOLO_OK;
}

/* Checks what can be checked without a metric: length, version and checksum. */
static kolo_status check_whole(const uint8_t *data, size_t bytes)
{
    if (bytes < MAGIC_BYTES + KOLO_SHA256_BYTES)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: %zu bytes are too few for the state of a metric",
                         bytes);
    if (memcmp(data, magic, MAGIC_BYTES - 1) != 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: this is not the state of a metric (it does not "
                         "begin with KOLOMET)");
    if (data[MAGIC_BYTES - 1] != (uint8_t)magic[MAGIC_BYTES - 1])
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: the state has format '%c', this kolo reads '%c'",
                         data[MAGIC_BYTES - 1], magic[MAGIC_BYTES - 1]);
    uint8_t actual[KOLO_SHA256_BYTES];
    kolo_status status = kolo_sha256(data, bytes - KOLO_SHA256_BYTES, actual);
    if (status == KOLO_OK &&
        memcmp(actual, data + bytes - KOLO_SHA256_BYTES, KOLO_SHA256_BYTES) != 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_metric_restore: the checksum over the %zu bytes is wrong: the state "
                         "was cut short or changed",
                         bytes);
    return status;
}

kolo_status kolo_metric_restore(struct kolo_metric *metric, const void *data, size_t bytes)
{
    if (!metric || !data)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_metric_restore: %s is NULL",
                         metric ? "data" : "metric");
    kolo_status status = check_whole(data, bytes);
    if (status != KOLO_OK)
        return status;
    struct kolo_reader reader = kolo_reader_over(data, bytes - KOLO_SHA256_BYTES);
    status = read_head(&reader, metric);
    if (status != KOLO_OK)
        return status;
    kolo_metric_reset(metric);
    KOLO_TRY(read_words(&reader, metric));
    KOLO_TRY(read_records(&reader, metric));
    if (metric->ops->store)
        KOLO_TRY(metric->ops->store->read(metric, &reader));
    KOLO_TRY(kolo_reader_finish(&reader, "kolo_metric_restore: the state"));
out:
    if (status != KOLO_OK)
        kolo_metric_reset(metric);
    return status;
}

static kolo_status check_merge(const struct kolo_metric *into, const struct kolo_metric *from)
{
    if (!into || !from)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_metric_merge: %s is NULL", into ? "from" : "into");
    if (into == from)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_metric_merge: into and from are the same metric");
    if (into->ops != from->ops || into->settings != from->settings ||
        into->samples != from->samples || into->words != from->words)
        return kolo_fail(
            KOLO_ERR_INVALID,
            "kolo_metric_merge: into is of kind '%s' with samples %lld, from is of kind "
            "'%s' with samples %lld%s: create both with the same config",
            into->ops->name, (long long)into->samples, from->ops->name, (long long)from->samples,
            into->ops == from->ops && into->samples == from->samples ? " and another config" : "");
    /* an upper bound of the new duplicates */
    int64_t twice = from->local_duplicates + (int64_t)from->record_count;
    if (from->direct_count > KOLO_COUNT_MAX - into->direct_count ||
        twice > KOLO_COUNT_MAX - into->local_duplicates)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_metric_merge: %lld and %lld samples, or %lld and %lld duplicates, "
                         "are more than the %lld that a metric counts",
                         (long long)into->direct_count, (long long)from->direct_count,
                         (long long)into->local_duplicates, (long long)twice,
                         (long long)KOLO_COUNT_MAX);
    return KOLO_OK;
}

/* Adds the words of @p from to those of @p into. A sum that could not be restored later is
 * refused, and nothing is added. Kinds with a store have no words. */
static kolo_status merge_words(struct kolo_metric *into, struct kolo_metric *from)
{
    const int64_t samples = into->direct_count;
    carry(into);
    carry(from);
    for (size_t i = 0; i < into->words; i++)
        into->direct[i] += from->direct[i];
    carry(into);
    into->direct_count += from->direct_count;
    if (into->words == 0 || into->ops->accepts_words(into, into->direct))
        return KOLO_OK;
    for (size_t i = 0; i < into->words; i++)
        into->direct[i] -= from->direct[i];
    carry(into);
    into->direct_count = samples;
    return kolo_fail(KOLO_ERR_INVALID,
                     "kolo_metric_merge: the elements of both metrics of kind '%s' are more than "
                     "the %lld that one metric counts",
                     into->ops->name, (long long)KOLO_ELEMENT_COUNT_MAX);
}

kolo_status kolo_metric_merge(struct kolo_metric *into, struct kolo_metric *from)
{
    kolo_status status = check_merge(into, from);
    size_t records = 0;
    if (status == KOLO_OK) {
        records = from->record_count;
        status = kolo_metric_prepare("kolo_metric_merge", into, records,
                                     records ? from->ends[records - 1] : 0,
                                     from->samples ? from->indices : NULL);
    }
    if (status == KOLO_OK)
        status = merge_words(into, from);
    if (status == KOLO_OK && into->ops->store)
        status = into->ops->store->merge(into, from);
    if (status != KOLO_OK)
        return status;
    int64_t direct_count = into->direct_count;
    for (size_t i = 0; i < records; i++) {
        size_t bytes;
        const void *record = kolo_metric_record(from, i, &bytes);
        kolo_metric_add(into, from->samples ? from->indices + i : NULL, record, bytes);
    }
    carry(into);
    into->direct_count = direct_count;
    into->local_duplicates += from->local_duplicates;
    into->is_computed = false;
    return KOLO_OK;
}
