// SPDX-License-Identifier: Apache-2.0
/** What kolo and its peers share when they are compared.
 *
 * A *side* is one library under test: a program made of player.c and one side_*.c, started np
 * times by that library's own launcher. A *referee* (referee.c) starts all sides of a comparison
 * at once and lets one of them play at a time. Every rank of every side sleeps at its side's
 * *gate*, a small file that the ranks of the side and the referee map, until the referee writes a
 * command there and wakes the ranks of one side. So the sides alternate batch by batch (A B A B),
 * sleeping sides use no processor, and the same code, player.c, decides for all what is timed and
 * how.
 *
 * All elements are float32, all reductions are sums. The size of an operation in bytes is that
 * of the whole vector: what each rank contributes to an allreduce or a reduce_scatter, what the
 * root broadcasts, what each rank has at the end of an allgather, what each rank sends in an
 * alltoall.
 */
#ifndef KOLO_BENCH_COMPARE_H
#define KOLO_BENCH_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GATE_MAGIC = 0x6b6f6c6f, GATE_RANKS = 64, GATE_TEXT = 160 };

enum collective { ALLREDUCE, ALLGATHER, BROADCAST, REDUCE_SCATTER, ALLTOALL, COLLECTIVES };

/** Where a side's buffers come from: pages of the process, which every library must support, or the
 * library's own allocator. */
enum memory { MEMORY_USER, MEMORY_OWN, MEMORIES };

/** What the ranks of a side are to do when the gate opens. */
struct command {
    bool leave;     /* end the program; all other fields are ignored */
    bool check;     /* first do one more operation on fresh buffers, and compare every element */
    bool forget;    /* release the buffers afterwards */
    int collective; /* enum collective */
    int memory;     /* enum memory */
    uint64_t count; /* elements of the whole vector; a multiple of the number of ranks */
    uint64_t warm;  /* operations before the clock starts */
    uint64_t calls; /* operations that are timed */
    uint64_t first_root; /* timed operation i has root (first_root + i) % np */
};

enum outcome { OUTCOME_OK, OUTCOME_UNSUPPORTED, OUTCOME_FAILED };

/** One rank's report about the turn; on a cache line of its own. */
struct __attribute__((aligned(64))) slot {
    int64_t ns;      /* all timed operations together */
    uint64_t errors; /* elements that differ */
    int outcome;     /* enum outcome */
    int cpu;         /* where all threads of the rank are pinned, or -1 */
    char detail[GATE_TEXT];
};

/** The file that the ranks of one side and the referee map. The two futex words are on cache lines
 * of their own. */
struct gate {
    uint32_t magic, nranks;
    struct command command;
    uint32_t turn __attribute__((aligned(64))); /* futex: incremented with every command */
    uint32_t done __attribute__((aligned(64))); /* futex: ranks that have ended this turn */
    struct slot slots[GATE_RANKS];
};

/** One operation, with arguments like MPI's collectives. A broadcast uses only recv; all others use
 * both buffers. `count` is the number of elements of the whole vector, `block` = count / np. */
struct operation {
    enum collective collective;
    void *send, *recv;
    size_t count, block;
    int root;
};

/** A library under test. Every function returns 0, or -1 with the reason in detail (GATE_TEXT
 * bytes). */
struct side {
    /** Meets the other ranks. @p meet is the path of a file or directory that only this side
     * uses. */
    int (*start)(int rank, int nranks, const char *meet, char *detail);
    bool (*can)(enum collective collective, enum memory memory);
    /** For MEMORY_OWN only; collective. */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
    int (*barrier)(char *detail);
    /** Called before the first operation on these buffers, not timed; NULL: not needed. */
    int (*prepare)(const struct operation *operation, char *detail);
    int (*play)(const struct operation *operation, char *detail);
    void (*end)(void);
};

#ifdef __cplusplus
extern "C" {
#endif
/** Each side_*.c or side_*.cc defines one. */
extern const struct side this_side;

/** Blocks until *word is not @p value, the time is over or a signal came. */
void gate_sleep(uint32_t *word, uint32_t value, int timeout_ms);
void gate_wake(uint32_t *word);

/** Whether all of @p text is a whole number from @p least to @p most. */
bool parse_number(const char *text, int64_t least, int64_t most, int64_t *value_out);
#ifdef __cplusplus
}
#endif
#endif
