// SPDX-License-Identifier: Apache-2.0
// Host lists: their grammar, slots, and which host gets which ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "launcher/hosts.h"

/** The host of a rank; NULL: there is no such rank. */
static const struct kolo_host *host_of(const struct kolo_hosts *hosts, int rank)
{
    uint32_t place;
    for (size_t i = 0; i < hosts->count; i++)
        if (kolo_ranks_find(&hosts->at[i].ranks, (uint32_t)rank, &place))
            return &hosts->at[i];
    return NULL;
}

static struct kolo_hosts parsed(const char *list)
{
    struct kolo_hosts hosts = {.at = NULL};
    kolo_status status = kolo_hosts_parse(&hosts, list);
    cr_assert(status == KOLO_OK, "%s: %s", list, kolo_error_detail());
    return hosts;
}

Test(hosts, parses_every_form)
{
    struct kolo_hosts hosts = parsed("a,b:3,[2001:db8::1]:2,[::2],user@c:4,a:2");
    static const struct {
        const char *name;
        int slots;
        bool is_open;
    } want[] = {{"a", 3, false},
                {"b", 3, false},
                {"2001:db8::1", 2, false},
                {"::2", 1, true},
                {"user@c", 4, false}};
    cr_assert(hosts.count == 5, "%zu hosts", hosts.count);
    for (size_t i = 0; i < hosts.count; i++) {
        cr_assert(strcmp(hosts.at[i].name, want[i].name) == 0, "%s", hosts.at[i].name);
        cr_assert(hosts.at[i].slots == want[i].slots, "%s: %d", want[i].name, hosts.at[i].slots);
        cr_assert(hosts.at[i].is_open == want[i].is_open, "%s", want[i].name);
    }
    kolo_hosts_fini(&hosts);
}

Test(hosts, knows_this_machine)
{
    char name[256] = "";
    (void)gethostname(name, sizeof name - 1);
    const char *const here[] = {"localhost", "127.0.0.1", "[::1]", name};
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
        struct kolo_hosts hosts = parsed(here[i]);
        cr_assert(hosts.count == 1 && hosts.at[0].is_here, "%s", here[i]);
        kolo_hosts_fini(&hosts);
    }
    struct kolo_hosts hosts = parsed("elsewhere.invalid,user@localhost");
    cr_assert(hosts.count == 2 && !hosts.at[0].is_here && !hosts.at[1].is_here);
    kolo_hosts_fini(&hosts);
}

Test(hosts, names_of_this_machine_are_one_host)
{
    char list[400] = "a:1,127.0.0.1:2,localhost:3,b:1,[::1]:4,localhost:5,", name[256] = "";
    int size = 0;
    (void)gethostname(name, sizeof name - 1);
    strncat(list, name, sizeof list - strlen(list) - 1);
    struct kolo_hosts hosts = parsed(list);
    cr_assert(hosts.count == 3 && hosts.at[1].slots == 15, "%zu hosts", hosts.count);
    cr_assert(strcmp(hosts.at[1].name, "127.0.0.1") == 0 && !hosts.at[1].is_open);
    cr_assert(kolo_hosts_map(&hosts, &(struct kolo_hosts_rule){0}, &size) == KOLO_OK && size == 17);
    cr_assert(host_of(&hosts, 15) == &hosts.at[1] && host_of(&hosts, 16) == &hosts.at[2]);
    kolo_hosts_fini(&hosts);
    cr_assert(kolo_hosts_parse(&hosts, "localhost:1048576,127.0.0.1:1") == KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "too many slots for host 'localhost'"), "%s",
              kolo_error_detail());
    kolo_hosts_fini(&hosts);
}

