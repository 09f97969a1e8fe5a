"""The `split` object of a recording."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import config
from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.shares import decode_candidates, encode_candidates

TEXT = config_text(config())


def stated(arch: str = "sm90", kernel: str = "p.k", key: str = "M=1", text: Any = TEXT, place: Any = 0) -> Any:
    return {"repeats": 2, "candidates": {arch: {kernel: {"configs": [text], "keys": {key: [place]}}}}}


def test_what_is_encoded_is_decoded() -> None:
    entries = {("sm90", "p.k", "M=1"): (TEXT,)}
    assert decode_candidates(encode_candidates(entries, 3)) == (3, entries)
    assert decode_candidates(stated()) == (2, entries)


@pytest.mark.parametrize(
    "wrong",
    [
        {"arch": "\ud800"},
        {"kernel": "k\0"},
        {"key": "\udfff"},
        {"text": "\ud800"},
        {"text": 3},
        {"place": -1},
        {"place": 1},
        {"place": "0"},
    ],
)
def test_names_that_no_database_holds_and_places_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """Reports sort by the bytes of these names: one recording would stop them for ever."""
    with pytest.raises(FormatError):
        decode_candidates(stated(**wrong))
