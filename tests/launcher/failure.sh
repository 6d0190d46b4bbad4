#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs that end in all kinds of ways on one machine: checks kolorun's verdict, its exit status, the
# times, and that nothing is left.
. "${BASH_SOURCE%/*}/common.sh"

# timed STATUS CASE MODE...: runs a job of 4 ranks in which one fails as MODE says. Every other
# rank's call must return within 1 s, and kolorun must end within 2 s. Prints the measured times.
timed() {
    local want=$1 name=$2 fate end slowest errors
    shift 2
    export KOLOTEST_MARK=$name-$$
    run "$want" "$KOLORUN" -np 4 "$RANK_PROGRAM" "$@"
    end=$(awk '{print $1; exit}' /proc/uptime)
    fate=$(awk '$2 == "fate" {print $3}' "$work/out")
    errors=$(grep -c '^\[[0-9]\] error' "$work/out")
    if [[ $errors -lt 3 && ${again:-0} -lt 4 ]] && is_busy; then
        echo "$name: trying again: only $errors of 3 ranks were scheduled within the second that kolorun allows"
        cat "$work/out" "$work/err"
        again=$((${again:-0} + 1)) timed "$want" "$name" "$@"
        return
    fi
    [[ $errors == 3 ]] || { fail "$name: $errors ranks had an error instead of 3"; cat "$work/out" "$work/err"; return; }
    slowest=$(awk -v f="$fate" '$2 == "error" && $3 - f > m {m = $3 - f} END {printf "%.3f", m}' "$work/out")
    under "$slowest" 1 "$name: the last rank's error"
    under "$(awk -v a="$end" -v b="$fate" 'BEGIN {print a - b}')" 2 "$name: the end of kolorun"
    echo "$name: errors within $slowest s, kolorun ended after $(awk -v a="$end" -v b="$fate" 'BEGIN {printf "%.2f", a - b}') s"
    nobody_left "$KOLOTEST_MARK"
}
timed 137 kill-9 die 2 9
[[ $(grep -cE 'error [0-9.]+ .*rank 2 \([^)]*\).* signal 9' "$work/out") == 3 ]] || { fail "an error does not name rank 2"; cat "$work/out"; }
says err '^kolorun: rank 2 \(localhost, pid [0-9]+\) was killed by signal 9 \(SIGKILL\) after [0-9.]+ s; the job was ended$'
timed 134 abort die 0 6
says err 'rank 0 .*SIGABRT'
# Without handle_segv=0, a sanitizer's handler would end the rank with a report and an exit status
# of its own.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0 TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}handle_segv=0 \
    timed 139 segv die 1 11
says err 'rank 1 .*SIGSEGV'
timed 3 exit-3 exit 3 3
says err 'rank 3 .* exited with status 3'
timed 1 desert desert 1
says err 'rank 1 .* exited with status 0 without kolo_finalize, then rank'
timed 1 become become 1
says err 'rank 1 \(localhost, pid [0-9]+\) lost its connections and ran on, then rank [0-9] .* exited with status 1 after'
for transport in tcp shm; do
    KOLO_TRANSPORT=$transport timed 137 "kill-9-$transport" die 1 9
done

# A limit of processor time, as on login machines.
run 137 bash -c 'ulimit -t 1; exec "$0" -np 1 sh -c "while :; do :; done"' "$KOLORUN"
says err '^kolorun: rank 0 .* was killed by signal 9 \(SIGKILL\), when its processor time was used up \(ulimit -t\) after'

# A job that succeeds leaves nothing, even if its ranks left processes in the background.
export KOLOTEST_MARK=orphans-$$
run 0 "$KOLORUN" -np 2 sh -c 'setsid sleep 100 >/dev/null 2>&1 & sleep 100 & echo done'
under "$seconds" 3 "orphans"
nobody_left "$KOLOTEST_MARK"
says err '^kolorun: rank [01] left process [0-9]+ \((sleep|setsid)\) in the background on localhost; it is ended with the job$'
lines err 1

# If the rank had called kolo_finalize, there is no message about such a process.
run 0 "$KOLORUN" -np 2 sh -c '"$0" loop 1; sleep 100 &' "$RANK_PROGRAM"
lines err 0
nobody_left "$KOLOTEST_MARK"

