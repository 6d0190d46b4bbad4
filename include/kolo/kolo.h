// SPDX-License-Identifier: Apache-2.0
/** kolo: collectives between ranks, in C.
 *
 *  A program calls kolo_init(), then collectives on the communicator that it returns, then
 *  kolo_finalize(). All ranks must call the same collectives in the same order; if they do not, all
 *  of them get KOLO_ERR_MISMATCH, with both sides named. Every call has a deadline (KOLO_TIMEOUT,
 *  or kolo_opts.timeout_ms). When a rank dies, every other rank's call returns KOLO_ERR_PEER, and
 *  kolo_error_detail() says which rank died, where, how, and during which call. After a call that
 *  failed with a status that loses the communicator, all later calls on it return that status at
 *  once: finalize it.
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
 *  started as `kolorun -np 4 -H host1:2,host2:2 program`. Ranks started by srun, mpirun (Open MPI),
 *  mpiexec (MPICH), torchrun, or what else sets RANK, WORLD_SIZE and MASTER_ADDR, form one world
 *  too; they need KOLO_SECRET (man 7 kolo). Without a launcher the program is a world of one rank.
 *
 *  Fork: a communicator and its requests belong to the process that made them. In a child made by
 *  fork() every function that takes one returns KOLO_ERR_INVALID, also kolo_finalize() in an exit()
 *  handler (kolo_abort() warns and does nothing). The parent is not affected.
 *
 *  Threads: any thread may call any function of this header, also while others are in calls on the
 *  same communicator, unless the function's comment says otherwise. What ranks must call in the
 *  same order, they must call in that order whichever threads do it. Only one thread at a time may
 *  pass the same request.
 *
 *  Signals: the library installs no handlers, and its own threads take no signals, so the handlers
 *  of a program run on the program's threads. A handler must not call any function of the library,
 *  kolo_abort() included: the call that it has interrupted may hold what it would wait for. Let it
 *  set a flag, and act on that outside.
 *
 *  Cancellation: a thread must not be cancelled (pthread_cancel()) while it is in a function of the
 *  library; pthread_setcancelstate() around calls prevents it. kolo_abort() ends the calls of a
 *  rank.
 *
 *  Descriptors: the library has descriptors of its own from kolo_init() to kolo_finalize(), none
 *  of which has the number of a standard stream that the program closed (those of libibverbs and
 *  of CUDA's driver may). A program must not close descriptors that it has not opened, as
 *  closefrom() does.
 *
 *  Floating point: reductions on the processor are those of IEEE 754, to nearest and with subnormal
 *  numbers, whatever mode a thread of the program has set, so that all ranks get the same bits.
 *
 *  Common to all collectives below:
 *
 *    - Shapes: @p count is in elements of @p dtype, for one rank where a buffer has a block for
 *      each rank.
 *    - In place: allreduce and reduce are in place if @p send == @p recv. If one of the two buffers
 *      has a block for each rank, the call is in place if the other buffer is this rank's own block
 *      of it (never for kolo_alltoall and kolo_alltoallv). Any other overlap of the two buffers is
 *      KOLO_ERR_INVALID.
 *    - Alignment: none is needed.
 *    - @p opts may be NULL.
 *    - @p request_out: if it is NULL, the call returns when the result is there. Otherwise it
 *      returns at once; pass *request_out to kolo_wait() or kolo_test(). Until one of them says
 *      that the call is over, both buffers are lent to the library: the program must not use them.
 *    - Failure: the contents of the receive buffer are then unspecified. The library does not touch
 *      the buffers any more, with one exception: what a CUDA device was given to do cannot be taken
 *      back. If a device has not done it a moment after the failure, it may still write to device
 *      memory of the call, and a warning says so.
 *    - Threads: the collectives of one communicator run one after the other, in the order in which
 *      this rank calls them. Several threads of a rank may call; the program must ensure that
 *      the order is the same on all ranks.
 *    - Statuses that leave the communicator usable (nothing was sent): KOLO_ERR_INVALID;
 *      _NO_MEMORY; _UNSUPPORTED (KOLO_PLAN forces a plan that cannot carry out the call); _SYSTEM
 *      (the progress thread cannot be started).
 *    - Statuses that lose the communicator: KOLO_ERR_MISMATCH, _PEER, _TIMEOUT, _ABORTED; and, if a
 *      link could not be made or its peer broke the protocol, KOLO_ERR_CONNECT, _AUTH or _PROTOCOL,
 *      for example; and, with KOLO_CHECKSUM=1, KOLO_ERR_DATA (bytes were changed on their way; the
 *      detail says between which ranks and where). A rank that loses it for another reason (its
 *      device failed, its buffer cannot be read or written, or it has no memory for a link) passes
 *      its status on: every rank gets that, such as KOLO_ERR_SYSTEM or _NO_MEMORY. Later calls on
 *      the communicator return the same status at once. (kolo_metrics_compute() also returns
 *      KOLO_ERR_MISMATCH if the lists of metrics differ, and that loses nothing.)
 *
 *  Memory of CUDA devices:
 *
 *    - Each buffer may be in host memory, device memory or managed memory, independently of the
 *      other buffers of this rank and of other ranks.
 *    - Order: before the call reads or writes device memory, it waits for all earlier work of the
 *      memory's context, on any stream; with kolo_opts.stream, for that stream only. When the call
 *      is over, its result is visible to every stream. Memory without a context (cudaMallocAsync,
 *      cuMemMap) counts as the calling thread's current context's if that is of the same device,
 *      else as the primary one's.
 *    - Deadline: that wait takes at most the call's deadline; the deadline of the transfer starts
 *      after it. If the earlier work itself waits for another rank that needs this call, neither
 *      can continue, and the wait ends with KOLO_ERR_TIMEOUT.
 *    - Statuses: a CUDA error is KOLO_ERR_SYSTEM or _NO_MEMORY; a function that the driver lacks is
 *      KOLO_ERR_UNSUPPORTED. Each of them loses the communicator, except _NO_MEMORY while the call
 *      is prepared (for the host memory that it needs, for example): then nothing was sent.
 *    - Graphs: while a stream of the context is captured into a graph, the call is refused with
 *      KOLO_ERR_UNSUPPORTED (the detail has the word "captured"), and CUDA ends the capture. The
 *      communicator stays usable. Call before or after the capture, or pass another stream in
 *      kolo_opts.stream.
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

/** How to start, for kolo_init(). Zero it, set `size`, then the members you need. What is left out
 *  comes from the environment (KOLO_*). */
