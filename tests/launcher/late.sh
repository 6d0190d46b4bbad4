#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kolorun is held up when its hosts have ended, as on a machine that is busy or was suspended: what
# they had said before still counts. Or nobody reads its output for a while, and then its agent is
# held up.
source "$(dirname "$0")/common.sh"
export KOLOTEST_MARK=late-$$
cat >"$work/ssh" <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
shift
exec sh -c "$*"
END
chmod +x "$work/ssh"

# The first host's end is noticed late, together with that of the second, whose last words were not
# read yet; and then a second passes.
LD_PRELOAD=$LATE LATE_NAME=kolorun LATE_BEFORE=0.5 LATE_AFTER=1.5 run 0 "$KOLORUN" --no-stdin --ssh "$work/ssh" -H one,other \
    sh -c '[ "$RANK" = 0 ] || sleep 0.2; echo "the end of $RANK"'
says out '^\[0\] the end of 0$'
says out '^\[1\] the end of 1$'
lines err 0

# The rank writes until nothing more is read, since what kolorun holds is not read either (as by a
# pager), and ends. When there is room again, its agent reads the rest, though it has heard nothing
# for longer than it waits for a stream that others hold, and comes to it late.
LD_PRELOAD=$LATE LATE_NAME=kolorun-agent LATE_POLL=0.02 timeout "$patience" "$KOLORUN" --no-stdin --no-prefix -np 1 \
    python3 "${BASH_SOURCE%/*}/helpers/unread.py" "$work/count" 2>"$work/err" | { await test -e "$work/count"; sleep 1.5; cat; } >"$work/out"
[[ ${PIPESTATUS[0]} == 0 ]] || fail "a job whose output was not read for a while"
lines out "$(<"$work/count")"
lines err 0
nobody_left "$KOLOTEST_MARK"
finish
