"""The lines that a job logs when a policy is installed and when it ends."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, Tensor, autotuner, launch, stored, three, write_table
from tests.runtime.test_process import python
from tuning_registry.formats.table import read_table
from tuning_registry.runtime import install, uninstall
from tuning_registry.runtime.job.devices import Device


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [r.getMessage().removeprefix("tuning_registry: ") for r in caplog.records if r.levelno == level]


def job(**fields: Any) -> None:
    """A policy, four launches of one kernel with two keys, and the end of the policy."""
    install(**{"arch": ARCH, **fields})
    kernel = autotuner()
    for size in (16, 32, 16, 32):
        launch(kernel, Tensor(), Tensor(), size)
    uninstall()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "tables", {NAME: {KEY: stored(three()[0])}}, triton="3.6.0")


def test_a_pinned_job_logs_its_table_and_what_it_pinned(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    job(mode="pinned", table_path=table)
    digest = read_table(table).digest[:12]
    assert lines(caplog) == [
        f"pinning from {table}: 1 entry, Triton 3.6.0, digest {digest}...",
        f"pinned 1 of 2 keys from {table} (digest {digest}...); 1 miss: no key (1); fallback: nearest (1)",
    ]


def test_a_table_in_a_folder_is_described_when_it_is_read(
    table: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("tuning_registry.runtime.job.devices.Devices._detect", lambda self: [Device(ARCH)])
    job(mode="pinned", arch=None, table_path=table.parent, block_sizes={"BLOCK_M": 64})
    digest = read_table(table).digest[:12]
    assert lines(caplog)[:2] == [
        f"pinning from {table.parent} (read at the first launch)",
        f"pinning from {table}: 1 entry, Triton 3.6.0, digest {digest}...",
    ]


def test_a_pinned_job_without_a_table_says_so(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO)
    job(mode="pinned", table_path=tmp_path, record_path=tmp_path / "misses")
    start, _, end, recorded = lines(caplog)
    assert start == f"pinning from {tmp_path} (read at the first launch); recording misses to {tmp_path / 'misses'}"
    assert end.startswith("pinned 0 of 2 keys")
    assert end.endswith("; 2 misses: no kernel (2); fallback: min_cost (2)")
    assert recorded.startswith(f"recorded 2 observations to {tmp_path / 'misses'}.")


def test_a_recording_job_logs_where_its_recording_is(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO)
    job(record_path=tmp_path / "rec", run="job")
    (file,) = tmp_path.glob("rec.*.json")
    assert lines(caplog) == [f"recording to {tmp_path / 'rec'}", f"recorded 2 votes to {file}"]


def test_other_jobs_log_what_they_do_not_do(caplog: pytest.LogCaptureFixture, table: Path) -> None:
    caplog.set_level(logging.INFO)
    job(mode="auto")
    install(mode="pinned", table_path=table, arch=ARCH)
    uninstall()
    job(mode="pinned", table_path=table, chaos=True)
    assert [line for line in lines(caplog) if not line.startswith("pinning")] == [
        "Triton tunes as usual; nothing is recorded or pinned",
        "Triton tuned 2 keys; nothing was recorded or pinned",
        "nothing was pinned: no autotuner with several configs was launched",
        "chaos: ranks get different configs on purpose",
        "chaos: 2 keys got configs that depend on the rank",
    ]


def test_only_rank_0_logs_at_level_info(
    table: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    job(mode="pinned", table_path=table, compile_ahead=False)
    assert lines(caplog) == []
    assert [line.partition(" ")[0] for line in lines(caplog, logging.DEBUG)] == ["pinning", "pinned"]


JOB = """
import tests.runtime.fakes as fakes
kernel = fakes.autotuner()
for size in (16, 32):
    fakes.launch(kernel, fakes.Tensor(), fakes.Tensor(), size)
"""


@pytest.mark.parametrize(
    ("set_up", "is_shown"),
    [
        ("", True),
        ("import logging; logging.basicConfig(level='INFO')", True),
        ("import logging; logging.basicConfig()", False),
    ],
)
def test_the_command_shows_both_lines_once_unless_the_script_logs_warnings_only(
    table: Path, tmp_path: Path, set_up: str, is_shown: bool
) -> None:
    (tmp_path / "job.py").write_text(set_up + JOB)
    options = ("--mode", "pinned", "--table-path", str(table), "--arch", ARCH)
    said = python("-m", "tuning_registry.runtime", *options, "job.py", cwd=tmp_path).stderr
    assert said.count("pinning from") == 1  # before the script sets up its logging
    assert said.count("pinned 1 of 2 keys") == is_shown
    assert said.count("miss (") == 1


def test_a_job_whose_launches_all_raised_says_so(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def fails(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("illegal memory access")

    install(mode="pinned", arch=ARCH, table_path=table)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        launch(autotuner(behave=fails))
    uninstall()
    assert lines(caplog)[-1] == "nothing was pinned: no launch has returned"
