"""What is compiled before a launch is what the launch looks up: with Triton's own keys, in the oldest and newest release."""

# mypy: disable-error-code="import-untyped, import-not-found"
# (Triton has no types, or is not installed.)

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import fakes
from tests.runtime.compile_ahead.conftest import run_job
from tuning_registry.compiler import CACHED, COMPILED, FAILED, IMPORTED, Compiler
from tuning_registry.errors import TableError, UsageError
from tuning_registry.formats.compile_file import compile_file_of, read_compile_file
from tuning_registry.formats.specializations import read_compiled
from tuning_registry.formats.table import read_table
from tuning_registry.operations.tables.warming import warm_tables
from tuning_registry.runtime import install, uninstall
from tuning_registry.runtime import session as session_module
from tuning_registry.runtime.compile_ahead.background import is_cached
from tuning_registry.runtime.triton.keys import Call
from tuning_registry.runtime.triton.specializations import specialization_of

KERNELS = 8  # that the job launches: each needs a separate key


def test_every_winner_is_recorded_with_what_it_needs(recording: Any) -> None:
    compiled = read_compiled(recording.header.extra)["sm90"]
    votes = recording.votes["sm90"]
    assert {kernel: set(keys) for kernel, keys in compiled.items()} == {
        kernel: set(keys) for kernel, keys in votes.items()
    }
    for kernel, keys in compiled.items():
        for key, ((config, stated),) in keys.items():
            assert config == votes[kernel][key]
            assert (stated.module, stated.target) == ("tests.runtime.compile_ahead.kernels", ("cuda", 90, 32))
            options = json.loads(stated.data)["options"]
            assert "extern_libs" not in options  # a path of this machine
            assert options.get("num_warps", 4) == json.loads(config)["num_warps"]
            assert options.get("num_stages", 3) == (2 if "heuristics" in kernel else json.loads(config)["num_stages"])


def test_launches_compile_nothing_once_the_background_is_done(table: Path, tmp_path: Path) -> None:
    compiled, log = run_job("pinned", table, tmp_path)
    assert compiled == []
    assert f"compiled {KERNELS} kernels in the background" in log
    assert "(0 in the cache already, 0 could not be compiled)" in log
    again, log = run_job("pinned", table.parent, tmp_path)
    assert again == []
    assert f"{KERNELS} kernels in Triton's cache already" in log
    assert "with 1 process" not in log  # none was started


def test_without_it_launches_compile_everything(table: Path, tmp_path: Path) -> None:
    compiled, log = run_job("pinned", table, tmp_path, {"compile_ahead": False})
    assert len(compiled) == KERNELS
    assert "background" not in log


