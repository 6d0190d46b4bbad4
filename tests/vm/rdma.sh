#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real RDMA, in one boot of tests/vm/run: queue pairs between two devices, the conformance suite of
# transports over them, peers that forge messages or cut connections, and what `kolorun info`
# reports of devices that work, are down, are forbidden or are gone. ctest sets KOLORUN,
# RDMA_QUEUE_TEST, RDMA_CONFORMANCE_TEST and RDMA_HOSTILE_TEST. The script runs itself inside the
# virtual machine.
set -uo pipefail
if [[ ${1-} != inside ]]; then
    vm=${BASH_SOURCE%/*}/run
    why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }
    exec "$vm" --timeout 900 -- bash "${BASH_SOURCE[0]}" inside
fi

failures=0
# shows WHAT PATTERN: `kolorun info`, run by the command in the array `command`, must print a line
# that matches PATTERN.
shows() {
    local out
    out=$("${command[@]}" "$KOLORUN" info 2>&1)
    grep -qE -- "$2" <<<"$out" || { echo "FAIL: $1: no line '$2' in:"; echo "$out"; failures=$((failures + 1)); }
}
before=$(rdma resource show)
# Each message that a hostile peer can forge goes over the simulated devices in transport/rdma_hostile,
# and so does each type and operator.
hostile=()
[[ ${TEST_SOAK-0} == 1 ]] || { hostile=(--filter 'rdma_hostile/!(what_a_hostile*)') && export TEST_SHORT=1; }
export KOLO_TEST_RDMA=rxe0,rxe1
"$RDMA_QUEUE_TEST" --filter 'rdma_queue/*' --jobs 1 || failures=$((failures + 1))
"$RDMA_HOSTILE_TEST" "${hostile[@]}" --jobs 1 || failures=$((failures + 1))
"$RDMA_CONFORMANCE_TEST" --jobs 1 || failures=$((failures + 1))
after=$(rdma resource show)
[[ $before == "$after" ]] || { echo "FAIL: left on the devices: $after; before: $before"; failures=$((failures + 1)); }
command=(env)
shows "a device" '^device +rxe0:1 +RoCE v2 10\.0\.0\.1 of ra, MTU 4096 \(Ethernet, active, [0-9.]+ Gbit/s\)$'
shows "the other" '^device +rxe1:1 +RoCE v2 10\.0\.0\.2 of rb, MTU 4096 \(Ethernet, active, [0-9.]+ Gbit/s\)$'
command=(setpriv --reuid 65534 --regid 65534 --clear-groups)
chmod 600 /dev/infiniband/uverbs*
shows "another user" '^device +rxe0 +cannot be used: no permission: /dev/infiniband/uverbs[0-9]+ must'
command=(env)
ip link set ra down
shows "a link that is down" '^device +rxe0:1 +cannot be used: its link is down.*\(Ethernet, down'
rdma link delete rxe0
rdma link delete rxe1
shows "no device" '^device +rdma +no RDMA device on this host'
command=(unshare -m sh -c 'mount --bind /dev/null "$(realpath /usr/lib/x86_64-linux-gnu/libibverbs.so.1)" && exec "$@"' sh)
shows "no library" '^device +rdma +libibverbs\.so\.1 cannot be loaded .*libibverbs1'
((failures == 0))
