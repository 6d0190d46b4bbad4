// SPDX-License-Identifier: Apache-2.0
// Bare loops over RDMA: a queue pair between each two ranks, opened here, and writes into memory
// that the other side polls. Nothing is received, answered or copied. Data to be summed is written
// next to a word that announces it, and is added directly from there; all other data is written to
// its final place. Must never write into memory that a rank still reads: written data alternates
// between two slots, and no rank is two turns ahead of a rank whose answer it needs.
//
// The memory of each rank: a line for each other rank's word, the words to be sent, a source of
// writes, the slots.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/bare.h"
#include "memory/reduce.h"
#include "runtime/local.h"
#include "transport/rdma_complete.h"
#include "transport/rdma_register.h"

enum {
    ELEMENT = 4,
    PIECE_BYTES = 256 << 10, /* largest piece, so that the sum overlaps with the wire */
    WORD_BYTES = 64,         /* after a piece: its word, padded so that the next piece is aligned */
    ONE_PHASE_MAX = 1 << 20, /* longer vectors would take memory without showing anything new */
    DEPTH = 64,              /* writes in flight to one rank */
    TOLD_EVERY = 16,
    STREAM_BYTES = 8 << 20, /* approximate bytes in a step of timed writes */
    STREAM_WRITES_MIN = 4,
    STREAM_WRITES_MAX = 2 * DEPTH,
    INLINE_BYTES = 64,
    NUMBER_BITS = 48,
    PACKET_BITS = 24,
    HOPS = 64,
    RETRIES = 3, /* if a receiver is not ready, which cannot happen here */
    TRIAL_MS = 10000
};

/* What a rank tells the others. */
struct place {
    bool has_port;
    char why[BARE_WHY_BYTES];
    struct kolo_rdma_gids gids;
    uint8_t mtu;
    uint16_t lid;
    uint32_t inline_bytes, write_bytes;
    uint64_t memory, recv;
    uint32_t memory_key, recv_key;
    uint32_t pairs[BARE_RANKS_MAX]; /* its queue pair to each rank */
};

struct lane {
    struct ibv_qp *pair;
    uint64_t posted, told, done;     /* writes: posted, the last signalled one, completed */
    uint64_t spread;                 /* the last that reads our vector of results */
    uint64_t words_sent, words_seen; /* of its line */
    uint64_t turn;                   /* of the slots */
};

struct bare_rdma {
    struct kolo_rdma_device *device;
    struct ibv_cq *queue;
    uint8_t *memory;
    size_t piece_bytes, slot_bytes; /* a slot is for one turn of one rank */
    struct ibv_mr *memory_region, *send_region, *recv_region;
    uint32_t inline_bytes, write_bytes;
    struct place *places;
    struct lane lanes[BARE_RANKS_MAX];
    enum ibv_wc_status broke;
};

/* ---- where things lie, here and there alike ---- */

static size_t line_at(int rank)
{
    return (size_t)rank * BARE_LINE_BYTES;
}

static size_t words_at(const struct bare_world *world)
{
    return line_at(world->nranks);
}

static size_t source_at(const struct bare_world *world)
{
    return (words_at(world) + line_at(world->nranks) + 4095) / 4096 * 4096;
}

/* Where what @p rank sends in an odd or an even turn is written; timed writes go to the first slots
 * as well. */
static size_t slot_at(const struct bare_world *world, int rank, uint64_t turn)
{
    return source_at(world) + BARE_WRITE_BYTES_MAX +
           (2 * (size_t)rank + (turn & 1)) * world->rdma->slot_bytes;
}

static size_t piece_word_at(const struct bare_world *world, int rank, uint64_t turn, size_t piece)
{
    size_t bytes = world->rdma->piece_bytes;
    return slot_at(world, rank, turn) + piece * (bytes + WORD_BYTES) + bytes;
}

static size_t memory_bytes(const struct bare_world *world)
{
    size_t slots = 2 * (size_t)world->nranks * world->rdma->slot_bytes;
    return source_at(world) + BARE_WRITE_BYTES_MAX +
           (slots > BARE_WRITE_BYTES_MAX ? slots : BARE_WRITE_BYTES_MAX);
}

