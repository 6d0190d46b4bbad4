// SPDX-License-Identifier: Apache-2.0
// Loads libibverbs when the program runs, and owns the process's only table of its functions. Must
// never be linked against the library.
#include "transport/rdma_verbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define DEVICES "/sys/class/infiniband"
#define LIBRARY "libibverbs.so.1" /* there without the development package, too */

/** Where each function goes in the table. Pointers to functions are stored by memcpy, since C has
 *  no cast for them. */
static const struct symbol {
    const char *name;
    size_t offset;
    bool may_lack;
} symbols[] = {
#define SYMBOL(field, symbol) {#symbol, offsetof(struct kolo_verbs, field), false},
    KOLO_VERBS_MAP(SYMBOL)
#undef SYMBOL
        {"ibv_query_port", offsetof(struct kolo_verbs, query_port_old), false},
    {"ibv_reg_dmabuf_mr", offsetof(struct kolo_verbs, reg_dmabuf_mr), true},
};

/** Current drivers fill in all of @p attributes_out; the library's own function fills in only the
 *  part that existed at first. */
static int query_port(const struct kolo_verbs *verbs, struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attributes_out)
{
    struct verbs_context *driver = __extension__ verbs_get_ctx_op(context, query_port);
    memset(attributes_out, 0, sizeof *attributes_out);
    if (driver)
        return driver->query_port(context, port, attributes_out, sizeof *attributes_out);
    return verbs->query_port_old(context, port, (struct _compat_ibv_port_attr *)attributes_out);
}

static int post_send(struct ibv_qp *pair, struct ibv_send_wr *first, struct ibv_send_wr **bad_out)
{
    return ibv_post_send(pair, first, bad_out);
}

static int post_recv(struct ibv_qp *pair, struct ibv_recv_wr *first, struct ibv_recv_wr **bad_out)
{
    return ibv_post_recv(pair, first, bad_out);
}

static int poll_cq(struct ibv_cq *queue, int max, struct ibv_wc *completions_out)
{
    return ibv_poll_cq(queue, max, completions_out);
}

static int req_notify_cq(struct ibv_cq *queue, int solicited_only)
{
    return ibv_req_notify_cq(queue, solicited_only);
}

kolo_status kolo_verbs_bind(const char *library, struct kolo_verbs *verbs_out)
{
    struct kolo_verbs verbs = {.query_port = query_port,
                               .post_send = post_send,
                               .post_recv = post_recv,
                               .poll_cq = poll_cq,
                               .req_notify_cq = req_notify_cq};
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "%s cannot be loaded (%s); install the packages libibverbs1 and "
                         "ibverbs-providers (rdma-core)",
                         library, dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *function = dlsym(handle, symbols[i].name);
        if (!function && !symbols[i].may_lack) {
            (void)dlclose(handle);
            return kolo_fail(KOLO_ERR_UNSUPPORTED,
                             "%s has no %s: install libibverbs1 of rdma-core 32 or newer", library,
                             symbols[i].name);
        }
        memcpy((char *)&verbs + symbols[i].offset, &function, sizeof function);
    }
    *verbs_out = verbs;
    return KOLO_OK;
}

/* ---- the process's table ---- */

static struct {
    pthread_once_t once;
    struct kolo_verbs verbs;
    kolo_status status;
    char detail[256];
    const struct kolo_verbs *_Atomic replacement;
} loaded = {.once = PTHREAD_ONCE_INIT};

/** A forked child must not share the memory that a device writes to. This must be set before
 *  anything is registered. */
static void allow_fork(const struct kolo_verbs *verbs)
{
    char words[64];
    int error = verbs->fork_init();
    if (error != 0)
        KOLO_WARN("ibv_fork_init: %s: a program that forks may hang over RDMA; KOLO_TRANSPORT=tcp "
                  "goes without",
                  strerror_r(error, words, sizeof words));
}

static void load(void)
{
    loaded.status = kolo_verbs_bind(LIBRARY, &loaded.verbs);
    if (loaded.status != KOLO_OK)
        snprintf(loaded.detail, sizeof loaded.detail, "%s", kolo_error_detail());
    else
        allow_fork(&loaded.verbs);
}

kolo_status kolo_verbs_load(const struct kolo_verbs **verbs_out)
{
    const struct kolo_verbs *replacement = atomic_load(&loaded.replacement);
    if (replacement) {
        *verbs_out = replacement;
        return KOLO_OK;
    }
    if (access(DEVICES, F_OK) != 0) /* most machines: they should not pay for loading the library */
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "no RDMA device on this host (there is no " DEVICES
                                               "); if it has a card, is the card's kernel module "
                                               "loaded?");
    (void)pthread_once(&loaded.once, load);
    if (loaded.status != KOLO_OK)
        return kolo_fail(loaded.status, "%s", loaded.detail);
    *verbs_out = &loaded.verbs;
    return KOLO_OK;
}

void kolo_verbs_replace(const struct kolo_verbs *verbs)
{
    atomic_store(&loaded.replacement, verbs);
}
