// SPDX-License-Identifier: Apache-2.0
// Memory that surely is the host's: what malloc has by brk, and the main thread's stack. A driver
// of devices gives out mappings of its own and never those two, so a call whose buffers lie there
// need not ask the loader whether a driver has come (memory/cuda.c): 209 of the 600 to 1000
// instructions of a short call. Owns where the two begin, found once. Must never: say so of memory
// that is of neither.
//
// The heap ends where brk is now. It does not shrink to below where it begins, and nobody else is
// given what lies between; the stack only grows downwards, so what it had once it keeps.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/memory.h"

/** From @p heap up to brk, which is not asked for what lies beyond the mapping that came next when
 * it was looked at; and from @p stack up to @p stack_end; 0: not known. */
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
    if (strstr(line, " [heap]\n") != NULL && found.heap == 0)
        found.heap = begin;
    if (strstr(line, " [stack]\n") != NULL) {
        found.stack = begin;
        found.stack_end = end;
    }
}

static void find(void)
{
    char line[512]; /* the two that matter are shorter; a part of a longer one is none of them */
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return;
    while (fgets(line, sizeof line, maps) != NULL)
        take_line(line);
    fclose(maps);
}

void kolo_memory_find_plain(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
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
    return begin >= found.heap && end <= found.next && end <= (uintptr_t)sbrk(0);
}
