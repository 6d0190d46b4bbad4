// SPDX-License-Identifier: Apache-2.0
// Owns the check of KOLO_PLAN, with the names of plans in the order of the table. kolorun checks
// settings too: because the names are here once more, it need not contain the plans.
#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {"auto",          "ring",    "doubling", "tree",      "direct",
                                    "dissemination", "flat",    "oneshot",  "twoshot",   "spread",
                                    "bruck",         "halving", "twolevel", "scattered", "binary",
                                    "numa",          "leaders", "nested"};

kolo_status kolo_plan_check(const char *name)
{
    char known[256] = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t used = strlen(known);
        if (strcmp(names[i], name) == 0)
            return KOLO_OK;
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return kolo_fail(KOLO_ERR_CONFIG, "KOLO_PLAN=%s: there is no such plan; use one of %s", name,
                     known);
}
