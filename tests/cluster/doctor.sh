#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests kolorun doctor on several hosts: ssh, builds, clocks, and networks with firewalls,
# misleading addresses and paths that drop long packets.
. "${BASH_SOURCE%/*}/common.sh"
"$cluster" up 3 || { fail "the cluster does not come up"; finish; }
hosts=host1:1,host2:1,host3:1
here=host1 # where kolorun runs
json=$CLUSTER_DIR/findings.json # not in /tmp, which each host has its own
export KOLOTEST_MARK=doctor-$$

# doctor ARGUMENTS...: the exit status must be 0 or 1, as the last line says: the load of a busy
# machine is a warning.
doctor() {
    local got=0 last
    timeout "$patience" "$cluster" exec "$here" "$KOLORUN" doctor "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    last=$(tail -n 1 "$work/out")
    case $got:$last in
        0:*': nothing to mend ('* | 1:*': '*' error'*', '*' warning'*) ;;
        *) fail "status $got, and the last line is '$last': doctor $*"; cat "$work/err" ;;
    esac
    [[ ! -s $work/err ]] || { fail "standard error of doctor $*:"; cat "$work/err"; }
}
lacks() { ! grep -qE -- "$1" "$work/out" || { fail "a line '$1':"; grep -E -- "$1" "$work/out"; }; }
kinds() { # prints the kinds of findings, except the load
    python3 -c 'import json, sys
print(*sorted({f["kind"] for f in json.load(open(sys.argv[1]))["findings"]} - {"load"}))' "$json"
}
finds() { # KINDS [ARGUMENTS...]: doctor ARGUMENTS... must have findings of these kinds
    local want=$1
    shift
    doctor "$@" --json "$json"
    [[ $(kinds) == "$want" ]] || { fail "finds '$(kinds)', not '$want': doctor $*"; cat "$work/out"; }
}

# No problems.
finds '' -H "$hosts"
says out '^host1 +1 +- +this '
says out '^host2 +1 +[0-9]+ ms +(same|[-+][0-9]+ ms) '
says out '^3 ranks on 3 hosts, 6 of 6 paths between them work: '
# kolorun's machine runs no ranks, but ranks connect to it.
finds '' -H host2:1,host3:1
says out '^this machine +0 '
says out '^2 ranks on 2 hosts, 4 of 4 paths'
# Two names for one host.
finds 'twin' -H host2:1,10.211.53.2:1
says out '^warning: 10\.211\.53\.2: is the same machine as host2 \(both are host2\)'
lacks 'another job'

# An unknown host name, and a host that is cut off: both are named, and the other hosts are
# examined.
"$cluster" cut host3
doctor -H "$hosts,nosuchhost:1" --start-timeout 4s
says out '^error: host3: cannot be reached by ssh: .*(timed out|No route)'
says out '^error: nosuchhost: cannot be reached by ssh: .*(nosuchhost|resolve)'
says out '^4 ranks on 4 hosts, 2 of 2 paths between them work'
"$cluster" heal host3

# A host without kolorun.
on host2 sh -c 'mkdir /run/empty && mount --bind /run/empty "$(dirname "$1")"' sh "$KOLORUN" || fail "cannot hide kolorun"
finds 'ssh' -H "$hosts"
says out '^error: host2: cannot run .*kolorun there: .*; install kolo at the same path, or give --agent$'
on host2 umount "$(dirname "$KOLORUN")"

# A different build of kolo, and a clock that is ahead.
if [[ $SLOW == 1 ]]; then # not under a sanitizer, which must be loaded before all other libraries
    on host2 sh -c 'cp "$1" /run/kolorun && echo >>/run/kolorun && cp "$2" /run/skew.so &&
        printf "#!/bin/sh\nSKEW_S=100 LD_PRELOAD=/run/skew.so exec /run/kolorun \"\$@\"\n" >/run/wrapper && chmod +x /run/wrapper &&
        mount --bind /run/wrapper "$1"' sh "$KOLORUN" "$CLUSTER_SKEW" || fail "no other kolorun"
    finds 'build clock' -H "$hosts"
    says out '^host2 +1 +[0-9]+ ms +\+100\.[0-9] s '
    says out "^warning: host2: its clock is (99\.[5-9]|100\.[0-9]) s ahead of this machine's"
    says out '^warning: host2: .* another build of the same version'
    on host2 umount "$KOLORUN"
fi

