// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a test, which are threads of one process, believe that they are on several
// hosts.
#ifndef KOLO_TESTS_HOSTS_H
#define KOLO_TESTS_HOSTS_H

/** From now on threads that ask for the first time are on one of @p count hosts, in turn. So a
 * world of ranks that starts now has ranks on all of them, the same number if @p count divides its
 * size; which ranks they are differs from run to run. 0: the host's own name again. */
void hosts_pretend(int count);

#endif
