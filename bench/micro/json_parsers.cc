// SPDX-License-Identifier: Apache-2.0
// What reading a list of COCO results costs with one parser: `json_parsers PARSER FILE` adds up
// what kolo-coco keeps of each detection, and prints the sums, the time and the peak memory.
// bench/micro/json_parsers compiles and runs it. Equal sums show that the parsers did the same
// work.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <jansson.h>
#include <simdjson.h>
#include <string>
#include <sys/resource.h>
#include <yajl/yajl_parse.h>

extern "C" {
#include "evaluate/number.h"
}

namespace {

struct Sums {
    uint64_t count = 0;
    int64_t ids = 0;
    double numbers = 0; // in the order of the file
};

void fail(const char *what)
{
    std::fprintf(stderr, "json_parsers: %s\n", what);
    std::exit(1);
}

enum Field { NONE, IMAGE, CATEGORY, BOX, SCORE };

struct Reader {
    Sums sums;
    int depth = 0;
    Field field = NONE;
    bool with_strtod = false;
};

int on_number(void *context, const char *text, size_t length)
{
    Reader *reader = static_cast<Reader *>(context);
    double value;
    if (reader->field == IMAGE || reader->field == CATEGORY) {
        reader->sums.ids += std::strtoll(text, nullptr, 10);
    } else if (reader->field == BOX || reader->field == SCORE) {
        if (reader->with_strtod)
            value = std::strtod(text, nullptr);
        else if (!eval_number_read(text, length, &value))
            fail("a long number");
        reader->sums.numbers += value;
    }
    return 1;
}

int on_key(void *context, const unsigned char *key, size_t length)
{
    Reader *reader = static_cast<Reader *>(context);
    const char *text = reinterpret_cast<const char *>(key);
    auto is = [&](const char *name) {
        return std::strlen(name) == length && std::memcmp(name, text, length) == 0;
    };
    reader->field = is("image_id")      ? IMAGE
                    : is("category_id") ? CATEGORY
                    : is("bbox")        ? BOX
                    : is("score")       ? SCORE
                                        : NONE;
    return 1;
}

int on_object_end(void *context)
{
    static_cast<Reader *>(context)->sums.count++;
    return 1;
}

Sums by_yajl(const char *path, bool with_strtod)
{
    yajl_callbacks callbacks = {};
    callbacks.yajl_number = on_number;
    callbacks.yajl_map_key = on_key;
    callbacks.yajl_end_map = on_object_end;
    Reader reader;
    reader.with_strtod = with_strtod;
    yajl_handle parser = yajl_alloc(&callbacks, nullptr, &reader);
    std::FILE *file = std::fopen(path, "rb");
    static unsigned char piece[1 << 20];
    size_t got;
    if (!file)
        fail("no file");
    while ((got = std::fread(piece, 1, sizeof piece, file)) > 0)
        if (yajl_parse(parser, piece, got) != yajl_status_ok)
            fail("yajl refuses it");
    if (yajl_complete_parse(parser) != yajl_status_ok)
        fail("yajl: cut");
    std::fclose(file);
    yajl_free(parser);
    return reader.sums;
}

Sums by_jansson(const char *path)
{
    Sums sums;
    json_t *list = json_load_file(path, 0, nullptr), *one;
    size_t i;
    if (!list)
        fail("jansson refuses it");
    json_array_foreach(list, i, one)
    {
        sums.ids += json_integer_value(json_object_get(one, "image_id"));
        sums.ids += json_integer_value(json_object_get(one, "category_id"));
        for (size_t j = 0; j < 4; j++)
            sums.numbers += json_number_value(json_array_get(json_object_get(one, "bbox"), j));
        sums.numbers += json_number_value(json_object_get(one, "score"));
        sums.count++;
    }
    json_decref(list);
    return sums;
}

void take(simdjson::ondemand::object object, Sums &sums)
{
    for (auto field : object) {
        std::string_view key = field.unescaped_key();
        if (key == "image_id" || key == "category_id")
            sums.ids += field.value().get_int64();
        else if (key == "bbox")
            for (auto number : field.value().get_array())
                sums.numbers += double(number);
        else if (key == "score")
            sums.numbers += double(field.value());
    }
    sums.count++;
}

Sums by_simdjson(const char *path)
{
    Sums sums;
    simdjson::ondemand::parser parser;
    simdjson::padded_string text = simdjson::padded_string::load(path);
    simdjson::ondemand::document document = parser.iterate(text);
    for (auto one : document.get_array())
        take(one.get_object(), sums);
    return sums;
}

// The end of the object that begins at `at`; 0: not in this piece.
size_t object_end(const char *data, size_t at, size_t to)
{
    int depth = 0;
    bool in_string = false;
    for (; at < to; at++) {
        char byte = data[at];
        if (in_string) {
            if (byte == '\\')
                at++;
            else if (byte == '"')
                in_string = false;
        } else if (byte == '"') {
            in_string = true;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if (byte == '}' || byte == ']') {
            if (--depth == 0)
                return at + 1;
        }
    }
    return 0;
}

// Parses object by object, in pieces, so that the file is never in memory as a whole.
Sums by_simdjson_pieces(const char *path)
{
    const size_t room = 1 << 20;
    std::string piece(room + simdjson::SIMDJSON_PADDING, ' ');
    simdjson::ondemand::parser parser;
    Sums sums;
    std::FILE *file = std::fopen(path, "rb");
    size_t kept = 0, got;
    if (!file)
        fail("no file");
    while ((got = std::fread(&piece[kept], 1, room - kept, file)) > 0) {
        size_t bytes = kept + got, at = 0, end = 0;
        for (;;) {
            while (at < bytes && piece[at] != '{')
                at++;
            if (at == bytes || !(end = object_end(piece.data(), at, bytes)))
                break;
            simdjson::ondemand::document document =
                parser.iterate(piece.data() + at, end - at, piece.size() - at);
            take(document.get_object(), sums);
            at = end;
        }
        kept = bytes - at;
        std::memmove(&piece[0], piece.data() + at, kept);
    }
    std::fclose(file);
    return sums;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("usage: json_parsers yajl|yajl-strtod|jansson|simdjson|simdjson-pieces FILE");
    std::string how = argv[1];
    auto begin = std::chrono::steady_clock::now();
    Sums sums = how == "yajl"              ? by_yajl(argv[2], false)
                : how == "yajl-strtod"     ? by_yajl(argv[2], true)
                : how == "jansson"         ? by_jansson(argv[2])
                : how == "simdjson"        ? by_simdjson(argv[2])
                : how == "simdjson-pieces" ? by_simdjson_pieces(argv[2])
                                           : (fail("unknown parser"), Sums());
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%-16s %6.2f s  %8.1f MiB  %llu detections, sums %lld and %.17g\n", argv[1],
                time.count(), static_cast<double>(usage.ru_maxrss) / 1024,
                static_cast<unsigned long long>(sums.count), static_cast<long long>(sums.ids),
                sums.numbers);
    return 0;
}
