// SPDX-License-Identifier: Apache-2.0
// The agent: the process that kolorun starts once on every host. It is two processes, so that each
// can end what the other leaves behind:
//
//   guardian (the process that was started; a subreaper)
//     `- worker (the agent's loop; a subreaper; gets SIGTERM when the guardian dies)
//          `- ranks, each a process group (get SIGKILL when the worker dies)
//               `- whatever they start, in whatever session
//
// The worker ends the job when kolorun says so, when its standard input ends or falls silent, and
// some time after a signal (worker.c); it then kills its descendants until none is left. When the
// worker is gone for any reason, the guardian does the same. Neither may write a file or open a
// port.
#ifndef KOLO_LAUNCHER_AGENT_H
#define KOLO_LAUNCHER_AGENT_H

#include <sys/types.h>

/** `kolorun --agent`: speaks frames over standard input and output. Returns the exit status. */
int kolo_agent_main(void);

/** The worker, a child of @p guardian: runs the loop over @p fd_in and @p fd_out until nothing of
 * the job is left. Returns the exit status. */
int kolo_worker_main(int fd_in, int fd_out, pid_t guardian);

#endif
