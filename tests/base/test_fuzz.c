// SPDX-License-Identifier: Apache-2.0
// Random bytes for the parsers of base/, about a second each and the same in every run. For every
// input: no access is out of bounds (ASan), a refused input changes nothing, and an accepted one
// prints as text with the same meaning.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/settings_table.h"
#include "base/wire.h"

enum { FUZZ_MS = 1000 };

static uint64_t state = 0x6b6f6c6f;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Text of at most @p capacity - 1 bytes, most of which occur in the grammars. */
static void random_text(char *text, size_t capacity)
{
    static const char known[] = "0123456789KMGiBmsn-+xe. 99999999999999";
    size_t bytes = next_random() % capacity;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t byte = next_random() % 16 ? (uint8_t)known[next_random() % (sizeof known - 1)]
                                           : next_random() % 255 + 1;
        text[i] = (char)byte;
    }
    text[bytes] = '\0';
}

static void check_bounds(const struct kolo_setting_row *row, const struct kolo_settings *settings)
{
    const void *field = (const char *)settings + row->offset;
    int64_t value = row->type == KOLO_TYPE_TEXT   ? (int64_t)strlen(field)
                    : row->type == KOLO_TYPE_BOOL ? *(const bool *)field
                                                  : *(const int64_t *)field;
    cr_assert(value >= row->min && value <= row->max, "%s: %lld", row->name, (long long)value);
}

Test(fuzz, settings, .timeout = 120)
{
    struct kolo_settings settings, before, again;
    kolo_settings_init(&settings);
    kolo_deadline end = kolo_deadline_in_ms(FUZZ_MS);
    size_t accepted = 0, tried = 0;
    for (; !kolo_deadline_passed(end); tried++) {
        char value[300], text[KOLO_TEXT_MAX];
        size_t index = next_random() % KOLO_SETTINGS_COUNT;
        const struct kolo_setting_row *row = &kolo_setting_rows[index];
        random_text(value, next_random() % 8 ? 12 : sizeof value);
        before = settings;
        kolo_status status = kolo_settings_set(&settings, row->name, value, KOLO_FROM_OPTION);
        if (status != KOLO_OK) {
            cr_assert(status == KOLO_ERR_CONFIG, "%s=%s: %d", row->name, value, (int)status);
            cr_assert(memcmp(&settings, &before, sizeof before) == 0, "%s=%s", row->name, value);
            continue;
        }
        accepted++;
        check_bounds(row, &settings);
        again = settings;
        kolo_settings_value(&settings, (enum kolo_setting_index)index, text, sizeof text);
        if (row->is_secret)
            continue;
        status = kolo_settings_set(&again, row->name, text, KOLO_FROM_OPTION);
        cr_assert(status == KOLO_OK, "%s: %s", row->name, kolo_error_detail());
        cr_assert(memcmp(&again, &settings, sizeof again) == 0, "%s=%s", row->name, value);
    }
    cr_assert(accepted > 0 && accepted < tried, "%zu of %zu values accepted", accepted, tried);
}

Test(fuzz, settings_environment, .timeout = 120)
{
    struct kolo_settings settings, before;
    kolo_settings_init(&settings);
    kolo_deadline end = kolo_deadline_in_ms(FUZZ_MS);
    while (!kolo_deadline_passed(end)) {
        char entries[8][128];
        char *environment[9] = {NULL};
        for (size_t i = 0; i < 8; i++) {
            char value[40];
            size_t index = next_random() % KOLO_SETTINGS_COUNT;
            random_text(value, next_random() % 4 ? 6 : sizeof value);
            snprintf(entries[i], sizeof entries[i], "%s=%s", kolo_setting_rows[index].name, value);
            if (next_random() % 3 == 0)
                entries[i][next_random() % strlen(entries[i])] = (char)(next_random() % 255 + 1);
            environment[i] = entries[i];
        }
        before = settings;
        if (kolo_settings_load(&settings, environment, NULL, NULL) != KOLO_OK)
            cr_assert(memcmp(&settings, &before, sizeof before) == 0, "%s", kolo_error_detail());
    }
}

/* Reads randomly chosen fields from a heap block of exact size. */
static void read_fields(struct kolo_reader *reader)
{
    for (int fields = (int)(next_random() % 12); fields > 0; fields--) {
        char text[32];
        uint8_t bytes[16];
        size_t blob_bytes;
        size_t before = kolo_reader_left(reader);
        const uint8_t *blob = NULL;
        switch (next_random() % 6) {
        case 0:
            (void)kolo_read_u8(reader);
            break;
        case 1:
            (void)kolo_read_i32(reader);
            break;
        case 2:
            (void)kolo_read_u64(reader);
            break;
        case 3:
            kolo_read_bytes(reader, bytes, next_random() % sizeof bytes);
            break;
        case 4:
            kolo_read_text(reader, text, next_random() % sizeof text + 1);
            cr_assert(strlen(text) < sizeof text, "text");
            break;
        default:
            blob = kolo_read_blob(reader, &blob_bytes);
            cr_assert(blob_bytes <= before, "%zu of %zu bytes", blob_bytes, before);
            for (size_t i = 0; i < blob_bytes; i++)
                bytes[i % sizeof bytes] = blob[i];
        }
        cr_assert(kolo_reader_left(reader) <= before, "a reader went back");
    }
}

Test(fuzz, wire_reader, .timeout = 120)
{
    kolo_deadline end = kolo_deadline_in_ms(FUZZ_MS);
    size_t whole = 0, tried = 0;
    for (; !kolo_deadline_passed(end); tried++) {
        size_t bytes = next_random() % 64;
        uint8_t *data = malloc(bytes ? bytes : 1);
        /* Small values, so that lengths are often valid. */
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)(next_random() % 4 ? 0 : next_random() % 256);
        struct kolo_reader reader = kolo_reader_over(data, bytes);
        read_fields(&reader);
        kolo_status status = kolo_reader_finish(&reader, "fuzz");
        cr_assert((status == KOLO_OK) == (!reader.failed && reader.at == data + bytes), "finish");
        whole += status == KOLO_OK;
        free(data);
    }
    cr_assert(whole > 0 && whole < tried, "%zu of %zu messages were whole", whole, tried);
}
