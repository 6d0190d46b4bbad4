// SPDX-License-Identifier: Apache-2.0
// Owns dialling. It tries the places of one peer, staggered or (in a race) all at once, dials again
// with a growing pause until the deadline, and takes the first connection that proves itself. Must
// never call back from within kolo_conn_dial, and never give up without the reason for every place.
//
// An attempt (one place) is WAITING for its time, RUNNING (a handshake is under way), or FAILED for
// good, because whoever answers there does not know the secret, speaks another version, or is
// another rank. A dial whose attempts have all FAILED ends at once. A dial for which
// kolo_conn_expect() set a time ends then, if no place has taken a connection; any other dial ends
// at its deadline. A peer that is busy computing still takes connections, since its kernel does.
// If this rank lacks a descriptor, or something else, for every attempt, the dial ends after
// LACK_MS: time enough for other threads to give something back, and the other ranks hear of it.
#include "transport/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/conn_private.h"
#include "transport/path_quality.h"

enum {
    STAGGER_MS = 100,
    REDIAL_FIRST_MS = 20,
    REDIAL_MAX_MS = 500,
    /* After this time without an answer from the place that was asked first, other places may prove
     * themselves. */
    PROVE_MS = 1000,
    /* A connection that is silent for this long is replaced by a new one: the peer may have dropped
     * it without our noticing. The time doubles with each of the first, since a new one queues
     * behind all others at the peer, which a flood of strangers makes long. */
    RENEW_MS = 5000,
    RENEW_DOUBLINGS = 3,
    /* After this many rejections in a row the peer has another secret and is not only busy. */
    REJECTIONS_MAX = 8,
    PLACES_MAX = 64,
    LACK_MS = 1000,
    /* How much later than the first place the other places of a race may answer. */
    RACE_MIN_US = 1000,
    RACE_MAX_US = 20000
};

static kolo_deadline after_ms(kolo_deadline now, int64_t ms)
{
    return now + ms * KOLO_NS_PER_MS;
}

/* ---- one place ---- */

enum attempt_state { ATTEMPT_WAITING, ATTEMPT_RUNNING, ATTEMPT_FAILED };

struct attempt {
    struct kolo_handshake handshake; /* must be first: the owner's functions get this pointer */
    struct kolo_conn *conn;
    struct kolo_place place;
    enum attempt_state state;
    kolo_deadline at; /* WAITING: when to begin; RUNNING: when to look at it again */
    int64_t pause_ms;
    unsigned begun, rejected;
    unsigned renewed;               /* because it was silent; at most RENEW_DOUBLINGS are counted */
    bool is_taken;                  /* a kernel or a program has taken a connection here */
    enum kolo_conn_verdict verdict; /* how the last try ended */
    int error;
    kolo_deadline lacks_since; /* KOLO_NEVER: its last try did not end with a lack */
    kolo_deadline begun_at;
    struct kolo_path_quality quality; /* in a race, valid from HELD on */
};

struct kolo_conn {
    struct kolo_conn_timer timer; /* must be first: fire gets this pointer */
    struct kolo_poller *poller;
    struct kolo_secret secret;
    struct kolo_greeting mine;
    kolo_deadline deadline;
    const char *advice;     /* NULL: none */
    kolo_deadline taken_by; /* KOLO_NEVER: no limit */
    kolo_conn_done *done;
    void *context;
    struct kolo_race *race;  /* NULL: take the first place that answers */
    kolo_deadline settle_at; /* when the race is decided; KOLO_NEVER: nobody has answered yet */
    kolo_deadline lacked_at; /* when a try last ended with a lack, */
    kolo_status lack;        /* and what this rank lacked, in words too */
    char lack_text[256];
    size_t count;
    struct attempt attempts[];
};

static bool is_for_good(const struct attempt *attempt)
{
    switch (attempt->verdict) {
    case KOLO_VERDICT_WRONG_PROOF:
    case KOLO_VERDICT_OTHER_VERSION:
    case KOLO_VERDICT_OTHER_PURPOSE:
    case KOLO_VERDICT_OTHER_RANK:
        return true;
    case KOLO_VERDICT_REJECTED:
        return attempt->rejected >= REJECTIONS_MAX;
    case KOLO_VERDICT_ERROR:
        return attempt->error == EAFNOSUPPORT || attempt->error == EPROTONOSUPPORT ||
               attempt->error == EINVAL || attempt->error == EPROTOTYPE;
    case KOLO_VERDICT_PROVED:
    case KOLO_VERDICT_LACK:
    case KOLO_VERDICT_CLOSED:
    case KOLO_VERDICT_SILENT:
    default:
        return false;
    }
}

