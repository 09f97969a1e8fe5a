"""Pins and bans: their order, which are in force, how they show, and when export refuses."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, config, version_1, write_ranks, write_recording
from tests.helpers import all_rows, take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, FormatError, SchemaError, SelectionError, UsageError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.overrides import add_override, lift_override, list_overrides
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.rules.overrides import Override

A, B, C = config(B=1), config(B=2), config(B=3)
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
SM90 = Selection(arch="sm90")


def decide(store: Store, action: str, key: str, chosen: Any, **more: Any) -> Override:
    said = {"arch": "sm90", "kernel": "k", "reason": "measured", "author": "ada", "now": NOW, **more}
    return add_override(
        store, action, key=key, config=chosen if isinstance(chosen, str) else json.dumps(chosen), **said
    )


def votes(store: Store, folder: Path, **by_key: list[Any]) -> None:
    """Recordings of as many ranks as there are configs under a key (`M1` stands for `M=1`)."""
    for rank in range(max(map(len, by_key.values()))):
        chosen = {key.replace("M", "M="): row[rank] for key, row in by_key.items() if rank < len(row)}
        write_recording(folder / f"rec.rank{rank}.json", {"sm90": {"k": chosen}})
    take(store, folder)


def table_of(store: Store, **options: Any) -> Any:
    return export_table(store, SM90, ExportOptions(today="2026-11-30", **options)).payload["kernels"]["k"]


def test_a_ban_removes_a_config_from_the_election(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, A, A, B, C, C], M2=[A, A, B])
    decide(store, "ban", "M=1", A)
    assert table_of(store) == {"M=1": C, "M=2": A}
    (first, second) = find_winners(store, SM90)
    assert (first.choices[0].count, first.votes, first.banned, first.decided_by) == (2, 6, 1, "majority")
    assert (second.banned, second.decided_by) == (0, "majority")
    decide(store, "ban", "*", A)
    assert table_of(store) == {"M=1": C, "M=2": B}


def test_a_pin_decides_whatever_the_votes_say(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, A, B], M2=[A, A, A])
    decide(store, "pin", "M=1", B)
    assert table_of(store, min_votes=3) == {"M=1": B, "M=2": A}
    assert [e.decided_by for e in find_winners(store, SM90)] == ["pin", "majority"]
    decide(store, "pin", "M=True", A)  # the same key to Triton: the later pin takes the earlier one's place
    assert table_of(store) == {"M=1": A, "M=2": A}
    assert [o.config for o in list_overrides(store)] == [config_text(A)]


def test_the_order_is_ban_pin_policy_and_an_exact_key_beats_a_star(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, A, B, C], M2=[A, A, B, C])
    decide(store, "pin", "*", B)
    assert table_of(store) == {"*": B, "M=1": B, "M=2": B}
    decide(store, "pin", "M=2", C)
    assert table_of(store) == {"*": B, "M=1": B, "M=2": C}
    decide(store, "ban", "M=1", B)  # a ban of the exact key beats the pin of every key
    assert table_of(store) == {"*": B, "M=1": A, "M=2": C}
    decide(store, "ban", "*", C)  # the pin of the exact key beats the ban of every key
    assert table_of(store) == {"*": B, "M=1": A, "M=2": C}


def test_pins_and_bans_hold_under_every_policy(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {key: [[A, [3, 3, 3]], [B, [1, 1, 1]], [C, [2, 2, 2]]] for key in ("M=1", "M=2")}}}
    write_recording(tmp_path / "1.json", version_1({"sm90": {"k": {"M=1": A, "M=2": A}}}, timings=timings))
    take(store, tmp_path, run=None)
    decide(store, "ban", "M=1", B)
    decide(store, "pin", "M=2", A)
    for policy in ("fastest", "minimax"):
        assert table_of(store, policy=policy) == {"M=1": C, "M=2": A}
    assert table_of(store, policy="fastest", generalize_percent=1000) == {"*": B, "M=1": C, "M=2": A}
    decide(store, "ban", "*", C)
    assert table_of(store, policy="fastest", generalize_percent=1000) == {"*": B, "M=1": A, "M=2": A}


def test_a_pin_against_a_ban_is_counted_as_a_pin_and_not_as_elected_without(
    store: Store, cli: Cli, tmp_path: Path
) -> None:
    votes(store, tmp_path, M1=[A, A, B], M2=[A, A, B])
    decide(store, "ban", "*", A)
    decide(store, "pin", "M=1", A)
    made = export_table(store, SM90)
    assert made.payload["kernels"]["k"] == {"M=1": A, "M=2": B}
    assert (made.pinned, made.pinned_banned, made.with_bans) == (1, 1, 1)
    shown = cli("export", "--arch", "sm90", "-o", tmp_path / "t.json").stderr
    assert "note: 1 entry decided by pins, 1 of them against a ban (see registry overrides)" in shown
    assert "note: 1 entry decided with some configs banned" in shown


def test_an_entry_of_which_all_is_banned_is_left_out_and_counted(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, B], M2=[A])
    decide(store, "ban", "M=1", A)
    decide(store, "ban", "M=1", B)
    made = export_table(store, SM90)
    assert (made.payload["kernels"]["k"], made.banned_out) == ({"M=2": A}, 1)
    decide(store, "ban", "*", A)
    made = export_table(store, SM90)  # jobs learn of the bans from it
    assert (made.payload["kernels"], made.entries, made.banned_out) == ({}, 0, 2)
    assert len(made.payload["tuning_registry"]["overrides"]) == 3


def test_bans_and_thresholds_that_leave_nothing_are_refused(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A], M2=[B])
    decide(store, "ban", "M=1", A)
    with pytest.raises(SelectionError, match=r"thresholds and bans leave out every entry \(2\)"):
        export_table(store, SM90, ExportOptions(min_votes=2))


def test_no_wider_entry_serves_a_config_where_it_is_banned(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"p.k": {key: [[A, [1, 1, 1]]] for key in ("M=1", "M=2", "M=3")}}}
    chosen = {"sm90": {"p.k": {"M=1": A, "M=2": A, "M=3": A}}}
    write_recording(tmp_path / "1.json", version_1(chosen, timings=timings))
    take(store, tmp_path, run=None)
    banned = decide(store, "ban", "M=2", A, kernel="p.k")
    made = export_table(store, SM90, ExportOptions(generalize_percent=3))
    assert (made.payload["kernels"], made.banned_out) == ({"p.k": {"M=1": A, "M=3": A}}, 1)  # no * entry
    pinned = decide(store, "pin", "*", A, kernel="p.k")
    with pytest.raises(
        SelectionError,
        match=r"a wider entry .* would serve 1 of its keys with a config that is banned there: p.k M=2\. Nothing",
    ):
        export_table(store, SM90)
    for override in (banned, pinned):
        lift_override(store, override.id, reason="undo", author="ada", now=NOW)
    take(store, write_recording(tmp_path / "bare.rank0.json", {"sm90": {"k": {"M=1": A}}}), run="bare")
    decide(store, "ban", "*", A, kernel="p.k")
    with pytest.raises(SelectionError, match="banned there: p.k M=1"):  # the bare name's entry would serve it
        export_table(store, SM90)


def test_a_bare_name_that_matches_a_qualified_one_is_ambiguous(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A], kernel="k"), run="a")
    take(store, *write_ranks(tmp_path / "2", [A], kernel="p.k"), run="b")
    with pytest.raises(
        SelectionError, match=r"several kernels are named k: k, p.k; give a qualified name, or use --force"
    ):
        decide(store, "ban", "M=1", A)
    assert decide(store, "ban", "M=1", A, force=True).kernel == "k"
    assert decide(store, "ban", "M=1", A, kernel="p.k").kernel == "p.k"


def test_pins_alone_are_no_table(store: Store, cli: Cli, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, B])
    decide(store, "pin", "M=1", B)
    with pytest.raises(SelectionError, match="no votes on sm90 match the filters"):
        export_table(store, Selection(arch="sm90", runs=("typo",)))
    assert "no votes match" in cli("winners", "--run", "typo").stderr


def test_a_pin_of_what_nobody_recorded_is_refused_unless_forced(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, B], M2=[A])
    for key, chosen, message in (
        ("M=1", C, "B=3 num_warps=4 num_stages=3 was never recorded for k M=1 on sm90"),
        ("M=2", B, "B=2 .* was never recorded for k M=2"),
        ("M=7", A, "the key M=7 of k was never recorded on sm90; registry explain shows the nearest keys"),
    ):
        with pytest.raises(SelectionError, match=message):
            decide(store, "pin", key, chosen)
        with pytest.raises(SelectionError, match=message):
            decide(store, "ban", key, chosen)
    with pytest.raises(SelectionError, match="the kernel x was never recorded on sm90"):
        decide(store, "pin", "M=1", A, kernel="x")
    assert all_rows(store)["override_events"] == 0
    decide(store, "pin", "M=7", C, force=True)
    decide(store, "pin", "*", B)  # recorded for another key of the kernel
    made = export_table(store, SM90)
    assert made.payload["kernels"]["k"] == {"*": B, "M=1": B, "M=2": B, "M=7": C}
    assert made.payload["tuning_registry"]["weakest_agreement"] == [0, 1]


@pytest.mark.parametrize(
    ("kernel", "key", "said"),
    [("*", "*", "one kernel"), ("p.*", "*", "one kernel"), ("k?", "M=1", "one kernel"), ("k", "M=*", "one key")],
)
@pytest.mark.parametrize("force", [True, False])
def test_an_override_of_a_pattern_would_hold_for_nothing(
    store: Store, tmp_path: Path, kernel: str, key: str, said: str, force: bool
) -> None:
    votes(store, tmp_path, M1=[A, B])
    for action in ("pin", "ban"):
        with pytest.raises(UsageError, match=f"an override applies to {said}; patterns are not allowed"):
            decide(store, action, key, A, kernel=kernel, force=force)


def test_a_recorded_key_with_a_star_is_no_pattern(store: Store, tmp_path: Path) -> None:
    write_recording(tmp_path / "1.json", version_1({"sm90": {"k": {"F=*": A}}}))
    take(store, tmp_path, run=None)
    assert decide(store, "ban", "F=*", A).key == "F=*"


def test_timings_and_observations_are_recordings_of_a_config_too(store: Store, tmp_path: Path) -> None:
    seen = {"sm90": {"k": {"M=2": {"config": B, "reason": "single candidate"}}}}
    timings = {"sm90": {"k": {"M=1": [[A, [1, 1, 1]], [C, [2, 2, 2]]]}}}
    write_recording(tmp_path / "1.json", version_1({"sm90": {"k": {"M=1": A}}}, timings=timings, observations=seen))
    take(store, tmp_path, run=None)
    assert decide(store, "pin", "M=1", C).id == 1
    assert decide(store, "pin", "M=2", B).id == 2


def test_configs_are_named_as_they_are_shown(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, B])
    assert decide(store, "pin", "M=1", "B=2  num_warps=4 num_stages=3").config == config_text(B)
    with pytest.raises(
        UsageError,
        match="'B=9' is not a recorded config. registry explain lists them, such as B=1 num_warps=4 ",
    ):
        decide(store, "pin", "M=1", "B=9")
    with pytest.raises(UsageError, match="not a config: at num_stages: required config field 'num_stages' is missing"):
        decide(store, "pin", "M=1", '{"kwargs": {}, "num_warps": 4}')
    with pytest.raises(UsageError, match="not a config"):
        decide(store, "pin", "M=1", "{")


def test_a_function_name_stands_for_the_one_kernel_that_has_it(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A], kernel="pkg.one.k"), run="a")
    assert decide(store, "pin", "M=1", A).kernel == "pkg.one.k"
    take(store, *write_ranks(tmp_path / "2", [B], kernel="pkg.two.k"), run="b")
    with pytest.raises(SelectionError, match=r"several kernels are named k: pkg.one.k, pkg.two.k"):
        decide(store, "pin", "M=1", A)


def test_opposite_overrides_must_be_lifted_first(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, B])
    pinned = decide(store, "pin", "M=1", A)
    with pytest.raises(
        ConflictError, match=f"override #{pinned.id} already pins this config .* registry lift {pinned.id}"
    ):
        decide(store, "ban", "M=1", A)
    assert lift_override(store, pinned.id, reason="done", author="bob", now=NOW) == pinned
    decide(store, "ban", "M=1", A)
    with pytest.raises(SelectionError, match="override #1 is not in force"):
        lift_override(store, pinned.id, reason="again", author="bob", now=NOW)
    history = [(o.action, o.author, o.lifts) for o in list_overrides(store, everything=True)]
    assert history == [("pin", "ada", None), ("lift", "bob", 1), ("ban", "ada", None)]
    assert table_of(store) == {"M=1": B}


def test_an_expired_override_stops_the_export_until_renewed_or_lifted(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, A, B])
    made = decide(store, "pin", "M=1", B, until="2026-12-24")
    assert export_table(store, SM90, ExportOptions(today="2026-12-24")).pinned == 1
    late = ExportOptions(today="2026-12-25")
    with pytest.raises(SelectionError, match=rf"overrides have expired: #{made.id} \(pin of k, until 2026-12-24\)"):
        export_table(store, SM90, late)
    decide(store, "pin", "M=1", B, until="2027-01-31")
    assert export_table(store, SM90, late).payload["kernels"]["k"] == {"M=1": B}
    with pytest.raises(SelectionError, match="have expired"):
        export_table(store, SM90, ExportOptions(today="2027-02-01"))
    (only,) = list_overrides(store)
    lift_override(store, only.id, reason="no more", author="ada", now=NOW)
    assert export_table(store, SM90, ExportOptions(today="2027-02-01")).payload["kernels"]["k"] == {"M=1": A}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"until": "tomorrow"}, "--until 'tomorrow': expected a day, YYYY-MM-DD"),
        ({"until": "2026-11-29"}, "--until 2026-11-29 is in the past"),
        ({"reason": " "}, "--reason is empty"),
        ({"author": ""}, "--author is empty"),
        ({"arch": ""}, "--arch is empty"),
    ],
)
def test_overrides_want_sensible_words(store: Store, tmp_path: Path, more: dict[str, str], message: str) -> None:
    votes(store, tmp_path, M1=[A])
    with pytest.raises(UsageError, match=message):
        decide(store, "pin", "M=1", A, **more)


@pytest.mark.parametrize("names", [{"arch": "x" * 1001}, {"kernel": "x" * 1001 + ".k"}])
def test_not_even_force_pins_what_no_table_can_hold(store: Store, tmp_path: Path, names: dict[str, str]) -> None:
    votes(store, tmp_path, M1=[A])
    with pytest.raises(FormatError, match="a name of 1001 bytes"):
        decide(store, "pin", "*", A, force=True, **names)
    assert export_table(store, SM90).entries == 1


def test_without_a_registry_nothing_is_created(store: Store) -> None:
    with pytest.raises(SchemaError, match="there is no registry here yet"):
        decide(store, "pin", "M=1", A)
    assert store.revision() is None


def test_the_table_lists_overrides_without_author_or_time(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, A, B])
    plain = export_table(store, SM90).data
    decide(store, "pin", "M=1", B, until="2099-01-01")
    decide(store, "ban", "*", A, arch="sm90")
    decide(store, "ban", "*", A, arch="sm100", force=True)
    made = export_table(store, SM90)
    assert made.payload["tuning_registry"]["overrides"] == [
        {"action": "ban", "kernel": "k", "key": "*", "config": A, "reason": "measured"},
        {"action": "pin", "kernel": "k", "key": "M=1", "config": B, "reason": "measured"},
    ]
    assert b"ada" not in made.data
    assert b"2026" not in made.data
    assert b"2099" not in made.data
    for override in list_overrides(store):
        lift_override(store, override.id, reason="undo", author="ada", now=NOW)
    assert export_table(store, SM90).data == plain


def test_the_commands(cli: Cli) -> None:
    assert cli("ingest", H200, "--run", "july", "--triton", "3.6.0").exit_code == 0
    kernel, key = (
        "_bmm_chunk_fwd_kernel",
        "chunk_size=256|K=128|IS_CAUSAL=False|torch.bfloat16|torch.bfloat16|torch.float32",
    )
    chosen = "BLOCK_SIZE_K=32 BLOCK_SIZE_M=64 BLOCK_SIZE_N=128 num_warps=4 num_stages=4"
    place = ("--arch", "sm90", "--kernel", kernel, "--key", key, "--config", chosen)
    made = cli("pin", *place, "--reason", "bisected", "--author", "ada", "--until", "2099-12-31")
    assert (made.exit_code, made.stdout) == (0, "")
    assert (
        f"#1: pin of {chosen} for mamba_ssm.ops.triton.ssd_bmm.{kernel} {key} on sm90 until 2099-12-31" in made.stderr
    )
    assert f"    1/8  {chosen}  [pinned]" in cli("winners", "--kernel", kernel).stdout
    assert "note: 1 entry decided by pins (see registry overrides)" in cli("export", "--arch", "sm90").stderr
    (row,) = json.loads(cli("overrides", "--format", "json").stdout)
    assert (row["id"], row["action"], row["author"], row["reason"], row["until"]) == (
        1,
        "pin",
        "ada",
        "bisected",
        "2099-12-31",
    )
    refused = cli("ban", *place, "--reason", "no")
    assert (refused.exit_code, "lift it first: registry lift 1" in refused.stderr) == (1, True)
    assert cli("lift", 1, "--reason", "mended").exit_code == 0
    assert "0 overrides" in cli("overrides").stderr
    assert "2 events" in cli("overrides", "--all").stderr
    assert cli("lift", 1, "--reason", "twice").exit_code == 1
    assert cli("pin", *place, "--reason", "x", "--until", "soon").exit_code == 2


def test_what_is_typed_and_cannot_be_stored_is_wrong_usage(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[A, A])
    said: dict[str, Any] = {"key": "M=1", "force": True}
    for name in ("arch", "kernel", "key", "reason", "author"):
        for text, why in (("", "is empty"), (" ", "is empty"), ("\udc80", "lone surrogate"), ("a\0", "NUL")):
            with pytest.raises(UsageError, match=f"--{name}.*{why}"):
                decide(store, "pin", chosen=A, **{**said, name: text})
    for text in ("\udc80", "\ud800"):
        wrong = json.dumps(config(B=text), ensure_ascii=False)
        with pytest.raises(UsageError, match="not UTF-8"):
            decide(store, "pin", "M=1", wrong, force=True)
    assert list_overrides(store, everything=True) == []


def test_disagreements_name_the_overrides_on_what_they_show(cli: Cli, tmp_path: Path) -> None:
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {"p.k": {"M=1": A, "M=2": A}}})
    write_recording(tmp_path / "rec.rank1.json", {"sm90": {"p.k": {"M=1": B, "M=2": A}}})
    cli("ingest", tmp_path, "--run", "demo")
    assert "override" not in cli("disagreements").stderr
    for key in ("M=1", "M=2"):  # nobody disagrees on the second
        cli("pin", "--arch", "sm90", "--kernel", "p.k", "--key", key, "--config", json.dumps(A), "--reason", "r")
    cli("ban", "--arch", "sm90", "--kernel", "p.k", "--key", "*", "--config", json.dumps(B), "--reason", "r")
    for words in ((), ("--cost",)):
        assert "overrides apply to some of these entries (#1 pin, #3 ban)" in cli("disagreements", *words).stderr


FEW, MANY, MORE = config(B=1, num_warps=4), config(B=1, num_warps=8), config(B=2, num_warps=8)


def test_a_ban_of_a_field_bans_every_config_that_has_it(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[MANY, MANY, MORE, FEW], M2=[FEW])
    made = decide(store, "ban", "*", "num_warps=8")
    assert made.config == '{"num_warps": 8}'
    assert table_of(store) == {"M=1": FEW, "M=2": FEW}
    listed = export_table(store, SM90, ExportOptions(today="2026-11-30")).payload["tuning_registry"]["overrides"]
    assert [(one["action"], one["config"]) for one in listed] == [("ban", {"num_warps": 8})]
    # It also bans configs that are recorded later.
    later = config(B=9, num_warps=8)
    for rank in range(5):
        write_recording(tmp_path / "later" / f"rec.rank{rank}.json", {"sm90": {"k": {"M=1": later}}})
    take(store, tmp_path / "later", run="later")
    assert table_of(store) == {"M=1": FEW, "M=2": FEW}
    lift_override(store, made.id, reason="fixed", author="ada", now=NOW)
    assert table_of(store) == {"M=1": later, "M=2": FEW}


def test_a_pin_of_the_key_spares_its_config_from_a_wider_ban(store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[MANY, FEW], M2=[MANY, FEW])
    decide(store, "ban", "*", "num_warps=8")
    decide(store, "pin", "M=1", MANY)
    assert table_of(store) == {"M=1": MANY, "M=2": FEW}


def test_a_class_that_means_no_recorded_config_needs_force_and_a_pin_needs_a_config(
    store: Store, tmp_path: Path
) -> None:
    votes(store, tmp_path, M1=[MANY])
    with pytest.raises(SelectionError, match=r"num_warps=16 was never recorded .* use --force to ban it anyway"):
        decide(store, "ban", "*", "num_warps=16")
    assert decide(store, "ban", "*", "num_warps=16", force=True).config == '{"num_warps": 16}'
    with pytest.raises(UsageError, match="'num_warps=8' is not a recorded config"):
        decide(store, "pin", "*", "num_warps=8")
    pin = decide(store, "pin", "M=1", MANY)
    with pytest.raises(ConflictError, match=f"override #{pin.id} already pins"):
        decide(store, "ban", "M=1", "num_warps=8")


def test_commands_show_a_ban_of_a_class(cli: Cli, store: Store, tmp_path: Path) -> None:
    votes(store, tmp_path, M1=[MANY, MANY, FEW])
    place = ("--arch", "sm90", "--kernel", "k", "--key", "*")
    made = cli("ban", *place, "--config", "num_warps=8", "--reason", "spills")
    assert (made.exit_code, made.stderr.splitlines()[-1]) == (
        0,
        "#1: ban of every config with num_warps=8 for k * on sm90",
    )
    shown = cli("explain", "--arch", "sm90", "--kernel", "k")
    assert "first that is not banned (#1 bans B=1 num_warps=8 num_stages=3 (2 of 3 votes)): " in shown.stdout
    assert "[banned by #1]" in shown.stdout
    listed = cli("overrides", "--format", "json")
    assert json.loads(listed.stdout)[0]["config"] == {"num_warps": 8}
    assert "num_warps=8" in cli("overrides").stdout
    assert cli("winners").stdout.count("num_warps=4") == 1
    cli("export", "--arch", "sm90", "-o", tmp_path / "sm90.json")
    assert cli("check", tmp_path / "sm90.json").exit_code == 0
    assert cli("lift", "1", "--reason", "r").stderr.endswith(
        "lifted #1: ban of every config with num_warps=8 for k * on sm90\n"
    )
