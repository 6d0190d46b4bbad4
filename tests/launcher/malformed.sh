#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Frames of a wrong length, of every kind: neither kolorun nor an agent acts on them, and both say
# what they got.
. "${BASH_SOURCE%/*}/common.sh"
helpers=${BASH_SOURCE%/*}/helpers
export KOLOTEST_MARK=malformed-$$

# What an agent may send. (In those that are not cut or not too long here, any number may follow.)
cat >"$work/ssh" <<'SSH'
#!/bin/bash
exec python3 "$HELPERS/odd_agent.py" "$VERSION" "$AGENT_PROTOCOL" "$WHAT"
SSH
chmod +x "$work/ssh"
VERSION=$("$KOLORUN" --version | cut -d' ' -f2)
export HELPERS=$helpers VERSION
from_agent() { # NAME...: for each, with $how
    local name
    for name; do
        WHAT=$how-$name run 255 "$KOLORUN" --verbose --ssh "$work/ssh" -H odd:1 sleep 600
        says err "^kolorun: .*host odd.*a malformed $name"
        ! grep -E 'rank 0 (started|left|exited|went)' "$work/err" || fail "kolorun acted on $how-$name"
        lines out 0
    done
}
how=cut from_agent READY REFUSED STARTED OUTPUT EXITED WANTED STRAY SIGNAL SEEN TIMELINE PAUSED LOOKED
how=long from_agent READY PREPARED REFUSED STARTED EXITED WANTED STRAY SIGNAL SEEN DONE PAUSED LOOKED BEAT

# More lines for the user than an agent can have.
for name in NOTE STARTED STRAY; do
    WHAT=many-$name run 255 "$KOLORUN" --verbose --ssh "$work/ssh" -H odd:1 sleep 600
    says err "^kolorun: .*host odd.*more than an agent has to tell \\($name\\)"
    (($(wc -l <"$work/err") < 40)) || fail "kolorun printed $(wc -l <"$work/err") lines for many $name"
done

# More output than kolorun gave credit for, while nobody reads what it prints (its standard output is a
# pipe that is read only once the agent has ended).
mkfifo "$work/pipe"
exec 8<>"$work/pipe"
export WHAT=output PIDFILE=$work/pid
has_ended() { [[ -s $PIDFILE ]] && ! kill -0 "$(<"$PIDFILE")"; }
"$KOLORUN" --ssh "$work/ssh" -H odd:1 sleep 600 >&8 2>"$work/err" </dev/null 8>&- &
launcher=$!
await has_ended
cat <&8 >"$work/out" &
reader=$!
status=0
wait "$launcher" || status=$?
kill "$reader"
exec 8>&-
((status == 255)) || fail "status $status after output without credit, expected 255"
says err 'host odd.*more output than it had credit for'
(($(wc -c <"$work/out") < 2 << 20)) || fail "kolorun held more than 2 MiB of output: $(wc -c <"$work/out")"

# What kolorun may send.
to_agent() {
    local name
    for name; do
        run 0 python3 "$helpers/odd_launcher.py" "$KOLORUN" "$how" "$name"
        says out "^agent: disconnected from kolorun: $words"
        says out '^status 1$'
        lines out 2
    done
}
how=cut words="the job's description: cut short" to_agent JOB
how=long words="the job's description: 1 bytes too many" to_agent JOB
how=cut
for name in CREDIT SIGNAL PAUSE RESUME LOOK; do words="a malformed $name" to_agent "$name"; done
how=long
for name in START CREDIT SIGNAL PAUSE RESUME LOOK END BEAT; do words="a malformed $name" to_agent "$name"; done
nobody_left "$KOLOTEST_MARK"
finish
