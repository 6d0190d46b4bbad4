// SPDX-License-Identifier: Apache-2.0
/** kolo: collectives between ranks, in C.
 *
 *  A program calls kolo_init(), then collectives on the communicator it got, then kolo_finalize().
 *  All ranks call the same collectives in the same order; ranks that differ all get
 *  KOLO_ERR_MISMATCH with both sides named. Every call has a deadline (KOLO_TIMEOUT, or
 *  kolo_opts.timeout_ms). When a rank dies, every other rank's call returns KOLO_ERR_PEER and
 *  kolo_error_detail() says who, where, how, and during what. Once a call failed with a status that
 *  loses the communicator, all later calls on it return that status at once; finalize it.
 *
 *  The simplest use:
 *
 *      struct kolo_comm *comm;
 *      kolo_status status = kolo_init(NULL, &comm);
 *      if (status == KOLO_OK)
 *          status = kolo_allreduce(comm, gradient, gradient, n, KOLO_FLOAT32, KOLO_AVERAGE,
 *                                  NULL, NULL);
 *      if (status != KOLO_OK)
 *          fprintf(stderr, "%s\n", kolo_error_detail());
 *      kolo_finalize(comm);
 *
 *  started as `kolorun -np 4 -H host1:2,host2:2 program`. Ranks that srun, mpirun (Open MPI),
 *  mpiexec (MPICH) or torchrun started are one world too; they need KOLO_SECRET (man 7 kolo).
 *  Started by itself, the program is a world of one rank.
 *
 *  Fork: a communicator and its requests belong to the process that made them. In a child made by
 *  fork() every function that takes one returns KOLO_ERR_INVALID (kolo_abort() warns and does
 *  nothing), kolo_finalize() in an exit() handler too; the parent is not disturbed.
 *
 *  Common to all collectives below:
 *
 *    - In place: allreduce and reduce are in place if @p send == @p recv. Where one of the two
 *      buffers has a block for each rank, the call is in place if the other one is this rank's
 *      block of it (kolo_alltoall and kolo_alltoallv: never). Any other overlap of the two is
 *      KOLO_ERR_INVALID.
 *    - Alignment: none is needed.
 *    - @p opts may be NULL.
 *    - @p request_out NULL: the call returns when the result is there. Not NULL: it returns at
 *      once, and *request_out is for kolo_wait() or kolo_test(); until that says that the call is
 *      over, both buffers are lent to the library.
 *    - Failure: the contents of the receive buffer are unspecified, and the library touches neither
 *      buffer any more.
 *    - Threads: the collectives of one communicator run one after the other, in the order in which
 *      this rank calls them. Several threads of a rank may call; the program must see to it that
 *      the order is the same on all ranks.
 *    - Statuses that leave the communicator as it was (nothing was sent): KOLO_ERR_INVALID;
 *      _NO_MEMORY; _UNSUPPORTED (KOLO_PLAN forces a plan that cannot carry out the call); _SYSTEM
 *      (the progress thread cannot start).
 *    - Statuses that lose the communicator: KOLO_ERR_MISMATCH, _PEER, _TIMEOUT, _ABORTED; and of a
 *      link that could not be made or broke its protocol, such as KOLO_ERR_CONNECT, _AUTH or
 *      _PROTOCOL.
 *
 *  Memory of CUDA devices:
 *
 *    - Each buffer may be in host memory or on a device (managed memory too), whichever the other
 *      buffers of this rank and of other ranks are.
 *    - Order: before the call reads or writes device memory it waits for all work that the program
 *      has given to the memory's context, on any stream; with kolo_opts.stream, for that stream's
 *      alone. When the call is over, its result is there for every stream.
 *    - Deadline: that wait takes the call's deadline at most; for what follows the deadline begins
 *      anew. If the work itself waits for another rank that needs this call, neither can go on, and
 *      the wait ends with KOLO_ERR_TIMEOUT.
 *    - Statuses: a CUDA error is KOLO_ERR_SYSTEM or _NO_MEMORY, a driver that lacks a function
 *      KOLO_ERR_UNSUPPORTED. Each loses the communicator.
 *    - Graphs: while a stream of the context is captured into a graph, the call is refused with
 *      KOLO_ERR_UNSUPPORTED ("captured" is in the detail), and the communicator goes on; but CUDA
 *      ends the capture. Call before or after it, or give kolo_opts.stream another stream.
 */
#ifndef KOLO_H
#define KOLO_H

#include <stddef.h>
#include <stdint.h>

#include <kolo/status.h>
#include <kolo/types.h>
#include <kolo/version.h>

KOLO_BEGIN_DECLS

struct kolo_comm;
struct kolo_request;

