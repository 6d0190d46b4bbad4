#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that groff formats every man page without a warning in 80 columns, that kolo(7) lists every
# page, and that exactly one page describes each public function.
source "$(dirname "$0")/common.sh"
command -v groff >/dev/null || skip "groff is not installed (script/bootstrap --tests installs it)"
count=0
while IFS= read -r file; do
    count=$((count + 1))
    warnings=$(groff -ww -man -Tutf8 -z "$file" 2>&1) || warnings=${warnings:-groff failed}
    [[ -z $warnings ]] || violation "$file:1: groff warns: $warnings"
    wide=$(groff -man -Tascii -P-cbou -rLL=78n "$file" 2>/dev/null | awk 'length > 80 { print; exit }')
    [[ -z $wide ]] || violation "$file:1: a line is wider than 80 columns, break it:$wide"
done < <(files_in '*.[1-8]' docs/man)

mapfile -t pages < <(files_in '*.3' docs/man)
titles=$([[ ${#pages[@]} -eq 0 ]] || sed -sn '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "${pages[@]}" | grep -oE 'kolo_[a-z0-9_]+' | sort)
while IFS= read -r twice; do
    violation "docs/man:1: $twice is named under NAME of two pages; leave it to one"
done < <(uniq -d <<<"$titles")
mapfile -t headers < <(files_in '*.h' include/kolo; files_in '*.h.in' include/kolo)
for header in "${headers[@]}"; do
    while IFS= read -r function; do
        grep -qx "$function" <<<"$titles" ||
            violation "$header:1: $function is in no man page; name it under NAME of one in docs/man, with its prototype"
    done < <(code_of "$header" | cut -d: -f3- | grep -v '^ *#' | tr '\n' ' ' | grep -oE 'KOLO_API[^;(]*\(' | grep -oE '[a-z0-9_]+\($' | tr -d '(')
done

overview=docs/man/kolo.7
listed=$([[ ! -e $overview ]] || sed -n '/^\.SH SEE ALSO/,$s/^\.BR \([^ ]*\) (\([1-8]\)).*/\1.\2/p' "$overview" | tr -d '\\')
while IFS= read -r page; do
    [[ $page == "$overview" ]] || grep -qx "${page##*/}" <<<"$listed" ||
        violation "$overview:1: ${page##*/} is not under SEE ALSO; add it"
done < <(files_in '*.[1-8]' docs/man)
finish "$count man pages are formatted without a warning, in 80 columns"
