#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The timeline: traces of jobs are read by Python's json and held against what their ranks have called.
. "${BASH_SOURCE%/*}/common.sh"
check() { python3 "${BASH_SOURCE%/*}/timeline_check.py" "$@" || fail "trace $*"; }
command -v python3 >/dev/null || skip "no python3"

# Each rank keeps its own calls in a file, and kolorun timeline puts them together.
run 0 env KOLO_TIMELINE="$work/t" "$KOLORUN" -np 3 "$CALLS" 50
run 0 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/t.json"
says err "^kolorun: timeline: [0-9]+ calls of 3 ranks in $work/t.json$"
says err '^kolorun: timeline: the ranks were in calls for [0-9]+ % of their time; for [0-9]+ % of their time they waited'
says err '^kolorun: timeline: rank [0-2] \(host .*\) was waited for most: it came last in [0-9]+ of 5[0-9] calls, '
check "$work/t.json" 3 50
for transport in tcp shm; do
    run 0 env KOLO_TIMELINE="$work/t" KOLO_TRANSPORT=$transport "$KOLORUN" -np 3 "$CALLS" 50
    run 0 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/t.json"
    check "$work/t.json" 3 50
done
run 0 env KOLO_TIMELINE="$work/t" KOLO_TIMELINE_CALLS=32 "$KOLORUN" -np 3 "$CALLS" 50
run 0 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/t.json"
says err 'calls of 3 ranks in .*; [0-9]+ before them made room \(KOLO_TIMELINE_CALLS keeps more\)$'
check "$work/t.json" 3 50 kept=32

# A rank that is killed leaves what it did.
run 137 env KOLO_TIMELINE="$work/k" "$KOLORUN" -np 3 "$CALLS" 50 die 1
run 0 "$KOLORUN" timeline "$work"/k.[0-9]* -o "$work/k.json"
python3 - "$work/k.json" <<'PY' || fail "the calls of a rank that was killed"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
mine = [e for e in events if e["ph"] == "X" and e["pid"] == 1 and e["name"] == "allreduce"]
sys.exit(len(mine) != 25 or any("open" in e["args"] for e in mine))
PY

# What is refused, in one line, with status 2; nothing is written then.
refuses() {
    local pattern=$1
    shift
    run 2 "$KOLORUN" timeline "$@"
    lines err 1
    says err "^kolorun: .*$pattern"
    says err '; |No such file'
}
rm -f "$work/no.json"
echo '{}' >"$work/other"
refuses 'usage: kolorun timeline FILE\.\.\. -o OUT\.json'
refuses '-o is missing' "$work/t.0"
refuses 'no file is given' -o "$work/no.json"
refuses '-o takes the name of one file' "$work/t.0" -o
refuses "unknown option '-x'" -x "$work/t.0" -o "$work/no.json"
refuses "$work/t.9" "$work/t.9" -o "$work/no.json"
refuses 'it is no timeline' "$work/t.0" "$work/other" -o "$work/no.json"
refuses 'it is of rank 0, as one before it' "$work/t.0" "$work/k.0" -o "$work/no.json"
refuses 'is no timeline of kolo' /dev/zero -o "$work/no.json"
refuses "$work" "$work" -o "$work/no.json"
run 2 "$KOLORUN" timeline "$work/t.0" -o "$work/t.0"
head -c 8 "$work/t.0" | grep -q kolotl || fail "a timeline was written over"
[[ ! -e $work/no.json ]] || fail "a trace of what was refused"
head -c 41100 "$work/t.0" >"$work/cut"
run 0 "$KOLORUN" timeline "$work/cut" -o "$work/cut.json"
says err 'records could not be read$'
run 1 env KOLO_TIMELINE=/nonexistent/t "$CALLS" 1
says err "KOLO_TIMELINE: /nonexistent/t.0 cannot be made \(No such file or directory\); "
finish