static uint64_t *word_of(const struct bare_world *world, size_t at)
{
    return (uint64_t *)(void *)(world->rdma->memory + at);
}

static size_t edge(const struct bare_world *world, size_t count, int rank)
{
    return count * (size_t)rank / (size_t)world->nranks;
}

/* ---- writes ---- */

static bool reap(struct bare_world *world)
{
    struct bare_rdma *rdma = world->rdma;
    struct ibv_wc done[TOLD_EVERY];
    int count = rdma->device->verbs->poll_cq(rdma->queue, TOLD_EVERY, done);
    for (int i = 0; i < count; i++) {
        if (done[i].status != IBV_WC_SUCCESS) {
            rdma->broke = done[i].status;
            return false;
        }
        rdma->lanes[done[i].wr_id >> NUMBER_BITS].done =
            done[i].wr_id & ((UINT64_C(1) << NUMBER_BITS) - 1);
    }
    return count >= 0 && !kolo_deadline_passed(world->deadline);
}

/* Waits until at most @p most writes to @p rank are in flight. */
static bool drain(struct bare_world *world, int rank, uint64_t most)
{
    const struct lane *lane = &world->rdma->lanes[rank];
    while (lane->posted - lane->done > most)
        if (!reap(world))
            return false;
    return true;
}

/* Posts one or two writes at once: @p what, and after it @p word unless that is NULL. Only with @p
 * tells, or after many writes, is a completion requested. */
static bool post(struct bare_world *world, int rank, struct ibv_send_wr *what,
                 struct ibv_send_wr *word, bool tells)
{
    struct bare_rdma *rdma = world->rdma;
    struct lane *lane = &rdma->lanes[rank];
    struct ibv_send_wr *last = word ? word : what, *bad;
    uint64_t more = word ? 2 : 1;
    if (!drain(world, rank, DEPTH - more))
        return false;
    what->next = word;
    what->opcode = last->opcode = IBV_WR_RDMA_WRITE;
    lane->posted += more;
    last->wr_id = (uint64_t)rank << NUMBER_BITS | lane->posted;
    if (tells || lane->posted - lane->told >= TOLD_EVERY) {
        last->send_flags |= IBV_SEND_SIGNALED;
        lane->told = lane->posted;
    }
    return rdma->device->verbs->post_send(lane->pair, what, &bad) == 0;
}

static void address(struct ibv_send_wr *write, uint64_t memory, size_t at, uint32_t key)
{
    write->wr.rdma.remote_addr = memory + at;
    write->wr.rdma.rkey = key;
}

static struct ibv_sge part_of(const void *data, size_t bytes, const struct ibv_mr *region)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)data, .length = (uint32_t)bytes, .lkey = region->lkey};
}

/* ---- words and pieces ---- */

/* The words for @p rank: one for its line, and one each for the pieces of odd and of even turns.
 * The device has read what was sent in a turn before the next turn but one begins, since the rank
 * has answered it. */
enum { WORD_OF_LINE, WORD_OF_TURNS };

static uint64_t *word_to_send(struct bare_world *world, int rank, size_t which, uint64_t value)
{
    uint64_t *word = word_of(world, words_at(world) + line_at(rank)) + which;
    *word = value;
    return word;
}

/* Sends the next word into our line at @p rank, after the write @p before unless that is NULL. */
static bool send_word(struct bare_world *world, int rank, struct ibv_send_wr *before)
{
    struct bare_rdma *rdma = world->rdma;
    struct lane *lane = &rdma->lanes[rank];
    const uint64_t *word = word_to_send(world, rank, WORD_OF_LINE, ++lane->words_sent);
    struct ibv_sge part = part_of(word, sizeof *word, rdma->memory_region);
    struct ibv_send_wr write = {.sg_list = &part, .num_sge = 1};
    bool is_inline = rdma->inline_bytes >= sizeof *word;
    if (is_inline)
        write.send_flags = IBV_SEND_INLINE;
    address(&write, rdma->places[rank].memory, line_at(world->rank), rdma->places[rank].memory_key);
    bool tells = before || !is_inline;
    bool ok =
        before ? post(world, rank, before, &write, tells) : post(world, rank, &write, NULL, tells);
    return ok && (is_inline || drain(world, rank, 0)); /* else the device reads it later */
}

