#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kolobench.sh BIN: tests every collective with every element checked, the JSON file, and wrong
# input.
set -u
bin=$1 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
bench() { timeout 100 "$bin/kolorun" -np "$1" "$bin/kolobench" "${@:2}"; }

for transport in shm tcp; do
    plans='oneshot|twoshot'
    [[ $transport == shm ]] || plans='ring|doubling|tree|direct|flat|dissemination'
    bench 3 all -b 12 -e 1M -f 64 -n 3 --check --transport $transport --json "$work/$transport.json" >"$work/out" 2>&1 ||
        wrong "$transport: $(tail -3 "$work/out")"
    grep -qE "$transport/($plans)\$" "$work/out" || wrong "$transport: no row with a plan of $plans"
done
for key in machine rows collective transport plan np bytes time_us algbw_gbps busbw_gbps errors cpu; do
    grep -q "\"$key\"" "$work/shm.json" || wrong "JSON without $key"
done
grep -q '"errors": 0' "$work/shm.json" || wrong "JSON without a checked row"
grep -qE '"errors": (null|[1-9])' "$work/shm.json" && wrong "JSON with errors"
timeout 60 "$bin/kolobench" allreduce --threads 4 -b 4 -e 256K -f 16 -n 3 --check >"$work/out" 2>&1 || wrong "threads: $(tail -3 "$work/out")"
grep -q inproc "$work/out" || wrong "threads: not inproc"
timeout 60 "$bin/kolobench" all -e 64K -f 16 -n 2 --check >"$work/out" 2>&1 || wrong "alone: $(tail -3 "$work/out")"
for dtype in int8 uint8 int16 int32 int64 float16 bfloat16 float64; do
    timeout 60 "$bin/kolobench" allreduce reduce_scatter --threads 3 -b 48 -e 48K -f 32 -n 1 -d $dtype --op average --check >"$work/out" 2>&1 || wrong "$dtype: $(tail -3 "$work/out")"
done
for op in min max prod; do
    timeout 60 "$bin/kolobench" allreduce reduce --threads 3 -b 48 -e 48K -f 32 -n 1 --op $op --in-place --check >"$work/out" 2>&1 || wrong "$op: $(tail -3 "$work/out")"
done
timeout 60 "$bin/kolobench" barrier --threads 3 -n 2 --check --json "$work/barrier.json" >"$work/out" 2>&1 || wrong "barrier: $(tail -3 "$work/out")"
[[ $(grep -vc '^#' "$work/out") == 1 ]] || wrong "barrier: not one row: $(cat "$work/out")"
grep -q '"bytes": 0' "$work/barrier.json" && grep -q '"algbw_gbps": 0' "$work/barrier.json" || wrong "barrier: a bandwidth, but it moves nothing"

# The cores that it says are those it may use: of a rank that kolorun has bound, not only its own.
one=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
taskset -c "$one" timeout 60 "$bin/kolorun" -np 2 "$bin/kolobench" allreduce -s 4 -n 1 >"$work/out" 2>&1 || wrong "one core: $(tail -3 "$work/out")"
grep -q 'host of rank 0: 1 core, ' "$work/out" || wrong "one core: $(grep 'of rank 0' "$work/out")"
grep -q 'warning: 2 ranks on 1 core of a host: they take turns' "$work/out" || wrong "one core, two ranks: no warning: $(cat "$work/out")"
taskset -c "$one" "$bin/kolobench" plan allreduce -np 4 | grep -q 'on 4 ranks, 1 host of 1 core, ' || wrong "plan counts cores that it may not use"
"$bin/kolobench" plan allreduce -np 1 --cores 3 | grep -q 'on 1 rank, 1 host of 3 cores, ' || wrong "plan of one rank"
bench 2 allreduce -s 4 -n 1 >"$work/out" 2>&1 || wrong "all cores: $(tail -3 "$work/out")"
[[ $(nproc) != 2 ]] || grep -q 'host of rank 0: 2 cores, ' "$work/out" || wrong "two cores: $(grep 'of rank 0' "$work/out")"

KOLO_PORTS=41999-41999 bench 3 barrier -n 1 --transport tcp >"$work/out" 2>&1 && wrong "one port for three ranks: it runs"
grep -q '^\[[012]\] kolobench: .*KOLO_PORTS=41999-41999: every port is taken' "$work/out" || wrong "a rank that cannot start does not say why: $(cat "$work/out")"

