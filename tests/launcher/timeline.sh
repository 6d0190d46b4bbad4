#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the timeline: traces of jobs are parsed by Python's json and compared with the calls of
# their ranks.
. "${BASH_SOURCE%/*}/common.sh"
check() { python3 "${BASH_SOURCE%/*}/timeline_check.py" "$@" || fail "trace $*"; }
command -v python3 >/dev/null || skip "no python3"

# Each rank keeps its own calls in a file, and kolorun timeline merges the files.
run 0 env KOLO_TIMELINE="$work/t" "$KOLORUN" -np 3 "$CALLS" 50
run 0 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/t.json"
says err "^kolorun: timeline: [0-9]+ calls of 3 ranks in $work/t.json$"
says err '^kolorun: timeline: the ranks were in calls for [0-9]+ % of their time; for [0-9]+ % of their time they waited'
says err '^kolorun: timeline: (((one|no) rank was|[2-3] ranks were) waited for .*rank [0-2] \(host .*\) in [0-9]+ of 5[0-9] calls, [0-9]+ % of all waiting|no rank was waited for long$)'
check "$work/t.json" 3 50
for transport in tcp shm; do
    run 0 env KOLO_TIMELINE="$work/t" KOLO_TRANSPORT=$transport "$KOLORUN" -np 3 "$CALLS" 50
    run 0 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/t.json"
    check "$work/t.json" 3 50
done
run 0 env KOLO_TIMELINE="$work/t" KOLO_TIMELINE_CALLS=32 "$KOLORUN" -np 3 "$CALLS" 50
run 0 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/t.json"
says err 'calls of 3 ranks in .*; [0-9]+ earlier ones were overwritten \(KOLO_TIMELINE_CALLS keeps more\)$'
check "$work/t.json" 3 50 kept=32

# A rank that is killed leaves a record of its calls.
run 137 env KOLO_TIMELINE="$work/k" "$KOLORUN" -np 3 "$CALLS" 50 die 1
run 0 "$KOLORUN" timeline "$work"/k.[0-9]* -o "$work/k.json"
python3 - "$work/k.json" <<'PY' || fail "the calls of a rank that was killed"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
mine = [e for e in events if e["ph"] == "X" and e["pid"] == 1 and e["name"] == "allreduce"]
sys.exit(len(mine) != 25 or any("open" in e["args"] for e in mine))
PY

# kolorun writes the trace itself, however the job ends; it prints the verdict first.
timeline=(--timeline "$work/job.json")
run 0 "$KOLORUN" "${timeline[@]}" -np 3 "$CALLS" 50
says err "^kolorun: timeline: [0-9]+ calls of 3 ranks in $work/job.json$"
check "$work/job.json" 3 50
# A line stays a line, whatever the file is called.
run 0 "$KOLORUN" --timeline "$work/new"$'\n'"line.json" -np 3 "$CALLS" 50
says err "^kolorun: timeline: [0-9]+ calls of 3 ranks in $work/new.line.json$"
check "$work/new"$'\n'"line.json" 3 50
run 127 "$KOLORUN" --timeline "$work/new"$'\n'"line.json" -np 3 "$work/none"
says err "^kolorun: timeline: nothing was started; $work/new.line.json is unchanged$"
run 0 "$KOLORUN" "${timeline[@]}" --set TIMELINE_CALLS=32 -np 3 "$CALLS" 50
check "$work/job.json" 3 50 kept=32
run 0 "$KOLORUN" "${timeline[@]}" -np 3 "$CALLS" 60 late 2
check "$work/job.json" 3 60 late=2
says err '^kolorun: timeline: one rank was waited for most: rank 2 \(host .*\) in [0-9]+ of 6[0-9] calls, [0-9]+ % of all waiting, [0-9.]+ m?s$'
export KOLOTEST_MARK=timeline-$$
for transport in auto tcp; do
    run 137 env KOLO_TRANSPORT=$transport "$KOLORUN" "${timeline[@]}" -np 3 "$CALLS" 50 die 1
    says err '^kolorun: rank 1 .* was killed by signal 9 \(SIGKILL\)'
    [[ $(grep '^kolorun: ' "$work/err" | head -n 1) == *'was killed'* ]] || fail 'the verdict is not the first line of kolorun'
    check "$work/job.json" 3 50 victim=1
    nobody_left "$KOLOTEST_MARK"
