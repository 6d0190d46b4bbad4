// SPDX-License-Identifier: Apache-2.0
// kolobench diagnose: every pair of ranks measured, and what is slow against its siblings named.
#ifndef KOLO_BENCH_DIAGNOSE_H
#define KOLO_BENCH_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/kolo.h>

enum { DIAGNOSE_RANKS_MAX = 256, DIAGNOSE_FINDINGS_MAX = 64 };

struct diagnose_rank {
    char host[68];
    int64_t pid;
    int32_t host_index, local_rank;
    double reduce_gbps, copy_gbps;
};

enum diagnose_kind { DIAGNOSE_HOST, DIAGNOSE_RANK, DIAGNOSE_LINK };

/** One thing that is slow. */
struct diagnose_finding {
    enum diagnose_kind kind;
    const char *measure; /* "reduce", "copy", "send", "receive", "latency" or "bandwidth" */
    char who[200];       /* "host b", "rank 3 (host b, pid 17)", "link ..." */
    double value, siblings, times;
    int rank, peer; /* of a rank or a link, -1: none */
    bool within;    /* a host: no wire has to do with it */
};

struct diagnosis {
    int nranks, nhosts;
    double factor; /* from which on it counts as slow */
    struct diagnose_rank *ranks;
    double *latency_us, *gbps; /* from * nranks + to, one way; 0: not measured */
    struct diagnose_finding findings[DIAGNOSE_FINDINGS_MAX];
    size_t nfindings; /* as many are kept */
};

/** Fills findings from the rest. Pure. What a finding explains is not found again: a slow host's
 * ranks and links, a slow rank's links. @return ERR_NO_MEMORY. */
kolo_status diagnose_judge(struct diagnosis *diagnosis) KOLO_NODISCARD;
/** One sentence. */
void diagnose_say(const struct diagnose_finding *finding, char *text, size_t capacity);

struct diagnose_options {
    int64_t time_ns, bytes, rounds;
    double factor;
    bool exhaustive, quiet;
    int threads;
    const char *json;
    const char *settings[4];
};

/** Fills all but the findings; collective. The caller frees ranks, latency_us and gbps, always. */
kolo_status diagnose_measure(struct kolo_comm *comm, const struct diagnose_options *options,
                             struct diagnosis *diagnosis) KOLO_NODISCARD;

/** `kolobench diagnose ...`: the exit status. @p argv begins behind "diagnose". */
int diagnose_main(char *const *argv);

#endif
