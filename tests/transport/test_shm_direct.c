// SPDX-License-Identifier: Apache-2.0
// transport/shm_direct.c: memory that is lent to a peer, who reads it in place, and its return.
#include "transport/shm_direct.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/wire.h"

enum { SPAN_BYTES = 8192 };

/** Both sides of one direction of a link: their socket and slots. */
struct pair {
    int sockets[2];
    _Atomic uint32_t slots[KOLO_SHM_SLOTS];
    struct kolo_shm_lender lender;
    struct kolo_shm_borrower borrower;
    struct kolo_shm_inbox inbox;
};

static struct pair *pair_make(void)
{
    struct pair *pair = calloc(1, sizeof *pair);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair->sockets) == 0);
    pair->lender.slots = pair->borrower.slots = pair->slots;
    return pair;
}

static void pair_free(struct pair *pair)
{
    kolo_shm_borrower_fini(&pair->borrower);
    kolo_shm_inbox_fini(&pair->inbox);
    close(pair->sockets[0]);
    close(pair->sockets[1]);
    free(pair);
}

static struct kolo_span span_make(uint64_t id)
{
    struct kolo_span span = {.bytes = SPAN_BYTES, .file_bytes = SPAN_BYTES, .id = id};
    cr_assert(kolo_shm_memory_create("kolo-test", span.bytes, &span.fd, &span.base) == KOLO_OK);
    memset(span.base, (int)id, span.bytes);
    return span;
}

static void span_free(struct kolo_span *span)
{
    kolo_shm_memory_unmap(span->base, span->bytes);
    close(span->fd);
}

static int count_maps(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:") != NULL;
    fclose(maps);
    return count;
}

/** The borrower reads everything from the socket; returns the first failure. */
static kolo_status read_socket(struct pair *pair)
{
    struct kolo_shm_message message;
    kolo_status status = KOLO_OK;
    while (status == KOLO_OK) {
        if (kolo_shm_inbox_read(&pair->inbox, pair->sockets[1], &message) != KOLO_OK)
            return KOLO_OK;
        status = message.kind == KOLO_SHM_SPAN ? kolo_shm_borrower_map(&pair->borrower, &message)
                                               : kolo_shm_borrower_unmap(&pair->borrower, &message);
        kolo_shm_message_drop(&message);
    }
    return status;
}

static bool promise(struct pair *pair, const struct kolo_span *span, uint64_t offset,
                    const struct kolo_work *work)
{
    return kolo_shm_lender_promise(&pair->lender, pair->sockets[0], span, offset, work);
}

/** Offers @p work and passes the descriptor to the borrower. */
static struct kolo_shm_borrowed lend(struct pair *pair, const struct kolo_span *span,
                                     uint64_t offset, struct kolo_work *work)
{
    uint8_t descriptor[KOLO_SHM_DESCRIPTOR_BYTES];
    struct kolo_shm_borrowed borrowed = {0};
    const struct kolo_frame frame = {.bytes = work->bytes, .work = work, .is_remote = true};
    cr_assert(promise(pair, span, offset, work));
    cr_assert(kolo_shm_lender_offer(&pair->lender, &frame, descriptor) == KOLO_OK);
    kolo_status status = kolo_shm_borrower_take(&pair->borrower, descriptor, &borrowed);
    if (status == KOLO_AGAIN) {
        cr_assert(read_socket(pair) == KOLO_OK);
        status = kolo_shm_borrower_take(&pair->borrower, descriptor, &borrowed);
    }
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
    return borrowed;
}

Test(shm_direct, a_loan_is_read_in_place_and_comes_back)
{
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(7);
    struct kolo_work work = {.bytes = 4000};
    struct kolo_frame frame;
    for (int round = 0; round < 3; round++) {
        struct kolo_shm_borrowed borrowed = lend(pair, &span, 100, &work);
        cr_assert(borrowed.bytes == 4000);
        ((uint8_t *)span.base)[100] = (uint8_t)(round + 1);
        cr_assert(borrowed.data[0] == round + 1 && borrowed.data[1] == 7, "not in place");
        cr_assert(!kolo_shm_lender_collect(&pair->lender, &frame));
        cr_assert(kolo_shm_borrower_claim(&pair->borrower, borrowed.slot));
        cr_assert(kolo_shm_borrower_release(&pair->borrower, borrowed.slot));
        cr_assert(kolo_shm_lender_collect(&pair->lender, &frame));
        cr_assert(frame.work == &work && frame.bytes == 4000);
        cr_assert(!kolo_shm_lender_collect(&pair->lender, &frame));
    }
    cr_assert(pair->lender.taken == 0 && pair->borrower.taken == 0);
    span_free(&span);
    pair_free(pair);
}

