# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that run inside tests/vm/run. job runs ranks that are connected by RDMA, even
# ranks on rxe0 and odd ranks on rxe1; clean checks that a job has left nothing on the devices.
SLOW=4 # the processor is emulated
unset KOLO_RDMA_DEVICE
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }
step() { echo "$(now_ms): $*"; } # so that the output shows what takes long
# The devices' objects, without the number of the device, which differs if it was created again.
resources() { rdma resource show | sed 's/^[0-9]*: //' | sort; }
fresh=$(resources)
on_devices=(sh -c 'export KOLO_RDMA_DEVICE=rxe$((RANK % 2)); exec "$@"' sh)
# The same with two host names, so that ranks which may choose a transport do not use shared memory.
on_hosts=(unshare -u sh -c 'hostname h$((RANK % 2)); export KOLO_RDMA_DEVICE=rxe$((RANK % 2)); exec "$@"' sh)
job() { # STATUS NP COMMAND...
    local status=$1 np=$2
    shift 2
    run "$status" env KOLO_TRANSPORT=rdma "$KOLORUN" -np "$np" "${on_devices[@]}" "$@"
}
# Fails if a job has left anything on the devices: queue pairs, regions, queues or domains.
clean() { # WHAT
    local now i
    for ((i = 0; i < 100; i++)); do
        now=$(resources)
        [[ $now != "$fresh" ]] || return 0
        read -rt 0.1 <> <(:) || true
    done
    fail "$1: left on the devices: $now"
}
