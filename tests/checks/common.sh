# SPDX-License-Identifier: Apache-2.0
# Sourced by every check: changes to the tree in the first argument, and defines the functions that
# checks share. A check prints "path:line: what is wrong; what to do" for each violation. Its exit
# status is 1 if there are violations, and 77 if it could not run; then it prints why.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: $0 SOURCE_TREE ...}"

violations=0
violation() { echo "$*" >&2; violations=$((violations + 1)); }
skip() { echo "skipped: $*"; exit 77; }
finish() {
    [[ $violations -eq 0 ]] || { echo "$violations violation(s)" >&2; exit 1; }
    echo "$1"
}

library_folders=(base memory transport runtime metrics)

# files_in 'NAME PATTERN' FOLDER...: prints the matching files below the folders that exist, sorted.
files_in() {
    local pattern=$1 folder
    shift
    for folder; do
        if [[ -d $folder ]]; then find "$folder" -type f -name "$pattern"; fi
    done | sort
}

# code_of FILE...: prints every line as path:line:code, without comments and without the contents of
# quotes.
code_of() {
    [[ $# -gt 0 ]] || return 0
    awk '
    FNR == 1 { in_comment = 0 }
    {
        rest = $0; code = ""
        while (rest != "") {
            if (in_comment) {
                end = index(rest, "*/")
                if (!end) break
                rest = substr(rest, end + 2); in_comment = 0; code = code " "
                continue
            }
            if (!match(rest, /["\047]|\/\/|\/\*/)) { code = code rest; break }
            token = substr(rest, RSTART, RLENGTH)
            code = code substr(rest, 1, RSTART - 1)
            rest = substr(rest, RSTART + RLENGTH)
            if (token == "//") break
            if (token == "/*") { in_comment = 1; continue }
            if (token == "\"") found = match(rest, /^([^"\\]|\\.)*"/)
            else found = match(rest, /^([^\047\\]|\\.)*\047/)
            rest = found ? substr(rest, RLENGTH + 1) : ""
            code = code token token
        }
        print FILENAME ":" FNR ":" code
    }' "$@"
}

# reason_in LIST PATH: succeeds if LIST, a file of lines "path: reason", has a reason for PATH.
reason_in() {
    grep -qE "^$(sed 's/[.]/\\./g' <<<"$2"): +[^ ]" "$1"
}
