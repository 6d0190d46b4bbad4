// SPDX-License-Identifier: Apache-2.0
// What gcc and clang call with -fsanitize=thread: at each atomic operation, in place of it, and
// before each other access to memory. An atomic operation may be delayed; a store that is not
// sequentially consistent may be kept. All others make the thread's earlier stores visible first,
// except loads, and do more than they are asked for: they are sequentially consistent. The names
// and types are the compilers' (tsan_interface_atomic.h of LLVM).
#include "tests/delays/delays.h"

#define SITE __builtin_return_address(0)
enum { WEAK_FAILS_ONE_IN = 16 };

#define LOADS_AND_STORES(bits, type)                                                               \
    type __tsan_atomic##bits##_load(const volatile type *at, int order);                           \
    type __tsan_atomic##bits##_load(const volatile type *at, int order)                            \
    {                                                                                              \
        uint64_t kept;                                                                             \
        (void)order;                                                                               \
        delays_pause(SITE);                                                                        \
        return delays_kept((const void *)at, sizeof(type), &kept)                                  \
                   ? (type)kept                                                                    \
                   : __atomic_load_n(at, __ATOMIC_SEQ_CST);                                        \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                    \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                     \
    {                                                                                              \
        delays_pause(SITE);                                                                        \
        if (order == __ATOMIC_SEQ_CST)                                                             \
            delays_flush();                                                                        \
        if (order == __ATOMIC_SEQ_CST || !delays_keep((void *)at, value, sizeof(type)))            \
            __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                         \
    }

/** An operation that returns what was there before. */
#define CHANGES(bits, type, name, builtin)                                                         \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order);                   \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)                    \
    {                                                                                              \
        (void)order;                                                                               \
        delays_flush();                                                                            \
        delays_pause(SITE);                                                                        \
        return builtin(at, value, __ATOMIC_SEQ_CST);                                               \
    }

#define COMPARES(bits, type, name, fails)                                                          \
    int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type value, int order,     \
                                     int failure);                                                 \
    int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type value, int order,     \
                                     int failure)                                                  \
    {                                                                                              \
        (void)order;                                                                               \
        (void)failure;                                                                             \
        delays_flush();                                                                            \
        delays_pause(SITE);                                                                        \
        if (fails) {                                                                               \
            *expected = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                     \
            return 0;                                                                              \
        }                                                                                          \
        return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_SEQ_CST,               \
                                           __ATOMIC_SEQ_CST);                                      \
    }

#define ATOMICS(bits, type)                                                                        \
    LOADS_AND_STORES(bits, type)                                                                   \
    CHANGES(bits, type, exchange, __atomic_exchange_n)                                             \
    CHANGES(bits, type, fetch_add, __atomic_fetch_add)                                             \
    CHANGES(bits, type, fetch_sub, __atomic_fetch_sub)                                             \
    CHANGES(bits, type, fetch_and, __atomic_fetch_and)                                             \
    CHANGES(bits, type, fetch_or, __atomic_fetch_or)                                               \
    CHANGES(bits, type, fetch_xor, __atomic_fetch_xor)                                             \
    COMPARES(bits, type, compare_exchange_strong, false)                                           \
    COMPARES(bits, type, compare_exchange_weak, delays_random() % WEAK_FAILS_ONE_IN == 0)

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    if (order == __ATOMIC_SEQ_CST)
        delays_flush();
    delays_pause(SITE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

/* ---- other accesses ---- */

#define TOUCHES(name, bytes)                                                                       \
    void __tsan_##name(void *at);                                                                  \
    void __tsan_##name(void *at)                                                                   \
    {                                                                                              \
        delays_touch(at, bytes);                                                                   \
    }
#define TOUCHES_ALL(bytes)                                                                         \
    TOUCHES(read##bytes, bytes)                                                                    \
    TOUCHES(write##bytes, bytes)                                                                   \
    TOUCHES(unaligned_read##bytes, bytes)                                                          \
    TOUCHES(unaligned_write##bytes, bytes)                                                         \
    TOUCHES(volatile_read##bytes, bytes)                                                           \
    TOUCHES(volatile_write##bytes, bytes)                                                          \
    TOUCHES(unaligned_volatile_read##bytes, bytes)                                                 \
    TOUCHES(unaligned_volatile_write##bytes, bytes)
TOUCHES_ALL(1)
TOUCHES_ALL(2)
TOUCHES_ALL(4)
TOUCHES_ALL(8)
TOUCHES_ALL(16)

#define TOUCHES_RANGE(name)                                                                        \
    void __tsan_##name(void *at, unsigned long bytes);                                             \
    void __tsan_##name(void *at, unsigned long bytes)                                              \
    {                                                                                              \
        delays_touch(at, bytes);                                                                   \
    }
TOUCHES_RANGE(read_range)
TOUCHES_RANGE(write_range)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
