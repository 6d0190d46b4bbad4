#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: settings_doc.sh SOURCE_TREE PROGRAM
# docs/SETTINGS.md is what PROGRAM prints, that is: what base/settings.def says today.
program=$(realpath "${2:?usage: $0 SOURCE_TREE PROGRAM}")
source "$(dirname "$0")/common.sh"
difference=$("$program" | diff -u docs/SETTINGS.md - | sed -n '4,12p' || true)
[[ -z $difference ]] || violation "docs/SETTINGS.md:1: stale; run cmake --build build/dev --target settings-doc
$difference"
[[ -s docs/SETTINGS.md ]] || violation "docs/SETTINGS.md:1: missing; run cmake --build build/dev --target settings-doc"
finish "docs/SETTINGS.md is current"
