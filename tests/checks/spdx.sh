#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every source has an SPDX licence line in its first three lines.
source "$(dirname "$0")/common.sh"
count=0
while IFS= read -r file; do
    count=$((count + 1))
    head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2\.0' ||
        violation "$file:1: no licence; begin with SPDX-License-Identifier: Apache-2.0"
done < <(find . \( -path ./build -o -path ./.git -o -path ./.cache -o -path "./.oracles*" \) -prune -o -type f \( -name '*.[ch]' -o -name '*.cu' \
    -o -name '*.def' -o -name '*.sh' -o -name '*.cmake' -o -name '*.h.in' -o -name CMakeLists.txt -o -path './script/*' \
    -o -path './.ci/*' \) -print | sed 's|^\./||' | sort)
finish "$count sources name their licence"