/** Whether a kernel or a program has taken the connection that is being tried. */
static bool stands(const struct attempt *attempt)
{
    return attempt->state == ATTEMPT_RUNNING && attempt->handshake.state != KOLO_HANDSHAKE_OVER &&
           attempt->handshake.state != KOLO_HANDSHAKE_CONNECTING;
}

/** Whether the host answers and the process does not. */
static bool is_unanswered(const struct attempt *attempt)
{
    return stands(attempt) || (attempt->is_taken && attempt->state != ATTEMPT_FAILED &&
                               attempt->verdict == KOLO_VERDICT_SILENT);
}

static const char *error_words(int error, char *text, size_t capacity)
{
    switch (error) {
    case ECONNREFUSED:
        return "connection refused";
    case ECONNRESET:
        return "connection reset";
    case ETIMEDOUT:
        return "no answer";
    case ENETUNREACH:
        return "network unreachable";
    case EHOSTUNREACH:
        return "no route to host";
    case EINVAL: /* for an address that came from its own host: a blackhole route */
        return "no route to host: a route of this machine drops what goes there";
    case EACCES:
        return "no route to host: a route or firewall of this machine prohibits it";
    case ENOENT:
        return "nobody listens";
    case EAGAIN:
        return "busy";
    default:
        return strerror_r(error, text, capacity);
    }
}

/** The last answer of a place, as text for users. */
static void describe_attempt(const struct attempt *attempt, char *text, size_t capacity)
{
    const struct kolo_greeting *theirs = &attempt->handshake.theirs;
    char words[96];

    if (is_unanswered(attempt)) {
        snprintf(text, capacity,
                 "takes connections, but its process gives no answer: it is busy, or stopped");
        return;
    }
    switch (attempt->verdict) {
    case KOLO_VERDICT_ERROR:
        snprintf(text, capacity, "%s", error_words(attempt->error, words, sizeof words));
        break;
    case KOLO_VERDICT_LACK:
        snprintf(text, capacity, "%s", attempt->conn->lack_text);
        break;
    case KOLO_VERDICT_CLOSED:
        snprintf(text, capacity, "closed the connection");
        break;
    case KOLO_VERDICT_REJECTED:
        snprintf(text, capacity, "rejected our proof (another job's secret?)");
        break;
    case KOLO_VERDICT_WRONG_PROOF:
        snprintf(text, capacity, "does not know the job's secret (another program's server?)");
        break;
    case KOLO_VERDICT_OTHER_VERSION:
        snprintf(text, capacity, "speaks protocol %d, this is %d", theirs->protocol,
                 attempt->conn->mine.protocol);
        break;
    case KOLO_VERDICT_OTHER_PURPOSE:
        snprintf(text, capacity, "serves purpose %d, not %d", theirs->purpose,
                 attempt->conn->mine.purpose);
        break;
    case KOLO_VERDICT_OTHER_RANK:
        snprintf(text, capacity, "is rank %d", (int)theirs->from);
        break;
    case KOLO_VERDICT_PROVED:
    case KOLO_VERDICT_SILENT:
    default:
        snprintf(text, capacity, "no answer");
        break;
    }
}

static void rest(struct attempt *attempt, kolo_deadline now)
{
    attempt->state = ATTEMPT_WAITING;
    attempt->at = after_ms(now, attempt->pause_ms);
    attempt->pause_ms =
        attempt->pause_ms * 2 < REDIAL_MAX_MS ? attempt->pause_ms * 2 : REDIAL_MAX_MS;
}

/** Records what this rank lacks. */
static void note_lack(struct attempt *attempt, kolo_deadline now)
{
    struct kolo_conn *conn = attempt->conn;

    attempt->lacks_since = kolo_deadline_min(attempt->lacks_since, now);
    conn->lacked_at = now;
    conn->lack = attempt->handshake.lack;
    snprintf(conn->lack_text, sizeof conn->lack_text, "%s", kolo_error_detail());
}

