"""One contract, every database: what ingest, votes, queries, runs and export must do."""

from __future__ import annotations

import datetime as dt
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import H200, Cli, config, version_1, write_ranks, write_recording
from tuning_registry import merge_records
from tuning_registry.db.schema import HEAD
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, RecordingError, SchemaError, SelectionError, UsageError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.export import ExportOptions, export_table
from tuning_registry.operations.ingest.ingest import IngestOptions, IngestReport, ingest
from tuning_registry.operations.runs import list_runs, restore_run, withdraw_run
from tuning_registry.operations.status import describe_status
from tuning_registry.operations.votes import find_disagreements, find_winners

REAL = sorted(H200.glob("rec.rank*.json"))
A, B = config(B=16), config(B=8, num_warps=8)


def take(store: Store, *paths: Path, run: str | None = "demo", **options: object) -> IngestReport:
    return ingest(store, list(paths), IngestOptions(run=run, **options))  # type: ignore[arg-type]


def all_rows(store: Store) -> dict[str, int]:
    with store.reading() as reading:
        return reading.row_counts()


def test_real_recordings_give_the_independent_majority(store: Store) -> None:
    report = take(store, *REAL, triton="3.6.0")
    assert (report.new, report.votes, report.new_entries, report.already) == (8, 360, 45, 0)
    made = export_table(store, Selection(arch="sm90"))
    assert made.payload["kernels"] == merge_records(REAL)["sm90"]
    assert (made.entries, made.disagreements, made.dropped) == (45, 12, 0)
    assert len(find_disagreements(store, Selection())[0]) == 12
    assert made.payload["tuning_registry"]["weakest_agreement"] == [3, 8]
    assert made.payload["triton"] == "3.6.0"


def test_order_of_ingest_leaves_no_trace_in_the_table(store: Store, tmp_path: Path) -> None:
    shuffled = list(REAL)
    random.Random(3).shuffle(shuffled)
    for path in shuffled:  # one by one, in another order
        take(store, path, triton="3.6.0")
    again = Store(sa.make_url(f"sqlite:///{tmp_path}/other.db"))
    take(again, *REAL, triton="3.6.0")
    assert export_table(store, Selection(arch="sm90")).data == export_table(again, Selection(arch="sm90")).data


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
    with pytest.raises(ConflictError, match="rank 0 of run 'demo' is there already, with other votes"):
        take(store, second)
    report = take(store, second, replace=True)
    assert (report.new, report.replaced) == (1, 1)
    (winner,) = find_winners(store, Selection())
    assert (json.loads(winner.choices[0].config)["kwargs"], winner.votes) == ({"B": 8}, 1)
    assert all_rows(store)["votes"] == 2  # the old vote is kept
    assert describe_status(store)["superseded"] == 1
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

    monkeypatch.setattr("tuning_registry.operations.ingest.ingest.dt.datetime", Clock)
    for file in files:
        take(store, file, replace=True)
    (winner,) = find_winners(store, Selection())
    assert json.loads(winner.choices[0].config)["kwargs"] == {"B": 32}
    assert describe_status(store)["superseded"] == 5
    with store.reading() as reading:
        rows = reading.connection.exec_driver_sql("SELECT superseded_at FROM recordings ORDER BY id").scalars().all()
    assert list(rows[:-1]) == sorted(set(rows[:-1]))  # still in order


def test_versions_stated_later_are_not_silently_dropped(store: Store, tmp_path: Path) -> None:
    (path,) = write_ranks(tmp_path, [A])
    take(store, path)
    with pytest.raises(ConflictError, match="the same content under other versions"):
        take(store, path, triton="3.6.0")
    assert take(store, path, triton="3.6.0", replace=True).replaced == 1
    assert take(store, path).already == 1  # saying nothing is no difference


