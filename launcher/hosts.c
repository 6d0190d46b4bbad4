// SPDX-License-Identifier: Apache-2.0
// Host lists and slots. A host name is checked strictly, because it becomes an argument of ssh: no
// blanks, no leading dash. Until ranks are assigned, a hash table, at most half full, finds names
// that are in the list already, because a list may be long. A list is read until its end or a
// deadline, whatever kind of file it is.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "launcher/fetch.h"
#include "launcher/hosts.h"

enum { FILE_MAX = 64 << 20, FILE_PIECE = 1 << 16, PLACES_MIN = 16 };

static bool is_this_machine(const char *name)
{
    static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        if (strcmp(name, always[i]) == 0)
            return true;
    char here[KOLO_HOST_MAX] = "";
    if (gethostname(here, sizeof here - 1) != 0)
        return false;
    if (strcmp(name, here) == 0)
        return true;
    size_t len = strcspn(here, "."); /* up to the first dot */
    return strlen(name) == len && strncmp(name, here, len) == 0;
}

static bool is_host_name(const char *name)
{
    if (name[0] == '\0' || name[0] == '-' || strlen(name) >= KOLO_HOST_MAX)
        return false;
    const char *at = strchr(name, '@');
    if (at && (at == name || at[1] == '\0' || at[1] == '-' || strchr(at + 1, '@')))
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-@:%", *c))
            return false;
    return true;
}

static kolo_status parse_slots(const char *text, int *slots_out)
{
    char *end = NULL;
    errno = 0;
    long slots = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || slots < 1 || slots > KOLO_SLOTS_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "slots '%s' are not a number from 1 to %d", text,
                         (int)KOLO_SLOTS_MAX);
    *slots_out = (int)slots;
    return KOLO_OK;
}

/* The entry of @p name in the table, or the free one for it. */
static uint32_t *find_place(const struct kolo_hosts *hosts, const char *name)
{
    const size_t mask = hosts->places_count - 1;
    const uint64_t hash = kolo_hash_text(KOLO_HASH_START, name);
    for (uint64_t i = hash ^ hash >> 32;; i++) {
        uint32_t *place = &hosts->places[i & mask];
        if (*place == 0 || strcmp(hosts->at[*place - 1].name, name) == 0)
            return place;
    }
}

/* Makes room for one more host, in the list and in the table. */
static kolo_status reserve_one(struct kolo_hosts *hosts)
{
    void *at = hosts->at;
    kolo_status status = kolo_grow(&at, &hosts->capacity, hosts->count + 1, sizeof hosts->at[0]);
    if (status != KOLO_OK)
        return status;
    hosts->at = at;
    if (hosts->places && 2 * (hosts->count + 1) <= hosts->places_count)
        return KOLO_OK;
    const size_t count = hosts->places_count > 0 ? 2 * hosts->places_count : PLACES_MIN;
    uint32_t *places = kolo_calloc(count, sizeof places[0]);
    if (!places)
        return KOLO_ERR_NO_MEMORY;
    kolo_free_memory(hosts->places);
    hosts->places = places;
    hosts->places_count = count;
    for (size_t i = 0; i < hosts->count; i++)
        *find_place(hosts, hosts->at[i].name) = (uint32_t)i + 1;
    return KOLO_OK;
}

static void drop_places(struct kolo_hosts *hosts)
{
    kolo_free_memory(hosts->places);
    hosts->places = NULL;
    hosts->places_count = 0;
}

static kolo_status add_slots(struct kolo_host *host, int slots, bool is_open)
{
    if (slots > KOLO_SLOTS_MAX - host->slots)
        return kolo_fail(KOLO_ERR_INVALID, "too many slots for host '%s'", host->name);
    host->slots += slots;
    host->is_open = host->is_open && is_open;
    return KOLO_OK;
}

/* The entry of this machine, under whatever name; NULL: none yet. Two entries would be two agents,
 * each with ranks from local rank 0 on, which then share processors and GPUs. */
static struct kolo_host *find_here(const struct kolo_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->at[i].is_here)
            return &hosts->at[i];
    return NULL;
}

