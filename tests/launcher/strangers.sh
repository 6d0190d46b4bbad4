#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Strangers that connect to every port of a running job neither end nor delay it.
. "${BASH_SOURCE%/*}/common.sh"

export KOLOTEST_MARK=strangers-$$
for transport in auto tcp; do
    : >"$work/out"
    KOLO_TRANSPORT=$transport "$KOLORUN" -np 3 "$RANK_PROGRAM" loop 4 >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    begun=$SECONDS
    await grep -q 'up' "$work/out"
    for round in 1 2; do
        # shellcheck disable=SC2046
        "$STRANGER" "$launcher" $(marked "$KOLOTEST_MARK") || fail "$transport: a port answered a stranger, or none was found"
    done
    wait "$launcher" || { fail "$transport: the job did not survive"; cat "$work/out" "$work/err"; }
    under "$((SECONDS - begun))" 10 "$transport: the job"
    lines err 0
done
finish