# If a rank continues in the background, the job has failed, even if all ranks ended with status 0.
astray='^kolorun: rank [01] \(localhost, pid [0-9]+\) exited with status 0, and what it left in the background'
foreground="; let the program stay in the foreground: no daemon, no '&', exec or wait at the end of a script\$"
export KOLOTEST_MARK=astray-$$
# The rank ends before its background process calls kolo_init, which it never does;
run 1 "$KOLORUN" -np 2 sh -c '"$0" stubborn &' "$RANK_PROGRAM"
says err "$astray went on as the rank \\(process [0-9]+, launcher-rank\\)$foreground"
lines err 1
nobody_left "$KOLOTEST_MARK"
# before it calls kolo_init, which it does after the rank has ended;
run 1 "$KOLORUN" -np 2 sh -c 'rank=$$; (while kill -0 $rank 2>/dev/null; do sleep 0.01; done; exec "$0" loop 100) & exit 0' "$RANK_PROGRAM"
says err "$astray (called kolo_init|went on as the rank .*)$foreground"
nobody_left "$KOLOTEST_MARK"
# and while it works with kolo.
export TIMELINE=$work/astray
run 1 "$KOLORUN" -np 2 sh -c 'KOLO_TIMELINE=$TIMELINE "$0" loop 100 & until [ -e $TIMELINE.0 ] && [ -e $TIMELINE.1 ]; do sleep 0.01; done' "$RANK_PROGRAM"
says err "$astray (called kolo_init|went on as the rank .*)$foreground"
nobody_left "$KOLOTEST_MARK"

# An agent that takes long to start many ranks is not silent.
run 0 env KOLO_PEER_TIMEOUT=1s "$KOLORUN" -np 500 --oversubscribe true

# If a rank fails before any has joined, the others may still print why, since all may have failed
# for the same reason. They have a quarter of a second, in which rank 0 may get no processor on a
# busy machine.
export PID_FILE=$work/pid # rank 0 ends after rank 1 is gone and reaped
for try in 1 2 3 4 5; do
    rm -f "$PID_FILE"
    run 3 "$KOLORUN" -np 2 sh -c '[ $RANK = 0 ] || { echo $$ >$PID_FILE.new; mv $PID_FILE.new $PID_FILE; exit 3; }
        until [ -e $PID_FILE ]; do sleep 0.01; done
        while kill -0 $(cat $PID_FILE) 2>/dev/null; do sleep 0.01; done
        echo "rank 0 says why"; exit 2'
    ! grep -q '^\[0\] rank 0 says why$' "$work/out" || break
done
says out '^\[0\] rank 0 says why$'
run 3 "$KOLORUN" -np 2 sh -c '[ $RANK = 1 ] && exit 3; exec sleep 100'
under "$seconds" 2 "a rank that exits before any has joined"

# Ranks that ignore SIGTERM and have children in sessions of their own.
export KOLOTEST_MARK=stubborn-$$
run 137 "$KOLORUN" -np 4 "$RANK_PROGRAM" stubborn-die 1
under "$seconds" 2 "stubborn ranks"
nobody_left "$KOLOTEST_MARK"

# in_background NAME ARGUMENTS...: starts kolorun in the background, with the mark NAME.
in_background() {
    export KOLOTEST_MARK=$1-$$
    shift
    : >"$work/out"
    "$KOLORUN" "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}
ended() { # STATUS
    local got=0
    wait "$launcher" || got=$?
    [[ $got == "$1" ]] || { fail "$KOLOTEST_MARK: status $got instead of $1"; cat "$work/err"; }
}
stubborn_up() { [[ $(marked "$KOLOTEST_MARK" | wc -w) -ge $1 ]]; }

# kolorun, its agent's guardian and its agent's worker: each is killed by SIGKILL.
for who in kolorun guardian worker; do
    in_background "kill-$who" -np 3 "$RANK_PROGRAM" stubborn
    await stubborn_up 9
    guardian=$(child_of "$launcher") worker=$(child_of "$(child_of "$launcher")")
    case $who in
        kolorun) kill -9 "$launcher" && ended 137 2>/dev/null ;;
        guardian) kill -9 "$guardian" && ended 255 ;;
        worker) kill -9 "$worker" && ended 255 ;;
    esac
    [[ $who != guardian ]] || says err '^kolorun: host localhost: its agent was killed; the job was ended$'
    [[ $who != worker ]] || says err '^kolorun: the agent on host localhost \(pid [0-9]+\) was killed by signal 9'
    nobody_left "$KOLOTEST_MARK"