/** How to start, for kolo_init(). Zero it, set `size`, then what you need; settings left out come
 *  from KOLO_*. */
struct kolo_config {
    size_t size; /**< sizeof(struct kolo_config) */
    int nranks;  /**< 0: from KOLO_SIZE, else 1 */
    int rank;    /**< used when nranks > 0 */
    /** tcp://HOST:PORT or file:///SHARED/PATH; NULL: from KOLO_RENDEZVOUS */
    const char *rendezvous;
    /** 64 hexadecimal digits that all ranks share; NULL: from KOLO_SECRET */
    const char *secret;
    /** More settings as "NAME=value" ("KOLO_TRANSPORT=tcp"), NULL-terminated; NULL: none. They win
     *  over KOLO_*. */
    const char *const *settings;
};

/** Flags of struct kolo_opts. */
enum {
    /** The result depends on nothing but the operands: each element is folded in the order of
     *  ranks, at every size, by every plan, over every transport. Set it on all ranks: where some
     *  leave it out, the result has that order, or all get KOLO_ERR_MISMATCH. As
     *  KOLO_DETERMINISTIC=1 does for all calls. It matters for sums, products and averages of
     *  floats; all other results have this property anyway. */
    KOLO_DETERMINISTIC = 1,
    /** The call does not start: *request_out (needed) is started by kolo_start() or kolo_run(), as
     *  often as the program likes, and freed by kolo_request_free(). */
    KOLO_PERSISTENT = 2
};

/** What a call may be told beyond its data. Zero it, then set `size`; a program that was compiled
 *  against an earlier version has a smaller one, and is served as it was then. */
struct kolo_opts {
    size_t size;      /**< sizeof(struct kolo_opts) */
    const char *name; /**< of the tensor, for error messages and the mismatch check; NULL: none */
    int timeout_ms;   /**< deadline of this call; 0: the communicator's */
    /** A CUDA stream (CUstream, cudaStream_t) that the collective takes its place in; NULL: none,
     *  the default stream is CU_STREAM_LEGACY.
     *    - It begins when the work that the stream was given before the call is done, and waits for
     *      nothing else of the device; its deadline counts from there.
     *    - With a request_out the call returns at once, unless the stream's queue is full and the
     *      driver holds the thread. Work that the stream is given afterwards waits until the
     *      collective is over, well or not: kolo_wait() says whether its result may be used.
     *    - Buffers may be of a device, or of the host (a stream reaches page-locked ones). Other
     *      ranks need not give a stream.
     *    - Refused with KOLO_ERR_UNSUPPORTED: in calls that are no collectives, in groups, while
     *      the stream is captured into a graph, and, with a request_out, on a device whose streams
     *      cannot wait for the host. What is no stream is KOLO_ERR_INVALID. None of these loses
     *      the communicator. */
    void *stream;
    /** Reductions of floats: every element of this rank's input is multiplied by @p prescale
     *  before, every element of the result by @p postscale afterwards (after an average's division
     *  too); 0: none. Each product is made in float64 for float64, in float32 for all others (of
     *  the factor as a float32, ERR_INVALID where that is 0 or infinite), and rounded to nearest
     *  even to the type. prescale may differ from rank to rank (weights), postscale must be equal.
     *  In place the input is overwritten. A program compiled before these two were added, and one
     *  whose `size` leaves them out, has none. */
    double prescale, postscale;
    unsigned flags; /**< KOLO_DETERMINISTIC, KOLO_PERSISTENT, or 0 */
};

/* ---- life ------------------------------------------------------------------------------------ */

/** Joins the world: meets the other ranks at the rendezvous, within KOLO_START_TIMEOUT. Rank and
 *  size come from @p config, else from KOLO_RANK and KOLO_SIZE (set by kolorun), else this is a
 *  world of one. With rank and size but no launcher, rank 0 listens at the rendezvous (tcp://, or
 *  an address it writes to the file). Under kolorun each rank joins once: not again after
 *  kolo_finalize(), nor in a second program that its command runs.
 *  @return KOLO_OK; ERR_INVALID (comm_out, config->size, a rank that has joined before); ERR_CONFIG
 *  (a setting, named); ERR_UNSUPPORTED (KOLO_TRANSPORT names one that cannot join these ranks);
 *  ERR_CONNECT, ERR_AUTH, ERR_PROTOCOL (a rank of another version), ERR_TIMEOUT (naming the ranks
 *  that are missing); ERR_PEER (a rank died, or gave up, before all were there); ERR_NO_MEMORY;
 *  ERR_SYSTEM.
 *  Ownership: *comm_out is the caller's until kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_init(const struct kolo_config *config,
                                              struct kolo_comm **comm_out);

/** Runs @p rank_main(comm, arg) in @p nranks threads of this process, each a rank of one world, and
 *  waits for all. Each thread's communicator is finalized when its function returns, unless that
 *  has done so.
 *  @param config may be NULL; its nranks and rank must be valid, its rendezvous and secret may be
 *  anything, and none of the four is used
 *  @return KOLO_OK when all functions returned KOLO_OK; else the failure of the first rank that
 *  could not come up, else of the lowest rank that failed, with its detail (ERR_PEER and
 *  ERR_ABORTED, which tell of another's failure, only if there is no other); before any rank:
 *  ERR_INVALID (nranks, rank_main, config->size), ERR_CONFIG, ERR_NO_MEMORY, ERR_SYSTEM. */
