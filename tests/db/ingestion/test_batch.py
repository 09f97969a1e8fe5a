"""Recordings on their way into the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import config, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import RecordingError

A, B = config(B=16), config(B=8, num_warps=8)


def test_one_rank_cannot_vote_twice_on_one_key(store: Store, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "rec.rank0.json", {"sm90": {"k": {"M=1": A, "M=True": B}}})
    with pytest.raises(RecordingError, match="Triton cannot tell this key"):
        take(store, path)
