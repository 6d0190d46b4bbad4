// SPDX-License-Identifier: Apache-2.0
// Owns a rank's ring of records: its memory, words and names, and the order of its stores. Must
// never trust what KOLO_TIMELINE leads to (a descriptor may have become another file), write beyond
// what it has mapped, or end the program: files are allocated before they are mapped, so that a
// full disk is an error and not a signal, and the limit on their size is checked before that.
//
// The mark of a record is cleared before the rest is written, and set afterwards, so a reader of
// what a killed rank left never takes half a record for a call. Names are looked up in a table of
// this process, since others may write to what is mapped (its own file).
#include "runtime/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/short_file.h"
#include "memory/shared_file.h"

enum {
    CALLS_AUTO = 16384, /* calls of each rank */
    CALLS_AUTO_MIN = 256,
    CALLS_AUTO_ALL = 1 << 20, /* calls of all ranks: a trace of some hundreds of MB */
    NAME_SLOTS = 2 * KOLO_TIMELINE_NAMES,
    WORD_SLOTS = 256 /* more than KOLO_TIMELINE_WORDS and their duplicates */
};
static const char fd_scheme[] = "fd://";

struct kolo_timeline {
    struct kolo_timeline_head *head;
    struct kolo_timeline_record *records;
    size_t bytes;
    int lock_fd; /* its own file, which is locked while it is written; -1: none */
    uint64_t written;
    uint32_t mask;
    uint32_t words, names;
    struct {
        const char *text;
        uint8_t word;
    } word_slots[WORD_SLOTS]; /* hashed by the address of the text */
    uint16_t name_slots[NAME_SLOTS];
    char name[KOLO_TIMELINE_NAMES][KOLO_TIMELINE_NAME_MAX];
};

/* ---- format ---- */

uint32_t kolo_timeline_calls(int64_t wanted, int size)
{
    int64_t calls = wanted;
    if (wanted <= 0) {
        calls = CALLS_AUTO_ALL / (size > 0 ? size : 1);
        calls = calls > CALLS_AUTO ? CALLS_AUTO : calls < CALLS_AUTO_MIN ? CALLS_AUTO_MIN : calls;
    }
    uint32_t capacity = KOLO_TIMELINE_CALLS_MIN;
    while (capacity < calls && capacity < KOLO_TIMELINE_CALLS_MAX)
        capacity *= 2;
    return capacity;
}

size_t kolo_timeline_bytes(uint32_t capacity)
{
    return KOLO_TIMELINE_HEAD_BYTES + (size_t)capacity * KOLO_TIMELINE_RECORD_BYTES;
}

void kolo_timeline_format(struct kolo_timeline_head *head, int rank, int size, uint32_t capacity)
{
    head->head_bytes = KOLO_TIMELINE_HEAD_BYTES;
    head->record_bytes = KOLO_TIMELINE_RECORD_BYTES;
    head->capacity = capacity;
    head->rank = rank;
    head->size = size;
    head->words = head->names = 1;
    memcpy(head->magic, KOLO_TIMELINE_MAGIC, sizeof head->magic);
}

/* ---- clock ---- */

static uint64_t hash_read(uint64_t hash, const char *bytes, ssize_t got)
{
    return got > 0 ? kolo_hash(hash, bytes, (size_t)got) : hash;
}

uint64_t kolo_timeline_clock(void)
{
    char text[128];
    ssize_t got = kolo_short_file_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    uint64_t hash = hash_read(KOLO_HASH_START, text, got);
    return hash_read(hash, text, readlink("/proc/self/ns/time", text, sizeof text));
}

/* ---- opening ---- */

static kolo_status map(struct kolo_timeline *timeline, int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "map %zu bytes of a timeline", bytes);
    timeline->bytes = bytes;
    timeline->head = memory;
    timeline->records = (void *)((uint8_t *)memory + KOLO_TIMELINE_HEAD_BYTES);
    return KOLO_OK;
}

static bool is_sealed(int fd)
{
    /* access to mapped memory that was cut off is a signal */
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    const int has = fcntl(fd, F_GET_SEALS);
    return has >= 0 && (has & seals) == seals;
}

