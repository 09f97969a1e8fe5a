"""Equal files give equal choices, whatever else differs between two processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).parents[3]

# Launches every kernel of the shipped table with known and unknown keys, in an order that depends on the seed.
JOB = """
import json, random, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.runtime.fakes import Config, Tensor, autotuner
from tuning_registry.model.names import split_key
from tuning_registry.runtime import choice_digest, choice_log, coverage_report, install

table, seed = sys.argv[1], int(sys.argv[2])
install(mode="pinned", table_path=table, arch="sm90", modules=[])
def jobs():
    kernels = json.loads((Path(sys.argv[3]) / "tuning_registry/tables/sm90.json").read_text())["kernels"]
    for name, entries in sorted(kernels.items()):
        configs = [json.loads(text) for text in sorted({json.dumps(config) for config in entries.values()})]
        configs += [{**config, "num_warps": warps} for config in configs for warps in (1, 2) if config["num_warps"] != warps]
        for key in sorted(entries):
            values = dict(field.split("=", 1) for field in split_key(key) if "=" in field)
            yield name, configs, values, [field for field in split_key(key) if "=" not in field]
def launch(job):
    name, configs, values, dtypes = job
    module, _, function = name.rpartition(".")
    arguments = [*(f"t{number}" for number in range(len(dtypes))), *values]
    live = [Config(dict(c["kwargs"]), num_warps=c["num_warps"], num_stages=c["num_stages"]) for c in configs]
    kernel = autotuner(live, key=list(values), args=arguments, name=function, module=module)
    for factor in random.Random(seed).sample((1, 2, 3), 3):
        known = {"True": True, "False": False, "None": None}
        given = [int(v) * factor if v.isdigit() else known.get(v, v) for v in values.values()]
        call = dict(zip(arguments, [*map(Tensor, dtypes), *given]))
        if seed % 2:
            kernel[(1,)](**dict(random.Random(seed).sample(sorted(call.items(), key=lambda item: item[0]), len(call))))
        else:
            kernel[(1,)](*call.values())
work = list(jobs())
random.Random(seed).shuffle(work)
if seed == 1:
    threads = [threading.Thread(target=launch, args=(job,)) for job in work]
    [thread.start() for thread in threads] and [thread.join() for thread in threads]
else:
    [launch(job) for job in work]
assert coverage_report().faults == {}, coverage_report().faults
print(choice_digest(), len(choice_log()), sorted({choice.source for choice in choice_log()}))
"""


def test_processes_with_equal_files_choose_alike(tmp_path: Path) -> None:
    tables = tmp_path / "a"
    tables.mkdir()
    (tables / "sm90.json").write_bytes((ROOT / "tuning_registry/tables/sm90.json").read_bytes())
    (tmp_path / "ö b").symlink_to(tables)
    forms: list[tuple[str, Path, dict[str, Any]]] = [
        (str(tables / "sm90.json"), Path("/"), {"PYTHONHASHSEED": "0"}),
        ("ö b", tmp_path, {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo", "HOME": "/nonexistent"}),
        ("../a", tables, {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8"}),
    ]
    said = set()
    for seed, (table, folder, environment) in enumerate(forms):
        job = subprocess.run(
            [sys.executable, "-c", JOB, table, str(seed), str(ROOT)], cwd=folder, env={**os.environ, **environment},
            capture_output=True, text=True, timeout=120, check=False, umask=(0o022, 0o077, 0o002)[seed],
        )  # fmt: skip
        assert job.returncode == 0, job.stderr
        said.add(job.stdout)
    (line,) = said
    assert "['nearest', 'table']" in line
    assert int(line.split()[1]) > 100