struct kolo_config {
    size_t size; /**< sizeof(struct kolo_config) */
    int nranks;  /**< 0: from KOLO_SIZE, else 1 */
    int rank;    /**< used when nranks > 0 */
    /** tcp://HOST:PORT or file:///SHARED/PATH; NULL: from KOLO_RENDEZVOUS */
    const char *rendezvous;
    /** 64 hexadecimal digits that all ranks share; NULL: from KOLO_SECRET */
    const char *secret;
    /** Further settings, such as "KOLO_TRANSPORT=tcp", in a NULL-terminated array; NULL: none. They
     *  override the environment. */
    const char *const *settings;
};

/** Flags of struct kolo_opts. */
enum {
    /** The result depends only on the operands: each element is combined in the order of ranks, for
     *  every size, plan and transport. It matters for sums, products and averages of floats; all
     *  other results have this property anyway. Set it on all ranks: if only some set it, either
     *  the result has that order or all ranks get KOLO_ERR_MISMATCH. KOLO_DETERMINISTIC=1 in the
     *  environment sets it for all calls. */
    KOLO_DETERMINISTIC = 1,
    /** The call is prepared and not started. kolo_start() or kolo_run() starts *request_out (which
     *  must not be NULL here) any number of times; kolo_request_free() frees it. */
    KOLO_PERSISTENT = 2
};

/** Options of a call. Zero it, then set `size`. A program that was compiled against an earlier
 *  version has a smaller `size`, and its calls behave as they did then. */
struct kolo_opts {
    size_t size;      /**< sizeof(struct kolo_opts) */
    const char *name; /**< the tensor's, for error messages and the mismatch check; NULL: none */
    int timeout_ms;   /**< deadline of this call; 0: KOLO_TIMEOUT */
    /** A CUDA stream (CUstream, cudaStream_t) in whose order the collective runs; NULL: none. The
     *  default stream is CU_STREAM_LEGACY.
     *    - The collective begins when the stream's earlier work is done, and waits for nothing else
     *      on the device. Its deadline counts from when the call is in the stream's queue.
     *    - With a request_out the call returns at once, unless the stream's queue is full and the
     *      driver blocks the thread. Later work of the stream waits until the collective is over,
     *      whether it succeeded or failed; kolo_wait() says whether its result may be used.
     *    - Until the collective is over, no thread may call what waits for all streams of the
     *      context and keeps other threads out of the driver meanwhile: cudaFree, cudaFreeHost,
     *      cudaHostUnregister, the loading of a module, the first launch of a kernel that is loaded
     *      lazily. Such a call and the collective wait for each other: at the collective's deadline
     *      or a few seconds later the stream continues, the call returns, and the collective fails
     *      with KOLO_ERR_TIMEOUT. If kolo itself has to wait for such a call, a warning says so
     *      after 5 s. kolo_free(), like all of kolo, may be called.
     *    - Ranks that are threads of one process must not pass one stream, nor one of them
     *      CU_STREAM_LEGACY and another a stream that was made without cudaStreamNonBlocking: the
     *      call of one rank would be behind the wait for that of the other.
     *    - Buffers may be in device memory or in host memory (a stream reaches page-locked host
     *      memory). The other ranks need not pass a stream.
     *    - KOLO_ERR_UNSUPPORTED: the call is not a collective, is in a group, or the stream is
     *      being captured into a graph; or, with a request_out, the device's streams cannot wait
     *      for the host. KOLO_ERR_INVALID: this is not a stream. None of these loses the
     *      communicator. */
    void *stream;
    /** Reductions of floats: each element of this rank's input is multiplied by @p prescale before
     *  the reduction, each element of the result by @p postscale after it (and after the division
     *  of an average); 0: no factor. Products are computed in float64 for float64, and otherwise in
     *  float32 from the factor as a float32 (ERR_INVALID if that is 0 or infinite), then rounded to
     *  nearest even to the type. prescale may differ from rank to rank (weights); postscale must be
     *  equal. In place, the input is overwritten. A program whose `size` does not include these two
     *  members has no factors. */
    double prescale, postscale;
    unsigned flags; /**< KOLO_DETERMINISTIC, KOLO_PERSISTENT, or 0 */
};

/* ---- life ------------------------------------------------------------------------------------ */

