// SPDX-License-Identifier: Apache-2.0
// Breaks kolobench's library on purpose (with the linker's --wrap), to prove that kolobench's check
// notices it. The faults: an allreduce with a wrong bit on rank 1, a broadcast that gives the last
// rank the result of an earlier call, an allgather with two blocks exchanged, a reduce_scatter that
// writes one element too many, and a gather that changes the send buffer.
#include <string.h>

#include <kolo/kolo.h>

enum { ELEMENT = 17 };

#define WRAPPED(name, ...)                                                                         \
    kolo_status __real_##name(__VA_ARGS__);                                                        \
    kolo_status __wrap_##name(__VA_ARGS__);                                                        \
    kolo_status __wrap_##name(__VA_ARGS__)

WRAPPED(kolo_allreduce, struct kolo_comm *comm, const void *send, void *recv, size_t count,
        kolo_dtype dtype, kolo_redop op, const struct kolo_opts *opts,
        struct kolo_request **request_out)
{
    kolo_status status =
        __real_kolo_allreduce(comm, send, recv, count, dtype, op, opts, request_out);
    if (dtype == KOLO_FLOAT32 && kolo_rank(comm) == 1 && count > ELEMENT)
        ((unsigned char *)recv)[ELEMENT * 4 + 2] ^= 0x10;
    return status;
}

WRAPPED(kolo_broadcast, struct kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype,
        int root, const struct kolo_opts *opts, struct kolo_request **request_out)
{
    static float before[ELEMENT];
    kolo_status status = __real_kolo_broadcast(comm, buffer, count, dtype, root, opts, request_out);
    if (dtype != KOLO_FLOAT32 || kolo_rank(comm) != kolo_size(comm) - 1 || count < ELEMENT)
        return status;
    float now[ELEMENT];
    memcpy(now, buffer, sizeof now);
    memcpy(buffer, before, sizeof before);
    memcpy(before, now, sizeof now);
    return status;
}

WRAPPED(kolo_allgather, struct kolo_comm *comm, const void *send, void *recv, size_t count,
        kolo_dtype dtype, const struct kolo_opts *opts, struct kolo_request **request_out)
{
    kolo_status status = __real_kolo_allgather(comm, send, recv, count, dtype, opts, request_out);
    float *result = recv;
    if (dtype != KOLO_FLOAT32 || count < ELEMENT)
        return status;
    for (size_t i = 0; i < count; i++) {
        float first = result[i];
        result[i] = result[count + i];
        result[count + i] = first;
    }
    return status;
}

WRAPPED(kolo_reduce_scatter, struct kolo_comm *comm, const void *send, void *recv, size_t count,
        kolo_dtype dtype, kolo_redop op, const struct kolo_opts *opts,
        struct kolo_request **request_out)
{
    kolo_status status =
        __real_kolo_reduce_scatter(comm, send, recv, count, dtype, op, opts, request_out);
    if (count >= ELEMENT)
        ((float *)recv)[count] = 1;
    return status;
}

WRAPPED(kolo_gather, struct kolo_comm *comm, const void *send, void *recv, size_t count,
        kolo_dtype dtype, int root, const struct kolo_opts *opts, struct kolo_request **request_out)
{
    kolo_status status =
        __real_kolo_gather(comm, send, recv, count, dtype, root, opts, request_out);
    if (count >= ELEMENT && kolo_rank(comm) == 2)
        ((float *)(uintptr_t)send)[count - 1] = -7;
    return status;
}
