#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank is stopped in the middle of a collective, and continues after its neighbours have given up.
# It must not write into memory that they have taken back, nor delay their calls without it.
. "${BASH_SOURCE%/*}/common.sh"

cut=0
for percent in 50 65 80; do
    export KOLOTEST_MARK=stopped-$percent-$$
    KOLO_TRANSPORT=shm KOLO_TIMEOUT=$((2000 + 500 * SLOW))ms run 0 "$KOLORUN" -np 3 "$STOPPED" "$percent" "$work/done-$percent" $((1500 * SLOW))
    [[ $(grep -c '\] changed 0$' "$work/out") == 2 ]] || { fail "$percent %: bytes were changed"; cat "$work/out" "$work/err"; }
    [[ $(grep -c '\] beside OK' "$work/out") == 2 ]] || { fail "$percent %: calls without the rank failed or were late"; cat "$work/out" "$work/err"; }
    grep -q 'its access is cut off' "$work/err" && cut=$((cut + 1))
    nobody_left "$KOLOTEST_MARK"
done
echo "memory had to be cut off in $cut of 3 jobs"
finish
