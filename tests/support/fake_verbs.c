// SPDX-License-Identifier: Apache-2.0
// See fake_verbs.h: a world of devices, regions, queues and queue pairs behind one lock.
#include "tests/support/fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    QUEUE_MAX = 1024,
    PARTS_MAX = 4,
    INLINE_MAX = 256,
    PAIRS_MAX = 64,
    REGIONS_MAX = 4096,
    EVENTS_MAX = 16,
    KEPT_MAX = 8
};

struct region {
    struct ibv_mr base;
    int access;
    /* a second mapping of shared memory: the pages that the device has pinned, wherever the
     * program's addresses lead later */
    uint8_t *pages;
    size_t page_bytes;
    bool is_kept; /* destroying it failed */
};
struct domain {
    struct ibv_pd base;
    bool is_kept;
};
/** An object that a failed call did not destroy. */
struct kept {
    const struct ibv_context *context; /* NULL: none */
    const struct ibv_comp_channel
        *channel; /* the channel of a queue; NULL: it has none, or is something else */
    void *object;
};
struct channel {
    struct ibv_comp_channel base;
    struct ibv_cq *told[QUEUE_MAX];
    unsigned first, count;
};
struct queue {
    struct ibv_cq base;
    struct ibv_wc entries[QUEUE_MAX];
    unsigned first, count;
    bool is_kept; /* it was to be destroyed while a queue pair used it */
    unsigned unacknowledged;
    bool is_armed, swaps_next;
};
struct request {
    struct ibv_send_wr wr;
    struct ibv_sge parts[PARTS_MAX];
    uint8_t inlined[INLINE_MAX];
    int delay;
    bool is_counted, is_lost, is_flipped, has_wrong_number;
    int not_ready;
    enum ibv_wc_status lost_as;
};
struct receive {
    uint64_t wr_id;
    struct ibv_sge parts[PARTS_MAX];
    int part_count;
};
struct pair {
    struct ibv_qp base;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr;
    bool is_kept; /* destroying it failed */
    bool signals_all;
    int access;
    struct request requests[QUEUE_MAX];
    unsigned first, count;                  /* requests that are to be executed */
    uint64_t posted, freed, ids[QUEUE_MAX]; /* ids: the wr_id of each request, by number */
    struct receive receives[QUEUE_MAX];
    unsigned receive_first, receive_count;
};
struct context {
    struct ibv_context base;
    struct fake_device *device;
    struct ibv_async_event events[EVENTS_MAX];
    unsigned first, count;
};

static struct {
    pthread_mutex_t lock;
    struct fake_device devices[FAKE_DEVICES_MAX];
    int device_count;
    struct pair *pairs[PAIRS_MAX];
    struct region *regions[REGIONS_MAX];
    struct context *contexts[PAIRS_MAX];
    struct kept kept[KEPT_MAX];
    int living, registered, not_ready, polls, asked_news, sends_done, sends_told;
    size_t written, lent;
    struct {
        const char *function;
        int nth, error;
    } fault;
    bool is_cut;
    size_t most; /* the longest request that gets through, in bytes */
    int fail_in, lose_in, delay_in, delay, duplicate_in, swap_in, flip_in, flipped;
    size_t flip_least;
    ptrdiff_t flip_at;
    enum ibv_wr_opcode number_of;
    int number_in;
    uint32_t number_bits;
    enum ibv_wc_status fail_as;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&world.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&world.lock);
}

/** True once, at the nth call. */
static bool due(int *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

/** Whether this call of @p function fails; errno is then set. */
static bool fails(const char *function)
{
    if (!world.fault.function || strcmp(world.fault.function, function) != 0 ||
        !due(&world.fault.nth))
        return false;
    errno = world.fault.error;
    return true;
}

static void *make(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    world.living++;
    return memory;
}

static void drop(void *memory)
{
    world.living--;
    free(memory);
}

/* ---- devices ---- */

static int fork_init(void)
{
    return 0;
}

static struct ibv_device **get_device_list(int *count_out)
{
    struct ibv_device **list = NULL;
    lock();
    if (!fails("get_device_list")) {
        list = calloc((size_t)world.device_count + 1, sizeof *list);
        for (int i = 0; list && i < world.device_count; i++)
            list[i] = &world.devices[i].base;
        *count_out = world.device_count;
    }
    unlock();
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_context *open_device(struct ibv_device *base)
{
    struct fake_device *device = (struct fake_device *)base;
    struct context *context = NULL;
    lock();
    if (device->open_error != 0)
        errno = device->open_error;
    else if (!fails("open_device")) {
        context = make(sizeof *context);
        context->device = device;
        context->base.device = base;
        context->base.num_comp_vectors = 1;
        context->base.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
        for (int i = 0; i < PAIRS_MAX; i++)
            if (!world.contexts[i]) {
                world.contexts[i] = context;
                break;
            }
    }
    unlock();
    return context ? &context->base : NULL;
}

/** Whether the domain has regions. */
static bool is_used(const struct ibv_pd *domain)
{
    for (int i = 0; i < REGIONS_MAX; i++)
        if (world.regions[i] && world.regions[i]->base.pd == domain)
            return true;
    return false;
}

static void drop_region(struct region *region)
{
    for (int i = 0; i < REGIONS_MAX; i++)
        if (world.regions[i] == region)
            world.regions[i] = NULL;
    if (region->pages)
        munmap(region->pages, region->page_bytes);
    drop(region);
}

/** As in the kernel: objects that could not be destroyed end with their context. */
static void drop_kept(const struct ibv_context *context)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = world.pairs[i];
        if (!pair || !pair->is_kept || pair->base.context != context)
            continue;
        struct queue *queue = (struct queue *)pair->base.send_cq; /* used for receives too */
        world.pairs[i] = NULL;
        drop(pair);
        if (queue->is_kept)
            drop(queue);
    }
    for (int i = 0; i < REGIONS_MAX; i++) {
        struct region *region = world.regions[i];
        if (!region || !region->is_kept || region->base.context != context)
            continue;
        struct domain *domain = (struct domain *)region->base.pd;
        drop_region(region);
        if (domain->is_kept && !is_used(&domain->base))
            drop(domain);
    }
    for (int i = 0; i < KEPT_MAX; i++)
        if (world.kept[i].context == context) {
            drop(world.kept[i].object);
            world.kept[i] = (struct kept){.context = NULL};
        }
}

