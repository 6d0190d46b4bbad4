// SPDX-License-Identifier: Apache-2.0
// The timeline records a rank's calls in a ring of records, in memory that outlives the rank. Here
// are its format, the writer and the reader. It needs only base/, so that kolorun can link it
// without the engine.
//
//   head (KOLO_TIMELINE_HEAD_BYTES) | record 0 | record 1 | ... | record capacity - 1
//
// The memory is a memfd that the rank's agent made (KOLO_TIMELINE=fd://N, which kolorun sets), or a
// file of the rank (KOLO_TIMELINE=PATH makes PATH.RANK). Either way the records remain when the
// rank is killed. Record number n is at n % capacity, so the latest records remain. Everything is
// little-endian. The names of kinds, plans and transports are words in the head, so that a reader
// needs no tables of the version that wrote them.
#ifndef KOLO_RUNTIME_TIMELINE_H
#define KOLO_RUNTIME_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"

enum {
    KOLO_TIMELINE_HEAD_BYTES = 40960,
    KOLO_TIMELINE_WORDS = 128, /* word 0 is "": none */
    KOLO_TIMELINE_WORD_MAX = 24,
    KOLO_TIMELINE_NAMES = 512, /* names that the program gave; name 0 is "": none */
    KOLO_TIMELINE_NAME_MAX = 64,
    KOLO_TIMELINE_HOST_MAX = 64,
    KOLO_TIMELINE_CALLS_MIN = 16,
    KOLO_TIMELINE_CALLS_MAX = 1 << 22,
    KOLO_TIMELINE_RANKS_MAX = 1 << 20
};
#define KOLO_TIMELINE_MAGIC "kolotl1\n"
/** The communicator of a record that belongs to none: kolo_init. */
#define KOLO_TIMELINE_NO_COMM UINT32_MAX

/** Which ranks a call depends on: after which rank's entry into the call which rank's exit
 * comes. */
enum kolo_timeline_shape {
    KOLO_SHAPE_OWN, /* no other rank */
    KOLO_SHAPE_ALL, /* no member ends it before all have entered it */
    /** A wait for an asynchronous request: for a collective of that number if the record has a
     * plan; else for the message of that number from `peer`, if there is one. */
    KOLO_SHAPE_WAIT,
    KOLO_SHAPE_ROOT, /* no member ends it before `peer` has entered it */
    KOLO_SHAPE_SEND, /* a send to `peer` */
    KOLO_SHAPE_RECV, /* a receive: ends after the send of the same number from `peer` began */
    KOLO_SHAPES
};

enum { KOLO_TIMELINE_IS_ASYNC = 1, KOLO_TIMELINE_IS_FUSED = 2 };

/** The record of a call. Times are CLOCK_MONOTONIC in nanoseconds. */
struct kolo_timeline_record {
    _Atomic uint32_t mark; /* the low bits of its number + 1; 0: being written */
    uint32_t comm;
    int64_t begin_ns;
    int64_t enter_ns;       /* when its turn came; 0: at once, -1: not yet */
    _Atomic int64_t end_ns; /* 0: not yet */
    uint64_t bytes;
    uint32_t sequence;
    uint32_t size; /* size of the communicator */
    int32_t peer;  /* peer or root, as a rank of the world; -1: none */
    uint32_t dtype;
    uint16_t name;                 /* the name that the program gave */
    int8_t status;                 /* valid once it has ended */
    uint8_t kind, plan, transport; /* numbers of words */
    uint8_t op;                    /* 255: none, or defined by the program */
    uint8_t shape_flags;           /* shape in the lower 4 bits, flags above */
};
enum { KOLO_TIMELINE_RECORD_BYTES = 64, KOLO_TIMELINE_NO_OP = 255 };
_Static_assert(sizeof(struct kolo_timeline_record) == KOLO_TIMELINE_RECORD_BYTES,
               "a record is a cache line");

struct kolo_timeline_head {
    char magic[8];
    uint32_t head_bytes, record_bytes;
    uint32_t capacity; /* records; a power of two */
    int32_t rank, size;
    _Atomic uint32_t pid; /* of the writer; 0: no writer yet */
    uint64_t clock;       /* times of two ranks can be compared if this is equal */
    int64_t begun_ns;
    _Atomic uint64_t written; /* records that were begun */
    /** When the rank ended, as said by a process with the same clock; 0: unknown. */
    int64_t ended_ns;
    int32_t wait_status;   /* as from waitpid; written by the agent, whatever its clock */
    uint32_t has_left;     /* the rank left the library in order */
    uint32_t words, names; /* number in use, including the empty ones */
    uint64_t names_lost;   /* calls whose names did not fit */
    char host[KOLO_TIMELINE_HOST_MAX];
    char word[KOLO_TIMELINE_WORDS][KOLO_TIMELINE_WORD_MAX];
    char name[KOLO_TIMELINE_NAMES][KOLO_TIMELINE_NAME_MAX];
    /** The job; ranks of different jobs have different numbers. 0: the rank has not met the
     * others. */
    uint64_t job;
};
_Static_assert(sizeof(struct kolo_timeline_head) <= KOLO_TIMELINE_HEAD_BYTES, "it fits");

