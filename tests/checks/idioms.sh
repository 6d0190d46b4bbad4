#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that what C lets one write in two ways is written in one: a pointer is itself a condition
# (`!p`; `p != NULL` is a value, or the end of `(p = f()) != NULL`), and `sizeof` has parentheses
# only around a type. Macros are left out: they put parentheses around their arguments.
source "$(dirname "$0")/common.sh"

mapfile -t sources < <(for pattern in '*.[ch]' '*.cu'; do
    files_in "$pattern" include "${library_folders[@]}" tools launcher bench evaluate examples tests
done)
code=$(mktemp)
trap 'rm -f "$code"' EXIT
code_of "${sources[@]}" | grep -vE '^[^:]*:[0-9]+:( *#|.*\\$)' >"$code" || true

# report PATTERN ADVICE: reports each line whose code has PATTERN.
report() {
    local hit
    while IFS= read -r hit; do
        violation "$(cut -d: -f1,2 <<<"$hit"): $(grep -oE "$1" <<<"${hit#*:*:}" | head -1): $2"
    done < <(grep -E "^[^:]*:[0-9]+:.*($1)" "$code" || true)
}

name='[a-z_][A-Za-z0-9_]*((->|\.)[A-Za-z0-9_]+|\[[^][()]*\])*'
report "((if|while) \(|&& |\|\| )\*?$name [!=]= NULL( *[);]| *(&&|\|\|)|$)" 'write !p or p in a condition'
report "[^)]\)? [!=]= NULL (&&|\|\||\?)" 'write !p or p in a condition'
report "sizeof\(\*$name\)|sizeof\([a-z_][A-Za-z0-9_]*(->|\.)[^()]*\)" 'sizeof takes parentheses only for a type'
finish "${#sources[@]} sources in one dialect"
