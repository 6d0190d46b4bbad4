#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No line of a source in C or CUDA is longer than 100 columns, comments included, which clang-format does not fold. Tables that
# it leaves alone (clang-format off), and .def files, may have longer rows.
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