Test(hosts, refuses_what_is_no_list)
{
    static const char *const bad[] = {"",
                                      ",",
                                      "a,",
                                      ",a",
                                      "a,,b",
                                      "a:",
                                      "a:0",
                                      "a:-1",
                                      "a:x",
                                      "a:1x",
                                      "a: 1",
                                      "a:1:2",
                                      "1:2:3",
                                      "-oProxy",
                                      "u@-o",
                                      "@a",
                                      "a@",
                                      "a@b@c",
                                      "a b",
                                      "a;b",
                                      "a$b",
                                      "[::1",
                                      "[::1]x",
                                      "[::1]:",
                                      "u@[::1",
                                      "u@[::1]x",
                                      "[]",
                                      "u@[]:1",
                                      "a:1048577",
                                      "a:99999999999999999999",
                                      "a:1048576,a:1",
                                      "\n",
                                      "a\tb",
                                      "'a'"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_hosts hosts = {.at = NULL};
        cr_assert(kolo_hosts_parse(&hosts, bad[i]) == KOLO_ERR_INVALID, "'%s'", bad[i]);
        cr_assert(kolo_error_detail()[0] != '\0', "'%s' has no detail", bad[i]);
        kolo_hosts_fini(&hosts);
    }
}

static kolo_status read_bytes(struct kolo_hosts *hosts, const char *text, size_t bytes)
{
    char path[] = "/tmp/kolo-hosts-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert(write(fd, text, bytes) == (ssize_t)bytes);
    close(fd);
    kolo_status status = kolo_hosts_read(hosts, path, 60000);
    unlink(path);
    return status;
}

static kolo_status read_text(struct kolo_hosts *hosts, const char *text)
{
    return read_bytes(hosts, text, strlen(text));
}

/* What follows a 0 byte must not be dropped silently. */
Test(hosts, refuses_a_file_that_is_no_text)
{
    static const struct {
        const char *text;
        size_t bytes;
    } bad[] = {{"a\0b\n", 4},
               {"a\nb\0", 4},
               {"a\n#\0\nb", 6},
               {"\xff\xfe"
                "a\0\n\0",
                6}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_hosts hosts = {.at = NULL};
        cr_assert(read_bytes(&hosts, bad[i].text, bad[i].bytes) == KOLO_ERR_INVALID, "%zu", i);
        cr_assert(strstr(kolo_error_detail(), "save it as UTF-8"), "%s", kolo_error_detail());
        kolo_hosts_fini(&hosts);
    }
}

Test(hosts, reads_a_file)
{
    struct kolo_hosts hosts = {.at = NULL};
    kolo_status status =
        read_text(&hosts, "# all of them\n\n  a slots=2 # two\nb:3\r\n\tc\nd\tslots=1");
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(hosts.count == 4 && hosts.at[0].slots == 2 && hosts.at[1].slots == 3);
    cr_assert(hosts.at[2].is_open && !hosts.at[3].is_open);
    kolo_hosts_fini(&hosts);
}

Test(hosts, reads_a_file_that_begins_with_a_mark)
{
    struct kolo_hosts hosts = {.at = NULL};
    kolo_status status = read_text(&hosts, "\xef\xbb\xbf"
                                           "a:2\r\nb\r\n");
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(hosts.count == 2 && strcmp(hosts.at[0].name, "a") == 0 && hosts.at[0].slots == 2);
    kolo_hosts_fini(&hosts);
}

Test(hosts, reads_addresses_with_brackets_and_without)
{
    static const char *const names[] = {"2001:db8::1", "2001:db8::2", "u@2001:db8::3",
                                        "u@2001:db8::4"};
    struct kolo_hosts hosts = {.at = NULL};
    kolo_status status = read_text(&hosts, "[2001:db8::1] slots=2\n2001:db8::2 slots=2\n"
                                           "u@[2001:db8::3] slots=2\nu@[2001:db8::4]:2\n");
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(hosts.count == 4, "%zu hosts", hosts.count);
    for (size_t i = 0; i < hosts.count; i++)
        cr_assert(strcmp(hosts.at[i].name, names[i]) == 0 && hosts.at[i].slots == 2, "%s: %d",
                  hosts.at[i].name, hosts.at[i].slots);
    kolo_hosts_fini(&hosts);
}

Test(hosts, refuses_a_bad_file)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "names no host"},     {"# none\n", "names no host"},   {"a\nb slots=x\n", "line 2"},
        {"a\nb\n-x\n", "line 3"},  {"a slots=1 b\n", "'b' is not"}, {"a cores=2\n", "cores=2"},
        {"a slots=0\n", "line 1"}, {"a:2 slots=2\n", "twice"},      {"[::1]:2 slots=2\n", "twice"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_hosts hosts = {.at = NULL};
        cr_assert(read_text(&hosts, bad[i].text) == KOLO_ERR_INVALID, "%s", bad[i].text);
        cr_assert(strstr(kolo_error_detail(), bad[i].says), "%s", kolo_error_detail());
        kolo_hosts_fini(&hosts);
    }
}

