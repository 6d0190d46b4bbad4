#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What kolorun says of a job that runs: when asked (SIGQUIT, Ctrl-\), when ranks wait for others,
# and when it ends the job.
. "${BASH_SOURCE%/*}/common.sh"

mkfifo "$work/fifo"
ready() { [[ $(grep -c '\] ready' "$work/out") == "$1" ]]; }
up() { [[ $(grep -c '\] up' "$work/out") == "$1" ]]; }
has() { grep -qE -- "$1" "$work/err"; }
has_out() { grep -qE -- "$1" "$work/out"; }
# asks PATTERN: asks until a line says PATTERN (a call is known once it has waited for KOLO_STALL).
asked() { kill -QUIT "$launcher" && read -rt 0.3 <> <(:) || has "$1"; }
asks() { await asked "$1" || cat "$work/err"; }
pid_of_rank() { # RANK: the process that this rank is
    local pid
    for pid in $(marked "$KOLOTEST_MARK"); do
        grep -qzx "KOLO_RANK=$1" "/proc/$pid/environ" 2>/dev/null &&
            [[ $(readlink "/proc/$pid/exe") == */launcher-rank ]] && echo "$pid"
    done
}
call='allreduce\(count 1, int32, sum\) sequence 1'

# Asked: who waits in which call and for how long, and what the others do. The job goes on.
background ask -np 4 "$RANK_PROGRAM" read 1 "$work/fifo"
await ready 4
asks "ranks 0, 2-3 \(localhost\) wait in $call, for "
says err '^kolorun: after [0-9.]+ s:$'
says err "^kolorun:   ranks 0, 2-3 \(localhost\) wait in $call, for [0-9.]+ s$"
says err "^kolorun:   rank 1 \(localhost, pid $(pid_of_rank 1)\) waits in no known call: blocked in read of $work/fifo$"
echo >"$work/fifo"
ended 0

# The process behind scripts is the one that is told of, whether it has joined or not.
background scripts -np 2 bash -c "bash -c '\"$RANK_PROGRAM\" read 0 \"$work/fifo\"; true'; true"
await ready 2
asks "rank 0 .* waits in no known call: blocked in read of $work/fifo"
says err "^kolorun:   rank 0 \(localhost, launcher-rank, pid $(pid_of_rank 0)\) waits in no known call"
echo >"$work/fifo"
ended 0
background other -np 3 bash -c 'sleep 600; true'
asks 'ranks 0-2 \(localhost\) have not called kolo_init: blocked in clock_nanosleep \(it sleeps\)'
kill "$launcher"
ended 143
! has 'when it was stopped' || fail "nobody had waited"

# Ranks whose calls make progress: nothing is said that is not known.
background progress -np 2 "$RANK_PROGRAM" loop 600
await up 2
asks 'ranks? 0.* waits? in no known call: '
! has ' in no call' || fail "a rank may be in a call that makes progress"
kill -9 "$launcher"
ended 137 2>/dev/null

# A rank that computes, and one that is stopped.
background busy -np 2 bash -c '((RANK == 0)) && kill -STOP $$; while :; do :; done'
asks 'rank 0 \(localhost, pid [0-9]+\) has not called kolo_init: stopped by a signal'
asks 'rank 1 \(localhost, pid [0-9]+\) has not called kolo_init: busy \([0-9]+ % of a processor\)'
kill -9 "$launcher"
ended 137 2>/dev/null

# A rank that has ended while the others go on.
background past -np 2 bash -c '((RANK == 0)) || sleep 600'
asks 'rank 0 \(localhost\) has ended'
kill "$launcher"
ended 143

# Ranks wait for others: the warning is followed by what the others do.
KOLO_STALL_WARN=1s background stall -np 3 "$RANK_PROGRAM" read 2 "$work/fifo"
await ready 3
await has "kolorun: $call: waiting for .*; not there yet: rank 2 "
await has "^kolorun:   rank 2 \(localhost, pid $(pid_of_rank 2)\) waits in no known call: blocked in read of $work/fifo$"
! has '^kolorun:   .*rank.* 0' || fail "rank 0 is where it should be"
echo >"$work/fifo"
ended 0

# The time of the job is over: the same, before the ranks are told.
limit=$((2 + 3 * SLOW)) # time to start, and for the call to be known
run 124 "$KOLORUN" --timeout "$limit" -np 3 "$RANK_PROGRAM" read 2 "$work/fifo"
says err "^kolorun:   ranks 0-1 \(localhost\) wait in $call, for "
says err "^kolorun:   rank 2 \(localhost, pid [0-9]+\) waits in no known call: blocked in read of $work/fifo$"
says err "^kolorun: the job did not end within $limit\.0 s \(--timeout\); it was ended$"
lines err 4
says out "^\[0\] error .* the job did not end within $limit\.0 s"

