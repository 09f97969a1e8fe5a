"""What a pinned job launches for a key that nobody recorded, as `explain` says it, from the votes and from a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, Json, config
from tests.operations.tables.test_evidence import Timed, timed
from tuning_registry import Registry, TunedTable, load
from tuning_registry.formats.table import read_table
from tuning_registry.model.canonical import config_text
from tuning_registry.operations.reports.unseen import MIN_COST, NEAREST, TABLE, predict_from_table, predict_launch
from tuning_registry.rules.unseen_keys import suggest

A, B, C = config(B=1), config(B=2), config(B=3)
# Small sizes want A, large ones B; C fails on large ones and is slow on small ones.
KEYS: Timed = {
    f"M={size}|torch.float32": [(A, 1.0 + (size > 64)), (B, 2.0 - (size > 64)), (C, 3.0 if size <= 64 else None)]
    for size in (16, 32, 64, 256, 512, 1024)
}


SMALL = dict(list(KEYS.items())[:3])


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    made = Registry(tmp_path / "r.db")
    large = {key: row for key, row in KEYS.items() if key not in SMALL}
    made.ingest(timed(tmp_path / "rec", [(A, SMALL), (B, large)]))
    return made


def text(chosen: Json) -> str:
    return config_text(chosen)


@pytest.mark.parametrize(("size", "wanted", "near"), [(24, A, 32), (48, A, 64), (600, B, 512), (8192, B, 1024)])
def test_the_votes_and_the_table_say_the_same_and_it_is_what_the_rule_gives(
    registry: Registry, size: int, wanted: Json, near: int
) -> None:
    key = f"M={size}|torch.float32"
    table = registry.export("sm90").table
    (by_votes,) = registry.explain("sm90", "k", key).predicted
    (by_table,) = predict_from_table(table, "k", key)
    assert by_votes.to_dict() == by_table.to_dict()
    assert (by_votes.config, by_votes.source) == (text(wanted), NEAREST)
    assert by_votes.nearest is not None
    assert by_votes.nearest.key == f"M={near}|torch.float32"
    given = suggest(table, "p.k", key, [text(one) for one in (C, B, A)])
    assert given is not None
    assert (given.config, given.key) == (by_votes.config, by_votes.nearest.key)
    assert by_votes.ranked[0].config == by_votes.config
    percents = [one.estimated_percent for one in by_votes.ranked if one.estimated_percent is not None]
    assert percents == sorted(percents)
    assert len(percents) == 3


def test_the_runners_up_show_what_they_cost_on_the_nearest_key(registry: Registry) -> None:
    (found,) = registry.explain("sm90", "k", "M=500|torch.float32").predicted
    shown = {one.config: (one.nearest_percent, one.failed, one.winner_of) for one in found.ranked}
    assert shown == {
        text(B): (0, False, "M=512|torch.float32"),
        text(A): (100, False, "M=64|torch.float32"),
        text(C): (None, True, ""),
    }
    assert found.nearest is not None
    assert [(one.field, one.asked, one.recorded) for one in found.nearest.differences] == [("M", "500", "512")]


def test_a_banned_config_gives_way_and_is_named(registry: Registry, tmp_path: Path) -> None:
    registry.ban("sm90", "p.k", "*", B, reason="wrong results")
    file = tmp_path / "sm90.json"
    registry.export("sm90").write(file)
    for found in (*registry.explain("sm90", "k", "M=500|torch.float32").predicted,
                  *predict_from_table(read_table(file), "k", "M=500|torch.float32")):  # fmt: skip
        assert (found.config, found.banned) == (text(A), (text(B),))
    registry.ban("sm90", "p.k", "M=500|torch.float32", A, reason="wrong results", force=True)
    registry.ban("sm90", "p.k", "M=500|torch.float32", C, reason="wrong results", force=True)
    (nothing,) = registry.explain("sm90", "k", "M=500|torch.float32").predicted
    assert (nothing.config, nothing.source, len(nothing.banned)) == (None, MIN_COST, 3)
    assert "(min_cost)" in nothing.why


def test_a_key_that_cannot_be_compared_gets_the_cheapest_estimate(registry: Registry) -> None:
    (found,) = registry.explain("sm90", "k", "N=500|torch.float32").predicted
    assert (found.config, found.source, found.ranked) == (None, MIN_COST, ())
    assert found.why.endswith("suggests a config (first: M=1024|torch.float32)")
    assert registry.explain("sm90", "k", "M=16|torch.float32").predicted == ()
    assert registry.explain("sm90", "k", "M=9*").predicted == ()


def test_without_timings_the_winner_of_the_nearest_key_is_launched() -> None:
    table = TunedTable("sm90", {"p.k": {"M=1": A, "M=64": B, "M=1024": C}})
    found = predict_launch(table, "p.k", "M=100")
    assert (found.config, found.why[:35]) == (text(B), "it is the winner of the nearest key")
    assert [one.winner_of for one in found.ranked] == ["M=64", "M=1024", "M=1"]
    assert [one.estimated_percent for one in found.ranked] == [None] * 3


def test_a_table_with_an_entry_answers_with_it() -> None:
    table = TunedTable("sm90", {"p.k": {"M=1": A}, "q.k": {"*": B}, "bare": {"M=1": C}})
    found = {one.kernel: one for one in predict_from_table(table, "k", "M=1")}
    assert {kernel: (one.source, one.why) for kernel, one in found.items()} == {
        "p.k": (TABLE, "the table has an entry for this key"),
        "q.k": (TABLE, 'the table has a "*" entry for this kernel'),
    }
    (bare,) = predict_from_table(table, "some.module.bare", "M=1")
    assert (bare.kernel, bare.config) == ("some.module.bare", text(C))
    assert predict_from_table(table, "other", "M=1") == []


def test_the_command_prints_the_launch_in_every_format(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", H200, "--run", "july")
    file = tmp_path / "sm90.json"
    cli("export", "--arch", "sm90", "-o", file)
    key = "D=96|NB=1|torch.bfloat16|torch.bfloat16|torch.float32"
    asked = ("explain", "--arch", "sm90", "--kernel", "l2norm_fwd_kernel", "--key", key)
    by_votes, by_table = cli(*asked), cli(*asked, "--table", file)
    assert by_votes.stdout == by_table.stdout
    assert (by_votes.exit_code, by_table.exit_code, by_table.stderr) == (1, 0, "")
    lines = by_table.stdout.splitlines()
    assert lines[:2] == ["sm90  fla.modules.norm.l2norm.l2norm_fwd_kernel", f"      {key}"]
    assert lines[2].startswith(
        "      no entry; a pinned job launches BT=32 num_warps=8 num_stages=3 (nearest): it has the lowest "
    )
    assert lines[3] == (
        "      nearest recorded key: D=128|NB=1|torch.bfloat16|torch.bfloat16|torch.float32  (D: 96 requested, 128 recorded)"
    )
    assert " ".join(lines[4].split()) == "CONFIG ESTIMATED SLOWDOWN SLOWDOWN ON NEAREST KEY WINNER OF KEY"
    assert lines[5].split()[:5] == ["BT=32", "num_warps=8", "num_stages=3", "2.0", "%"]
    (found,) = json.loads(cli(*asked, "--table", file, "--format", "json").stdout)
    assert (found["decided_by"], found["config"]["kwargs"], len(found["ranked"])) == ("nearest", {"BT": 32}, 25)
    rows = list(csv.DictReader(io.StringIO(cli(*asked, "--format", "csv").stdout)))
    assert [row["elected"] for row in rows] == ["true", *["false"] * 24]
    assert (rows[0]["nearest_key"], float(rows[0]["estimated_slower_percent"])) == (found["nearest_key"], 1.97)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"--key": None}, 2, "--table needs --key KEY"),
        ({"--key": "D=*"}, 2, "--key D=*: --table explains a single key, not a pattern"),
        ({"--arch": "sm80"}, 1, "is for sm90, not sm80"),
        ({"--kernel": "l2norm_fwd"}, 1, "has no kernel l2norm_fwd; similar: fla.modules.norm.l2norm.l2norm_fwd_kernel"),
        ({"--table": "gone.json"}, 1, "gone.json: cannot be read"),
    ],
)
def test_what_a_table_cannot_answer_is_said(cli: Cli, changes: dict[str, Any], status: int, said: str) -> None:
    shipped = Path(load("sm90").provenance["file"])
    given = {"--arch": "sm90", "--kernel": "l2norm_fwd_kernel", "--key": "D=1", "--table": shipped} | changes
    done = cli("explain", *(word for option, value in given.items() if value is not None for word in (option, value)))
    assert done.exit_code == status
    assert said in done.stderr


def test_launches_that_several_versions_predict_state_their_version(cli: Cli) -> None:
    for version in ("3.6.0", "3.9.0"):
        cli("ingest", H200, "--run", f"with-{version}", "--triton", version)
    key = "D=96|NB=1|torch.bfloat16|torch.bfloat16|torch.float32"
    asked = ("explain", "--arch", "sm90", "--kernel", "l2norm_fwd_kernel", "--key", key)
    titles = [line for line in cli(*asked).stdout.splitlines() if line.startswith("sm90")]
    name = "sm90  fla.modules.norm.l2norm.l2norm_fwd_kernel"
    assert titles == [f"{name}  (triton 3.6.0)", f"{name}  (triton 3.9.0)"]
    assert [one["triton"] for one in json.loads(cli(*asked, "--format", "json").stdout)] == ["3.6.0", "3.9.0"]
