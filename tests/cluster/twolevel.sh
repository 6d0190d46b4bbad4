#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plans of two levels, on two hosts that have as many ranks each, or not: every element is checked. And that the choice
# of plans takes one of them for long vectors.
. "${BASH_SOURCE%/*}/common.sh"
"$cluster" up 2 || { fail "the cluster does not come up"; finish; }

# MARK HOSTS ARGUMENTS...: collectives with --check; no row may have a wrong element.
check() {
    export KOLOTEST_MARK=$1-$$
    run 0 "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK -H "$2" "$KOLOBENCH" "${@:3}" -n 2 -w 1 --check
    awk '/ float32 / {rows++; wrong += $10 != "0"} END {exit !(rows > 0 && wrong == 0)}' "$work/out" ||
        { fail "$1 on $2: wrong elements"; cat "$work/out"; }
}
for hosts in host1:2,host2:2 host1:3,host2:1 host1:2,host2:3; do
    check forced "$hosts" allreduce reduce broadcast barrier -b 4 -e 1M -f 64 --plan twolevel --root rotate
    rows=$(grep -cE ' float32 .*/twolevel$' "$work/out")
    [[ $rows -ge 12 ]] || { fail "$hosts: $rows rows by plan twolevel"; cat "$work/out"; }
    check chosen "$hosts" all -b 64 -e 256K -f 64
done
check long host1:2,host2:2 allreduce -s 8M
says out '/twolevel$'
hosts_clean host1 host2
finish