done
run 0 env KOLO_TIMELINE="$work/beside" "$KOLORUN" "${timeline[@]}" -np 2 "$CALLS" 5
says err "^kolorun: warning: KOLO_TIMELINE=$work/beside has no effect with --timeline"
run 0 "$KOLORUN" timeline --help
says out '^usage: kolorun timeline FILE'
# Ranks that never call kolo_init have no timeline. A rank whose descriptor was closed says so and
# continues.
run 0 "$KOLORUN" "${timeline[@]}" -np 2 true
says err '^kolorun: timeline: 2 of 2 ranks have none: they did not call kolo_init'
lines err 1
python3 -m json.tool "$work/job.json" /dev/null || fail "a trace of nobody"
run 0 "$KOLORUN" "${timeline[@]}" -np 2 bash -c 'n=${KOLO_TIMELINE#fd://}; eval "exec $n>&-"; exec "$0" 5' "$CALLS"
says err 'no timeline of this rank: KOLO_TIMELINE=fd://[0-9]+: it is closed'
run 0 "$KOLORUN" "${timeline[@]}" -np 2 sh -c 'ls -l /proc/self/fd/${KOLO_TIMELINE#fd://}; exec "$0" 5' "$CALLS"
says out 'memfd:kolo-timeline'
# If a user sets KOLO_TIMELINE=fd://N, there is no such memory: a line says so, with and without
# --timeline, and the job continues.
run 0 env KOLO_TIMELINE=fd://9 "$KOLORUN" "${timeline[@]}" -np 2 "$CALLS" 5
says err '^kolorun: warning: KOLO_TIMELINE=fd://9 is ignored: .*; give --timeline FILE, or KOLO_TIMELINE=FILE$'
says err "^kolorun: timeline: [0-9]+ calls of 2 ranks in $work/job.json\$"
run 0 env KOLO_TIMELINE=fd://9 "$KOLORUN" -np 2 "$CALLS" 5
says err '^kolorun: warning: KOLO_TIMELINE=fd://9 is ignored: '
lines err 1
# A job inside a rank of another job: the memory belongs to the rank of the outer job.
run 0 "$KOLORUN" "${timeline[@]}" -np 2 "$KOLORUN" --oversubscribe -np 2 "$CALLS" 5
! grep -qE 'no timeline of this rank|is ignored' "$work/out" "$work/err" || fail 'the ranks of an inner job ask for the outer one'"'"'s memory'
run 0 "$KOLORUN" "${timeline[@]}" -np 1 "$KOLORUN" --timeline "$work/inner.json" -np 2 "$CALLS" 5
says err "kolorun: timeline: [0-9]+ calls of 2 ranks in $work/inner.json"
# A path that cannot be written is refused before anything is started. An existing trace stays until
# the new one is complete.
for place in /nonexistent/t.json /dev/full "$work" ''; do
    run 2 "$KOLORUN" --timeline "$place" -np 1 touch "$work/started"
    says err '^kolorun: --timeline .*; '
    lines err 1
done
[[ ! -e $work/started ]] || fail 'a job was started whose trace cannot be written'
echo old >"$work/job.json"
for refused in "-np 2 /nonexistent/program" "--ssh false -H elsewhere:1 -np 1 true"; do
    # shellcheck disable=SC2086
    "$KOLORUN" "${timeline[@]}" $refused >"$work/out" 2>"$work/err" </dev/null && fail "$refused"
    [[ $(cat "$work/job.json") == old ]] || fail "a job that was refused ($refused) has replaced an older trace"
