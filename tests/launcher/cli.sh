#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests kolorun's command line: what it prints, to which stream, and its exit status.
. "${BASH_SOURCE%/*}/common.sh"

# Wrong input: one line that names what is wrong and the next step, exit status 2, and nothing is
# started.
wrong() {
    local pattern=$1
    shift
    run 2 "$KOLORUN" "$@"
    lines err 1
    lines out 0
    says err "^kolorun: .*$pattern"
    says err '(; |, did you mean )'
}
touch "$work/witness"
wrong "unknown option '--oversubscibe', did you mean --oversubscribe\?" --oversubscibe rm "$work/witness"
wrong "unknown option '-q'" -q rm "$work/witness"
wrong "unknown option '-c'; the number of ranks is -np N, and the directory is --chdir DIR$" -c 2 rm "$work/witness"
wrong "unknown option '--nproc_per_node=2'; the number of ranks of each host is -H HOST:SLOTS" --nproc_per_node=2 rm "$work/witness"
wrong "option '--no' is ambiguous: it may be any of --no-prefix, --no-fold, --no-stdin" --no rm "$work/witness"
wrong "unknown option '-np2x', did you mean -np\?" -np2x rm "$work/witness"
wrong '-np 0' -np0 rm "$work/witness"
wrong '-np 0' -np 0 rm "$work/witness"
wrong '-np x' -np x rm "$work/witness"
wrong '-np 2x' -np 2x rm "$work/witness"
wrong "option '-np' needs a value" -np
wrong 'no program given'
wrong 'no program given' -np 2
wrong 'the name of the program is empty; give a program' -np 2 '' "$work/witness"
wrong "--chdir '': give the name of a directory" --chdir '' rm "$work/witness"
wrong "': -np': mpirun would start another program here" -np 1 rm "$work/witness" : -np 2 true
wrong "takes no value" --dry-run=1 rm "$work/witness"
wrong "'a:b'" -H a:b rm "$work/witness"
wrong 'host name is empty' -H a,,b rm "$work/witness"
wrong 'host name is empty' -H '' rm "$work/witness"
wrong "'-oProxy' is not a host name" --host=-oProxy rm "$work/witness"
wrong "IPv6 address as \[ADDRESS\]:SLOTS, and give a port of ssh by --ssh 'ssh -p PORT'$" -H me@1:22:3 rm "$work/witness"
wrong "'a b' is not a host name; use HOST\[:SLOTS\], several separated by commas$" -H 'a b' rm "$work/witness"
wrong "'a{32}...' is too long for the name of a host; use HOST" -H "$(printf 'a%.0s' {1..400})" rm "$work/witness"
wrong '-np 3 exceeds the 2 slots of 2 hosts.*--oversubscribe' -np 3 -H localhost:1,host2:1 rm "$work/witness"
wrong 'exclude each other' -H a --hostfile b rm "$work/witness"
wrong "host file '/nonexistent'" --hostfile /nonexistent rm "$work/witness"
: >"$work/empty"
wrong 'names no host' --hostfile "$work/empty" rm "$work/witness"
wrong "host file '/dev/zero' is a device" --hostfile /dev/zero rm "$work/witness"
wrong "host file '$work' is a directory" --hostfile "$work" rm "$work/witness"
wrong "host file '.*' has more than 64 MiB" --hostfile <(yes '# nobody') rm "$work/witness"
mkfifo "$work/pipe" # first without a writer, then with a writer that never closes it
wrong "host file '$work/pipe' had no end within 0.5 s \(--start-timeout\)" --start-timeout 500ms --hostfile "$work/pipe" rm "$work/witness"
exec 9<>"$work/pipe"
wrong "host file '$work/pipe' had no end within 0.5 s" --start-timeout 500ms --hostfile "$work/pipe" rm "$work/witness"
exec 9>&-
printf 'localhost\nhost2 slots=many\n' >"$work/bad"
wrong "line 2: slots 'many' are not a number from 1 to 1048576; give one host a line: HOST:SLOTS or HOST slots=N$" --hostfile "$work/bad" rm "$work/witness"
echo a,b >"$work/bad"
wrong "line 1: 'a,b' is not a host name; give one host a line: HOST:SLOTS or HOST slots=N$" --hostfile "$work/bad" rm "$work/witness"
SLURM_JOB_ID=1 SLURM_JOB_NODELIST=-x wrong "SLURM_JOB_NODELIST=-x is not a host list in Slurm's notation; give the hosts by -H" rm "$work/witness"
wrong 'unknown setting' --set NO_SUCH_THING=1 rm "$work/witness"
wrong 'KOLO_TIMEOUT' --set TIMEOUT=soon rm "$work/witness"
wrong 'KOLO_TRANSPORT=tpc: .*use one of auto, inproc, shm, rdma, tcp' --transport tpc rm "$work/witness"
wrong 'KOLO_TRANSPORT=: ' --transport '' rm "$work/witness"
wrong 'KOLO_LOG=loud: .*none, error, warn, info or debug' --set LOG=loud rm "$work/witness"
wrong 'KOLO_PORTS=' --set PORTS=9-1 rm "$work/witness"
wrong 'KOLO_PLAN=rings: there is no such plan; use one of auto, ring, ' --set PLAN=rings rm "$work/witness"
wrong 'KOLO_NET: "10.0.0.0/33" is neither an interface name nor a network' --set NET=10.0.0.0/33 rm "$work/witness"
wrong 'KOLO_NET: "" is neither' --set NET=eth0,,lo rm "$work/witness"
KOLO_TRANSPORT=TCP wrong 'KOLO_TRANSPORT=TCP: ' -np 1 rm "$work/witness"
wrong '-x: KOLO_TIMEOUT=abc: expected time such as 500ms' -x KOLO_TIMEOUT=abc rm "$work/witness"
wrong '-x: unknown setting KOLO_TIMEOOUT; did you mean KOLO_TIMEOUT\?' -x KOLO_TIMEOOUT=5 rm "$work/witness"
wrong '-x: KOLO_LOG=loud: .*none, error, warn, info or debug' doctor -x KOLO_LOG=loud
wrong '--set SIZE: kolorun gives every rank KOLO_SIZE, the number of ranks; leave it out, and give -np N' --set SIZE=3 rm "$work/witness"
wrong '-x WORLD_SIZE: kolorun gives every rank WORLD_SIZE, the number of ranks' -x WORLD_SIZE=3 rm "$work/witness"
wrong '--set rank: kolorun gives every rank its own KOLO_RANK; leave it out$' --set rank=3 rm "$work/witness"
for name in RENDEZVOUS SECRET LAUNCHER; do
    wrong "-x KOLO_$name: kolorun makes one for the job; leave it out$" -x "KOLO_$name=hush" rm "$work/witness"
    wrong "--set $name: kolorun makes one for the job; leave it out$" --set "$name=hush" rm "$work/witness"
