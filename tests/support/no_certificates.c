// SPDX-License-Identifier: Apache-2.0
// Keeps Criterion's processes from reading the system's certificates. Criterion compares texts by
// libgit2, which parses them with Mbed TLS whenever it is initialised, and Criterion executes the
// program again for each of its tests: that was half of a short test's processor time. A
// definition in the program comes before that of the library. Without Mbed TLS nobody calls it.

__attribute__((visibility("default"))) int mbedtls_x509_crt_parse_file(void *chain,
                                                                       const char *path);

int mbedtls_x509_crt_parse_file(void *chain, const char *path)
{
    (void)chain, (void)path;
    return 0; /* no certificate could not be parsed */
}
