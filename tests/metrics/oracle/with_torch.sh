#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# with_torch.sh SOURCE SCRIPT [ARGUMENT]...: runs a script of this folder with PyTorch. Skips if
# script/bootstrap --torch was not run.
set -eu
python=$1/.oracles-torch/bin/python3
[[ -x $python ]] || { echo "skipped: $python is missing; script/bootstrap --torch makes it"; exit 77; }
exec "$python" "$1/tests/metrics/oracle/$2" "${@:3}"