/** Records the end of an attempt, which is tried again later, or never. */
static void note_end(struct attempt *attempt, enum kolo_conn_verdict verdict, int error)
{
    kolo_deadline now = kolo_now_ns();
    struct kolo_conn *conn = attempt->conn;
    char place[KOLO_PLACE_TEXT_MAX], words[160];

    if (verdict == KOLO_VERDICT_LACK)
        note_lack(attempt, now);
    else
        attempt->lacks_since = KOLO_NEVER;
    attempt->verdict = verdict;
    attempt->error = error;
    attempt->rejected = verdict == KOLO_VERDICT_REJECTED ? attempt->rejected + 1 : 0;
    if (is_for_good(attempt))
        attempt->state = ATTEMPT_FAILED;
    else
        rest(attempt, now);
    if (kolo_log_on(KOLO_LOG_DEBUG)) {
        kolo_place_format(&attempt->place, place, sizeof place);
        describe_attempt(attempt, words, sizeof words);
        KOLO_DEBUG("dial %s: %s%s", place, words,
                   attempt->state == ATTEMPT_FAILED ? "" : ", again later");
    }
    /* The next place is tried at once. */
    for (size_t i = 0; i < conn->count; i++)
        if (conn->attempts[i].state == ATTEMPT_WAITING && conn->attempts[i].begun == 0) {
            conn->attempts[i].at = kolo_deadline_min(conn->attempts[i].at, now);
            break;
        }
}

static bool is_proving(const struct attempt *attempt)
{
    return attempt->state == ATTEMPT_RUNNING &&
           (attempt->handshake.state == KOLO_HANDSHAKE_SENDS_CLAIM ||
            attempt->handshake.state == KOLO_HANDSHAKE_AWAITS_ANSWER);
}

static bool is_held(const struct attempt *attempt)
{
    return attempt->state == ATTEMPT_RUNNING && attempt->handshake.state == KOLO_HANDSHAKE_HELD;
}

static struct attempt *find_attempt(struct kolo_conn *conn, bool (*is)(const struct attempt *))
{
    for (size_t i = 0; i < conn->count; i++)
        if (is(&conn->attempts[i]))
            return &conn->attempts[i];
    return NULL;
}

/* ---- the race ---- */

/** Whether its first try may still be answered. */
static bool is_pending(const struct attempt *attempt)
{
    return (attempt->state == ATTEMPT_WAITING && attempt->begun == 0) ||
           (attempt->state == ATTEMPT_RUNNING && attempt->begun == 1 &&
            (attempt->handshake.state == KOLO_HANDSHAKE_CONNECTING ||
             attempt->handshake.state == KOLO_HANDSHAKE_AWAITS_NONCE));
}

static bool is_settled(struct kolo_conn *conn, kolo_deadline now)
{
    return !conn->race || now >= conn->settle_at || !find_attempt(conn, is_pending);
}

/** A place has answered: records the quality of its path, and how long to wait for the others. */
static void note_answer(struct attempt *attempt, kolo_deadline now)
{
    struct kolo_conn *conn = attempt->conn;
    int64_t more_ns = now - attempt->begun_at;

    if (!conn->race)
        return;
    kolo_path_quality_measure(attempt->handshake.watch.fd, &attempt->place, conn->race->locals,
                              conn->race->local_count, conn->race->numa_node, &attempt->quality);
    if (conn->settle_at != KOLO_NEVER)
        return;
    if (more_ns < RACE_MIN_US * 1000)
        more_ns = RACE_MIN_US * 1000;
    if (more_ns > RACE_MAX_US * 1000)
        more_ns = RACE_MAX_US * 1000;
    conn->settle_at = now + more_ns;
}

/** Among the attempts that are held, the one to prove next. */
static struct attempt *choose_held(struct kolo_conn *conn)
{
    struct kolo_path_quality paths[PLACES_MAX];
    struct attempt *held[PLACES_MAX];
    size_t count = 0;

    if (!conn->race)
        return find_attempt(conn, is_held);
    for (size_t i = 0; i < conn->count; i++)
        if (is_held(&conn->attempts[i])) {
            paths[count] = conn->attempts[i].quality;
            held[count++] = &conn->attempts[i];
        }
    return count > 0 ? held[kolo_path_quality_best(paths, count, conn->race->turn)] : NULL;
}

static void tell_result(const struct kolo_conn *conn, const struct attempt *winner)
{
    struct kolo_race *race = conn->race;

    if (!race)
        return;
    kolo_path_quality_format(&winner->quality, race->text, sizeof race->text);
    race->tried = conn->count;
    race->answered = 0;
    for (size_t i = 0; i < conn->count; i++)
        race->answered += conn->attempts[i].quality.rtt_us > 0;
}

/* ---- the dial ---- */

/** Whether the place is, or may be, the peer's. */
static bool is_promising(const struct attempt *attempt)
{
    return attempt->is_taken && attempt->state != ATTEMPT_FAILED;
}

