#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts with 1 Gbit/s, and with worse cables: packet loss, a long delay, a varying delay. Every
# element is checked, and every job must end by itself within the deadline of a collective. How long
# it takes is printed, not judged.
. "${BASH_SOURCE%/*}/common.sh"
[[ -c /dev/net/tun ]] || skip "no /dev/net/tun: modprobe tun"
"$cluster" up 2 || { fail "the cluster does not come up"; finish; }
: "${BYTES:=1M}" "${COUNT:=2}"
export KOLO_TIMEOUT=100s
first_of() { local pid _; read -r pid _ <"$CLUSTER_DIR/$1/first" && echo "$pid"; }

# measure MARK NET: sums of BYTES among 2 ranks, only over the network NET.
measure() {
    export KOLOTEST_MARK=$1-$$
    run 0 env KOLO_NET="$2" "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK -H host1:1,host2:1 --transport tcp \
        "$KOLOBENCH" allreduce -b "$BYTES" -e "$BYTES" -n "$COUNT" -w 1 --check
    echo "$1: $(grep -E 'float32' "$work/out" | awk '{print $7 " us, " $9 " GB/s, wrong elements: " $10}'), $seconds s in all"
    awk '/ float32 / {rows++; wrong += $10 != "0"} END {exit !(rows == 1 && wrong == 0)}' "$work/out" ||
        { fail "$1: wrong sums"; cat "$work/out"; }
}

if "$cluster" rate host1 1gbit 2>/dev/null; then
    "$cluster" rate host2 1gbit || fail "no rate at host2"
    measure "1 Gbit/s" wire
else
    echo "1 Gbit/s: left out, no tbf in this kernel"
fi

# bad_cable NAME MBIT DELAY_US JITTER_US LOST_OF_10000: measures over a cable that
# tests/cluster/helpers/wire.c simulates.
bad_cable() {
    : >"$work/wire" # removes the "ready" of the last cable
    "$CLUSTER_WIRE" "$(first_of host1)" "$(first_of host2)" wan "$2" "$3" "$4" "$5" >"$work/wire" 2>&1 &
    local wire=$! i
    await grep -q ready "$work/wire" || { cat "$work/wire"; return; }
    for i in 1 2; do
        on "host$i" ip addr add "10.95.0.$i/24" dev wan
        on "host$i" ip link set wan up
    done
    measure "$1" wan
    kill "$wire"
    wait "$wire" || fail "$1: the cable broke"
    cat "$work/wire"
}
bad_cable "1 Gbit/s, 1 % lost" 1000 50 0 100
bad_cable "1 Gbit/s, 50 ms round trip" 1000 25000 0 0
bad_cable "1 Gbit/s, 50 ms and 1 % lost" 1000 25000 0 100
bad_cable "1 Gbit/s, order changed" 1000 1000 2000 0
hosts_clean host1 host2
finish
