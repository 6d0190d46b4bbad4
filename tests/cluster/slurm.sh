#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests kolo with Slurm on two hosts: ranks started by srun, kolorun in an allocation, and that
# nothing is left when Slurm ends them.
. "${BASH_SOURCE%/*}/common.sh"
for tool in slurmctld slurmd srun munged; do
    command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null ||
        skip "$tool is not installed (script/bootstrap --slurm)"
done
"$cluster" up 2 || { fail "the cluster does not come up"; finish; }

# ---- Slurm: munged everywhere, slurmctld on host1, slurmd on both ----
slurm=$CLUSTER_DIR/slurm
mkdir -p "$slurm/state"
head -c 128 /dev/urandom >"$slurm/munge.key"
chmod 600 "$slurm/munge.key"
echo 'CgroupPlugin=cgroup/v1' >"$slurm/cgroup.conf" # not used, but without it slurmd looks for mounted cgroups
cat >"$slurm/slurm.conf" <<CONFIG
ClusterName=kolo
SlurmctldHost=host1
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$slurm/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SlurmdParameters=config_overrides
KillWait=2
NodeName=host[1-2] CPUs=4 RealMemory=500
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE
CONFIG
for host in host1 host2; do
    on "$host" bash -c 'PATH=$PATH:/usr/sbin
        mkdir -p /etc/slurm /run/munge /run/slurmd && mount --bind "$1" /etc/slurm && mount -t tmpfs none /sys/fs/cgroup &&
        chmod 755 /run/munge && munged --force --key-file="$1/munge.key" --pid-file=/run/munge/pid \
            --log-file=/run/munge/log --seed-file=/run/munge/seed &&
        { [[ $2 != host1 ]] || slurmctld; } && slurmd -N "$2"' bash "$slurm" "$host" >"$work/start" 2>&1 ||
        { fail "Slurm does not start on $host:"; cat "$work/start" "$slurm"/*.log; finish; }
done
idle() { [[ $(on host1 sinfo -h -t idle -o %D) == 2 ]]; }
await idle || { cat "$slurm"/*.log; finish; }
# Checks that no job and no process of kolo is left. Ports are not checked: Slurm's daemons have
# some.
nobody_there() {
    await quiet || on host1 squeue
    nobody_left "$KOLOTEST_MARK"
    [[ -z $(pids_of host1 kolorun-agent; pids_of host2 kolorun-agent; pids_of host1 kolorun; pids_of host2 kolorun) ]] ||
        fail "$KOLOTEST_MARK: kolorun is still there"
}
quiet() { [[ -z $(on host1 squeue -h) && -z $(pids_of host1 launcher-rank; pids_of host2 launcher-rank) ]]; }
slurm() { # MARK STATUS COMMAND...: runs COMMAND on host1
    export KOLOTEST_MARK=$1-$$
    run "$2" "$cluster" exec host1 "${@:3}"
}
secret=KOLO_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

# ---- srun ----
for how in "" --mpi=pmi2 "-m cyclic"; do
    # shellcheck disable=SC2086
    slurm "srun$how" 0 env "$secret" srun -N 2 -n 3 $how "$RANK_PROGRAM" loop 0
    [[ $(grep -c '^path .* rank [0-2]: ' "$work/out") == 6 ]] || { fail "srun $how: no paths"; cat "$work/out"; }
done
slurm none 4 env -u KOLO_SECRET srun -N 2 -n 2 "$RANK_PROGRAM" loop 0
says out '^init .* rank [01] of 2 started by srun: the ranks need a secret, .*`export KOLO_SECRET=.* before `srun`'
printf 'host2\nhost1\n' >"$CLUSTER_DIR/order"
slurm arbitrary 4 env "$secret" SLURM_HOSTFILE="$CLUSTER_DIR/order" srun -n 2 -m arbitrary "$RANK_PROGRAM" loop 0
says out '^init .* by srun -m arbitrary, which does not say on which host rank 0 is: give KOLO_RENDEZVOUS'
# A rank dies. Without kolorun the other ranks cannot know how.
slurm die 137 env "$secret" srun -N 2 -n 3 "$RANK_PROGRAM" die 2 9
[[ $(grep -c 'error .*rank 2 (host2, pid [0-9]*) lost its connection' "$work/out") == 2 ]] || { fail "srun: who died?"; cat "$work/out"; }
nobody_there

# ---- kolorun in an allocation ----
slurm alloc 0 salloc -Q -N 2 -n 3 "$KOLORUN" -x KOLOTEST_MARK sh -c 'echo "$(hostname) $KOLO_SIZE"'
[[ $(sort "$work/out" | tr '\n' ' ') == '[0] host1 3 [1] host1 3 [2] host2 3 ' ]] || { fail "the allocation's hosts"; cat "$work/out"; }
says err "^kolorun: the hosts are those of Slurm's job [0-9]+: host\[1-2\] \(-H localhost: this machine alone\)$"
slurm full 2 salloc -Q -N 2 -n 3 "$KOLORUN" -np 4 true
says err '-np 4 exceeds the 3 slots of 2 hosts'
slurm here 0 salloc -Q -N 2 -n 3 "$KOLORUN" -H localhost -np 2 hostname
[[ $(cut -d' ' -f2 "$work/out" | sort -u) == host1 && ! -s $work/err ]] || { fail "-H localhost"; cat "$work/out" "$work/err"; }
slurm tasks 0 srun -N 2 -n 2 "$KOLORUN" -np 2 -x KOLOTEST_MARK hostname # each task's kolorun is a job of its own
[[ $(cut -d' ' -f2 "$work/out" | sort | uniq -c | tr -s ' \n' ' ') == ' 2 host1 2 host2 ' ]] || { fail "kolorun as a task"; cat "$work/out"; }
nobody_there

# ---- scancel of a batch script with kolorun, whose ranks on host2 are no step of Slurm ----
export KOLOTEST_MARK=batch-$$
cat >"$CLUSTER_DIR/batch" <<BATCH
#!/bin/bash
"$KOLORUN" -x KOLOTEST_MARK "$RANK_PROGRAM" loop 60
BATCH
job=$(on host1 sbatch --parsable -N 2 -n 3 -o "$CLUSTER_DIR/batch.out" "$CLUSTER_DIR/batch")
await eval '[[ $(grep -c "\] up" "$CLUSTER_DIR/batch.out") == 3 ]]'
on host1 scancel "$job"
nobody_there
finish
