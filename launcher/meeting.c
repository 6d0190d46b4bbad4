// SPDX-License-Identifier: Apache-2.0
// The server runs on a poller. The loop has one handle for the poller's descriptor, and one timer
// for its next deadline.
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "launcher/meeting.h"

enum { PLACES_MAX = 16, LOST_GRACE_MS = 500 };
/* Of MASTER_PORT without KOLO_PORTS: below those that systems give out. */
enum { MASTER_LOW = 20000, MASTER_HIGH = 31999 };

static const char scheme[] = "tcp://";

struct kolo_meeting {
    struct kolo_poller *poller;
    struct kolo_store_server *server;
    uv_poll_t ready;
    uv_timer_t timer;
    bool has_handles;
    uint16_t port, master_port; /* of the server; for programs of other frameworks */
    struct kolo_secret secret;
    char secret_text[2 * KOLO_SECRET_BYTES + 1];
    char place[KOLO_TEXT_MAX];
};

static void on_timer(uv_timer_t *timer);

/* Handles deadlines that have come, and sets the timer for the next. */
static void expire(struct kolo_meeting *meeting)
{
    kolo_deadline next = kolo_store_server_expire(meeting->server);
    int wait_ms = kolo_deadline_poll_ms(next);
    if (wait_ms < 0)
        (void)uv_timer_stop(&meeting->timer);
    else
        (void)uv_timer_start(&meeting->timer, on_timer, (uint64_t)wait_ms, 0);
}

static void turn(struct kolo_meeting *meeting)
{
    if (!meeting->server)
        return;
    if (kolo_poller_dispatch(meeting->poller, NULL) != KOLO_OK)
        KOLO_WARN("the rendezvous: %s", kolo_error_detail());
    expire(meeting);
}

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    turn(handle->data);
}

static struct kolo_place loopback_place(sa_family_t family, uint16_t port)
{
    const struct in_addr here = {htonl(INADDR_LOOPBACK)};
    if (family == AF_INET6)
        return kolo_place_make(AF_INET6, &in6addr_loopback, port);
    return kolo_place_make(AF_INET, &here, port);
}

/* Appends a place if there is room for all of it. */
static bool add_place(struct kolo_meeting *meeting, const struct kolo_place *place)
{
    char text[KOLO_PLACE_TEXT_MAX];
    kolo_place_format(place, text, sizeof text);
    size_t len = strlen(meeting->place);
    if (len + strlen(text) + 2 > sizeof meeting->place)
        return false;
    const char *separator = meeting->place[len - 1] == '/' ? "" : ",";
    snprintf(meeting->place + len, sizeof meeting->place - len, "%s%s", separator, text);
    return true;
}

/* Appends the best of this machine's addresses, as many as there is room for. */
static void add_places(struct kolo_meeting *meeting, const char *net,
                       const struct kolo_place *places, size_t count)
{
    size_t added = 0, all;
    for (size_t i = 0; i < count; i++)
        added += add_place(meeting, &places[i]);
    all = kolo_places_missed(net, places, added);
    if (all > 0)
        KOLO_WARN(
            "this machine has %zu addresses, and the other hosts are told %zu of them, in the "
            "order of `kolorun info`; name the network between the hosts in KOLO_NET",
            all, added);
}

/* Drops the places of a family at which nothing listens. Returns how many are left. */
static size_t drop_family(struct kolo_place *places, size_t count, sa_family_t family)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (places[i].addr.ss_family != family)
            places[kept++] = places[i];
    return kept;
}

static bool has_family(const struct kolo_place *places, size_t count, sa_family_t family)
{
    for (size_t i = 0; i < count; i++)
        if (places[i].addr.ss_family == family)
            return true;
    return false;
}

/* KOLO_NET may leave only addresses that other hosts cannot reach. */
static kolo_status check_reach(const char *net, const struct kolo_place *places, size_t count)
{
    char unusable[512];
    if (!kolo_places_are_loopback(places, count))
        return KOLO_OK;
    kolo_places_unusable(net, unusable, sizeof unusable);
    if (net[0] == '\0') { /* nothing else is up: the hosts may still be parts of this machine */
        if (unusable[0] != '\0')
            KOLO_WARN("this machine has only loopback addresses, which other hosts cannot reach: "
                      "%s",
                      unusable);
        return KOLO_OK;
    }
    return kolo_fail(KOLO_ERR_CONFIG,
                     "KOLO_NET=%s leaves only loopback addresses of this machine, which other "
                     "hosts cannot reach; %s",
                     net, unusable[0] ? unusable : "name the network between the hosts");
}

