#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals that come to more than kolorun: to a whole pipeline, to every process of a terminal, to all
# processes of a name. The ranks have the exit timeout, in which they save what they have.
. "${BASH_SOURCE%/*}/common.sh"

# A rank that, when it is asked to end, goes on writing for a while, and then leaves saved.RANK.
cat >"$work/saving" <<'RANK'
#!/bin/bash
save() {
    trap '' INT TERM HUP
    for _ in {1..40}; do
        echo saving
        read -rt 0.02 <> <(:)
    done
    touch "$SAVED.$RANK"
    exit 0
}
trap save INT TERM HUP
touch "$SAVED.up.$RANK"
while :; do
    [[ -z ${CHATTY:-} ]] || echo working
    read -rt 0.02 <> <(:)
done
RANK
chmod +x "$work/saving"
export SAVED=$work/saved
saving_is_up() { [[ -e $SAVED.up.0 && -e $SAVED.up.1 ]]; }
# saved NAME: both ranks have saved, and nothing is left.
saved() {
    [[ -e $SAVED.0 && -e $SAVED.1 ]] || { fail "$1: the ranks were killed while they saved"; cat "$work/err"; }
    rm -f "$SAVED".*
    nobody_left "$KOLOTEST_MARK"
}
# expect STATUS NAME: the kolorun of process $launcher ends with this status.
expect() {
    local got=0
    wait "$launcher" || got=$?
    [[ $got == "$1" ]] || { fail "$2: status $got instead of $1"; cat "$work/err"; }
}

# Ctrl-C in `kolorun ... | tee log` ends tee too: nobody reads what the ranks write while they save.
mkfifo "$work/pipe"
for CHATTY in "" 1; do
    export CHATTY KOLOTEST_MARK=tee$CHATTY-$$
    cat "$work/pipe" >"$work/out" &
    reader=$!
    "$KOLORUN" -np 2 "$work/saving" >"$work/pipe" 2>"$work/err" </dev/null &
    launcher=$!
    await saving_is_up
    kill -INT "$launcher"
    kill -KILL "$reader"
    expect 130 "Ctrl-C in a pipeline"
    says err '^kolorun: stopped by signal 2 \(SIGINT\); the job was ended$'
    lines err 1
    saved "Ctrl-C in a pipeline"
done
unset CHATTY

# A terminal that closes: its SIGHUP ends the job, and nothing can be written any more.
export KOLOTEST_MARK=hangup-$$
cat >"$work/terminal.py" <<'PYTHON'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while not all(os.path.exists("%s.up.%d" % (os.environ["SAVED"], rank)) for rank in (0, 1)):
    time.sleep(0.01)
os.close(terminal)
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
CHATTY=1 run 0 python3 "$work/terminal.py" "$KOLORUN" -np 2 "$work/saving"
says out '^status 129$'
saved "a terminal that closes"

# One request that comes twice, by the terminal and by a wrapper, is one.
export KOLOTEST_MARK=twice-$$
"$KOLORUN" -np 2 "$work/saving" >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
await saving_is_up
kill -INT "$launcher"
kill -INT "$launcher"
expect 130 "a signal that comes twice"
saved "a signal that comes twice"

# What asks kolorun something, or is for the ranks, does not end the agents of the same name.
export KOLOTEST_MARK=name-$$
"$KOLORUN" -np 2 "$work/saving" >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
await saving_is_up
agents=$(pgrep -P "$launcher")
for agent in $agents; do
    agents+=" $(pgrep -P "$agent" kolorun)"
done
[[ $(wc -w <<<"$agents") -ge 2 ]] || fail "not two processes of an agent: $agents"
for name in QUIT USR1 USR2; do
    # shellcheck disable=SC2086
    kill -"$name" $agents
done
kill -QUIT "$launcher"
await grep -q '^kolorun: after ' "$work/err"
kill -INT "$launcher"
expect 130 "signals to agents"
saved "signals to agents"

# A reader that goes away by itself ends the job.
export KOLOTEST_MARK=head-$$
CHATTY=1 "$KOLORUN" -np 2 "$work/saving" 2>"$work/err" </dev/null | head -n 3 >"$work/out"
[[ ${PIPESTATUS[0]} == 141 ]] || fail "a reader that goes away: status ${PIPESTATUS[0]} instead of 141"
lines err 0
rm -f "$SAVED".*
nobody_left "$KOLOTEST_MARK"
finish
