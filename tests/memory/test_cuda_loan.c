// SPDX-License-Identifier: Apache-2.0
// memory/cuda_loan.c with the mock driver, whose device memory other processes can map. Memory that
// owners in other processes lend is read, written and reduced in place, for each type and operator.
// Also tested: how long a mapping lives, even if its owner dies, and every refusal, after which
// nothing is left.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "memory/cuda_fold.h"
#include "memory/cuda_image.h"
#include "memory/cuda_loan.h"
#include "tests/memory/reduce_oracle.h"
#include "tests/support/mock_cuda.h"

enum { BYTES = 10000, OWNERS = 7, LIFE_S = 100 };

/* ---- processes that own memory ---- */

enum wish { LEND, FREE, SHOW };

struct order {
    enum wish wish;
    enum mock_kind kind;
    uint8_t fill; /* the first byte; each byte after that is greater by one */
};

struct owner {
    pid_t pid;
    int socket;
    struct kolo_loan loan;
};

static struct owner owners[OWNERS];
static const struct mock_cuda *mock;
static struct kolo_cuda_borrower *borrower;

static void fill(uint8_t bytes[static BYTES], uint8_t first)
{
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(first + i % 251);
}

/** The loop of an owner, until nobody sends commands any more. */
static void serve(int socket)
{
    static uint8_t bytes[BYTES];
    struct order order;
    struct kolo_loan loan;
    struct kolo_pointer pointer = {.device = 0};
    mock->begin();
    mock->set_current(0);
    while (recv(socket, &order, sizeof order, 0) == sizeof order) {
        memset(&loan, 0, sizeof loan);
        if (order.wish == LEND) {
            void *memory = mock->alloc(order.kind, 0, BYTES);
            fill(bytes, order.fill);
            mock->write(memory, bytes, BYTES);
            if (kolo_pointer_look(memory, &pointer) != KOLO_OK ||
                kolo_cuda_lend(&pointer, &loan) != KOLO_OK)
                _exit(3);
            pointer.memory = memory;
            (void)send(socket, &loan, sizeof loan, 0);
        } else if (order.wish == FREE) {
            if (kolo_cuda_driver_loaded()->free((uintptr_t)pointer.memory) != KOLO_CUDA_SUCCESS)
                _exit(4);
            (void)send(socket, &loan, sizeof loan, 0);
        } else {
            mock->read(pointer.memory, bytes, BYTES);
            (void)send(socket, bytes, sizeof bytes, 0);
        }
    }
    _exit(0);
}

static void start(struct owner *owner)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    owner->pid = fork();
    cr_assert_geq(owner->pid, 0);
    if (owner->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(LIFE_S);
        for (const struct owner *other = owners; other < owner; other++)
            close(other->socket); /* whose owners wait for this end to be closed */
        close(ends[0]);
        serve(ends[1]);
    }
    close(ends[1]);
    owner->socket = ends[0];
}

static bool ask(struct owner *owner, struct order order, void *reply_out, size_t bytes)
{
    cr_assert_eq(send(owner->socket, &order, sizeof order, MSG_NOSIGNAL), sizeof order);
    return recv(owner->socket, reply_out, bytes, 0) == (ssize_t)bytes;
}

static const struct kolo_loan *lend(struct owner *owner, enum mock_kind kind, uint8_t first)
{
    cr_assert(ask(owner, (struct order){LEND, kind, first}, &owner->loan, sizeof owner->loan));
    return &owner->loan;
}

static bool free_memory(struct owner *owner)
{
    struct kolo_loan unused;
    return ask(owner, (struct order){.wish = FREE}, &unused, sizeof unused);
}

/** Returns how the owner ended. */
static int end_owner(struct owner *owner, int with)
{
    int how = 0;
    if (with)
        cr_assert_eq(kill(owner->pid, with), 0);
    close(owner->socket);
    cr_assert_eq(waitpid(owner->pid, &how, 0), owner->pid);
    owner->pid = 0;
    return how;
}

/* ---- this process ---- */

static void begin_with(int count)
{
    mock = mock_cuda_load();
    for (int i = 0; i < count; i++)
        start(&owners[i]);
    mock->begin();
    mock->set_current(0);
    struct kolo_pointer near;
    cr_assert_eq(kolo_pointer_look(mock->alloc(MOCK_DEVICE, 0, BYTES), &near), KOLO_OK);
    cr_assert_eq(kolo_cuda_borrower_open(&near, &borrower), KOLO_OK, "%s", kolo_error_detail());
}

