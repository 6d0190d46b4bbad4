// SPDX-License-Identifier: Apache-2.0
// Owns how a link of the shm transport comes up, and how it ends. Must never block, and never leave
// a descriptor or a mapping behind.
//
// When the peer has proved itself over the Unix socket, the acceptor makes the link's memory:
//
//   acceptor                                        dialler
//   OFFER {capacity} + memory, bell page, eventfd --->  maps, sets up
//        sets up  <---  ANSWER + bell page, eventfd
//
//   memory: ring to the dialler | ring to the acceptor | the acceptor's slots | the dialler's slots
//
// From then on the socket carries the messages of shm_direct.h. Its end tells that the peer writes
// no more, mostly because its process has ended; what it had put into the ring before is then
// delivered first. If both sides dial at once, the acceptor with the lower rank closes the other's
// dial, whose dialler then waits to be adopted. A timerfd bounds each wait while the link comes up.
//
// Messages that cannot be sent are tried again every RETRY_NS. Whether the socket has room would be
// known, but not when the kernel lets more descriptors be passed: it counts those of all processes
// of the user that were not taken yet, and refuses them above the sender's limit of open files (but
// not to root). Many ranks that start at once come to that limit.
#include "transport/shm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/process_stat.h"
#include "transport/peer_memory.h"

#define OWNER(watch_pointer, member)                                                               \
    ((struct kolo_shm_link *)(void *)((char *)(watch_pointer)-offsetof(struct kolo_shm_link,       \
                                                                       member)))

enum { RETRY_NS = KOLO_NS_PER_MS };

static const size_t slots_bytes = KOLO_SHM_SLOTS * sizeof(uint32_t);

static struct kolo_poller *poller_of(const struct kolo_shm_link *link)
{
    return kolo_endpoint_poller(link->base.endpoint);
}

static const char *const state_names[KOLO_SHM_STATES] = {
    [KOLO_SHM_CLOSED] = "closed",
    [KOLO_SHM_DIALING] = "dials",
    [KOLO_SHM_AWAIT_OFFER] = "awaits the peer's memory",
    [KOLO_SHM_ANSWERING] = "answers the peer",
    [KOLO_SHM_AWAIT_ADOPT] = "awaits the peer's own dial",
    [KOLO_SHM_AWAIT_ANSWER] = "awaits that the peer maps the memory",
    [KOLO_SHM_OPEN] = "open",
};

/** The only function that changes the state. It logs each change, so the log shows what a start
 *  waits for. */
static void enter(struct kolo_shm_link *link, enum kolo_shm_state state)
{
    if (state != link->state)
        KOLO_DEBUG("shm link to rank %d: %s -> %s", link->base.peer, state_names[link->state],
                   state_names[state]);
    link->state = state;
}

/* ---- the end ---- */

void kolo_shm_describe(const struct kolo_link *base, char *text, size_t capacity)
{
    const struct kolo_shm_link *link = (const struct kolo_shm_link *)base;
    const struct kolo_identity *who = &kolo_endpoint_peer(base->endpoint, base->peer)->identity;
    char so_far[KOLO_DETAIL_MAX];
    if (!link->conn) {
        snprintf(text, capacity, "shm %.63s pid %d", who->host, who->pid);
        return;
    }
    kolo_conn_explain(link->conn, so_far, sizeof so_far);
    snprintf(text, capacity, "shm %.63s pid %d (%s)", who->host, who->pid, so_far);
}

void kolo_shm_end(struct kolo_shm_link *link, kolo_status why)
{
    char name[128], detail[KOLO_DETAIL_MAX];
    kolo_shm_describe(&link->base, name, sizeof name);
    kolo_detail_keep(detail);
    bool is_refused = why == KOLO_ERR_SYSTEM || why == KOLO_ERR_NO_MEMORY;
    kolo_fail(why, "rank %d, %s: %.800s%s", link->base.peer, name, detail,
              is_refused ? " (KOLO_TRANSPORT=tcp does without shared memory)" : "");
    kolo_link_set_down(&link->base, why);
}

static void unwatch(struct kolo_shm_link *link, struct kolo_watch *watch)
{
    if (watch->fd < 0)
        return;
    kolo_poller_remove(poller_of(link), watch);
    close(watch->fd);
    watch->fd = -1;
}