# Only one rank fails, and not by a collective: rank 0 says why, once.
CUDA_VISIBLE_DEVICES='' timeout 60 "$bin/kolorun" -np 4 sh -c '[ $RANK != 2 ] || set -- "$@" --memory pinned; exec "$@"' sh \
    "$bin/kolobench" allreduce -s 4,64K -n 2 >"$work/out" 2>&1 && wrong "a rank without pinned memory: success"
[[ $(grep -c 'kolobench:' "$work/out") == 1 ]] && grep -qE '^\[0\] kolobench: the communicator was aborted: rank 2 \(.*\) aborted: .*(NVIDIA|CUDA)' "$work/out" ||
    wrong "why a rank other than 0 failed is not said once: $(cat "$work/out")"

# One rank's environment (its host's profile, a wrapper) has an invalid setting: that rank says so.
alone() { # ENTRY PATTERN
    ENTRY=$1 timeout 60 "$bin/kolorun" -np 3 sh -c '[ "$RANK" != 1 ] || export "$ENTRY"; exec "$@"' sh \
        "$bin/kolobench" allreduce -s 4 -n 2 >"$work/out" 2>&1 && wrong "$1 on one rank: success"
    grep -qE "^\[1\] kolobench: .*$2" "$work/out" || wrong "$1 on one rank: its reason is not said: $(cat "$work/out")"
    grep -qE "^\[2\] kolobench: a rank died" "$work/out" && wrong "$1 on one rank: rank 2 repeats what kolorun says: $(cat "$work/out")"
}
alone KOLO_STALL=abc 'KOLO_STALL=abc: '
alone KOLO_STAGE_BYTES=1 'KOLO_STAGE_BYTES=1: '
alone KOLO_TRANSPORT=foo 'KOLO_TRANSPORT=foo: '
alone KOLO_PLAN=bogus 'KOLO_PLAN=bogus: '
KOLO_TRANSPORT=tcp alone KOLO_NET=eth99 'KOLO_NET: .*"eth99"'
alone KOLO_TRANSPORT=inproc 'another process \(KOLO_TRANSPORT=inproc\)'

# What is wrong in the same way on every rank is said once. The other ranks wait for rank 0 for a part of this.
export KOLO_START_TIMEOUT=600
once() { # PATTERN ARGUMENTS...
    bench 4 "${@:2}" >"$work/out" 2>&1 && wrong "${*:2}: success"
    [[ $(grep -c 'kolobench:' "$work/out") == 1 ]] && grep -qE "^\[0\] kolobench: .*$1" "$work/out" || wrong "${*:2}: not said once: $(cat "$work/out")"
}
for command in 'allreduce -s 4' diagnose; do
    once 'KOLO_TRANSPORT=tpc: ' $command --transport tpc
    KOLO_TRANSPORT=inproc once 'another process \(KOLO_TRANSPORT=inproc on both\)' $command
done

# Also if rank 0 is slower than the others.
for mistake in '--transport tpc' '--sizes x' '--frobnicate' '--threads 2'; do
    timeout 60 "$bin/kolorun" -np 3 sh -c '[ "$RANK" != 0 ] || sleep 0.5; exec "$@"' sh "$bin/kolobench" allreduce -s 4 $mistake \
        >"$work/out" 2>&1 && wrong "$mistake, and a slow rank 0: success"
    [[ $(grep -c '^\[0\] kolobench:' "$work/out") == 1 ]] || wrong "$mistake, and a slow rank 0: not said: $(cat "$work/out")"
    [[ $(grep -c 'kolobench:' "$work/out") == 1 ]] || wrong "$mistake, and a slow rank 0: not said once: $(cat "$work/out")"
done
unset KOLO_START_TIMEOUT

# Or if rank 0 alone has a right one, and waits for the others: the first of them ends the job before the next complains.
KOLO_START_TIMEOUT=100s timeout 60 "$bin/kolorun" --oversubscribe -np 4 sh -c '[ "$RANK" = 0 ] || set -- "$@" --frobnicate; exec "$@"' \
    sh "$bin/kolobench" allreduce -s 4 >"$work/out" 2>&1 && wrong "all ranks but one are wrong: success"
[[ $(grep -c "unknown option '--frobnicate'" "$work/out") == 1 ]] && grep -q "^\[1\] kolobench: unknown option '--frobnicate'" "$work/out" ||
    wrong "all ranks but one are wrong: not said once: $(cat "$work/out")"