static void begin(void)
{
    begin_with(2);
}

static void end(void)
{
    kolo_cuda_borrower_close(borrower);
    cr_assert_eq(mock->depth(), 1);
    for (int i = 0; i < OWNERS; i++)
        if (owners[i].pid > 0)
            cr_assert_eq(end_owner(&owners[i], 0), 0, "owner %d", i);
}

static struct kolo_mapping *map(int rank, const struct kolo_loan *loan)
{
    struct kolo_mapping *mapping = NULL;
    cr_assert_eq(kolo_cuda_borrower_map(borrower, rank, loan, &mapping), KOLO_OK, "%s",
                 kolo_error_detail());
    return mapping;
}

static uint8_t *at(const struct kolo_mapping *mapping, const struct kolo_loan *loan, size_t offset,
                   size_t bytes)
{
    void *memory = NULL;
    cr_assert_eq(kolo_cuda_mapping_reach(mapping, loan->start + offset, bytes, &memory), KOLO_OK,
                 "%s", kolo_error_detail());
    return memory;
}

static void check_content(const struct kolo_mapping *mapping, const struct kolo_loan *loan,
                          uint8_t first)
{
    static uint8_t expected[BYTES], got[BYTES];
    fill(expected, first);
    mock->read(at(mapping, loan, 0, BYTES), got, BYTES);
    cr_assert(memcmp(got, expected, BYTES) == 0);
}

static int opened(void)
{
    return mock->calls("cuIpcOpenMemHandle_v2");
}

static int closed(void)
{
    return mock->calls("cuIpcCloseMemHandle");
}

/** Unmaps mappings that are stale and not held. */
static void tidy(void)
{
    kolo_cuda_borrower_unmap(borrower, kolo_cuda_borrower_detach(borrower));
}

/** Forgets the loan and tidies; true: nothing of it is mapped any more. */
static bool ends(int lender, uint64_t id)
{
    (void)kolo_cuda_borrower_forget(borrower, lender, id);
    tidy();
    return kolo_cuda_borrower_forget(borrower, lender, id);
}

TestSuite(cuda_loan, .timeout = 120);

Test(cuda_loan, memory_of_another_process_is_read_and_written_where_it_is, .init = begin,
     .fini = end)
{
    static uint8_t bytes[BYTES], got[BYTES];
    for (int kind = MOCK_DEVICE; kind <= MOCK_OTHER; kind++) {
        const struct kolo_loan *loan = lend(&owners[0], (enum mock_kind)kind, 3);
        struct kolo_mapping *mapping = map(4, loan);
        check_content(mapping, loan, 3);
        fill(bytes, 77);
        mock->write(at(mapping, loan, 0, BYTES), bytes, BYTES);
        cr_assert(ask(&owners[0], (struct order){.wish = SHOW}, got, BYTES));
        cr_assert(memcmp(bytes, got, BYTES) == 0);
        kolo_cuda_mapping_done(mapping);
        cr_assert(ends(4, loan->id));
    }
}

Test(cuda_loan, what_is_mapped_stays_so_until_it_is_forgotten, .init = begin, .fini = end)
{
    const struct kolo_loan *one = lend(&owners[0], MOCK_DEVICE, 1);
    const struct kolo_loan *two = lend(&owners[1], MOCK_DEVICE, 2);
    const int before = mock->allocated();
    struct kolo_mapping *mapping = map(0, one);
    kolo_cuda_mapping_done(mapping);
    kolo_cuda_mapping_done(map(1, two));
    cr_assert(map(0, one) == mapping && map(0, one) == mapping && opened() == 2);
    kolo_cuda_mapping_done(mapping);
    kolo_cuda_mapping_done(mapping);
    cr_assert(ends(1, one->id + two->id + 1));
    cr_assert(closed() == 0 && mock->allocated() == before + 2);
    cr_assert(ends(0, one->id));
    cr_assert(closed() == 1 && mock->allocated() == before + 1);
    cr_assert(ends(1, 0));
    cr_assert(closed() == 2 && mock->allocated() == before);
    cr_assert(free_memory(&owners[0]) && free_memory(&owners[1]));
}