/* Each name twice, the second time from the end. Searching the list for each takes minutes of
 * processor time, a table some tenths of a second. */
Test(hosts, as_many_as_there_may_be)
{
    enum { HOSTS = 65536, SECONDS = 10 };
    struct kolo_hosts hosts = {.at = NULL};
    char name[32];
    for (int i = 0; i < 2 * HOSTS; i++) {
        snprintf(name, sizeof name, "host-%d", i < HOSTS ? i : 2 * HOSTS - 1 - i);
        cr_assert(kolo_hosts_add(&hosts, name, 1, false) == KOLO_OK, "%s", kolo_error_detail());
        cr_assert(clock() < SECONDS * CLOCKS_PER_SEC, "host %d of %d", i, 2 * HOSTS);
    }
    cr_assert(hosts.count == HOSTS, "%zu", hosts.count);
    for (int i = 0; i < HOSTS; i++)
        cr_assert(hosts.at[i].slots == 2, "%s: %d", hosts.at[i].name, hosts.at[i].slots);
    cr_assert(kolo_hosts_add(&hosts, "one.more", 1, false) == KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "more than 65536 hosts"), "%s", kolo_error_detail());
    int size = 0; /* a host that is added after one was dropped is found again */
    cr_assert(kolo_hosts_map(&hosts, &(struct kolo_hosts_rule){.np = 5}, &size) == KOLO_OK &&
              hosts.count == 3);
    cr_assert(kolo_hosts_add(&hosts, "host-2", 1, false) == KOLO_OK && hosts.count == 3);
    cr_assert(kolo_hosts_add(&hosts, "host-3", 1, false) == KOLO_OK && hosts.count == 4);
    kolo_hosts_fini(&hosts);
}

/* Checks "ranks of the first host, of the second, ...". */
static void check_map(const char *list, int np, bool oversubscribe, const int want[4])
{
    struct kolo_hosts hosts = parsed(list);
    int size = 0, first = 0;
    kolo_status status = kolo_hosts_map(
        &hosts, &(struct kolo_hosts_rule){.np = np, .oversubscribe = oversubscribe}, &size);
    cr_assert(status == KOLO_OK, "%s -np %d: %s", list, np, kolo_error_detail());
    for (size_t i = 0; i < 4 && want[i] >= 0; i++) {
        cr_assert(i < hosts.count, "%s -np %d: %zu hosts", list, np, hosts.count);
        const struct kolo_ranks *ranks = &hosts.at[i].ranks;
        cr_assert((int)ranks->count == want[i], "%s -np %d: host %zu has %u", list, np, i,
                  ranks->count);
        for (int r = first; r < first + want[i]; r++)
            cr_assert(ranks->at[r - first] == (uint32_t)r && host_of(&hosts, r) == &hosts.at[i]);
        first += want[i];
    }
    cr_assert(size == first, "%s -np %d: size %d", list, np, size);
    cr_assert(host_of(&hosts, size) == NULL);
    kolo_hosts_fini(&hosts);
}

Test(hosts, deals_out_ranks)
{
    check_map("a:2,b:2", 0, false, (int[]){2, 2, -1, -1});
    check_map("a:2,b:2", 3, false, (int[]){2, 1, -1, -1});
    check_map("a:2,b:2", 1, false, (int[]){1, -1, -1, -1});
    check_map("a,b", 0, false, (int[]){1, 1, -1, -1});
    check_map("a,b", 4, false, (int[]){2, 2, -1, -1});
    check_map("a,b,c", 7, false, (int[]){3, 2, 2, -1});
    check_map("a:2,b,c", 8, false, (int[]){2, 3, 3, -1});
    check_map("a:2,b:1", 7, true, (int[]){5, 2, -1, -1});
    check_map("a:1,b:1,a:1", 3, false, (int[]){2, 1, -1, -1});
    check_map("a", 200, false, (int[]){200, -1, -1, -1});
}

