#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kolorun is held up when its hosts have ended, as on a machine that is busy or was suspended: what
# they had said before still counts.
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
nobody_left "$KOLOTEST_MARK"
finish
