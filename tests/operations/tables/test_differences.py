"""`registry diff`, on every database: what changed between tables, and why."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import H200, Cli, Json, config, run_registry, version_1, write_ranks, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import TableError
from tuning_registry.formats.table import TunedTable, read_table, table_bytes, table_payload
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import ingest
from tuning_registry.operations.overrides import add_override, lift_override
from tuning_registry.operations.tables.checking import check_table
from tuning_registry.operations.tables.differences import compare_tables, compare_with_votes
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.operations.tables.export_log import remember_export
from tuning_registry.rules.overrides import BAN, PIN
from tuning_registry.rules.table_diff import diff_tables

A, B, C = config(B=1), config(B=2), config(B=3)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
EVERYTHING = Selection()


def table(kernels: Json, **provenance: object) -> TunedTable:
    return TunedTable("sm90", kernels, provenance)


def changes(old: Json, new: Json) -> list[tuple[str, str, str | None, str | None, bool]]:
    names = {config_text(chosen): name for name, chosen in {"A": A, "B": B, "C": C}.items()}
    found = diff_tables(table({"k": old}), table({"k": new}))
    return [(c.change, c.key, names.get(c.old or ""), names.get(c.new or ""), c.is_inherited) for c in found]


def exported(store: Store, selection: Selection | None = None, log: bool = True, **options: object) -> TunedTable:
    """A table as `registry export` writes it, read back."""
    asked = selection or Selection(arch="sm90")
    made_by = ExportOptions(**options)  # type: ignore[arg-type]
    made = export_table(store, asked, made_by)
    if log:
        remember_export(store, made, asked, made_by, output="t.json", exported_by="me", now=NOW)
    payload = json.loads(made.data)
    return TunedTable(payload.pop("arch"), payload.pop("kernels"), payload)


def override(store: Store, action: str, chosen: Json, until: str | None = None) -> int:
    made = add_override(store, action, arch="sm90", kernel="k", key="M=1", config=json.dumps(chosen), reason="numerics",
                        author="me", now=NOW, until=until)  # fmt: skip
    return made.id


def test_entries_are_added_dropped_and_changed() -> None:
    assert changes({"M=1": A, "M=2": A, "M=3": A}, {"M=1": A, "M=2": B, "M=4": C}) == [
        ("changed", "M=2", "A", "B", False),
        ("dropped", "M=3", "A", None, False),
        ("added", "M=4", None, "C", False),
    ]
    assert changes({"M=1": A}, {"M=1": dict(reversed(A.items()))}) == []


def test_spellings_and_keys_without_names_are_one_key() -> None:
    assert changes({"M=True|torch.float32": A}, {"M=1|torch.float32": A}) == []
    assert changes({"?=1|?=64": A}, {"M=True|N=64": B}) == [("changed", "M=True|N=64", "A", "B", False)]
    assert changes({"M=True|N=64": A}, {"?=1|?=64": A}) == []


def test_what_a_wider_entry_serves_is_told() -> None:
    assert changes({"M=1": A, "M=2": B}, {"*": A}) == [
        ("added", "*", None, "A", False),
        ("dropped", "M=1", "A", "A", True),
        ("dropped", "M=2", "B", "A", True),
    ]


entries = st.dictionaries(st.sampled_from(["M=1", "M=True", "M=2", "*"]), st.sampled_from([A, B]))


@given(entries, entries)
def test_the_other_way_round_every_change_is_reversed(old: Json, new: Json) -> None:
    turned = {"added": "dropped", "dropped": "added", "changed": "changed"}
    there = {(c.change, c.old, c.new) for c in diff_tables(table({"k": old}), table({"k": new}))}
    back = {(turned[c.change], c.new, c.old) for c in diff_tables(table({"k": new}), table({"k": old}))}
    assert diff_tables(table({"k": old}), table({"k": old})) == []
    # Two spellings of one key in one table may be paired either way.
    assert there == back or any({"M=1", "M=True"} <= keys.keys() for keys in (old, new))


def timed_ranks(store: Store, folder: Path) -> None:
    """Three ranks for A and one for B, which is half as fast."""
    for rank, chosen in enumerate([A, A, A, B]):
        timings = {"sm90": {"k": {"M=1": [[A, [1.0] * 3], [B, [2.0] * 3]]}}}
        document = version_1({"sm90": {"k": {"M=1": chosen, "M=2": A}}}, rank=rank, timings=timings)
        ingest(store, [write_recording(folder / f"rec.rank{rank}.json", document)])


def test_each_change_has_its_evidence_and_its_cause(store: Store, tmp_path: Path) -> None:
    timed_ranks(store, tmp_path)
    before = exported(store)
    assert compare_with_votes(store, before, EVERYTHING).changes == []
    pin = override(store, PIN, B)
    (found,) = compare_with_votes(store, before, EVERYTHING).changes
    assert (found.old, found.new) == (config_text(A), config_text(B))
    assert (found.old_votes, found.new_votes, found.votes, found.slower_percent) == (3, 1, 4, 100.0)
    assert found.override is not None
    assert found.override.id == pin
    lift_override(store, pin, reason="no more", author="me", now=NOW)
    ban = override(store, BAN, A)
    (banned,) = compare_with_votes(store, before, EVERYTHING).changes
    assert banned.override is not None
    assert (banned.override.id, banned.new) == (ban, config_text(B))
    (between,) = compare_tables(before, exported(store), store, EVERYTHING)
    assert between == banned
    assert compare_tables(before, exported(store), None, EVERYTHING) == [
        replace(between, old_votes=None, new_votes=None, votes=None, slower_percent=None, override=None)
    ]


def test_a_table_is_compared_with_the_filters_of_its_own_export(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A, A, A]), run="one", triton="3.6.0")
    take(store, *write_ranks(tmp_path / "2", [B, B, B]), run="two", triton="3.7.0")
    first = Selection(arch="sm90", runs=("one",))
    logged = compare_with_votes(store, exported(store, first, min_votes=2), EVERYTHING)
    assert (logged.changes, logged.selection, logged.logged_at) == ([], first, "2026-01-01T00:00:00.000000+00:00")
    given = compare_with_votes(store, exported(store, first), Selection(triton="3.7.0"))
    assert ([one.new for one in given.changes], given.logged_at) == ([config_text(B)], None)
    # An edited table is still the one that was exported.
    edited = exported(store, first)
    edited = TunedTable("sm90", {"k": {"M=1": C}}, edited.provenance)
    assert [one.old for one in compare_with_votes(store, edited, EVERYTHING).changes] == [config_text(C)]


@pytest.mark.parametrize("options", [{"policy": "fastest"}, {"generalize_percent": 5.0}, {"policy": "minimax"}])
def test_policy_and_star_entries_are_the_tables_own(store: Store, options: Json) -> None:
    take(store, H200, triton="3.6.0")
    assert compare_with_votes(store, exported(store, log=False, **options), EVERYTHING).changes == []


def test_tables_that_cannot_be_compared_are_refused(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    with pytest.raises(TableError, match="different architectures: sm90 and sm80"):
        compare_tables(table({}), TunedTable("sm80", {}), None, EVERYTHING)
    odd = [({"policy": ["x"]}, "the policy"), ({"generalized": {"percent": True}}, "is not a percentage"),
           ({"generalized": {"percent": -1}}, "is not a percentage"), ({"generalized": 5}, "is not a percentage"),
           ({"generalized": {"percent": float("nan")}}, "is not a percentage"),
           ({"generalized": {"percent": 10**400}}, "is not a percentage"),
           ({"generalized": {"percent": float("inf")}}, "is not a percentage")]  # fmt: skip
    for ours, message in odd:
        with pytest.raises(TableError, match=message):
            compare_with_votes(store, table({"k": {"M=1": A}}, tuning_registry=ours), EVERYTHING)


def test_diff_in_its_formats(cli: Cli, store: Store, tmp_path: Path) -> None:
    timed_ranks(store, tmp_path / "in")
    path = tmp_path / "t.json"
    assert cli("export", "--arch", "sm90", "-o", path).exit_code == 0
    same = cli("diff", path, "--exit-code")
    assert (same.exit_code, same.stdout) == (0, "")
    assert same.stderr.endswith(f"{path} and the current votes: no differences\n")
    number = override(store, PIN, B)
    shown = cli("diff", path, "--exit-code")
    assert shown.exit_code == 1
    assert shown.stdout == (
        "changed  k\n      M=1\n    - 3/4  B=1 num_warps=4 num_stages=3\n"
        f"    + 1/4  B=2 num_warps=4 num_stages=3  [100.0 % slower by the timings]  [#{number} pin: numerics]\n"
    )
    (row,) = json.loads(cli("diff", path, "--format", "json").stdout)
    assert row["override"]["id"] == number
    assert (row["old_config"], row["new_config"], row["change"], row["inherited"]) == (A, B, "changed", False)
    (line,) = csv.DictReader(io.StringIO(cli("diff", path, "--format", "csv").stdout))
    assert (line["old_config"], line["new_votes"], line["total_votes"], line["slower_than_old_percent"]) == (
        config_text(A),
        "1",
        "4",
        "100.0",
    )
    assert line["override"] == f"#{number} pin: numerics"


def test_two_files_are_compared_without_any_database(tmp_path: Path) -> None:
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    one.write_bytes(table_bytes(table_payload("sm90", {"k": {"M=1": A}}, triton="3.6.0")))
    two.write_bytes(table_bytes(table_payload("sm90", {"k": {"M=1": B}}, triton="3.7.0")))
    database = tmp_path / "none.db"
    for url in (database, "postgresql://nobody@127.0.0.1:1/none"):
        done = run_registry("--db", url, "diff", one, two, "--exit-code")
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert done.stdout.startswith("changed  k\n      M=1\n    - B=1 ")
        assert "showing the changes without votes and timings" in done.stderr
        assert "note: triton: 3.6.0 -> 3.7.0" in done.stderr
    assert not database.exists()
    assert run_registry("--db", database, "diff", one, one, "--exit-code").returncode == 0
    for command in (("diff", one), ("check", one)):  # these two need the votes
        done = run_registry("--db", database, *command)
        assert (done.returncode, "there is no registry here yet" in done.stderr) == (1, True)
    assert not database.exists()
    assert read_table(one).digest != read_table(two).digest


@pytest.mark.parametrize("percent", [float("inf"), float("nan"), 10**400, -1, True, "3", None])
def test_a_table_that_states_no_finite_percentage(store: Store, tmp_path: Path, percent: object) -> None:
    write_ranks(tmp_path, [A, A])
    take(store, tmp_path)
    stated = {"tuning_registry": {"generalized": {"percent": percent}}}
    found = check_table(store, table({"k": {"M=1": A}}, **stated), EVERYTHING)
    assert found.problems == ["votes: the table's generalized/percent is not a percentage of at least 0"]


@pytest.mark.parametrize("digest", ["\0", "\ud800", "%", "beginning"])
def test_a_table_whose_digest_is_none_is_compared_with_all_votes(store: Store, tmp_path: Path, digest: str) -> None:
    write_ranks(tmp_path, [A, A])
    take(store, tmp_path)
    made = export_table(store, Selection(arch="sm90"), ExportOptions(min_votes=2))
    remember_export(
        store, made, Selection(arch="sm90"), ExportOptions(min_votes=2), output="o", exported_by="ada", now=NOW
    )
    stated = made.payload["tuning_registry"]["digest"][:8] if digest == "beginning" else digest
    found = check_table(store, table({"k": {"M=1": A}}, tuning_registry={"digest": stated}), EVERYTHING)
    assert found.compared is not None
    assert found.compared.logged_at is None
    assert [problem.partition(":")[0] for problem in found.problems] == ["edited"]


def test_a_table_of_no_architecture_is_none(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "nameless.json"
    file.write_text(json.dumps({"arch": "", "kernels": {}}))
    for command in (["check", file], ["diff", file], ["diff", file, file]):
        refused = cli(*command)
        assert (refused.exit_code, "nameless.json: at arch: the name is empty" in refused.stderr) == (1, True)


def test_entries_that_a_wider_one_serves_alike_are_counted_and_not_shown(cli: Cli, tmp_path: Path) -> None:
    both = {"k": {"M=1": A, "M=2": A, "M=3": B}}
    for rank in range(2):
        write_recording(tmp_path / "in" / f"rec.rank{rank}.json", {"sm90": both})
    cli("ingest", tmp_path / "in", "--run", "demo")
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    cli("export", "--arch", "sm90", "-o", old)
    table_of = json.loads(old.read_text())
    table_of["kernels"] = {"k": {"*": A, "M=3": B}}
    new.write_text(json.dumps(table_of))
    shown = cli("diff", old, new)
    assert "1 added, 2 dropped; 2 not shown, since wider entries give the same config" in shown.stderr
    assert [line for line in shown.stdout.splitlines() if line.startswith(("added", "dropped"))] == ["added    k"]
    assert len(json.loads(cli("diff", old, new, "--format", "json").stdout)) == 3
