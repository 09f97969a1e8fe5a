"""Tables with an entry that cannot be used, without an architecture, or of a later version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import config, write_recording
from tests.formats.test_table import live, table
from tuning_registry import load
from tuning_registry.errors import TableError
from tuning_registry.formats.table import Match, read_table
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest_in_memory
from tuning_registry.operations.tables.checking import check_table

UNUSABLE = {
    "unknown field": (config() | {"waves_per_eu": 2}, "at waves_per_eu: unknown config field"),
    "a string for a number": (config(num_warps="4"), "at num_warps: expected an integer or null"),
    "out of range": (config(num_stages=65), "at num_stages: expected an integer from 0 to 64 or null"),
    "no num_warps": ({"kwargs": {}, "num_stages": 2}, "at num_warps: required config field"),
    "not a config": ([1], "expected a config object, found an array"),
    "null": (None, "expected a config object, found null"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_one_odd_entry_is_a_miss_and_the_others_work(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd, why = UNUSABLE[kind]
    kernels: dict[str, Any] = {"pkg.k": {"M=1": odd, "M=2": config(), "*": config(B=1)}, "k": {"M=1": config()}}
    path = write_recording(tmp_path / "sm90.json", {"arch": "sm90", "kernels": kernels})
    found = load("sm90", path)
    assert f"{path}: unusable entries: 1, first pkg.k M=1: {why}" in caplog.text
    assert found.unusable.keys() == {("pkg.k", "M=1")}
    assert found.unusable["pkg.k", "M=1"].startswith(why)
    candidates = [live(), live(B=1)]
    # Neither the * entry nor the bare one decides: the table has an entry for this key.
    for key in ("M=1", "M=True"):
        assert found.find("pkg.k", key, candidates) == Match(None, "unusable entry", "pkg.k", "M=1")
        assert found.text_for("pkg.k", key) is None
    assert found.lookup("pkg.k", "M=2", candidates) is candidates[0]
    assert found.lookup("pkg.k", "M=3", candidates) is candidates[1]
    assert (len(found), "M=1" in found.kernels["pkg.k"]) == (3, False)
    # It chooses differently from a table without the entry, so the digest differs.
    del kernels["pkg.k"]["M=1"]
    assert found.digest != table(kernels).digest


def test_check_names_every_odd_entry(tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "rec.rank0.json", {"sm90": {"k": {"M=1": config()}}})
    kernels = {"k": {"M=1": config(), "M=2": config(num_warps=0), "M=3": []}}
    found = read_table(write_recording(tmp_path / "sm90.json", {"arch": "sm90", "kernels": kernels}))
    problems = check_table(ingest_in_memory([recording], IngestOptions(run="r")), found, Selection()).problems
    assert [line.partition(": at")[0] for line in problems if line.startswith("unusable")] == [
        "unusable: k M=2",
        "unusable: k M=3: expected a config object, found an array",
    ]


def test_an_odd_entry_for_any_key_is_a_miss_for_every_other_key(tmp_path: Path) -> None:
    kernels = {"k": {"*": {}, "M=1": config()}}
    found = read_table(write_recording(tmp_path / "t.json", {"arch": "sm90", "kernels": kernels}))
    assert found.find("k", "M=2", [live()]) == Match(None, "unusable entry", "k", "*")
    assert found.find("k", "M=1", [live()]).reason == ""


def test_a_table_without_an_arch_has_the_one_in_its_name(tmp_path: Path) -> None:
    kernels = {"k": {"M=1": config()}}
    for name in ("sm90", "SM_90a", "sm_90"):
        path = write_recording(tmp_path / f"{name}.json", {"kernels": kernels})
        assert read_table(path).arch == "sm90"
    assert load("sm90", tmp_path).kernels == kernels
    with pytest.raises(TableError, match="expected an object with arch and kernels"):
        read_table(write_recording(tmp_path / "best.json", {"kernels": kernels}))


def test_unknown_objects_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    later = {"version": 1, "selection_rule": 1, "bans": [{"kernel": "k"}], "rules": {"a": 1}}
    document = {"arch": "sm90", "kernels": {"k": {"M=1": config()}}, "tuning_registry": later}
    found = read_table(write_recording(tmp_path / "sm90.json", document))
    assert found.lookup("k", "M=1", [live()]) is not None
    assert found.provenance["tuning_registry"] == later


def test_null_warps_and_stages_match_a_candidate_with_null_alone() -> None:
    found = table({"k": {"M=1": config(num_warps=None, num_stages=None)}})
    null, full = live(num_warps=None, num_stages=None), live()
    assert found.lookup("k", "M=1", [full, null]) is null
    assert found.find("k", "M=1", [full]).reason == "not a candidate"
    assert table({"k": {"M=1": config()}}).find("k", "M=1", [null]).reason == "not a candidate"
    assert table({"k": {"M=1": config(num_stages=0)}}).find("k", "M=1", [live(num_stages=None)]).candidate is None


@pytest.mark.parametrize("arch", ["sm_90a", "9.0", "90", "(9, 0)", (9, 0), "SM90"])
def test_every_spelling_of_an_arch_finds_its_table(arch: str | tuple[int, int]) -> None:
    assert load(arch).arch == "sm90"
    assert len(load(arch)) == 45