/* Checks the host of each rank, "abab": the hosts are called a, b, c. */
static void check_turns(const char *list, int np, bool oversubscribe, const char *want)
{
    struct kolo_hosts hosts = parsed(list);
    int size = 0;
    cr_assert(kolo_hosts_map(&hosts,
                             &(struct kolo_hosts_rule){
                                 .np = np, .oversubscribe = oversubscribe, .in_turn = true},
                             &size) == KOLO_OK,
              "%s", kolo_error_detail());
    cr_assert(size == (int)strlen(want), "%s -np %d: %d", list, np, size);
    for (int rank = 0; rank < size; rank++)
        cr_assert(host_of(&hosts, rank)->name[0] == want[rank], "%s -np %d: rank %d is on %s", list,
                  np, rank, host_of(&hosts, rank)->name);
    for (size_t i = 0; i < hosts.count; i++)
        cr_assert(kolo_ranks_are_valid(&hosts.at[i].ranks, (uint32_t)size), "%s", list);
    kolo_hosts_fini(&hosts);
}

Test(hosts, deals_out_ranks_in_turn)
{
    check_turns("a:2,b:2", 0, false, "abab");
    check_turns("a:4,b:4", 3, false, "aba");
    check_turns("a:4,b:4", 1, false, "a");
    check_turns("a:4,b:4,c:1", 6, false, "abcaba");
    check_turns("a:1,b:3,c:2", 0, false, "abcbcb");
    check_turns("a:3,b:1,c:2", 5, false, "abcac");
    check_turns("a,b", 5, false, "ababa");
    check_turns("a:2,b,c", 8, false, "abcabcbc");
    check_turns("a:2,b:1", 7, true, "ababaaa");
    check_turns("a:3", 2, false, "aa");
}

/* Turns in which few hosts take part must not cost time for all of them. */
Test(hosts, in_turn_with_very_different_slots)
{
    enum { HOSTS = 65536, SECONDS = 20 };
    struct kolo_hosts hosts = parsed("first:900000");
    char name[32];
    int size = 0;
    for (int i = 1; i < HOSTS; i++) {
        snprintf(name, sizeof name, "host-%d", i);
        cr_assert(kolo_hosts_add(&hosts, name, 1, false) == KOLO_OK, "%s", kolo_error_detail());
    }
    const clock_t begun = clock();
    cr_assert(kolo_hosts_map(&hosts, &(struct kolo_hosts_rule){.in_turn = true}, &size) == KOLO_OK);
    cr_assert(clock() - begun < SECONDS * CLOCKS_PER_SEC);
    cr_assert(size == 900000 + HOSTS - 1 && hosts.at[0].ranks.at[1] == HOSTS);
    kolo_hosts_fini(&hosts);
}

Test(hosts, says_how_many_ranks_a_job_may_have)
{
    struct kolo_hosts hosts = parsed("a:1048576,b:1");
    int size = 0;
    cr_assert(kolo_hosts_map(&hosts, &(struct kolo_hosts_rule){0}, &size) == KOLO_ERR_INVALID);
    cr_assert(strcmp(kolo_error_detail(), "1048577 slots are more than a job's 1048576 ranks at "
                                          "most; give -np, or fewer slots") == 0,
              "%s", kolo_error_detail());
    cr_assert(kolo_hosts_map(&hosts, &(struct kolo_hosts_rule){.np = 1048576}, &size) == KOLO_OK &&
              size == 1048576);
    kolo_hosts_fini(&hosts);
}

Test(hosts, keeps_to_the_slots)
{
    struct kolo_hosts hosts = parsed("a:2,b:2");
    int size = 77;
    cr_assert(kolo_hosts_map(&hosts, &(struct kolo_hosts_rule){.np = 5}, &size) ==
              KOLO_ERR_INVALID);
    cr_assert(size == 77, "written on failure");
    cr_assert(strstr(kolo_error_detail(), "4 slots of 2 hosts") &&
                  strstr(kolo_error_detail(), "--oversubscribe"),
              "%s", kolo_error_detail());
    kolo_hosts_fini(&hosts);
}
