// SPDX-License-Identifier: Apache-2.0
// Measures what lies between two NUMA nodes, by threads of one process, each bound to a core: a
// word that goes from core to core inside a node and between two, and all cores of one node reading
// memory of the other at once. Uses what hwloc knows about the machine; binds only its own threads.
#include "bench/far.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum {
    NODES = 2,
    CORES_MAX = 256, /* of a node, that are used */
    LINE_WORDS = 64, /* two cache lines apart */
    EXCHANGES = 1000,
    ROUNDS = 50,
    READS = 3,
    READ_BYTES = 64 << 20, /* per core; more than its part of the last-level cache */
    DEADLINE_MS = 10000
};
static const size_t all_bytes = (size_t)1 << 30; /* of all cores, at most */
static const double noise = 1.1;

struct node {
    int cpus[CORES_MAX]; /* one of each core that may be used */
    int count;
};

/** The first processor of @p core that is in @p allowed; -1: none. */
static int processor_of(hwloc_obj_t core, const cpu_set_t *allowed)
{
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu))
        if (cpu < CPU_SETSIZE && CPU_ISSET((size_t)cpu, allowed))
            return cpu;
    return -1;
}

static int find_nodes(struct node nodes[NODES])
{
    hwloc_topology_t topology;
    cpu_set_t allowed;
    int count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || hwloc_topology_init(&topology) < 0)
        return 0;
    hwloc_obj_t object = NULL;
    bool is_loaded = hwloc_topology_load(topology) == 0;
    while (is_loaded && count < NODES &&
           (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object))) {
        struct node *node = &nodes[count];
        node->count = 0;
        for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_inside_cpuset_by_type(
                                           topology, object->cpuset, HWLOC_OBJ_CORE, core));) {
            int cpu = processor_of(core, &allowed);
            if (cpu >= 0 && node->count < CORES_MAX)
                node->cpus[node->count++] = cpu;
        }
        count += node->count > 0;
    }
    hwloc_topology_destroy(topology);
    return count;
}

static void move_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* it was allowed before */
}

static kolo_status start(pthread_t *thread, void *(*function)(void *), void *context)
{
    int error = pthread_create(thread, NULL, function, context);
    return error == 0 ? KOLO_OK : kolo_fail_errno(KOLO_ERR_SYSTEM, error, "profile: a thread");
}

/* ---- a word ---- */

/** The words that two threads write in turn. Each thread gives up at the deadline. */
struct exchange {
    _Alignas(512) uint64_t words[2 * LINE_WORDS];
    int cpus[2];
    kolo_deadline deadline;
    double ns; /* one way; 0: not measured */
};

static bool await_word(struct exchange *exchange, int side, uint64_t turn)
{
    for (unsigned looks = 0;
         __atomic_load_n(&exchange->words[side * LINE_WORDS], __ATOMIC_ACQUIRE) < turn; looks++)
        if (looks % EXCHANGES == EXCHANGES - 1 && kolo_deadline_passed(exchange->deadline))
            return false;
    return true;
}

static void raise_word(struct exchange *exchange, int side, uint64_t turn)
{
    __atomic_store_n(&exchange->words[side * LINE_WORDS], turn, __ATOMIC_RELEASE);
}

static void *answer(void *context)
{
    struct exchange *exchange = context;
    move_to(exchange->cpus[1]);
    for (uint64_t turn = 1; turn <= ROUNDS * EXCHANGES && await_word(exchange, 0, turn); turn++)
        raise_word(exchange, 1, turn);
    return NULL;
}

/** The least of several rounds, since other work of the machine comes and goes. */
static void *ask(void *context)
{
    struct exchange *exchange = context;
    move_to(exchange->cpus[0]);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        int64_t begin = kolo_now_ns();
        for (uint64_t turn = round * EXCHANGES + 1; turn <= (round + 1) * EXCHANGES; turn++) {
            raise_word(exchange, 0, turn);
            if (!await_word(exchange, 1, turn))
                return NULL;
        }
        double ns = (double)(kolo_now_ns() - begin) / (2.0 * (double)EXCHANGES);
        exchange->ns = round == 0 || ns < exchange->ns ? ns : exchange->ns;
    }
    return NULL;
}

/** Nanoseconds of a word from processor @p from to @p to. */
static kolo_status time_word(int from, int to, double *ns_out)
{
    struct exchange exchange = {.cpus = {from, to}, .deadline = kolo_deadline_in_ms(DEADLINE_MS)};
    pthread_t threads[2];
    kolo_status status;
    KOLO_TRY(start(&threads[0], answer, &exchange));
    status = start(&threads[1], ask, &exchange);
    if (status == KOLO_OK)
        pthread_join(threads[1], NULL);
    else
        raise_word(&exchange, 0, UINT64_MAX); /* lets the other thread run to its end */
    pthread_join(threads[0], NULL);
    *ns_out = exchange.ns;
out:
    return status;
}

/* ---- the line ---- */

/** Where readers wait until all have touched their memory. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ready;
    bool is_open, is_off; /* held: lock; off: nobody reads */
};

