// SPDX-License-Identifier: Apache-2.0
// What `kolorun doctor` knows about a host: facts that the examiner there (examine.h) prints, one
// per line, in fields separated by tabs; and the paths from host to host that were tried. Pure:
// converts text to structures and back.
//
//   number <name> <integer>          text <name> <words>
//   backend <kind> <name> <works> <why>
//   place <address:port> <interface> <hardware> <Mbit/s> <MTU>
//   other <pid> <has launcher> <age in s> <program>
//   path <to host> <its place> <end> <round trip in us> <words>
//   clock <ns since 1970>            begin <step>            end <step>
#ifndef KOLO_LAUNCHER_DOCTOR_FACTS_H
#define KOLO_LAUNCHER_DOCTOR_FACTS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Numbers; -1: not known, or no limit. */
#define KOLO_FACT_NUMBERS(X)                                                                       \
    X(cpus)               /* hardware threads that a process there may use */                      \
    X(cores)              /* cores among these */                                                  \
    X(numa_nodes)         /* NUMA nodes of the machine */                                          \
    X(quota_milli)        /* processor limit of its cgroup, in thousandths of a processor */       \
    X(load_milli)         /* load average of the last minute, in thousandths */                    \
    X(memory_bytes)       /* memory of the machine */                                              \
    X(available_bytes)    /* available memory of the machine */                                    \
    X(memory_limit_bytes) /* memory limit of its cgroup */                                         \
    X(memory_room_bytes)  /* what is left below that limit */                                      \
    X(open_files)         /* ulimit -n, soft */                                                    \
    X(open_files_most)    /* ulimit -n, hard */                                                    \
    X(file_bytes)         /* ulimit -f */                                                          \
    X(locked_bytes)       /* ulimit -l */                                                          \
    X(may_lock)           /* has CAP_IPC_LOCK: ulimit -l does not apply */                         \
    X(memfd_works)        /* memory can be shared between processes */                             \
    X(loopback_works)     /* ranks there can reach each other by TCP */                            \
    X(gpus)               /* devices that NVIDIA's driver lists */                                 \
    X(ports_free)         /* free ports among KOLO_PORTS */                                        \
    X(ports_denied)       /* those at which this user may not listen */

#define KOLO_FACT_TEXTS(X)                                                                         \
    X(host)         /* its own host name */                                                        \
    X(kernel)       /* "Linux 6.1.0-18-amd64" */                                                   \
    X(machine)      /* "x86_64" */                                                                 \
    X(build)        /* a hash of its kolorun executable */                                         \
    X(identity)     /* hosts with the same identity are one host */                                \
    X(net_error)    /* why there are no places */                                                  \
    X(net_unnamed)  /* entries of KOLO_NET that match nothing there */                             \
    X(net_unusable) /* addresses there at which nobody can listen, and why */                      \
    X(listen_error) /* why it does not listen */                                                   \
    X(survey_error) /* how the survey of devices ended, if it failed */

enum kolo_fact_number {
#define KOLO_FACT_ENUM(name) KOLO_FACT_##name,
    KOLO_FACT_NUMBERS(KOLO_FACT_ENUM) KOLO_FACT_NUMBERS_COUNT
};
enum kolo_fact_text { KOLO_FACT_TEXTS(KOLO_FACT_ENUM) KOLO_FACT_TEXTS_COUNT };
#undef KOLO_FACT_ENUM

enum {
    KOLO_FACT_TEXT_MAX = 320,
    KOLO_FACT_NAME_MAX = 48,
    KOLO_FACT_LINE_MAX = 1024, /* less than PIPE_BUF, so that lines of two writers do not mix */
    KOLO_FACT_BACKENDS_MAX = 64,
    KOLO_FACT_PLACES_MAX = 16, /* as many as a rank offers to others */
    KOLO_FACT_OTHERS_MAX = 64
};

/** A transport, a kind of memory, a device, or something that the build left out. */
struct kolo_fact_backend {
    char kind[16], name[KOLO_FACT_NAME_MAX];
    bool works;
    char why[KOLO_FACT_TEXT_MAX];
};
/** An address at which ranks there would listen. */
struct kolo_fact_place {
    char address[KOLO_FACT_NAME_MAX + 16]; /* with the port at which the examiner listens */
    char interface[16];
    bool is_hardware;
    int64_t speed_mbit, mtu; /* 0: not known */
};
/** A process of another job. */
struct kolo_fact_other {
    int64_t pid, age_s;
    bool has_launcher; /* an agent of kolorun watches it */
    char program[KOLO_FACT_NAME_MAX];
};
enum kolo_fact_path_end {
    KOLO_FACT_PATH_FINE,
    KOLO_FACT_PATH_LONG_LOST, /* short messages arrive, a long one does not */
    KOLO_FACT_PATH_REFUSED,
    KOLO_FACT_PATH_SILENT,
    KOLO_FACT_PATH_NO_ROUTE,
    KOLO_FACT_PATH_OTHER_HOST, /* an examiner of this job, but of another host: see `words` */
    KOLO_FACT_PATH_STRANGER,   /* a process that does not know the secret */
    KOLO_FACT_PATH_FAILED,     /* any other failure */
    KOLO_FACT_PATH_ENDS
};
/** A path from one host to one place of another. */
struct kolo_fact_path {
    int from, to, place;
    enum kolo_fact_path_end end;
    int64_t rtt_us;
    char words[KOLO_FACT_TEXT_MAX];
};
struct kolo_fact_paths {
    struct kolo_fact_path *at;
    size_t count, capacity;
};

