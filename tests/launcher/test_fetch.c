// SPDX-License-Identifier: Apache-2.0
// What a process beside kolorun reads arrives whole, or why it was not read.
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "launcher/fetch.h"

enum { LONG_MS = 60000, SHORT_MS = 100, BYTES = 3 << 20 /* more than a socket holds */ };

TestSuite(fetch, .timeout = 60);

static kolo_status give(const void *context, void **data_out, size_t *bytes_out)
{
    uint8_t *data = kolo_calloc(BYTES, 1);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    *data_out = data;
    *bytes_out = *(const size_t *)context;
    return KOLO_OK;
}

static kolo_status refuse(const void *context, void **data_out, size_t *bytes_out)
{
    (void)context, (void)data_out, (void)bytes_out;
    return kolo_fail(KOLO_ERR_DATA, "not a cheese");
}

static kolo_status die(const void *context, void **data_out, size_t *bytes_out)
{
    (void)context, (void)data_out, (void)bytes_out;
    (void)raise(SIGKILL);
    return KOLO_OK;
}

static kolo_status hang(const void *context, void **data_out, size_t *bytes_out)
{
    (void)context, (void)data_out, (void)bytes_out;
    while (pause() < 0)
        continue;
    return KOLO_OK;
}

static kolo_status fetch(kolo_status (*read)(const void *, void **, size_t *), int64_t limit_ms,
                         size_t wanted, void **data_out, size_t *bytes_out)
{
    const struct kolo_fetch what = {
        .what = "file 'x'", .limit_ms = limit_ms, .read = read, .context = &wanted};
    return kolo_fetch(&what, data_out, bytes_out);
}

Test(fetch, data_arrives_whole)
{
    static const size_t sizes[] = {0, 1, 4096, BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *data = NULL, *same = NULL;
        size_t bytes = 1, same_bytes = 0;
        cr_assert_eq(fetch(give, LONG_MS, sizes[i], &data, &bytes), KOLO_OK);
        cr_assert_eq(give(&sizes[i], &same, &same_bytes), KOLO_OK);
        cr_assert(bytes == sizes[i] && memcmp(data, same, bytes) == 0);
        cr_assert_eq(((uint8_t *)data)[bytes], 0);
        kolo_free_memory(data);
        kolo_free_memory(same);
    }
}

Test(fetch, failures_are_told)
{
    void *data = NULL;
    size_t bytes = 0;
    cr_assert_eq(fetch(refuse, LONG_MS, 0, &data, &bytes), KOLO_ERR_DATA);
    cr_assert_str_eq(kolo_error_detail(), "not a cheese");
    cr_assert_eq(fetch(die, LONG_MS, 0, &data, &bytes), KOLO_ERR_SYSTEM);
    cr_assert_str_eq(kolo_error_detail(),
                     "file 'x': kolorun-files, the process that reads it, has died");
    cr_assert_eq(fetch(hang, SHORT_MS, 0, &data, &bytes), KOLO_ERR_INVALID);
    cr_assert_str_eq(kolo_error_detail(),
                     "file 'x': not read within 0.1 s (KOLO_START_TIMEOUT), as "
                     "its file system did not answer; name a file that can "
                     "be read");
    cr_assert(!data && bytes == 0);
}