def test_a_copied_folder_of_an_unnamed_run_is_refused(store: Store, tmp_path: Path) -> None:
    originals = write_ranks(tmp_path / "job", [A, B])
    copies = write_ranks(tmp_path / "copy", [A, B])
    report = take(store, *originals, run=None)
    assert len(report.derived_runs) == 1
    assert report.derived_runs[0].startswith("rec@")
    with pytest.raises(ConflictError, match="probably a copy"):
        take(store, *copies, run=None)
    with pytest.raises(ConflictError, match="probably a copy"):  # within one ingest, too
        take(Store(sa.make_url(f"sqlite:///{tmp_path}/new.db")), *originals, *copies, run=None)
    assert take(store, *copies, run="another").new == 2


def test_only_who_counts_is_named_and_under_its_own_versions(store: Store, tmp_path: Path) -> None:
    for run, triton in (("old", "3.5.0"), ("new", "3.6.0"), ("gone", "3.6.0")):
        take(store, *write_ranks(tmp_path / run, [A, B, A], "pkg.k"), run=run, triton=triton)
    take(store, write_ranks(tmp_path / "again", [B], "pkg.k")[0], run="new", triton="3.6.0", replace=True)
    withdraw_run(store, "gone")
    found, total = find_disagreements(store, Selection())
    assert total == 2
    assert [(entry.triton, [(choice.count, choice.voters) for choice in entry.choices]) for entry in found] == [
        ("3.5.0", [(2, {"old": [0, 2]}), (1, {"old": [1]})]),
        ("3.6.0", [(2, {"new": [0, 1]}), (1, {"new": [2]})]),
    ]
    assert all(len(choice.recordings) == choice.count for entry in found for choice in entry.choices)


def test_empty_recordings_are_ranks_without_votes(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A]), write_recording(tmp_path / "rec.rank1.json", {}), run=None)
    take(store, write_recording(tmp_path / "other" / "rec.rank1.json", {}), run=None)
    assert find_winners(store, Selection())[0].votes == 1
    assert {run.ranks for run in list_runs(store)} == {(0, 1), (1,)}


@pytest.mark.parametrize("order", [1, -1])
def test_an_exact_tie_goes_to_the_smallest_text(store: Store, tmp_path: Path, order: int) -> None:
    take(store, *write_ranks(tmp_path, [A, B] * 4)[::order])
    ((split,), _) = find_disagreements(store, Selection())
    assert split.is_tie
    assert [choice.count for choice in split.choices] == [4, 4]
    # "B": 16 sorts before "B": 8 as text, not as a number.
    assert json.loads(split.choices[0].config)["kwargs"] == {"B": 16}
    assert split.choices[1].voters == {"demo": [1, 3, 5, 7]}


@pytest.mark.parametrize("seed", range(3))
def test_three_against_five(store: Store, tmp_path: Path, seed: int) -> None:
    paths = write_ranks(tmp_path, [A] * 3 + [B] * 5)
    random.Random(seed).shuffle(paths)
    take(store, *paths)
    (winner,) = find_winners(store, Selection())
    assert (json.loads(winner.choices[0].config)["kwargs"], winner.choices[0].count, winner.votes) == ({"B": 8}, 5, 8)


def test_absence_is_not_disagreement(store: Store, tmp_path: Path) -> None:
    for rank in range(9):
        kernels = {} if rank == 8 else ({"A": {"M=1": A}, "B": {"M=1": A}} if rank < 4 else {"C": {"M=1": B}})
        write_recording(tmp_path / f"rec.rank{rank}.json", {"sm90": kernels} if kernels else {})
    take(store, tmp_path)
    assert find_disagreements(store, Selection())[0] == []
    assert {entry.kernel: entry.votes for entry in find_winners(store, Selection())} == {"A": 4, "B": 4, "C": 4}


def test_spellings_triton_cannot_tell_apart_are_one_entry(store: Store, tmp_path: Path) -> None:
    for rank, key in enumerate(["M=True", "M=1", "M=1.0", "M=None", "M=\\1"]):
        write_recording(tmp_path / f"rec.rank{rank}.json", {"sm90": {"k": {key: B if rank == 1 else A}}})
    take(store, tmp_path)
    found = {entry.key: (entry.votes, entry.config_count) for entry in find_winners(store, Selection())}
    assert found == {"M=1": (3, 2), "M=None": (1, 1), "M=\\1": (1, 1)}


