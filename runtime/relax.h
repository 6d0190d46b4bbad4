// SPDX-License-Identifier: Apache-2.0
// The processor's pause instruction, for between two reads of a word that another processor writes.
#ifndef KOLO_RUNTIME_RELAX_H
#define KOLO_RUNTIME_RELAX_H

static inline void kolo_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