kolo_status kolo_hosts_add(struct kolo_hosts *hosts, const char *name, int slots, bool is_open)
{
    if (!is_host_name(name))
        return kolo_fail(KOLO_ERR_INVALID, "'%s' is not a host name", name);
    kolo_status status = reserve_one(hosts);
    if (status != KOLO_OK)
        return status;
    uint32_t *place = find_place(hosts, name);
    if (*place != 0)
        return add_slots(&hosts->at[*place - 1], slots, is_open);
    const bool is_here = is_this_machine(name);
    struct kolo_host *here = is_here ? find_here(hosts) : NULL;
    if (here)
        return add_slots(here, slots, is_open);
    if (hosts->count == KOLO_HOSTS_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "more than %d hosts, the most that kolorun takes",
                         (int)KOLO_HOSTS_MAX);
    struct kolo_host *host = &hosts->at[hosts->count];
    *place = (uint32_t)++hosts->count;
    *host = (struct kolo_host){.slots = slots, .is_open = is_open};
    memcpy(host->name, name, strlen(name) + 1);
    host->is_here = is_here;
    return KOLO_OK;
}

/* Cuts "[USER@][ADDRESS]REST", so that the colons of an IPv6 address stay together. Writes the name
 * without brackets, and returns REST; NULL: there is no bracket, or no closing one. */
static char *cut_brackets(char *text)
{
    char *user = strchr(text, '@');
    char *open = text[0] == '[' ? text : user && user[1] == '[' ? user + 1 : NULL;
    char *close = open ? strchr(open, ']') : NULL;
    if (!close)
        return NULL;
    memmove(open, open + 1, (size_t)(close - open - 1));
    close[-1] = '\0';
    return close + 1;
}

/* Parses one HOST[:SLOTS] of @p len bytes. */
static kolo_status parse_host(struct kolo_hosts *hosts, const char *item, size_t len)
{
    char text[KOLO_HOST_MAX + 16];
    if (len == 0)
        return kolo_fail(KOLO_ERR_INVALID, "a host name is empty");
    if (len >= sizeof text)
        return kolo_fail(KOLO_ERR_INVALID, "'%.32s...' is too long for the name of a host", item);
    memcpy(text, item, len);
    text[len] = '\0';
    char *slots_text = NULL;
    char *rest = cut_brackets(text);
    if (rest) {
        if (rest[0] != ':' && rest[0] != '\0')
            return kolo_fail(KOLO_ERR_INVALID, "'%.*s' is not a host", (int)len, item);
        slots_text = rest[0] == ':' ? rest + 1 : NULL;
    } else if ((slots_text = strchr(text, ':'))) {
        if (strchr(slots_text + 1, ':'))
            return kolo_fail(KOLO_ERR_INVALID,
                             "'%.*s' has several colons; write an IPv6 address as "
                             "[ADDRESS]:SLOTS, and give a port of ssh by --ssh 'ssh -p PORT'",
                             (int)len, item);
        *slots_text++ = '\0';
    }
    int slots = 1;
    if (slots_text && parse_slots(slots_text, &slots) != KOLO_OK)
        return kolo_fail(KOLO_ERR_INVALID, "'%.*s': the slots must be a number from 1 to %d",
                         (int)len, item, (int)KOLO_SLOTS_MAX);
    return kolo_hosts_add(hosts, text, slots, !slots_text);
}

/* Adds "HOST slots=N". The brackets of an IPv6 address are optional here. */
static kolo_status add_line(struct kolo_hosts *hosts, char *name, const char *slots_text)
{
    int slots = 0;
    char *rest = cut_brackets(name);
    const char *colon = rest ? (rest[0] ? rest : NULL) : strchr(name, ':');
    if (colon && (rest || !strchr(colon + 1, ':')))
        return kolo_fail(KOLO_ERR_INVALID,
                         "'%s slots=%s' has slots twice; use HOST:SLOTS or HOST slots=N", name,
                         slots_text);
    kolo_status status = parse_slots(slots_text, &slots);
    return status == KOLO_OK ? kolo_hosts_add(hosts, name, slots, false) : status;
}

/* Adds to the detail how it is to be written, unless that says what to do already. */
static kolo_status fail_with(kolo_status status, const char *grammar)
{
    char why[KOLO_DETAIL_MAX];
    kolo_detail_keep(why);
    return strstr(why, "; ") ? status : kolo_fail(status, "%s; %s", why, grammar);
}

