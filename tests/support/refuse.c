// SPDX-License-Identifier: Apache-2.0
// See refuse.h: a seccomp filter that fails one system call.
#include "tests/support/refuse.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { ARGUMENT_BYTES = sizeof(((struct seccomp_data *)0)->args[0]) };

/** Assumes a machine that stores the low half of a number first, as all that kolo has been built
 * for do. */
static uint32_t low_half_of(int argument)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + (size_t)argument * ARGUMENT_BYTES);
}

bool refuse_call(int number, int argument, uint32_t value, int error)
{
    const bool is_any = argument < 0;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 is_any ? offsetof(struct seccomp_data, nr) : low_half_of(argument)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_any ? (uint32_t)number : value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool refuse_reading(void)
{
    return refuse_call(SYS_process_vm_readv, -1, 0, EPERM);
}
