#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every man page is formatted without a warning.
source "$(dirname "$0")/common.sh"
command -v groff >/dev/null || skip "groff is missing; install it"
count=0
while IFS= read -r file; do
    count=$((count + 1))
    warnings=$(groff -ww -man -Tutf8 -z "$file" 2>&1) || warnings=${warnings:-groff failed}
    [[ -z $warnings ]] || violation "$file:1: groff warns: $warnings"
done < <(files_in '*.[1-8]' docs/man)
finish "$count man pages are formatted without a warning"
