#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks whose program is on a file system that does not answer for a while, or not at all: their
# agent still sends its heartbeat, and the job can be ended. And --output-dir, --timeline and --json
# on such a file system: every wait for it has an end, and what is missing is said.
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

# An agent that is held up while its ranks run finds at once that they were executed, have written
# and have ended. It passes on what they wrote, also if nothing was heard for longer than it waits
# for the end of a stream that others hold.
for program in 'echo all of it' 'seq 30000'; do
    run 0 "$HANGING" group:kolorun-agent 2 "$KOLORUN" --no-stdin --no-prefix -np 1 $program
    $program | cmp - "$work/out" || fail "$program: output is lost"
done

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

# --output-dir: a write that never ends, when all ranks have ended, with and without --timeout.
stuck() { # STATUS CALL:FILE OPTIONS...
    rm -rf "$work/dir"
    KOLO_EXIT_TIMEOUT=1s run "$1" "$HANGING" "$2" 1000 "$KOLORUN" --output-dir "$work/dir" "${@:3}"
    under "$seconds" 8 "the end of a job whose files hang (${*:2:2})"
}
stuck 1 "write:$work/dir/rank.1.out" --timeout 100s -np 2 sh -c '[ $RANK != 1 ] || echo hello'
says err "^kolorun: --output-dir $work/dir: a write to rank\.1\.out did not end within 1\.0 s \(KOLO_EXIT_TIMEOUT\): 6 bytes of the ranks' output are not in its files$"
says out '^\[1\] hello$'
lines err 1
stuck 3 "write:$work/dir/rank.0.err" --no-copy -np 1 sh -c 'echo hello >&2; exit 3'
says err "^kolorun: --output-dir .*: a write to rank\.0\.err did not end .*: 6 bytes of the ranks' output are not in its files, nor here$"
says err '^kolorun: rank 0 .* exited with status 3'
lines err 2
# More than kolorun holds for a host: the ranks wait for the file until the deadline of the job.
stuck 124 "write:$work/dir/rank.0.out" --no-copy --timeout 1s -np 1 seq 1000000
says err '^kolorun: the job did not end within 1\.0 s \(--timeout\); it was ended$'
says err "^kolorun: --output-dir .*: [0-9]{6,} bytes of the ranks' output are not in its files, nor here$"
# Or until a call of the library would fail. The rest comes here, and no byte is counted twice.
KOLO_STALL_WARN=500ms KOLO_TIMEOUT=1s stuck 1 "write:$work/dir/rank.0.out" --no-prefix --no-copy -np 1 seq 1000000
says err '^kolorun: --output-dir .*: a write to rank\.0\.out has not ended for 0\.[5-9] s; ranks that write more wait for it$'
says err '^kolorun: --output-dir .*: a write to rank\.0\.out did not end within 1\.[0-9] s \(KOLO_TIMEOUT\): its files end here, and the job goes on; what the ranks write from now on follows here$'
lost=$(sed -nE "s|^kolorun: ([0-9]+) bytes of the ranks' output are lost: .*|\1|p" "$work/err")
((lost > 0 && lost + $(stat -c %s "$work/out") == $(seq 1000000 | wc -c))) || fail "'$lost' bytes lost, $(stat -c %s "$work/out") here"
# A write that ends after a while harms nothing.
KOLO_STALL_WARN=500ms run 0 "$HANGING" "write:$work/late/rank.0.out" 4 "$KOLORUN" --output-dir "$work/late" -np 1 echo hello
[[ $(<"$work/late/rank.0.out") == hello ]] || fail "a write that came late"
lines err 1
# Files that cannot be made, and files that cannot be closed.
run 2 "$HANGING" open:rank.1.err 1000 "$KOLORUN" --output-dir "$work/open" --start-timeout 1s -np 2 rm "$work/program"
says err "^kolorun: --output-dir $work/open: its file system did not answer within 1\.0 s \(--start-timeout\); give a directory that can be written$"
lines err 1
[[ -e $work/program ]] || fail "a program was started although its files were not made"
stuck 1 "close:$work/dir/rank.1.out" -np 2 echo
says err "^kolorun: --output-dir .*: closing rank\.1\.out did not end within 1\.0 s \(KOLO_EXIT_TIMEOUT\)$"
# The process that writes them is killed. The job goes on.
"$KOLORUN" --output-dir "$work/killed" -np 1 sh -c 'until [ -e "$0" ]; do sleep 0.05; done; echo hello' "$work/go" >"$work/out" 2>"$work/err" &
launcher=$!
files_of() { grep -lx kolorun-files /proc/[0-9]*/comm 2>/dev/null | while IFS=/ read -r _ _ pid _; do [[ " $(child_of "$1" | tr '\n' ' ') " != *" $pid "* ]] || echo "$pid"; done; }
await test -e "$work/killed/rank.0.err"
kill -9 "$(files_of "$launcher")"
touch "$work/go"
wait "$launcher"
[[ $? == 1 ]] || { fail "status $? without the process that writes the files"; cat "$work/err"; }
says out '^\[0\] hello$'
says err "^kolorun: --output-dir $work/killed: kolorun-files, the process that writes them, has died: its files end here, and the job goes on$"
says err "^kolorun: the files in $work/killed are not complete$"
! grep -q 'did not end' "$work/err" || fail "a process that has died is said to hang: $(<"$work/err")"
# A trace that cannot be opened, written or named; the same for what the doctor writes.
mkdir "$work/apart"
late() { # STATUS CALL OPTIONS...
    KOLO_EXIT_TIMEOUT=1s run "$1" "$HANGING" "$2" 1000 "$KOLORUN" "${@:3}"
    under "$seconds" 20 "the end of a kolorun whose $3 hangs (${*:2:2})"
}
rm -f "$work/program"
late 2 "open:$work/apart/" --timeline "$work/apart/t" --start-timeout 1s -np 2 touch "$work/program"
says err "^kolorun: --timeline $work/apart/t: not opened within 1\.0 s \(--start-timeout\), as its file system, or the reader of a pipe, did not answer; give a file that can be written$"
lines err 1
late 2 "write:$work/apart/#*" --timeline "$work/apart/t" -np 2 touch "$work/program"
says err "^kolorun: --timeline $work/apart/t: its file system did not answer within 1\.0 s \(KOLO_EXIT_TIMEOUT\); give a file that can be written$"
lines err 1
[[ ! -e $work/program ]] || fail "a program was started although its trace was not opened"
late 1 "link:$work/apart/t" --timeline "$work/apart/t" -np 2 "$CALLS"
says err "^kolorun: no timeline: --timeline $work/apart/t: its file system did not answer within 1\.0 s \(KOLO_EXIT_TIMEOUT\)$"
late 3 "link:$work/apart/t" --timeline "$work/apart/t" -np 1 sh -c 'exit 3' # what a rank did counts first
late 2 "open:$work/apart/" doctor --timeline "$work/apart/t" --start-timeout 1s
says err "^kolorun: --timeline $work/apart/t: not opened within 1\.0 s"
late 2 "open:$work/apart/" doctor --json "$work/apart/j" --start-timeout 1s
says err "^kolorun: --json $work/apart/j: not opened within 1\.0 s"
late 1 "link:$work/apart/j" doctor --json "$work/apart/j"
says err "^kolorun: --json $work/apart/j: its file system did not answer within 1\.0 s \(KOLO_EXIT_TIMEOUT\)$"
[[ -z $(ls -A "$work/apart") ]] || fail "left behind in apart: $(ls -A "$work/apart")"
# One that answers after a while harms nothing.
run 0 "$HANGING" "link:$work/apart/t" 3 "$KOLORUN" --timeline "$work/apart/t" -np 2 "$CALLS"
[[ -s $work/apart/t ]] || fail "a trace that came late"

