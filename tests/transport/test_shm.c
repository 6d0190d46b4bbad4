// SPDX-License-Identifier: Apache-2.0
// The conformance suite over shm; links leave nothing when they close.
#include "tests/support/shm_side.h"
#include "tests/support/transport_suite.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

KOLO_TRANSPORT_SUITE(shm, shm)

Test(shm, comes_up_when_one_dials_and_when_both_do, .timeout = 60)
{
    for (int both = 0; both < 2; both++) {
        struct shm_side sides[2] = {0};
        char text[256];
        shm_pair_up(sides, both);
        kolo_link_describe(sides[0].link, text, sizeof text);
        cr_assert(strncmp(text, "shm ", 4) == 0 && strstr(text, " pid "), "%s", text);
        shm_pair_close(sides);
    }
}

Test(shm, leaves_no_descriptor_and_no_mapping, .timeout = 60)
{
    int fds = shm_count_fds(), maps = shm_count_maps();
    uint8_t *dst = malloc(MIB);
    for (int round = 0; round < 5; round++) {
        struct shm_side sides[2] = {0};
        void *lent;
        shm_pair_up(sides, round % 2 == 0);
        cr_assert(kolo_heap_alloc(sides[0].heap, MIB, &lent) == KOLO_OK);
        shm_transfer(sides, 0, lent, dst, MIB);
        cr_assert(shm_count_maps() > maps);
        shm_pair_close(sides);
        cr_assert(shm_count_fds() == fds, "%d descriptors left", shm_count_fds() - fds);
        cr_assert(shm_count_maps() == maps, "%d mappings left", shm_count_maps() - maps);
    }
    free(dst);
}
