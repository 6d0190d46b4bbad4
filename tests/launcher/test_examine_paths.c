// SPDX-License-Identifier: Apache-2.0
// Examiners that try each other's places, and peers that are not examiners, all on one poller.
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/examine.h"
#include "launcher/examine_paths.h"

enum { ENDS_MAX = 8, PATIENCE_MS = 60000 };

struct ends {
    struct kolo_fact_path at[ENDS_MAX];
    size_t count;
    bool has_all;
};

static struct kolo_poller *poller;
static struct kolo_settings settings;
static struct kolo_secret secret;

static void begin(void)
{
    kolo_settings_init(&settings);
    snprintf(settings.net, sizeof settings.net, "lo");
    cr_assert(kolo_poller_create(&poller) == KOLO_OK);
    cr_assert(kolo_secret_make(&secret) == KOLO_OK);
}

static void end(void)
{
    kolo_poller_destroy(poller);
}
TestSuite(examine_paths, .init = begin, .fini = end);

static void on_path(void *context, const struct kolo_fact_path *path)
{
    struct ends *ends = context;
    cr_assert(ends->count < ENDS_MAX && !ends->has_all);
    ends->at[ends->count++] = *path;
}

static void on_all(void *context)
{
    ((struct ends *)context)->has_all = true;
}

static struct kolo_path_tests *open_tests(const struct kolo_secret *by, int self, struct ends *ends)
{
    struct kolo_path_tests *tests = NULL;
    const struct kolo_path_events events = {.context = ends, .path = on_path, .all = on_all};
    *ends = (struct ends){.count = 0};
    kolo_status status = kolo_path_tests_create(poller, &settings, by, self, 4, &events, &tests);
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    return tests;
}

static void address_of(const struct kolo_path_tests *tests, char *text, size_t capacity)
{
    size_t count = 0;
    const struct kolo_place *places = kolo_path_tests_places(tests, &count);
    cr_assert(count > 0);
    kolo_place_format(&places[0], text, capacity);
}

/* Runs until @p mine has tried all places. */
static void run(struct kolo_path_tests *mine, struct kolo_path_tests *other, struct ends *ends)
{
    kolo_deadline deadline = kolo_deadline_in_ms(PATIENCE_MS);
    kolo_path_tests_begin(mine);
    while (!ends->has_all) {
        cr_assert(!kolo_deadline_passed(deadline));
        kolo_deadline next = kolo_path_tests_turn(mine);
        if (other)
            next = kolo_deadline_min(next, kolo_path_tests_turn(other));
        if (ends->has_all)
            break;
        kolo_poller_sleep(poller, kolo_deadline_min(next, deadline));
        cr_assert(kolo_poller_dispatch(poller, NULL) == KOLO_OK);
    }
}

Test(examine_paths, both_ways_and_a_long_message)
{
    struct ends ends, others;
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    struct kolo_path_tests *other = open_tests(&secret, 1, &others);
    char address[96];
    address_of(other, address, sizeof address);
    for (int place = 0; place < 3; place++)
        cr_assert(kolo_path_tests_add(mine, 1, place, address) == KOLO_OK);
    run(mine, other, &ends);
    cr_assert(ends.count == 3);
    for (int i = 0; i < 3; i++)
        cr_assert(ends.at[i].end == KOLO_FACT_PATH_FINE && ends.at[i].to == 1, "%d %s",
                  ends.at[i].end, ends.at[i].words);
    address_of(mine, address, sizeof address);
    cr_assert(kolo_path_tests_add(other, 0, 0, address) == KOLO_OK);
    run(other, mine, &others);
    cr_assert(others.at[0].end == KOLO_FACT_PATH_FINE);
    kolo_path_tests_destroy(mine);
    kolo_path_tests_destroy(other);
}

Test(examine_paths, nothing_to_try_is_all_at_once)
{
    struct ends ends;
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    run(mine, NULL, &ends);
    cr_assert(ends.count == 0 && ends.has_all);
    kolo_path_tests_destroy(mine);
}

