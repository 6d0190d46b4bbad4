# SPDX-License-Identifier: Apache-2.0
# For the shell tests of kolorun. They get KOLORUN, RANK_PROGRAM, CALLS, STRANGER, REFUSING, MOCK_CUDA (a folder)
# and SLOW (1; more under sanitizers) from ctest.
set -uo pipefail
unset "${!SLURM_@}" # kolorun would take the hosts of a job that the tests run in
failures=0
patience=300 # seconds that anything may take which is not judged by its time: others may have the processors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${SLOW:=1}"

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
finish() { ((failures == 0)) || { echo "$failures failed"; exit 1; }; }
skip() { echo "skipped: $*"; exit 77; }

# run STATUS COMMAND...: the exit status must be that; standard output and error are kept in $work/out and $work/err,
# the time it took in $seconds.
run() {
    local want=$1 begun got=0
    shift
    begun=$EPOCHREALTIME
    timeout "$patience" "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    seconds=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.3f", b - a}')
    [[ $got == "$want" ]] || { fail "status $got instead of $want: $*"; tail -n 5 "$work/out" "$work/err"; }
}
# says FILE PATTERN: $work/FILE has a line that matches the extended regular expression.
says() { grep -qE -- "$2" "$work/$1" || { fail "no line '$2' in $1:"; tail -n 5 "$work/$1"; }; }
lines() { [[ $(wc -l <"$work/$1") == "$2" ]] || { fail "$(wc -l <"$work/$1") lines instead of $2 in $1:"; tail -n 5 "$work/$1"; }; }
# under SECONDS LIMIT WHAT: the limit is for a machine that has nothing else to do; on another it is longer.
under() {
    awk -v a="$1" -v b="$2" -v s="$SLOW" -v load="$(cut -d' ' -f1 /proc/loadavg)" -v cores="$(nproc)" \
        'BEGIN {exit !(a < b * s * (1 + load / cores) + 1)}' ||
        fail "$3: $1 s, allowed $2 s x $SLOW, load $(cut -d' ' -f1 /proc/loadavg)"
}

# Whether another user may run kolorun in this directory: not if the tree lies in a home that is closed to others.
others_may_enter() {
    setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'cd "$1" && exec "$2" --version' sh "$PWD" "$KOLORUN" >/dev/null 2>&1 ||
        { echo "left out, what another user sees: $PWD is closed to others"; return 1; }
}

# Do so many want the processors that a rank may not get one within the second that kolorun gives it?
is_busy() { awk -v c="$(nproc)" '{exit !($1 > c)}' /proc/loadavg; }

# Processes that carry the mark $1 in their environment (grep and its like must not).
marked() {
    (
        unset KOLOTEST_MARK
        grep -lzx "KOLOTEST_MARK=$1" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/||; s|/environ||' | tr '\n' ' '
    )
}
# Nothing with the mark $1 may live; a process on its way out has a moment.
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
# await COMMAND...: until it succeeds.
await() {
    local end=$((SECONDS + patience))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { fail "waited in vain for: $*"; return 1; }
        read -rt 0.05 <> <(:) || true
    done
}