def test_one_rank_cannot_vote_twice_on_one_key(store: Store, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "rec.rank0.json", {"sm90": {"k": {"M=1": A, "M=True": B}}})
    with pytest.raises(RecordingError, match="Triton cannot tell this key"):
        take(store, path)


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


def test_names_with_wildcards_are_compared_as_they_are(store: Store, tmp_path: Path) -> None:
    kernels = ["_fwd_kernel", "xfwd_kernel", "_FWD_kernel", "a%b", "pkg.mod._fwd_kernel", "pkg_fwd_kernel"]
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {kernel: {"M=1": A} for kernel in kernels}})
    take(store, tmp_path)

    def matches(kernel: str) -> list[str]:
        return [entry.kernel for entry in find_winners(store, Selection(kernel=kernel))]

    assert matches("_fwd_kernel") == ["_fwd_kernel", "pkg.mod._fwd_kernel"]
    assert matches("pkg.mod._fwd_kernel") == ["pkg.mod._fwd_kernel"]
    assert matches("a%b") == ["a%b"]
    assert matches("%") == []


def test_entries_come_in_byte_order(store: Store, tmp_path: Path) -> None:
    keys = ["head=1|x", "head=128|x", "head=16|x", "_a", "B", "a", "É", "é", "Z"]
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {"k": dict.fromkeys(keys, A)}})
    take(store, tmp_path)
    assert [entry.key for entry in find_winners(store, Selection())] == sorted(keys)


def test_long_texts_are_kept_exactly(store: Store, tmp_path: Path) -> None:
    key = "|".join(["M=1", *["torch.bfloat16"] * 300])
    noise = "".join(random.Random(5).choices(string.ascii_letters, k=3000))  # nothing a database could compress
    kernel, arch = f"pkg.{noise}", f"sm90{noise[:900]}"
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


def test_version_groups_never_mix_silently(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "old", [A] * 4, "pkg.k"), run="old", triton="3.5.1")
    take(store, *write_ranks(tmp_path / "new", [B] * 5, "pkg.k"), run="new", triton="3.9.0")
    take(store, *write_ranks(tmp_path / "none", [A] * 2, "pkg.k"), run="none")
    assert [(e.triton, e.votes) for e in find_winners(store, Selection())] == [("", 2), ("3.5.1", 4), ("3.9.0", 5)]
    assert find_disagreements(store, Selection())[0] == []  # each group agrees with itself
    with pytest.raises(SelectionError, match=r"3\.5\.1 \(4 votes\), 3\.9\.0 \(5 votes\), none \(2 votes\)"):
        export_table(store, Selection(arch="sm90"))
    made = export_table(store, Selection(arch="sm90", triton="3.9.0"))
    assert made.payload["triton"] == "3.9.0"
    assert made.payload["kernels"]["pkg.k"]["M=1"]["kwargs"] == {"B": 8}
    assert export_table(store, Selection(arch="sm90", triton="none")).payload["triton"] == ""
    assert export_table(store, Selection(arch="sm90", runs=("old",))).payload["tuning_registry"]["runs"] == ["old"]