static bool await_word(struct bare_world *world, int rank)
{
    return bare_await(world, word_of(world, line_at(rank)), ++world->rdma->lanes[rank].words_seen);
}

/* Sends a piece for the sum at @p rank, with its word after it, in one write. However short, a
 * piece ends where its word lies, so that a word is never where data was. */
static bool send_piece(struct bare_world *world, int rank, const uint8_t *data, size_t bytes,
                       size_t piece)
{
    struct bare_rdma *rdma = world->rdma;
    struct lane *lane = &rdma->lanes[rank];
    const uint64_t *word = word_to_send(world, rank, WORD_OF_TURNS + (lane->turn & 1), lane->turn);
    struct ibv_sge parts[2] = {part_of(data, bytes, rdma->send_region),
                               part_of(word, sizeof *word, rdma->memory_region)};
    struct ibv_send_wr write = {.sg_list = parts, .num_sge = 2};
    if (bytes + sizeof *word <= rdma->inline_bytes)
        write.send_flags = IBV_SEND_INLINE;
    address(&write, rdma->places[rank].memory,
            piece_word_at(world, world->rank, lane->turn, piece) - bytes,
            rdma->places[rank].memory_key);
    return post(world, rank, &write, NULL, false);
}

/* Adds the piece that came from @p rank to @p from, into @p to. */
static bool fold_piece(struct bare_world *world, int rank, uint8_t *to, const uint8_t *from,
                       size_t bytes, size_t piece)
{
    const struct lane *lane = &world->rdma->lanes[rank];
    size_t at = piece_word_at(world, rank, lane->turn, piece);
    if (!bare_await(world, word_of(world, at), lane->turn))
        return false;
    kolo_reduce_function(KOLO_FLOAT32, KOLO_SUM)(to, from, world->rdma->memory + at - bytes,
                                                 bytes / ELEMENT);
    return true;
}

/* ---- allreduce ---- */

static size_t piece_bytes(const struct bare_world *world, size_t bytes, size_t piece)
{
    size_t most = world->rdma->piece_bytes, left = bytes - piece * most;
    return left < most ? left : most;
}

static size_t pieces_of(const struct bare_world *world, size_t bytes)
{
    size_t most = world->rdma->piece_bytes;
    return bytes ? (bytes + most - 1) / most : 1;
}

/* With two phases each rank sums a slice of the vector and spreads it; with one phase each sums all
 * of it. */
static bool spreads(const struct bare_loop *loop)
{
    return loop->phases == 2;
}

static size_t begin_of(const struct bare_world *world, const struct bare_loop *loop, int rank)
{
    return spreads(loop) ? edge(world, loop->count, rank) * ELEMENT : 0;
}

static size_t end_of(const struct bare_world *world, const struct bare_loop *loop, int rank)
{
    return (spreads(loop) ? edge(world, loop->count, rank + 1) : loop->count) * ELEMENT;
}

static int other_rank(const struct bare_world *world, int i)
{
    return (world->rank + i) % world->nranks;
}

static bool send_slices(struct bare_world *world, const struct bare_loop *loop)
{
    for (int i = 1; i < world->nranks; i++) {
        int rank = other_rank(world, i);
        size_t at = begin_of(world, loop, rank), bytes = end_of(world, loop, rank) - at;
        world->rdma->lanes[rank].turn++;
        for (size_t piece = 0; piece < pieces_of(world, bytes); piece++)
            if (!send_piece(world, rank, world->user_send + at + piece * world->rdma->piece_bytes,
                            piece_bytes(world, bytes, piece), piece))
                return false;
    }
    return true;
}

