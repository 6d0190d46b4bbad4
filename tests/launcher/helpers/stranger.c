// SPDX-License-Identifier: Apache-2.0
// A stranger at every TCP port that some processes listen at:
//
//   stranger PID...    finds the ports of the processes' sockets in /proc, and sends each of them
//                      random bytes, an HTTP request, what another connection got (a replay), a
//                      proof of the right length, and holds connections half open. Prints how many
//                      ports there were; fails if one of them answered more than its nonce.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORTS_MAX = 256, HALF_OPEN = 40, NONCE_BYTES = 32, PROOF_BYTES = 96, WAIT_MS = 300 };

struct ports {
    unsigned at[PORTS_MAX];
    int count;
};

/* Does process @p pid hold socket @p inode? */
static int holds(const char *pid, unsigned long inode)
{
    char path[300], want[64], link[128];
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    snprintf(want, sizeof want, "socket:[%lu]", inode);
    DIR *folder = opendir(path);
    int found = 0;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%.20s/fd/%.200s", pid, entry->d_name);
        ssize_t len = readlink(path, link, sizeof link - 1);
        if (len > 0) {
            link[len] = '\0';
            found = strcmp(link, want) == 0;
        }
    }
    if (folder)
        closedir(folder);
    return found;
}

static void find_ports(const char *table, char **pids, struct ports *ports)
{
    char line[512];
    FILE *file = fopen(table, "re");
    while (file && fgets(line, sizeof line, file) && ports->count < PORTS_MAX) {
        unsigned port = 0, state = 0;
        unsigned long inode = 0;
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", &port,
                   &state, &inode) != 3 ||
            state != 10)
            continue;
        for (char **pid = pids; *pid; pid++)
            if (holds(*pid, inode)) {
                ports->at[ports->count++] = port;
                break;
            }
    }
    if (file)
        fclose(file);
}

static int dial(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((unsigned short)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Reads until the end or WAIT_MS of silence. */
static size_t hear(int fd, unsigned char *data, size_t capacity)
{
    size_t used = 0;
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    while (used < capacity && poll(&watched, 1, WAIT_MS) > 0) {
        ssize_t got = recv(fd, data + used, capacity - used, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    return used;
}

/* Sends @p bytes and counts what comes back; more than a nonce is a leak. */
static int try(unsigned port, const char *what, const void *data, size_t bytes)
{
    unsigned char answer[512];
    int fd = dial(port);
    if (fd < 0)
        return 0;
    (void)!send(fd, data, bytes, MSG_NOSIGNAL);
    size_t heard = hear(fd, answer, sizeof answer);
    close(fd);
    if (heard <= NONCE_BYTES)
        return 0;
    fprintf(stderr, "port %u answered %zu bytes to %s\n", port, heard, what);
    return 1;
}

static int attack(unsigned port)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: kolo\r\n\r\n";
    unsigned char noise[4096], replay[NONCE_BYTES + PROOF_BYTES] = {0};
    int leaks = 0;
    (void)!getrandom(noise, sizeof noise, 0);
    leaks += try(port, "random bytes", noise, sizeof noise);
    leaks += try(port, "an HTTP request", http, sizeof http - 1);
    leaks += try(port, "a proof of noise", noise, PROOF_BYTES);
    int fd = dial(port);
    if (fd >= 0) {
        (void)hear(fd, replay, NONCE_BYTES);
        close(fd);
    }
    leaks += try(port, "a replayed nonce", replay, sizeof replay);
    return leaks;
}

int main(int argc, char **argv)
{
    struct ports ports = {.count = 0};
    int leaks = 0, held = 0;
    if (argc < 2)
        return 2;
    find_ports("/proc/net/tcp", argv + 1, &ports);
    find_ports("/proc/net/tcp6", argv + 1, &ports);
    for (int i = 0; i < ports.count; i++)
        for (int j = 0; j < HALF_OPEN; j++)
            held += dial(ports.at[i]) >= 0; /* left open until we end */
    for (int i = 0; i < ports.count; i++)
        leaks += attack(ports.at[i]);
    printf("%d ports, %d connections held half open, %d leaks\n", ports.count, held, leaks);
    return ports.count == 0 || leaks > 0;
}
