// SPDX-License-Identifier: Apache-2.0
// kolobench diagnose: measures every pair of ranks, and names what is slow compared with others of
// its kind.
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
    int rank, peer; /* of a rank or a link; -1: none */
    bool within;    /* inside a host, so no wire is involved */
};

struct diagnosis {
    int nranks, nhosts;
    double factor; /* how many times slower counts as slow */
    struct diagnose_rank *ranks;
    double *latency_us, *gbps; /* index: from * nranks + to; one way; 0: not measured */
    struct diagnose_finding findings[DIAGNOSE_FINDINGS_MAX];
    size_t nfindings; /* number of findings kept */
};

/** Fills in the findings from the rest. Pure. What one finding explains is not reported again:
 * ranks and links of a slow host, links of a slow rank. @return ERR_NO_MEMORY. */
kolo_status diagnose_judge(struct diagnosis *diagnosis) KOLO_NODISCARD;
/** Writes the finding as one sentence. */
void diagnose_say(const struct diagnose_finding *finding, char *text, size_t capacity);

struct diagnose_options {
    int64_t time_ns, bytes, rounds;
    double factor;
    bool exhaustive, quiet;
    int threads;
    const char *json;
    const char *settings[4];
};

/** Fills in everything but the findings; collective. The caller must always free ranks, latency_us
 * and gbps. */
kolo_status diagnose_measure(struct kolo_comm *comm, const struct diagnose_options *options,
                             struct diagnosis *diagnosis) KOLO_NODISCARD;

/** Runs `kolobench diagnose ...`, and returns the exit status. @p argv begins after "diagnose". */
int diagnose_main(char *const *argv);

#endif