/* Listens at one port in both families, as far as this machine has addresses of them. Without the
 * port in IPv4 no rank could use the IPv4 addresses that are announced, so that is an error; if
 * there are both families, IPv4 alone is enough. */
static kolo_status listen_to_all(struct kolo_meeting *meeting, const char *net)
{
    struct kolo_place places[PLACES_MAX];
    size_t count = 0;
    uint16_t port = 0;
    kolo_status status = kolo_places_local(net, 0, places, PLACES_MAX, &count);
    if (status == KOLO_OK)
        status = check_reach(net, places, count);
    if (status != KOLO_OK)
        return status;
    const bool has_six = has_family(places, count, AF_INET6);
    const bool has_four = has_family(places, count, AF_INET) || !has_six;
    struct kolo_place place = kolo_place_make(has_four ? AF_INET : AF_INET6, NULL, 0);
    KOLO_TRY(kolo_store_server_listen(meeting->server, &place, &port));
    place = kolo_place_make(AF_INET6, NULL, port);
    if (has_four && has_six && kolo_store_server_listen(meeting->server, &place, NULL) != KOLO_OK) {
        count = drop_family(places, count, AF_INET6);
        kolo_detail_set("");
    }
    for (size_t i = 0; i < count; i++)
        kolo_place_set_port(&places[i], port);
    meeting->port = port;
    memcpy(meeting->place, scheme, sizeof scheme);
    add_places(meeting, net, places, count);
out:
    return status;
}

/* Listens for ranks on this machine only. */
static kolo_status listen_here(struct kolo_meeting *meeting)
{
    struct kolo_place place = loopback_place(AF_INET, 0);
    uint16_t port = 0;
    kolo_status status = kolo_store_server_listen(meeting->server, &place, &port);
    if (status != KOLO_OK) { /* a machine without IPv4 */
        place = loopback_place(AF_INET6, 0);
        status = kolo_store_server_listen(meeting->server, &place, &port);
    }
    if (status != KOLO_OK)
        return status;
    meeting->port = port;
    memcpy(meeting->place, scheme, sizeof scheme);
    place = loopback_place(place.addr.ss_family, port);
    (void)add_place(meeting, &place);
    return KOLO_OK;
}

/* Chosen at random: jobs of one machine must differ also if each kolorun is the first process of a
 * container, and nobody learns anything about the secret from it. */
static void choose_master_port(struct kolo_meeting *meeting, const struct kolo_ports *ports)
{
    const struct kolo_ports range =
        ports->low != 0 ? *ports : (struct kolo_ports){.low = MASTER_LOW, .high = MASTER_HIGH};
    const unsigned index = kolo_ports_first(&range);
    const uint16_t port = kolo_ports_at(&range, index);
    meeting->master_port = port != meeting->port ? port : kolo_ports_at(&range, index + 1);
}

static kolo_status watch(struct kolo_meeting *meeting, uv_loop_t *loop)
{
    int error = uv_poll_init(loop, &meeting->ready, kolo_poller_fd(meeting->poller));
    if (error)
        return kolo_fail(KOLO_ERR_SYSTEM, "watch the rendezvous: %s", uv_strerror(error));
    (void)uv_timer_init(loop, &meeting->timer);
    meeting->has_handles = true;
    meeting->ready.data = meeting->timer.data = meeting;
    (void)uv_poll_start(&meeting->ready, UV_READABLE, on_ready);
    expire(meeting);
    return KOLO_OK;
}

