"""`registry check` on every database: whether a table is still good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import H200, Cli, Json, version_1, write_ranks, write_recording
from tests.helpers import take
from tests.operations.tables.test_differences import EVERYTHING, NOW, A, B, C, exported, override, table
from tuning_registry.db.store import Store
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import ingest
from tuning_registry.operations.overrides import add_override, lift_override
from tuning_registry.operations.tables.checking import TableCheck, check_table
from tuning_registry.operations.tables.differences import compare_with_votes
from tuning_registry.rules.overrides import BAN, PIN


def checked(store: Store, found: TunedTable, **versions: str) -> TableCheck:
    return check_table(store, found, EVERYTHING, "2026-06-01", lambda name: versions.get(name, ""))


def test_a_good_table_has_no_problem(store: Store) -> None:
    take(store, H200, triton="3.6.0")
    good = checked(store, exported(store), triton="3.6.0+rocm7")
    assert (good.problems, good.notes, good.entries) == ([], [], 45)
    assert checked(store, exported(store)).notes == [
        "versions not checked, because these are not installed here: triton"
    ]


def test_everything_that_speaks_against_a_table_is_one_line(store: Store, tmp_path: Path) -> None:
    for rank, candidates in enumerate(("a", "a", "b")):
        document = version_1({"sm90": {"p.k": {"M=1": A}}}, rank=rank, triton="3.6.0", packages={"p": "1.0"},
                             candidate_sets={"sm90": {"p.k": {"M=1": candidates * 64}}},
                             timings={"sm90": {"p.k": {"M=1": [[c, [1.0] * 3] for c in (A, C)]}}})  # fmt: skip
        ingest(store, [write_recording(tmp_path / f"rec.rank{rank}.json", document)])
    good = exported(store)
    add_override(store, PIN, arch="sm90", kernel="p.k", key="M=2", config=json.dumps(B), reason="r", author="me", now=NOW,
                 until="2026-05-31", force=True)  # fmt: skip
    edited = TunedTable("sm90", {"p.k": {"M=1": C}}, good.provenance)
    found = checked(store, edited, triton="3.7.0", p="2.0")
    assert [problem.partition(":")[0] for problem in found.problems] == [
        "edited", "changed", "added", "header", "expired", "stale", "version", "version",
    ]  # fmt: skip
    short = "num_warps=4 num_stages=3"
    assert found.problems[1:] == [
        f"changed: p.k M=1: B=3 {short} -> B=1 {short}, votes 0 -> 3 of 3, equally fast",
        f"added: p.k M=2: nothing -> B=2 {short}, votes 0 -> 0 of 0, because of #1 pin: r",
        (
            'header: overrides is [], but an export would now state [{"action": "pin", "config": {"ir_override": null, '
            '"kwargs": {"B": 2}, "maxnreg": null, "num_ctas...'
        ),
        f"expired: #1 pin of B=2 {short} for p.k M=2 on sm90 until 2026-05-31, me: r",
        "stale: p.k M=1: 2 recordings chose from other candidates than the newest recording",
        "version: recorded with triton 3.6.0, but 3.7.0 is installed",
        "version: recorded with p 1.0, but 2.0 is installed",
    ]


@pytest.mark.parametrize("log", [True, False])
def test_votes_of_other_versions_do_not_matter_to_a_table(store: Store, tmp_path: Path, log: bool) -> None:
    def record(run: str, chosen: Json, triton: str, package: str) -> None:
        document = version_1({"sm90": {"p.k": {"M=1": chosen}}}, run=run, triton=triton, packages={"p": package})
        ingest(store, [write_recording(tmp_path / f"{run}.rank0.json", document)])

    record("old", A, "3.6.0", "1.0")
    old = exported(store, log=log)
    record("new", B, "3.7.0", "1.0")
    new = exported(store, Selection(arch="sm90", triton="3.7.0"), log=log)
    record("newer", A, "3.7.0", "2.0")
    exported(store, Selection(arch="sm90", triton="3.7.0", packages={"p": "2.0"}), log=log)  # the entries of `old`
    for made in (old, new):
        found = checked(store, made, triton=made.provenance["triton"], p="1.0")
        assert found.problems == []
        assert found.compared is not None
        assert f"triton {made.provenance['triton']}" in found.compared.compared_with()


def test_votes_that_give_no_table_are_a_problem_of_their_own(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A]), run="one", triton="3.6.0")
    good = exported(store, log=False)
    take(store, *write_ranks(tmp_path / "2", [A]), run="two", triton="3.7.0")
    unstated = TunedTable("sm90", good.kernels, {**good.provenance, "triton": ""})
    (problem,) = checked(store, unstated).problems
    assert problem.startswith("votes: the votes come from several Triton versions")
    bare = checked(store, table({"k": {"M=1": A}}))
    assert bare.notes == [
        "the table states no digest, so edits cannot be detected",
        "the table does not state its triton version",
    ]


@pytest.mark.parametrize("version", ["9" * 5000, "[1]", "null", "1e999"])
def test_package_versions_that_are_no_text_are_told_in_words(cli: Cli, tmp_path: Path, version: str) -> None:
    write_ranks(tmp_path / "in", [A])
    cli("ingest", tmp_path / "in", "--run", "demo")
    good, odd = tmp_path / "t.json", tmp_path / "odd.json"
    cli("export", "--arch", "sm90", "-o", good)
    odd.write_text(good.read_text().replace('"packages": {}', f'"packages": {{"numpy": {version}}}'))
    shown = cli("diff", good, odd)
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "note: packages: not stated -> {'numpy': '" in shown.stderr
    found = cli("check", odd)
    assert (found.exit_code, found.stdout.startswith("header: packages is {")) == (1, True)


def test_check_is_a_gate(cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path / "in", [A, A, B])
    cli("ingest", tmp_path / "in", "--run", "demo")
    path = tmp_path / "t.json"
    cli("export", "--arch", "sm90", "-o", path)
    good = cli("check", path)
    assert (good.exit_code, good.stdout) == (0, "")
    assert good.stderr.endswith(f"{path}: OK: 1 entry matches the votes and overrides\n")
    write_ranks(tmp_path / "more", [B, B])
    cli("ingest", tmp_path / "more", "--run", "more")
    bad = cli("check", path)
    assert (bad.exit_code, len(bad.stdout.splitlines())) == (1, 1)
    assert bad.stdout.startswith("changed: k M=1: B=1 ")
    assert bad.stderr.endswith(f"{path}: 1 problem\n")
    assert cli("check", path, "--run", "demo").exit_code == 0
    assert cli("check", tmp_path / "missing.json").exit_code == 1


def test_absent_and_empty_versions_of_tables_are_no_change(cli: Cli, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps({"arch": "sm90", "kernels": {}}))
    new.write_text(json.dumps({"arch": "sm90", "kernels": {}, "triton": "", "packages": {}}))
    assert "not stated ->" not in cli("diff", old, new).stderr


def edited(table: TunedTable, **changes: object) -> TunedTable:
    """A table with other fields in its header; those of `tuning_registry` under their names with `our_` in front."""
    ours = {name.removeprefix("our_"): value for name, value in changes.items() if name.startswith("our_")}
    plain = {name: value for name, value in changes.items() if not name.startswith("our_")}
    provenance = {**table.provenance, **plain, "tuning_registry": {**table.provenance["tuning_registry"], **ours}}
    return TunedTable(table.arch, table.kernels, provenance)


def verdict(store: Store, table: TunedTable) -> TableCheck:
    return check_table(store, table, EVERYTHING, today="2026-01-01", installed=lambda name: "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"triton": "3.9.0"}, 'header: triton is "3.9.0", but an export would now state "3.6.0"'),
        ({"packages": {"k": "2"}}, 'header: packages is {"k": "2"}, but an export would now state {}'),
        ({"source": "elsewhere"}, 'header: source is "elsewhere", but an export would now state ""'),
        ({"our_weakest_agreement": [3, 3]}, "header: weakest_agreement is [3, 3], but an export would now state [2, 3]"),
        ({"our_overrides": [{"action": "ban", "kernel": "k", "key": "*", "config": {"num_warps": 32}, "reason": ""}]},
         "header: overrides is ["),
        ({"our_more": 1}, "header: more is 1, but an export would now state absent"),
    ],
)  # fmt: skip
def test_check_compares_the_header_with_the_votes(store: Store, tmp_path: Path, changes: Json, said: str) -> None:
    take(store, *write_ranks(tmp_path, [A, A, B]), triton="3.6.0")
    for log in (False, True):
        table = exported(store, log=log)
        assert verdict(store, table).problems == []
        *edits, problem = verdict(store, edited(table, **changes)).problems
        assert problem.startswith(said)
        assert [edit.partition(",")[0][:42] for edit in edits] == (
            ["edited: its bans and evidence give the sele"[:42]] if "our_overrides" in changes else []
        )


def test_check_compares_the_header_with_the_log(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A, A, B]))
    table = exported(store)
    take(store, *write_ranks(tmp_path / "more", [A, A]), run="more")
    assert verdict(store, table).problems == []  # later votes elect the same
    (problem,) = verdict(store, edited(table, our_recordings=999)).problems
    assert problem == (
        'header: the table states 999 recordings of ["demo"], policy "majority", but the log of exports has 3 recordings '
        'of ["demo"], policy "majority"'
    )
    assert len(verdict(store, edited(table, our_runs=["demo", "other"])).problems) == 1


def test_without_a_log_other_votes_are_a_note(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A, A, B]))
    table = exported(store, log=False)
    take(store, *write_ranks(tmp_path / "more", [A, A]), run="more")
    found = verdict(store, table)
    assert found.problems == []
    assert (
        'the table states votes of 3 recordings of ["demo"]; now they come from 5 recordings of ["demo", "more"]'
        in (" ".join(found.notes))
    )


def test_check_and_explain_say_what_bans_leave(store: Store, cli: Cli, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [1.0] * 3], [B, [2.0] * 3]]}}}
    document = version_1({"sm90": {"k": {"M=1": A, "M=2": A, "M=3": B}}}, timings=timings)
    ingest(store, [write_recording(tmp_path / "rec.rank0.json", document)])
    override(store, BAN, A)
    found = verdict(store, exported(store))
    assert found.problems == []
    (note,) = [note for note in found.notes if note.startswith("banned: ")]
    assert note == (
        "banned: k M=1: every config that was chosen is banned (#1); launches use the job's fallback, for which "
        "bans leave 1 other recorded config"
    )
    add_override(store, BAN, arch="sm90", kernel="k", key="M=1", config="num_warps=4", reason="r", author="me", now=NOW)
    (problem,) = verdict(store, exported(store)).problems
    assert problem.endswith(
        "is banned (#1, #2); every recorded config is banned, so launches fail if the kernel has no other candidate"
    )
    explained = cli("explain", "--arch", "sm90", "--kernel", "k", "--key", "M=1")
    assert "every recorded config is banned" in explained.stdout
    pin = add_override(store, PIN, arch="sm90", kernel="k", key="*", config=json.dumps(C), reason="r", author="me",
                       now=NOW, force=True)  # fmt: skip
    lift_override(store, 2, reason="r", author="me", now=NOW)
    lift_override(store, pin.id, reason="r", author="me", now=NOW)
    add_override(store, PIN, arch="sm90", kernel="k", key="*", config=json.dumps(B), reason="r", author="me", now=NOW)
    assert "pinned by #" in cli("explain", "--arch", "sm90", "--kernel", "k", "--key", "M=1").stdout


@pytest.mark.parametrize("stated", [" ", "5", "%"])
def test_a_digest_that_is_none_finds_no_other_tables_filters(store: Store, tmp_path: Path, stated: str) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    made = exported(store, Selection(arch="sm90", runs=("demo",)))
    assert compare_with_votes(store, made, EVERYTHING).logged_at is not None
    start = made.digest[0] if stated == "5" else stated
    made.provenance["tuning_registry"]["digest"] = start
    found = checked(store, made)
    assert [problem[:6] for problem in found.problems] == ["edited"]
    assert found.compared is not None
    assert (found.compared.logged_at is None) == bool(start.strip())  # none at all: looked up by its entries
