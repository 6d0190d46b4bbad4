// SPDX-License-Identifier: Apache-2.0
// The .init and .fini of test suites for links over RDMA devices in memory. They install the
// devices, collect the warnings since the test began in `logged`, and check at the end that nothing
// is left on the devices.
#ifndef KOLO_TESTS_SUPPORT_FAKE_FIXTURE_H
#define KOLO_TESTS_SUPPORT_FAKE_FIXTURE_H

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tests/support/fake_verbs.h"

static char logged[65536];
static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    pthread_mutex_lock(&logged_lock); /* both ranks may log at the same time */
    size_t used = strlen(logged);
    if (level <= KOLO_LOG_WARN)
        snprintf(logged + used, sizeof logged - used, "%s\n", line);
    pthread_mutex_unlock(&logged_lock);
}

static void begin(void)
{
    fake_verbs_install();
    logged[0] = '\0';
    kolo_log_set_sink(keep_line, NULL);
}

static void end(void)
{
    kolo_log_set_sink(NULL, NULL);
    fake_verbs_uninstall();
    cr_assert(fake_verbs_living() == 0, "%d left on the devices", fake_verbs_living());
    cr_assert(fake_verbs_not_ready() == 0, "%d times no place was ready", fake_verbs_not_ready());
}

#endif