static void keep(struct kept kept)
{
    int at = 0;
    while (at < KEPT_MAX && world.kept[at].context)
        at++;
    if (at == KEPT_MAX)
        abort();
    world.kept[at] = kept;
}

static int close_device(struct ibv_context *context)
{
    lock();
    if (fails("close_device")) {
        unlock();
        return -1; /* as the real function does, with errno */
    }
    for (int i = 0; i < PAIRS_MAX; i++)
        if (world.contexts[i] == (struct context *)context)
            world.contexts[i] = NULL;
    drop_kept(context);
    close(context->async_fd);
    drop(context);
    unlock();
    return 0;
}

static struct fake_device *device_of(struct ibv_context *context)
{
    return ((struct context *)context)->device;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr_out)
{
    int error = 0;
    lock();
    if (fails("query_device"))
        error = errno;
    else
        *attr_out = device_of(context)->attr;
    unlock();
    return error;
}

static int query_port(const struct kolo_verbs *verbs, struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attr_out)
{
    int error = 0;
    (void)verbs;
    lock();
    if (fails("query_port"))
        error = errno;
    else if (port < 1 || port > device_of(context)->attr.phys_port_cnt)
        error = EINVAL;
    else
        *attr_out = device_of(context)->ports[port - 1].attr;
    unlock();
    return error;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t max, uint32_t flags, size_t entry_bytes)
{
    ssize_t count = 0;
    lock();
    const struct fake_device *device = device_of(context);
    if (fails("query_gid_table"))
        count = -errno;
    else if (flags != 0 || entry_bytes != sizeof *entries)
        count = -EINVAL;
    for (int port = 0; count >= 0 && port < device->attr.phys_port_cnt; port++)
        for (int i = 0; i < device->ports[port].gid_count; i++) {
            if ((size_t)count == max) {
                unlock();
                return -ENOMEM;
            }
            entries[count] = device->ports[port].gids[i];
            entries[count].port_num = (uint32_t)port + 1;
            entries[count++].gid_index = (uint32_t)i;
        }
    unlock();
    return count;
}

static int get_async_event(struct ibv_context *base, struct ibv_async_event *event_out)
{
    struct context *context = (struct context *)base;
    uint64_t one;
    lock();
    world.asked_news++;
    const bool is_broken = fails("get_async_event");
    unlock();
    if (is_broken || read(base->async_fd, &one, sizeof one) != (ssize_t)sizeof one)
        return -1;
    lock();
    const bool is_over = context->count == 0; /* no more events come from a device that is gone */
    if (is_over) {
        errno = EIO;
    } else {
        *event_out = context->events[context->first++ % EVENTS_MAX];
        context->count--;
    }
    unlock();
    return is_over ? -1 : 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/* held: lock */
static void tell(struct fake_device *device, enum ibv_event_type type, int port)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        struct context *context = world.contexts[i];
        const uint64_t one = 1;
        if (!context || context->device != device || context->count == EVENTS_MAX)
            continue;
        struct ibv_async_event *event =
            &context->events[(context->first + context->count++) % EVENTS_MAX];
        *event = (struct ibv_async_event){.event_type = type, .element.port_num = port};
        if (write(context->base.async_fd, &one, sizeof one) != (ssize_t)sizeof one)
            abort();
    }
}

/* ---- memory ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct domain *domain = NULL;
    lock();
    if (!fails("alloc_pd")) {
        domain = make(sizeof *domain);
        domain->base.context = context;
    }
    unlock();
    return domain ? &domain->base : NULL;
}

static int dealloc_pd(struct ibv_pd *domain)
{
    lock();
    const bool is_kept = is_used(domain), has_failed = !is_kept && fails("dealloc_pd");
    ((struct domain *)domain)->is_kept = is_kept;
    if (has_failed)
        keep((struct kept){.context = domain->context, .object = domain});
    else if (!is_kept)
        drop(domain);
    unlock();
    return is_kept || has_failed ? EBUSY : 0;
}

static uintptr_t page_of(const void *address)
{
    return (uintptr_t)address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/** Maps the pages a second time, which is possible only for shared memory. */
static void pin(struct region *region)
{
    const uintptr_t start = page_of(region->base.addr);
    region->page_bytes = (uintptr_t)region->base.addr - start + region->base.length;
    void *pages = mremap((void *)start, 0, region->page_bytes, MREMAP_MAYMOVE);
    region->pages = pages == MAP_FAILED ? NULL : pages;
}

/** Where the device finds @p address in the region with that key. */
static uint8_t *reach(uint32_t lkey, uint64_t address)
{
    const struct region *region = world.regions[lkey % REGIONS_MAX];
    if (!region || !region->pages)
        return (uint8_t *)(uintptr_t)address;
    return region->pages + (address - page_of(region->base.addr));
}

