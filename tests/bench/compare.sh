#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh SOURCE BUILD: tests bench/compare/run as a whole, with the peers that are installed, a
# peer that hangs at its start, one that crashes there, and wrong options. Times are not judged.
set -u
source_tree=$1 build=$2 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
compare() { timeout 400 "$source_tree/bench/compare/run" --kolo "$build" "$@"; }

for option in '--np 0' '--np two' '--sizes 4,x' '--channel ib' '--collectives allsum' '--nonsense 1' '--json' \
    '--hosts 1' '--hosts 2 --channel tcp' '--hosts 2 --np 3' '--rate 1gbit' '--hosts 2 --rate a;b'; do
    # shellcheck disable=SC2086 # two words
    compare $option >"$work/out" 2>&1
    [[ $? -eq 2 ]] || wrong "$option: not refused: $(tail -1 "$work/out")"
done

compare --quick --np 2,3 --sizes 4,64K --collectives allreduce,broadcast --channel shm --seconds 300 \
    --json "$work/rows.json" --svg "$work/rows.svg" >"$work/out" 2>"$work/err" || wrong "$(tail -3 "$work/out" "$work/err")"
compgen -G '/dev/shm/kolo-compare-*' >/dev/null && wrong "left in /dev/shm: $(ls /dev/shm)"
for key in meta rows collective channel np bytes kolo_us peers ratio limit_us; do
    grep -q "\"$key\"" "$work/rows.json" || wrong "JSON without $key"
done
[[ $(grep -c '"collective"' "$work/rows.json") -eq 16 ]] || wrong "JSON has not 2 x 2 x 2 rows for each memory"
grep -q '"kolo_us": null' "$work/rows.json" && wrong "a row without kolo's time: $(tail -5 "$work/out")"
grep -q '</svg>' "$work/rows.svg" || wrong "no picture"

# Over TCP every collective has a bare loop as its limit. Its results are checked like those of all
# sides.
compare --quick --peers none --np 2,3,4 --sizes 4,20K,1M --channel tcp --memory user --rounds 1 --seconds 300 \
    --json "$work/tcp.json" >"$work/out" 2>"$work/err" || wrong "$(tail -3 "$work/out" "$work/err")"
[[ $(grep -c '"limit_us": [0-9]' "$work/tcp.json") -eq 45 ]] ||
    wrong "JSON without the limit of each of 5 x 3 x 3 points: $(grep '"limit_us": null' "$work/tcp.json")"
grep -E 'bound .*(failed|did not start)|wrong results' "$work/out" && wrong "the bare loops over tcp fail"

# On two hosts: only kolo, two ranks on each.
if why=$("$source_tree/tests/cluster/cluster" check); then
    compare --quick --peers none --hosts 2 --np 4 --sizes 4,64K --memory user --rounds 1 --seconds 300 \
        --json "$work/net.json" >"$work/out" 2>"$work/err" || wrong "$(tail -3 "$work/out" "$work/err")"
    [[ $(grep -c '"channel": "net", "np": 4.*"kolo_us": [0-9]' "$work/net.json") -eq 10 ]] ||
        wrong "JSON without kolo's time of each of 5 x 2 points: $(cat "$work/out" "$work/err")"
    grep -q '^hosts: 2' "$work/out" || wrong "the hosts are not named: $(head -12 "$work/out")"
    pgrep -f "$build/compare/kolo --gate" >/dev/null && wrong "players are left on hosts"
else
    echo "on several hosts: left out, $why"
fi

# The referee alone, with players that hang or crash; the bound is the player that works.
referee() { timeout 80 "$build/compare/referee" --dir "$work" --np 2 --collectives allreduce --sizes 4096 --rounds 2 \
    --batch-us 100 --seconds 50 --turn-timeout-s 3 "$@"; }
referee --side 'any:both:0:true' --rounds ' 2' >"$work/out" 2>&1
[[ $? -eq 2 ]] || wrong "--rounds ' 2': not refused: $(tail -1 "$work/out")"
good="for r in 0 1; do $build/compare/bound --gate $work/good.gate --rank \$r --ranks 2 --meet $work/good & done; wait"
odd() { printf '%s' "${good//good/$1}"; }
referee --side "good:both:0:$good" --side "hung:own:0:$(odd hung | sed 's/; wait/; kill -STOP %1; wait/')" \
    --side "crashed:own:0:$(odd crashed | sed 's/; wait/; kill -KILL %1 %2; wait/')" >"$work/out" 2>&1 ||
    wrong "the referee gave up: $(tail -3 "$work/out")"
# One sample is enough: after a slow trial on a busy machine a side is not measured again.
for memory in own user; do
    grep -qP "^sample\tallreduce\t4096\tgood\t$memory\t" "$work/out" || wrong "good: no sample of $memory memory"
done
grep -qP '^failed\t.*\tgood\t' "$work/out" &&
    wrong "a peer that hangs or crashes disturbed one that does not: $(cat "$work/out")"
grep -q 'hung.*timeout' "$work/out" || wrong "a peer that hangs is not reported: $(cat "$work/out")"
grep -qE 'crashed.*(exited|killed)' "$work/out" || wrong "a peer that crashed is not reported: $(cat "$work/out")"
pgrep -f "$build/compare/bound --gate $work" >/dev/null && wrong "players are left: $(pgrep -af "$build/compare/bound")"

grep -q 'apt-get install' "$work/err" && { cat "$work/err"; }
[[ $failures -eq 0 ]] || { echo "$failures failure(s)"; exit 1; }
if grep -c 'apt-get install' "$work/err" | grep -qx '[23]'; then
    echo "skipped: no peers are installed (script/bootstrap --peers installs them); kolo and the bound alone were run"
    exit 77
fi
echo "ok"
