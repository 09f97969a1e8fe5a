"""Candidates' timings: how they come in, and to which recording they belong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import H200, config, version_1, write_recording
from tests.helpers import all_rows, take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, FormatError, RecordingError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import candidate_set_digest
from tuning_registry.model.selection import Selection
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.runs import list_runs, withdraw_run
from tuning_registry.operations.tables.export import export_table

A, B = config(B=16), config(B=8, num_warps=8)
TIMED = {"sm90": {"k": {"M=1": [[A, [0.2, 0.1, 0.3]], [B, [float("inf")] * 3]]}}}
VOTES = {"sm90": {"k": {"M=1": A}}}


def write_timings(path: Path, timings: object = TIMED) -> Path:
    return write_recording(path, json.dumps(timings))


def test_the_real_timings_attach_to_the_recordings_next_to_them(store: Store) -> None:
    report = take(store, H200, run=None)
    assert (report.new, report.votes, report.timings, report.completed) == (8, 360, 3_488, 0)
    assert [run.ranks for run in list_runs(store)] == [tuple(range(8))]
    assert take(store, *sorted(H200.glob("timings.*")), run=None).already == 8
    with store.reading() as reading:
        failed = reading.connection.exec_driver_sql("SELECT count(*) FROM timings WHERE median_ms IS NULL").scalar()
        stored = reading.connection.exec_driver_sql("SELECT sum(median_ms) FROM timings").scalar_one()
    assert failed == 8 * 4
    real = [json.loads(path.read_text())["sm90"] for path in sorted(H200.glob("timings.*"))]
    medians = [times[0] for rank in real for keys in rank.values() for timed in keys.values() for _, times in timed]
    assert stored == pytest.approx(sum(m for m in medians if m != float("inf")))


@pytest.mark.parametrize("first", ["rec", "timings"])
def test_timings_and_votes_of_one_rank_may_come_apart(store: Store, tmp_path: Path, first: str) -> None:
    files = {
        "rec": write_recording(tmp_path / "rec.rank3.json", VOTES),
        "timings": write_timings(tmp_path / "timings.rank3.json"),
    }
    assert take(store, files.pop(first), run=None).new == 1
    report = take(store, *files.values(), run=None)
    assert (report.new, report.completed) == (0, 1)
    assert all_rows(store) | {"recordings": 1, "votes": 1, "timings": 2} == all_rows(store)


def test_a_file_of_timings_never_votes(store: Store, tmp_path: Path) -> None:
    take(store, write_timings(tmp_path / "t.rank0.json"), write_recording(tmp_path / "x" / "rec.rank1.json", VOTES))
    made = export_table(store, Selection(arch="sm90"))
    assert made.payload["tuning_registry"]["weakest_agreement"] == [1, 1]


def test_timings_next_to_several_recordings_of_their_rank_need_a_run(store: Store, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_recording(tmp_path / f"{name}.rank0.json", VOTES)
    timings = write_timings(tmp_path / "timings.rank0.json")
    with pytest.raises(FormatError, match="these timings may belong to any of a, b; give --run"):
        take(store, timings, run=None)
    assert take(store, timings, run="a").new == 1


def test_timings_under_two_spellings_of_one_key_are_refused(store: Store, tmp_path: Path) -> None:
    timed = [[A, [0.2, 0.1, 0.3]]]
    file = write_timings(tmp_path / "t.rank0.json", {"sm90": {"k": {"M=1": timed, "M=True": timed}}})
    with pytest.raises(RecordingError, match="M=True"):
        take(store, file)


def test_version_1_and_a_timings_file_say_the_same(store: Store, tmp_path: Path) -> None:
    take(store, write_recording(tmp_path / "1.json", version_1(VOTES, timings=json.loads(json.dumps(TIMED)))), run=None)
    take(store, write_recording(tmp_path / "rec.rank1.json", VOTES), write_timings(tmp_path / "t.rank1.json"))
    with store.reading() as reading:
        rows = reading.connection.exec_driver_sql(
            "SELECT entry_id, config_id, median_ms, p20_ms, p80_ms FROM timings ORDER BY recording_id, config_id"
        ).all()
    assert rows[:2] == rows[2:]


def test_replace_takes_all_files_of_a_recording_together(store: Store, tmp_path: Path) -> None:
    def write(folder: str, votes: object, median: float) -> Path:
        write_recording(tmp_path / folder / "rec.rank0.json", json.dumps({"sm90": {"k": {"M=1": votes}}}))
        timed = {"sm90": {"k": {"M=1": [[A, [median, median, median]], [B, None]]}}}
        write_timings(tmp_path / folder / "timings.rank0.json", timed)
        return tmp_path / folder

    take(store, write("1", A, 1.0), run="j")
    again = write("2", B, 2.0)
    with pytest.raises(ConflictError, match="is already in the database with other timings and votes"):
        take(store, again, run="j")
    report = take(store, again, run="j", replace=True)
    assert (report.new, report.replaced, report.votes, report.timings) == (1, 1, 1, 2)
    assert take(store, write("3", B, 3.0), run="j", replace=True).replaced == 1  # only the timings differ
    with pytest.raises(ConflictError, match="has no timings, but rank 0 of run 'j' in the database has"):
        take(store, tmp_path / "1" / "rec.rank0.json", run="j", replace=True)
    assert (all_rows(store)["recordings"], export_table(store, Selection(arch="sm90")).payload["kernels"]) == (
        3,
        {"k": {"M=1": B}},
    )


def test_timings_of_a_refused_recording_are_left_out_with_it(store: Store, tmp_path: Path) -> None:
    take(store, write_recording(tmp_path / "1" / "rec.rank0.json", VOTES), run="j")
    write_recording(tmp_path / "2" / "rec.rank0.json", {"sm90": {"k": {"M=1": B}}})
    write_timings(tmp_path / "2" / "a.rank0.json")
    report = take(store, tmp_path / "2", run="j", keep_going=True)
    assert [str(error).partition(": ")[2][:40] for error in report.skipped] == [
        "rank 0 of run 'j' is already in the data",
        "the recording that it belongs to was ski",
    ]
    assert all_rows(store)["timings"] == 0


def test_hidden_files_next_to_timings_are_ignored(store: Store, tmp_path: Path) -> None:
    write_recording(tmp_path / "rec.rank0.json", VOTES)
    write_recording(tmp_path / "._rec.rank0.json", "")
    write_timings(tmp_path / "timings.rank0.json")
    assert take(store, tmp_path, run=None).new == 1


@pytest.mark.parametrize("at_once", [True, False])
def test_timings_next_to_a_version_1_recording_are_its_own(store: Store, tmp_path: Path, at_once: bool) -> None:
    rec = write_recording(tmp_path / "z.rank0.json", json.dumps(version_1(VOTES, run="july", triton="3.6.0")))
    timings = write_timings(tmp_path / "timings.rank0.json")
    for files in [[tmp_path]] if at_once else [[rec], [timings]]:
        take(store, *files, run=None)
    assert [(run.name, run.ranks, run.triton) for run in list_runs(store)] == [("july", (0,), ("3.6.0",))]
    assert (all_rows(store)["recordings"], all_rows(store)["timings"]) == (1, 2)


def test_copied_timings_are_refused_or_named(store: Store, tmp_path: Path) -> None:
    take(store, write_timings(tmp_path / "a" / "timings.rank0.json"), run=None)
    copy = write_timings(tmp_path / "b" / "timings.rank0.json")
    with pytest.raises(ConflictError, match="probably a copied folder"):
        take(store, copy, run=None)
    assert list(take(store, copy, run="named").same_content.values()) == [1]
    # Votes and timings of one recording are one copy.
    for folder, run in (("c", None), ("d", "fourth")):
        write_recording(tmp_path / folder / "rec.rank1.json", VOTES)
        write_timings(tmp_path / folder / "timings.rank1.json", {"sm90": {"k": {"M=1": [[A, [7, 7, 7]]]}}})
        report = take(store, tmp_path / folder, run=run)
    assert list(report.same_content.values()) == [1]


def test_timings_that_were_not_ingested_are_reported(store: Store, tmp_path: Path) -> None:
    file = write_recording(tmp_path / "rec.rank1.json", VOTES)
    assert take(store, file, run=None).timings_beside == 0
    timings = write_timings(tmp_path / "timings.rank1.json")
    assert take(store, file, run=None).timings_beside == 1
    assert take(store, file, timings, run=None).timings_beside == 0
    assert take(store, tmp_path, run=None).timings_beside == 0


def test_status_counts_what_counts(store: Store, tmp_path: Path) -> None:
    file = write_recording(tmp_path / "1.json", version_1(VOTES, timings=TIMED))
    other = write_recording(tmp_path / "2.json", version_1(VOTES, timings={"sm90": {"k": {"M=1": [[A, [9, 9, 9]]]}}}))
    take(store, file, run=None)
    take(store, other, run=None, replace=True)
    assert (describe_status(store)["votes"], describe_status(store)["timings"]) == (1, 1)
    withdraw_run(store, "job-1")
    assert (describe_status(store)["votes"], describe_status(store)["timings"]) == (0, 0)


def sets_in(store: Store) -> list[str]:
    with store.reading() as reading:
        found = reading.connection.exec_driver_sql("SELECT fingerprint FROM candidate_sets ORDER BY entry_id")
        return list(found.scalars().all())


def test_a_stated_candidate_set_stands_and_without_one_it_is_what_was_timed(store: Store, tmp_path: Path) -> None:
    odd = 'tab\t, "quote", \\N \\t, line\nend\r, %s ?'
    sets = {"sm90": {"k": {"M=1": odd}}}
    take(store, write_recording(tmp_path / "1.json", version_1(VOTES, timings=TIMED, candidate_sets=sets)), run=None)
    assert sets_in(store) == [odd]
    take(store, write_recording(tmp_path / "2.json", version_1(VOTES, timings=TIMED, rank=1)), run=None)
    timed = candidate_set_digest([config_text(A), config_text(B)])
    assert sorted(sets_in(store)) == sorted([odd, timed])
    # Said or not, it is one statement.
    sets = {"sm90": {"k": {"M=1": timed}}}
    again = write_recording(tmp_path / "3.json", version_1(VOTES, timings=TIMED, candidate_sets=sets, rank=1))
    assert take(store, again, run=None).already == 1
    other = write_recording(tmp_path / "4.json", version_1(VOTES, timings=TIMED, candidate_sets=sets))
    with pytest.raises(ConflictError, match="with other timings"):
        take(store, other, run=None)
