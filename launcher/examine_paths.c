// SPDX-License-Identifier: Apache-2.0
// The listeners and the dials of the examiner. Must never wait: everything is driven by the poller
// and by turn().
//
// A path is dialled; once both sides have proved the secret, a message of LONG_BYTES is sent, and
// the other side answers it with one byte. This distinguishes a path that loses long segments (some
// MTU on it is too small) from one that lets nothing through. KOLO_PATHS_AT_ONCE paths are tried at
// once, each with its deadlines.
#include "launcher/examine_paths.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/examine.h"
#include "transport/path_quality.h"

enum { LONG_BYTES = 128 << 10, PIECE_BYTES = 16 << 10, PURPOSE = KOLO_PURPOSE_DOCTOR };

enum state { WAITING, DIALLING, SENDING, ENDED };

struct test {
    struct kolo_watch watch; /* first: ready() gets this */
    struct kolo_path_tests *tests;
    struct kolo_place place;
    struct kolo_fact_path path;
    enum state state;
    struct kolo_conn *conn; /* while DIALLING */
    size_t sent;
    kolo_deadline deadline; /* while SENDING */
};

/* A peer that sends a long message. */
struct guest {
    struct kolo_watch watch; /* first: ready() gets this */
    struct kolo_path_tests *tests;
    size_t got;
    struct guest *next, **link;
};

struct kolo_path_tests {
    struct kolo_poller *poller;
    struct kolo_secret secret;
    struct kolo_greeting mine;
    struct kolo_path_events events;
    struct kolo_listener *listeners[2];
    size_t listener_count;
    struct kolo_place places[KOLO_FACT_PLACES_MAX];
    size_t place_count;
    struct test **at;
    size_t count, capacity, begun, ended;
    struct guest *guests;
    bool has_begun, has_told;
};

/* ---- who comes ---- */

static void dismiss(struct guest *guest)
{
    kolo_poller_remove(guest->tests->poller, &guest->watch);
    close(guest->watch.fd);
    *guest->link = guest->next;
    if (guest->next)
        guest->next->link = guest->link;
    kolo_free_memory(guest);
}

static void hear(struct kolo_watch *watch, uint32_t events)
{
    struct guest *guest = (struct guest *)watch;
    uint8_t piece[PIECE_BYTES];
    (void)events;
    ssize_t got = read(watch->fd, piece, sizeof piece);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        dismiss(guest);
        return;
    }
    bool was_short = guest->got < LONG_BYTES;
    guest->got += (size_t)got;
    if (was_short && guest->got >= LONG_BYTES && write(watch->fd, "", 1) != 1)
        dismiss(guest);
}

static void welcome(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct kolo_path_tests *tests = context;
    (void)theirs;
    if (status != KOLO_OK)
        return;
    struct guest *guest = kolo_calloc(1, sizeof *guest);
    if (!guest) {
        close(fd);
        return;
    }
    guest->tests = tests;
    guest->watch = (struct kolo_watch){.fd = fd, .ready = hear};
    guest->next = tests->guests;
    guest->link = &tests->guests;
    if (guest->next)
        guest->next->link = &guest->next;
    tests->guests = guest;
    if (kolo_poller_add(tests->poller, &guest->watch, EPOLLIN) != KOLO_OK)
        dismiss(guest);
}

/* ---- where we go ---- */

static void end(struct test *test, enum kolo_fact_path_end how, const char *words)
{
    struct kolo_path_tests *tests = test->tests;
    if (test->state == SENDING) {
        kolo_poller_remove(tests->poller, &test->watch);
        close(test->watch.fd);
    }
    test->state = ENDED;
    test->path.end = how;
    snprintf(test->path.words, sizeof test->path.words, "%s", words);
    tests->ended++;
    tests->events.path(tests->events.context, &test->path);
}

/* Sends the message, then waits for the answer. */
static void send_long(struct kolo_watch *watch, uint32_t events)
{
    struct test *test = (struct test *)watch;
    static const uint8_t piece[PIECE_BYTES];
    uint8_t answer;
    (void)events;
    while (test->sent < LONG_BYTES) {
        size_t left = LONG_BYTES - test->sent;
        ssize_t put = send(watch->fd, piece, left < sizeof piece ? left : sizeof piece,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (put < 0) {
            end(test, KOLO_FACT_PATH_LONG_LOST, strerrordesc_np(errno));
            return;
        }
        test->sent += (size_t)put;
    }
    kolo_poller_modify(test->tests->poller, watch, EPOLLIN);
    ssize_t got = read(watch->fd, &answer, 1);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == 1) {
        test->path.rtt_us = kolo_path_round_trip_us(watch->fd);
        end(test, KOLO_FACT_PATH_FINE, "");
    } else
        end(test, KOLO_FACT_PATH_LONG_LOST, got == 0 ? "closed" : strerrordesc_np(errno));
}

