// SPDX-License-Identifier: Apache-2.0
// Parses and writes the lines that doctor_facts.h shows. Trusts none of them: names must be known,
// numbers whole, lists are bounded, and text kept for people has no control characters.
#include "launcher/doctor_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum { FIELDS_MAX = 8 };

#define KOLO_FACT_NAME(name) #name,
static const char *const number_names[] = {KOLO_FACT_NUMBERS(KOLO_FACT_NAME)};
static const char *const text_names[] = {KOLO_FACT_TEXTS(KOLO_FACT_NAME)};
#undef KOLO_FACT_NAME
static const char *const end_names[KOLO_FACT_PATH_ENDS] = {
    [KOLO_FACT_PATH_FINE] = "fine",         [KOLO_FACT_PATH_LONG_LOST] = "long-lost",
    [KOLO_FACT_PATH_REFUSED] = "refused",   [KOLO_FACT_PATH_SILENT] = "silent",
    [KOLO_FACT_PATH_NO_ROUTE] = "no-route", [KOLO_FACT_PATH_OTHER_HOST] = "other-host",
    [KOLO_FACT_PATH_STRANGER] = "stranger", [KOLO_FACT_PATH_FAILED] = "failed"};

const char *kolo_fact_number_name(enum kolo_fact_number number)
{
    return number_names[number];
}

const char *kolo_fact_text_name(enum kolo_fact_text text)
{
    return text_names[text];
}

const char *kolo_fact_path_end_name(enum kolo_fact_path_end end)
{
    return end_names[end];
}

void kolo_facts_init(struct kolo_facts *facts)
{
    *facts = (struct kolo_facts){.backend_count = 0};
    for (size_t i = 0; i < KOLO_FACT_NUMBERS_COUNT; i++)
        facts->number[i] = -1;
}

bool kolo_fact_place_is_loopback(const struct kolo_fact_place *place)
{
    return strncmp(place->address, "127.", 4) == 0 || strncmp(place->address, "[::1]:", 6) == 0;
}

bool kolo_facts_are_twins(const struct kolo_facts *one, const struct kolo_facts *other)
{
    const char *const identity = one->text[KOLO_FACT_identity];
    return identity[0] != '\0' && strcmp(identity, other->text[KOLO_FACT_identity]) == 0;
}

kolo_status kolo_fact_paths_add(struct kolo_fact_paths *paths, const struct kolo_fact_path *path)
{
    void *at = paths->at;
    kolo_status status = kolo_grow(&at, &paths->capacity, paths->count + 1, sizeof *path);
    if (status != KOLO_OK)
        return status;
    paths->at = at;
    paths->at[paths->count++] = *path;
    return KOLO_OK;
}

/* ---- out ---- */

size_t kolo_fact_line(char line[KOLO_FACT_LINE_MAX], const char *const *fields)
{
    size_t used = 0;
    for (size_t i = 0; fields[i]; i++) {
        if (i > 0 && used + 2 < KOLO_FACT_LINE_MAX)
            line[used++] = '\t';
        char *field = line + used;
        for (const char *c = fields[i]; *c && used + 2 < KOLO_FACT_LINE_MAX; c++)
            line[used++] = *c;
        line[used] = '\0';
        kolo_text_clean(field);
    }
    line[used++] = '\n';
    line[used] = '\0';
    return used;
}

size_t kolo_fact_line_v(char line[KOLO_FACT_LINE_MAX], const char *word, va_list fields)
{
    enum { MOST = 24 };
    const char *all[MOST + 1] = {word};
    size_t count = 1;
    for (const char *field; count < MOST && (field = va_arg(fields, const char *)) != NULL;)
        all[count++] = field;
    return kolo_fact_line(line, all);
}

/* ---- in ---- */

kolo_status kolo_fact_lines_take(char *text, size_t *bytes_io,
                                 kolo_status (*take)(void *context, char *line), void *context)
{
    kolo_status status = KOLO_OK;
    char *begin = text, *end;
    while (status == KOLO_OK &&
           (end = memchr(begin, '\n', *bytes_io - (size_t)(begin - text))) != NULL) {
        *end = '\0';
        status = take(context, begin);
        begin = end + 1;
    }
    *bytes_io -= (size_t)(begin - text);
    memmove(text, begin, *bytes_io);
    return status;
}

static int find(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

static bool read_number(const char *text, int64_t *number_out)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return false;
    *number_out = number;
    return true;
}

static bool read_flag(const char *text, bool *flag_out)
{
    *flag_out = text[0] == '1';
    return (text[0] == '0' || text[0] == '1') && text[1] == '\0';
}

