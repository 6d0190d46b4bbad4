#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every C source is formatted as clang-format 14, that of Debian 12, formats it. Other
# versions format some casts and macros differently, so with them the check skips.
source "$(dirname "$0")/common.sh"
version=14
for formatter in "clang-format-$version" clang-format ''; do
    [[ -n $formatter ]] || break
    found=$("$formatter" --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p') || true
    [[ $found != "$version" ]] || break
done
[[ -n $formatter ]] || skip "clang-format $version is not installed (clang-format is ${found:+version }${found:-missing}); script/bootstrap" \
    "--tests installs it on Debian 12, elsewhere pip can: clang-format==14.0.6"

mapfile -t files < <(files_in '*.[ch]' include "${library_folders[@]}" tools launcher bench evaluate examples tests cmake)
[[ ${#files[@]} -gt 0 ]] || { echo "no sources found" >&2; exit 1; }
said=$("$formatter" --dry-run -Werror "${files[@]}" 2>&1 || true)
while IFS= read -r line; do
    [[ -z $line ]] || violation "$line: not formatted; run $formatter -i on it"
done <<<"$(grep -oE '^[^ :]+:[0-9]+:[0-9]+: error' <<<"$said" | cut -d: -f1,2 | sort -u -t: -k1,1)"
# It takes a header with "@p" before a bracket for Objective-C, which it does not name, and goes on.
[[ $said != *'not support'* ]] || violation "clang-format takes some header for another language and does not check it"
finish "${#files[@]} files are formatted"
