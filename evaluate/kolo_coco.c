// SPDX-License-Identifier: Apache-2.0
// kolo-coco: COCO's average precision from files, alone or under kolorun. Every rank reads the
// files, takes its share, and has all results; rank 0 prints them. If something fails anywhere,
// every rank has the same message and ends with the same status.
#include <signal.h>
#include <stdio.h>

#include "evaluate/agree.h"
#include "evaluate/report.h"
#include "runtime/choose.h"
#include "tools/exit_status.h"
#include "tools/job.h"
#include "tools/streams.h"

static kolo_status run(struct eval_evaluation *evaluation, struct kolo_comm *comm,
                       const struct eval_options *options)
{
    bool speaks = kolo_rank(comm) == 0;
    kolo_status status;
    KOLO_TRY(eval_agree(comm, speaks ? eval_report_probe(options) : KOLO_OK, EVAL_NO_PLACE));
    KOLO_TRY(eval_evaluation_run(evaluation, comm, options));
    if (speaks && options->verbose)
        eval_report_counts(evaluation, stderr);
    KOLO_TRY(eval_agree(comm, speaks ? eval_report_write(evaluation) : KOLO_OK, EVAL_NO_PLACE));
out:
    return status;
}

static void report_failure(kolo_status status)
{
    const char *detail = kolo_error_detail();
    if (status == KOLO_ERR_NO_MEMORY)
        fprintf(stderr,
                "kolo-coco: %s: %s; raise `ulimit -v` or memory.max of the cgroup, or use a "
                "machine with more\n",
                kolo_status_text(status), detail);
    else
        fprintf(stderr, "kolo-coco: %s\n", detail[0] ? detail : kolo_status_text(status));
}

static int evaluate(const struct eval_options *options)
{
    struct kolo_comm *comm = NULL;
    struct eval_evaluation evaluation = {.options = options};
    kolo_status status = kolo_init(NULL, &comm);
    if (comm)
        kolo_comm_own(comm, true); /* for the rest of the run: a forced plan must not apply here */
    if (status == KOLO_OK)
        status = run(&evaluation, comm, options);
    if (status != KOLO_OK) {
        report_failure(status);
        if (comm) /* a rank that fails ends the job: wait until all have reported why */
            (void)!kolo_barrier(comm, NULL, NULL);
    }
    eval_evaluation_free(&evaluation);
    (void)kolo_finalize(comm);
    return exit_status_of(status);
}

int main(int argc, char **argv)
{
    struct eval_options options;
    (void)signal(SIGPIPE, SIG_IGN); /* `| head`: writing fails, and no file is left behind */
    if (streams_secure() != KOLO_OK) {
        fprintf(stderr, "kolo-coco: %s\n", kolo_error_detail());
        return EXIT_STATUS_FAILED;
    }
    int exit_status = eval_options_parse(argc, argv, &options);
    if (exit_status == EVAL_GO_ON)
        exit_status = evaluate(&options);
    else if (exit_status != 0)
        job_leave();
    return streams_end("kolo-coco", exit_status);
}
