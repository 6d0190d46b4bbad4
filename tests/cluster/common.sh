# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests on several hosts, on top of tests/launcher/common.sh. Skips the test, with
# the reason, if tests/cluster/cluster cannot run here, and takes the hosts down at the end. The
# test itself calls "$cluster" up N.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
cluster=${BASH_SOURCE%/*}/cluster
export CLUSTER_DIR=${CLUSTER_DIR:-$PWD/cluster.$$}
why=$("$cluster" check) || skip "$why"
trap '"$cluster" down; rm -rf "$work"' EXIT

on() { "$cluster" exec "$@"; }
# pids_of HOST COMM: prints the processes of HOST whose name is COMM.
pids_of() {
    local first namespace file
    read -r first _ <"$CLUSTER_DIR/$1/first"
    namespace=$(readlink "/proc/$first/ns/pid")
    for file in $(grep -lx "$2" /proc/[0-9]*/comm 2>/dev/null); do
        file=${file%/comm}
        [[ $(readlink "$file/ns/pid") != "$namespace" ]] || echo "${file#/proc/}"
    done
}
# Checks what must hold on every host after every job: no process of the job is left, no port is
# open but sshd's, and /dev/shm is empty.
hosts_clean() { # HOST...
    local host left end
    nobody_left "$KOLOTEST_MARK"
    for host in "$@"; do
        end=$((SECONDS + patience / 5))
        while :; do
            left=$(pids_of "$host" kolorun-agent; pids_of "$host" kolorun)
            [[ -n $left ]] && ((SECONDS < end)) || break
            read -rt 0.1 <> <(:) || true
        done
        [[ -z $left ]] || fail "$host: agents left: $left"
        left=$(on "$host" sh -c "cat /proc/net/tcp /proc/net/tcp6 | awk '\$4 == \"0A\" && \$2 !~ /:0016\$/'; ls /dev/shm")
        [[ -z $left ]] || fail "$host: left behind: $left"
    done
}
