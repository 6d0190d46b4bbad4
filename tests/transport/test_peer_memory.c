// SPDX-License-Identifier: Apache-2.0
// Reading a child's memory as that of a peer: all of it, from a process that has been replaced by
// another, beyond what it has, and from a process that is gone.
#include "transport/peer_memory.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 5, PAGE = 4096, BYTES = PAGES * PAGE };

/** A child with the same addresses as its parent, and its own bytes there. */
struct child {
    uint8_t *memory; /* PAGES pages, followed by an unmapped one */
    uint64_t word;
    pid_t pid;
    struct kolo_peer_memory peer;
};

static uint8_t told(size_t index)
{
    return (uint8_t)(index * 7 + index / PAGE);
}

/** False: the system does not let this process read its child's memory. */
static bool begin(struct child *child)
{
    int ends[2];
    char byte = 0;
    uint64_t word = 0;
    child->word = 1;
    child->memory =
        mmap(NULL, BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(child->memory != MAP_FAILED && munmap(child->memory + BYTES, PAGE) == 0);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    child->pid = fork();
    cr_assert(child->pid >= 0);
    if (child->pid == 0) {
        for (size_t i = 0; i < BYTES; i++)
            child->memory[i] = told(i);
        child->word = 77;
        _exit(write(ends[1], &byte, 1) == 1 && read(ends[1], &byte, 1) == 1);
    }
    close(ends[1]);
    cr_assert(read(ends[0], &byte, 1) == 1);
    child->peer = (struct kolo_peer_memory){
        .pid = (int32_t)child->pid, .word_at = (uint64_t)(uintptr_t)&child->word, .word = 77};
    return kolo_peer_memory_read(&child->peer, child->peer.word_at, &word, sizeof word) == KOLO_OK;
}

static void end(struct child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
}

/** Asserts a refusal whose reason contains @p words. */
static void refused(const struct kolo_peer_memory *peer, const void *at, const char *words)
{
    uint8_t to[2 * PAGE];
    cr_assert(kolo_peer_memory_read(peer, (uint64_t)(uintptr_t)at, to, sizeof to) ==
              KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), words) != NULL, "%s", kolo_error_detail());
}

Test(peer_memory, is_read_whole_or_not_at_all, .timeout = 60)
{
    struct child child;
    uint8_t to[BYTES];
    if (!begin(&child)) {
        end(&child);
        cr_skip("%s", kolo_error_detail());
    }
    uint64_t at = (uint64_t)(uintptr_t)child.memory;
    for (size_t first = 0; first < 9; first++) {
        memset(to, 0, sizeof to);
        size_t bytes = BYTES - 3 * first;
        cr_assert(kolo_peer_memory_read(&child.peer, at + first, to, bytes) == KOLO_OK, "%s",
                  kolo_error_detail());
        for (size_t i = 0; i < bytes; i++)
            cr_assert(to[i] == told(first + i), "byte %zu from %zu", i, first);
    }
    refused(&child.peer, child.memory + BYTES - PAGE, "can be read");
    refused(&child.peer, child.memory + BYTES, "process_vm_readv");
    struct kolo_peer_memory other = child.peer;
    other.word++;
    refused(&other, child.memory, "is another process");
    other.pid = 0;
    refused(&other, child.memory, "cannot be seen");
    end(&child);
    refused(&child.peer, child.memory, "process_vm_readv");
}

Test(peer_memory, a_socket_says_who_is_at_its_other_end, .timeout = 60)
{
    int ends[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    cr_assert(kolo_peer_memory_pid(ends[0]) == getpid());
    cr_assert(kolo_peer_memory_pid(-1) == 0);
    close(ends[0]);
    close(ends[1]);
}