/** For a dma-buf: the pages that it refers to, wherever the program has mapped them. */
static void pin_file(struct region *region, int fd, uint64_t offset)
{
    region->page_bytes = region->base.length;
    void *pages =
        mmap(NULL, region->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (pages == MAP_FAILED)
        abort();
    region->pages = pages;
}

/* held: lock */
static struct region *make_region(struct ibv_pd *domain, void *memory, size_t bytes, int access)
{
    struct region *region = NULL;
    int slot = 0;
    while (slot < REGIONS_MAX && world.regions[slot])
        slot++;
    if (slot == REGIONS_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    uint32_t key = (uint32_t)(++world.registered * REGIONS_MAX + slot);
    region = make(sizeof *region);
    region->base = (struct ibv_mr){.context = domain->context,
                                   .pd = domain,
                                   .addr = memory,
                                   .length = bytes,
                                   .lkey = key,
                                   .rkey = key ^ 0x80000000u};
    region->access = access;
    world.regions[slot] = region;
    return region;
}

static struct ibv_mr *reg_mr(struct ibv_pd *domain, void *memory, size_t bytes, int access)
{
    struct region *region = NULL;
    lock();
    if (!fails("reg_mr"))
        region = make_region(domain, memory, bytes, access);
    if (region)
        pin(region);
    unlock();
    return region ? &region->base : NULL;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *domain, uint64_t offset, size_t bytes,
                                    uint64_t address, int fd, int access)
{
    struct region *region = NULL;
    lock();
    if (!fails("reg_dmabuf_mr"))
        region = make_region(domain, (void *)(uintptr_t)address, bytes, access);
    if (region)
        pin_file(region, fd, offset);
    unlock();
    return region ? &region->base : NULL;
}

static int dereg_mr(struct ibv_mr *base)
{
    int error = 0;
    lock();
    if (fails("dereg_mr")) {
        error = errno;
        ((struct region *)base)->is_kept = true;
    } else {
        drop_region((struct region *)base);
    }
    unlock();
    return error;
}

/** Whether the whole range is in the region with that key, and has that right. */
static bool may(const struct ibv_pd *domain, uint32_t lkey, uint64_t address, uint64_t bytes,
                int right)
{
    const struct region *region = world.regions[lkey % REGIONS_MAX];
    if (bytes == 0)
        return true;
    if (!region || region->base.lkey != lkey || region->base.pd != domain ||
        (region->access & right) != right)
        return false;
    const uint64_t start = (uintptr_t)region->base.addr;
    return address >= start && address - start <= region->base.length &&
           bytes <= region->base.length - (address - start);
}

/* ---- completion queues ---- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct channel *channel = NULL;
    lock();
    if (!fails("create_comp_channel")) {
        channel = make(sizeof *channel);
        channel->base.context = context;
        channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    }
    unlock();
    return channel ? &channel->base : NULL;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    bool is_used = false;
    lock();
    for (int i = 0; i < KEPT_MAX; i++)
        is_used |= world.kept[i].channel == channel;
    close(channel->fd);
    if (is_used)
        keep((struct kept){.context = channel->context, .object = channel});
    else
        drop(channel);
    unlock();
    return is_used ? EBUSY : 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int capacity, void *user,
                                struct ibv_comp_channel *channel, int vector)
{
    struct queue *queue = NULL;
    lock();
    if (capacity < 1 || capacity > QUEUE_MAX || vector != 0)
        errno = EINVAL;
    else if (!fails("create_cq")) {
        queue = make(sizeof *queue);
        queue->base = (struct ibv_cq){
            .context = context, .channel = channel, .cq_context = user, .cqe = capacity};
    }
    unlock();
    return queue ? &queue->base : NULL;
}

static int destroy_cq(struct ibv_cq *base)
{
    int error = 0;
    lock();
    for (int i = 0; i < PAIRS_MAX; i++)
        if (world.pairs[i] &&
            (world.pairs[i]->base.send_cq == base || world.pairs[i]->base.recv_cq == base)) {
            error = EBUSY;
            world.pairs[i]->base.state = IBV_QPS_ERR; /* nothing reaches it any more */
        }
    ((struct queue *)base)->is_kept = error != 0;
    if (((struct queue *)base)->unacknowledged > 0)
        error = EBUSY; /* the real function waits for ever */
    if (error == 0 && fails("destroy_cq")) {
        error = errno;
        keep((struct kept){.context = base->context, .channel = base->channel, .object = base});
        unlock();
        return error;
    }
    if (error == 0)
        drop(base);
    unlock();
    return error;
}

static int get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **queue_out, void **user_out)
{
    struct channel *channel = (struct channel *)base;
    uint64_t one;
    lock();
    const bool is_broken = fails("get_cq_event");
    unlock();
    if (is_broken || read(base->fd, &one, sizeof one) != (ssize_t)sizeof one)
        return -1;
    lock();
    *queue_out = channel->told[channel->first++ % QUEUE_MAX];
    channel->count--;
    *user_out = (*queue_out)->cq_context;
    ((struct queue *)*queue_out)->unacknowledged++;
    unlock();
    return 0;
}

static void ack_cq_events(struct ibv_cq *queue, unsigned int count)
{
    lock();
    ((struct queue *)queue)->unacknowledged -= count;
    unlock();
}

static int req_notify_cq(struct ibv_cq *queue, int solicited_only)
{
    int error = 0;
    lock();
    if (fails("req_notify_cq") || solicited_only)
        error = solicited_only ? EINVAL : errno;
    else
        ((struct queue *)queue)->is_armed = true;
    unlock();
    return error;
}

static void add(struct queue *queue, const struct ibv_wc *wc)
{
    struct channel *channel = (struct channel *)queue->base.channel;
    const uint64_t one = 1;
    if (queue->count == (unsigned)queue->base.cqe) { /* a real device would fail */
        fprintf(stderr, "fake_verbs: a completion queue of %d entries overflows\n",
                queue->base.cqe);
        abort();
    }
    queue->entries[(queue->first + queue->count++) % QUEUE_MAX] = *wc;
    if (queue->is_armed && channel) {
        queue->is_armed = false;
        channel->told[(channel->first + channel->count++) % QUEUE_MAX] = &queue->base;
        if (write(channel->base.fd, &one, sizeof one) != (ssize_t)sizeof one)
            abort();
    }
}

