"""Winners and disagreements, on every database."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.conftest import H200, config, write_ranks, write_recording
from tests.helpers import take
from tuning_registry import merge_records
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import find_disagreements
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.runs import withdraw_run
from tuning_registry.operations.tables.export import export_table

REAL = sorted(H200.glob("rec.rank*.json"))
A, B = config(B=16), config(B=8, num_warps=8)


def test_real_recordings_give_the_independent_majority(store: Store) -> None:
    report = take(store, *REAL, triton="3.6.0")
    assert (report.new, report.votes, report.new_entries, report.already) == (8, 360, 45, 0)
    made = export_table(store, Selection(arch="sm90"))
    assert made.payload["kernels"] == merge_records(REAL)["sm90"]
    assert (made.entries, made.disagreements, made.dropped) == (45, 12, 0)
    assert len(find_disagreements(store, Selection())[0]) == 12
    assert made.payload["tuning_registry"]["weakest_agreement"] == [3, 8]
    assert made.payload["triton"] == "3.6.0"


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
    with pytest.raises(SelectionError, match=r"fla-core 0\.5\.0 \(1 vote\), 0\.6\.0 \(1 vote\)"):
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
    with pytest.raises(
        SelectionError, match="--package nope: no recorded kernel belongs to this package; .*fla-core, mamba-ssm"
    ):
        find_winners(store, Selection(packages={"nope": "1"}))
