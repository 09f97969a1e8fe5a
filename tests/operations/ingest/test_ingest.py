"""An ingest: all or nothing, and every name and text as it was recorded."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.conftest import H200, Cli, config, version_1, write_ranks, write_recording
from tests.helpers import all_rows, take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, RecordingError, RegistryError, UsageError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import find_disagreements
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.runs import list_runs
from tuning_registry.operations.tables.export import export_table

REAL = sorted(H200.glob("rec.rank*.json"))
A, B = config(B=16), config(B=8, num_warps=8)


def test_order_of_ingest_leaves_no_trace_in_the_table(store: Store, tmp_path: Path) -> None:
    shuffled = list(REAL)
    random.Random(3).shuffle(shuffled)
    for path in shuffled:  # one by one, in another order
        take(store, path, triton="3.6.0")
    again = Store(sa.make_url(f"sqlite:///{tmp_path}/other.db"))
    take(again, *REAL, triton="3.6.0")
    assert export_table(store, Selection(arch="sm90")).data == export_table(again, Selection(arch="sm90")).data


def test_empty_recordings_are_ranks_without_votes(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A]), write_recording(tmp_path / "rec.rank1.json", {}), run=None)
    take(store, write_recording(tmp_path / "other" / "rec.rank1.json", {}), run=None)
    assert find_winners(store, Selection())[0].votes == 1
    assert {run.ranks for run in list_runs(store)} == {(0, 1), (1,)}


def test_fields_at_their_default_and_absent_vote_together(store: Store, tmp_path: Path) -> None:
    plain = {"kwargs": {"B": 64, "A": 1}, "num_warps": 4, "num_stages": 3}
    legacy = {**plain, "num_buffers_warp_spec": 0, "num_consumer_groups": 0, "pre_hook": None}
    other_order = {"num_stages": 3, "num_warps": 4, "kwargs": {"A": 1, "B": 64}, "maxnreg": None}
    take(store, *write_ranks(tmp_path, [plain, legacy, other_order, B]))
    assert [choice.count for choice in find_disagreements(store, Selection())[0][0].choices] == [3, 1]


def test_archs_meet_in_their_normal_form(store: Store, tmp_path: Path) -> None:
    for rank, arch in enumerate(["gfx942", "gfx942:sramecc+:xnack-", "GFX942"]):
        write_recording(tmp_path / f"rec.rank{rank}.json", {arch: {"k": {"M=1": A}}})
    take(store, tmp_path)
    assert [(entry.arch, entry.votes) for entry in find_winners(store, Selection(arch="GFX942:xnack-"))] == [
        ("gfx942", 3)
    ]
    assert export_table(store, Selection(arch="gfx942")).payload["arch"] == "gfx942"


def test_unknown_arch_spelling_is_kept_and_reported(store: Store, tmp_path: Path) -> None:
    report = take(store, *write_ranks(tmp_path, [A], arch="MI300X"))
    assert report.strange_archs == ["MI300X"]
    assert export_table(store, Selection(arch="MI300X")).entries == 1


def test_long_texts_are_kept_exactly(store: Store, tmp_path: Path) -> None:
    key = "|".join(["M=1", *["torch.bfloat16"] * 300])
    noise = "".join(random.Random(5).choices(string.ascii_letters, k=3000))  # nothing a database could compress
    kernel, arch = f"pkg.{noise}", f"Ascend{noise[:900]}"
    big = config(B="y" * 20_000, N=10**5000)
    path = tmp_path / "rec.rank0.json"
    write_recording(
        path, json.dumps({arch: {kernel: {key: config(B="y" * 20_000, N=123)}}}).replace("123", "1" + "0" * 5000)
    )
    take(store, path)
    made = export_table(store, Selection(arch=arch))
    assert made.payload["kernels"] == {kernel: {key: big}}
    assert ("1" + "0" * 5000).encode() in made.data


@pytest.mark.parametrize("entry", ['{"X": {"k": {}}}', '{"sm90": {"X.k": {}}}'])
def test_names_that_postgres_cannot_index_are_refused_everywhere(store: Store, tmp_path: Path, entry: str) -> None:
    path = write_recording(tmp_path / "rec.rank0.json", entry.replace("X", "x" * 1001))
    with pytest.raises(RecordingError, match="a name of 1001 bytes; expected at most 1000"):
        take(store, path)


@pytest.mark.parametrize("name", ["run", "source", "triton"])
def test_nul_and_surrogates_never_reach_the_database(store: Store, tmp_path: Path, name: str) -> None:
    (path,) = write_ranks(tmp_path, [A])
    for text in ("a\0b", "a\udcffb"):
        with pytest.raises(UsageError, match="NUL|surrogate"):
            take(store, path, **{"run": "demo", name: text})
    assert store.revision() is None


def test_version_1_keeps_everything_it_says(store: Store, tmp_path: Path) -> None:
    document = version_1(
        {"sm90": {"fla.k": {"M=1": A}}},
        world_size=4, host="node7", device={"name": "NVIDIA H200", "arch": "sm90", "multiprocessor_count": 132},
        triton="3.6.0", packages={"flash-linear-attention": "0.6.0"}, modules={"fla": "flash-linear-attention"},
        source="nightly",
        timings={"sm90": {"fla.k": {"M=1": [[A, [0.1, 0.09, 0.12]], [B, None]]}}},
        observations={"sm90": {"fla.once": {"M=1": {"config": A, "reason": "single candidate"}}}},
        candidate_sets={"sm90": {"fla.k": {"M=1": "f00d"}}},
    )  # fmt: skip
    path = write_recording(tmp_path / "job.json", document)
    assert take(store, path, run=None).new == 1
    assert take(store, path, run=None).already == 1
    (run,) = list_runs(store)
    assert (run.name, run.ranks, run.world_size, run.hosts, run.devices) == (
        "job-1",
        (0,),
        4,
        ("node7",),
        ("NVIDIA H200",),
    )
    counts = all_rows(store)
    assert (counts["timings"], counts["observations"], counts["candidate_sets"], counts["votes"]) == (2, 1, 1, 1)
    made = export_table(store, Selection(arch="sm90"))
    assert list(made.payload["kernels"]) == ["fla.k"]  # an observation is not a vote
    assert made.payload["source"] == "nightly"
    assert made.payload["packages"] == {"flash-linear-attention": "0.6.0"}
    assert made.devices == {"NVIDIA H200 (132 multiprocessors)": 1}
    for flags in ({"run": "other"}, {"triton": "3.7.0"}, {"rank": 3}, {"packages": {"flash-linear-attention": "1"}}):
        with pytest.raises(ConflictError, match="but the recording states"):
            take(store, path, **{"run": None, **flags})  # type: ignore[arg-type]


def test_one_bad_file_refuses_all_and_keep_going_takes_the_rest(store: Store, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A] * 8)
    good = paths[6].read_bytes()
    paths[3].write_bytes(b"")
    paths[5].write_bytes(paths[5].read_bytes()[:30])
    paths[6].write_bytes(good + b'"}}')
    with pytest.raises(
        RegistryError, match=r"rec\.rank3\.json: the file is empty.*and 2 more: .*rank5.*rank6"
    ) as caught:
        take(store, *paths)
    assert isinstance(caught.value.__cause__, RecordingError)
    assert store.revision() is None  # not even a schema was made
    report = take(store, *paths, keep_going=True)
    assert report.new == 5
    assert [
        "rank3" in str(report.skipped[0]),
        "rank5" in str(report.skipped[1]),
        "rank6" in str(report.skipped[2]),
    ] == [True] * 3
    for path in (paths[3], paths[5], paths[6]):
        path.write_bytes(good)
    assert take(store, *paths).new == 3


def test_nothing_of_a_skipped_recording_goes_to_the_next(store: Store, tmp_path: Path) -> None:
    timed = [[A, [1, 1, 1]]]
    twice = version_1({"sm90": {"k": {"M=1": A}}}, rank=0, timings={"sm90": {"k": {"N=1": timed, "N=True": timed}}})
    bad = write_recording(tmp_path / "0.json", twice)
    good = write_recording(tmp_path / "1.json", version_1({"sm90": {"k": {"M=1": B}}}, rank=1))
    report = take(store, bad, good, run=None, keep_going=True)
    assert (report.new, report.votes, len(report.skipped)) == (1, 1, 1)
    (winner,) = find_winners(store, Selection())
    assert (winner.choices[0].config, winner.votes) == (config_text(B), 1)
    assert all_rows(store) | {"votes": 1, "timings": 0, "candidate_sets": 0} == all_rows(store)


def test_one_truncated_file_among_1024_leaves_the_database_as_it_was(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "first", [A]), run="first")
    before = all_rows(store)
    paths = write_ranks(tmp_path / "many", [A] * 1024)
    paths[700].write_bytes(paths[700].read_bytes()[:-9])
    with pytest.raises(RecordingError, match=r"rank700\.json: not JSON at line 1 column \d+: .*truncated"):
        take(store, *paths)
    assert all_rows(store) == before


@pytest.mark.parametrize("section", ["votes", "timings", "observations", "candidate_sets"])
def test_a_strange_architecture_is_reported_whatever_is_recorded_on_it(
    store: Store, tmp_path: Path, section: str
) -> None:
    value = {"votes": A, "timings": [[A, [1, 1, 1]]], "candidate_sets": "abc",
             "observations": {"config": None, "reason": "miss: no key"}}[section]  # fmt: skip
    kernels = {"k": {"M=1": value}}
    document = version_1({}) | {section: {"MI300X": kernels, "SM_90": kernels}}
    path = write_recording(tmp_path / "r.json", document)
    assert take(store, path, run=None).strange_archs == ["MI300X"]


def test_a_report_prints_and_converts(store: Store, tmp_path: Path) -> None:
    report = take(store, *write_ranks(tmp_path, [A, A]))
    assert str(report) == "2 recordings, 2 votes, 1 new entry"
    assert str(take(store, tmp_path)) == "0 recordings, 0 votes, 0 new entries, 2 already ingested"
    assert json.loads(json.dumps(report.to_dict()))["votes"] == 2


def test_names_that_may_only_look_like_another_are_said(cli: Cli, store: Store, tmp_path: Path) -> None:
    kernels = {"pkg.kernel": {"M=1": A}, "pkg.k\u0435rnel": {"M=1": A}}  # with the letter of another alphabet
    file = write_recording(tmp_path / "rec.rank0.json", {"sm90": kernels})
    assert take(store, file).look_alikes == ["pkg.k\u0435rnel"]
    said = cli("ingest", file, "--as-run", "again").stderr
    assert "may only look like another kernel's name: 'pkg.k\\u0435rnel'\n" in said
    assert (
        take(store, write_recording(tmp_path / "plain.rank1.json", {"sm90": {"pkg.kernel": {"M=1": A}}})).look_alikes
        == []
    )