static void complete(struct ibv_cq *base, const struct ibv_wc *wc)
{
    struct queue *queue = (struct queue *)base;
    bool swaps = queue->swaps_next && queue->count > 0;
    add(queue, wc);
    if (swaps) {
        struct ibv_wc *last = &queue->entries[(queue->first + queue->count - 1) % QUEUE_MAX];
        struct ibv_wc *before = &queue->entries[(queue->first + queue->count - 2) % QUEUE_MAX];
        const struct ibv_wc kept = *last;
        *last = *before;
        *before = kept;
    }
    queue->swaps_next = due(&world.swap_in);
    if (due(&world.duplicate_in))
        add(queue, wc);
}

/** In a completion in error all fields except the four defined ones hold garbage. */
static struct ibv_wc in_error(const struct pair *pair, uint64_t wr_id, enum ibv_wc_status status)
{
    struct ibv_wc wc;
    memset(&wc, 0xa5, sizeof wc);
    wc.wr_id = wr_id;
    wc.status = status;
    wc.qp_num = pair->base.qp_num;
    wc.vendor_err = status == IBV_WC_WR_FLUSH_ERR ? 0 : 0x81;
    return wc;
}

/* ---- queue pairs ---- */

static void flush(struct pair *pair)
{
    for (; pair->count > 0; pair->count--, pair->first++) {
        const struct ibv_wc wc =
            in_error(pair, pair->requests[pair->first % QUEUE_MAX].wr.wr_id, IBV_WC_WR_FLUSH_ERR);
        complete(pair->base.send_cq, &wc);
    }
    for (; pair->receive_count > 0; pair->receive_count--, pair->receive_first++) {
        const struct ibv_wc wc = in_error(
            pair, pair->receives[pair->receive_first % QUEUE_MAX].wr_id, IBV_WC_WR_FLUSH_ERR);
        complete(pair->base.recv_cq, &wc);
    }
}

static void break_pair(struct pair *pair)
{
    pair->base.state = IBV_QPS_ERR;
    flush(pair);
}

static int count_pairs(const struct fake_device *device)
{
    int count = 0;
    for (int i = 0; i < PAIRS_MAX; i++)
        count += world.pairs[i] && device_of(world.pairs[i]->base.context) == device;
    return count;
}

static struct ibv_qp *create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *attr)
{
    struct pair *pair = NULL;
    int slot = 0;
    lock();
    while (slot < PAIRS_MAX && world.pairs[slot])
        slot++;
    if (slot == PAIRS_MAX || attr->cap.max_send_wr > QUEUE_MAX ||
        attr->cap.max_recv_wr > QUEUE_MAX || attr->cap.max_send_sge > PARTS_MAX ||
        attr->cap.max_recv_sge > PARTS_MAX ||
        attr->cap.max_inline_data > device_of(domain->context)->inline_most ||
        attr->qp_type != IBV_QPT_RC)
        errno = EINVAL;
    else if (count_pairs(device_of(domain->context)) >= device_of(domain->context)->attr.max_qp)
        errno = ENOMEM;
    else if (!fails("create_qp")) {
        pair = make(sizeof *pair);
        pair->base = (struct ibv_qp){.context = domain->context,
                                     .qp_context = attr->qp_context,
                                     .pd = domain,
                                     .send_cq = attr->send_cq,
                                     .recv_cq = attr->recv_cq,
                                     .qp_num = 0x100u + (uint32_t)slot,
                                     .state = IBV_QPS_RESET,
                                     .qp_type = IBV_QPT_RC};
        pair->cap = attr->cap;
        pair->signals_all = attr->sq_sig_all != 0;
        world.pairs[slot] = pair;
    }
    unlock();
    return pair ? &pair->base : NULL;
}

static int destroy_qp(struct ibv_qp *base)
{
    int error = 0;
    lock();
    if (fails("destroy_qp")) {
        error = errno;
        ((struct pair *)base)->is_kept = true;
    } else {
        for (int i = 0; i < PAIRS_MAX; i++)
            if (world.pairs[i] == (struct pair *)base)
                world.pairs[i] = NULL;
        drop(base);
    }
    unlock();
    return error;
}

static void carry_out(struct pair *pair);

/** The attributes that each transition of the state must set at least. */
static int needed(enum ibv_qp_state state)
{
    static const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    static const int to_receive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    static const int to_send = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                               IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (state == IBV_QPS_INIT)
        return init;
    return state == IBV_QPS_RTR ? to_receive : state == IBV_QPS_RTS ? to_send : IBV_QP_STATE;
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    struct pair *pair = (struct pair *)base;
    int error = 0;
    lock();
    bool is_next = attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET ||
                   (attr->qp_state <= IBV_QPS_RTS && attr->qp_state == base->state + 1);
    if (fails("modify_qp"))
        error = errno;
    else if (device_of(base->context)->is_removed)
        error = EIO;
    else if (!is_next || (mask & needed(attr->qp_state)) != needed(attr->qp_state))
        error = EINVAL;
    if (error == 0) {
        if (attr->qp_state == IBV_QPS_INIT)
            pair->access = attr->qp_access_flags;
        if (attr->qp_state == IBV_QPS_RTR)
            pair->attr = *attr;
        if (attr->qp_state == IBV_QPS_RTS) {
            pair->attr.rnr_retry = attr->rnr_retry;
            pair->attr.retry_cnt = attr->retry_cnt;
        }
        base->state = attr->qp_state;
        if (base->state == IBV_QPS_ERR)
            flush(pair);
    }
    unlock();
    return error;
}

