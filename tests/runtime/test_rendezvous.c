// SPDX-License-Identifier: Apache-2.0
// runtime/rendezvous.c: how ranks find the store without a launcher, by a file or an address.
#include "runtime/rendezvous.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/refuse.h"
#include "tests/support/store_rank.h"

TestSuite(rendezvous, .timeout = 60);

enum { SOON_MS = 10000 };
static char folder[] = "/tmp/kolo-rendezvous-XXXXXX";
static struct kolo_rendezvous at;
static struct kolo_secret secret;

static struct kolo_store_server_config make_config(int size)
{
    return (struct kolo_store_server_config){.size = size,
                                             .owner = "rank 0",
                                             .secret = secret,
                                             .start_timeout_ms = SOON_MS,
                                             .stall_warn_ms = SOON_MS,
                                             .lost_grace_ms = 50};
}

static void setup(void)
{
    char text[128];
    cr_assert(mkdtemp(folder));
    snprintf(text, sizeof text, "file://%s/meet", folder);
    cr_assert(kolo_rendezvous_parse(text, &at) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_secret_make(&secret) == KOLO_OK);
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void teardown(void)
{
    unlink(at.where);
    rmdir(folder);
}

Test(rendezvous, texts)
{
    struct kolo_rendezvous got;
    const char *const bad[] = {"",          "tcp://",          "tcp://host",   "tcp://a:1/x",
                               "file://",   "file://relative", "file:///dir/", "http://host:80",
                               "host:4711", "tcp://a b:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert(kolo_rendezvous_parse(bad[i], &got) == KOLO_ERR_CONFIG, "%s", bad[i]);
        cr_assert(strstr(kolo_error_detail(), "expected tcp://HOST:PORT"), "%s",
                  kolo_error_detail());
    }
    char text[KOLO_TEXT_MAX + 32] = "file:///";
    memset(text + 8, 'x', sizeof text - 9);
    cr_assert(kolo_rendezvous_parse(text, &got) == KOLO_ERR_CONFIG);
    cr_assert(kolo_rendezvous_parse("tcp://[::1]:80,b:2", &got) == KOLO_OK);
    cr_assert(got.kind == KOLO_RENDEZVOUS_TCP && strcmp(got.where, "[::1]:80,b:2") == 0);
    cr_assert(kolo_rendezvous_parse("file:///a/b", &got) == KOLO_OK);
    cr_assert(got.kind == KOLO_RENDEZVOUS_FILE && strcmp(got.where, "/a/b") == 0);
}

/** Ranks 1 and up dial; rank 0 hosts, after a delay if the test says so. */
struct meeting {
    int host_after_ms;
    kolo_status hosted;
    char why[1024];
};

static void pause_ms(int ms)
{
    struct kolo_poller *poller;
    if (kolo_poller_create(&poller) != KOLO_OK)
        abort();
    kolo_deadline deadline = kolo_deadline_in_ms(ms);
    while (!kolo_deadline_passed(deadline))
        kolo_poller_sleep(poller, deadline);
    kolo_poller_destroy(poller);
}

static void host(struct store_rank *rank)
{
    struct meeting *meeting = rank->context;
    struct kolo_rendezvous_host *host;
    struct kolo_store_server_config config = make_config(rank->size);
    int fd;
    pause_ms(meeting->host_after_ms);
    meeting->hosted = kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &host);
    snprintf(meeting->why, sizeof meeting->why, "%s", kolo_error_detail());
    if (meeting->hosted != KOLO_OK)
        return;
    if (kolo_store_thread_pair(kolo_rendezvous_host_store(host), &fd) != KOLO_OK)
        abort();
    store_rank_join(rank, 0, rank->size, fd, NULL, 0, &secret, SOON_MS);
    store_rank_close(rank);
    kolo_rendezvous_host_close(host, kolo_deadline_in_ms(SOON_MS));
}

static void host_or_dial(struct store_rank *rank)
{
    if (rank->rank == 0) {
        host(rank);
        return;
    }
    int fd = -1;
    kolo_status status =
        kolo_rendezvous_dial(&at, "", &secret, rank->rank, kolo_deadline_in_ms(SOON_MS), &fd);
    if (status == KOLO_OK) {
        store_rank_join(rank, rank->rank, rank->size, fd, NULL, 0, &secret, SOON_MS);
        store_rank_close(rank);
        return;
    }
    rank->joined = status;
    snprintf(rank->why, sizeof rank->why, "%s", kolo_error_detail());
}