/* Waits until the device has read what the turn before spread, which is about to be overwritten. */
static bool settle(struct bare_world *world)
{
    for (int rank = 0; rank < world->nranks; rank++)
        while (world->rdma->lanes[rank].done < world->rdma->lanes[rank].spread)
            if (!reap(world))
                return false;
    return true;
}

static bool fold_pieces(struct bare_world *world, size_t at, size_t bytes, size_t piece)
{
    const uint8_t *from = world->user_send + at;
    for (int i = 1; i < world->nranks; i++) {
        if (!fold_piece(world, other_rank(world, i), world->user_recv + at, from, bytes, piece))
            return false;
        from = world->user_recv + at;
    }
    return true;
}

/* Writes a piece into the others' vectors; the last piece is followed by a word. */
static bool spread_piece(struct bare_world *world, size_t at, size_t bytes, bool is_last)
{
    struct bare_rdma *rdma = world->rdma;
    for (int i = 1; i < world->nranks; i++) {
        int rank = other_rank(world, i);
        struct ibv_sge part = part_of(world->user_recv + at, bytes, rdma->recv_region);
        struct ibv_send_wr write = {.sg_list = &part, .num_sge = bytes > 0};
        address(&write, rdma->places[rank].recv, at, rdma->places[rank].recv_key);
        if (!(is_last ? send_word(world, rank, &write) : post(world, rank, &write, NULL, false)))
            return false;
        rdma->lanes[rank].spread = rdma->lanes[rank].posted;
    }
    return true;
}

static bool allreduce_step(struct bare_world *world, void *context)
{
    const struct bare_loop *loop = context;
    size_t at = begin_of(world, loop, world->rank), bytes = end_of(world, loop, world->rank) - at;
    if (!send_slices(world, loop) || !settle(world))
        return false;
    for (size_t piece = 0; piece < pieces_of(world, bytes); piece++) {
        size_t there = at + piece * world->rdma->piece_bytes,
               some = piece_bytes(world, bytes, piece);
        if (!fold_pieces(world, there, some, piece))
            return false;
        if (spreads(loop) &&
            !spread_piece(world, there, some, piece + 1 == pieces_of(world, bytes)))
            return false;
    }
    for (int i = 1; spreads(loop) && i < world->nranks; i++)
        if (!await_word(world, other_rank(world, i)))
            return false;
    return true;
}

bool bare_rdma_fits(const struct bare_pattern *pattern, int phases, size_t bytes)
{
    bool is_allreduce = pattern->result == BENCH_REDUCED && pattern->send == BENCH_ONE &&
                        pattern->recv == BENCH_ONE && !pattern->on_root;
    return is_allreduce && (phases == 2 || bytes <= ONE_PHASE_MAX);
}

kolo_status bare_rdma_explain(const struct bare_world *world, kolo_status status)
{
    const struct bare_rdma *rdma = world->rdma;
    if (status == KOLO_OK || !rdma || rdma->broke == IBV_WC_SUCCESS)
        return status;
    return kolo_fail(KOLO_ERR_LINK, "limits: a write by %s ended in status %d: %s",
                     rdma->device->name, (int)rdma->broke, kolo_rdma_status_text(rdma->broke));
}

static kolo_status timed(struct bare_world *world, const char *name, bare_step step, void *context,
                         int64_t time_ns, double *us_out)
{
    return bare_rdma_explain(world, bare_time(world, name, step, context, time_ns, us_out));
}

void bare_rdma_run(const struct bare_pattern *pattern, int phases, size_t bytes,
                   struct bare_run *run_out)
{
    *run_out =
        (struct bare_run){.name = pattern->name,
                          .step = allreduce_step,
                          .loop = {.pattern = pattern, .phases = phases, .count = bytes / ELEMENT}};
}

/* ---- between rank 0 and another ---- */

struct couple {
    int other;
    bool both; /* at once */
    size_t bytes, writes;
};

static bool is_in(const struct bare_world *world, const struct couple *couple)
{
    return world->rank == 0 || world->rank == couple->other;
}

