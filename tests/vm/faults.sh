#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults of jobs whose ranks are connected by RDMA, in one boot of tests/vm/run: faults at the
# start, after which the pair uses TCP unless RDMA is forced, and faults while messages move. Each
# must give an error with its cause, or a warning; nothing may hang; and by the devices' own
# counters nothing may be left on them. ctest sets KOLORUN and RANK_PROGRAM. The script runs itself
# inside the virtual machine.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
if [[ ${1-} != inside ]]; then
    vm=${BASH_SOURCE%/*}/run
    why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }
    "$vm" --timeout 900 -- bash "${BASH_SOURCE[0]}" inside
    exit
fi
. "${BASH_SOURCE%/*}/devices.sh"

# Ranks that may choose a transport: they use RDMA if it works. Otherwise they use TCP, warn with
# the reason, and show TCP as their path.
may_choose() { run 0 "${before[@]}" env KOLO_TRANSPORT=auto "$KOLORUN" -np 2 "${on_hosts[@]}" "$RANK_PROGRAM" loop 1; }
before=(env)
step "what works"
may_choose
says out '^\[0\] path .* rank 1: rdma: .*rdma rxe0 port 1 to RoCE v2 10\.0\.0\.2'
[[ ! -s $work/err ]] || fail "what works draws a warning: $(cat "$work/err")"
clean "what works"
falls() { # WHAT PATTERN: the pair uses TCP, with a warning that matches PATTERN
    step "$1"
    may_choose
    says out '^\[0\] path .* rank 1: tcp: .*by tcp instead: '
    says err "rank [01] on h[01] is reached by tcp, not rdma: .*$2"
    clean "$1"
}
ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev ra nud permanent
falls "packets that get lost" 'a first message gets no answer in time'
ip neigh del 10.0.0.2 dev ra
# A pair uses the smaller MTU of its two ports: longer packets would not arrive.
step "MTUs that differ"
mtu=$(</sys/class/net/rb/mtu)
ip link set rb mtu 1500
has_mtu() { "$KOLORUN" info | grep -E "$1:1 .*MTU $2 " >/dev/null; } # DEVICE BYTES
await has_mtu rxe1 1024
has_mtu rxe0 4096 || fail "rxe0 has not the MTU it had: $("$KOLORUN" info)"
may_choose
says out '^\[0\] path .* rank 1: rdma: .*rdma rxe0 port 1 to RoCE v2 10\.0\.0\.2'
[[ ! -s $work/err ]] || fail "MTUs that differ draw a warning: $(cat "$work/err")"
ip link set rb mtu "$mtu"
clean "MTUs that differ"
limits=64
[[ ${TEST_SOAK-0} == 0 ]] || limits='0 64'
for limit in $limits; do
    before=(setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock bash -c "ulimit -l $limit; exec \"\$@\"" sh)
    falls "a limit of $limit KiB" "cannot be locked in memory, the limit is $limit KiB: raise it"
done
run 1 env KOLO_TRANSPORT=rdma "${before[@]}" "$KOLORUN" -np 2 "${on_devices[@]}" "$RANK_PROGRAM" loop 1
says out 'cannot be reached by rdma: .*cannot be locked in memory, the limit is 64 KiB: raise it'
clean "a limit where RDMA is forced"
if others_may_enter; then
    chmod 600 /dev/infiniband/uverbs*
    before=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    step "no permission"
    run 4 env KOLO_TRANSPORT=rdma "${before[@]}" "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 1
    says out 'no permission: /dev/infiniband/uverbs[0-9]+ must be readable and writable'
    run 0 "${before[@]}" env KOLO_TRANSPORT=auto "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 1
    chmod 666 /dev/infiniband/uverbs*
fi
step "names"
run 4 env KOLO_TRANSPORT=rdma KOLO_RDMA_DEVICE=mlx5_7 "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 1
says out "there is no RDMA port 'mlx5_7' on this host"
run 0 env KOLO_TRANSPORT=rdma KOLO_NET=rb "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 1
says out '^\[0\] path .* rank 1: rdma: .*rdma rxe1 port 1 to RoCE v2 10\.0\.0\.2'
run 4 env KOLO_TRANSPORT=rdma KOLO_NET=lo "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 1
says out 'rxe0 port 1: KOLO_NET=lo leaves it out \(RoCE v2 10\.0\.0\.1 of ra\).*rxe1 port 1: KOLO_NET=lo leaves'

# While ranks work.
step "a rank that is killed"
job 137 2 "$RANK_PROGRAM" die 1 9
says out '^\[0\] error .*rank 1'
clean "a rank that was killed"
packets() { cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts; }
start() { # SECONDS [PEER_TIMEOUT]: starts a job of SECONDS, and waits until messages move
    local begun
    begun=$(packets)
    # PEER_TIMEOUT is set for the ranks only: kolorun and its agent can be silent for 2 s on an
    # emulated processor beside other tests, and with it they once ended a job before it began.
    KOLO_TRANSPORT=rdma KOLO_TIMEOUT=60s timeout 200 "$KOLORUN" -np 2 "${on_devices[@]}" \
        env KOLO_PEER_TIMEOUT="${2-4s}" "$RANK_PROGRAM" loop "$1" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    await eval '(($(packets) > begun + 200)) || ! kill -0 "$launcher" 2>/dev/null'
    kill -0 "$launcher" 2>/dev/null || { fail "a job of $1 s ended after $(($(packets) - begun)) packets"; cat "$work/out" "$work/err"; }
}
breaks() { # WHAT PATTERN COMMAND...: after COMMAND, the job must end in error within its deadline
    local what=$1 pattern=$2 status=0 begun
    shift 2
    step "$what"
    start 600
    begun=$(now_ms)
    "$@" &
    wait "$launcher" || status=$?
    step "$what took $(($(now_ms) - begun)) ms"
    ((status != 0 && status != 124)) || fail "$what: status $status"
    grep -qE -- "$pattern" "$work/out" "$work/err" || { fail "$what: no '$pattern' in:"; cat "$work/out" "$work/err"; }
}
# Once, soft-RoCE reported nothing about a packet that it could not send. The job is then ended by
# the watch over writes whose completion is not reported ("has said nothing of it for").
breaks "a link that goes down" 'error .*rank [01] on .* by rdma rxe[01] port 1: .*(no answer|no way to the peer|has said nothing of it for)' \
    ip link set ra down
ip link set ra up
ip route replace 10.0.0.2 dev ra table 101
clean "a link that went down"
breaks "a way that ends" 'error .*rank [01] on .* by rdma rxe[01] port 1: .*no answer for KOLO_PEER_TIMEOUT' \
    ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev ra nud permanent
ip neigh del 10.0.0.2 dev ra
clean "a way that ended"

# A failure that is shorter than KOLO_PEER_TIMEOUT: the ranks create new queue pairs, and the sums
# are right (the program compares them). Within the timeout the interface must be up again and both
# ranks must have connected again. On an emulated processor beside other tests each takes seconds,
# and 8 s were once too few.
step "a link that goes down and up"
start 6 20s
step "going down"
ip link set ra down
await grep -q 'trying to bring it back' "$work/err"
step "going up"
ip link set ra up
ip route replace 10.0.0.2 dev ra table 101
step "up"
status=0
wait "$launcher" || status=$?
((status == 0)) || { fail "a link that goes down and up: status $status"; cat "$work/out" "$work/err"; }
says err 'rank [01] on .* by rdma: back after [0-9.]+ s with another queue pair'
clean "a link that went down and up"

# A soft-RoCE device cannot be removed while it is used: "rdma link delete" waits for its users, who
# continue, and the device is gone after they end.
step "a device that is deleted"
start 10 # in 3 s, beside a load of 30 on two processors, fewer than 200 packets moved
rdma link delete rxe0 &
removal=$!
status=0
wait "$launcher" || status=$?
((status == 0)) || { fail "a device that is deleted under a job: status $status"; cat "$work/out" "$work/err"; }
wait "$removal"
[[ ! -e /sys/class/infiniband/rxe0 ]] || fail "rxe0 is still there"
rdma link add rxe0 type rxe netdev ra
clean "a device that was deleted"

# The interface under a device is removed for good. Its address goes with it, so TCP may notice it
# as early as RDMA does.
breaks "an interface that is removed" 'error .*rank [01] (on .* by rdma rxe[01] port 1: |.*no answer for 4 s)' ip link delete rb
finish
