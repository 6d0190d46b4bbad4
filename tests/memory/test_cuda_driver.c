// SPDX-License-Identifier: Apache-2.0
// memory/cuda_driver.c finds the driver once the program has loaded it, and never loads it itself.
// Each test has a process of its own, with the mock in its LD_LIBRARY_PATH.
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "memory/lane.h"
#include "tests/support/mock_cuda.h"

static bool is_in_the_process(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    if (handle)
        (void)dlclose(handle);
    return handle != NULL;
}

Test(cuda_driver, is_not_brought_by_looking)
{
    for (int i = 0; i < 3; i++)
        cr_assert_null(kolo_cuda_driver_loaded());
    cr_assert_not(is_in_the_process());
    cr_assert_str_eq(kolo_error_detail(), "");
}

Test(cuda_driver, is_found_when_it_has_come)
{
    cr_assert_null(kolo_cuda_driver_loaded());
    const struct mock_cuda *mock = mock_cuda_load();
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    cr_assert_not_null(driver);
    cr_assert_eq(mock->calls(NULL), 0, "the driver is not called");
    cr_assert_eq(driver, kolo_cuda_driver_loaded());
    cr_assert_eq(driver->init(0), KOLO_CUDA_SUCCESS);
    cr_assert_eq(mock->calls("cuInit"), 1);
}

Test(cuda_driver, what_lacks_a_function_is_none)
{
    cr_assert_not_null(dlopen(MOCK_CUDA_OLD, RTLD_NOW | RTLD_LOCAL));
    for (int i = 0; i < 2; i++)
        cr_assert_null(kolo_cuda_driver_loaded());
    const struct kolo_cuda_driver *driver = NULL;
    cr_assert_eq(kolo_cuda_driver_load(&driver), KOLO_ERR_UNSUPPORTED);
    cr_assert_null(driver);
    cr_assert_not_null(strstr(kolo_error_detail(), "libcuda.so.1 has no cuDriverGetVersion"), "%s",
                       kolo_error_detail());
}

Test(cuda_driver, what_knows_pointers_is_one_whatever_else_it_lacks)
{
    static const char words[] =
        "libcuda.so.1 has no cuInit, which drivers of CUDA 11 or later have";
    struct kolo_pointer pointer;
    struct kolo_lane *lane = NULL;
    char copy[4];
    cr_assert_not_null(dlopen(MOCK_CUDA_LACKING, RTLD_NOW | RTLD_LOCAL));
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    cr_assert_not_null(driver);
    cr_assert_eq(kolo_cuda_driver_check(driver), KOLO_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(kolo_error_detail(), words), "%s", kolo_error_detail());
    cr_assert_eq(kolo_pointer_look(copy, &pointer), KOLO_OK);
    cr_assert_not(kolo_pointer_is_host(&pointer));
    kolo_detail_set("");
    cr_assert_eq(kolo_pointer_fetch(&pointer, sizeof copy, copy, KOLO_NEVER), KOLO_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(kolo_error_detail(), words), "%s", kolo_error_detail());
    kolo_detail_set("");
    cr_assert_eq(kolo_lane_open(&pointer, NULL, NULL, &lane), KOLO_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(kolo_error_detail(), words), "%s", kolo_error_detail());
    cr_assert_null(lane);
    cr_assert_eq(kolo_cuda_driver_load(&driver), KOLO_ERR_UNSUPPORTED);
    for (size_t i = 0; kolo_memory_kinds[i]; i++) {
        struct kolo_why why = {.text = ""};
        if (kolo_memory_kinds[i]->kind != KOLO_MEMORY_DEVICE)
            continue;
        cr_assert_eq(kolo_memory_kinds[i]->probe(&why), KOLO_ERR_UNSUPPORTED);
        cr_assert_not_null(strstr(why.text, words), "%s", why.text);
        cr_assert_eq(kolo_memory_kinds[i]->survey(&why), KOLO_ERR_UNSUPPORTED);
    }
}

Test(cuda_driver, is_loaded_when_asked_for)
{
    const struct kolo_cuda_driver *driver = NULL;
    cr_assert_eq(kolo_cuda_driver_load(&driver), KOLO_OK, "%s", kolo_error_detail());
    cr_assert(driver && driver == kolo_cuda_driver_loaded());
    cr_assert(is_in_the_process());
}

static void *look(void *from)
{
    (void)pthread_barrier_wait(from);
    return (void *)(uintptr_t)kolo_cuda_driver_loaded();
}

Test(cuda_driver, all_threads_find_the_same)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    (void)mock_cuda_load();
    cr_assert_eq(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, look, &barrier), 0);
    for (int i = 0; i < THREADS; i++) {
        void *found = NULL;
        cr_assert_eq(pthread_join(threads[i], &found), 0);
        cr_assert(found && found == (const void *)kolo_cuda_driver_loaded());
    }
    (void)pthread_barrier_destroy(&barrier);
}

Test(cuda_driver, a_failure_names_call_device_result_and_what_to_do)
{
    (void)mock_cuda_load();
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    cr_assert_eq(kolo_cuda_fail(driver, "cuSomething", 3, KOLO_CUDA_ILLEGAL_ADDRESS),
                 KOLO_ERR_SYSTEM);
    cr_assert_str_eq(kolo_error_detail(),
                     "cuSomething on device 3: CUDA_ERROR_ILLEGAL_ADDRESS (700); work on the "
                     "device failed before, of the program or of a rank in its process: look at "
                     "the first error");
    cr_assert_eq(kolo_cuda_fail(driver, "cuSomething", -1, KOLO_CUDA_OUT_OF_MEMORY),
                 KOLO_ERR_NO_MEMORY);
    cr_assert_str_eq(kolo_error_detail(),
                     "cuSomething: CUDA_ERROR_OUT_OF_MEMORY (2); free memory of the device");
    const int others[] = {1, 3, 34, 100, 201, 709, 719, 720, 803, 899, 908, 12345};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cr_assert_eq(kolo_cuda_fail(driver, "cuX", 0, others[i]), KOLO_ERR_SYSTEM);
        cr_assert_not_null(strstr(kolo_error_detail(), "); "), "%s", kolo_error_detail());
    }
    for (int result = 900; result < 908; result++) {
        cr_assert_eq(kolo_cuda_fail(driver, "cuX", 0, result), KOLO_ERR_UNSUPPORTED);
        cr_assert_not_null(strstr(kolo_error_detail(), "is captured into a graph"), "%s",
                           kolo_error_detail());
    }
}
