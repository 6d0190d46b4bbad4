// SPDX-License-Identifier: Apache-2.0
// What calls of a real driver do while a stream waits for the host, for bench/gpu. kolo relies on
// it (memory/held.h), NVIDIA's documentation leaves it open, and the tests' driver only imitates
// it. For a stream of its own and for both default streams, prints a line of JSON: for each call
// whether it returns, waits alone, or waits and keeps other threads out of the driver; and whether
// an event of the context waits for the stream. The first and the last line have facts of memory
// and processes.
// Exit status: 1, the driver does not do what kolo expects, which is printed; 77, no device, or
// its streams cannot wait.
//
// Must never wait without a bound: what has not returned some seconds after the stream goes on ends
// the program.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/condition.h"
#include "bench/micro/check.h"
#include "memory/cuda_fold.h"
#include "memory/cuda_loan.h"

enum {
    BYTES = 2 << 20, /* of each piece of memory: a block, as kolo_alloc_device allocates */
    WAIT_MS = 200,   /* a call that has not returned by then waits; those that do take 4 ms */
    WAIT_LONG_MS = 3000,
    END_MS = 20000,
    CHILD_S = 5,
    LENDER_S = 120,
    LENT = 0x5a, /* each byte of memory that is lent */
    MANY = 3000, /* operations: more than a queue of 1024 holds */
};

/* as cuda.h has them */
static void *const legacy = (void *)(uintptr_t)1, *const per_thread = (void *)(uintptr_t)2;

/** The words that streams wait for, and write when they go on. */
struct words {
    _Atomic uint32_t open, passed;
};

struct rig {
    const struct kolo_cuda_driver *driver;
    struct kolo_pointer memory;
    struct kolo_cuda_visit visit;
    struct kolo_cuda_kernels *kernels; /* NULL: this build has none */
    struct words *words;               /* in a page of their own */
    kolo_cuda_address words_at;
    uint32_t ticket;
    void *locked, *pageable, *to_lock;
    void *held; /* the stream that waits */
    void *stream, *event, *other_event;
    void *other_stream, *beside; /* of copy_beside(); locked memory */
    atomic_int told;
    bool is_covered; /* an event of the context has not passed while the stream waits */
    int unexpected;
};

static kolo_cuda_address address(const void *memory)
{
    return (kolo_cuda_address)(uintptr_t)memory;
}

static void *make_pages(size_t bytes)
{
    void *memory = kolo_aligned((size_t)sysconf(_SC_PAGESIZE), bytes);
    check(memory ? KOLO_OK : KOLO_ERR_NO_MEMORY, "memory of the host");
    return memory;
}

/* ---- the calls, each in a thread of its own ---- */

/** Waits for what was given to the stream, which does not wait for the host. */
static int finish(struct rig *rig)
{
    int result = rig->driver->event_record(rig->event, rig->stream);
    while (result == KOLO_CUDA_SUCCESS &&
           (result = rig->driver->event_query(rig->event)) == KOLO_CUDA_NOT_READY)
        result = KOLO_CUDA_SUCCESS;
    return result;
}

static int copy(struct rig *rig, const void *to, const void *from)
{
    const int result = rig->driver->copy(address(to), address(from), BYTES, rig->stream);
    return result == KOLO_CUDA_SUCCESS ? finish(rig) : result;
}

static int copy_locked_in(struct rig *rig)
{
    return copy(rig, rig->locked, rig->memory.memory);
}

static int copy_locked_out(struct rig *rig)
{
    return copy(rig, rig->memory.memory, rig->locked);
}

static int copy_pageable_in(struct rig *rig)
{
    return copy(rig, rig->pageable, rig->memory.memory);
}

static int copy_pageable_out(struct rig *rig)
{
    return copy(rig, rig->memory.memory, rig->pageable);
}

static int launch(struct rig *rig)
{
    const struct kolo_fold sum = {.dtype = KOLO_FLOAT32, .op = KOLO_SUM};
    void *const out[] = {(void *)(uintptr_t)rig->memory.memory};
    const void *const in[] = {out[0], out[0]};
    if (!rig->kernels)
        return KOLO_CUDA_SUCCESS;
    return kolo_cuda_fold(rig->kernels, rig->stream, &sum, out, 1, in, 2, 1) == KOLO_OK
               ? finish(rig)
               : KOLO_CUDA_LAUNCH_FAILED;
}

