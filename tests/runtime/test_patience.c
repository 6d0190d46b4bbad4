// SPDX-License-Identifier: Apache-2.0
// When waits spin: what single outcomes teach, and that two ranks on one core do not keep it from
// each other although each could have its own.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "runtime/local.h"
#include "runtime/patience.h"
#include "tests/support/world.h"

enum { SPIN_NS = 50000, SHORT_NS = 2000, LONG_NS = 3000000 };

/** Makes waits whose first yields take @p took_ns and help, until one spins. Returns how many came
 * before that one, which has not yielded yet. */
static int waits_before_a_spin(struct kolo_patience *patience, int64_t took_ns)
{
    int waits = 0;
    for (; kolo_patience_begin(patience) == 0; waits++) {
        cr_assert(kolo_patience_is_short(patience));
        kolo_patience_yielded(patience, took_ns, true);
    }
    cr_assert(!kolo_patience_is_short(patience), "it spins, but looks as if it did not");
    return waits;
}

static struct kolo_patience on_a_shared_core(void)
{
    struct kolo_patience patience = {.spin_ns = SPIN_NS, .learns = true};
    cr_assert_eq(kolo_patience_begin(&patience), SPIN_NS, "the first wait");
    kolo_patience_yielded(&patience, SHORT_NS, true);
    return patience;
}

Test(patience, a_yield_that_helps_ends_spinning_for_ever_longer)
{
    struct kolo_patience patience = on_a_shared_core();
    for (int period = KOLO_PATIENCE_LEAST; period <= KOLO_PATIENCE_MOST; period *= 2) {
        cr_assert_eq(waits_before_a_spin(&patience, SHORT_NS), period);
        kolo_patience_yielded(&patience, SHORT_NS, true);
    }
    cr_assert_eq(waits_before_a_spin(&patience, SHORT_NS), KOLO_PATIENCE_MOST, "it grows no more");
}

Test(patience, a_trial_that_spins_with_success_ends_the_period)
{
    struct kolo_patience patience = on_a_shared_core();
    (void)waits_before_a_spin(&patience, SHORT_NS); /* and this spin is over without a yield */
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(kolo_patience_begin(&patience), SPIN_NS);
    kolo_patience_yielded(&patience, SHORT_NS, true);
    cr_assert_eq(waits_before_a_spin(&patience, SHORT_NS), KOLO_PATIENCE_LEAST, "a new beginning");
}

Test(patience, a_yield_in_vain_teaches_nothing)
{
    struct kolo_patience patience = {.spin_ns = SPIN_NS, .learns = true};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(kolo_patience_begin(&patience), SPIN_NS);
        kolo_patience_yielded(&patience, SHORT_NS, false);
    }
    patience = on_a_shared_core();
    cr_assert_eq(kolo_patience_begin(&patience), 0);
    kolo_patience_yielded(&patience, SHORT_NS, false);
    cr_assert_eq(kolo_patience_begin(&patience), 0, "one yield in vain");
}

Test(patience, a_long_yield_makes_waits_spin)
{
    struct kolo_patience patience = {.spin_ns = SPIN_NS, .learns = true};
    cr_assert_eq(kolo_patience_begin(&patience), SPIN_NS);
    kolo_patience_yielded(&patience, LONG_NS, true);
    cr_assert_eq(kolo_patience_begin(&patience), SPIN_NS, "another program had the core");
    patience = on_a_shared_core();
    cr_assert_eq(waits_before_a_spin(&patience, LONG_NS), 1);
}

Test(patience, what_the_user_sets_stays)
{
    struct kolo_patience patience = {.spin_ns = SPIN_NS};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(kolo_patience_begin(&patience), SPIN_NS);
        kolo_patience_yielded(&patience, SHORT_NS, true);
    }
}

/* ---- two ranks on one core ---- */

enum { BARRIERS = 2000, TIMES_MOST = 10 };

/** The first processor on which the calling thread may run. */
static bool find_first(cpu_set_t *first_out)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_ZERO(first_out);
            CPU_SET(cpu, first_out);
            return true;
        }
    return false;
}

/** Both ranks move to one core after the start. *argument: rank 0's processor time for the
 * barriers. */
static kolo_status meet_on_one_core(struct kolo_comm *comm, void *argument)
{
    int64_t *took_ns = argument;
    struct timespec begin, end;
    cpu_set_t first;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_EXPECT(find_first(&first) && sched_setaffinity(0, sizeof first, &first) == 0,
                 "no processor to move to");
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < BARRIERS; i++)
        WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    if (kolo_rank(comm) == 0)
        *took_ns =
            (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + (end.tv_nsec - begin.tv_nsec);
    return KOLO_OK;
}

ParameterizedTestParameters(patience, on_one_core)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS - 1); /* not tcp */
}
/** A spin takes some 50 times as long as a barrier between ranks that yield at once. Processor time
 * does not depend on what else runs. */
ParameterizedTest(struct world_param *param, patience, on_one_core, .timeout = 60)
{
    struct world yielding = {
        .size = 2, .transport = param->name, .settings = {"KOLO_SPIN_US=0", "KOLO_YIELD_US=1000"}};
    struct world learning = {.size = 2, .transport = param->name};
    int64_t least_ns = 0, took_ns = 0;
    if (kolo_local_cpus() < 2)
        cr_skip_test("there is only one processor, so ranks do not spin");
    WORLD_MUST_RUN(&yielding, meet_on_one_core, &least_ns);
    WORLD_MUST_RUN(&learning, meet_on_one_core, &took_ns);
    cr_assert(took_ns < TIMES_MOST * least_ns, "%d barriers took %.3f ms, without spins %.3f ms",
              BARRIERS, (double)took_ns / 1e6, (double)least_ns / 1e6);
}
