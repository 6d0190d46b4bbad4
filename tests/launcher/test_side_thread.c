// SPDX-License-Identifier: Apache-2.0
// The thread works while there is something to do, and the loop hears of it; whichever of the two
// is last frees the owner, once. test_input.c and test_output.c end loops while it is in a call.
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "launcher/side_thread.h"
#include "tests/support/await.h"
#include "tests/support/tasks.h"

struct owner {
    struct kolo_side_thread side;
    int todo, taken, done;        /* guarded by the lock */
    int heard;                    /* on the loop */
    atomic_int worked, freed;     /* freed: how often, instead of freeing it */
    atomic_bool may_go, is_stuck; /* is_stuck: in work, until may_go */
};

static bool can(void *context)
{
    return ((struct owner *)context)->todo > 0;
}

static void take(void *context)
{
    struct owner *owner = context;
    owner->taken = owner->todo;
    owner->todo = 0;
}

static void work(void *context)
{
    struct owner *owner = context;
    int turns = 0;
    owner->is_stuck = true;
    while (!owner->may_go)
        await_turn(&turns);
    owner->is_stuck = false;
    owner->worked += owner->taken;
}

static void give(void *context)
{
    struct owner *owner = context;
    owner->done += owner->taken;
}

static void heard(void *context)
{
    struct owner *owner = context;
    kolo_side_lock(&owner->side);
    owner->heard = owner->done;
    kolo_side_unlock(&owner->side);
}

static void count_frees(void *context)
{
    ((struct owner *)context)->freed++;
}

static const struct kolo_side_calls calls = {
    .can = can, .take = take, .work = work, .give = give, .heard = heard, .free = count_frees};

static void add(struct owner *owner, int todo)
{
    kolo_side_lock(&owner->side);
    owner->todo += todo;
    kolo_side_unlock(&owner->side);
}

static bool is_working(struct owner *owner)
{
    kolo_side_lock(&owner->side);
    const bool is = kolo_side_is_working(&owner->side);
    kolo_side_unlock(&owner->side);
    return is;
}

/** Closes the thread and ends the loop. */
static void end(uv_loop_t *loop, struct owner *owner)
{
    kolo_side_close(&owner->side);
    while (uv_run(loop, UV_RUN_NOWAIT) != 0)
        continue;
    cr_assert_eq(uv_loop_close(loop), 0, "a handle is open");
    memset(loop, 0xFF, sizeof *loop);
}

Test(side_thread, works_and_tells_the_loop, .timeout = 60)
{
    struct owner owner = {.may_go = true};
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_side_start(&owner.side, &loop, &calls, &owner, "a test"), KOLO_OK);
    for (int all = 1; all < 100; all++) {
        add(&owner, 1);
        while (owner.heard < all)
            (void)uv_run(&loop, UV_RUN_ONCE);
    }
    cr_assert(AWAIT(!is_working(&owner)));
    end(&loop, &owner);
    cr_assert_eq(owner.worked, 99);
    cr_assert_eq(owner.freed, 0);
    kolo_side_drop(&owner.side);
    cr_assert_eq(owner.freed, 1);
}

Test(side_thread, an_idle_thread_does_nothing_more, .timeout = 60)
{
    struct owner owner = {.may_go = true};
    const int before = tasks();
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_side_start(&owner.side, &loop, &calls, &owner, "a test"), KOLO_OK);
    end(&loop, &owner);
    add(&owner, 1);
    cr_assert_eq(tasks(), before);
    cr_assert_eq(owner.worked, 0);
    kolo_side_drop(&owner.side);
    cr_assert_eq(owner.freed, 1);
}

/** The thread is in a call when the loop ends. */
static void leave_behind(struct owner *owner)
{
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_side_start(&owner->side, &loop, &calls, owner, "a test"), KOLO_OK);
    add(owner, 1);
    cr_assert(AWAIT(owner->is_stuck) && is_working(owner));
    add(owner, 1); /* never done */
    end(&loop, owner);
}

Test(side_thread, one_that_is_left_behind_frees_the_owner, .timeout = 60)
{
    struct owner owner = {.may_go = false};
    const int before = tasks();
    leave_behind(&owner);
    kolo_side_drop(&owner.side);
    cr_assert(owner.is_stuck && owner.freed == 0);
    owner.may_go = true;
    cr_assert(AWAIT(tasks() == before));
    cr_assert_eq(owner.freed, 1);
    cr_assert_eq(owner.worked, 1);
    cr_assert_eq(owner.heard, 0);
}

Test(side_thread, one_that_returns_before_it_is_dropped_does_not, .timeout = 60)
{
    struct owner owner = {.may_go = false};
    const int before = tasks();
    leave_behind(&owner);
    owner.may_go = true;
    cr_assert(AWAIT(tasks() == before));
    cr_assert_eq(owner.freed, 0);
    kolo_side_drop(&owner.side);
    cr_assert_eq(owner.freed, 1);
    cr_assert_eq(owner.worked, 1);
}

Test(side_thread, that_cannot_be_made_leaves_nothing, .timeout = 60)
{
    struct owner owner = {.may_go = true};
    struct rlimit limit;
    uv_loop_t loop;
    if (!refuse_threads(&limit))
        cr_skip("the size of stacks is limited here");
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(kolo_side_start(&owner.side, &loop, &calls, &owner, "a test"), KOLO_ERR_SYSTEM);
    (void)setrlimit(RLIMIT_STACK, &limit);
    cr_assert(strstr(kolo_error_detail(), "cannot start a thread for a test"), "%s",
              kolo_error_detail());
    cr_assert_eq(uv_loop_close(&loop), 0, "a handle is open");
    cr_assert_eq(owner.freed, 0);
}
