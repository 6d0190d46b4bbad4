// SPDX-License-Identifier: Apache-2.0
// kolo_init in separate processes, without a launcher: rendezvous by file and by address, wrong
// configurations, a rank that is killed, one that exits without a goodbye, one that never starts;
// and kolo_finalize after a broadcast, when others do not come to it or have left already, and
// after a message that is lost.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"
#include "transport/core.h"
#include "transport/tcp.h"

static const char secret[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/** What a rank's process reports at its end. */
struct report {
    kolo_status status;
    int64_t at_ns, left_ns; /* before and after kolo_finalize */
    char text[KOLO_DETAIL_MAX];
};

struct party {
    int size;
    const char *rendezvous, *transport;
    kolo_status (*body)(struct kolo_comm *comm, struct party *party);
    int ready_fd;            /* a body writes a byte here once it has started */
    int go_fd;               /* a body that waits for the test reads a byte here */
    int late_fd;             /* and one that is to wait for longer, here */
    const char *plan;        /* a setting; NULL: none */
    const char *patience[8]; /* a setting for each rank; NULL: none */
    pid_t pids[8];
    int reports[8]; /* the reading ends of pipes */
    int left;       /* descriptors that one rank may still open */
    int poor_rank;  /* which one, from before kolo_init on, if is_poor */
    bool is_poor;
    bool is_mute; /* the ranks have no standard input, output and error, and log much */
    struct report results[8];
};

/** From now on this process may open @p left more descriptors. */
static bool leave_descriptors(int left)
{
    const int next = dup(0); /* the lowest free one */
    const struct rlimit few = {(rlim_t)(next + left), (rlim_t)(next + left)};
    close(next);
    return setrlimit(RLIMIT_NOFILE, &few) == 0;
}

static void run_rank(struct party *party, int rank, int report_fd)
{
    char transport[64];
    const char *settings[] = {transport,
                              "KOLO_TIMEOUT=20",
                              "KOLO_START_TIMEOUT=20",
                              "KOLO_STALL=200ms",
                              party->plan ? party->plan : "KOLO_PLAN=auto",
                              party->is_mute ? "KOLO_LOG=debug" : "KOLO_LOG=warn",
                              party->patience[rank],
                              NULL};
    struct report report = {.status = KOLO_OK};
    struct kolo_comm *comm = NULL;
    if (party->is_poor && party->poor_rank == rank)
        leave_descriptors(party->left);
    for (int fd = STDIN_FILENO; party->is_mute && fd <= STDERR_FILENO; fd++)
        close(fd);
    snprintf(transport, sizeof transport, "KOLO_TRANSPORT=%s", party->transport);
    struct kolo_config config = {.size = sizeof config,
                                 .nranks = party->size,
                                 .rank = rank,
                                 .rendezvous = party->rendezvous,
                                 .secret = secret,
                                 .settings = settings};
    report.status = kolo_init(&config, &comm);
    if (report.status == KOLO_OK)
        report.status = party->body(comm, party);
    report.at_ns = kolo_now_ns();
    if (report.status != KOLO_OK)
        snprintf(report.text, sizeof report.text, "%s", kolo_error_detail());
    kolo_status left = kolo_finalize(comm);
    report.left_ns = kolo_now_ns();
    if (report.status == KOLO_OK && left != KOLO_OK) {
        report.status = left;
        snprintf(report.text, sizeof report.text, "finalize: %s", kolo_error_detail());
    }
    _exit(write(report_fd, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 1);
}

static void start(struct party *party, int rank)
{
    int ends[2];
    cr_assert(pipe(ends) == 0, "pipe");
    party->pids[rank] = fork();
    cr_assert(party->pids[rank] >= 0, "fork");
    if (party->pids[rank] == 0) {
        /* if the test has failed, no waiting process is left */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        run_rank(party, rank, ends[1]);
    }
    close(ends[1]);
    party->reports[rank] = ends[0];
}

static void finish_one(struct party *party, int rank)
{
    struct report *result = &party->results[rank];
    if (party->pids[rank] == 0)
        return;
    if (read(party->reports[rank], result, sizeof *result) != (ssize_t)sizeof *result)
        *result = (struct report){.status = KOLO_AGAIN, .text = "ended without a report"};
    close(party->reports[rank]);
    waitpid(party->pids[rank], NULL, 0);
    party->pids[rank] = 0;
}

static void finish(struct party *party)
{
    for (int rank = 0; rank < party->size; rank++)
        finish_one(party, rank);
}

static void name_file(char text[128], const char *what)
{
    snprintf(text, 128, "file:///tmp/kolo-test-%s-%d", what, (int)getpid());
}

static kolo_status exchange(struct kolo_comm *comm, struct party *party)
{
    int64_t numbers[1000];
    int n = kolo_size(comm);
    struct kolo_peer_info peer = {.size = sizeof peer};
    struct kolo_info info = {.size = sizeof info};
    for (int i = 0; i < 1000; i++)
        numbers[i] = kolo_rank(comm) + i;
    kolo_status status;
    KOLO_TRY(kolo_allreduce(comm, numbers, numbers, 1000, KOLO_INT64, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(numbers[999] == n * (n - 1) / 2 + 999 * n, "sum %lld", (long long)numbers[999]);
    KOLO_TRY(kolo_get_info(comm, &info));
    WORLD_EXPECT(info.local_nranks == n && info.local_rank == kolo_rank(comm) && info.nranks == n,
                 "%d of %d here", info.local_rank, info.local_nranks);
    for (int rank = 0; rank < n; rank++) {
        KOLO_TRY(kolo_get_peer_info(comm, rank, &peer));
        const char *want = rank == kolo_rank(comm) ? "self" : party->transport;
        WORLD_EXPECT(strcmp(want, "auto") == 0 || strcmp(peer.transport, want) == 0,
                     "rank %d by %s, not %s", rank, peer.transport, want);
        WORLD_EXPECT(peer.pid > 0 && peer.host[0] != '\0' && peer.why[0] != '\0', "rank %d", rank);
    }
out:
    return status;
}

struct meeting {
    char transport[16];
    bool by_file;
    int size;
};

ParameterizedTestParameters(init, processes)
{
    static struct meeting meetings[] = {{"auto", true, 3},
                                        {"shm", true, 4},
                                        {"tcp", true, 3},
                                        {"tcp", false, 2},
                                        {"shm", false, 3}};
    return cr_make_param_array(struct meeting, meetings, 5);
}
ParameterizedTest(struct meeting *meeting, init, processes, .timeout = 60)
{
    char text[128];
    name_file(text, "meet");
    if (!meeting->by_file) /* a port below the range of ephemeral ports */
        snprintf(text, sizeof text, "tcp://127.0.0.1:%d", 10000 + (int)getpid() % 10000);
    struct party party = {.size = meeting->size,
                          .transport = meeting->transport,
                          .rendezvous = text,
                          .body = exchange};
    /* rank 0, which hosts the store, starts last */
    for (int rank = meeting->size - 1; rank >= 0; rank--)
        start(&party, rank);
    finish(&party);
    for (int rank = 0; rank < meeting->size; rank++)
        cr_assert(party.results[rank].status == KOLO_OK, "%s, rank %d: %s", meeting->transport,
                  rank, party.results[rank].text);
    if (meeting->by_file)
        cr_assert(access(text + strlen("file://"), F_OK) != 0, "%s is left behind", text);
}

/** Rank 1 lacks descriptors from the start on, or comes to lack them while it meets the others,
 * which wait until it has none to give. */
static kolo_status lacks_descriptors(struct kolo_comm *comm, struct party *party)
{
    float one = 1, sum = 0;
    char byte = 0;
    size_t bytes = sizeof byte;
    if (kolo_rank(comm) == 1 && !leave_descriptors(party->left))
        return kolo_fail_errno(KOLO_ERR_INTERNAL, errno, "setrlimit");
    kolo_status status = kolo_rank(comm) == 1 ? kolo_kv_set(comm, "few", &byte, sizeof byte)
                                              : kolo_kv_get(comm, "few", &byte, &bytes, -1);
    if (status != KOLO_OK)
        return status;
    return kolo_allreduce(comm, &one, &sum, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
}

/** Every rank gets the status of the one that lacks them, and its name. */
static void expect_who_lacks(const char *transport)
{
    enum { RANKS = 3, MANY = 32 };
    char text[128];
    struct party party = {
        .size = RANKS, .transport = transport, .rendezvous = text, .body = lacks_descriptors};
    name_file(text, transport);
    for (; party.left < MANY && (party.left == 0 || party.results[0].status != KOLO_OK);
         party.left++) {
        for (int rank = 0; rank < RANKS; rank++)
            start(&party, rank);
        finish(&party);
        for (int rank = 0; rank < RANKS; rank++) {
            const struct report *result = &party.results[rank];
            cr_assert_eq(result->status, party.results[0].status, "%d left, rank %d: %s",
                         party.left, rank, result->text);
            cr_assert(result->status == KOLO_OK ||
                          (result->status == KOLO_ERR_SYSTEM && strstr(result->text, "rank 1 (")),
                      "%d left, rank %d: %s", party.left, rank, result->text);
        }
    }
    cr_assert(party.left > 1 && party.left < MANY, "%d", party.left);
}

Test(init, who_lacks_descriptors_is_named, .timeout = 120)
{
    expect_who_lacks("shm");
}

Test(init, who_lacks_descriptors_for_tcp_is_named, .timeout = 120)
{
    expect_who_lacks("tcp");
}

static kolo_status meets_only(struct kolo_comm *comm, struct party *party)
{
    (void)comm;
    (void)party;
    return KOLO_OK;
}

/** However many @p rank may open, from its start on, its error says that they are too few. */
static void expect_said_at_start(int rank)
{
    enum { RANKS = 2, MANY = 40 };
    char text[128];
    struct party party = {.size = RANKS,
                          .transport = "auto",
                          .rendezvous = text,
                          .body = meets_only,
                          .is_poor = true,
                          .poor_rank = rank,
                          .patience = {"KOLO_START_TIMEOUT=5s", "KOLO_START_TIMEOUT=5s"}};
    name_file(text, "poor");
    for (; party.left < MANY && (party.left == 0 || party.results[rank].status != KOLO_OK);
         party.left++) {
        start(&party, 0);
        if (rank == 1) /* once the file has its name, no other is there */
            cr_assert(AWAIT(access(text + strlen("file://"), F_OK) == 0));
        start(&party, 1);
        finish_one(&party, rank);
        const struct report *result = &party.results[rank];
        if (result->status != KOLO_OK) /* the other would wait for it */
            kill(party.pids[1 - rank], SIGKILL);
        finish(&party);
        (void)unlink(text + strlen("file://"));
        cr_assert(result->status == KOLO_OK || strstr(result->text, "ulimit -n"),
                  "%d left, rank %d: %s", party.left, rank, result->text);
    }
    cr_assert(party.left > 1 && party.left < MANY, "%d", party.left);
}

Test(init, who_serves_the_store_without_descriptors_says_so, .timeout = 240)
{
    expect_said_at_start(0);
}

Test(init, who_comes_to_the_store_without_descriptors_says_so, .timeout = 240)
{
    expect_said_at_start(1);
}

/** None of kolo's descriptors has the number of a closed standard stream. A file that is read at
 * this moment may have. */
static kolo_status keep_away(struct kolo_comm *comm, struct party *party)
{
    void *memory = NULL;
    kolo_status status = kolo_alloc(comm, 1 << 20, &memory);
    if (status == KOLO_OK)
        status = kolo_broadcast(comm, memory, 1 << 20, KOLO_UINT8, 0, NULL, NULL);
    if (status == KOLO_OK)
        status = exchange(comm, party);
    for (int fd = STDIN_FILENO; status == KOLO_OK && fd <= STDERR_FILENO; fd++) {
        char path[32], what[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, what, sizeof what - 1) > 0 && strncmp(what, "/proc/", 6) != 0 &&
            strncmp(what, "/sys/", 5) != 0)
            status = kolo_fail(KOLO_ERR_INTERNAL, "descriptor %d is %s", fd, what);
    }
    return status;
}

/** What is logged, or the program writes to a closed standard error, must not go into a link. */
Test(init, ranks_without_standard_error, .timeout = 60)
{
    char text[128];
    static const char *const transports[] = {"tcp", "shm"};
    for (int i = 0; i < 2; i++) {
        struct party party = {.size = 3,
                              .transport = transports[i],
                              .rendezvous = text,
                              .body = keep_away,
                              .is_mute = true};
        name_file(text, "mute");
        for (int rank = 0; rank < party.size; rank++)
            start(&party, rank);
        finish(&party);
        for (int rank = 0; rank < party.size; rank++)
            cr_assert(party.results[rank].status == KOLO_OK, "%s, rank %d: %s", transports[i], rank,
                      party.results[rank].text);
    }
}

/* ---- ends ---- */

static kolo_status reduce_for_ever(struct kolo_comm *comm, struct party *party)
{
    enum { COUNT = 100000 };
    float *data = calloc(COUNT, sizeof *data);
    kolo_status status = KOLO_OK;
    for (int i = 0; status == KOLO_OK; i++) {
        status =
            kolo_allreduce(comm, data, data, i % 2 ? 1 : COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
        if (i == 10 && write(party->ready_fd, "", 1) != 1)
            status = KOLO_ERR_SYSTEM;
        if (i == 10 && kolo_rank(comm) == 1 && party->body != reduce_for_ever)
            _exit(3);
    }
    free(data);
    return status;
}

static kolo_status exit_without_goodbye(struct kolo_comm *comm, struct party *party)
{
    return reduce_for_ever(comm, party);
}

/** The survivors of @p comm go on, and make communicators as before. */
static kolo_status go_on(struct kolo_comm *comm, int count)
{
    struct kolo_comm *rest = NULL, *copy = NULL;
    kolo_status status;
    KOLO_TRY(kolo_shrink(comm, NULL, &rest));
    WORLD_EXPECT(kolo_size(rest) == count, "%d survivors", kolo_size(rest));
    KOLO_TRY(kolo_dup(rest, NULL, &copy));
    KOLO_TRY(kolo_barrier(copy, NULL, NULL));
    KOLO_TRY(kolo_finalize(copy));
    KOLO_TRY(kolo_barrier(rest, NULL, NULL));
out:
    return status;
}

/** Makes communicators until one cannot be made. */
static kolo_status dup_for_ever(struct kolo_comm *comm, struct party *party)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_status status = KOLO_OK;
    for (int i = 0; status == KOLO_OK; i++) {
        struct kolo_comm *copy = NULL;
        status = kolo_dup(comm, NULL, &copy);
        if (i == 10 && write(party->ready_fd, "", 1) != 1)
            status = KOLO_ERR_SYSTEM;
        (void)kolo_finalize(copy);
    }
    kolo_detail_keep(detail);
    WORLD_TRY(go_on(comm, party->size - 1));
    kolo_detail_set(detail);
    return status;
}

static void lose_rank_1(const char *transport,
                        kolo_status (*body)(struct kolo_comm *comm, struct party *party))
{
    char text[128], byte;
    int ready[2];
    name_file(text, transport);
    cr_assert(pipe(ready) == 0, "pipe");
    struct party party = {
        .size = 4, .transport = transport, .rendezvous = text, .body = body, .ready_fd = ready[1]};
    for (int rank = 0; rank < 4; rank++)
        start(&party, rank);
    for (int i = 0; i < 4; i++)
        cr_assert(read(ready[0], &byte, 1) == 1, "read");
    int64_t killed_ns = kolo_now_ns();
    if (body != exit_without_goodbye)
        kill(party.pids[1], SIGKILL);
    finish(&party);
    for (int rank = 0; rank < 4; rank++) {
        const struct report *result = &party.results[rank];
        if (rank == 1)
            continue;
        cr_assert(result->status == KOLO_ERR_PEER, "%s, rank %d: %s: %s", transport, rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strstr(result->text, "rank 1 (") &&
                      (body == dup_for_ever || strstr(result->text, "during allreduce(")),
                  "%s, rank %d: %s", transport, rank, result->text);
        /* the link or the store ends it, not a deadline; on a busy machine that takes a while */
        cr_assert(result->at_ns - killed_ns < INT64_C(10000000000),
                  "rank %d heard of it after %lld ms", rank,
                  (long long)(result->at_ns - killed_ns) / 1000000);
    }
}

Test(init, a_rank_is_killed_shm, .timeout = 60)
{
    lose_rank_1("shm", reduce_for_ever);
}
Test(init, a_rank_is_killed_tcp, .timeout = 60)
{
    lose_rank_1("tcp", reduce_for_ever);
}
Test(init, a_rank_is_killed_while_it_makes_communicators, .timeout = 120)
{
    lose_rank_1("shm", dup_for_ever);
    lose_rank_1("tcp", dup_for_ever);
}
Test(init, a_rank_exits_without_goodbye, .timeout = 60)
{
    lose_rank_1("auto", exit_without_goodbye);
}

static kolo_status rank_0_stays(struct kolo_comm *comm, struct party *party)
{
    struct timespec pause = {.tv_nsec = 300000000};
    (void)party;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    int64_t sum;
    if (status == KOLO_OK && kolo_rank(comm) != 0) {
        nanosleep(&pause, NULL); /* rank 0 is finalizing, and must still serve the store */
        status = kolo_kv_add(comm, "late", 1, &sum);
    }
    return status;
}

Test(init, rank_0_serves_until_all_have_left, .timeout = 60)
{
    char text[128];
    name_file(text, "stay");
    struct party party = {.size = 3, .transport = "auto", .rendezvous = text, .body = rank_0_stays};
    for (int rank = 0; rank < 3; rank++)
        start(&party, rank);
    finish(&party);
    for (int rank = 0; rank < 3; rank++)
        cr_assert(party.results[rank].status == KOLO_OK, "rank %d: %s", rank,
                  party.results[rank].text);
}

/* ---- leaving after a broadcast ---- */

static kolo_status broadcast(struct kolo_comm *comm)
{
    int32_t value = kolo_rank(comm) == 0 ? 7 : 0;
    kolo_status status = kolo_broadcast(comm, &value, 1, KOLO_INT32, 0, NULL, NULL);
    WORLD_EXPECT(status != KOLO_OK || value == 7, "rank 0 gave %d", value);
    return status;
}

/** The last rank finalizes only after the others have. */
static kolo_status last_one_stays(struct kolo_comm *comm, struct party *party)
{
    char byte;
    kolo_status status = broadcast(comm);
    if (status == KOLO_OK && kolo_rank(comm) == kolo_size(comm) - 1)
        WORLD_EXPECT(read(party->go_fd, &byte, 1) == 1, "no word from the test");
    return status;
}

static void open_party(struct party *party, int pipe_ends[2])
{
    cr_assert(pipe(pipe_ends) == 0, "pipe");
    party->go_fd = pipe_ends[0];
    for (int rank = 0; rank < party->size; rank++)
        start(party, rank);
}

static void expect_well(const struct party *party, const char *transport)
{
    for (int rank = 0; rank < party->size; rank++)
        cr_assert(party->results[rank].status == KOLO_OK, "%s, rank %d: %s: %s", transport, rank,
                  kolo_status_name(party->results[rank].status), party->results[rank].text);
}

struct way {
    char transport[16], name[16];
};

ParameterizedTestParameters(init, who_stays_after_a_broadcast)
{
    static struct way ways[] = {{"shm", "stays-shm"}, {"tcp", "stays-tcp"}};
    return cr_make_param_array(struct way, ways, 2);
}
ParameterizedTest(struct way *way, init, who_stays_after_a_broadcast, .timeout = 60)
{
    enum { PATIENCE_MS = 4000 };
    char text[128];
    int ends[2];
    name_file(text, way->name);
    struct party party = {.size = 3,
                          .transport = way->transport,
                          .rendezvous = text,
                          .body = last_one_stays,
                          .patience = {"KOLO_EXIT_TIMEOUT=4s", "KOLO_EXIT_TIMEOUT=4s"}};
    open_party(&party, ends);
    for (int rank = 0; rank < 2; rank++)
        finish_one(&party, rank);
    cr_assert(write(ends[1], "", 1) == 1);
    finish(&party);
    expect_well(&party, way->transport);
    for (int rank = 0; rank < 2; rank++) {
        int64_t ms = (party.results[rank].left_ns - party.results[rank].at_ns) / 1000000;
        cr_assert(ms >= PATIENCE_MS / 2 && ms < PATIENCE_MS * 4, "%s: rank %d took %lld ms",
                  way->transport, rank, (long long)ms);
    }
}

/** Ranks 1, 2 and 3 leave, rank 1 while rank 3 waits for a message from it; the other two go on. */
static kolo_status some_leave(struct kolo_comm *comm, struct party *party)
{
    int rank = kolo_rank(comm);
    int32_t value = rank;
    int64_t sum = 0;
    char byte;
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* opens the links */
    if (status == KOLO_OK)
        status = broadcast(comm);
    if (status != KOLO_OK || (rank >= 1 && rank <= 3))
        return status;
    WORLD_EXPECT(read(party->go_fd, &byte, 1) == 1, "no word from the test");
    /* everything that the store sent before has arrived */
    status = kolo_kv_add(comm, "there", 1, &sum);
    if (status == KOLO_OK && rank == 0)
        return kolo_send(comm, &value, 1, KOLO_INT32, 4, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    status = kolo_recv(comm, &value, 1, KOLO_INT32, 0, NULL, NULL);
    WORLD_EXPECT(status != KOLO_OK || value == 0, "%d came", value);
    return status;
}

ParameterizedTestParameters(init, who_leaves_after_a_broadcast)
{
    static struct way ways[] = {{"shm", "leaves-shm"}, {"tcp", "leaves-tcp"}};
    return cr_make_param_array(struct way, ways, 2);
}
ParameterizedTest(struct way *way, init, who_leaves_after_a_broadcast, .timeout = 60)
{
    static const char late[] = "KOLO_EXIT_TIMEOUT=4s";
    char text[128];
    int ends[2];
    name_file(text, way->name);
    struct party party = {.size = 5,
                          .transport = way->transport,
                          .rendezvous = text,
                          .body = some_leave,
                          .patience = {NULL, "KOLO_EXIT_TIMEOUT=400ms", late, late}};
    open_party(&party, ends);
    for (int rank = 1; rank <= 3; rank++)
        finish_one(&party, rank);
    cr_assert(write(ends[1], "..", 2) == 2);
    finish(&party);
    /* three ranks that have left without a call do not make the others fail */
    expect_well(&party, way->transport);
}

/* more than a rank receives in advance, and less than a root waits for */
enum { LONG_BYTES = 900000 };

/** Rank 1 comes to the broadcast, and rank 0 leaves after it, when the test says so. Rank 0 begins
 * once rank 1 has left the barrier, so that rank 1 reads nothing from its links meanwhile:
 * otherwise it might receive the whole broadcast in the barrier. */
static kolo_status rank_1_is_late(struct kolo_comm *comm, struct party *party)
{
    char byte;
    int rank = kolo_rank(comm);
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* opens the links */
    unsigned char *data = calloc(LONG_BYTES, 1);
    WORLD_EXPECT(data != NULL, "no memory");
    if (rank == 0)
        memset(data, 7, LONG_BYTES);
    if (status == KOLO_OK && rank == 1)
        WORLD_EXPECT(write(party->ready_fd, "", 1) == 1 && read(party->late_fd, &byte, 1) == 1,
                     "no word from the test");
    if (status == KOLO_OK && rank == 0)
        WORLD_EXPECT(read(party->go_fd, &byte, 1) == 1, "no word from the test");
    if (status == KOLO_OK)
        status = kolo_broadcast(comm, data, LONG_BYTES, KOLO_UINT8, 0, NULL, NULL);
    if (status == KOLO_OK && rank == 0)
        WORLD_EXPECT(read(party->go_fd, &byte, 1) == 1, "no word from the test");
    for (size_t i = 0; status == KOLO_OK && i < LONG_BYTES; i++)
        if (data[i] != 7)
            status = kolo_fail(KOLO_ERR_INTERNAL, "byte %zu is %d", i, data[i]);
    free(data);
    return status;
}

/** The root is through and another rank has left: the late rank still receives its data. */
Test(init, a_late_rank_gets_a_long_broadcast, .timeout = 60)
{
    enum {
        GIVEN_UP_MS = 3000
    }; /* by then a root that waits for KOLO_EXIT_TIMEOUT or less has gone */
    static const char hasty[] = "KOLO_EXIT_TIMEOUT=400ms";
    char text[128], byte;
    int ends[2], late_ends[2], ready[2];
    name_file(text, "late");
    struct party party = {.size = 3,
                          .transport = "tcp",
                          .rendezvous = text,
                          .body = rank_1_is_late,
                          .plan = "KOLO_PLAN=tree",
                          .patience = {hasty, NULL, hasty}};
    cr_assert(pipe(late_ends) == 0 && pipe(ready) == 0, "pipe");
    party.late_fd = late_ends[0];
    party.ready_fd = ready[1];
    open_party(&party, ends);
    cr_assert(read(ready[0], &byte, 1) == 1 && write(ends[1], "", 1) == 1);
    finish_one(&party, 2);
    cr_assert(write(ends[1], "", 1) == 1);
    struct pollfd root = {.fd = party.reports[0], .events = POLLIN};
    if (poll(&root, 1, GIVEN_UP_MS) != 0)
        finish_one(&party, 0);
    cr_assert(party.pids[0] != 0, "the root left before rank 1 came: %s: %s",
              kolo_status_name(party.results[0].status), party.results[0].text);
    cr_assert(write(late_ends[1], "", 1) == 1);
    finish(&party);
    expect_well(&party, "tcp");
}

/* ---- a last message that is lost ---- */

/** What two ranks, threads of this process, tell each other without the library. */
struct last_words {
    atomic_bool is_small;                     /* rank 1 takes only little that it does not read */
    _Atomic(struct kolo_endpoint *) endpoint; /* of rank 0, which finalizes now */
    kolo_status status;                       /* of that */
    char text[KOLO_DETAIL_MAX];
};

static struct tcp_link *tcp_to(struct kolo_comm *comm, int peer)
{
    return (struct tcp_link *)kolo_endpoint_link_up(comm->engine->endpoint, peer);
}

/** Sends until the kernel has more messages than the peer's takes, and finalizes. */
static kolo_status send_and_finalize(struct kolo_comm *comm, struct last_words *words)
{
    enum { BYTES = 4096 };
    static const unsigned char data[BYTES];
    const struct tcp_link *tcp = tcp_to(comm, 1);
    int waiting = 0;
    WORLD_EXPECT(AWAIT(atomic_load(&words->is_small)), "no word from rank 1");
    while (waiting < 8 * BYTES) {
        WORLD_TRY(kolo_send(comm, data, BYTES, KOLO_UINT8, 1, NULL, NULL));
        WORLD_EXPECT(ioctl(tcp->socket.watch.fd, SIOCOUTQ, &waiting) == 0, "no socket");
    }
    atomic_store(&words->endpoint, comm->engine->endpoint);
    words->status = kolo_finalize(comm);
    strcpy(words->text, kolo_error_detail());
    return KOLO_OK;
}

/** Rank 1 breaks its link once rank 0 listens neither to the store nor to anything else. */
static kolo_status loses_last_message(struct kolo_comm *comm, void *argument)
{
    struct last_words *words = argument;
    const int least = 1;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* the link is up */
    if (kolo_rank(comm) == 0)
        return send_and_finalize(comm, words);
    struct tcp_link *tcp = tcp_to(comm, 0);
    WORLD_EXPECT(setsockopt(tcp->socket.watch.fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least) == 0,
                 "no small socket");
    atomic_store(&words->is_small, true);
    WORLD_EXPECT(AWAIT(atomic_load(&words->endpoint) != NULL) &&
                     AWAIT(atomic_load(&words->endpoint)->is_closing),
                 "rank 0 does not finalize");
    kolo_comm_enter(comm);
    kolo_link_set_down(&tcp->base, kolo_fail(KOLO_ERR_ABORTED, "a crash"));
    kolo_comm_leave(comm);
    return KOLO_OK;
}

Test(init, a_rank_that_leaves_is_told_that_its_last_message_was_lost, .timeout = 120)
{
    struct last_words words = {.status = KOLO_AGAIN};
    struct world world = {
        .size = 2, .transport = "tcp", .settings = {"KOLO_TIMEOUT=60", "KOLO_EXIT_TIMEOUT=60"}};
    WORLD_MUST_RUN(&world, loses_last_message, &words);
    cr_assert(words.status == KOLO_ERR_PEER &&
                  strstr(words.text, "what rank 0 sent last may not have reached rank 1 on ") &&
                  strstr(words.text, " by peer"),
              "%s: %s", kolo_status_name(words.status), words.text);
}

/* ---- a start that failed ---- */

/** Gives up with a full ring to a rank that does not read, which has a detail of its own. */
static kolo_status gives_up(struct kolo_comm *comm, struct party *party)
{
    enum { BYTES = 1 << 20 };
    static const char cause[] = "why it could not start";
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 300};
    char byte;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status != KOLO_OK || kolo_rank(comm) != 0) {
        WORLD_EXPECT(read(party->go_fd, &byte, 1) == 1, "no word from the test");
        return status;
    }
    char *data = calloc(BYTES, 1);
    status = kolo_send(comm, data, BYTES, KOLO_UINT8, 1, &opts, NULL);
    bool is_full = status == KOLO_ERR_TIMEOUT;
    status = kolo_fail(KOLO_ERR_CONFIG, "%s", cause);
    kolo_engine_give_up(comm->engine);
    bool is_kept = status == KOLO_ERR_CONFIG && strcmp(kolo_error_detail(), cause) == 0;
    free(data);
    _exit(write(party->ready_fd, !is_full ? "f" : is_kept ? "k" : "l", 1) == 1 ? 0 : 1);
}

Test(init, a_failed_start_keeps_its_cause, .timeout = 60)
{
    char text[128], said = 0;
    int ready[2], ends[2];
    name_file(text, "gives-up");
    cr_assert(pipe(ready) == 0, "pipe");
    struct party party = {
        .size = 2, .transport = "shm", .rendezvous = text, .body = gives_up, .ready_fd = ready[1]};
    open_party(&party, ends);
    cr_assert(read(ready[0], &said, 1) == 1);
    cr_assert(write(ends[1], "", 1) == 1);
    finish(&party);
    cr_assert(said != 'f', "the send came to an end: nothing is left to hand over");
    cr_assert(said == 'k', "another detail is there instead of the cause");
}

static kolo_status never_runs(struct kolo_comm *comm, struct party *party)
{
    (void)comm, (void)party;
    return kolo_fail(KOLO_ERR_INTERNAL, "kolo_init came through");
}

/** Only rank 0 reads that file, once all have met. */
Test(init, what_rank_0_lacks_is_told_to_all, .timeout = 60)
{
    char text[128];
    name_file(text, "figures");
    struct party party = {.size = 3,
                          .transport = "auto",
                          .rendezvous = text,
                          .body = never_runs,
                          .plan = "KOLO_PROFILE=/no/such/file"};
    const int64_t begin_ns = kolo_now_ns();
    for (int rank = 0; rank < 3; rank++)
        start(&party, rank);
    finish(&party);
    for (int rank = 0; rank < 3; rank++) {
        const struct report *result = &party.results[rank];
        cr_assert(result->status == KOLO_ERR_CONFIG && strstr(result->text, "/no/such/file") &&
                      (rank == 0 || strstr(result->text, "rank 0 (")),
                  "rank %d: %s: %s", rank, kolo_status_name(result->status), result->text);
        cr_assert(result->at_ns - begin_ns < INT64_C(15000000000), "rank %d: by a deadline", rank);
    }
}

/** Reports that it is there, and stops. */
static kolo_status stops(struct kolo_comm *comm, struct party *party)
{
    int64_t sum = 1;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status != KOLO_OK || kolo_rank(comm) == 0)
        return status == KOLO_OK
                   ? kolo_allreduce(comm, &sum, &sum, 1, KOLO_INT64, KOLO_SUM, NULL, NULL)
                   : status;
    if (write(party->ready_fd, "", 1) != 1)
        return KOLO_ERR_SYSTEM;
    raise(SIGSTOP);
    return status;
}

static void stop_rank_1(const char *transport)
{
    char text[128], byte;
    int ready[2];
    name_file(text, "stops");
    cr_assert(pipe(ready) == 0, "pipe");
    struct party party = {.size = 2,
                          .transport = transport,
                          .rendezvous = text,
                          .body = stops,
                          .ready_fd = ready[1],
                          .patience = {"KOLO_TIMEOUT=5"}};
    start(&party, 0);
    start(&party, 1);
    cr_assert(read(ready[0], &byte, 1) == 1, "read");
    finish_one(&party, 0);
    kill(party.pids[1], SIGCONT);
    finish_one(&party, 1);
    const struct report *result = &party.results[0];
    cr_assert(result->status == KOLO_ERR_TIMEOUT && strstr(result->text, "; rank 1 (") &&
                  strstr(result->text, "is stopped, by SIGSTOP or a debugger"),
              "%s: %s: %s", transport, kolo_status_name(result->status), result->text);
}

Test(init, a_rank_that_is_stopped_is_said_to_be, .timeout = 60)
{
    stop_rank_1("shm");
    stop_rank_1("tcp");
}

/** Rank 0, in whose process the store is, stops while rank 1 duplicates a communicator of its
 * own. */
static kolo_status dup_without_store(struct kolo_comm *comm, struct party *party)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 300};
    struct kolo_comm *own = NULL, *copy = NULL;
    kolo_status status;
    char byte;
    KOLO_TRY(kolo_split(comm, kolo_rank(comm), 0, NULL, &own));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0) {
        WORLD_EXPECT(write(party->ready_fd, "", 1) == 1, "write");
        raise(SIGSTOP);
        goto out;
    }
    WORLD_EXPECT(read(party->go_fd, &byte, 1) == 1, "read"); /* rank 0 has stopped */
    status = kolo_dup(own, &opts, &copy);
