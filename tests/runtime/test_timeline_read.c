// SPDX-License-Identifier: Apache-2.0
// Reading files that cannot be trusted: truncated, torn and random bytes.
#include <criterion/criterion.h>

#include <string.h>

#include "base/alloc.h"
#include "runtime/timeline.h"

enum { CAPACITY = 32, BYTES = KOLO_TIMELINE_HEAD_BYTES + CAPACITY * KOLO_TIMELINE_RECORD_BYTES };

static uint8_t *make(uint64_t written)
{
    uint8_t *data = kolo_calloc(BYTES, 1);
    struct kolo_timeline_head *head = (void *)data;
    kolo_timeline_format(head, 1, 4, CAPACITY);
    head->written = written;
    for (uint64_t number = written > CAPACITY ? written - CAPACITY : 0; number < written;
         number++) {
        struct kolo_timeline_record *record =
            (void *)(data + KOLO_TIMELINE_HEAD_BYTES +
                     (number % CAPACITY) * KOLO_TIMELINE_RECORD_BYTES);
        *record = (struct kolo_timeline_record){.mark = (uint32_t)(number + 1),
                                                .begin_ns = 1000,
                                                .end_ns = 2000,
                                                .size = 4,
                                                .peer = -1,
                                                .shape_flags = KOLO_SHAPE_ALL};
    }
    return data;
}

static struct kolo_timeline_record *record_at(uint8_t *data, size_t slot)
{
    return (void *)(data + KOLO_TIMELINE_HEAD_BYTES + slot * KOLO_TIMELINE_RECORD_BYTES);
}

Test(timeline_read, refuses_heads_that_make_no_sense)
{
    struct kolo_timeline_view view;
    for (size_t bytes = 0; bytes < KOLO_TIMELINE_HEAD_BYTES; bytes += 1 + bytes / 8) {
        uint8_t *data = make(3);
        cr_assert(kolo_timeline_view(data, bytes, &view) == KOLO_ERR_DATA);
        kolo_free_memory(data);
    }
    for (int i = 0; i < 8; i++) {
        uint8_t *data = make(3);
        struct kolo_timeline_head *head = (void *)data;
        switch (i) {
        case 0:
            head->magic[6] = '2';
            break;
        case 1:
            head->capacity = 0;
            break;
        case 2:
            head->capacity = 33;
            break;
        case 3:
            head->rank = 4;
            break;
        case 4:
            head->rank = -1;
            break;
        case 5:
            head->size = 1 << 21;
            break;
        case 6:
            head->ended_ns = INT64_MAX;
            break;
        default:
            head->record_bytes = 72;
            break;
        }
        cr_assert(kolo_timeline_view(data, BYTES, &view) == KOLO_ERR_DATA, "case %d", i);
        kolo_free_memory(data);
    }
}

Test(timeline_read, reads_what_is_left_of_a_file_that_was_cut)
{
    struct kolo_timeline_view view;
    struct kolo_timeline_record record;
    uint8_t *data = make(CAPACITY + 5);
    cr_assert(kolo_timeline_view(data, BYTES - 100, &view) == KOLO_OK);
    size_t readable = 0;
    for (uint64_t number = view.first; number < view.end; number++)
        readable += kolo_timeline_get(&view, number, &record);
    cr_assert(view.end - view.first == CAPACITY && readable == CAPACITY - 2);
    kolo_free_memory(data);
}

