#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every <folder>/<file>.c has a tests/<folder>/test_<file>.c, or a line in
# tests/checks/untested.txt that says why not and what covers it. A line that is no longer needed is
# a violation too.
source "$(dirname "$0")/common.sh"
list=tests/checks/untested.txt

for file in $(files_in "*.c" "${library_folders[@]}" tools launcher); do
    test=tests/$(dirname "$file")/test_$(basename "$file")
    if [[ -f $test ]]; then
        ! grep -q "^$file:" "$list" || violation "$list: $file has a test now; remove its line"
    elif ! reason_in "$list" "$file"; then
        violation "$file:1: no $test; write it, or give a reason in $list"
    fi
done
while IFS=: read -r file reason; do
    [[ $file == '#'* || -z $file || -f $file ]] || violation "$list: $file does not exist; remove its line"
done <"$list"
finish "every file has its test or its reason"