/** The reason why the mapped memory is not for this rank; NULL: it is. */
static const char *refusal_of(struct kolo_timeline *timeline, int rank, int size)
{
    struct kolo_timeline_head *head = timeline->head;
    const uint32_t capacity = head->capacity;
    uint32_t nobody = 0;
    if (memcmp(head->magic, KOLO_TIMELINE_MAGIC, sizeof head->magic) != 0 ||
        head->head_bytes != KOLO_TIMELINE_HEAD_BYTES ||
        head->record_bytes != KOLO_TIMELINE_RECORD_BYTES)
        return "it is not a timeline, or of another version of kolo";
    if (capacity < KOLO_TIMELINE_CALLS_MIN || (capacity & (capacity - 1)) != 0 ||
        timeline->bytes != kolo_timeline_bytes(capacity))
        return "its length is wrong";
    if (head->rank != rank || head->size != size)
        return "it belongs to another rank";
    if (!atomic_compare_exchange_strong(&head->pid, &nobody, (uint32_t)getpid()))
        return "it has been written already: a rank may call kolo_init only once";
    timeline->mask = capacity - 1;
    return NULL;
}

static void unmap(struct kolo_timeline *timeline)
{
    if (timeline->head)
        (void)munmap(timeline->head, timeline->bytes);
    timeline->head = NULL;
    if (timeline->lock_fd >= 0)
        (void)close(timeline->lock_fd);
    timeline->lock_fd = -1;
}

/** The reason why descriptor @p fd cannot be used; NULL: it can. */
static const char *take_descriptor(struct kolo_timeline *timeline, int fd, int rank, int size)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return "it is closed: a program between kolorun and this one has closed it";
    if (!is_sealed(fd) || (size_t)facts.st_size < kolo_timeline_bytes(KOLO_TIMELINE_CALLS_MIN) ||
        (size_t)facts.st_size > kolo_timeline_bytes(KOLO_TIMELINE_CALLS_MAX))
        return "it is not memory of an agent";
    if (map(timeline, fd, (size_t)facts.st_size) != KOLO_OK)
        return kolo_error_detail();
    return refusal_of(timeline, rank, size);
}

/** Opens the memory of the agent. If it cannot be used this does not fail: the job continues, and
 * nothing is mapped. */
static void open_descriptor(struct kolo_timeline *timeline, const char *value, int rank, int size)
{
    const char *number = value + sizeof fd_scheme - 1, *refusal = "it is no number";
    int fd = 0;
    size_t digits = strspn(number, "0123456789");
    if (digits > 0 && digits < 8 && number[digits] == '\0') {
        for (size_t i = 0; i < digits; i++)
            fd = 10 * fd + (number[i] - '0');
        refusal = take_descriptor(timeline, fd, rank, size);
    }
    if (!refusal) {
        (void)close(fd); /* it was for this process only, not for those that it starts */
        return;
    }
    unmap(timeline);
    KOLO_WARN("no timeline of this rank: KOLO_TIMELINE=%s: %s", value, refusal);
}

static kolo_status refuse_place(const char *path, int error)
{
    char words[96];
    return kolo_fail(KOLO_ERR_CONFIG,
                     "KOLO_TIMELINE: %s cannot be made (%s); give a place that can be written",
                     path, strerror_r(error, words, sizeof words));
}

/* ---- ownership of the file ---- */

static kolo_status refuse_taken(const char *path)
{
    return kolo_fail(KOLO_ERR_CONFIG,
                     "KOLO_TIMELINE: %s is being written by another process; give each job, and "
                     "each process that calls kolo_run_threads, a place of its own",
                     path);
}

/** Whether a live process is using the file. Locks belong to processes, so a process that a rank
 * forked does not keep one. If the file system has no locks, the last process that opens the file
 * gets it. */
static bool is_taken(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    const bool is_locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    (void)close(fd);
    return is_locked;
}

