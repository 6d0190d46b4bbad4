#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests Ctrl-Z: a job is stopped for longer than its hosts may be silent, and continues. And a job in
# the background of a terminal, which leaves what is typed there to others.
. "${BASH_SOURCE%/*}/common.sh"

# The ranks are the processes whose environment has the mark and a KOLO_RANK.
ranks() {
    local pid
    for pid in $(marked "$KOLOTEST_MARK"); do
        grep -qz '^KOLO_RANK=' "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
}
stopped() { # PID...
    local pid
    for pid; do [[ $(state_of "$pid") == T ]] || return 1; done
}
up() { [[ $(grep -c '\] up' "$work/out") == "$1" ]]; }
pass() { read -rt "$1" <> <(:) || true; } # waits; the tests are about too long a silence

# Stopped twice, each time for longer than KOLO_PEER_TIMEOUT, over both transports: the job
# succeeds.
for transport in shm tcp; do
    KOLO_PEER_TIMEOUT=2500ms KOLO_TRANSPORT=$transport background "pause-$transport" -np 3 "$RANK_PROGRAM" loop 10
    await up 3
    mapfile -t all < <(ranks)
    [[ ${#all[@]} == 3 ]] || fail "$transport: ${#all[@]} ranks instead of 3"
    for round in 1 2; do
        kill -TSTP "$launcher"
        await stopped "$launcher" "${all[@]}" || fail "$transport: round $round: not all stopped"
        pass 3.6
        stopped "$launcher" "${all[@]}" || fail "$transport: round $round: not all stayed stopped"
        kill -CONT "$launcher"
        pass 0.3
    done
    ended 0
    lines err 0
done

# Stopped at the start, perhaps before the ranks exist, and continued at once.
KOLO_PEER_TIMEOUT=2500ms background early -np 2 "$RANK_PROGRAM" loop 1
kill -TSTP "$launcher"
kill -CONT "$launcher"
pass 0.2
kill -CONT "$launcher"
ended 0

# If kolorun is killed while everything is stopped, nothing is left. If it gets SIGTERM meanwhile,
# the job ends by it once continued.
KOLO_PEER_TIMEOUT=2500ms background pause-kill -np 2 "$RANK_PROGRAM" loop 60
await up 2
kill -TSTP "$launcher"
await stopped "$launcher"
kill -9 "$launcher"
ended 137 2>/dev/null
KOLO_PEER_TIMEOUT=2500ms background pause-term -np 2 "$RANK_PROGRAM" loop 60
await up 2
kill -TSTP "$launcher"
await stopped "$launcher"
kill -TERM "$launcher"
kill -CONT "$launcher"
ended 143

# The death of a rank while all are stopped is reported once they continue.
KOLO_PEER_TIMEOUT=2500ms background pause-rank -np 3 "$RANK_PROGRAM" loop 60
await up 3
mapfile -t all < <(ranks)
kill -TSTP "$launcher"
await stopped "$launcher" "${all[@]}"
kill -9 "${all[0]}"
kill -CONT "$launcher"
ended 137
says err '^kolorun: rank [0-2] .* was killed by signal 9 \(SIGKILL\)'

# kolorun and its agent do not run for longer than silence is allowed (the machine is frozen, or far
# too busy): each finds a heartbeat of the other as soon as it looks, and the job continues.
KOLO_PEER_TIMEOUT=2500ms background frozen -np 2 "$RANK_PROGRAM" loop 6
await up 2
both=("$launcher" "$(child_of "$(child_of "$launcher")")")
for process in "${both[@]}"; do kill -STOP "$process"; done
pass 3.2
for process in "${both[@]}"; do kill -CONT "$process"; done
ended 0
lines err 0

# If the job's store does not answer, kolo_dup fails on all ranks in time to keep the world.
export KOLOTEST_MARK=pause-store-$$
mkdir "$work/dup"
"$KOLORUN" -np 2 "$RANK_PROGRAM" dup "$work/dup" >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
await test -e "$work/dup/up"
kill -STOP "$launcher"
: >"$work/dup/go"
await test -e "$work/dup/done"
kill -CONT "$launcher"
ended 0
none="KOLO_ERR_SYSTEM .*kolo_dup: rank 0 .* got no numbers from the job's store"
says out "^\[0\] $none: .*no answer .* arrived within"
says out "^\[1\] $none: it says why\$"

# If the shell has no job control and ignores SIGTSTP, kolorun ignores it too.
export KOLOTEST_MARK=pause-ignored-$$
(
    trap '' TSTP
    exec "$KOLORUN" -np 1 "$RANK_PROGRAM" loop 1 >"$work/out" 2>"$work/err" </dev/null
) &
launcher=$!
await up 1
kill -TSTP "$launcher"
ended 0

# The terminal of a job in the background is read when the job comes to the foreground.
if command -v python3 >/dev/null; then
    export KOLOTEST_MARK=pause-terminal-$$
    timeout "$patience" python3 "${BASH_SOURCE%/*}/helpers/terminal.py" "$KOLORUN" || fail "a job in the background of a terminal"
    nobody_left "$KOLOTEST_MARK"
fi
finish
