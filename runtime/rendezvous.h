// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job find their store. tcp://HOST:PORT[,HOST:PORT...]: rank 0 (or kolorun)
// listens there. file:///SHARED/PATH: rank 0 listens at a free port and writes its addresses and a
// random job id into the file; the others wait for it. The job id is proved in the greeting, so
// that the file of an older run, or an older run that still listens, is never an error: it is
// dialled again until the file changes.
#ifndef KOLO_RUNTIME_RENDEZVOUS_H
#define KOLO_RUNTIME_RENDEZVOUS_H

#include "base/settings.h"
#include "runtime/store.h"

enum kolo_rendezvous_kind { KOLO_RENDEZVOUS_TCP, KOLO_RENDEZVOUS_FILE };
enum { KOLO_RENDEZVOUS_PLACES_MAX = 16 };

struct kolo_rendezvous {
    enum kolo_rendezvous_kind kind;
    char where[KOLO_TEXT_MAX]; /* "HOST:PORT[,HOST:PORT...]" or the absolute path */
};

/** ERR_CONFIG names the text and what it should be. */
kolo_status kolo_rendezvous_parse(const char *text,
                                  struct kolo_rendezvous *rendezvous_out) KOLO_NODISCARD;

/** Rank 0 of a job without a launcher: the store on a thread of its own, listening where
 * @p rendezvous says, and the file that says so. */
struct kolo_rendezvous_host;
/** @p net: the setting KOLO_NET. @p config: job_id is chosen here. Rank 0 itself joins by
 * kolo_store_thread_pair. ERR_CONNECT if no place of tcp:// can be listened at; ERR_SYSTEM naming
 * the file if it cannot be written. */
kolo_status kolo_rendezvous_host_open(const struct kolo_rendezvous *rendezvous, const char *net,
                                      const struct kolo_store_server_config *config,
                                      struct kolo_rendezvous_host **host_out) KOLO_NODISCARD;
struct kolo_store_thread *kolo_rendezvous_host_store(struct kolo_rendezvous_host *host);
/** Removes the file (if it is still this job's) and stops the store, which waits for all ranks to
 * leave up to the deadline. NULL is fine. */
void kolo_rendezvous_host_close(struct kolo_rendezvous_host *host, kolo_deadline deadline);

/** A proved connection to the job's store, for kolo_store_client_join. Blocks until the deadline.
 *  @p net: KOLO_NET of this rank, by which the store's host chose what it offers.
 *  @return KOLO_OK; ERR_CONNECT, ERR_AUTH, ERR_TIMEOUT, naming the file and the addresses in it,
 *  and before them @p net if nothing of this machine matches it. */
kolo_status kolo_rendezvous_dial(const struct kolo_rendezvous *rendezvous, const char *net,
                                 const struct kolo_secret *secret, int rank, kolo_deadline deadline,
                                 int *fd_out) KOLO_NODISCARD;

#endif
