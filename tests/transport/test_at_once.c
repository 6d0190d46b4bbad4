// SPDX-License-Identifier: Apache-2.0
// transport/at_once.c over shared memory: messages with and without works, in any mixture, arrive
// whole and in order, with the same credit as with works. A message that would overtake another, or
// that is not there yet, is refused without any effect.
#include "tests/support/shm_side.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 6000, CHANNEL = 5, OTHER = 6 };

static struct kolo_desc desc_of(uint32_t number)
{
    struct kolo_desc desc = {{0}};
    memcpy(desc.bytes, &number, sizeof number);
    return desc;
}

static bool send_now(struct shm_side *side, uint32_t channel, uint32_t number, const void *src,
                     size_t bytes)
{
    const struct kolo_desc desc = desc_of(number);
    return kolo_link_send_at_once(side->link, channel, &desc, src, bytes);
}

/** Returns NOT_FOUND also if a message cannot be waited for. */
static kolo_status take_now(struct shm_side *side, uint32_t channel, uint32_t number, void *dst,
                            size_t bytes)
{
    const struct kolo_desc desc = desc_of(number);
    struct kolo_expected expected;
    if (!kolo_link_expect(side->link, channel, &desc, bytes, &expected))
        return KOLO_ERR_NOT_FOUND;
    return kolo_link_take(side->link, &expected, dst);
}

static void send_by_work(struct shm_side *side, uint32_t channel, uint32_t number, const void *src,
                         size_t bytes, struct kolo_work *work)
{
    const struct kolo_desc desc = desc_of(number);
    kolo_link_send(side->link, channel, &desc, src, bytes, work);
}

static void recv_by_work(struct shm_side *side, uint32_t channel, uint32_t number, void *dst,
                         size_t bytes, struct kolo_work *work)
{
    const struct kolo_desc desc = desc_of(number);
    kolo_link_recv(side->link, channel, &desc, dst, bytes, NULL, work);
}

/** A channel exists only after its first message, and a link knows what it waits for only after it
 * has looked. */
static void warm_up(struct shm_side sides[2])
{
    uint8_t byte = 1;
    const uint32_t channels[] = {CHANNEL, OTHER};
    for (int from = 0; from < 2; from++)
        for (int i = 0; i < 2; i++) {
            struct kolo_work send, recv;
            recv_by_work(&sides[1 - from], channels[i], 0, &byte, 1, &recv);
            send_by_work(&sides[from], channels[i], 0, &byte, 1, &send);
            cr_assert(shm_drive(sides, 2, &recv.status) && recv.status == KOLO_OK);
        }
    shm_drive_rounds(sides, 2, 3);
}

/** One message per round, and which function moves it on either side. */
struct tally {
    int sent_now, taken_now, by_works;
};

static void carry(struct shm_side sides[2], unsigned *seed, uint32_t number, struct tally *tally)
{
    static uint8_t src[LONGEST], dst[LONGEST];
    const size_t bytes = (size_t)rand_r(seed) % (rand_r(seed) % 2 ? LONGEST : 40);
    const bool before = rand_r(seed) % 3 == 0, tries_send = rand_r(seed) % 4 > 0;
    const bool tries_take = rand_r(seed) % 4 > 0;
    struct kolo_work send = {.status = KOLO_OK}, recv = {.status = KOLO_AGAIN};
    for (size_t i = 0; i < bytes; i++)
        src[i] = (uint8_t)(number + i);
    memset(dst, 0xee, sizeof dst);
    if (before)
        recv_by_work(&sides[1], CHANNEL, number, dst, bytes, &recv);
    const bool is_sent = tries_send && send_now(&sides[0], CHANNEL, number, src, bytes);
    if (!is_sent)
        send_by_work(&sides[0], CHANNEL, number, src, bytes, &send);
    if (!before && tries_take)
        recv.status = take_now(&sides[1], CHANNEL, number, dst, bytes);
    tally->taken_now += !before && recv.status == KOLO_OK;
    tally->sent_now += is_sent;
    tally->by_works += !is_sent;
    if (!before && recv.status != KOLO_OK)
        recv_by_work(&sides[1], CHANNEL, number, dst, bytes, &recv);
    cr_assert(shm_drive(sides, 2, &recv.status) && recv.status == KOLO_OK, "message %u: %s", number,
              sides[1].down_text);
    cr_assert(shm_drive(sides, 2, &send.status) && send.status == KOLO_OK, "message %u", number);
    cr_assert(memcmp(src, dst, bytes) == 0, "message %u of %zu bytes has changed", number, bytes);
    cr_assert(bytes == LONGEST || dst[bytes] == 0xee, "message %u: a byte too much", number);
}

