// SPDX-License-Identifier: Apache-2.0
// tests/mock/libcuda.c, a libcuda.so.1 that plays two devices, as a test commands it. Their memory
// is at addresses that the host cannot touch.
#ifndef KOLO_TESTS_MOCK_CUDA_H
#define KOLO_TESTS_MOCK_CUDA_H

#include <stdbool.h>
#include <stddef.h>

enum { MOCK_DEVICES = 2, MOCK_BUS = 0xfa /* of PCI, of the first; each has one of its own */ };
enum { MOCK_ECC_UNCORRECTABLE = 214, MOCK_UNKNOWN = 999 /* as when it has fallen off its bus */ };

enum mock_kind {
    MOCK_DEVICE,     /* of the device's primary context */
    MOCK_OTHER,      /* of another context that the program made */
    MOCK_NO_CONTEXT, /* of a pool */
    MOCK_MANAGED,    /* of the primary context; not touched by the host either */
    MOCK_PINNED,     /* the host's */
    MOCK_KINDS
};

/** Of a stream: a capture in global mode forbids what is unsafe to all threads that have not said
 * that they are relaxed. */
enum mock_capture { MOCK_NO_CAPTURE, MOCK_CAPTURE, MOCK_CAPTURE_GLOBAL };

struct mock_cuda {
    /** The program's own start: cuInit, and a primary context on device 0. */
    void (*begin)(void);
    void *(*alloc)(enum mock_kind kind, int device, size_t bytes);
    void (*write)(void *memory, const void *from, size_t bytes);
    /** As a kernel on a stream of its own: written when the memory's context is waited for. */
    void (*write_later)(void *memory, const void *from, size_t bytes);
    /** The nth call of @p function ("*": of any) from now returns @p result, and of an error that a
     * device does not come back from (700 to 719, and those above) all after it. */
    void (*fail)(const char *function, int nth, int result);
    /** How often a function was called; NULL: all together. */
    int (*calls)(const char *function);
    /** Makes a context current without the stack: -1 none, else the primary one of a device. */
    void (*set_current)(int device);
    /** Contexts on this thread's stack, and its top: 2 * device + (1: not the primary one), -1
     * none. */
    int (*depth)(void);
    int (*current)(void);
    /** How often the primary context of a device is retained. */
    int (*retained)(int device);
    /** Destroys the program's other context of a device. */
    void (*destroy_other)(int device);
    /** What is there now, whatever streams are still to do. */
    void (*read)(const void *memory, void *into, size_t bytes);
    /** Pieces of the host's memory that are page-locked now; and allocations in all, they too. */
    int (*registered)(void);
    int (*allocated)(void);
    /** The program's own stream on the primary context of a device, which does what it is given on
     * a thread of its own. */
    void *(*stream)(int device);
    /** As a kernel on that stream; @p from is copied at once. */
    void (*write_on)(void *stream, void *memory, const void *from, size_t bytes);
    /** The stream goes on once the four bytes at @p memory are at least @p value. */
    void (*await)(void *stream, const void *memory, unsigned value);
    /** The stream is captured into a graph, or no longer. 0: a call has spoilt the capture that
     * was. */
    int (*capture)(void *stream, enum mock_capture capture);
    /** What this thread has said of captures; 0: nothing. */
    int (*capture_mode)(void);
    /** A stream takes @p most things (0: any number); who gives it more waits until it has done
     * one. */
    void (*queue)(int most);
    /** Streams of one context and priority are one queue: what they are given behind a wait for the
     * host that another was given before waits, too. */
    void (*one_queue)(int is_one);
    /** How many threads wait for that, or for all streams of a context. */
    int (*blocked)(void);
    /** Before each thing that a stream does it waits, up to @p most_us, drawn from @p seed. */
    void (*delays)(unsigned seed, int most_us);
    /** To lock pages and to unlock them waits until all streams of the context are through, as
     * drivers may. */
    void (*lock_slowly)(int slowly);
    /** No stream begins anything until that is taken back. */
    void (*hold)(int held);
    /** No function of the host's is called for a stream until that is taken back. */
    void (*mute)(int muted);
    /** Of copies of streams to the host, @p most are begun from now on; the others once something
     * was copied from it. */
    void (*pace)(int most);
    /** The nth thing that any stream does from now ends the device with @p result. */
    void (*fail_async)(int nth, int result);
    /** Whether its devices give dma-bufs of their memory, and how they order what others write. */
    void (*shares)(int has_dma_buf, int ordering);
};

/** From here on this process sees, in a name space of its own, a /sys where the devices are at
 * those NUMA nodes. False, and errno: it may not. */
bool mock_cuda_at_nodes(int first, int second);
/** Loads it into this process; ends it if that fails. */
const struct mock_cuda *mock_cuda_load(void);
/** Memory of @p kind that will hold @p bytes bytes from @p from once its context was waited for. */
void *mock_cuda_copy(const struct mock_cuda *mock, enum mock_kind kind, int device,
                     const void *from, size_t bytes);

#endif