static void tell(void *context)
{
    atomic_fetch_add(&((struct rig *)context)->told, 1);
}

static int launch_host(struct rig *rig)
{
    const int result = rig->driver->launch_host(rig->stream, tell, rig);
    return result == KOLO_CUDA_SUCCESS ? finish(rig) : result;
}

static int look_up(struct rig *rig)
{
    struct kolo_pointer pointer;
    return kolo_pointer_look(rig->memory.memory, &pointer) == KOLO_OK ? KOLO_CUDA_SUCCESS
                                                                      : KOLO_CUDA_UNKNOWN;
}

static int make_event(struct rig *rig)
{
    void *event = NULL;
    const int result = rig->driver->event_create(&event, KOLO_CUDA_EVENT_NO_TIMING);
    return result == KOLO_CUDA_SUCCESS ? rig->driver->event_destroy(event) : result;
}

static int make_stream(struct rig *rig)
{
    void *stream; /* kept until the process ends */
    return rig->driver->stream_create(&stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0);
}

static int allocate(struct rig *rig)
{
    kolo_cuda_address memory; /* kept */
    return rig->driver->alloc(&memory, BYTES);
}

static int allocate_and_free(struct rig *rig)
{
    kolo_cuda_address memory;
    const int result = rig->driver->alloc(&memory, BYTES);
    return result == KOLO_CUDA_SUCCESS ? rig->driver->free(memory) : result;
}

static int lock_pages(struct rig *rig)
{
    const int result = rig->driver->host_register(
        rig->to_lock, BYTES, KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED);
    return result == KOLO_CUDA_ALREADY_REGISTERED ? KOLO_CUDA_SUCCESS : result;
}

static int unlock_pages(struct rig *rig)
{
    return rig->driver->host_unregister(rig->to_lock);
}

static int get_handle(struct rig *rig)
{
    struct kolo_cuda_handle handle;
    return rig->driver->ipc_get_handle
               ? rig->driver->ipc_get_handle(&handle, address(rig->memory.memory))
               : KOLO_CUDA_SUCCESS;
}

/** That the device has no dma-buf is not of interest here. */
static int share(struct rig *rig)
{
    struct kolo_extent extent;
    int fd = -1;
    if (kolo_cuda_extent(&rig->memory, &extent) == KOLO_OK &&
        kolo_cuda_share(&rig->memory, &extent, &fd) == KOLO_OK)
        (void)close(fd);
    return KOLO_CUDA_SUCCESS;
}

static int retain(struct rig *rig)
{
    void *context;
    int device = 0, result = rig->driver->device_get(&device, rig->visit.ordinal);
    if (result == KOLO_CUDA_SUCCESS)
        result = rig->driver->primary_context_retain(&context, device);
    return result == KOLO_CUDA_SUCCESS ? rig->driver->primary_context_release(device) : result;
}

/** Only the first time: it cannot be undone here. That the devices may not be able to is not of
 * interest. */
static int enable_peer(struct rig *rig)
{
    void *context; /* kept */
    int device = 0, count = 0, result = rig->driver->device_get_count(&count);
    if (result != KOLO_CUDA_SUCCESS || count < 2)
        return result;
    result = rig->driver->device_get(&device, 1);
    if (result == KOLO_CUDA_SUCCESS)
        result = rig->driver->primary_context_retain(&context, device);
    if (result != KOLO_CUDA_SUCCESS)
        return result;
    result = rig->driver->context_enable_peer(context, 0);
    return result == KOLO_CUDA_PEER_ALREADY_ENABLED || result == KOLO_CUDA_PEER_UNSUPPORTED
               ? KOLO_CUDA_SUCCESS
               : result;
}