kolo_status kolo_hosts_parse(struct kolo_hosts *hosts, const char *list)
{
    for (const char *at = list;; at++) {
        size_t len = strcspn(at, ",");
        kolo_status status = parse_host(hosts, at, len);
        if (status != KOLO_OK)
            return fail_with(status, "use HOST[:SLOTS], several separated by commas");
        at += len;
        if (!*at)
            return KOLO_OK;
    }
}

/* Parses a line of @p bytes bytes, from which the comment was removed: "host[:slots] [slots=N]". */
static kolo_status read_line(struct kolo_hosts *hosts, char *line, size_t bytes)
{
    static const char blanks[] = " \t\r\n";
    if (strlen(line) < bytes) /* what follows the 0 would be dropped silently */
        return kolo_fail(KOLO_ERR_INVALID,
                         "it has a byte of 0 (UTF-16, or not text); save it as UTF-8");
    line[strcspn(line, "#")] = '\0';
    char *rest = NULL;
    char *host = strtok_r(line, blanks, &rest);
    if (!host)
        return KOLO_OK;
    char *more = strtok_r(NULL, blanks, &rest);
    if (!more)
        return parse_host(hosts, host, strlen(host));
    char *last = strtok_r(NULL, blanks, &rest);
    if (strncmp(more, "slots=", 6) != 0 || last)
        return kolo_fail(KOLO_ERR_INVALID, "'%s' is not understood; use HOST:SLOTS or HOST slots=N",
                         last && strncmp(more, "slots=", 6) == 0 ? last : more);
    return add_line(hosts, host, more + 6);
}

/* Waits until there is more to read, or the end: the writer of a pipe may never come. */
static kolo_status await_more(int fd, const char *path, int64_t timeout_ms, kolo_deadline deadline)
{
    struct pollfd more = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&more, 1, kolo_deadline_poll_ms(deadline));
    while ((ready < 0 && errno == EINTR) || (ready == 0 && !kolo_deadline_passed(deadline)));
    if (ready < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "host file '%s'", path);
    if (ready == 0)
        return kolo_fail(KOLO_ERR_INVALID,
                         "host file '%s' had no end within %g s (--start-timeout); is anybody "
                         "writing it? End that, or name a file of one host a line",
                         path, (double)timeout_ms / 1000);
    return KOLO_OK;
}

/* Reads @p fd and appends a 0. At most FILE_MAX bytes: more cannot be a list. */
static kolo_status read_whole(int fd, const char *path, int64_t timeout_ms, char **text_out,
                              size_t *bytes_out)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(timeout_ms);
    void *text = NULL;
    size_t capacity = 0, bytes = 0;
    ssize_t got = 1;
    kolo_status status = KOLO_OK;
    while (got != 0) {
        KOLO_TRY(await_more(fd, path, timeout_ms, deadline));
        KOLO_TRY(kolo_grow(&text, &capacity, bytes + FILE_PIECE + 1, 1));
        got = read(fd, (char *)text + bytes, FILE_PIECE);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got < 0)
            KOLO_TRY(kolo_fail_errno(KOLO_ERR_INVALID, errno, "host file '%s'", path));
        bytes += (size_t)got;
        if (bytes > FILE_MAX)
            KOLO_TRY(
                kolo_fail(KOLO_ERR_INVALID,
                          "host file '%s' has more than %d MiB; name a file of one host a line",
                          path, FILE_MAX >> 20));
    }
    ((char *)text)[bytes] = '\0';
    *bytes_out = bytes;
out:
    *text_out = text;
    return status;
}

static kolo_status read_lines(struct kolo_hosts *hosts, const char *path, char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbb\xbf"; /* editors put it before UTF-8, invisibly */
    char *end = text + bytes;
    if (strncmp(text, mark, sizeof mark - 1) == 0)
        text += sizeof mark - 1;
    for (int number = 1; text < end; number++) {
        char *next = memchr(text, '\n', (size_t)(end - text));
        if (next)
            *next = '\0';
        kolo_status status = read_line(hosts, text, (size_t)((next ? next : end) - text));
        if (status != KOLO_OK) {
            char why[KOLO_DETAIL_MAX];
            (void)fail_with(status, "give one host a line: HOST:SLOTS or HOST slots=N");
            kolo_detail_keep(why);
            return kolo_fail(status, "host file '%s', line %d: %s", path, number, why);
        }
        text = next ? next + 1 : end;
    }
    if (hosts->count == 0)
        return kolo_fail(KOLO_ERR_INVALID, "host file '%s' names no host", path);
    return KOLO_OK;
}

