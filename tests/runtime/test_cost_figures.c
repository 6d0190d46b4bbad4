// SPDX-License-Identifier: Apache-2.0
// The built-in figures are complete, and each path has a name of its own.
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "runtime/cost.h"

Test(cost_figures, each_path_has_a_word_of_its_own)
{
    for (int i = 0; i < KOLO_PATHS; i++)
        for (int j = 0; j < i; j++)
            cr_assert(strcmp(kolo_path_text((enum kolo_path)i), kolo_path_text((enum kolo_path)j)),
                      "%d and %d", i, j);
    cr_assert(strcmp(kolo_path_text(KOLO_PATHS), "?") == 0);
    cr_assert(strcmp(kolo_path_text((enum kolo_path) - 1), "?") == 0);
}

/* A figure of 0 would make something free, and the plan that uses most of it the best. */
Test(cost_figures, nothing_is_free_but_crowds)
{
    struct kolo_figures figures;
    memset(&figures, 0xff, sizeof figures);
    kolo_figures_init(&figures);
#define LOOK(name, what) cr_assert(isfinite(figures.name) && figures.name > 0, #name);
    KOLO_HOST_FIGURE_MAP(LOOK)
#undef LOOK
    for (int i = 0; i < KOLO_PATHS; i++) {
        const struct kolo_path_figures *path = &figures.path[i];
        const char *text = kolo_path_text((enum kolo_path)i);
        cr_assert(path->call > 0 && path->latency > 0, "%s", text);
        cr_assert(path->message > 0 && path->byte > 0, "%s", text);
        cr_assert(path->crowded_message >= 0 && path->crowded_byte >= 0, "%s", text);
    }
}

Test(cost_figures, say_whether_the_line_was_measured)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    cr_assert(kolo_figures_guess_line(&figures, false));
    figures.wire_byte *= 1.01;
    cr_assert_not(kolo_figures_guess_line(&figures, false), "somebody measured it");
    cr_assert(kolo_figures_guess_line(&figures, true));
    figures.rdma_wire_byte *= 1.01;
    cr_assert_not(kolo_figures_guess_line(&figures, true), "somebody measured it");
}