/* Derives the end from what conn.h says, after the address, about a place that it could not
 * connect. */
static enum kolo_fact_path_end classify(kolo_status status, const char *words)
{
    static const struct {
        const char *words;
        enum kolo_fact_path_end end;
    } table[] = {{"connection refused", KOLO_FACT_PATH_REFUSED},
                 {"no route to host", KOLO_FACT_PATH_NO_ROUTE},
                 {"network unreachable", KOLO_FACT_PATH_NO_ROUTE},
                 {"no answer", KOLO_FACT_PATH_SILENT},
                 {"is rank ", KOLO_FACT_PATH_OTHER_HOST},
                 {"serves purpose ", KOLO_FACT_PATH_STRANGER},
                 {"closed the connection", KOLO_FACT_PATH_STRANGER}};
    if (status == KOLO_ERR_AUTH || status == KOLO_ERR_PROTOCOL)
        return KOLO_FACT_PATH_STRANGER;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strncmp(words, table[i].words, strlen(table[i].words)) == 0)
            return table[i].end;
    return status == KOLO_ERR_TIMEOUT ? KOLO_FACT_PATH_SILENT : KOLO_FACT_PATH_FAILED;
}

static void fail(struct test *test, kolo_status status)
{
    char place[KOLO_PLACE_TEXT_MAX], words[KOLO_FACT_TEXT_MAX];
    kolo_place_format(&test->place, place, sizeof place);
    const char *detail = kolo_error_detail(), *at = strstr(detail, place);
    snprintf(words, sizeof words, "%s", at ? at + strlen(place) + 1 : detail);
    end(test, classify(status, words), words);
}

static void dialled(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct test *test = context;
    (void)theirs;
    test->conn = NULL;
    if (status != KOLO_OK) {
        fail(test, status);
        return;
    }
    test->path.rtt_us = kolo_path_round_trip_us(fd);
    test->state = SENDING;
    test->deadline = kolo_deadline_in_ms(KOLO_PATH_LONG_MS);
    test->watch = (struct kolo_watch){.fd = fd, .ready = send_long};
    if (kolo_poller_add(test->tests->poller, &test->watch, EPOLLOUT) == KOLO_OK)
        return;
    test->state = DIALLING;
    close(fd);
    end(test, KOLO_FACT_PATH_FAILED, kolo_error_detail());
}

static void dial(struct test *test)
{
    struct kolo_greeting mine = test->tests->mine;
    mine.to = test->path.to;
    test->state = DIALLING;
    const struct kolo_dial_config dial_config = {.places = &test->place,
                                                 .count = 1,
                                                 .secret = &test->tests->secret,
                                                 .mine = &mine,
                                                 .deadline = kolo_deadline_in_ms(KOLO_PATH_DIAL_MS),
                                                 .done = dialled,
                                                 .context = test};
    if (kolo_conn_dial(test->tests->poller, &dial_config, &test->conn) != KOLO_OK)
        end(test, KOLO_FACT_PATH_FAILED, kolo_error_detail());
}

/* ---- all of them ---- */

kolo_status kolo_path_tests_add(struct kolo_path_tests *tests, int to, int place,
                                const char *address)
{
    struct kolo_place target;
    size_t count = 0;
    void *at = tests->at;
    /* numbers only: no name from another host is looked up */
    if (address[strspn(address, "0123456789abcdefABCDEF.:[]")] != '\0' ||
        kolo_places_resolve(address, 0, &target, 1, &count) != KOLO_OK || count != 1)
        return kolo_fail(KOLO_ERR_INVALID, "'%s' is not an address", address);
    kolo_status status = kolo_grow(&at, &tests->capacity, tests->count + 1, sizeof(struct test *));
    if (status != KOLO_OK)
        return status;
    tests->at = at;
    struct test *test = kolo_calloc(1, sizeof *test);
    if (!test)
        return KOLO_ERR_NO_MEMORY;
    *test = (struct test){.tests = tests,
                          .place = target,
                          .path = {.from = tests->mine.from, .to = to, .place = place}};
    tests->at[tests->count++] = test;
    return KOLO_OK;
}

void kolo_path_tests_begin(struct kolo_path_tests *tests)
{
    tests->has_begun = true;
}

static kolo_deadline expire_long(struct kolo_path_tests *tests)
{
    kolo_deadline next = KOLO_NEVER;
    for (size_t i = 0; i < tests->begun; i++) {
        struct test *test = tests->at[i];
        if (test->state == SENDING && kolo_deadline_passed(test->deadline))
            end(test, KOLO_FACT_PATH_LONG_LOST, "");
        if (test->state == SENDING)
            next = kolo_deadline_min(next, test->deadline);
    }
    return next;
}

/* Each path that ends makes room for another, which may end at once: repeats until nothing
 * changes. */
