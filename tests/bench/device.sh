#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# device.sh BIN MOCK: kolobench --memory pinned and device, on the devices of the tests' libcuda.so.1 in the folder MOCK.
set -u
bin=$1 failures=0
export LD_LIBRARY_PATH=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

for memory in pinned device; do
    for np in 1 3 8; do
        timeout 100 "$bin/kolorun" -np $np "$bin/kolobench" all -s 96,24K -n 2 --check --memory $memory --csv "$work/rows.csv" >"$work/out" 2>&1 ||
            wrong "$memory, np $np: $(tail -3 "$work/out")"
        grep -q ",$memory," "$work/rows.csv" || wrong "$memory, np $np: no row says so"
    done
    timeout 100 "$bin/kolobench" all --threads 3 -s 96,24K -n 2 --check --in-place --async --memory $memory >"$work/out" 2>&1 ||
        wrong "$memory, threads: $(tail -3 "$work/out")"
    out=$(MOCK_CUDA_FAIL=cuInit=100 timeout 20 "$bin/kolobench" allreduce -s 4 --memory $memory 2>&1) && wrong "$memory without a device: succeeded"
    [[ $out =~ 'cuInit: CUDA_ERROR_NO_DEVICE' ]] || wrong "$memory without a device: $out"
done
out=$(MOCK_CUDA_FAIL=cuMemHostRegister_v2=2 timeout 20 "$bin/kolobench" allreduce -s 4 --memory pinned 2>&1) && wrong "pinned without locked memory: succeeded"
[[ $out =~ 'the driver has not locked' ]] || wrong "pinned without locked memory: $out"
exit $((failures > 0))
