// SPDX-License-Identifier: Apache-2.0
// The internals of a remote host, shared by remote.c (its life), remote_command.c (how it is
// called) and remote_words.c (how its end is described).
#ifndef KOLO_LAUNCHER_REMOTE_PARTS_H
#define KOLO_LAUNCHER_REMOTE_PARTS_H

#include "launcher/remote.h"

enum { REMOTE_SSH_FAILED = 255 /* ssh's exit status when ssh itself failed */ };

/* remote_command.c */
kolo_status kolo_remote_make_command(const struct kolo_remote_config *config,
                                     const struct kolo_host *host,
                                     struct kolo_texts *argv) KOLO_NODISCARD;

/* remote_words.c */
/** Describes an end before the agent was heard. */
void kolo_remote_describe_call(const struct kolo_remote *remote, char *text, size_t capacity);
/** Describes an end after the agent was heard. */
void kolo_remote_describe_loss(const struct kolo_remote *remote, char *text, size_t capacity);
/** sshd refused because too many connections came at once: worth another attempt. */
bool kolo_remote_is_refused_by_load(const struct kolo_remote *remote);

#endif