/** Joins the world: meets the other ranks at the rendezvous, within KOLO_START_TIMEOUT. Rank and
 *  size come from @p config, else from KOLO_RANK and KOLO_SIZE (set by kolorun), else from another
 *  launcher's variables (man 7 kolo); without any of these this is a world of one rank. With rank
 *  and size but without kolorun, rank 0 listens at the rendezvous (tcp://, or an address that it
 *  writes to the file). Under kolorun each rank joins only once: not again after kolo_finalize(),
 *  nor in a second program that its command runs.
 *  @return KOLO_OK; ERR_INVALID (comm_out is NULL, config->size is wrong, this rank has joined
 *  before, or the number of ranks is not that of the launcher or of the other ranks); ERR_CONFIG (a
 *  setting, which the detail names); ERR_UNSUPPORTED (KOLO_TRANSPORT names a transport that cannot
 *  connect these ranks); ERR_CONNECT (this rank cannot reach the rendezvous, or another rank);
 *  ERR_AUTH; ERR_PROTOCOL (a rank has another version); ERR_TIMEOUT (the detail names the missing
 *  ranks); ERR_PEER (a rank died or gave up before all had joined); ERR_ABORTED (a rank that was
 *  faster has called kolo_abort()); ERR_NO_MEMORY; ERR_SYSTEM. If a rank fails after all have met,
 *  the others get its status too.
 *  Threads: any. Ownership: *comm_out is the caller's until kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_init(const struct kolo_config *config,
                                              struct kolo_comm **comm_out);

/** Runs @p rank_main(comm, arg) in @p nranks threads of this process, each a rank of one world, and
 *  waits for all of them. When the function returns, its communicator is finalized, unless the
 *  function has already done so. A function that ends its thread instead (pthread_exit()) has
 *  failed with ERR_INVALID.
 *  @param config may be NULL. Its nranks, rank, rendezvous and secret are not used; nranks and rank
 *  must still be valid
 *  @return KOLO_OK if all functions returned KOLO_OK. If a rank could not start, that failure; else
 *  the failure of the lowest rank that failed, with its detail, or with a line that names the rank
 *  if there is none (ERR_PEER and ERR_ABORTED, which report another rank's failure, only if there
 *  is no other). Before any rank runs: ERR_INVALID (nranks, rank_main, config->size), ERR_CONFIG,
 *  ERR_NO_MEMORY, ERR_SYSTEM.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status
kolo_run_threads(int nranks, const struct kolo_config *config,
                 kolo_status (*rank_main)(struct kolo_comm *comm, void *arg), void *arg);

/** The colour of a rank that takes part in kolo_split() and wants no new communicator. */
#define KOLO_NO_COLOUR (-1)

/** Splits @p comm into new communicators, as MPI_Comm_split does: ranks that pass the same @p
 *  colour (0 or more) form one, ordered by @p key, and by their rank in @p comm where keys are
 *  equal. Collective: every rank of @p comm must call it; one that passes KOLO_NO_COLOUR gets NULL.
 *  A new communicator can be split again. It has its own calls and failures: its collectives run
 *  beside those of other communicators, from any thread, and its failure does not affect others. No
 *  rank gets it before all of its ranks have it; if it fails after that, ranks that are still in
 *  this call get it too, and their first call on it says why.
 *
 *  The whole call has one deadline. The job's store, which numbers communicators in blocks of 64,
 *  may use half of that time if a number is needed. When all ranks have made their calls, those of
 *  a new communicator meet on it: if less than a second is left, they still have a second for that.
 *  @return KOLO_OK. ERR_INVALID on every rank if one passed another negative colour or a NULL @p
 *  new_out, and ERR_NO_MEMORY or ERR_SYSTEM on every rank if one of them failed; the detail names
 *  the rank, no communicator was made, and @p comm stays usable, unless the detail of ERR_SYSTEM
 *  says that a rank could not take part at all. ERR_INVALID or ERR_UNSUPPORTED on this rank alone,
 *  before anything is sent, if @p opts is wrong or has a stream, or a group is open. Else the
 *  statuses of a collective. If ranks do not meet on a new communicator, only that one is lost:
 *  later calls on @p comm say whether @p comm is.
 *  Threads: as of a collective on @p comm. Ownership: *new_out is the caller's until
 *  kolo_finalize(), or until the world is finalized. Memory of kolo_alloc() belongs to the rank and
 *  can be used with all of its communicators. */
KOLO_API KOLO_NODISCARD kolo_status kolo_split(struct kolo_comm *comm, int colour, int key,
                                               const struct kolo_opts *opts,
                                               struct kolo_comm **new_out);
