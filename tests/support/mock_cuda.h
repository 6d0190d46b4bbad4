// SPDX-License-Identifier: Apache-2.0
// The control interface of tests/mock/libcuda.c, a libcuda.so.1 with two simulated devices. The
// host cannot touch the addresses of their memory.
#ifndef KOLO_TESTS_MOCK_CUDA_H
#define KOLO_TESTS_MOCK_CUDA_H

#include <stdbool.h>
#include <stddef.h>

enum { MOCK_DEVICES = 2, MOCK_BUS = 0xfa /* PCI bus of the first device; each has its own */ };
enum { MOCK_ECC_UNCORRECTABLE = 214, MOCK_UNKNOWN = 999 /* as after falling off the bus */ };

enum mock_kind {
    MOCK_DEVICE,     /* memory of the device's primary context */
    MOCK_OTHER,      /* memory of another context that the program created */
    MOCK_NO_CONTEXT, /* memory of a pool */
    MOCK_MANAGED,    /* managed memory of the primary context; the host must not touch it either */
    MOCK_PINNED,     /* page-locked memory of the host */
    MOCK_KINDS
};

/** The mode of a stream's capture. In global mode, unsafe calls are forbidden to all threads that
 * have not chosen relaxed mode. */
enum mock_capture { MOCK_NO_CAPTURE, MOCK_CAPTURE, MOCK_CAPTURE_GLOBAL };

struct mock_cuda {
    /** What a program does at its start: cuInit, and a primary context on device 0. */
    void (*begin)(void);
    /** @p device -1, for managed and page-locked memory: of a pool of the host, which belongs to no
     * device and no context. */
    void *(*alloc)(enum mock_kind kind, int device, size_t bytes);
    void (*write)(void *memory, const void *from, size_t bytes);
    /** Like a kernel on a stream of its own: the memory is written when its context is waited for;
     * if it has none, the context in which this thread works. */
    void (*write_later)(void *memory, const void *from, size_t bytes);
    /** The @p nth call of @p function from now ("*": of any function) returns @p result. If a
     * device does not recover from that error (700 to 719, and greater), all later calls return it
     * too. */
    void (*fail)(const char *function, int nth, int result);
    /** How often a function was called; NULL: all functions together. */
    int (*calls)(const char *function);
    /** Makes the primary context of @p device current, or none (-1), without the stack. */
    void (*set_current)(int device);
    /** The number of contexts on this thread's stack, and the top one: 2 * device + (1 if it is not
     * the primary one), or -1 without one. */
    int (*depth)(void);
    int (*current)(void);
    /** How often the primary context of a device is retained. */
    int (*retained)(int device);
    /** Destroys the program's other context of a device. */
    void (*destroy_other)(int device);
    /** Reads what is in the memory now, without waiting for streams. */
    void (*read)(const void *memory, void *into, size_t bytes);
    /** The number of pieces of the host's memory that are page-locked, and of all allocations,
     * which include them. */
    int (*registered)(void);
    int (*allocated)(void);
    /** The program's own stream on the primary context of a device. A thread of its own does the
     * stream's work. */
    void *(*stream)(int device);
    /** Like a kernel on that stream; @p from is copied at once. */
    void (*write_on)(void *stream, void *memory, const void *from, size_t bytes);
    /** The stream continues once the four bytes at @p memory are at least @p value. */
    void (*await)(void *stream, const void *memory, unsigned value);
    /** Begins or ends a capture of the stream into a graph. Returns 0 if a call has invalidated the
     * capture that ended. */
    int (*capture)(void *stream, enum mock_capture capture);
    /** The capture mode that this thread has chosen; 0: none. */
    int (*capture_mode)(void);
    /** A stream's queue holds @p most entries (0: any number); a thread that adds more waits until
     * one is done. */
    void (*queue)(int most);
    /** Streams of one context and priority share one queue: work behind a wait for the host on one
     * of them also delays the others. */
    void (*one_queue)(int is_one);
    /** How many threads wait for room in a queue, or for all streams of a context. */
    int (*blocked)(void);
    /** A stream waits before each entry, up to @p most_us, drawn from @p seed. */
    void (*delays)(unsigned seed, int most_us);
    /** Locking and unlocking pages waits until all streams of the context are idle, as drivers may
     * do. */
    void (*lock_slowly)(int slowly);
    /** No stream begins anything until this is undone. */
    void (*hold)(int held);
    /** No host function is called for a stream until this is undone. */
    void (*mute)(int muted);
    /** Of the copies that streams make from devices to the host, only @p most begin from now on;
     * the others begin once something was copied from the host to a device. */
    void (*pace)(int most);
    /** The @p nth entry that any stream does from now fails the device with @p result. */
    void (*fail_async)(int nth, int result);
    /** Whether the devices export dma-bufs of their memory, and how they order writes of other
     * devices. */
    void (*shares)(int has_dma_buf, int ordering);
};

/** From now on this process sees, in a mount namespace of its own, a /sys in which the devices are
 * at those NUMA nodes. Returns false, with errno set, if it may not. */
bool mock_cuda_at_nodes(int first, int second);
/** Loads the mock into this process; ends the process if that fails. */
const struct mock_cuda *mock_cuda_load(void);
/** Allocates memory of @p kind that holds the @p bytes bytes of @p from once its context was waited
 * for. */
void *mock_cuda_copy(const struct mock_cuda *mock, enum mock_kind kind, int device,
                     const void *from, size_t bytes);

#endif
