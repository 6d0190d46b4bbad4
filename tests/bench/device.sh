#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# device.sh BIN MOCK: tests kolobench --memory pinned, device, cuda and managed, on the devices of
# the mock libcuda.so.1 in the folder MOCK.
set -u
bin=$1 failures=0
worlds='1 3 8' lent_worlds='2 5 8'
[[ ${TEST_SHORT-0} == 0 ]] || worlds=3 lent_worlds=5 # a slow preset; others test all
export LD_LIBRARY_PATH=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

for memory in pinned device cuda managed; do
    [[ $memory == pinned || $memory == device ]] || worlds=3 # staged through the host, like device memory that ranks cannot map
    for np in $worlds; do
        timeout 100 "$bin/kolorun" -np $np "$bin/kolobench" all -s 96,24K -n 2 --check --memory $memory --csv "$work/rows.csv" >"$work/out" 2>&1 ||
            wrong "$memory, np $np: $(tail -3 "$work/out")"
        grep -q ",$memory," "$work/rows.csv" || wrong "$memory, np $np: no row says so"
    done
    timeout 100 "$bin/kolobench" all --threads 3 -s 96,24K -n 2 --check --in-place --async --memory $memory >"$work/out" 2>&1 ||
        wrong "$memory, threads: $(tail -3 "$work/out")"
    out=$(MOCK_CUDA_FAIL=cuInit=100 timeout 20 "$bin/kolobench" allreduce -s 4 --memory $memory 2>&1) && wrong "$memory without a device: succeeded"
    [[ $out =~ 'cuInit: CUDA_ERROR_NO_DEVICE' ]] || wrong "$memory without a device: $out"
done
# Each rank scales on its device, except for what goes through the host.
for how in '' '--in-place --stream'; do
    timeout 100 "$bin/kolorun" -np 3 "$bin/kolobench" allreduce reduce reduce_scatter reduce_scatterv -s 96,24K -n 2 --check --memory device -d float16 --prescale 0.5 --postscale 4 $how >"$work/out" 2>&1 ||
        wrong "scaled $how: $(tail -3 "$work/out")"
    [[ $(grep -c ', prescale 0.5, postscale 4' "$work/out") == 4 ]] || wrong "scaled $how: no header says so: $(cat "$work/out")"
done
# Calls ordered behind and before the work of a stream: processes, and threads that share one
# context.
for np in 1 3; do
    timeout 100 "$bin/kolorun" -np $np "$bin/kolobench" all -s 96,1500K -n 2 --check --memory device --stream >"$work/out" 2>&1 ||
        wrong "stream, np $np: $(tail -3 "$work/out")"
    [[ $(grep -c 'stream-ordered calls' "$work/out") == 14 ]] || wrong "stream, np $np: not the 13 collectives and the barrier: $(cat "$work/out")"
done
# On a driver that lets no other thread in while it frees, unmaps or unlocks memory, for which it
# waits for all streams. Each size has memory of its own, so that ranks must give back what others
# have freed while a stream waits for the next call.
MOCK_CUDA_ALONE=1 timeout 100 "$bin/kolorun" -np 2 "$bin/kolobench" all -s 4,4012,1M -n 3 --check --memory device --stream >"$work/out" 2>&1 ||
    wrong "stream, a driver that keeps others out: $(tail -3 "$work/out")"
timeout 200 "$bin/kolobench" all --threads 3 -s 24K -n 2 --check --in-place --memory device --stream >"$work/out" 2>&1 ||
    wrong "stream, threads: $(tail -3 "$work/out")"
timeout 100 "$bin/kolorun" -np 2 "$bin/kolobench" all -s 24K -n 2 --check --memory cuda --stream >"$work/out" 2>&1 ||
    wrong "stream, the program's own memory: $(tail -3 "$work/out")"
out=$(MOCK_CUDA_FAIL=cuMemAllocManaged=801 timeout 20 "$bin/kolobench" allreduce -s 4 --memory managed 2>&1) && wrong "managed where there is none: succeeded"
[[ $out =~ 'cuMemAllocManaged'.*'(801)' ]] || wrong "managed where there is none: $out"
# One rank's device cannot wait for the host: that rank's reason is said, not that its calls differ
# from those of the others.
for rank in 0 1; do
    F=$rank timeout 100 "$bin/kolorun" -np 3 sh -c '[ "$RANK" != "$F" ] || export MOCK_CUDA_FAIL=cuDeviceGetAttribute=801; exec "$@"' sh \
        "$bin/kolobench" allreduce -s 64 -n 3 --memory device --stream >"$work/out" 2>&1 && wrong "stream, a device that cannot wait: success"
    [[ $(grep -c 'kolobench:' "$work/out") == 1 ]] && grep -qE '^\[0\] kolobench: .*streams of device [0-9]+ cannot wait for the host' "$work/out" ||
        wrong "stream, rank $rank has a device that cannot wait: $(tail -3 "$work/out")"
