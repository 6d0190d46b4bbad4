// SPDX-License-Identifier: Apache-2.0
// The table of libibverbs: the error text if it cannot be loaded, and that it can be replaced.
// tests/vm/rdma.sh uses the real library.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/fake_verbs.h"

Test(rdma_verbs, a_library_that_is_not_there_is_named_with_its_package)
{
    struct kolo_verbs verbs = {.post_send = NULL};
    cr_assert(kolo_verbs_bind("libkolo-nothing.so.1", &verbs) == KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "libkolo-nothing.so.1 cannot be loaded"), "%s",
              kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "libibverbs1"), "%s", kolo_error_detail());
    cr_assert(verbs.post_send == NULL);
}

Test(rdma_verbs, a_library_without_a_function_is_named_with_it)
{
    struct kolo_verbs verbs = {.post_send = NULL};
    cr_assert(kolo_verbs_bind("libc.so.6", &verbs) == KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "libc.so.6 has no ibv_fork_init"), "%s",
              kolo_error_detail());
    cr_assert(verbs.post_send == NULL);
}

Test(rdma_verbs, a_table_takes_the_place_of_the_library)
{
    const struct kolo_verbs *first = NULL, *second = NULL;
    kolo_verbs_replace(fake_verbs_table());
    cr_assert(kolo_verbs_load(&first) == KOLO_OK && first == fake_verbs_table());
    kolo_verbs_replace(NULL);
    kolo_status status = kolo_verbs_load(&first);
    cr_assert(status == kolo_verbs_load(&second), "the same answer twice");
    if (status == KOLO_OK)
        cr_assert(first == second && first != fake_verbs_table() && first->create_qp);
    else
        cr_assert(strstr(kolo_error_detail(), "libibverbs") ||
                      strstr(kolo_error_detail(), "no RDMA device on this host"),
                  "%s", kolo_error_detail());
}
