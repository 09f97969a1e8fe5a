#!/usr/bin/env bash
# The main job on real recordings: eight ranks on two H200s, each with the configs Triton's autotuner picked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TUNING_REGISTRY_DB="sqlite:///$work/demo.db"

step() { printf '\n$ registry %s\n' "$*"; registry "$@"; }

step ingest "$here"/h200 --run demo --triton 3.6.0 --source h200-ranks
step disagreements --cost
step runs
step export --arch sm90 -o "$work/sm90.json"
step ingest "$here"/h200 --run demo --triton 3.6.0

printf '\n$ python   # what a training job does with the table\n'
python - "$work" <<'PY'
import sys
from types import SimpleNamespace

import tuning_registry

table = tuning_registry.load("sm90", sys.argv[1])
print(repr(table))
# Stand-ins for triton.Config: the loader hands back the live object that has the table's fields.
candidates = [
    SimpleNamespace(kwargs={"BT": bt}, num_warps=warps, num_stages=3) for bt in (8, 16, 32, 64) for warps in (1, 2, 4, 8)
]
kernel = "fla.modules.norm.l2norm.l2norm_bwd_kernel"
key = "D=128|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16"
found = table.find(kernel, key, candidates)
print(f"{kernel}\n  {key}\n  -> candidate {candidates.index(found.candidate)}: {found.candidate}")
print("a key nobody recorded:", repr(table.find(kernel, "D=96|NB=1", candidates).reason))
PY