done
refused() { # PATTERN ARGUMENTS...
    local out
    out=$(timeout 20 "$bin/kolobench" "${@:2}" --stream 2>&1)
    [[ $? == 2 && $out =~ $1 ]] || wrong "--stream ${*:2}: $out"
}
refused '--stream with --memory kolo: expected --memory device' allreduce
refused '--stream with --memory pinned: expected --memory device' allreduce --memory pinned
refused '--stream pingpong: expected a collective' allreduce pingpong --memory device
refused '--stream: expected to be left out with --limits' allreduce --limits

out=$(MOCK_CUDA_FAIL=cuMemHostRegister_v2=2 timeout 20 "$bin/kolobench" allreduce -s 4 --memory pinned 2>&1) && wrong "pinned without locked memory: succeeded"
[[ $out =~ 'the driver has not locked' ]] || wrong "pinned without locked memory: $out"

# A device that only takes time: a copy in and one out of 50 ms each, and slices of 50 ms for two
# processes.
for timed in 1000,50000000,1000 1000,1000,1000,50000000,2; do
    KOLO_TRANSPORT=tcp MOCK_CUDA_TIMED=$timed timeout 100 "$bin/kolorun" -np 2 "$bin/kolobench" allreduce -s 64K -n 3 --memory cuda --csv "$work/rows.csv" >"$work/out" 2>&1 ||
        wrong "timed, $timed: $(tail -3 "$work/out")"
    awk -F, -v least=$([[ $timed == *,2 ]] && echo 50000 || echo 100000) '$1 == "allreduce" { found = $14 >= least } END { exit !found }' "$work/rows.csv" ||
        wrong "timed, $timed: too soon: $(cat "$work/rows.csv")"
done
out=$(MOCK_CUDA_TIMED=1,2 timeout 20 "$bin/kolobench" allreduce -s 4 --memory cuda 2>&1) && wrong "timed, without a rate: succeeded"
[[ $out =~ 'MOCK_CUDA_TIMED=1,2: see tests/mock/timed.c' ]] || wrong "timed, without a rate: $out"

# Device memory that processes map from each other. The mock ends an owner that frees memory which
# another process has mapped.
lent() { # NP ARGUMENTS...: kolobench with device memory that ranks map from each other at any size
    KOLO_LOG=info KOLO_PLAN=twoshot timeout 100 "$bin/kolorun" -np "$1" "$bin/kolobench" "${@:2}" -n 3 --check --memory device >"$work/out" 2>&1
}
to_host='to the host'
lent 2 allreduce -s 96
if grep -q 'no CUDA kernels' "$work/out"; then
    echo "not lent: this build has no CUDA kernels"
    exit $((failures > 0))
fi
for np in $lent_worlds; do
    lent $np allreduce reduce broadcast allgather allgatherv reduce_scatter gather scatter alltoall -s 96,24K,1500K ||
        wrong "lent, np $np: $(tail -3 "$work/out")"
    ! grep -Eq "$to_host|until the process ends" "$work/out" || wrong "np $np: $(grep -E "$to_host|until the process ends" "$work/out" | head -1)"
done
for fault in cuIpcOpenMemHandle_v2=217 cuIpcGetMemHandle=801 cuModuleLoadData=222; do
    MOCK_CUDA_FAIL=$fault lent 3 allreduce -s 24K,1500K || wrong "$fault: $(tail -3 "$work/out")"
    grep -q "$to_host" "$work/out" || wrong "$fault: nobody says that calls go by the host: $(tail -3 "$work/out")"
done
# Memory that another rank cannot unmap stays allocated, even if that rank ends long before the
# owner.
MOCK_CUDA_FAIL=cuIpcCloseMemHandle=801 KOLO_PLAN=twoshot timeout 100 "$bin/kolorun" -np 3 sh -c '
    [ "$RANK" != 2 ] || export KOLO_EXIT_TIMEOUT=50ms
    exec "$0" "$@"' "$bin/kolobench" allreduce -s 24K,1500K -n 3 --check --memory device >"$work/out" 2>&1 ||
    wrong "not unmapped: $(tail -3 "$work/out")"
grep -q 'stays mapped .*: cuIpcCloseMemHandle' "$work/out" || wrong "nobody says that memory stays mapped: $(tail -3 "$work/out")"

# A rank that is killed while others have its memory mapped.
timeout 100 "$bin/kolorun" -np 3 "$bin/kolobench" allreduce -s 1500K -n 1000000 --memory device >"$work/out" 2>&1 &
job=$!
rank_of() { pgrep -P "$1" | while read -r child; do echo "$child"; rank_of "$child"; done; }
until victim=$(for pid in $(rank_of $job); do grep -zqx KOLO_RANK=1 "/proc/$pid/environ" 2>/dev/null && echo "$pid"; done | tail -1) &&
    [[ -n $victim ]] && grep -q '^[^#]*# *(B)' "$work/out"; do
    kill -0 $job 2>/dev/null || break
done
kill -9 "$victim" 2>/dev/null || wrong "rank 1 was not there to be killed: $(tail -3 "$work/out")"
wait $job && wrong "a rank was killed, and the job ended well"
grep -q 'rank 1 .*was killed by signal 9' "$work/out" || wrong "killed: $(tail -3 "$work/out")"
exit $((failures > 0))
