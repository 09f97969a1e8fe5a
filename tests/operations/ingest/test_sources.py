"""Which files and Triton caches an ingest reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import config, write_ranks
from tuning_registry.db.store import Store
from tuning_registry.errors import UsageError
from tuning_registry.operations.ingest.ingest import ingest

A = config(B=16)


def test_an_empty_path_is_not_the_current_folder(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ranks(tmp_path, [A])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="a PATH is empty"):
        ingest(store, [""])
    assert ingest(store, ["."]).new == 1
