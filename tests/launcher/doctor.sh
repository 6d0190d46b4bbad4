#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests kolorun doctor on one machine, and on hosts that a mock of ssh leads to. A busy machine may
# add findings (its load), so the exit status is compared with the findings, not with a fixed
# number.
. "${BASH_SOURCE%/*}/common.sh"
helpers=${BASH_SOURCE%/*}/helpers
export KOLOTEST_MARK=doctor-$$
unset "${!KOLO_@}"

# doctor ARGUMENTS...: the exit status must be 0 or 1, as the last line says.
doctor() {
    local got=0 begun=$EPOCHREALTIME last
    timeout "$patience" "${wrapper[@]}" "$KOLORUN" doctor "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    seconds=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.3f", b - a}')
    last=$(tail -n 1 "$work/out")
    case $got:$last in
        0:*': nothing to mend ('*') '* | 0:*': nothing to mend ('*')') ;;
        1:*': '*' error'*', '*' warning'*) ;;
        *) fail "status $got, and the last line is '$last': doctor $*"; cat "$work/err" ;;
    esac
    [[ ! -s $work/err ]] || { fail "standard error of doctor $*:"; cat "$work/err"; }
}
lacks() { ! grep -qE -- "$2" "$work/$1" || { fail "a line '$2' in $1:"; grep -E -- "$2" "$work/$1"; }; }
# own_jobs COUNT: COUNT processes of this test must be reported as other jobs. Processes of other
# tests may be reported too.
own_jobs() {
    local pid count=0
    for pid in $(sed -nE 's/.*\((its agent is )?pid ([0-9]+)\).*/\2/p' "$work/out"); do
        ! tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "KOLOTEST_MARK=$KOLOTEST_MARK" || count=$((count + 1))
    done
    [[ $count == "$1" ]] || { fail "$count processes of the test count as other jobs, not $1"; cat "$work/out"; }
}
wrapper=()

# This machine: a table of one row, and findings only about what it lacks.
doctor
says out '^host +ranks +ssh +clock +cpus +load +free +gpus +addrs +works$'
says out '^localhost +[0-9]+ +- +this +[0-9]+ .* tcp'
says out '^[0-9]+ ranks? on 1 host: '
lacks out '^error: '
run 0 sh -c '"$0" doctor -v -np 1 || [ $? = 1 ]' "$KOLORUN"
says err '^kolorun: host localhost: agent \(pid [0-9]+ on .*\) is there after [0-9.]+ s$'
doctor -np 1 true
says out '^1 rank on 1 host: '
lacks out '^error: '
doctor --chdir /nosuchdir
says out "^error: localhost: would not start the job: directory '/nosuchdir': .*; put it there .* --chdir$"
doctor ./nosuchprogram
says out "^error: localhost: would not start the job: program '\./nosuchprogram'"
doctor --gpus 999
says out '^error: localhost: would not start the job: .*999'

# GPUs that the driver refuses to use, as after an update of its library; without GPUs that does not matter.
run 0 "$KOLORUN" info
if grep -q '^memory *cuda' "$work/out"; then
    wrapper=(env "LD_LIBRARY_PATH=$MOCK_CUDA" MOCK_CUDA_FAIL=cuInit=803 CUDA_VISIBLE_DEVICES=0,1)
    doctor -np 2
    says out '^warning: localhost: its 2 GPUs cannot be used: cuInit: .*\(803\).*: restart the machine$'
    doctor -np 2 --gpus 1
    says out '^error: localhost: its 2 GPUs, which --gpus gives to ranks, cannot be used: cuInit: .*\(803\)'
    wrapper=(env "LD_LIBRARY_PATH=$MOCK_CUDA" CUDA_VISIBLE_DEVICES=0,1)
    doctor -np 2 --gpus 1
    lacks out 'cannot be used'
    wrapper=(env "LD_LIBRARY_PATH=$MOCK_CUDA" MOCK_CUDA_FAIL=cuInit=803 CUDA_VISIBLE_DEVICES=)
    doctor -np 2
    lacks out 'cannot be used'
    wrapper=()
