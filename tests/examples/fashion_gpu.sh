#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fashion_gpu.sh BIN [MOCK KERNELS]: tests fashion-train and fashion-eval on the devices of the mock
# libcuda.so.1 in the folder MOCK, which runs the examples' kernels from the library KERNELS;
# without MOCK, on the machine's own GPU. On a GPU every byte of a checkpoint and every digit of an
# evaluation must be what the host computes, with any number of ranks. The images are made here.
set -u
bin=$1 mock=${2-} kernels=${3-} failures=0
gpu='rank 0 does \(GPU [0-9]+, .*\)'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Sums are folded in the order of ranks in any kind of memory; otherwise the last bits of three
# ranks' sums may differ.
export KOLO_DETERMINISTIC=1

wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
on_gpu() {
    [[ -z $mock ]] || local -x LD_LIBRARY_PATH=$mock MOCK_CUDA_KERNELS=$kernels
    "$@"
}
train() { timeout 300 "$bin/kolorun" -np "$1" "$bin/examples/fashion-train" --data "$work" --epochs 2 --batch 64 "${@:2}" 2>"$work/notes"; }
eval_on() {
    timeout 120 "$bin/kolorun" -np "$1" "$bin/examples/fashion-eval" --data "$work" "${@:2}" 2>"$work/notes" | sed 's/^\[0\] //'
}
says() { grep -qE "^(\[0\] )?fashion-(train|eval): $1\$" "$work/notes" || wrong "expected '$1', got: $(cat "$work/notes")"; }

python3 - "$work" <<'PYTHON' || exit 1
import gzip, random, struct, sys
draw = random.Random(6)
shapes = [draw.randbytes(784) for _ in range(10)]
for prefix, count in (("train", 701), ("t10k", 523)):  # not multiples of ranks or batches
    labels = [draw.randrange(10) for _ in range(count)]
    images = [bytes(pixel if draw.random() < 0.4 else 0 for pixel in shapes[label]) for label in labels]
    labels = [label if draw.random() < 0.8 else draw.randrange(10) for label in labels]  # which cannot be learned
    with gzip.open(f"{sys.argv[1]}/{prefix}-images-idx3-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(images))
    with gzip.open(f"{sys.argv[1]}/{prefix}-labels-idx1-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">II", 0x801, count) + bytes(labels))
PYTHON

if [[ -z $mock ]]; then
    train 1 --epochs 1 --device gpu --checkpoint "$work/first" >/dev/null
    none=$(grep -o -- '--device gpu: .*' "$work/notes") && { echo "skipped: $none"; exit 77; }
fi
nps='1 2 3 4'
[[ ${TEST_SHORT-0} == 0 ]] || nps='1 3'
for np in $nps; do
    train "$np" --device cpu --checkpoint "$work/cpu$np" >"$work/out" || wrong "training on $np ranks: $(cat "$work/notes")"
    says "0 of $np ranks compute on a GPU; rank 0 does not \(as --device cpu says\)"
    on_gpu train "$np" --checkpoint "$work/gpu$np" >"$work/out_gpu" || wrong "training on $np GPU ranks: $(cat "$work/notes")"
    says "$np of $np ranks compute on a GPU; $gpu"
    cmp "$work/cpu$np" "$work/gpu$np" || wrong "$np ranks train other parameters on a GPU"
    cmp "$work/out" "$work/out_gpu" || wrong "$np ranks print other losses on a GPU"
done
timeout 120 "$bin/examples/fashion-eval" --data "$work" --device cpu --checkpoint "$work/cpu1" >"$work/alone" 2>"$work/notes" ||
    wrong "evaluation alone failed: $(cat "$work/notes")"
[[ $(wc -l <"$work/alone") == 3 ]] || wrong "expected three lines: $(cat "$work/alone")"
awk '$1 == "top-1" { seen = $2 > 0.5 && $2 < 1 } END { exit !seen }' "$work/alone" || wrong "it learned nothing, or all: $(cat "$work/alone")"
for np in $nps; do
    for pad in --pad --no-pad; do
        on_gpu eval_on "$np" $pad --device gpu --checkpoint "$work/gpu1" >"$work/np"
        cmp -s "$work/alone" "$work/np" || wrong "np $np $pad differs on a GPU: $(cat "$work/np" "$work/notes")"
    done
    says "$np of $np ranks compute on a GPU; $gpu"
done
cp "$work/notes" "$work/gpu_notes"
# Some ranks use a GPU and some do not.
cat >"$work/rank" <<'SH'
#!/bin/sh
[ "$RANK" = 1 ] || exec "$@" --device cpu
exec "$@" --device gpu
SH
chmod +x "$work/rank"
on_gpu timeout 120 "$bin/kolorun" -np 3 "$work/rank" "$bin/examples/fashion-eval" --data "$work" --checkpoint "$work/gpu1" 2>"$work/notes" |
    sed 's/^\[0\] //' >"$work/np"
cmp -s "$work/alone" "$work/np" || wrong "one GPU among three ranks: $(cat "$work/np" "$work/notes")"
says "1 of 3 ranks compute on a GPU; rank 0 does not \(as --device cpu says\)"

if [[ -z $mock ]]; then
    ((failures == 0)) && echo "fashion on this machine's GPU: all good"
    exit $((failures > 0))
fi
grep -q 'GPU 0, Mock 0' "$work/gpu_notes" || wrong "it was not the tests' device: $(cat "$work/gpu_notes")"
# Without a GPU, auto says why and continues on the host; gpu fails with one line.
for why in cuInit=100 cuMemAlloc_v2=2 cuModuleLoadData=222 cuModuleGetFunction=500; do
    MOCK_CUDA_FAIL=$why on_gpu eval_on 2 --checkpoint "$work/gpu1" >"$work/np"
    cmp -s "$work/alone" "$work/np" || wrong "$why, auto: $(cat "$work/np" "$work/notes")"
    says "0 of 2 ranks compute on a GPU; rank 0 does not \(${why%%[_=]*}.*\)"
    MOCK_CUDA_FAIL=$why on_gpu eval_on 2 --device gpu --checkpoint "$work/gpu1" >"$work/np"
    says "--device gpu: ${why%%[_=]*}.*"
    [[ ! -s $work/np && $(grep -vc '^kolorun: ' "$work/notes") == 1 ]] || wrong "$why: $(cat "$work/np" "$work/notes")"
done
# A GPU that fails during the run: every rank prints a line with the call and the device, and
# nothing hangs.
for call in cuLaunchKernel cuStreamSynchronize cuMemcpyAsync; do
    MOCK_CUDA_FAIL=$call=719 on_gpu train 2 --checkpoint "$work/lost" >/dev/null && wrong "$call: succeeded"
    says ".*$call on GPU 0: .* \(719\); see nvidia-smi.*"
    [[ ! -e $work/lost ]] || wrong "$call: a checkpoint was written"
done
eval_on 2 --device frob --checkpoint "$work/gpu1"
says '--device frob: expected auto, cpu or gpu'
train 2 --device frob --checkpoint "$work/x"
says '--device frob: expected auto, cpu or gpu'
((failures == 0)) && echo "fashion on GPUs: all good"
exit $((failures > 0))