/** Forgets the OFFER or ANSWER that was to be sent. */
static void forget_first(struct kolo_shm_link *link)
{
    link->first.kind = 0;
    if (link->first_fd >= 0)
        close(link->first_fd);
    link->first_fd = -1;
}

/** Ends the dial and closes the socket. What arrived over the socket is kept. */
static void disconnect(struct kolo_shm_link *link)
{
    kolo_conn_cancel(link->conn);
    link->conn = NULL;
    unwatch(link, &link->watch);
    unwatch(link, &link->retry);
    forget_first(link);
    kolo_shm_inbox_fini(&link->inbox);
    link->inbox = (struct kolo_shm_inbox){0};
}

void kolo_shm_down(struct kolo_link *base)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    enter(link, KOLO_SHM_CLOSED);
    disconnect(link);
    unwatch(link, &link->timer);
    if (link->memory)
        kolo_shm_lender_withdraw(&link->lender, NULL);
}

void kolo_shm_free(struct kolo_link *base)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    kolo_shm_down(base);
    kolo_link_fini(base);
    kolo_shm_bell_close(&link->bell);
    kolo_shm_borrower_fini(&link->borrower);
    kolo_shm_boards_fini(&link->boards);
    kolo_shm_memory_unmap(link->memory, link->memory_bytes);
    kolo_free_memory(link);
}

/* ---- the link's memory ---- */

static size_t footprint(uint64_t capacity)
{
    return 2 * kolo_shm_ring_footprint(capacity) + 2 * slots_bytes;
}

/** Divides @p memory into rings and slots. */
static void lay_out(struct kolo_shm_link *link, void *memory, uint64_t capacity, bool is_acceptor)
{
    uint8_t *rings = memory;
    uint8_t *second = rings + kolo_shm_ring_footprint(capacity);
    uint8_t *slots = second + kolo_shm_ring_footprint(capacity);
    link->memory = memory;
    link->memory_bytes = footprint(capacity);
    kolo_shm_writer_init(&link->writer, is_acceptor ? rings : second, capacity);
    kolo_shm_reader_init(&link->reader, is_acceptor ? second : rings, capacity);
    link->base.signal = kolo_shm_reader_word(&link->reader);
    link->base.signal_seen = KOLO_SHM_ALWAYS_LOOK;
    link->lender.slots = (void *)(is_acceptor ? slots : slots + slots_bytes);
    link->borrower.slots = (void *)(is_acceptor ? slots + slots_bytes : slots);
}

/* ---- messages ---- */

static kolo_status set_up(struct kolo_shm_link *link)
{
    link->up_ns = kolo_boot_ns();
    enter(link, KOLO_SHM_OPEN);
    unwatch(link, &link->timer);
    kolo_link_set_up(&link->base);
    return kolo_shm_send_waiting(link);
}

/** Sends OFFER or ANSWER, if it is not sent yet. After ANSWER the link is up. */
static kolo_status send_first(struct kolo_shm_link *link)
{
    if (link->first.kind == 0)
        return KOLO_OK;
    kolo_status status = kolo_shm_message_send(link->watch.fd, &link->first);
    if (status != KOLO_OK)
        return status;
    forget_first(link);
    return link->state == KOLO_SHM_ANSWERING ? set_up(link) : KOLO_OK;
}

/** Makes @p watch, a timer on the monotonic clock, for @p when. */
static kolo_status set_timer(struct kolo_shm_link *link, struct kolo_watch *watch, int flags,
                             const struct itimerspec *when)
{
    int fd = kolo_descriptor_keep(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (fd < 0 || timerfd_settime(fd, flags, when, NULL) != 0) {
        kolo_status status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "timerfd");
        if (fd >= 0)
            close(fd);
        return status;
    }
    watch->fd = fd;
    kolo_status status = kolo_poller_add(poller_of(link), watch, EPOLLIN);
    if (status != KOLO_OK) {
        close(fd);
        watch->fd = -1;
    }
    return status;
}

