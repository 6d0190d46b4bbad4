// SPDX-License-Identifier: Apache-2.0
// Counts pairs that went on by TCP, and warns about them (rdma_fallen.h says why). Must never hold
// a warning back for good: what is noted is told by the next _tell, or when its place is needed.
#include "transport/rdma_fallen.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static const int64_t patience_ns = 500000000; /* for the first try: half a second */

static struct kolo_rdma_cause *find(struct kolo_rdma_fallen *fallen, const char *text)
{
    for (int i = 0; i < fallen->cause_count; i++)
        if (strncmp(fallen->causes[i].text, text, sizeof fallen->causes[i].text - 1) == 0)
            return &fallen->causes[i];
    return NULL;
}

void kolo_rdma_fallen_note(struct kolo_rdma_fallen *fallen, int peer, const char *host,
                           const char *text)
{
    struct kolo_rdma_cause *cause = find(fallen, text);
    if (!cause && fallen->cause_count == KOLO_RDMA_CAUSES) {
        kolo_rdma_fallen_tell(fallen);
        fallen->cause_count = 0;
    }
    if (!cause) {
        cause = &fallen->causes[fallen->cause_count++];
        *cause = (struct kolo_rdma_cause){.peer = peer};
        snprintf(cause->text, sizeof cause->text, "%s", text);
        snprintf(cause->host, sizeof cause->host, "%s", host);
    }
    cause->count++;
}

static void tell(const struct kolo_rdma_cause *cause)
{
    if (cause->count == 1)
        KOLO_WARN("rank %d on %s is reached by tcp, not rdma: %s", cause->peer, cause->host,
                  cause->text);
    else if (cause->told == 0)
        KOLO_WARN("%d ranks, such as rank %d on %s, are reached by tcp, not rdma: %s", cause->count,
                  cause->peer, cause->host, cause->text);
    else /* it was told before, and now there are more */
        KOLO_INFO("%d ranks, such as rank %d on %s, are reached by tcp, not rdma: %s", cause->count,
                  cause->peer, cause->host, cause->text);
}

void kolo_rdma_fallen_tell(struct kolo_rdma_fallen *fallen)
{
    for (int i = 0; i < fallen->cause_count; i++) {
        struct kolo_rdma_cause *cause = &fallen->causes[i];
        if (cause->told == cause->count)
            continue;
        tell(cause);
        cause->told = cause->count;
    }
}

void kolo_rdma_fallen_failed(struct kolo_rdma_fallen *fallen)
{
    fallen->in_a_row++;
}

void kolo_rdma_fallen_succeeded(struct kolo_rdma_fallen *fallen)
{
    fallen->in_a_row = 0;
}

bool kolo_rdma_fallen_gives_up(const struct kolo_rdma_fallen *fallen)
{
    return fallen->in_a_row >= KOLO_RDMA_FALLEN_IN_A_ROW;
}

int64_t kolo_rdma_fallen_patience_ns(const struct kolo_rdma_fallen *fallen)
{
    const int most = KOLO_RDMA_FALLEN_IN_A_ROW - 1; /* tries that are under way when it gives up */
    return patience_ns >> (fallen->in_a_row < most ? fallen->in_a_row : most);
}
