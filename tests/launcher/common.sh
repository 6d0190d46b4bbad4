# SPDX-License-Identifier: Apache-2.0
# Sourced by the shell tests of kolorun: the functions that they share. ctest sets KOLORUN,
# RANK_PROGRAM, CALLS, STRANGER, REFUSING, SCARCE, LATE, HANGING, MOCK_CUDA (a folder) and SLOW (1; more with sanitizers).
# A test calls fail for each failure, and finish at its end.
set -uo pipefail
unset "${!SLURM_@}" # in a Slurm job, kolorun would take the job's hosts
failures=0
AGENT_PROTOCOL=$(sed -n 's/.*KOLO_AGENT_PROTOCOL = \([0-9]*\).*/\1/p' "${BASH_SOURCE%/*}/../../launcher/frames.h")
export AGENT_PROTOCOL
patience=300 # deadline in seconds of what is not judged by its time; the machine may be busy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${SLOW:=1}"

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
finish() { ((failures == 0)) || { echo "$failures failed"; exit 1; }; }
skip() { echo "skipped: $*"; exit 77; }

# run STATUS COMMAND...: COMMAND must end with exit status STATUS. Its standard output and error are
# kept in $work/out and $work/err, its duration in $seconds.
run() {
    local want=$1 begun got=0
    shift
    begun=$EPOCHREALTIME
    timeout "$patience" "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    seconds=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.3f", b - a}')
    [[ $got == "$want" ]] || { fail "status $got instead of $want: $*"; tail -n 5 "$work/out" "$work/err"; }
}
# says FILE PATTERN: $work/FILE must have a line that matches the extended regular expression.
says() { grep -qE -- "$2" "$work/$1" || { fail "no line '$2' in $1:"; tail -n 5 "$work/$1"; }; }
lines() { [[ $(wc -l <"$work/$1") == "$2" ]] || { fail "$(wc -l <"$work/$1") lines instead of $2 in $1:"; tail -n 5 "$work/$1"; }; }
# under SECONDS LIMIT WHAT: fails if WHAT took longer than LIMIT, which is for an idle machine; on a
# busy one it is longer.
under() {
    awk -v a="$1" -v b="$2" -v s="$SLOW" -v load="$(cut -d' ' -f1 /proc/loadavg)" -v cores="$(nproc)" \
        'BEGIN {exit !(a < b * s * (1 + load / cores) + 1)}' ||
        fail "$3: $1 s, allowed $2 s x $SLOW, load $(cut -d' ' -f1 /proc/loadavg)"
}

# Succeeds if another user may run kolorun in this directory, which is not so in a home folder that
# is closed to others.
others_may_enter() {
    setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'cd "$1" && exec "$2" --version' sh "$PWD" "$KOLORUN" >/dev/null 2>&1 ||
        { echo "tests as another user are left out: $PWD is closed to others"; return 1; }
}

# Succeeds if the machine is so busy that a rank may get no processor within the second that kolorun
# allows.
is_busy() { awk -v c="$(nproc)" '{exit !($1 > c)}' /proc/loadavg; }

# Prints the processes with the mark $1 in their environment. The programs that it runs itself must
# not have it.
marked() {
    (
        unset KOLOTEST_MARK
        grep -lzx "KOLOTEST_MARK=$1" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/||; s|/environ||' | tr '\n' ' '
    )
}
# Fails if a process with the mark $1 is left. Processes that are ending get patience / 5 seconds.
nobody_left() {
    local end=$((SECONDS + patience / 5)) left
    while :; do
        left=$(marked "$1")
        [[ -n ${left// /} ]] || return 0
        ((SECONDS < end)) || break
        read -rt 0.1 <> <(:) || true
    done
    fail "$1: left behind: $(for p in $left; do echo "$p $(tr '\0' ' ' <"/proc/$p/cmdline")"; done)"
}
child_of() { # PID
    local file
    for file in /proc/[0-9]*/stat; do
        [[ $(sed 's/.*) //' "$file" 2>/dev/null | awk '{print $2}') == "$1" ]] && { file=${file#/proc/}; echo "${file%/stat}"; }
    done
}
# await COMMAND...: waits until COMMAND succeeds.
await() {
    local end=$((SECONDS + patience))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { fail "waited in vain for: $*"; return 1; }
        read -rt 0.05 <> <(:) || true
    done
}

# background NAME COMMAND...: kolorun in the background; its processes have the mark NAME-PID. What a
# setting of it alone is, precedes the call: KOLO_PEER_TIMEOUT=9s background ...
background() {
    export KOLOTEST_MARK=$1-$$
    : >"$work/out"
    : >"$work/err"
    "$KOLORUN" "${@:2}" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}
# ended STATUS: the kolorun in the background ends with it, and leaves nobody.
ended() {
    local got=0
    wait "$launcher" || got=$?
    [[ $got == "$1" ]] || { fail "$KOLOTEST_MARK: status $got instead of $1"; cat "$work/out" "$work/err"; }
    nobody_left "$KOLOTEST_MARK"
}
# state_of PID: the letter of its state, as in proc(5).
state_of() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1; }