# The user stops a job in which ranks wait: what is known is told at once.
background stop -np 3 "$RANK_PROGRAM" read 2 "$work/fifo"
await ready 3
asks "wait in $call, for [1-9]"
: >"$work/err"
kill -INT "$launcher"
ended 130
says err '^kolorun: when it was stopped, after [0-9.]+ s:$'
says err "^kolorun:   ranks 0-1 \(localhost\) wait in $call, for "
says err '^kolorun:   rank 2 \(localhost, pid [0-9]+\) waits in no known call$'

# An agent that does not answer is not waited for long; what the store knows is told without it.
KOLO_PEER_TIMEOUT=60s background silent -np 3 "$RANK_PROGRAM" read 2 "$work/fifo"
await ready 3
asks "wait in $call, for [1-9]"
mapfile -t agents < <(for pid in $(child_of "$launcher"); do echo "$pid" && child_of "$pid"; done)
: >"$work/err"
kill -STOP "${agents[@]}"
kill -QUIT "$launcher"
await has 'rank 2 \(localhost, pid [0-9]+\) waits in no known call$'
kill -CONT "${agents[@]}"
echo >"$work/fifo"
ended 0

# Ctrl-Z while it looks: nobody is told that a rank is stopped which kolorun itself has stopped. What
# was asked before, or meanwhile, is told when the job goes on. An agent that rests answers first to
# what was asked first.
is_stopped() { [[ $(state_of "$1") == T ]]; }
for round in before meanwhile; do
    KOLO_PEER_TIMEOUT=60s background "paused-$round" -np 2 "$RANK_PROGRAM" read 1 "$work/fifo"
    await ready 2
    asks "wait[s]? in $call, for [1-9]"
    : >"$work/err"
    [[ $round == meanwhile ]] || kill -QUIT "$launcher"
    kill -TSTP "$launcher"
    [[ $round == before ]] || kill -QUIT "$launcher"
    await is_stopped "$launcher"
    read -rt 0.5 <> <(:)
    kill -CONT "$launcher"
    await has 'rank 1 \(localhost, pid [0-9]+\) waits in no known call: '
    has 'stopped by a signal' && { fail "told of a rank that kolorun has stopped"; cat "$work/err"; }
    echo >"$work/fifo"
    ended 0
done

# kolorun itself is stopped while it waits for an answer, for longer than it waits. The answer, which
# is there when it goes on, is read.
KOLO_PEER_TIMEOUT=60s background frozen -np 2 "$RANK_PROGRAM" read 1 "$work/fifo"
await ready 2
asks "wait[s]? in $call, for [1-9]"
mapfile -t agents < <(for pid in $(child_of "$launcher"); do child_of "$pid"; done)
: >"$work/err"
kill -STOP "${agents[@]}"
kill -QUIT "$launcher"
read -rt 0.5 <> <(:)
kill -STOP "$launcher"
kill -CONT "${agents[@]}"
read -rt 2.5 <> <(:)
kill -CONT "$launcher"
await has 'rank 1 \(localhost, pid [0-9]+\) waits in no known call: blocked in read of '
echo >"$work/fifo"
ended 0

# While the files are written that remain of a job, asking does not end it.
background written --timeline "$work/t.json" -np 2 "$RANK_PROGRAM" loop 1
while kill -QUIT "$launcher" 2>/dev/null; do read -rt 0.003 <> <(:); done
ended 0
[[ -s $work/t.json ]] || fail "no timeline is left of a job that was asked"
# Nor do the signals that are for ranks, which are gone by then.
rm "$work/t.json"
background written-usr --timeline "$work/t.json" -np 2 bash -c 'trap "" USR1 USR2; exec "$0" loop 1' "$RANK_PROGRAM"
await has_out '\[0\] up'
await has_out '\[1\] up'
while kill -USR1 "$launcher" 2>/dev/null && kill -USR2 "$launcher" 2>/dev/null; do read -rt 0.003 <> <(:); done
ended 0
[[ -s $work/t.json ]] || fail "no timeline is left of a job whose ranks were sent signals"

# A host that does not come: it is named. The job starts nothing.
printf '#!/bin/bash\nexec sleep 600\n' >"$work/ssh"
chmod +x "$work/ssh"
background start --ssh "$work/ssh" -H far:1 true
asks 'kolorun: after [0-9.]+ s: nothing is started yet; it waits for host far'
kill "$launcher"
ended 143

# Ctrl-\ at a terminal reaches nothing but kolorun.
command -v script >/dev/null || { echo "Ctrl-\\ is left out: there is no program script"; finish; exit; }
mkfifo "$work/keys"
exec 8<>"$work/keys"
export KOLOTEST_MARK=terminal-$$
: >"$work/out"
script -qfec "'$KOLORUN' -np 2 '$RANK_PROGRAM' read 1 '$work/fifo'" /dev/null <"$work/keys" >"$work/out" 2>&1 &
launcher=$!
await ready 2
cp /dev/null "$work/err"
typed() { printf '\034' >&8 && read -rt 0.3 <> <(:) || grep -q "blocked in read of $work/fifo" "$work/out"; }
await typed
echo >"$work/fifo"
ended 0
finish
