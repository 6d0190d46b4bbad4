#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# small.sh BIN [MOCK]: tests the examples bandwidth and hosts-allreduce on one host; with MOCK, the
# folder of the mock CUDA driver, on devices too. tests/cluster/twolevel.sh runs hosts-allreduce on
# several hosts.
set -u
bin=$1 mock=${2-} failures=0
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
run() { out=$(timeout 100 "$bin/kolorun" "$@" 2>&1); } # NP..., sets $out

for np in 1 3; do
    run -np $np "$bin/examples/bandwidth" 100000 || wrong "bandwidth, np $np: $out"
    [[ $out =~ ^\[0\]\ 100000\ bytes\ on\ $np\ ranks:\ [0-9.]+\ us,\ algbw\ [0-9.]+\ GB/s,\ busbw\ [0-9.]+\ GB/s$ ]] ||
        wrong "bandwidth, np $np: $out"
done
levels() { # MEMORY NP ARGUMENTS...
    run -np "$2" "$bin/examples/hosts-allreduce" "${@:3}" || wrong "hosts-allreduce on $1 memory, np ${*:2}: $out"
    [[ $out =~ ^\[0\]\ [0-9]+\ MiB\ of\ $1\ memory,\ $2\ ranks,\ $2\ a\ host:\ kolo_allreduce\ [0-9.]+\ ms,\ in\ two\ levels\ [0-9.]+\ ms$ ]] ||
        wrong "hosts-allreduce on $1 memory, np ${*:2}: $out"
}
levels host 1 --mib 1
levels host 3 --mib 5 --piece-mib 2 # pieces differ, and ranks cannot share them equally
levels host 4 --mib 1 --piece-mib 3
[[ -z $mock ]] || LD_LIBRARY_PATH=$mock levels GPU 3 --mib 3 --piece-mib 1
for arguments in '--mib 0' '--mib x' '--piece-mib 9999999' '--frobnicate' more; do
    # shellcheck disable=SC2086
    "$bin/examples/hosts-allreduce" $arguments >/dev/null 2>&1
    [[ $? == 2 ]] || wrong "hosts-allreduce $arguments: not refused"
done
((failures == 0)) && echo "small: all good"
exit $((failures > 0))
