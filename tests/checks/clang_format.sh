#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every C source is formatted as clang-format formats it.
source "$(dirname "$0")/common.sh"
command -v clang-format >/dev/null || skip "clang-format is not installed (script/bootstrap installs it)"

mapfile -t files < <(files_in '*.[ch]' include "${library_folders[@]}" tools launcher bench evaluate examples tests cmake)
[[ ${#files[@]} -gt 0 ]] || { echo "no sources found" >&2; exit 1; }
said=$(clang-format --dry-run -Werror "${files[@]}" 2>&1 || true)
while IFS= read -r line; do
    [[ -z $line ]] || violation "$line: not formatted; run clang-format -i on it"
done <<<"$(grep -oE '^[^ :]+:[0-9]+:[0-9]+: error' <<<"$said" | cut -d: -f1,2 | sort -u -t: -k1,1)"
# It takes a header with "@p" before a bracket for Objective-C, which it does not name, and goes on.
[[ $said != *'not support'* ]] || violation "clang-format takes some header for another language and does not check it"
finish "${#files[@]} files are formatted"
