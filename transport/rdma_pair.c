// SPDX-License-Identifier: Apache-2.0
// Takes a queue pair of verbs through its states: RESET (made), INIT (receives may be posted), RTR
// and RTS (joined to the peer's), ERR (cut), destroyed. Must never post to it; that is done in
// rdma_queue.c.
#include "transport/rdma_pair.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

enum {
    HOPS = 64,      /* the hop limit of RoCE packets, as IP's default */
    RNR_TIMER = 12, /* 0.64 ms in InfiniBand's code; not needed, since a receive is always ready */
    RNR_RETRIES = 6 /* 7 would mean for ever */
};

/** Makes a pair with that many inline bytes, or returns NULL. */
static struct ibv_qp *create(const struct kolo_rdma_completions *completions, uint32_t requests,
                             uint32_t parts, uint32_t inline_bytes)
{
    const struct kolo_rdma_device *device = completions->device;
    struct ibv_qp_init_attr attr = {
        .send_cq = completions->queue, .recv_cq = completions->queue, .qp_type = IBV_QPT_RC};
    attr.cap = (struct ibv_qp_cap){.max_send_wr = requests,
                                   .max_recv_wr = requests,
                                   .max_send_sge = parts,
                                   .max_recv_sge = 1,
                                   .max_inline_data = inline_bytes};
    errno = 0;
    return device->verbs->create_qp(device->domain, &attr);
}

kolo_status kolo_rdma_pair_make(const struct kolo_rdma_completions *completions, uint32_t requests,
                                uint32_t parts, struct ibv_qp **pair_out,
                                uint32_t *inline_bytes_out)
{
    /* No attribute tells how many bytes a device accepts inline: one that accepts fewer refuses to
     * make the pair. */
    static const uint32_t inline_bytes[] = {220, 96, 48, 0};
    for (size_t i = 0; i < sizeof inline_bytes / sizeof inline_bytes[0]; i++) {
        struct ibv_qp *pair = create(completions, requests, parts, inline_bytes[i]);
        if (!pair)
            continue;
        *pair_out = pair;
        *inline_bytes_out = inline_bytes[i];
        return KOLO_OK;
    }
    return kolo_fail_errno(
        KOLO_ERR_SYSTEM, errno, "rdma %s: a queue pair of %u requests cannot be made%s",
        completions->device->name, requests,
        errno == ENOMEM ? ", it has no room for more: other programs use it, or too many "
                          "ranks (KOLO_RDMA_DEVICE gives some another)"
                        : "");
}

static kolo_status modify(const struct kolo_rdma_device *device, struct ibv_qp *pair,
                          struct ibv_qp_attr *attr, int mask, const char *what)
{
    int error = device->verbs->modify_qp(pair, attr, mask | IBV_QP_STATE);
    return error == 0 ? KOLO_OK
                      : kolo_fail_errno(KOLO_ERR_LINK, error, "rdma %s: the queue pair cannot %s",
                                        device->name, what);
}

kolo_status kolo_rdma_pair_prepare(const struct kolo_rdma_device *device, struct ibv_qp *pair)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
                               .port_num = device->port};
    return modify(device, pair, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                  "be prepared");
}

static kolo_status to_receive(const struct kolo_rdma_device *device, struct ibv_qp *pair,
                              const struct kolo_rdma_gid *gid, const struct kolo_rdma_hello *theirs)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = theirs->mtu < device->mtu ? (enum ibv_mtu)theirs->mtu
                                                                     : device->mtu,
                               .dest_qp_num = theirs->pair,
                               .rq_psn = theirs->packet,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = RNR_TIMER};
    attr.ah_attr.port_num = device->port;
    attr.ah_attr.dlid = theirs->lid;
    attr.ah_attr.is_global = device->is_ethernet;
    attr.ah_attr.grh.sgid_index = gid->index;
    attr.ah_attr.grh.hop_limit = HOPS;
    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid.bytes, sizeof attr.ah_attr.grh.dgid.raw);
    return modify(device, pair, &attr,
                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                  "be joined to its peer's");
}

static kolo_status to_send(const struct kolo_rdma_device *device, struct ibv_qp *pair,
                           uint32_t packet)
{
    const struct kolo_rdma_patience *patience = &device->patience;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = packet,
                               .timeout = patience->timeout,
                               .retry_cnt = patience->retries,
                               .rnr_retry = RNR_RETRIES,
                               .max_rd_atomic = 1};
    return modify(device, pair, &attr,
                  IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC,
                  "begin to send");
}

kolo_status kolo_rdma_pair_join(const struct kolo_rdma_device *device, struct ibv_qp *pair,
                                uint32_t packet, const struct kolo_rdma_gid *gid,
                                const struct kolo_rdma_hello *theirs)
{
    kolo_status status = to_receive(device, pair, gid, theirs);
    return status == KOLO_OK ? to_send(device, pair, packet) : status;
}

kolo_status kolo_rdma_pair_cut(const struct kolo_rdma_device *device, struct ibv_qp *pair)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int error = device->verbs->modify_qp(pair, &attr, IBV_QP_STATE);
    return error == 0
               ? KOLO_OK
               : kolo_fail_errno(KOLO_ERR_LINK, error,
                                 "rdma %s: a broken queue pair cannot be stopped", device->name);
}

bool kolo_rdma_pair_destroy(const struct kolo_rdma_device *device, struct ibv_qp *pair)
{
    int error = pair ? device->verbs->destroy_qp(pair) : 0;
    if (error == 0 || device->is_gone)
        return true;
    KOLO_WARN("rdma %s: a queue pair cannot be destroyed: %s", device->name, strerror(error));
    return false;
}
