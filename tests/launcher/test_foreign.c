// SPDX-License-Identifier: Apache-2.0
// The options of other launchers: each is refused with what kolorun has instead.
#include <string.h>

#include <criterion/criterion.h>

#include "launcher/foreign.h"
#include "launcher/options.h"

static void advises(const char *word, const char *part)
{
    const char *advice = kolo_foreign_advice(word);
    cr_assert(advice && strstr(advice, part), "%s: %s", word, advice ? advice : "(none)");
}

Test(foreign, knows_habits)
{
    advises("-c", "-np N");
    advises("-N", "-H HOST:SLOTS");
    advises("--nproc_per_node=4", "-H HOST:SLOTS");
    advises("--nproc-per-node", "-H HOST:SLOTS");
    advises("-wdir", "--chdir");
    advises("--output-filename=x", "--output-dir DIR");
    advises("--master_addr", "leave it out");
    advises("--no-python", "leave it out");
    advises("-N2", "-H HOST:SLOTS");
    advises("-c4", "-np N");
    advises("-t10:00", "--timeout TIME");
    cr_assert_null(kolo_foreign_advice("--ppnn"));
    cr_assert_null(kolo_foreign_advice("-pp"));
    cr_assert_null(kolo_foreign_advice("--"));
    cr_assert_null(kolo_foreign_advice("-n"));
    cr_assert_null(kolo_foreign_advice("-n2"));
    cr_assert_null(kolo_foreign_advice("-np2"));
    cr_assert_null(kolo_foreign_advice("--ppn2"));
}

/** What is advised must not be an option that kolorun takes: it would never be seen. */
Test(foreign, is_refused_by_the_command_line)
{
    static char words[][16] = {"-c",           "-N",     "-ppn",         "--nnodes",
                               "-machinefile", "--wdir", "--tag-output", "--standalone",
                               "-genv",        "--mca",  "-t",           "-l",
                               "-f",           "-w",     "-D",           "--output",
                               "--output=x",   "-N2",    "-t10",         "-output"};
    static char value[] = "1", program[] = "p";
    static char *const no_environment[] = {NULL};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct kolo_options options;
        char *const argv[] = {words[i], value, program, NULL};
        cr_assert_eq(kolo_options_parse(argv, no_environment, NULL, &options), KOLO_ERR_INVALID);
        cr_assert(strstr(kolo_error_detail(), kolo_foreign_advice(words[i])), "%s",
                  kolo_error_detail());
        kolo_options_fini(&options);
    }
}
