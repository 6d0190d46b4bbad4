// SPDX-License-Identifier: Apache-2.0
// memory/cuda.c with the mock driver: the kind of a pointer, what a copy waits for and in which
// context it runs, and what is left when a call fails.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "memory/memory.h"
#include "tests/support/mock_cuda.h"

extern const struct kolo_memory_ops kolo_memory_cuda;

static const char text[] = "written by a kernel";

static const struct mock_cuda *begin(void)
{
    const struct mock_cuda *mock = mock_cuda_load();
    mock->begin();
    return mock;
}

Test(cuda, is_in_the_table)
{
    bool found = false;
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        found |= kolo_memory_kinds[i] == &kolo_memory_cuda;
    cr_assert(found);
}

Test(cuda, kinds_are_told_apart)
{
    static const enum kolo_memory_kind expected[MOCK_KINDS] = {
        [MOCK_DEVICE] = KOLO_MEMORY_DEVICE,     [MOCK_OTHER] = KOLO_MEMORY_DEVICE,
        [MOCK_NO_CONTEXT] = KOLO_MEMORY_DEVICE, [MOCK_MANAGED] = KOLO_MEMORY_MANAGED,
        [MOCK_PINNED] = KOLO_MEMORY_PINNED,
    };
    const struct mock_cuda *mock = begin();
    cr_assert(kolo_pointer_may_be_foreign());
    for (int kind = 0; kind < MOCK_KINDS; kind++)
        for (int device = 0; device < MOCK_DEVICES; device++) {
            struct kolo_pointer pointer;
            const char *memory = mock->alloc((enum mock_kind)kind, device, 64);
            cr_assert_eq(kolo_pointer_look(memory + 63, &pointer), KOLO_OK);
            cr_assert_eq(pointer.kind, expected[kind], "kind %d", kind);
            cr_assert_eq(pointer.device, device);
            cr_assert_eq(kolo_pointer_is_host(&pointer), kind == MOCK_PINNED);
        }
    char own = 0;
    struct kolo_pointer pointer;
    cr_assert_eq(kolo_pointer_look(&own, &pointer), KOLO_OK);
    cr_assert(pointer.kind == KOLO_MEMORY_HOST && !pointer.ops && pointer.device == -1);
}

Test(cuda, memory_of_a_pool_of_the_host_belongs_to_no_device)
{
    const struct mock_cuda *mock = begin();
    struct kolo_pointer pointer;
    char copy[sizeof text] = "";
    mock->set_current(1);
    cr_assert_eq(kolo_pointer_look(mock->alloc(MOCK_PINNED, -1, 64), &pointer), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert(kolo_pointer_is_host(&pointer));
    char *memory = mock->alloc(MOCK_MANAGED, -1, sizeof text);
    mock->write(memory, text, sizeof text);
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(pointer.kind, KOLO_MEMORY_MANAGED);
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof text, copy, KOLO_NEVER), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_str_eq(copy, text);
}

Test(cuda, before_the_program_uses_it_all_is_the_hosts)
{
    const struct mock_cuda *mock = mock_cuda_load();
    struct kolo_pointer pointer;
    struct kolo_why why = {.text = ""};
    cr_assert_eq(kolo_pointer_look(text, &pointer), KOLO_OK);
    cr_assert(kolo_pointer_is_host(&pointer));
    cr_assert_eq(mock->calls("cuInit"), 0);
    cr_assert_eq(kolo_memory_cuda.probe(&why), KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(why.text, "has not begun"), "%s", why.text);
    cr_assert_eq(mock->calls("cuInit"), 0);
}

/* The state before and after a copy; context 2 * device is the primary one. */
struct visit {
    enum mock_kind kind;
    int device, current;
};

static struct visit visits[MOCK_KINDS * MOCK_DEVICES * (MOCK_DEVICES + 1)];

ParameterizedTestParameters(cuda, copies_after_all_earlier_work)
{
    size_t count = 0;
    for (int kind = 0; kind < MOCK_KINDS; kind++)
        for (int device = 0; device < MOCK_DEVICES; device++)
            for (int current = -1; current < MOCK_DEVICES && kind != MOCK_PINNED; current++)
                visits[count++] = (struct visit){
                    .kind = (enum mock_kind)kind, .device = device, .current = current};
    return cr_make_param_array(struct visit, visits, count);
}

ParameterizedTest(struct visit *visit, cuda, copies_after_all_earlier_work)
{
    const struct mock_cuda *mock = begin();
    char copy[sizeof text] = "";
    struct kolo_pointer pointer;
    void *memory = mock_cuda_copy(mock, visit->kind, visit->device, text, sizeof text);
    mock->set_current(visit->current);
    const int current = mock->current(), depth = mock->depth();
    const int retained[] = {mock->retained(0), mock->retained(1)};
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof text, copy, KOLO_NEVER), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_str_eq(copy, text);
    cr_assert(mock->current() == current && mock->depth() == depth);
    for (int device = 0; device < MOCK_DEVICES; device++)
        cr_assert_eq(mock->retained(device), retained[device]);
}

