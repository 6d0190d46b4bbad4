#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs on three hosts by ssh, and everything that can fail on a host.
. "${BASH_SOURCE%/*}/common.sh"
"$cluster" up 3 || { fail "the cluster does not come up"; finish; }
hosts=host1:2,host2:2,host3:2
job() { # MARK STATUS ARGUMENTS...: runs a job in the foreground
    export KOLOTEST_MARK=$1-$$
    local want=$2
    shift 2
    run "$want" "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK "$@"
}
background() { # MARK ARGUMENTS...
    export KOLOTEST_MARK=$1-$$
    shift
    : >"$work/out"
    "$cluster" exec host1 "$KOLORUN" -x KOLOTEST_MARK "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}
ended() { # STATUS
    local got=0
    wait "$launcher" || got=$?
    [[ $got == "$1" ]] || { fail "$KOLOTEST_MARK: status $got instead of $1"; cat "$work/out" "$work/err"; }
}
all_up() { [[ $(grep -c '\] up' "$work/out") == 6 ]]; }
# nsenter stops when its child stops, and continues only by a signal of its own.
parents_of() {
    local pid=$1
    while [[ $pid != "$launcher" && $pid -gt 1 ]]; do pid=$(awk '/^PPid/ {print $2}' "/proc/$pid/status") && echo "$pid"; done
}
since() { awk -v a="$1" '{printf "%.2f", $1 - a}' /proc/uptime; }

# A job that works.
job works 0 -H "$hosts" "$RANK_PROGRAM" loop 1
hosts_clean host1 host2 host3
job names 0 -H "$hosts" hostname
says out '^\[5\] host3$'
echo "hostname on 3 hosts, 6 ranks: $seconds s"

# A rank that is stopped before kolo_init is named, with what its host sees. The other hosts, whose
# ranks have ended, have nothing to see.
KOLO_START_TIMEOUT=3s job late 4 -H host1:1,host2:1,host3:1 bash -c '((RANK != 1)) || kill -STOP $$; exec "$0" loop 0' "$RANK_PROGRAM"
says out '^\[0\] init .*rank 1 of 3 did not start within [0-9.]+ s; kolorun started rank 1 as pid [0-9]+ on host2$'
says err '^kolorun: rank 1 \(host2, pid [0-9]+\) had not called kolo_init: stopped by a signal .*, then rank [02] \(host[13], pid [0-9]+\) exited with status 4 after '
hosts_clean host1 host2 host3

# Asked what the job does, kolorun says what each host sees. One that does not answer is left out.
asked() { kill -QUIT "$(pids_of host1 kolorun)" && read -rt 0.5 <> <(:) || grep -q "^kolorun:   $1$" "$work/err"; }
KOLO_PEER_TIMEOUT=60s background asked -H "$hosts" sleep 600
await asked 'ranks 0-5 have not called kolo_init: blocked in clock_nanosleep (it sleeps)'
agents=$(pids_of host3 kolorun-agent)
# shellcheck disable=SC2086
kill -STOP $agents
await asked 'ranks 0-3 have not called kolo_init: blocked in clock_nanosleep (it sleeps)'
grep -q '^kolorun:   ranks 4-5 (host3) have not called kolo_init$' "$work/err" || { fail "host3 is not told of"; cat "$work/err"; }
# shellcheck disable=SC2086
kill -CONT $agents
kill "$(pids_of host1 kolorun)"
ended 143
hosts_clean host1 host2 host3

# A rank on a remote host fails: the same as on one machine.
for fate in "137 die 4 9" "3 exit 5 3"; do
    # shellcheck disable=SC2086
    set -- $fate
    status=$1
    shift
    for try in 1 2 3 4 5; do
        job "$1" "$status" -H "$hosts" "$RANK_PROGRAM" "$@"
        end=$(since 0)
        [[ $(grep -c '^\[[0-9]\] error' "$work/out") != 5 ]] && is_busy || break
        echo "$fate: try $try: a rank was not run within the second that kolorun gives it"
    done
    at=$(awk '$2 == "fate" {print $3}' "$work/out")
    [[ $(grep -cE "error .*rank $2 \(host3" "$work/out") == 5 ]] || { fail "$fate: 5 ranks must name rank $2 and its host"; cat "$work/out"; }
    slowest=$(awk -v f="$at" '$2 == "error" && $3 - f > m {m = $3 - f} END {printf "%.3f", m}' "$work/out")
    under "$slowest" 1 "$fate: errors"
    under "$(awk -v a="$end" -v b="$at" 'BEGIN {print a - b}')" 2 "$fate: kolorun's end"
    says err "^kolorun: rank $2 \(host3, pid [0-9]+\) .*; the job was ended$"
    echo "$fate: errors within $slowest s, kolorun ended after $(awk -v a="$end" -v b="$at" 'BEGIN {printf "%.2f", a - b}') s"
    hosts_clean host1 host2 host3
done

# kolorun or an agent of a remote host is killed.
background launcher -H "$hosts" "$RANK_PROGRAM" loop 60
await all_up
kill -9 "$(pids_of host1 kolorun)"
ended 137
hosts_clean host1 host2 host3
for victim in 1 2; do
    background "agent$victim" -H "$hosts" "$RANK_PROGRAM" loop 60
    await all_up
    kill -9 "$(pids_of host2 kolorun-agent | sort -n | sed -n "${victim}p")"
    ended 255
    # sshd may close the connection of a dead guardian before the worker could report its death.
    says err '^kolorun: (host host2: its agent was killed|the agent on host host2 \(pid [0-9]+\) was killed by signal 9|the connection to host host2 broke)'
    hosts_clean host1 host2 host3
done

# Ctrl-Z: all hosts stop for longer than a host may be silent, and then continue.
KOLO_PEER_TIMEOUT=4s background pause -H "$hosts" "$RANK_PROGRAM" loop 8
await all_up
at=$(pids_of host1 kolorun)
kill -TSTP "$at"
await grep -q '^State:.*T' "/proc/$at/status"
read -rt 5 <> <(:) || true
kill -CONT "$at" $(parents_of "$at")
ended 0
hosts_clean host1 host2 host3

# A host's cable fails and the others continue: four ranks end with verified sums, in the old order.
KOLO_PEER_TIMEOUT=5s background outlive --keep-going -H "$hosts" "$RANK_PROGRAM" outlive
await all_up
at=$(since 0)
"$cluster" cut host3
ended 255
took=$(since "$at")
under "$took" 11 "host3 cut, --keep-going: kolorun's end"
for rank in 0 1 2 3; do says out "^\\[$rank\\] survived [0-9.]+ as $rank of 4\$"; done
! grep -q ' wrong ' "$work/out" || fail "outlive: a wrong sum"
says err '^kolorun: (host host3 was silent|the connection to host host3 broke).*with ranks 4 to 5; the others went on$'
echo "host3 cut, --keep-going: the others had shrunk and ended after $took s (peer timeout 5 s)"
"$cluster" heal host3
hosts_clean host1 host2
nobody_left "$KOLOTEST_MARK"

# They also continue if only the connection to a host is lost, whose ranks live on for a moment, or
# if its agent is killed.
for what in ssh kolorun-agent; do
    background "outlive-$what" --keep-going -H "$hosts" "$RANK_PROGRAM" outlive
    await all_up
    case $what in
        ssh) kill -9 "$(pids_of host1 ssh | sort -n | tail -1)" ;;
        *) kill -9 "$(pids_of host3 "$what" | sort -n | head -1)" ;;
    esac
    ended 255
    [[ $(grep -c '^\[[0-5]\] survived [0-9.]* as [0-3] of 4$' "$work/out") == 4 ]] ||
        { fail "$KOLOTEST_MARK: not 4 survivors"; cat "$work/out"; }
    says err '^kolorun: (the connection to )?host host[23].*; the others went on$'
    hosts_clean host1 host2 host3
