"""What an import, and an installed policy, load in a process that already has Triton."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]
# By what is asked for, the project's modules that must not come with it.
RUNTIME = "tuning_registry.runtime."
WORKING = {
    RUNTIME + name
    for name in ("session", "pinning.decision", "job.place", "triton.adapter", "triton.fastpath", "triton.watch")
}
RECORDING = {RUNTIME + "recording.recorder", RUNTIME + "recording.tunings", "tuning_registry.model.records",
             "tuning_registry.formats.recording_writer"}  # fmt: skip
FILES = {"tuning_registry.formats.table", "tuning_registry.formats.loader", "tuning_registry.formats.sections"}
RULES = {"tuning_registry.rules.voting", "tuning_registry.formats.recordings"}


def loaded_by(code: str) -> tuple[set[str], set[str]]:
    """The project's modules, and all others, that the code loads after Triton."""
    whole = f"""
import sys, json, triton.runtime.autotuner
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", whole], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    ours = {name for name in loaded if name.partition(".")[0] == "tuning_registry"}
    return ours, loaded - ours


def test_the_import_loads_neither_recording_nor_slow_modules() -> None:
    ours, others = loaded_by("import tuning_registry.runtime")
    assert ours & (RECORDING | RULES) == set()
    heavy = {
        "argparse",
        "asyncio",
        "http",
        "importlib.metadata",
        "secrets",
        "ssl",
        "tempfile",
        "urllib",
        "urllib.request",
    }
    assert others & heavy == set()


@pytest.mark.parametrize(
    ("policy", "absent"),
    [
        ({"mode": "auto"}, RECORDING | RULES),
        ({"mode": "pinned", "arch": "sm90"}, RECORDING | RULES),
        ({"record_path": "/nonexistent/r", "arch": "sm90"}, {"tuning_registry.rules.voting"}),
    ],
)
def test_an_installed_policy_loads_what_works_behind_it(policy: Any, absent: set[str]) -> None:
    ours, _ = loaded_by(f"from tuning_registry.runtime import install; install({policy!r})")
    assert ours >= WORKING
    assert ours & absent == set()


def test_a_pinned_launch_reads_its_table_without_the_reader_of_recordings(tmp_path: Path) -> None:
    ours, _ = loaded_by(
        "from tuning_registry.runtime import control, install; install({'mode': 'pinned', 'arch': 'sm90'});"
        "assert control.active_session().tables.table('sm90')"
    )
    assert ours >= FILES
    assert ours & (RECORDING | RULES) == set()


@pytest.mark.parametrize("package", ["tuning_registry", "tuning_registry.runtime"])
def test_every_public_name_comes_when_it_is_asked_for(package: str) -> None:
    loaded_by(f"""
import {package} as package
assert set(package.__all__) <= set(dir(package))
for name in package.__all__:
    assert getattr(package, name) is getattr(package, name), name
from {package} import *
try:
    package.no_such_name
except AttributeError as error:
    assert str(error) == "module '{package}' has no attribute 'no_such_name'"
else:
    raise AssertionError
""")
