// SPDX-License-Identifier: Apache-2.0
// The messages between kolorun and its agents, over the agent's standard input and output.
//
//   agent                                    kolorun
//   preamble (16 bytes) READY -------------->            within the start timeout
//             <------------------------------ JOB        secret, command, ranks, environment
//   PREPARED | REFUSED --------------------->            directory and program were checked
//             <------------------------------ START      once every host is prepared
//   STARTED per rank, OUTPUT, EXITED ------->
//   SIGNAL -------------------------------->            it got a signal, as its ranks have now
//   STRAY per rank ------------------------->            what outlived it, and will be ended
//             <------------------------------ INPUT, CREDIT, SIGNAL, END
//             <------------------------------ PAUSE      stop the ranks; no heartbeat from here on
//   PAUSED --------------------------------->            kolorun may stop itself
//             <------------------------------ RESUME
//             <------------------------------ LOOK       what do the ranks do?
//   SEEN per rank, LOOKED ---------------->
//             <------------------------------ EXAMINE    instead of START, by `kolorun doctor`
//   FACTS ---------------------------------->
//   DONE ----------------------------------->            no process of the job is left
//   TIMELINE ------------------------------->            then the ranks' timelines, if asked for
//   BEAT <---------------------------------> BEAT        silence means that the host is lost
//
// A frame is [u32 bytes of the body][u8 type][body]. What comes before the preamble (output of a
// login shell) is skipped, up to a bound; the secret is sent only to a process that has sent the
// preamble. Output flows under credit, so that control frames never wait behind a slow reader.
#ifndef KOLO_LAUNCHER_FRAMES_H
#define KOLO_LAUNCHER_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/wire.h"
#include "launcher/ranks.h"

enum {
    KOLO_FRAME_HEAD_BYTES = 5,
    KOLO_FRAME_BODY_MAX = 16 << 20,
    KOLO_PREAMBLE_BYTES = 16,
    KOLO_PREAMBLE_NOISE_MAX = 64 << 10,
    KOLO_NOISE_KEPT = 256,
    KOLO_AGENT_PROTOCOL = 8
};

#define KOLO_FRAME_MAP(X)                                                                          \
    X(READY)    /* u32 protocol, text version, text host, u32 pid */                               \
    X(PREPARED) /* nothing */                                                                      \
    X(REFUSED)  /* u32 exit status, text why */                                                    \
    X(STARTED)  /* u32 rank, u32 pid */                                                            \
    X(OUTPUT)   /* u32 rank, u8 stream (1 or 2), bytes: whole lines, or a last or overlong one */  \
    X(EXITED)   /* struct kolo_outcome */                                                          \
    X(WANTED)   /* u32 bytes of standard input that were taken */                                  \
    X(NOTE)     /* text for the user */                                                            \
    X(STRAY)    /* struct kolo_stray */                                                            \
    X(DONE)     /* nothing */                                                                      \
    X(TIMELINE) /* u32 rank, bytes: next piece of its timeline (runtime/timeline.h) */             \
    X(JOB)      /* struct kolo_spec */                                                             \
    X(START)    /* nothing */                                                                      \
    X(INPUT)    /* bytes of standard input for rank 0; none: its end */                            \
    X(CREDIT)   /* u32 more bytes of output that may be sent */                                    \
    X(SIGNAL)   /* u32 signal for the ranks' process groups; from an agent: they have it */        \
    X(END)      /* kill everything at once */                                                      \
    X(PAUSE)    /* u32 round: stop the ranks, expect no heartbeat until RESUME */                  \
    X(PAUSED)   /* u32 round */                                                                    \
    X(RESUME)   /* u32 round */                                                                    \
    X(EXAMINE)  /* lines for the examiner (examine.h); the first starts it */                      \
    X(FACTS)    /* a piece of the examiner's output; nothing: its end */                           \
    X(LOOK)     /* u32 round, then for each rank of the host u32 process (0: not known) */         \
    X(SEEN)     /* u32 round, struct kolo_sight */                                                 \
    X(LOOKED)   /* u32 round */                                                                    \
    X(BEAT)     /* nothing */

enum kolo_frame_type {
    KOLO_FRAME_NONE,
#define KOLO_FRAME_ENUM(name) KOLO_FRAME_##name,
    KOLO_FRAME_MAP(KOLO_FRAME_ENUM)
#undef KOLO_FRAME_ENUM
        KOLO_FRAME_TYPES
};
const char *kolo_frame_text(enum kolo_frame_type type);

extern const uint8_t kolo_preamble[KOLO_PREAMBLE_BYTES];

