#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks die and the others continue: kolorun --keep-going and kolo_shrink. Also what happens without
# --keep-going, or without a launcher.
. "${BASH_SOURCE%/*}/common.sh"

# survive CASE RANKS SURVIVORS VICTIMS [during]: the survivors must end with a verified allreduce
# among them, in the old order, and kolorun must name the one or two victims.
survive() {
    local name=$1 ranks=$2 survivors=$3 i also=''
    shift 3
    export KOLOTEST_MARK=$name-$$
    run 137 "$KOLORUN" --keep-going -np "$ranks" "$RANK_PROGRAM" shrink "$@"
    for ((i = 0; i < survivors; i++)); do
        says out "^\[[0-9]\] survived [0-9.]+ as $i of $survivors\$"
    done
    [[ $(grep -c ' survived ' "$work/out") == "$survivors" ]] || { fail "$name: not $survivors survivors"; cat "$work/out" "$work/err"; }
    ! grep -q ' wrong ' "$work/out" || fail "$name: a wrong sum"
    # The survivors keep the order of their old ranks.
    [[ $(sed -nE 's/^\[([0-9])\] survived .* as ([0-9]) of .*/\2 \1/p' "$work/out" | sort | awk '$2 <= last {exit 1} {last = $2}') == '' ]] ||
        fail "$name: another order"
    [[ $1 != *,* ]] || also=", but for rank ${1##*,} \\(localhost\\)"
    says err "^kolorun: rank ${1%%,*} \(localhost, pid [0-9]+\) was killed by signal 9 \(SIGKILL\) after [0-9.]+ s; the others went on$also\$"
    under "$seconds" 5 "$name"
    nobody_left "$KOLOTEST_MARK"
}
for transport in tcp shm; do
    export KOLO_TRANSPORT=$transport
    survive "once-$transport" 4 3 2
    survive "twice-$transport" 5 3 2,0
    survive "during-$transport" 5 3 1,3 during
done
unset KOLO_TRANSPORT
survive to-one 3 1 0,2

# Without --keep-going the first death ends the job, and the error names the dead rank.
run 137 "$KOLORUN" -np 3 "$RANK_PROGRAM" shrink 1
says out '^\[0\] error .*rank 1 \(.*signal 9'
says err 'the job was ended$'
under "$seconds" 4 "without --keep-going"

# Before all ranks have joined, no rank can continue without the others.
run 3 "$KOLORUN" --keep-going -np 2 sh -c '[ $RANK = 1 ] && exit 3; exec sleep 100'
says err 'rank 1 .*exited with status 3 .*; the job was ended$'
under "$seconds" 3 "a death at the start"

# begin_without_first SIGNAL STATUS: rank 0 ends by SIGNAL when all have joined and it has not shared
# its figures yet, because the file does not open. The others do not wait for them.
begin_without_first() {
    local end begun got=0 pid
    echo >"$work/profile"
    export KOLOTEST_MARK=begin-$1-$$
    KOLO_PROFILE=$work/profile KOLO_LOG=debug KOLO_START_TIMEOUT=100s "$HANGING" "open:$work/profile" 1000 \
        "$KOLORUN" --verbose --keep-going -np 3 "$RANK_PROGRAM" start >"$work/out" 2>"$work/err" </dev/null &
    end=$!
    for rank in 0 1 2; do
        await grep -q "^\[$rank\] .*start: all 3 ranks have joined" "$work/err"
    done
    pid=$(sed -nE 's/^kolorun: rank 0 started on .*\(pid ([0-9]+)\).*/\1/p' "$work/err")
    begun=$EPOCHREALTIME
    kill -s "$1" "$pid"
    wait "$end" || got=$?
    [[ $got == "$2" ]] || fail "rank 0 ends by $1: status $got instead of $2"
    for rank in 1 2; do
        says out "^\[$rank\] init [0-9.]+ rank 0 \(.*, pid $pid\) "
    done
    under "$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}')" 4 "rank 0 ends by $1 before it has shared its figures"
    nobody_left "$KOLOTEST_MARK"
}
if "$HANGING" /none 0 true; then
    begin_without_first KILL 137
    begin_without_first USR1 4
else
    [[ $? == 77 ]] || fail "hanging"
    echo "left out: rank 0 that ends while its profile does not open"
fi

# What is left when the others have ended. pid_of RANK: its process; is_up COUNT: so many ranks are.
pid_of() { sed -nE "s/^kolorun: rank $1 started on .*\(pid ([0-9]+)\).*/\1/p" "$work/err"; }
is_up() { [[ $(grep -c '\] up' "$work/out") == "$1" ]]; }
has() { grep -qE -- "$2" "$work/$1"; }
export KOLO_TIMEOUT=$((3 * SLOW))s KOLO_STALL_WARN=1s KOLO_EXIT_TIMEOUT=2s

# A stopped rank, for which the others have waited in vain, is ended. The losses are told at once.
KOLO_TIMEOUT=$((6 * SLOW))s background frozen --verbose --keep-going -np 4 "$RANK_PROGRAM" outlive
await is_up 4
pid=$(pid_of 1) dead=$(pid_of 3)
kill -STOP "$pid"
kill -9 "$dead"
await has err "^kolorun: after [0-9.]+ s: rank 3 \(localhost, pid $dead\) was killed by signal 9 \(SIGKILL\); the others go on \(--keep-going\)\$"
! has out 'shrink ' || fail "a loss is told late"
await has err "^kolorun: kolo_shrink: waiting for [0-9.]+ s; not there yet: rank 1 \(.*, pid $pid\)\$"
kill -QUIT "$launcher"
ended 137
says err '^kolorun:   ranks 0, 2 \(localhost\) wait in kolo_shrink, for '
says out "^\[0\] shrink .*kolo_shrink: rank 1 \(.*, pid $pid\) has not come"
says err '^kolorun: after [0-9.]+ s: rank [02] \(localhost, pid [0-9]+\) exited with status 6; the others go on'
says err '^kolorun: after [0-9.]+ s: the other ranks have ended; what is left can do nothing, and is ended in 2\.0 s \(KOLO_EXIT_TIMEOUT\):$'
says err "^kolorun:   rank 1 \(localhost, pid $pid\) waits in no known call: stopped by a signal"
says err "^kolorun: rank 3 \(localhost, pid $dead\) was killed by signal 9 \(SIGKILL\) after [0-9.]+ s; then the others failed too; rank 1 \(localhost\), which was stopped by a signal, was ended\$"

