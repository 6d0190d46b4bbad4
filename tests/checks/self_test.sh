#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: self_test.sh SOURCE_TREE [C_COMPILER...]
# Tests the checks: makes a small clean tree in which every check passes, puts in one violation at a
# time and expects the check to report it. The clean tree also has code that only looks like a
# violation.
set -euo pipefail
checks=$(realpath "${1:?usage: $0 SOURCE_TREE [C_COMPILER...]}")/tests/checks
compiler=("${@:2}")
[[ $# -gt 1 ]] || compiler=(cc)
format=$(realpath "$1")/.clang-format
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mistakes=0

licence='// SPDX-License-Identifier: Apache-2.0'

# put PATH LINE...: writes a file of the tree, with the licence line.
put() {
    local path=$work/tree/$1
    shift
    mkdir -p "$(dirname "$path")"
    printf '%s\n' "$licence" "$@" >"$path"
}

compile() { "${compiler[@]}" "$@" -shared -fPIC -fvisibility=hidden -I"$work/tree/include" -o "$work/lib.so" "$work/tree/base/ring.c"; }

fresh_tree() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/tests/checks"
    cp "$format" "$work/tree/.clang-format"
    put include/kolo/ring.h '#include <stddef.h>' '#define KOLO_NODISCARD' \
        '#define KOLO_API __attribute__((visibility("default")))' \
        '/** KOLO_API int kolo_comment(void); */' \
        'KOLO_API KOLO_NODISCARD int kolo_ring(int (*call)(int argument_of_the_call),' \
        '                                      size_t size_of_all_the_arguments);'
    put base/ring.h 'int ring(void);'
    put base/ring.c '#include <stddef.h>' '' '#include <kolo/ring.h>' '' \
        '/* getenv("HOME"), malloc(1) and exit(1)' ' * are banned; stderr too. */' 'struct table {' \
        '    void (*free)(void *);' '};' '' 'static int kolo_free(const char *text)' '{' \
        '    return text != NULL; // abort() is banned' '}' '' \
        'int kolo_ring(int (*call)(int), size_t size)' '{' \
        '    struct table table = {NULL};' '    if (table.free)' '        table.free(NULL);' \
        '    return call((int)size) + kolo_free("\"malloc(1) \" + exit(1)");' '}'
    put base/settings.c '#include <stdlib.h>' '' 'const char *f(void);' 'const char *f(void)' '{' \
        '    return getenv("HOME");' '}'
    put base/alloc.c '#include <stdlib.h>' '' 'void f(void *memory);' 'void f(void *memory)' '{' \
        '    free(memory);' '}'
    put memory/span.h '#include "base/ring.h"'
    put transport/link.h '#include "memory/span.h"'
    put transport/tcp.c '#include "transport/link.h"'
    put examples/one.c '#include <kolo/ring.h>' '#include <stdlib.h>' 'void f(void *memory);' \
        'void f(void *memory)' '{' '    free(memory);' '}'
    put tests/base/test_ring.c '#include "base/ring.h"' '#include "transport/link.h"'
    for name in base/settings base/alloc; do put "tests/base/test_${name#*/}.c"; done
    echo 'transport/tcp.c: covered by the conformance suite' >"$work/tree/tests/checks/untested.txt"
    echo '# none' >"$work/tree/tests/checks/conditionals.txt"
    printf '%s\n' '## Files' '`base/`' '- `alloc.c`, `ring.c`: both' '- `settings.c`: one' '`transport/`' '- `tcp.c`: one' \
        '`examples/` (to copy)' '- `one.c`: one' >"$work/tree/ARCHITECTURE.md"
    mkdir -p "$work/tree/docs"
    echo '# Settings' >"$work/tree/docs/SETTINGS.md"
    mkdir -p "$work/tree/docs/man"
    printf '%s\n' '.TH KOLO_RING 3' '.SH NAME' 'kolo_ring \- goes round' '.SH SYNOPSIS' >"$work/tree/docs/man/kolo_ring.3"
    printf '%s\n' '.TH KOLO 7' '.SH SEE ALSO' '.BR kolo_ring (3),' '.BR kolo\-settings (7)' >"$work/tree/docs/man/kolo.7"
    echo '.TH KOLO\-SETTINGS 7' >"$work/tree/docs/man/kolo-settings.7"
    printf '%s\n' '#!/bin/sh' 'if [ "${1-}" = man ]; then cat "${0%/*}/print.7"; else echo "# Settings"; fi' >"$work/print"
    chmod +x "$work/print"
    cp "$work/tree/docs/man/kolo-settings.7" "$work/print.7"
    compile
}

run_check() {
    local more=()
    case $1 in
        exported_symbols) more=("$work/lib.so") ;;
        fused) more=("${OBJDUMP:-objdump}" "$work/lib.so") ;;
        settings_doc) more=("$work/print") ;;
    esac
    result=0
    output=$(bash "$checks/$1.sh" "$work/tree" "${more[@]}" 2>&1) || result=$?
}

