// SPDX-License-Identifier: Apache-2.0
// Recognises memory that is certainly host memory: malloc's memory from brk, the main thread's
// stack, and memory of the library's heaps (kolo_alloc). A device driver gives out mappings of its
// own and never these. So a call whose buffers are there need not ask the loader whether a driver
// has been loaded (memory/cuda_driver.c), which takes 209 of the 600 to 1000 instructions of a
// short call. Owns the bounds of the first two, found once, and rows with the memory of the heaps.
// Must never recognise other memory.
//
// malloc's memory reaches from the start of the heap to where brk is now: brk never moves below its
// start, and nothing else is allocated in between. The stack only grows downwards, so what was part
// of it once stays so. A row is read without the lock: its turn is odd while it is written, and has
// another value afterwards.
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/memory.h"

/** What /proc/self/maps said once. malloc's memory began at `heap`, and the next mapping at `next`;
 * brk, the end of malloc's memory, is asked only for addresses below that. The stack was from
 * `stack` up to `stack_end`. 0: unknown. */
static struct {
    uintptr_t heap, next, stack, stack_end;
} found;

static void take_line(const char *line)
{
    uintptr_t begin, end;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2)
        return;
    if (found.heap != 0 && found.next == 0)
        found.next = begin;
    if (strstr(line, " [heap]\n") && found.heap == 0)
        found.heap = begin;
    if (strstr(line, " [stack]\n")) {
        found.stack = begin;
        found.stack_end = end;
    }
}

static void find(void)
{
    char line[512]; /* the two lines that matter are shorter; a part of a longer line is neither */
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return;
    while (fgets(line, sizeof line, maps))
        take_line(line);
    fclose(maps);
}

void kolo_memory_find_plain(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
}

/* ---- memory of the heaps ---- */

/* As many as a short call can afford to search. For memory that does not fit, the loader is
 * asked. */
enum { ROWS = 16 };

static struct row {
    atomic_uint turn;
    atomic_uintptr_t begin, end; /* end 0: free */
} rows[ROWS];
static atomic_size_t used; /* from here on all rows are free; written, as the rows: rows_lock */
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;

/** held: rows_lock */
static void write_row(struct row *row, uintptr_t begin, uintptr_t end)
{
    const unsigned turn = atomic_load_explicit(&row->turn, memory_order_relaxed);
    atomic_store_explicit(&row->turn, turn + 1, memory_order_relaxed);
    atomic_store_explicit(&row->begin, begin, memory_order_release);
    atomic_store_explicit(&row->end, end, memory_order_release);
    atomic_store_explicit(&row->turn, turn + 2, memory_order_release);
}

static bool row_has(struct row *row, uintptr_t begin, uintptr_t end)
{
    const unsigned turn = atomic_load_explicit(&row->turn, memory_order_acquire);
    const bool has = begin >= atomic_load_explicit(&row->begin, memory_order_acquire) &&
                     end <= atomic_load_explicit(&row->end, memory_order_acquire);
    return has && turn % 2 == 0 && atomic_load_explicit(&row->turn, memory_order_relaxed) == turn;
}

void kolo_memory_add_plain(const void *memory, size_t bytes)
{
    size_t at = 0;
    pthread_mutex_lock(&rows_lock);
    while (at < ROWS && atomic_load_explicit(&rows[at].end, memory_order_relaxed) != 0)
        at++;
    if (at < ROWS) {
        write_row(&rows[at], (uintptr_t)memory, (uintptr_t)memory + bytes);
        if (at >= atomic_load_explicit(&used, memory_order_relaxed))
            atomic_store_explicit(&used, at + 1, memory_order_release);
    }
    pthread_mutex_unlock(&rows_lock);
}

void kolo_memory_remove_plain(const void *memory)
{
    pthread_mutex_lock(&rows_lock);
    for (size_t at = 0; at < ROWS; at++)
        if (atomic_load_explicit(&rows[at].begin, memory_order_relaxed) == (uintptr_t)memory)
            write_row(&rows[at], 0, 0);
    pthread_mutex_unlock(&rows_lock);
}

static bool is_of_heaps(uintptr_t begin, uintptr_t end)
{
    const size_t count = atomic_load_explicit(&used, memory_order_acquire);
    for (size_t at = 0; at < count; at++)
        if (row_has(&rows[at], begin, end))
            return true;
    return false;
}

bool kolo_memory_is_plain(const void *memory, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)memory, end = begin + bytes;
    if (bytes == 0)
        return true;
    if (end < begin)
        return false;
    if (begin >= found.stack && end <= found.stack_end)
        return true;
    if (begin >= found.heap && end <= found.next)
        return end <= (uintptr_t)sbrk(0);
    return is_of_heaps(begin, end);
}
