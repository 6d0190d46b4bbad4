// SPDX-License-Identifier: Apache-2.0
// fuzz_main CORPUS [CASES [SEED]]: passes every file of the folder to LLVMFuzzerTestOneInput(),
// then CASES mutations: bytes, numbers and words are replaced, parts are cut, doubled or exchanged
// between files, and sometimes everything is compressed. A failure is reported by the number of its
// case; the seed reproduces it.
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/fuzz/fuzz.h"

enum { FILES_MAX = 256, BYTES_MAX = 1 << 16 };

static struct file {
    unsigned char *data;
    size_t size;
} files[FILES_MAX];
static size_t count;
static char now[128]; /* the case that is running */

static const char *const words[] = {"NaN",
                                    "-Infinity",
                                    "1e999",
                                    "-1",
                                    "null",
                                    "true",
                                    "\"\"",
                                    "[]",
                                    "{}",
                                    "[[[[[[",
                                    "{\"a\":{\"a\":",
                                    "\\u0000",
                                    "\\ud800",
                                    "\xff",
                                    "\xef\xbb\xbf",
                                    "4294967296",
                                    "9223372036854775808",
                                    "0.5e-400",
                                    "\"",
                                    ",",
                                    ":",
                                    "]",
                                    "}",
                                    "[",
                                    "{",
                                    " ",
                                    "0",
                                    "1.0",
                                    "1.5",
                                    "1e3",
                                    "image_id",
                                    "category_id",
                                    "bbox",
                                    "score",
                                    "area",
                                    "iscrowd",
                                    "segmentation",
                                    "keypoints",
                                    "num_keypoints",
                                    "counts",
                                    "size",
                                    "annotations",
                                    "images",
                                    "categories",
                                    "id",
                                    "height",
                                    "width",
                                    "false"};

static uint64_t state;

static uint64_t next_bits(void)
{
    uint64_t bits = state += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

static size_t below(size_t limit)
{
    return limit > 0 ? (size_t)(next_bits() % limit) : 0;
}

static void on_abort(int signal)
{
    (void)signal;
    (void)!write(STDERR_FILENO, now, strlen(now));
    _exit(1);
}

/* Replaces @p gone bytes by @p more bytes. */
static void replace(struct file *file, size_t at, size_t gone, const void *with, size_t more)
{
    if (at + gone > file->size || file->size - gone + more > BYTES_MAX)
        return;
    memmove(file->data + at + more, file->data + at + gone, file->size - at - gone);
    memcpy(file->data + at, with, more);
    file->size += more - gone;
}

/* The length of the token at a position: a number, a word, or one byte. */
static size_t token(const struct file *file, size_t at)
{
    size_t length = 0;
    while (at + length < file->size && !strchr("\"[]{},: \n", file->data[at + length]))
        length++;
    return length > 0 ? length : at < file->size;
}

static void change(struct file *file)
{
    static unsigned char part[BYTES_MAX];
    const struct file *from = &files[below(count)];
    const char *word = words[below(sizeof words / sizeof *words)];
    size_t at = below(file->size + 1), length = token(file, at), other;
    switch (below(8)) {
    case 0: /* a byte */
        replace(file, at, at < file->size, &(unsigned char){(unsigned char)next_bits()}, 1);
        break;
    case 1:
        replace(file, at, 0, word, strlen(word));
        break;
    case 2:
    case 3: /* one token by another, so that the file is mostly still JSON */
        while (at > 0 && !strchr("\"[]{},: \n", file->data[at - 1]))
            at--;
        replace(file, at, token(file, at), word, strlen(word));
        break;
    case 4:
        replace(file, at, length, "", 0);
        break;
    case 5: /* a part of any file, including this one */
        other = below(from->size);
        length = below(from->size - other < 200 ? from->size - other : 200);
        memcpy(part, from->data + other, length);
        replace(file, at, 0, part, length);
        break;
    case 6:
        length = below(40);
        if (at + length <= file->size)
            replace(file, at, length, "", 0);
        break;
    default:
        if (below(4) == 0)
            file->size = at;
    }
}

static void pack(const struct file *from, struct file *to)
{
    z_stream stream = {.next_in = from->data, .avail_in = (unsigned)from->size};
    stream.next_out = to->data;
    stream.avail_out = BYTES_MAX;
    if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        exit(2);
    (void)deflate(&stream, Z_FINISH);
    to->size = BYTES_MAX - stream.avail_out;
    deflateEnd(&stream);
}

/* In a block of its own, so that a sanitizer detects reads of one byte too many. */
static void try(const struct file *file)
{
    unsigned char *copy = malloc(file->size + (file->size == 0));
    if (!copy)
        exit(2);
    memcpy(copy, file->data, file->size);
    (void)LLVMFuzzerTestOneInput(copy, file->size);
    free(copy);
}

static void mutate(uint64_t seed, uint64_t number)
{
    static unsigned char bytes[BYTES_MAX], packed_bytes[BYTES_MAX];
    struct file file = {.data = bytes}, packed = {.data = packed_bytes};
    state = seed * UINT64_C(0xd1342543de82ef95) + number;
    const struct file *from = &files[below(count)];
    memcpy(bytes, from->data, from->size);
    file.size = from->size;
    (void)snprintf(now, sizeof now, "fuzz_main: case %llu of seed %llu\n",
                   (unsigned long long)number, (unsigned long long)seed);
    for (size_t changes = 1 + below(4); changes > 0; changes--)
        change(&file);
    if (below(8) == 0) {
        pack(&file, &packed);
        if (below(2) == 0)
            change(&packed);
        try(&packed);
    } else {
        try(&file);
    }
}

static void read_corpus(const char *folder)
{
    struct dirent **names;
    int found = scandir(folder, &names, NULL, alphasort);
    if (found > FILES_MAX) {
        fprintf(stderr, "fuzz_main: %d files in %s are more than %d\n", found, folder, FILES_MAX);
        exit(2);
    }
    for (int i = 0; i < found; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        FILE *file = names[i]->d_name[0] != '.' && count < FILES_MAX ? fopen(path, "rb") : NULL;
        if (file) {
            files[count].data = malloc(BYTES_MAX);
            files[count].size =
                files[count].data ? fread(files[count].data, 1, BYTES_MAX, file) : 0;
            (void)snprintf(now, sizeof now, "fuzz_main: %.100s\n", names[i]->d_name);
            try(&files[count++]);
            fclose(file);
        }
        free(names[i]);
    }
    if (found >= 0)
        free(names);
}

int main(int argc, char **argv)
{
    uint64_t cases = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    signal(SIGABRT, on_abort);
    if (argc < 2)
        return 2;
    read_corpus(argv[1]);
    if (count == 0) {
        fprintf(stderr, "fuzz_main: no file in %s\n", argv[1]);
        return 2;
    }
    for (uint64_t i = 0; i < cases; i++)
        mutate(seed, i);
    printf("%zu files and %llu changed ones\n", count, (unsigned long long)cases);
    for (size_t i = 0; i < count; i++)
        free(files[i].data);
    return 0;
}
