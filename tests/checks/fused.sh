#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: fused.sh SOURCE_TREE OBJDUMP PROGRAM...
# Checks that the compiler fused no multiplication with an addition; only kolo_exact_product may use
# such an instruction. gcc by itself turns a * b + c into one if the processor has it, as every
# 64-bit Arm does. It rounds only once, so results would have different bits on different
# processors.
objdump=${2:?usage: $0 SOURCE_TREE OBJDUMP PROGRAM...}
programs=()
for program in "${@:3}"; do programs+=("$(realpath "$program")"); done
source "$(dirname "$0")/common.sh"
command -v "$objdump" >/dev/null || skip "$objdump is not installed (binutils)"

for program in "${programs[@]}"; do
    while read -r function instruction; do
        violation "$program: $function has $instruction; compile it with -ffp-contract=off (kolo_flags), or call kolo_exact_product"
    done < <("$objdump" -d --no-show-raw-insn "$program" | awk '
        /^[0-9a-f]+ <.*>:$/ { function_name = substr($2, 2, length($2) - 3); next }
        function_name != "kolo_exact_product" &&
            $2 ~ /^(vfn?m(add|sub)|fn?m(add|sub|l[as])|bfml|bfmm|fcmla|fmmla|fmopa)/ && !seen[function_name]++ {
            print function_name, $2 }')
done
finish "${#programs[@]} programs have no fused multiply-add of a compiler's making"