struct kolo_facts {
    int64_t number[KOLO_FACT_NUMBERS_COUNT];
    char text[KOLO_FACT_TEXTS_COUNT][KOLO_FACT_TEXT_MAX];
    struct kolo_fact_backend backends[KOLO_FACT_BACKENDS_MAX];
    struct kolo_fact_place places[KOLO_FACT_PLACES_MAX];
    struct kolo_fact_other others[KOLO_FACT_OTHERS_MAX];
    size_t backend_count, place_count, other_count;
    char step[KOLO_FACT_NAME_MAX]; /* the last step that was begun */
};

/** A host of the job, and the results of examining it. */
struct kolo_checkup {
    const char *name;
    int ranks;
    bool is_here;     /* this machine, no ssh */
    bool is_launcher; /* the machine of kolorun, with which all ranks connect; it has no ranks */
    char unreached[1024]; /* why nothing is known about it; "": it was reached */
    char refused[1024];   /* why its agent would not start the job; "": it would */
    char unfinished[256]; /* what took too long on it; "": nothing */
    char gone[1024];      /* why it was lost during the examination; "": it was not */
    double reach_ms;
    size_t noise_bytes; /* what was on standard output before the agent's preamble */
    char noise[256];    /* the beginning of what was on standard error */
    bool has_clock, has_facts, has_survey, has_paths;
    int64_t clock_offset_ns, clock_doubt_ns; /* its clock minus this one's; the error's bound */
    struct kolo_facts facts;
};

void kolo_facts_init(struct kolo_facts *facts);
/** Whether the address means another machine on each machine. */
bool kolo_fact_place_is_loopback(const struct kolo_fact_place *place);
/** Whether both are the same machine, by another name. */
bool kolo_facts_are_twins(const struct kolo_facts *one, const struct kolo_facts *other);

enum kolo_fact_line { KOLO_LINE_FACT, KOLO_LINE_PATH, KOLO_LINE_CLOCK, KOLO_LINE_END };
/** What a line contained, besides the facts that it changed. */
struct kolo_fact_news {
    enum kolo_fact_line kind;
    struct kolo_fact_path path; /* its `from` is 0 */
    int64_t clock_ns;
    char step[KOLO_FACT_NAME_MAX]; /* the step that ended */
};
/** Parses the NUL-terminated @p line, which comes from another host and is not trusted. Entries for
 * which a list has no room are dropped.
 *  @return ERR_PROTOCOL names what is malformed. */
kolo_status kolo_facts_take(struct kolo_facts *facts, char *line,
                            struct kolo_fact_news *news_out) KOLO_NODISCARD;

/** Writes "word field field...\n" for the NULL-terminated list of fields. Control characters become
 * '?', and fields are cut if the line would be too long. @return the line's length. */
size_t kolo_fact_line(char line[KOLO_FACT_LINE_MAX], const char *const *fields);
/** The same for @p word and the arguments in @p fields, which end with NULL. At most 24 fields are
 * written. */
size_t kolo_fact_line_v(char line[KOLO_FACT_LINE_MAX], const char *word, va_list fields);
/** Takes the complete lines, NUL-terminated, from the beginning of @p text, of which there are
 * @p *bytes_io bytes, until @p take fails; the rest moves to the beginning. @return what @p take
 * returned last. */
kolo_status kolo_fact_lines_take(char *text, size_t *bytes_io,
                                 kolo_status (*take)(void *context, char *line),
                                 void *context) KOLO_NODISCARD;

const char *kolo_fact_number_name(enum kolo_fact_number number);
const char *kolo_fact_text_name(enum kolo_fact_text text);
const char *kolo_fact_path_end_name(enum kolo_fact_path_end end); /* "silent" */
kolo_status kolo_fact_paths_add(struct kolo_fact_paths *paths,
                                const struct kolo_fact_path *path) KOLO_NODISCARD;

#endif