static bool write_step(struct bare_world *world, void *context)
{
    const struct couple *couple = context;
    struct bare_rdma *rdma = world->rdma;
    int to = world->rank == 0 ? couple->other : 0;
    if (!is_in(world, couple) || (!couple->both && world->rank != 0))
        return true;
    for (size_t i = 1; i <= couple->writes; i++) {
        struct ibv_sge part =
            part_of(rdma->memory + source_at(world), couple->bytes, rdma->memory_region);
        struct ibv_send_wr write = {.sg_list = &part, .num_sge = 1};
        address(&write, rdma->places[to].memory, slot_at(world, 0, 0), rdma->places[to].memory_key);
        if (!post(world, to, &write, NULL, i == couple->writes))
            return false;
    }
    return drain(world, to, 0);
}

kolo_status bare_rdma_write_time(struct bare_world *world, int other, bool both, size_t bytes,
                                 int64_t time_ns, double *us_out)
{
    struct couple couple = {other, both, bytes, STREAM_BYTES / bytes};
    couple.writes = couple.writes < STREAM_WRITES_MIN   ? STREAM_WRITES_MIN
                    : couple.writes > STREAM_WRITES_MAX ? STREAM_WRITES_MAX
                                                        : couple.writes;
    kolo_status status = timed(world, "rdma writes", write_step, &couple, time_ns, us_out);
    if (status == KOLO_OK)
        *us_out /= (double)couple.writes;
    return status;
}

static bool word_step(struct bare_world *world, void *context)
{
    const struct couple *couple = context;
    int to = world->rank == 0 ? couple->other : 0;
    if (!is_in(world, couple))
        return true;
    if (couple->both || world->rank == 0)
        return send_word(world, to, NULL) && await_word(world, to);
    return await_word(world, to) && send_word(world, to, NULL);
}

kolo_status bare_rdma_word_time(struct bare_world *world, int other, bool both, int64_t time_ns,
                                double *us_out)
{
    struct couple couple = {.other = other, .both = both};
    kolo_status status = timed(world, "rdma words", word_step, &couple, time_ns, us_out);
    if (status == KOLO_OK && !both)
        *us_out /= 2;
    return status;
}

size_t bare_rdma_write_bytes_max(const struct bare_world *world)
{
    return world->rdma->write_bytes;
}

/* ---- opening ---- */

static kolo_status make_memory(struct bare_world *world, struct bare_rdma *rdma)
{
    const int writable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    size_t slice = world->vector_bytes / (size_t)world->nranks + ELEMENT;
    size_t whole = world->vector_bytes < ONE_PHASE_MAX ? world->vector_bytes : ONE_PHASE_MAX;
    size_t longest = slice > whole ? slice : whole;
    kolo_status status;
    rdma->piece_bytes =
        longest < PIECE_BYTES ? (longest + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES : PIECE_BYTES;
    rdma->slot_bytes = pieces_of(world, longest) * (rdma->piece_bytes + WORD_BYTES);
    rdma->memory = kolo_aligned(4096, memory_bytes(world));
    if (!rdma->memory)
        return KOLO_ERR_NO_MEMORY;
    memset(rdma->memory, 0, memory_bytes(world));
    KOLO_TRY(kolo_rdma_register(rdma->device, rdma->memory, memory_bytes(world), writable,
                                &rdma->memory_region));
    KOLO_TRY(kolo_rdma_register(rdma->device, world->user_send, world->vector_bytes, 0,
                                &rdma->send_region));
    KOLO_TRY(kolo_rdma_register(rdma->device, world->user_recv, world->vector_bytes, writable,
                                &rdma->recv_region));
out:
    return status;
}

static struct ibv_qp *make_pair(struct bare_rdma *rdma)
{
    struct ibv_qp_init_attr attr = {.send_cq = rdma->queue,
                                    .recv_cq = rdma->queue,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = DEPTH,
                                            .max_recv_wr = 1,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 1,
                                            .max_inline_data = rdma->inline_bytes}};
    return rdma->device->verbs->create_qp(rdma->device->domain, &attr);
}

