"""Unusual jobs: a log handler that raises, table paths that cannot serve any launch."""

# mypy: disable-error-code="assignment, misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, autotuner, launch, launched, stored, three, write_table
from tuning_registry.errors import PolicyError
from tuning_registry.runtime import AutotunePolicy, coverage_report, install
from tuning_registry.runtime.recording import notes


def record(tmp_path: Path) -> None:
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))


class Raising(logging.Handler):
    def emit(self, record: Any) -> None:  # noqa: ARG002 - as logging calls it
        raise OSError("log server away")


@pytest.fixture
def log_server_away() -> Iterator[None]:
    handler = Raising()
    logging.getLogger("tuning_registry").addHandler(handler)
    yield
    logging.getLogger("tuning_registry").removeHandler(handler)


@pytest.mark.usefixtures("log_server_away")
def test_a_log_handler_that_raises_reaches_no_launch(tmp_path: Path, monkeypatch: Any) -> None:
    table = write_table(tmp_path, {"pkg.ops.other": {KEY: stored(three()[0])}}, triton="3.0.1")
    install(AutotunePolicy(mode="pinned", table_path=(table, tmp_path), arch=ARCH, record_path=tmp_path / "r"))
    missing, hit = autotuner(), autotuner(name="other")
    launch(missing)
    launch(hit)
    assert (launched(missing), launched(hit)) == ([32], [128])
    assert coverage_report().faults == {}
    record(tmp_path)
    monkeypatch.setattr(notes.Notes, "vote", lambda *_: 1 / 0)
    launch(autotuner(name="third"))
    assert coverage_report().faults == {"watching a tuning": 1}


def test_a_table_path_that_cannot_serve_the_stated_arch_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    with pytest.raises(PolicyError, match="is for sm90, but the architecture is sm80"):
        install(AutotunePolicy(mode="pinned", table_path=path, arch="sm80"))
    other = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}}, arch="sm80")
    install(AutotunePolicy(mode="pinned", table_path=(path, other), arch="sm80"))  # one of them can
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PolicyError, match="neither a folder nor a file"):
        install(AutotunePolicy(mode="pinned", table_path=tmp_path / "pipe"))
