"""Compile data in the database, on every database: shared by ranks, added once, and kept apart by environment."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import Json, config, version_2, write_recording
from tests.helpers import all_rows
from tuning_registry.db import schema
from tuning_registry.db.store import Store
from tuning_registry.errors import RecordingError
from tuning_registry.model.specializations import Specialization
from tuning_registry.operations.ingest.ingest import ingest

CONFIGS = [config(B=size) for size in (16, 32)]
KEYS = ("M=1", "M=2")


def specialization(number: int = 0, **fields: Any) -> Json:
    stated = {"module": "pkg", "function": "k", "target": ("cuda", 90, 32), "cache_key": f"{number:064x}", "data": "{}"}
    return Specialization(**{**stated, **fields}).to_dict()


def compiled(entries: Json, count: int = 2) -> Json:
    """The `extra` of a recording: pairs of config and specialization, by key of `pkg.k`."""
    stated = [specialization(number) for number in range(count)]
    rows = {"version": 1, "configs": CONFIGS, "specializations": stated, "entries": {"sm90": {"pkg.k": entries}}}
    return {"compile": rows, "other": [1]}


def recording(folder: Path, rank: int, entries: Json, extra: Json | None = None, **fields: Any) -> Path:
    """A recording of one rank that votes for the first config on each key."""
    votes = {"sm90": {"pkg.k": dict.fromkeys(entries or KEYS, CONFIGS[0])}}
    document = version_2(votes, rank + 1, **fields, run="job", rank=rank, world_size=8,
                         extra=compiled(entries) if extra is None else extra)  # fmt: skip
    return write_recording(folder / f"rec.rank{rank}.json", document)


def rows_of(store: Store, table: str) -> list[Any]:
    with store.reading() as reading:
        return reading.rows(sa.select(schema.metadata.tables[table]))


def test_ranks_that_state_the_same_share_rows_and_ingesting_again_adds_none(store: Store, tmp_path: Path) -> None:
    for rank in range(3):
        recording(tmp_path, rank, {"M=1": [[0, 0]], "M=2": [[0, 0]]})
    ingest(store, [tmp_path])
    assert (len(rows_of(store, "specializations")), len(rows_of(store, "entry_specializations"))) == (1, 2)
    before = all_rows(store)
    ingest(store, [tmp_path])
    assert all_rows(store) == before
    assert [json.loads(row["extra"]) for row in rows_of(store, "recordings")] == [{"other": [1]}] * 3


def test_a_recording_that_grew_adds_what_is_new(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {"M=1": [[0, 0]]})
    ingest(store, [tmp_path])
    recording(tmp_path, 0, {"M=1": [[0, 0]], "M=2": [[0, 1]]})
    ingest(store, [tmp_path])
    assert (len(rows_of(store, "specializations")), len(rows_of(store, "entry_specializations"))) == (2, 2)


def test_environments_are_kept_apart(store: Store, tmp_path: Path) -> None:
    for rank, triton in enumerate(("3.6.0", "3.9.0", "3.9.0")):
        recording(tmp_path, rank, {"M=1": [[0, rank % 2]]}, triton=triton)
    ingest(store, [tmp_path])
    assert (len(rows_of(store, "specializations")), len(rows_of(store, "entry_specializations"))) == (2, 3)


def test_no_compile_data_and_that_of_a_newer_version_are_nothing(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {}, extra={})
    recording(tmp_path, 1, {}, extra={"compile": {"version": 2, "anything": 1}})
    ingest(store, [tmp_path])
    assert rows_of(store, "entry_specializations") == []
    assert sorted(str(row["extra"]) for row in rows_of(store, "recordings")) == [
        "None",
        '{"compile": {"anything": 1, "version": 2}}',
    ]


def changed(path: str, value: Any) -> Json:
    extra = compiled({"M=1": [[0, 0]]})
    *steps, last = path.split("/")
    place: Any = extra["compile"]
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[last] = value
    return extra


BAD: tuple[tuple[str, Any], ...] = (
    ("configs", None),
    ("configs", [{"num_warps": 1}]),
    ("specializations", {}),
    ("specializations/0/cache_key", "../../x"),
    ("specializations/0/module", "a/b"),
    ("specializations/0/module", "a\0b"),
    ("specializations/0/function", ""),
    ("specializations/0/target", ["cuda", True, 32]),
    ("specializations/0/data", {"name": "k"}),
    ("specializations/0/data", "x" * (1 << 19)),
    ("entries", []),
    ("entries/sm90/pkg.k/M=1", {}),
    ("entries/sm90/pkg.k/M=1", [[0, 2]]),
    ("entries/sm90/pkg.k/M=1", [[-1, 0]]),
    ("entries/sm90/pkg.k/M=1", [[True, 0]]),
    ("entries/sm90/pkg.k/M=1", [[0, 0, 0]]),
)


@pytest.mark.parametrize(("path", "value"), BAD, ids=map(str, itertools.count()))
def test_compile_data_of_the_wrong_form_is_refused_with_its_place(
    store: Store, tmp_path: Path, path: str, value: Any
) -> None:
    file = recording(tmp_path, 0, {"M=1": []}, extra=changed(path, value))
    with pytest.raises(RecordingError) as refused:
        ingest(store, [file])
    place = path.partition("/specializations")[0] or path
    assert str(file) in str(refused.value)
    assert f"extra/compile/{place.split('/')[0]}" in str(refused.value)
