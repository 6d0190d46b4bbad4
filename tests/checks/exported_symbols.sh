#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: exported_symbols.sh SOURCE_TREE LIBRARY
# Checks that the library exports exactly what include/kolo/ marks with KOLO_API.
library=$(realpath "${2:?usage: $0 SOURCE_TREE LIBRARY}")
source "$(dirname "$0")/common.sh"
command -v nm >/dev/null || skip "nm is not installed (binutils)"

mapfile -t headers < <(find include/kolo -name '*.h' -o -name '*.h.in' | sort)
declared=$(code_of "${headers[@]}" | cut -d: -f3- | grep -v '^ *#' | tr '\n' ' ' | tr ';{}' '\n\n\n' |
    sed -nE 's/.*KOLO_API[^(]*[ *](kolo_[a-z0-9_]+) *\(.*/\1/p' | sort)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
while read -r name; do
    [[ -z $name ]] || violation "$name is declared KOLO_API in include/kolo/ but not exported; write it, or drop the declaration"
done < <(comm -23 <(echo "$declared") <(echo "$exported"))
while read -r name; do
    [[ -z $name ]] || violation "$name is exported but not declared in include/kolo/; hide it, or declare it"
done < <(comm -13 <(echo "$declared") <(echo "$exported"))
finish "$(wc -l <<<"$declared") symbols are declared and exported"
