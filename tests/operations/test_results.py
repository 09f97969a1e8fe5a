"""What every result offers: JSON-ready dicts under the names that commands print, and one readable line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import H200, Cli, config
from tests.helpers import on_sqlite, take
from tuning_registry.db.reading import Reading
from tuning_registry.db.store import Store
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.operations.reports.explain import explain
from tuning_registry.registry import Registry

ARCH = ("--arch", "sm90")
KERNEL = "mamba_ssm.ops.triton.ssd_chunk_state._chunk_cumsum_bwd_kernel"


@pytest.fixture
def registry(cli: Cli, database: str, tmp_path: Path) -> Registry:
    assert cli("ingest", H200, "--run", "july", "--triton", "3.6.0").exit_code == 0
    chosen = json.dumps(config(B=2))
    assert cli("pin", *ARCH, "--kernel", KERNEL, "--key", "M=1", "--config", chosen, "--reason", "numerics",
               "--author", "ada", "--force").exit_code == 0  # fmt: skip
    assert cli("export", *ARCH, "-o", tmp_path / "sm90.json").exit_code == 0
    return Registry(database)


@on_sqlite
def test_results_have_the_names_that_commands_print(registry: Registry, cli: Cli) -> None:
    asked: dict[str, Sequence[Result]] = {
        "winners": registry.winners(),
        "disagreements": registry.disagreements(),
        "disagreements --cost": registry.costs(),
        "ranks": registry.ranks().ranks,
        "runs": registry.runs(),
        "overrides": registry.overrides(),
        "exports": registry.exports(),
        "misses": registry.misses(),
        f"explain --arch sm90 --kernel {KERNEL}": registry.explain("sm90", KERNEL).entries,
    }
    for command, results in asked.items():
        printed = json.loads(cli(*command.split(), "--format", "json").stdout)
        assert [one.to_dict() for one in results] == printed, command
        rows = list(csv.reader(io.StringIO(cli(*command.split(), "--format", "csv").stdout)))
        assert len({len(row) for row in rows}) == 1, command


@on_sqlite
def test_results_print_as_one_readable_line(registry: Registry, tmp_path: Path) -> None:
    results: list[Result] = [
        *registry.winners()[:2], *registry.disagreements()[:2], *registry.costs()[:2], registry.ranks(), *registry.ranks().ranks,
        *registry.runs(), *registry.overrides(), *registry.exports(), *registry.explain("sm90", KERNEL).entries,
        registry.check(tmp_path / "sm90.json"),
    ]  # fmt: skip
    for one in results:
        json.dumps(one.to_dict(), allow_nan=False)
        assert "\n" not in str(one)
        assert repr(one) == f"<{type(one).__name__}: {one}>"
        assert "ir_override" not in str(one)  # configs are in their short form
    assert str(registry.overrides()[0]) == (
        f"#1 pin of B=2 num_warps=4 num_stages=3 for {KERNEL} M=1 on sm90, ada: numerics"
    )
    assert str(registry.runs()[0]) == "july: ranks 0-7, 360 votes"
    assert str(registry.winners()[0]).endswith("BT=64 num_warps=8 num_stages=3 (7 of 8 votes)")


def test_what_was_read_once_is_not_read_again(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take(store, H200, triton="3.6.0")
    asked: list[str] = []

    def counted(name: str) -> Callable[[Reading, sa.Select[Any]], object]:
        run = getattr(Reading, name)

        def ask(reading: Reading, query: sa.Select[Any]) -> object:
            asked.append(str(query))
            return run(reading, query)

        return ask

    for name in ("rows", "scalars", "bulk"):
        monkeypatch.setattr(Reading, name, counted(name))
    explain(store, Selection(arch="sm90", kernel=KERNEL))
    repeated = {query for query in asked if asked.count(query) > 1 and "timings" not in query}
    assert repeated == set()