Test(shm_direct, what_is_withdrawn_before_the_claim_is_not_read)
{
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1);
    struct kolo_work work = {.bytes = 100};
    struct kolo_frame frame;
    struct kolo_shm_borrowed borrowed = lend(pair, &span, 0, &work);
    kolo_shm_lender_withdraw(&pair->lender, &work);
    cr_assert(!kolo_shm_lender_collect(&pair->lender, &frame), "the slot is not ours yet");
    cr_assert(!kolo_shm_borrower_claim(&pair->borrower, borrowed.slot));
    cr_assert(kolo_shm_lender_collect(&pair->lender, &frame));
    cr_assert(frame.work == NULL, "a withdrawn work must not be touched");
    span_free(&span);
    pair_free(pair);
}

Test(shm_direct, what_is_withdrawn_after_the_claim_is_worthless)
{
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1);
    struct kolo_work work = {.bytes = 100};
    struct kolo_frame frame;
    struct kolo_shm_borrowed borrowed = lend(pair, &span, 0, &work);
    cr_assert(kolo_shm_borrower_claim(&pair->borrower, borrowed.slot));
    kolo_shm_lender_withdraw(&pair->lender, NULL);
    cr_assert(!kolo_shm_borrower_release(&pair->borrower, borrowed.slot));
    cr_assert(kolo_shm_lender_collect(&pair->lender, &frame) && !frame.work);
    span_free(&span);
    pair_free(pair);
}

Test(shm_direct, what_is_dropped_unread_comes_back_too)
{
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1);
    struct kolo_work work = {.bytes = 100};
    struct kolo_frame frame;
    struct kolo_shm_borrowed borrowed = lend(pair, &span, 0, &work);
    cr_assert(kolo_shm_borrower_release(&pair->borrower, borrowed.slot));
    cr_assert(kolo_shm_lender_collect(&pair->lender, &frame) && frame.work == &work);
    span_free(&span);
    pair_free(pair);
}

Test(shm_direct, slots_run_out_into_copies_and_come_back)
{
    static struct kolo_work works[KOLO_SHM_SLOTS + 1];
    struct kolo_shm_borrowed loans[KOLO_SHM_SLOTS];
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1);
    struct kolo_frame frame;
    for (int i = 0; i < KOLO_SHM_SLOTS; i++) {
        works[i].bytes = 10;
        loans[i] = lend(pair, &span, (uint64_t)i, &works[i]);
    }
    cr_assert(!promise(pair, &span, 0, &works[KOLO_SHM_SLOTS]));
    cr_assert(kolo_shm_borrower_release(&pair->borrower, loans[17].slot));
    cr_assert(kolo_shm_lender_collect(&pair->lender, &frame) && frame.work == &works[17]);
    cr_assert(promise(pair, &span, 0, &works[KOLO_SHM_SLOTS]));
    cr_assert(promise(pair, &span, 1, &works[KOLO_SHM_SLOTS]), "asking twice is one promise");
    kolo_shm_lender_withdraw(&pair->lender, &works[KOLO_SHM_SLOTS]);
    cr_assert(promise(pair, &span, 0, &works[KOLO_SHM_SLOTS]));
    span_free(&span);
    pair_free(pair);
}

Test(shm_direct, mappings_are_bounded_and_the_oldest_goes)
{
    enum { SPANS = 3 * KOLO_SHM_SPANS };
    static struct kolo_span spans[SPANS];
    struct pair *pair = pair_make();
    struct kolo_work work = {.bytes = 1};
    struct kolo_frame frame;
    int before = count_maps();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SPANS; i++) {
            if (round == 0)
                spans[i] = span_make((uint64_t)i + 1);
            struct kolo_shm_borrowed borrowed = lend(pair, &spans[i], 5, &work);
            cr_assert(borrowed.data[0] == (uint8_t)(i + 1), "span %d is another's", i);
            cr_assert(kolo_shm_borrower_release(&pair->borrower, borrowed.slot));
            cr_assert(kolo_shm_lender_collect(&pair->lender, &frame));
        }
    }
    cr_assert(read_socket(pair) == KOLO_OK);
    cr_assert(count_maps() - before == SPANS + KOLO_SHM_SPANS, "%d", count_maps() - before);
    for (int i = 0; i < SPANS; i++)
        span_free(&spans[i]);
    pair_free(pair);
    cr_assert(count_maps() == before);
}

