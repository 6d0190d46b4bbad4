#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package.sh BUILD: makes a Debian package with cpack, and checks that it has all that is installed, asks for
# each library that its programs are linked with, runs from where it is unpacked, and names no path of the
# machine that built it.
set -eu
build=$1 source=$(cd "$(dirname "$0")/../.." && pwd)
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; exit 1; }

(cd "$build" && umask 077 && cpack -G DEB -B "$work/made") >"$work/log" 2>&1 || fail "cpack: $(cat "$work/log")"
made=("$work"/made/*.deb)
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
[[ ${#made[@]} == 1 && ${made[0]} == */kolo_${version}_$(dpkg --print-architecture).deb ]] ||
    fail "the name of the package: ${made[*]}"
dpkg-deb -x "${made[0]}" "$work/root"
! dpkg-deb -c "${made[0]}" | grep '^d' | grep -v '^drwxr-xr-x root/root' || fail "these folders are closed to others"

DESTDIR=$work/stage cmake --install "$build" --prefix /usr >/dev/null
files() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }
diff <(files "$work/stage") <(files "$work/root") ||
    fail "the package lacks (<) or has (>) what is not installed"

depends=$(dpkg-deb -f "${made[0]}" Depends)
[[ $(dpkg-deb -f "${made[0]}" Recommends) == *openssh-client*libibverbs1* ]] || fail "what is recommended"
dpkg-deb -I "${made[0]}" postinst triggers 2>/dev/null | grep -q ldconfig || fail "libkolo.so is not made known by ldconfig"
linked=$(find "$work/root/usr" \( -name 'kolo*' -path '*/bin/*' -o -name 'libkolo.so.*.*' \) -type f)
for program in $linked; do
    for library in $(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        [[ $library != libkolo.so.* && $library != ld-linux* ]] || continue
        path=$(readlink -f "$(ldd "$program" | awk -v name="$library" '$1 == name {print $3}')")
        # dpkg knows files of /usr/lib as those of /lib, if their package has them there.
        package=$( (dpkg -S "$path" || dpkg -S "${path#/usr}") 2>/dev/null | sed 's/[:,].*//')
        [[ ", $depends" == *", $package "* ]] ||
            fail "$program needs $library of '$package', which is not in: $depends"
    done
    ! grep -aqF "$source" "$program" || fail "$program names $source"
    ! readelf -d "$program" | grep -E 'R(UN)?PATH' || fail "$program looks for libraries in a fixed place"
done

said=$("$work/root/usr/bin/kolorun" --no-prefix -np 2 "$work/root/usr/bin/kolobench" allreduce -s 4 -n 1 --check) ||
    fail "the unpacked kolobench: $said"
