// SPDX-License-Identifier: Apache-2.0
// The numbers on the command lines of referee and players.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "bench/compare/compare.h"

bool parse_number(const char *text, int64_t least, int64_t most, int64_t *value_out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || isspace((unsigned char)*text) || value < least ||
        value > most)
        return false;
    *value_out = value;
    return true;
}
