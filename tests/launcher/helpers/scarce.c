// SPDX-License-Identifier: Apache-2.0
// Preloaded into kolorun and its agents: an allocation of kolo's own fails as if memory had run
// out. The others, of libuv and libcrypto for example, are left alone.
//
//   SCARCE_NAME  the name of the process, as in /proc/PID/comm
//   SCARCE_AT    which of its allocations fails, counted from 1
//   SCARCE_EVER  if it is set, all later ones fail, too
//   SCARCE_HIT   a file that is made when one fails
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *name, *hit;
static long at;
static bool is_for_ever;
static uintptr_t text_begin, text_end; /* of the program */
static atomic_long count;

static int find_text(struct dl_phdr_info *object, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_LOAD && (object->dlpi_phdr[i].p_flags & PF_X) != 0) {
            text_begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
            text_end = text_begin + object->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the first object is the program */
}

/* Ranks get the environment of their agent, and this is not for them. */
__attribute__((constructor)) static void begin(int argc, char **argv)
{
    const char *nth = getenv("SCARCE_AT");
    (void)dl_iterate_phdr(find_text, NULL);
    name = getenv("SCARCE_NAME");
    hit = getenv("SCARCE_HIT");
    is_for_ever = getenv("SCARCE_EVER") != NULL;
    at = name && hit && nth ? strtol(nth, NULL, 10) : 0;
    if (argc > 1 && strcmp(argv[1], "--agent") == 0)
        (void)unsetenv("LD_PRELOAD");
}

static bool fails(const void *caller)
{
    char own[16] = "";
    if (at == 0 || (uintptr_t)caller < text_begin || (uintptr_t)caller >= text_end)
        return false;
    (void)prctl(PR_GET_NAME, own);
    if (strcmp(own, name) != 0)
        return false;
    const long number = atomic_fetch_add(&count, 1) + 1;
    if (number < at || (number > at && !is_for_ever))
        return false;
    const int fd = open(hit, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
    errno = ENOMEM;
    return true;
}

extern void *__libc_calloc(size_t number, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

__attribute__((visibility("default"))) void *calloc(size_t number, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(number, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}