# --hostfile: its file system does not answer, or answers after a while.
echo localhost:2 >"$work/hosts"
run 2 "$HANGING" "open:$work/hosts" 1000 "$KOLORUN" --start-timeout 1s --hostfile "$work/hosts" true
says err "^kolorun: host file '$work/hosts': not read within 1\.0 s \(KOLO_START_TIMEOUT\), as its file system did not answer; name "
lines err 1
under "$seconds" 6 "the refusal of a host file that hangs"
run 0 "$HANGING" "open:$work/hosts" 2 "$KOLORUN" --hostfile "$work/hosts" echo here
lines out 2

# The profile of rank 0's host: its home folder does not answer, or late. A file that the user
# names is needed; the one that is there by itself is not.
export XDG_CACHE_HOME=$work/cache
mkdir -p "$work/cache/kolo"
profile=$work/cache/kolo/profile-$(hostname)
echo 'turn 4000' >"$profile"
KOLO_START_TIMEOUT=4s run 0 "$HANGING" "open:$profile" 1000 "$KOLORUN" -np 2 "$CALLS"
says err "^\[0\] .*warn: the profile of this host is not used: KOLO_PROFILE: $profile: its file system did not answer in time; KOLO_PROFILE=none reads no file$"
lines err 1
under "$seconds" 10 "a job without its profile"
KOLO_START_TIMEOUT=4s KOLO_PROFILE=$profile run 1 "$HANGING" "open:$profile" 1000 "$KOLORUN" -np 2 "$CALLS"
says err "^\[0\] .*KOLO_PROFILE: $profile: its file system did not answer in time"
under "$seconds" 10 "the refusal of a profile that hangs"
run 0 "$HANGING" "open:$profile" 1 "$KOLORUN" -np 2 "$CALLS"
lines err 0
unset XDG_CACHE_HOME

