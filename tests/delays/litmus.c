// SPDX-License-Identifier: Apache-2.0
// Whether the delays do what they are for, by the usual litmus tests of two threads. Two threads
// that each store and then load the other's variable may both miss the other's store if the order
// is release and acquire, and must not if it is sequentially consistent; and data that is released
// is there for whoever acquires it.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum { ROUNDS = 3000, ROUNDS_MOST = 300000, TESTS = 3, BUFFERED = 0, ORDERED = 1, PASSED_ON = 2 };

static _Atomic int variables[2], arrived[2];
static int data, results[2];

/** Waits until both threads have come to @p step. */
static void meet(int self, int step)
{
    atomic_store(&arrived[self], step);
    while (atomic_load(&arrived[1 - self]) < step)
        ;
}

static void buffered(int self, int round)
{
    atomic_store_explicit(&variables[self], round, memory_order_release);
    results[self] = atomic_load_explicit(&variables[1 - self], memory_order_acquire) == round;
}

static void ordered(int self, int round)
{
    atomic_store(&variables[self], round);
    results[self] = atomic_load(&variables[1 - self]) == round;
}

/** Thread 0 passes data on; thread 1 has missed nothing if it sees no flag, or the data too. */
static void passed_on(int self, int round)
{
    results[self] = 1;
    if (self == 0) {
        data = round;
        atomic_store_explicit(&variables[0], round, memory_order_release);
    } else {
        const int seen = atomic_load_explicit(&variables[0], memory_order_acquire);
        results[1] = seen != round || data == round;
    }
}

static void (*const tests[TESTS])(int self, int round) = {buffered, ordered, passed_on};
static int missed[TESTS], rounds[TESTS];

/** Whether @p test goes on: the first one until something has been missed. */
static bool goes_on(int test)
{
    return rounds[test] < ROUNDS ||
           (test == BUFFERED && missed[test] == 0 && rounds[test] < ROUNDS_MOST);
}

static void *run(void *argument)
{
    const int self = argument != NULL;
    int step = 0;
    for (int test = 0; test < TESTS; test++)
        for (int round = 1; goes_on(test); round++) {
            variables[self] = 0;
            meet(self, ++step);
            tests[test](self, round);
            meet(self, ++step);
            if (self == 0) {
                missed[test] += test == PASSED_ON ? !results[1] : !results[0] && !results[1];
                rounds[test] = round;
            }
            meet(self, ++step);
        }
    return NULL;
}

int main(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, run, &data) != 0)
        return 2;
    run(NULL);
    pthread_join(other, NULL);
    printf("both missed the other's store: %d of %d times (release), %d of %d (sequentially "
           "consistent); released data was missing: %d of %d\n",
           missed[BUFFERED], rounds[BUFFERED], missed[ORDERED], rounds[ORDERED], missed[PASSED_ON],
           rounds[PASSED_ON]);
    return missed[BUFFERED] > 0 && missed[ORDERED] == 0 && missed[PASSED_ON] == 0 ? 0 : 1;
}
