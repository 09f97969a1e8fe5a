"""The evidence of an export, ties that the timings decide, and what check, diff and validate say about them."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, Json, config, version_1, write_recording
from tests.helpers import take
from tests.operations.tables.test_differences import EVERYTHING, A, B, C, exported
from tuning_registry import Registry
from tuning_registry.db.store import Store
from tuning_registry.errors import UsageError
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_problems import validate_table
from tuning_registry.model.canonical import config_text, text_digest
from tuning_registry.model.selection import Selection
from tuning_registry.model.slowdowns import FAILED
from tuning_registry.operations.runs import withdraw_run
from tuning_registry.operations.tables.checking import check_table
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.operations.tables.export_log import list_exports
from tuning_registry.rules.evidence import Ties, fastest_of_tie
from tuning_registry.rules.table_diff import other_changes

SM90 = Selection(arch="sm90")
Timed = dict[str, list[tuple[Json, float | None]]]  # by key: the candidates with their medians, None if they failed


def timed(folder: Path, ranks: list[tuple[Json, Timed]], run: str = "job-1", kernel: str = "p.k") -> Path:
    """One recording a rank: what it chose for every key, and what it timed."""
    for rank, (chosen, keys) in enumerate(ranks):
        timings = {key: [[c, None if ms is None else [ms] * 3] for c, ms in row] for key, row in keys.items() if row}
        document = version_1({"sm90": {kernel: dict.fromkeys(keys, chosen)}}, rank=rank, run=run,
                             timings={"sm90": {kernel: timings}} if timings else {})  # fmt: skip
        write_recording(folder / f"{run}.rank{rank}.json", document)
    return folder


def rows(made: TunedTable, kernel: str = "p.k") -> dict[str, dict[str, int]]:
    names = {config_text(chosen): name for name, chosen in {"A": A, "B": B, "C": C}.items()}
    found = made.evidence.get(kernel)
    return {} if found is None else {key: {names[t]: n for t, n in row.items()} for key, row in found.items()}


def test_the_evidence_is_the_median_over_ranks_relative_to_the_fastest(store: Store, tmp_path: Path) -> None:
    ranks: list[tuple[Json, Timed]] = [
        (A, {"M=1": [(A, 1.0), (B, 1.5), (C, None)], "M=2": [(A, 2.0), (B, None)], "M=3": [], "M=4": [(A, 1.0)],
             "M=5": [(A, None), (B, None)]}),
        (A, {"M=1": [(A, 2.0), (B, 1.5), (C, None)], "M=2": [(A, 2.0), (B, None)]}),
        (A, {"M=1": [(A, 1.5), (B, 99.0), (C, 1.0)], "M=2": [(A, 30.0), (B, 1.0)]}),
    ]  # fmt: skip
    take(store, timed(tmp_path, ranks), run=None)
    made = exported(store)
    assert rows(made) == {"M=1": {"A": 0, "B": 0, "C": FAILED}, "M=2": {"A": 0, "B": FAILED}}
    assert export_table(store, SM90).evidence.keys == 2


def test_the_evidence_of_real_ranks_is_what_an_independent_script_finds(store: Store) -> None:
    take(store, H200)
    made = exported(store)
    ranks = [json.loads((H200 / f"timings.rank{rank}.json").read_text())["sm90"] for rank in range(8)]
    checked = 0
    for kernel, keys in ranks[0].items():
        for key in keys:
            times: dict[str, list[float]] = {}
            for rank in ranks:
                for candidate, three in rank[kernel][key]:
                    times.setdefault(config_text(candidate), []).append(math.inf if three is None else three[0])
            medians = {text: statistics.median(found) for text, found in times.items()}
            best = min(medians.values())
            row = made.evidence[kernel][key]
            assert row.keys() == medians.keys()
            for text, median in medians.items():
                wanted = FAILED if math.isinf(median) else min(999, 100 * (median / best - 1))
                assert abs(row[text] - wanted) <= 0.5, (kernel, key, text)
                checked += 1
    assert checked == 436


def test_without_evidence_the_bytes_are_those_of_a_database_without_timings(store: Store, tmp_path: Path) -> None:
    ranks: list[tuple[Json, Timed]] = [(A, {"M=1": [(A, 1.0), (B, 2.0)]})] * 2
    take(store, timed(tmp_path / "timed", ranks), run=None)
    bare = Registry(tmp_path / "bare.db")
    bare.ingest(timed(tmp_path / "bare", [(A, {"M=1": []})] * 2))
    plain = export_table(store, SM90, ExportOptions(evidence=False))
    assert plain.data == bare.export("sm90").details.data
    full = export_table(store, SM90)
    assert full.digest == plain.digest == plain.selection_digest != full.selection_digest
    assert {**full.payload, "tuning_registry": 0} == {**plain.payload, "tuning_registry": 0}


def megatron_lookup(file: Path, arch: str, kernel: str, key: str, candidates: list[Any]) -> Any:
    """How Megatron's loader reads a table, restated: it knows `arch` and `kernels`, and compares three fields."""
    payload = json.loads(file.read_text())
    stored = payload["kernels"].get(kernel, {}).get(key) if payload["arch"] == arch else None
    fields = ("kwargs", "num_warps", "num_stages")
    return next((one for one in candidates if stored and all(one[name] == stored[name] for name in fields)), None)


