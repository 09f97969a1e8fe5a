"""Recording in forked children."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.recording.helpers import (
    CONFIGS,
    entry,
    files,
    forked,
    made,
    wait_for,
)
from tuning_registry.formats.recordings import read_recording


@pytest.mark.parametrize("rank", [None, "0", "1"])
def test_a_forked_child_begins_empty_and_writes_a_separate_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: Any
) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))

    def work() -> None:
        if rank is not None:
            os.environ.update(RANK=rank, WORLD_SIZE="2")
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()

    forked(work)
    recorder.vote(entry(2), CONFIGS[0], [], [])
    recorder.finish()
    kept = {tuple(r.votes["sm90"]["pkg.kernel"]): r.header for r in map(read_recording, files(tmp_path))}
    assert set(kept) == {("M=0", "M=2"), ("M=1",)}
    assert len({(header.run, header.rank) for header in kept.values()}) == 2
    if rank is not None:
        assert (kept["M=1",].run, kept["M=1",].rank) == ("job", int(rank))


def test_a_forked_child_is_not_the_rank_that_its_parent_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])

    def work() -> None:
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()

    forked(work)
    recorder.finish()
    headers = sorted((read_recording(file).header for file in files(tmp_path)), key=lambda header: header.run or "")
    assert [(header.run, header.rank) for header in headers] == [("job", 3), (headers[1].run, 0)]
    assert str(headers[1].run).startswith("job.")


def test_a_place_that_a_script_set_after_the_recorder_was_made_is_not_the_childs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = made(tmp_path)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    recorder.vote(entry(), CONFIGS[0], [], [])

    def grandchild() -> None:
        recorder.vote(entry(2), CONFIGS[0], [], [])
        recorder.finish()

    def child() -> None:
        forked(grandchild)
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()

    forked(child)
    recorder.finish()
    headers = [read_recording(file).header for file in files(tmp_path)]
    assert sorted(header.rank or 0 for header in headers) == [0, 0, 3]
    assert len({header.run for header in headers}) == 3