static int check_send(const struct pair *pair, const struct ibv_send_wr *wr)
{
    size_t bytes = 0;
    for (int i = 0; i < wr->num_sge && i < PARTS_MAX; i++)
        bytes += wr->sg_list[i].length;
    if (device_of(pair->base.context)->is_removed)
        return EIO;
    if (pair->base.state != IBV_QPS_RTS && pair->base.state != IBV_QPS_ERR)
        return EINVAL;
    if (wr->num_sge > (int)pair->cap.max_send_sge ||
        ((wr->send_flags & IBV_SEND_INLINE) && bytes > pair->cap.max_inline_data))
        return EINVAL;
    return pair->posted - pair->freed >= pair->cap.max_send_wr ? ENOMEM : 0;
}

static void take_send(struct pair *pair, const struct ibv_send_wr *wr)
{
    struct request *request = &pair->requests[(pair->first + pair->count++) % QUEUE_MAX];
    size_t at = 0;
    *request = (struct request){.wr = *wr};
    for (int i = 0; i < wr->num_sge; i++) {
        request->parts[i] = wr->sg_list[i];
        world.lent += i > 0 ? wr->sg_list[i].length : 0;
        if (wr->send_flags & IBV_SEND_INLINE) {
            memcpy(request->inlined + at, (const void *)(uintptr_t)wr->sg_list[i].addr,
                   wr->sg_list[i].length);
            at += wr->sg_list[i].length;
        }
    }
    pair->ids[pair->posted++ % QUEUE_MAX] = wr->wr_id;
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad_out)
{
    struct pair *pair = (struct pair *)base;
    int error = 0;
    lock();
    for (; wr && error == 0; wr = error == 0 ? wr->next : wr) {
        error = fails("post_send") ? errno : check_send(pair, wr);
        if (error != 0)
            break;
        take_send(pair, wr);
        if (base->state == IBV_QPS_ERR)
            flush(pair);
        carry_out(pair);
    }
    if (error != 0)
        *bad_out = wr;
    unlock();
    return error;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_out)
{
    struct pair *pair = (struct pair *)base;
    int error = 0;
    lock();
    for (; wr; wr = wr->next) {
        struct fake_device *device = device_of(base->context);
        if (fails("post_recv"))
            error = errno;
        else if (device->refuse_in > 0 && --device->refuse_in == 0)
            error = EIO;
        else if (base->state == IBV_QPS_RESET || wr->num_sge > (int)pair->cap.max_recv_sge)
            error = EINVAL;
        else if (device->is_removed)
            error = EIO;
        else if (pair->receive_count >= pair->cap.max_recv_wr)
            error = ENOMEM;
        if (error != 0)
            break;
        struct receive *receive =
            &pair->receives[(pair->receive_first + pair->receive_count++) % QUEUE_MAX];
        *receive = (struct receive){.wr_id = wr->wr_id, .part_count = wr->num_sge};
        for (int i = 0; i < wr->num_sge; i++)
            receive->parts[i] = wr->sg_list[i];
        if (base->state == IBV_QPS_ERR)
            flush(pair);
    }
    if (error != 0)
        *bad_out = wr;
    unlock();
    return error;
}

/* ---- the wire ---- */

static struct pair *find_pair(uint32_t number)
{
    for (int i = 0; i < PAIRS_MAX; i++)
        if (world.pairs[i] && world.pairs[i]->base.qp_num == number)
            return world.pairs[i];
    return NULL;
}

/** Gathers the bytes of a request into one piece; false: a key or bound is wrong. */
static bool gather(const struct pair *pair, const struct request *request, uint8_t **bytes_out,
                   size_t *count_out)
{
    size_t count = 0, at = 0;
    for (int i = 0; i < request->wr.num_sge; i++) {
        const struct ibv_sge *part = &request->parts[i];
        count += part->length;
        if (!(request->wr.send_flags & IBV_SEND_INLINE) &&
            !may(pair->base.pd, part->lkey, part->addr, part->length, 0))
            return false;
    }
    uint8_t *bytes = malloc(count + 1);
    if (!bytes)
        abort();
    if (request->wr.send_flags & IBV_SEND_INLINE)
        memcpy(bytes, request->inlined, count);
    for (int i = 0; i < request->wr.num_sge && !(request->wr.send_flags & IBV_SEND_INLINE); i++) {
        memcpy(bytes + at, reach(request->parts[i].lkey, request->parts[i].addr),
               request->parts[i].length);
        at += request->parts[i].length;
    }
    *bytes_out = bytes;
    *count_out = count;
    return true;
}

/** Writes into the first receive; false: it is too short, or not registered. */
static bool scatter(const struct pair *to, const struct receive *receive, const uint8_t *bytes,
                    size_t count)
{
    for (int i = 0; i < receive->part_count && count > 0; i++) {
        const struct ibv_sge *part = &receive->parts[i];
        size_t here = count < part->length ? count : part->length;
        if (!may(to->base.pd, part->lkey, part->addr, here, IBV_ACCESS_LOCAL_WRITE))
            return false;
        memcpy(reach(part->lkey, part->addr), bytes, here);
        bytes += here;
        count -= here;
    }
    return count == 0;
}

