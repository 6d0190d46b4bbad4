#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals that come to more than kolorun: to a whole pipeline, to every process of a terminal, to all
# processes of a name. The ranks have the exit timeout, in which they save what they have.
. "${BASH_SOURCE%/*}/common.sh"

# A rank that, when it is asked to end, writes ROUNDS lines more (for a second), and then leaves
# saved.RANK. With ONCE it dies of a second signal. With FEW only rank 0 is such a rank.
cat >"$work/saving" <<'RANK'
#!/bin/bash
exec 3<> <(:) # never readable; a trap that runs while bash parses such a substitution fails
save() {
    if [[ -n ${ONCE:-} ]]; then trap - INT TERM HUP; else trap '' INT TERM HUP; fi
    for ((i = 0; i < ${ROUNDS:-40}; i++)); do
        echo saving
        read -rt 0.02 -u 3
    done
    touch "$SAVED.$RANK"
    exit 0
}
[[ -n ${FEW:-} && $RANK != 0 ]] || trap save INT TERM HUP
touch "$SAVED.up.$RANK"
while :; do
    [[ -z ${CHATTY:-} ]] || echo working
    read -rt 0.02 -u 3
done
RANK
chmod +x "$work/saving"
export SAVED=$work/saved
saving_is_up() { [[ -e $SAVED.up.0 && -e $SAVED.up.1 ]]; }
# start NAME ARGUMENTS...: kolorun in the background, whose two ranks are up.
start() {
    export KOLOTEST_MARK=$1-$$
    "$KOLORUN" "${@:2}" >"$output" 2>"$work/err" </dev/null &
    launcher=$!
    await saving_is_up
}
output=$work/out
# signalled NAME ARGUMENTS...: the same, with $agents, both processes of one.
signalled() {
    start "$@"
    agents=$(pgrep -P "$launcher")
    agents+=" $(pgrep -P "$agents" kolorun)"
    [[ $(wc -w <<<"$agents") == 2 ]] || fail "$1: not two processes of an agent: $agents"
}
# saved NAME: both ranks have saved, and nothing is left.
saved() {
    [[ -e $SAVED.0 && -e $SAVED.1 ]] || { fail "$1: the ranks were killed while they saved"; cat "$work/err"; }
    rm -f "$SAVED".*
    nobody_left "$KOLOTEST_MARK"
}
# kolorun has said one line. (Of the ranks bash may say that a signal came while it set a trap.)
one_line() { [[ $(grep -c '^kolorun:' "$work/err") == 1 ]] || { fail "not one line of kolorun:"; cat "$work/err"; }; }
# expect STATUS NAME: the kolorun of process $launcher ends with this status.
expect() {
    local got=0
    wait "$launcher" || got=$?
    [[ $got == "$1" ]] || { fail "$2: status $got instead of $1"; cat "$work/err"; }
}

# Ctrl-C in `kolorun ... | tee log` ends tee too: nobody reads what the ranks write while they save.
mkfifo "$work/pipe"
for CHATTY in "" 1; do
    export CHATTY
    cat "$work/pipe" >"$work/out" &
    reader=$!
    output=$work/pipe start "tee$CHATTY" -np 2 "$work/saving"
    kill -INT "$launcher"
    kill -KILL "$reader"
    expect 130 "Ctrl-C in a pipeline"
    says err '^kolorun: stopped by signal 2 \(SIGINT\); the job was ended$'
    one_line
    saved "Ctrl-C in a pipeline"
done
unset CHATTY

# A terminal that closes: its SIGHUP ends the job, and nothing can be written any more.
export KOLOTEST_MARK=hangup-$$
cat >"$work/terminal.py" <<'PYTHON'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
while not (b"[0] working" in said and b"[1] working" in said):
    said += os.read(terminal, 4096)
os.close(terminal)
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
CHATTY=1 run 0 python3 "$work/terminal.py" "$KOLORUN" -np 2 "$work/saving"
says out '^status 129$'
saved "a terminal that closes"

# Often only rank 0 saves, for longer than others have that learn of a failure, and the signal ends all
# other ranks at once.
FEW=1 ROUNDS=120 start few -np 2 "$work/saving"
kill -INT "$launcher"
expect 130 "ranks that the signal ends"
says err '^kolorun: stopped by signal 2 \(SIGINT\); the job was ended$'
[[ -e $SAVED.0 && ! -e $SAVED.1 ]] || fail "rank 0 was killed while it saved, since rank 1 had ended: $(cat "$work/err")"
rm -f "$SAVED".*
nobody_left few-$$

# A job goes on without its terminal (nohup, disown) while its ranks write to standard error only.
cat >"$work/gone.py" <<'PYTHON'
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.execv(sys.argv[2], sys.argv[2:])
said = b""
while b"up" not in said:
    said += os.read(terminal, 4096)
os.close(terminal)
open(sys.argv[1], "w").write("x\n")
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
mkfifo "$work/wait"
export KOLOTEST_MARK=gone-$$
# shellcheck disable=SC2016
run 0 python3 "$work/gone.py" "$work/wait" "$KOLORUN" -np 1 bash -c \
    'echo up; read -r _ <"$1"; for _ in {1..20}; do echo oops >&2; read -rt 0.05 <> <(:); done; exit 0' sh "$work/wait"
says out '^status 0$'
nobody_left "$KOLOTEST_MARK"