kolo_status kolo_shm_send_waiting(struct kolo_shm_link *link)
{
    static const struct itimerspec every = {.it_value = {.tv_nsec = RETRY_NS},
                                            .it_interval = {.tv_nsec = RETRY_NS}};
    kolo_status status = send_first(link);
    if (status == KOLO_OK && link->state == KOLO_SHM_OPEN)
        status = kolo_shm_boards_flush(link);
    if (status == KOLO_AGAIN)
        return link->retry.fd >= 0 ? KOLO_OK : set_timer(link, &link->retry, 0, &every);
    unwatch(link, &link->retry);
    // That a peer is gone is found by reading, which first delivers what it had sent.
    return status == KOLO_ERR_LINK ? KOLO_OK : status;
}

/** Acceptor: makes the memory and passes it to the dialler. */
static kolo_status offer(struct kolo_shm_link *link)
{
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(link->base.endpoint);
    const struct kolo_shm_port *port = (const void *)link->base.port;
    uint64_t capacity = kolo_shm_ring_capacity(config->settings->shm_ring_bytes);
    struct kolo_shm_message message = {.kind = KOLO_SHM_OFFER, .bytes = capacity, .fd_count = 3};
    void *memory = NULL;
    int memory_fd;
    kolo_status status =
        kolo_shm_memory_create("kolo-ring", footprint(capacity), &memory_fd, &memory);
    if (status != KOLO_OK)
        return status;
    lay_out(link, memory, capacity, true);
    message.fds[0] = memory_fd;
    message.fds[1] = port->page_fd;
    message.fds[2] = kolo_poller_event_fd(poller_of(link));
    link->first = message;
    link->first_fd = memory_fd;
    return kolo_shm_send_waiting(link);
}

/** Opens the peer's bell from two descriptors of a message. The message keeps those that are not
 *  used. */
static kolo_status open_bell(struct kolo_shm_link *link, struct kolo_shm_message *message,
                             size_t first)
{
    if (message->fd_count != first + 2)
        return kolo_fail(KOLO_ERR_PROTOCOL, "%zu descriptors where %zu belong", message->fd_count,
                         first + 2);
    kolo_status status =
        kolo_shm_bell_open(&link->bell, message->fds[first], message->fds[first + 1]);
    if (status == KOLO_OK)
        message->fd_count--; // the bell now owns the eventfd, which is the last one
    return status;
}

/** Dialler: handles the offer of the acceptor's memory. */
static kolo_status take_offer(struct kolo_shm_link *link, struct kolo_shm_message *message)
{
    const struct kolo_shm_port *port = (const void *)link->base.port;
    uint64_t capacity = message->bytes;
    void *memory = NULL;
    if (capacity > KOLO_SHM_RING_MAX || capacity != kolo_shm_ring_capacity((size_t)capacity))
        return kolo_fail(KOLO_ERR_PROTOCOL, "a ring of %llu bytes", (unsigned long long)capacity);
    kolo_status status = open_bell(link, message, 1);
    if (status != KOLO_OK)
        return status;
    status =
        kolo_shm_memory_map(message->fds[0], footprint(capacity), PROT_READ | PROT_WRITE, &memory);
    if (status != KOLO_OK)
        return status;
    lay_out(link, memory, capacity, false);
    link->first =
        (struct kolo_shm_message){.kind = KOLO_SHM_ANSWER,
                                  .fds = {port->page_fd, kolo_poller_event_fd(poller_of(link))},
                                  .fd_count = 2};
    enter(link, KOLO_SHM_ANSWERING);
    return kolo_shm_send_waiting(link);
}

/** Acceptor: the dialler has mapped the memory. */
static kolo_status take_answer(struct kolo_shm_link *link, struct kolo_shm_message *message)
{
    kolo_status status = open_bell(link, message, 0);
    return status == KOLO_OK ? set_up(link) : status;
}

static kolo_status take_span(struct kolo_shm_link *link, struct kolo_shm_message *message)
{
    return kolo_shm_borrower_map(&link->borrower, message);
}

static kolo_status take_gone(struct kolo_shm_link *link, struct kolo_shm_message *message)
{
    return kolo_shm_borrower_unmap(&link->borrower, message);
}