fi

# A machine that cannot reach itself; a job says so at once, and not only when its ranks give up.
if unshare -n true 2>/dev/null; then
    wrapper=(unshare -n)
    doctor -np 2
    says out '^error: localhost: its loopback interface is down, over which its ranks meet; bring it up \(ip link set lo up\)$'
    run 0 unshare -n "$KOLORUN" -np 2 true
    says err '^kolorun: warning: the loopback interface is down, over which ranks of kolo meet; bring it up \(ip link set lo up\)$'
    lines err 1
    wrapper=(unshare -n sh -c 'ip link set lo up && exec "$@"' sh)
    ! command -v ip >/dev/null || { doctor -np 2; lacks out 'loopback'; }
    wrapper=()
fi

# The same findings as JSON, written as a whole or not at all.
doctor -np 100 --json "$work/d.json"
python3 - "$work/d.json" "$work/out" <<'PYTHON' || fail "the JSON is not what was printed"
import json, sys
data = json.load(open(sys.argv[1]))
lines = open(sys.argv[2]).read().splitlines()
assert data["ranks"] == 100 and len(data["hosts"]) == 1 and data["paths"] == [], data
host = data["hosts"][0]
assert host["is_here"] and host["is_examined"] and host["facts"]["cpus"] >= 1, host
assert {"shm", "tcp"} <= {b["name"] for b in host["facts"]["backends"]}, host
printed = [l for l in lines if l.startswith(("error: ", "warning: ", "note: "))]
assert printed == [f"{f['severity']}: {', '.join(f['hosts'])}: {f['text']}" for f in data["findings"]], printed
assert any(f["kind"] == "cores" and "100 ranks" in f["text"] for f in data["findings"]), data["findings"]
PYTHON
run 2 "$KOLORUN" doctor --json /nosuchdir/d.json
says err '^kolorun: .*--json.*/nosuchdir/d.json'
run 2 "$KOLORUN" doctor --json ''
says err "^kolorun: --json '': give the name of a file"
run 2 "$KOLORUN" doctor --timeline /nosuchdir/t.json -np 1 true
says err '^kolorun: --timeline /nosuchdir/t.json: No such file'
run 2 "$KOLORUN" doctor --output-dir "$work/new" --timeline /nosuchdir/t.json -np 1 true
says err '^kolorun: --timeline /nosuchdir/t.json: No such file'
mkdir "$work/earlier" && touch "$work/earlier/rank.5.out"
run 2 "$KOLORUN" doctor --output-dir "$work/earlier" -np 1 true
says err "^kolorun: --output-dir $work/earlier: there is rank\\.5\\.out of an earlier job"
run 2 bash -c 'ulimit -n 50; exec "$@"' - "$KOLORUN" doctor --output-dir "$work/new/logs" -np 100 true
says err '^kolorun: --output-dir .*: kolorun needs 206 open files for 100 ranks, and ulimit -n is 50 at most; raise'
lines out 0
"$KOLORUN" doctor --output-dir "$work/new/logs" --timeline "$work/new/logs/t.json" -np 1 true >/dev/null 2>"$work/err"
lines err 0
[[ ! -e $work/new ]] || fail "doctor has made the directory of --output-dir"
[[ ! -s /dev/full ]] && run 1 "$KOLORUN" doctor --json /dev/full && says err '^kolorun: .*--json'

# Wrong arguments: one line, and nothing is examined.
wrong() {
    local pattern=$1
    shift
    run 2 "$KOLORUN" "$@"
    lines err 1
    lines out 0
    says err "^kolorun: .*$pattern"
}
wrong "unknown option '--jsons', did you mean --json" doctor --jsons x
wrong 'exclude each other' doctor -H a --hostfile b
wrong 'leave it out' doctor --dry-run
wrong "for 'kolorun doctor'" --json "$work/x" true
wrong 'no range of ports' doctor --set PORTS=9-3
wrong '/nosuchfile' doctor --hostfile /nosuchfile
wrong 'slots' doctor -np 3 -H localhost:1
run 1 sh -c 'printf "nonsense\\n" | "$0" --examine' "$KOLORUN"
says err '^kolorun: examiner: no such order$'
run 0 "$KOLORUN" doctor --help
says out 'kolorun doctor'