Test(shm_direct, a_freed_span_is_unmapped_once_its_last_loan_is_back)
{
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1), other = span_make(2);
    struct kolo_work work = {.bytes = 1};
    struct kolo_frame frame;
    struct kolo_shm_borrowed borrowed = lend(pair, &span, 0, &work);
    int mapped = count_maps();
    kolo_shm_lender_forget(&pair->lender, 1);
    kolo_shm_lender_forget(&pair->lender, 99);
    kolo_shm_lender_tell(&pair->lender, pair->sockets[0]);
    cr_assert(read_socket(pair) == KOLO_OK && count_maps() == mapped, "still lent");
    cr_assert(kolo_shm_borrower_claim(&pair->borrower, borrowed.slot));
    cr_assert(kolo_shm_borrower_release(&pair->borrower, borrowed.slot));
    cr_assert(kolo_shm_lender_collect(&pair->lender, &frame));
    kolo_shm_lender_tell(&pair->lender, pair->sockets[0]);
    cr_assert(read_socket(pair) == KOLO_OK && count_maps() == mapped - 1, "still mapped");
    // The handle is reused, with another generation.
    borrowed = lend(pair, &other, 0, &work);
    cr_assert(borrowed.data[0] == 2);
    span_free(&span);
    span_free(&other);
    pair_free(pair);
}

/** A board has written to the span, and may still do so while the peer uses its handle again. */
Test(shm_direct, addresses_of_a_freed_span_stay_after_its_handle_is_used_again)
{
    enum { FREED = 3 };
    struct pair *pair = pair_make();
    uint8_t *memory[FREED + 1];
    int handle = -1;
    for (int i = 0; i <= FREED; i++) {
        struct kolo_span span = span_make((uint64_t)i * KOLO_SHM_SPANS);
        memset(span.base, i + 1, SPAN_BYTES);
        const int pinned = kolo_shm_lender_pin(&pair->lender, pair->sockets[0], &span);
        cr_assert(pinned >= 0 && (i == 0 || pinned == handle), "handle %d after %d", pinned,
                  handle);
        handle = pinned;
        cr_assert(read_socket(pair) == KOLO_OK);
        cr_assert(kolo_shm_borrower_open(&pair->borrower, span.id, 0, SPAN_BYTES, &memory[i]) ==
                  KOLO_OK);
        cr_assert(memory[i][SPAN_BYTES - 1] == i + 1, "another span");
        if (i < FREED) {
            kolo_shm_lender_unpin(&pair->lender, handle);
            kolo_shm_lender_forget(&pair->lender, span.id);
            kolo_shm_lender_tell(&pair->lender, pair->sockets[0]);
            cr_assert(read_socket(pair) == KOLO_OK);
        }
        span_free(&span);
    }
    for (int i = 0; i < FREED; i++) {
        cr_assert(memory[i][SPAN_BYTES - 1] == 0, "the peer's pages are kept");
        memory[i][0] = 9;
    }
    kolo_shm_borrower_bury(&pair->borrower);
    cr_assert(memory[FREED][SPAN_BYTES - 1] == FREED + 1, "a span that is there went too");
    cr_assert(count_maps() == 1, "%d", count_maps());
    pair_free(pair);
    cr_assert(count_maps() == 0, "%d", count_maps());
}

static void no_line(void *context, enum kolo_log_level level, const char *line)
{
    (void)level, (void)line;
    ++*(int *)context;
}

Test(shm_direct, a_span_that_could_shrink_is_copied)
{
    struct pair *pair = pair_make();
    struct kolo_work work = {.bytes = 1};
    int lines = 0;
    struct kolo_span span = {.bytes = SPAN_BYTES,
                             .file_bytes = SPAN_BYTES,
                             .id = 1,
                             .fd = memfd_create("open", MFD_CLOEXEC)};
    cr_assert(ftruncate(span.fd, SPAN_BYTES) == 0);
    kolo_log_set_sink(no_line, &lines);
    for (int i = 0; i < 3; i++)
        cr_assert(!promise(pair, &span, 0, &work));
    cr_assert(lines == 1, "said %d times", lines);
    kolo_log_set_sink(NULL, NULL);
    close(span.fd);
    pair_free(pair);
}