def test_package_versions_make_groups_of_the_kernels_they_own(store: Store, tmp_path: Path) -> None:
    def record(folder: str, version: str | None, chosen: dict[str, object]) -> None:
        kernels = {"fla.ops.k": {"M=1": chosen}, "mamba_ssm.ops.k": {"M=1": chosen}}
        path = write_recording(tmp_path / folder / "rec.rank0.json", {"sm90": kernels})
        packages = {"fla-core": version, "Mamba_SSM": "2.2"} if version else {}
        take(store, path, run=folder, packages=packages)

    record("old", "0.5.0", A)
    record("new", "0.6.0", B)
    with pytest.raises(SelectionError, match=r"fla: fla-core 0\.5\.0 \(1 vote\), fla-core 0\.6\.0 \(1 vote\)"):
        export_table(store, Selection(arch="sm90"))
    made = export_table(store, Selection(arch="sm90", packages={"fla_core": "0.6.0"}))
    assert made.payload["kernels"]["fla.ops.k"]["M=1"]["kwargs"] == {"B": 8}
    # The other package's kernels keep the votes of both runs.
    assert [e.votes for e in find_winners(store, Selection(packages={"fla-core": "0.6.0"}))] == [1, 2]
    assert made.payload["packages"] == {"mamba-ssm": "2.2", "fla-core": "0.6.0"}
    # Only runs that have a vote in the table are named by it.
    only_fla = write_recording(tmp_path / "fla" / "rec.rank0.json", {"sm90": {"fla.ops.other": {"M=1": A}}})
    take(store, only_fla, run="fla-only", packages={"fla-core": "0.4"})
    made = export_table(store, Selection(arch="sm90", packages={"fla-core": "0.6.0"}))
    assert (made.payload["tuning_registry"]["runs"], made.payload["tuning_registry"]["recordings"]) == (
        ["new", "old"],
        2,
    )
    record("bare", None, A)
    votes = {
        e.kernel: e.votes for e in find_winners(store, Selection(kernel="fla.ops.k", packages={"fla-core": "none"}))
    }
    assert votes == {"fla.ops.k": 1}
    with pytest.raises(SelectionError, match="no recorded kernel belongs to a package 'nope'; .*fla-core, mamba-ssm"):
        find_winners(store, Selection(packages={"nope": "1"}))


def test_one_distribution_has_one_spelling(store: Store, tmp_path: Path) -> None:
    def record(stated: dict[str, str], rank: int = 0, **options: object) -> IngestReport:
        document = version_1({"sm90": {"fla.k": {"M=1": A}}}, rank=rank, packages=stated)
        return take(store, write_recording(tmp_path / "r.json", document), run=None, **options)

    with pytest.raises(RecordingError, match="the same distribution under two spellings and versions"):
        record({"fla-core": "1.0", "fla_core": "2.0"})
    with pytest.raises(RecordingError, match="at packages/x: expected a name and a version"):
        record({"x": "none"})
    with pytest.raises(ConflictError, match="but the recording says '1.0'"):
        record({"FLA.Core": "1.0"}, packages={"fla-core": "2.0"})
    record({"FLA.Core": "1.0"})
    record({"fla_core": "1.0"}, rank=1)
    assert [(e.package, e.version, e.votes) for e in find_winners(store, Selection())] == [("fla-core", "1.0", 2)]
    with pytest.raises(UsageError, match="'none' means not stated"):
        IngestOptions(triton="none")


def test_a_twin_in_one_ingest_is_compared_as_in_two(store: Store, tmp_path: Path) -> None:
    votes = {"sm90": {"k": {"M=1": A}}}
    one = write_recording(tmp_path / "1.json", version_1(votes, triton="3.5.0"))
    two = write_recording(tmp_path / "2.json", version_1(votes, triton="3.6.0"))
    with pytest.raises(ConflictError, match="with other versions"):
        take(store, one, two, run=None)
    owners = [version_1({"sm90": {"fla.k": {"M=1": A}}}, packages={"foo": "1", "bar": "2"}, modules={"fla": name})
              for name in ("foo", "bar")]  # fmt: skip
    take(store, write_recording(tmp_path / "3.json", owners[0]), run=None)
    with pytest.raises(ConflictError, match="other versions or source"):
        take(store, write_recording(tmp_path / "4.json", owners[1]), run=None)
    assert take(store, tmp_path / "4.json", run=None, replace=True).replaced == 1
    assert [e.package for e in find_winners(store, Selection())] == ["bar"]


def test_replace_never_loses_a_kind_of_content(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [1, 1, 1]]]}}}
    full = version_1({"sm90": {"k": {"M=1": A}}}, timings=timings)
    take(store, write_recording(tmp_path / "1.json", full), run=None)
    less = version_1({"sm90": {"k": {"M=1": B}}})
    with pytest.raises(ConflictError, match="holds no timings, which rank 0 of run 'job-1' has"):
        take(store, write_recording(tmp_path / "2.json", less), run=None, replace=True)