static void meet(int size, int host_after_ms)
{
    struct store_rank ranks[8];
    struct meeting meeting = {.host_after_ms = host_after_ms};
    store_ranks_run(ranks, size, host_or_dial, &meeting);
    cr_assert(meeting.hosted == KOLO_OK, "%s", meeting.why);
    for (int i = 0; i < size; i++)
        cr_assert(ranks[i].joined == KOLO_OK, "rank %d: %s: %s", i,
                  kolo_status_name(ranks[i].joined), ranks[i].why);
}

Test(rendezvous, file_that_appears_later, .init = setup, .fini = teardown)
{
    meet(4, 300);
    cr_assert(files_in_folder() == 0, "%d files left", files_in_folder());
}

static void write_stale(const char *text)
{
    FILE *file = fopen(at.where, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

Test(rendezvous, stale_file_of_nobody, .init = setup, .fini = teardown)
{
    write_stale("kolo-rendezvous 1\njob 0123456789abcdef\nplace 127.0.0.1:1\nend\n");
    meet(3, 300);
    cr_assert(files_in_folder() == 0);
}

Test(rendezvous, stale_file_of_an_older_run_that_still_serves, .init = setup, .fini = teardown)
{
    struct kolo_store_thread *older;
    struct kolo_store_server_config config = make_config(3);
    struct kolo_place place;
    size_t count;
    uint16_t port;
    char text[256];
    config.job_id = 77;
    cr_assert(kolo_places_resolve("127.0.0.1:1", 0, &place, 1, &count) == KOLO_OK);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    memcpy(&place.addr, &any, sizeof any);
    cr_assert(kolo_store_thread_start(&config, &place, 1, &port, &older) == KOLO_OK);
    snprintf(text, sizeof text, "kolo-rendezvous 1\njob %016x\nplace 127.0.0.1:%d\nend\n", 78,
             port); /* another job has taken over the port: the greeting shows it */
    write_stale(text);
    meet(3, 300);
    kolo_store_thread_stop(older, kolo_now_ns());
}

Test(rendezvous, file_that_is_none_is_waited_out, .init = setup, .fini = teardown)
{
    write_stale("hello\n");
    meet(2, 200);
}

Test(rendezvous, malformed_files, .init = setup, .fini = teardown)
{
    const char *const bad[] = {
        "",
        "kolo-rendezvous 2\njob 0123456789abcdef\nplace 127.0.0.1:1\nend\n",
        "kolo-rendezvous 1\njob 0123456789abcdef\nplace 127.0.0.1:1\n",
        "kolo-rendezvous 1\njob 0123456789abcde\nplace 127.0.0.1:1\nend\n",
        "kolo-rendezvous 1\njob 0000000000000000\nplace 127.0.0.1:1\nend\n",
        "kolo-rendezvous 1\njob 0123456789abcdef\nend\n",
        "kolo-rendezvous 1\nplace 127.0.0.1:1\nend\n",
        "kolo-rendezvous 1\njob 0123456789abcdef\nplace host:1\nend\n",
        "kolo-rendezvous 1\njob 0123456789abcdef\nplace 127.0.0.1:99999\nend\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd;
        write_stale(bad[i]);
        kolo_status status =
            kolo_rendezvous_dial(&at, "", &secret, 1, kolo_deadline_in_ms(60), &fd);
        cr_assert(status == KOLO_ERR_CONNECT, "%zu: %s", i, kolo_status_name(status));
        cr_assert(strstr(kolo_error_detail(), "is not a rendezvous file"), "%zu: %s", i,
                  kolo_error_detail());
    }
}

Test(rendezvous, file_that_never_appears, .init = setup, .fini = teardown)
{
    int fd;
    cr_assert(kolo_rendezvous_dial(&at, "", &secret, 1, kolo_deadline_in_ms(120), &fd) ==
              KOLO_ERR_CONNECT);
    cr_assert(strstr(kolo_error_detail(), at.where) &&
                  strstr(kolo_error_detail(), "did not appear in time"),
              "%s", kolo_error_detail());
}

Test(rendezvous, pipe_in_place_of_the_file, .init = setup, .fini = teardown)
{
    int fd;
    cr_assert(mkfifo(at.where, 0600) == 0);
    cr_assert(kolo_rendezvous_dial(&at, "", &secret, 1, kolo_deadline_in_ms(120), &fd) ==
              KOLO_ERR_CONNECT);
    cr_assert(strstr(kolo_error_detail(), "not a regular file"), "%s", kolo_error_detail());
}

Test(rendezvous, what_is_no_file_stays_what_it_is, .init = setup, .fini = teardown)
{
    struct kolo_rendezvous_host *host;
    struct kolo_store_server_config config = make_config(1);
    struct stat info;
    cr_assert(mkfifo(at.where, 0600) == 0);
    cr_assert(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &host) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), at.where), "%s", kolo_error_detail());
    cr_assert(stat(at.where, &info) == 0 && S_ISFIFO(info.st_mode));
    cr_assert(files_in_folder() == 1);
}

