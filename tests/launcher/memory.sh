#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory runs out in kolorun or in its agent, at each allocation in turn. Either nothing is lost,
# or the job fails, and a line says that there was no memory.
source "$(dirname "$0")/common.sh"
export KOLOTEST_MARK=memory-$$

# scarce NAME AT COMMAND...: kolorun, in which allocation number AT of the process NAME fails.
# Succeeds if it came so far. The environment is small, because agents copy each variable.
scarce() {
    status=0
    rm -f "$work/hit"
    printf 'one\ntwo\n' | timeout "$patience" env -i PATH="$PATH" KOLOTEST_MARK=$KOLOTEST_MARK LD_PRELOAD="$SCARCE" \
        SCARCE_NAME="$1" SCARCE_AT="$2" SCARCE_HIT="$work/hit" ${ever:+SCARCE_EVER=1} "$KOLORUN" "${@:3}" \
        >"$work/out" 2>"$work/err" || status=$?
    [[ -e $work/hit ]]
}
words() { tail -n 3 "$work/err" | cut -c1-300; }
# What the user can act on: that memory is short. A signal's status would be a crash.
told() { # WHAT
    [[ $status == [12] || $status == 126 || $status == 255 ]] || fail "$1: status $status: $(words)"
    grep -qE '^kolorun: .*(memory|cannot (allocate|grow))' "$work/err" || fail "$1: nothing says that memory was short: $(words)"
}
# each NAME STEP CHECK COMMAND...: runs CHECK for each allocation of NAME, or for every STEPth.
each() {
    local at
    for ((at = 1; at < 100000; at += $2)); do
        scarce "$1" "$at" "${@:4}" || break
        "$3" "$1, allocation $at${ever:+ and later ones}"
    done
    ((at > 10 * $2)) || fail "$1: only $at allocations"
}

check_whole() {
    if ((status != 0)); then
        told "$1"
    else
        [[ $(sort "$work/out") == "$whole" ]] || fail "$1: status 0, but not all output: $(cat "$work/out")"
        [[ $(sort "$work/err") == "$errors" ]] || fail "$1: status 0, but not all of standard error: $(cat "$work/err")"
    fi
}
whole=$(printf '[%s\n' '0] one' '0] out' '0] two' '1] out' '2] out' '3] out')
errors=$(printf '[%d] rank %d\n' 0 0 1 1 2 2 3 3)
# shellcheck disable=SC2016
job=(-np 4 sh -c 'echo out; echo "rank $RANK" >&2; [ "$RANK" != 0 ] || exec cat')
for name in kolorun kolorun-agent; do
    each "$name" 1 check_whole "${job[@]}"
    ever=1 each "$name" 5 check_whole "${job[@]}"
done

# The verdict does not need memory.
check_verdict() {
    if ((status == 3)); then
        says err '^kolorun: rank 1 .* exited with status 3'
    else
        told "$1"
    fi
}
# shellcheck disable=SC2016
each kolorun 1 check_verdict -np 2 --no-stdin sh -c '[ "$RANK" = 0 ] || exit 3; exec sleep 100'

# The files of --output-dir are whole, or it is said that they are not.
check_files() {
    if ((status == 0)); then
        [[ $(sort "$work"/files/rank.?.out) == "$(printf 'one\nout\nout\ntwo')" ]] || fail "$1: status 0, but not all is in the files"
    else
        told "$1"
    fi
    rm -rf "$work/files"
}
# shellcheck disable=SC2016
each kolorun 1 check_files -np 2 --output-dir "$work/files" --no-copy sh -c 'echo out; [ "$RANK" != 0 ] || exec cat'
nobody_left "$KOLOTEST_MARK"
finish