/** What each message does in each state. An empty cell is a protocol violation. */
typedef kolo_status take(struct kolo_shm_link *link, struct kolo_shm_message *message);
static take *const takes[KOLO_SHM_STATES][KOLO_SHM_MESSAGE_KINDS] = {
    [KOLO_SHM_AWAIT_OFFER] = {[KOLO_SHM_OFFER] = take_offer},
    [KOLO_SHM_AWAIT_ANSWER] = {[KOLO_SHM_ANSWER] = take_answer},
    [KOLO_SHM_OPEN] = {[KOLO_SHM_SPAN] = take_span,
                       [KOLO_SHM_GONE] = take_gone,
                       [KOLO_SHM_SEGMENT] = kolo_shm_boards_segment,
                       [KOLO_SHM_CLOSED_BOARD] = kolo_shm_boards_closed},
};

kolo_status kolo_shm_read_socket(struct kolo_shm_link *link)
{
    struct kolo_shm_message message;
    kolo_status status = KOLO_OK;
    while (status == KOLO_OK && link->watch.fd >= 0) {
        status = kolo_shm_inbox_read(&link->inbox, link->watch.fd, &message);
        if (status != KOLO_OK)
            break;
        take *handler =
            message.kind < KOLO_SHM_MESSAGE_KINDS ? takes[link->state][message.kind] : NULL;
        if (message.span != 0 && message.kind != KOLO_SHM_SPAN)
            status = kolo_fail(KOLO_ERR_PROTOCOL, "a message of kind %u with a span", message.kind);
        else if (handler)
            status = handler(link, &message);
        else
            status = kolo_fail(KOLO_ERR_PROTOCOL, "an unexpected message of kind %u", message.kind);
        kolo_shm_message_drop(&message);
    }
    return status == KOLO_AGAIN ? KOLO_OK : status;
}

/* ---- events ---- */

/** The socket of a link that was up has ended, which mostly means that the peer's process has. */
static void explain_end(const struct kolo_shm_link *link)
{
    char program[256];
    if (kolo_process_lives(kolo_peer_memory_pid(link->watch.fd), link->up_ns, program,
                           sizeof program))
        kolo_fail(KOLO_ERR_LINK, "its process has closed the connection and runs on%s%s",
                  program[0] != '\0' ? " as " : "", program);
}

/** The peer closed the socket. */
static void hang_up(struct kolo_shm_link *link)
{
    if (link->state == KOLO_SHM_AWAIT_OFFER) { // its own dial stands, and will arrive
        disconnect(link);
        enter(link, KOLO_SHM_AWAIT_ADOPT);
        return;
    }
    if (link->state == KOLO_SHM_OPEN) {
        char why[KOLO_DETAIL_MAX];
        explain_end(link);
        kolo_detail_keep(why);
        kolo_shm_drain(link);
        kolo_detail_set(why);
    }
    kolo_shm_end(link, KOLO_ERR_LINK);
}

static void socket_ready(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_shm_link *link = OWNER(watch, watch);
    (void)events;
    const kolo_status status = kolo_shm_read_socket(link);
    if (status == KOLO_ERR_LINK)
        hang_up(link);
    else if (status != KOLO_OK)
        kolo_shm_end(link, status);
}

static void retry_ready(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_shm_link *link = OWNER(watch, retry);
    uint64_t periods;
    (void)events;
    ssize_t got = read(watch->fd, &periods, sizeof periods);
    (void)got; // EAGAIN: it was stopped and set again
    const kolo_status status = kolo_shm_send_waiting(link);
    if (status != KOLO_OK)
        kolo_shm_end(link, status);
}

static void timer_ready(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_shm_link *link = OWNER(watch, timer);
    (void)events;
    if (link->first.kind != 0)
        kolo_fail(KOLO_ERR_TIMEOUT,
                  "the system lets no more descriptors be passed, because processes of this user "
                  "have not taken those that they were passed: raise the limit of open files "
                  "(ulimit -n)");
    else
        kolo_fail(KOLO_ERR_TIMEOUT, "connected, but the link did not come up before the deadline");
    kolo_shm_end(link, KOLO_ERR_TIMEOUT);
}

/** From now on the deadline ends the link, unless set_up comes first. */
static kolo_status start_timer(struct kolo_shm_link *link)
{
    if (link->deadline == KOLO_NEVER || link->timer.fd >= 0)
        return KOLO_OK;
    int64_t at = link->deadline > 0 ? link->deadline : 1; // 0 would disarm the timer
    const struct itimerspec when = {.it_value = kolo_timespec(at)};
    return set_timer(link, &link->timer, TFD_TIMER_ABSTIME, &when);
}

