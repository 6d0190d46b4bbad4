// SPDX-License-Identifier: Apache-2.0
// A name service: in a program that includes this, getaddrinfo and freeaddrinfo are those of
// fake_names.c. Addresses, and names that do not end in ".example", are the system's business.
#ifndef KOLO_TESTS_SUPPORT_FAKE_NAMES_H
#define KOLO_TESTS_SUPPORT_FAKE_NAMES_H

/** "quick.example" is 10.0.0.9. "silent.example" is 10.0.0.8, but is not answered before this is
 * called; from then on it is. "broken.example" is EAI_SYSTEM with EPERM, "missing.example"
 * EAI_NONAME, "full.example" EAI_MEMORY. */
void fake_names_answer(void);
/** How many lookups of silent.example have begun. */
int fake_names_asked(void);
/** How many answers have been given, to lookups of addresses and of any name. */
int fake_names_given(void);
/** How many of them have not been freed yet. */
int fake_names_unfreed(void);

#endif
