// SPDX-License-Identifier: Apache-2.0
// transport/identity.c: the description of a rank's process, over the wire and from dishonest
// peers.
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/link.h"

Test(identity, is_the_same_for_threads_and_another_for_a_child, .timeout = 120)
{
    struct kolo_identity first, second;
    kolo_identity_here(3, &first);
    kolo_identity_here(4, &second);
    cr_assert(first.rank == 3 && second.rank == 4);
    cr_assert_eq(first.process, second.process);
    cr_assert_eq(first.host_id, second.host_id);
    cr_assert_neq(first.host[0], '\0');
    cr_assert_eq(first.pid, (int32_t)getpid());
    cr_assert_eq(first.cores, (int32_t)sysconf(_SC_NPROCESSORS_ONLN));
    cr_assert_eq(first.numa, -1);
    pid_t child = fork();
    if (child == 0) {
        kolo_identity_here(3, &second);
        _exit(second.process != first.process && second.host_id == first.host_id ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static size_t write_peer(uint8_t *bytes, size_t capacity, const struct kolo_peer *peer)
{
    size_t written = 0;
    struct kolo_writer writer = kolo_writer_over(bytes, capacity);
    kolo_peer_write(&writer, peer);
    cr_assert_eq(kolo_writer_finish(&writer, bytes, &written), KOLO_OK);
    return written;
}

static struct kolo_peer some_peer(void)
{
    struct kolo_peer peer = {.credit_bytes = 1 << 20, .checksum = true};
    kolo_identity_here(5, &peer.identity);
    peer.identity.cores = 96;
    peer.identity.numa = 7;
    for (int i = 0; kolo_transports[i]; i++) {
        peer.addresses[i].bytes = (uint16_t)(100 + i);
        memset(peer.addresses[i].data, 'a' + i, peer.addresses[i].bytes);
    }
    return peer;
}

Test(identity, a_description_survives_the_wire)
{
    static uint8_t bytes[8192];
    struct kolo_peer peer = some_peer(), copy;
    size_t written = write_peer(bytes, sizeof bytes, &peer);
    struct kolo_reader reader = kolo_reader_over(bytes, written);
    cr_assert_eq(kolo_peer_read(&reader, &copy), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(kolo_reader_left(&reader), 0);
    cr_assert_eq(copy.identity.rank, 5);
    cr_assert_eq(copy.identity.process, peer.identity.process);
    cr_assert_str_eq(copy.identity.host, peer.identity.host);
    cr_assert(copy.identity.cores == 96 && copy.identity.numa == 7);
    cr_assert_eq(copy.credit_bytes, peer.credit_bytes);
    cr_assert(copy.checksum);
    cr_assert_eq(memcmp(copy.addresses, peer.addresses, sizeof copy.addresses), 0);
}

Test(identity, checksums_are_one_bit_of_a_description)
{
    static uint8_t with[8192], without[8192];
    struct kolo_peer peer = some_peer();
    size_t written = write_peer(with, sizeof with, &peer);
    peer.checksum = false;
    cr_assert_eq(write_peer(without, sizeof without, &peer), written);
    int bits = 0;
    for (size_t i = 0; i < written; i++)
        bits += __builtin_popcount(with[i] ^ without[i]);
    cr_assert_eq(bits, 1);
}

Test(identity, a_description_cut_anywhere_is_an_error)
{
    static uint8_t bytes[8192];
    struct kolo_peer peer = some_peer(), copy;
    size_t written = write_peer(bytes, sizeof bytes, &peer);
    for (size_t cut = 0; cut < written; cut++) {
        struct kolo_reader reader = kolo_reader_over(bytes, cut);
        cr_assert_eq(kolo_peer_read(&reader, &copy), KOLO_ERR_DATA, "cut at %zu", cut);
    }
}

Test(identity, unknown_transports_are_skipped_and_huge_addresses_refused)
{
    static uint8_t bytes[8192], huge[KOLO_ADDRESS_MAX + 1];
    struct kolo_peer peer = {.credit_bytes = 1 << 20, .identity.cores = 1}, copy;
    size_t written = write_peer(bytes, sizeof bytes, &peer);
    bytes[written - 1] = 1;
    struct kolo_writer writer = kolo_writer_over(bytes + written, sizeof bytes - written);
    kolo_write_text(&writer, "pigeon");
    kolo_write_blob(&writer, "coop", 4);
    struct kolo_reader reader = kolo_reader_over(bytes, (size_t)(writer.at - bytes));
    cr_assert_eq(kolo_peer_read(&reader, &copy), KOLO_OK, "%s", kolo_error_detail());
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++)
        cr_assert_eq(copy.addresses[i].bytes, 0);
    writer = kolo_writer_over(bytes + written, sizeof bytes - written);
    kolo_write_text(&writer, kolo_transports[0]->name);
    kolo_write_blob(&writer, huge, sizeof huge);
    reader = kolo_reader_over(bytes, (size_t)(writer.at - bytes));
    cr_assert_eq(kolo_peer_read(&reader, &copy), KOLO_ERR_DATA);
}

Test(identity, absurd_credit_is_refused_by_name)
{
    static uint8_t bytes[8192];
    struct kolo_peer peer = {.credit_bytes = UINT64_MAX}, copy;
    peer.identity.rank = 12;
    size_t written = write_peer(bytes, sizeof bytes, &peer);
    struct kolo_reader reader = kolo_reader_over(bytes, written);
    cr_assert_eq(kolo_peer_read(&reader, &copy), KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "rank 12") != NULL, "%s", kolo_error_detail());
}

static const char *read_machine(int32_t cores, int32_t numa)
{
    static uint8_t bytes[8192];
    struct kolo_peer peer = {.credit_bytes = 1 << 20}, copy;
    peer.identity = (struct kolo_identity){.rank = 12, .cores = cores, .numa = numa};
    size_t written = write_peer(bytes, sizeof bytes, &peer);
    struct kolo_reader reader = kolo_reader_over(bytes, written);
    kolo_status status = kolo_peer_read(&reader, &copy);
    cr_assert(status == KOLO_OK || status == KOLO_ERR_DATA);
    return status == KOLO_OK ? NULL : kolo_error_detail();
}

Test(identity, processors_and_numa_nodes_out_of_range_are_refused_by_name)
{
    static const int32_t cores[] = {INT32_MIN, -1, 0, KOLO_CORES_MAX + 1, INT32_MAX};
    static const int32_t nodes[] = {INT32_MIN, -2, KOLO_NUMA_MAX + 1, INT32_MAX};
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        const char *why = read_machine(cores[i], 0);
        cr_assert(why && strstr(why, "rank 12 says it sees"), "%d", cores[i]);
    }
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        const char *why = read_machine(1, nodes[i]);
        cr_assert(why && strstr(why, "rank 12 says it is on NUMA"), "%d", nodes[i]);
    }
    cr_assert(!read_machine(1, -1) && !read_machine(KOLO_CORES_MAX, KOLO_NUMA_MAX));
}