/** Makes a new communicator of the same ranks in the same order. Statuses, threads and ownership as
 *  of kolo_split(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_dup(struct kolo_comm *comm, const struct kolo_opts *opts,
                                             struct kolo_comm **new_out);

/** Makes a new communicator of the surviving ranks of @p comm, in their old order, after @p comm
 *  failed because a rank was lost. Every survivor must call it. On a rank where @p comm has not
 *  failed yet, the call of another rank makes it fail, so that rank does not wait for one that is
 *  already here.
 *
 *  The job's store, which knows which ranks died or finalized, decides who survives. A rank that
 *  dies during the call is left out. If two live ranks cannot reach each other, one of them is left
 *  out and gets ERR_PEER.
 *
 *  @p comm stays failed and must still be finalized; finalize the world last, since that ends the
 *  new communicator too. Links between survivors are used again. Under kolorun, give --keep-going;
 *  otherwise the first death ends the job.
 *  @return KOLO_OK; ERR_INVALID and ERR_UNSUPPORTED (opts->stream is set), where nothing has
 *  happened; ERR_NO_MEMORY (it may be called again); ERR_TIMEOUT (the detail names a rank that has
 *  not called it within opts->timeout_ms, or KOLO_TIMEOUT; then it may be called again); ERR_PEER
 *  (this rank was left out, and every later call says so at once; or the store is gone: without
 *  kolorun rank 0 serves it); ERR_PROTOCOL (the store's answer makes no sense, or a peer's
 *  message). The survivors then meet, as in a barrier, for which they have a second even if less is
 *  left. If they do not meet in time, the status of that barrier: ERR_TIMEOUT, ERR_PEER,
 *  ERR_CONNECT, ERR_AUTH, ERR_ABORTED, ERR_MISMATCH or ERR_SYSTEM, for example. After ERR_TIMEOUT
 *  it may be called again then too. Some ranks may have the new communicator already: their first
 *  call on it fails, they shrink that one, and wait for this rank until it calls again or finalizes
 *  @p comm. After a failure there is no new communicator; the other communicators of this rank are
 *  not affected.
 *  Threads: any, but only one at a time for one communicator. Ownership: *new_out is the caller's
 *  until kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_shrink(struct kolo_comm *comm,
                                                const struct kolo_opts *opts,
                                                struct kolo_comm **new_out);

/** Leaves @p comm and frees it, whatever is returned except ERR_INVALID. NULL is allowed.
 *  Outstanding requests are cancelled and freed, and must not be used afterwards.
 *    - The world: waits until what was sent has been delivered (at most KOLO_EXIT_TIMEOUT), tells
 *      the peers, and ends all communicators that were made from it. If the last collective was a
 *      kolo_broadcast(), it first waits until all ranks have entered that broadcast (at most half
 *      of KOLO_EXIT_TIMEOUT; that a rank does not come is no failure). Data for a rank that is late
 *      is kept as long as the broadcast would have waited: up to KOLO_TIMEOUT.
 *    - A communicator of kolo_split(), kolo_dup() or kolo_shrink(): frees only that one, at once.
 *      Other ranks do not wait for it; one that needs this rank in a later call on it gets
 *      ERR_PEER, which names this rank.
 *  @return KOLO_OK, also on a communicator that had failed; ERR_TIMEOUT (a rank, which the detail
 *  names, has not taken what was sent to it); ERR_PEER (the connection to a rank broke before that
 *  rank had acknowledged what was sent to it last: it died, or the network failed; the detail names
 *  the rank and the cause. A rank that has left in order and did not receive a message is no
 *  failure); ERR_SYSTEM (this rank's connections cannot be watched any more, for example since the
 *  program closed their file descriptors; what was not delivered is lost); ERR_MISMATCH (the last
 *  broadcast was called differently by some rank, or a rank went on to another collective, or
 *  leaves without the broadcast though its message is there); ERR_INVALID in a child made by
 *  fork().
 *  Threads: no other thread may be in a call on @p comm (the world: on any communicator) or make
 *  one afterwards; kolo_abort() ends calls early. */
KOLO_API kolo_status kolo_finalize(struct kolo_comm *comm);

/** Makes all present and later calls on the communicator return KOLO_ERR_ABORTED, on every rank,
 *  with @p reason and this rank's number in the detail. It waits for no peer. It may be called any
 *  number of times; the first reason stays. Threads: any. */
KOLO_API void kolo_abort(struct kolo_comm *comm, const char *reason);

/* ---- who and where --------------------------------------------------------------------------- */

/** This rank's number in @p comm: 0 to kolo_size() - 1; -1 if @p comm is NULL. Threads: any. */
KOLO_API int kolo_rank(const struct kolo_comm *comm);
/** The number of ranks in @p comm; -1 if it is NULL. Threads: any. */
KOLO_API int kolo_size(const struct kolo_comm *comm);

/** Facts about this rank. The strings live as long as the communicator. */
struct kolo_info {
    size_t size; /**< set to sizeof(struct kolo_info) by the caller */
    int rank, nranks, local_rank, local_nranks;
    const char *host; /**< this rank's host name */
    /** The kinds of memory that work here, separated by commas: "host", and "cuda" if this process
     *  had begun to use CUDA by the first such call. */
    const char *memory_kinds;
    const char *transports; /**< those that work here, such as "inproc,shm,tcp" */
    /** One line for each backend that is not in this build or cannot be used here, with the
     *  reason. */
    const char *left_out;
};
/** Describes this rank. No communication.
 *  @return KOLO_OK; ERR_INVALID (an argument is NULL, info_out->size is wrong); ERR_NO_MEMORY.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_get_info(struct kolo_comm *comm,
                                                  struct kolo_info *info_out);

/** Facts about another rank. */
struct kolo_peer_info {
    size_t size; /**< set to sizeof(struct kolo_peer_info) by the caller */
    int rank, pid, local_rank;
    const char *host;
    const char *transport; /**< between this rank and it: "inproc", "shm", "rdma", "tcp", "self" */
    const char *why;       /**< why this transport is used */
};
/** Describes rank @p rank of @p comm, which may be this rank itself. No communication.
 *  @return KOLO_OK; ERR_INVALID (an argument is NULL, no such rank, info_out->size is wrong);
 *  ERR_NO_MEMORY.
 *  Threads: any. Ownership: the strings belong to the library and live as long as @p comm; `why`
 *  lives until the next call for the same @p rank. */
KOLO_API KOLO_NODISCARD kolo_status kolo_get_peer_info(struct kolo_comm *comm, int rank,
                                                       struct kolo_peer_info *info_out);

/* ---- memory ---------------------------------------------------------------------------------- */