Test(timeline_read, leaves_out_records_that_are_torn)
{
    struct kolo_timeline_view view;
    struct kolo_timeline_record record;
    for (int i = 0; i < 15; i++) {
        uint8_t *data = make(5);
        struct kolo_timeline_record *third = record_at(data, 2);
        switch (i) {
        case 0:
            third->mark = 0;
            break;
        case 1:
            third->mark = 3 + CAPACITY;
            break;
        case 2:
            third->begin_ns = 0;
            break;
        case 3:
            third->begin_ns = -5;
            break;
        case 4:
            third->end_ns = 999;
            break;
        case 5:
            third->enter_ns = 2001;
            break;
        case 6:
            third->enter_ns = -2;
            break;
        case 7:
            third->size = 5;
            break;
        case 8:
            third->size = 0;
            break;
        case 9:
            third->peer = 4;
            break;
        case 10:
            third->shape_flags = KOLO_SHAPES;
            break;
        case 11:
            third->shape_flags = KOLO_SHAPE_SEND;
            break; /* to no rank */
        case 12:
            third->kind = KOLO_TIMELINE_WORDS;
            break;
        case 13:
            third->name = KOLO_TIMELINE_NAMES;
            break;
        default:
            third->begin_ns = INT64_MAX - 1;
            break;
        }
        cr_assert(kolo_timeline_view(data, BYTES, &view) == KOLO_OK);
        for (uint64_t number = 0; number < 5; number++)
            cr_assert(kolo_timeline_get(&view, number, &record) == (number != 2), "case %d", i);
        kolo_free_memory(data);
    }
}

/** xorshift, which gives the same bytes in each run. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

Test(timeline_read, survives_random_bytes)
{
    uint64_t state = 88172645463325252u;
    for (int round = 0; round < 3000; round++) {
        struct kolo_timeline_view view;
        struct kolo_timeline_record record;
        char word[KOLO_TIMELINE_WORD_MAX], name[KOLO_TIMELINE_NAME_MAX];
        uint8_t *data = make(next(&state) % (3 * CAPACITY));
        const size_t bytes = BYTES - next(&state) % 3000;
        for (int i = 0; i < 40; i++) /* half of them in the first fields */
            data[next(&state) % (i % 2 ? BYTES : 128)] = (uint8_t)next(&state);
        memcpy(data, KOLO_TIMELINE_MAGIC, 8);
        uint8_t *copy = kolo_calloc(bytes, 1); /* so that a sanitizer checks its end */
        memcpy(copy, data, bytes);
        if (kolo_timeline_view(copy, bytes, &view) == KOLO_OK) {
            const uint64_t end = view.end - view.first > 100 ? view.first + 100 : view.end;
            for (uint64_t number = view.first; number < end; number++)
                if (kolo_timeline_get(&view, number, &record)) {
                    cr_assert(record.begin_ns > 0 && record.peer < view.head->size);
                    kolo_timeline_word_text(&view, record.kind, word);
                    kolo_timeline_name_text(&view, record.name, name);
                    cr_assert(strlen(word) < sizeof word && strlen(name) < sizeof name);
                }
        }
        kolo_free_memory(copy);
        kolo_free_memory(data);
    }
}

/** A file is not trusted: its words need not end. */
Test(timeline_read, a_text_without_an_end_is_cut)
{
    enum {
        LONGEST = KOLO_TIMELINE_NAME_MAX > KOLO_TIMELINE_WORD_MAX ? KOLO_TIMELINE_NAME_MAX
                                                                  : KOLO_TIMELINE_WORD_MAX
    };
    static struct kolo_timeline_head head;
    char text[LONGEST + 8];
    memset(&head, 'x', sizeof head);
    const struct kolo_timeline_view view = {.head = &head};
    memset(text, '?', sizeof text);
    kolo_timeline_word_text(&view, UINT8_MAX, text);
    cr_expect_eq(strspn(text, "x"), KOLO_TIMELINE_WORD_MAX - 1);
    cr_expect(memcmp(text + KOLO_TIMELINE_WORD_MAX - 1, "\0?", 2) == 0);
    memset(text, '?', sizeof text);
    kolo_timeline_name_text(&view, UINT16_MAX, text);
    cr_expect_eq(strspn(text, "x"), KOLO_TIMELINE_NAME_MAX - 1);
    cr_expect(memcmp(text + KOLO_TIMELINE_NAME_MAX - 1, "\0?", 2) == 0);
}
