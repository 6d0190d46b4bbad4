// SPDX-License-Identifier: Apache-2.0
// How the two sides of a TCP link agree on one connection (the table in transport/tcp.c) if dials
// cross, are cut, or are possible in one direction only. Two ranks of this thread reach each other
// through proxies of the test, which decides whose turn it is and how far each connection gets.
#include <criterion/criterion.h>

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/core.h"
#include "transport/tcp.h"

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

/* So many sends of this single byte fail, as when the system has no memory left for sockets. */
static uint8_t byte_to_fail;
static int sends_to_fail;

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    if (sends_to_fail > 0 && bytes == 1 && *(const uint8_t *)data == byte_to_fail) {
        sends_to_fail--;
        errno = EAGAIN;
        return -1;
    }
    return __real_send(fd, data, bytes, flags);
}

enum {
    LINES_MAX = 64,
    LIMIT_MS = 60000,
    MESSAGE_BYTES = 5000,
    /* what passes before the byte that follows a proof */
    CLAIM_BYTES = KOLO_CLAIM_BYTES,
    ANSWER_BYTES = KOLO_NONCE_BYTES + KOLO_ANSWER_BYTES
};

/** RESET and END cut both halves of a connection; AWAY ends the acceptor's half, and the dialler
 *  hears nothing more. */
enum how { RESET, END, AWAY, HOWS };
static const char *const how_text[] = {"reset", "end", "away"};

/** A connection through the proxy. */
struct line {
    int ends[2]; /* towards the dialler and towards the acceptor */
    int dialler;
    size_t passed[2]; /* how many bytes came from there */
};

struct rank {
    struct kolo_endpoint *endpoint;
    struct kolo_work out, in;
    uint8_t sent[MESSAGE_BYTES], got[MESSAGE_BYTES];
    int proxy; /* where the other rank believes this one to listen */
    struct kolo_place place;
    bool has_begun;
    char down[1024];
};

struct world {
    struct kolo_settings settings;
    struct kolo_secret secret;
    struct kolo_peer peers[2];
    struct rank ranks[2];
    struct line lines[LINES_MAX];
    size_t line_count;
    int within_ms; /* the time for a link */
    uint64_t chance;
    bool has_lost; /* one connection was cut by AWAY */
};

static void on_down(void *context, int peer, kolo_status why, const char *text)
{
    struct rank *rank = context;
    (void)peer;
    (void)why;
    snprintf(rank->down, sizeof rank->down, "%s", text);
}

static void set(struct world *w, const char *name, const char *value)
{
    cr_assert(kolo_settings_set(&w->settings, name, value, KOLO_FROM_API) == KOLO_OK);
}

static int index_of_tcp(void)
{
    int index = 0;
    while (kolo_transports[index] != &kolo_transport_tcp)
        index++;
    return index;
}

/** Opens a proxy before @p rank, and publishes it in its place. */
static void hide_behind_proxy(struct rank *rank, struct kolo_peer *peer)
{
    struct kolo_address *address = &peer->addresses[index_of_tcp()];
    struct kolo_place proxy;
    size_t count = 0;

    cr_assert(kolo_tcp_read_places(address->data, address->bytes, &rank->place, &count) == KOLO_OK);
    cr_assert(count == 1);
    proxy = rank->place;
    kolo_place_set_port(&proxy, 0);
    rank->proxy = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert(bind(rank->proxy, (struct sockaddr *)&proxy.addr, proxy.bytes) == 0);
    cr_assert(listen(rank->proxy, LINES_MAX) == 0);
    cr_assert(getsockname(rank->proxy, (struct sockaddr *)&proxy.addr, &proxy.bytes) == 0);
    cr_assert(kolo_tcp_write_places(&proxy, 1, address) == KOLO_OK);
}

static void open_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->within_ms = 2 * LIMIT_MS;
    kolo_settings_init(&w->settings);
    set(w, "transport", "tcp");
    set(w, "net", "127.0.0.1");
    cr_assert(kolo_secret_make(&w->secret) == KOLO_OK);
    for (int i = 0; i < 2; i++) {
        struct rank *rank = &w->ranks[i];
        struct kolo_endpoint_config config = {.rank = i,
                                              .size = 2,
                                              .settings = &w->settings,
                                              .secret = w->secret,
                                              .events = {.context = rank, .down = on_down}};
        kolo_identity_here(i, &config.identity);
        cr_assert(kolo_endpoint_open(&config, &rank->endpoint) == KOLO_OK, "%s",
                  kolo_error_detail());
        kolo_endpoint_self(rank->endpoint, &w->peers[i]);
        hide_behind_proxy(rank, &w->peers[i]);
        memset(rank->sent, 'a' + i, sizeof rank->sent);
    }
    for (int i = 0; i < 2; i++)
        cr_assert(kolo_endpoint_set_peers(w->ranks[i].endpoint, w->peers) == KOLO_OK, "%s",
                  kolo_error_detail());
}

