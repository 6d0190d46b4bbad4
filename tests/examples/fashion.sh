#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fashion.sh BIN: trains briefly on Fashion-MNIST, and tests that the evaluation is the same to the
# last bit with any number of ranks, padded or not; that training resumes; and that damaged inputs
# give one clear line, with nothing written.
set -u
bin=$1 data=/usr/share/datasets/fashion-mnist failures=0
[[ -d $data ]] || { echo "skipped: $data is missing (package dataset-fashion-mnist)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

. "${BASH_SOURCE%/*}/first.sh"
# With TEST_SHORT=1 on the first pictures only.
if [[ ${TEST_SHORT-0} != 0 ]]; then
    mkdir "$work/data"
    first_pictures "$data" "$work/data" train 6001
    first_pictures "$data" "$work/data" t10k 1003
    data=$work/data
fi

wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
train() { timeout 600 "$bin/kolorun" -np "$1" "$bin/examples/fashion-train" --data "$data" "${@:2}"; }
eval_on() { timeout 120 "$bin/kolorun" -np "$1" "$bin/examples/fashion-eval" --data "$data" "${@:2}" | sed 's/^\[0\] //'; }

epochs=4 nps='1 2 3 4 7' top1=0.85
[[ ${TEST_SHORT-0} == 0 ]] || epochs=1 nps=3 top1=0.5
train 4 --epochs $epochs --checkpoint "$work/a.ckpt" >"$work/train.log" 2>&1 || { cat "$work/train.log"; wrong "training failed"; }

timeout 120 "$bin/examples/fashion-eval" --data "$data" --checkpoint "$work/a.ckpt" >"$work/alone" || wrong "evaluation alone failed"
cat "$work/alone"
[[ $(wc -l <"$work/alone") == 3 ]] || wrong "expected three lines"
grep -qE '^loss [0-9.]+ \(0x1\.[0-9a-f]+p[-+][0-9]+\)$' "$work/alone" || wrong "no loss line"
awk -v least=$top1 '$1 == "top-1" { if ($2 < least) exit 1; seen = 1 } END { exit !seen }' "$work/alone" || wrong "top-1 is not above $top1"
for np in $nps; do
    for pad in --pad --no-pad; do
        eval_on $np $pad --checkpoint "$work/a.ckpt" >"$work/np$np$pad"
        cmp -s "$work/alone" "$work/np$np$pad" || wrong "np $np $pad differs: $(cat "$work/np$np$pad")"
    done
done
for transport in shm tcp; do
    KOLO_TRANSPORT=$transport eval_on 3 --checkpoint "$work/a.ckpt" >"$work/$transport"
    cmp -s "$work/alone" "$work/$transport" || wrong "transport $transport differs: $(cat "$work/$transport")"
done

# Two epochs in one run, and in two runs of one each, give the same parameters.
resume() {
    train 2 --epochs 1 --batch 2000 --checkpoint "$work/b.ckpt" >/dev/null || wrong "first epoch failed"
    train 2 --epochs 2 --batch 2000 --checkpoint "$work/b.ckpt" >"$work/resume.log" || wrong "resuming failed"
    train 2 --epochs 2 --batch 2000 --checkpoint "$work/c.ckpt" >/dev/null || wrong "two epochs failed"
    cmp -s "$work/b.ckpt" "$work/c.ckpt" || wrong "resumed training differs from training in one go"
}
if [[ ${TEST_SHORT-0} == 0 ]]; then
    resume
else # the checkpoint already has all epochs
    cp "$work/a.ckpt" "$work/b.ckpt"
    train 2 --epochs $epochs --checkpoint "$work/b.ckpt" >"$work/resume.log" || wrong "resuming failed"
fi
grep -q 'going on after epoch 1' "$work/resume.log" || wrong "it did not say that it resumed: $(cat "$work/resume.log")"

# refuse WHAT PATTERN COMMAND...: must fail and print exactly one line on standard error (besides
# kolorun's verdict), which matches PATTERN.
refuse() {
    local out
    out=$(timeout 60 "${@:3}" 2>&1 >/dev/null) && wrong "$1: succeeded"
    out=$(grep -v '^kolorun: ' <<<"$out")
    [[ $(wc -l <<<"$out") == 1 && $out =~ $2 ]] || wrong "$1: expected one line like '$2', got: $out"
}
mkdir "$work/cut"
cp "$data"/*.gz "$work/cut"
for name in t10k train; do
    truncate -s $(($(stat -c %s "$work/cut/$name-images-idx3-ubyte.gz") / 4)) "$work/cut/$name-images-idx3-ubyte.gz"
done
head -c 1000 "$work/a.ckpt" >"$work/short.ckpt"
{ cat "$work/a.ckpt"; echo; } >"$work/long.ckpt"
cp "$work/a.ckpt" "$work/flipped.ckpt"
printf '\x55' | dd of="$work/flipped.ckpt" bs=1 seek=5000 conv=notrunc status=none
eval_cmd="$bin/examples/fashion-eval"
kolorun2=("$bin/kolorun" -np 2)
refuse "missing data" 'no-such-dir/.*--data DIR' "${kolorun2[@]}" "$eval_cmd" --data "$work/no-such-dir" --checkpoint "$work/a.ckpt"
mkdir "$work/folders"
cp "$data"/*-labels-*.gz "$work/folders"
mkdir "$work/folders/"{t10k,train}-images-idx3-ubyte.gz
refuse "data that cannot be read" 't10k-images-idx3-ubyte.gz: Is a directory' "${kolorun2[@]}" "$eval_cmd" --data "$work/folders" --checkpoint "$work/a.ckpt"
refuse "a checkpoint that cannot be read" 'folders: cannot read the checkpoint: Is a directory' "${kolorun2[@]}" "$eval_cmd" --data "$data" --checkpoint "$work/folders"
refuse "truncated gz" 't10k-images-idx3-ubyte.gz: truncated' "${kolorun2[@]}" "$eval_cmd" --data "$work/cut" --checkpoint "$work/a.ckpt"
refuse "truncated gz, training" 'train-images-idx3-ubyte.gz: truncated' "${kolorun2[@]}" "$bin/examples/fashion-train" --data "$work/cut" --checkpoint "$work/new.ckpt"
[[ ! -e $work/new.ckpt ]] || wrong "a failed training wrote a checkpoint"
refuse "missing checkpoint" 'none.ckpt: no such file; make it with fashion-train' "${kolorun2[@]}" "$eval_cmd" --checkpoint "$work/none.ckpt"
for kind in short long; do
    refuse "$kind checkpoint" "$kind.ckpt: not a whole checkpoint" "${kolorun2[@]}" "$eval_cmd" --checkpoint "$work/$kind.ckpt"
done
refuse "flipped checkpoint" 'flipped.ckpt: damaged' "${kolorun2[@]}" "$eval_cmd" --checkpoint "$work/flipped.ckpt"
refuse "flipped checkpoint, training" 'flipped.ckpt: damaged' "${kolorun2[@]}" "$bin/examples/fashion-train" --checkpoint "$work/flipped.ckpt"
refuse "unwritable checkpoint" 'cannot write the checkpoint' "${kolorun2[@]}" "$bin/examples/fashion-train" --epochs 1 --batch 6000 --checkpoint "$work/no-such-dir/x.ckpt"
[[ -z $(timeout 100 "${kolorun2[@]}" "$bin/examples/fashion-train" --epochs 1 --batch 6000 --checkpoint "$work/no-such-dir/x.ckpt" 2>/dev/null) ]] || wrong "trained before it knew that the checkpoint cannot be written"
refuse "unknown option" '--frobnicate: no such option' "${kolorun2[@]}" "$eval_cmd" --frobnicate
refuse "bad number" '--epochs 3x: expected' "${kolorun2[@]}" "$bin/examples/fashion-train" --epochs 3x --checkpoint "$work/x"
refuse "no checkpoint named" '--checkpoint FILE is missing' "$eval_cmd"

# Whether a checkpoint can be written is known before an epoch is spent.
mkdir "$work/few" "$work/there" "$work/stale"
first_pictures "$data" "$work/few" train 101
few=("$bin/examples/fashion-train" --data "$work/few" --device cpu --epochs 1)
# early PATTERN COMMAND...: must fail as with refuse, and print no loss.
early() {
    refuse "$1" "$1" "${@:2}"
    [[ -z $(timeout 60 "${@:2}" 2>/dev/null) ]] || wrong "$1: it trained before it knew"
}
early "--checkpoint '': expected the name of a file" "${few[@]}" --checkpoint ''
early "/new/': expected the name of a file" "${few[@]}" --checkpoint "$work/new/"
early "/there': expected the name of a file" "${few[@]}" --checkpoint "$work/there"

# Files that killed runs of the same process number left are not in the way; if there are very many,
# one is named.
cat >"$work/leaving" <<'SH'
# leaving COUNT CHECKPOINT COMMAND...: runs COMMAND as the process that COUNT killed runs had been
for ((i = 0; i < $1; i++)); do : >"$2.tmp-$$-$i"; done
: >"$2.tmp-$$"
umask 027
exec "${@:3}" --checkpoint "$2"
SH
timeout 60 bash "$work/leaving" 3 "$work/stale/x" "${few[@]}" >/dev/null 2>"$work/stale.log" ||
    wrong "left-over files stop the training: $(cat "$work/stale.log")"
[[ $(stat -c %a "$work/stale/x") == 640 ]] || wrong "the checkpoint's mode is not what umask says: $(ls -l "$work/stale")"
early 'x: cannot write the checkpoint: File exists \(temporary file .*/x\.tmp-[0-9]+-99\)$' \
    bash "$work/leaving" 100 "$work/stale/x" "${few[@]}"
rm "$work"/stale/*.tmp-*
# A checkpoint that is cut by a limit, as by a full disk, leaves the one before as it was.
cp "$work/stale/x" "$work/stale/before"
(trap '' XFSZ && ulimit -f 700 && exec timeout 60 "${few[@]}" --epochs 2 --checkpoint "$work/stale/x") >/dev/null 2>"$work/stale.log" &&
    wrong "a checkpoint was written beyond the limit"
grep -q 'x: cannot write the checkpoint: File too large (temporary file .*x.tmp-' "$work/stale.log" || wrong "beyond the limit: $(cat "$work/stale.log")"
cmp "$work/stale/x" "$work/stale/before" || wrong "a failure damaged the checkpoint"
left=$(find "$work" -name '*.tmp-*')
[[ -z $left ]] || wrong "left behind: $left"
((failures == 0)) && echo "fashion: all good"
exit $((failures > 0))