Test(at_once, any_mixture_arrives_and_credit_comes_back, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    struct tally tally = {0};
    unsigned seed = 5;
    shm_pair_up(sides, true);
    warm_up(sides);
    for (uint32_t number = 1; number < 20000; number++) /* about 30 times the credit of a channel */
        carry(sides, &seed, number, &tally);
    cr_assert(tally.sent_now > 5000 && tally.taken_now > 5000 && tally.by_works > 2000,
              "%d sent, %d taken, %d by works", tally.sent_now, tally.taken_now, tally.by_works);
    shm_pair_close(sides);
}

Test(at_once, without_a_reader_the_credit_ends, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    static uint8_t src[4000], dst[4000];
    size_t sent = 0;
    shm_pair_up(sides, true);
    warm_up(sides);
    while (send_now(&sides[0], CHANNEL, 1, src, sizeof src)) {
        sent++;
        shm_drive_rounds(&sides[1], 1, 1); /* puts it into the stash */
    }
    const size_t credit = (size_t)sides[1].settings.credit_bytes;
    cr_assert(sent * sizeof src <= credit && sent * sizeof src > credit / 2, "%zu sent", sent);
    for (size_t i = 0; i < sent; i++) {
        struct kolo_work recv;
        cr_assert_eq(take_now(&sides[1], CHANNEL, 1, dst, sizeof dst), KOLO_ERR_NOT_FOUND,
                     "what came early is first");
        recv_by_work(&sides[1], CHANNEL, 1, dst, sizeof dst, &recv);
        cr_assert_eq(recv.status, KOLO_OK);
    }
    shm_drive_rounds(sides, 2, 3);
    cr_assert(send_now(&sides[0], CHANNEL, 1, src, sizeof src), "the credit has come back");
    cr_assert_eq(take_now(&sides[1], CHANNEL, 1, dst, sizeof dst), KOLO_OK);
    shm_pair_close(sides);
}

Test(at_once, nothing_is_passed, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    struct kolo_work first, recv;
    uint8_t a = 1, b = 2, got = 0;
    shm_pair_up(sides, true);
    cr_assert_not(send_now(&sides[0], CHANNEL, 1, &a, 1), "a channel that is not there yet");
    warm_up(sides);
    cr_assert_eq(take_now(&sides[1], CHANNEL, 1, &got, 1), KOLO_AGAIN);
    recv_by_work(&sides[1], CHANNEL, 1, &got, 1, &recv);
    cr_assert_eq(take_now(&sides[1], CHANNEL, 2, &b, 1), KOLO_ERR_NOT_FOUND, "a work waits");
    cr_assert(send_now(&sides[0], CHANNEL, 1, &a, 1));
    cr_assert(shm_drive(sides, 2, &recv.status) && got == 1);
    cr_assert(send_now(&sides[0], OTHER, 1, &a, 1));
    cr_assert(send_now(&sides[0], CHANNEL, 2, &b, 1));
    cr_assert_eq(take_now(&sides[1], CHANNEL, 2, &got, 1), KOLO_ERR_NOT_FOUND, "another's first");
    cr_assert_eq(take_now(&sides[1], OTHER, 7, &got, 1), KOLO_ERR_NOT_FOUND, "another number");
    cr_assert_eq(take_now(&sides[1], OTHER, 1, &got, 2), KOLO_ERR_NOT_FOUND, "another length");
    cr_assert_eq(got, 1);
    cr_assert_eq(take_now(&sides[1], OTHER, 1, &got, 1), KOLO_OK);
    cr_assert_eq(take_now(&sides[1], CHANNEL, 2, &got, 1), KOLO_OK);
    cr_assert_eq(got, 2);
    static uint8_t long_one[4 << 20];
    send_by_work(&sides[0], CHANNEL, 3, long_one, sizeof long_one, &first);
    cr_assert_eq(first.status, KOLO_AGAIN);
    cr_assert_not(send_now(&sides[0], CHANNEL, 4, &a, 1), "behind a message that waits");
    kolo_work_cancel(&first);
    shm_pair_close(sides);
}

Test(at_once, a_link_that_ends_takes_nothing, .timeout = 60)
{
    struct shm_side sides[2] = {0};
    uint8_t byte = 3, got = 0;
    shm_pair_up(sides, true);
    warm_up(sides);
    cr_assert(send_now(&sides[0], CHANNEL, 1, &byte, 1));
    shm_side_close(&sides[0]);
    cr_assert_eq(take_now(&sides[1], CHANNEL, 1, &got, 1), KOLO_OK, "what came before the goodbye");
    cr_assert_eq(got, 3);
    shm_drive_rounds(&sides[1], 1, 200);
    cr_assert_eq(sides[1].lefts, 1);
    cr_assert_not(send_now(&sides[1], CHANNEL, 1, &byte, 1));
    cr_assert_eq(take_now(&sides[1], CHANNEL, 2, &got, 1), KOLO_ERR_NOT_FOUND);
    shm_side_close(&sides[1]);
}