Test(examine_paths, another_host_is_known_for_one)
{
    struct ends ends, others;
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    struct kolo_path_tests *other = open_tests(&secret, 3, &others);
    char address[96];
    address_of(other, address, sizeof address);
    cr_assert(kolo_path_tests_add(mine, 2, 0, address) == KOLO_OK);
    run(mine, other, &ends);
    cr_assert(ends.at[0].end == KOLO_FACT_PATH_OTHER_HOST, "%s", ends.at[0].words);
    cr_assert(strcmp(ends.at[0].words, "is rank 3") == 0, "%s", ends.at[0].words);
    kolo_path_tests_destroy(mine);
    kolo_path_tests_destroy(other);
}

Test(examine_paths, an_examiner_of_another_session_is_a_stranger)
{
    struct ends ends, others;
    struct kolo_secret wrong;
    cr_assert(kolo_secret_make(&wrong) == KOLO_OK);
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    struct kolo_path_tests *other = open_tests(&wrong, 1, &others);
    char address[96];
    address_of(other, address, sizeof address);
    cr_assert(kolo_path_tests_add(mine, 1, 0, address) == KOLO_OK);
    run(mine, other, &ends);
    cr_assert(ends.at[0].end == KOLO_FACT_PATH_STRANGER, "%d %s", ends.at[0].end, ends.at[0].words);
    kolo_path_tests_destroy(mine);
    kolo_path_tests_destroy(other);
}

/* A socket at a free port of loopback; with @p backlog it listens, but never answers. */
static int bound(int backlog, char *address, size_t capacity)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    cr_assert(backlog == 0 || listen(fd, backlog) == 0);
    cr_assert(getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
    snprintf(address, capacity, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

Test(examine_paths, refused_and_silent)
{
    struct ends ends;
    char refuses[64], silent[64];
    int fds[2] = {bound(0, refuses, sizeof refuses), bound(8, silent, sizeof silent)};
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    cr_assert(kolo_path_tests_add(mine, 1, 0, refuses) == KOLO_OK);
    cr_assert(kolo_path_tests_add(mine, 1, 1, silent) == KOLO_OK);
    run(mine, NULL, &ends);
    for (size_t i = 0; i < 2; i++)
        cr_assert(ends.at[i].end ==
                      (ends.at[i].place == 0 ? KOLO_FACT_PATH_REFUSED : KOLO_FACT_PATH_SILENT),
                  "%d %s", ends.at[i].end, ends.at[i].words);
    kolo_path_tests_destroy(mine);
    close(fds[0]);
    close(fds[1]);
}

Test(examine_paths, names_are_not_looked_up)
{
    struct ends ends;
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    static const char *const bad[] = {
        "", "localhost:80", "127.0.0.1", "1.2.3.4:99999", "unix:@a", "1.2.3.4:80,1.2.3.5:80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert(kolo_path_tests_add(mine, 1, 0, bad[i]) != KOLO_OK, "%s", bad[i]);
    kolo_path_tests_destroy(mine);
}

Test(examine_paths, destroyed_while_all_is_on_its_way)
{
    struct ends ends, others;
    char silent[64], address[96];
    int fd = bound(8, silent, sizeof silent);
    struct kolo_path_tests *mine = open_tests(&secret, 0, &ends);
    struct kolo_path_tests *other = open_tests(&secret, 1, &others);
    address_of(other, address, sizeof address);
    cr_assert(kolo_path_tests_add(mine, 1, 0, silent) == KOLO_OK);
    cr_assert(kolo_path_tests_add(mine, 1, 1, address) == KOLO_OK);
    kolo_path_tests_begin(mine);
    for (int i = 0; i < 4; i++) {
        (void)kolo_path_tests_turn(mine);
        cr_assert(kolo_poller_dispatch(poller, NULL) == KOLO_OK);
    }
    kolo_path_tests_destroy(mine);
    kolo_path_tests_destroy(other);
    close(fd);
}
