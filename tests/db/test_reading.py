"""Executing queries in one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import write_ranks
from tests.helpers import A, B, take
from tuning_registry.db import queries
from tuning_registry.db.reading import in_chunks
from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection


def test_what_several_parts_ask_is_sent_once_per_transaction(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A, B]), run="one")
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    with store.reading() as reading:
        sa.event.listen(reading.connection, "before_cursor_execute", note)
        first = reading.environments_that_count(Selection())
        assert len(first) == 1
        assert reading.environments_that_count(Selection(kernel="k")) == first  # the same question
        assert len(sent) == 1
        assert reading.environments_that_count(Selection(runs=("other",))) == []
        assert len(sent) == 2
        shapes = queries.entries.shapes
        assert reading.once(shapes(Selection(kernel="k"))) == reading.once(shapes(Selection(kernel="k"))) != []
        assert reading.once(shapes(Selection(kernel="none"))) == []
        assert len(sent) == 4
    with store.reading() as reading:
        sa.event.listen(reading.connection, "before_cursor_execute", note)
        assert reading.environments_that_count(Selection()) == first
        assert len(sent) == 5


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (500, [500]), (1001, [500, 500, 1])])
def test_many_values_go_in_several_statements(count: int, sizes: list[int]) -> None:
    parts = list(in_chunks(range(count)))
    assert [len(part) for part in parts] == sizes
    assert [value for part in parts for value in part] == list(range(count))
