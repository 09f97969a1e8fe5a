"""What stops an export: options that mean nothing, and entries that would become slower."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import config, version_1, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, UsageError
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.selection import Selection
from tuning_registry.operations.tables.export import ExportOptions, export_table

A, B, C = config(B=1), config(B=2), config(B=3)
SM90 = Selection(arch="sm90")


def test_a_table_slower_than_the_one_it_replaces_is_refused(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [1.0, 1, 1]], [B, [1.2, 1.2, 1.2]], [C, None]]}}}
    for rank in range(2):
        document = version_1({"sm90": {"k": {"M=1": B, "M=2": B}}}, rank=rank, timings=timings)
        write_recording(tmp_path / f"{rank}.json", document)
    take(store, tmp_path, run=None)
    old = TunedTable("sm90", {"k": {"M=1": A, "M=2": A}, "gone": {"M=1": A}})
    with pytest.raises(SelectionError, match=r"for 1 entry \(worst: k, 20.0 % slower\)"):
        export_table(store, SM90, ExportOptions(max_regression_percent=10, replaced=old))
    assert export_table(store, SM90, ExportOptions(max_regression_percent=25, replaced=old)).entries == 2
    assert export_table(store, SM90, ExportOptions(max_regression_percent=0, replaced=None)).entries == 2
    star = TunedTable("sm90", {"k": {"*": A}})
    with pytest.raises(SelectionError, match="20.0 %"):
        export_table(store, SM90, ExportOptions(max_regression_percent=0, replaced=star))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "median"}, "unknown policy .median.; expected majority, fastest, minimax"),
        ({"generalize_percent": -1}, "--generalize -1: expected a percentage of at least 0"),
        ({"generalize_percent": math.nan}, "--generalize nan: expected a percentage"),
        ({"max_regression_percent": math.inf}, "--max-regression inf: expected a percentage"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExportOptions(**options)


def test_entries_that_disappear_are_compared_by_what_serves_them_then(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [1, 1, 1]], [B, [1, 1, 1]]], "M=2": [[A, [10, 10, 10]], [B, [1, 1, 1]]]}}}
    for rank in range(3):
        chosen = {"M=1": A} if rank else {"M=1": A, "M=2": B}
        write_recording(tmp_path / f"{rank}.json", version_1({"sm90": {"k": chosen}}, rank=rank, timings=timings))
    take(store, tmp_path, run=None)
    old = TunedTable("sm90", export_table(store, SM90).payload["kernels"])
    narrow = ExportOptions(min_votes=2, generalize_percent=3)
    made = export_table(store, SM90, narrow)
    assert made.payload["kernels"] == {"k": {"*": A}}
    assert made.saving is not None
    assert round(made.saving.worst_percent) == 900
    with pytest.raises(SelectionError, match="worst: k, 900.0 % slower"):
        export_table(store, SM90, replace(narrow, max_regression_percent=3, replaced=old))
