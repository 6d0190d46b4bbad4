// SPDX-License-Identifier: Apache-2.0
// What a rank did, call by call: a ring of records in memory that outlives the rank, its format,
// who writes it and who reads it. Needs nothing of the runtime but the base, so that kolorun takes
// it without the engine.
//
//   head (KOLO_TIMELINE_HEAD_BYTES) | record 0 | record 1 | ... | record capacity - 1
//
// The memory is a memfd that the rank's agent has made (KOLO_TIMELINE=fd://N, which kolorun sets),
// or a file of the rank's own (KOLO_TIMELINE=PATH makes PATH.RANK); either way what stands there
// when a rank is killed stays. Record number n is at n % capacity: the latest stay. All is
// little-endian. Names of kinds, plans and transports are words of the head, so that who reads it
// needs no table of the version that wrote it.
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
    KOLO_TIMELINE_NAMES = 512, /* of the program's; name 0 is "": none */
    KOLO_TIMELINE_NAME_MAX = 64,
    KOLO_TIMELINE_HOST_MAX = 64,
    KOLO_TIMELINE_CALLS_MIN = 16,
    KOLO_TIMELINE_CALLS_MAX = 1 << 22,
    KOLO_TIMELINE_RANKS_MAX = 1 << 20
};
#define KOLO_TIMELINE_MAGIC "kolotl1\n"
/** The communicator of what belongs to none: kolo_init. */
#define KOLO_TIMELINE_NO_COMM UINT32_MAX

/** Whom a call cannot do without: what end of which rank comes after what begin of which. */
enum kolo_timeline_shape {
    KOLO_SHAPE_OWN,  /* nobody */
    KOLO_SHAPE_ALL,  /* no member ends it before all have entered it */
    KOLO_SHAPE_WAIT, /* for an asynchronous request: a collective of that number if it has a plan;
                        else the message of that number from `peer`, if there is one */
    KOLO_SHAPE_ROOT, /* no member ends it before `peer` has entered it */
    KOLO_SHAPE_SEND, /* to `peer` */
    KOLO_SHAPE_RECV, /* ends after the send of the same number of `peer` began */
    KOLO_SHAPES
};

enum { KOLO_TIMELINE_IS_ASYNC = 1, KOLO_TIMELINE_IS_FUSED = 2 };

/** A call. Times are of CLOCK_MONOTONIC, in nanoseconds. */
struct kolo_timeline_record {
    _Atomic uint32_t mark; /* the low bits of its number + 1; 0: being written */
    uint32_t comm;
    int64_t begin_ns;
    int64_t enter_ns;       /* its turn came; 0: at once, -1: not yet */
    _Atomic int64_t end_ns; /* 0: not yet */
    uint64_t bytes;
    uint32_t sequence;
    uint32_t size; /* of the communicator */
    int32_t peer;  /* or root: a rank in the world; -1: none */
    uint32_t dtype;
    uint16_t name;                 /* of the program's for it */
    int8_t status;                 /* once it has ended */
    uint8_t kind, plan, transport; /* words */
    uint8_t op;                    /* 255: none or one of the program's own */
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
    _Atomic uint32_t pid; /* of who writes; 0: nobody has come */
    uint64_t clock;       /* equal: times can be compared */
    int64_t begun_ns;
    _Atomic uint64_t written; /* records that were begun */
    int64_t ended_ns;         /* 0: nobody who has its clock has said that it ended */
    int32_t wait_status;      /* as waitpid has it; of the agent, whatever its clock */
    uint32_t has_left;        /* the library was left in order */
    uint32_t words, names;    /* in use, the empty ones counted */
    uint64_t names_lost;      /* calls whose names found no room */
    char host[KOLO_TIMELINE_HOST_MAX];
    char word[KOLO_TIMELINE_WORDS][KOLO_TIMELINE_WORD_MAX];
    char name[KOLO_TIMELINE_NAMES][KOLO_TIMELINE_NAME_MAX];
    uint64_t job; /* differs: of another job; 0: the rank has not met the others */
};
_Static_assert(sizeof(struct kolo_timeline_head) <= KOLO_TIMELINE_HEAD_BYTES, "it fits");

/* ---- timeline.c: who writes ---- */

struct kolo_timeline;

/** How many calls are kept of each of @p size ranks: @p wanted, or, where that is 0, so many that a
 * trace of all can be looked at. A power of two. */
uint32_t kolo_timeline_calls(int64_t wanted, int size);
size_t kolo_timeline_bytes(uint32_t capacity);
/** Names this process's clock: CLOCK_MONOTONIC is one for all processes of a boot that are in one
 * time namespace. */
uint64_t kolo_timeline_clock(void);
/** Begins an empty one, of what is all zeros, for rank @p rank of @p size. */
void kolo_timeline_format(struct kolo_timeline_head *head, int rank, int size, uint32_t capacity);

/** Is the one that they ask for memory of an agent's, for one rank? */
bool kolo_timeline_is_lent(const struct kolo_settings *settings);
/** The one that the settings ask for; *timeline_out NULL: none, or the agent's cannot be used,
 * which a warning says. ERR_CONFIG, ERR_SYSTEM: the file cannot be made. */
kolo_status kolo_timeline_open(const struct kolo_settings *settings, int rank, int size,
                               struct kolo_timeline **timeline_out) KOLO_NODISCARD;
/** What the ranks of this job have in common, and those of no other. */
void kolo_timeline_set_job(struct kolo_timeline *timeline, uint64_t job);
/** Says that the rank has left, and unmaps it. NULL is fine. */
void kolo_timeline_close(struct kolo_timeline *timeline);
/** The number of a text that lives as long as the process, among the words; 0: there is no room. */
uint8_t kolo_timeline_word(struct kolo_timeline *timeline, const char *text);
/** The number of a name of the program's; 0 for NULL, "", and where there is no room. */
uint16_t kolo_timeline_name(struct kolo_timeline *timeline, const char *name);
/** Writes @p call, whose mark and end are not looked at. A ticket for what follows, never 0. One
 * thread at a time, as of all here. */
uint64_t kolo_timeline_begin(struct kolo_timeline *timeline,
                             const struct kolo_timeline_record *call);
/** Its turn has come. Of a record that has made room for another, nothing; as of the next. */
void kolo_timeline_enter(struct kolo_timeline *timeline, uint64_t ticket);
void kolo_timeline_end(struct kolo_timeline *timeline, uint64_t ticket, kolo_status status);

/* ---- timeline_read.c: who reads, and believes nothing ---- */

/** One that was read: @p head and what follows lie in memory of the reader's. */
struct kolo_timeline_view {
    const struct kolo_timeline_head *head;
    const uint8_t *records;
    size_t record_count; /* that are there: fewer than the capacity if it was cut off */
    uint64_t first, end; /* numbers of the records that should be there */
};
/** Looks at @p bytes bytes, which need not be whole. ERR_DATA says what is wrong. */
kolo_status kolo_timeline_view(const void *data, size_t bytes,
                               struct kolo_timeline_view *view_out) KOLO_NODISCARD;
/** Copies record @p number. False: it is torn, or makes no sense. */
bool kolo_timeline_get(const struct kolo_timeline_view *view, uint64_t number,
                       struct kolo_timeline_record *record_out);
/** Copies a word or name, "" where there is none. What the bytes are is not looked at. */
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