done
for name in RANK LOCAL_RANK LOCAL_WORLD_SIZE KOLO_RANK KOLO_LOCAL_SIZE; do
    wrong "-x $name: kolorun gives every rank its own $name; leave it out" -x "$name=7" rm "$work/witness"
    wrong "-x $name: kolorun gives every rank its own $name; leave it out" --env "$name" rm "$work/witness"
done
wrong '-x KOLO_TIMELINE and --timeline exclude each other' -x KOLO_TIMELINE=t --timeline "$work/t" rm "$work/witness"
wrong 'NAME=VALUE' --set TIMEOUT rm "$work/witness"
wrong 'not a binding' --bind here rm "$work/witness"
wrong "--map-by 'core': give slot, to fill one host after the other, or node, to give each host one rank in turn" --map-by core rm "$work/witness"
wrong '--gpus 0: give a number of devices' --gpus 0 rm "$work/witness"
wrong '--gpus 1025' --gpus 1025 rm "$work/witness"
wrong '--no-copy: the output of ranks would go nowhere; give --output-dir DIR' --no-copy rm "$work/witness"
wrong 'absolute path' --agent kolorun rm "$work/witness"
wrong 'no such variable' -x KOLOTEST_NOT_THERE rm "$work/witness"
KOLO_TIMEOUT=never wrong 'KOLO_TIMEOUT' -np 1 rm "$work/witness"
[[ -e $work/witness ]] || fail "a program was started in spite of wrong input"

# A host file may be a pipe.
run 0 "$KOLORUN" --hostfile <(echo localhost:2) echo
lines out 2
printf 'localhost slots=3' | "$KOLORUN" --hostfile /dev/stdin --no-stdin echo >"$work/out" || fail "a list of hosts by standard input"
lines out 3

# An unknown KOLO_ variable gives a warning, and the job runs.
KOLO_TIMEOUTT=1s run 0 "$KOLORUN" -np 1 true
says err 'KOLO_TIMEOUTT.*did you mean KOLO_TIMEOUT\?'

# Help, completion and information.
run 0 env PATH="$work" "$KOLORUN" info --help
says out '^usage: kolorun'
run 0 "$KOLORUN" --help
says out '^usage: kolorun'
! grep -nE '.{81}' "$work/out" || fail "a line of the help is wider than a terminal"
! grep -nE ' $' "$work/out" || fail "a line of the help ends with a blank"
[[ $(grep -cE '^[a-z ]+:$' "$work/out") == 7 ]] || { fail "titles of the help"; cat "$work/out"; }
says out '--oversubscribe'
# Every option is in the man page.
for option in $(grep -oE '^  --?[a-z-]+' "$work/out"); do
    grep -qF -- "${option//-/\\-}" "${BASH_SOURCE%/*}/../../docs/man/kolorun.1" || fail "docs/man/kolorun.1 does not have $option"