Test(rendezvous, file_is_private_and_only_its_own_is_removed, .init = setup, .fini = teardown)
{
    struct kolo_rendezvous_host *first, *second;
    struct kolo_store_server_config config = make_config(1);
    struct stat info;
    cr_assert(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &first) == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(stat(at.where, &info) == 0 && (info.st_mode & 0777) == 0600);
    cr_assert(files_in_folder() == 1);
    cr_assert(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &second) == KOLO_OK);
    kolo_rendezvous_host_close(first, kolo_now_ns());
    cr_assert(files_in_folder() == 1, "the file of the second job is gone");
    kolo_rendezvous_host_close(second, kolo_now_ns());
    cr_assert(files_in_folder() == 0);
}

Test(rendezvous, folder_that_is_not_there)
{
    struct kolo_rendezvous_host *host;
    struct kolo_store_server_config config = make_config(1);
    cr_assert(kolo_rendezvous_parse("file:///no/such/folder/meet", &at) == KOLO_OK);
    cr_assert(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &host) == KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "/no/such/folder/meet: No such file"), "%s",
              kolo_error_detail());
}

/** The system would end the program by a signal. */
Test(rendezvous, a_limit_of_file_size_is_an_error, .init = setup, .fini = teardown)
{
    struct kolo_rendezvous_host *host;
    struct kolo_store_server_config config = make_config(1);
    const struct rlimit short_files = {16, RLIM_INFINITY};
    cr_assert(setrlimit(RLIMIT_FSIZE, &short_files) == 0);
    cr_assert_eq(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &host), KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), at.where) && strstr(kolo_error_detail(), "ulimit -f"),
              "%s", kolo_error_detail());
    cr_assert(files_in_folder() == 0, "%d files left", files_in_folder());
}

/** A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
    cr_assert(getsockname(fd, (struct sockaddr *)&any, &bytes) == 0);
    close(fd);
    return ntohs(any.sin_port);
}

/** The next step is not another port. */
Test(rendezvous, a_store_without_a_thread_is_told)
{
    char text[64];
    const char *const texts[] = {text, "file:///tmp/kolo-rendezvous-never"};
    struct kolo_rendezvous_host *host;
    struct kolo_store_server_config config = make_config(1);
    snprintf(text, sizeof text, "tcp://127.0.0.1:%d", free_port());
    if (!refuse_call(SYS_clone3, -1, 0, EAGAIN) || !refuse_call(SYS_clone, -1, 0, EAGAIN))
        cr_skip("no system call can be refused here");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cr_assert(kolo_rendezvous_parse(texts[i], &at) == KOLO_OK);
        cr_assert_eq(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &host),
                     KOLO_ERR_SYSTEM, "%s: %s", texts[i], kolo_error_detail());
        cr_assert(strstr(kolo_error_detail(), "store: cannot start a thread: ") ==
                      kolo_error_detail(),
                  "%s: %s", texts[i], kolo_error_detail());
    }
}

Test(rendezvous, by_address)
{
    char text[64];
    snprintf(text, sizeof text, "tcp://127.0.0.1:%d", free_port());
    cr_assert(kolo_rendezvous_parse(text, &at) == KOLO_OK);
    cr_assert(kolo_secret_make(&secret) == KOLO_OK);
    meet(4, 200);
}

