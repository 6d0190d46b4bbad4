// SPDX-License-Identifier: Apache-2.0
// See agree.h. If all is well, this is one allreduce. No memory is allocated here, and a rank whose
// collective lacks some tells the others.
#include "evaluate/agree.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WELL = INT32_MAX };

struct words {
    int64_t status;
    char text[KOLO_DETAIL_MAX];
};

kolo_status eval_called(struct kolo_comm *comm, kolo_status status)
{
    char detail[KOLO_DETAIL_MAX], reason[KOLO_DETAIL_MAX + 64];
    if (status != KOLO_ERR_NO_MEMORY)
        return status;
    kolo_detail_keep(detail);
    (void)snprintf(reason, sizeof reason, "%s: %s", kolo_status_text(status), detail);
    kolo_abort(comm, reason);
    kolo_detail_set(detail);
    return status;
}

static kolo_status repeat(struct kolo_comm *comm, struct words *words, int root, bool is_named)
{
    kolo_status status =
        eval_called(comm, kolo_broadcast(comm, words, sizeof *words, KOLO_UINT8, root, NULL, NULL));
    if (status != KOLO_OK)
        return status;
    words->text[sizeof words->text - 1] = '\0';
    if (!is_named)
        return kolo_fail((kolo_status)words->status, "%s", words->text);
    return kolo_fail((kolo_status)words->status, "%s (on rank %d of %d)", words->text, root,
                     kolo_size(comm));
}

kolo_status eval_agree(struct kolo_comm *comm, kolo_status mine, uint64_t place)
{
    struct words words = {.status = mine};
    bool failed = mine != KOLO_OK;
    if (mine == KOLO_ERR_NO_MEMORY) /* it is this rank that lacks it, wherever it was in the file */
        place = EVAL_NO_PLACE;
    /* the place is compared first, then the rank */
    int64_t at = !failed ? INT64_MAX : place > INT64_MAX - 1 ? INT64_MAX - 1 : (int64_t)place;
    int64_t first = at;
    if (failed)
        (void)snprintf(words.text, sizeof words.text, "%s",
                       kolo_error_detail()[0] ? kolo_error_detail() : kolo_status_text(mine));
    kolo_status status =
        eval_called(comm, kolo_allreduce(comm, &at, &first, 1, KOLO_INT64, KOLO_MIN, NULL, NULL));
    if (status != KOLO_OK || first == INT64_MAX)
        return status;
    int32_t rank = failed && at == first ? kolo_rank(comm) : WELL, root = rank;
    int32_t failures = failed;
    status =
        eval_called(comm, kolo_allreduce(comm, &rank, &root, 1, KOLO_INT32, KOLO_MIN, NULL, NULL));
    if (status == KOLO_OK)
        status = eval_called(
            comm, kolo_allreduce(comm, &failures, &failures, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    if (status != KOLO_OK)
        return status;
    return repeat(comm, &words, root, failures < kolo_size(comm) && first == INT64_MAX - 1);
}

kolo_status eval_agree_file(struct kolo_comm *comm, const char *path, uint64_t bytes, uint32_t sum)
{
    uint64_t first[2] = {bytes, sum};
    kolo_status status = eval_called(
                    comm, kolo_broadcast(comm, first, sizeof first, KOLO_UINT8, 0, NULL, NULL)),
                mine = KOLO_OK;
    if (status != KOLO_OK)
        return status;
    if (first[0] != bytes || first[1] != sum)
        mine = kolo_fail(KOLO_ERR_DATA,
                         "%s: %llu bytes with the CRC-32 %08x here, %llu with %08x on rank 0; give "
                         "all ranks the same file",
                         path, (unsigned long long)bytes, (unsigned)sum,
                         (unsigned long long)first[0], (unsigned)first[1]);
    return eval_agree(comm, mine, EVAL_NO_PLACE);
}