# No other rank has died: the others give up.
background frozen-only --verbose --keep-going -np 3 "$RANK_PROGRAM" outlive
await is_up 3
kill -STOP "$(pid_of 1)"
ended 6
says err '^kolorun: rank [02] .* exited with status 6 after [0-9.]+ s; then the others failed too; rank 1 \(localhost\), which was stopped by a signal, was ended$'

# It goes on in time, and then alone.
KOLO_EXIT_TIMEOUT=60s background thawed --verbose --keep-going -np 3 "$RANK_PROGRAM" outlive
await is_up 3
pid=$(pid_of 1)
kill -STOP "$pid"
await has err 'what is left can do nothing'
kill -CONT "$pid"
ended 6
says out '^\[1\] survived [0-9.]+ as 0 of 1$'
! has err ', was ended' || fail "a rank that went on was ended"

# A rank that lost its connection and goes on as another program is named now and then, and is never
# ended: it may save what it has. It saves until it has been named for longer than the exit timeout.
background cut-off --keep-going -np 3 "$RANK_PROGRAM" part 0 "until [ -e '$work/save' ]; do :; done; echo saved"
is_named() { [[ $(grep -c '^kolorun:   rank 0 .* has lost its connection: ' "$work/err") -ge 2 ]] || ! kill -0 "$launcher"; }
await is_named
touch "$work/save"
ended 0
says err '^kolorun: after [0-9.]+ s: rank 0 \(localhost, pid [0-9]+\) lost its connection; the others go on'
says err '^kolorun: after [0-9.]+ s: the other ranks have ended; what is left has lost its connection, and may still do something:$'
says out '^\[0\] saved$'
! has err 'can do nothing|was ended' || { fail "a rank that works without its connection"; cat "$work/err"; }

# If it is stopped, too, it is ended.
background cut-off-frozen --verbose --keep-going -np 3 "$RANK_PROGRAM" become 1
await has err '^kolorun: after [0-9.]+ s: rank 1 \(localhost, pid [0-9]+\) lost its connection; the others go on'
kill -STOP "$(pid_of 1)"
ended 1
says err '^kolorun: after [0-9.]+ s: the other ranks have ended; what is left can do nothing, and is ended in 2\.0 s \(KOLO_EXIT_TIMEOUT\):$'
says err '^kolorun:   rank 1 .* has lost its connection: stopped by a signal'
says err '^kolorun: rank 1 \(localhost, pid [0-9]+\) lost its connections and ran on, then rank [02] .*; rank 1 \(localhost\), which had lost its connection and was stopped by a signal, was ended$'

# Who computes, or sleeps, is named now and then if it has not shrunk, and is never ended.
run 137 "$KOLORUN" --keep-going -np 2 "$RANK_PROGRAM" alone 7
says err '^kolorun: after [0-9.]+ s: the other ranks have ended; what is left has not called kolo_shrink since the latest failure:$'
says err '^kolorun:   rank 0 \(localhost, pid [0-9]+\) waits in no known call: blocked in clock_nanosleep'
says out '^\[0\] done '
says err '^kolorun: rank 1 .* \(SIGKILL\) after [0-9.]+ s; the others went on$'
run 137 "$KOLORUN" --keep-going -np 2 "$RANK_PROGRAM" alone 4 shrink
says out '^\[0\] done '
! has err 'what is left' || { fail "a survivor is complained about"; cat "$work/err"; }
# Nor is a survivor that was stopped after it had shrunk.
background paused-alone --verbose --keep-going -np 2 "$RANK_PROGRAM" alone 2 shrink
await has out '\[0\] alone .* KOLO_OK'
kill -STOP "$(pid_of 0)"
read -rt 5 <> <(:)
kill -CONT "$(pid_of 0)"
ended 137
says out '^\[0\] done '
unset KOLO_TIMEOUT KOLO_STALL_WARN KOLO_EXIT_TIMEOUT

# The option does not affect a job without failures.
run 0 "$KOLORUN" --keep-going -np 2 "$RANK_PROGRAM" loop 0

# Without a launcher, rank 0 serves the store. kolo_shrink after its death fails with that reason.
export KOLO_SIZE=3 KOLO_RENDEZVOUS=file://$work/meet KOLO_SECRET
KOLO_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
pids=()
for rank in 0 1 2; do
    KOLO_RANK=$rank timeout "$patience" "$RANK_PROGRAM" shrink 0 >"$work/out$rank" 2>&1 &
    pids+=($!)
done
for rank in 0 1 2; do
    got=0
    wait "${pids[rank]}" || got=$?
    ((rank == 0)) || [[ $got == 6 ]] || fail "without a launcher: rank $rank ended with $got"
    ((rank == 0)) || grep -q "shrink .*kolo_shrink: the job's store is gone.*rank 0 served it" "$work/out$rank" ||
        { fail "without a launcher: rank $rank does not say why"; cat "$work/out$rank"; }
done
finish