/** The mock ends an owner that frees memory while another process has it mapped. */
Test(cuda_loan, what_is_held_stays_until_its_last_holder_is_done, .init = begin, .fini = end)
{
    const struct kolo_loan *loan = lend(&owners[0], MOCK_DEVICE, 9);
    struct kolo_mapping *mapping = map(0, loan);
    cr_assert(map(0, loan) == mapping);
    cr_assert_not(ends(0, loan->id));
    check_content(mapping, loan, 9);
    kolo_cuda_mapping_done(mapping);
    tidy();
    cr_assert_eq(closed(), 0);
    struct kolo_mapping *again = map(0, loan); /* a new one: the old one was forgotten */
    cr_assert(again != mapping && opened() == 2);
    kolo_cuda_mapping_done(mapping);
    cr_assert_eq(closed(), 0, "a driver may wait: only where the caller has said that it can");
    tidy();
    cr_assert_eq(closed(), 1);
    check_content(again, loan, 9);
    cr_assert_not(free_memory(&owners[0]));
    const int how = end_owner(&owners[0], 0);
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
}

/** The owner lends memory that has replaced memory that it lent before and has freed. */
Test(cuda_loan, memory_that_was_given_out_again_takes_the_place_of_the_old, .init = begin,
     .fini = end)
{
    const struct kolo_loan first = *lend(&owners[0], MOCK_DEVICE, 1);
    struct kolo_loan second = *lend(&owners[0], MOCK_DEVICE, 2);
    const int before = mock->allocated();
    kolo_cuda_mapping_done(map(0, &first));
    second.start = first.start + BYTES - 1;
    struct kolo_mapping *mapping = map(0, &second);
    tidy();
    cr_assert(opened() == 2 && closed() == 1 && mock->allocated() == before + 1);
    check_content(mapping, &second, 2);
    kolo_cuda_mapping_done(mapping);
}

Test(cuda_loan, memory_of_a_rank_that_died_is_there_until_it_is_forgotten, .init = begin,
     .fini = end)
{
    const struct kolo_loan first = *lend(&owners[0], MOCK_DEVICE, 5);
    const struct kolo_loan second = *lend(&owners[0], MOCK_DEVICE, 6);
    const int before = mock->allocated();
    struct kolo_mapping *mapping = map(0, &first), *late = NULL;
    (void)end_owner(&owners[0], SIGKILL);
    check_content(mapping, &first, 5);
    cr_assert_eq(kolo_cuda_borrower_map(borrower, 0, &second, &late), KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "cuIpcOpenMemHandle on device 0") && !late, "%s",
              kolo_error_detail());
    cr_assert_not(ends(0, 0));
    kolo_cuda_mapping_done(mapping);
    tidy();
    cr_assert(closed() == 1 && mock->allocated() == before);
}

Test(cuda_loan, all_that_is_mapped_goes_at_the_end, .init = begin, .fini = end)
{
    const struct kolo_loan *loan = lend(&owners[0], MOCK_DEVICE, 5);
    const int before = mock->allocated();
    kolo_cuda_mapping_done(map(0, loan));
    kolo_cuda_mapping_done(map(1, loan));
    kolo_cuda_borrower_close(borrower);
    borrower = NULL;
    kolo_cuda_borrower_close(NULL);
    cr_assert(closed() == 2 && mock->allocated() == before);
    cr_assert(free_memory(&owners[0]));
}

/* ---- reductions ---- */

struct sums {
    const struct kolo_cuda_driver *driver;
    struct kolo_cuda_kernels *kernels;
    void *stream;
    /* each rank's memory, as this rank reaches it; the last one is its own */
    uint8_t *memory[OWNERS + 1];
    uint8_t input[OWNERS + 1][BYTES], expected[BYTES], got[BYTES];
};

