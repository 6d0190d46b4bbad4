// SPDX-License-Identifier: Apache-2.0
// Requests that can be started repeatedly (KOLO_PERSISTENT). What was checked, copied and chosen
// when they were made is kept. submit.c runs them and waits for them. Must never start a request
// that is still running.
#include "runtime/comm.h"
#include "runtime/submit.h"

static kolo_status check(const char *function, const struct kolo_request *request)
{
    if (!request)
        return kolo_fail(KOLO_ERR_INVALID, "%s: request is NULL", function);
    if (!request->is_persistent)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: the request was not made with KOLO_PERSISTENT: it runs once, and "
                         "kolo_wait frees it",
                         function);
    kolo_status status = kolo_comm_check(request->comm, function);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(request->comm);
    bool is_running = kolo_chain_is_running(request);
    kolo_comm_leave(request->comm);
    if (is_running)
        return kolo_fail(KOLO_ERR_INVALID, "%s: the request is running: wait for it first",
                         function);
    return KOLO_OK;
}

kolo_status kolo_start(struct kolo_request *request)
{
    kolo_status status = check("kolo_start", request);
    return status == KOLO_OK ? kolo_chain_start(request, true) : status;
}

kolo_status kolo_run(struct kolo_request *request)
{
    kolo_status status;
    KOLO_TRY(check("kolo_run", request));
    KOLO_TRY(kolo_chain_start(request, false));
    kolo_comm_enter(request->comm);
    status = kolo_chain_wait(request, KOLO_NEVER); /* each call has its own deadline */
    kolo_comm_leave(request->comm);
out:
    return status;
}

kolo_status kolo_request_free(struct kolo_request **request)
{
    if (!request)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_request_free: request is NULL");
    if (!*request)
        return KOLO_OK;
    kolo_status status = check("kolo_request_free", *request);
    if (status != KOLO_OK)
        return status;
    struct kolo_comm *comm = (*request)->comm;
    kolo_comm_enter(comm);
    kolo_chain_drop(*request);
    kolo_comm_leave(comm);
    *request = NULL;
    return KOLO_OK;
}
