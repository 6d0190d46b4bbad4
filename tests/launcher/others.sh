#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that are started by other launchers: with the variables of each launcher set by hand, and by
# the launchers that are installed.
. "${BASH_SOURCE%/*}/common.sh"
export KOLO_SECRET
KOLO_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

# both NAME VARIABLES...: two ranks with these variables, in which @ stands for the rank, must form
# one world.
both() {
    local name=$1 rank got pids=()
    shift
    for rank in 0 1; do
        env "${@//@/$rank}" timeout "$patience" "$RANK_PROGRAM" loop 0 >"$work/$name$rank" 2>&1 &
        pids+=($!)
    done
    for rank in 0 1; do
        got=0
        wait "${pids[rank]}" || got=$?
        [[ $got == 0 ]] || fail "$name: rank $rank ended with $got"
        grep -q "^path .* rank $((1 - rank)): shm" "$work/$name$rank" || { fail "$name: no path"; cat "$work/$name$rank"; }
    done
}
both srun SLURM_PROCID=@ SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=nowhere
both pmi PMI_RANK=@ PMI_SIZE=2 MPI_LOCALNRANKS=2
both ompi OMPI_COMM_WORLD_RANK=@ OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2
both hosts PMI_RANK=@ PMI_SIZE=2 MPI_LOCALNRANKS=1 "KOLO_RENDEZVOUS=file://$work/meet"
both torchrun TORCHELASTIC_RUN_ID=x RANK=@ WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=nowhere
both variables RANK=@ WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500

# Without kolorun, a rank notices rank 0's end by a link, or by the loss of the store that rank 0
# served. The error has its host and pid.
env PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=2 "$RANK_PROGRAM" die 0 9 >"$work/first" 2>&1 &
first=$!
run 1 env PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 "$RANK_PROGRAM" die 0 9
wait "$first" 2>/dev/null
says out "^error .*rank 0 \\([^,]+, pid $first\\).* ended, during"

# Without a secret a rank does not silently become a world of its own; a user who wants that sets
# KOLO_SIZE=1.
run 4 env -u KOLO_SECRET PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 "$RANK_PROGRAM" loop 0
says out '^init .* this is rank 1 of 2 started by mpiexec \(PMI\): the ranks need a secret, the same on all: `export KOLO_SECRET='
run 0 env -u KOLO_SECRET PMI_RANK=1 PMI_SIZE=2 KOLO_RANK=0 KOLO_SIZE=1 "$RANK_PROGRAM" loop 0
# Nor does a rank that knows where to meet, but not who it is.
run 4 env KOLO_RENDEZVOUS=tcp://127.0.0.1:29999 "$RANK_PROGRAM" loop 0
says out '^init .* KOLO_RENDEZVOUS .* is given without KOLO_RANK and KOLO_SIZE: set both, or KOLO_RANK=0 KOLO_SIZE=1 '
# Ranks with different secrets: both sides say so.
env KOLO_RANK=1 KOLO_SIZE=2 KOLO_SECRET="${KOLO_SECRET//[0-9]/0}" "KOLO_RENDEZVOUS=file://$work/secrets" KOLO_START_TIMEOUT=3s "$RANK_PROGRAM" loop 0 >"$work/second" 2>&1 &
second=$!
run 4 env KOLO_RANK=0 KOLO_SIZE=2 "KOLO_RENDEZVOUS=file://$work/secrets" KOLO_START_TIMEOUT=3s "$RANK_PROGRAM" loop 0
says out '^init .* rank 1 of 2 did not start within (2\.[0-9]|3(\.0)?) s; a process at [^ ]+ does not know the secret'
wait "$second"
grep -q '^init .* rejected our proof' "$work/second" || { fail "a rank with another secret"; cat "$work/second"; }
# kolorun in a step of another launcher starts ranks of its own.
run 0 env PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 "$KOLORUN" -np 3 "$RANK_PROGRAM" loop 0
[[ $(grep -c '^\[[0-2]\] path ' "$work/out") == 6 ]] || { fail "kolorun under mpiexec"; cat "$work/out"; }

# The launchers themselves.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for launcher in "mpirun.openmpi --oversubscribe -np 3" "mpiexec.hydra -n 3"; do
    command -v "${launcher%% *}" >/dev/null || { echo "${launcher%% *} is not installed"; continue; }
    # shellcheck disable=SC2086
    run 0 $launcher "$RANK_PROGRAM" loop 0
    [[ $(grep -c '^path ' "$work/out") == 6 ]] || { fail "$launcher"; cat "$work/out"; }
done
finish