KOLO_API KOLO_NODISCARD kolo_status
kolo_run_threads(int nranks, const struct kolo_config *config,
                 kolo_status (*rank_main)(struct kolo_comm *comm, void *arg), void *arg);

/** The colour of a rank that takes part in a kolo_split() and wants no communicator from it. */
#define KOLO_NO_COLOUR (-1)

/** Makes communicators out of @p comm: ranks that give the same @p colour (0 or more) are together
 *  in one, numbered by @p key, and by their rank in @p comm where keys are equal. Collective: every
 *  rank of @p comm calls it, also one that gives KOLO_NO_COLOUR, which gets NULL. Works at any
 *  depth. The new communicator has calls and failures of its own: its collectives run beside those
 *  of any other, from any thread, and what fails it leaves others alone. No rank gets it before all
 *  of its ranks have it.
 *  @return KOLO_OK; ERR_INVALID on every rank, naming the rank, if one gave another negative colour
 *  or @p new_out NULL, and ERR_NO_MEMORY or ERR_SYSTEM likewise if one could not make it: then none
 *  was made and @p comm goes on. Others as of a collective.
 *  Ownership: *new_out is the caller's until kolo_finalize(); the one of the world ends all. Memory
 *  of kolo_alloc() is the rank's: it serves all communicators, whichever it was asked from. */
KOLO_API KOLO_NODISCARD kolo_status kolo_split(struct kolo_comm *comm, int colour, int key,
                                               const struct kolo_opts *opts,
                                               struct kolo_comm **new_out);
/** The same ranks in the same order once more, as kolo_split() with colour 0 and key 0 on all:
 *  also its statuses, and who owns *new_out. */
KOLO_API KOLO_NODISCARD kolo_status kolo_dup(struct kolo_comm *comm, const struct kolo_opts *opts,
                                             struct kolo_comm **new_out);

/** After @p comm failed because a rank was lost: a new communicator of the ranks that are left, in
 *  their old order. Every rank that is left calls it; where @p comm has not failed yet, the call of
 *  another rank makes it fail, so nobody waits there for a rank that is here.
 *
 *  The job's store decides who is left: it knows who died and who finalized. A rank that dies
 *  meanwhile is left out. Of two ranks that live and cannot reach each other one is left out, and
 *  gets ERR_PEER here.
 *
 *  @p comm stays failed and must still be finalized, the world's after the new one, which ends with
 *  it (kolo_finalize()); links between the ranks that are left are used again. Under kolorun give
 *  --keep-going, or the first death ends the job.
 *  @return KOLO_OK; ERR_INVALID; ERR_TIMEOUT naming a rank that has not come (opts->timeout_ms, or
 *  KOLO_TIMEOUT); ERR_PEER when the store is gone (without a launcher rank 0 serves it);
 *  ERR_NO_MEMORY.
 *  Ownership: *new_out is the caller's until kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_shrink(struct kolo_comm *comm,
                                                const struct kolo_opts *opts,
                                                struct kolo_comm **new_out);

/** Leaves, and frees @p comm in every case; NULL is fine. Outstanding requests are cancelled and
 *  gone: they must not be waited for afterwards.
 *    - The world's: waits until what was sent has been taken over (KOLO_EXIT_TIMEOUT at most),
 *      tells the peers, and ends all communicators that were made of it. If the last collective was
 *      a kolo_broadcast(), it first waits until all ranks have come to that (half of
 *      KOLO_EXIT_TIMEOUT; nobody fails if one does not), and keeps what it sent to one that is late
 *      as long as the broadcast would have: up to KOLO_TIMEOUT.
 *    - One of kolo_split(), kolo_dup() or kolo_shrink(): frees just that, at once, and no other
 *      rank waits; one that needs this rank in a later call on it gets ERR_PEER with its name.
 *  @return KOLO_OK; ERR_TIMEOUT; ERR_MISMATCH if ranks did not call that broadcast alike, if one
 *  went on to another collective, or leaves without it though its message is there; ERR_INVALID in
 *  a child made by fork(); on a communicator that had failed: KOLO_OK. */