/* Allows a pipe or a terminal; a disk or /dev/zero must be a mistake. Opened non-blocking, so that
 * a pipe opens at once, whether or not anybody writes to it. */
static kolo_status open_list(const char *path, int *fd_out)
{
    struct stat facts;
    const int fd = *fd_out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &facts) != 0)
        return kolo_fail_errno(KOLO_ERR_INVALID, errno, "host file '%s'", path);
    if (S_ISREG(facts.st_mode) || S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || isatty(fd))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID, "host file '%s' is a %s; name a file of one host a line",
                     path, S_ISDIR(facts.st_mode) ? "directory" : "device");
}

struct list {
    const char *path;
    int64_t timeout_ms;
};

static kolo_status read_list(const void *context, void **text_out, size_t *bytes_out)
{
    const struct list *list = context;
    int fd = -1;
    char *text = NULL;
    kolo_status status;
    KOLO_TRY(open_list(list->path, &fd));
    status = read_whole(fd, list->path, list->timeout_ms, &text, bytes_out);
out:
    if (fd >= 0)
        close(fd);
    *text_out = text;
    return status;
}

kolo_status kolo_hosts_read(struct kolo_hosts *hosts, const char *path, int64_t timeout_ms)
{
    char what[KOLO_DETAIL_MAX];
    const struct list list = {.path = path, .timeout_ms = timeout_ms};
    void *text = NULL;
    size_t bytes = 0;
    snprintf(what, sizeof what, "host file '%.512s'", path);
    kolo_status status = kolo_fetch(
        &(struct kolo_fetch){
            .what = what, .limit_ms = timeout_ms, .read = read_list, .context = &list},
        &text, &bytes);
    if (status == KOLO_OK)
        status = read_lines(hosts, path, text, bytes);
    kolo_free_memory(text);
    return status;
}

kolo_status kolo_hosts_here(struct kolo_hosts *hosts, int slots)
{
    return kolo_hosts_add(hosts, "localhost", slots, true);
}

/* Distributes @p ranks in proportion to the slots of the hosts that take part; the first hosts get
 * the remainder.
 */
static void deal(struct kolo_hosts *hosts, int ranks, bool open_only)
{
    long long slots = 0, given = 0, seen = 0;
    for (size_t i = 0; i < hosts->count; i++)
        if (!open_only || hosts->at[i].is_open)
            slots += hosts->at[i].slots;
    for (size_t i = 0; i < hosts->count; i++) {
        struct kolo_host *host = &hosts->at[i];
        if (open_only && !host->is_open)
            continue;
        seen += host->slots;
        long long upto = (ranks * seen + slots - 1) / slots;
        host->ranks.count = (uint32_t)(upto - given);
        given = upto;
    }
}

/* Fills one host after the other; there are no more ranks than slots. */
static void fill(struct kolo_hosts *hosts, int ranks)
{
    for (size_t i = 0; i < hosts->count; i++) {
        struct kolo_host *host = &hosts->at[i];
        host->ranks.count = (uint32_t)(host->slots < ranks ? host->slots : ranks);
        ranks -= (int)host->ranks.count;
    }
}

/* How many ranks there are if each host has @p most at most. */
static long long count_up_to(const struct kolo_hosts *hosts, int most)
{
    long long ranks = 0;
    for (size_t i = 0; i < hosts->count; i++)
        ranks += hosts->at[i].slots < most ? hosts->at[i].slots : most;
    return ranks;
}

/* Gives each host that has a slot left one rank in turn; there are no more ranks than slots. */
static void spread(struct kolo_hosts *hosts, int ranks)
{
    int low = 0, high = KOLO_SLOTS_MAX; /* of the number of whole turns */
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (count_up_to(hosts, middle) <= ranks)
            low = middle;
        else
            high = middle - 1;
    }
    long long left = ranks - count_up_to(hosts, low);
    for (size_t i = 0; i < hosts->count; i++) {
        struct kolo_host *host = &hosts->at[i];
        const bool has_more = host->slots > low && left-- > 0;
        host->ranks.count = (uint32_t)(host->slots < low ? host->slots : low) + has_more;
    }
}

