// SPDX-License-Identifier: Apache-2.0
// libibverbs as a table of functions that is filled at run time, so that a machine without the
// library can run the same build. All RDMA files call through such a table and never call
// libibverbs by name, which lets a test replace it by a device of its own
// (tests/support/fake_verbs.h).
//
// Compiled only if <infiniband/verbs.h> exists (cmake/KoloBackends.cmake).
#ifndef KOLO_TRANSPORT_RDMA_VERBS_H
#define KOLO_TRANSPORT_RDMA_VERBS_H

#include <infiniband/verbs.h>

#include "base/status.h"

/** X(field, symbol): what libibverbs exports. Semantics and errors are those of its manual. */
#define KOLO_VERBS_MAP(X)                                                                          \
    X(fork_init, ibv_fork_init)                                                                    \
    X(get_device_list, ibv_get_device_list)                                                        \
    X(free_device_list, ibv_free_device_list)                                                      \
    X(get_device_name, ibv_get_device_name)                                                        \
    X(open_device, ibv_open_device)                                                                \
    X(close_device, ibv_close_device)                                                              \
    X(query_device, ibv_query_device)                                                              \
    X(query_gid_table, _ibv_query_gid_table)                                                       \
    X(get_async_event, ibv_get_async_event)                                                        \
    X(ack_async_event, ibv_ack_async_event)                                                        \
    X(alloc_pd, ibv_alloc_pd)                                                                      \
    X(dealloc_pd, ibv_dealloc_pd)                                                                  \
    X(reg_mr, ibv_reg_mr)                                                                          \
    X(dereg_mr, ibv_dereg_mr)                                                                      \
    X(create_comp_channel, ibv_create_comp_channel)                                                \
    X(destroy_comp_channel, ibv_destroy_comp_channel)                                              \
    X(create_cq, ibv_create_cq)                                                                    \
    X(destroy_cq, ibv_destroy_cq)                                                                  \
    X(get_cq_event, ibv_get_cq_event)                                                              \
    X(ack_cq_events, ibv_ack_cq_events)                                                            \
    X(create_qp, ibv_create_qp)                                                                    \
    X(modify_qp, ibv_modify_qp)                                                                    \
    X(destroy_qp, ibv_destroy_qp)

struct kolo_verbs {
#define KOLO_VERBS_FIELD(field, symbol) __typeof__(symbol) *field;
    KOLO_VERBS_MAP(KOLO_VERBS_FIELD)
#undef KOLO_VERBS_FIELD
    /* Missing in libraries (and headers) before rdma-core 34; then NULL. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *domain, uint64_t offset, size_t bytes,
                                    uint64_t address, int fd, int access);
    /* What <infiniband/verbs.h> has as macros, or as inline calls of the driver. */
    __typeof__(ibv_query_port) *query_port_old; /* used by query_port only */
    int (*query_port)(const struct kolo_verbs *verbs, struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attributes_out);
    int (*post_send)(struct ibv_qp *pair, struct ibv_send_wr *first, struct ibv_send_wr **bad_out);
    int (*post_recv)(struct ibv_qp *pair, struct ibv_recv_wr *first, struct ibv_recv_wr **bad_out);
    int (*poll_cq)(struct ibv_cq *queue, int max, struct ibv_wc *completions_out);
    int (*req_notify_cq)(struct ibv_cq *queue, int solicited_only);
};

/** Fills the table from @p library. ERR_UNSUPPORTED: it cannot be loaded, or lacks a function; the
 *  detail says which, and what to install. The library stays loaded. */
kolo_status kolo_verbs_bind(const char *library, struct kolo_verbs *verbs_out) KOLO_NODISCARD;

/** The table of libibverbs.so.1, loaded once per process, if the kernel has RDMA devices; otherwise
 *  also ERR_UNSUPPORTED. Threads: any. */
kolo_status kolo_verbs_load(const struct kolo_verbs **verbs_out) KOLO_NODISCARD;

/** For tests: kolo_verbs_load returns @p verbs from now on; NULL: libibverbs again. */
void kolo_verbs_replace(const struct kolo_verbs *verbs);

#endif