/** Reduces the slice of one of @p ranks ranks from the memory of all into the memory of all. */
static void check_slice(struct sums *sums, const struct kolo_fold *fold, size_t ranks, size_t slice)
{
    const size_t size = kolo_dtype_bytes(fold->dtype), count = BYTES / size;
    const size_t first = count * slice / ranks * size, end_at = count * (slice + 1) / ranks * size;
    const void *in[OWNERS + 1], *host[OWNERS + 1];
    void *out[OWNERS + 1], *place[] = {sums->expected};
    for (size_t i = 0; i < ranks; i++) {
        in[i] = out[i] = sums->memory[OWNERS + 1 - ranks + i] + first;
        host[i] = sums->input[OWNERS + 1 - ranks + i] + first;
    }
    kolo_fold(fold, place, 1, host, ranks, (end_at - first) / size, KOLO_STORE_CACHED);
    cr_assert_eq(kolo_cuda_fold(sums->kernels, sums->stream, fold, out, ranks, in, ranks,
                                (end_at - first) / size),
                 KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(sums->driver->stream_synchronize(sums->stream), KOLO_CUDA_SUCCESS);
    for (size_t i = 0; i < ranks; i++) {
        mock->read(out[i], sums->got, end_at - first);
        cr_assert(memcmp(sums->got, sums->expected, end_at - first) == 0, "%s %s, %zu ranks",
                  kolo_dtype_text(fold->dtype), kolo_redop_text(fold->op), ranks);
    }
}

static void check_ranks(struct sums *sums, const struct kolo_fold *fold, size_t ranks)
{
    struct oracle_data *pool = oracle_data_create(fold->dtype, fold->op);
    for (size_t i = 0; i <= OWNERS; i++) {
        for (size_t k = 0; k < BYTES / pool->size; k++)
            memcpy(sums->input[i] + k * pool->size,
                   (i % 2 ? pool->b : pool->a) + (k * 37 + i * 613) % ORACLE_COUNT_MAX * pool->size,
                   pool->size);
        mock->write(sums->memory[i], sums->input[i], BYTES);
    }
    for (size_t slice = 0; slice < ranks; slice++)
        check_slice(sums, fold, ranks, slice);
    free(pool);
}

static void begin_all(void)
{
    begin_with(OWNERS);
}

/** One kernel reads every rank's input and writes every rank's output. */
Test(cuda_loan, a_kernel_reduces_out_of_all_ranks_memory_into_it, .init = begin_all, .fini = end)
{
    struct kolo_mapping *mappings[OWNERS];
    if (kolo_cuda_image_bytes == 0)
        cr_skip_test("this build has no CUDA kernels: nvcc was not found");
    struct sums *sums = calloc(1, sizeof *sums);
    cr_assert_not_null(sums);
    sums->driver = kolo_cuda_driver_loaded();
    sums->stream = mock->stream(0);
    cr_assert_eq(kolo_cuda_kernels_load(sums->driver, 0, KOLO_NEVER, &sums->kernels), KOLO_OK);
    for (int i = 0; i < OWNERS; i++) {
        mappings[i] = map(i, lend(&owners[i], MOCK_DEVICE, 0));
        sums->memory[i] = at(mappings[i], &owners[i].loan, 0, BYTES);
    }
    sums->memory[OWNERS] = mock->alloc(MOCK_DEVICE, 0, BYTES);
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int op = 0; op < KOLO_REDOPS; op++)
            for (size_t ranks = 1; ranks <= OWNERS + 1; ranks++)
                if (kolo_reduce_function((kolo_dtype)dtype, (kolo_redop)op))
                    check_ranks(sums,
                                &(struct kolo_fold){
                                    .dtype = (kolo_dtype)dtype, .op = (kolo_redop)op, .divisor = 1},
                                ranks);
    for (int i = 0; i < OWNERS; i++)
        kolo_cuda_mapping_done(mappings[i]);
    kolo_cuda_kernels_unload(sums->kernels);
    free(sums);
}

/* ---- within one process ---- */

static struct kolo_loan lend_own(enum mock_kind kind, int device, uint8_t first)
{
    static uint8_t bytes[BYTES];
    struct kolo_pointer pointer;
    struct kolo_loan loan;
    char *memory = mock->alloc(kind, device, BYTES);
    fill(bytes, first);
    mock->write(memory, bytes, BYTES);
    cr_assert_eq(kolo_pointer_look(memory + 5, &pointer), KOLO_OK);
    cr_assert_eq(kolo_cuda_lend(&pointer, &loan), KOLO_OK, "%s", kolo_error_detail());
    return loan;
}

Test(cuda_loan, memory_of_this_process_is_reached_where_it_is, .init = begin, .fini = end)
{
    const struct kolo_loan loan = lend_own(MOCK_DEVICE, 0, 8);
    struct kolo_mapping *mapping = map(1, &loan);
    cr_assert_eq((uintptr_t)at(mapping, &loan, 7, 1), loan.start + 7);
    check_content(mapping, &loan, 8);
    cr_assert(mock->calls("cuCtxEnablePeerAccess") == 0 && opened() == 0);
    kolo_cuda_mapping_done(mapping);
    cr_assert(ends(1, 0) && closed() == 0);
}

