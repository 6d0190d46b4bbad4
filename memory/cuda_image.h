// SPDX-License-Identifier: Apache-2.0
// The kernels in the form that the driver loads: a fatbin made by the build (cmake/KoloCuda.cmake).
#ifndef KOLO_MEMORY_CUDA_IMAGE_H
#define KOLO_MEMORY_CUDA_IMAGE_H

extern const unsigned char kolo_cuda_image[];
/** 0: this build has no kernels. */
extern const unsigned long long kolo_cuda_image_bytes;

#endif
