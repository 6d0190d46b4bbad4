#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# detect.sh BIN: tests that detect-eval prints the same to the last bit with any number of ranks,
# over each transport, with and without padding, and that wrong arguments give one clear line.
set -u
bin=$1 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
eval_on() { timeout 120 "$bin/kolorun" -np "$1" "$bin/examples/detect-eval" "${@:2}" 2>"$work/notes" | sed 's/^\[0\] //'; }

images=101 # not a multiple of 2 or 3
timeout 120 "$bin/examples/detect-eval" --images $images --categories >"$work/alone" || wrong "alone it fails"
[[ $(wc -l <"$work/alone") == 25 ]] || wrong "expected 12 lines, one of counts and 12 categories: $(cat "$work/alone")"
grep -qE '^ Average Precision  \(AP\) @\[ IoU=0.50:0.95 \| area=   all \| maxDets=100 \] = 0\.[1-9][0-9]* \(0x1\.' "$work/alone" ||
    wrong "no AP line, or nothing found"
grep -q "^$images images (0 missing), " "$work/alone" || wrong "images were lost"
for np in 1 2 3; do
    for pad in '' --pad; do
        eval_on $np --images $images --categories $pad >"$work/np$np"
        cmp -s "$work/alone" "$work/np$np" || wrong "np $np $pad differs: $(cat "$work/np$np" "$work/notes")"
        # 101 images on 2 ranks are padded by 1, on 3 by 1
        if [[ $np != 1 && -n $pad ]]; then
            grep -q 'images that two ranks had were counted once: 1$' "$work/notes" || wrong "np $np: $(cat "$work/notes")"
        else
            [[ ! -s $work/notes ]] || wrong "np $np: $(cat "$work/notes")"
        fi
    done
done
for transport in shm tcp; do
    KOLO_TRANSPORT=$transport eval_on 3 --images $images --categories >"$work/$transport"
    cmp -s "$work/alone" "$work/$transport" || wrong "transport $transport differs: $(cat "$work/$transport")"
done
# Fewer images than ranks: some ranks have none.
"$bin/examples/detect-eval" --images 2 --seed 7 >"$work/two"
eval_on 3 --images 2 --seed 7 >"$work/two3"
cmp -s "$work/two" "$work/two3" || wrong "two images on three ranks: $(cat "$work/two3" "$work/notes")"

# refuse PATTERN ARGUMENT...: must fail and print exactly one line on standard error (besides
# kolorun's verdict), which matches PATTERN.
refuse() {
    local out
    out=$(timeout 60 "$bin/kolorun" -np 2 "$bin/examples/detect-eval" "${@:2}" 2>&1 >/dev/null) && wrong "${*:2}: succeeded"
    out=$(grep -v '^kolorun: ' <<<"$out")
    [[ $(wc -l <<<"$out") == 1 && $out =~ $1 ]] || wrong "${*:2}: expected one line like '$1', got: $out"
}
refuse '--frobnicate: no such option' --frobnicate
refuse '--images takes a number from 1 to' --images 0
refuse '--seed takes a number from 0' --seed 3x
refuse '--seed takes a number from 0' --seed 99999999999999999999
refuse "--images: its value is missing" --images
refuse "more: unexpected argument" more
((failures == 0)) && echo "detect: all good"
exit $((failures > 0))