Test(cuda_loan, the_context_of_another_device_is_opened_once, .init = begin, .fini = end)
{
    struct kolo_cuda_kernels *kernels;
    const struct kolo_fold fold = {.dtype = KOLO_UINT8, .op = KOLO_SUM, .divisor = 1};
    const struct kolo_loan far = lend_own(MOCK_DEVICE, 1, 8);
    const struct kolo_loan further = lend_own(MOCK_DEVICE, 1, 9);
    struct kolo_mapping *mapping = map(1, &far), *another = map(1, &further);
    cr_assert_eq(mock->calls("cuCtxEnablePeerAccess"), 2);
    if (kolo_cuda_image_bytes > 0) { /* a kernel without access to the memory loses the device */
        const void *in[] = {at(mapping, &far, 0, BYTES), at(another, &further, 0, BYTES)};
        void *out[] = {mock->alloc(MOCK_DEVICE, 0, BYTES)}, *stream = mock->stream(0);
        cr_assert_eq(kolo_cuda_kernels_load(kolo_cuda_driver_loaded(), 0, KOLO_NEVER, &kernels),
                     KOLO_OK);
        cr_assert_eq(kolo_cuda_fold(kernels, stream, &fold, out, 1, in, 2, BYTES), KOLO_OK);
        cr_assert_eq(kolo_cuda_driver_loaded()->stream_synchronize(stream), KOLO_CUDA_SUCCESS);
        kolo_cuda_kernels_unload(kernels);
    }
    kolo_cuda_mapping_done(mapping);
    kolo_cuda_mapping_done(another);
}

/* ---- refusals ---- */

static void refused(const struct kolo_loan *loan, kolo_status status, const char *words)
{
    struct kolo_mapping *mapping = NULL;
    const int depth = mock->depth(), allocated = mock->allocated();
    const kolo_status got = kolo_cuda_borrower_map(borrower, 6, loan, &mapping);
    cr_assert(got == status && strstr(kolo_error_detail(), words), "%s: %s", kolo_status_name(got),
              kolo_error_detail());
    cr_assert(!mapping && mock->depth() == depth && mock->allocated() == allocated);
}

Test(cuda_loan, every_refusal_of_a_mapping_says_why_and_leaves_nothing, .init = begin, .fini = end)
{
    static const struct {
        const char *function, *words;
        int result;
        kolo_status status;
    } cases[] = {
        {"cuCtxPushCurrent_v2", "on device 0", KOLO_CUDA_INVALID_CONTEXT, KOLO_ERR_SYSTEM},
        {"cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle on device 0", KOLO_CUDA_INVALID_HANDLE,
         KOLO_ERR_SYSTEM},
        {"cuIpcOpenMemHandle_v2", "do not reach each other", KOLO_CUDA_PEER_UNSUPPORTED,
         KOLO_ERR_SYSTEM},
        {"cuIpcOpenMemHandle_v2", "free memory", KOLO_CUDA_OUT_OF_MEMORY, KOLO_ERR_NO_MEMORY},
        {"cuPointerGetAttributes", "cuPointerGetAttributes", KOLO_CUDA_INVALID_VALUE,
         KOLO_ERR_SYSTEM},
    };
    const struct kolo_loan *loan = lend(&owners[0], MOCK_DEVICE, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mock->fail(cases[i].function, 1, cases[i].result);
        refused(loan, cases[i].status, cases[i].words);
    }
    kolo_alloc_fail_nth(1);
    refused(loan, KOLO_ERR_NO_MEMORY, "");
    struct kolo_cuda_driver *driver =
        (struct kolo_cuda_driver *)(uintptr_t)kolo_cuda_driver_loaded();
    driver->ipc_open_handle = NULL; /* as in an old driver */
    refused(loan, KOLO_ERR_UNSUPPORTED, "has no cuIpcOpenMemHandle");
    const struct kolo_loan own = lend_own(MOCK_DEVICE, 0, 1);
    kolo_cuda_mapping_done(map(6, &own));
}

