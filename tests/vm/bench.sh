#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the programs that measure RDMA in the virtual machine: kolobench --limits with its bare
# writes (if TEST_SOAK=1 beside all other loops) and, if TEST_SOAK=1, bench/rdma, which compares kolo
# with perftest. The values of the
# figures are not checked, because the processor is emulated and shared. ctest sets BIN (the folder
# of kolorun and kolobench).
. "${BASH_SOURCE%/*}/../launcher/common.sh"
SLOW=9 # the processor is emulated, and this machine may have other work
rdma=${BASH_SOURCE%/*}/../../bench/rdma
vm=${BASH_SOURCE%/*}/run
why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }

# First each rank has its device; then, if TEST_SOAK=1, the second rank has none, and both must
# report that reason (bench/limits tests it without devices).
cat >"$work/limits" <<'INSIDE'
bin=$1
for other in "${@:2}"; do
    export other
    "$bin/kolorun" -np 2 sh -c 'case $RANK in 0) KOLO_RDMA_DEVICE=rxe0 ;; *) KOLO_RDMA_DEVICE=$other ;; esac
        export KOLO_RDMA_DEVICE; exec "$@"' sh "$bin/kolobench" --limits $LOOPS -s 12,600K -t 1ms --json /tmp/limits.json &&
        cat /tmp/limits.json || exit
done
INSIDE
others=(rxe1)
export LOOPS='--transport rdma'
[[ ${TEST_SOAK-0} == 0 ]] || others+=(none) LOOPS=
run 0 "$vm" --timeout 900 -- bash "$work/limits" "$BIN" "${others[@]}"
says out '# RDMA by: rxe0 port 1$'
for key in rdma_us rdma_swap_us rdma_4k_gbps rdma_64k_gbps rdma_1m_gbps rdma_4m_gbps rdma_both_gbps; do
    says out "^ *\"$key\": [0-9.]*[1-9]"
done
[[ $(grep -c '"channel": "rdma"' "$work/out") == 2 ]] || fail "not two bounds of allreduce by RDMA: $(cat "$work/out")"
if [[ ${TEST_SOAK-0} == 1 ]]; then
    says out "# no RDMA: rank 1: there is no RDMA port 'none' on this host"
    says out '"usable": false'
fi

# This takes minutes, and runs no code of kolo that transport.sh does not run.
if [[ ${TEST_SOAK-0} == 1 ]]; then
    run 0 "$rdma" "$BIN" --vm --rounds 1 --time 0.1 --timeout 900 --json "$work/found.json"
    says out '^# kolo over RDMA against perftest between rxe0:1 and rxe1:1 in the virtual machine'
    [[ $(grep -cE '^(allreduce|pingpong|bare exchange|  \.\.\.).* / .* +[0-9]+\.[0-9]{2}( |$)' "$work/out") == 8 ]] ||
        fail "not eight ratios: $(cat "$work/out")"
    python3 - "$work/found.json" <<'PY' || fail "the JSON is not whole: $(cat "$work/found.json")"
import json, sys
found = json.load(open(sys.argv[1]))
assert all(value > 0 for values in found["samples"].values() for value in values) and found["in_vm"]
assert len(found["ratios"]) == 8 and sum("at_least" in r or "at_most" in r for r in found["ratios"]) == 5
PY
fi
# If something is missing, bench/rdma says so and measures nothing.
run 1 "$rdma" "$work" --vm --rounds 1 --time 0.1
says err '^bench/rdma: in the virtual machine: .*there is no .*/kolorun: build'
run 2 "$rdma" "$BIN" --rounds 0
says err 'rounds 0: expected a number above 0'
run 77 env VM_CACHE="$work/none" "$rdma" "$BIN" --vm
says err '^bench/rdma: skipped: no virtual machine here'
finish
