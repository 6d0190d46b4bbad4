#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh BIN MOCK SOURCE KERNELS: tests a short run of bench/gpu on the devices of the mock
# libcuda.so.1 in the folder MOCK, with a mock of torch made here. The section must have every row
# and replace an old section and nothing else, and ranks must see no GPU that CUDA_VISIBLE_DEVICES
# hides. The figures are not checked.
set -u
bin=$1 source=$3 failures=0
export LD_LIBRARY_PATH=$2 MOCK_CUDA_KERNELS=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

mkdir "$work/bin" "$work/torch"
ln -s "$bin/kolobench" "$bin/device_rate" "$bin/device_kernels" "$bin/device_facts" "$bin/device_held" "$bin/examples" "$work/bin"
printf '#!/bin/sh\necho "${CUDA_VISIBLE_DEVICES-all}" >>%s/seen\nexec %s/kolorun "$@"\n' "$work" "$bin" >"$work/bin/kolorun"
chmod +x "$work/bin/kolorun"
cat >"$work/torch/__init__.py" <<'PYTHON'
"""A mock of the parts of torch that bench/gpu_peer.py calls; its ranks do not communicate."""
from types import SimpleNamespace as Any
float64, __version__ = None, "of the tests"
cuda = Any(device_count=lambda: 2, set_device=lambda device: None, synchronize=lambda: None)
device = lambda kind, number: (kind, number)
zeros = lambda count, device: Any(numel=lambda: count)
tensor = lambda values, dtype, device: Any(tolist=lambda: values)
PYTHON
cat >"$work/torch/distributed.py" <<'PYTHON'
import os
class ReduceOp:
    MAX = None
def is_available(): return True
def init_process_group(backend, timeout): os._exit(3) if backend == "nccl" else None  # as a build without NCCL
def all_reduce(tensor, op=None): pass
def get_rank(): return int(os.environ["RANK"])
def destroy_process_group(): pass
PYTHON
heading='## On GPUs: 2 x Mock 0'
printf '# Results\n\nFirst.\n\n## A\n\n| a |\n\n%s\n\nold\n\n### its own\n\nold too\n\n## B\n\nlast\n' "$heading" >"$work/results.md"

# gpu ARGUMENT...: a short run of bench/gpu.
gpu() {
    PYTHONPATH=$work timeout 300 "$source/bench/gpu" "$work/bin" --seconds 250 --np 1,2 --sizes 4,64K,1M --check-sizes 4,4012 --time 0.005 --bytes 65536 "$@" \
        >"$work/printed" 2>"$work/errors"
}
# section FILE: prints the section of the mock GPU.
section() { awk -v heading="$heading" '$0 == heading { on = 1; print; next } /^## / { on = 0 } on' "$1"; }
# must PATTERN: the section must have a matching line.
must() { grep -qE -- "$1" "$work/section" || wrong "no line like '$1' in: $(cat "$work/section")"; }

cp "$work/results.md" "$work/before.md"
gpu --dry --no-check --out "$work/results.md" || wrong "--dry failed: $(cat "$work/errors")"
cmp -s "$work/before.md" "$work/results.md" || wrong "--dry wrote"
[[ $(head -1 "$work/printed") == "$heading" ]] || wrong "--dry printed: $(cat "$work/printed")"
grep -q 'collectives right on device memory.*not measured' "$work/printed" || wrong "checked what it was told not to check"
[[ $(sort -u "$work/seen" | xargs) == '0 all' ]] || wrong "ranks saw the GPUs $(sort -u "$work/seen" | xargs)"

: >"$work/seen"
CUDA_VISIBLE_DEVICES=1,0 gpu --out "$work/results.md" --json "$work/figures.json" || wrong "it failed: $(cat "$work/errors")"
[[ $(sort -u "$work/seen" | xargs) == '1 1,0' ]] || wrong "of 1,0 ranks saw the GPUs $(sort -u "$work/seen" | xargs)"
section "$work/results.md" >"$work/section"
printf '%s\n' "$(cat "$work/section")" | cmp -s "$work/printed" - || wrong "written is not what was printed: $(diff "$work/printed" "$work/section")"
for np in 1 2; do
    # The columns: device, pinned, bound, TCP twice (only for two ranks), gloo, no NCCL.
    for bytes in 4 65536 1048576; do
        tcp='[0-9.]+ \| [0-9.]+'
        gloo='[0-9.]+'
        [[ $np == 2 ]] || tcp='- \| -'
        [[ $bytes != 65536 ]] || gloo=-
        must "^\| $np \| $bytes \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| $tcp \| $gloo \| - \|\$" # on one GPU
        must "^\| $np \| $bytes \| [0-9.]+ \| [0-9.]+ \| - \| $tcp \| $gloo \| - \|\$"        # across them
    done