done
# The completion knows exactly the options, and completes values and the program too.
complete_words() { # WORDS...: prints the completions of the last word
    (
        # shellcheck source=/dev/null
        . "${BASH_SOURCE%/*}/../../docs/completion/kolorun.bash"
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _kolorun
        ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
    )
}
completes() { # EXPECTED WORDS...: EXPECTED must be one of the completions of the last word
    local want=$1
    shift
    complete_words "$@" | grep -xF -- "$want" >/dev/null || fail "completion of '$*' has no $want: $(complete_words "$@" | head -5)"
}
diff <(grep -oE '^  --?[a-zA-Z-]+(, -[a-zA-Z])?' "$work/out" | tr -d ' ' | tr ',' '\n' | sort) \
    <(complete_words kolorun - | sort) || fail "docs/completion/kolorun.bash and the options differ"
# After an option that takes a value, a value follows; after the others, the next option.
while read -r option value; do
    if [[ -n $value ]]; then
        [[ -z $(complete_words "$KOLORUN" "$option" --dry) ]] || fail "completion: $option takes a value"
    else
        completes --dry-run "$KOLORUN" "$option" --dry
    fi
done < <(sed -nE 's/^  (-.{29}) .*/\1/p' "$work/out" | sed -E 's/, -[a-zA-Z]//')
completes numa "$KOLORUN" --bind = n
completes doctor "$KOLORUN" doc
completes --json "$KOLORUN" doctor --js
completes shm "$KOLORUN" doctor -np 2 --transport s
completes --timeout "$KOLORUN" --gpus 2 --tim
completes shm "$KOLORUN" -np 2 --transport s
completes PEER_TIMEOUT= "$KOLORUN" --set PEER
completes --verbose "$KOLORUN" --set A = 1 -x B --verb
completes "${BASH_SOURCE[0]}" "$KOLORUN" -np 2 cat "${BASH_SOURCE[0]%.sh}"
run 0 "$KOLORUN" help
# A command's name followed by more words is the name of a program.
run 2 env PATH="$work" "$KOLORUN" info extra
says err "^kolorun: info takes no more words, such as 'extra', and no program has this name; try 'kolorun info'$"
lines err 1
printf '#!/bin/sh\necho "of its own: $*"\n' >"$work/info"
chmod +x "$work/info"
run 0 env PATH="$work:$PATH" "$KOLORUN" info extra
says out '^\[0\] of its own: extra$'
run 0 "$KOLORUN" --version
says out '^kolorun [0-9]+\.[0-9]+\.[0-9]+$'
run 0 "$KOLORUN" --help-settings
says out 'KOLO_PEER_TIMEOUT'
KOLO_TIMEOUT=7s run 0 "$KOLORUN" --set STALL=300ms --print-settings
says out 'KOLO_TIMEOUT.*7s.*environment'
says out 'KOLO_STALL.*300ms.*option'
run 0 "$KOLORUN" info
says out '^transport +tcp'
says out '^network +[a-z0-9]+ +[0-9a-f.:]+'
says out '^memory +host'
says out '^(memory|left out) +cuda'
if grep -q '^memory *cuda' "$work/out"; then
    LD_LIBRARY_PATH=$MOCK_CUDA run 0 "$KOLORUN" info
    says out '^memory +cuda +works: 2 devices, the first Mock 0; driver 12\.8$'
    LD_LIBRARY_PATH=$MOCK_CUDA MOCK_CUDA_FAIL=cuInit=100 run 0 "$KOLORUN" info
    says out '^memory +cuda +no: cuInit: CUDA_ERROR_NO_DEVICE \(100\); there is no GPU'
    LD_LIBRARY_PATH=${MOCK_CUDA}_old run 0 "$KOLORUN" info
    says out '^memory +cuda +no: libcuda\.so\.1 has no cuDriverGetVersion'
    # A driver that hangs or ends whoever loads it is named, and the other backends answer.
    broken() { # HOW PATTERN
        LD_LIBRARY_PATH=${MOCK_CUDA}_broken MOCK_CUDA_BROKEN=$1 run 0 "$KOLORUN" info
        says out "^memory +cuda +no: its driver $2; .*see dmesg\$"
        says out '^transport +tcp +works'
        says out '^memory +cma'
    }
    broken abort 'ended the process that asked it by signal 6 \(SIGABRT\)'
    broken exit 'ended the process that asked it with status [0-9]+'
    broken hang 'has not answered within 30 s'
