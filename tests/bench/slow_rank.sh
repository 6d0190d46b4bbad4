#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slow_rank.sh BIN: one of three ranks is stopped nine tenths of the time, as by a limit of
# processor time; kolobench diagnose must name it. On a machine so busy that the others do not run
# either, the test can show nothing, and says so.
set -u
bin=$1
work=$(mktemp -d)
limiter=
trap '[[ -z $limiter ]] || kill "$limiter" 2>/dev/null; rm -rf "$work"' EXIT

# Stops and continues the process in $work/pid in turn, until it is gone.
limit() {
    local pid
    until [[ -s $work/pid ]]; do read -rt 0.01 <> <(:) || true; done
    read -r pid <"$work/pid"
    while kill -STOP "$pid" 2>/dev/null; do
        read -rt 0.18 <> <(:) || true
        kill -CONT "$pid" 2>/dev/null || break
        read -rt 0.02 <> <(:) || true
    done
}
cat >"$work/rank" <<EOT
#!/bin/sh
[ "\$KOLO_RANK" != 1 ] || { echo \$\$ >$work/pid.new; mv $work/pid.new $work/pid; }
exec "$bin/kolobench" "\$@"
EOT
chmod +x "$work/rank"
attempt() {
    rm -f "$work/pid"
    limit &
    limiter=$!
    timeout 90 "$bin/kolorun" -np 3 "$work/rank" diagnose -t 100ms -r 1 --factor 3 --json "$work/d.json" >"$work/out" 2>&1
    status=$?
    kill "$limiter" 2>/dev/null
    wait "$limiter" 2>/dev/null
    limiter=
    pid=$(cat "$work/pid")
    seen=no
    grep -qE "rank 1 \(.*, pid $pid\) is slow: it (sums|copies)" "$work/out" && seen=yes
    grep -qE 'rank [02] \(.*is slow: it (sums|copies)' "$work/out" && seen=wrong
    [[ $status == 1 && $seen == yes ]]
}
for ((i = 0; i < 3; i++)); do # the machine may be busy for a while
    if attempt; then
        grep 'is slow' "$work/out"
        exit 0
    fi
done
load=$(cut -d' ' -f1 /proc/loadavg)
if awk -v load="$load" -v cores="$(nproc)" 'BEGIN {exit !(load > 2 * cores)}'; then
    echo "skipped: the machine is too busy (load $load) to tell a limited rank from others"
    exit 77
fi
echo "FAIL: status $status, rank 1 found: $seen: $(cat "$work/out")"
exit 1