KOLO_API kolo_status kolo_finalize(struct kolo_comm *comm);

/** Makes every rank's present and later calls on the communicator return KOLO_ERR_ABORTED with
 *  @p reason and this rank's name in the detail. Any thread, any number of times (the first reason
 *  stays); waits for no peer, only for the look at the links that another thread is in. */
KOLO_API void kolo_abort(struct kolo_comm *comm, const char *reason);

/* ---- who and where --------------------------------------------------------------------------- */

/** This rank's number in @p comm: 0 to kolo_size() - 1; -1 where @p comm is NULL. Threads: any. */
KOLO_API int kolo_rank(const struct kolo_comm *comm);
/** How many ranks @p comm has; -1 where it is NULL. Threads: any. */
KOLO_API int kolo_size(const struct kolo_comm *comm);

/** What this rank knows of itself. Strings live as long as the communicator. */
struct kolo_info {
    size_t size; /**< set to sizeof(struct kolo_info) by the caller */
    int rank, nranks, local_rank, local_nranks;
    const char *host; /**< this rank's host name */
    /** Comma-separated kinds that work here: "host"; "cuda" where this process had begun to use
     *  CUDA when it was first asked. */
    const char *memory_kinds;
    const char *transports; /**< comma-separated, that work here, such as "inproc,shm,tcp" */
    /** One line per backend that is not in this build or cannot be used here, with why. */
    const char *left_out;
};
/** Says what this rank knows of itself, without communication.
 *  @return KOLO_OK; ERR_INVALID (an argument is NULL, info_out->size is wrong); ERR_NO_MEMORY.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_get_info(struct kolo_comm *comm,
                                                  struct kolo_info *info_out);

/** What this rank knows of another. */
struct kolo_peer_info {
    size_t size; /**< set to sizeof(struct kolo_peer_info) by the caller */
    int rank, pid, local_rank;
    const char *host;
    const char *transport; /**< that joins us and it: "inproc", "shm", "rdma", "tcp", "self" */
    const char *why;       /**< why this transport */
};
/** Says what this rank knows of @p rank of @p comm (which may be itself), without communication.
 *  @return KOLO_OK; ERR_INVALID (an argument is NULL, no such rank, info_out->size is wrong);
 *  ERR_NO_MEMORY.
 *  Threads: any. Ownership: the strings are the library's, and live as long as @p comm; `why` only
 *  until this rank is asked for again. */
KOLO_API KOLO_NODISCARD kolo_status kolo_get_peer_info(struct kolo_comm *comm, int rank,
                                                       struct kolo_peer_info *info_out);

/* ---- memory ---------------------------------------------------------------------------------- */

/** Memory that the neighbours on this host read and reduce in place (memfd), page-aligned and
 *  zeroed. Any memory can be passed to the collectives; this kind is the fastest. In a process that
 *  uses CUDA it is page-locked too.
 *  @return KOLO_OK; ERR_NO_MEMORY; ERR_INVALID; ERR_SYSTEM.
 *  Ownership: the caller's until kolo_free(), before kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_alloc(struct kolo_comm *comm, size_t bytes,
                                               void **memory_out);
/** Memory of a CUDA device, as cudaMalloc() gives it, in the context that the CUDA runtime works
 *  in. @p device is its number in this process; -1: the calling thread's current one, or, if it has
 *  used none, the rank's: those of a host take turns, by local rank, at the devices whose PCI slots
 *  are at the NUMA node that they are bound in (KOLO_NUMA_NODE), or at all if none is. Collectives
 *  take any other device memory as well; but where all ranks of a communicator are on one host and
 *  all bring this kind, kernels work on it where it lies, and nothing passes the host
 *  (KOLO_CUDA_IPC). So other processes of the job map it, and it is made of whole blocks of 2 MiB,
 *  in which nothing else is.
 *  @return KOLO_OK; ERR_UNSUPPORTED (no driver, no device, or a build without); ERR_NO_MEMORY
 *  (where others have not let go of what was freed, they are waited for first, up to KOLO_TIMEOUT);
 *  ERR_INVALID; ERR_SYSTEM.
 *  Ownership: the caller's until kolo_free(), before kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_alloc_device(struct kolo_comm *comm, size_t bytes,
                                                      int device, void **memory_out);
/** NULL is fine. No request may be using it. A device's waits for all work that the
 *  device was given before, up to KOLO_TIMEOUT; if other ranks have it mapped, it is the device's
 *  again once all have let go of it: when they next wait in a call, or at the latest at the end.
 *  @return KOLO_OK; ERR_INVALID (@p memory is not from kolo_alloc() or kolo_alloc_device() of @p
 *  comm); ERR_TIMEOUT, ERR_UNSUPPORTED (a device's memory, of whose context a stream is captured
 *  into a graph; it is still there); ERR_SYSTEM (the device failed, and its memory is gone). */
