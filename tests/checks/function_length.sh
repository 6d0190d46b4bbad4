#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that no function of the library, tools, the launcher and evaluate is longer than 70 lines.
source "$(dirname "$0")/common.sh"
ctags --version 2>/dev/null | grep Universal >/dev/null || skip "universal-ctags is not installed (script/bootstrap installs it)"
longest=70

mapfile -t files < <(files_in '*.[ch]' "${library_folders[@]}" tools launcher evaluate)
functions=$(ctags --languages=C --langmap=C:.c.h --kinds-C=f --fields=+ne --sort=no -o - "${files[@]}")
[[ -n $functions ]] || { echo "ctags found no functions" >&2; exit 1; }
while IFS= read -r line; do [[ -z $line ]] || violation "$line"; done < <(awk -F'\t' -v longest=$longest '
{
    first = last = 0
    for (i = 4; i <= NF; i++) {
        if ($i ~ /^line:/) first = substr($i, 6)
        if ($i ~ /^end:/) last = substr($i, 5)
    }
    if (last - first + 1 > longest)
        printf "%s:%d: %s is %d lines long; at most %d\n", $2, first, $1, last - first + 1, longest
}' <<<"$functions")
finish "$(wc -l <<<"$functions") functions of at most $longest lines"
