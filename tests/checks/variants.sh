#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: variants.sh SOURCE_TREE GENERATED COMPILER...
# Checks that the variants for instruction sets also compile if the builder's flags allow more than
# a variant is for, as -march=native does on a processor with AVX-512.
generated=$(realpath "${2:?usage: $0 SOURCE_TREE GENERATED COMPILER...}")
compiler=("${@:3}")
source "$(dirname "$0")/common.sh"
compiles() { "${compiler[@]}" -march=x86-64-v4 -std=gnu17 -D_GNU_SOURCE -I. -Iinclude -I"$generated" -fsyntax-only "$@"; }
compiles -x c /dev/null 2>/dev/null || skip "${compiler[*]} does not know -march=x86-64-v4"

for name in base/checksum_c memory/reduce_c; do
    compiles "$name.c" || violation "$name.c: does not compile with -march=x86-64-v4"
    compiles -mavx2 -mf16c "${name%_c}_avx2.c" || violation "${name%_c}_avx2.c: does not compile with -march=x86-64-v4"
    compiles -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c "${name%_c}_avx512.c" ||
        violation "${name%_c}_avx512.c: does not compile with -march=x86-64-v4"
done
finish "the variants compile with -march=x86-64-v4"
