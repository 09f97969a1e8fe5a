"""What of a batch is new: by run and rank, by kind of content, by stated versions."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import H200, config, version_1, write_ranks, write_recording
from tests.helpers import all_rows, take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestReport
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.runs import list_runs, withdraw_run

REAL = sorted(H200.glob("rec.rank*.json"))
A, B = config(B=16), config(B=8, num_warps=8)


def test_same_files_again_change_nothing(store: Store) -> None:
    take(store, *REAL)
    before = all_rows(store)
    report = take(store, *REAL)
    assert (report.new, report.votes, report.already) == (0, 0, 8)
    assert all_rows(store) == before


def test_same_content_in_another_spelling_is_the_same(store: Store, tmp_path: Path) -> None:
    short = {"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3}
    take(store, write_recording(tmp_path / "a.rank0.json", {"sm90": {"k": {"M=1": short}}}))
    spelt = json.dumps({"sm90": {"k": {"M=1": dict(reversed(config().items()))}}}, indent=4)
    report = take(store, write_recording(tmp_path / "b.rank0.json", spelt))
    assert (report.new, report.already) == (0, 1)


def test_other_content_is_refused_and_replace_supersedes(store: Store, tmp_path: Path) -> None:
    first, second = write_ranks(tmp_path / "1", [A])[0], write_ranks(tmp_path / "2", [B])[0]
    take(store, first)
    with pytest.raises(ConflictError, match="rank 0 of run 'demo' is already in the database with other votes"):
        take(store, second)
    report = take(store, second, replace=True)
    assert (report.new, report.replaced) == (1, 1)
    (winner,) = find_winners(store, Selection())
    assert (json.loads(winner.choices[0].config)["kwargs"], winner.votes) == ({"B": 8}, 1)
    assert all_rows(store)["votes"] == 2  # the old vote is kept
    assert describe_status(store)["superseded_recordings"] == 1
    # Back and forth: each replacement supersedes exactly one.
    assert take(store, first, replace=True).replaced == 1
    assert find_winners(store, Selection())[0].votes == 1


def test_a_clock_that_stands_still_or_goes_back_refuses_no_replacement(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [write_ranks(tmp_path / str(number), [config(B=2**number)])[0] for number in range(6)]
    days = iter([0, 0, 0, -1, -1, -1])

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime(2026, 1, 2, tzinfo=tz) + dt.timedelta(days=next(days))

    monkeypatch.setattr("tuning_registry.operations.ingest.transfer.dt.datetime", Clock)
    for file in files:
        take(store, file, replace=True)
    (winner,) = find_winners(store, Selection())
    assert json.loads(winner.choices[0].config)["kwargs"] == {"B": 32}
    assert describe_status(store)["superseded_recordings"] == 5
    with store.reading() as reading:
        rows = reading.connection.exec_driver_sql("SELECT superseded_at FROM recordings ORDER BY id").scalars().all()
    assert list(rows[:-1]) == sorted(set(rows[:-1]))  # still in order


def test_versions_stated_later_are_not_silently_dropped(store: Store, tmp_path: Path) -> None:
    (path,) = write_ranks(tmp_path, [A])
    take(store, path)
    with pytest.raises(ConflictError, match="is already in the database with other versions"):
        take(store, path, triton="3.6.0")
    assert take(store, path, triton="3.6.0", replace=True).replaced == 1
    assert take(store, path).already == 1  # a missing field never differs


def test_a_copied_folder_of_an_unnamed_run_is_refused(store: Store, tmp_path: Path) -> None:
    originals = write_ranks(tmp_path / "job", [A, B])
    copies = write_ranks(tmp_path / "copy", [A, B])
    report = take(store, *originals, run=None)
    assert len(report.derived_runs) == 1
    assert report.derived_runs[0].startswith("rec@")
    with pytest.raises(ConflictError, match="probably a copied folder"):
        take(store, *copies, run=None)
    with pytest.raises(ConflictError, match="probably a copied folder"):  # also within one ingest
        take(Store(sa.make_url(f"sqlite:///{tmp_path}/new.db")), *originals, *copies, run=None)
    assert take(store, *copies, run="another").new == 2


def test_a_twin_in_one_ingest_is_compared_as_in_two(store: Store, tmp_path: Path) -> None:
    votes = {"sm90": {"k": {"M=1": A}}}
    one = write_recording(tmp_path / "1.json", version_1(votes, triton="3.5.0"))
    two = write_recording(tmp_path / "2.json", version_1(votes, triton="3.6.0"))
    with pytest.raises(ConflictError, match="with other versions"):
        take(store, one, two, run=None)
    owners = [version_1({"sm90": {"fla.k": {"M=1": A}}}, packages={"foo": "1", "bar": "2"}, modules={"fla": name})
              for name in ("foo", "bar")]  # fmt: skip
    take(store, write_recording(tmp_path / "3.json", owners[0]), run=None)
    with pytest.raises(ConflictError, match="other versions or another source"):
        take(store, write_recording(tmp_path / "4.json", owners[1]), run=None)
    assert take(store, tmp_path / "4.json", run=None, replace=True).replaced == 1
    assert [e.package for e in find_winners(store, Selection())] == ["bar"]


def test_replace_never_loses_a_kind_of_content(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [1, 1, 1]]]}}}
    full = version_1({"sm90": {"k": {"M=1": A}}}, timings=timings)
    take(store, write_recording(tmp_path / "1.json", full), run=None)
    less = version_1({"sm90": {"k": {"M=1": B}}})
    with pytest.raises(ConflictError, match="has no timings, but rank 0 of run 'job-1' in the database has"):
        take(store, write_recording(tmp_path / "2.json", less), run=None, replace=True)


def test_a_copy_is_found_also_when_the_first_was_withdrawn(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "a", [A]), run=None)
    (run,) = list_runs(store)
    withdraw_run(store, run.name)
    with pytest.raises(ConflictError, match="probably a copied folder"):
        take(store, *write_ranks(tmp_path / "b", [A]), run=None)


def test_each_kind_of_content_has_a_separate_identity(store: Store, tmp_path: Path) -> None:
    votes, timings = {"sm90": {"k": {"M=1": A}}}, {"sm90": {"k": {"M=1": [[A, [0.1, 0.1, 0.1]], [B, None]]}}}
    seen = {"sm90": {"once": {"M=1": {"config": A, "reason": "single candidate"}}}}

    def record(**content: object) -> IngestReport:
        return take(store, write_recording(tmp_path / "job.json", version_1(**content)), run=None)  # type: ignore[arg-type]

    assert record(votes={}, timings=timings).new == 1  # a file of timings does not vote
    assert all_rows(store)["votes"] == 0
    assert (record(votes=votes).completed, all_rows(store)["votes"]) == (1, 1)
    assert (record(votes=votes, observations=seen).completed, all_rows(store)["observations"]) == (1, 1)
    report = record(votes=votes, observations=seen, timings=timings)
    assert (report.new, report.completed, report.already) == (0, 0, 1)
    assert record(votes=votes).already == 1
    with pytest.raises(ConflictError, match="with other timings;"):
        record(votes=votes, timings={"sm90": {"k": {"M=1": [[A, [0.2, 0.2, 0.2]]]}}})
    with pytest.raises(ConflictError, match="with other votes;"):
        record(votes={"sm90": {"k": {"M=1": B}}})
    assert find_winners(store, Selection())[0].votes == 1
    assert (all_rows(store)["recordings"], all_rows(store)["timings"]) == (1, 2)


def test_kinds_in_files_of_their_own_meet_in_one_ingest(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [0.1, 0.1, 0.1]]]}}}
    one = write_recording(tmp_path / "1.json", version_1({"sm90": {"k": {"M=1": A}}}))
    two = write_recording(tmp_path / "2.json", version_1({}, timings=timings))
    report = take(store, one, two, run=None)
    assert (report.new, report.completed, report.already, report.votes) == (1, 0, 0, 1)
    assert (all_rows(store)["recordings"], all_rows(store)["timings"]) == (1, 1)
    assert take(store, two, one, run=None).already == 1  # recordings, not files
    other = write_recording(tmp_path / "3.json", version_1({"sm90": {"k": {"M=1": B}}}))
    with pytest.raises(ConflictError, match="is already in the database with other votes"):
        take(store, two, other, run=None)


def test_a_conflict_in_the_database_refuses_the_whole_ingest(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A]))
    with pytest.raises(ConflictError):
        take(store, *write_ranks(tmp_path / "2", [B, B, B]))
    assert find_winners(store, Selection())[0].votes == 1
    report = take(store, *write_ranks(tmp_path / "2", [B, B, B]), keep_going=True)
    assert (report.new, len(report.skipped)) == (2, 1)


def test_two_files_of_one_rank_in_one_ingest(store: Store, tmp_path: Path) -> None:
    one, same, other = (write_ranks(tmp_path / name, [chosen])[0] for name, chosen in (("1", A), ("2", A), ("3", B)))
    assert take(store, one, same).already == 1
    with pytest.raises(ConflictError, match="is also in .* with other votes"):
        take(store, one, other, run="second")
