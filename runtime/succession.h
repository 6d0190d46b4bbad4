// SPDX-License-Identifier: Apache-2.0
// Predicts which rank is the root of the next short broadcast in a communicator. If roots take
// turns, a root continues only when it has the data of the broadcast before its own, and all others
// wait for it; so where ranks share processors, the next root should not give up its processor just
// then. The library is not told which root is next, but a program that repeats itself shows it.
// Pure. A wrong guess costs a few polls and never affects a result.
#ifndef KOLO_RUNTIME_SUCCESSION_H
#define KOLO_RUNTIME_SUCCESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/board.h"

/** Initially `running` is KOLO_SUCCESSION_NONE and all else zero. */
struct kolo_succession {
    int running; /* the root of the latest call, or NONE */
    struct {
        int8_t next;    /* root of the call that last followed one of this root */
        bool is_steady; /* it also followed the time before */
    } after[KOLO_BOARD_MEMBERS_MAX];
};
_Static_assert(KOLO_BOARD_MEMBERS_MAX <= INT8_MAX, "members fit");

enum { KOLO_SUCCESSION_NONE = -1 };

/** A call begins: a short broadcast with root @p root, a member; NONE: another collective. */
void kolo_succession_begin(struct kolo_succession *succession, int root);
/** The expected root of the broadcast after the running one; NONE: unknown. */
int kolo_succession_next(const struct kolo_succession *succession);

#endif