KOLO_API kolo_status kolo_free(struct kolo_comm *comm, void *memory);

/* ---- operators of the program's own ---------------------------------------------------------- */

enum {
    /** a op b = b op a: long vectors over links may then be combined in any order, which is faster
     *  (not where KOLO_DETERMINISTIC asks for one, and not for opaque elements whose size does not
     *  divide 16). */
    KOLO_COMMUTATIVE = 1
};
enum { KOLO_OP_NAME_MAX = 63 };

/** An operator, for kolo_op_create(). Zero it, set `size`, then the others. */
struct kolo_op {
    size_t size; /**< sizeof(struct kolo_op) */
    /** 1 to KOLO_OP_NAME_MAX bytes. Stands for the operator between ranks: those that pass
     *  operators of different names to a call get KOLO_ERR_MISMATCH. */
    const char *name;
    /** into[i] = into[i] op from[i] for i < @p count; must be associative.
     *    - Both are memory of the library's, aligned to the largest power of two that divides the
     *      element's size, 16 at most. They are a piece of the vector, of any length.
     *    - @p dtype is the call's.
     *    - It is called by threads that are in a call of this rank, and by the progress thread; one
     *      at a time, whatever the communicator. It must return soon, call nothing of kolo, and
     *      neither longjmp nor throw.
     *    - It cannot report an error: let the element say so (a flag, a NaN), and look at the
     *      result. */
    void (*fold)(void *into, const void *from, size_t count, kolo_dtype dtype, void *context);
    void *context;  /**< handed to fold */
    unsigned flags; /**< KOLO_COMMUTATIVE, or 0: folded in the order of ranks, by every plan */
};

/** Makes an operator, which every reduction of this rank takes as its op, for every type that its
 *  function knows: on all of its communicators. Ranks may make theirs in any order, each with a
 *  context of its own. No communication.
 *
 *      struct best { double value; int64_t rank; };
 *
 *      static void keep_best(void *into, const void *from, size_t count, kolo_dtype dtype,
 *                            void *context)
 *      {
 *          struct best *mine = into;
 *          const struct best *theirs = from;
 *          for (size_t i = 0; i < count; i++)
 *              if (theirs[i].value > mine[i].value)
 *                  mine[i] = theirs[i];
 *      }
 *
 *      const struct kolo_op best_op = {.size = sizeof best_op, .name = "best", .fold = keep_best};
 *      kolo_redop op;
 *      status = kolo_op_create(comm, &best_op, &op);
 *      if (status == KOLO_OK)
 *          status = kolo_allreduce(comm, &mine, &best, 1, KOLO_OPAQUE(sizeof mine), op, NULL,
 *          NULL);
 *
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY (there may be 1024).
 *  Ownership: @p op is read before it returns. *op_out is the caller's until kolo_op_free(), or
 *  until the world is finalized. Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_op_create(struct kolo_comm *comm, const struct kolo_op *op,
                                                   kolo_redop *op_out);
/** Frees it; the number may be given out again.
 *  @return KOLO_OK; ERR_INVALID (none of kolo_op_create(), or a request that was not waited for
 *  has it). */
KOLO_API kolo_status kolo_op_free(struct kolo_comm *comm, kolo_redop op);

/* ---- collectives ----------------------------------------------------------------------------- */

