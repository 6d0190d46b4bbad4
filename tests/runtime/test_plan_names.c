// SPDX-License-Identifier: Apache-2.0
// runtime/plan_names.c: it knows the names that the table of plans has, and no others.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "runtime/plan.h"

Test(plan_names, are_those_of_the_table)
{
    char expected[512] = "KOLO_PLAN=rin: there is no such plan; use one of auto";
    cr_expect(kolo_plan_check("auto") == KOLO_OK);
    for (size_t i = 0, first = 0; i < KOLO_PLANS; first = 0, i++) {
        const char *name = kolo_plans[i]->name;
        size_t used = strlen(expected);
        cr_expect(kolo_plan_check(name) == KOLO_OK, "%s", name);
        while (strcmp(kolo_plans[first]->name, name) != 0)
            first++;
        if (first == i)
            snprintf(expected + used, sizeof expected - used, ", %s", name);
    }
    cr_expect(kolo_plan_check("rin") == KOLO_ERR_CONFIG);
    cr_expect(strcmp(kolo_error_detail(), expected) == 0, "%s\ninstead of\n%s", kolo_error_detail(),
              expected);
    cr_expect(kolo_plan_check("") == KOLO_ERR_CONFIG);
}
