// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job find the job's store. There are two kinds of rendezvous:
//
//   - tcp://HOST:PORT[,HOST:PORT...]: rank 0 (or kolorun) listens there.
//   - file:///SHARED/PATH: rank 0 listens at a free port and writes its addresses and a random job
//     id into the file; the other ranks wait for the file. The job id is proved in the greeting, so
//     a file that an earlier run left, or an earlier run that still listens, is never an error: a
//     rank dials again until the file changes.
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

/** Parses the setting. The detail of ERR_CONFIG names the text and the forms that are allowed. */
kolo_status kolo_rendezvous_parse(const char *text,
                                  struct kolo_rendezvous *rendezvous_out) KOLO_NODISCARD;

/** The store of a job without a launcher, which rank 0 runs: its server on a thread of its own,
 * which listens where @p rendezvous says, and the file that contains its addresses. */
struct kolo_rendezvous_host;
/** Starts the store. @p net is the setting KOLO_NET. The job_id of @p config is replaced: by a
 * random one for file://, by none for tcp://. Rank 0 itself joins through kolo_store_thread_pair.
 * A name in @p rendezvous is resolved by @p deadline.
 * ERR_CONNECT: none of the places of tcp:// can be listened at; ERR_SYSTEM: the file, which the
 * detail names, cannot be written. */
kolo_status kolo_rendezvous_host_open(const struct kolo_rendezvous *rendezvous, const char *net,
                                      const struct kolo_store_server_config *config,
                                      kolo_deadline deadline,
                                      struct kolo_rendezvous_host **host_out) KOLO_NODISCARD;
struct kolo_store_thread *kolo_rendezvous_host_store(struct kolo_rendezvous_host *host);
/** Removes the file (if it is still this job's) and stops the store, which waits until all ranks
 * have left, at most until the deadline. NULL is allowed. */
void kolo_rendezvous_host_close(struct kolo_rendezvous_host *host, kolo_deadline deadline);

/** Opens an authenticated connection to the job's store, for kolo_store_client_join. Blocks until
 * the deadline at most.
 *  @p net: KOLO_NET of this rank; the store's host used the same setting to choose the addresses
 *  that it offers.
 *  @return KOLO_OK; ERR_AUTH; ERR_CONNECT, also if the deadline passed: from kolo_init, ERR_TIMEOUT
 *  means that other ranks are missing, while here this one is cut off. The detail names the file
 *  and the addresses in it, and first @p net if no interface of this machine matches it. */
kolo_status kolo_rendezvous_dial(const struct kolo_rendezvous *rendezvous, const char *net,
                                 const struct kolo_secret *secret, int rank, kolo_deadline deadline,
                                 int *fd_out) KOLO_NODISCARD;

#endif