static kolo_status make_pairs(struct bare_world *world, struct bare_rdma *rdma)
{
    const struct kolo_verbs *verbs = rdma->device->verbs;
    int entries = DEPTH * world->nranks;
    rdma->queue = verbs->create_cq(rdma->device->context, entries, NULL, NULL, 0);
    if (!rdma->queue)
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "a completion queue of %d entries",
                               entries);
    rdma->inline_bytes = INLINE_BYTES;
    for (int rank = 0; rank < world->nranks; rank++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                                   .port_num = rdma->device->port,
                                   .qp_access_flags =
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
        struct ibv_qp *pair = make_pair(rdma);
        if (!pair && rdma->inline_bytes && rank == 0) { /* it may inline less */
            rdma->inline_bytes = 0;
            pair = make_pair(rdma);
        }
        rdma->lanes[rank].pair = pair;
        if (!pair || verbs->modify_qp(pair, &attr,
                                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                          IBV_QP_ACCESS_FLAGS) != 0)
            return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, errno, "a queue pair for rank %d", rank);
    }
    return KOLO_OK;
}

static kolo_status prepare(struct bare_world *world, const struct kolo_settings *settings,
                           struct place *place)
{
    struct bare_rdma *rdma = world->rdma;
    const struct kolo_verbs *verbs;
    kolo_status status;
    KOLO_TRY(kolo_verbs_load(&verbs));
    KOLO_TRY(kolo_rdma_device_open(
        verbs, settings, settings->numa_node >= 0 ? (int)settings->numa_node : kolo_local_numa(),
        &rdma->device));
    KOLO_TRY(make_memory(world, rdma));
    KOLO_TRY(make_pairs(world, rdma));
    *place = (struct place){.has_port = true,
                            .gids = rdma->device->gids,
                            .mtu = (uint8_t)rdma->device->mtu,
                            .lid = rdma->device->lid,
                            .inline_bytes = rdma->inline_bytes,
                            .write_bytes = rdma->device->message_bytes_max,
                            .memory = (uintptr_t)rdma->memory,
                            .recv = (uintptr_t)world->user_recv,
                            .memory_key = rdma->memory_region->rkey,
                            .recv_key = rdma->recv_region->rkey};
    for (int rank = 0; rank < world->nranks; rank++)
        place->pairs[rank] = rdma->lanes[rank].pair->qp_num;
out:
    return status;
}

static kolo_status join(struct bare_world *world, int rank)
{
    struct bare_rdma *rdma = world->rdma;
    const struct kolo_verbs *verbs = rdma->device->verbs;
    const struct place *theirs = &rdma->places[rank];
    size_t ours = 0, other = 0;
    struct kolo_why why = {""};
    if (!kolo_rdma_gids_join(&rdma->device->gids, &theirs->gids, &ours, &other, &why))
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "to rank %d: %s", rank, why.text);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = theirs->mtu < rdma->device->mtu ? (enum ibv_mtu)theirs->mtu : rdma->device->mtu,
        .dest_qp_num = theirs->pairs[world->rank],
        .max_dest_rd_atomic = 1,
        .ah_attr = {.port_num = rdma->device->port,
                    .dlid = theirs->lid,
                    .is_global = rdma->device->is_ethernet,
                    .grh = {.sgid_index = rdma->device->gids.all[ours].index, .hop_limit = HOPS}}};
    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gids.all[other].bytes, KOLO_RDMA_GID_BYTES);
    int error =
        verbs->modify_qp(rdma->lanes[rank].pair, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = rdma->device->patience.timeout,
                                .retry_cnt = rdma->device->patience.retries,
                                .rnr_retry = RETRIES,
                                .max_rd_atomic = 1};
    if (error == 0)
        error = verbs->modify_qp(rdma->lanes[rank].pair, &attr,
                                 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    return error == 0 ? KOLO_OK
                      : kolo_fail_errno(KOLO_ERR_LINK, error, "to rank %d: a queue pair", rank);
}