all=(include_direction clang_format banned_calls exported_symbols fused settings_doc mirrored_tests function_length spdx line_length idioms conditionals man_pages file_map)
fresh_tree
for check in "${all[@]}"; do
    run_check "$check"
    [[ $result -eq 0 || $result -eq 77 ]] || { echo "$check fails on the clean tree: $output" >&2; mistakes=$((mistakes + 1)); }
done

# expect CHECK TEXT: CHECK must fail in the current tree, and its report must have TEXT. Then makes
# a fresh tree.
planted=0 skipped=0
expect() {
    run_check "$1"
    if [[ $result -eq 77 ]]; then
        skipped=$((skipped + 1))
    elif [[ $result -ne 1 ]] || ! grep -qF -- "$2" <<<"$output"; then
        echo "$1: planted '$2', got status $result: $output" >&2
        mistakes=$((mistakes + 1))
    else
        planted=$((planted + 1))
    fi
    fresh_tree
}

put base/wrong.h '#include "memory/span.h"'; expect include_direction 'base/wrong.h:2:'
put memory/wrong.c '#include "transport/transport.h"'; expect include_direction 'memory/wrong.c:2:'
put runtime/wrong.c '#include "transport/link.h"'; expect include_direction 'runtime/wrong.c:2:'
put runtime/wrong.c '#  include "metrics/sum.h"'; expect include_direction 'runtime/wrong.c:2:'
put launcher/wrong.c '#include "bench/table.h"'; expect include_direction 'launcher/wrong.c:2:'
put examples/wrong.c '#include "base/ring.h"'; expect include_direction 'examples/wrong.c:2:'
put examples/wrong.c '#include <base/ring.h>'; expect include_direction 'examples/wrong.c:2:'
put base/wrong.c '#include "ring.h"'; expect include_direction 'base/wrong.c:2:'
put base/wrong.def '#include "runtime/plan.h"'; expect include_direction 'base/wrong.def:2:'
put include/kolo/wrong.h '#include <cuda.h>'; expect include_direction 'include/kolo/wrong.h:2:'
put include/kolo/wrong.h '#include "base/ring.h"'; expect include_direction 'include/kolo/wrong.h:2:'

put base/wrong.c 'int f( void );'; expect clang_format 'base/wrong.c:2'

for name in malloc calloc realloc free strdup posix_memalign sprintf strcpy strcat gets atoi atol strtok usleep sleep \
    setenv putenv exit abort printf puts getenv system clock_gettime pthread_create getrandom; do
    put memory/wrong.c 'void f(void)' '{' "    $name(x);" '}'; expect banned_calls "memory/wrong.c:4: $name"
done
put launcher/wrong.c 'int f = atoi (x);'; expect banned_calls 'launcher/wrong.c:2:'
put base/wrong.c 'void *p = "/*"; int f = atoi(x); /* */'; expect banned_calls 'base/wrong.c:2:'
put base/wrong.c '/* one' '   two */ int f = atoi(x);'; expect banned_calls 'base/wrong.c:3:'
put base/wrong.c "char q = '\"'; int f = atoi(x);"; expect banned_calls 'base/wrong.c:2:'
put base/wrong.c 'void *f = stderr;'; expect banned_calls 'base/wrong.c:2: stderr'
put base/settings.c 'void *p = malloc(1);'; expect banned_calls 'base/settings.c:2: malloc'

put include/kolo/more.h 'KOLO_API int' 'kolo_missing(void);'; expect exported_symbols 'kolo_missing is declared'
put include/kolo/more.h.in 'KOLO_API int kolo_generated(void);'; expect exported_symbols 'kolo_generated is declared'
echo '__attribute__((visibility("default"))) int kolo_leak;' >>"$work/tree/base/ring.c"; compile
expect exported_symbols 'kolo_leak is exported'

multiply_adds='double %s(double a, double b, double c);\ndouble %s(double a, double b, double c) { return a * b + c; }\n'
fuse=(-O2 -ffp-contract=fast) # enough for 64-bit Arm; x86-64 also needs -mfma
if "${compiler[@]}" -mfma -E -x c /dev/null >/dev/null 2>&1; then fuse+=(-mfma); fi
printf "$multiply_adds" kolo_fused kolo_fused >>"$work/tree/base/ring.c"; compile "${fuse[@]}"
expect fused 'kolo_fused has '
printf "$multiply_adds" kolo_exact_product kolo_exact_product >>"$work/tree/base/ring.c"; compile "${fuse[@]}"; run_check fused
[[ $result -eq 0 ]] || { echo "fused: kolo_exact_product is refused" >&2; mistakes=$((mistakes + 1)); }
fresh_tree