/** Takes over @p fd, which is connected and proved, and continues in @p state. */
static kolo_status use_socket(struct kolo_shm_link *link, int fd, enum kolo_shm_state state)
{
    link->watch.fd = fd;
    kolo_status status = kolo_poller_add(poller_of(link), &link->watch, EPOLLIN);
    if (status != KOLO_OK) {
        close(fd);
        link->watch.fd = -1;
        return status;
    }
    enter(link, state);
    return start_timer(link);
}

static void dialled(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct kolo_shm_link *link = context;
    (void)theirs; // kolo_conn_dial has checked rank and purpose
    link->conn = NULL;
    if (status == KOLO_OK)
        status = use_socket(link, fd, KOLO_SHM_AWAIT_OFFER);
    if (status != KOLO_OK)
        kolo_shm_end(link, status);
}

/** Where the link's peer listens, according to the address that it published. */
static kolo_status place_of(const struct kolo_link *base, struct kolo_place *place_out)
{
    const struct kolo_peer *peer = kolo_endpoint_peer(base->endpoint, base->peer);
    const struct kolo_address *address = kolo_port_address_of(base->port, peer);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (address->bytes == 0 || address->bytes >= sizeof name.sun_path)
        return kolo_fail(KOLO_ERR_PROTOCOL, "rank %d published no usable name for shm", base->peer);
    memcpy(name.sun_path + 1, address->data, address->bytes); // byte 0 stays 0: abstract
    *place_out = (struct kolo_place){0};
    memcpy(&place_out->addr, &name, sizeof name);
    place_out->bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)address->bytes);
    return KOLO_OK;
}

static kolo_status dial(struct kolo_shm_link *link)
{
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(link->base.endpoint);
    const struct kolo_greeting mine = {.protocol = KOLO_PROTOCOL_VERSION,
                                       .purpose = KOLO_PURPOSE_SHM,
                                       .from = config->rank,
                                       .to = link->base.peer};
    struct kolo_place place;
    kolo_status status = place_of(&link->base, &place);
    if (status != KOLO_OK)
        return status;
    enter(link, KOLO_SHM_DIALING);
    const struct kolo_dial_config dial_config = {.places = &place,
                                                 .count = 1,
                                                 .secret = &config->secret,
                                                 .mine = &mine,
                                                 .deadline = link->deadline,
                                                 .done = dialled,
                                                 .context = link};
    return kolo_conn_dial(poller_of(link), &dial_config, &link->conn);
}

static kolo_status accept_on(struct kolo_shm_link *link, int fd)
{
    kolo_status status = use_socket(link, fd, KOLO_SHM_AWAIT_ANSWER);
    return status == KOLO_OK ? offer(link) : status;
}

kolo_status kolo_shm_connect(struct kolo_port *port, int peer, int fd, kolo_deadline deadline,
                             struct kolo_link **link_out)
{
    struct kolo_shm_link *link = kolo_calloc(1, sizeof *link);
    if (!link) {
        if (fd >= 0)
            close(fd);
        return KOLO_ERR_NO_MEMORY;
    }
    link->deadline = deadline;
    link->watch = (struct kolo_watch){.fd = -1, .ready = socket_ready};
    link->timer = (struct kolo_watch){.fd = -1, .ready = timer_ready};
    link->retry = (struct kolo_watch){.fd = -1, .ready = retry_ready};
    link->first_fd = -1;
    link->bell.event_fd = -1;
    kolo_link_init(&link->base, port, peer);
    const kolo_status status = fd >= 0 ? accept_on(link, fd) : dial(link);
    if (status != KOLO_OK) {
        kolo_shm_free(&link->base);
        return status;
    }
    *link_out = &link->base;
    return KOLO_OK;
}

void kolo_shm_adopt(struct kolo_link *base, int fd)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    if (!kolo_link_gives_way(base)) {
        close(fd);
        return;
    }
    disconnect(link);
    kolo_shm_memory_unmap(link->memory, link->memory_bytes);
    link->memory = NULL;
    kolo_status status = accept_on(link, fd);
    if (status != KOLO_OK)
        kolo_shm_end(link, status);
}
