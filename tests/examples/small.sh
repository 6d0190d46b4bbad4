#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# small.sh BIN: tests the examples bandwidth and uneven, and that all examples fail if standard output
# cannot be written.
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

# bytes TEXT BYTES: what bandwidth takes TEXT for.
bytes() {
    out=$(timeout 100 "$bin/examples/bandwidth" "$1" 2>&1) || wrong "bandwidth $1: $out"
    [[ $out == "$2 bytes on 1 ranks: "* ]] || wrong "bandwidth $1: $out"
}
bytes 4 4
bytes 4K 4096
bytes 4KiB 4096
bytes 2M 2097152
# Also if rank 0 is slower than the others: none ends the job before it has complained.
for example in bandwidth uneven detect-eval fashion-eval fashion-train; do
    out=$(timeout 60 "$bin/kolorun" -np 3 sh -c '[ "$RANK" != 0 ] || sleep 0.5; exec "$@"' sh "$bin/examples/$example" --frobnicate 2>&1 |
        grep -v '^kolorun: ')
    [[ $out == "[0] $example: "*--frobnicate* && $(wc -l <<<"$out") == 1 ]] || wrong "$example, and a slow rank 0: $out"
done

# refuse EXAMPLE ARGUMENT...: of all ranks one complains, in one line; the exit status is 2.
refuse() {
    out=$(timeout 60 "$bin/kolorun" -np 3 --no-prefix "$bin/examples/$1" "${@:2}" 2>&1 | grep -v '^kolorun: ')
    [[ $out == "$1: '${*: -1}': expected one number of "* && $(wc -l <<<"$out") == 1 ]] || wrong "$*: $out"
    timeout 60 "$bin/examples/$1" "${@:2}" >/dev/null 2>&1
    [[ $? == 2 ]] || wrong "$*: not exit status 2"
}
for bad in abc '' 0 3 -5 4.5 64X 64KB 64k 9223372036854775808 9007199254740992G; do refuse bandwidth "$bad"; done
for bad in abc '' 0 -5 4.5 1K 1000000001 5000000000000000000 99999999999999999999; do refuse uneven "$bad"; done
for example in bandwidth uneven; do
    refuse $example --frobnicate
    refuse $example 64 more
    out=$(timeout 60 "$bin/kolorun" -np 3 --no-prefix "$bin/examples/$example" --help 2>&1) || wrong "$example --help: $out"
    [[ $(grep -c . <<<"$out") == 2 && $out == "usage: $example ["* ]] || wrong "$example --help: $out"
done
# --help waits for no other rank.
for example in bandwidth uneven detect-eval fashion-eval fashion-train; do
    out=$(KOLO_RANK=1 KOLO_SIZE=2 KOLO_SECRET=$(printf 'a%.0s' {1..64}) KOLO_RENDEZVOUS=file:///nobody/is/here \
        timeout 50 "$bin/examples/$example" --help 2>&1) || wrong "$example --help of a rank alone: status $?: $out"
    [[ $out == "usage: $example "* ]] || wrong "$example --help of a rank alone: $out"
done

# full EXAMPLE ARGUMENT...: on a full disk the results are lost, which must be an error in one line.
full() {
    out=$(timeout 200 "$bin/examples/$1" "${@:2}" 2>&1 >/dev/full)
    status=$? out=$(grep -v 'ranks compute on a GPU' <<<"$out")
    [[ $status == 1 && $out =~ ^$1:\ cannot\ write\ the\ results?\ to\ standard\ output$ ]] || wrong "$* >/dev/full: $status $out"
}
full bandwidth 4096
full uneven 10
full detect-eval --images 3
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
# idx PREFIX: a data set of three black images, of class 0.
idx() {
    { printf '\0\0\10\3\0\0\0\3\0\0\0\34\0\0\0\34'; head -c $((3 * 784)) /dev/zero; } | gzip >"$data/$1-images-idx3-ubyte.gz"
    printf '\0\0\10\1\0\0\0\3\0\0\0' | gzip >"$data/$1-labels-idx1-ubyte.gz"
}
idx train
idx t10k
full fashion-train --data "$data" --device cpu --epochs 1 --checkpoint "$data/a"
[[ -e $data/a ]] || wrong "without standard output no checkpoint is written"
full fashion-eval --data "$data" --device cpu --checkpoint "$data/a"
((failures == 0)) && echo "small: all good"
exit $((failures > 0))
