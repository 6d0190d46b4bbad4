// SPDX-License-Identifier: Apache-2.0
// What making a communicator costs: `kolorun -np 2 comm_cost` prints the time of kolo_dup with
// kolo_finalize, of kolo_split with kolo_finalize, and of kolo_dup, one allreduce of 8 bytes on
// the new communicator, and kolo_finalize. Times are rank 0's: the median of rounds in which the
// ways alternate, each with a batch.
#include <stdio.h>

#include <kolo/kolo.h>

#include "bench/micro/ways.h"

enum { BATCH = 200, WAYS = 3 };

static void dup(void *comm)
{
    struct kolo_comm *copy = NULL;
    check(kolo_dup(comm, NULL, &copy), NULL);
    check(kolo_finalize(copy), NULL);
}

static void split(void *comm)
{
    struct kolo_comm *half = NULL;
    check(kolo_split(comm, kolo_rank(comm) % 2, 0, NULL, &half), NULL);
    check(kolo_finalize(half), NULL);
}

static void dup_and_sum(void *comm)
{
    struct kolo_comm *copy = NULL;
    double value = 1;
    check(kolo_dup(comm, NULL, &copy), NULL);
    check(kolo_allreduce(copy, &value, &value, 1, KOLO_FLOAT64, KOLO_SUM, NULL, NULL), NULL);
    check(kolo_finalize(copy), NULL);
}

int main(void)
{
    static const struct micro_way ways[WAYS] = {{dup, BATCH}, {split, BATCH}, {dup_and_sum, BATCH}};
    struct kolo_comm *comm;
    double us[WAYS];
    check(kolo_init(NULL, &comm), NULL);
    micro_measure(comm, ways, WAYS, comm, us);
    if (kolo_rank(comm) == 0)
        printf("%d ranks  dup %7.1f  split %7.1f  dup and a sum %7.1f us\n", kolo_size(comm), us[0],
               us[1], us[2]);
    return kolo_finalize(comm) == KOLO_OK ? 0 : 1;
}
