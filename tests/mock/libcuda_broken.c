// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that does not let go who loads it: MOCK_CUDA_BROKEN says whether it kills the
// process (abort), or ends it as if all were well (exit); otherwise it hangs.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void keep(void)
{
    const char *how = getenv("MOCK_CUDA_BROKEN");
    if (how && strcmp(how, "abort") == 0)
        abort();
    if (how && strcmp(how, "exit") == 0)
        exit(0);
    for (;;)
        pause();
}