# Limits. With the limit of files that it recommends ranks do start, so the recommendation is high
# enough.
wrapper=(bash -c 'ulimit -n 44; exec "$@"' bash)
doctor -np 8 --oversubscribe
says out '^error: localhost: ulimit -n is 44 and 8 ranks may need [0-9]+ files'
needed=$(sed -nE 's/.* may need ([0-9]+) files.*/\1/p' "$work/out")
wrapper=(bash -c "ulimit -n $needed; exec \"\$@\"" bash)
doctor -np 8 --oversubscribe
lacks out 'ulimit -n'
run 0 "${wrapper[@]}" "$KOLORUN" --set TRANSPORT=tcp -np 8 "$RANK_PROGRAM" loop 0
run 0 "${wrapper[@]}" "$KOLORUN" -np 8 "$RANK_PROGRAM" loop 0
wrapper=(bash -c 'ulimit -f 10240; exec "$@"' bash)
doctor -np 2
says out '^warning: localhost: ulimit -f is 10 MiB'
wrapper=(bash -c 'set -o pipefail; (ulimit -f 0; exec "$@") 2>&1 | cat' bash) # the limit does not apply to cat
doctor -np 2
says out '^warning: localhost: ulimit -f is 0 MiB'
lacks out 'seccomp|examiner|^kolorun:'
run 1 "${wrapper[@]}" "$KOLORUN" doctor -np 1 --json "$work/limited.json"
says out '^kolorun: --json .*: File too large: raise `ulimit -f`$'
[[ ! -e $work/limited.json ]] || fail 'JSON that did not fit is there'
wrapper=()

# Settings that cannot work here.
doctor -np 2 --set NET=nosuch0 --set PORTS=21500-21500
says out '^error: localhost: [12] ports of KOLO_PORTS=21500-21500 are free and 3 are needed; widen it$'

# Hosts that a mock of ssh leads to: this machine under other names.
cat >"$work/ssh" <<'SSH'
#!/bin/bash
while [ "$1" != -- ]; do shift; done
host=$2
shift 2
case $host in
    noisy) echo "Welcome"; echo "motd: be good" >&2 ;;
    denied) echo "me@denied: Permission denied (publickey,password)." >&2; exit 255 ;;
    none) exec sh -c 'exec /opt/nosuch/kolorun --agent' ;;
    silent) exec tail -f /dev/null ;;
    odd-*) exec python3 "$HELPERS/odd_agent.py" "$VERSION" "${PROTOCOL:-$AGENT_PROTOCOL}" "${host#odd-}" ;;
    old) exec python3 "$HELPERS/odd_agent.py" 0.0.1 1 early ;;
esac
exec sh -c "$*"
SSH
chmod +x "$work/ssh"
VERSION=$("$KOLORUN" --version | cut -d' ' -f2)
export HELPERS=$helpers VERSION
there() { doctor --ssh "$work/ssh" "$@"; }
there -H plain:1,noisy:1
says out '^plain +1 +[0-9]+ ms +'
says out '^this machine +0 +- '
says out '^warning: noisy: start-up files of the shell there print 8 bytes, '
says out '^note: noisy: .*: motd: be good$'
says out '^warning: noisy: is the same machine as plain \(both are .*once, with the sum of the slots$'
says out '^2 ranks on 2 hosts, [0-9]+ of [0-9]+ paths between them work'
own_jobs 0
there -H localhost:1,denied:1,none:1,old:1 --start-timeout 20s
says out '^error: denied: cannot be reached by ssh: me@denied: Permission denied .*ssh-copy-id'
says out '^error: none: cannot run .* there: .*nosuch.*; install kolo at the same path, or give --agent$'
says out '^error: old: runs kolorun 0.0.1, this one is .*; install the same$'
says out '^denied +1 not reached$'
says out '^localhost +1 '

