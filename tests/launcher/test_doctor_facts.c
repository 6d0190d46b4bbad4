// SPDX-License-Identifier: Apache-2.0
// Lines of facts: what is written is read back, and what another host invents is refused or
// truncated.
#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/doctor_facts.h"

static struct kolo_facts facts;
static struct kolo_fact_news news;

static void begin(void)
{
    kolo_facts_init(&facts);
}
TestSuite(doctor_facts, .init = begin);

static kolo_status take(const char *text)
{
    char line[8192];
    snprintf(line, sizeof line, "%s", text);
    return kolo_facts_take(&facts, line, &news);
}

/* Written by one side, read by the other. */
static kolo_status pass(const char *const *fields)
{
    char line[KOLO_FACT_LINE_MAX];
    size_t bytes = kolo_fact_line(line, fields);
    cr_assert(bytes == strlen(line) && line[bytes - 1] == '\n');
    cr_assert(strchr(line, '\n') == line + bytes - 1, "one line: %s", line);
    line[bytes - 1] = '\0';
    return kolo_facts_take(&facts, line, &news);
}

Test(doctor_facts, every_number_and_text_comes_through)
{
    for (int i = 0; i < KOLO_FACT_NUMBERS_COUNT; i++) {
        const char *name = kolo_fact_number_name((enum kolo_fact_number)i);
        cr_assert(facts.number[i] == -1);
        cr_assert(pass((const char *[]){"number", name, "9223372036854775807", NULL}) == KOLO_OK);
        cr_assert(facts.number[i] == INT64_MAX && news.kind == KOLO_LINE_FACT);
    }
    for (int i = 0; i < KOLO_FACT_TEXTS_COUNT; i++) {
        const char *name = kolo_fact_text_name((enum kolo_fact_text)i);
        cr_assert(pass((const char *[]){"text", name, "a b \xc3\xa4", NULL}) == KOLO_OK);
        cr_assert(strcmp(facts.text[i], "a b \xc3\xa4") == 0);
    }
}

Test(doctor_facts, lists_and_news)
{
    cr_assert(take("backend\ttransport\trdma\t0\tno device") == KOLO_OK);
    cr_assert(!facts.backends[0].works && strcmp(facts.backends[0].why, "no device") == 0);
    cr_assert(take("place\t[fe80::1]:80\teth0\t1\t25000\t9000") == KOLO_OK);
    cr_assert(facts.places[0].is_hardware && facts.places[0].mtu == 9000);
    cr_assert(take("other\t42\t0\t3600\ttrain") == KOLO_OK);
    cr_assert(facts.others[0].pid == 42 && facts.others[0].age_s == 3600);
    cr_assert(take("begin\tcuda") == KOLO_OK && strcmp(facts.step, "cuda") == 0);
    cr_assert(take("end\tsurvey") == KOLO_OK);
    cr_assert(news.kind == KOLO_LINE_END && strcmp(news.step, "survey") == 0);
    cr_assert(take("clock\t1700000000000000000") == KOLO_OK);
    cr_assert(news.kind == KOLO_LINE_CLOCK && news.clock_ns == 1700000000000000000);
    for (int i = 0; i < KOLO_FACT_PATH_ENDS; i++) {
        char line[128];
        snprintf(line, sizeof line, "path\t3\t1\t%s\t120\twhy",
                 kolo_fact_path_end_name((enum kolo_fact_path_end)i));
        cr_assert(take(line) == KOLO_OK);
        cr_assert(news.kind == KOLO_LINE_PATH && (int)news.path.end == i && news.path.to == 3 &&
                  news.path.place == 1 && news.path.rtt_us == 120);
    }
}