def test_a_loader_that_knows_no_evidence_reads_the_table(tmp_path: Path) -> None:
    with Registry(tmp_path / "r.db") as registry:
        registry.ingest(timed(tmp_path / "rec", [(B, {"M=1": [(A, 1.0), (B, 2.0)]})], kernel="k"))
        for evidence in (True, False):
            file = tmp_path / f"{evidence}.json"
            registry.export("sm90", evidence=evidence).write(file)
            assert ("evidence" in json.loads(file.read_text())["tuning_registry"]) == evidence
            assert megatron_lookup(file, "sm90", "k", "M=1", [A, B, C]) is B
            assert megatron_lookup(file, "sm90", "k", "M=2", [A, B, C]) is None


def test_withdrawn_runs_and_kernels_that_a_star_serves_have_no_evidence(store: Store, tmp_path: Path) -> None:
    take(store, timed(tmp_path, [(A, {"M=1": [(A, 1.0), (B, 2.0)], "M=2": [(A, 1.0), (B, 3.0)]})]), run=None)
    take(store, timed(tmp_path / "late", [(A, {"M=1": [(A, 9.0), (B, 1.0)]})], run="late"), run=None)
    assert rows(exported(store))["M=1"] == {"A": 233, "B": 0}
    assert rows(exported(store, Selection(arch="sm90", runs=("job-1",))))["M=1"] == {"A": 0, "B": 100}
    withdraw_run(store, "late")
    assert rows(exported(store)) == {"M=1": {"A": 0, "B": 100}, "M=2": {"A": 0, "B": 200}}
    star = exported(store, generalize_percent=1.0)
    assert list(star.texts["p.k"]) == ["*"]
    assert "evidence" not in star.provenance["tuning_registry"]


def test_equal_evidence_has_equal_bytes_on_every_database(store: Store, tmp_path: Path) -> None:
    take(store, H200, run="h")
    with Registry(tmp_path / "other.db") as other:
        for rank in reversed(range(8)):
            other.ingest([H200 / f"rec.rank{rank}.json", H200 / f"timings.rank{rank}.json"], run="h")
        assert other.export("sm90").details.data == export_table(store, SM90).data


@pytest.mark.parametrize(
    ("medians", "wanted"),
    [
        ({"a": 2.0, "b": 1.0}, "b"),
        ({"a": 2.0, "b": 1.0, "c": 0.5}, "b"),  # c has fewer votes
        ({"a": 2.0, "b": math.inf}, "a"),
        ({"a": 1.0, "b": 1.0}, None),
        ({"a": math.inf, "b": math.inf}, None),
        ({"a": 1.0}, None),
        ({}, None),
    ],
)
def test_timings_decide_a_tie_if_they_know_every_config_and_one_is_the_fastest(
    medians: dict[str, float], wanted: str | None
) -> None:
    assert fastest_of_tie(["a", "b"], medians) == wanted


