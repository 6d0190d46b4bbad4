#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the functions in banned.txt are called only in the files that it allows. Comments,
# strings, members (x->free()) and longer names do not count. The library must not use stdout and
# stderr at all.
table=$(dirname "$(realpath "$0")")/banned.txt
source "$(dirname "$0")/common.sh"

mapfile -t sources < <(files_in '*.[ch]' "${library_folders[@]}" tools launcher bench evaluate examples)
code=$(mktemp)
trap 'rm -f "$code"' EXIT
code_of "${sources[@]}" >"$code"

# report FOLDERS PATTERN ALLOWED ADVICE: reports each match of PATTERN in the code of FOLDERS,
# except in the files ALLOWED.
report() {
    local folders=${1// /|} hit path
    while IFS= read -r hit; do
        path=${hit%%:*}
        [[ " $3 " == *" $path "* ]] || violation "$(cut -d: -f1,2 <<<"$hit"): $(grep -oE "$2" <<<"${hit#*:*:}" |
            head -1 | tr -d '( ') is banned here; use $4"
    done < <(grep -E "^($folders)/[^:]*:[0-9]+:(.*[^A-Za-z0-9_.>])?($2)" "$code" || true)
}

trimmed() { sed 's/^ *//; s/ *$//; s/  */ /g' <<<"$1"; }
while IFS='|' read -r folders names allowed advice; do
    [[ $folders != '#'* ]] || continue
    names=$(trimmed "$names")
    report "$(trimmed "$folders")" "(${names// /|}) *\\(" "$(trimmed "$allowed")" "$(trimmed "$advice")"
done <"$table"
report "${library_folders[*]}" '(stdout|stderr)\b' '' 'a FILE the caller gives, a status or base/log.h'
finish "${#sources[@]} files call nothing that is banned"