def test_a_copy_is_found_also_when_the_first_was_withdrawn(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "a", [A]), run=None)
    (run,) = list_runs(store)
    withdraw_run(store, run.name)
    with pytest.raises(ConflictError, match="probably a copy"):
        take(store, *write_ranks(tmp_path / "b", [A]), run=None)


def test_a_withdrawn_run_counts_no_more_until_restored(store: Store, tmp_path: Path) -> None:
    now = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    paths = write_ranks(tmp_path, [A, A])
    take(store, *paths, run="good")
    take(store, *write_ranks(tmp_path / "bad", [B] * 3), run="bad")
    assert withdraw_run(store, "bad", now)
    assert not withdraw_run(store, "bad", now + dt.timedelta(seconds=1))
    (winner,) = find_winners(store, Selection())
    assert (winner.votes, json.loads(winner.choices[0].config)["kwargs"]) == (2, {"B": 16})
    assert [run.withdrawn_at for run in list_runs(store) if run.name == "bad"] == ["2026-11-30T00:00:00.000000+00:00"]
    report = take(store, *write_ranks(tmp_path / "bad", [B] * 4), run="bad")
    assert (report.new, report.withdrawn) == (0, 4)
    assert find_winners(store, Selection(runs=("bad",))) == []
    with pytest.raises(SelectionError, match="no run 'nope'"):
        restore_run(store, "nope")
    assert restore_run(store, "bad")
    assert find_winners(store, Selection())[0].votes == 5


def test_thresholds_drop_entries_and_say_so(store: Store, tmp_path: Path) -> None:
    for rank in range(4):
        kernels = {"agreed": {"M=1": A}, "split": {"M=1": A if rank < 2 else B}}
        if rank == 0:
            kernels["rare"] = {"M=1": A}
        write_recording(tmp_path / f"rec.rank{rank}.json", {"sm90": kernels})
    take(store, tmp_path)
    made = export_table(store, Selection(arch="sm90"), ExportOptions(min_votes=2, min_agreement=0.75))
    assert (list(made.payload["kernels"]), made.dropped) == (["agreed"], 2)
    with pytest.raises(SelectionError, match="leave none of the 3 entries"):
        export_table(store, Selection(arch="sm90"), ExportOptions(min_votes=9))


def test_an_arch_nobody_recorded_is_refused(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    with pytest.raises(SelectionError, match="no counting recording has votes on sm999; recorded archs: sm90"):
        export_table(store, Selection(arch="sm999"))


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
    assert list(made.payload["kernels"]) == ["fla.k"]  # an observation is no vote
    assert made.payload["source"] == "nightly"
    assert made.payload["packages"] == {"flash-linear-attention": "0.6.0"}
    assert made.devices == {"NVIDIA H200 (132 multiprocessors)": 1}
    for flags in ({"run": "other"}, {"triton": "3.7.0"}, {"rank": 3}, {"packages": {"flash-linear-attention": "1"}}):
        with pytest.raises(ConflictError, match="but the recording says"):
            take(store, path, **{"run": None, **flags})  # type: ignore[arg-type]


def test_each_kind_of_content_has_an_identity_of_its_own(store: Store, tmp_path: Path) -> None:
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
        record(votes=votes, timings={"sm90": {"k": {"M=1": [[A, None]]}}})
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
    with pytest.raises(ConflictError, match="is there already, with other votes"):
        take(store, two, other, run=None)


def test_recordings_of_several_devices_are_shown_and_not_refused(store: Store, tmp_path: Path) -> None:
    for rank, name in enumerate(["NVIDIA H100", "NVIDIA H200", "NVIDIA H20"]):
        document = version_1({"sm90": {"k": {"M=1": A}}}, rank=rank, device={"name": name})
        write_recording(tmp_path / f"r{rank}.json", document)
    take(store, tmp_path, run=None)
    assert export_table(store, Selection(arch="sm90")).devices == {"NVIDIA H100": 1, "NVIDIA H200": 1, "NVIDIA H20": 1}


def test_one_bad_file_refuses_all_and_keep_going_takes_the_rest(store: Store, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A] * 8)
    good = paths[6].read_bytes()
    paths[3].write_bytes(b"")
    paths[5].write_bytes(paths[5].read_bytes()[:30])
    paths[6].write_bytes(good + b'"}}')
    with pytest.raises(RecordingError, match=r"rec\.rank3\.json: the file is empty"):
        take(store, *paths)
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