/** Locks the file that was made, unless another process has replaced it meanwhile. */
static kolo_status take_file(struct kolo_timeline *timeline, const char *prefix, int rank)
{
    const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const off_t at = offsetof(struct kolo_timeline_head, begun_ns);
    char path[KOLO_TEXT_MAX + 16];
    int64_t begun_ns = 0;
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    timeline->lock_fd = kolo_descriptor_keep(open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (timeline->lock_fd < 0)
        return refuse_taken(path);
    if (fcntl(timeline->lock_fd, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN))
        return refuse_taken(path);
    if (pread(timeline->lock_fd, &begun_ns, sizeof begun_ns, at) != (ssize_t)sizeof begun_ns ||
        begun_ns != timeline->head->begun_ns)
        return refuse_taken(path);
    return KOLO_OK;
}

/** Makes a new file, whatever is there, since another job may have mapped that. */
static kolo_status create(const char *path, int *fd_out)
{
    if (is_taken(path))
        return refuse_taken(path);
    if (unlink(path) == 0 || errno == ENOENT)
        *fd_out = kolo_descriptor_keep(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    return *fd_out >= 0 ? KOLO_OK : refuse_place(path, errno);
}

/** Checks the limit of the file size: a file that grows beyond it would be a signal that ends the
 * program. */
static kolo_status check_limit(const char *path, size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        bytes <= limit.rlim_cur)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_CONFIG,
                     "KOLO_TIMELINE: the %zu bytes of %s exceed the file size limit of %llu: raise "
                     "`ulimit -f`, or keep fewer calls (KOLO_TIMELINE_CALLS)",
                     bytes, path, (unsigned long long)limit.rlim_cur);
}

static kolo_status open_file(struct kolo_timeline *timeline, const char *prefix, int rank, int size,
                             uint32_t capacity)
{
    char path[KOLO_TEXT_MAX + 16];
    int fd = -1;
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    const size_t bytes = kolo_timeline_bytes(capacity);
    kolo_status status = check_limit(path, bytes);
    if (status == KOLO_OK)
        status = create(path, &fd);
    if (status != KOLO_OK)
        return status;
    const int error = kolo_shared_file_reserve(fd, 0, bytes);
    status = error == 0 ? map(timeline, fd, bytes) : refuse_place(path, error);
    (void)close(fd);
    if (status != KOLO_OK) {
        (void)unlink(path);
        return status;
    }
    kolo_timeline_format(timeline->head, rank, size, capacity);
    atomic_store(&timeline->head->pid, (uint32_t)getpid());
    timeline->mask = capacity - 1;
    return KOLO_OK;
}

bool kolo_timeline_is_lent(const struct kolo_settings *settings)
{
    return strncmp(settings->timeline, fd_scheme, sizeof fd_scheme - 1) == 0;
}

static void introduce(struct kolo_timeline *timeline)
{
    struct kolo_timeline_head *head = timeline->head;
    if (gethostname(head->host, sizeof head->host - 1) != 0)
        head->host[0] = '\0';
    head->clock = kolo_timeline_clock();
    head->begun_ns = kolo_now_ns();
    timeline->words = timeline->names = 1;
}

kolo_status kolo_timeline_open(const struct kolo_settings *settings, int rank, int size,
                               struct kolo_timeline **timeline_out)
{
    const char *value = settings->timeline;
    kolo_status status = KOLO_OK;
    *timeline_out = NULL;
    if (value[0] == '\0')
        return KOLO_OK;
    struct kolo_timeline *timeline = kolo_calloc(1, sizeof *timeline);
    if (!timeline)
        return KOLO_ERR_NO_MEMORY;
    timeline->lock_fd = -1;
    if (kolo_timeline_is_lent(settings))
        open_descriptor(timeline, value, rank, size);
    else
        status = open_file(timeline, value, rank, size,
                           kolo_timeline_calls(settings->timeline_calls, size));
    if (!timeline->head) {
        kolo_free_memory(timeline);
        return status;
    }
    introduce(timeline);
    if (!kolo_timeline_is_lent(settings))
        status = take_file(timeline, value, rank);
    if (status == KOLO_OK) {
        *timeline_out = timeline;
    } else {
        unmap(timeline);
        kolo_free_memory(timeline);
    }
    return status;
}

void kolo_timeline_set_job(struct kolo_timeline *timeline, uint64_t job)
{
    timeline->head->job = job;
}

void kolo_timeline_close(struct kolo_timeline *timeline)
{
    if (!timeline)
        return;
    timeline->head->has_left = 1;
    timeline->head->ended_ns = kolo_now_ns();
    unmap(timeline);
    kolo_free_memory(timeline);
}

/* ---- words and names ---- */

