// SPDX-License-Identifier: Apache-2.0
// The processor's mode of floating-point arithmetic, which belongs to a thread and so to the
// program: rounding, whether subnormal numbers are taken for zero (a library that was linked with
// -ffast-math sets this when it is loaded), which exceptions are signals. Ranks compute the same
// only if all of them compute in the same mode: that of IEEE 754, with which a program begins. The
// program gets its own mode back.
//
// Threads: any.
#ifndef KOLO_BASE_FLOAT_MODE_H
#define KOLO_BASE_FLOAT_MODE_H

#include <stdint.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "kolo needs IEEE 754's arithmetic: do not compile it with -ffast-math or -ffinite-math-only"
#endif

#if defined(__x86_64__)
#include <xmmintrin.h>
enum {
    KOLO_FLOAT_MODE = 0x1f80,      /* nearest even, subnormals, no signals */
    KOLO_FLOAT_MODE_MASK = 0xffc0, /* MXCSR without its flags */
    KOLO_FLOAT_ODD = 0xffc0        /* for tests: towards zero, no subnormals */
};
static inline uint64_t kolo_float_mode_get(void)
{
    return _mm_getcsr();
}
static inline void kolo_float_mode_set(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}
#elif defined(__aarch64__)
enum {
    KOLO_FLOAT_MODE = 0,
    KOLO_FLOAT_MODE_MASK = 0x07f79f00, /* FPCR: DN, FZ, RMode, FZ16, traps */
    KOLO_FLOAT_ODD = 0x01c00000        /* FZ and RMode: towards zero, no subnormals */
};
static inline uint64_t kolo_float_mode_get(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static inline void kolo_float_mode_set(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#else /* a mode that cannot be changed, as far as is known here */
enum { KOLO_FLOAT_MODE = 0, KOLO_FLOAT_MODE_MASK = 0, KOLO_FLOAT_ODD = 0 };
static inline uint64_t kolo_float_mode_get(void)
{
    return KOLO_FLOAT_MODE;
}
static inline void kolo_float_mode_set(uint64_t mode)
{
    (void)mode;
}
#endif

/** Before arithmetic: sets IEEE 754's mode. Returns the program's, for kolo_float_mode_end. */
static inline uint64_t kolo_float_mode_begin(void)
{
    const uint64_t mode = kolo_float_mode_get();
    if ((mode & KOLO_FLOAT_MODE_MASK) != KOLO_FLOAT_MODE)
        kolo_float_mode_set(KOLO_FLOAT_MODE);
    return mode;
}
static inline void kolo_float_mode_end(uint64_t mode)
{
    if ((mode & KOLO_FLOAT_MODE_MASK) != KOLO_FLOAT_MODE)
        kolo_float_mode_set(mode);
}

#endif
