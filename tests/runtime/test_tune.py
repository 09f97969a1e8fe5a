"""`on_miss="tune"`: what the table has is pinned, what it does not have is tuned by Triton and recorded."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    KEY,
    NAME,
    Tensor,
    Timer,
    autotuner,
    launch,
    launched,
    only_recording,
    stored,
    text_of,
    three,
    write_table,
)
from tuning_registry.runtime import choice_log, coverage_report, install, uninstall

OTHER = KEY.replace("16", "32")


def pin(tmp_path: Path, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", {NAME: {KEY: stored(three()[0])}}, extra=fields.pop("extra", {}))
    install(mode="pinned", table_path=path, arch=ARCH, on_miss="tune", **fields)


@pytest.mark.usefixtures("alone")
def test_a_missed_key_is_timed_once_and_recorded_as_a_vote(tmp_path: Path) -> None:
    pin(tmp_path, record_path=tmp_path / "rec" / "r", run="job")
    kernel = autotuner(timer=Timer([3.0, 1.0, 2.0], runs=False))
    launch(kernel)
    assert kernel.timer.calls == 0
    for _ in range(2):
        launch(kernel, Tensor(), Tensor(), 32)
    assert kernel.timer.calls == 3
    assert launched(kernel) == [128, 64, 64]
    assert [(choice.key, choice.source) for choice in choice_log()] == [(KEY, "table"), (OTHER, "timed")]
    report = coverage_report()
    assert report.reached == {NAME: "timed"}
    assert report.not_covered == ()
    assert [(miss.key, miss.reason, miss.source) for miss in report.misses] == [(OTHER, "no key", "timed")]
    uninstall()
    recording = only_recording(tmp_path / "rec")
    assert recording.votes == {ARCH: {NAME: {OTHER: text_of(three()[1])}}}
    assert recording.observations == {}
    assert len(recording.timings[ARCH][NAME][OTHER].configs) == 3


def test_the_next_table_pins_what_was_tuned(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    pin(tmp_path, record_path=tmp_path / "rec" / "r", run="job")
    launch(autotuner(timer=Timer([3.0, 1.0, 2.0], runs=False)), Tensor(), Tensor(), 32)
    uninstall()
    recording = only_recording(tmp_path / "rec")
    path = write_table(tmp_path / "next", {NAME: {OTHER: stored(three()[1])}})
    assert recording.votes[ARCH][NAME][OTHER] == text_of(three()[1])
    install(mode="pinned", table_path=path, arch=ARCH, on_miss="tune")
    launch(kernel := autotuner(), Tensor(), Tensor(), 32)
    assert (launched(kernel), kernel.timer.calls) == ([64], 0)


def test_a_banned_config_is_not_timed(tmp_path: Path) -> None:
    ban = {"action": "ban", "kernel": NAME, "key": "*", "config": stored(three()[1]), "reason": "wrong"}
    pin(tmp_path, extra={"overrides": [ban]})
    kernel = autotuner(timer=Timer([3.0, 1.0], runs=True))
    launch(kernel, Tensor(), Tensor(), 32)
    assert kernel.timer.calls == 2
    assert 64 not in launched(kernel)


def test_a_job_says_that_its_choices_may_differ(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    pin(tmp_path, record_path=tmp_path / "rec" / "r", run="job")
    assert "recording misses and the votes on them to" in caplog.text
    assert "on_miss is tune: each rank times the keys that the table does not have" in caplog.text
    kernel = autotuner()
    launch(kernel)
    launch(kernel, Tensor(), Tensor(), 32)
    uninstall()
    assert "; 1 miss: no key (1); fallback: tuned by Triton (1)" in caplog.text
