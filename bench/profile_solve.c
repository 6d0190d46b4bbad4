// SPDX-License-Identifier: Apache-2.0
// From times to figures: the model of runtime/cost.h, solved for its figures. Pure. If a time shows
// only the sum of two figures, it is divided between them as in the built-in ones.
#include <math.h>

#include "bench/profile.h"

enum { PARTS_FEWEST = 5 }; /* a latency is at least one part in this many of a message */

static const double least_byte = 1e-3; /* 1 TB/s */

static double crowd_of(const struct profile_times *times)
{
    return fmax(1, (double)times->ranks / fmax(1, times->cores));
}

/* Time of a byte that each rank sends in each round, or of one that it receives: half of the time
 * of both. */
static double ring_byte(const struct profile_times *times)
{
    double bytes = 2 * (times->ranks - 1) * times->ring_bytes * crowd_of(times);
    return (times->ring_long - times->ring) / bytes;
}

static void of_links(const struct profile_times *times, struct kolo_path_figures *figures,
                     const struct kolo_path_figures *usual)
{
    double one_way = usual->latency + 2 * usual->message;
    figures->latency = times->one_way * usual->latency / one_way;
    figures->message = times->one_way * usual->message / one_way;
    figures->byte = fmax(least_byte, ring_byte(times));
    figures->call = fmax(0, times->ring - (times->ranks - 1) * times->one_way);
}

/* A round of the barrier is the latency, and for all ranks of a core a message each way. */
static void of_crowded_links(const struct profile_times *times, struct kolo_path_figures *figures)
{
    double round = (times->barrier - figures->call) / ceil(log2(times->ranks));
    double message = (round - figures->latency) / (2 * crowd_of(times));
    figures->crowded_message = fmax(0, message - figures->message);
    figures->crowded_byte = fmax(0, ring_byte(times) - figures->byte);
}

/* The processors' part is as on one host; the rest of the time is the network's. */
static void of_network(const struct profile_times *times, enum kolo_path path,
                       const struct kolo_figures *usual, struct kolo_figures *figures)
{
    struct kolo_path_figures *network = &figures->path[path];
    double least = times->one_way / (double)PARTS_FEWEST;
    *network = path == KOLO_PATH_NETWORK ? figures->path[KOLO_PATH_LOOPBACK] : usual->path[path];
    network->message = fmin(network->message, (times->one_way - least) / 2);
    network->latency = times->one_way - 2 * network->message;
    *(path == KOLO_PATH_RDMA ? &figures->rdma_wire_byte : &figures->wire_byte) =
        fmax(least_byte, times->stream_byte);
}

/* An entrance and a flag; or, if ranks share cores, a turn. Each of two ranks publishes a vector,
 * and reads two to write one: what the other has written is remote. */
static void of_board(const struct profile_times *times, struct kolo_figures *figures)
{
    double crowd = crowd_of(times);
    if (crowd > 1 && times->shown > 0)
        figures->turn = fmax(0, times->shown / crowd - figures->enter);
    if (crowd > 1)
        return;
    if (times->shown > 0)
        figures->enter = figures->flag = times->shown / 2;
    if (times->direct > 0) {
        double bytes = 2 * times->direct_bytes;
        figures->share_byte = fmax(least_byte, (times->direct_long - times->direct) / bytes);
    }
    if (times->shown > 0) {
        double byte = (times->shown_long - times->shown) / times->shown_bytes;
        figures->remote_byte = fmax(least_byte, byte - 5 * figures->share_byte);
    }
}

void profile_solve(const struct profile_times *times, enum kolo_path path,
                   struct kolo_figures *figures)
{
    struct kolo_figures usual;
    kolo_figures_init(&usual);
    if (times->stream_byte > 0)
        of_network(times, path, &usual, figures);
    else if (times->ring > 0 && crowd_of(times) > 1)
        of_crowded_links(times, &figures->path[path]);
    else if (times->ring > 0)
        of_links(times, &figures->path[path], &usual.path[path]);
    of_board(times, figures);
    if (times->copy_byte > 0)
        figures->copy_byte = times->copy_byte;
    if (times->pull_byte > 0)
        figures->pull_byte = times->pull_byte;
    if (times->combine_byte > 0)
        figures->combine_byte = times->combine_byte;
}
