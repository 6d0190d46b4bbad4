// SPDX-License-Identifier: Apache-2.0
// transport/lookup.c: names that are answered, refused, and not answered in time.
#include "transport/lookup.h"

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/support/await.h"
#include "tests/support/fake_names.h"

/** Looks up @p host and asserts that its first address is @p address. */
static void expect(const char *host, kolo_deadline deadline, const char *address)
{
    struct addrinfo *found;
    char text[INET6_ADDRSTRLEN];

    cr_assert(kolo_lookup(host, "4711", deadline, &found) == KOLO_OK, "%s: %s", host,
              kolo_error_detail());
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)found->ai_addr;
    cr_assert(found->ai_family == AF_INET && found->ai_socktype == SOCK_STREAM);
    cr_assert(ntohs(v4->sin_port) == 4711);
    cr_assert_str_eq(inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text), address);
    freeaddrinfo(found);
}

static void expect_failure(const char *host, kolo_deadline deadline, kolo_status status,
                           const char *detail)
{
    struct addrinfo *found = (struct addrinfo *)1;

    cr_assert(kolo_lookup(host, "1", deadline, &found) == status, "%s", host);
    cr_assert(found == NULL);
    cr_assert(strstr(kolo_error_detail(), detail), "%s: %s", host, kolo_error_detail());
}

Test(lookup, a_name_is_found, .timeout = 60)
{
    expect("quick.example", KOLO_NEVER, "10.0.0.9");
    expect("quick.example", kolo_deadline_in_ms(50000), "10.0.0.9");
    cr_assert(fake_names_unfreed() == 0);
}

Test(lookup, an_address_needs_no_time)
{
    expect("10.0.0.7", 0, "10.0.0.7");
    expect_failure("quick.example", 0, KOLO_ERR_CONNECT, "\"quick.example\"");
}

Test(lookup, a_failure_names_the_host, .timeout = 60)
{
    expect_failure("missing.example", KOLO_NEVER, KOLO_ERR_CONNECT, "\"missing.example\": ");
    expect_failure("broken.example", KOLO_NEVER, KOLO_ERR_CONNECT,
                   "\"broken.example\": Operation not permitted");
    expect_failure("full.example", KOLO_NEVER, KOLO_ERR_NO_MEMORY, "\"full.example\"");
}

Test(lookup, a_late_answer_is_freed, .timeout = 60)
{
    expect_failure("silent.example", kolo_deadline_in_ms(20), KOLO_ERR_CONNECT,
                   "\"silent.example\": no answer by the deadline");
    cr_assert(AWAIT(fake_names_asked() == 1));
    cr_assert(fake_names_given() == 0);
    fake_names_answer();
    cr_assert(AWAIT(fake_names_given() == 1 && fake_names_unfreed() == 0));
}
