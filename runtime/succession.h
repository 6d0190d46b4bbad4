// SPDX-License-Identifier: Apache-2.0
// Which rank's short broadcast comes after which, in one communicator. Where roots take turns, a
// root goes on only when it has what comes before its own broadcast, and all others wait for it:
// where ranks share processors it should not give its own away just then. The library is not told
// which root is next; a program that repeats itself shows it. Pure. A wrong guess costs some looks,
// never a result.
#ifndef KOLO_RUNTIME_SUCCESSION_H
#define KOLO_RUNTIME_SUCCESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/board.h"

/** KOLO_SUCCESSION_NONE at first, all else zero. */
struct kolo_succession {
    int running; /* the root of the latest call, or NONE */
    struct {
        int8_t next;    /* the root of the latest call after one from this root */
        bool is_steady; /* and of the one before that, too */
    } after[KOLO_BOARD_MEMBERS_MAX];
};
_Static_assert(KOLO_BOARD_MEMBERS_MAX <= INT8_MAX, "members fit");

enum { KOLO_SUCCESSION_NONE = -1 };

/** A call begins: a short broadcast from @p root, a member; NONE: another collective. */
void kolo_succession_begin(struct kolo_succession *succession, int root);
/** The root of the broadcast that is expected after the running one; NONE: nobody knows. */
int kolo_succession_next(const struct kolo_succession *succession);

#endif
