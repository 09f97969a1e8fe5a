"""Whose a recording is, where two jobs had one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import config, version_1, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, RecordingError, UsageError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, IngestReport
from tuning_registry.operations.runs import list_runs

A, B = config(B=16), config(B=8)


def nightly(folder: Path, chosen: object) -> list[Path]:
    """Two ranks of a job that calls itself `nightly`, with their timings."""
    timed = {"sm90": {"k": {"M=1": [[A, [0.2, 0.1, 0.3]], [B, [0.1, 0.1, 0.3 if chosen == A else 0.2]]]}}}
    return [
        write_recording(
            folder / f"rec.rank{rank}.json",
            version_1({"sm90": {"k": {"M=1": chosen}}}, run="nightly", rank=rank, timings=timed),
        )
        for rank in range(2)
    ]


def test_a_second_job_of_the_same_name_is_refused_and_can_be_taken_as_another_run(store: Store, tmp_path: Path) -> None:
    take(store, *nightly(tmp_path / "monday", A), run=None)
    tuesday = nightly(tmp_path / "tuesday", B)
    with pytest.raises(ConflictError, match=r"rank 0 of run 'nightly' is already in the database.*--as-run NAME"):
        take(store, *tuesday, run=None)
    report = take(store, *tuesday, run=None, as_run="tuesday")
    assert (report.new, report.votes, report.timings) == (2, 2, 4)
    assert take(store, *tuesday, run=None, as_run="tuesday").already == 2
    assert {run.name: run.ranks for run in list_runs(store)} == {"nightly": (0, 1), "tuesday": (0, 1)}


def test_two_jobs_of_one_name_in_one_folder_are_told_apart_by_file(store: Store, tmp_path: Path) -> None:
    first, second = nightly(tmp_path / "a", A)[0], nightly(tmp_path / "b", B)[0]
    with pytest.raises(ConflictError, match=r"is also in .*rec\.rank0\.json with other .*--as-run NAME"):
        take(store, first, second, run=None)
    take(store, first, run=None)
    take(store, second, run=None, as_run="other")
    assert {run.name for run in list_runs(store)} == {"nightly", "other"}


def test_timings_next_to_a_recording_follow_it_under_its_other_name(store: Store, tmp_path: Path) -> None:
    write_recording(
        tmp_path / "rec.rank0.json",
        version_1({"sm90": {"k": {"M=1": A}}}, run="nightly", rank=0, triton="3.6.0", source="here"),
    )
    write_recording(tmp_path / "timings.rank0.json", {"sm90": {"k": {"M=1": [[A, [0.2, 0.1, 0.3]]]}}})
    report = take(store, tmp_path, run=None, as_run="other")
    assert (report.votes, report.timings) == (1, 1)
    assert [(run.name, run.ranks) for run in list_runs(store)] == [("other", (0,))]


@pytest.mark.parametrize("options", [{"run": "a", "as_run": "b"}, {"as_run": ""}, {"as_run": "\0"}])
def test_what_no_run_can_be_called_is_wrong_usage(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        IngestOptions(**options)  # type: ignore[arg-type]


def test_one_distribution_has_one_spelling(store: Store, tmp_path: Path) -> None:
    def record(stated: dict[str, str], rank: int = 0, **options: object) -> IngestReport:
        document = version_1({"sm90": {"fla.k": {"M=1": A}}}, rank=rank, packages=stated)
        return take(store, write_recording(tmp_path / "r.json", document), run=None, **options)

    with pytest.raises(RecordingError, match="this distribution appears under two spellings with different versions"):
        record({"fla-core": "1.0", "fla_core": "2.0"})
    with pytest.raises(RecordingError, match="at packages/x: expected a name and a version"):
        record({"x": "none"})
    with pytest.raises(ConflictError, match="but the recording states '1.0'"):
        record({"FLA.Core": "1.0"}, packages={"fla-core": "2.0"})
    record({"FLA.Core": "1.0"})
    record({"fla_core": "1.0"}, rank=1)
    assert [(e.package, e.version, e.votes) for e in find_winners(store, Selection())] == [("fla-core", "1.0", 2)]
    with pytest.raises(UsageError, match=".none. means that no version is stated"):
        IngestOptions(triton="none")
