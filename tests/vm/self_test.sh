#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests what the head of tests/vm/run promises, in three boots: output is complete, the exit status
# is passed on, two devices reach each other, no written file reaches this machine, and nothing is
# left running, whatever ends it.
. "${BASH_SOURCE%/*}/../launcher/common.sh"
vm=${BASH_SOURCE%/*}/run
why=$("$vm" --check 2>&1) || { echo "$why"; exit 77; }
export TMPDIR=$work/tmp KOLOTEST_MARK=vm-$$
mkdir "$TMPDIR"
clean() { # WHAT
    nobody_left "$KOLOTEST_MARK"
    [[ -z $(ls -A "$TMPDIR") ]] || fail "$1: files left: $(ls -A "$TMPDIR")"
}
# says_in FILE TEXT WHAT: FILE must have TEXT.
says_in() { grep -qF -- "$2" "$1" || { fail "$3: no '$2' in its output:"; tail -n 20 "$1"; }; }

# Runs inside. perftest connects its two ends by addresses of the cable, rping by the connection
# manager.
cat >"$work/inside" <<'INSIDE'
seq 200000
seq 100000 >&2
[[ $KOLOTEST_MARK == vm-* && $PWD == "$1" && $2 == 'a  b;$c' ]] && echo "arguments, folder and environment are there"
ibv_devinfo | awk '/hca_id/ {name = $2} /PORT_ACTIVE/ {print name, "is active"}'
ib_write_bw -d rxe0 -x 1 -n 50 -s 65536 -F >/tmp/server 2>&1 &
tries=0
until ib_write_bw -d rxe1 -x 1 -n 50 -s 65536 -F 10.0.0.1 >/tmp/client 2>&1 || ((++tries == 100)); do
    read -rt 0.1 <> <(:) || true
done
wait
awk '$1 == 65536 && $4 > 0 {print "ib_write_bw moved bytes"}' /tmp/client
rping -s -a 10.0.0.1 -C 3 >/tmp/server 2>&1 &
tries=0
until rping -c -a 10.0.0.1 -I 10.0.0.2 -C 3 >/tmp/client 2>&1 || ((++tries == 100)); do
    read -rt 0.1 <> <(:) || true
done
wait
((tries < 100)) && echo "rping came back"
cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts | sed 's/^[1-9].*/rxe1 counts packets/'
(: <>/dev/tcp/192.0.2.1/9) 2>&1 | grep -q "unreachable" && echo "nothing leads out"
touch "$3" && echo "wrote"
setsid tail -f /dev/null &
exit 37
INSIDE
begun=$EPOCHREALTIME
"$vm" --timeout 600 -- bash "$work/inside" "$PWD" 'a  b;$c' "$work/kept" >"$work/out" 2>"$work/err"
status=$?
echo "the first boot with all it ran: $(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}') s"
((status == 37)) || { fail "status $status instead of 37"; tail -n 20 "$work/err"; }
seq 200000 | cmp - <(head -n 200000 "$work/out") || fail "standard output is not whole"
seq 100000 | cmp - <(head -n 100000 "$work/err") || fail "standard error is not whole"
for text in "arguments, folder and environment are there" "rxe0 is active" "rxe1 is active" "ib_write_bw moved bytes" \
    "rping came back" "rxe1 counts packets" "nothing leads out" wrote; do
    says_in "$work/out" "$text" "the first boot"
done
[[ ! -e $work/kept ]] || fail "what the command wrote has reached this machine"
clean "a command that ended"

# A command that does not end, a boot that takes too long, and a killed script: the virtual machine
# must end too.
begun=$SECONDS
KOLOTEST_MARK=vm-late-$$ "$vm" --timeout 20 -- tail -f /dev/null >"$work/late" 2>&1 &
late=$!
VM_START=1 "$vm" -- bash -c 'echo up; exec tail -f /dev/null' >"$work/out" 2>"$work/err" &
killed=$!
await grep -q up "$work/out"
says_in "$work/err" "vm: the command has not begun after 1 s; starting another machine" "a boot that takes too long"
kill -9 "$killed"
wait "$killed" 2>/dev/null
nobody_left "$KOLOTEST_MARK"
rm -rf "$TMPDIR"/* # after kill -9 the script cannot do it
status=0
wait "$late" || status=$?
((status == 124)) || fail "a command that does not end: status $status instead of 124"
says_in "$work/late" "vm: stopped after 20 s, while the command ran" "a command that does not end"
((SECONDS - begun < 60 * SLOW)) || fail "stopped after $((SECONDS - begun)) s instead of 20"
nobody_left "vm-late-$$"

# Wrong arguments, and missing programs.
run 125 "$vm"
run 125 "$vm" --
run 125 "$vm" --timeout
run 125 "$vm" --timeout 0 -- true
run 77 env VM_CACHE="$work/none" "$vm" -- true
says err '^skipped: no virtual machine here: there is no kernel in .*script/bootstrap --rdma-tests'
mkdir "$work/none"
echo old >"$work/none/stamp"
run 77 env VM_CACHE="$work/none" "$vm" --check
says err 'is of another version'
printf '#!/bin/sh\necho no such machine >&2\nexit 1\n' >"$work/qemu-system-x86_64"
chmod +x "$work/qemu-system-x86_64"
run 77 env PATH="$work:$PATH" "$vm" -- true
says err 'qemu-system-x86_64 does not run: no such machine'
finish
