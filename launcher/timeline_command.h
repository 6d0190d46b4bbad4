// SPDX-License-Identifier: Apache-2.0
// The command that merges timelines of ranks.
#ifndef KOLO_LAUNCHER_TIMELINE_COMMAND_H
#define KOLO_LAUNCHER_TIMELINE_COMMAND_H

/** `kolorun timeline` with the @p count words behind it. The exit status: 2 for words and files
 * that it refuses. */
int kolo_timeline_command(int count, char *const *words);

#endif
