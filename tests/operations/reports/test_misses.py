"""Misses of pinned runs, on every database: which are found, what counts, how they are shown."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from tests.conftest import Cli, Json, config, version_1, write_recording
from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.reports.misses import find_misses
from tuning_registry.operations.runs import restore_run, withdraw_run

A = config(B=16)


def record(
    store: Store, folder: Path, run: str, rank: int, observed: Json, votes: Json | None = None, **options: bool
) -> None:
    """One rank's recording: `{arch: {kernel: {key: reason}}}` as observations, and perhaps votes."""
    observations = {
        arch: {kernel: {key: {"config": A, "reason": reason} for key, reason in keys.items()}
               for kernel, keys in kernels.items()}
        for arch, kernels in observed.items()
    }  # fmt: skip
    document = version_1(votes or {}, run=run, rank=rank, observations=observations)
    path = write_recording(folder / f"{run}.rank{rank}.json", document)
    ingest(store, [path], IngestOptions(**options))  # type: ignore[arg-type]


def vote(store: Store, folder: Path, kernel: str, key: str, run: str = "recorded", arch: str = "sm90") -> None:
    ingest(store, [write_recording(folder / "v.json", version_1({arch: {kernel: {key: A}}}, run=run))])


def found(store: Store, selection: Selection | None = None, **options: bool) -> list[tuple[object, ...]]:
    """Kernel, key, reason, ranks, runs, recorded of every miss."""
    misses, _ = find_misses(store, selection or Selection(), **options)
    return [(m.kernel, m.key, m.reason, m.ranks, m.runs, m.recorded) for m in misses]


def missing(*pairs: tuple[str, str], kernel: str = "p.k", arch: str = "sm90") -> Json:
    return {arch: {kernel: {key: f"miss: {reason}" for key, reason in pairs}}}


def test_misses_are_counted_by_entry_and_reason_over_ranks_and_runs(store: Store, tmp_path: Path) -> None:
    for run, rank in (("a", 0), ("a", 1), ("b", 0)):
        record(store, tmp_path, run, rank, missing(("M=1", "no key")))
    record(store, tmp_path, "b", 1, missing(("M=1", "not a candidate"), ("M=2", "no table")))
    assert found(store) == [
        ("p.k", "M=1", "no key", 3, 2, False),
        ("p.k", "M=1", "not a candidate", 1, 1, False),
        ("p.k", "M=2", "no table", 1, 1, False),
    ]


def test_other_observations_are_no_misses(store: Store, tmp_path: Path) -> None:
    seen = {"sm90": {"p.k": {"M=1": "single candidate", "M=2": "MISS: no key", "M=3": "chaos", "M=4": "miss:no key"}}}
    record(store, tmp_path, "a", 0, seen)
    assert find_misses(store, Selection()) == ([], True)


def test_withdrawn_runs_and_superseded_recordings_do_not_count(store: Store, tmp_path: Path) -> None:
    record(store, tmp_path, "a", 0, missing(("M=1", "no key")))
    record(store, tmp_path, "a", 0, missing(("M=2", "no key")), replace=True)
    record(store, tmp_path, "b", 0, missing(("M=2", "no key"), ("M=3", "no key")))
    assert found(store) == [("p.k", "M=2", "no key", 2, 2, False), ("p.k", "M=3", "no key", 1, 1, False)]
    withdraw_run(store, "b")
    assert found(store) == [("p.k", "M=2", "no key", 1, 1, False)]
    restore_run(store, "b")
    assert len(found(store)) == 2


def test_an_entry_is_recorded_once_a_vote_counts_on_a_spelling_of_its_key(store: Store, tmp_path: Path) -> None:
    record(store, tmp_path, "a", 0, missing(("M=True", "no key"), ("M=2", "no key")))
    record(store, tmp_path, "a", 1, missing(("M=1.0", "no key")))
    vote(store, tmp_path, "p.k", "M=1")
    vote(store, tmp_path, "other.k", "M=2", run="another kernel")
    vote(store, tmp_path, "p.k", "M=2", run="another arch", arch="sm103")
    unrecorded = ("p.k", "M=2", "no key", 1, 1, False)
    assert found(store) == [("p.k", "M=1.0", "no key", 2, 1, True), unrecorded]
    assert found(store, unrecorded=True) == [unrecorded]
    # The filter is about who missed; who voted since is asked of every run.
    assert found(store, Selection(runs=("a",)))[0][-1] is True
    withdraw_run(store, "recorded")
    assert [row[-1] for row in found(store)] == [False, False]