static bool is_write(const struct request *request)
{
    return request->wr.opcode == IBV_WR_RDMA_WRITE ||
           request->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/** Delivers the request. Returns the sender's status; -1: the receiver is not ready. */
static int deliver(struct pair *to, const struct request *request, const uint8_t *bytes,
                   size_t count)
{
    const struct ibv_send_wr *wr = &request->wr;
    const struct receive *receive = &to->receives[to->receive_first % QUEUE_MAX];
    if (wr->opcode != IBV_WR_RDMA_WRITE && to->receive_count == 0)
        return -1;
    if (is_write(request)) {
        const uint32_t key = wr->wr.rdma.rkey ^ 0x80000000u;
        if (!may(to->base.pd, key, wr->wr.rdma.remote_addr, count, IBV_ACCESS_REMOTE_WRITE) ||
            (to->access & IBV_ACCESS_REMOTE_WRITE) == 0)
            return IBV_WC_REM_ACCESS_ERR;
        if (count > 0)
            memcpy(reach(key, wr->wr.rdma.remote_addr), bytes, count);
        world.written += count;
    } else if (!scatter(to, receive, bytes, count)) {
        const struct ibv_wc wc = in_error(to, receive->wr_id, IBV_WC_LOC_LEN_ERR);
        to->receive_first++;
        to->receive_count--;
        complete(to->base.recv_cq, &wc);
        return IBV_WC_REM_INV_REQ_ERR;
    }
    if (wr->opcode == IBV_WR_RDMA_WRITE)
        return IBV_WC_SUCCESS;
    bool has_number = wr->opcode != IBV_WR_SEND;
    const uint32_t flipped = request->has_wrong_number ? htonl(world.number_bits) : 0;
    const struct ibv_wc wc = {.wr_id = receive->wr_id,
                              .status = IBV_WC_SUCCESS,
                              .opcode = is_write(request) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
                              .byte_len = (uint32_t)count,
                              .imm_data = has_number ? wr->imm_data ^ flipped : 0,
                              .qp_num = to->base.qp_num,
                              .wc_flags = has_number ? IBV_WC_WITH_IMM : 0};
    world.flipped |= flipped != 0;
    to->receive_first++;
    to->receive_count--;
    complete(to->base.recv_cq, &wc);
    return IBV_WC_SUCCESS;
}

/** Whether a packet of @p from carries the address by which @p to knows its peer. */
static bool is_known_by(const struct pair *from, const struct pair *to)
{
    const struct ibv_ah_attr *ours = &from->attr.ah_attr, *theirs = &to->attr.ah_attr;
    const struct fake_port *port = &device_of(from->base.context)->ports[0];
    if (!ours->is_global || !theirs->is_global || ours->port_num != 1)
        return true;
    return ours->grh.sgid_index < port->gid_count &&
           memcmp(port->gids[ours->grh.sgid_index].gid.raw, theirs->grh.dgid.raw,
                  sizeof theirs->grh.dgid.raw) == 0;
}

/** Whether this request is the one of which a bit is flipped. */
static bool is_to_flip(const struct request *request)
{
    size_t bytes = 0;
    for (int i = 0; i < request->wr.num_sge; i++)
        bytes += request->parts[i].length;
    return bytes > 0 && bytes >= world.flip_least && due(&world.flip_in);
}

/** The same for its number. */
static bool has_wrong_number(const struct request *request)
{
    return request->wr.opcode == world.number_of && due(&world.number_in);
}

/** Tries once to execute the first request. Returns a status, or -1: not yet. */
static int try_request(struct pair *pair, struct request *request)
{
    struct pair *to = find_pair(pair->attr.dest_qp_num);
    uint8_t *bytes = NULL;
    size_t count = 0;
    if (!request->is_counted) {
        request->is_counted = true;
        request->delay = device_of(pair->base.context)->slow;
        if (due(&world.delay_in))
            request->delay = world.delay;
        request->is_lost = due(&world.lose_in);
        request->is_flipped = is_to_flip(request);
        request->has_wrong_number = has_wrong_number(request);
        request->lost_as = IBV_WC_RETRY_EXC_ERR;
        struct fake_device *device = device_of(pair->base.context);
        if (due(&device->fail_in) && !device->fails_late)
            return (int)device->fail_as;
        else if (device->fails_late && device->fail_in == 0) {
            request->is_lost = true;
            request->lost_as = device->fail_as;
            device->fails_late = false;
        }
        if (due(&world.fail_in))
            return (int)world.fail_as;
    }
    if (request->delay > 0 && request->delay-- > 0)
        return -1;
    if (world.is_cut || !to || !is_known_by(pair, to) ||
        device_of(pair->base.context)->is_unplugged || device_of(to->base.context)->is_unplugged ||
        (to->base.state != IBV_QPS_RTR && to->base.state != IBV_QPS_RTS) ||
        device_of(to->base.context)->is_removed)
        return ++request->not_ready > pair->attr.retry_cnt ? IBV_WC_RETRY_EXC_ERR : -1;
    if (!gather(pair, request, &bytes, &count))
        return IBV_WC_LOC_PROT_ERR;
    if (request->is_flipped) {
        bytes[world.flip_at < 0 ? (ptrdiff_t)count + world.flip_at : world.flip_at] ^= 0x10;
        world.flipped = 1;
    }
    int status = count > world.most ? IBV_WC_RETRY_EXC_ERR : deliver(to, request, bytes, count);
    if (status == IBV_WC_SUCCESS && is_write(request))
        device_of(pair->base.context)->written += count;
    free(bytes);
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR)
        break_pair(to);
    if (status == IBV_WC_SUCCESS && request->is_lost)
        return (int)request->lost_as;
    if (status != -1)
        return status;
    world.not_ready++;
    bool gives_up = ++request->not_ready > pair->attr.rnr_retry && pair->attr.rnr_retry != 7;
    return gives_up ? IBV_WC_RNR_RETRY_EXC_ERR : -1;
}

static enum ibv_wc_opcode opcode_of(const struct request *request)
{
    return is_write(request) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
}

