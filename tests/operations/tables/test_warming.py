"""Warming without Triton: which tables, what is reported, and the command around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.helpers import error_of
from tests.operations.ingest.test_specializations import specialization
from tuning_registry.cli.app import app
from tuning_registry.compiler import CACHED, COMPILED, FAILED, IMPORTED
from tuning_registry.errors import FileError, TableError, UsageError
from tuning_registry.formats.compile_file import CompileData, CompiledKernel, compile_file_of
from tuning_registry.formats.table import table_bytes, table_payload
from tuning_registry.model.specializations import Specialization
from tuning_registry.operations.tables import warming
from tuning_registry.operations.tables.warming import warm_tables

CONFIG = {"kwargs": {"B": 16}, "num_warps": 4, "num_stages": 3}
NAMES = ("pkg.a", "pkg.b", "pkg.c")


def write(folder: Path, arch: str = "sm90", **fields: Any) -> Path:
    """A table of three kernels, and its compile data."""
    payload = table_payload(arch, {name: {"M=1": CONFIG} for name in NAMES}, triton="3.6.0")
    table = folder / f"{arch}.json"
    folder.mkdir(exist_ok=True)
    table.write_bytes(table_bytes(payload))
    kernels = [
        CompiledKernel(name, ("M=1",), Specialization.from_dict(specialization(place, function=name[4:])))
        for place, name in enumerate(NAMES)
    ]
    stated = {"arch": arch, "digest": payload["tuning_registry"]["digest"], "triton": "3.6.0", "kernels": kernels}
    data = CompileData(**{**stated, **fields})
    compile_file_of(table, payload["tuning_registry"]["digest"]).write_bytes(data.data)
    return table


def command(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(autouse=True)
def triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "installed_triton", lambda: "3.6.0")


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the compiler, which is not run, reports for each table."""
    reported: list[dict[str, Any]] = [{"outcome": IMPORTED, "cache": "/cache"}]

    class Fake:
        def __init__(self, kernels: Any, **_: Any) -> None:
            self.count = len(kernels)

        def outcomes(self) -> Iterator[dict[str, Any]]:
            yield from (one for one in reported if one.get("index", 0) < self.count)

    monkeypatch.setattr(warming, "Compiler", Fake)
    return reported


def done(index: int, outcome: str = COMPILED, **fields: Any) -> dict[str, Any]:
    return {"outcome": outcome, "index": index, "is_expected": True, "launcher": "", **fields}


def test_each_kernel_has_an_outcome_in_the_order_of_the_file(tmp_path: Path, outcomes: list[dict[str, Any]]) -> None:
    outcomes += [done(2, CACHED, is_expected=False), done(0)]  # and the process was killed
    warmed = warm_tables(write(tmp_path))
    assert [(one.kernel, one.outcome, one.is_expected) for one in warmed.kernels] == [
        ("pkg.a", COMPILED, True),
        ("pkg.b", FAILED, True),
        ("pkg.c", CACHED, False),
    ]
    assert warmed.kernels[1].reason == "the process that compiles ended before this kernel was compiled"
    assert (warmed.is_complete, warmed.cache) == (False, "/cache")


def test_folders_and_targets_choose_tables(tmp_path: Path, outcomes: list[dict[str, Any]]) -> None:
    outcomes += map(done, range(3))
    folder = tmp_path / "tables"
    for arch in ("sm90", "sm100"):
        write(folder, arch)
    (folder / "notes.json").write_text("{}")
    steps: list[tuple[int, int]] = []
    both = warm_tables(folder, step=lambda *step: steps.append(step))
    assert [one.arch for one in both.kernels] == ["sm100"] * 3 + ["sm90"] * 3
    assert steps == [(number, 6) for number in range(1, 7)]
    assert {one.arch for one in warm_tables(folder, ["SM_100"]).kernels} == {"sm100"}


def test_what_cannot_be_warmed_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    table = write(tmp_path)
    with pytest.raises(UsageError, match="--target H100: expected an architecture"):
        warm_tables(table, ["H100"])
    with pytest.raises(UsageError, match="is for sm90, not sm80"):
        warm_tables(table, ["sm80"])
    with pytest.raises(UsageError, match="--jobs 0"):
        warm_tables(table, jobs=0)
    with pytest.raises(FileError, match=r"sm80\.json: cannot be read"):
        warm_tables(tmp_path, ["sm80"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="holds no table"):
        warm_tables(tmp_path / "empty")
    write(tmp_path, digest="0" * 64)
    with pytest.raises(TableError, match="is for the table with digest 0000000000000000"):
        warm_tables(table)
    (file,) = tmp_path.glob("*.compile")
    file.unlink()
    with pytest.raises(FileError, match=r"its compile file sm90\.[0-9a-f]{16}\.compile is missing"):
        warm_tables(table)


def test_the_command_lists_kernels_and_says_what_is_left(tmp_path: Path, outcomes: list[dict[str, Any]]) -> None:
    outcomes += [done(0), done(1, CACHED, launcher="AssertionError: no libcuda"), done(2, is_expected=False)]
    table = write(tmp_path)
    result = command("warm", table)
    assert (result.exit_code, result.stdout.splitlines()[1].split()) == (0, ["pkg.a", "1", "compiled"])
    first, second, last = result.stderr.splitlines()
    assert first.startswith("note: 1 kernel got a different cache key than in the recording")
    assert second.endswith("needs the GPU driver's library: AssertionError: no libcuda")
    assert last == "3 kernels in /cache: 2 compiled, 1 cached already, 0 failed"
    outcomes[1] = {"outcome": FAILED, "index": 0, "why": "ModuleNotFoundError: No module named 'pkg'"}
    result = command("warm", table, "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)[0]["reason"]) == (1, outcomes[1]["why"])
    assert "note: set PYTHONPATH" in result.stderr


def test_the_command_reports_errors_in_a_line(tmp_path: Path) -> None:
    assert "cannot be read" in error_of(command("warm", tmp_path / "sm90.json"))
    assert command("warm", write(tmp_path), "--jobs", "0").exit_code == 2
