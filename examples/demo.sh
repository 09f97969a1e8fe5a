#!/usr/bin/env bash
# The main job on real recordings: eight ranks on two H200s, with the config that each chose for each kernel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$(realpath "${DEMO_REPORT:-demo-report.html}")
export TUNING_REGISTRY_DB="sqlite:///$work/demo.db"

step() { printf '\n# %s\n$ registry %s\n' "$1" "${*:2}"; registry "${@:2}"; }

step 'Ingest what the ranks recorded' ingest "$here"/h200 --run demo --triton 3.6.0 --source h200-ranks
step 'Show who disagreed, and what it costs' disagreements --cost
step 'Write a page about it, to open in a browser' report --html "$page"
step 'List the runs' runs
step 'Export the table' export --arch sm90 --output "$work/sm90.json"
step 'Ingest again: nothing changes' ingest "$here"/h200 --run demo --triton 3.6.0

printf '\n# Use the table as a training job does\n$ python\n'
python - "$work" <<'PY'
import sys
from types import SimpleNamespace

import tuning_registry

table = tuning_registry.load("sm90", sys.argv[1])
print(repr(table))
# These take the place of triton.Config: the loader returns the live object that has the fields in the table.
candidates = [
    SimpleNamespace(kwargs={"BT": bt}, num_warps=warps, num_stages=3) for bt in (8, 16, 32, 64) for warps in (1, 2, 4, 8)
]
kernel = "fla.modules.norm.l2norm.l2norm_bwd_kernel"
key = "D=128|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16"
found = table.find(kernel, key, candidates)
print(f"{kernel}\n  {key}\n  -> candidate {candidates.index(found.candidate)}: {found.candidate}")
print("a key that was never recorded:", repr(table.find(kernel, "D=96|NB=1", candidates).reason))
PY

printf '\n# The page about the recordings, to open in a browser:\n%s\n' "$page"
