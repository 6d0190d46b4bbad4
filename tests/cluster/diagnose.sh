#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that kolobench diagnose names the host whose wire is slow, with the direction, and a rank
# that is slow.
. "${BASH_SOURCE%/*}/common.sh"
command -v tc >/dev/null || skip "tc is missing (package iproute2)"
bin=${KOLORUN%/*}
"$cluster" up 3 || { fail "the cluster does not come up"; finish; }
on host2 tc qdisc add dev wire root tbf rate 1gbit burst 64kb latency 50ms 2>/dev/null || skip "tc cannot shape here"
on host2 tc qdisc del dev wire root

# Prints the exit status of a run over three hosts, and its findings, one a line: WHO MEASURE.
findings() { # ARGUMENTS...
    "$cluster" exec host1 "$KOLORUN" -H host1:1,host2:1,host3:1 "$bin/kolobench" diagnose -t 50ms --factor 4 \
        --json "$CLUSTER_DIR/diagnosis.json" "$@" >"$work/out" 2>"$work/err"
    echo "status $?"
    python3 -c 'import json, sys
for f in json.load(open(sys.argv[1]))["findings"]: print(f["who"], f["measure"])' "$CLUSTER_DIR/diagnosis.json"
}

# Every wire has 200 Mbit/s, so that they are equal on a busy machine too; host2 sends at a tenth of
# it.
for host in host1 host2 host3; do on $host tc qdisc add dev wire root tbf rate 200mbit burst 64kb latency 100ms; done
# finds NAME WANTED UNWANTED: patterns that findings must match and must not match. On a busy
# machine a host may look slow once, but not each time.
finds() {
    local try
    for try in 1 2 3 4 5; do
        findings >"$work/found"
        grep -qE "$2" "$work/found" && ! grep -qE "$3" "$work/found" && return
    done
    fail "$1: $(cat "$work/found" "$work/out" "$work/err")"
}
finds "three equal wires" '^status [01]$' '^(host|link).*(send|receive|bandwidth)$'
on host2 tc qdisc replace dev wire root tbf rate 20mbit burst 64kb latency 400ms
finds "a slow wire" '^host host2 send$' '^host host[13] (send|receive)|^status [^1]'
says out 'host host2 is slow: it sends at no more than'
# host3 answers late, if the kernel can delay packets.
on host2 tc qdisc replace dev wire root tbf rate 200mbit burst 64kb latency 100ms
if on host3 tc qdisc replace dev wire root netem delay 30ms rate 200mbit limit 10000 2>/dev/null; then
    finds "a late host" '^host host3 (latency|send|receive)$' '^host host[12]'
fi
cat "$work/out"
finish