echo 'stale' >"$work/tree/docs/SETTINGS.md"; expect settings_doc 'docs/SETTINGS.md:1: stale'
rm "$work/tree/docs/SETTINGS.md"; expect settings_doc 'docs/SETTINGS.md:1:'
echo '.\" stale' >>"$work/tree/docs/man/kolo-settings.7"; expect settings_doc 'docs/man/kolo-settings.7:1: stale'

put base/wrong.c; expect mirrored_tests 'base/wrong.c:1:'
put launcher/wrong.c; expect mirrored_tests 'launcher/wrong.c:1:'
echo 'base/gone.c: reason' >>"$work/tree/tests/checks/untested.txt"; expect mirrored_tests 'base/gone.c does not exist'
echo 'base/ring.c: reason' >>"$work/tree/tests/checks/untested.txt"; expect mirrored_tests 'base/ring.c has a test'
put base/wrong.c; echo 'base/wrong.c:' >>"$work/tree/tests/checks/untested.txt"; expect mirrored_tests 'base/wrong.c:1:'

mapfile -t body < <(yes '    x++;' | head -68)
put base/wrong.c 'int f(int x)' '{' "${body[@]}" '}'; expect function_length 'base/wrong.c:2: f is 71 lines'
put base/right.c 'int f(int x)' '{' "${body[@]:1}" '}'; run_check function_length
[[ $result -eq 0 || $result -eq 77 ]] || { echo "function_length: 70 lines are refused" >&2; mistakes=$((mistakes + 1)); }
fresh_tree

echo 'int x;' >"$work/tree/base/wrong.c"; expect spdx 'base/wrong.c:1:'
mkdir -p "$work/tree/script" && echo '#!/bin/sh' >"$work/tree/script/wrong"; expect spdx 'script/wrong:1:'

columns=$(printf '/* %094d */' 0)
put base/right.c "$columns" '// clang-format off' "$columns$columns" '// clang-format on'; run_check line_length
[[ $result -eq 0 ]] || { echo "line_length: 100 columns or a table are refused" >&2; mistakes=$((mistakes + 1)); }
fresh_tree
put base/wrong.c "// clang-format off" '// clang-format on' "$columns "; expect line_length 'base/wrong.c:4: 101 columns'

for code in 'if (p != NULL)' 'return a && p->q == NULL;' 'x = p != NULL ? 1 : 2;' 'if (f(p) == NULL || q)' 'n = sizeof(*p);' \
    'n = sizeof(p->q);'; do
    put base/wrong.c 'void f(void)' '{' "$code" '}'; expect idioms 'base/wrong.c:4: '
done
for code in 'bool is_there = p != NULL;' 'while ((p = f()) != NULL && *p)' 'n = sizeof(int);' '#define N(a) sizeof((a)[0])'; do
    put base/right.c "$code"; run_check idioms
    [[ $result -eq 0 ]] || { echo "idioms: '$code' is refused" >&2; mistakes=$((mistakes + 1)); }
    fresh_tree
done

for directive in '#if 1' '#ifdef X' '# ifndef X' '#else'; do
    put base/wrong.c "$directive"; expect conditionals 'base/wrong.c:2:'
done

echo '.no_such_macro' >"$work/tree/docs/man/wrong.3"; expect man_pages 'docs/man/wrong.3:1:'
printf '.TH KOLO_RING 3\n.SH NAME\nkolo_ring \\- goes round\n.SH SYNOPSIS\n.nf\n%081d\n.fi\n' 0 >"$work/tree/docs/man/kolo_ring.3"
expect man_pages 'docs/man/kolo_ring.3:1: a line is wider than 80 columns'
echo '.TH KOLO\-MORE 1' >"$work/tree/docs/man/kolo-more.1"; expect man_pages 'docs/man/kolo.7:1: kolo-more.1'
cp "$work/tree/docs/man/kolo_ring.3" "$work/tree/docs/man/kolo_more.3"; expect man_pages 'kolo_ring is named under NAME of two pages'
put include/kolo/more.h 'KOLO_API int' 'kolo_untold(int a);'; expect man_pages 'include/kolo/more.h:1: kolo_untold'
put include/kolo/more.h.in 'KOLO_API int kolo_untold(int a);'; expect man_pages 'include/kolo/more.h.in:1: kolo_untold'

: >"$work/tree/base/wrong.c"; expect file_map 'base/wrong.c:1: ARCHITECTURE.md does not name it'
: >"$work/tree/memory/ring.c"; expect file_map 'memory/ring.c:1: ARCHITECTURE.md does not name it'
rm "$work/tree/examples/one.c"; expect file_map 'ARCHITECTURE.md:8: examples/one.c does not exist'
rm "$work/tree/ARCHITECTURE.md"; expect file_map 'ARCHITECTURE.md:1: '

[[ $mistakes -eq 0 ]] || { echo "$mistakes mistake(s)" >&2; exit 1; }
echo "$planted planted violations were found; $skipped could not be tried here (a tool is missing)"