done

# A stopped agent is silent.
KOLO_PEER_TIMEOUT=4s in_background stop -np 2 "$RANK_PROGRAM" stubborn
await stubborn_up 7
kill -STOP "$(child_of "$(child_of "$launcher")")"
ended 255
says err 'host localhost was silent for .* and counts as lost, with ranks 0 to 1'
nobody_left "$KOLOTEST_MARK"

# A stopped kolorun is silent too: the agent ends, and its last message says why.
KOLO_PEER_TIMEOUT=2s in_background silent -np 2 "$RANK_PROGRAM" stubborn
await stubborn_up 7
guardian=$(child_of "$launcher")
kill -STOP "$launcher"
await grep -q '^State:.*Z' "/proc/$guardian/status"
kill -CONT "$launcher"
ended 255
says err '^kolorun: the connection to host localhost broke \(agent: disconnected from kolorun: silent for [0-9.]+ s, exit status 1\), with ranks 0 to 1; the job was ended$'
nobody_left "$KOLOTEST_MARK"

# A rank that ended without kolo_init is named before a rank that waited for it. Programs that do
# not use kolo are not blamed.
run 4 "$KOLORUN" -np 3 sh -c '[ $RANK = 1 ] || exec "$0" loop 1' "$RANK_PROGRAM"
says err '^kolorun: rank 1 \(localhost, pid [0-9]+\) exited with status 0 without kolo_init, then rank [02] .* exited with status 4 '
run 3 "$KOLORUN" -np 3 sh -c '[ $RANK != 1 ] || exit 0; sleep 0.2; exit 3'
says err '^kolorun: rank [02] \(localhost, pid [0-9]+\) exited with status 3 after'

# Nor is the rank blamed that gave up waiting for one that is stopped, or sleeps, before kolo_init. Who
# waits is told where that one is.
waits_in_vain() { # COMMAND DOING
    KOLO_START_TIMEOUT=$((2 * SLOW))s run 4 "$KOLORUN" -np 3 bash -c "((RANK != 1)) || $1; exec \"\$0\" loop 0" "$RANK_PROGRAM"
    says out '^\[[02]\] init .*rank 1 of 3 did not start within [0-9.]+ s; kolorun started rank 1 as pid [0-9]+ on localhost$'
    says err "^kolorun: rank 1 \(localhost, pid [0-9]+\) had not called kolo_init: $2.*, then rank [02] \(localhost, pid [0-9]+\) exited with status 4 after [0-9.]+ s; the job was ended\$"
}
waits_in_vain 'kill -STOP $$' 'stopped by a signal'
waits_in_vain 'exec sleep 100' 'blocked in clock_nanosleep'
run 137 "$KOLORUN" -np 2 bash -c '((RANK != 1)) || kill -9 $$; exec "$0" loop 0' "$RANK_PROGRAM"
says out '^\[0\] init .*rank 1 \(localhost, pid [0-9]+\) was killed by signal 9'

# A rank that has lost its environment is a world of its own, which it says. A program that is told to
# be one, or does not use kolo, says nothing.
run 0 "$KOLORUN" -np 2 env -i "$RANK_PROGRAM" loop 0
for rank in 0 1; do
    says err "^\[$rank\] kolo: warn: kolo_init: this is a world of one rank, and has not joined the job of kolorun .*\(process [0-9]+, kolorun-agent\): .*env -i"
done
lines err 2
run 0 "$KOLORUN" -np 2 env -i KOLO_RANK=0 KOLO_SIZE=1 "$RANK_PROGRAM" loop 0
lines err 0
run 0 "$KOLORUN" -np 2 env -i true
lines err 0

# Signals are forwarded; the second one kills.
in_background sigint -np 2 sh -c 'trap "echo caught; exit 0" INT TERM; echo up; while :; do sleep 0.05; done'
await grep -q '\[1\] up' "$work/out"
await grep -q '\[0\] up' "$work/out"
kill -INT "$launcher"
ended 130
[[ $(grep -c caught "$work/out") == 2 ]] || fail "SIGINT did not reach both ranks"
nobody_left "$KOLOTEST_MARK"