kolo_deadline kolo_path_tests_turn(struct kolo_path_tests *tests)
{
    kolo_deadline next;
    size_t begun, ended;
    do {
        begun = tests->begun;
        ended = tests->ended;
        next = kolo_deadline_min(kolo_conn_expire(tests->poller), expire_long(tests));
        while (tests->has_begun && tests->begun < tests->count &&
               tests->begun - tests->ended < KOLO_PATHS_AT_ONCE)
            dial(tests->at[tests->begun++]);
    } while (begun != tests->begun || ended != tests->ended);
    if (tests->has_begun && !tests->has_told && tests->ended == tests->count) {
        tests->has_told = true;
        tests->events.all(tests->events.context);
    }
    return next;
}

/* ---- listening ---- */

static uint16_t port_of(const struct kolo_listener *listener)
{
    struct kolo_place bound;
    kolo_listener_place(listener, &bound);
    return kolo_place_port(&bound);
}

/* Listens at all addresses of a family; @p port 0: at a port that KOLO_PORTS allows. */
static kolo_status listen_to(struct kolo_path_tests *tests, sa_family_t family, uint16_t port,
                             const struct kolo_ports *ports, int hosts)
{
    struct kolo_place any = kolo_place_make(family, NULL, port);
    any.ports = *ports;
    const struct kolo_listener_config config = {.place = &any,
                                                .handshake_ms =
                                                    KOLO_PATH_DIAL_MS + KOLO_PATH_LONG_MS,
                                                .secret = &tests->secret,
                                                .mine = &tests->mine,
                                                .accepted = welcome,
                                                .context = tests};
    kolo_status status =
        kolo_listener_open(tests->poller, &config, &tests->listeners[tests->listener_count]);
    if (status == KOLO_OK)
        kolo_listener_expect(tests->listeners[tests->listener_count++],
                             hosts * KOLO_FACT_PLACES_MAX);
    return status;
}

static kolo_status listen_everywhere(struct kolo_path_tests *tests,
                                     const struct kolo_settings *settings, int hosts)
{
    struct kolo_ports ports;
    size_t kept = 0;
    kolo_status status = kolo_ports_parse(settings->ports, &ports);
    if (status != KOLO_OK)
        return status;
    status = listen_to(tests, AF_INET, 0, &ports, hosts);
    bool has_four = status == KOLO_OK;
    uint16_t port = has_four ? port_of(tests->listeners[0]) : 0;
    bool has_six = listen_to(tests, AF_INET6, port, &ports, hosts) == KOLO_OK;
    if (!has_four && !has_six)
        return status;
    port = port_of(tests->listeners[0]);
    status = kolo_places_local(settings->net, port, tests->places, KOLO_FACT_PLACES_MAX,
                               &tests->place_count);
    for (size_t i = 0; i < tests->place_count; i++)
        if (tests->places[i].addr.ss_family == AF_INET ? has_four : has_six)
            tests->places[kept++] = tests->places[i];
    tests->place_count = kept;
    return status;
}

kolo_status kolo_path_tests_create(struct kolo_poller *poller, const struct kolo_settings *settings,
                                   const struct kolo_secret *secret, int self, int hosts,
                                   const struct kolo_path_events *events,
                                   struct kolo_path_tests **tests_out)
{
    struct kolo_path_tests *tests = kolo_calloc(1, sizeof *tests);
    if (!tests)
        return KOLO_ERR_NO_MEMORY;
    tests->poller = poller;
    tests->secret = *secret;
    tests->events = *events;
    tests->mine = (struct kolo_greeting){
        .protocol = KOLO_PROTOCOL_VERSION, .purpose = PURPOSE, .from = self, .to = -1};
    kolo_status status = listen_everywhere(tests, settings, hosts);
    *tests_out = tests; /* also if nothing listens: it may still reach others */
    return status;
}

const struct kolo_place *kolo_path_tests_places(const struct kolo_path_tests *tests,
                                                size_t *count_out)
{
    *count_out = tests->place_count;
    return tests->places;
}

static void drop(struct test *test)
{
    if (test->conn)
        kolo_conn_cancel(test->conn);
    if (test->state == SENDING) {
        kolo_poller_remove(test->tests->poller, &test->watch);
        close(test->watch.fd);
    }
    kolo_free_memory(test);
}

void kolo_path_tests_destroy(struct kolo_path_tests *tests)
{
    if (!tests)
        return;
    for (size_t i = 0; i < tests->listener_count; i++)
        kolo_listener_close(tests->listeners[i]);
    while (tests->guests)
        dismiss(tests->guests);
    for (size_t i = 0; i < tests->count; i++)
        drop(tests->at[i]);
    kolo_free_memory(tests->at);
    kolo_free_wiped(tests, sizeof *tests);
}