fi
KOLO_NET=nosuch0,127.0.0.1 run 0 "$KOLORUN" info
says out '^network +lo +127\.0\.0\.1'
says out '^network +KOLO_NET: nosuch0: nothing of this host has this name$'
KOLO_NET=nosuch0 run 0 "$KOLORUN" info
says out '^network +no: KOLO_NET: nothing of this machine matches "nosuch0"; up are .*lo 127\.0\.0\.1'
KOLO_NET=nosuch0,lo run 0 "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 0
[[ $(grep -c 'KOLO_NET: nosuch0: no interface and no address of host' "$work/err") == 1 ]] ||
    { fail "an entry of KOLO_NET that may be misspelt is told once"; cat "$work/err"; }
# A libcrypto that has no hash is named at once; without it ranks could not prove themselves.
printf 'openssl_conf = init\n[init]\nproviders = some\n[some]\nlegacy = on\n[on]\nactivate = 1\n' >"$work/legacy.cnf"
OPENSSL_CONF=$work/legacy.cnf run 126 "$KOLORUN" -np 2 "$RANK_PROGRAM" loop 0
says err '^kolorun: cannot start: a system call failed: libcrypto refuses HMAC-SHA256: is its default provider not active\? look at OPENSSL_CONF'
OPENSSL_CONF=$work/legacy.cnf run 1 "$KOLORUN" doctor
says err 'libcrypto refuses HMAC-SHA256'
run 4 "$KOLORUN" -np 2 env "OPENSSL_CONF=$work/legacy.cnf" "$RANK_PROGRAM" loop 0
says out 'init [0-9.]* .*libcrypto refuses HMAC-SHA256'
# libcrypto, which proves ranks to each other, clears itself up in an earlier handler of exit().
for transport in tcp shm; do
    run 0 "$KOLORUN" -np 3 --set "TRANSPORT=$transport" "$RANK_PROGRAM" late
    [[ $(grep -c 'finalize [0-9.]* KOLO_OK$' "$work/out") == 3 ]] || fail "kolo_finalize at exit, $transport: $(cat "$work/out" "$work/err")"
done
run 0 "$KOLORUN" -np 5 -H localhost:2,host2:3 --dry-run rm "$work/witness"
says out '^localhost: ranks 0 to 1 \(this machine\)$'
says out "^host2: ranks 2 to 4 by ssh .* -- host2 exec '.*' --agent$"
run 0 "$KOLORUN" --no-prefix -H "localhost:1,$(hostname):1,127.0.0.1:1" sh -c 'echo $LOCAL_RANK of $LOCAL_WORLD_SIZE'
[[ $(sort "$work/out" | tr '\n' ,) == '0 of 3,1 of 3,2 of 3,' ]] || fail "three names of this machine: $(<"$work/out")"
run 0 "$KOLORUN" -np 5 -H localhost:3,host2:4 --map-by node --dry-run rm "$work/witness"
says out '^localhost: ranks 0, 2 and 4 \(this machine\)$'
says out '^host2: ranks 1 and 3 by ssh '
[[ -e $work/witness ]] || fail "--dry-run started the program"

# Ranks, environment, streams.
run 0 "$KOLORUN" -np 3 sh -c 'echo $KOLO_RANK/$KOLO_SIZE $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $KOLO_LAUNCHER; echo oops >&2'
lines out 3
lines err 3
says out '^\[2\] 2/3 2/3 2/3 kolorun$'
says err '^\[1\] oops$'
run 0 "$KOLORUN" -np 2 --no-prefix -x COLOUR=green sh -c 'echo $COLOUR'
says out '^green$'
# -x may change what programs of other frameworks find, but not a rank's number.
run 0 "$KOLORUN" -np 2 --no-prefix -x MASTER_PORT=1234 -x RANKS=7 sh -c 'echo $MASTER_PORT $RANKS'
[[ $(grep -cx '1234 7' "$work/out") == 2 ]] || fail "-x MASTER_PORT: $(<"$work/out")"
# The port is one of KOLO_PORTS and not that of the rendezvous; without KOLO_PORTS it differs from job to job, also
# where each kolorun has the same pid.
run 0 "$KOLORUN" -np 2 --no-prefix --set PORTS=23456-23457 sh -c 'echo ${KOLO_RENDEZVOUS##*:} $MASTER_PORT'
[[ $(sort -u "$work/out") == '23456 23457' || $(sort -u "$work/out") == '23457 23456' ]] || fail "MASTER_PORT of KOLO_PORTS: $(<"$work/out")"
contain=()
! unshare -pf --mount-proc true 2>/dev/null || contain=(unshare -pf --mount-proc)
for job in 0 1 2 3; do
    run 0 "${contain[@]}" "$KOLORUN" -np 2 --no-prefix sh -c 'echo $MASTER_PORT'
    cat "$work/out" >>"$work/ports"