Test(rendezvous, address_where_nobody_listens)
{
    int fd = -1;
    cr_assert(kolo_rendezvous_parse("tcp://127.0.0.1:1", &at) == KOLO_OK);
    cr_assert(kolo_rendezvous_dial(&at, "", &secret, 1, kolo_deadline_in_ms(120), &fd) ==
              KOLO_ERR_CONNECT);
    cr_assert(strstr(kolo_error_detail(), "127.0.0.1:1 connection refused; is rank 0 ") &&
                  strstr(kolo_error_detail(), "KOLO_RENDEZVOUS=tcp://127.0.0.1:1 "),
              "%s", kolo_error_detail());
}

/** A dial has a poller, which takes two descriptors, and needs one for each connection. To wait for
 * a file takes another poller. */
static void expect_lack(const struct kolo_rendezvous *where)
{
    enum { FILES = 64 };
    const struct rlimit few = {FILES, FILES};
    int taken[FILES], count = 0, fd = -1;
    cr_assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (count < FILES && (taken[count] = dup(0)) >= 0)
        count++;
    for (int left = where->kind == KOLO_RENDEZVOUS_FILE ? 4 : 2; left > 0; left--)
        close(taken[--count]);
    const kolo_deadline begun = kolo_now_ns();
    kolo_status status =
        kolo_rendezvous_dial(where, "", &secret, 1, kolo_deadline_in_ms(60000), &fd);
    while (count > 0)
        close(taken[--count]);
    cr_assert_eq(status, KOLO_ERR_SYSTEM, "%s", kolo_error_detail());
    cr_assert_str_eq(kolo_error_detail(), "cannot reach the rendezvous: socket: Too many open "
                                          "files: raise `ulimit -n`");
    cr_assert(kolo_now_ns() - begun < 50000 * KOLO_NS_PER_MS, "only at its deadline");
}

/** It is not asked whether rank 0 runs, or a firewall is there. */
Test(rendezvous, who_has_no_descriptor_left_is_told_soon, .init = setup, .fini = teardown)
{
    struct kolo_rendezvous where;
    cr_assert(kolo_rendezvous_parse("tcp://127.0.0.1:9", &where) == KOLO_OK);
    expect_lack(&where);
    write_stale("kolo-rendezvous 1\njob 0123456789abcdef\nplace 127.0.0.1:9\nend\n");
    expect_lack(&at);
}

Test(rendezvous, networks_that_this_host_has_not_are_named)
{
    int fd = -1;
    cr_assert(kolo_rendezvous_parse("tcp://127.0.0.1:1", &at) == KOLO_OK);
    cr_assert(kolo_rendezvous_dial(&at, "fd12::/16", &secret, 1, kolo_deadline_in_ms(120), &fd) ==
              KOLO_ERR_CONNECT);
    cr_assert(
        strstr(kolo_error_detail(), "KOLO_NET: nothing of this machine matches \"fd12::/16\"") &&
            strstr(kolo_error_detail(), ", and cannot reach the rendezvous: 127.0.0.1:1 "),
        "%s", kolo_error_detail());
    cr_assert(kolo_rendezvous_dial(&at, "lo", &secret, 1, kolo_deadline_in_ms(120), &fd) ==
              KOLO_ERR_CONNECT);
    cr_assert(!strstr(kolo_error_detail(), "KOLO_NET"), "%s", kolo_error_detail());
}

Test(rendezvous, address_of_another_host)
{
    struct kolo_rendezvous_host *host;
    struct kolo_store_server_config config = make_config(1);
    cr_assert(kolo_rendezvous_parse("tcp://192.0.2.1:4711", &at) == KOLO_OK);
    cr_assert(kolo_rendezvous_host_open(&at, "", &config, KOLO_NEVER, &host) == KOLO_ERR_CONNECT);
    cr_assert(strstr(kolo_error_detail(), "rank 0 cannot listen at tcp://192.0.2.1:4711") &&
                  strstr(kolo_error_detail(), "host that rank 0 runs on"),
              "%s", kolo_error_detail());
}