static void drop_empty(struct kolo_hosts *hosts)
{
    size_t kept = 0;
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->at[i].ranks.count > 0)
            hosts->at[kept++] = hosts->at[i];
    hosts->count = kept;
    drop_places(hosts); /* the table still has the hosts that were dropped */
}

/* Numbers the ranks in turn over the hosts that have one left. */
static kolo_status number_in_turn(struct kolo_hosts *hosts)
{
    uint32_t rank = 0;
    size_t left = hosts->count;
    struct kolo_ranks **those = kolo_calloc(left, sizeof those[0]);
    if (!those)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < left; i++)
        those[i] = &hosts->at[i].ranks;
    for (uint32_t turn = 0; left > 0; turn++) {
        size_t kept = 0;
        for (size_t i = 0; i < left; i++) {
            those[i]->at[turn] = rank++;
            if (turn + 1 < those[i]->count)
                those[kept++] = those[i];
        }
        left = kept;
    }
    kolo_free_memory(those);
    return KOLO_OK;
}

/* Gives the hosts, which know how many ranks they have, their numbers. */
static kolo_status number_ranks(struct kolo_hosts *hosts, int size, bool in_turn)
{
    uint32_t first = 0;
    kolo_free_memory(hosts->ranks);
    hosts->ranks = kolo_calloc((size_t)size, sizeof hosts->ranks[0]);
    if (!hosts->ranks)
        return KOLO_ERR_NO_MEMORY;
    for (int i = 0; i < size; i++)
        hosts->ranks[i] = (uint32_t)i;
    for (size_t i = 0; i < hosts->count; i++) {
        hosts->at[i].ranks.at = hosts->ranks + first;
        first += hosts->at[i].ranks.count;
    }
    return in_turn ? number_in_turn(hosts) : KOLO_OK;
}

/* How many ranks each host gets. */
static kolo_status count_ranks(struct kolo_hosts *hosts, int ranks,
                               const struct kolo_hosts_rule *rule)
{
    long long slots = 0, closed = 0;
    bool has_open = false;
    for (size_t i = 0; i < hosts->count; i++) {
        hosts->at[i].ranks = (struct kolo_ranks){.count = 0};
        slots += hosts->at[i].slots;
        closed += hosts->at[i].is_open ? 0 : hosts->at[i].slots;
        has_open = has_open || hosts->at[i].is_open;
    }
    if (ranks <= slots && rule->in_turn) {
        spread(hosts, ranks);
    } else if (ranks <= slots) {
        fill(hosts, ranks);
    } else if (rule->oversubscribe) {
        deal(hosts, ranks, false);
    } else if (has_open) {
        for (size_t i = 0; i < hosts->count; i++)
            hosts->at[i].ranks.count = (uint32_t)hosts->at[i].slots;
        deal(hosts, (int)(ranks - closed), true);
    } else {
        return kolo_fail(KOLO_ERR_INVALID,
                         "-np %d exceeds the %lld slots of %zu host%s; name more slots, or add "
                         "--oversubscribe",
                         ranks, slots, hosts->count, hosts->count == 1 ? "" : "s");
    }
    return KOLO_OK;
}

kolo_status kolo_hosts_map(struct kolo_hosts *hosts, const struct kolo_hosts_rule *rule,
                           int *size_out)
{
    long long slots = 0;
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < hosts->count; i++)
        slots += hosts->at[i].slots;
    if (rule->np == 0 && slots > KOLO_SLOTS_MAX)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%lld slots are more than a job's %d ranks at most; give -np, or fewer "
                         "slots",
                         slots, (int)KOLO_SLOTS_MAX);
    const int ranks = rule->np > 0 ? rule->np : (int)slots;
    KOLO_TRY(count_ranks(hosts, ranks, rule));
    drop_empty(hosts);
    KOLO_TRY(number_ranks(hosts, ranks, rule->in_turn));
    *size_out = ranks;
out:
    return status;
}

void kolo_hosts_fini(struct kolo_hosts *hosts)
{
    drop_places(hosts);
    kolo_free_memory(hosts->ranks);
    kolo_free_memory(hosts->at);
    *hosts = (struct kolo_hosts){.at = NULL};
}
