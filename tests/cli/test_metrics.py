"""Metrics of `registry status --format prometheus`, as Prometheus's own parser reads them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import H200, config, version_2
from tests.helpers import on_both
from tuning_registry.db.appending import append_hand_in
from tuning_registry.db.schema import HEAD
from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.rendering.prometheus import NUMBERS, PREFIX, TIMES, render_metrics

Families = dict[str, Any]


def parse(text: str) -> Families:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value_of(families: Families, name: str) -> float:
    (sample,) = families[PREFIX + name].samples
    return float(sample.value)


def hand_in(database: str, rank: int, size: int, **fields: Any) -> None:
    votes = {"sm90": {"k": {"M=1": config(B=size)}}}
    payload = pack_hand_in([json.dumps(version_2(votes, rank, rank=rank, run="live", **fields)).encode()])
    append_hand_in(database, f"{rank}-{size}", payload, 10)


@on_both
def test_metrics_are_the_numbers_of_the_json(cli: Callable[..., Any], database: str, tmp_path: Path) -> None:
    assert cli("ingest", H200, "--run", "july", "--triton", "3.6.0").exit_code == 0
    assert cli("export", "--arch", "sm90", "-o", tmp_path / "t.json").exit_code == 0
    hand_in(database, 0, 16)
    assert cli("fold").exit_code == 0
    hand_in(database, 0, 8, id="another process")
    assert cli("fold").exit_code == 1  # refused
    before = dt.datetime.now(dt.UTC).timestamp()
    hand_in(database, 1, 16)
    status = json.loads(cli("status", "--format", "json").stdout)
    families = parse(cli("status", "--format", "prometheus").stdout)
    assert {name: value_of(families, name) for name in NUMBERS if name in status} == {
        name: status[name] for name in NUMBERS if name in status
    }
    assert (value_of(families, "pending_hand_ins"), value_of(families, "refused_hand_ins")) == (1, 1)
    assert value_of(families, "votes") == 361
    for name in TIMES:
        stated = dt.datetime.fromisoformat(status[name]).timestamp()
        assert value_of(families, f"{name}_timestamp_seconds") == pytest.approx(stated, abs=1e-3)
    assert -5 < value_of(families, "oldest_pending_hand_in_timestamp_seconds") - before < 60
    (info,) = families[f"{PREFIX}info"].samples
    assert info.labels == {"database": status["database"], "revision": HEAD, "required_revision": HEAD,
                           "engine": status["engine"]}  # fmt: skip
    assert all(family.type == "gauge" and family.documentation for family in families.values())
    assert all(s.labels["database"] == status["database"] for family in families.values() for s in family.samples)


def test_what_never_happened_has_no_time(cli: Callable[..., Any]) -> None:
    assert cli("db", "upgrade").exit_code == 0
    families = parse(cli("status", "--format", "prometheus").stdout)
    assert [name for name in families if name.endswith("_timestamp_seconds")] == []
    assert value_of(families, "pending_hand_ins") == value_of(families, "votes") == value_of(families, "untimed") == 0


@pytest.mark.parametrize("stated", ["", "now", "0001-01-01", "2026-01-01T00:00:00+00:00\n# HELP x y"])
def test_a_time_that_is_not_one_is_left_out(stated: str) -> None:
    """Whoever may hand in may state any text as the time."""
    status = {"database": "sqlite:////a.db", "pending_hand_ins": 1, "oldest_pending_hand_in": stated}
    families = parse(render_metrics(status))
    assert value_of(families, "pending_hand_ins") == 1
    assert f"{PREFIX}oldest_pending_hand_in_timestamp_seconds" not in families


def test_a_database_without_a_registry_has_its_revisions_alone(sqlite_cli: Callable[..., Any]) -> None:
    families = parse(sqlite_cli("status", "--format", "prometheus").stdout)
    assert list(families) == [f"{PREFIX}info"]
    assert families[f"{PREFIX}info"].samples[0].labels["revision"] == ""


def test_names_with_quotes_backslashes_and_lines_are_escaped() -> None:
    name = 'sqlite:////a "b"\\c\nd.db'
    (family,) = parse(render_metrics({"database": name, "revision": None, "required_revision": HEAD})).values()
    assert family.samples[0].labels["database"] == name
