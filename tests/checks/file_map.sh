#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that "Files" in ARCHITECTURE.md names every source file under its folder, and no file that
# does not exist.
source "$(dirname "$0")/common.sh"
map=ARCHITECTURE.md
[[ -e $map ]] || { violation "$map:1: there is none; write it"; finish; }

# One path:line for every `NAME.c` in the list of each `FOLDER/`.
named=$(awk '
/^## / { in_files = $0 == "## Files" }
in_files && /^`[a-z\/]+\/`/ { split($0, part, "`"); folder = part[2] }
in_files && /^- `/ {
    rest = $0; sub(/:.*/, "", rest)
    while (match(rest, /`[^` ]+\.(c|cc)`/)) {
        print folder substr(rest, RSTART + 1, RLENGTH - 2) ":" FNR
        rest = substr(rest, RSTART + RLENGTH)
    }
}' "$map")
mapfile -t files < <(files_in '*.c' "${library_folders[@]}" tools launcher evaluate bench examples)
for file in "${files[@]}"; do
    grep -q "^$file:" <<<"$named" || violation "$file:1: $map does not name it under Files; add it, with what it owns"
done
while IFS=: read -r file line; do
    [[ -z $file || -f $file ]] || violation "$map:$line: $file does not exist; remove it"
done <<<"$named"
finish "${#files[@]} source files are on the map"
