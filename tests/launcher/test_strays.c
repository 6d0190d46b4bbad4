// SPDX-License-Identifier: Apache-2.0
// Processes left in the background: which rank they belong to, how they are reported, and that such
// a report from the wire is not trusted. That a process is one of kolo's own (is_of_kolo) is tested
// with ranks, by tests/launcher/failure.sh.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/spawn.h"
#include "launcher/strays.h"
#include "tests/support/await.h"

enum { RANKS = 3 };
static uint32_t numbers[RANKS] = {6, 7, 9};
static const struct kolo_ranks of_host = {.at = numbers, .count = RANKS};

static void start(const char *rank)
{
    static char sh[] = "sh", dash_c[] = "-c", text[] = "(setsid sleep 60 &) ; exit 0";
    char *argv[] = {sh, dash_c, text, NULL};
    struct kolo_spawn spawn = {.path = "/bin/sh", .argv = argv, .fds = {-1, -1, -1}};
    pid_t pid;
    int error, status;
    cr_assert(rank ? setenv("KOLO_RANK", rank, 1) == 0 : unsetenv("KOLO_RANK") == 0);
    spawn.env = environ;
    cr_assert(kolo_spawn(&spawn, &pid, &error) == KOLO_OK);
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
}

/** How many of the processes found are already called sleep. */
static int find_named(struct kolo_stray *strays)
{
    int count = 0;
    kolo_strays_find(getpid(), &of_host, strays);
    for (int i = 0; i < RANKS; i++)
        count += strays[i].pid != 0 && strcmp(strays[i].name, "sleep") == 0;
    return count;
}

Test(strays, are_found_by_the_rank_they_began_as, .timeout = 120)
{
    static const char *const ranks[] = {"6", "9", "9", "5", "8", "-1", "x", NULL};
    struct kolo_stray strays[RANKS];
    cr_assert(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        start(ranks[i]);
    cr_assert(AWAIT(find_named(strays) == 2), "setsid and sleep are being executed yet");
    for (int i = 0; i < RANKS; i++)
        cr_assert(strays[i].rank == numbers[i] && !strays[i].is_of_kolo);
    cr_assert(strays[0].pid != 0 && strays[1].pid == 0 && strays[2].pid != 0);
    cr_assert(kolo_tree_signal(getpid(), SIGKILL) == sizeof ranks / sizeof ranks[0]);
}

Test(strays, come_over_the_wire_as_they_were)
{
    const struct kolo_stray stray = {.rank = 7, .pid = 4711, .is_of_kolo = true, .name = "a\033b"};
    uint8_t body[KOLO_STRAY_BYTES];
    size_t bytes = 0;
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_stray_write(&writer, &stray);
    cr_assert(kolo_writer_finish(&writer, body, &bytes) == KOLO_OK);
    for (size_t some = 0; some <= bytes; some++) {
        struct kolo_stray got = {.rank = 1};
        struct kolo_reader reader = kolo_reader_over(body, some);
        const kolo_status status = kolo_stray_read(&reader, &got);
        cr_assert((status == KOLO_OK) == (some == bytes) && (some == bytes || got.rank == 1));
        if (some == bytes)
            cr_assert(got.rank == 7 && got.pid == 4711 && got.is_of_kolo &&
                          strcmp(got.name, "a?b") == 0,
                      "%s", got.name);
    }
}