static void keep(char *text, size_t capacity, const char *field)
{
    snprintf(text, capacity, "%s", field);
    kolo_text_clean(text);
}

typedef bool take_fn(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news);

static bool take_number(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)news;
    int64_t number;
    int index = find(number_names, KOLO_FACT_NUMBERS_COUNT, fields[0]);
    if (index < 0 || !read_number(fields[1], &number))
        return false;
    facts->number[index] = number < 0 ? -1 : number; /* unknown */
    return true;
}

static bool take_text(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)news;
    int index = find(text_names, KOLO_FACT_TEXTS_COUNT, fields[0]);
    if (index >= 0)
        keep(facts->text[index], sizeof facts->text[index], fields[1]);
    return index >= 0;
}

static bool take_backend(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)news;
    struct kolo_fact_backend backend;
    if (!read_flag(fields[2], &backend.works))
        return false;
    keep(backend.kind, sizeof backend.kind, fields[0]);
    keep(backend.name, sizeof backend.name, fields[1]);
    keep(backend.why, sizeof backend.why, fields[3]);
    if (facts->backend_count < KOLO_FACT_BACKENDS_MAX)
        facts->backends[facts->backend_count++] = backend;
    return true;
}

static bool take_place(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)news;
    struct kolo_fact_place place;
    if (!read_flag(fields[2], &place.is_hardware) || !read_number(fields[3], &place.speed_mbit) ||
        !read_number(fields[4], &place.mtu) || strlen(fields[0]) >= sizeof place.address)
        return false;
    keep(place.address, sizeof place.address, fields[0]);
    keep(place.interface, sizeof place.interface, fields[1]);
    if (facts->place_count < KOLO_FACT_PLACES_MAX)
        facts->places[facts->place_count++] = place;
    return true;
}

static bool take_other(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)news;
    struct kolo_fact_other other;
    if (!read_number(fields[0], &other.pid) || other.pid < 1 || other.pid > INT32_MAX ||
        !read_flag(fields[1], &other.has_launcher) || !read_number(fields[2], &other.age_s))
        return false;
    keep(other.program, sizeof other.program, fields[3]);
    if (facts->other_count < KOLO_FACT_OTHERS_MAX)
        facts->others[facts->other_count++] = other;
    return true;
}

static bool take_path(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)facts;
    int64_t to, place;
    int end = find(end_names, KOLO_FACT_PATH_ENDS, fields[2]);
    if (!read_number(fields[0], &to) || to < 0 || to > INT32_MAX || end < 0 ||
        !read_number(fields[1], &place) || place < 0 || place >= KOLO_FACT_PLACES_MAX ||
        !read_number(fields[3], &news->path.rtt_us))
        return false;
    news->kind = KOLO_LINE_PATH;
    news->path.to = (int)to;
    news->path.place = (int)place;
    news->path.end = (enum kolo_fact_path_end)end;
    keep(news->path.words, sizeof news->path.words, fields[4]);
    return true;
}

static bool take_clock(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)facts;
    news->kind = KOLO_LINE_CLOCK;
    return read_number(fields[0], &news->clock_ns) && news->clock_ns >= 0;
}

static bool take_begin(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)news;
    keep(facts->step, sizeof facts->step, fields[0]);
    return true;
}

static bool take_end(struct kolo_facts *facts, char *const *fields, struct kolo_fact_news *news)
{
    (void)facts;
    news->kind = KOLO_LINE_END;
    keep(news->step, sizeof news->step, fields[0]);
    return true;
}

static const struct {
    const char *word;
    size_t fields; /* fields after the word */
    take_fn *take;
} table[] = {{"number", 2, take_number}, {"text", 2, take_text},   {"backend", 4, take_backend},
             {"place", 5, take_place},   {"other", 4, take_other}, {"path", 5, take_path},
             {"clock", 1, take_clock},   {"begin", 1, take_begin}, {"end", 1, take_end}};

kolo_status kolo_facts_take(struct kolo_facts *facts, char *line, struct kolo_fact_news *news_out)
{
    char *fields[FIELDS_MAX], *rest = line;
    size_t count = 0;
    *news_out = (struct kolo_fact_news){.kind = KOLO_LINE_FACT};
    while (rest && count < FIELDS_MAX)
        fields[count++] = strsep(&rest, "\t");
    for (size_t i = 0; !rest && i < sizeof table / sizeof table[0]; i++)
        if (strcmp(fields[0], table[i].word) == 0 && count == table[i].fields + 1 &&
            table[i].take(facts, fields + 1, news_out))
            return KOLO_OK;
    return kolo_fail(KOLO_ERR_PROTOCOL, "sent '%.40s', which is not a known fact", fields[0]);
}
