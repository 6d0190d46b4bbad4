#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that no .c file of the library, tools, the launcher and evaluate has an #if: a backend is a
# file that is compiled or not. conditionals.txt lists the exceptions as "path: reason".
source "$(dirname "$0")/common.sh"
list=tests/checks/conditionals.txt

mapfile -t files < <(files_in '*.c' "${library_folders[@]}" tools launcher evaluate)
while IFS=: read -r file line rest; do
    [[ -n $file ]] || continue
    reason_in "$list" "$file" ||
        violation "$file:$line: a conditional ($rest); make it a file of its own, or give a reason in $list"
done < <(code_of "${files[@]}" | grep -E ':[0-9]+: *# *(if|ifdef|ifndef|elif|else)\b' || true)
finish "${#files[@]} files without conditionals"