/** Assembles arriving bytes into frames. */
struct kolo_frames {
    uint8_t *data;
    size_t capacity, used;
    size_t noise_bytes;          /* skipped before the preamble */
    char noise[KOLO_NOISE_KEPT]; /* the last of these bytes */
    bool wants_preamble;
};
/** @p body may be read only during the call. A failure ends the decoding and is passed on. */
typedef kolo_status kolo_frame_fn(void *context, enum kolo_frame_type type,
                                  struct kolo_reader *body);

void kolo_frames_init(struct kolo_frames *frames, bool wants_preamble);
/** Wipes what was received: a JOB frame has the job's secret. */
void kolo_frames_fini(struct kolo_frames *frames);
/** If no preamble has come: the last bytes received, not terminated. Returns their length. */
size_t kolo_frames_noise(const struct kolo_frames *frames, char text_out[KOLO_NOISE_KEPT]);
/** Where the next bytes may be read to; room for at least @p need. */
kolo_status kolo_frames_room(struct kolo_frames *frames, size_t need, uint8_t **room_out,
                             size_t *bytes_out) KOLO_NODISCARD;
/** @p bytes bytes were put there: passes every complete frame to @p fn.
 *  @return ERR_PROTOCOL for a frame of unknown type or above the bound, or too much noise. */
kolo_status kolo_frames_took(struct kolo_frames *frames, size_t bytes, kolo_frame_fn *fn,
                             void *context) KOLO_NODISCARD;

/** Writes the head of a frame whose body has @p bytes bytes. */
void kolo_frame_head(uint8_t head[KOLO_FRAME_HEAD_BYTES], enum kolo_frame_type type, size_t bytes);

/** How a rank ended. */
struct kolo_outcome {
    uint32_t rank, pid;
    uint32_t signal; /* 0: it exited */
    uint32_t status; /* exit status */
    bool core_dumped, memory_ran_out, time_ran_out;
    uint64_t age_ms; /* since its start */
};
enum { KOLO_OUTCOME_BYTES = 27 };
void kolo_outcome_write(struct kolo_writer *writer, const struct kolo_outcome *outcome);
void kolo_outcome_read(struct kolo_reader *reader, struct kolo_outcome *outcome_out);

/** A list of texts, such as argv: NULL-terminated; owns its texts. Each text is wiped when it is
 * freed, because one of an environment may be the secret. */
struct kolo_texts {
    char **at;
    size_t count, capacity;
};
kolo_status kolo_texts_add(struct kolo_texts *texts, const char *text) KOLO_NODISCARD;
/** Adds "NAME=VALUE", or replaces an entry of the same name. */
kolo_status kolo_texts_define(struct kolo_texts *texts, const char *name,
                              const char *value) KOLO_NODISCARD;
void kolo_texts_fini(struct kolo_texts *texts);

enum kolo_bind { KOLO_BIND_AUTO, KOLO_BIND_NONE, KOLO_BIND_CORE, KOLO_BIND_NUMA, KOLO_BINDS };

enum { KOLO_GPUS_MAX = 1024 /* of a host */ };

/** What an agent needs to know. */
struct kolo_spec {
    char *cwd;
    struct kolo_texts argv, env; /* env: in addition to the agent's own */
    uint32_t size;               /* ranks of the job */
    struct kolo_ranks ranks;     /* of this host */
    bool has_input;              /* rank 0 gets kolorun's standard input */
    bool is_dialogue;            /* which is typed by a person, who reads the output too */
    enum kolo_bind bind;
    uint32_t gpus; /* devices that each rank sees; 0: not restricted */
    uint32_t peer_timeout_ms;
    uint32_t exit_timeout_ms; /* for ranks that a signal to the agent is to end */
    uint32_t credit_bytes;    /* initial credit for output */
    uint32_t timeline_calls;  /* calls kept per rank; 0: no timeline */
};
kolo_status kolo_spec_pack(const struct kolo_spec *spec, uint8_t **data_out,
                           size_t *bytes_out) KOLO_NODISCARD;
/** *spec_out must be finished also after a failure. */
kolo_status kolo_spec_unpack(struct kolo_reader *reader, struct kolo_spec *spec_out) KOLO_NODISCARD;
/** The environment of what an agent starts: this process's own, with that of @p spec added. */
kolo_status kolo_spec_environment(const struct kolo_spec *spec,
                                  struct kolo_texts *env) KOLO_NODISCARD;
void kolo_spec_fini(struct kolo_spec *spec);

#endif
