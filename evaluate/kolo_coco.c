// SPDX-License-Identifier: Apache-2.0
// kolo-coco: COCO's average precision from files, alone or under kolorun. Every rank reads the files,
// takes its share, and knows all results; rank 0 prints them. What goes wrong anywhere, every rank
// says in the same words, and ends with 1.
#include <stdio.h>

#include "evaluate/agree.h"
#include "evaluate/report.h"

static kolo_status report(const struct eval_evaluation *evaluation, struct kolo_comm *comm)
{
    kolo_status status = KOLO_OK;
    if (kolo_rank(comm) == 0) {
        status = eval_report_print(evaluation, stdout);
        if (status == KOLO_OK && evaluation->options->json)
            status = eval_report_json(evaluation);
    }
    return eval_agree(comm, status, EVAL_NO_PLACE);
}

int main(int argc, char **argv)
{
    struct eval_options options;
    int exit_status = eval_options_parse(argc, argv, &options);
    if (exit_status != EVAL_GO_ON)
        return exit_status;
    struct kolo_comm *comm = NULL;
    struct eval_evaluation evaluation = {.options = &options};
    kolo_status status = kolo_init(NULL, &comm);
    if (status == KOLO_OK)
        status = eval_evaluation_run(&evaluation, comm, &options);
    if (status == KOLO_OK)
        status = report(&evaluation, comm);
    if (status != KOLO_OK) {
        fprintf(stderr, "kolo-coco: %s\n",
                kolo_error_detail()[0] ? kolo_error_detail() : kolo_status_text(status));
        if (comm) /* who ends with 1 ends the job: not before all have said why */
            (void)!kolo_barrier(comm, NULL, NULL);
    }
    eval_evaluation_free(&evaluation);
    (void)kolo_finalize(comm);
    return status != KOLO_OK;
}