# SIGUSR1 and SIGUSR2 are the program's: they reach every rank, and end nothing.
in_background sigusr -np 2 sh -c 'trap "echo one" USR1; trap "echo two; exit 0" USR2; echo up; while :; do sleep 0.05; done'
await grep -q '\[1\] up' "$work/out"
await grep -q '\[0\] up' "$work/out"
kill -USR1 "$launcher"
await grep -q '\[1\] one' "$work/out"
await grep -q '\[0\] one' "$work/out"
kill -USR2 "$launcher"
ended 0
[[ $(grep -c two "$work/out") == 2 ]] || fail "SIGUSR2 did not reach both ranks"
nobody_left "$KOLOTEST_MARK"
in_background sigusr-unhandled -np 2 sh -c 'echo up; exec sleep 100'
await grep -q '\[1\] up' "$work/out"
await grep -q '\[0\] up' "$work/out"
kill -USR1 "$launcher"
ended 138
says err 'was killed by signal 10 \(SIGUSR1\)'
nobody_left "$KOLOTEST_MARK"

# Who starts kolorun may have blocked all signals, which exec does not change.
env --block-signal true 2>/dev/null && {
    printf '#!/bin/sh\nexec env --block-signal "%s" "$@"\n' "$KOLORUN" >"$work/blocking"
    chmod +x "$work/blocking"
    unblocked=$KOLORUN KOLORUN=$work/blocking
    in_background blocked -np 2 sh -c 'trap "echo one" USR1; echo up; while :; do sleep 0.05; done'
    await grep -q '\[1\] up' "$work/out"
    await grep -q '\[0\] up' "$work/out"
    KOLORUN=$unblocked
    if await grep -qE '^SigBlk:\s0+$' "/proc/$launcher/status"; then
        kill -USR1 "$launcher"
        await grep -q '\[1\] one' "$work/out"
        kill -TERM "$launcher"
    else
        kill -KILL "$launcher"
    fi
    ended 143
    nobody_left "$KOLOTEST_MARK"
}

# Under nohup, SIGHUP does not end the job.
in_background sighup -np 2 sleep 100
await stubborn_up 3
kill -HUP "$launcher"
ended 129
nobody_left "$KOLOTEST_MARK"
trap "" HUP
in_background nohup -np 2 sh -c 'echo up; until [ -e "$0" ]; do sleep 0.05; done' "$work/go"
trap - HUP
await grep -q '\[1\] up' "$work/out"
kill -HUP "$launcher"
await grep -q '\[0\] up' "$work/out"
touch "$work/go"
ended 0
nobody_left "$KOLOTEST_MARK"

in_background sigterm-twice -np 2 "$RANK_PROGRAM" stubborn
await stubborn_up 7
kill -TERM "$launcher"
read -rt 0.3 <> <(:) || true
kill -TERM "$launcher"
ended 143
nobody_left "$KOLOTEST_MARK"

# A process that survives kolorun's SIGKILL is named: here one that has become another user's. Only
# root can set that up.
nobody=(setpriv --reuid 65534 --clear-groups)
become=$work/become
if [[ $(id -u) == 0 ]] && chmod 755 "$work" && cp "$(command -v setpriv)" "$become" && chmod 4755 "$become" &&
    [[ $("${nobody[@]}" "$become" --reuid 0 id -u 2>/dev/null) == 0 ]] && others_may_enter; then
    run 124 "${nobody[@]}" "$KOLORUN" --timeout 1s -np 1 "$become" --reuid 0 sleep 100
    says err "^kolorun: host localhost: process [0-9]+ \\(sleep\\) outlives SIGKILL: it is another user's, who must end it\$"
    kill -9 "$(sed -n 's/.*: process \([0-9]*\) (sleep) .*/\1/p' "$work/err")"
    # Nor does an ssh that survives it hide the verdict.
    printf '#!/bin/sh\necho $$ >"%s/pid"\nexec sleep 100\n' "$work" >"$work/forever"
    chmod 755 "$work/forever"
    run 255 "${nobody[@]}" "$KOLORUN" --start-timeout 1s --ssh "$become --reuid 0 $work/forever" -H elsewhere true
    says err '^kolorun: host elsewhere: no answer within 1\.0 s \(--start-timeout\); nothing was started; .kolorun doctor. with the same hosts says more$'
    kill -9 "$(<"$work/pid")"
fi
finish
