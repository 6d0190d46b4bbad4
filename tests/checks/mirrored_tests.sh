#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every <folder>/<file>.c has its tests/<folder>/test_<file>.c, or tests/checks/untested.txt says why not and what covers
# it. An entry that is not needed any more is a violation too.
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
