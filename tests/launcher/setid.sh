#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program with more rights than the user who started it (here set-group-id) does not read KOLO_*
# from the environment, says so, and accepts a struct kolo_config. The same program without these
# rights reads them.
. "${BASH_SOURCE%/*}/common.sh"

# A group of this user other than the current one; root may choose any.
group=$(id -G | tr ' ' '\n' | grep -vx "$(id -g)" | head -1)
((EUID != 0)) || group=65534
[[ -n $group ]] || skip "this user is in one group only"
# with_rights FILE: makes a copy, $work/${FILE##*/}, that runs as that group.
with_rights() {
    cp "$1" "$work/" && chgrp "$group" "$work/${1##*/}" && chmod 2755 "$work/${1##*/}" || skip "cannot make a set-group-id file"
}
with_rights "$(command -v id)"
chmod 755 "$work"
[[ $("$work/id" -g -n 2>/dev/null || "$work/id" -g) != $(id -g -n) ]] || skip "set-group-id has no effect below $work"
with_rights "$KOLORUN"
with_rights "$SETID"

export KOLO_TIMEOUT=77s KOLO_LOG=warn
run 0 "$KOLORUN" --print-settings
says out '^KOLO_TIMEOUT.*77s? .*environment'
run 0 "$work/kolorun" --print-settings
says out '^KOLO_TIMEOUT.*300s? .*default'
if grep -q environment "$work/out"; then fail "a setting of the environment: $(grep environment "$work/out")"; fi

export KOLO_RANK=0 KOLO_SIZE=3
run 1 "$SETID"
says out '^environment: KOLO_ERR_CONFIG: 3 ranks need KOLO_RENDEZVOUS'
says out '^config: rank 0 of 1'
lines err 0
# A rank of several does not silently become a world of its own, whichever launcher set its
# variables.
run 1 "$work/${SETID##*/}"
says out '^environment: KOLO_ERR_CONFIG: KOLO_SIZE is not read, since this program has more rights .*: give kolo_init a struct'
says out '^config: rank 0 of 1'
unset KOLO_RANK KOLO_SIZE
run 1 env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "$work/${SETID##*/}"
says out '^environment: KOLO_ERR_CONFIG: OMPI_COMM_WORLD_RANK is not read, since '
run 0 "$work/${SETID##*/}"
says out '^environment: rank 0 of 1'
says out '^config: rank 0 of 1'
says err 'KOLO_\* in the environment is not read, since this program has more rights .*: give kolo_init a struct kolo_config'
lines err 1
finish