done
"$KOLORUN" "${timeline[@]}" -np 2 sh -c 'echo up; exec sleep 1000' >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
await grep -q up "$work/out"
kill -9 "$launcher"
wait "$launcher" 2>/dev/null
nobody_left "$KOLOTEST_MARK"
[[ $(cat "$work/job.json") == old && $(echo "$work"/job.json*) == "$work/job.json" ]] || fail 'kill -9 left a part of a trace'

# A limit on the size of files is reported, and nothing is ended by a signal. (The limit does not
# apply to cat.)
limited() { (ulimit -f "$1"; shift; exec timeout "$patience" "$@" </dev/null) 2>&1 | cat >"$work/out"; }
limited 0 "$KOLORUN" --timeline /dev/null -np 2 "$CALLS" 5
says out 'memory for the timeline of rank 0: File too large: raise `ulimit -f`'
limited 100 env KOLO_TIMELINE="$work/limited" "$KOLORUN" --set TRANSPORT=tcp -np 2 "$CALLS" 5
says out "KOLO_TIMELINE: the [0-9]+ bytes of $work/limited.[01] exceed the file size limit of 102400: raise .ulimit -f."
[[ ! -e $work/limited.0 && ! -e $work/limited.1 ]] || fail 'a timeline that did not fit is there'
limited 4 "$KOLORUN" timeline "$work"/t.[0-9]* -o "$work/limited.json"
says out '^kolorun: -o .*limited.json: File too large: raise `ulimit -f`$'
[[ ! -e $work/limited.json ]] || fail 'a trace that did not fit is there'

# A host whose clock is an hour ahead.
cat >"$work/ssh" <<'SSH'
#!/bin/bash
exec unshare --time --monotonic 3600 sh -c "${!#}"
SSH
chmod +x "$work/ssh"
if unshare --time --monotonic 3600 true 2>/dev/null; then
    run 0 env KOLO_TRANSPORT=tcp "$KOLORUN" "${timeline[@]}" --ssh "$work/ssh" -np 4 -H localhost:2,elsewhere:2 "$CALLS" 100
    says err '^kolorun: timeline: the clocks of 2 hosts were aligned by their calls, to [0-9.]+ us$'
    check "$work/job.json" 4 100 clocks=2
    run 137 env KOLO_TRANSPORT=tcp "$KOLORUN" "${timeline[@]}" --ssh "$work/ssh" -np 4 -H localhost:2,elsewhere:2 "$CALLS" 100 die 3
    check "$work/job.json" 4 100 victim=3 clocks=2
else
    echo 'no time namespaces: clocks that differ are left to test_trace_clocks.c'
fi

# Wrong arguments and files are refused with one line and status 2, and nothing is written.
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
cp "$work/t.0" "$work/twin"
refuses 'it is of rank 0, as one before it' "$work/t.0" "$work/twin" -o "$work/no.json"
refuses 'is not a timeline file' /dev/zero -o "$work/no.json"
mkfifo "$work/pipe"
refuses 'is not a timeline file' "$work/pipe" -o "$work/no.json"
cp "$work/t.1" "$work/stale"
run 0 env KOLO_TIMELINE="$work/t" "$KOLORUN" -np 3 "$CALLS" 5
refuses 'it is of another job than those before it' "$work/t.0" "$work/stale" "$work/t.2" -o "$work/no.json"
refuses "$work" "$work" -o "$work/no.json"
run 2 "$KOLORUN" timeline "$work/t.0" -o "$work/t.0"
head -c 8 "$work/t.0" | grep -q kolotl || fail "a timeline was written over"
[[ ! -e $work/no.json ]] || fail "a trace of what was refused"
run 0 "$KOLORUN" timeline "$work/t.0" "$work/t.2" -o "$work/part.json"
says err '^kolorun: timeline: there are files of 2 of 3 ranks; give that of rank 1 too'
head -c 41100 "$work/t.0" >"$work/cut"
run 0 "$KOLORUN" timeline "$work/cut" -o "$work/cut.json"
says err 'records could not be read$'
run 1 env KOLO_TIMELINE=/nonexistent/t "$CALLS" 1
says err "KOLO_TIMELINE: /nonexistent/t.0 cannot be made \(No such file or directory\); "
finish