Test(cuda_loan, what_a_lender_says_is_not_believed, .init = begin, .fini = end)
{
    const struct kolo_loan loan = *lend(&owners[0], MOCK_DEVICE, 1);
    const struct kolo_loan own = lend_own(MOCK_DEVICE, 0, 2);
    struct kolo_loan bad = loan;
    bad.length = 0;
    refused(&bad, KOLO_ERR_PROTOCOL, "lender 6 lends 0 bytes");
    bad.length = UINT64_MAX - loan.start + 1;
    refused(&bad, KOLO_ERR_PROTOCOL, "is no range");
    bad.length = loan.length + 1;
    refused(&bad, KOLO_ERR_PROTOCOL, "maps less");
    cr_assert_eq(closed(), 1);
    bad = own;
    bad.id++;
    refused(&bad, KOLO_ERR_PROTOCOL, "there is another");
    bad = own;
    bad.start += 64;
    refused(&bad, KOLO_ERR_PROTOCOL, "there is another");
    bad.start = (uint64_t)(uintptr_t)&bad;
    refused(&bad, KOLO_ERR_PROTOCOL, "is not there");
    struct kolo_mapping *mapping = map(0, &loan);
    static const size_t leaves[][2] = {{1, BYTES}, {BYTES + 1, 0}, {(size_t)-1, 1}, {0, SIZE_MAX}};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        void *memory = NULL;
        cr_assert_eq(
            kolo_cuda_mapping_reach(mapping, loan.start + leaves[i][0], leaves[i][1], &memory),
            KOLO_ERR_PROTOCOL);
        cr_assert_null(memory);
    }
    (void)at(mapping, &loan, BYTES, 0);
    kolo_cuda_mapping_done(mapping);
}

Test(cuda_loan, what_of_this_process_cannot_be_reached, .init = begin, .fini = end)
{
    const struct kolo_loan far = lend_own(MOCK_DEVICE, 1, 1);
    mock->fail("cuCtxEnablePeerAccess", 1, KOLO_CUDA_PEER_UNSUPPORTED);
    refused(&far, KOLO_ERR_SYSTEM, "cuCtxEnablePeerAccess on device 0");
    mock->fail("cuCtxPushCurrent_v2", 1, KOLO_CUDA_INVALID_CONTEXT);
    refused(&far, KOLO_ERR_SYSTEM, "on device 0");
    for (int nth = 1; nth <= 2; nth++) {
        mock->fail("cuPointerGetAttributes", nth, KOLO_CUDA_INVALID_VALUE);
        refused(&far, KOLO_ERR_SYSTEM, "cuPointerGetAttributes");
    }
}

static void not_lent(const void *memory, kolo_status status, const char *words)
{
    struct kolo_pointer pointer;
    struct kolo_loan loan = {.id = 77};
    const int depth = mock->depth();
    char part[64];
    snprintf(part, sizeof part, "%.*s", (int)strcspn(words, "_"), words);
    cr_assert_eq(kolo_pointer_look(memory, &pointer), KOLO_OK);
    if (status == KOLO_ERR_SYSTEM) /* except a failure of the lookup */
        mock->fail(words, 1, KOLO_CUDA_INVALID_VALUE);
    const kolo_status got = kolo_cuda_lend(&pointer, &loan);
    cr_assert(got == status && strstr(kolo_error_detail(), part), "%s: %s", kolo_status_name(got),
              kolo_error_detail());
    cr_assert(loan.id == 77 && mock->depth() == depth);
}

/** All processes have the same name for a device, and different names for two devices. */
Test(cuda_loan, a_loan_names_its_device, .init = begin, .fini = end)
{
    static const uint8_t none[16];
    const struct kolo_loan other = *lend(&owners[0], MOCK_DEVICE, 1);
    const struct kolo_loan same = lend_own(MOCK_DEVICE, 0, 1), far = lend_own(MOCK_DEVICE, 1, 1);
    cr_assert(memcmp(other.device, same.device, sizeof none) == 0);
    cr_assert(memcmp(far.device, same.device, sizeof none) != 0);
    struct kolo_cuda_driver *driver =
        (struct kolo_cuda_driver *)(uintptr_t)kolo_cuda_driver_loaded();
    driver->device_get_uuid = NULL; /* as in an old driver */
    const struct kolo_loan unnamed = lend_own(MOCK_DEVICE, 0, 1);
    cr_assert(memcmp(unnamed.device, none, sizeof none) == 0);
}