static void describe_loan(uint8_t *descriptor, uint16_t slot, uint16_t handle, uint32_t generation,
                          uint64_t offset, uint64_t bytes)
{
    struct kolo_writer writer = kolo_writer_over(descriptor, KOLO_SHM_DESCRIPTOR_BYTES);
    kolo_write_u16(&writer, slot);
    kolo_write_u16(&writer, handle);
    kolo_write_u32(&writer, generation);
    kolo_write_u64(&writer, offset);
    kolo_write_u64(&writer, bytes);
}

Test(shm_direct, impossible_descriptors_are_refused)
{
    const struct {
        uint16_t slot, handle;
        uint32_t generation;
        uint64_t offset, bytes;
        kolo_status status;
    } cases[] = {
        {KOLO_SHM_SLOTS, 0, 1, 0, 1, KOLO_ERR_PROTOCOL},
        {UINT16_MAX, 0, 1, 0, 1, KOLO_ERR_PROTOCOL},
        {1, KOLO_SHM_SPANS, 1, 0, 1, KOLO_ERR_PROTOCOL},
        {1, 0, 1, SPAN_BYTES + 1, 0, KOLO_ERR_PROTOCOL},
        {1, 0, 1, 0, SPAN_BYTES + 1, KOLO_ERR_PROTOCOL},
        {1, 0, 1, 1, SPAN_BYTES, KOLO_ERR_PROTOCOL},
        {1, 0, 1, UINT64_MAX, 2, KOLO_ERR_PROTOCOL},
        {1, 0, 1, 2, UINT64_MAX, KOLO_ERR_PROTOCOL},
        {0, 0, 1, 0, 1, KOLO_ERR_PROTOCOL}, // the slot is in use
        {1, 0, 2, 0, 1, KOLO_AGAIN},
        {1, 1, 1, 0, 1, KOLO_AGAIN},
        {1, 0, 1, 0, SPAN_BYTES, KOLO_OK},
    };
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1);
    struct kolo_work work = {.bytes = 1};
    struct kolo_shm_borrowed borrowed = lend(pair, &span, 0, &work);
    cr_assert(borrowed.slot == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t descriptor[KOLO_SHM_DESCRIPTOR_BYTES];
        describe_loan(descriptor, cases[i].slot, cases[i].handle, cases[i].generation,
                      cases[i].offset, cases[i].bytes);
        kolo_status status = kolo_shm_borrower_take(&pair->borrower, descriptor, &borrowed);
        cr_assert(status == cases[i].status, "case %zu: %d", i, (int)status);
    }
    span_free(&span);
    pair_free(pair);
}

Test(shm_direct, impossible_messages_are_refused)
{
    struct pair *pair = pair_make();
    struct kolo_span span = span_make(1);
    struct kolo_work work = {.bytes = 1};
    lend(pair, &span, 0, &work);
    const struct kolo_shm_message spans[] = {
        {.id = KOLO_SHM_SPANS, .bytes = SPAN_BYTES, .fds = {span.fd}, .fd_count = 1},
        {.id = UINT32_MAX, .bytes = SPAN_BYTES, .fds = {span.fd}, .fd_count = 1},
        {.id = 0, .bytes = SPAN_BYTES, .fds = {span.fd}, .fd_count = 1}, // that id is in use
        {.id = 1, .bytes = 0, .fds = {span.fd}, .fd_count = 1},
        {.id = 1, .bytes = SPAN_BYTES + 1, .fds = {span.fd}, .fd_count = 1},
        {.id = 1, .bytes = SPAN_BYTES, .fd_count = 0},
        {.id = 1, .bytes = SPAN_BYTES, .fds = {span.fd, span.fd}, .fd_count = 2},
    };
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        cr_assert(kolo_shm_borrower_map(&pair->borrower, &spans[i]) == KOLO_ERR_PROTOCOL,
                  "span %zu", i);
    const struct kolo_shm_message gones[] = {
        {.id = (uint64_t)1 << 32}, // that id is lent
        {.id = (uint64_t)2 << 32}, // that id has another generation
        {.id = 1},
        {.id = UINT64_MAX},
        {.id = (uint64_t)1 << 32, .fds = {span.fd}, .fd_count = 1},
    };
    for (size_t i = 0; i < sizeof gones / sizeof gones[0]; i++)
        cr_assert(kolo_shm_borrower_unmap(&pair->borrower, &gones[i]) == KOLO_ERR_PROTOCOL,
                  "gone %zu", i);
    span_free(&span);
    pair_free(pair);
}