# A single rank with a wrong command line says so, whatever the others do, and ends the job long before they would have met.
single() { # RANK COMMAND PATTERN OTHERS
    ONE=$1 COMMAND=$2 OTHERS=$4 timeout 50 "$bin/kolorun" -np 3 sh -c '[ "$RANK" = "$ONE" ] || COMMAND=$OTHERS; exec $COMMAND' >"$work/out" 2>&1
    local status=$?
    [[ $status == 2 && $(grep -cE "^\[$1\] $3" "$work/out") == 1 ]] || wrong "'$2' on rank $1 alone, others '$4': status $status: $(cat "$work/out")"
}
for others in 'sleep 100' "$bin/kolobench allreduce -s 4"; do
    for rank in 0 1; do
        single $rank "$bin/kolobench allreduce --opp sum" "kolobench: unknown option '--opp', did you mean --op\?; try --help$" "$others"
    done
    single 2 "$bin/kolobench allreduce --transport tpc" 'kolobench: .*KOLO_TRANSPORT=tpc: ' "$others"
    single 1 "$bin/kolo-coco gt.json --frob" 'kolo-coco: unknown option --frob; try --help$' "$others"
done

refuse() {
    local out
    out=$(timeout 20 "$bin/kolobench" "${@:2}" 2>&1) && wrong "$*: succeeded"
    [[ $(wc -l <<<"$out") == 1 && $out =~ $1 ]] || wrong "$*: expected one line like '$1', got: $out"
}
refuse 'collective frobnicate' frobnicate
refuse 'collective \(none\)'
refuse '--begin 12q' allreduce -b 12q
refuse '--sizes 1T: expected up to 1024 sizes, in bytes or with K, M or G, such as' allreduce -s 1T
refuse '--stream with --memory kolo: expected --memory device' allreduce --stream
refuse '--begin 8: expected at least 1 and at most --end' allreduce -b 8 -e 4
refuse '--dtype float31' allreduce -d float31
refuse '--prescale 0.3: expected 0.0625, ' allreduce --prescale 0.3
refuse '--prescale nan: expected 0.0625, ' allreduce --prescale nan
refuse '--postscale 2x: expected 0.0625, ' allreduce --postscale 2x
refuse '--prescale with --dtype int32: expected a type of floats' allreduce --prescale 2 -d int32
refuse '--postscale with --op prod: expected sum, average, min or max' allreduce --postscale 2 -o prod
refuse '--prescale broadcast: expected a reduction, such as allreduce' broadcast --prescale 2
refuse '--prescale: expected to be left out with --limits' --limits --prescale 2
refuse '--factor 1' allreduce -f 1
refuse "^kolobench: unknown option '--frobnicate'; try --help$" allreduce --frobnicate
refuse "^kolobench: unknown option '--iteratoins', did you mean --iterations\?; try --help$" allreduce --iteratoins
refuse "^kolobench: unknown option '--force'; try --help$" profile --force
(unset HOME; refuse '^kolobench: profile has no place for its figures: expected --output FILE, or HOME as an absolute path; try --help$' profile)
refuse '--save-profile f: expected kolobench profile -o FILE' --limits --save-profile f
refuse 'KOLO_TRANSPORT.*pigeon|pigeon.*KOLO_TRANSPORT' allreduce --threads 2 --transport pigeon
refuse 'ring-o-roses' allreduce --threads 2 --plan ring-o-roses
for command in "allreduce -s 4 -n 1" diagnose; do
    bench 2 $command --threads 3 >"$work/out" 2>&1 && wrong "$command: threads in each of kolorun's ranks: success"
    [[ $(grep -c 'threads 3: kolorun has started 2 ranks' "$work/out") == 1 ]] || wrong "$command: threads in each of kolorun's ranks: $(cat "$work/out")"