def test_warming_fills_the_cache_for_a_job_without_a_gpu(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    steps: list[tuple[int, int]] = []
    warmed = warm_tables(table, ["sm_90"], jobs=2, step=lambda *step: steps.append(step))
    assert [(one.outcome, one.reason, one.is_expected) for one in warmed.kernels] == [(COMPILED, "", True)] * KERNELS
    assert (warmed.cache, steps[-1], warmed.is_complete) == (str(tmp_path), (KERNELS, KERNELS), True)
    again = warm_tables(table.parent)
    assert [one.outcome for one in again.kernels] == [CACHED] * KERNELS
    assert all(is_cached(one.specialization) for one in read_compile_file(_file(table)).kernels)
    compiled, _ = run_job("pinned", table, tmp_path, {"compile_ahead": False})
    assert compiled == []


def _file(table: Path) -> Path:
    return compile_file_of(table, read_table(table).digest)


def test_warming_needs_the_triton_of_the_recording(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuning_registry.operations.tables import warming

    with pytest.raises(UsageError, match="is for sm90, not sm100"):
        warm_tables(table, ["sm100"])
    monkeypatch.setattr(warming, "installed_triton", lambda: "2.0.0")
    with pytest.raises(TableError, match=r"was recorded with Triton 3.*, but Triton 2\.0\.0 is installed"):
        warm_tables(table)
    monkeypatch.setattr(warming, "installed_triton", lambda: "")
    with pytest.raises(TableError, match="pip install"):
        warm_tables(table)


def test_what_cannot_be_compiled_is_reported_and_the_rest_is_compiled(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cold_exits.py").write_text("import sys; print('hello'); sys.exit(3)")
    (tmp_path / "cold_dies.py").write_text("import os; os.write(1, b'hello'); raise ValueError('no \\x00 GPU')")
    (tmp_path / "cold_installs.py").write_text(
        "from tuning_registry.runtime import install; install(mode='pinned', table_path='/nowhere')"
    )
    good = next(one for one in read_compile_file(_file(table)).kernels if one.kernel.endswith("hidden")).specialization
    kernels = [
        good,
        *(
            dataclasses.replace(good, module=name)
            for name in ("cold_exits", "cold_dies", "cold_installs", "cold_missing")
        ),
        dataclasses.replace(good, function="other"),
        dataclasses.replace(good, data="{"),
        dataclasses.replace(good, data=good.data.replace('"B"', '"C"').replace("64", "-64")),
        dataclasses.replace(good, target=("cuda", 80, 32)),
    ]
    outcomes = {one["index"]: one for one in Compiler(kernels, workers=2).outcomes() if one["outcome"] != IMPORTED}
    assert outcomes[0]["outcome"] == COMPILED
    reasons = {index: one.get("why", "") for index, one in outcomes.items()}
    assert [outcomes[index]["outcome"] for index in range(1, 8)] == [FAILED] * 7
    assert reasons[1] == "SystemExit: 3"
    assert reasons[2].startswith("ValueError: no")
    assert reasons[3] == "LookupError: the module cold_installs has no kernel of the name hidden"  # policies are off
    assert reasons[4].startswith("ModuleNotFoundError")
    assert "has no kernel of the name other" in reasons[5]
    assert len(outcomes) == len(kernels)


class TestAsking:
    """`specialization_of` launches nothing, and asks only where Triton answers exactly."""

    def test_a_kernel_that_does_not_run_as_tritons_own_is_not_asked(self) -> None:
        kernel = fakes.autotuner()
        call = Call(kernel, (fakes.Tensor(), fakes.Tensor(), 16), {"grid": (1,), "warmup": False})
        assert specialization_of(call, kernel.configs[0]) is None
        assert kernel.fn.launches == []

    def test_it_is_asked_only_for_a_candidate_that_leads(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Any] = []

        def answer(_: Any, config: Any) -> None:
            asked.append(config.kwargs["BLOCK_M"])

        monkeypatch.setattr(session_module, "specialization_of", answer)
        install(mode="record", record_path=tmp_path / "rec", arch="sm90")
        kernel = fakes.autotuner(timer=fakes.Timer([3.0, 2.0, 2.5]))
        for _ in range(5):
            fakes.launch(kernel)
        assert asked == [128, 64]
        uninstall()

    @pytest.mark.parametrize("fields", [{"compile_ahead": False}, {"modules": ("other",)}])
    def test_it_is_not_asked_if_nothing_keeps_it(
        self, fields: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(session_module, "specialization_of", lambda *_: pytest.fail("asked"))
        install(mode="record", record_path=tmp_path / "rec", arch="sm90", **fields)
        fakes.launch(fakes.autotuner())
        uninstall()

    def test_a_fault_changes_no_vote(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise OSError("disk")

        monkeypatch.setattr(session_module, "specialization_of", fail)
        install(mode="record", record_path=tmp_path / "rec", arch="sm90")
        fakes.launch(fakes.autotuner(timer=fakes.Timer(itertools.repeat(1.0))))
        uninstall()
        recording = fakes.only_recording(tmp_path)
        assert len(recording.votes["sm90"][fakes.NAME]) == 1
        assert "compile" not in recording.header.extra
