#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks whose program is on a file system that does not answer for a while, or not at all: their
# agent still sends its heartbeat, and the job can be ended.
. "${BASH_SOURCE%/*}/common.sh"
export KOLOTEST_MARK=hanging-$$
printf '#!/bin/sh\necho here\n' >"$work/program"
printf '#!/bin/sh\ncat\n' >"$work/reader"
printf '#!/no/such/shell\n' >"$work/broken"
chmod +x "$work/program" "$work/reader" "$work/broken"
"$HANGING" /none 0 true || { [[ $? == 77 ]] && skip "seccomp has no notifications here"; fail "hanging"; }

# It answers after three times as long as a host may be silent.
KOLO_PEER_TIMEOUT=2s run 0 "$HANGING" "$work/program" 6 "$KOLORUN" --verbose -np 2 "$work/program"
for rank in 0 1; do
    says out "^\[$rank\] here$"
    says err "^kolorun: rank $rank started on localhost \(pid [0-9]+\) after ([6-9]|[1-9][0-9]+)\.[0-9]+ s$"
done
lines out 2

# What was written to standard input meanwhile arrives.
seq 1 1000 >"$work/in"
"$HANGING" "$work/reader" 2 "$KOLORUN" -np 2 "$work/reader" <"$work/in" >"$work/out" 2>"$work/err" || fail "status $? with input"
sed 's/^/[0] /' "$work/in" | cmp - "$work/out" || fail "standard input is not whole"

# It answers, and the program cannot be executed: one line, as without waiting.
for delay in 0 2; do
    run 126 "$HANGING" "$work/broken" "$delay" "$KOLORUN" -np 3 "$work/broken"
    says err "^kolorun: host localhost: cannot execute $work/broken, whose interpreter .*: No such file or directory"
    lines err 1
done

# It never answers: the job ends at its deadline, or when the user says so.
run 124 "$HANGING" "$work/program" 1000 "$KOLORUN" --timeout 1s -np 2 "$work/program"
says err '^kolorun: the job did not end within 1\.0 s \(--timeout\)'
under "$seconds" 6 "the end of a job that hangs"
"$HANGING" "$work/program" 1000 "$KOLORUN" --verbose -np 2 "$work/program" >"$work/out" 2>"$work/err" </dev/null &
hanging=$!
await grep -q 'starting 2 ranks' "$work/err"
begun=$SECONDS
kill "$hanging"
wait "$hanging"
[[ $? == 143 ]] || { fail "status $? after SIGTERM"; cat "$work/err"; }
under "$((SECONDS - begun))" 6 "the end by SIGTERM"
nobody_left "$KOLOTEST_MARK"
finish
