#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plans of two levels on two and three hosts, with the same or different numbers of ranks on each,
# numbered host by host or in turn. Every element is checked, and that the choice of plans takes one
# of them for long vectors. The same for plans with a level for NUMA nodes, which are simulated.
. "${BASH_SOURCE%/*}/common.sh"
"$cluster" up 3 || { fail "the cluster does not come up"; finish; }

in_turn='--map-by node' # after a list of hosts
# check MARK "HOSTS [OPTIONS]" ARGUMENTS...: runs collectives with --check; no row may have a wrong
# element.
check() {
    export KOLOTEST_MARK=$1-$$
    # shellcheck disable=SC2086
    run 0 "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK -H $2 "$KOLOBENCH" "${@:3}" -n 2 -w 1 --check
    awk '/ float32 / {rows++; wrong += $10 != "0"} END {exit !(rows > 0 && wrong == 0)}' "$work/out" ||
        { fail "$1 on $2: wrong elements"; cat "$work/out"; }
}
# some ITEM...: puts all of them into the array `chosen` if TEST_SOAK=1, else every second one.
some() {
    chosen=()
    while (($#)); do
        chosen+=("$1")
        [[ ${TEST_SOAK-0} == 1 || $# == 1 ]] || shift
        shift
    done
}
forced=(allreduce reduce broadcast barrier allgather reduce_scatter --plan twolevel --root rotate)
# Alltoall in bundles: with ranks numbered host by host and in turn. It is chosen only for short
# blocks, and never if hosts have different numbers of ranks.
for hosts in host1:2,host2:2,host3:2 "host1:2,host2:2,host3:2 $in_turn" host1:3,host2:3 "host1:3,host2:3 $in_turn"; do
    check bundled "$hosts" alltoall --plan twolevel -b 4 -e 1M -f 64
    [[ $(grep -cE ' float32 .*/twolevel$' "$work/out") == 3 ]] || { fail "$hosts: not bundled"; cat "$work/out"; }
done
check short host1:2,host2:2 alltoall -s 64
says out '/twolevel$'
check blocks host1:2,host2:2 alltoall -s 8M
says out '/direct$'
check uneven host1:2,host2:1 alltoall alltoallv -s 64,64K
! grep -q '/twolevel$' "$work/out" || fail "bundles among hosts of different size"
# dies PLAN HOST RANKS HOSTS ARGUMENTS...: a rank of HOST, one of RANKS, dies while PLAN is used.
dies() {
    export KOLOTEST_MARK=dies-$1-$$
    : >"$work/out" # the last one may have rows of this plan
    # shellcheck disable=SC2086
    "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK -H $4 "$KOLOBENCH" "${@:5}" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    await grep -q "/$1\$" "$work/out"
    kill -KILL "$(pids_of "$2" kolobench | head -n 1)"
    got=0
    wait "$launcher" || got=$?
    [[ $got == 137 ]] || { fail "a rank was killed, $1: status $got"; cat "$work/out" "$work/err"; }
    says err "^kolorun: rank [$3] \\($2, pid [0-9]+\\) .*; the job was ended\$"
}
dies twolevel host3 45 host1:2,host2:2,host3:2 alltoall --plan twolevel -s 64,1M -n 2000
some host1:3,host2:1 host1:2,host2:2 host1:1,host2:2,host3:3 host1:2,host2:3 \
    "host1:2,host2:1,host3:3 $in_turn" "host1:2,host2:2 $in_turn"
for hosts in "${chosen[@]}"; do
    check forced "$hosts" "${forced[@]}" -b 4 -e 1M -f 64
    rows=$(grep -cE ' float32 .*/twolevel$' "$work/out")
    [[ $rows -ge 18 ]] || { fail "$hosts: $rows rows by plan twolevel"; cat "$work/out"; }
    check chosen "$hosts" all -b 64 -e 256K -f 64
    check leaders "$hosts" allreduce --plan leaders -b 4 -e 1M -f 64
done
some host1:2,host2:3 host1:2,host2:2 host1:1,host2:2,host3:3 host1:3,host2:1
for hosts in "${chosen[@]}"; do
    check leaders "$hosts" allreduce allgather reduce_scatter gather scatter --plan leaders --root rotate -b 4 -e 256K -f 64
    rows=$(grep -cE ' float32 .*/leaders$' "$work/out")
    [[ $rows -ge 11 ]] || { fail "$hosts: $rows rows by plan leaders"; cat "$work/out"; }
done
# Many pieces, and blocks that no piece fits into.
KOLO_SEGMENT_BYTES=4K check pieces host1:3,host2:2,host3:1 "${forced[@]}" -s 100K,1M
check long host1:2,host2:2 allreduce -s 8M
says out '/twolevel$'
# on_nodes NODES HOSTS ARGUMENTS...: the same, with each rank on the NUMA node $((NODES)), an
# expression of LOCAL_RANK.
on_nodes() {
    export KOLOTEST_MARK=nodes-$$
    # shellcheck disable=SC2016,SC2086
    run 0 "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK -H $2 sh -c "KOLO_NUMA_NODE=\$(($1)) exec \"\$@\"" sh \
        "$KOLOBENCH" "${@:3}" -n 2 -w 1 --check
    awk '/ float32 / {rows++; wrong += $10 != "0"} END {exit !(rows > 0 && wrong == 0)}' "$work/out" ||
        { fail "nodes $1 on $2: wrong elements"; cat "$work/out"; }
}
for nodes in 'LOCAL_RANK % 2' 'LOCAL_RANK / 3' '(LOCAL_RANK + 1) / 4'; do
    some host1:4,host2:5,host3:5 host1:4,host2:4 "host1:4,host2:5 $in_turn"
    for hosts in "${chosen[@]}"; do
        on_nodes "$nodes" "$hosts" allreduce broadcast reduce --plan numa -b 4 -e 1M -f 64
        [[ $(grep -cE ' float32 .*/numa$' "$work/out") == 12 ]] || { fail "$hosts, $nodes: not by node"; cat "$work/out"; }
    done
    on_nodes "$nodes" host1:5 allreduce reduce broadcast allgather reduce_scatter --plan numa --root rotate -b 4 -e 1M -f 64
    [[ $(grep -cE ' float32 .*/numa$' "$work/out") -ge 18 ]] || { fail "one host, $nodes: not by node"; cat "$work/out"; }
done
KOLO_SEGMENT_BYTES=4K on_nodes 'LOCAL_RANK % 2' host1:4,host2:5 allreduce --plan numa -s 100K,1M
KOLO_DETERMINISTIC=1 on_nodes 'LOCAL_RANK % 2' host1:4,host2:4 allreduce -s 4,64K,1M
! grep -q '/numa$' "$work/out" || fail "a plan by node, which folds in an order of its own, in deterministic mode"
# Device memory on several hosts, behind the work of a stream: with more ranks than processors,
# ranks wait for work that another one has yet to do.
if [[ -e $MOCK_CUDA/libcuda.so.1 ]]; then
    LD_LIBRARY_PATH=$MOCK_CUDA check device host1:2,host2:1 allreduce --memory device --stream -s 64,300K
    # Nested: sums inside a host stay on the devices.
    for stream in '' --stream; do
        # shellcheck disable=SC2086
        KOLO_NESTED_BYTES=256K KOLO_LOG=info LD_LIBRARY_PATH=$MOCK_CUDA check nested host1:2,host2:2,host3:2 \
            allreduce --memory device $stream -s 64,300K,5M
        [[ $(grep -cE ' float32 .*/nested$' "$work/out") == 2 ]] || { fail "not nested $stream"; cat "$work/out"; }
        grep -q 'no CUDA kernels' "$work/err" || ! grep 'to the host' "$work/err" || fail "sums went to the host $stream"
        # shellcheck disable=SC2086
        KOLO_NESTED_BYTES=256K LD_LIBRARY_PATH=$MOCK_CUDA check turn "host1:2,host2:2 $in_turn" \
            allreduce --memory device $stream -s 64,300K
        says out ' float32 .*/nested$'
    done
fi
# Nested, in host memory; then a rank dies in such a job.
for hosts in host1:2,host2:2,host3:2 "host1:2,host2:2,host3:2 $in_turn"; do
    KOLO_NESTED_BYTES=1 check nested "$hosts" allreduce -s 4,1K,256K,16M
    [[ $(grep -cE ' float32 .*/nested$' "$work/out") == 4 ]] || { fail "$hosts: not nested"; cat "$work/out"; }
done
KOLO_NESTED_BYTES=1 check uneven host1:2,host2:1 allreduce -s 1M
! grep -q '/nested$' "$work/out" || fail "nested among hosts of different size"
KOLO_NESTED_BYTES=1 dies nested host2 13 "host1:2,host2:2 $in_turn" allreduce -s 64,4M -n 5000
KOLO_NESTED_BYTES=1 dies nested host2 23 host1:2,host2:2 allreduce -s 64,4M -n 5000
hosts_clean host1 host2 host3
finish
