// SPDX-License-Identifier: Apache-2.0
// Which devices each rank sees, on simulated hosts (folders).
#include <criterion/criterion.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/gpus.h"

static char root[64];

static void write_file(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        cr_assert(mkdir(whole, 0700) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(whole, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

/** As the driver writes it; @p node "": the firmware does not report it. */
static void add_device(const char *address, const char *bus, const char *uuid, const char *node)
{
    char path[256], text[512];
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", address);
    snprintf(text, sizeof text,
             "Model: \t\t NVIDIA H200\nIRQ:   \t\t 193\nGPU UUID: \t %s\nVideo BIOS: \t 96.00\n",
             uuid);
    write_file(path, text);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus);
    if (node[0] != '\0')
        write_file(path, node);
}

static void begin(void)
{
    snprintf(root, sizeof root, "/tmp/test-gpus-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void end(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(gpus, .init = begin, .fini = end);

/** Four devices, two at each of two nodes, in no particular order. */
static void make_host(void)
{
    add_device("0000:c1:00.0", "0000:c1:00.0", "GPU-cc", "1\n");
    add_device("0000:01:00.0", "0000:01:00.0", "GPU-aa", "0\n");
    add_device("0000:E1:00.0", "0000:e1:00.0", "GPU-dd", "1\n");
    add_device("0000:41:00.0", "0000:41:00.0", "GPU-bb", "0\n");
}

static void expect_words(const struct kolo_texts *texts, int ranks, const char *wanted)
{
    char got[4096] = "";
    cr_assert((int)texts->count == ranks);
    for (int i = 0; i < ranks; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? " " : "",
                 texts->at[i]);
    cr_assert_str_eq(got, wanted);
}

static const char *order; /* CUDA_DEVICE_ORDER */

/** "aa bb,cc": one word per rank; also checks @p addresses, unless NULL. */
static void expect_at(const char *visible, int each, const int *nodes, int ranks,
                      const char *wanted, const char *addresses)
{
    struct kolo_gpus gpus;
    struct kolo_gpu_shares shares = {.names = {.at = NULL}};
    cr_assert(kolo_gpus_find(root, visible, order, &gpus) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_gpus_deal(&gpus, each, nodes, ranks, &shares) == KOLO_OK, "%s",
              kolo_error_detail());
    expect_words(&shares.names, ranks, wanted);
    if (addresses)
        expect_words(&shares.addresses, ranks, addresses);
    kolo_gpu_shares_fini(&shares);
    kolo_gpus_fini(&gpus);
}

static void expect(const char *visible, int each, const int *nodes, int ranks, const char *wanted)
{
    expect_at(visible, each, nodes, ranks, wanted, NULL);
}

Test(gpus, go_round_where_nobody_is_bound)
{
    make_host();
    expect(NULL, 1, NULL, 4, "GPU-aa GPU-bb GPU-cc GPU-dd");
    expect(NULL, 1, NULL, 6, "GPU-aa GPU-bb GPU-cc GPU-dd GPU-aa GPU-bb");
    expect(NULL, 2, NULL, 3, "GPU-aa,GPU-bb GPU-cc,GPU-dd GPU-aa,GPU-bb");
    expect(NULL, 4, (const int[]){-1, -1}, 2,
           "GPU-aa,GPU-bb,GPU-cc,GPU-dd GPU-aa,GPU-bb,GPU-cc,GPU-dd");
}

Test(gpus, are_near_the_ranks_that_are_bound)
{
    make_host();
    expect(NULL, 1, (const int[]){1, 0, 1, 0}, 4, "GPU-cc GPU-aa GPU-dd GPU-bb");
    expect(NULL, 2, (const int[]){1, 0}, 2, "GPU-cc,GPU-dd GPU-aa,GPU-bb");
    expect(NULL, 1, (const int[]){0, 0, 0, 0, 1, 1, 1, 1}, 8,
           "GPU-aa GPU-bb GPU-aa GPU-bb GPU-cc GPU-dd GPU-cc GPU-dd");
    /* More than the node has: no rank gets a device twice, and the others are from another node. */
    expect(NULL, 3, (const int[]){0, 0}, 2, "GPU-aa,GPU-bb,GPU-cc GPU-aa,GPU-bb,GPU-dd");
    /* A node without devices, and one with more ranks than its share. */
    expect(NULL, 1, (const int[]){5, 0, 0, 0}, 4, "GPU-aa GPU-bb GPU-cc GPU-dd");
}

Test(gpus, are_those_that_the_environment_leaves)
{
    make_host();
    expect("GPU-dd,GPU-aa", 1, NULL, 2, "GPU-dd GPU-aa");
    expect("GPU-dd,GPU-aa", 1, (const int[]){0, 1}, 2, "GPU-aa GPU-dd");
    /* numbers do not say where a device is */
    expect(" 3 , 2,1", 1, (const int[]){0, 1, 0}, 3, "3 2 1");
    expect("2,-1,3", 1, NULL, 2, "2 2");
    expect("2,,3", 1, NULL, 2, "2 2");
    expect("MIG-GPU-aa/1/0", 1, NULL, 1, "MIG-GPU-aa/1/0");
    /* CUDA ignores what follows an entry that it does not know */
    expect("2,NoDevFiles,3", 1, NULL, 2, "2 2");
    expect("2,3x,3", 1, NULL, 2, "2 2");
    expect("2,GPU-,3", 1, NULL, 2, "2 2");
}

/** In lower case, as in /sys. */
Test(gpus, say_where_the_first_of_each_rank_is)
{
    make_host();
    expect_at(NULL, 1, NULL, 4, "GPU-aa GPU-bb GPU-cc GPU-dd",
              "0000:01:00.0 0000:41:00.0 0000:c1:00.0 0000:e1:00.0");
    expect_at(NULL, 2, (const int[]){1, 0}, 2, "GPU-cc,GPU-dd GPU-aa,GPU-bb",
              "0000:c1:00.0 0000:01:00.0");
    expect_at("GPU-dd,GPU-aa", 1, NULL, 2, "GPU-dd GPU-aa", "0000:e1:00.0 0000:01:00.0");
    expect_at("3,2", 1, NULL, 2, "3 2", " ");
    order = "FASTEST_FIRST";
    expect_at("3,2", 1, NULL, 2, "3 2", " ");
    order = "PCI_BUS_ID";
    expect_at("3,1", 1, NULL, 2, "3 1", "0000:e1:00.0 0000:41:00.0");
    expect_at("3,1", 1, (const int[]){0, 1}, 2, "1 3", "0000:41:00.0 0000:e1:00.0");
    expect_at("4,99999999999999999999,GPU-cc", 1, NULL, 3, "4 99999999999999999999 GPU-cc",
              "  0000:c1:00.0"); /* no device has that number */
    order = NULL;
}

Test(gpus, that_are_not_there_are_an_error)
{
    struct kolo_gpus gpus;
    struct kolo_gpu_shares shares = {.names = {.at = NULL}};
    static const char *const none[] = {NULL, "", "-1", ","};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        cr_assert(kolo_gpus_find(root, none[i], NULL, &gpus) == KOLO_OK);
        cr_assert(kolo_gpus_deal(&gpus, 1, NULL, 1, &shares) == KOLO_ERR_UNSUPPORTED);
        cr_assert(strstr(kolo_error_detail(), "this host has 0 NVIDIA devices"), "%s",
                  kolo_error_detail());
        kolo_gpus_fini(&gpus);
    }
    make_host();
    cr_assert(kolo_gpus_find(root, NULL, NULL, &gpus) == KOLO_OK);
    cr_assert(kolo_gpus_deal(&gpus, 5, NULL, 1, &shares) == KOLO_ERR_UNSUPPORTED);
    cr_assert(shares.names.count == 0 && shares.addresses.count == 0);
    kolo_gpus_fini(&gpus);
}

Test(gpus, that_cuda_would_not_know_are_named)
{
    struct kolo_gpus gpus;
    struct kolo_gpu_shares shares = {.names = {.at = NULL}};
    static const struct {
        const char *visible, *wanted;
    } bad[] = {
        {"NoDevFiles", "this host has 0 NVIDIA devices to give out: CUDA_VISIBLE_DEVICES ends, "
                       "for CUDA, at 'NoDevFiles', which is no number"},
        {" 1, gpu0,2", "this host has 1 NVIDIA device to give out: CUDA_VISIBLE_DEVICES ends, "
                       "for CUDA, at 'gpu0'"},
        {"MIG-", "at 'MIG-'"}};
    make_host();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert(kolo_gpus_find(root, bad[i].visible, NULL, &gpus) == KOLO_OK);
        cr_assert(kolo_gpus_deal(&gpus, 2, NULL, 1, &shares) == KOLO_ERR_UNSUPPORTED);
        cr_assert(strstr(kolo_error_detail(), bad[i].wanted), "%s", kolo_error_detail());
        kolo_gpus_fini(&gpus);
    }
}

Test(gpus, whose_files_say_nothing_are_left_out)
{
    char longest[200];
    struct kolo_gpus gpus;
    add_device("0000:01:00.0", "0000:01:00.0", "", "");
    add_device("0000:02:00.0", "0000:02:00.0", "GPU-ee", "-1\n");
    write_file("/proc/driver/nvidia/gpus/0000:03:00.0/registry", "");
    expect(NULL, 1, (const int[]){0}, 1, "GPU-ee");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "GPU-", 4);
    cr_assert(kolo_gpus_find(root, longest, NULL, &gpus) == KOLO_ERR_CONFIG);
    kolo_gpus_fini(&gpus);
}