# A rendezvous file, by which ranks meet without kolorun: it cannot be written, or read, or removed.
rm -f "$work/apart/t"
export KOLO_RENDEZVOUS=file://$work/apart/meet KOLO_SECRET=$(printf "%064x" 1) KOLO_SIZE=2
first() { KOLO_RANK=0 "$@" "$CALLS" >"$work/first.out" 2>"$work/first.err" </dev/null; }
second() { KOLO_RANK=1 run "$1" "${@:2}" "$CALLS"; }
KOLO_START_TIMEOUT=1s first "$HANGING" "open:$work/apart/meet.*" 1000 && fail "a rendezvous file that is not written is no failure"
grep -Eq "rendezvous file $work/apart/meet: its file system did not answer in time" "$work/first.err" || fail "rank 0: $(<"$work/first.err")"
KOLO_START_TIMEOUT=1s second 1 "$HANGING" "open:$work/apart/meet" 1000
says err "rendezvous file $work/apart/meet: its file system did not answer in time"
under "$seconds" 6 "a start whose rendezvous file hangs"
first "$HANGING" "open:$work/apart/meet*" 1 & # it is written, and removed, late
late=$!
second 0 "$HANGING" "open:$work/apart/meet" 1
wait "$late" || fail "rank 0: status $?: $(<"$work/first.err")"
KOLO_TIMEOUT=2s first "$HANGING" "open:$work/apart/meet" 1000 & # read by rank 0 alone, to remove it
late=$!
second 0
wait "$late" || fail "rank 0: status $?: $(<"$work/first.err")"
[[ -s $work/apart/meet ]] || fail "no file that could not be removed"
rm "$work/apart/meet"
[[ -z $(ls -A "$work/apart") ]] || fail "left behind in apart: $(ls -A "$work/apart")"
unset KOLO_RENDEZVOUS KOLO_SECRET KOLO_SIZE

# kolorun timeline: so does that of a file that is read, or written.
KOLO_TIMELINE=$work/ring run 0 "$KOLORUN" -np 1 "$RANK_PROGRAM" loop 0
mkdir "$work/merged"
for file in "$work/ring.0" "$work/merged/"; do
    KOLO_START_TIMEOUT=1s run 2 "$HANGING" "open:$file" 1000 "$KOLORUN" timeline "$work/ring.0" -o "$work/merged/t"
    says err "^kolorun: (timeline: $file: not read|-o $work/merged/t: not opened) within 1\.0 s \(KOLO_START_TIMEOUT\), as its file system"
    lines err 1
    under "$seconds" 6 "the end of kolorun timeline that hangs"
done
KOLO_EXIT_TIMEOUT=1s run 1 "$HANGING" "link:$work/merged/t" 1000 "$KOLORUN" timeline "$work/ring.0" -o "$work/merged/t"
says err "^kolorun: -o $work/merged/t: its file system did not answer within 1\.0 s \(KOLO_EXIT_TIMEOUT\)$"
[[ -z $(ls -A "$work/merged") ]] || fail "left behind in merged: $(ls -A "$work/merged")"
run 0 "$HANGING" "open:$work/ring.0" 2 "$KOLORUN" timeline "$work/ring.0" -o "$work/merged/t"
[[ -s $work/merged/t ]] || fail "a file that came late"

# The user does not want to wait.
: >"$work/out" # the last one says hello too
"$HANGING" "write:$work/signal/rank.0.out" 1000 "$KOLORUN" --output-dir "$work/signal" -np 1 echo hello >"$work/out" 2>"$work/err" </dev/null &
hanging=$!
await grep -q hello "$work/out"
agent_gone() { # then kolorun waits only for the file
    local pid
    for pid in $(marked "$KOLOTEST_MARK"); do
        ! grep -q kolorun-agent "/proc/$pid/comm" 2>/dev/null || return 1
    done
}
await agent_gone
begun=$SECONDS
kill -INT "$hanging"
wait "$hanging"
[[ $? == 130 ]] || { fail "status $? after SIGINT"; cat "$work/err"; }
under "$((SECONDS - begun))" 6 "the end by SIGINT"
says err "a write to rank\.0\.out did not end within [0-9.]+ s, when the job was stopped: 6 bytes of the ranks' output are not in its files$"
nobody_left "$KOLOTEST_MARK"
finish