def test_filters_and_whether_anything_matched(store: Store, tmp_path: Path) -> None:
    record(store, tmp_path, "a", 0, missing(("M=1", "no key")))
    record(store, tmp_path, "b", 0, missing(("M=1", "no table"), arch="sm103", kernel="q.k2"))
    vote(store, tmp_path, "p.quiet", "M=1")

    def ask(**filters: object) -> tuple[list[str], bool]:
        misses, matched = find_misses(store, Selection(**filters))  # type: ignore[arg-type]
        return [miss.kernel for miss in misses], matched

    assert ask(arch="SM_103") == (["q.k2"], True)
    assert ask(kernel="k2") == (["q.k2"], True)
    assert ask(kernel="p.k", runs=("b",)) == ([], True)
    assert ask(runs=("b", "c")) == (["q.k2"], True)
    assert ask(kernel="quiet") == ([], True)
    assert ask(runs=("c",)) == ([], False)
    assert ask(arch="sm999") == ([], False)
    assert ask(kernel="q.k") == ([], False)


def test_the_command_in_its_formats(cli: Cli, store: Store, tmp_path: Path) -> None:
    record(store, tmp_path, "a", 0, missing(("M=1|torch.bfloat16", "no key"), ("M=2", "no table")))
    vote(store, tmp_path, "p.k", "M=2")
    shown = cli("misses")
    assert shown.stdout == (
        "RANKS  RUNS  RECORDED  REASON    ARCH  KERNEL  KEY\n"
        "1      1     no        no key    sm90  p.k     M=1|torch.bfloat16\n"
        "1      1     yes       no table  sm90  p.k     M=2\n"
    )
    assert shown.stderr.endswith("2 missed entries, 1 of them without a vote\n")
    entry = {"arch": "sm90", "kernel": "p.k", "key": "M=2", "reason": "no table", "nearest": "", "ranks": 1, "runs": 1}
    assert json.loads(cli("misses", "--format", "json").stdout)[1] == {**entry, "recorded": True}
    rows = list(csv.DictReader(io.StringIO(cli("misses", "--unrecorded", "--format", "csv").stdout)))
    assert rows == [{**entry, "key": "M=1|torch.bfloat16", "reason": "no key", "ranks": "1", "runs": "1",
                     "recorded": "false"}]  # fmt: skip


def test_the_command_is_a_gate(cli: Cli, store: Store, tmp_path: Path) -> None:
    record(store, tmp_path, "a", 0, missing(("M=2", "no table")))
    vote(store, tmp_path, "p.k", "M=2")

    def gate(*options: str) -> tuple[int, str]:
        ended = cli("misses", "--exit-code", *options)
        return ended.exit_code, ended.stderr.splitlines()[-1]

    assert gate() == (1, "1 missed entry, 0 of them without a vote")
    assert gate("--unrecorded") == (0, "every missed entry has a vote")
    assert gate("--run", "recorded") == (0, "no misses were recorded")
    status, said = gate("--run", "mistyped")
    assert (status, said.partition(". ")[0]) == (1, "no recordings match")
    assert cli("misses").exit_code == 0
    assert cli("misses", "--kernel", "").exit_code == 2


def test_a_miss_that_recording_cannot_mend_is_explained(cli: Cli, store: Store, tmp_path: Path) -> None:
    record(store, tmp_path, "a", 0, missing(("M=2", "ambiguous config")))
    assert "differ only in their pre_hook" in cli("misses").stderr
    assert "pre_hook" not in cli("misses", "--kernel", "q.k").stderr