static void note_taken(struct attempt *attempt)
{
    attempt->is_taken |= stands(attempt);
}

/** Sets the timer to when there is something to do next. */
static void reckon(struct kolo_conn *conn)
{
    bool is_hopeless = true;
    kolo_deadline at = conn->deadline;

    if (!find_attempt(conn, is_promising))
        at = kolo_deadline_min(at, conn->taken_by);
    for (size_t i = 0; i < conn->count; i++)
        if (conn->attempts[i].state != ATTEMPT_FAILED) {
            is_hopeless = false;
            at = kolo_deadline_min(at, conn->attempts[i].at);
        }
    if (conn->race && find_attempt(conn, is_held) && !find_attempt(conn, is_proving))
        at = kolo_deadline_min(at, conn->settle_at);
    conn->timer.at = is_hopeless ? kolo_now_ns() : at;
}

static void release(struct kolo_conn *conn)
{
    for (size_t i = 0; i < conn->count; i++)
        kolo_handshake_drop(&conn->attempts[i].handshake);
    kolo_conn_timer_remove(&conn->timer);
    OPENSSL_cleanse(&conn->secret, sizeof conn->secret);
    kolo_free_memory(conn);
}

/** Since when this rank lacks what it takes to reach any place; KOLO_NEVER: some may be reached. */
static kolo_deadline lacks_since(const struct kolo_conn *conn)
{
    kolo_deadline latest = KOLO_NEVER;

    for (size_t i = 0; i < conn->count; i++) {
        const struct attempt *attempt = &conn->attempts[i];
        if (attempt->state == ATTEMPT_FAILED)
            continue;
        if (attempt->state == ATTEMPT_RUNNING || attempt->lacks_since == KOLO_NEVER)
            return KOLO_NEVER;
        if (latest == KOLO_NEVER || attempt->lacks_since > latest)
            latest = attempt->lacks_since;
    }
    return latest;
}

/** The status that describes best why no place was reached. */
static kolo_status sum_up(const struct kolo_conn *conn)
{
    bool has_auth = false, has_protocol = false, is_silent = true;

    if (lacks_since(conn) != KOLO_NEVER)
        return conn->lack;
    for (size_t i = 0; i < conn->count; i++) {
        enum kolo_conn_verdict verdict = conn->attempts[i].verdict;
        if (is_unanswered(&conn->attempts[i])) /* however its last try ended */
            continue;
        has_auth |= verdict == KOLO_VERDICT_WRONG_PROOF || verdict == KOLO_VERDICT_REJECTED;
        has_protocol |= verdict == KOLO_VERDICT_OTHER_VERSION;
        is_silent &= verdict == KOLO_VERDICT_SILENT || verdict == KOLO_VERDICT_PROVED ||
                     (verdict == KOLO_VERDICT_ERROR && conn->attempts[i].error == ETIMEDOUT);
    }
    if (has_protocol)
        return KOLO_ERR_PROTOCOL;
    if (has_auth)
        return KOLO_ERR_AUTH;
    return is_silent ? KOLO_ERR_TIMEOUT : KOLO_ERR_CONNECT;
}

static bool is_late_peer(const struct kolo_conn *conn)
{
    for (size_t i = 0; i < conn->count; i++)
        if (is_unanswered(&conn->attempts[i]))
            return true;
    return false;
}

static bool is_for_the_network(kolo_status status)
{
    return status == KOLO_ERR_CONNECT || status == KOLO_ERR_TIMEOUT;
}

void kolo_conn_explain(const struct kolo_conn *conn, char *text, size_t capacity)
{
    char peer[32] = "the rendezvous";
    bool is_late = is_late_peer(conn);
    size_t used;

    if (conn->mine.to >= 0)
        snprintf(peer, sizeof peer, "rank %d", (int)conn->mine.to);
    if (lacks_since(conn) != KOLO_NEVER) { /* the same for every place */
        snprintf(text, capacity, "cannot reach %s: %s", peer, conn->lack_text);
        return;
    }
    used = (size_t)snprintf(text, capacity, is_late ? "%s is late" : "cannot reach %s", peer);
    for (size_t i = 0; i < conn->count && used < capacity; i++) {
        char place[KOLO_PLACE_TEXT_MAX], words[160];
        kolo_place_format(&conn->attempts[i].place, place, sizeof place);
        describe_attempt(&conn->attempts[i], words, sizeof words);
        used += (size_t)snprintf(text + used, capacity - used, "%s%s %s", i == 0 ? ": " : ", ",
                                 place, words);
    }
    if (conn->advice && !is_late && used < capacity && is_for_the_network(sum_up(conn)))
        snprintf(text + used, capacity - used, "; %s", conn->advice);
}

