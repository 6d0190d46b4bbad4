#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs whose ranks are joined by RDMA, in one boot of tests/vm/run: even ranks on rxe0, odd ones on rxe1. Every collective
# against what must come out, the same evaluation as over TCP to the last bit, and the devices' own counters say that nothing is
# left. What breaks: faults.sh. Gets KOLORUN and KOLOBENCH from ctest; trains here and runs the rest of itself inside.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
examples=${KOLORUN%/*}/examples
if [[ ${1-} != inside ]]; then
    vm=${BASH_SOURCE%/*}/run
    why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }
    export CHECKPOINT=$work/fashion.ckpt
    [[ ! -d /usr/share/datasets/fashion-mnist ]] ||
        run 0 "$examples/fashion-train" --epochs 1 --batch 250 --checkpoint "$CHECKPOINT"
    "$vm" --timeout 1200 -- bash "${BASH_SOURCE[0]}" inside || exit
    finish
    exit
fi
. "${BASH_SOURCE%/*}/devices.sh"

# One job for many collectives: on an emulated processor to start costs more than a collective. With 8 ranks, four of them on
# each device, it is the number of queue pairs that counts; all collectives with 4 and 8 are a matter of the long run.
all=(allreduce broadcast reduce_scatter alltoall reduce allgather gather scatter)
check() { # NP OPERATION...
    local np=$1 operation
    shift
    job 0 "$np" "$KOLOBENCH" "$@" --check -n 2 -w 0 -s 4,100K,1M
    for operation; do
        says out "^\\[0\\] # $operation,"
    done
}
check 2 "${all[@]}" barrier
check 3 "${all[@]}" allgatherv reduce_scatterv gatherv scatterv alltoallv
if [[ ${TEST_SOAK-0} == 1 ]]; then
    check 4 "${all[@]}"
    check 8 "${all[@]}"
else
    check 8 allreduce broadcast alltoall
fi
clean "collectives"
says out .

# Long messages over two queue pairs to a peer.
for operation in broadcast alltoall sendrecv; do
    job 0 2 env KOLO_RDMA_RAILS=2 KOLO_LOG=info "$KOLOBENCH" "$operation" --check -n 2 -w 0 -s 600K,2M
    says err 'by rdma: rail 2 goes by'
done
clean "rails"

if [[ -e $CHECKPOINT ]]; then
    for np in 2 4; do
        job 0 "$np" "$examples/fashion-eval" --checkpoint "$CHECKPOINT"
        cp "$work/out" "$work/rdma-$np"
        grep -q '(0x' "$work/rdma-$np" || fail "fashion-eval says nothing: $(cat "$work/rdma-$np")"
    done
    run 0 env KOLO_TRANSPORT=tcp "$KOLORUN" -np 2 "$examples/fashion-eval" --checkpoint "$CHECKPOINT"
    cmp "$work/out" "$work/rdma-2" || fail "fashion-eval differs from TCP: $(cat "$work/rdma-2")"
    cmp <(grep '(0x' "$work/rdma-2") <(grep '(0x' "$work/rdma-4") || fail "fashion-eval differs by ranks: $(cat "$work/rdma-4")"
    clean "fashion-eval"
fi

finish
