"""The vote rule: pure functions, and SQL that must agree with them."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import config, empty_database, version_1, write_recording
from tuning_registry import count_votes, disagreements, merge_votes
from tuning_registry.db.store import Store
from tuning_registry.db.url import IN_MEMORY, parse_url
from tuning_registry.errors import RecordingError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import find_disagreements
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.tables.export import export_table
from tuning_registry.rules.voting import rank_votes

# Few names and configs, so that ties, splits and equal spellings are common.
kernels = st.sampled_from(["k", "pkg.k", "_k"])
keys = st.sampled_from(["M=1", "M=True", "M=1.0", "M=2", "*", "a|b", "B", "b"])
blocks = st.sampled_from([8, 16, 64, 8.0, True, "8"])
ranks = st.dictionaries(
    st.sampled_from(["sm90", "gfx942"]),
    st.dictionaries(kernels, st.dictionaries(keys, blocks.map(lambda block: config(B=block)), max_size=4), max_size=3),
    max_size=2,
)


def one_spelling(recording: Any) -> Any:
    """At most one spelling of a key in one recording, as Triton's own cache has it."""
    twins = ("M=1", "M=True", "M=1.0")
    for kernels_of in recording.values():
        for entries in kernels_of.values():
            for key in [key for key in twins if key in entries][1:]:
                del entries[key]
    return recording


recordings = st.lists(ranks.map(one_spelling), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def stores(icu_server: str) -> Any:
    with empty_database(icu_server) as url:
        yield [Store(IN_MEMORY), Store(parse_url(url))]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recordings, st.randoms(use_true_random=False))
def test_sql_and_functions_elect_alike_whatever_the_order(
    stores: list[Store], tmp_path_factory: pytest.TempPathFactory, chosen: list[Any], order: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("votes")
    paths = [write_recording(folder / f"rec.rank{rank}.json", votes) for rank, votes in enumerate(chosen)]
    votes = count_votes(paths)
    expected, splits = merge_votes(votes), disagreements(votes)
    run = folder.name
    tables: dict[str, set[bytes]] = {}
    for store in stores:
        order.shuffle(paths)
        for start in range(0, len(paths), 3):
            ingest(store, paths[start : start + 3], IngestOptions(run=run))
        selection = Selection(runs=(run,))
        found = [
            (e.arch, e.kernel, e.key, tuple((c.config, c.count) for c in e.choices))
            for e in find_disagreements(store, selection)[0]
        ]
        assert found == [(*entry, tuple(counted.items())) for entry, counted in splits.items()]
        for arch, table in expected.items():
            if any(table.values()):
                made = export_table(store, Selection(arch=arch, runs=(run,)))
                assert made.payload["kernels"] == {kernel: entries for kernel, entries in table.items() if entries}
                tables.setdefault(arch, set()).add(made.data)
    assert all(len(data) == 1 for data in tables.values())


def test_one_recording_cannot_vote_twice_on_one_key(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "r.json", {"sm90": {"k": {"M=1": config(), "M=True": config()}}})
    with pytest.raises(RecordingError, match="at sm90/k/M=True: Triton cannot tell this key from 'M=1'"):
        count_votes(path)


def test_what_was_counted_is_not_counted_again(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a.json", version_1({"sm90": {"k": {"M=1": config()}}}, triton="3.6.0"))
    copy = write_recording(tmp_path / "b.json", path.read_bytes())
    assert count_votes([path, tmp_path / "*.json", copy]) == {("sm90", "k", "M=1"): {config_text(config()): 1}}
    other = write_recording(tmp_path / "c.json", version_1({"sm90": {"k": {"M=1": config(B=1)}}}, triton="3.6.0"))
    with pytest.raises(RecordingError, match="rank 0 of run 'job-1' has other votes in"):
        count_votes([path, other])
    newer = version_1({"sm90": {"k": {"M=1": config()}}}, rank=1, triton="3.7.0")
    with pytest.raises(
        RecordingError, match=r"recorded with Triton 3\.7\.0, .* with 3\.6\.0; votes of two versions do not mix"
    ):
        count_votes([path, write_recording(tmp_path / "d.json", newer)])


def test_ties_compare_bytes_not_numbers() -> None:
    texts = [config_text(config(B=block)) for block in (8, 16, 128)]
    assert [json.loads(text)["kwargs"]["B"] for text, _ in rank_votes(Counter(texts))] == [128, 16, 8]