done
(($(sort -u "$work/ports" | wc -l) > 1)) || fail "four jobs have the same MASTER_PORT: $(<"$work/ports")"
awk '$1 < 20000 || $1 > 31999 {exit 1}' "$work/ports" && [[ $(uniq "$work/ports" | wc -l) -le 4 ]] || fail "MASTER_PORT: $(<"$work/ports")"
# Relative entries of PATH are below the directory of the job.
mkdir -p "$work/job/bin" && printf '#!/bin/sh\necho relative\n' >"$work/job/bin/kolotest-program" && chmod +x "$work/job/bin/kolotest-program"
PATH=nowhere:bin:$PATH run 0 "$KOLORUN" --no-prefix -np 1 --chdir "$work/job" kolotest-program
says out '^relative$'
PATH=:$PATH run 0 "$KOLORUN" --no-prefix -np 1 --chdir "$work/job/bin" kolotest-program
run 0 "$KOLORUN" -np 1 --chdir / pwd
says out '^\[0\] /$'
run 0 "$KOLORUN" -np 2 printf 'no newline at the end'
lines out 2
run 0 "$KOLORUN" --oversubscribe -np 5 -H localhost:2 true
run 0 "$KOLORUN" -np 7 true
run 0 "$KOLORUN" -np 2 --bind none true
# Devices are assigned only if that is requested, from those that CUDA_VISIBLE_DEVICES shows.
CUDA_VISIBLE_DEVICES=4,GPU-5,6 run 0 "$KOLORUN" -np 3 --gpus 2 sh -c 'echo "$RANK: $CUDA_VISIBLE_DEVICES"'
for says in '0: 4,GPU-5' '1: 6,4' '2: GPU-5,6'; do
    says out "^\[${says%%:*}\] $says\$"
done
run 0 "$KOLORUN" -np 2 --gpus 1 -x CUDA_VISIBLE_DEVICES=7,-1,8 sh -c 'echo "$CUDA_VISIBLE_DEVICES"'
says out '^\[0\] 7$'
says out '^\[1\] 7$'
CUDA_VISIBLE_DEVICES=4,5 run 0 "$KOLORUN" -np 2 sh -c 'echo "$CUDA_VISIBLE_DEVICES"'
says out '^\[1\] 4,5$'
CUDA_VISIBLE_DEVICES='' run 2 "$KOLORUN" -np 2 --gpus 1 true
lines err 1
says err 'host localhost: --gpus 1: this host has 0 NVIDIA devices .*ask for fewer.*; nothing was started$'
CUDA_VISIBLE_DEVICES=NoDevFiles run 2 "$KOLORUN" -np 2 --gpus 1 true
lines err 1
says err "host localhost: --gpus 1: this host has 0 NVIDIA devices .* at 'NoDevFiles', .*; nothing was started\$"
run 2 "$KOLORUN" -np 4096 --bind core true
lines err 1
says err '^kolorun: host localhost: --bind core: 4096 ranks do not fit on [0-9]+ cores?: start fewer here, or .*; nothing was started$'
run 0 "$KOLORUN" -np 1 --set TIMEOUT=9s sh -c 'echo $KOLO_TIMEOUT'
says out '^\[0\] 9s$'
# The secret is in the environment of the ranks and nowhere else.
run 0 "$KOLORUN" -np 1 sh -c 'grep -lz "$KOLO_SECRET" /proc/[0-9]*/cmdline; echo ${#KOLO_SECRET}'
lines out 1
says out '^\[0\] 64$'

# The program fails.
run 3 "$KOLORUN" -np 4 sh -c '[ $RANK != 2 ] || exit 3'
says err '^kolorun: rank 2 \(localhost, pid [0-9]+\) exited with status 3 after [0-9.]+ s; the job was ended$'
run 137 "$KOLORUN" -np 2 sh -c 'kill -9 $$'
says err 'was killed by signal 9 \(SIGKILL\)'
run 127 "$KOLORUN" -np 2 ./no-such-program
lines err 1
says err "host localhost: program './no-such-program' in .*: No such file or directory; nothing was started"
run 126 "$KOLORUN" -np 2 "python train.py $(printf '%2000s')"
says err "host localhost: program 'python train\.py +' in PATH: File name too long; nothing was started"
run 126 "$KOLORUN" "$work"
says err "host localhost: program '$work': Is a directory; nothing was started"
printf '#!/bin/sh\n' >"$work/here-only"
chmod +x "$work/here-only"
run 127 "$KOLORUN" --chdir "$work" here-only
says err "program 'here-only' in PATH \(but there is ./here-only\): No such file or directory; nothing was started"
run 126 "$KOLORUN" -np 2 /etc/passwd
says err 'Permission denied'
for file in /etc/passwd "$KOLORUN"; do # also one that may be executed
    run 126 "$KOLORUN" -np 2 --chdir "$file" true
    says err "^kolorun: host localhost: directory '$file': Not a directory; nothing was started$"