# Addresses that lead elsewhere or nowhere give a note if another address works.
for host in host1 host2; do
    on "$host" sh -c 'ip link add docker0 type veth peer name docker1 && ip addr add 172.17.0.1/16 dev docker0 &&
        ip link set docker0 up && ip link set docker1 up' || fail "no docker0 on $host"
done
for i in 1 2; do
    "$cluster" wire "host$i" aaa "10.96.0.$i/24"
    "$cluster" mute "host$i" aaa
done
finds 'dead-address' -H "$hosts"
says out '^note: host1, host2: others do not reach it at 172\.17\.0\.1 \(docker0\); .*KOLO_NET=\^docker0'
says out '^note: host2: others do not reach it at 10\.96\.0\.2 \(aaa\)'
finds '' --set 'NET=^docker0,^aaa' -H "$hosts"
# If all ranks use the same port, docker0's address leads to the host itself.
on host2 ip link del aaa
doctor --set NET=docker0 --set PORTS=21400 -H host1:1,host2:1
says out '^error: host2: cannot connect to kolorun on host1, .*172\.17\.0\.1 \(docker0\) leads to the host itself; name the network'
for host in host1 host2; do on "$host" ip link del docker0; done
on host1 ip link del aaa

# Routes that lead nowhere.
on host2 ip route add blackhole 10.211.53.3/32 && on host3 ip route add prohibit 10.211.53.2/32 || fail "no routes"
finds 'apart' -H "$hosts"
says out '^error: host2: cannot connect to host3, nor host3 to it: 10\.211\.53\.3 \(wire\) no route to host: a route of this machine drops what goes there; see the routes'
says out '^error: host3: cannot connect to host2, nor host2 to it: 10\.211\.53\.2 \(wire\) no route to host: a route or firewall of this machine prohibits it; see the routes'
on host2 ip route del blackhole 10.211.53.3/32
on host3 ip route del prohibit 10.211.53.2/32

# Firewalls.
wall() { # HOST TARGET [MATCH...]: applies TARGET to TCP packets that come to HOST, except ssh
    local host=$1 target=$2
    shift 2
    on "$host" iptables -A INPUT -p tcp ! --dport 22 -m tcp ! --sport 22 "$@" -j $target
}
down() { on "$1" iptables -F INPUT; }
if wall host3 DROP --syn 2>"$work/why"; then
    finds 'one-way' -H "$hosts"
    says out '^warning: host1, host2: cannot connect to host3: 10\.211\.53\.3 \(wire\) does not answer; .*firewall of host3'
    says out '4 of 6 paths between them work'
    wall host2 'REJECT --reject-with tcp-reset' --syn
    finds 'apart one-way' -H "$hosts"
    says out '^error: host2: cannot connect to host3, nor host3 to it: 10\.211\.53\.3 \(wire\) does not answer'
    says out '^error: host3: cannot connect to host2, nor host2 to it: 10\.211\.53\.2 \(wire\) refuses the connection'
    KOLO_NET=10.211.53.0/24 run 1 "$cluster" exec host1 "$KOLORUN" --set TIMEOUT=5s -H host2:1,host3:1 "$RANK_PROGRAM" loop 0
    down host2
    down host3
    wall host1 DROP --syn
    finds 'rendezvous' -H "$hosts"
    says out '^error: host2, host3: cannot connect to kolorun on host1, which its ranks must: '
    finds 'rendezvous' -H host2:1,host3:1
    says out '^error: host2, host3: cannot connect to kolorun on this machine, '
    down host1
    # Long segments are lost: links would be established, and the job would then stop.
    wall host2 DROP -m length --length 1000:65535
    finds 'mtu' -H "$hosts"
    says out '^error: host1, host3: long messages from it to host2 are lost: 10\.211\.53\.2 \(wire\) .*MTU'
    down host2
    finds '' -H "$hosts"
else
    echo "no firewall here: $(cat "$work/why")"
fi

# A rank that has survived its job.
on host2 env KOLO_RANK=1 KOLO_LAUNCHER=kolorun setsid tail -f /dev/null >/dev/null 2>&1 </dev/null &
await on host2 sh -c 'grep -lz KOLO_RANK=1 /proc/[0-9]*/environ | grep -q .'
doctor -H "$hosts"
says out "^warning: host2: 'tail' \(pid [0-9]+\) is a rank of an earlier job, .*; end it: kill [0-9]+$"
on host2 sh -c 'kill $(grep -lz KOLO_RANK=1 /proc/[0-9]*/environ | cut -d/ -f3)'
wait
hosts_clean host1 host2 host3
finish