# One request that comes twice, by the terminal and by a wrapper, is one.
start twice -np 2 "$work/saving"
kill -INT "$launcher"
kill -INT "$launcher"
expect 130 "a signal that comes twice"
saved "a signal that comes twice"

# What asks kolorun something, or is for the ranks, does not end the agents of the same name.
signalled name -np 2 "$work/saving"
for name in QUIT USR1 USR2; do
    # shellcheck disable=SC2086
    kill -"$name" $agents
done
kill -QUIT "$launcher"
await grep -q '^kolorun: after ' "$work/err"
kill -INT "$launcher"
expect 130 "signals to agents"
saved "signals to agents"

# Signals to all of kolorun's processes (pkill kolorun), in any order, and to all processes of the job (a
# batch system; a session that ends sends SIGHUP right after): the ranks have as long as if kolorun
# alone had got it, get it once from its agents, and what they write is shown.
all_wrote() { [[ $(grep -c saving "$work/out") == 80 ]] || fail "$1: what the ranks wrote is lost"; }
for order in "kolorun agent" "agent kolorun"; do
    for name in TERM INT; do
        ONCE=1 signalled "named-$name-${order// /-}" -np 2 "$work/saving"
        # shellcheck disable=SC2086
        if [[ $order == kolorun* ]]; then kill -"$name" "$launcher" $agents; else kill -"$name" $agents "$launcher"; fi
        expect "$((128 + $(kill -l "$name")))" "SIG$name to $order"
        says err "^kolorun: stopped by signal [0-9]+ \\(SIG$name\\); the job was ended\$"
        all_wrote "SIG$name to $order"
        one_line
        saved "SIG$name to $order"
    done
done
signalled session -np 2 "$work/saving"
# shellcheck disable=SC2046
set -- $(marked "$KOLOTEST_MARK")
kill -TERM "$@"
kill -HUP "$@" 2>/dev/null
expect 143 "the end of a session"
all_wrote "the end of a session"
one_line
saved "the end of a session"

# An agent that alone gets one, by its guardian or its worker.
for which in 1 2; do
    ONCE=1 signalled "agent-$which" -np 2 "$work/saving"
    kill -TERM "$(cut -d ' ' -f "$which" <<<"$agents")"
    expect 255 "SIGTERM to an agent's process $which"
    says err '^kolorun: host localhost: its agent got signal 15 \(SIGTERM\); the job was ended$'
    one_line
    all_wrote "SIGTERM to an agent's process $which"
    saved "SIGTERM to an agent's process $which"
done

# Ranks that do not end are killed after the exit timeout; at once, if kolorun or the connection to it is
# gone as well.
cat >"$work/stubborn" <<'RANK'
#!/bin/bash
trap '' INT TERM HUP
setsid sleep 600 &
touch "$SAVED.up.$RANK"
while :; do read -rt 0.05 <> <(:); done
RANK
cat >"$work/ssh" <<'SSH'
#!/bin/bash
while [[ $1 != -- ]]; do shift; done
cat | bash -c "${*:3}" | cat
SSH
chmod +x "$work/stubborn" "$work/ssh"
for case in agent all kolorun connection; do
    if [[ $case == connection ]]; then
        start "stubborn-$case" --ssh "$work/ssh" -H far:2 "$work/stubborn"
        ssh=$(pgrep -P "$launcher" ssh)
        # shellcheck disable=SC2046
        kill -TERM $(pgrep -P "$(pgrep -P "$ssh" kolorun)" kolorun)
        # shellcheck disable=SC2046
        kill -KILL $(pgrep -P "$ssh" cat)
    else
        [[ $case == kolorun ]] && timeout=600s || timeout=500ms
        KOLO_EXIT_TIMEOUT=$timeout signalled "stubborn-$case" -np 2 "$work/stubborn"
        # shellcheck disable=SC2086
        kill -TERM $agents
        [[ $case == all ]] && kill -TERM "$launcher"
        [[ $case == kolorun ]] && kill -KILL "$launcher"
    fi
    case $case in
    agent | connection) expect 255 "stubborn ranks, $case" ;;
    all) expect 143 "stubborn ranks, $case" ;;
    kolorun) expect 137 "stubborn ranks, $case" 2>/dev/null ;;
    esac
    rm -f "$SAVED".*
    nobody_left "$KOLOTEST_MARK"
done

# The time of the job ends it also after a signal has asked it to end.
begun=$SECONDS
KOLO_EXIT_TIMEOUT=500s start stubborn-time --timeout "$((5 * SLOW))s" -np 2 "$work/stubborn"
kill -INT "$launcher"
expect 130 "the time of a job that was asked to end"
((SECONDS - begun < 400)) || fail "--timeout did not end a job that was asked to end"
rm -f "$SAVED".*
nobody_left "$KOLOTEST_MARK"

# A reader that goes away by itself ends the job.
export KOLOTEST_MARK=head-$$
CHATTY=1 "$KOLORUN" -np 2 "$work/saving" 2>"$work/err" </dev/null | head -n 3 >"$work/out"
[[ ${PIPESTATUS[0]} == 141 ]] || fail "a reader that goes away: status ${PIPESTATUS[0]} instead of 141"
! grep '^kolorun:' "$work/err" || fail "kolorun said something, though a reader went away by itself"
rm -f "$SAVED".*
nobody_left "$KOLOTEST_MARK"
finish
