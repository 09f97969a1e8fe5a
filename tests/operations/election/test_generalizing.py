"""`*` entries that serve every key of a kernel: what they save, and what they cost."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import config, version_1, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.tables.export import ExportOptions, export_table

A, B, C = config(B=1), config(B=2), config(B=3)
SM90 = Selection(arch="sm90")


def test_generalizing_says_what_it_saves_and_costs(store: Store, tmp_path: Path) -> None:
    times = {"M=1": (1.0, 1.05, 9.0), "M=2": (1.04, 1.0, 9.0), "M=3": (2.0, 2.0, 1.0)}
    best = {"M=1": A, "M=2": B, "M=3": C}
    timings = {key: [[c, [t, t, t]] for c, t in zip((A, B, C), row, strict=True)] for key, row in times.items()}
    write_recording(tmp_path / "1.json", version_1({"sm90": {"k": best}}, timings={"sm90": {"k": timings}}))
    take(store, tmp_path, run=None)
    made = export_table(store, SM90, ExportOptions(generalize_percent=5.0))
    assert made.payload["kernels"]["k"] == {"*": A, "M=3": C}
    assert made.saving is not None
    assert (made.entries, made.saving.kernels, made.saving.saved, round(made.saving.worst_percent, 6)) == (2, 1, 1, 4.0)
    assert made.payload["tuning_registry"]["generalized"] == {"percent": 5.0, "saved": 1, "worst_percent": 4.0}
    table = TunedTable("sm90", made.payload["kernels"])
    assert [table.text_for("k", key) for key in ("M=1", "M=2", "M=3", "M=99")] == [config_text(c) for c in (A, A, C, A)]
    assert export_table(store, SM90, ExportOptions(generalize_percent=1.0)).payload["kernels"]["k"] == {
        "*": A,
        "M=2": B,
        "M=3": C,
    }


def test_a_star_of_a_qualified_kernel_comes_not_before_entries_of_its_bare_name(store: Store, tmp_path: Path) -> None:
    for name, key, chosen in (("p.k", "M=1", A), ("k", "M=2", B)):
        timed = {"sm90": {name: {key: [[A, [2, 2, 2]], [B, [1, 1, 1]]]}}}
        write_recording(tmp_path / f"{name}.json", version_1({"sm90": {name: {key: chosen}}}, run=name, timings=timed))
    take(store, tmp_path, run=None)
    made = export_table(store, SM90, ExportOptions(generalize_percent=0))
    assert made.payload["kernels"] == {"k": {"*": B}, "p.k": {"M=1": A}}
