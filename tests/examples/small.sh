#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# small.sh BIN: tests the examples bandwidth and uneven.
set -u
bin=$1 failures=0
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

for np in 1 3; do
    out=$(timeout 100 "$bin/kolorun" -np $np "$bin/examples/bandwidth" 100000 2>&1) || wrong "bandwidth, np $np: $out"
    [[ $out =~ ^\[0\]\ 100000\ bytes\ on\ $np\ ranks:\ [0-9.]+\ us,\ algbw\ [0-9.]+\ GB/s,\ busbw\ [0-9.]+\ GB/s$ ]] ||
        wrong "bandwidth, np $np: $out"
done

# Ranks with different numbers of batches of 16, some without any, take the steps of the longest and
# end with the same line. uneven RANKS SAMPLES STEPS SLOPE
uneven() {
    out=$(timeout 100 "$bin/kolorun" -np "$1" --oversubscribe --no-prefix "$bin/examples/uneven" "$2" 2>&1) || wrong "uneven $*: $out"
    [[ $(wc -l <<<"$out") == "$1" && $(awk '{ sum += $1 } END { print sum }' <<<"$out") == "$2" ]] || wrong "uneven $*: $out"
    line=$(sed 's/^[0-9]* samples here, //' <<<"$out" | sort -u)
    [[ $line =~ ^$3\ steps:\ $4[0-9]*\ x\ [-+0-9.]+,\ loss\ of\ $2\ samples\ [0-9.]+$ ]] || wrong "uneven $*: $out"
}
uneven 1 1000 1260 '1\.99'
uneven 4 1000 500 '1\.99'
uneven 7 1000 320 '(1\.99|2\.00)'
uneven 4 2 20 '[01]\.'
((failures == 0)) && echo "small: all good"
exit $((failures > 0))