/* Every rank sends each other a word. */
static kolo_status try_all(struct bare_world *world)
{
    world->deadline = kolo_deadline_in_ms(TRIAL_MS);
    for (int i = 1; i < world->nranks; i++)
        if (!send_word(world, other_rank(world, i), NULL))
            return kolo_fail(KOLO_ERR_LINK, "to rank %d: the first write failed",
                             other_rank(world, i));
    for (int i = 1; i < world->nranks; i++)
        if (!await_word(world, other_rank(world, i)))
            return kolo_fail(KOLO_ERR_LINK, "nothing came from rank %d within %d s",
                             other_rank(world, i), TRIAL_MS / 1000);
    return KOLO_OK;
}

/* All ranks agree on the result: the first reason, with its rank. */
static kolo_status agree(struct bare_world *world, struct place *own, kolo_status went,
                         char text_out[BARE_WHY_BYTES], bool *all_out)
{
    struct bare_rdma *rdma = world->rdma;
    own->has_port = went == KOLO_OK;
    if (went != KOLO_OK)
        snprintf(own->why, sizeof own->why, "%.250s", kolo_error_detail());
    kolo_status status =
        kolo_allgather(world->comm, own, rdma->places, sizeof *own, KOLO_UINT8, NULL, NULL);
    *all_out = status == KOLO_OK;
    for (int rank = 0; *all_out && rank < world->nranks; rank++) {
        if (rdma->places[rank].has_port)
            continue;
        snprintf(text_out, BARE_WHY_BYTES, "rank %d: %.240s", rank, rdma->places[rank].why);
        *all_out = false;
    }
    return status;
}

static void find_least(struct bare_world *world)
{
    struct bare_rdma *rdma = world->rdma;
    rdma->write_bytes = BARE_WRITE_BYTES_MAX;
    for (int rank = 0; rank < world->nranks; rank++)
        if (rdma->places[rank].write_bytes < rdma->write_bytes)
            rdma->write_bytes = rdma->places[rank].write_bytes;
}

kolo_status bare_rdma_open(struct bare_world *world, const struct kolo_settings *settings,
                           char text_out[BARE_WHY_BYTES])
{
    struct place own = {.has_port = false};
    bool all;
    kolo_status status = KOLO_ERR_NO_MEMORY, went;
    world->rdma = kolo_calloc(1, sizeof *world->rdma);
    if (world->rdma)
        world->rdma->places = kolo_calloc((size_t)world->nranks, sizeof *world->rdma->places);
    if (!world->rdma || !world->rdma->places)
        goto out;
    went = prepare(world, settings, &own);
    KOLO_TRY(agree(world, &own, went, text_out, &all));
    if (all) {
        find_least(world);
        for (int i = 1; went == KOLO_OK && i < world->nranks; i++)
            went = join(world, other_rank(world, i));
        KOLO_TRY(agree(world, &own, went, text_out, &all));
    }
    if (all)
        KOLO_TRY(agree(world, &own, try_all(world), text_out, &all));
    if (all)
        kolo_rdma_device_format(world->rdma->device, text_out);
    else
        bare_rdma_close(world);
out:
    if (status != KOLO_OK)
        bare_rdma_close(world);
    return status;
}

void bare_rdma_close(struct bare_world *world)
{
    struct bare_rdma *rdma = world->rdma;
    if (!rdma)
        return;
    const struct kolo_verbs *verbs = rdma->device ? rdma->device->verbs : NULL;
    struct ibv_mr *regions[] = {rdma->memory_region, rdma->send_region, rdma->recv_region};
    for (int rank = 0; rank < world->nranks; rank++)
        if (rdma->lanes[rank].pair)
            (void)verbs->destroy_qp(rdma->lanes[rank].pair);
    if (rdma->queue)
        (void)verbs->destroy_cq(rdma->queue);
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
        if (regions[i])
            (void)verbs->dereg_mr(regions[i]);
    kolo_rdma_device_close(rdma->device);
    kolo_free_memory(rdma->memory);
    kolo_free_memory(rdma->places);
    kolo_free_memory(rdma);
    world->rdma = NULL;
}