Test(cuda_loan, what_cannot_be_lent_says_why, .init = begin, .fini = end)
{
    void *memory = mock->alloc(MOCK_DEVICE, 0, BYTES);
    not_lent(mock->alloc(MOCK_NO_CONTEXT, 0, BYTES), KOLO_ERR_UNSUPPORTED, "of a pool");
    not_lent(mock->alloc(MOCK_MANAGED, 0, BYTES), KOLO_ERR_UNSUPPORTED, "managed");
    not_lent(memory, KOLO_ERR_SYSTEM, "cuIpcGetMemHandle");
    not_lent(memory, KOLO_ERR_SYSTEM, "cuPointerGetAttributes");
    not_lent(memory, KOLO_ERR_SYSTEM, "cuCtxPushCurrent_v2");
    struct kolo_cuda_driver *driver =
        (struct kolo_cuda_driver *)(uintptr_t)kolo_cuda_driver_loaded();
    driver->ipc_get_handle = NULL;
    not_lent(memory, KOLO_ERR_UNSUPPORTED, "has no cuIpcGetMemHandle");
}

/** One warning, however many mappings there are; and a destroyed context took all of them along. */
Test(cuda_loan, a_driver_that_unmaps_nothing_holds_nobody_up, .init = begin, .fini = end)
{
    kolo_cuda_mapping_done(map(0, lend(&owners[0], MOCK_DEVICE, 1)));
    kolo_cuda_mapping_done(map(1, lend(&owners[1], MOCK_DEVICE, 1)));
    mock->fail("cuIpcCloseMemHandle", 1, KOLO_CUDA_ILLEGAL_ADDRESS);
    cr_assert(ends(0, 0));
    kolo_cuda_borrower_close(borrower);
    borrower = NULL;
    mock->fail("", 1, 0);
}

/** The owner must not free it, and is told once, whatever the driver's reason is. */
Test(cuda_loan, what_is_not_unmapped_is_told_of, .init = begin, .fini = end)
{
    static const int reasons[] = {KOLO_CUDA_NOT_SUPPORTED, KOLO_CUDA_NOT_PERMITTED,
                                  KOLO_CUDA_INVALID_VALUE, KOLO_CUDA_OUT_OF_MEMORY,
                                  KOLO_CUDA_INVALID_HANDLE};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        int lender = -1;
        uint64_t id = 0;
        const struct kolo_loan *loan = lend(&owners[i % 2], MOCK_DEVICE, 1);
        kolo_cuda_mapping_done(map(3, loan));
        cr_assert_not(kolo_cuda_borrower_stuck(borrower, &lender, &id));
        mock->fail("cuIpcCloseMemHandle", 1, reasons[i]);
        cr_assert_not(kolo_cuda_borrower_forget(borrower, 3, 0));
        kolo_cuda_borrower_unmap(borrower, kolo_cuda_borrower_detach(borrower));
        cr_assert(kolo_cuda_borrower_stuck(borrower, &lender, &id), "%d", reasons[i]);
        cr_assert(lender == 3 && id == loan->id, "allocation %lu of %d", (unsigned long)id, lender);
        cr_assert_not(kolo_cuda_borrower_stuck(borrower, &lender, &id));
        cr_assert(kolo_cuda_borrower_forget(borrower, 3, 0), "it is not used any more");
    }
}

Test(cuda_loan, no_context_no_borrower, .init = begin, .fini = end)
{
    struct kolo_pointer near = {.kind = KOLO_MEMORY_DEVICE, .device = 1};
    struct kolo_cuda_borrower *none = NULL;
    mock->fail("cuDevicePrimaryCtxRetain", 1, KOLO_CUDA_OUT_OF_MEMORY);
    cr_assert_eq(kolo_cuda_borrower_open(&near, &none), KOLO_ERR_NO_MEMORY);
    kolo_alloc_fail_nth(1);
    cr_assert_eq(kolo_cuda_borrower_open(&near, &none), KOLO_ERR_NO_MEMORY);
    cr_assert_null(none);
    cr_assert_eq(kolo_cuda_borrower_open(&near, &none), KOLO_OK);
    cr_assert_eq(mock->retained(1), 1);
    kolo_cuda_borrower_close(none);
    cr_assert_eq(mock->retained(1), 0);
}