# A host that hangs is named, and the others are examined.
there -H localhost:1,silent:1,plain:1 --start-timeout 2s
says out '^error: silent: (no answer by ssh within 2 s|.*ssh)'
says out '^plain +1 +[0-9]+ ms +'
KOLO_PEER_TIMEOUT=2s there -H localhost:1,odd-unprepared:1 --start-timeout 2s
says out '^error: odd-unprepared: its agent greeted, and could not look'

# A host that reports nonsense is named, and nothing that it reports is used.
there -H localhost:1,odd-nonsense:1,odd-endless:1,odd-early:1
says out "^error: odd-nonsense: was lost while it was looked at: .*number', which is not a known fact"
says out '^error: odd-endless: was lost .*a line of facts without an end'
says out '^error: odd-early: was lost .*its examiner ended early'
there -H localhost:1,odd-path:1 --json "$work/d.json"
says out '^error: odd-path: was lost .*reports a path that was not asked for'
python3 -c 'import json, sys; assert all(p["from"] != "odd-path" for p in json.load(open(sys.argv[1]))["paths"])' \
    "$work/d.json" || fail "a path that was made up"
# For each host it lists the RDMA ports that ranks would use, and says if those of two hosts cannot
# be connected.
there -H localhost:1,odd-roce:1,odd-infiniband:1
says out '^RDMA ports that ranks would take \(by their addresses; nothing is sent over them\):$'
says out '^  odd-roce: mlx5_0:1 \(RoCE v2 10\.0\.0\.1\), mlx5_1:1 \(RoCE v2 10\.0\.1\.1\)$'
says out '^  odd-infiniband: ib0:1 \(InfiniBand fe80::7\)$'
says out '^  localhost: (none: .|[a-z0-9_]+:[0-9]+ \()'
says out '^warning: odd-infiniband: its RDMA port ib0:1 \(InfiniBand fe80::\) cannot be connected to mlx5_0:1 of odd-roce \(RoCE v2 IPv4\)'
there -H localhost:1,odd-killed:1
says out '^error: odd-killed: was lost while it was looked at: its agent was killed; '
lacks out 'would not start'
KOLO_PEER_TIMEOUT=2s there -H localhost:1,odd-colours:1
says out '^error: odd-colours: was lost while it was looked at: silent for [0-9.]+ s; '

# Other jobs: one that runs, and a rank that has survived its job.
"$KOLORUN" -np 2 "$RANK_PROGRAM" loop 60 >"$work/job" 2>&1 </dev/null &
job=$!
await grep -q '\] up' "$work/job"
KOLO_RANK=3 KOLO_SIZE=4 KOLO_LAUNCHER=kolorun tail -f /dev/null &
lost=$!
await sh -c "tr '\0' '\n' </proc/$lost/environ | grep -q KOLO_RANK=3"
doctor -np 1
says out '^warning: localhost: another job of kolo has been running here for [0-9]+ s \(its agent is pid [0-9]+\)'
says out "^warning: localhost: 'tail' \(pid $lost\) is a rank of an earlier job, .*; end it: kill $lost$"
own_jobs 2
kill "$lost" "$job"
wait "$job" "$lost" 2>/dev/null

# If it is killed while it runs, it leaves nothing behind.
"$KOLORUN" doctor --ssh "$work/ssh" -H localhost:1,silent:1,plain:1 --start-timeout 60s >/dev/null 2>&1 </dev/null &
victim=$!
below() { pgrep -d, -P "$1" -x "$2"; } # PARENTS NAME: children with NAME, separated by commas
has_examiner() { below "$(below "$(below "$victim" kolorun-agent)" kolorun-agent)" kolo-examiner; }
await has_examiner
kill -KILL "$victim"
wait "$victim" 2>/dev/null
unset KOLOTEST_MARK
nobody_left "doctor-$$"
finish