done
run 126 "$KOLORUN" -np 2 --chdir /no/such/directory true
says err "directory '/no/such/directory': No such file"
here=$PWD
mkdir "$work/gone" && cd "$work/gone" && rmdir "$work/gone"
run 2 "$KOLORUN" -np 1 true
says err '^kolorun: the current directory: No such file or directory; go to one that is there, or give --chdir its whole path$'
run 0 "$KOLORUN" --chdir / -np 1 true
cd "$here"
run 124 "$KOLORUN" --timeout 300ms -np 2 sleep 100
says err 'did not end within 0.3 s'
run 255 "$KOLORUN" --ssh false -np 2 -H localhost:1,elsewhere:1 true
says err "^kolorun: host elsewhere: .*/kolorun did not answer there as kolorun's agent \\(false: exit status 1\\)"
lines err 1
# A mock of ssh that reaches this machine, or no machine.
printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\n[ "$1" != far ] || { echo "far: no route" >&2; exit 255; }\nshift; exec sh -c "$*"\n' >"$work/ssh"
chmod +x "$work/ssh"
run 0 "$KOLORUN" --ssh "$work/ssh" -H elsewhere echo
# kolorun raises its limit of open files, but not that of the ranks, and refuses what exceeds the hard one.
printf '#!/bin/sh\nulimit -Sn 500; exec "%s" "$@"\n' "$work/ssh" >"$work/ssh500"
chmod +x "$work/ssh500"
limited() { run "$1" bash -c 'ulimit "$1" 48; shift; exec "$@"' - "$2" "$KOLORUN" --no-prefix --ssh "$work/ssh500" -H "${@:3}"; }
limited 0 -Sn a:4,b:4,c:4,d:4,e:4,f:4 "$RANK_PROGRAM" loop 0
! grep -E 'did not prove|ulimit' "$work/err" || fail "kolorun ran out of files"
limited 0 -Sn localhost:24 sh -c 'ulimit -Sn'
[[ $(grep -cx 48 "$work/out") == 24 ]] || fail "the limit of the ranks: $(<"$work/out")"
limited 2 -n a:8,b:8,c:8 true
says err '^kolorun: 51 open files are needed for 24 ranks on 3 hosts, and ulimit -n is 48 at most; raise nofile in /etc/security/limits.conf$'
lines err 1
limited 126 -n localhost:11 true
says err '^kolorun: host localhost: 50 open files are needed for 11 ranks on one host, and ulimit -n is 48 there at most; raise nofile in /etc/security/limits.conf; nothing was started$'
lines err 1
limited 0 -n localhost:10 true # 47 of them
# The directory is the one that the shell names. On another host its last part is no link, and where that leads is not there.
mkdir -p "$work/tree/real/sub" "$work/other/link/sub" && ln -s real "$work/tree/link"
printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec unshare -m sh -c %s "$*"\n' \
    "'mount --bind $work/other $work/tree && eval \"\$0\"'" >"$work/sshother"
chmod +x "$work/sshother"
if unshare -m true 2>/dev/null; then
    cd "$work/tree/link"
    run 0 "$KOLORUN" --no-prefix --ssh "$work/sshother" -H elsewhere sh -c 'pwd -P'
    says out "/tree/link\$"
    run 0 "$KOLORUN" --no-prefix --ssh "$work/sshother" -H elsewhere --chdir sub sh -c 'pwd -P'
    says out "/tree/link/sub\$"
    # Another directory than this one, or no path.
    for wrong in "$work" link .; do
        PWD=$wrong run 0 "$KOLORUN" --no-prefix -np 1 sh -c 'pwd -P'
        says out "/tree/real\$"
    done
    cd "$here"
fi
# Ranks in turn over hosts; only rank 0 has standard input.
run 0 "$KOLORUN" --ssh "$work/ssh" -H localhost:3,elsewhere:2,third:1 --map-by node --output-dir "$work/turns" \
    sh -c 'echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $WORLD_SIZE'
for words in '0 0/3 6' '1 0/2 6' '2 0/1 6' '3 1/3 6' '4 1/2 6' '5 2/3 6'; do
    says out "^\\[${words%% *}\\] $words\$"
    [[ $(<"$work/turns/rank.${words%% *}.out") == "$words" ]] || fail "the file of rank ${words%% *}"