static int record_context(struct rig *rig)
{
    rig->is_covered = true;
    if (!rig->driver->context_record_event)
        return KOLO_CUDA_SUCCESS;
    const int result = rig->driver->context_record_event(rig->visit.context, rig->other_event);
    rig->is_covered = result == KOLO_CUDA_SUCCESS &&
                      rig->driver->event_query(rig->other_event) == KOLO_CUDA_NOT_READY;
    return result;
}

static int synchronize(struct rig *rig)
{
    return rig->driver->context_synchronize();
}

/** More than its queue holds. The default stream of the other thread is out of reach. */
static int fill_queue(struct rig *rig)
{
    int result = KOLO_CUDA_SUCCESS;
    for (int i = 0; rig->held != per_thread && i < MANY && result == KOLO_CUDA_SUCCESS; i++)
        result = rig->driver->copy(address(rig->memory.memory), address(rig->memory.memory) + 64,
                                   64, rig->held);
    return result;
}

/** What another rank's collective would do meanwhile. */
static int copy_beside(struct rig *rig)
{
    int result =
        rig->driver->copy(address(rig->beside), address(rig->memory.memory), 64, rig->other_stream);
    while (result == KOLO_CUDA_SUCCESS &&
           (result = rig->driver->stream_query(rig->other_stream)) == KOLO_CUDA_NOT_READY)
        result = KOLO_CUDA_SUCCESS;
    return result;
}

/* ---- what they do ---- */

/** What kolo relies on. ALONE: if it waits, it lets other threads into the driver. */
enum expected { RETURNS, ALONE, ANYTHING };

static const struct fact {
    const char *name;
    int (*call)(struct rig *rig);
    enum expected expected;
} facts[] = {
    {"cuPointerGetAttributes", look_up, RETURNS},
    {"copy to locked memory", copy_locked_in, RETURNS},
    {"copy from locked memory", copy_locked_out, RETURNS},
    {"copy to pageable memory", copy_pageable_in, RETURNS},
    {"copy from pageable memory", copy_pageable_out, RETURNS},
    {"loaded kernel", launch, RETURNS},
    {"cuLaunchHostFunc", launch_host, RETURNS},
    {"cuCtxRecordEvent", record_context, RETURNS},
    {"cuEventCreate", make_event, RETURNS},
    {"cuStreamCreate", make_stream, RETURNS},
    {"cuMemAlloc", allocate, RETURNS},
    {"cuMemHostRegister", lock_pages, RETURNS},
    {"cuIpcGetMemHandle", get_handle, RETURNS},
    {"dma-buf", share, RETURNS},
    {"cuDevicePrimaryCtxRetain", retain, RETURNS},
    {"cuCtxEnablePeerAccess", enable_peer, RETURNS},
    {"cuCtxSynchronize", synchronize, ALONE},
    {"full queue", fill_queue, ANYTHING},
    {"cuMemFree", allocate_and_free, ANYTHING},
    {"cuMemHostUnregister", unlock_pages, ANYTHING},
};

/** A call in a thread. */
struct errand {
    struct rig *rig;
    int (*call)(struct rig *rig);
    int result;
    bool is_done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of errands */
static pthread_cond_t changed;

static void *run(void *argument)
{
    struct errand *errand = argument;
    int result = kolo_cuda_push(&errand->rig->visit);
    if (result == KOLO_CUDA_SUCCESS) {
        result = errand->call(errand->rig);
        kolo_cuda_leave(&errand->rig->visit);
    }
    (void)pthread_mutex_lock(&lock);
    errand->result = result;
    errand->is_done = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    return NULL;
}

static bool is_done_in(const struct errand *errand, int ms)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(ms);
    int error = 0;
    (void)pthread_mutex_lock(&lock);
    while (!errand->is_done && error == 0)
        error = kolo_condition_wait(&changed, &lock, deadline);
    const bool is_done = errand->is_done;
    (void)pthread_mutex_unlock(&lock);
    return is_done;
}

static pthread_t start(struct errand *errand)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, errand) != 0)
        check(kolo_fail(KOLO_ERR_SYSTEM, "cannot start a thread"), "failed");
    return thread;
}

