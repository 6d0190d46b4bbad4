#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs whose ranks are connected by RDMA, in one boot of tests/vm/run: even ranks on rxe0, odd ranks
# on rxe1. Every collective is compared with its expected result, an evaluation must be the same as
# over TCP to the last bit, and by the devices' own counters nothing may be left on them. Faults are
# in faults.sh. ctest sets KOLORUN and KOLOBENCH. The script trains on this machine, and runs the
# rest of itself inside the virtual machine.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
. "${BASH_SOURCE%/*}/../examples/first.sh"
examples=${KOLORUN%/*}/examples
if [[ ${1-} != inside ]]; then
    vm=${BASH_SOURCE%/*}/run
    why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }
    export CHECKPOINT=$work/fashion.ckpt DATA=$work/data
    dataset=/usr/share/datasets/fashion-mnist
    if [[ -d $dataset ]]; then
        run 0 "$examples/fashion-train" --epochs 1 --batch 250 --checkpoint "$CHECKPOINT"
        mkdir "$DATA"
        first_pictures "$dataset" "$DATA" t10k 1000 # all 10000 take 40 s there
    fi
    "$vm" --timeout 1200 -- bash "${BASH_SOURCE[0]}" inside || exit
    finish
    exit
fi
. "${BASH_SOURCE%/*}/devices.sh"

# One job runs many collectives, because on an emulated processor a start costs more than a
# collective. 8 ranks, four on each device, test the number of queue pairs. All collectives with 2,
# 4 and 8 ranks run only if TEST_SOAK=1.
all=(allreduce broadcast reduce_scatter alltoall reduce allgather gather scatter)
check() { # NP OPERATION...
    local np=$1 operation
    shift
    step "$np ranks: $*"
    job 0 "$np" "$KOLOBENCH" "$@" --check -n 2 -w 0 -s 4,100K,1M
    for operation; do
        says out "^\\[0\\] # $operation,"
    done
}
check 3 "${all[@]}" barrier allgatherv reduce_scatterv gatherv scatterv alltoallv
if [[ ${TEST_SOAK-0} == 1 ]]; then
    check 2 "${all[@]}"
    check 4 "${all[@]}"
    check 8 "${all[@]}"
else
    check 2 allreduce reduce_scatter
    check 8 alltoall
fi
clean "collectives"
says out .

# Long messages over two queue pairs to each peer.
step "rails"
job 0 2 env KOLO_RDMA_RAILS=2 KOLO_LOG=info "$KOLOBENCH" broadcast alltoall sendrecv --check -n 2 -w 0 -s 600K,2M
says err 'by rdma: rail 2 goes by'
clean "rails"
step "evaluation"

if [[ -e $CHECKPOINT ]]; then
    job 0 3 "$examples/fashion-eval" --data "$DATA" --checkpoint "$CHECKPOINT"
    cp "$work/out" "$work/rdma"
    grep -q '(0x' "$work/rdma" || fail "fashion-eval says nothing: $(cat "$work/rdma")"
    step "evaluation over TCP"
    run 0 env KOLO_TRANSPORT=tcp "$KOLORUN" -np 2 "$examples/fashion-eval" --data "$DATA" --checkpoint "$CHECKPOINT"
    cmp <(grep '(0x' "$work/rdma") <(grep '(0x' "$work/out") || fail "fashion-eval by RDMA, 3 ranks, differs from TCP, 2 ranks: $(cat "$work/rdma" "$work/out")"
    clean "fashion-eval"
fi

finish