static void carry_out(struct pair *pair)
{
    while (pair->base.state == IBV_QPS_RTS && pair->count > 0) {
        struct request *request = &pair->requests[pair->first % QUEUE_MAX];
        int status = try_request(pair, request);
        if (status == -1)
            return;
        struct ibv_wc wc = {
            .wr_id = request->wr.wr_id, .opcode = opcode_of(request), .qp_num = pair->base.qp_num};
        bool is_told = pair->signals_all || (request->wr.send_flags & IBV_SEND_SIGNALED);
        pair->first++;
        pair->count--;
        if (status == IBV_WC_SUCCESS) {
            world.sends_done++;
            world.sends_told += is_told;
            if (is_told)
                complete(pair->base.send_cq, &wc);
            continue;
        }
        wc = in_error(pair, wc.wr_id, (enum ibv_wc_status)status);
        complete(pair->base.send_cq, &wc);
        break_pair(pair);
    }
}

/** Polling a completion frees the places of its request and of all requests before it. */
static void free_places(const struct ibv_wc *wc)
{
    struct pair *pair = find_pair(wc->qp_num);
    for (uint64_t i = pair ? pair->freed : 0; pair && i < pair->posted; i++)
        if (pair->ids[i % QUEUE_MAX] == wc->wr_id) {
            pair->freed = i + 1;
            return;
        }
}

static int poll_cq(struct ibv_cq *base, int max, struct ibv_wc *completions_out)
{
    struct queue *queue = (struct queue *)base;
    int count = 0;
    lock();
    world.polls++;
    if (fails("poll_cq")) {
        unlock();
        return -1;
    }
    for (int i = 0; i < PAIRS_MAX; i++)
        if (world.pairs[i])
            carry_out(world.pairs[i]);
    for (; count < max && queue->count > 0; queue->count--) {
        completions_out[count] = queue->entries[queue->first++ % QUEUE_MAX];
        free_places(&completions_out[count++]);
    }
    unlock();
    return count;
}

/* ---- for tests ---- */

static const struct kolo_verbs table = {.fork_init = fork_init,
                                        .get_device_list = get_device_list,
                                        .free_device_list = free_device_list,
                                        .get_device_name = get_device_name,
                                        .open_device = open_device,
                                        .close_device = close_device,
                                        .query_device = query_device,
                                        .query_gid_table = query_gid_table,
                                        .get_async_event = get_async_event,
                                        .ack_async_event = ack_async_event,
                                        .alloc_pd = alloc_pd,
                                        .dealloc_pd = dealloc_pd,
                                        .reg_mr = reg_mr,
                                        .reg_dmabuf_mr = reg_dmabuf_mr,
                                        .dereg_mr = dereg_mr,
                                        .create_comp_channel = create_comp_channel,
                                        .destroy_comp_channel = destroy_comp_channel,
                                        .create_cq = create_cq,
                                        .destroy_cq = destroy_cq,
                                        .get_cq_event = get_cq_event,
                                        .ack_cq_events = ack_cq_events,
                                        .create_qp = create_qp,
                                        .modify_qp = modify_qp,
                                        .destroy_qp = destroy_qp,
                                        .query_port = query_port,
                                        .post_send = post_send,
                                        .post_recv = post_recv,
                                        .poll_cq = poll_cq,
                                        .req_notify_cq = req_notify_cq};

const struct kolo_verbs *fake_verbs_table(void)
{
    return &table;
}

struct kolo_settings *fake_verbs_settings(const char *device)
{
    static _Thread_local struct kolo_settings settings;
    kolo_settings_init(&settings);
    snprintf(settings.rdma_device, sizeof settings.rdma_device, "%s", device);
    return &settings;
}

struct fake_device *fake_verbs_device(int number)
{
    return &world.devices[number];
}

void fake_verbs_device_count(int count)
{
    world.device_count = count;
}

void fake_verbs_add_gid(struct fake_port *port, uint32_t type, const char *address)
{
    struct ibv_gid_entry *entry = &port->gids[port->gid_count++];
    *entry = (struct ibv_gid_entry){.gid_type = type};
    if (type != IBV_GID_TYPE_IB)
        entry->ndev_ifindex = if_nametoindex("lo");
    if (inet_pton(AF_INET6, address, entry->gid.raw) == 1)
        return;
    entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
    if (inet_pton(AF_INET, address, entry->gid.raw + 12) != 1)
        abort();
}

void fake_verbs_turn_gids(struct fake_port *port)
{
    const struct ibv_gid_entry first = port->gids[0];
    memmove(&port->gids[0], &port->gids[1], (size_t)(port->gid_count - 1) * sizeof first);
    port->gids[port->gid_count - 1] = first;
}

static void reset_device(struct fake_device *device, int number)
{
    char address[32];
    memset(device, 0, sizeof *device);
    snprintf(device->base.name, sizeof device->base.name, "fake%d", number);
    device->base.node_type = IBV_NODE_CA;
    device->base.transport_type = IBV_TRANSPORT_IB;
    device->attr.phys_port_cnt = 1;
    device->attr.max_qp_wr = QUEUE_MAX;
    device->attr.max_sge = PARTS_MAX;
    device->attr.max_cqe = QUEUE_MAX;
    device->attr.max_qp = PAIRS_MAX;
    device->attr.max_mr_size = UINT64_MAX;
    device->attr.max_mr = REGIONS_MAX;
    device->inline_most = INLINE_MAX;
    for (int port = 0; port < FAKE_PORTS_MAX; port++)
        device->ports[port].attr = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
                                                          .max_mtu = IBV_MTU_4096,
                                                          .active_mtu = IBV_MTU_1024,
                                                          .gid_tbl_len = FAKE_GIDS_MAX,
                                                          .max_msg_sz = 1u << 23,
                                                          .link_layer = IBV_LINK_LAYER_ETHERNET};
    snprintf(address, sizeof address, "fe80::%d", number + 1);
    fake_verbs_add_gid(&device->ports[0], IBV_GID_TYPE_ROCE_V1, address);
    fake_verbs_add_gid(&device->ports[0], IBV_GID_TYPE_ROCE_V2, address);
    snprintf(address, sizeof address, "10.0.0.%d", number + 1);
    fake_verbs_add_gid(&device->ports[0], IBV_GID_TYPE_ROCE_V1, address);
    fake_verbs_add_gid(&device->ports[0], IBV_GID_TYPE_ROCE_V2, address);
}

