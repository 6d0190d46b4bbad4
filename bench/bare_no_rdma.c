// SPDX-License-Identifier: Apache-2.0
// Replaces bare_rdma.c in a build without RDMA: says why it is missing.
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/status.h"
#include "bench/bare.h"

kolo_status bare_rdma_open(struct bare_world *world, const struct kolo_settings *settings,
                           char text_out[BARE_WHY_BYTES])
{
    const struct kolo_left_out *left = kolo_left_out;
    (void)settings;
    world->rdma = NULL;
    while (left->what && strcmp(left->what, "rdma") != 0)
        left++;
    snprintf(text_out, BARE_WHY_BYTES, "%.250s", left->what ? left->why : "");
    return KOLO_OK;
}

void bare_rdma_close(struct bare_world *world)
{
    (void)world;
}

bool bare_rdma_fits(const struct bare_pattern *pattern, int phases, size_t bytes)
{
    (void)pattern, (void)phases, (void)bytes;
    return false;
}

static kolo_status none(void)
{
    return kolo_fail(KOLO_ERR_UNSUPPORTED, "limits: RDMA is not in this build");
}

void bare_rdma_run(const struct bare_pattern *pattern, int phases, size_t bytes,
                   struct bare_run *run_out)
{
    (void)phases, (void)bytes;
    *run_out = (struct bare_run){.name = pattern->name};
}

kolo_status bare_rdma_explain(const struct bare_world *world, kolo_status status)
{
    (void)world;
    return status;
}

kolo_status bare_rdma_write_time(struct bare_world *world, int other, bool both, size_t bytes,
                                 int64_t time_ns, double *us_out)
{
    (void)world, (void)other, (void)both, (void)bytes, (void)time_ns, (void)us_out;
    return none();
}

kolo_status bare_rdma_word_time(struct bare_world *world, int other, bool both, int64_t time_ns,
                                double *us_out)
{
    (void)world, (void)other, (void)both, (void)time_ns, (void)us_out;
    return none();
}

size_t bare_rdma_write_bytes_max(const struct bare_world *world)
{
    (void)world;
    return 0;
}