def test_ties_go_to_the_smallest_text_unless_the_fastest_is_asked_for(store: Store, tmp_path: Path) -> None:
    keys: Timed = {"M=1": [(A, 2.0), (B, 1.0), (C, 0.5)], "M=2": [(A, 1.0), (B, 2.0)], "M=3": []}
    take(store, timed(tmp_path, [(A, keys), (B, keys)]), run=None)
    text = {name: config_text(one) for name, one in {"A": A, "B": B}.items()}
    plain, by_time = exported(store), exported(store, ties="fastest")
    assert plain.texts["p.k"] == dict.fromkeys(("M=1", "M=2", "M=3"), text["A"])
    assert by_time.texts["p.k"] == {"M=1": text["B"], "M=2": text["A"], "M=3": text["A"]}
    ours = by_time.provenance["tuning_registry"]
    assert (ours["ties"], ours["ties_by_time"]) == ("fastest", 2)
    assert "ties" not in plain.provenance["tuning_registry"]
    made = export_table(store, SM90, ExportOptions(ties="fastest"))
    assert (made.ties, made.ties_by_time, made.to_dict()["ties_by_time"]) == (1, 2, 2)
    assert check_table(store, by_time, EVERYTHING, installed=lambda name: "").problems == []
    assert [one.filters for one in list_exports(store)] == [{"ties": "fastest"}, {}]
    by_policy = export_table(store, SM90, ExportOptions(policy="fastest", ties="fastest"))
    assert by_policy.ties_by_time == 0
    with pytest.raises(UsageError, match="unknown rule for ties 'slowest'; expected text, fastest"):
        ExportOptions(ties="slowest")


def test_a_majority_and_a_ban_come_before_the_time_of_a_tie(store: Store, tmp_path: Path) -> None:
    keys: Timed = {"M=1": [(A, 3.0), (B, 2.0), (C, 1.0)]}
    take(store, timed(tmp_path, [(A, keys), (B, keys), (C, keys), (A, keys)]), run=None)
    assert exported(store, ties=Ties.FASTEST).texts["p.k"]["M=1"] == config_text(A)
    with Registry(tmp_path / "r.db") as registry:
        registry.ingest(timed(tmp_path / "two", [(B, keys), (C, keys), (A, keys)]))
        registry.ban("sm90", "p.k", "M=1", C, reason="wrong results")
        made = registry.export("sm90", ties="fastest")
        assert made.table.texts["p.k"]["M=1"] == config_text(B)
        assert made.details.ties_by_time == 1


def test_check_and_diff_name_evidence_that_differs_alone(cli: Cli, tmp_path: Path) -> None:
    folder = timed(tmp_path / "rec", [(A, {"M=1": [(A, 1.0), (B, 2.0)], "M=2": [(A, 1.0), (B, 3.0)]})])
    assert cli("ingest", folder).exit_code == 0
    file, without, edited = tmp_path / "sm90.json", tmp_path / "without.json", tmp_path / "edited.json"
    said = cli("export", "--arch", "sm90", "-o", file).stderr
    assert "evidence on 2 keys (0.2 kB), used for keys that are not in the table\n" in said
    digest = json.loads(file.read_text())["tuning_registry"]["selection_digest"]
    assert f"digest {digest[:16]}\n" in said
    assert "2 entries match the votes" in cli("check", file).stderr
    assert cli("export", "--arch", "sm90", "--no-evidence", "-o", without).exit_code == 0
    assert "2 entries match the votes" in cli("check", without).stderr

    both = cli("diff", without, file, "--exit-code")
    assert (both.exit_code, both.stdout) == (1, "")
    assert both.stderr.splitlines()[-2:] == [
        "note: only the new table has evidence, so keys without an entry may get another config",
        f"{without} and {file}: no entry differs",
    ]
    document = json.loads(file.read_text())
    row = document["tuning_registry"]["evidence"]["kernels"]["p.k"]["slowdowns"]
    row[text_digest("M=2")[:12]] = "0 7"
    edited.write_text(json.dumps(document))
    assert "note: the evidence differs for 1 key, so" in cli("diff", file, edited).stderr
    assert "no differences" in cli("diff", file, file, "--exit-code").stderr
    found = cli("check", edited)
    assert found.exit_code == 1
    first, second = found.stdout.splitlines()
    assert first.startswith("edited: its bans and evidence give the selection digest ")
    assert second == "header: the evidence differs for 1 key, so keys without an entry may get another config"
    assert f"the string '{digest[:37]}...' is not the digest" in cli("validate", edited).stdout

    more = timed(tmp_path / "more", [(A, {"M=1": [(A, 1.0), (B, 7.0)]})], run="more")
    assert cli("ingest", more).exit_code == 0
    assert cli("check", file).exit_code == 0  # later votes and timings are no problem
    late = cli("diff", file)
    assert "note: the evidence differs for 1 key" in late.stderr
    assert (late.stdout, "no entry differs" in late.stderr) == ("", True)