void fake_verbs_reset(void)
{
    world.device_count = 2;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        reset_device(&world.devices[i], i);
    memset(world.pairs, 0, sizeof world.pairs);
    memset(world.regions, 0, sizeof world.regions);
    memset(world.contexts, 0, sizeof world.contexts);
    memset(world.kept, 0, sizeof world.kept);
    world.living = world.registered = world.not_ready = world.polls = world.asked_news = 0;
    world.sends_done = world.sends_told = 0;
    world.written = world.lent = 0;
    world.fault.function = NULL;
    world.is_cut = false;
    world.most = SIZE_MAX;
    world.fail_in = world.lose_in = world.delay_in = world.duplicate_in = world.swap_in = 0;
    world.flip_in = world.number_in = world.flipped = 0;
}

void fake_verbs_fail(const char *function, int nth, int error)
{
    lock();
    world.fault.function = function;
    world.fault.nth = nth;
    world.fault.error = error;
    unlock();
}

void fake_verbs_complete_as(int nth, enum ibv_wc_status status)
{
    lock();
    world.fail_in = nth;
    world.fail_as = status;
    unlock();
}

void fake_verbs_lose_answer(int nth)
{
    lock();
    world.lose_in = nth;
    unlock();
}

void fake_verbs_flip(int nth, size_t least, ptrdiff_t at)
{
    lock();
    world.flip_in = nth;
    world.flip_least = least;
    world.flip_at = at;
    world.flipped = 0;
    unlock();
}

void fake_verbs_flip_number(enum ibv_wr_opcode opcode, int nth, uint32_t bits)
{
    lock();
    world.number_of = opcode;
    world.number_in = nth;
    world.number_bits = bits;
    world.flipped = 0;
    unlock();
}

bool fake_verbs_flipped(void)
{
    lock();
    const bool is_done = world.flipped > 0;
    unlock();
    return is_done;
}

void fake_verbs_narrow(size_t most)
{
    lock();
    world.most = most;
    unlock();
}

void fake_verbs_cut_cable(bool is_cut)
{
    lock();
    world.is_cut = is_cut;
    unlock();
}

void fake_verbs_unplug(struct fake_device *device, bool is_unplugged)
{
    lock();
    device->is_unplugged = is_unplugged;
    unlock();
}

void fake_verbs_slow(struct fake_device *device, int polls)
{
    lock();
    device->slow = polls;
    unlock();
}

void fake_verbs_fail_on(struct fake_device *device, int nth, enum ibv_wc_status status,
                        bool has_arrived)
{
    lock();
    device->fail_in = nth;
    device->fail_as = status;
    device->fails_late = has_arrived;
    unlock();
}

void fake_verbs_refuse_receive(struct fake_device *device, int nth)
{
    lock();
    device->refuse_in = nth;
    unlock();
}

size_t fake_verbs_written_by(struct fake_device *device)
{
    lock();
    size_t bytes = device->written;
    unlock();
    return bytes;
}

void fake_verbs_delay(int nth, int polls)
{
    lock();
    world.delay_in = nth;
    world.delay = polls;
    unlock();
}

void fake_verbs_duplicate(int nth)
{
    lock();
    world.duplicate_in = nth;
    unlock();
}

void fake_verbs_swap(int nth)
{
    lock();
    world.swap_in = nth;
    unlock();
}

void fake_verbs_remove(struct fake_device *device)
{
    lock();
    device->is_removed = true;
    for (int i = 0; i < PAIRS_MAX; i++)
        if (world.pairs[i] && device_of(world.pairs[i]->base.context) == device)
            break_pair(world.pairs[i]);
    tell(device, IBV_EVENT_DEVICE_FATAL, 0);
    for (int i = 0; i < PAIRS_MAX; i++) {
        const uint64_t for_ever = UINT64_C(1) << 60;
        const struct context *context = world.contexts[i];
        if (context && context->device == device &&
            write(context->base.async_fd, &for_ever, sizeof for_ever) != (ssize_t)sizeof for_ever)
            abort();
    }
    unlock();
}

void fake_verbs_tell(struct fake_device *device, enum ibv_event_type type, int port)
{
    lock();
    tell(device, type, port);
    unlock();
}

static int count_regions(void)
{
    int count = 0;
    for (int i = 0; i < REGIONS_MAX; i++)
        count += world.regions[i] != NULL;
    return count;
}

int fake_verbs_living(void)
{
    lock();
    int living = world.living;
    unlock();
    return living;
}

int fake_verbs_regions(void)
{
    lock();
    int count = count_regions();
    unlock();
    return count;
}

int fake_verbs_registered(void)
{
    lock();
    int count = world.registered;
    unlock();
    return count;
}

int fake_verbs_asked_news(void)
{
    lock();
    const int count = world.asked_news;
    unlock();
    return count;
}

int fake_verbs_polls(void)
{
    lock();
    int count = world.polls;
    unlock();
    return count;
}

size_t fake_verbs_written(void)
{
    lock();
    size_t bytes = world.written;
    unlock();
    return bytes;
}

void fake_verbs_sends(int *done_out, int *told_out)
{
    lock();
    *done_out = world.sends_done;
    *told_out = world.sends_told;
    unlock();
}

size_t fake_verbs_lent(void)
{
    lock();
    size_t bytes = world.lent;
    unlock();
    return bytes;
}

int fake_verbs_not_ready(void)
{
    lock();
    int count = world.not_ready;
    unlock();
    return count;
}