static uint8_t add_word(struct kolo_timeline *timeline, const char *text)
{
    if (timeline->words >= KOLO_TIMELINE_WORDS)
        return 0;
    const uint32_t word = timeline->words++;
    snprintf(timeline->head->word[word], KOLO_TIMELINE_WORD_MAX, "%s", text);
    timeline->head->words = timeline->words;
    return (uint8_t)word;
}

/** Looks up the address, not the text: there are few texts, and each has only one or two
 * addresses. */
uint8_t kolo_timeline_word(struct kolo_timeline *timeline, const char *text)
{
    if (!text || text[0] == '\0')
        return 0;
    size_t slot = ((uintptr_t)text ^ ((uintptr_t)text >> 8)) % WORD_SLOTS;
    for (int tries = 0; tries < WORD_SLOTS; tries++, slot = (slot + 1) % WORD_SLOTS) {
        if (timeline->word_slots[slot].text == text)
            return timeline->word_slots[slot].word;
        if (!timeline->word_slots[slot].text) {
            timeline->word_slots[slot].text = text;
            timeline->word_slots[slot].word = add_word(timeline, text);
            return timeline->word_slots[slot].word;
        }
    }
    return 0;
}

static uint16_t add_name(struct kolo_timeline *timeline, const char *name, size_t length)
{
    const uint32_t index = timeline->names;
    if (index >= KOLO_TIMELINE_NAMES) {
        timeline->head->names_lost++;
        return 0;
    }
    memcpy(timeline->name[index], name, length); /* followed by zeros */
    memcpy(timeline->head->name[index], timeline->name[index], KOLO_TIMELINE_NAME_MAX);
    timeline->head->names = ++timeline->names;
    return (uint16_t)index;
}

uint16_t kolo_timeline_name(struct kolo_timeline *timeline, const char *name)
{
    const size_t length = name ? strnlen(name, KOLO_TIMELINE_NAME_MAX - 1) : 0;
    if (length == 0)
        return 0;
    size_t slot = kolo_hash32(KOLO_HASH32_START, name, length) % NAME_SLOTS;
    for (;; slot = (slot + 1) % NAME_SLOTS) { /* ends, since half of the slots are always free */
        const uint16_t index = timeline->name_slots[slot];
        if (index == 0)
            break;
        if (strncmp(timeline->name[index], name, length) == 0 &&
            timeline->name[index][length] == '\0')
            return index;
    }
    return timeline->name_slots[slot] = add_name(timeline, name, length);
}

/* ---- records ---- */

uint64_t kolo_timeline_begin(struct kolo_timeline *timeline,
                             const struct kolo_timeline_record *call)
{
    const size_t behind_mark = offsetof(struct kolo_timeline_record, comm);
    const uint64_t ticket = ++timeline->written;
    struct kolo_timeline_record *record = &timeline->records[(ticket - 1) & timeline->mask];
    atomic_store_explicit(&record->mark, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy((uint8_t *)record + behind_mark, (const uint8_t *)call + behind_mark,
           sizeof *record - behind_mark);
    atomic_store_explicit(&record->mark, (uint32_t)ticket, memory_order_release);
    atomic_store_explicit(&timeline->head->written, ticket, memory_order_release);
    __builtin_prefetch(&timeline->records[ticket & timeline->mask], 1);
    return ticket;
}

/** The record of @p ticket; NULL: a later one has replaced it. */
static struct kolo_timeline_record *find(const struct kolo_timeline *timeline, uint64_t ticket)
{
    struct kolo_timeline_record *record = &timeline->records[(ticket - 1) & timeline->mask];
    return timeline->written - ticket <= timeline->mask ? record : NULL;
}

void kolo_timeline_enter(struct kolo_timeline *timeline, uint64_t ticket)
{
    struct kolo_timeline_record *record = find(timeline, ticket);
    if (record)
        record->enter_ns = kolo_now_ns();
}

void kolo_timeline_end(struct kolo_timeline *timeline, uint64_t ticket, kolo_status status)
{
    struct kolo_timeline_record *record = find(timeline, ticket);
    if (!record)
        return;
    record->status = (int8_t)status;
    atomic_store_explicit(&record->end_ns, kolo_now_ns(), memory_order_release);
}
