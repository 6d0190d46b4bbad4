#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the output of ranks: no line is torn, lost or out of order, with fast and slow readers. Also
# tests standard input, which rank 0 gets.
. "${BASH_SOURCE%/*}/common.sh"

# Each rank's lines must be complete and in order.
whole() { # FILE RANKS LINES WHAT
    awk -v ranks="$2" -v lines="$3" '
        $1 != "[" $3 "]" || $2 != "rank" || $4 != "line" || $5 != n[$3]++ || !/fills up soon$/ {print "torn: " $0; bad++; if (bad > 3) exit 1}
        END {for (r = 0; r < ranks; r++) if (n[r] != lines) {print "rank " r " has " n[r] " lines"; bad++} exit bad > 0}' "$1" ||
        fail "$4"
}
run 0 "$KOLORUN" -np 8 "$RANK_PROGRAM" lines 20000
whole "$work/out" 8 20000 "fast reader"
echo "8 ranks x 20000 lines in $seconds s"

# A slow reader: everything arrives.
"$KOLORUN" -np 4 "$RANK_PROGRAM" lines 20000 2>"$work/err" | {
    for ((i = 0; i < 20; i++)); do
        dd bs=64k count=1 iflag=fullblock status=none
        read -rt 0.05 <> <(:) || true
    done
    cat
} >"$work/slow"
whole "$work/slow" 4 20000 "slow reader"

# A slow reader slows the ranks down: kolorun and its agent do not store what they write, 202 MiB
# here, of which the reader has taken 40 when their memory is looked at. A sanitizer keeps freed
# memory, so only other builds are judged.
mkfifo "$work/pipe"
"$KOLORUN" -np 2 sh -c 'yes "a line of average length, as programs write them" | head -n 2000000' >"$work/pipe" 2>"$work/err" &
launcher=$!
{
    for ((i = 0; i < 40; i++)); do
        dd bs=1M count=1 iflag=fullblock status=none
        read -rt 0.02 <> <(:) || true
    done
    for pid in "$launcher" $(child_of "$launcher"); do
        awk '/^Name|^VmHWM/ {printf "%s ", $2} END {print ""}' "/proc/$pid/status"
    done >"$work/memory"
    cat
} <"$work/pipe" | wc -c >"$work/count"
wait "$launcher" || fail "a slow reader: status $?: $(cat "$work/err")"
bytes=$((2 * 2000000 * (49 + 4))) # lines of 49 bytes with the prefix "[0] "
(($(<"$work/count") == bytes)) || fail "a slow reader got $(<"$work/count") bytes instead of $bytes"
echo "with a slow reader they have had, in KiB: $(tr '\n' ' ' <"$work/memory")"
[[ $(grep -c '^kolorun' "$work/memory") == 2 ]] || fail "not kolorun and one agent: $(<"$work/memory")"
((SLOW > 1)) || awk '$2 > 32768 {exit 1}' "$work/memory" || fail "kolorun stores what a slow reader has not read"

# A reader that goes away ends the job quietly.
"$KOLORUN" -np 2 yes 2>"$work/err" | head -3 >"$work/out"
[[ ${PIPESTATUS[0]} == 141 ]] || fail "status ${PIPESTATUS[0]} instead of 141 when the reader is gone"
lines out 3
lines err 0

# If the output has no space left, the job ends with a line that says so.
"$KOLORUN" -np 2 yes >/dev/full 2>"$work/err" && fail "a full output is no failure"
says err '^kolorun: the output cannot be written: No space left on device'
lines err 1

# All of standard input goes to rank 0, and its end too.
seq 1 200000 >"$work/in"
"$KOLORUN" -np 3 --no-prefix cat <"$work/in" >"$work/out" || fail "cat"
cmp "$work/in" "$work/out" || fail "standard input was not passed on whole"
"$KOLORUN" -np 2 head -1 <"$work/in" >"$work/out" || fail "a rank that does not read all of its input"
says out '^\[0\] 1$'
printf 'x\ny' | "$KOLORUN" -np 2 --no-stdin cat >"$work/out" || fail "--no-stdin"
lines out 0

# A line of 3 MiB is passed on in pieces, and none is lost; standard error stays separate.
run 0 "$KOLORUN" -np 1 --no-prefix sh -c 'head -c 3145728 /dev/zero | tr "\0" x; echo; echo oops >&2'
says err '^oops$'
{ head -c 3145728 /dev/zero | tr "\0" x; echo; } | cmp - "$work/out" || fail "a long line was changed"

# Binary output is passed on unchanged, without an added newline.
head -c 2500000 /dev/urandom >"$work/in"
"$KOLORUN" -np 1 --no-prefix cat <"$work/in" | cmp - "$work/in" || fail "bytes were changed"
finish
