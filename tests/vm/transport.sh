#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs whose ranks are joined by RDMA, in one boot of tests/vm/run: even ranks on rxe0, odd ones on rxe1. Every collective
# against what must come out, the same evaluation as over TCP to the last bit, and everything that can break: each is an error
# with its cause, nothing hangs, and the devices' own counters say that nothing is left. Gets KOLORUN, KOLOBENCH and
# RANK_PROGRAM from ctest; trains here and runs the rest of itself inside.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
examples=${KOLORUN%/*}/examples
if [[ ${1-} != inside ]]; then
    vm=${BASH_SOURCE%/*}/run
    why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }
    export CHECKPOINT=$work/fashion.ckpt
    [[ ! -d /usr/share/datasets/fashion-mnist ]] ||
        run 0 "$examples/fashion-train" --epochs 1 --batch 250 --checkpoint "$CHECKPOINT"
    "$vm" --timeout 500 -- bash "${BASH_SOURCE[0]}" inside || exit
    finish
    exit
fi
SLOW=4 # the processor is emulated
unset KOLO_RDMA_DEVICE
fresh=$(rdma resource show)
on_devices=(sh -c 'export KOLO_RDMA_DEVICE=rxe$((RANK % 2)); exec "$@"' sh)
job() { # STATUS NP COMMAND...
    local status=$1 np=$2
    shift 2
    run "$status" env KOLO_TRANSPORT=rdma "$KOLORUN" -np "$np" "${on_devices[@]}" "$@"
}
# Nothing of any job is left on the devices: queue pairs, regions, queues, domains.
clean() { # WHAT
    local now i
    for ((i = 0; i < 100; i++)); do
        now=$(rdma resource show)
        [[ $now != "$fresh" ]] || return 0
        read -rt 0.1 <> <(:) || true
    done
    fail "$1: left on the devices: $now"
}

for np in 2 3 4 8; do
    operations=(allreduce broadcast reduce_scatter alltoall)
    ((np > 4)) || operations+=(reduce allgather gather scatter)
    for operation in "${operations[@]}"; do
        job 0 "$np" "$KOLOBENCH" "$operation" --check -n 2 -w 0 -s 4,100K,1M
    done
done
job 0 2 "$KOLOBENCH" barrier --check -n 2
clean "collectives"
says out .

if [[ -e $CHECKPOINT ]]; then
    job 0 2 "$examples/fashion-eval" --checkpoint "$CHECKPOINT"
    cp "$work/out" "$work/rdma"
    run 0 env KOLO_TRANSPORT=tcp "$KOLORUN" -np 2 "$examples/fashion-eval" --checkpoint "$CHECKPOINT"
    cmp "$work/out" "$work/rdma" || fail "fashion-eval differs from TCP: $(cat "$work/rdma")"
    grep -q '(0x' "$work/rdma" || fail "fashion-eval says nothing: $(cat "$work/rdma")"
fi

# What breaks while ranks work.
job 137 2 "$RANK_PROGRAM" die 1 9
says out '^\[0\] error .*rank 1'
clean "a rank that was killed"
packets() { cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts; }
breaks() { # WHAT PATTERN COMMAND...: once messages move, the job ends in error within its deadline
    local what=$1 pattern=$2 launcher status=0 begun
    shift 2
    begun=$(packets)
    KOLO_TRANSPORT=rdma KOLO_TIMEOUT=60s KOLO_PEER_TIMEOUT=2s timeout 200 "$KOLORUN" -np 2 "${on_devices[@]}" "$RANK_PROGRAM" loop 600 \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    await 20 eval '(($(packets) > begun + 200))'
    "$@" &
    wait "$launcher" || status=$?
    ((status != 0 && status != 124)) || fail "$what: status $status"
    cat "$work/out" "$work/err" | grep -qE -- "$pattern" || { fail "$what: no '$pattern' in:"; cat "$work/out" "$work/err"; }
}
breaks "a link that goes down" 'error .*rank [01] on .* by rdma rxe[01] port 1: .*(no answer|no way to the peer)' ip link set ra down
ip link set ra up
ip route replace 10.0.0.2 dev ra table 101
clean "a link that went down"
# What cannot be had at the start.
run 4 env KOLO_TRANSPORT=rdma KOLO_RDMA_DEVICE=mlx5_7 "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 1
says out "there is no RDMA port 'mlx5_7' on this host"
limited=(setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock bash -c 'ulimit -l 64; exec "$@"' sh)
run 1 env KOLO_TRANSPORT=rdma "${limited[@]}" "$KOLORUN" -np 2 "${on_devices[@]}" "$RANK_PROGRAM" loop 1
says out 'cannot be reached by rdma: .*cannot be locked in memory, the limit is 64 KiB: raise it'
clean "what could not be had"

# The interfaces under the devices vanish, for good. (rxe itself cannot be pulled out: "rdma link delete" waits for its users.)
breaks "an interface that is removed" 'error .*rank [01] on .* by rdma rxe[01] port 1: ' ip link delete rb
finish