/** Allocates @p bytes bytes of host memory, page-aligned and zeroed, that the other ranks of this
 *  host read and reduce in place (memfd). Collectives take any memory; this kind is the fastest. In
 *  a process that uses CUDA it is page-locked too. Each allocation is a file that this rank maps
 *  (some 20 us, and more with its length) and that its neighbours map in the first call that uses
 *  it (more than that): allocate once, not for each call. Only an allocation of up to 1 MiB that
 *  gets what a kolo_free() of the same length has left costs no more than to fill it with zeros.
 *  If a call fails while another rank is stopped in it, that rank is cut off from the call's
 *  buffers, and what threads write beside them is kept. A call of another communicator whose buffer
 *  has a page in common with them may fail then (ERR_ABORTED). Let buffers of calls that run at the
 *  same time begin at page boundaries.
 *  @return KOLO_OK; ERR_NO_MEMORY; ERR_INVALID (@p memory_out is NULL); ERR_SYSTEM.
 *  Threads: any. Ownership: the caller's, who must pass it to kolo_free() before finalizing the
 *  world. */
KOLO_API KOLO_NODISCARD kolo_status kolo_alloc(struct kolo_comm *comm, size_t bytes,
                                               void **memory_out);
/** Allocates CUDA device memory, as cudaMalloc() does, in the context that the CUDA runtime uses.
 *  Collectives take any device memory. But if all ranks of a communicator are on one host and all
 *  pass this kind, kernels work on it where it lies and nothing is copied through the host
 *  (KOLO_CUDA_IPC). Since other processes of the job map it, it consists of whole blocks of 2 MiB
 *  that hold nothing else. The first allocation on a device loads these kernels, for which a driver
 *  may wait for all earlier work of the device: allocate before such work waits for another rank.
 *  @param device its number in this process. -1: the calling thread's current device; if the thread
 *  has used none, one by local rank: the ranks of a host take turns at the devices whose PCI slots
 *  are at the NUMA node that they are bound in (KOLO_NUMA_NODE), or at all devices if there is none
 *  @return KOLO_OK; ERR_UNSUPPORTED (no driver, no device at all, or a build without CUDA);
 *  ERR_NO_MEMORY (after waiting up to KOLO_TIMEOUT for other ranks to unmap what was freed);
 *  ERR_INVALID (also: there is no device of that number); ERR_SYSTEM (the driver failed, or the
 *  thread that frees memory cannot be started).
 *  Threads: any. Ownership: the caller's, who must pass it to kolo_free() before finalizing the
 *  world. */
KOLO_API KOLO_NODISCARD kolo_status kolo_alloc_device(struct kolo_comm *comm, size_t bytes,
                                                      int device, void **memory_out);
/** Frees memory of kolo_alloc() or kolo_alloc_device(). NULL is allowed. No request may be using
 *  the memory.
 *    - Device memory: the call first waits for all earlier work of the device, up to KOLO_TIMEOUT.
 *      If other ranks have mapped the memory, the device gets it back once all of them have
 *      unmapped it: when they next wait in a call, or at the latest when they finalize.
 *    - While a stream waits for a collective (kolo_opts.stream), the driver frees nothing. Memory
 *      of either kind is then freed by another thread, once no stream waits. Until then a
 *      kolo_alloc() of the same length may get memory that was from kolo_alloc().
 *    - Memory of kolo_alloc(): up to 16 allocations of up to 1 MiB, together of up to 2 MiB, stay
 *      with the rank for later ones of the same length (64 in a process of several ranks), and the
 *      neighbours keep their mappings of them. Freed at once: what is longer, all memory in a
 *      process that has loaded a CUDA driver, what RDMA has registered, and what a child of fork()
 *      has too.
 *  @return KOLO_OK; ERR_INVALID (@p memory is not from kolo_alloc() or kolo_alloc_device() of @p
 *  comm). For device memory also ERR_TIMEOUT (the device is still working) and ERR_UNSUPPORTED (a
 *  stream of its context is being captured into a graph), where the memory is not freed; ERR_SYSTEM
 *  or ERR_NO_MEMORY (the driver failed, and the memory is gone); and ERR_SYSTEM with a detail about
 *  a thread (a stream waits for a collective, the thread that would free the memory later cannot be
 *  started, and the memory is not freed).
 *  Threads: any. */
KOLO_API kolo_status kolo_free(struct kolo_comm *comm, void *memory);

/* ---- user-defined operators ------------------------------------------------------------------ */

enum {
    /** The operator is commutative: a op b = b op a. Long vectors over links may then be combined
     *  in any order, which is faster (but not under KOLO_DETERMINISTIC, and not for opaque elements
     *  whose size does not divide 16). */
    KOLO_COMMUTATIVE = 1
};
enum { KOLO_OP_NAME_MAX = 63 };

/** A user-defined operator, for kolo_op_create(). Zero it, set `size`, then the other members. */
struct kolo_op {
    size_t size; /**< sizeof(struct kolo_op) */
    /** 1 to KOLO_OP_NAME_MAX bytes of text without control characters. It identifies the operator
     *  between ranks: if ranks pass operators of different names to a call, they get
     *  KOLO_ERR_MISMATCH. */
    const char *name;
    /** Computes into[i] = into[i] op from[i] for i < @p count; must be associative.
     *    - @p into and @p from are the library's memory, aligned to the largest power of two that
     *      divides the element's size, at most 16. They hold a piece of the vector, of any length.
     *    - @p dtype is the type that the call was given.
     *    - Threads: it is called by threads that are in a call of this rank and by the progress
     *      thread, one at a time for all communicators. It must return soon, must not call kolo,
     *      and must neither longjmp nor throw.
     *    - It cannot report an error: encode one in the element (a flag, a NaN) and check the
     *      result. */
    void (*fold)(void *into, const void *from, size_t count, kolo_dtype dtype, void *context);
    void *context;  /**< passed to fold */
    unsigned flags; /**< KOLO_COMMUTATIVE; or 0: every plan combines in the order of ranks */
};