/** Returns false if it is off. */
static bool pass(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->ready++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    bool is_on = !gate->is_off;
    pthread_mutex_unlock(&gate->lock);
    return is_on;
}

/** Opens the gate when @p count threads have come; with 0 at once, and off. */
static void open_gate(struct gate *gate, int count)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->ready < count)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->is_off = count == 0;
    gate->is_open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/** One core and the memory that it reads; @p owner touches it first, so that it is near that
 * core. */
struct reader {
    struct gate *gate;
    uint64_t *memory;
    size_t words;
    int cpu, owner;
    uint64_t sum; /* prevents the compiler from removing the reads */
    int64_t begin_ns, end_ns;
};

static void *read_memory(void *context)
{
    struct reader *reader = context;
    move_to(reader->owner);
    memset(reader->memory, 1, reader->words * sizeof *reader->memory);
    move_to(reader->cpu);
    if (!pass(reader->gate))
        return NULL;
    reader->begin_ns = kolo_now_ns();
    for (size_t i = 0; i < reader->words; i++)
        reader->sum += reader->memory[i];
    reader->end_ns = kolo_now_ns();
    return NULL;
}

/** From the first that begins to the last that ends, over all bytes. */
static double byte_of(const struct reader *readers, int count)
{
    int64_t begin = readers[0].begin_ns, end = readers[0].end_ns;
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        begin = readers[i].begin_ns < begin ? readers[i].begin_ns : begin;
        end = readers[i].end_ns > end ? readers[i].end_ns : end;
        sum += readers[i].sum;
    }
    double bytes = (double)count * (double)readers[0].words * sizeof(uint64_t);
    return sum > 0 ? (double)(end - begin) / bytes : 0;
}

static kolo_status run_readers(struct reader *readers, int count)
{
    pthread_t threads[CORES_MAX];
    struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    kolo_status status = KOLO_OK;
    int started = 0;
    while (status == KOLO_OK && started < count) {
        readers[started].gate = &gate;
        status = start(&threads[started], read_memory, &readers[started]);
        started += status == KOLO_OK;
    }
    open_gate(&gate, status == KOLO_OK ? count : 0);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return status;
}

/** What each of @p count cores reads: more than caches hold, and a part of the free memory. */
static size_t words_of(int count)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t most = all_bytes, each = READ_BYTES;
    if (pages > 0 && page > 0 && (size_t)pages * (size_t)page / 4 < most)
        most = (size_t)pages * (size_t)page / 4;
    each = most / (size_t)count < each ? most / (size_t)count : each;
    return each / sizeof(uint64_t) > 0 ? each / sizeof(uint64_t) : 1;
}

/** Nanoseconds per byte that the cores of @p here read from memory near those of @p there. */
static kolo_status time_byte(const struct node *here, const struct node *there, double *ns_out)
{
    static struct reader readers[CORES_MAX];
    size_t words = words_of(here->count);
    uint64_t *memory = kolo_aligned(1 << 21, (size_t)here->count * words * sizeof *memory);
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!memory)
        return status;
    for (int i = 0; i < here->count; i++)
        readers[i] = (struct reader){.memory = memory + (size_t)i * words,
                                     .words = words,
                                     .cpu = here->cpus[i],
                                     .owner = there->cpus[i % there->count]};
    KOLO_TRY(run_readers(readers, here->count));
    *ns_out = byte_of(readers, here->count);
out:
    kolo_free_memory(memory);
    return status;
}

/** The line between nodes is what makes reading another node's memory slower than one's own; if it
 * is not slower, there is no such limit. */
static kolo_status measure_byte(const struct node nodes[NODES], struct kolo_figures *figures)
{
    double near = 0, far = 0;
    kolo_status status;
    for (int i = 0; i < READS; i++) { /* alternating; the least of each */
        double ns[NODES];
        for (int node = 0; node < NODES; node++)
            KOLO_TRY(time_byte(&nodes[0], &nodes[node], &ns[node]));
        near = i == 0 || ns[0] < near ? ns[0] : near;
        far = i == 0 || ns[1] < far ? ns[1] : far;
    }
    if (near > 0 && far > 0)
        figures->far_byte = far > noise * near ? far : 0;
out:
    return status;
}

static kolo_status measure_word(const struct node nodes[NODES], struct kolo_figures *figures)
{
    double near = 0, far = 0;
    kolo_status status;
    KOLO_TRY(time_word(nodes[0].cpus[0], nodes[1].cpus[0], &far));
    if (nodes[0].count > 1)
        KOLO_TRY(time_word(nodes[0].cpus[0], nodes[0].cpus[1], &near));
    if (near > 0 && far > 0)
        figures->far_flag = far > near ? far - near : 0;
out:
    return status;
}

kolo_status far_measure(struct kolo_figures *figures, int *nodes_out)
{
    static struct node nodes[NODES];
    kolo_status status = KOLO_OK;
    *nodes_out = find_nodes(nodes);
    if (*nodes_out < NODES)
        return KOLO_OK;
    KOLO_TRY(measure_byte(nodes, figures));
    KOLO_TRY(measure_word(nodes, figures));
out:
    return status;
}
