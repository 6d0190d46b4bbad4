// SPDX-License-Identifier: Apache-2.0
// See world.h.
#include "tests/support/world.h"

#include <stdio.h>

const char *const world_transports[] = {"inproc", "shm", "tcp", NULL};
struct world_param world_params[WORLD_PARAMS] = {{"inproc"}, {"shm"}, {"tcp"}};

struct play {
    struct world *world;
    kolo_status (*body)(struct kolo_comm *comm, void *argument);
    void *argument;
};

static kolo_status play_rank(struct kolo_comm *comm, void *argument)
{
    const struct play *play = argument;
    struct world_result *result = &play->world->results[kolo_rank(comm)];
    result->status = play->body(comm, play->argument);
    snprintf(result->text, sizeof result->text, "%s",
             result->status == KOLO_OK ? "" : kolo_error_detail());
    return result->status;
}

kolo_status world_run(struct world *world,
                      kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct play play = {world, body, argument};
    const char *settings[WORLD_SETTINGS_MAX + 2];
    char transport[64];
    size_t count = 0;
    for (; world->settings[count]; count++)
        settings[count] = world->settings[count];
    snprintf(transport, sizeof transport, "KOLO_TRANSPORT=%s",
             world->transport ? world->transport : "auto");
    settings[count++] = transport;
    settings[count] = NULL;
    for (int rank = 0; rank < world->size; rank++)
        world->results[rank] = (struct world_result){.status = KOLO_AGAIN, .text = "did not run"};
    struct kolo_config config = {.size = sizeof config, .settings = settings};
    return kolo_run_threads(world->size, &config, play_rank, &play);
}

const struct world_result *world_cause(const struct world *world)
{
    const struct world_result *cause = &world->results[0];
    for (int rank = 0; rank < world->size; rank++) {
        const struct world_result *result = &world->results[rank];
        if (result->status == KOLO_OK)
            continue;
        if (result->status != KOLO_ERR_PEER && result->status != KOLO_ERR_ABORTED)
            return result;
        if (cause->status == KOLO_OK)
            cause = result;
    }
    return cause;
}