/** Creates an operator, which this rank can pass as the op of every reduction, on all of its
 *  communicators and for every type that its function handles. Ranks may create theirs in any
 *  order, each with its own context. No communication.
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
 *  @return KOLO_OK; ERR_INVALID (a member of @p op, which the detail names); ERR_NO_MEMORY (also:
 *  there are 1024 operators, the most).
 *  Ownership: @p op is read before the call returns. *op_out is valid until kolo_op_free(), or
 *  until the world is finalized. Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_op_create(struct kolo_comm *comm, const struct kolo_op *op,
                                                   kolo_redop *op_out);
/** Frees an operator. A later kolo_op_create() may return the same number.
 *  @return KOLO_OK; ERR_INVALID (@p op is not from kolo_op_create(), or a request that was not
 *  waited for uses it).
 *  Threads: any. */
KOLO_API kolo_status kolo_op_free(struct kolo_comm *comm, kolo_redop op);

/* ---- collectives ----------------------------------------------------------------------------- */

/** Reduces to every rank: recv[i] on every rank = op over all ranks' send[i], i < @p count. */
KOLO_API KOLO_NODISCARD kolo_status kolo_allreduce(struct kolo_comm *comm, const void *send,
                                                   void *recv, size_t count, kolo_dtype dtype,
                                                   kolo_redop op, const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/** Reduces to @p root: recv[i] there = op over all ranks' send[i]. @p recv is ignored on other
 *  ranks and may be NULL there. */
KOLO_API KOLO_NODISCARD kolo_status kolo_reduce(struct kolo_comm *comm, const void *send,
                                                void *recv, size_t count, kolo_dtype dtype,
                                                kolo_redop op, int root,
                                                const struct kolo_opts *opts,
                                                struct kolo_request **request_out);

/** Copies from @p root to all: buffer[i] on every rank = buffer[i] of @p root.
 *
 *  Unlike the other collectives it may return before all ranks have called it: on @p root as soon
 *  as @p buffer may be written again, on the others as soon as the root's data has arrived. A root
 *  can be ahead of the others by
 *    - up to 64 broadcasts in a row; every 64th returns on its root when all have called it;
 *    - 7 short broadcasts in shared memory (plan oneshot), 2 beyond 4 KiB;
 *    - none for long broadcasts in shared memory (plan twoshot) and on communicators other than the
 *      world: they return on their root when all have called.
 *  If a rank called something else or nothing, a rank that has already returned gets the error
 *  (KOLO_ERR_MISMATCH, _TIMEOUT or _PEER) from a later call, at the latest from the next one that
 *  is not a broadcast; it gets a mismatch at the latest from kolo_finalize(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_broadcast(struct kolo_comm *comm, void *buffer,
                                                   size_t count, kolo_dtype dtype, int root,
                                                   const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/** Gathers on every rank: recv[r * count + i] on every rank = send[i] of rank r. @p recv has
 *  kolo_size() * count elements. In place: send == recv + rank * count elements. */
KOLO_API KOLO_NODISCARD kolo_status kolo_allgather(struct kolo_comm *comm, const void *send,
                                                   void *recv, size_t count, kolo_dtype dtype,
                                                   const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/** As kolo_allgather, with counts[r] elements from rank r, which are placed at recv + displs[r] (in
 *  elements). Both arrays have one entry per rank, must be equal on all ranks (else ERR_MISMATCH;
 *  the displacement of a count of 0 may differ), and are read before the call returns. displs NULL:
 *  packed one after the other. The slices must not overlap. In place: send == recv +
 *  displs[rank]. */
KOLO_API KOLO_NODISCARD kolo_status kolo_allgatherv(struct kolo_comm *comm, const void *send,
                                                    void *recv, const size_t *counts,
                                                    const size_t *displs, kolo_dtype dtype,
                                                    const struct kolo_opts *opts,
                                                    struct kolo_request **request_out);

/** Reduces, and leaves one block on each rank: recv[i] on rank r = op over all ranks' send[r *
 *  count + i]. @p send has kolo_size() * count elements, @p recv has count. In place: recv == send
 *  + rank * count elements; the rest of the buffer is then unspecified. */
KOLO_API KOLO_NODISCARD kolo_status kolo_reduce_scatter(struct kolo_comm *comm, const void *send,
                                                        void *recv, size_t count, kolo_dtype dtype,
                                                        kolo_redop op, const struct kolo_opts *opts,
                                                        struct kolo_request **request_out);

/** Gathers on @p root: recv[r * count + i] there = send[i] of rank r. @p recv is ignored on other
 *  ranks. In place on @p root: send == recv + root * count elements. */
KOLO_API KOLO_NODISCARD kolo_status kolo_gather(struct kolo_comm *comm, const void *send,
                                                void *recv, size_t count, kolo_dtype dtype,
                                                int root, const struct kolo_opts *opts,
                                                struct kolo_request **request_out);

/** As kolo_gather, with counts[r] elements from rank r, which are placed at recv + displs[r]. The
 *  arrays are as in kolo_allgatherv, and must be given and equal on all ranks, not only on @p root
 *  as in MPI. In place on @p root: send == recv + displs[root]. */
KOLO_API KOLO_NODISCARD kolo_status kolo_gatherv(struct kolo_comm *comm, const void *send,
                                                 void *recv, const size_t *counts,
                                                 const size_t *displs, kolo_dtype dtype, int root,
                                                 const struct kolo_opts *opts,
                                                 struct kolo_request **request_out);

/** Distributes blocks from @p root: recv[i] on rank r = send[r * count + i] of @p root. @p send is
 *  ignored on other ranks. In place on @p root: recv == send + root * count elements. */
KOLO_API KOLO_NODISCARD kolo_status kolo_scatter(struct kolo_comm *comm, const void *send,
                                                 void *recv, size_t count, kolo_dtype dtype,
                                                 int root, const struct kolo_opts *opts,
                                                 struct kolo_request **request_out);

/** As kolo_scatter, with counts[r] elements for rank r, taken from send + displs[r]. The arrays are
 *  as in kolo_allgatherv, and must be given and equal on all ranks, not only on @p root as in MPI.
 *  The slices of @p send may overlap. In place on @p root: recv == send + displs[root]. */
KOLO_API KOLO_NODISCARD kolo_status kolo_scatterv(struct kolo_comm *comm, const void *send,
                                                  const size_t *counts, const size_t *displs,
                                                  void *recv, kolo_dtype dtype, int root,
                                                  const struct kolo_opts *opts,
                                                  struct kolo_request **request_out);

/** As kolo_reduce_scatter, with counts[r] elements for rank r, packed one after the other in
 *  @p send. @p counts has one entry per rank, must be equal on all ranks, and is read before the
 *  call returns. In place: recv == send + the counts of the ranks before this one; the rest of the
 *  buffer is then unspecified. */
KOLO_API KOLO_NODISCARD kolo_status kolo_reduce_scatterv(struct kolo_comm *comm, const void *send,
                                                         void *recv, const size_t *counts,
                                                         kolo_dtype dtype, kolo_redop op,
                                                         const struct kolo_opts *opts,
                                                         struct kolo_request **request_out);

/** Exchanges blocks between all ranks: recv[r * count + i] on every rank = send[rank * count + i]
 *  of rank r. @p send and @p recv must not overlap. */
KOLO_API KOLO_NODISCARD kolo_status kolo_alltoall(struct kolo_comm *comm, const void *send,
                                                  void *recv, size_t count, kolo_dtype dtype,
                                                  const struct kolo_opts *opts,
                                                  struct kolo_request **request_out);

/** As kolo_alltoall, with send_counts[r] elements at send + send_displs[r] for rank r, and
 *  recv_counts[r] at recv + recv_displs[r] from it. Each rank has its own arrays, with one entry
 *  per rank, which are read before the call returns; displacements NULL: packed. A rank must send
 *  as many elements as the other expects; else that one gets ERR_MISMATCH with both counts, and the
 *  others get it by then or at their next call. What a rank sends to itself must match as well
 *  (ERR_INVALID). The slices of @p recv must not overlap, nor may @p send and @p recv. */
KOLO_API KOLO_NODISCARD kolo_status kolo_alltoallv(
    struct kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_displs,
    void *recv, const size_t *recv_counts, const size_t *recv_displs, kolo_dtype dtype,
    const struct kolo_opts *opts, struct kolo_request **request_out);

/** Returns on no rank before every rank has called it. */
KOLO_API KOLO_NODISCARD kolo_status kolo_barrier(struct kolo_comm *comm,
                                                 const struct kolo_opts *opts,
                                                 struct kolo_request **request_out);

/* ---- between two ranks ----------------------------------------------------------------------- */

/** Sends to rank @p peer, which must be another rank. Returns when @p send may be reused. Messages
 *  between two ranks arrive in the order sent; there are no tags. Count and type must be equal to
 *  those of the receiver. Sends and receives are independent of the order of collectives. Buffers,
 *  options, requests and statuses are as for a collective. */
KOLO_API KOLO_NODISCARD kolo_status kolo_send(struct kolo_comm *comm, const void *send,
                                              size_t count, kolo_dtype dtype, int peer,
                                              const struct kolo_opts *opts,
                                              struct kolo_request **request_out);
/** Receives the next message from rank @p peer, sent by kolo_send(). Otherwise as kolo_send(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_recv(struct kolo_comm *comm, void *recv, size_t count,
                                              kolo_dtype dtype, int peer,
                                              const struct kolo_opts *opts,
                                              struct kolo_request **request_out);

/* ---- requests -------------------------------------------------------------------------------- */

/** Tests whether a request is over, without waiting.
 *  @return KOLO_AGAIN: not yet. Any other status is the result of the call; the request is then
 *  freed and *request is NULL, unless it is persistent. If *request is NULL: KOLO_OK. If @p request
 *  is NULL: ERR_INVALID.
 *  Threads: any, but only one at a time for one request. */
KOLO_API KOLO_NODISCARD kolo_status kolo_test(struct kolo_request **request);
/** Waits until a request is over, for at most @p timeout_ms milliseconds (negative: until the
 *  call's own deadline).
 *  @return KOLO_AGAIN: not over by then; the call continues. Otherwise as of kolo_test().
 *  Threads: any, but only one at a time for one request. */
KOLO_API KOLO_NODISCARD kolo_status kolo_wait(struct kolo_request **request, int timeout_ms);

/* ---- persistent requests --------------------------------------------------------------------- */

/** Starts a request that was made with KOLO_PERSISTENT, and returns at once. Arguments, options and
 *  arrays of counts are those of the call that made it (the arrays were copied). The buffers are
 *  read and written again each time; the program must not use them between the start and the end.
 *  Each start counts as a call: all ranks must make the same calls in the same order, whether by
 *  kolo_start(), by kolo_run(), or by a call that is not persistent.
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
 *  kolo_wait() and kolo_test() do not free a persistent request. If it is not running, they return
 *  the result of its last run (KOLO_OK if it never ran).
 *  @return KOLO_OK: it is running; ERR_INVALID (@p request is not persistent, or is already
 *  running); ERR_NO_MEMORY; ERR_SYSTEM; on a communicator that has failed: that failure. With
 *  device memory or a stream also ERR_TIMEOUT and ERR_UNSUPPORTED, as from a collective.
 *  Threads: any, but only one at a time for one request. */
KOLO_API KOLO_NODISCARD kolo_status kolo_start(struct kolo_request *request);
/** Starts a persistent request and waits until it is over. This is faster than kolo_start() and
 *  kolo_wait(), because no other thread has to make progress on it.
 *  @return as of kolo_start(), then the result of the call itself.
 *  Threads: any, but only one at a time for one request. */
KOLO_API KOLO_NODISCARD kolo_status kolo_run(struct kolo_request *request);
/** Frees a persistent request and sets *request to NULL. *request may be NULL.
 *  @return KOLO_OK; ERR_INVALID (it is running, or not persistent, or @p request is NULL).
 *  Threads: any, but only one at a time for one request. */
KOLO_API kolo_status kolo_request_free(struct kolo_request **request);

/* ---- groups ---------------------------------------------------------------------------------- */

/** Opens a group, as ncclGroupStart() does. Until kolo_group_end(), collectives, sends and receives
 *  on @p comm, by any thread, are only checked and collected; they return KOLO_OK or what is wrong
 *  with them, and their request_out must be NULL. Nothing is sent or written before
 *  kolo_group_end(); from then on the program must not use their buffers until the group is over.
 *
 *  The calls of a group run concurrently. So none may write what another reads or writes, and the
 *  order of sends and receives between two ranks cannot cause a deadlock. Collectives must be in
 *  the same order on all ranks. Consecutive short allreduces of the same type, operator and flags,
 *  without a postscale, are carried out as one; therefore all ranks must group the same calls.
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
 *  kolo_split(), kolo_dup() and kolo_metrics_compute() are refused while a group is open;
 *  kolo_finalize() drops its calls, with a warning.
 *  @return KOLO_OK; ERR_INVALID (a group is already open); ERR_NO_MEMORY.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_group_begin(struct kolo_comm *comm);
/** Closes the group, whatever is returned, and starts all of its calls or none.
 *  @param opts timeout_ms, if set, applies to each call; flags may be KOLO_PERSISTENT, for a group
 *  that is started repeatedly. Names, factors and KOLO_DETERMINISTIC are given in the calls
 *  @param request_out as for a collective: one request for the whole group (NULL if it is empty)
 *  @return if a call was refused, the status of the first such call; ERR_INVALID (no group is open,
 *  opts is invalid, or a call writes what another reads or writes: the detail names both calls,
 *  counted from 1, and the bytes), ERR_UNSUPPORTED (opts->stream is set), ERR_NO_MEMORY, ERR_SYSTEM
 *  (the progress thread cannot be started). In these cases nothing was started. Else the status of
 *  the call that failed first.
 *  Threads: any, not only the one that opened the group. */
KOLO_API KOLO_NODISCARD kolo_status kolo_group_end(struct kolo_comm *comm,
                                                   const struct kolo_opts *opts,
                                                   struct kolo_request **request_out);

/* ---- key-value store of the job -------------------------------------------------------------- */

/** Sets @p key (1 to 255 bytes of text without control characters) to the @p bytes bytes (at most 1
 *  MiB) at @p value, for all ranks. Replaces an older value.
 *  @return KOLO_OK; ERR_INVALID (such a key or value is not allowed); ERR_NO_MEMORY (the store is
 *  full, or this rank has no memory); ERR_TIMEOUT (no answer within KOLO_TIMEOUT; the communicator
 *  is not lost); ERR_PEER (the store is gone); on a communicator that has failed: that failure.
 *  Threads: any. Ownership: @p value is read before the call returns. */
KOLO_API KOLO_NODISCARD kolo_status kolo_kv_set(struct kolo_comm *comm, const char *key,
                                                const void *value, size_t bytes);
/** Waits until @p key exists and copies its value.
 *  @param bytes in: the size of @p value; out: the length of the stored value
 *  @param timeout_ms 0: does not wait; negative: waits up to KOLO_TIMEOUT
 *  @return KOLO_OK; ERR_TIMEOUT (@p timeout_ms passed, or if it is 0 the store did not answer
 *  within KOLO_TIMEOUT; the communicator is not lost); ERR_NOT_FOUND (@p timeout_ms is 0, and the
 *  key does not exist); ERR_INVALID (also if the value does not fit; *bytes is then its length);
 *  ERR_NO_MEMORY; ERR_PEER; on a communicator that has failed: that failure.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_kv_get(struct kolo_comm *comm, const char *key,
                                                void *value, size_t *bytes, int timeout_ms);
/** Adds @p amount to the integer at @p key (0 if the key is new) and returns the sum in *sum_out,
 *  atomically among all ranks. The value is stored as 8 bytes, little-endian. @p sum_out may be
 *  NULL.
 *  @return as kolo_kv_set(); ERR_INVALID also if the stored value has another length.
 *  Threads: any. */
KOLO_API KOLO_NODISCARD kolo_status kolo_kv_add(struct kolo_comm *comm, const char *key,
                                                int64_t amount, int64_t *sum_out);

KOLO_END_DECLS
#endif