Test(cuda, every_call_that_fails_is_named_and_leaves_nothing)
{
    static const char *const functions[] = {"cuPointerGetAttributes",   "cuDeviceGet",
                                            "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2",
                                            "cuCtxRecordEvent",         "cuMemcpyDtoH_v2"};
    const struct mock_cuda *mock = begin();
    void *memory = mock_cuda_copy(mock, MOCK_NO_CONTEXT, 1, text, sizeof text);
    mock->set_current(0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int result = KOLO_CUDA_OUT_OF_MEMORY; result;
             result = result == KOLO_CUDA_OUT_OF_MEMORY ? KOLO_CUDA_ILLEGAL_ADDRESS : 0) {
            struct kolo_pointer pointer;
            char copy[sizeof text] = "", call[64];
            const int retained = mock->retained(1);
            mock->fail(functions[i], 1, result);
            kolo_status status = kolo_pointer_look(memory, &pointer);
            if (status == KOLO_OK)
                status = kolo_pointer_fetch(&pointer, sizeof text, copy, KOLO_NEVER);
            cr_assert_eq(status,
                         result == KOLO_CUDA_OUT_OF_MEMORY ? KOLO_ERR_NO_MEMORY : KOLO_ERR_SYSTEM);
            snprintf(call, sizeof call, "%.*s", (int)strcspn(functions[i], "_"), functions[i]);
            cr_assert_not_null(strstr(kolo_error_detail(), call), "%s", kolo_error_detail());
            snprintf(call, sizeof call, "(%d)", result);
            cr_assert_not_null(strstr(kolo_error_detail(), call), "%s", kolo_error_detail());
            cr_assert(mock->current() == 0 && mock->depth() == 1 && mock->capture_mode() == 0, "%s",
                      functions[i]);
            if (result == KOLO_CUDA_OUT_OF_MEMORY) /* a lost device frees nothing */
                cr_assert_eq(mock->retained(1), retained, "%s", functions[i]);
        }
}

Test(cuda, memory_that_is_gone_or_too_short_is_an_error)
{
    const struct mock_cuda *mock = begin();
    struct kolo_pointer pointer;
    char copy[sizeof text + 1];
    void *memory = mock_cuda_copy(mock, MOCK_DEVICE, 0, text, sizeof text);
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof copy, copy, KOLO_NEVER), KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(kolo_error_detail(), "cuMemcpyDtoH of 21 bytes on device 0"), "%s",
                       kolo_error_detail());
    cr_assert_not_null(strstr(kolo_error_detail(), "as long as the call says"));
    memory = mock_cuda_copy(mock, MOCK_OTHER, 1, text, sizeof text);
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    mock->destroy_other(1);
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof text, copy, KOLO_NEVER), KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(kolo_error_detail(), "cuCtxPushCurrent on device 1"), "%s",
                       kolo_error_detail());
    cr_assert_not_null(strstr(kolo_error_detail(), "context is gone"));
    cr_assert_eq(mock->depth(), 0);
}

Test(cuda, nothing_is_copied_of_no_bytes)
{
    const struct mock_cuda *mock = begin();
    struct kolo_pointer pointer;
    void *memory = mock->alloc(MOCK_DEVICE, 0, 8);
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    cr_assert_eq(kolo_pointer_fetch(&pointer, 0, NULL, KOLO_NEVER), KOLO_OK);
    cr_assert_eq(mock->calls("cuMemcpyDtoH_v2") + mock->calls("cuCtxRecordEvent"), 0);
}

Test(cuda, a_probe_says_what_there_is_and_why_not)
{
    struct kolo_why why = {.text = ""};
    cr_assert_eq(kolo_memory_cuda.probe(&why), KOLO_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(why.text, "has not loaded libcuda.so.1"), "%s", why.text);
    const struct mock_cuda *mock = begin();
    cr_assert_eq(kolo_memory_cuda.probe(&why), KOLO_OK);
    cr_assert_str_eq(why.text, "2 devices, the first Mock 0; driver 12.8");
    mock->fail("cuDeviceGetCount", 1, KOLO_CUDA_NO_DEVICE);
    cr_assert_eq(kolo_memory_cuda.survey(&why), KOLO_ERR_SYSTEM);
    cr_assert_str_eq(why.text, "cuDeviceGetCount: CUDA_ERROR_NO_DEVICE (100); there is no GPU, or "
                               "CUDA_VISIBLE_DEVICES hides it");
    mock->fail("cuInit", 1, KOLO_CUDA_STUB_LIBRARY);
    cr_assert_eq(kolo_memory_cuda.survey(&why), KOLO_ERR_SYSTEM);
    cr_assert_not_null(strstr(why.text, "toolkit's stub"), "%s", why.text);
    cr_assert_eq(kolo_memory_cuda.survey(&why), KOLO_OK);
}