/* ---- timeline.c: the writer ---- */

struct kolo_timeline;

/** The number of calls to keep for each of @p size ranks: @p wanted; if that is 0, a number for
 * which a trace of all ranks can still be viewed. A power of two. */
uint32_t kolo_timeline_calls(int64_t wanted, int size);
size_t kolo_timeline_bytes(uint32_t capacity);
/** A number for this process's clock. CLOCK_MONOTONIC is the same for all processes of a boot that
 * are in the same time namespace. */
uint64_t kolo_timeline_clock(void);
/** Formats memory that is all zeros as an empty timeline for rank @p rank of @p size. */
void kolo_timeline_format(struct kolo_timeline_head *head, int rank, int size, uint32_t capacity);

/** Whether the settings ask for memory of an agent, which is for one rank. */
bool kolo_timeline_is_lent(const struct kolo_settings *settings);
/** Opens the timeline that the settings ask for. *timeline_out NULL: none, or the agent's memory
 * cannot be used, which is logged as a warning. ERR_CONFIG, ERR_SYSTEM: the file cannot be made. */
kolo_status kolo_timeline_open(const struct kolo_settings *settings, int rank, int size,
                               struct kolo_timeline **timeline_out) KOLO_NODISCARD;
/** Sets a number that all ranks of this job share, and ranks of other jobs do not. */
void kolo_timeline_set_job(struct kolo_timeline *timeline, uint64_t job);
/** Records that the rank has left, and unmaps the timeline. NULL is allowed. */
void kolo_timeline_close(struct kolo_timeline *timeline);
/** The number of @p text among the words; the text must live as long as the process. 0: there is no
 * room. */
uint8_t kolo_timeline_word(struct kolo_timeline *timeline, const char *text);
/** The number of a name that the program gave; 0 for NULL, for "", and if there is no room. */
uint16_t kolo_timeline_name(struct kolo_timeline *timeline, const char *name);
/** Writes the record of @p call, whose mark and end are ignored. Returns a ticket for the functions
 * below, never 0. Threads: one at a time, as in all functions here. */
uint64_t kolo_timeline_begin(struct kolo_timeline *timeline,
                             const struct kolo_timeline_record *call);
/** Records that the turn of the call has come. If the record has been overwritten by a later one,
 * this does nothing; the same for kolo_timeline_end. */
void kolo_timeline_enter(struct kolo_timeline *timeline, uint64_t ticket);
void kolo_timeline_end(struct kolo_timeline *timeline, uint64_t ticket, kolo_status status);

/* ---- timeline_read.c: the reader, which trusts nothing that it reads ---- */

/** A timeline that was read. @p head and @p records point into memory of the reader. */
struct kolo_timeline_view {
    const struct kolo_timeline_head *head;
    const uint8_t *records;
    /** records that are there: fewer than the capacity if the data was cut off */
    size_t record_count;
    uint64_t first, end; /* the range of record numbers that should be there */
};
/** Checks @p bytes bytes, which need not be complete. ERR_DATA: the detail says what is wrong. */
kolo_status kolo_timeline_view(const void *data, size_t bytes,
                               struct kolo_timeline_view *view_out) KOLO_NODISCARD;
/** Copies record @p number. False: it is torn or makes no sense. */
bool kolo_timeline_get(const struct kolo_timeline_view *view, uint64_t number,
                       struct kolo_timeline_record *record_out);
/** Copies a word or name; "" if there is none. The bytes of the text are not checked. */
void kolo_timeline_word_text(const struct kolo_timeline_view *view, uint8_t word,
                             char text[KOLO_TIMELINE_WORD_MAX]);
void kolo_timeline_name_text(const struct kolo_timeline_view *view, uint16_t name,
                             char text[KOLO_TIMELINE_NAME_MAX]);

static inline enum kolo_timeline_shape
kolo_timeline_shape(const struct kolo_timeline_record *record)
{
    return (enum kolo_timeline_shape)(record->shape_flags & 15);
}
static inline unsigned kolo_timeline_flags(const struct kolo_timeline_record *record)
{
    return record->shape_flags >> 4;
}

#endif
