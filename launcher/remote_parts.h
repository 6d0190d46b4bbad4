// SPDX-License-Identifier: Apache-2.0
// The inside of a host that is reached, shared by its files: remote.c (its life), remote_command.c
// (how it is called), remote_words.c (what is said of its end).
#ifndef KOLO_LAUNCHER_REMOTE_PARTS_H
#define KOLO_LAUNCHER_REMOTE_PARTS_H

#include "launcher/remote.h"

enum { REMOTE_SSH_FAILED = 255 /* ssh's status where it failed itself */ };

/* remote_command.c */
kolo_status kolo_remote_make_command(const struct kolo_remote_config *config,
                                     const struct kolo_host *host,
                                     struct kolo_texts *argv) KOLO_NODISCARD;

/* remote_words.c */
/** Before the agent was heard. */
void kolo_remote_describe_call(const struct kolo_remote *remote, char *text, size_t capacity);
/** After the agent was heard. */
void kolo_remote_describe_loss(const struct kolo_remote *remote, char *text, size_t capacity);
/** sshd turned us away because many came at once: worth another try. */
bool kolo_remote_is_refused_by_load(const struct kolo_remote *remote);

#endif
