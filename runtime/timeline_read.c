// SPDX-License-Identifier: Apache-2.0
// Reads the records of a rank. Owns the checks: all of it may have been written by a rank that was
// killed in the middle of a store, by another program, or not at all. Must never read beyond the
// bytes that it was given, nor return a value that makes no sense. The bytes must not change
// meanwhile: give it a copy, not a mapping of a file that is still written.
#include "runtime/timeline.h"

#include <string.h>

/* Longer than any uptime, and far below where sums and differences of times overflow. */
static const int64_t time_max_ns = INT64_C(1) << 61;

/* Larger than any count of bytes, calls or names, and small enough for every reader of numbers. */
static const uint64_t count_max = UINT64_C(1) << 62;

static bool is_time(int64_t ns)
{
    return ns > 0 && ns < time_max_ns;
}

static bool head_makes_sense(const struct kolo_timeline_head *head)
{
    const uint32_t capacity = head->capacity;
    return capacity >= KOLO_TIMELINE_CALLS_MIN && capacity <= KOLO_TIMELINE_CALLS_MAX &&
           (capacity & (capacity - 1)) == 0 && head->size >= 1 &&
           head->size <= KOLO_TIMELINE_RANKS_MAX && head->rank >= 0 && head->rank < head->size &&
           head->written < count_max && head->names_lost < count_max &&
           (head->ended_ns == 0 || is_time(head->ended_ns)) &&
           (head->begun_ns == 0 || is_time(head->begun_ns));
}

kolo_status kolo_timeline_view(const void *data, size_t bytes, struct kolo_timeline_view *view_out)
{
    const struct kolo_timeline_head *head = data;
    if (bytes < sizeof head->magic ||
        memcmp(head->magic, KOLO_TIMELINE_MAGIC, sizeof head->magic - 2) != 0)
        return kolo_fail(KOLO_ERR_DATA, "it is no timeline of kolo's");
    if (bytes < KOLO_TIMELINE_HEAD_BYTES)
        return kolo_fail(KOLO_ERR_DATA, "%zu bytes are less than its head has", bytes);
    if (memcmp(head->magic, KOLO_TIMELINE_MAGIC, sizeof head->magic) != 0 ||
        head->head_bytes != KOLO_TIMELINE_HEAD_BYTES ||
        head->record_bytes != KOLO_TIMELINE_RECORD_BYTES)
        return kolo_fail(KOLO_ERR_DATA, "it is of another version of kolo");
    if (!head_makes_sense(head))
        return kolo_fail(KOLO_ERR_DATA, "its head makes no sense");
    const size_t there = (bytes - KOLO_TIMELINE_HEAD_BYTES) / KOLO_TIMELINE_RECORD_BYTES;
    const uint64_t written = head->written;
    *view_out = (struct kolo_timeline_view){
        .head = head,
        .records = (const uint8_t *)data + KOLO_TIMELINE_HEAD_BYTES,
        .record_count = there < head->capacity ? there : head->capacity,
        .first = written > head->capacity ? written - head->capacity : 0,
        .end = written};
    return KOLO_OK;
}

static bool times_make_sense(const struct kolo_timeline_record *record)
{
    const int64_t begin = record->begin_ns, enter = record->enter_ns, end = record->end_ns;
    const int64_t entered = enter > 0 ? enter : begin;
    return is_time(begin) && enter >= -1 && (enter <= 0 || (enter >= begin && is_time(enter))) &&
           (end == 0 || (end >= entered && is_time(end)));
}

bool kolo_timeline_get(const struct kolo_timeline_view *view, uint64_t number,
                       struct kolo_timeline_record *record_out)
{
    const struct kolo_timeline_head *head = view->head;
    const size_t slot = number & (head->capacity - 1);
    if (number < view->first || number >= view->end || slot >= view->record_count)
        return false;
    struct kolo_timeline_record record;
    memcpy(&record, view->records + slot * KOLO_TIMELINE_RECORD_BYTES, sizeof record);
    const uint32_t size = (uint32_t)head->size;
    if (record.mark != (uint32_t)(number + 1) || !times_make_sense(&record) ||
        record.kind >= KOLO_TIMELINE_WORDS || record.plan >= KOLO_TIMELINE_WORDS ||
        record.transport >= KOLO_TIMELINE_WORDS || record.name >= KOLO_TIMELINE_NAMES ||
        record.bytes >= count_max || record.size < 1 || record.size > size || record.peer < -1 ||
        record.peer >= head->size || (record.shape_flags & 15) >= KOLO_SHAPES)
        return false;
    const enum kolo_timeline_shape shape = kolo_timeline_shape(&record);
    if (record.peer < 0 && shape >= KOLO_SHAPE_ROOT)
        return false;
    *record_out = record;
    return true;
}

static void copy_text(const char *from, size_t capacity, char *text)
{
    memcpy(text, from, capacity);
    text[capacity - 1] = '\0';
}

void kolo_timeline_word_text(const struct kolo_timeline_view *view, uint8_t word,
                             char text[KOLO_TIMELINE_WORD_MAX])
{
    copy_text(view->head->word[word % KOLO_TIMELINE_WORDS], KOLO_TIMELINE_WORD_MAX, text);
}

void kolo_timeline_name_text(const struct kolo_timeline_view *view, uint16_t name,
                             char text[KOLO_TIMELINE_NAME_MAX])
{
    copy_text(view->head->name[name % KOLO_TIMELINE_NAMES], KOLO_TIMELINE_NAME_MAX, text);
}
