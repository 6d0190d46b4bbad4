#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# small.sh BIN: tests the example bandwidth.
set -u
bin=$1 failures=0
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

for np in 1 3; do
    out=$(timeout 100 "$bin/kolorun" -np $np "$bin/examples/bandwidth" 100000 2>&1) || wrong "bandwidth, np $np: $out"
    [[ $out =~ ^\[0\]\ 100000\ bytes\ on\ $np\ ranks:\ [0-9.]+\ us,\ algbw\ [0-9.]+\ GB/s,\ busbw\ [0-9.]+\ GB/s$ ]] ||
        wrong "bandwidth, np $np: $out"
done
((failures == 0)) && echo "small: all good"
exit $((failures > 0))
