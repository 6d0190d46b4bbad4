// SPDX-License-Identifier: Apache-2.0
// `kolorun timeline`: merges the timeline files of ranks.
#ifndef KOLO_LAUNCHER_TIMELINE_COMMAND_H
#define KOLO_LAUNCHER_TIMELINE_COMMAND_H

/** Runs `kolorun timeline` with the @p count words that follow it. Returns the exit status: 2 for
 * words or files that it refuses. */
int kolo_timeline_command(int count, char *const *words);

#endif