static kolo_status fail_with_reasons(const struct kolo_conn *conn)
{
    char text[KOLO_DETAIL_MAX];

    kolo_conn_explain(conn, text, sizeof text);
    return kolo_fail(sum_up(conn), "%s", text);
}

static void conclude(struct kolo_conn *conn, kolo_status status, int fd,
                     const struct kolo_greeting *theirs)
{
    kolo_conn_done *done = conn->done;
    void *context = conn->context;

    release(conn);
    done(context, status, fd, theirs);
}

static void give_up(struct kolo_conn *conn)
{
    static const struct kolo_greeting nobody = {.from = -1, .to = -1};
    kolo_status status = fail_with_reasons(conn);

    conclude(conn, status, -1, &nobody);
}

static void begin(struct attempt *attempt)
{
    int error;

    attempt->begun++;
    attempt->state = ATTEMPT_RUNNING;
    attempt->begun_at = kolo_now_ns();
    attempt->at = after_ms(attempt->begun_at, (int64_t)RENEW_MS << attempt->renewed);
    error = kolo_handshake_dial(&attempt->handshake);
    if (error != 0)
        note_end(attempt,
                 attempt->handshake.lack == KOLO_OK ? KOLO_VERDICT_ERROR : KOLO_VERDICT_LACK,
                 error);
}

/** Lets an attempt that is held prove itself, unless another one is doing so. Must be the last call
 *  of its caller, since the dial may end. */
static void go_on(struct kolo_conn *conn)
{
    struct attempt *held = choose_held(conn);
    kolo_deadline now = kolo_now_ns();

    reckon(conn);
    if (held && !find_attempt(conn, is_proving) && is_settled(conn, now)) {
        held->at = after_ms(now, PROVE_MS);
        reckon(conn);
        kolo_handshake_prove(&held->handshake);
    }
}

/** Whether no other attempt may still answer. */
static bool awaits_only(const struct attempt *attempt)
{
    const struct kolo_conn *conn = attempt->conn;

    for (size_t i = 0; i < conn->count; i++)
        if (&conn->attempts[i] != attempt && is_pending(&conn->attempts[i]))
            return false;
    return true;
}

static bool may_prove(struct kolo_handshake *handshake)
{
    struct attempt *attempt = (struct attempt *)handshake;
    struct kolo_conn *conn = attempt->conn;
    kolo_deadline now = kolo_now_ns();

    note_answer(attempt, now);
    if (find_attempt(conn, is_proving))
        return false;
    if (conn->race && conn->count > 1) { /* go_on compares them when the timer fires */
        conn->timer.at = kolo_deadline_min(conn->timer.at, conn->settle_at);
        if (awaits_only(attempt))
            conn->timer.at = conn->settle_at = now;
        return false;
    }
    attempt->at = after_ms(now, PROVE_MS);
    reckon(conn);
    return true;
}

static void over(struct kolo_handshake *handshake, enum kolo_conn_verdict verdict, int error)
{
    struct attempt *attempt = (struct attempt *)handshake;
    struct kolo_conn *conn = attempt->conn;

    if (verdict == KOLO_VERDICT_PROVED) {
        struct kolo_greeting theirs = handshake->theirs;
        tell_result(conn, attempt);
        conclude(conn, KOLO_OK, kolo_handshake_take(handshake), &theirs);
        return;
    }
    attempt->is_taken |= verdict == KOLO_VERDICT_CLOSED || verdict == KOLO_VERDICT_REJECTED;
    kolo_handshake_drop(handshake);
    note_end(attempt, verdict, error);
    go_on(conn);
}

/** Decides about an attempt that runs and has been silent for too long: it gets more time, or is
 *  dropped and tried again later. */
static void review(struct attempt *attempt, kolo_deadline now)
{
    bool is_asked = is_proving(attempt);

    note_taken(attempt);
    if (is_held(attempt) || (is_asked && !find_attempt(attempt->conn, is_held))) {
        attempt->at = after_ms(now, PROVE_MS);
        return;
    }
    attempt->renewed += attempt->renewed < RENEW_DOUBLINGS;
    kolo_handshake_drop(&attempt->handshake);
    note_end(attempt, KOLO_VERDICT_SILENT, 0);
}

