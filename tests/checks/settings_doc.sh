#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: settings_doc.sh SOURCE_TREE PROGRAM
# Checks that docs/SETTINGS.md and docs/man/kolo-settings.7 are what PROGRAM prints from
# base/settings.def.
program=$(realpath "${2:?usage: $0 SOURCE_TREE PROGRAM}")
source "$(dirname "$0")/common.sh"
# compare FILE [ARGUMENT...]: FILE must be the output of PROGRAM ARGUMENT...
compare() {
    local file=$1 difference
    shift
    [[ -s $file ]] || { violation "$file:1: missing; run cmake --build build/dev --target settings-doc"; return; }
    difference=$("$program" "$@" | diff -u "$file" - | sed -n '4,12p' || true)
    [[ -z $difference ]] || violation "$file:1: stale; run cmake --build build/dev --target settings-doc
$difference"
}
compare docs/SETTINGS.md
compare docs/man/kolo-settings.7 man
finish "docs/SETTINGS.md and docs/man/kolo-settings.7 are current"