static void end(struct rig *rig, struct errand *errand, pthread_t thread, const char *name)
{
    if (!is_done_in(errand, END_MS)) {
        fprintf(stderr, "device_facts: %s has not returned %d s after the stream went on\n", name,
                END_MS / 1000);
        _exit(1);
    }
    (void)pthread_join(thread, NULL);
    judge(&rig->visit, name, errand->result);
}

/** Makes the stream wait, as a gate does (memory/cuda_gate.c). */
static void hold(struct rig *rig)
{
    const uint32_t ticket = ++rig->ticket;
    struct kolo_cuda_memory_op operations[] = {{.operation = KOLO_CUDA_WAIT_VALUE,
                                                .at = rig->words_at,
                                                .value = ticket,
                                                .flags = KOLO_CUDA_WAIT_GREATER},
                                               {.operation = KOLO_CUDA_WRITE_VALUE,
                                                .at = rig->words_at + sizeof(uint32_t),
                                                .value = ticket,
                                                .flags = KOLO_CUDA_WRITE_DEFAULT}};
    judge(&rig->visit, "cuLaunchHostFunc", rig->driver->launch_host(rig->held, tell, rig));
    judge(&rig->visit, "cuStreamBatchMemOp",
          rig->driver->stream_batch(rig->held, 2, operations, 0));
}

static void let_go(struct rig *rig)
{
    atomic_store(&rig->words->open, rig->ticket);
}

/** Whether the call returned while the stream waited; if not, whether another one did. */
struct seen {
    bool returns, is_alone;
};

/** Makes the call while the stream waits, and, if it does not return in @p ms, another one beside
 * it. */
static struct seen find_out(struct rig *rig, const struct fact *fact, int ms)
{
    struct errand errand = {.rig = rig, .call = fact->call};
    struct errand beside = {.rig = rig, .call = copy_beside};
    struct seen seen = {.is_alone = true};
    hold(rig);
    const pthread_t thread = start(&errand);
    seen.returns = is_done_in(&errand, ms);
    if (!seen.returns) {
        const pthread_t other = start(&beside);
        seen.is_alone = is_done_in(&beside, ms);
        let_go(rig);
        end(rig, &beside, other, "a copy beside it");
    }
    let_go(rig);
    end(rig, &errand, thread, fact->name);
    judge(&rig->visit, "cuCtxSynchronize", rig->driver->context_synchronize());
    return seen;
}

static bool is_expected(const struct fact *fact, struct seen seen)
{
    return seen.returns || fact->expected == ANYTHING || (fact->expected == ALONE && seen.is_alone);
}

static const char *look_at(struct rig *rig, const struct fact *fact)
{
    struct seen seen = find_out(rig, fact, WAIT_MS);
    if (!is_expected(fact, seen)) /* other programs may have kept it waiting */
        seen = find_out(rig, fact, WAIT_LONG_MS);
    const char *what = seen.returns ? "returns" : seen.is_alone ? "waits" : "keeps others out";
    if (is_expected(fact, seen))
        return what;
    rig->unexpected++;
    fprintf(stderr, "device_facts: while a stream waits, %s %s, but kolo expects that it %s\n",
            fact->name, what, fact->expected == RETURNS ? "returns" : "lets others in");
    return what;
}

static void print_facts(struct rig *rig, const char *name, void *stream)
{
    rig->held = stream;
    printf("{\"stream\": \"%s\"", name);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        printf(", \"%s\": \"%s\"", facts[i].name, look_at(rig, &facts[i]));
    printf(", \"an event of the context\": \"%s\"}\n", rig->is_covered ? "waits" : "passes");
    if (!rig->is_covered) {
        rig->unexpected++;
        fprintf(stderr, "device_facts: an event of the context passes while a stream waits\n");
    }
    if (atomic_load(&rig->told) == 0)
        check(kolo_fail(KOLO_ERR_SYSTEM, "no function of cuLaunchHostFunc was called"), "failed");
    atomic_store(&rig->told, 0);
}

/* ---- memory and processes ---- */