def test_an_empty_path_is_not_the_current_folder(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ranks(tmp_path, [A])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="a PATH is empty"):
        ingest(store, [""])
    assert ingest(store, ["."]).new == 1


def test_one_truncated_file_among_1024_leaves_the_database_as_it_was(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "first", [A]), run="first")
    before = all_rows(store)
    paths = write_ranks(tmp_path / "many", [A] * 1024)
    paths[700].write_bytes(paths[700].read_bytes()[:-9])
    with pytest.raises(RecordingError, match=r"rank700\.json: not JSON at line 1 column \d+: .*cut off"):
        take(store, *paths)
    assert all_rows(store) == before


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


def test_the_view_shows_the_votes_that_count(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A, B]), run="one")
    take(store, *write_ranks(tmp_path / "2", [A]), run="two")
    take(store, *write_ranks(tmp_path / "3", [B]), run="two", replace=True)
    withdraw_run(store, "one")
    with store.reading() as reading:
        rows = reading.connection.execute(sa.text("SELECT * FROM counted_votes")).mappings().all()
    assert [dict(row) for row in rows] == [
        {"arch": "sm90", "kernel": "k", "key": "M=1", "run": "two", "rank": 0,
         "config": json.dumps(B, sort_keys=True)}
    ]  # fmt: skip


def test_reading_neither_creates_nor_hides_a_missing_registry(store: Store) -> None:
    with pytest.raises(
        SchemaError, match="there is no registry here yet; `registry ingest` or `registry db upgrade` creates it"
    ):
        find_winners(store, Selection())
    assert describe_status(store)["revision"] is None
    assert store.revision() is None


def test_a_newer_schema_is_refused_and_untouched(store: Store, cli: Cli, tmp_path: Path) -> None:
    (path,) = write_ranks(tmp_path, [A])
    take(store, path)
    with store.writing() as transaction:
        transaction.connection.execute(
            sa.text("UPDATE tuning_registry_alembic_version SET version_num = 'ffffffffffff'")
        )
    for command in (
        ("ingest", path, "--run", "x"),
        ("winners",),
        ("db", "upgrade"),
        ("export", "--arch", "sm90"),
        ("db", "check"),
    ):
        result = cli(*command)
        assert result.exit_code == 1, command
        assert f"newer than this program (found ffffffffffff, know {HEAD})" in result.stderr
        assert "Traceback" not in result.stderr


def test_somebody_elses_tables_are_left_alone(store: Store, database: str, tmp_path: Path) -> None:
    engine = sa.create_engine(store.url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('v3.0.0.d')"))
        connection.execute(sa.text("CREATE TABLE runs (run_uuid VARCHAR(32))"))
    take(store, *write_ranks(tmp_path, [A]))
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all() == ["v3.0.0.d"]
    engine.dispose()


@pytest.mark.parametrize("made", ["TABLE votes (who VARCHAR(32))", "VIEW votes AS SELECT 1 AS one"])
def test_a_foreign_table_of_our_name_is_refused(store: Store, cli: Cli, tmp_path: Path, made: str) -> None:
    engine = sa.create_engine(store.url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE {made}"))
    engine.dispose()
    with pytest.raises(SchemaError, match="already has a table 'votes' that is not ours"):
        take(store, *write_ranks(tmp_path, [A]))
    upgraded = cli("db", "upgrade")
    assert (upgraded.exit_code, "that is not ours" in upgraded.stderr) == (1, True)
    assert store.revision() is None