static bool has_hope(const struct attempt *attempt)
{
    return attempt->state != ATTEMPT_FAILED;
}

/** Whether the time of kolo_conn_expect() has come and no place has taken a connection. */
static bool is_unexpected(struct kolo_conn *conn, kolo_deadline now)
{
    for (size_t i = 0; i < conn->count; i++)
        note_taken(&conn->attempts[i]);
    return now >= conn->taken_by && !find_attempt(conn, is_promising);
}

/** Whether this rank itself has lacked something for too long, as the last try has shown: the
 * process may have been stopped since the one before. */
static bool is_poor(const struct kolo_conn *conn)
{
    const kolo_deadline since = lacks_since(conn);

    return since != KOLO_NEVER && conn->lacked_at >= after_ms(since, LACK_MS);
}

static void fire(struct kolo_conn_timer *timer, kolo_deadline now)
{
    struct kolo_conn *conn = (struct kolo_conn *)timer;

    if (now >= conn->deadline || !find_attempt(conn, has_hope) || is_unexpected(conn, now) ||
        is_poor(conn)) {
        give_up(conn);
        return;
    }
    for (size_t i = 0; i < conn->count; i++) {
        struct attempt *attempt = &conn->attempts[i];
        if (attempt->at <= now && attempt->state == ATTEMPT_WAITING)
            begin(attempt);
        else if (attempt->at <= now && attempt->state == ATTEMPT_RUNNING)
            review(attempt, now);
    }
    if (is_poor(conn))
        give_up(conn);
    else
        go_on(conn);
}

static const struct kolo_handshake_owner owner = {.may_prove = may_prove, .over = over};

static void prepare(struct kolo_conn *conn, const struct kolo_place *places, int64_t pause_ms)
{
    kolo_deadline first = after_ms(kolo_now_ns(), pause_ms);

    for (size_t i = 0; i < conn->count; i++) {
        struct attempt *attempt = &conn->attempts[i];
        attempt->conn = conn;
        attempt->place = places[i];
        attempt->at = after_ms(first, conn->race ? 0 : (int64_t)i * STAGGER_MS);
        attempt->pause_ms = REDIAL_FIRST_MS;
        attempt->verdict = KOLO_VERDICT_SILENT;
        attempt->lacks_since = KOLO_NEVER;
        attempt->handshake.poller = conn->poller;
        attempt->handshake.owner = &owner;
        attempt->handshake.secret = &conn->secret;
        attempt->handshake.mine = &conn->mine;
        attempt->handshake.place = &attempt->place;
        attempt->handshake.watch.fd = -1;
    }
}

kolo_status kolo_conn_dial(struct kolo_poller *poller, const struct kolo_dial_config *config,
                           struct kolo_conn **conn_out)
{
    const size_t count = config->count;
    struct kolo_conn *conn;

    if (count == 0 || count > PLACES_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "dial: %zu places to connect to", count);
    conn = kolo_calloc(1, sizeof *conn + count * sizeof conn->attempts[0]);
    if (!conn)
        return KOLO_ERR_NO_MEMORY;
    conn->poller = poller;
    conn->secret = *config->secret;
    conn->mine = *config->mine;
    conn->deadline = config->deadline;
    conn->taken_by = KOLO_NEVER;
    conn->done = config->done;
    conn->context = config->context;
    conn->race = config->race;
    conn->advice = config->advice;
    conn->settle_at = KOLO_NEVER;
    conn->count = count;
    conn->timer.fire = fire;
    prepare(conn, config->places, config->pause_ms);
    if (kolo_conn_timer_add(&conn->timer, poller) != KOLO_OK) {
        release(conn);
        return KOLO_ERR_NO_MEMORY;
    }
    if (config->pause_ms == 0)
        begin(&conn->attempts[0]);
    reckon(conn);
    /* A sleeping thread has computed its deadline without this dial; it must do so again. */
    kolo_poller_wake(poller);
    *conn_out = conn;
    return KOLO_OK;
}

void kolo_conn_expect(struct kolo_conn *conn, kolo_deadline by)
{
    conn->taken_by = by;
    reckon(conn);
}

bool kolo_conn_is_proving(const struct kolo_conn *conn)
{
    for (size_t i = 0; i < conn->count; i++)
        if (is_proving(&conn->attempts[i]))
            return true;
    return false;
}

bool kolo_conn_is_left(int fd)
{
    uint8_t byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void kolo_conn_cancel(struct kolo_conn *conn)
{
    if (conn)
        release(conn);
}