/* ---- the proxy ---- */

static void close_end(struct line *line, int end, bool is_reset)
{
    const struct linger none = {.l_onoff = 1};
    if (line->ends[end] < 0)
        return;
    if (is_reset)
        (void)setsockopt(line->ends[end], SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(line->ends[end]);
    line->ends[end] = -1;
}

static void cut(struct line *line, enum how how)
{
    if (how != AWAY)
        close_end(line, 0, how == RESET);
    close_end(line, 1, how == RESET);
}

static void close_world(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        (void)kolo_endpoint_close(w->ranks[i].endpoint, kolo_deadline_in_ms(0));
        close(w->ranks[i].proxy);
    }
    for (size_t i = 0; i < w->line_count; i++) {
        close_end(&w->lines[i], 0, true);
        close_end(&w->lines[i], 1, true);
    }
}

/** Takes the next dial of the rank beside @p to. */
static void take_dial(struct world *w, int to)
{
    struct rank *rank = &w->ranks[to];
    int fd = accept4(rank->proxy, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct line *line = &w->lines[w->line_count];
    if (fd < 0)
        return;
    cr_assert(w->line_count < LINES_MAX, "dials without end");
    *line = (struct line){.dialler = 1 - to, .ends = {fd, -1}};
    w->line_count++;
    line->ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(connect(line->ends[1], (struct sockaddr *)&rank->place.addr, rank->place.bytes) == 0);
}

/** Passes at most @p most bytes on, as well as the end. */
static void pass(struct line *line, int from, size_t most)
{
    uint8_t bytes[4096];
    ssize_t got;
    if (line->ends[from] < 0 || most == 0)
        return;
    got = recv(line->ends[from], bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        close_end(line, from, got < 0);
        close_end(line, 1 - from, got < 0);
        return;
    }
    if (got < 0)
        return;
    line->passed[from] += (size_t)got;
    if (line->ends[1 - from] >= 0)
        (void)!send(line->ends[1 - from], bytes, (size_t)got, MSG_NOSIGNAL);
}

/* ---- the ranks ---- */

static void run_rank(struct world *w, int number)
{
    bool moved;
    cr_assert(kolo_endpoint_progress(w->ranks[number].endpoint, &moved) == KOLO_OK);
}

/** From now on the rank wants the link. */
static void begin(struct world *w, int number)
{
    struct rank *rank = &w->ranks[number];
    const struct kolo_desc desc = {{1}};
    struct kolo_link *link = NULL;
    if (rank->has_begun)
        return;
    rank->has_begun = true;
    cr_assert(kolo_endpoint_link(rank->endpoint, 1 - number, kolo_deadline_in_ms(w->within_ms),
                                 &link) == KOLO_OK,
              "%s", kolo_error_detail());
    kolo_link_recv(link, 1, &desc, rank->got, sizeof rank->got, NULL, &rank->in);
    kolo_link_send(link, 1, &desc, rank->sent, sizeof rank->sent, &rank->out);
}

static bool is_over(const struct world *w)
{
    for (int i = 0; i < 2; i++) {
        const struct rank *rank = &w->ranks[i];
        if (rank->down[0] != '\0')
            return true;
        if (!rank->has_begun || rank->in.status == KOLO_AGAIN || rank->out.status == KOLO_AGAIN)
            return false;
    }
    return true;
}

static void check(const struct world *w, const char *what)
{
    for (int i = 0; i < 2; i++) {
        const struct rank *rank = &w->ranks[i];
        cr_assert(rank->down[0] == '\0', "%s: rank %d: %s", what, i, rank->down);
        cr_assert(rank->has_begun && rank->in.status == KOLO_OK && rank->out.status == KOLO_OK,
                  "%s: rank %d waits", what, i);
        cr_assert(memcmp(rank->got, w->ranks[1 - i].sent, sizeof rank->got) == 0, "%s", what);
    }
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* ---- one cut, at every place ---- */

/** The first dial of these ranks is cut when that many bytes have come from the side. */
struct plan {
    bool is_cut[2]; /* the dial of that rank */
    int side;       /* 0: from the dialler, 1: from the acceptor */
    size_t bytes;
    enum how how;
    int first; /* the rank that wants the link first; 2: both at once */
};

static bool is_first_dial(const struct world *w, const struct line *line)
{
    for (const struct line *other = w->lines; other < line; other++)
        if (other->dialler == line->dialler)
            return false;
    return true;
}

static void pass_by_plan(struct world *w, struct line *line, const struct plan *plan)
{
    bool is_cut = plan->is_cut[line->dialler] && is_first_dial(w, line);
    for (int from = 0; from < 2; from++) {
        bool has_limit = is_cut && from == plan->side;
        pass(line, from, has_limit ? plan->bytes - line->passed[from] : MESSAGE_BYTES);
        if (has_limit && line->ends[1] >= 0 && line->passed[from] == plan->bytes)
            cut(line, plan->how);
    }
}

static void run_plan(const struct plan *plan)
{
    struct world w;
    char text[128];
    int before = count_descriptors();
    kolo_deadline limit = kolo_deadline_in_ms(LIMIT_MS);
    open_world(&w);
    for (int turn = 0; !is_over(&w) && !kolo_deadline_passed(limit); turn++) {
        for (int rank = 0; rank < 2; rank++) {
            if (plan->first == 2 || plan->first == rank || turn >= 8)
                begin(&w, rank);
            take_dial(&w, rank);
        }
        for (size_t i = 0; i < w.line_count; i++)
            pass_by_plan(&w, &w.lines[i], plan);
        run_rank(&w, turn % 2);
        run_rank(&w, 1 - turn % 2);
    }
    snprintf(text, sizeof text, "cut of %s%s after %zu bytes of the %s by %s, %d first",
             plan->is_cut[0] ? "0" : "", plan->is_cut[1] ? "1" : "", plan->bytes,
             plan->side == 0 ? "dialler" : "acceptor", how_text[plan->how], plan->first);
    check(&w, text);
    close_world(&w);
    cr_assert(count_descriptors() == before, "%s: descriptors are left", text);
}

/** Cuts at every boundary of the handshake and in between. A cut that the dialler notices only
 *  after the acceptor's byte ends the link, since the other side may have taken it. */
static void cut_everywhere(enum how how, int ranks)
{
    static const size_t places[2][4] = {{0, 1, CLAIM_BYTES - 1, CLAIM_BYTES},
                                        {1, KOLO_NONCE_BYTES, ANSWER_BYTES - 1, ANSWER_BYTES}};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < 4; i++)
            for (int first = 0; first < 3; first++)
                run_plan(&(struct plan){.is_cut = {ranks & 1, ranks & 2},
                                        .side = side,
                                        .bytes = places[side][i],
                                        .how = how,
                                        .first = first});
}

Test(tcp_dials, a_dial_that_is_reset_anywhere_is_replaced, .timeout = 300)
{
    for (int ranks = 0; ranks < 4; ranks++)
        cut_everywhere(RESET, ranks);
}

Test(tcp_dials, a_dial_that_ends_anywhere_is_replaced, .timeout = 300)
{
    for (int ranks = 1; ranks < 4; ranks++)
        cut_everywhere(END, ranks);
}

/** The dialler's connection stands, and the peer is not behind it any more: the lower rank takes
 *  the peer's own dial after a while. */
Test(tcp_dials, a_dial_that_the_acceptor_alone_has_lost_is_replaced, .timeout = 300)
{
    for (int ranks = 1; ranks < 3; ranks++)
        for (int first = 0; first < 3; first++)
            run_plan(&(struct plan){.is_cut = {ranks & 1, ranks & 2},
                                    .side = 1,
                                    .bytes = ANSWER_BYTES,
                                    .how = AWAY,
                                    .first = first});
}

/** The bytes by which the two sides agree are sent once; the other side waits for them. */
Test(tcp_dials, a_byte_that_cannot_be_sent_costs_a_dial_only, .timeout = 300)
{
    static const uint8_t bytes[] = {'k', 's'};
    for (size_t i = 0; i < sizeof bytes; i++)
        for (int times = 1; times < 4; times++)
            for (int first = 0; first < 3; first++) {
                byte_to_fail = bytes[i];
                sends_to_fail = times;
                run_plan(&(struct plan){.first = first});
                cr_assert(sends_to_fail == 0, "%d of '%c' are left", sends_to_fail, bytes[i]);
            }
}

/* ---- dials in one direction only ---- */

/** Cuts a connection when so many bytes have come from the acceptor. */
static void pass_and_cut(struct line *line, size_t bytes, enum how how)
{
    pass(line, 0, MESSAGE_BYTES);
    pass(line, 1, bytes - line->passed[1]);
    if (line->passed[1] == bytes)
        cut(line, how);
}

/** No dial of @p blocked gets through: refused (-1), or every one cut after @p bytes. */
static void run_one_way(int blocked, int how, size_t bytes)
{
    struct world w;
    kolo_deadline limit = kolo_deadline_in_ms(LIMIT_MS);
    char text[64];
    open_world(&w);
    if (how < 0)
        close(w.ranks[1 - blocked].proxy);
    while (!is_over(&w) && !kolo_deadline_passed(limit)) {
        for (int rank = 0; rank < 2; rank++) {
            begin(&w, rank);
            if (how >= 0 || rank == blocked)
                take_dial(&w, rank);
            run_rank(&w, rank);
        }
        for (size_t i = 0; i < w.line_count; i++)
            if (w.lines[i].dialler == blocked)
                pass_and_cut(&w.lines[i], bytes, (enum how)how);
            else
                for (int from = 0; from < 2; from++)
                    pass(&w.lines[i], from, MESSAGE_BYTES);
    }
    if (how < 0)
        w.ranks[1 - blocked].proxy = dup(w.ranks[blocked].proxy);
    snprintf(text, sizeof text, "rank %d cannot dial: %s after %zu", blocked,
             how < 0 ? "refused" : how_text[how], bytes);
    check(&w, text);
    close_world(&w);
}

Test(tcp_dials, one_direction_is_enough_whichever, .timeout = 300)
{
    for (int blocked = 0; blocked < 2; blocked++)
        for (int how = -1; how < HOWS; how++)
            run_one_way(blocked, how, 0);
}

Test(tcp_dials, a_rank_whose_dials_are_all_cut_late_takes_the_others, .timeout = 300)
{
    for (int blocked = 0; blocked < 2; blocked++)
        for (int how = 0; how < AWAY; how++)
            run_one_way(blocked, how, ANSWER_BYTES);
}

/** Rank 0's dials end when they are proved, and rank 1's are refused. */
Test(tcp_dials, dials_that_all_end_are_paced_and_told, .timeout = 300)
{
    struct world w;
    kolo_deadline limit = kolo_deadline_in_ms(LIMIT_MS);
    open_world(&w);
    w.within_ms = 1500;
    close(w.ranks[0].proxy);
    begin(&w, 0);
    while (!is_over(&w) && !kolo_deadline_passed(limit)) {
        take_dial(&w, 1);
        run_rank(&w, 0);
        run_rank(&w, 1);
        for (size_t i = 0; i < w.line_count; i++)
            pass_and_cut(&w.lines[i], ANSWER_BYTES, END);
    }
    w.ranks[0].proxy = dup(w.ranks[1].proxy);
    cr_assert(strstr(w.ranks[0].down, "cannot reach rank 1: ") &&
                  strstr(w.ranks[0].down, "it has proved itself before, and the connection ended"),
              "%s", w.ranks[0].down);
    cr_assert(w.line_count <= 8, "40, 80, 160, 320, 640 ms apart: %zu", w.line_count);
    close_world(&w);
}

/* ---- any interleaving ---- */

static unsigned draw(struct world *w, unsigned below)
{
    w->chance ^= w->chance << 13;
    w->chance ^= w->chance >> 7;
    w->chance ^= w->chance << 17;
    return (unsigned)(w->chance >> 33) % below;
}

/** Cuts a connection whose dialler has not been told that it is welcome, if there is one. At most
 *  one dialler hears nothing more: nothing would tell two that wait for each other. */
static bool cut_some(struct world *w)
{
    struct line *line;
    enum how how;
    if (w->line_count == 0)
        return false;
    line = &w->lines[draw(w, (unsigned)w->line_count)];
    if (line->ends[1] < 0 || line->passed[1] > ANSWER_BYTES)
        return false;
    how = (enum how)draw(w, w->has_lost ? AWAY : HOWS);
    w->has_lost |= how == AWAY;
    cut(line, how);
    return true;
}

/** One step of whoever the seed names. */
static void step(struct world *w, int *cuts)
{
    unsigned what = draw(w, 100), number = draw(w, 2);
    if (what < 30)
        run_rank(w, (int)number);
    else if (what < 33)
        begin(w, (int)number);
    else if (what < 40)
        take_dial(w, (int)number);
    else if (what < 43)
        *cuts -= *cuts > 0 && cut_some(w);
    else if (w->line_count > 0)
        pass(&w->lines[draw(w, (unsigned)w->line_count)], (int)number,
             1 + draw(w, draw(w, 3) == 0 ? 4 : 4096));
}

Test(tcp_dials, whatever_comes_first_both_sides_take_one_connection, .timeout = 600)
{
    enum { SEEDS = 120 };
    int before = count_descriptors();
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct world w;
        char text[64];
        int cuts = (int)(seed % 4);
        kolo_deadline limit = kolo_deadline_in_ms(LIMIT_MS);
        open_world(&w);
        w.chance = seed * UINT64_C(0x9E3779B97F4A7C15);
        while (!is_over(&w) && !kolo_deadline_passed(limit))
            step(&w, &cuts);
        snprintf(text, sizeof text, "seed %u", seed);
        check(&w, text);
        close_world(&w);
        cr_assert(count_descriptors() == before, "%s: descriptors are left", text);
    }
}
