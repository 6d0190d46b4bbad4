#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that no line of a source in C, C++ or CUDA is longer than 100 columns. That includes
# comments, which clang-format does not wrap. Tables between "clang-format off" and "on", and .def
# files, may have longer lines.
source "$(dirname "$0")/common.sh"
longest=100

mapfile -t files < <(for pattern in '*.[ch]' '*.cc' '*.cu' '*.h.in'; do
    files_in "$pattern" include "${library_folders[@]}" tools launcher bench evaluate examples tests
done)
while IFS= read -r line; do [[ -z $line ]] || violation "$line"; done < <(awk -v longest=$longest '
    FNR == 1 || /clang-format on/ { is_table = 0 }
    /clang-format off/ { is_table = 1 }
    !is_table && length > longest { printf "%s:%d: %d columns; at most %d\n", FILENAME, FNR, length, longest }' "${files[@]}" /dev/null)
finish "${#files[@]} sources of lines of at most $longest columns"
