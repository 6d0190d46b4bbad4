// SPDX-License-Identifier: Apache-2.0
// COCO's compressed string of runs. Owns its format.
//
// Each run is a number in digits of five bits, the lowest first, written as characters from '0' on.
// A sixth bit says that more digits follow. The highest of the five bits of the last digit is the
// sign of the number. From the fourth run on, the number is the difference to the run two before.
//
// Strings come from files, so everything in them is checked: that each number ends, that it fits,
// and that the runs add up to the image.
#include "base/alloc.h"
#include "metrics/mask.h"

enum {
    FIRST_CHARACTER = '0',
    DIGIT_BITS = 5,
    DIGIT = 0x1f,
    SIGN = 0x10,
    MORE = 0x20,
    DIGITS_MAX = 12, /* 60 bits; a run needs 33 including its sign */
    DIFFERENCES_FROM = 3,
};

struct text {
    const char *characters;
    size_t length, at;
};

static kolo_status read_number(struct text *text, int64_t *number_out)
{
    uint64_t bits = 0;
    for (unsigned digits = 0; digits < DIGITS_MAX;) {
        if (text->at == text->length)
            return kolo_fail(KOLO_ERR_DATA,
                             "kolo_mask_from_string: the string ends at character %zu within a "
                             "number",
                             text->at);
        int digit = (unsigned char)text->characters[text->at] - FIRST_CHARACTER;
        if (digit < 0 || digit > (DIGIT | MORE))
            return kolo_fail(
                KOLO_ERR_DATA,
                "kolo_mask_from_string: character %zu has the code %d; a digit has one of %d to %d",
                text->at, digit + FIRST_CHARACTER, FIRST_CHARACTER,
                FIRST_CHARACTER + (DIGIT | MORE));
        text->at++;
        bits |= (uint64_t)(digit & DIGIT) << DIGIT_BITS * digits++;
        if (digit & MORE)
            continue;
        if (digit & SIGN)
            bits |= ~UINT64_C(0) << DIGIT_BITS * digits;
        *number_out = (int64_t)bits;
        return KOLO_OK;
    }
    return kolo_fail(KOLO_ERR_DATA,
                     "kolo_mask_from_string: the number before character %zu has more than %d "
                     "digits",
                     text->at, DIGITS_MAX);
}

/* Reads the next run. Also fails if the runs add up to more than the image. */
static kolo_status read_run(struct text *text, struct kolo_mask *mask, uint32_t *left)
{
    int64_t run;
    kolo_status status = read_number(text, &run);
    if (status != KOLO_OK)
        return status;
    if (mask->count >= DIFFERENCES_FROM)
        run += mask->runs[mask->count - 2]; /* 60 bits plus 32 bits cannot overflow */
    if (run < 0 || run > *left)
        return kolo_fail(KOLO_ERR_DATA,
                         "kolo_mask_from_string: run %zu, before character %zu, has %lld pixels; "
                         "%u of %u x %u are left",
                         mask->count, text->at, (long long)run, *left, mask->height, mask->width);
    mask->runs[mask->count++] = (uint32_t)run;
    *left -= (uint32_t)run;
    return KOLO_OK;
}

kolo_status kolo_mask_from_string(const char *characters, size_t length, uint32_t height,
                                  uint32_t width, struct kolo_mask *mask_out)
{
    struct text text = {.characters = characters, .length = length};
    kolo_status status = kolo_mask_begin(mask_out, height, width, "kolo_mask_from_string: mask");
    if (status == KOLO_OK && (!characters || length > UINT32_MAX))
        status = kolo_fail(KOLO_ERR_INVALID,
                           "kolo_mask_from_string: the string is NULL or too long (%zu characters)",
                           length);
    if (status == KOLO_OK)
        status = kolo_mask_room(mask_out, length); /* a run has at least one character */
    if (status != KOLO_OK)
        return status;
    uint32_t left = kolo_mask_pixels(mask_out);
    while (status == KOLO_OK && text.at < length)
        status = read_run(&text, mask_out, &left);
    if (status == KOLO_OK && left > 0)
        status = kolo_fail(KOLO_ERR_DATA,
                           "kolo_mask_from_string: %zu runs leave %u pixels of %u x %u; is it the "
                           "string of another image?",
                           mask_out->count, left, height, width);
    if (status != KOLO_OK)
        mask_out->count = 0;
    return status;
}

/* Writes as many digits of a number as fit, and returns where it ends. */
static size_t write_number(int64_t number, char *text, size_t at, size_t room)
{
    bool has_more = true;
    while (has_more) {
        int digit = (int)(number & DIGIT);
        number >>= DIGIT_BITS;
        has_more = number != (digit & SIGN ? -1 : 0);
        if (at < room)
            text[at] = (char)((digit | (has_more ? MORE : 0)) + FIRST_CHARACTER);
        at++;
    }
    return at;
}

kolo_status kolo_mask_to_string(const struct kolo_mask *mask, char *text, size_t room,
                                size_t *length_out)
{
    kolo_status status = kolo_mask_check_read(mask, "kolo_mask_to_string: mask");
    if (status == KOLO_OK && !text && !length_out)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_mask_to_string: text and length_out are NULL");
    if (status != KOLO_OK)
        return status;
    /* an empty mask may have no run, but the string of no image is empty */
    size_t length =
        mask->count > 0 ? 0 : write_number(kolo_mask_pixels(mask), text, 0, text ? room : 0);
    for (size_t r = 0; r < mask->count; r++) {
        int64_t number = mask->runs[r];
        if (r >= DIFFERENCES_FROM)
            number -= mask->runs[r - 2];
        length = write_number(number, text, length, text ? room : 0);
    }
    if (text && room <= length)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mask_to_string: room for %zu bytes; give %zu",
                         room, length + 1);
    if (text)
        text[length] = 0;
    if (length_out)
        *length_out = length;
    return KOLO_OK;
}
