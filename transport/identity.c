// SPDX-License-Identifier: Apache-2.0
// Who this process is, and how a rank describes itself to the others. Must never trust a
// description from elsewhere beyond what is checked here.
//
// On the wire: i32 rank, i32 pid, u64 process, u64 host id, text host, i32 cores, i32 NUMA node
// (-1: several or unknown), u64 credit bytes (bit 63: KOLO_CHECKSUM), u8 count, then for each
// transport its name as text and its address as a blob. Transports whose name this build does not
// know are skipped.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/short_file.h"
#include "base/wire.h"
#include "transport/link.h"

enum { TRANSPORT_NAME_BYTES = 32, AT_RANDOM_BYTES = 16 };
static const uint64_t CREDIT_BYTES_MIN = 4096, CREDIT_BYTES_MAX = UINT64_C(1) << 32;
static const uint64_t CHECKSUM_BIT = UINT64_C(1) << 63;

/* If the file cannot be read, nothing is added: fewer facts then distinguish hosts. */
static uint64_t hash_file(uint64_t hash, const char *path)
{
    char text[128];
    ssize_t got = kolo_short_file_read(path, text, sizeof text);
    return got > 0 ? kolo_hash(hash, text, (size_t)got) : hash;
}

static uint64_t hash_link(uint64_t hash, const char *path)
{
    char text[128];
    ssize_t got = readlink(path, text, sizeof text);
    return got > 0 ? kolo_hash(hash, text, (size_t)got) : hash;
}

void kolo_identity_here(int rank, struct kolo_identity *identity_out)
{
    static const char boot_id[] = "/proc/sys/kernel/random/boot_id";
    char name[HOST_NAME_MAX + 1] = "";
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    *identity_out = (struct kolo_identity){.rank = rank, .pid = (int32_t)getpid(), .numa = -1};
    identity_out->cores = online < 1                ? 1
                          : online > KOLO_CORES_MAX ? KOLO_CORES_MAX
                                                    : (int32_t)online;
    if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0')
        snprintf(name, sizeof name, "localhost");
    snprintf(identity_out->host, sizeof identity_out->host, "%.*s",
             (int)sizeof identity_out->host - 1, name);

    uint64_t host = hash_file(KOLO_HASH_START, boot_id);
    host = hash_link(host, "/proc/self/ns/net");
    identity_out->host_id = kolo_hash(host, name, strlen(name));

    /* The kernel gives each program 16 random bytes at exec; a forked child differs by its pid. */
    uint64_t process = hash_file(KOLO_HASH_START, boot_id);
    process = hash_link(process, "/proc/self/ns/pid");
    process = kolo_hash(process, &identity_out->pid, sizeof identity_out->pid);
    unsigned long at_random = getauxval(AT_RANDOM);
    if (at_random != 0)
        process = kolo_hash(process, (const void *)at_random, AT_RANDOM_BYTES);
    identity_out->process = process;
}

void kolo_peer_write(struct kolo_writer *writer, const struct kolo_peer *peer)
{
    const struct kolo_identity *identity = &peer->identity;
    kolo_write_i32(writer, identity->rank);
    kolo_write_i32(writer, identity->pid);
    kolo_write_u64(writer, identity->process);
    kolo_write_u64(writer, identity->host_id);
    kolo_write_text(writer, identity->host);
    kolo_write_i32(writer, identity->cores);
    kolo_write_i32(writer, identity->numa);
    kolo_write_u64(writer, peer->credit_bytes | (peer->checksum ? CHECKSUM_BIT : 0));
    uint8_t count = 0;
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++)
        count = (uint8_t)(count + (peer->addresses[i].bytes > 0));
    kolo_write_u8(writer, count);
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++) {
        if (peer->addresses[i].bytes == 0)
            continue;
        kolo_write_text(writer, kolo_transports[i]->name);
        kolo_write_blob(writer, peer->addresses[i].data, peer->addresses[i].bytes);
    }
}

static void read_address(struct kolo_reader *reader, struct kolo_peer *peer)
{
    char name[TRANSPORT_NAME_BYTES];
    size_t bytes = 0;
    kolo_read_text(reader, name, sizeof name);
    const uint8_t *data = kolo_read_blob(reader, &bytes);
    if (reader->failed || bytes > KOLO_ADDRESS_MAX) {
        reader->failed = true;
        return;
    }
    int index = kolo_transport_index(name);
    if (index < 0 || bytes == 0)
        return;
    peer->addresses[index].bytes = (uint16_t)bytes;
    memcpy(peer->addresses[index].data, data, bytes);
}

/** The values by which the choice of plans divides, and which order ranks, must be sane. */
static kolo_status check_machine(const struct kolo_identity *identity)
{
    if (identity->cores < 1 || identity->cores > KOLO_CORES_MAX)
        return kolo_fail(KOLO_ERR_DATA,
                         "rank %d says it sees %d processors: out of range, do all ranks run the "
                         "same version of kolo?",
                         (int)identity->rank, (int)identity->cores);
    if (identity->numa < -1 || identity->numa > KOLO_NUMA_MAX)
        return kolo_fail(KOLO_ERR_DATA,
                         "rank %d says it is on NUMA node %d: out of range, do all ranks run the "
                         "same version of kolo?",
                         (int)identity->rank, (int)identity->numa);
    return KOLO_OK;
}

kolo_status kolo_peer_read(struct kolo_reader *reader, struct kolo_peer *peer_out)
{
    struct kolo_peer peer = {0};
    peer.identity.rank = kolo_read_i32(reader);
    peer.identity.pid = kolo_read_i32(reader);
    peer.identity.process = kolo_read_u64(reader);
    peer.identity.host_id = kolo_read_u64(reader);
    kolo_read_text(reader, peer.identity.host, sizeof peer.identity.host);
    peer.identity.cores = kolo_read_i32(reader);
    peer.identity.numa = kolo_read_i32(reader);
    const uint64_t credit = kolo_read_u64(reader);
    peer.credit_bytes = credit & ~CHECKSUM_BIT;
    peer.checksum = (credit & CHECKSUM_BIT) != 0;
    uint8_t count = kolo_read_u8(reader);
    for (uint8_t i = 0; i < count && !reader->failed; i++)
        read_address(reader, &peer);
    if (reader->failed || peer.identity.rank < 0)
        return kolo_fail(KOLO_ERR_DATA, "the description of a rank is cut short or malformed: "
                                        "do all ranks run the same version of kolo?");
    if (peer.credit_bytes < CREDIT_BYTES_MIN || peer.credit_bytes > CREDIT_BYTES_MAX)
        return kolo_fail(KOLO_ERR_DATA,
                         "rank %d says KOLO_CREDIT_BYTES=%llu: out of range, do all ranks run the "
                         "same version of kolo?",
                         peer.identity.rank, (unsigned long long)peer.credit_bytes);
    kolo_status status = check_machine(&peer.identity);
    if (status == KOLO_OK)
        *peer_out = peer;
    return status;
}
