// SPDX-License-Identifier: Apache-2.0
// The job as it is sent to an agent: lists of texts, and the body of a JOB frame.
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "launcher/frames.h"
#include "runtime/timeline.h"

enum { TEXTS_MAX = 1 << 20, SPEC_FIXED_BYTES = 64 };

static void free_text(char *text)
{
    kolo_free_wiped(text, text ? strlen(text) : 0);
}

/* Takes ownership of @p text, also after a failure; NULL: there was no memory for it. */
static kolo_status take_text(struct kolo_texts *texts, char *text)
{
    void *at = texts->at;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (text)
        status = kolo_grow(&at, &texts->capacity, texts->count + 2, sizeof(char *));
    if (status != KOLO_OK) {
        free_text(text);
        return status;
    }
    texts->at = at;
    texts->at[texts->count++] = text;
    texts->at[texts->count] = NULL;
    return KOLO_OK;
}

kolo_status kolo_texts_add(struct kolo_texts *texts, const char *text)
{
    return take_text(texts, kolo_strdup(text));
}

kolo_status kolo_texts_define(struct kolo_texts *texts, const char *name, const char *value)
{
    size_t name_len = strlen(name), value_len = strlen(value);
    char *entry = kolo_calloc(name_len + value_len + 2, 1);
    if (!entry)
        return KOLO_ERR_NO_MEMORY;
    memcpy(entry, name, name_len);
    entry[name_len] = '=';
    memcpy(entry + name_len + 1, value, value_len);
    for (size_t i = 0; i < texts->count; i++) {
        if (strncmp(texts->at[i], entry, name_len + 1) != 0)
            continue;
        free_text(texts->at[i]);
        texts->at[i] = entry;
        return KOLO_OK;
    }
    return take_text(texts, entry);
}

void kolo_texts_fini(struct kolo_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free_text(texts->at[i]);
    kolo_free_memory(texts->at);
    *texts = (struct kolo_texts){.at = NULL};
}

static size_t texts_bytes(const struct kolo_texts *texts)
{
    size_t bytes = sizeof(uint32_t);
    for (size_t i = 0; i < texts->count; i++)
        bytes += sizeof(uint32_t) + strlen(texts->at[i]);
    return bytes;
}

static void write_texts(struct kolo_writer *writer, const struct kolo_texts *texts)
{
    kolo_write_u32(writer, (uint32_t)texts->count);
    for (size_t i = 0; i < texts->count; i++)
        kolo_write_blob(writer, texts->at[i], strlen(texts->at[i]));
}

/* A blob as a NUL-terminated copy; NULL, and the reader has failed, if it contains a NUL. */
static kolo_status read_string(struct kolo_reader *reader, char **text_out)
{
    size_t bytes = 0;
    const uint8_t *data = kolo_read_blob(reader, &bytes);
    *text_out = NULL;
    if (!data || reader->failed || memchr(data, 0, bytes)) {
        reader->failed = true;
        return KOLO_OK;
    }
    *text_out = kolo_calloc(bytes + 1, 1);
    if (!*text_out)
        return KOLO_ERR_NO_MEMORY;
    memcpy(*text_out, data, bytes);
    return KOLO_OK;
}

static kolo_status read_texts(struct kolo_reader *reader, struct kolo_texts *texts)
{
    kolo_status status = KOLO_OK;
    size_t count = kolo_read_u32(reader);
    if (count > TEXTS_MAX)
        return kolo_fail(KOLO_ERR_DATA, "a list of %zu texts", count);
    for (size_t i = 0; i < count && !reader->failed; i++) {
        char *text;
        KOLO_TRY(read_string(reader, &text));
        if (text)
            KOLO_TRY(take_text(texts, text));
    }
out:
    return status;
}