done
must '^The bound of 256 MiB among 4 ranks on one GPU: .* 1073741824 bytes read and 1073741824 written, .* [0-9.]+ us\.$'
for limit in 'copy within the device, GB/s' 'copy to page-locked memory, GB/s' 'copy from page-locked memory, GB/s' \
    'a kernel, launched and over, us' 'kernels launched in a row, us each'; do
    must "^\| $limit \| [0-9.]+ \|\$"
done
must '^\| of a short collective, us \| 1 process \| 2 processes \|$'
for name in 'event of context recorded and seen' 'device awaited' 'mark put and told' 'word to host' kernel; do
    must "^\| $name \| [0-9.]+ \| [0-9.]+ \|\$"
done
must '; a forked child: has no devices; memory of a pool: is read; memory of a pool in another context: is waited for; a copy to pages locked apart: is refused; a copy to pages locked in part: is refused; memory of a process that has ended: stays; '
must '^\| while such a stream waits for the host \| non-blocking \| legacy default \| per-thread default \|$'
must '^\| copy to pageable memory \| returns \| returns \| returns \|$'
must '^\| cuCtxSynchronize \| waits \| waits \| waits \|$'
must '^\| an event of the context \| waits \| waits \| waits \|$'
must '; the kernels of all types and operators have the host.s bits in [0-9]+ calls, of which none has 4 GiB; '
must '; every element of every collective checked on device memory behind the work of a stream among 1 to 2 ranks; '
must '; while a stream waits for a collective, these return after ms: kolo_free of device memory [0-9]+, kolo_free of host memory [0-9]+, cuMemFree '
must '; every collective behind streams is right among up to 2 threads; '
must '; every element of every collective checked on device memory with prescale and postscale among 1 to 2 ranks; '
must '; every element .* on cuda memory among 1 to 2 ranks; every element .* on managed memory among 1 to 2 ranks; '
must '^\| collectives right on device memory, among 1 to n ranks \| 8 \| 2 \| missed \|$'
must '^\| 256 MiB among 4 ranks, % of the bound \| at least 70 \| - \| not measured \|$'
must '^\| the same, times as fast as torch gloo on CUDA tensors \| at least 10 \| - \| not measured \|$'
must '^\| over TCP, device / host, the worst from 1 MiB on \| at most 1.15 \| [0-9.e+-]+ \| (met|missed) \|$'
must '^\| the same, ranks as threads, which do not take turns on the GPU \| at most 1.15 \| [0-9.e+-]+ \| (met|missed) \|$'
must '^allreduce, float32 sum, all ranks on one GPU, as threads of one process, microseconds:$'
must '^\| 4 B, in kernel launches, the slowest of all worlds \| at most 3 \| [0-9.e+-]+ \| (met|missed) \|$'
must 'torch.distributed beside it; ranks reach each other.s device memory; every element of every collective checked on device memory among 1 to 2 ranks; '
must '; compute-sanitizer .*; fashion-train and fashion-eval have the host.s digits; every element .* on pinned memory among 1 to 2 ranks; nccl on 1 ranks failed: '
grep -q '^FAILED' "$work/section" && wrong "a part failed: $(grep '^FAILED' "$work/section")"
# All other sections stay as they are, and another run replaces the section of this one.
rest() { awk -v heading="$heading" '$0 == heading { off = 1; next } /^## / { off = 0 } !off' "$1"; }
[[ $(rest "$work/results.md") == "$(rest "$work/before.md")" ]] || wrong "other sections: $(diff "$work/before.md" "$work/results.md")"
grep -q '^old' "$work/results.md" && wrong "what was there before is there still"
gpu --no-check --np 1 --out "$work/results.md" || wrong "once more: $(cat "$work/errors")"
[[ $(grep -cFx "$heading" "$work/results.md") == 1 && $(wc -l <"$work/results.md") == $(($(rest "$work/before.md" | wc -l) + $(wc -l <"$work/printed") + 1)) ]] ||
    wrong "once more: $(cat "$work/results.md")"