/** recv[i] on every rank = op over all ranks' send[i], i < @p count. */
KOLO_API KOLO_NODISCARD kolo_status kolo_allreduce(struct kolo_comm *comm, const void *send,
                                                   void *recv, size_t count, kolo_dtype dtype,
                                                   kolo_redop op, const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/** recv[i] on @p root = op over all ranks' send[i]. @p recv is ignored on other ranks and may be
 *  NULL there. */
KOLO_API KOLO_NODISCARD kolo_status kolo_reduce(struct kolo_comm *comm, const void *send,
                                                void *recv, size_t count, kolo_dtype dtype,
                                                kolo_redop op, int root,
                                                const struct kolo_opts *opts,
                                                struct kolo_request **request_out);

/** buffer[i] on every rank = buffer[i] of @p root.
 *
 *  A rank may be through before others have called: @p root as soon as it may write @p buffer
 *  again, the others as soon as the root's data is there. How far ahead:
 *    - up to 64 broadcasts in a row; every 64th is over on its root when all have called it;
 *    - of short ones in memory that ranks have in common (plan oneshot) 7 calls, 2 beyond 4 KiB;
 *    - of long ones there (plan twoshot), and on any communicator but the world, none: they are
 *      over on their root when all have called.
 *  If a rank called something else, or nothing, a rank that was through hears of it from a later
 *  call, at the latest from the next that is no broadcast (KOLO_ERR_MISMATCH, _TIMEOUT, _PEER), or,
 *  of a mismatch, from kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_broadcast(struct kolo_comm *comm, void *buffer,
                                                   size_t count, kolo_dtype dtype, int root,
                                                   const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/** recv[r * count + i] on every rank = send[i] of rank r. In place: send == recv + rank * count
 *  elements. */
KOLO_API KOLO_NODISCARD kolo_status kolo_allgather(struct kolo_comm *comm, const void *send,
                                                   void *recv, size_t count, kolo_dtype dtype,
                                                   const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/** As kolo_allgather with counts[r] elements from rank r placed at displs[r] (elements). Both
 *  arrays hold one entry per rank, equal on all ranks (else ERR_MISMATCH; displs of a count of 0
 *  may differ), and are read before the call returns; displs NULL: packed one after the other. The
 *  slices must not overlap. In place: send == recv + displs[rank]. */
KOLO_API KOLO_NODISCARD kolo_status kolo_allgatherv(struct kolo_comm *comm, const void *send,
                                                    void *recv, const size_t *counts,
                                                    const size_t *displs, kolo_dtype dtype,
                                                    const struct kolo_opts *opts,
                                                    struct kolo_request **request_out);

/** recv[i] on rank r = op over all ranks' send[r * count + i]; @p count elements per rank.
 *  In place: recv == send + rank * count elements; the rest of the buffer is then unspecified. */
KOLO_API KOLO_NODISCARD kolo_status kolo_reduce_scatter(struct kolo_comm *comm, const void *send,
                                                        void *recv, size_t count, kolo_dtype dtype,
                                                        kolo_redop op, const struct kolo_opts *opts,
                                                        struct kolo_request **request_out);

/** recv[r * count + i] on @p root = send[i] of rank r. @p recv is ignored elsewhere. In place on
 *  @p root: send == recv + root * count elements. */
KOLO_API KOLO_NODISCARD kolo_status kolo_gather(struct kolo_comm *comm, const void *send,
                                                void *recv, size_t count, kolo_dtype dtype,
                                                int root, const struct kolo_opts *opts,
                                                struct kolo_request **request_out);

/** As kolo_gather with counts[r] elements from rank r placed at displs[r]; arrays as in
 *  kolo_allgatherv, needed and equal on all ranks. In place on @p root: send == recv +
 *  displs[root]. */
KOLO_API KOLO_NODISCARD kolo_status kolo_gatherv(struct kolo_comm *comm, const void *send,
                                                 void *recv, const size_t *counts,
                                                 const size_t *displs, kolo_dtype dtype, int root,
                                                 const struct kolo_opts *opts,
                                                 struct kolo_request **request_out);

/** recv[i] on rank r = send[r * count + i] of @p root. @p send is ignored elsewhere. In place on
 *  @p root: recv == send + root * count elements. */
KOLO_API KOLO_NODISCARD kolo_status kolo_scatter(struct kolo_comm *comm, const void *send,
                                                 void *recv, size_t count, kolo_dtype dtype,
                                                 int root, const struct kolo_opts *opts,
                                                 struct kolo_request **request_out);

/** As kolo_scatter with counts[r] elements for rank r, which lie at displs[r] in @p send; arrays as
 *  in kolo_allgatherv, needed and equal on all ranks: also displs, which MPI has on @p root alone.
 *  The slices of send may overlap. In place on @p root: recv == send + displs[root]. */
KOLO_API KOLO_NODISCARD kolo_status kolo_scatterv(struct kolo_comm *comm, const void *send,
                                                  const size_t *counts, const size_t *displs,
                                                  void *recv, kolo_dtype dtype, int root,
                                                  const struct kolo_opts *opts,
                                                  struct kolo_request **request_out);

/** As kolo_reduce_scatter with counts[r] elements for rank r, packed one after the other in send;
 *  @p counts holds one entry per rank, equal on all ranks, read before the call returns.
 *  In place: recv == send + the counts of the ranks before this one; the rest of the buffer is then
 *  unspecified. */
KOLO_API KOLO_NODISCARD kolo_status kolo_reduce_scatterv(struct kolo_comm *comm, const void *send,
                                                         void *recv, const size_t *counts,
                                                         kolo_dtype dtype, kolo_redop op,
                                                         const struct kolo_opts *opts,
                                                         struct kolo_request **request_out);

/** recv[r * count + i] on every rank = send[rank * count + i] of rank r. Not in place: @p send and
 *  @p recv must not overlap. */
KOLO_API KOLO_NODISCARD kolo_status kolo_alltoall(struct kolo_comm *comm, const void *send,
                                                  void *recv, size_t count, kolo_dtype dtype,
                                                  const struct kolo_opts *opts,
                                                  struct kolo_request **request_out);

/** As kolo_alltoall with send_counts[r] elements at send_displs[r] for rank r and recv_counts[r] at
 *  recv_displs[r] from it. Each rank has its own arrays, one entry per rank, read before the call
 *  returns; displacements NULL: packed. What a rank sends must be what the other expects: else that
 *  one gets ERR_MISMATCH with both counts, and the others by then or at their next call. What it
 *  sends itself must be what it expects (ERR_INVALID). The slices of @p recv must not overlap, nor
 *  @p send and @p recv. */
KOLO_API KOLO_NODISCARD kolo_status kolo_alltoallv(
    struct kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_displs,
    void *recv, const size_t *recv_counts, const size_t *recv_displs, kolo_dtype dtype,
    const struct kolo_opts *opts, struct kolo_request **request_out);

/** Returns on no rank before every rank has called it. */
KOLO_API KOLO_NODISCARD kolo_status kolo_barrier(struct kolo_comm *comm,
                                                 const struct kolo_opts *opts,
                                                 struct kolo_request **request_out);

/* ---- between two ranks ----------------------------------------------------------------------- */

/** Sends to @p peer, another rank; messages between two ranks arrive in the order sent. Count and
 *  type must equal the receiver's. Sends and receives do not take part in the collectives' order.
 *  Returns when @p send may be reused. Buffers, options, requests and statuses as of a
 *  collective. */
KOLO_API KOLO_NODISCARD kolo_status kolo_send(struct kolo_comm *comm, const void *send,
                                              size_t count, kolo_dtype dtype, int peer,
                                              const struct kolo_opts *opts,
                                              struct kolo_request **request_out);
/** Receives the next message from @p peer, as kolo_send() sends it. Statuses as of a collective. */
KOLO_API KOLO_NODISCARD kolo_status kolo_recv(struct kolo_comm *comm, void *recv, size_t count,
                                              kolo_dtype dtype, int peer,
                                              const struct kolo_opts *opts,
                                              struct kolo_request **request_out);

/* ---- requests -------------------------------------------------------------------------------- */

/** Asks whether a request is over, without waiting.
 *  @return KOLO_AGAIN: not yet. Any other status is the call's result, and frees the request
 *  (*request = NULL) unless it is persistent. *request NULL: KOLO_OK. @p request NULL: ERR_INVALID.
 *  Threads: any; of one request one at a time. */
KOLO_API KOLO_NODISCARD kolo_status kolo_test(struct kolo_request **request);
/** Waits until a request is over, up to @p timeout_ms (negative: the call's own deadline).
 *  @return KOLO_AGAIN: not over by then, it goes on. Others as of kolo_test().
 *  Threads: any; of one request one at a time. */
KOLO_API KOLO_NODISCARD kolo_status kolo_wait(struct kolo_request **request, int timeout_ms);

/* ---- calls that repeat ----------------------------------------------------------------------- */

/** Starts a request that was made with KOLO_PERSISTENT, and returns at once. Arguments, options and
 *  arrays of counts are those of the call that made it (arrays were copied); the buffers are read
 *  and written anew each time, and lent from its start until it is over. It counts as a call at
 *  each start: all ranks start the same ones in the same order, whether by kolo_start(),
 *  kolo_run(), or a call that is not persistent.
 *
 *      const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
 *      struct kolo_request *sum;
 *      status = kolo_allreduce(comm, local, total, n, KOLO_FLOAT32, KOLO_SUM, &again, &sum);
 *      for (int step = 0; step < steps && status == KOLO_OK; step++) {
 *          fill(local);
 *          status = kolo_start(sum);
 *          if (status == KOLO_OK) {
 *              work_meanwhile();
 *              status = kolo_wait(&sum, -1);
 *          }
 *      }
 *      kolo_request_free(&sum);
 *
 *  kolo_wait() and kolo_test() of a persistent request do not free it; of one that is not running
 *  they return what it ended with last (KOLO_OK if it never ran).
 *  @return KOLO_OK: it runs; ERR_INVALID (it is none, or runs already); ERR_NO_MEMORY; ERR_SYSTEM;
 *  on a communicator that failed: why. */
KOLO_API KOLO_NODISCARD kolo_status kolo_start(struct kolo_request *request);
/** Starts it and waits until it is over: faster than kolo_start() and kolo_wait(), because no
 *  other thread has to be ready to move it.
 *  @return as of kolo_start(), then of the call itself. */
KOLO_API KOLO_NODISCARD kolo_status kolo_run(struct kolo_request *request);
/** Frees a persistent request and sets *request = NULL, which is fine before too.
 *  @return KOLO_OK; ERR_INVALID (it is running, or frees itself). */
KOLO_API kolo_status kolo_request_free(struct kolo_request **request);

/* ---- groups ---------------------------------------------------------------------------------- */

/** Opens a group: collectives, sends and receives on @p comm, by whichever thread, are checked and
 *  taken up, and return KOLO_OK or what is wrong with them; nothing is sent or written before
 *  kolo_group_end(). Their request_out must be NULL. Their buffers are lent from the end of the
 *  group until it is over. Its calls go on side by side: none may write what another reads or
 *  writes, and the order in which two ranks name each other in sends and receives does not matter.
 *  Its collectives must come in the same order on all ranks. Short allreduces that follow each
 *  other, of the same type, operator and flags, without a postscale, are carried out as one: so all
 *  ranks must group the same calls.
 *
 *      status = kolo_group_begin(comm);
 *      if (status == KOLO_OK) {
 *          for (int peer = 0; status == KOLO_OK && peer < kolo_size(comm); peer++) {
 *              if (peer == kolo_rank(comm))
 *                  continue;
 *              status = kolo_send(comm, mine, n, KOLO_FLOAT32, peer, NULL, NULL);
 *              if (status == KOLO_OK)
 *                  status = kolo_recv(comm, theirs[peer], n, KOLO_FLOAT32, peer, NULL, NULL);
 *          }
 *          status = kolo_group_end(comm, NULL, NULL); // also says which call was refused, and why
 *      }
 *
 *  kolo_split(), kolo_dup() and kolo_metrics_compute() are refused meanwhile.
 *  @return KOLO_OK; ERR_INVALID (one is open); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_group_begin(struct kolo_comm *comm);
/** Closes the group in every case, and starts all of it or nothing. @p opts: timeout_ms, if set, is
 *  that of each of its calls; flags may be KOLO_PERSISTENT, for a group that repeats; name,
 *  factors and KOLO_DETERMINISTIC are those of the calls. @p request_out as of a collective: one
 *  request for all (NULL if the group is empty).
 *  @return the status of the first call that was refused, and nothing was started; ERR_INVALID (no
 *  group is open, or opts, or a call writes what another reads or writes: the detail names both,
 *  counted from 1, and the bytes; nothing was started); ERR_NO_MEMORY; else as of the call of it
 *  that failed first. */
KOLO_API KOLO_NODISCARD kolo_status kolo_group_end(struct kolo_comm *comm,
                                                   const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/* ---- key-value store of the job -------------------------------------------------------------- */

/** Sets @p key (1 to 255 bytes of text without control characters) to @p bytes bytes (at most 1
 *  MiB) for all ranks; replaces an older value.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY (the store is full, or this rank has no memory);
 *  ERR_TIMEOUT (no answer within KOLO_TIMEOUT; the communicator is not lost); ERR_PEER (the store
 *  is gone); on a communicator that failed: why.
 *  Threads: any. Ownership: @p value is read before it returns. */
KOLO_API KOLO_NODISCARD kolo_status kolo_kv_set(struct kolo_comm *comm, const char *key,
                                                const void *value, size_t bytes);
/** Waits until @p key exists and copies its value. @p bytes: capacity in, length out.
 *  @p timeout_ms 0: does not wait; negative: waits up to KOLO_TIMEOUT.
 *  @return KOLO_OK; ERR_TIMEOUT (@p timeout_ms passed; the communicator is not lost);
 *  ERR_NOT_FOUND (@p timeout_ms is 0, and the key is not there); ERR_INVALID, also if the value
 *  does not fit (*bytes then says how long it is); ERR_NO_MEMORY; ERR_PEER; on a communicator that
 *  failed: why.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_kv_get(struct kolo_comm *comm, const char *key,
                                                void *value, size_t *bytes, int timeout_ms);
/** Adds @p amount to the integer at @p key (0 if new) and gives the sum, atomically among all
 *  ranks. The value is kept as 8 bytes, little-endian. @p sum_out may be NULL.
 *  @return as of kolo_kv_set(); ERR_INVALID also if the key holds a value of another length.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_kv_add(struct kolo_comm *comm, const char *key,
                                                int64_t amount, int64_t *sum_out);

KOLO_END_DECLS
#endif
