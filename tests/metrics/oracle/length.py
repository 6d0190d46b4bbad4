# SPDX-License-Identifier: Apache-2.0
"""How many random sets a comparison makes if nobody says: all only in the long run
(script/test --soak)."""
import os


def seeds(every, some):
    return every if os.environ.get("TEST_SOAK") == "1" else some
