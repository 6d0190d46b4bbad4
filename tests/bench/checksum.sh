#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# checksum.sh BIN: KOLO_CHECKSUM between processes. A bit that changes on the way over TCP
# (flipping.c) is a wrong result that only --check sees, and with checksums an error of the call;
# with checksums all results are right; ranks that differ in the setting do not start.
set -u
bin=$1 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

# run STATUS PROGRAM ARGUMENTS...: of kolorun, with all output in $work/out.
run() {
    local want=$1 status
    timeout 120 "$bin/kolorun" "${@:2}" >"$work/out" 2>&1
    status=$?
    [[ $status == "$want" ]] || wrong "status $status, not $want: ${*:2}: $(tail -4 "$work/out")"
}
says() { grep -qE "$1" "$work/out" || wrong "no line like '$1': $(tail -6 "$work/out")"; }

flipping=(-np 4 --set transport=tcp --set plan=ring)
bench=(env FLIP_RANK=2 "$bin/kolobench-flipping" allreduce --sizes 64K -n 20)
run 0 "${flipping[@]}" "${bench[@]}"
run 1 "${flipping[@]}" "${bench[@]}" --check
says 'rank [0-9]+, element [0-9]+: expected .*, got '
run 1 "${flipping[@]}" --set checksum=1 "${bench[@]}"
says 'rank 2 \(.*, as rank 3 \(.* changed on the way here, over tcp .*: the checksum was [0-9a-f]{16} and is [0-9a-f]{16}'
says 'allreduce\(.* sequence [0-9]+'

for call in allreduce alltoall; do
    run 0 -np 4 --set transport=tcp --set checksum=1 "$bin/kolobench" "$call" --sizes 4,5000,1M -n 5 --check
done

run 2 -np 2 bash -c 'KOLO_CHECKSUM=$RANK exec "$0" allreduce --sizes 4 -n 1' "$bin/kolobench"
says 'KOLO_CHECKSUM is 0 on rank 0 on .* and 1 on rank 1 on .*: give all ranks the same'
((failures == 0)) && echo "checksums: every bit was seen"
exit $((failures > 0))
