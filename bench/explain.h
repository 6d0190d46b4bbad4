// SPDX-License-Identifier: Apache-2.0
// kolobench plan: which plan a call would run, what it is expected to take, and why the others
// lost.
#ifndef KOLO_BENCH_EXPLAIN_H
#define KOLO_BENCH_EXPLAIN_H

/** `kolobench plan ...`: the exit status. @p argv begins behind "plan". Needs no other rank. */
int explain_main(char *const *argv);

#endif