gpu --no-check --np 1 --out "$work/new.md" && cmp -s "$work/new.md" "$work/printed" || wrong "into a new file: $(cat "$work/new.md" "$work/errors")"
gpu --no-check --out "$work/none/new.md" && wrong "into a folder that is not there: succeeded"
grep -q "^bench/gpu: $work/none/new.md.*: No such file or directory" "$work/errors" || wrong "no folder: $(cat "$work/errors")"

# A driver that fails while a stream waits, and one that keeps threads out where that is expected.
MOCK_CUDA_FAIL=cuCtxRecordEvent=1 gpu --only 'stream waits' && wrong "a driver that fails beside a stream: succeeded"
grep -q '^FAILED: calls while a stream waits: .*cuCtxRecordEvent' "$work/printed" ||
    wrong "a driver that fails beside a stream: $(cat "$work/printed" "$work/errors")"
MOCK_CUDA_ALONE=1 gpu --only 'while a stream waits|threads behind' || wrong "calls that keep others out: $(cat "$work/errors")"
grep -qE '^\| cuMemFree \| keeps others out \| keeps others out \| keeps others out \|$' "$work/printed" ||
    wrong "calls that keep others out: $(cat "$work/printed")"
grep -qE 'cuMemFree with a deadline of 1000 [0-9]{4,}' "$work/printed" || wrong "cuMemFree did not wait: $(cat "$work/printed")"

# Half of the ranks as on another host: the check of nested allreduces, and a table.
gpu --np 4 --sizes 1M,4M --only 'two hosts' --out "$work/results.md" || wrong "as on two hosts: it failed: $(cat "$work/errors")"
cp "$work/printed" "$work/section"
must '; nested allreduces are right among 4 ranks'
for bytes in 1048576 4194304; do
    must "^\| 4 \| $bytes \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \|\$"
done
grep -q 'as on another host' "$work/results.md" && wrong "--only wrote"

# Without a GPU, and with one that fails, nothing is written.
cp "$work/results.md" "$work/before.md"
MOCK_CUDA_FAIL=cuInit=100 gpu --out "$work/results.md"
[[ $? == 77 ]] || wrong "without a GPU: not status 77: $(cat "$work/errors")"
MOCK_CUDA_FAIL=cuMemAlloc_v2=719 gpu --out "$work/results.md" && wrong "on a GPU that fails: succeeded"
cmp -s "$work/before.md" "$work/results.md" || wrong "a run that found nothing wrote"

