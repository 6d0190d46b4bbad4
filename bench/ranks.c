// SPDX-License-Identifier: Apache-2.0
// How a command of kolobench becomes ranks: those of kolorun, this process alone, or threads.
#include <string.h>

#include "base/settings.h"
#include "base/status.h"
#include "bench/bench.h"
#include "runtime/local.h"
#include "runtime/plan.h"
#include "tools/job.h"
#include "transport/transport.h"

enum { COMPANY_MAX = 8 };

int bench_company(int threads)
{
    const int cores = kolo_local_cpus();
    if (threads > 0 || kolo_environment("KOLO_RANK"))
        return threads;
    return cores < 2 ? 2 : cores > COMPANY_MAX ? COMPANY_MAX : cores;
}

/** Otherwise each of kolorun's processes would run a world of its own, all writing the same
 * files. */
static kolo_status check_alone(int threads)
{
    const char *size = kolo_environment("KOLO_SIZE");
    if (threads == 0 || !size || strcmp(size, "1") == 0)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_CONFIG,
                     "--threads %d: kolorun has started %s ranks, and each would measure by "
                     "itself; leave out --threads or kolorun",
                     threads, size);
}

/** What the command line sets is the same for all ranks; what the environment sets may not be. */
static kolo_status check_options(const char *const *settings)
{
    struct kolo_settings checked;
    kolo_status status;
    kolo_settings_init(&checked);
    for (; settings && *settings; settings++)
        KOLO_TRY(kolo_settings_set_variable(&checked, *settings, KOLO_FROM_API));
    KOLO_TRY(kolo_transport_name_check(checked.transport));
    status = kolo_plan_check(checked.plan);
out:
    return status;
}

static void speak(kolo_status status)
{
    fprintf(stderr, "kolobench: %s: %s\n", kolo_status_text(status), kolo_error_detail());
}

/** Whether every rank has this failure, or learns of it from the communicator. */
static bool is_everybodys(kolo_status status)
{
    return status == KOLO_ERR_CONFIG || status == KOLO_ERR_PEER || status == KOLO_ERR_TIMEOUT ||
           status == KOLO_ERR_ABORTED;
}

void bench_tell(struct kolo_comm *comm, kolo_status status)
{
    char reason[KOLO_DETAIL_MAX];
    if (is_everybodys(status))
        return;
    (void)snprintf(reason, sizeof reason, "%s: %s", kolo_status_text(status), kolo_error_detail());
    kolo_abort(comm, reason);
}

/** Whether another rank says why kolo_init has failed here too: the one that was lost or has ended
 * the job, which kolorun names as well; or rank 0, which no more than this rank can use the only
 * transport of both. */
static bool is_said_elsewhere(kolo_status status)
{
    if (job_speaks() || !kolo_environment("KOLO_LAUNCHER"))
        return false;
    return status == KOLO_ERR_PEER || status == KOLO_ERR_ABORTED ||
           (status == KOLO_ERR_UNSUPPORTED && strstr(kolo_error_detail(), " and rank 0 on ") &&
            strstr(kolo_error_detail(), "KOLO_TRANSPORT=inproc on both"));
}

/** One rank reports for all. What happened to a single rank, and nobody else can know, that rank
 * tells to rank 0. Without a communicator nobody knows whether another rank's failure is the same:
 * one host's environment may have an invalid setting. Then each reports its own. */
static void report(struct kolo_comm *comm, kolo_status status)
{
    if (comm ? job_speaks() : !is_said_elsewhere(status))
        speak(status);
    else if (comm)
        bench_tell(comm, status);
}

kolo_status bench_run_ranks(int threads, const char *const *settings,
                            kolo_status (*rank_main)(struct kolo_comm *comm, void *arg), void *arg)
{
    struct kolo_config config = {.size = sizeof config, .settings = settings};
    struct kolo_comm *comm = NULL;
    kolo_status status = check_alone(threads);
    if (status == KOLO_OK)
        status = check_options(settings);
    if (status != KOLO_OK) {
        job_complain("kolobench", "%s: %s", kolo_status_text(status), kolo_error_detail());
        return status;
    }
    if (threads > 0) {
        status = kolo_run_threads(threads, &config, rank_main, arg);
        if (status != KOLO_OK)
            speak(status);
        return status;
    }
    status = kolo_init(&config, &comm);
    if (status == KOLO_OK)
        status = rank_main(comm, arg);
    if (status != KOLO_OK)
        report(comm, status);
    (void)kolo_finalize(comm);
    return status;
}
