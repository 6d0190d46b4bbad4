#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: device_names.sh SOURCE_TREE NVCC
# Checks that no name in the CUDA kernels depends on the source folder: nvcc puts a hash of the
# path into names of static functions that are not inlined.
nvcc=${2:?usage: $0 SOURCE_TREE NVCC}
source "$(dirname "$0")/common.sh"
command -v "$nvcc" >/dev/null || skip "there is no nvcc here"

ptx=$(timeout 300 "$nvcc" -ptx -std=c++17 -I. -arch=compute_75 -o - memory/cuda_kernels.cu) ||
    violation "memory/cuda_kernels.cu: $nvcc cannot compile it"
names=$(grep -oE '[a-zA-Z0-9_]+_INTERNAL_[a-zA-Z0-9_]+' <<<"$ptx" | sort -u) || true
[[ -z $names ]] || violation "memory/cuda_kernels.cu: these functions are static: $names"
finish "the kernels have the same names in every source folder"