done

# Two live hosts lose their connection with each other: enough ranks are left out for the others to
# continue, and are told from whom they are cut off. Which of the two hosts continues depends on
# which links its ranks had.
wall() { on host2 iptables "$1" INPUT -s 10.211.53.3 -p tcp -j DROP && on host2 iptables "$1" OUTPUT -d 10.211.53.3 -p tcp -j DROP; }
if on host2 iptables -S >/dev/null 2>"$work/why"; then
    KOLO_PEER_TIMEOUT=4s background parted --keep-going -H "$hosts" "$RANK_PROGRAM" outlive
    await all_up
    wall -A || fail "no wall between host2 and host3"
    ended 6
    mapfile -t survivors < <(sed -nE 's/^\[([0-5])\] survived [0-9.]+ as [0-9] of ([0-9])$/\1 \2/p' "$work/out" | sort)
    ranks=$(printf '%s ' "${survivors[@]% *}")
    [[ $ranks == "0 1 "* && ! ($ranks == *[23]* && $ranks == *[45]*) && ${#survivors[@]} -ge 3 ]] ||
        { fail "parted: ranks ${ranks}went on"; cat "$work/out"; }
    [[ $(printf '%s\n' "${survivors[@]#* }" | sort -u) == "${#survivors[@]}" ]] || fail "parted: not all of ${ranks}agree: ${survivors[*]}"
    for rank in 0 1 2 3 4 5; do
        [[ $ranks == *$rank* ]] ||
            says out "^\\[$rank\\] shrink [0-9.]+ kolo_shrink: rank $rank \\(host[23], pid [0-9]+\\), this process, and rank [2-5] \\(host[23], pid [0-9]+\\) cannot reach each other any more, though both live"
    done
    wall -D
    hosts_clean host1 host2 host3
else
    echo "no firewall here: $(cat "$work/why")"
fi

# The cable of kolorun's own machine fails: no single host is blamed.
KOLO_PEER_TIMEOUT=3s background own -H host2:1,host3:1 "$RANK_PROGRAM" loop 60
await grep -q '\] up' "$work/out"
"$cluster" cut host1
ended 255
says err '^kolorun: host host[23] was silent for [0-9.]+ s and counts as lost, with rank [01], and all other hosts are as silent \(is the network of this machine down\?\); the job was ended$'
"$cluster" heal host1
hosts_clean host1 host2 host3

# A host's cable fails, and a host loses its power; also with ranks in turn over the hosts.
for how in cut "cut --map-by node" kill; do
    what=${how%% *}
    others=0123 lost='4 to 5'
    [[ $how == "$what" ]] || others=0134 lost='2 and 5'
    # shellcheck disable=SC2086
    KOLO_PEER_TIMEOUT=5s background "$what" -H "$hosts" ${how#"$what"} "$RANK_PROGRAM" loop 60
    await all_up
    at=$(since 0)
    "$cluster" "$what" host3
    ended 255
    took=$(since "$at")
    under "$took" 7.5 "host3 $how: kolorun's end"
    says err "^kolorun: (host host3 was silent|the connection to host host3 broke).*with ranks $lost; the job was ended\$"
    [[ $(grep -c "^\\[[$others]\\] error" "$work/out") == 4 ]] || is_busy ||
        { fail "$how: the 4 other ranks must have an error"; cat "$work/out"; }
    echo "host3 $how: kolorun ended after $took s (peer timeout 5 s)"
    [[ $what == kill ]] || "$cluster" heal host3
    hosts_clean host1 host2
    nobody_left "$KOLOTEST_MARK"
done
job unreachable 255 --start-timeout 3s -H host1:1,host3:1 true
under "$seconds" 5 "a host without power"
says err '^kolorun: host(s)? host3: .*nothing was started(; .*says more)?$'

# Hosts that cannot start the job: nothing is started anywhere.
on host1 sh -c 'printf "#!/bin/sh\necho started\n" >/run/only-here; chmod +x /run/only-here; mkdir /run/folder'
job program 127 -H host1:1,host2:1 /run/only-here
says err "^kolorun: host host2: program '/run/only-here': No such file or directory; nothing was started$"
lines out 0
job folder 126 -H host1:1,host2:1 --chdir /run/folder pwd
says err "^kolorun: host host2: directory '/run/folder': No such file or directory; nothing was started$"
job agent 255 -H host1:1,host2:1 --agent /no/such/kolorun true
says err '^kolorun: host host2: cannot run /no/such/kolorun there: .*; install kolo at the same path, or give --agent'
job name 255 -H host1:1,nosuchhost:1 true
says err '^kolorun: host nosuchhost: cannot be reached by ssh: .*resolve'
on host1 sh -c 'cp /etc/ssh/ssh_known_hosts /run/known; sed -i "s/^host2,[^ ]*/other/" /etc/ssh/ssh_known_hosts'
job hostkey 255 -H host1:1,host2:1 true
says err '^kolorun: host host2: cannot be reached by ssh: .*[Vv]erification failed'
on host1 cp /run/known /etc/ssh/ssh_known_hosts
job nokey 255 --ssh 'ssh -F none -o UserKnownHostsFile=/etc/ssh/ssh_known_hosts' -H host1:1,host2:1 true
says err '^kolorun: host host2: cannot be reached by ssh: .*Permission denied'
kill -STOP "$(pids_of host2 sshd | sort -n | head -1)"
job frozen 255 --start-timeout 3s -H host1:1,host2:1 true
under "$seconds" 5 "a frozen sshd"
says err '^kolorun: hosts? host2: .*nothing was started(; .*says more)?$'
kill -9 "$(pids_of host2 sshd | sort -n | head -1)"
job refused 255 -H host1:1,host2:1 true
says err '^kolorun: host host2: cannot be reached by ssh: .*[Cc]onnection refused'
hosts_clean host1 host2
finish