done
run 3 "$KOLORUN" --ssh "$work/ssh" -H localhost:2,elsewhere:2 --map-by node sh -c '[ $RANK != 3 ] || exit 3; exec sleep 100'
says err '^kolorun: rank 3 \(elsewhere, pid [0-9]+\) exited with status 3'
run 0 "$KOLORUN" --ssh "$work/ssh" -H localhost:3,elsewhere:2 --map-by node "$RANK_PROGRAM" loop 0
[[ $(grep -c '^\[[0-4]\] path ' "$work/out") == 20 ]] || { fail "ranks in turn do not meet"; cat "$work/out"; }
run 255 "$KOLORUN" --ssh "$work/ssh" -H far true
says err '^kolorun: host far: cannot be reached by ssh: far: no route; nothing was started$'
run 255 "$KOLORUN" --ssh "$work/ssh" --agent /bin/true -H elsewhere true
says err "^kolorun: host elsewhere: /bin/true did not answer there as kolorun's agent \\(.*/ssh: exit status 0\\); give --agent .*\\.bashrc\\) exits"
run 255 "$KOLORUN" --ssh "$work/ssh" --agent /bin/cat -H elsewhere true
says err "^kolorun: host elsewhere: /bin/cat did not answer there as kolorun's agent \\(.*/ssh: .*, exit status 1\\); give --agent"
lines err 1
run 255 "$KOLORUN" --ssh no-such-ssh -H elsewhere true
says err "^kolorun: host elsewhere: 'no-such-ssh', which is to reach it, cannot be run on this machine \\(No such file or directory\\); .*--ssh COMMAND"
# If the account has no shell, or .bashrc exits, the reason is on standard output. The last line of
# ssh's own output may not be the one with the reason.
printf '#!/bin/sh\necho Hello\necho This account is not available.\nexit 1\n' >"$work/nologin"
printf '#!/bin/sh\nprintf "Key of it has changed.\\r\\nHost key verification failed.\\r\\n" >&2\nexit 255\n' >"$work/otherkey"
chmod +x "$work/nologin" "$work/otherkey"
run 255 "$KOLORUN" --ssh "$work/nologin" -H elsewhere true
says err "agent \\(.*/nologin: This account is not available\\., exit status 1\\); give --agent the path of kolorun there, or see that no start-up file .*\\.bashrc\\) exits or redirects its streams"
run 255 "$KOLORUN" --ssh "$work/otherkey" -H elsewhere true
says err '^kolorun: host elsewhere: cannot be reached by ssh: Key of it has changed; Host key verification failed\.; nothing was started$'
# A host that cannot be connected, one that says nothing, and one that stops in the middle, as behind
# a network that loses long packets.
refused() { # WORDS END: what ssh prints last, and how kolorun's line ends after "by ssh: "
    printf '#!/bin/sh\nprintf "%s" >&2\nexit 255\n' "$1" >"$work/refused"
    chmod +x "$work/refused"
    run 255 "$KOLORUN" --ssh "$work/refused" -H elsewhere true
    says err "^kolorun: host elsewhere: cannot be reached by ssh: $2; nothing was started\$"
    lines err 1
}
words='ssh: connect to host elsewhere port 22: Connection timed out'
refused "$words\\r\\n" "$words"
words='Connection to 10.0.0.2 port 22 timed out'
refused "$words\\r\\n" "$words; it answered at first: now it hangs, or only short messages arrive \\(MTU\\)"
refused 'Timeout, server elsewhere not responding.\\r\\n' 'Timeout, .* not responding\.; it answered at first: .*\(MTU\)'
refused "Connection timed out during banner exchange\\r\\n$words\\r\\n" \
    "Connection timed out during banner exchange; $words; it said nothing: its sshd hangs, or a jump host cannot reach it"
# An sshd that has too many logins at once (MaxStartups) refuses some: they are tried again.
cat >"$work/throttled" <<'SSH'
#!/bin/bash
echo >>"${0%/*}/logins"
if (($(wc -l <"${0%/*}/logins") < 5)); then
    printf '%s\r\n' 'kex_exchange_identification: Connection closed by remote host' 'Connection closed by UNKNOWN port 65535' >&2
    exit 255
fi
exec "${0%/*}/ssh" "$@"
SSH
chmod +x "$work/throttled"
run 0 "$KOLORUN" --no-prefix --ssh "$work/throttled" -H elsewhere echo here
says out '^here$'
# A jump host that cannot reach the host is no such refusal.
words='kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n'
refused "channel 0: open failed: connect failed: No route to host\\r\\nstdio forwarding failed\\r\\n$words" \
    'from its jump host: channel 0: open failed: connect failed: No route to host'
# A start-up file that takes a stream of the agent: the agent says which, and where it leads.
run 1 "$KOLORUN" --agent
says err '^kolorun: agent: its standard input is /dev/null, not that of ssh: a start-up file of the shell there \(\.bashrc\) redirects it$'
says err "^kolorun: agent: its standard output is $work/out, not that of ssh: a start-up file"
lines err 2
printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\neval "$BASHRC"\nexec sh -c "$*"\n' >"$work/bashrc"
chmod +x "$work/bashrc"
started() { BASHRC=$1 run "$2" "$KOLORUN" --ssh "$work/bashrc" --start-timeout 60s -H elsewhere:2 true; }
started 'exec </dev/null' 126
says err '^kolorun: host elsewhere: agent: its standard input is /dev/null, not that of ssh: a start-up file'
lines err 1
started "exec >$work/log" 126
says err "^kolorun: host elsewhere: agent: its standard output is $work/log, not that of ssh: a start-up file"
lines err 1
started 'exec >/dev/null 2>&1' 255 # it cannot say so
says err '^kolorun: host elsewhere: .*, or see that no start-up file of the shell there \(\.bashrc\) exits or redirects its streams; nothing was started$'
started ': | sh -c "$*"; exit' 255 # as ssh -n does
says err '^kolorun: the connection to host elsewhere broke \(agent: its standard input ended before the job came: a start-up file .*, or ssh was told to \(-n\), exit status 1\), with ranks 0 to 1; nothing was started$'
lines err 1
# One that leaves too few open files: whoever notices it says what helps, with the same status.
for files in 5 9; do
    started "ulimit -n $files" 126
    says err '^kolorun: host elsewhere: (agent: )?cannot [^;]*: Too many open files: raise `ulimit -n`; [a-z ]+$'
    lines err 1
