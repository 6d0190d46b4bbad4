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

for np in 2 3 4 8; do
    operations=(allreduce broadcast reduce_scatter alltoall reduce allgather gather scatter)
    ((np != 3)) || operations+=(allgatherv reduce_scatterv gatherv scatterv alltoallv)
    ((np != 2)) || operations+=(barrier)
    job 0 "$np" "$KOLOBENCH" "${operations[@]}" --check -n 2 -w 0 -s 4,100K,1M # one job: to start costs more than a collective
    for operation in "${operations[@]}"; do
        says out "^\\[0\\] # $operation,"
    done
done
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
