#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the examples on two and three hosts: the evaluation prints the same as on one rank, to the
# last bit.
. "${BASH_SOURCE%/*}/common.sh"
data=/usr/share/datasets/fashion-mnist
[[ -d $data ]] || skip "$data is missing (package dataset-fashion-mnist)"
bin=${KOLORUN%/*}
"$cluster" up 3 || { fail "the cluster does not come up"; finish; }
checkpoint=$CLUSTER_DIR/fashion.ckpt # a folder that all hosts share
job() { # ARGUMENTS...: runs kolorun on host1, which has ranks only if it is named
    export KOLOTEST_MARK=fashion-$$
    run 0 "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK "$@"
}

job -H host1:2,host2:2 "$bin/examples/fashion-train" --epochs 1 --batch 250 --checkpoint "$checkpoint"
hosts_clean host1 host2 host3
"$bin/examples/fashion-eval" --checkpoint "$checkpoint" >"$work/alone" || fail "the evaluation alone failed"
pads='--pad --no-pad'
((SLOW == 1)) || pads=--no-pad # under a sanitizer, every path of a job on hosts only once
for hosts in host1:2,host2:2 host2:1,host3:2 host1:1,host2:1,host3:1; do
    for pad in $pads; do
        job -H "$hosts" "$bin/examples/fashion-eval" $pad --checkpoint "$checkpoint"
        sed 's/^\[0\] //' "$work/out" | cmp -s - "$work/alone" ||
            fail "$hosts $pad differs: $(cat "$work/out"), alone: $(cat "$work/alone")"
    done
done
cat "$work/alone"
hosts_clean host1 host2 host3
job -H host1:2,host2:2 "$bin/kolobench" allreduce allgather -b 4 -e 4M -f 32 -n 3 --check
says out 'shm\+tcp/[a-z]+'
finish