done
started 'ulimit -n 12' 126
says err '^kolorun: host elsewhere: 23 open files are needed for 2 ranks on one host, and ulimit -n is 12 there at most; raise nofile'
lines err 1
# One that waits, and prints for what: for an answer at a prompt, or for whoever mends the host.
late() { BASHRC=$1 run 255 "$KOLORUN" --ssh "$work/bashrc" --start-timeout 3s "${@:2}"; }
late 'printf "%s\n\n%s" Hello "Enter OTP code: " >&2; exec sleep 100' -H elsewhere true
says err "^kolorun: host elsewhere: no answer within 3\\.0 s \\(--start-timeout\\); elsewhere printed 'Enter OTP code:'; nothing was started$"
late 'echo Password >&2; printf "in \033[1mmaintenance\r\n"; exec sleep 100' -H localhost,elsewhere,other true
says err "^kolorun: hosts elsewhere, other: no answer within 3\\.0 s \\(--start-timeout\\); elsewhere printed 'in \\?\\[1mmaintenance' and 'Password'; nothing was started$"
lines err 1
late 'exec sleep 100' -H elsewhere true
says err "^kolorun: host elsewhere: no answer within 3\\.0 s \\(--start-timeout\\); nothing was started; 'kolorun doctor' with the same hosts says more$"
BASHRC='echo Permission denied until 18:00; exec sleep 100' run 1 "$KOLORUN" doctor --ssh "$work/bashrc" --start-timeout 3s -H elsewhere
says out "^error: elsewhere: no answer by ssh within 3 s, and it printed 'Permission denied until 18:00'; see that it is up, .*--start-timeout$"
# With any limit of open files it starts the job, or says what helps.
for files in 5 6 8 10 12 14 18 20 21 24; do
    got=0
    timeout "$patience" bash -c 'ulimit -n "$1" && exec "$0" -np 2 true' "$KOLORUN" $files >"$work/out" 2>"$work/err" || got=$?
    [[ $got != 126 ]] || says err '^kolorun: .*Too many open files: raise `ulimit -n`'
    [[ $got != 2 ]] || says err "and ulimit -n is $files at most; raise"
    ((got == 0 || got == 126 || got == 2 && files < 23)) || fail "ulimit -n $files: status $got"
done
# An ssh that hangs.
printf '#!/bin/sh\nexec sleep 100\n' >"$work/hang"
chmod +x "$work/hang"
run 255 "$KOLORUN" --ssh "$work/hang" --start-timeout 3s -np 2 -H localhost:1,elsewhere:1 true
says err 'host elsewhere: no answer within 3.0 s'
under "$seconds" 5 "a hanging ssh"
# One that is a script which waits for it, of which nothing must be left, and one that says nothing.
printf '#!/bin/sh\nsleep 100\nexit 0\n' >"$work/hang"
KOLOTEST_MARK=ssh-$$ run 255 "$KOLORUN" --ssh "$work/hang" --start-timeout 1s -H elsewhere true
says err 'host elsewhere: no answer within 1\.0 s'
nobody_left "ssh-$$"
printf '#!/bin/sh\nexec >&-\nexec sleep 100\n' >"$work/hang"
run 255 "$KOLORUN" --ssh "$work/hang" --start-timeout 30s -H elsewhere true
says err "^kolorun: host elsewhere: $work/hang has closed its output without an answer, and has not ended; nothing was started$"
# An ssh whose login shell prints text, and one that never stops printing.
printf '#!/bin/sh\necho Welcome to this machine\nfor last; do :; done\nexec sh -c "$last"\n' >"$work/chatty"
chmod +x "$work/chatty"
run 0 "$KOLORUN" --ssh "$work/chatty" -H elsewhere:2 sh -c 'echo $RANK'
lines out 2
printf '#!/bin/sh\nexec yes\n' >"$work/noisy"
chmod +x "$work/noisy"
run 255 "$KOLORUN" --ssh "$work/noisy" -H elsewhere:2 true
says err 'more than 65536 bytes of other output before .*; see what the start-up files of the shell there'
finish
