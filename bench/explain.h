// SPDX-License-Identifier: Apache-2.0
// kolobench plan: shows which plan a call would run, what it is expected to take, and why the
// others were not chosen.
#ifndef KOLO_BENCH_EXPLAIN_H
#define KOLO_BENCH_EXPLAIN_H

/** Runs `kolobench plan ...`, and returns the exit status. @p argv begins after "plan". Needs no
 * other rank. */
int explain_main(char *const *argv);

#endif
