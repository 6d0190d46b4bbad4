#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts.sh SOURCE: checks that script/bootstrap goes on where it cannot install anything but
# nothing is missing, and that script/build refuses arguments that it does not have. Both see a
# folder of links to all programs except package managers, and programs made here.
set -u
source=$1 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }

mkdir -p "$work/bin" "$work/none" "$work/tree/script"
IFS=: read -ra folders <<<"$PATH"
for folder in "${folders[@]}"; do
    [[ ! -d $folder ]] || ln -s "$folder"/* "$work/bin" 2>/dev/null
done
rm -f "$work"/bin/{apt-get,dnf,dpkg-query,rpm,sudo,ccache}
# make NAME LINE: a program
make() { rm -f "$work/bin/$1"; printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
# bootstrap STATUS PATTERN ARGUMENT...: must exit with STATUS and print what matches PATTERN.
bootstrap() {
    out=$(PATH=$work/bin timeout 200 "$source/script/bootstrap" "${@:3}" 2>&1)
    local status=$? text
    text=$(tr -s ' \n' ' ' <<<"$out")
    [[ $status == "$1" && $text =~ $2 ]] || wrong "bootstrap ${*:3}: expected $1 and '$2', got $status: $out"
    [[ ! -e $work/installed ]] || wrong "bootstrap ${*:3} tried to install: $(cat "$work/installed")"
}
missing='packages that kolo needs are missing: libhwloc-dev libuv1-dev libjansson-dev libxxhash-dev\.'
unset PKG_CONFIG_PATH
bootstrap 0 'neither apt-get nor dnf, but CMake finds all'
bootstrap 0 'Slurm is installed with apt alone' --slurm
PKG_CONFIG_LIBDIR=$work/none bootstrap 1 "$missing.* install those that are missing by hand: .*libuv1-dev"

make id 'echo 1000'
make dnf "echo \"\$@\" >>$work/installed"
make rpm 'exit 0'
bootstrap 0 '^bootstrap: dnf has no packages of the Fashion-MNIST files [^:]*$'
make rpm '[ "$3" != yajl-devel ]'
bootstrap 0 'not root and no sudo, so these packages are not installed: yajl-devel\.'
PKG_CONFIG_LIBDIR=$work/none bootstrap 1 "$missing.*not root and no sudo; as root, run: dnf install yajl-devel $"
make id 'echo 0'
out=$(PATH=$work/bin timeout 200 "$source/script/bootstrap" 2>&1) || wrong "bootstrap with dnf: $out"
[[ $(cat "$work/installed") == 'install -y -q yajl-devel' ]] || wrong "bootstrap with dnf: $out; $(cat "$work/installed")"
rm -f "$work/installed" "$work/bin/dnf"

make id 'echo 1000'
make apt-get "echo \"\$@\" >>$work/installed"
make dpkg-query '[ "$4" = libyajl-dev ] || echo installed'
bootstrap 0 'not root and no sudo, so these packages are not installed: libyajl-dev\.'
make dpkg-query '[ "$4" = slurmd ] || echo installed'
bootstrap 1 'not root and no sudo; as root, run: apt-get install slurmd $' --slurm

cp "$source/script/build" "$work/tree/script"
make cmake "echo \"\$@\" >>$work/calls"
# build STATUS PATTERN CALL ARGUMENT...: must exit with STATUS, print what matches PATTERN and call
# CMake first with what matches CALL, or not at all.
build() {
    rm -f "$work/calls"
    out=$(PATH=$work/bin "$work/tree/script/build" "${@:4}" 2>&1)
    local status=$? call
    call=$(head -1 "$work/calls" 2>/dev/null)
    [[ $status == "$1" && $out =~ $2 && $call =~ $3 ]] || wrong "build ${*:4}: expected $1, '$2' and '$3', got $status: '$out' and '$call'"
}
build 0 '^$' '^--preset release$' release
build 0 '^$' '^--preset release -DKOLO_TESTS=OFF -DKOLO_WERROR=OFF$' release --user
build 0 '^$' '^--preset release -DKOLO_TESTS=OFF' --user release
build 0 '^usage: script/build PRESET' '^$' --help
build 2 "^build: a preset is missing; try --help$" '^$'
build 2 "^build: unknown option '--usr'; try --help$" '^$' release --usr
build 2 "^build: unexpected argument 'bare'; try --help$" '^$' release bare
((failures == 0)) && echo "bootstrap goes on where nothing is missing; build refuses what it does not know"
exit $((failures > 0))
