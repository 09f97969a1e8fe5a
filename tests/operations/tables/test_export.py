"""What gets into a table, and what its header states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import config, version_1, write_ranks, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.tables.export import ExportOptions, export_table

A, B = config(B=16), config(B=8, num_warps=8)


def test_thresholds_drop_entries_and_say_so(store: Store, tmp_path: Path) -> None:
    for rank in range(4):
        kernels = {"agreed": {"M=1": A}, "split": {"M=1": A if rank < 2 else B}}
        if rank == 0:
            kernels["rare"] = {"M=1": A}
        write_recording(tmp_path / f"rec.rank{rank}.json", {"sm90": kernels})
    take(store, tmp_path)
    made = export_table(store, Selection(arch="sm90"), ExportOptions(min_votes=2, min_agreement=0.75))
    assert (list(made.payload["kernels"]), made.dropped) == (["agreed"], 2)
    with pytest.raises(SelectionError, match=r"leave out every entry \(3\)"):
        export_table(store, Selection(arch="sm90"), ExportOptions(min_votes=9))


def test_an_arch_nobody_recorded_is_refused(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    with pytest.raises(SelectionError, match="no votes were recorded on sm999; architectures with votes: sm90"):
        export_table(store, Selection(arch="sm999"))


def test_recordings_of_several_devices_are_shown_and_not_refused(store: Store, tmp_path: Path) -> None:
    for rank, name in enumerate(["NVIDIA H100", "NVIDIA H200", "NVIDIA H20"]):
        document = version_1({"sm90": {"k": {"M=1": A}}}, rank=rank, device={"name": name})
        write_recording(tmp_path / f"r{rank}.json", document)
    take(store, tmp_path, run=None)
    assert export_table(store, Selection(arch="sm90")).devices == {"NVIDIA H100": 1, "NVIDIA H200": 1, "NVIDIA H20": 1}
