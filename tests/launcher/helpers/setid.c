// SPDX-License-Identifier: Apache-2.0
// For setid.sh, which gives its file the rights of another group: says what world kolo_init makes
// of the environment, and of a struct kolo_config. Must never be linked to libkolo.so, which a
// folder that the system's loader does not trust could not give it then.
#include <stdio.h>

#include "kolo/kolo.h"

static int join(const char *how, const struct kolo_config *config)
{
    struct kolo_comm *comm = NULL;
    kolo_status status = kolo_init(config, &comm);
    if (status == KOLO_OK)
        printf("%s: rank %d of %d\n", how, kolo_rank(comm), kolo_size(comm));
    else
        printf("%s: %s: %s\n", how, kolo_status_name(status), kolo_error_detail());
    (void)kolo_finalize(comm);
    return status != KOLO_OK;
}

int main(void)
{
    const char *const settings[] = {"KOLO_RANK=0", "KOLO_SIZE=1", NULL};
    const struct kolo_config config = {.size = sizeof config, .settings = settings};
    return join("environment", NULL) + join("config", &config);
}