kolo_status kolo_meeting_create(uv_loop_t *loop, int size, bool is_local,
                                const struct kolo_settings *settings,
                                const struct kolo_store_server_events *events,
                                struct kolo_meeting **meeting_out)
{
    kolo_status status = KOLO_OK;
    struct kolo_meeting *meeting = kolo_calloc(1, sizeof *meeting);
    if (!meeting)
        return KOLO_ERR_NO_MEMORY;
    struct kolo_ports ports;
    KOLO_TRY(kolo_ports_parse(settings->ports, &ports));
    KOLO_TRY(kolo_secret_make(&meeting->secret));
    KOLO_TRY(kolo_secret_try(&meeting->secret));
    kolo_secret_format(&meeting->secret, meeting->secret_text);
    KOLO_TRY(kolo_poller_create(&meeting->poller));
    struct kolo_store_server_config config = {.size = size,
                                              .owner = "kolorun",
                                              .secret = meeting->secret,
                                              .start_timeout_ms = settings->start_timeout_ms,
                                              .stall_warn_ms = settings->stall_warn_ms,
                                              .ports = ports,
                                              .peer_timeout_ms = settings->peer_timeout_ms,
                                              .lost_grace_ms = LOST_GRACE_MS,
                                              .events = *events};
    status = kolo_store_server_create(meeting->poller, &config, &meeting->server);
    explicit_bzero(&config.secret, sizeof config.secret);
    if (status != KOLO_OK)
        goto out;
    KOLO_TRY(is_local ? listen_here(meeting) : listen_to_all(meeting, settings->net));
    choose_master_port(meeting, &ports);
    KOLO_TRY(watch(meeting, loop));
out:
    if (status == KOLO_OK) {
        *meeting_out = meeting;
    } else {
        kolo_meeting_close(meeting);
        kolo_meeting_destroy(meeting);
    }
    return status;
}

const char *kolo_meeting_place(const struct kolo_meeting *meeting)
{
    return meeting->place;
}

const char *kolo_meeting_secret(const struct kolo_meeting *meeting)
{
    return meeting->secret_text;
}

uint16_t kolo_meeting_master_port(const struct kolo_meeting *meeting)
{
    return meeting->master_port;
}

void kolo_meeting_address(const struct kolo_meeting *meeting, char *text, size_t capacity)
{
    const char *first = meeting->place + strlen(scheme);
    size_t len = strcspn(first, ",");
    while (len > 0 && first[len] != ':')
        len--;
    if (first[0] == '[' && len >= 2) { /* [ADDRESS] */
        first++;
        len -= 2;
    }
    snprintf(text, capacity, "%.*s", (int)len, first);
}

void kolo_meeting_died(struct kolo_meeting *meeting, int rank, const char *how)
{
    if (!meeting->server)
        return;
    kolo_store_server_died(meeting->server, rank, how);
    (void)uv_timer_start(&meeting->timer, on_timer, 0, 0); /* may be inside its callback */
}

void kolo_meeting_abort(struct kolo_meeting *meeting, kolo_status why, const char *text)
{
    if (!meeting->server)
        return;
    kolo_store_server_abort(meeting->server, why, text);
    (void)uv_timer_start(&meeting->timer, on_timer, 0, 0);
}

int kolo_meeting_connected(const struct kolo_meeting *meeting)
{
    return meeting->server ? kolo_store_server_connected(meeting->server) : 0;
}

bool kolo_meeting_is_here(const struct kolo_meeting *meeting, int rank)
{
    return meeting->server && kolo_store_server_is_here(meeting->server, rank);
}

bool kolo_meeting_has_come(const struct kolo_meeting *meeting, int rank)
{
    return meeting->server && kolo_store_server_has_come(meeting->server, rank);
}

kolo_status kolo_meeting_view(const struct kolo_meeting *meeting, struct kolo_store_view *views_out)
{
    return meeting->server ? kolo_store_server_view(meeting->server, views_out) : KOLO_ERR_INVALID;
}

int32_t kolo_meeting_pid(const struct kolo_meeting *meeting, int rank)
{
    return meeting->server ? kolo_store_server_pid(meeting->server, rank) : 0;
}

void kolo_meeting_close(struct kolo_meeting *meeting)
{
    if (!meeting)
        return;
    kolo_store_server_destroy(meeting->server);
    meeting->server = NULL;
    if (!meeting->has_handles)
        return;
    meeting->has_handles = false;
    uv_close((uv_handle_t *)&meeting->ready, NULL);
    uv_close((uv_handle_t *)&meeting->timer, NULL);
}

void kolo_meeting_destroy(struct kolo_meeting *meeting)
{
    if (!meeting)
        return;
    kolo_poller_destroy(meeting->poller);
    kolo_free_wiped(meeting, sizeof *meeting);
}
