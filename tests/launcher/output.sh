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

# Both streams in one pipe, which is full for a while: the lines of one rank do not tear the other's.
"$KOLORUN" -np 2 bash -c '((RANK == 0)) || exec >&2; exec "$0" lines 20000' "$RANK_PROGRAM" 2>&1 |
    { read -rt 1 <> <(:); cat; } >"$work/slow"
whole "$work/slow" 2 20000 "both streams in one pipe"

# A slow reader slows the ranks down: kolorun and its agent do not store what they write, 202 MiB
# here, of which the reader has taken 40 when their memory is looked at. A sanitizer keeps freed
# memory, so only other builds are judged.
# With the files of --output-dir beside it, too: what is in them is not stored either.
mkfifo "$work/pipe"
bytes=$((2 * 2000000 * (49 + 4))) # lines of 49 bytes with the prefix "[0] "
slow_reader() { # OPTIONS...
    "$KOLORUN" -np 2 "$@" sh -c 'yes "a line of average length, as programs write them" | head -n 2000000' >"$work/pipe" 2>"$work/err" &
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
    (($(<"$work/count") == bytes)) || fail "a slow reader got $(<"$work/count") bytes instead of $bytes"
    echo "with a slow reader they have had, in KiB: $(tr '\n' ' ' <"$work/memory")"
    [[ $(grep -c '^kolorun' "$work/memory") == $((2 + ($# > 0))) ]] ||
        fail "not kolorun, one agent and, for files, one process: $(<"$work/memory")"
    ((SLOW > 1)) || awk '$2 > 32768 {exit 1}' "$work/memory" || fail "kolorun stores what a slow reader has not read"
}
slow_reader
slow_reader --output-dir "$work/slow-dir"
[[ $(stat -c %s "$work"/slow-dir/rank.[01].out | sort -u) == 98000000 ]] || fail "files beside a slow reader: $(ls -l "$work/slow-dir")"
rm -r "$work/slow-dir"

# A reader that goes away ends the job quietly.
"$KOLORUN" -np 2 yes 2>"$work/err" | head -3 >"$work/out"
[[ ${PIPESTATUS[0]} == 141 ]] || fail "status ${PIPESTATUS[0]} instead of 141 when the reader is gone"
lines out 3
lines err 0

# A reader that does not read delays a job whose time is over, or that was stopped, for the exit
# timeout only; also one that reads neither stream.
unread() { # STATUS NAME COMMAND...: $work/pipe is open, and nobody reads it
    local got=0 begun=$SECONDS
    exec 9<>"$work/pipe"
    KOLO_EXIT_TIMEOUT=1s timeout "$patience" "${@:3}" >"$work/pipe" 2>"$work/err" || got=$?
    exec 9>&-
    [[ $got == "$1" ]] || fail "unread output, $2: status $got instead of $1"
    under "$((SECONDS - begun))" 12 "the end of a job whose output nobody reads, $2"
}
unread 124 deadline "$KOLORUN" --timeout 1s -np 2 yes
says err '^kolorun: the output was not read for 1\.0 s \(KOLO_EXIT_TIMEOUT\); what the ranks wrote last is lost$'
says err '^kolorun: the job did not end within 1\.0 s \(--timeout\); it was ended$'
says err '^kolorun:   ranks 0-1 \(localhost\) have not called kolo_init: blocked in write of a pipe$'
lines err 4
unread 124 both bash -c 'exec "$@" 2>&1' - "$KOLORUN" --timeout 1s --timeline "$work/unread.json" -np 2 yes
unread 143 signal bash -c '"$@" & await=$!; sleep 1; kill $await; wait $await' - "$KOLORUN" -np 2 yes
says err '^kolorun: stopped by signal 15'
# The job has ended in time, and is read late, or not.
(
    read -rt 7 <> <(:)
    wc -c >"$work/count"
) <"$work/pipe" &
"$KOLORUN" --timeout 5s -np 1 --no-prefix head -c 800000 /dev/zero >"$work/pipe" 2>"$work/err" || fail "output that is read late: status $?"
wait
[[ $(<"$work/count") == 800000 ]] || fail "output that is read late: $(<"$work/count") bytes"
lines err 0
unread 124 ended "$KOLORUN" --timeout 5s -np 1 head -c 800000 /dev/zero
says err '^kolorun: the output was not read for 1\.0 s'
lines err 1

# A rank has failed, and the output is read only when kolorun no longer waits for the hosts to end
# the others. What all had written arrives, also why that rank failed.
rm -f "$work/count"
"$KOLORUN" --no-stdin --no-prefix -np 2 sh -c '[ "$RANK" = 1 ] || { python3 "$0" "$1"; sleep 1000; }
    until [ -e "$1" ]; do sleep 0.05; done; echo "the reason" >&2; exit 3' \
    "${BASH_SOURCE%/*}/helpers/unread.py" "$work/count" 2>"$work/err" |
    { await test -e "$work/count"; read -rt 6 <> <(:); cat; } >"$work/out"
[[ ${PIPESTATUS[0]} == 3 ]] || fail "a failed job whose output is read late: status ${PIPESTATUS[0]}"
lines out "$(<"$work/count")"
says err '^the reason$'
says err '^kolorun: rank 1 .*exited with status 3'
lines err 2

# If the output has no space left, the job ends with a line that says so.
"$KOLORUN" -np 2 yes >/dev/full 2>"$work/err" && fail "a full output is no failure"
says err '^kolorun: the output cannot be written: No space left on device'
lines err 1

# If standard error has none left, there is nobody to tell, and no other job to end: the ranks go
# on, and only the exit status shows it; but not if nobody reads it any more.
"$KOLORUN" -np 2 sh -c 'echo lost >&2; echo kept' 2>/dev/full >"$work/out" && fail "a full standard error is no failure"
[[ $? == 1 ]] || fail "a full standard error: another status"
lines out 2
"$KOLORUN" -np 2 sh -c 'echo lost >&2; exit 7' 2>/dev/full && fail "a full standard error hides a failure"
[[ $? == 7 ]] || fail "a full standard error: not the status of the rank"
mkfifo "$work/closed"
exec 9<>"$work/closed" 8>"$work/closed" 9<&-
"$KOLORUN" -np 2 sh -c 'echo unread >&2; echo kept' 2>&8 >"$work/out" || fail "a standard error that nobody reads: status $?"
exec 8>&-
lines out 2

# --output-dir: each rank's bytes, exactly, in files of its own, and here as without it; --no-copy:
# only there. Ranks of another host too.
printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec sh -c "$*"\n' >"$work/ssh"
chmod +x "$work/ssh"
writes='printf "\0%s\n\nno end of line" "$RANK"; printf "\377%s" "$RANK" >&2'
check_files() { # DIR RANKS
    local rank
    for ((rank = 0; rank < $2; rank++)); do
        RANK=$rank sh -c "$writes" >"$work/want.out" 2>"$work/want.err"
        for end in out err; do
            cmp "$work/want.$end" "$1/$(printf 'rank.%0*d.%s' "$((${#2} > 1 && $2 > 10 ? 2 : 1))" "$rank" "$end")" || fail "$1: rank $rank"
        done
    done
    [[ $(find "$1" -type f | wc -l) == $((2 * $2)) ]] || fail "$1: $(ls "$1")"
}
run 0 "$KOLORUN" -H localhost:1,elsewhere:2 --ssh "$work/ssh" --output-dir "$work/new/dir" sh -c "$writes"
check_files "$work/new/dir" 3
[[ $(grep -ac '^\[[0-2]\]' "$work/out") == 9 ]] || { fail "the files instead of the lines"; cat "$work/out"; }
run 0 "$KOLORUN" -np 12 --output-dir "$work/only" --no-copy sh -c "$writes"
check_files "$work/only" 12
lines out 0
lines err 0
# kolorun's own lines stay here, and so does the exit status. The lines of "lines" are whole.
run 3 "$KOLORUN" -np 2 --output-dir "$work/failed" --no-copy sh -c '[ $RANK = 0 ] || { echo why >&2; exit 3; }'
lines err 1
says err '^kolorun: rank 1 .* exited with status 3'
[[ $(<"$work/failed/rank.1.err") == why ]] || fail "the last words of a rank that failed"
run 0 "$KOLORUN" -np 4 --output-dir "$work/lines" "$RANK_PROGRAM" lines 20000
whole "$work/out" 4 20000 "with files"
sed 's/^/[2] /' "$work/lines/rank.2.out" | cmp - <(grep '^\[2\]' "$work/out") || fail "the file and the lines differ"
# What an earlier job has left is not touched, and nothing is left of a job that does not start.
run 2 "$KOLORUN" -np 1 --output-dir "$work/only" rm "$work/only/rank.00.out"
lines err 1
says err "^kolorun: --output-dir $work/only: there is rank\.00\.err of an earlier job; give another directory, or remove that job's files$"
check_files "$work/only" 12
run 127 "$KOLORUN" -np 2 --output-dir "$work/unused" ./no-such-program
[[ ! -e $work/unused ]] || fail "--output-dir is left of a job that did not start"
run 2 "$KOLORUN" -np 2 --output-dir "$work/only/rank.00.out" true
says err "^kolorun: --output-dir $work/only/rank\.00\.out: Not a directory; give a directory that can be written$"
# The trace of a job may be in the directory that is made for its files; nothing is left of a job
# that is refused.
run 0 "$KOLORUN" -np 1 --output-dir "$work/both" --timeline "$work/both/t.json" true
[[ -s $work/both/t.json && -e $work/both/rank.0.out ]] || fail "the trace beside the files: $(ls "$work/both")"
run 2 "$KOLORUN" -np 1 --output-dir "$work/unused" --timeline "$work/unused/none/t.json" true
says err "^kolorun: --timeline $work/unused/none/t\.json: No such file or directory; "
# One file for two: under its name, another spelling, a link, and the name of another rank.
pushd "$work" >/dev/null || exit
mkdir claimed
ln -s claimed link
ln -s claimed/rank.1.err trace
for trace in claimed/rank.0.out link/../claimed//rank.1.out link/rank.0.err trace claimed/rank.7.out; do
    refused() {
        run 2 "$KOLORUN" "${@:2}" -np 2 --output-dir claimed touch started
        says err "^kolorun: $1 $trace: --output-dir claimed keeps that name for the output of a rank; name another file$"
        lines err 1
    }
    refused --timeline --timeline "$trace"
    refused --timeline doctor --timeline "$trace"
    refused --json doctor --json "$trace"
done
[[ ! -e started && -z $(ls -A claimed) ]] || fail "started, or left behind: $(ls -A claimed)"
# Nor the host file.
echo localhost >hosts
ln -s hosts list
for job in "--timeline list" "doctor --timeline ./hosts" "doctor --json hosts"; do
    run 2 "$KOLORUN" $job --hostfile hosts -np 2 touch started
    says err "^kolorun: ${job#doctor }: that is hosts, which is an input; name another file$"
done
[[ ! -e started && $(<hosts) == localhost ]] || fail "the host file is $(<hosts)"
run 0 "$KOLORUN" --output-dir claimed --timeline link/rank.json -np 2 true
popd >/dev/null || exit
run 127 "$KOLORUN" -np 1 --output-dir "$work/unused" --timeline "$work/unused/t.json" ./no-such-program
[[ ! -e $work/unused ]] || fail "a job that was refused for its trace has left: $(ls "$work/unused")"
# A file that cannot grow ends the files, not the job: the rest comes here, and the status is 1,
# unless a rank's is worse.
grow() { # STATUS RANKS'-STATUS OPTIONS...
    # the limit holds for the files, not for the pipe
    run "$1" bash -c 'set -o pipefail; (ulimit -f 64; exec "$@") | cat' - "$KOLORUN" -np 2 --no-prefix "${@:3}" sh -c "seq 100000; exit $2"
    says err "^kolorun: --output-dir $work/grow: File too large: its files end here, and the job goes on"
    kept=$(cat "$work"/grow/rank.* | wc -c)
    rm -r "$work/grow"
}
if ((SLOW == 1)); then # a sanitizer's own files may be larger
    grow 1 0 --output-dir "$work/grow"
    [[ $(wc -l <"$work/out") == 200000 ]] || fail "lines were lost beside files that are full"
    says err "^kolorun: the files in $work/grow are not complete$"
    grow 7 7 --output-dir "$work/grow" --no-copy
    says err 'what the ranks write from now on follows here$'
    # What was on its way is counted: each byte is in the files, here, or in that line.
    lost() { sed -nE "s|^kolorun: ([0-9]+) bytes of the ranks' output are lost: they are neither in $work/grow nor here\$|\\1|p" "$work/$1"; }
    lost=$(lost err) here=$(stat -c %s "$work/out")
    ((lost > 0 && kept + here + lost == 2 * $(seq 100000 | wc -c))) ||
        fail "$kept bytes in the files, $here here, '$lost' lost"
    # Nor does it end the job if the rest can not come here either: a full disk, no reader.
    (
        ulimit -f 64
        shorter=(sh -c 'seq 400000; : >"$0.$RANK"')
        "$KOLORUN" -np 2 --output-dir "$work/grow" --no-copy "${shorter[@]}" "$work/ended-full" >/dev/full 2>"$work/err-full"
        echo $? >"$work/status-full"
        cat "$work"/grow/rank.* | wc -c >"$work/kept-full"
        rm -r "$work/grow"
        "$KOLORUN" -np 2 --output-dir "$work/grow" --no-copy "${shorter[@]}" "$work/ended-gone" 2>"$work/err-gone" | :
        echo "${PIPESTATUS[0]}" >"$work/status-gone"
        rm -r "$work/grow"
    )
    (($(lost err-full) + $(<"$work/kept-full") == 2 * $(seq 400000 | wc -c))) || fail "$(lost err-full) bytes are lost"
    for how in full gone; do
        [[ $(<"$work/status-$how") == 1 ]] || fail "$how: status $(<"$work/status-$how")"
        [[ -e $work/ended-$how.0 && -e $work/ended-$how.1 ]] || fail "$how: the job was ended"
        says "err-$how" '^kolorun: standard output: .*: what the ranks write from now on is lost, and the job goes on$'
        says "err-$how" "^kolorun: the files in $work/grow are not complete$"
    done
fi

# All of standard input goes to rank 0, and its end too.
seq 1 200000 >"$work/in"
"$KOLORUN" -np 3 --no-prefix cat <"$work/in" >"$work/out" || fail "cat"
cmp "$work/in" "$work/out" || fail "standard input was not passed on whole"
"$KOLORUN" -np 2 head -1 <"$work/in" >"$work/out" || fail "a rank that does not read all of its input"
says out '^\[0\] 1$'
printf 'x\ny' | "$KOLORUN" -np 2 --no-stdin cat >"$work/out" || fail "--no-stdin"
lines out 0

# A read that fails is not the end of the input, and nor is a mode that somebody else has changed.
with_input() { local input=$1; shift; run "$1" sh -c "exec \"\$@\" $input" sh "${@:2}"; } # REDIRECTION STATUS COMMAND...
with_input '</' 1 "$KOLORUN" -np 2 cat
says err '^kolorun: standard input cannot be read: Is a directory; rank 0 got 0 bytes of it \(--no-stdin leaves it unread\)$'
with_input '</' 0 "$KOLORUN" -np 2 --no-stdin cat
with_input '</' 3 "$KOLORUN" -np 2 sh -c 'cat; exit 3'
# Closed, or open for writing only, as nohup leaves it: there is none.
for input in '<&-' "0>$work/unread"; do
    with_input "$input" 0 "$KOLORUN" -np 2 cat
    [[ ! -s $work/err ]] || fail "input by $input: $(cat "$work/err")"
done
python3 - "$KOLORUN" >"$work/out" <<'PY' || fail "a pipe whose reads do not wait"
import os, subprocess, sys, time
ours, theirs = os.pipe()
os.set_blocking(ours, False)
job = subprocess.Popen([sys.argv[1], "-np", "1", "sh", "-c", "echo up >&2; cat"], stdin=ours, stderr=subprocess.PIPE)
job.stderr.readline()
os.close(ours)
os.write(theirs, b"late\n")
os.close(theirs)
sys.exit(job.wait())
PY
lines out 1
# Without a thread to read it rank 0 gets its end, and the job fails. At which of these limits a
# thread cannot be made depends on the build: all must end.
for limit in 15000 20000 25000 28000 30000 33000 36000 40000; do
    got=0
    (ulimit -v $limit; exec timeout 60 "$KOLORUN" -np 2 cat </etc/hostname >"$work/out" 2>"$work/err") || got=$?
    ((got != 124)) || fail "with $limit KiB of memory it does not end: $(cat "$work/err")"
    ((got == 1)) || ! grep -q 'rank 0 gets no input' "$work/err" || fail "with $limit KiB of memory: status $got: $(cat "$work/err")"
done

# A line of 3 MiB is passed on in pieces, and none is lost; standard error stays separate.
run 0 "$KOLORUN" -np 1 --no-prefix sh -c 'head -c 3145728 /dev/zero | tr "\0" x; echo; echo oops >&2'
says err '^oops$'
{ head -c 3145728 /dev/zero | tr "\0" x; echo; } | cmp - "$work/out" || fail "a long line was changed"

# What three or more ranks repeat on standard error is one line, and nothing is lost with it: these
# ranks write when all are there. A busy machine may take longer than kolorun waits for them.
meets=': >"$0/$RANK"; until [ "$(ls "$0" | wc -l)" = 8 ]; do read -rt 0.02 <> <(:); done; echo out; printf "first\nsecond\n" >&2'
meet() { rm -rf "$work/met"; mkdir "$work/met"; run "$1" "$KOLORUN" -np 8 "${@:3}" bash -c "$meets; $2" "$work/met"; } # STATUS THEN OPTIONS...
unfolded() { python3 "${BASH_SOURCE%/*}/helpers/unfold.py" "$work/err" >"$work/unfolded" || fail "$1: cannot be unfolded: $(<"$work/err")"; }
each_has() { # FILE TEXT...: the lines of each rank are these
    local rank
    for rank in {0..7}; do
        [[ $(sed -n "s/^\[$rank\] //p" "$work/$1") == "$(printf '%s\n' "${@:2}")" ]] || fail "rank $rank in $1: $(<"$work/err")"
    done
}
for ((try = 0; try < 20; try++)); do
    meet 0 :
    unfolded folded
    each_has unfolded first second
    [[ $(wc -l <"$work/err") != 3 ]] || break
done
lines err 3
says err '^\[[0-7]\] second$'
says err '^\[([0-7](-[0-7])?(, |\] )){1,2}the same 2 lines( as rank [0-7]: first)?$'
each_has out out
for option in --no-fold --no-prefix; do
    meet 0 : $option
    lines err 16
done
# What waits comes before what its rank writes to standard output then, if both are one pipe. On a busy
# machine both may come to kolorun at once.
for ((try = 0; try < 20; try++)); do
    "$KOLORUN" --oversubscribe -np 5 bash -c 'read -rt "0.$RANK" <> <(:); echo warning >&2; read -rt 0.1 <> <(:); echo out' 2>&1 |
        cat >"$work/err"
    unfolded "both streams in one pipe"
    each=0
    for rank in {0..4}; do
        [[ $(sed -n "s/^\[$rank\] //p" "$work/unfolded") != $'warning\nout' ]] || each=$((each + 1))
    done
    ((each < 5)) || break
done
((each == 5)) || fail "one pipe, another order: $(<"$work/err")"
# The verdict comes last, and the files are each rank's.
meet 5 '[ $RANK != 3 ] || exit 5; sleep 60' --output-dir "$work/folded"
[[ $(tail -n 1 "$work/err") == "kolorun: rank 3 "*" exited with status 5"* ]] || fail "no verdict at the end: $(<"$work/err")"
unfolded "a job that failed"
each_has unfolded first second
[[ $(cat "$work"/folded/rank.*.err | sort | uniq -c | tr -s '\n ' ' ') == ' 8 first 8 second ' ]] || fail "the files of ranks that repeat lines"
# So it is if a signal ends the job while lines wait, and a reader of them that goes away does no harm.
rm -rf "$work/met"
mkdir "$work/met"
background folded -np 8 bash -c "trap 'echo bye >&2; exit' TERM; $meets; : >\"\$0.\$RANK\"; while :; do read -rt 0.02 <> <(:); done" "$work/met"
for rank in {0..7}; do await test -e "$work/met.$rank"; done
kill "$launcher"
ended 143
unfolded "a job that was stopped"
each_has unfolded first second bye
rm -rf "$work/met"
mkdir "$work/met"
{ "$KOLORUN" -np 8 bash -c "$meets" "$work/met" 2>&1 >"$work/out"; echo $? >"$work/status"; } | :
[[ $(<"$work/status") == 0 ]] || fail "nobody reads lines that wait: status $(<"$work/status")"
each_has out out

# A progress bar, whose steps begin or end with a carriage return, is seen while it grows; one that is part of
# a line's end is not an end of its own.
cat >"$work/bar" <<'RANK'
printf '%s' "$1"
: >"$2.$RANK"
while [ ! -e "$3" ]; do read -rt 0.02 <> <(:); done
printf 'full\r'
: >"$2.last.$RANK"
while [ ! -e "$3.last" ]; do read -rt 0.02 <> <(:); done
printf '\nend\r\n'
RANK
for prefix in --prefix --no-prefix; do
    for bar in $'\r10%\r20%\r' $'10%\r20%\rmore'; do
        rm -f "$work"/bar.*
        timeout "$patience" "$KOLORUN" -np 1 $prefix bash "$work/bar" "$bar" "$work/bar.up" "$work/bar.go" >"$work/out" 2>"$work/err" </dev/null &
        launcher=$!
        await grep -q 10% "$work/out" # before the rank goes on
        touch "$work/bar.go"
        await test -e "$work/bar.up.last.0"
        touch "$work/bar.go.last"
        wait "$launcher" || fail "a progress bar: status $?: $(cat "$work/err")"
        [[ $prefix == --prefix ]] && mark='[0] ' || mark=
        whole=$mark$'10%\r'$mark$'20%\r'$mark${bar#*20%?}$'full\r\n'$mark$'end\r\n'
        [[ $bar != $'\r'* ]] || whole=$mark$'\r'$whole
        [[ $(<"$work/out") == "${whole%$'\n'}" ]] || fail "a progress bar, $prefix: $(od -c "$work/out")"
    done
done

# At a terminal, so is a question.
mkfifo "$work/other"
timeout "$patience" python3 "${BASH_SOURCE%/*}/helpers/dialogue.py" "$KOLORUN" "$work/other" || fail "a dialogue at a terminal"

# Binary output is passed on unchanged, without an added newline.
head -c 2500000 /dev/urandom >"$work/in"
"$KOLORUN" -np 1 --no-prefix cat <"$work/in" | cmp - "$work/in" || fail "bytes were changed"
finish