# A part that fails, or has no time left, does not affect the others. Without kernels ranks cannot
# use each other's memory.
MOCK_CUDA_FAIL=cuEventRecord=719 gpu --no-check --out "$work/part.md" --np 2 --sizes 1M && wrong "nothing goes to the device: succeeded"
section "$work/part.md" >"$work/section"
must '^FAILED: 2 ranks, device: .*cuEventRecord'
must '^\| 2 \| 1048576 \| - \| [0-9.]+ \| - \| - \| [0-9.]+ \| [0-9.]+ \| - \|$'
MOCK_CUDA_FAIL=cuModuleLoadData=222 gpu --no-check --out "$work/part.md" --np 2 --sizes 1M || wrong "without kernels: $(cat "$work/errors")"
section "$work/part.md" >"$work/section"
must "; ranks DO NOT reach each other's device memory: .*cuModuleLoadData"
must '^\| 2 \| 1048576 \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| - \|$'
# If a sandbox forbids a call, or a kernel fails, the run continues in another way, and keeps the
# whole error.
MOCK_CUDA_FAIL=cuMemHostRegister_v2=801 gpu --no-check --out "$work/part.md" --json "$work/part.json" --np 2 --sizes 1M && wrong "nothing is locked: succeeded"
section "$work/part.md" >"$work/section"
must '^FAILED: 2 ranks, pinned: .*has not locked'
must '^\| copy to page-locked memory, GB/s \| - \|$'
must '^\| 2 \| 1048576 \| [0-9.]+ \| - \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| - \|$'
MOCK_CUDA_FAIL=cuLaunchKernel=719 gpu --no-check --out "$work/part.md" --json "$work/part.json" --np 2 --sizes 1M && wrong "no kernel runs: succeeded"
section "$work/part.md" >"$work/section"
must '^FAILED: the way: 1 MiB of device memory: .*cuLaunchKernel'
must '; ranks DO NOT reach each other.s device memory, ALL BELOW IS WITH KOLO_CUDA_IPC=0'
must '^\| 2 \| 1048576 \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| - \|$'
python3 - "$work/part.json" <<'PYTHON' || wrong "the evidence: $(head -c 3000 "$work/part.json")"
import json, sys
kept = json.load(open(sys.argv[1]))
failed = [ran for ran in kept["evidence"] if ran["status"]]
assert any(ran["part"] == "the way" and "cuLaunchKernel" in ran["errors"] for ran in failed), failed
assert any(ran["part"] == "2 ranks, device" and "1048576" in ran["out"] for ran in kept["evidence"])
assert "Mock 0" in kept["machine"]["info"] and kept["machine"]["kernel"], kept["machine"]
assert [line[3] for line in kept["targets"]].count("not measured") == 4, kept["targets"]
PYTHON
# Ten rows of 1.5 s each do not fit into 9 s.
PYTHONPATH=$work timeout 100 "$source/bench/gpu" "$work/bin" --no-check --seconds 9 --np 2 --sizes 1M --time 1.5 --bytes 65536 --out "$work/short.md" --json "$work/short.json" >/dev/null 2>"$work/errors"
section "$work/short.md" >"$work/section"
must '; left out after 9 s: .*2 ranks across GPUs, gloo'
must '^\| 2 \| 1048576 \| [0-9.]+ \| '
grep -q '"device_us"' "$work/short.json" || wrong "no figures: $(cat "$work/short.json")"

# A folder made by --pack works without the build folder.
"$source/bench/gpu" "$bin" --pack "$work/packed" >"$work/printed" || wrong "--pack: $(cat "$work/printed")"
PYTHONPATH=$work timeout 200 "$work/packed/bench/gpu" --no-check --np 2 --sizes 1M --time 0.005 --bytes 65536 --seconds 100 --out "$work/far.md" >"$work/printed" 2>&1 ||
    wrong "packed: $(tail -3 "$work/printed")"
[[ -e $work/far.md && -e $work/packed/lib/libhwloc.so.15 && ! -e $work/packed/lib/libc.so.6 ]] || wrong "packed: $(ls "$work/packed" "$work/packed/lib")"

# The verdicts, for made-up figures on both sides of each bar.
python3 - "$source/bench/gpu" <<'PYTHON' || wrong "targets"
import sys
from importlib.machinery import SourceFileLoader
sys.dont_write_bytecode = True
gpu = SourceFileLoader("gpu", sys.argv[1]).load_module()
def verdicts(**row):
    base = {"np": 4, "bytes": 256 << 20, "device_us": 100.0, "bound_us": 70.0, "gloo_us": 1000.0, "tcp_us": 115.0, "tcp_host_us": 100.0}
    rows = [{**base, **row}, {**base, "bytes": 4, "device_us": row.get("short_us", 9.0)}, {**base, "np": 1, "bytes": 4, "device_us": 99.0}]
    threads = [{**base, "tcp_us": row.get("threads_us", 115.0)}]
    return [line[3] for line in gpu.targets({"launch_us": 3.0}, rows, row.get("checked", 8), threads)]
met = ["met"] * 6
cases = [({}, met)]
for at, row in enumerate([{"checked": 7}, {"bound_us": 69.9}, {"gloo_us": 999.0}, {"tcp_us": 115.2}, {"threads_us": 115.2}, {"short_us": 9.1}]):
    cases.append((row, met[:at] + ["missed"] + met[at + 1:]))
for at, row in ((0, {"checked": None}), (1, {"bound_us": None}), (2, {"gloo_us": None}), (3, {"tcp_us": None}), (4, {"threads_us": None})):
    cases.append((row, met[:at] + ["not measured"] + met[at + 1:]))
wrong = [(row, verdicts(**row)) for row, expected in cases if verdicts(**row) != expected]
sys.exit(str(wrong) if wrong else 0)
PYTHON
((failures == 0)) && echo "bench/gpu: all good"
exit $((failures > 0))
