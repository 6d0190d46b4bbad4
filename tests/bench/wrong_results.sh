#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wrong_results.sh BIN: tests that --check finds the errors of a library that is wrong on purpose
# (faulty.c).
set -u
bin=$1 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

# finds PATTERN COLLECTIVE ARGUMENTS...: with --check it must fail with a line that matches PATTERN;
# without --check it must succeed.
finds() {
    local out status
    out=$(timeout 60 "$bin/kolorun" -np 3 "$bin/kolobench-faulty" "${@:2}" --sizes 3K -n 2 --check --json "$work/x.json" 2>&1)
    status=$?
    ((status == 1)) || wrong "$*: exit status $status: $(tail -3 <<<"$out")"
    grep -qE "$1" <<<"$out" || wrong "$*: no line like '$1': $(tail -5 <<<"$out")"
    grep -q '"mismatch"' "$work/x.json" || wrong "$*: the JSON does not say it"
    timeout 60 "$bin/kolorun" -np 3 "$bin/kolobench-faulty" "${@:2}" --sizes 3K -n 2 >"$work/out" 2>&1 ||
        wrong "$*: fails without --check: $(tail -3 "$work/out")"
}
finds 'allreduce of 3072 bytes over .*: rank 1, element 17: expected [0-9]+, got [0-9.]+ \(1 wrong in all\)' allreduce
finds 'broadcast of 3072 bytes over .*: rank 2, element 0: expected .*, got' broadcast
finds 'broadcast .* rank 2, element 0' broadcast --root rotate
finds 'allgather of 3072 bytes over .*: rank 0, element 0: expected .*, got .*wrong in all' allgather
finds 'reduce_scatter of 3072 bytes over .*: rank 0, outside: expected nothing behind the result, got a write' reduce_scatter
finds 'gather of 3072 bytes over .*: rank 2, element 255: expected .*, got -7' gather
((failures == 0)) && echo "wrong results: all seen"
exit $((failures > 0))