def test_bans_and_rules_for_ties_that_differ_are_named(cli: Cli, tmp_path: Path) -> None:
    keys: Timed = {"M=1": [(A, 2.0), (B, 1.0)]}
    assert cli("ingest", timed(tmp_path / "rec", [(A, keys), (B, keys)])).exit_code == 0
    plain, by_time, banned = (tmp_path / f"{name}.json" for name in ("plain", "by_time", "banned"))
    cli("export", "--arch", "sm90", "-o", plain)
    said = cli("export", "--arch", "sm90", "--ties", "fastest", "-o", by_time).stderr
    assert "timings decided 1 of 1 tie\n" in said
    assert "note: ties: text -> fastest" in cli("diff", plain, by_time).stderr
    assert "ties=fastest" in cli("exports").stdout
    assert cli("ban", "--arch", "sm90", "--kernel", "p.k", "--key", "M=1", "--config", json.dumps(C), "--reason", "r",
               "--force").exit_code == 0  # fmt: skip
    cli("export", "--arch", "sm90", "-o", banned)
    compared = cli("diff", plain, banned, "--exit-code")
    assert compared.exit_code == 1
    assert "note: the bans differ: 0 only in the old table, 1 only in the new one\n" in compared.stderr


def test_another_selection_rule_is_named() -> None:
    old, new = (TunedTable("sm90", {"k": {"M=1": A}}, {"tuning_registry": {"selection_rule": rule}}) for rule in (1, 2))
    assert other_changes(old, new) == ["the selection rule changes from version 1 to version 2"]
    assert other_changes(old, old) == []


def test_validate_names_every_bad_row_of_the_evidence(store: Store, tmp_path: Path) -> None:
    keys: Timed = {f"M={n}": [(A, 1.0), (B, 2.0)] for n in range(5)}
    take(store, timed(tmp_path, [(A, keys)]), run=None)
    document = json.loads(export_table(store, SM90).data)
    evidence = document["tuning_registry"]["evidence"]
    cells = evidence["kernels"]["p.k"]["slowdowns"]
    gone, *bad = (text_digest(f"M={n}")[:12] for n in (9, 1, 2, 3))
    cells |= {gone: "0 5", bad[0]: "0 1000", bad[1]: "0", bad[2]: "7 5"}
    file = tmp_path / "sm90.json"

    def found() -> list[tuple[str, str, str, str]]:
        file.write_text(json.dumps(document))
        return [
            (one.kernel, one.key, one.field.rpartition("/")[2], one.problem) for one in validate_table(file).problems
        ]

    assert found() == [
        ("p.k", "M=1", bad[0], "found the string '1000'"),
        ("p.k", "M=2", bad[1], "found the string '0'"),
    ]
    cells |= {bad[0]: "0 1", bad[1]: "0 x"}
    assert found() == [("p.k", "M=3", "evidence", "no candidate is the fastest")]
    evidence["kernels"]["p.k"]["configs"] = ["[[]]"]
    assert found() == [("p.k", "", "0", "expected an array of names, options and candidates")]
    evidence["version"] = 7
    ((kernel, _, field, problem),) = found()
    assert (kernel, field, problem) == ("", "version", "found the integer 7; a newer tuning-registry may read it")


@pytest.mark.parametrize("candidates", [2, 40])
def test_a_row_costs_a_few_bytes_a_candidate(tmp_path: Path, candidates: int) -> None:
    with Registry(tmp_path / "r.db") as registry:
        configs = [config(B=n) for n in range(candidates)]
        keys: Timed = {f"M={n}": [(c, 1.0 + i) for i, c in enumerate(configs)] for n in range(50)}
        registry.ingest(timed(tmp_path / "rec", [(configs[0], keys)]))
        size = registry.export("sm90").details.evidence.size
    assert size < 50 * (30 + 4 * candidates) + 40 * candidates + 200


def test_progress_is_told_of_entries_and_of_kernels(store: Store) -> None:
    take(store, H200, run="h200", triton="3.6.0")
    seen: list[int] = []

    def track(items: Any) -> Any:
        seen.append(len(items))
        return iter(items)

    made = export_table(store, SM90, ExportOptions(policy="fastest"), track)
    assert seen == [45, len(made.payload["kernels"])]
    assert made.data == export_table(store, SM90, ExportOptions(policy="fastest")).data
