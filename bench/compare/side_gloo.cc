// SPDX-License-Identifier: Apache-2.0
// Gloo as a side: its TCP transport over loopback, or over the interface that COMPARE_INTERFACE
// names. Ranks meet through files in the folder given by --meet. Gloo has no shared memory between
// processes. Its reduce_scatter is the old interface: one object per buffer, in place, created
// before the timing.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/compare/compare.h"

namespace
{

std::shared_ptr<gloo::rendezvous::Context> context;
std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scatterer;

/* Runs code that may throw, and copies the message into detail. */
template <typename Action> int told(const char *call, char *detail, Action action)
{
    try {
        action();
        return 0;
    } catch (const std::exception &error) {
        snprintf(detail, GATE_TEXT, "%s: %.120s", call, error.what());
        return -1;
    }
}

int start(int rank, int nranks, const char *meet, char *detail)
{
    return told("connectFullMesh", detail, [&] {
        gloo::transport::tcp::attr attributes;
        const char *interface = getenv("COMPARE_INTERFACE");
        if (interface != nullptr)
            attributes.iface = interface;
        else
            attributes.hostname = "127.0.0.1";
        auto device = gloo::transport::tcp::CreateDevice(attributes);
        gloo::rendezvous::FileStore store(meet);
        context = std::make_shared<gloo::rendezvous::Context>(rank, nranks);
        context->connectFullMesh(store, device);
    });
}

bool can(enum collective, enum memory memory)
{
    return memory == MEMORY_USER;
}

void *allocate(size_t)
{
    return nullptr;
}

void release(void *) {}

int barrier(char *detail)
{
    return told("barrier", detail, [] {
        gloo::BarrierOptions options(context);
        gloo::barrier(options);
    });
}

int prepare(const struct operation *operation, char *detail)
{
    if (operation->collective != REDUCE_SCATTER)
        return 0;
    return told("reduce_scatter", detail, [&] {
        std::vector<float *> pointers{static_cast<float *>(operation->send)};
        std::vector<int> counts(static_cast<size_t>(context->size),
                                static_cast<int>(operation->block));
        scatterer = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
            context, pointers, static_cast<int>(operation->count), counts);
    });
}

void allreduce(float *send, float *recv, size_t count)
{
    gloo::AllreduceOptions options(context);
    options.setInput(send, count);
    options.setOutput(recv, count);
    options.setReduceFunction(
        static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
}

void allgather(float *send, float *recv, const struct operation *operation)
{
    gloo::AllgatherOptions options(context);
    options.setInput(send, operation->block);
    options.setOutput(recv, operation->count);
    gloo::allgather(options);
}

void broadcast(float *recv, const struct operation *operation)
{
    gloo::BroadcastOptions options(context);
    options.setOutput(recv, operation->count);
    options.setRoot(operation->root);
    gloo::broadcast(options);
}

void alltoall(float *send, float *recv, size_t count)
{
    gloo::AlltoallOptions options(context);
    options.setInput(send, count);
    options.setOutput(recv, count);
    gloo::alltoall(options);
}

int play(const struct operation *operation, char *detail)
{
    auto send = static_cast<float *>(operation->send);
    auto recv = static_cast<float *>(operation->recv);
    return told("collective", detail, [&] {
        switch (operation->collective) {
        case ALLREDUCE:
            return allreduce(send, recv, operation->count);
        case ALLGATHER:
            return allgather(send, recv, operation);
        case BROADCAST:
            return broadcast(recv, operation);
        case REDUCE_SCATTER:
            scatterer->run();
            if (recv[0] == -1) /* the operation whose results are compared */
                memcpy(recv, send, operation->block * sizeof *recv);
            return;
        case ALLTOALL:
            return alltoall(send, recv, operation->count);
        case COLLECTIVES:
            return;
        }
    });
}

void end()
{
    scatterer.reset();
    context.reset();
}

} // namespace

extern "C" {
extern const struct side this_side;
const struct side this_side = {start,   can,  allocate, release, barrier,
                               prepare, play, end};
}
