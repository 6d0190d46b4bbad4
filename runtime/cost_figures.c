// SPDX-License-Identifier: Apache-2.0
// Owns the built-in figures, by which plans are chosen if nobody has measured the machine
// (profile.c). Must never depend on this machine: all ranks without a profile must have the same
// figures.
#include "runtime/cost.h"

static const double GUESSED_WIRE_BYTE = 0.8;       /* 10 Gbit/s */
static const double GUESSED_RDMA_WIRE_BYTE = 0.08; /* 100 Gbit/s */

void kolo_figures_init(struct kolo_figures *figures)
{
    *figures = (struct kolo_figures){.path = {[KOLO_PATH_INPROC] = {.call = 400,
                                                                    .latency = 300,
                                                                    .message = 150,
                                                                    .byte = 0.03,
                                                                    .crowded_message = 1500},
                                              [KOLO_PATH_SHM] = {.call = 200,
                                                                 .latency = 300,
                                                                 .message = 250,
                                                                 .byte = 0.08,
                                                                 .crowded_message = 1500},
                                              [KOLO_PATH_LOOPBACK] = {.call = 2000,
                                                                      .latency = 3000,
                                                                      .message = 4000,
                                                                      .byte = 0.19,
                                                                      .crowded_message = 8000,
                                                                      .crowded_byte = 0.12},
                                              [KOLO_PATH_RDMA] = {.call = 800,
                                                                  .latency = 1500,
                                                                  .message = 400,
                                                                  .byte = 0.05,
                                                                  .crowded_message = 8000,
                                                                  .crowded_byte = 0.12},
                                              [KOLO_PATH_NETWORK] = {.call = 2000,
                                                                     .latency = 20000,
                                                                     .message = 4000,
                                                                     .byte = 0.15,
                                                                     .crowded_message = 8000,
                                                                     .crowded_byte = 0.12}},
                                     .wire_byte = GUESSED_WIRE_BYTE,
                                     .rdma_wire_byte = GUESSED_RDMA_WIRE_BYTE,
                                     .combine_byte = 0.04,
                                     .copy_byte = 0.08,
                                     .turn = 4000,
                                     .enter = 200,
                                     .flag = 200,
                                     .share_byte = 0.023,
                                     .remote_byte = 0.13,
                                     .far_flag = 100,
                                     .far_byte = 0.01, /* 100 GB/s */
                                     .pull_byte = 0.09};
}

bool kolo_figures_guess_line(const struct kolo_figures *figures, bool by_rdma)
{
    const double guess = by_rdma ? GUESSED_RDMA_WIRE_BYTE : GUESSED_WIRE_BYTE;
    const double byte = by_rdma ? figures->rdma_wire_byte : figures->wire_byte;
    return byte >= guess && byte <= guess;
}
