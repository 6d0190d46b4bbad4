#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that a folder includes only headers of itself and of the folders to its left:
#   include/kolo <- base <- memory <- transport <- runtime <- metrics <- tools <- launcher | bench | evaluate | examples | tests
# It also checks that only transport/ and tests include transport/link.h; that examples and public
# headers include only <kolo/...> and system headers (examples also headers beside them); and that a
# header of the project is written "folder/file".
source "$(dirname "$0")/common.sh"

mapfile -t files < <(for pattern in '*.[ch]' '*.h.in' '*.def'; do
    files_in "$pattern" include "${library_folders[@]}" tools launcher bench evaluate examples tests
done)
[[ ${#files[@]} -gt 0 ]] || { echo "no sources found" >&2; exit 1; }
found=$(awk '
BEGIN {
    split("base memory transport runtime metrics tools", order, " ")
    for (i in order) place[order[i]] = i + 0
    place["launcher"] = place["bench"] = place["evaluate"] = place["examples"] = place["tests"] = 7
    place["include"] = 0
}
function say(text) { print FILENAME ":" FNR ": " text }
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    from = FILENAME; sub(/\/.*/, "", from)
    quoted = $0 ~ /#[ \t]*include[ \t]*"/
    name = $0; sub(/^[^<"]*[<"]/, "", name); sub(/[>"].*/, "", name)
    to = name; sub(/\/.*/, "", to)
    if (from == "include") {
        if (quoted || name !~ /^(kolo\/[a-z_]+|stddef|stdint|stdbool)\.h$/)
            say("a public header includes " name "; allowed: <kolo/...>, <stddef.h>, <stdint.h>, <stdbool.h>")
        next
    }
    if (!quoted) {
        if (to in place && name ~ /\// && to != "kolo")
            say("<" name "> is a header of the project; write \"" name "\"")
        next
    }
    if (from == "examples") {
        if (name ~ /\//) say("an example includes \"" name "\"; use <kolo/...>, or a header beside it")
        next
    }
    if (from == "tests" && to != "tests" && !(to in place)) next
    if (name !~ /\// || !(to in place)) { say("\"" name "\" without its folder; write \"folder/file\""); next }
    if (to == "include") { say("\"" name "\" is public; write <kolo/...>"); next }
    if (from != "tests" && to != from && place[to] >= place[from])
        say(from "/ must not include " to "/ (" name "); it is not to its left")
    if (name == "transport/link.h" && from != "transport" && from != "tests")
        say("transport/link.h is private to transport/; use transport/transport.h")
}' "${files[@]}")
while IFS= read -r line; do [[ -z $line ]] || violation "$line"; done <<<"$found"
finish "the includes of ${#files[@]} files go to the left"
