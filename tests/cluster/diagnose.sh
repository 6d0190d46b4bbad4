#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kolobench diagnose names the host whose wire is slow, in the direction in which it is, and the rank that is slowed.
. "${BASH_SOURCE%/*}/common.sh"
command -v tc >/dev/null || skip "tc is missing (package iproute2)"
bin=${KOLORUN%/*}
"$cluster" up 3 || { fail "the cluster does not come up"; finish; }
on host2 tc qdisc add dev wire root tbf rate 1gbit burst 64kb latency 50ms 2>/dev/null || skip "tc cannot shape here"
on host2 tc qdisc del dev wire root

# The findings of a run over three hosts, one a line: WHO MEASURE.
findings() { # ARGUMENTS...
    "$cluster" exec host1 "$KOLORUN" -H host1:1,host2:1,host3:1 "$bin/kolobench" diagnose -t 50ms --factor 4 \
        --json "$CLUSTER_DIR/diagnosis.json" "$@" >"$work/out" 2>"$work/err"
    status=$?
    python3 -c 'import json, sys
for f in json.load(open(sys.argv[1]))["findings"]: print(f["who"], f["measure"])' "$CLUSTER_DIR/diagnosis.json"
}

# Every wire 200 Mbit/s, so that they are alike on a busy machine too; host2 sends at a tenth of it.
for host in host1 host2 host3; do on $host tc qdisc add dev wire root tbf rate 200mbit burst 64kb latency 100ms; done
findings >"$work/found"
grep -qE '^(host|link).*(send|receive|bandwidth)$' "$work/found" && fail "three equal wires: $(cat "$work/found")"
on host2 tc qdisc replace dev wire root tbf rate 20mbit burst 64kb latency 400ms
findings >"$work/found"
((status == 1)) || fail "a slow wire: status $status"
grep -qx 'host host2 send' "$work/found" || fail "a slow wire: $(cat "$work/found" "$work/out" "$work/err")"
grep -qE '^host host[13] (send|receive)' "$work/found" && fail "the wrong host: $(cat "$work/found")"
says out 'host host2 is slow: it sends at no more than'
# host3 answers late, where the kernel can delay.
on host2 tc qdisc replace dev wire root tbf rate 200mbit burst 64kb latency 100ms
if on host3 tc qdisc replace dev wire root netem delay 30ms rate 200mbit limit 10000 2>/dev/null; then
    findings >"$work/found"
    grep -qE '^host host3 (latency|send|receive)$' "$work/found" || fail "a late host: $(cat "$work/found" "$work/out" "$work/err")"
    grep -qE '^host host[12]' "$work/found" && fail "the wrong host: $(cat "$work/found")"
fi
cat "$work/out"
finish
