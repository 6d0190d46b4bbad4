#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/rdma measures kolo against perftest in the virtual machine and says each ratio; how large they are is for people, not
# for a test: the processor is emulated and shared. Gets BIN (kolorun, kolobench) from ctest.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
SLOW=9 # the processor is emulated, and this machine may have other work
rdma=${BASH_SOURCE%/*}/../../bench/rdma
why=$("${BASH_SOURCE%/*}/run" --check 2>&1) || { echo "$why"; exit 77; }

run 0 "$rdma" "$BIN" --vm --rounds 1 --time 0.1 --timeout 500 --json "$work/found.json"
says out '^# kolo over RDMA against perftest between rxe0:1 and rxe1:1 in the virtual machine'
[[ $(grep -cE '^(allreduce|  \.\.\.).* / .* +[0-9]+\.[0-9]{2}( |$)' "$work/out") == 5 ]] ||
    fail "not five ratios: $(cat "$work/out")"
python3 - "$work/found.json" <<'PY' || fail "the JSON is not whole: $(cat "$work/found.json")"
import json, sys
found = json.load(open(sys.argv[1]))
assert all(value > 0 for values in found["samples"].values() for value in values) and found["in_vm"]
assert len(found["ratios"]) == 5 and sum("at_least" in r or "at_most" in r for r in found["ratios"]) == 3
PY
# What cannot be had is said, and nothing is measured.
run 1 "$rdma" "$work" --vm --rounds 1 --time 0.1
says err '^bench/rdma: in the virtual machine: .*there is no .*/kolorun: build'
run 77 env VM_CACHE="$work/none" "$rdma" "$BIN" --vm
says err '^bench/rdma: skipped: no virtual machine here'
finish