/** Whether a child that was forked is told that it has no devices, as kolo_pointer_look expects. */
static bool is_child_told(const struct rig *rig)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        struct kolo_pointer pointer;
        (void)alarm(CHILD_S); /* a driver may hang there */
        _exit(kolo_pointer_look(rig->pageable, &pointer) == KOLO_OK && !pointer.ops ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/** A function of the driver that kolo does not use; NULL: it has none. */
static void *find_function(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    return library ? dlsym(library, name) : NULL;
}

/** Memory of a pool, which has no context. */
static bool allocate_in_pool(const struct rig *rig, void *stream, struct kolo_pointer *pointer_out)
{
    int (*function)(kolo_cuda_address * memory_out, size_t bytes, void *stream) = NULL;
    kolo_cuda_address memory = 0;
    *(void **)&function = find_function("cuMemAllocAsync");
    if (!function || function(&memory, BYTES, stream) != KOLO_CUDA_SUCCESS)
        return false;
    judge(&rig->visit, "cuStreamSynchronize", rig->driver->stream_synchronize(stream));
    check(kolo_pointer_look((const void *)(uintptr_t)memory, pointer_out), "memory of a pool");
    return true;
}

/** Whether memory of a pool is read in the thread's context, and not lent. */
static const char *try_pool(const struct rig *rig)
{
    struct kolo_pointer pointer;
    struct kolo_loan loan;
    if (!allocate_in_pool(rig, rig->stream, &pointer))
        return "there is no pool";
    if (pointer.kind != KOLO_MEMORY_DEVICE || pointer.context != rig->visit.context)
        return "is not recognised";
    if (kolo_pointer_lend(&pointer, &loan) == KOLO_OK)
        return "is lent";
    check(kolo_pointer_fetch(&pointer, BYTES, rig->pageable, kolo_deadline_in_ms(END_MS)),
          "memory of a pool");
    return "is read";
}

/** Whether a call on such memory waits for the stream of another context than the primary one, if
 * that is the thread's. */
static const char *await_own(struct rig *rig)
{
    struct kolo_pointer pointer;
    struct kolo_cuda_visit visit;
    judge(&rig->visit, "cuStreamCreate",
          rig->driver->stream_create(&rig->held, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
    if (!allocate_in_pool(rig, rig->held, &pointer))
        return "there is no pool";
    check(kolo_cuda_visit_primary(&pointer, &visit), "a context");
    hold(rig);
    const kolo_status early = kolo_cuda_await(&visit, NULL, kolo_deadline_in_ms(WAIT_MS), NULL);
    let_go(rig);
    check(kolo_cuda_await(&visit, NULL, kolo_deadline_in_ms(END_MS), NULL), "a context");
    kolo_cuda_release(&visit);
    return early == KOLO_AGAIN ? "is waited for" : "is read too early";
}

static const char *try_own_context(struct rig *rig)
{
    int (*create)(void **context_out, unsigned flags, int device) = NULL;
    void *context = NULL; /* kept */
    int device = 0;
    *(void **)&create = find_function("cuCtxCreate_v2");
    judge(&rig->visit, "cuDeviceGet", rig->driver->device_get(&device, rig->visit.ordinal));
    if (!create || create(&context, 0, device) != KOLO_CUDA_SUCCESS)
        return "there is no other context";
    const char *what = await_own(rig);
    judge(&rig->visit, "cuCtxPopCurrent", rig->driver->context_pop(&context));
    return what;
}

/** Whether a copy may cross from pages that are locked to others, locked apart or not at all. kolo
 * makes no such copy; a program may. */
static const char *try_seam(const struct rig *rig, bool is_locked)
{
    const unsigned flags = KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED;
    uint8_t *low = make_pages(BYTES), *high = low + BYTES / 2;
    judge(&rig->visit, "cuMemHostRegister", rig->driver->host_register(low, BYTES / 2, flags));
    if (is_locked)
        judge(&rig->visit, "cuMemHostRegister", rig->driver->host_register(high, BYTES / 2, flags));
    const int result =
        rig->driver->copy(address(low), address(rig->memory.memory), BYTES, rig->stream);
    judge(&rig->visit, "cuCtxSynchronize", rig->driver->context_synchronize());
    judge(&rig->visit, "cuMemHostUnregister", rig->driver->host_unregister(low));
    if (is_locked)
        judge(&rig->visit, "cuMemHostUnregister", rig->driver->host_unregister(high));
    kolo_free_memory(low);
    return result == KOLO_CUDA_SUCCESS ? "works" : "is refused";
}

static const char first_name[] = "a forked child";

/** Prints it; it must be one of the two, of which the second says that there is nothing to find. */
static void print_other(struct rig *rig, const char *name, const char *found, const char *expected,
                        const char *none)
{
    printf("%s\"%s\": \"%s\"", name == first_name ? "{" : ", ", name, found);
    if (strcmp(found, expected) == 0 || strcmp(found, none) == 0)
        return;
    rig->unexpected++;
    fprintf(stderr, "device_facts: %s %s\n", name, found);
}

static void print_others(struct rig *rig)
{
    const char *child = is_child_told(rig) ? "has no devices" : "fails";
    print_other(rig, first_name, child, "has no devices", "");
    print_other(rig, "memory of a pool", try_pool(rig), "is read", "there is no pool");
    const char *own = try_own_context(rig);
    print_other(rig, "memory of a pool in another context", own, "is waited for",
                strncmp(own, "there", 5) == 0 ? own : "");
    const char *apart = try_seam(rig, true), *part = try_seam(rig, false);
    print_other(rig, "a copy to pages locked apart", apart, apart, "");
    print_other(rig, "a copy to pages locked in part", part, part, "");
    printf("}\n");
}

/* ---- memory of a process that ends ---- */

/** What a process lends before it ends. */
struct loan {
    struct kolo_loan loan;
    bool is_there;
};

/** In a process of its own, before this one has used CUDA: lends memory, and ends when @p until is
 * closed. */
static void lend_and_end(int to, int until)
{
    struct loan loan = {.is_there = false};
    struct kolo_pointer memory;
    char nothing;
    (void)alarm(LENDER_S);
    if (kolo_device_alloc(0, NULL, BYTES, &memory) == KOLO_OK) {
        struct kolo_cuda_visit visit;
        loan.is_there = kolo_cuda_visit_primary(&memory, &visit) == KOLO_OK &&
                        kolo_cuda_enter(&visit) == KOLO_OK &&
                        visit.driver->clear(address(memory.memory), LENT, BYTES) == 0 &&
                        visit.driver->context_synchronize() == 0 &&
                        kolo_pointer_lend(&memory, &loan.loan) == KOLO_OK;
    }
    _exit(write(to, &loan, sizeof loan) == sizeof loan && read(until, &nothing, 1) == 0 ? 0 : 1);
}

struct lender {
    pid_t process;
    int from, until; /* pipes */
};

static struct lender start_lender(void)
{
    int loans[2], end[2];
    if (pipe(loans) != 0 || pipe(end) != 0)
        check(kolo_fail(KOLO_ERR_SYSTEM, "no pipe"), "failed");
    struct lender lender = {.process = fork(), .from = loans[0], .until = end[1]};
    if (lender.process == 0) {
        (void)close(end[1]);
        lend_and_end(loans[1], end[0]);
    }
    (void)close(loans[1]);
    (void)close(end[0]);
    return lender;
}

/** Maps what the process lends, and reads it when the process has ended. A rank that dies leaves
 * kernels of other ranks that read its memory. */
static const char *try_loan(const struct rig *rig, struct lender lender)
{
    struct loan loan;
    struct kolo_cuda_borrower *borrower = NULL;
    struct kolo_mapping *mapping = NULL;
    void *there = NULL;
    kolo_status status = KOLO_ERR_SYSTEM;
    if (read(lender.from, &loan, sizeof loan) == sizeof loan && loan.is_there)
        status = kolo_cuda_borrower_open(&rig->memory, &borrower);
    if (status == KOLO_OK)
        status = kolo_cuda_borrower_map(borrower, 0, &loan.loan, &mapping);
    if (status == KOLO_OK)
        status = kolo_cuda_mapping_reach(mapping, loan.loan.start, BYTES, &there);
    (void)close(lender.until);
    (void)waitpid(lender.process, NULL, 0);
    if (status != KOLO_OK)
        return "not mapped";
    if (rig->driver->copy(address(rig->pageable), address(there), BYTES, rig->stream) != 0 ||
        rig->driver->stream_synchronize(rig->stream) != 0)
        return "is lost";
    const bool is_right = ((const uint8_t *)rig->pageable)[BYTES - 1] == LENT;
    kolo_cuda_mapping_done(mapping);
    kolo_cuda_borrower_close(borrower);
    return is_right ? "stays" : "is overwritten";
}

static void print_loan(struct rig *rig, struct lender lender)
{
    const char *what = try_loan(rig, lender);
    printf("{\"memory of a process that has ended\": \"%s\"}\n", what);
    if (strcmp(what, "stays") == 0 || strcmp(what, "not mapped") == 0)
        return;
    rig->unexpected++;
    fprintf(stderr, "device_facts: memory of a process that has ended %s\n", what);
}

/* ---- preparation ---- */

static void lock_all(struct rig *rig)
{
    const unsigned flags = KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    rig->words = make_pages(page);
    atomic_init(&rig->words->open, 0);
    atomic_init(&rig->words->passed, 0);
    rig->beside = (uint8_t *)rig->words + page / 2;
    rig->locked = make_pages(BYTES);
    rig->pageable = make_pages(BYTES);
    rig->to_lock = make_pages(BYTES);
    judge(&rig->visit, "cuMemHostRegister", rig->driver->host_register(rig->words, page, flags));
    judge(&rig->visit, "cuMemHostRegister", rig->driver->host_register(rig->locked, BYTES, flags));
    judge(&rig->visit, "cuMemHostGetDevicePointer",
          rig->driver->host_get_address(&rig->words_at, rig->words, 0));
}

static void set_up(struct rig *rig)
{
    (void)kolo_condition_init(&changed);
    check(kolo_device_alloc(0, NULL, BYTES, &rig->memory), "memory of a device");
    rig->driver = kolo_cuda_driver_loaded();
    check(kolo_cuda_visit_primary(&rig->memory, &rig->visit), "context");
    check(kolo_cuda_enter(&rig->visit), "context");
    if (!rig->driver->stream_batch)
        check(kolo_fail(KOLO_ERR_UNSUPPORTED, "streams cannot wait for the host"), "no facts");
    judge(&rig->visit, "cuStreamCreate",
          rig->driver->stream_create(&rig->stream, KOLO_CUDA_STREAM_NON_BLOCKING, -1));
    judge(&rig->visit, "cuStreamCreate",
          rig->driver->stream_create(&rig->other_stream, KOLO_CUDA_STREAM_NON_BLOCKING, -1));
    judge(&rig->visit, "cuEventCreate",
          rig->driver->event_create(&rig->event, KOLO_CUDA_EVENT_NO_TIMING));
    judge(&rig->visit, "cuEventCreate",
          rig->driver->event_create(&rig->other_event, KOLO_CUDA_EVENT_NO_TIMING));
    lock_all(rig);
    if (kolo_cuda_kernels_load(rig->driver, rig->visit.ordinal, KOLO_NEVER, &rig->kernels) !=
        KOLO_OK)
        rig->kernels = NULL;
    judge(&rig->visit, "a kernel", launch(rig));
}

int main(int argc, char **argv)
{
    struct rig rig = {.ticket = 0};
    void *stream = NULL;
    if (argc > 1) {
        fprintf(stderr, "device_facts: %s: expected no argument\n", argv[1]);
        return 2;
    }
    const struct lender lender = start_lender();
    set_up(&rig);
    print_others(&rig); /* first, while the process has no other threads of its own */
    judge(&rig.visit, "cuStreamCreate",
          rig.driver->stream_create(&stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
    print_facts(&rig, "non-blocking", stream);
    print_facts(&rig, "legacy default", legacy);
    print_facts(&rig, "per-thread default", per_thread);
    print_loan(&rig, lender); /* last, since it may cost the device */
    return rig.unexpected > 0;
}
