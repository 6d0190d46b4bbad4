#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs under a kernel that lacks system calls, or a sandbox that forbids them. If a call is refused
# that kolo can do without, the results of a job of four ranks are still right. If a call is refused
# that it needs, the job ends with one line that names the call.
source "$(dirname "$0")/common.sh"
kolobench=$(dirname "$KOLORUN")/kolobench

"$REFUSING" 38 swapon true || skip "no system call can be refused here"

# Four ranks that check every element.
job=("$KOLORUN" -np 4 "$kolobench" allreduce -s '4,24K,1M' -n 2 --check -q)

# 1033 is F_ADD_SEALS, 36 PR_SET_CHILD_SUBREAPER, 1 PR_SET_PDEATHSIG, 17 SO_PEERCRED, 13 TCP_CONGESTION, 18 TCP_USER_TIMEOUT
spared=(memfd_create fallocate fcntl:1=1033 process_vm_readv close_range prctl:0=36 prctl:0=1 getsockopt:2=17 setsockopt:2=13
    setsockopt:2=18 sched_getaffinity sched_setaffinity get_mempolicy mbind madvise sysinfo prlimit64 setpgid uname
    pidfd_open,pidfd_getfd perf_event_open,io_uring_setup)
for calls in "${spared[@]}"; do
    for error in 38 1; do # ENOSYS, EPERM
        run 0 "$REFUSING" "$error" "$calls" "${job[@]}"
        [[ $(grep -cE '^\[0\] +(4|24576|1048576) .* 0 ' "$work/out") == 3 ]] || fail "$calls refused with $error: $(cat "$work/out" "$work/err")"
    done
done
run 0 "$REFUSING" 38 "$(IFS=, && echo "${spared[*]}")" "${job[@]}" # all calls at once

# Without memfd_create, host memory is in an unnamed file, and nothing is left of it.
run 0 "$REFUSING" 1 memfd_create "$KOLORUN" info
says out '^memory +host +works.*forbids memfd_create'
says out '^transport +shm +no: .*memfd_create'
shopt -s nullglob
left=(/dev/shm/kolo-?????? /tmp/kolo-??????) # as memory/shared_file.c names them
((${#left[@]} == 0)) || fail "left behind: ${left[*]}"

# hwloc would ask for the mask of processors without end.
run 0 "$REFUSING" 1 sched_getaffinity timeout 60 "$KOLORUN" info
says out 'sched_getaffinity is refused'
run 2 "$REFUSING" 1 sched_getaffinity timeout 60 "$KOLORUN" --bind core -np 2 true
says err '^kolorun: host localhost: the processors of this process cannot be found: sched_getaffinity: Operation not permitted; nothing was started$'

# Calls that kolo needs are named, with the next step.
needed() { # STATUS CALL PATTERN
    run "$1" "$REFUSING" 38 "$2" "${job[@]}"
    says err "$3"
}
needed 126 signalfd4 'agent: cannot start: signalfd: Function not implemented: .*sandbox.*allowed'
needed 126 eventfd2 'event loop .*eventfd.*Function not implemented: .*sandbox.*allowed'
needed 126 getrandom 'random bytes from the system: Function not implemented: .*sandbox.*allowed'
needed 1 timerfd_create 'timerfd: Function not implemented: .*have it allowed'
KOLO_TRANSPORT=tcp run 1 "$REFUSING" 97 socket:0=16 "${job[@]}" # EAFNOSUPPORT; AF_NETLINK
says err 'tcp cannot be used here: addresses of this machine, for which a sandbox must allow sockets of AF_NETLINK: Address'
KOLO_TRANSPORT=tcp run 0 "$REFUSING" 38 timerfd_create "${job[@]}"
# Too many processes or open files for what writes and reads files: no mistake in the options.
for option in --output-dir --timeline --hostfile; do
    run 126 "$REFUSING" 11 clone "$KOLORUN" "$option" "$work/place" true # EAGAIN, as if by ulimit -u
    says err "^kolorun: cannot start a process for .*: Resource temporarily unavailable: too many processes .* pids.max of the cgroup\$"
    run 126 "$REFUSING" 24 socketpair "$KOLORUN" "$option" "$work/place" true # EMFILE
    says err "^kolorun: cannot start a process for .*: Too many open files: raise .ulimit -n.\$"
    [[ ! -e $work/place ]] || fail "$option: something was left"
done
# The kernel counts the descriptors that a user's processes have passed and that were not taken yet,
# and above the limit of open files it refuses more, but not to root.
ordinary=()
((EUID != 0)) || ordinary=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if ((EUID != 0)) || others_may_enter; then
    run 0 "${ordinary[@]}" bash -c 'ulimit -Sn 160 && exec "$@"' sh "$KOLORUN" -np 16 "$kolobench" allreduce -s 4,24K -n 2 --check -q
    [[ $(grep -cE '^\[0\] +(4|24576) .* 0 ' "$work/out") == 2 ]] || fail "many descriptors: $(cat "$work/out" "$work/err")"
fi
finish
