# SPDX-License-Identifier: Apache-2.0
# For scripts that run inside tests/vm/run: jobs whose ranks are joined by RDMA, even ranks on rxe0, odd ones on rxe1, and what is
# left of them on the devices.
SLOW=4 # the processor is emulated
unset KOLO_RDMA_DEVICE
# What the devices hold; a device that was made anew has another number.
resources() { rdma resource show | sed 's/^[0-9]*: //' | sort; }
fresh=$(resources)
on_devices=(sh -c 'export KOLO_RDMA_DEVICE=rxe$((RANK % 2)); exec "$@"' sh)
# The same on two hosts by name, so that ranks which may choose do not take shared memory.
on_hosts=(unshare -u sh -c 'hostname h$((RANK % 2)); export KOLO_RDMA_DEVICE=rxe$((RANK % 2)); exec "$@"' sh)
job() { # STATUS NP COMMAND...
    local status=$1 np=$2
    shift 2
    run "$status" env KOLO_TRANSPORT=rdma "$KOLORUN" -np "$np" "${on_devices[@]}" "$@"
}
# Nothing of any job is left on the devices: queue pairs, regions, queues, domains.
clean() { # WHAT
    local now i
    for ((i = 0; i < 100; i++)); do
        now=$(resources)
        [[ $now != "$fresh" ]] || return 0
        read -rt 0.1 <> <(:) || true
    done
    fail "$1: left on the devices: $now"
}