Test(doctor_facts, nonsense_is_refused)
{
    static const char *const bad[] = {
        "",
        "nothing",
        "number\tcpus",
        "number\tcpus\t",
        "number\tcpus\t1x",
        "number\tcpus\t99999999999999999999",
        "number\tcpus\t1\t2",
        "number\tnosuch\t1",
        "text\tnosuch\ta",
        "text\thost",
        "backend\ttransport\ttcp\t2\t",
        "backend\ttransport\ttcp\t1",
        "place\t1.2.3.4:5\teth0\tyes\t1\t1",
        "place\t1.2.3.4:5\teth0\t1\t\t1",
        "other\tx\t0\t1\ta",
        "other\t-1\t0\t-1\ta",
        "other\t0\t0\t1\ta",
        "other\t4294967297\t0\t1\ta",
        "path\t-1\t0\tfine\t1\t",
        "path\t4294967296\t0\tfine\t1\t",
        "path\t0\t16\tfine\t1\t",
        "path\t0\t-1\tfine\t1\t",
        "path\t0\t0\tsplendid\t1\t",
        "clock\tnoon",
        "clock\t-9223372036854775808",
        "a\tb\tc\td\te\tf\tg\th\ti\tj",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert(take(bad[i]) == KOLO_ERR_PROTOCOL, "'%s'", bad[i]);
}

Test(doctor_facts, what_is_below_zero_is_unknown)
{
    cr_assert(take("number\tcpus\t-9223372036854775808") == KOLO_OK);
    cr_assert(facts.number[KOLO_FACT_cpus] == -1);
}

Test(doctor_facts, no_control_character_of_utf8_gets_to_a_terminal)
{
    char line[KOLO_FACT_LINE_MAX];
    cr_assert(take("text\thost\t\xc2\x9b"
                   "31m\xc2\x80\xc2\x9f|\xc2\xa0\xc3\x9b\xc2") == KOLO_OK);
    cr_assert(strcmp(facts.text[KOLO_FACT_host], "??31m????|\xc2\xa0\xc3\x9b\xc2") == 0, "%s",
              facts.text[KOLO_FACT_host]);
    cr_assert(pass((const char *[]){"text", "host",
                                    "a\xc2\x9b"
                                    "b\xc2",
                                    NULL}) == KOLO_OK);
    cr_assert(strcmp(facts.text[KOLO_FACT_host], "a??b\xc2") == 0);
    (void)kolo_fact_line(line, (const char *[]){"\xc2", "\x9b", NULL});
    cr_assert(strcmp(line, "\xc2\t\x9b\n") == 0, "two fields are no character");
}

Test(doctor_facts, lists_are_bounded_and_words_are_cut)
{
    char line[4096], *at = line;
    for (int i = 0; i < 1000; i++) {
        cr_assert(take("place\t1.2.3.4:5\teth0\t1\t1\t1") == KOLO_OK);
        cr_assert(take("backend\ta\tb\t1\tc") == KOLO_OK);
        cr_assert(take("other\t1\t1\t1\tc") == KOLO_OK);
    }
    cr_assert(facts.place_count == KOLO_FACT_PLACES_MAX);
    cr_assert(facts.backend_count == KOLO_FACT_BACKENDS_MAX);
    cr_assert(facts.other_count == KOLO_FACT_OTHERS_MAX);
    at += snprintf(at, sizeof line, "text\thost\t\x1b[31m");
    memset(at, 'x', 2000);
    at[2000] = '\0';
    cr_assert(take(line) == KOLO_OK);
    cr_assert(strlen(facts.text[KOLO_FACT_host]) == KOLO_FACT_TEXT_MAX - 1);
    cr_assert(facts.text[KOLO_FACT_host][0] == '?', "no escape sequence gets to a terminal");
    memset(line, '1', 200);
    memcpy(line, "place\t", 6);
    snprintf(line + 200, 64, "\teth0\t1\t1\t1");
    cr_assert(take(line) == KOLO_ERR_PROTOCOL, "a cut address would be another one");
}

Test(doctor_facts, a_line_is_one_whatever_is_in_it)
{
    char longest[5000];
    memset(longest, 'y', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cr_assert(pass((const char *[]){"text", "host", "a\nnumber\tcpus\t1\r", NULL}) == KOLO_OK);
    cr_assert(strcmp(facts.text[KOLO_FACT_host], "a?number?cpus?1?") == 0);
    cr_assert(facts.number[KOLO_FACT_cpus] == -1);
    cr_assert(pass((const char *[]){"text", "host", longest, NULL}) == KOLO_OK);
}

Test(doctor_facts, paths_grow)
{
    struct kolo_fact_paths paths = {.at = NULL};
    for (int i = 0; i < 1000; i++)
        cr_assert(kolo_fact_paths_add(&paths, &(struct kolo_fact_path){.to = i}) == KOLO_OK);
    cr_assert(paths.count == 1000 && paths.at[999].to == 999);
    kolo_free_memory(paths.at);
}

/* ---- lines as they arrive ---- */

static size_t write_line(char line[KOLO_FACT_LINE_MAX], const char *word, ...)
{
    va_list fields;
    va_start(fields, word);
    size_t bytes = kolo_fact_line_v(line, word, fields);
    va_end(fields);
    return bytes;
}

Test(doctor_facts, fields_may_be_arguments)
{
    char line[KOLO_FACT_LINE_MAX];
    cr_assert(write_line(line, "dial", NULL) == 5 && strcmp(line, "dial\n") == 0);
    cr_assert(write_line(line, "self", "1", "2", NULL) == 9 && strcmp(line, "self\t1\t2\n") == 0);
    (void)write_line(line, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13",
                     "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", NULL);
    cr_assert(strcmp(strrchr(line, '\t'), "\t23\n") == 0, "%s", line);
}

/* Joins what it gets, and fails at a line "no". */
static kolo_status join(void *context, char *line)
{
    char *all = context;
    (void)strcat(strcat(all, line), ";");
    return strcmp(line, "no") == 0 ? KOLO_ERR_PROTOCOL : KOLO_OK;
}

Test(doctor_facts, complete_lines_are_taken_and_the_rest_stays)
{
    char text[64] = "one\n\ntwo\nthr", all[64] = "";
    size_t bytes = strlen(text);
    cr_assert(kolo_fact_lines_take(text, &bytes, join, all) == KOLO_OK);
    cr_assert(strcmp(all, "one;;two;") == 0 && bytes == 3 && memcmp(text, "thr", 3) == 0);
    cr_assert(kolo_fact_lines_take(text, &bytes, join, all) == KOLO_OK);
    cr_assert(strcmp(all, "one;;two;") == 0 && bytes == 3);
    memcpy(text + bytes, "ee\nno\nfour\n", 11);
    bytes += 11;
    cr_assert(kolo_fact_lines_take(text, &bytes, join, all) == KOLO_ERR_PROTOCOL);
    cr_assert(strcmp(all, "one;;two;three;no;") == 0 && bytes == 5, "%s", all);
    cr_assert(memcmp(text, "four\n", 5) == 0, "what follows is not looked at");
}