done
bench 1 allreduce -s 4 -n 1 --threads 3 >"$work/out" 2>&1 || wrong "threads in kolorun's one rank: $(tail -3 "$work/out")"
refuse '--plan ring: expected one that alltoall has: auto, .*bruck.*' alltoall --threads 2 --plan ring
refuse '--plan flat: expected one that allgatherv has: auto, ring, ' allreduce allgatherv --threads 2 --plan flat
refuse '--plan ring: expected one that pingpong has: auto;' pingpong --threads 2 --plan ring
refuse '--plan dobling: .*did you mean doubling' allreduce --threads 2 --plan dobling
# Each sample is one call, if that takes long enough; with a sanitizer (TEST_SHORT) a shorter one does.
bench 2 allreduce --transport shm --plan oneshot -s $([[ ${TEST_SHORT-0} == 1 ]] && echo 4K || echo 64K) -n 21000 >"$work/out" 2>&1 || wrong "more samples than a forced plan takes at a time: $(tail -3 "$work/out")"
timeout 60 "$bin/kolobench" all --threads 2 --plan ring -s 64 -n 1 >"$work/out" 2>&1 || wrong "a plan for all that have it: $(tail -3 "$work/out")"
timeout 20 "$bin/kolobench" broadcast --threads 3 --plan twolevel -s 4K >"$work/out" 2>&1 && wrong "a plan for several hosts on one: success"
grep -q 'kolobench: .*KOLO_PLAN=twolevel: broadcast of 1024 elements on 3 ranks: all ranks are on one host' "$work/out" || wrong "a plan that cannot: not what was asked for is named: $(cat "$work/out")"
refuse 'no-such-dir' allreduce --threads 2 -e 4 --json "$work/no-such-dir/x.json"
timeout 20 "$bin/kolobench" allreduce reduce_scatter --threads 3 -s 8 -n 1 >"$work/out" 2>&1 || wrong "one collective without a row: $(tail -3 "$work/out")"
grep -q '^# no row: every size is below 12 bytes, the least of reduce_scatter among 3 ranks' "$work/out" || wrong "a collective without a row says nothing: $(cat "$work/out")"
timeout 20 "$bin/kolobench" allreduce --threads 2 -s 1,4,5,8,3 -n 1 >"$work/out" 2>&1 || wrong "sizes that are no multiple: $(tail -3 "$work/out")"
for words in '1 no row of its own: below 4 bytes, the least of allreduce among 2 ranks' '3 no row of its own: below 4 bytes, .*' '5 no row of its own: as a multiple of 4 bytes it is 4, the row before'; do
    grep -qE "^# +$words\$" "$work/out" || wrong "sizes that fall away: not '$words': $(cat "$work/out")"
done
[[ $(grep -c 'no row' "$work/out") == 3 ]] || wrong "sizes that do not fall away: $(cat "$work/out")"
grep -q 'measured as' "$work/out" && wrong "sizes that are a multiple are said to be rounded: $(cat "$work/out")"
timeout 20 "$bin/kolobench" reduce_scatter --threads 3 -s 12,40 -n 1 >"$work/out" 2>&1 || wrong "a size that is rounded: $(tail -3 "$work/out")"
grep -qE '^# +40 measured as the next lower multiple of 12 bytes$' "$work/out" || wrong "a size that is rounded says nothing: $(cat "$work/out")"
for sizes in 8 1,2,4; do
    timeout 20 "$bin/kolobench" reduce_scatter alltoall --threads 3 -s $sizes -d float64 --json "$work/none.json" >"$work/out" 2>&1 && wrong "no rows: success"
    grep -q 'kolobench: .*nothing was measured: every size is below 24 bytes, the least for 3 ranks; give a larger one with -s' "$work/out" || wrong "no rows: no words: $(cat "$work/out")"
    [[ ! -e $work/none.json ]] || wrong "no rows: a file"
done
KOLO_PLAN=ring KOLO_TRANSPORT=tcp timeout 20 "$bin/kolobench" plan allreduce -np 4 -s 64 >"$work/out" 2>&1 || wrong "plan with settings: $(cat "$work/out")"
grep -q 'tcp inside' "$work/out" && grep -q '^# KOLO_PLAN=ring: a job with this setting uses ring here' "$work/out" || wrong "plan: settings are not looked at: $(cat "$work/out")"
KOLO_PLAN=ringo timeout 20 "$bin/kolobench" plan allreduce >"$work/out" 2>&1 && wrong "plan with a KOLO_PLAN that is none: success"
KOLO_RANK=1 KOLO_SIZE=2 KOLO_RENDEZVOUS=file://$work/nowhere KOLO_SECRET=$(printf '%064d' 7) KOLO_START_TIMEOUT=200ms \
    timeout 20 "$bin/kolobench" allreduce -s 8 >"$work/out" 2>&1 && wrong "a rank 1 without a rank 0: success"
grep -q "kolobench: .*nowhere did not appear in time; is rank 0 running" "$work/out" || wrong "a rank 1 without a rank 0 says nothing: $(cat "$work/out")"
((failures == 0)) && echo "kolobench: all good"
exit $((failures > 0))