out:
    return status;
}

Test(init, a_dup_ends_by_its_own_deadline_also_if_the_store_is_silent, .timeout = 60)
{
    char text[128], byte;
    int ready[2], go[2], state;
    name_file(text, "silent");
    cr_assert(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    struct party party = {.size = 2,
                          .transport = "auto",
                          .rendezvous = text,
                          .body = dup_without_store,
                          .ready_fd = ready[1],
                          .go_fd = go[0]};
    for (int rank = 0; rank < 2; rank++)
        start(&party, rank);
    cr_assert(read(ready[0], &byte, 1) == 1, "read");
    cr_assert(waitpid(party.pids[0], &state, WUNTRACED) == party.pids[0] && WIFSTOPPED(state));
    const int64_t begin_ns = kolo_now_ns();
    cr_assert(write(go[1], "", 1) == 1, "write");
    finish_one(&party, 1);
    kill(party.pids[0], SIGCONT);
    finish(&party);
    const struct report *result = &party.results[1];
    cr_assert(result->status != KOLO_OK && strstr(result->text, "kolo_dup"), "%s", result->text);
    cr_assert(result->at_ns - begin_ns < INT64_C(10000000000), "by KOLO_TIMEOUT: %s", result->text);
}

/* ---- configurations ---- */

static kolo_status try_init(int nranks, int rank, const char *rendezvous, const char *key,
                            const char *setting)
{
    const char *settings[] = {setting, NULL};
    struct kolo_comm *comm = NULL;
    struct kolo_config config = {.size = sizeof config,
                                 .nranks = nranks,
                                 .rank = rank,
                                 .rendezvous = rendezvous,
                                 .secret = key,
                                 .settings = settings};
    kolo_status status = kolo_init(&config, &comm);
    if (status == KOLO_OK) {
        kolo_status left = kolo_finalize(comm);
        cr_assert(left == KOLO_OK, "finalize: %s", kolo_error_detail());
    }
    return status;
}

Test(init, wrong_configurations, .timeout = 60)
{
    static const struct {
        int nranks, rank;
        const char *rendezvous, *key, *setting, *says;
    } cases[] = {
        {2, 0, NULL, secret, NULL, "KOLO_RENDEZVOUS"},
        {2, 0, "file:///tmp/x", NULL, NULL, "openssl rand -hex 32"},
        {2, 2, "file:///tmp/x", secret, NULL, "config->rank is 2: "},
        {2, -1, "file:///tmp/x", secret, NULL, "config->rank is -1: "},
        {-1, 0, "file:///tmp/x", secret, NULL, "config->nranks is -1: "},
        {-2, 0, "file:///tmp/x", secret, NULL, "config->nranks is -2: "},
        {2, 0, "http://x", secret, NULL, "http://x"},
        {2, 0, "file:///tmp/x", "abc", NULL, "hexadecimal"},
        {0, 0, NULL, NULL, "KOLO_SIZE=3", "KOLO_RANK"},
        {0, 0, NULL, NULL, "KOLO_RANK=3", "KOLO_SIZE"},
        {0, 0, NULL, NULL, "KOLO_TIMOUT=3", "KOLO_TIMEOUT"},
        {0, 0, NULL, NULL, "KOLO_LOG=loud", "loud"},
        {0, 0, NULL, NULL, "KOLO_PLAN=rign", "rign"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kolo_status status = try_init(cases[i].nranks, cases[i].rank, cases[i].rendezvous,
                                      cases[i].key, cases[i].setting);
        cr_assert(status == KOLO_ERR_CONFIG, "case %zu: %s: %s", i, kolo_status_name(status),
                  kolo_error_detail());
        cr_assert(strstr(kolo_error_detail(), cases[i].says), "case %zu: %s", i,
                  kolo_error_detail());
    }
    cr_assert(kolo_init(NULL, NULL) == KOLO_ERR_INVALID);
    struct kolo_comm *comm = NULL;
    struct kolo_config config = {.size = 3};
    cr_assert(kolo_init(&config, &comm) == KOLO_ERR_INVALID && !comm);
}

Test(init, a_rank_that_never_starts, .timeout = 60)
{
    char text[128];
    name_file(text, "missing");
    kolo_status status = try_init(2, 0, text, secret, "KOLO_START_TIMEOUT=300ms");
    cr_assert(status == KOLO_ERR_TIMEOUT, "%s: %s", kolo_status_name(status), kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "rank 1") || strstr(kolo_error_detail(), "1 of 2"), "%s",
              kolo_error_detail());
}

Test(init, a_world_of_one, .timeout = 120)
{
    struct kolo_comm *comm = NULL;
    float value = 3, result = 0;
    int64_t sum = 0;
    cr_assert(kolo_init(NULL, &comm) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_rank(comm) == 0 && kolo_size(comm) == 1);
    kolo_status status =
        kolo_allreduce(comm, &value, &result, 1, KOLO_FLOAT32, KOLO_AVERAGE, NULL, NULL);
    cr_assert(status == KOLO_OK && result == 3, "%g: %s", (double)result, kolo_error_detail());
    cr_assert(kolo_kv_add(comm, "n", 5, &sum) == KOLO_OK && sum == 5);
    cr_assert(kolo_finalize(comm) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_finalize(NULL) == KOLO_OK);
}