kolo_status kolo_spec_pack(const struct kolo_spec *spec, uint8_t **data_out, size_t *bytes_out)
{
    size_t bytes = SPEC_FIXED_BYTES + spec->ranks.count * sizeof(uint32_t) + strlen(spec->cwd) +
                   texts_bytes(&spec->argv) + texts_bytes(&spec->env);
    if (bytes > KOLO_FRAME_BODY_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "arguments and environment of %zu bytes are too much",
                         bytes);
    uint8_t *data = kolo_calloc(bytes, 1);
    if (!data)
        return KOLO_ERR_NO_MEMORY;
    struct kolo_writer writer = kolo_writer_over(data, bytes);
    kolo_write_blob(&writer, spec->cwd, strlen(spec->cwd));
    write_texts(&writer, &spec->argv);
    write_texts(&writer, &spec->env);
    kolo_write_u32(&writer, spec->size);
    kolo_write_u32(&writer, spec->ranks.count);
    for (uint32_t i = 0; i < spec->ranks.count; i++)
        kolo_write_u32(&writer, spec->ranks.at[i]);
    kolo_write_u8(&writer, spec->has_input);
    kolo_write_u8(&writer, spec->is_dialogue);
    kolo_write_u8(&writer, (uint8_t)spec->bind);
    kolo_write_u32(&writer, spec->gpus);
    kolo_write_u32(&writer, spec->peer_timeout_ms);
    kolo_write_u32(&writer, spec->exit_timeout_ms);
    kolo_write_u32(&writer, spec->credit_bytes);
    kolo_write_u32(&writer, spec->timeline_calls);
    kolo_status status = kolo_writer_finish(&writer, data, bytes_out);
    if (status == KOLO_OK)
        *data_out = data;
    else
        kolo_free_wiped(data, bytes);
    return status;
}

static kolo_status read_ranks(struct kolo_reader *reader, struct kolo_ranks *ranks_out)
{
    const uint32_t count = kolo_read_u32(reader);
    if (count > kolo_reader_left(reader) / sizeof(uint32_t))
        return kolo_fail(KOLO_ERR_DATA, "a list of %u ranks", count);
    uint32_t *at = kolo_calloc(count, sizeof *at);
    if (!at)
        return KOLO_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        at[i] = kolo_read_u32(reader);
    *ranks_out = (struct kolo_ranks){.at = at, .count = count};
    return KOLO_OK;
}

kolo_status kolo_spec_unpack(struct kolo_reader *reader, struct kolo_spec *spec_out)
{
    kolo_status status = KOLO_OK;
    *spec_out = (struct kolo_spec){.cwd = NULL};
    KOLO_TRY(read_string(reader, &spec_out->cwd));
    KOLO_TRY(read_texts(reader, &spec_out->argv));
    KOLO_TRY(read_texts(reader, &spec_out->env));
    spec_out->size = kolo_read_u32(reader);
    KOLO_TRY(read_ranks(reader, &spec_out->ranks));
    spec_out->has_input = kolo_read_u8(reader) != 0;
    spec_out->is_dialogue = kolo_read_u8(reader) != 0;
    unsigned bind = kolo_read_u8(reader);
    spec_out->bind = (enum kolo_bind)bind;
    spec_out->gpus = kolo_read_u32(reader);
    spec_out->peer_timeout_ms = kolo_read_u32(reader);
    spec_out->exit_timeout_ms = kolo_read_u32(reader);
    spec_out->credit_bytes = kolo_read_u32(reader);
    spec_out->timeline_calls = kolo_read_u32(reader);
    KOLO_TRY(kolo_reader_finish(reader, "the job's description"));
    if (spec_out->argv.count == 0 || bind >= KOLO_BINDS || spec_out->gpus > KOLO_GPUS_MAX ||
        !kolo_ranks_are_valid(&spec_out->ranks, spec_out->size) ||
        (spec_out->timeline_calls > 0 &&
         spec_out->timeline_calls != kolo_timeline_calls(spec_out->timeline_calls, 1)))
        status = kolo_fail(KOLO_ERR_DATA, "the job's description is malformed");
out:
    return status;
}

kolo_status kolo_spec_environment(const struct kolo_spec *spec, struct kolo_texts *env)
{
    kolo_status status = KOLO_OK;
    for (char *const *entry = kolo_environment_entries(); *entry; entry++)
        if (strchr(*entry, '='))
            KOLO_TRY(kolo_texts_add(env, *entry));
    for (size_t i = 0; i < spec->env.count; i++) {
        char *equals = strchr(spec->env.at[i], '=');
        if (!equals)
            continue;
        *equals = '\0';
        status = kolo_texts_define(env, spec->env.at[i], equals + 1);
        *equals = '=';
        if (status != KOLO_OK)
            goto out;
    }
out:
    return status;
}

void kolo_spec_fini(struct kolo_spec *spec)
{
    kolo_free_memory(spec->cwd);
    kolo_free_memory(spec->ranks.at);
    kolo_texts_fini(&spec->argv);
    kolo_texts_fini(&spec->env);
    *spec = (struct kolo_spec){.cwd = NULL};
}
