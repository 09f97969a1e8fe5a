"""Policies and `*` entries: the table they make, against brute force, on every database."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import H200, config, empty_database, version_1, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.db.url import IN_MEMORY, parse_url
from tuning_registry.errors import SelectionError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.tables.export import ExportOptions, export_table

A, B, C = config(B=1), config(B=2), config(B=3)
TEXTS = [config_text(c) for c in (A, B, C)]
SM90 = Selection(arch="sm90")

medians = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]) | st.none()
timed = st.dictionaries(st.sampled_from(range(3)), medians, max_size=3)
# A rank has timed the config that it chose, or none: a vote for a candidate that failed there is an observation.
entry = st.tuples(st.sampled_from(range(3)), timed).filter(lambda made: made[1].get(made[0], 1.0) is not None)
ranks = st.lists(
    st.dictionaries(st.sampled_from(["k", "pkg.k"]), st.dictionaries(st.sampled_from(["M=1", "M=2"]), entry, max_size=2)),
    min_size=1, max_size=5,
)  # fmt: skip


def as_document(rank: int, run: str, chosen: Any) -> Any:
    configs = (A, B, C)
    votes = {k: {key: configs[own] for key, (own, _) in keys.items()} for k, keys in chosen.items()}
    timings = {
        k: {key: [[configs[i], m and [m, m, m]] for i, m in found.items()] for key, (_, found) in keys.items() if found}
        for k, keys in chosen.items()
    }
    return version_1({"sm90": votes} if votes else {}, rank=rank, run=run, timings={"sm90": timings})


class Reference:
    """What the ranks say, worked out the slow way."""

    def __init__(self, chosen: list[Any]) -> None:
        places = {(k, key) for rank in chosen for k, keys in rank.items() for key in keys}
        self.votes: dict[Any, Counter[str]] = {place: Counter() for place in places}
        self.times: dict[Any, dict[str, dict[int, float]]] = {place: {} for place in places}
        for number, rank in enumerate(chosen):
            for k, keys in rank.items():
                for key, (own, found) in keys.items():
                    if found.get(own, 1.0) is not None:  # a choice that failed there is an observation
                        self.votes[k, key][TEXTS[own]] += 1
                    for i, m in found.items():
                        self.times[k, key].setdefault(TEXTS[i], {})[number] = math.inf if m is None else m

        self.entries = sorted(place for place in places if self.votes[place])

    def majority(self, place: Any) -> str:
        return min(self.votes[place], key=lambda text: (-self.votes[place][text], text))

    def median(self, place: Any, text: str) -> float:
        values = sorted(self.times[place].get(text, {}).values())
        return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2 if values else math.inf

    def worst(self, place: Any, text: str) -> float:
        times = self.times[place]
        worst = 1.0
        for rank in {rank for by_rank in times.values() for rank in by_rank}:
            best = min(by_rank.get(rank, math.inf) for by_rank in times.values())
            if best < math.inf:
                worst = max(worst, times[text].get(rank, math.inf) / best)
        return worst

    def elected(self, policy: str, place: Any) -> str:
        score = {"fastest": self.median, "minimax": self.worst}.get(policy)
        if score is not None:
            found = {text: score(place, text) for text in self.times[place]}
            finite = [text for text in found if found[text] < math.inf]
            if finite:
                return min(finite, key=lambda text: (found[text], text))
        return self.majority(place)

    def generalized(self, policy: str, percent: float) -> dict[str, dict[str, str]]:
        table: dict[str, dict[str, str]] = {}
        for kernel in sorted({kernel for kernel, _ in self.entries}):
            own = {key: self.elected(policy, (kernel, key)) for k, key in self.entries if k == kernel}
            table[kernel] = dict(own)
            if kernel == "pkg.k" and any(k == "k" for k, _ in self.entries):
                continue  # its * would come before the entries of the bare name
            keys = [key for key in own if own[key] in self.times[kernel, key]]

            def slowdown(text: str, key: str, kernel: str = kernel, own: dict[str, str] = own) -> float:
                mine, best = self.median((kernel, key), text), self.median((kernel, key), own[key])
                return 0.0 if text == own[key] else math.inf if math.inf in (mine, best) else 100 * (mine / best - 1)

            worst = {
                text: max(slowdown(text, key) for key in keys)
                for text in TEXTS
                if keys and all(text in self.times[kernel, key] for key in keys)
            }
            usable = [text for text in worst if worst[text] < math.inf]
            if usable:
                star = min(usable, key=lambda text: (worst[text], text))
                table[kernel] = {
                    key: text for key, text in own.items() if key not in keys or slowdown(star, key) > percent
                }
                table[kernel]["*"] = star
        return table


@pytest.fixture(scope="module")
def stores(icu_server: str) -> Any:
    with empty_database(icu_server) as url:
        yield [Store(IN_MEMORY), Store(parse_url(url))]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ranks, st.sampled_from(["majority", "fastest", "minimax"]), st.sampled_from([None, 0.0, 40.0]), st.randoms())
def test_every_policy_equals_brute_force_on_every_database(
    stores: list[Store], tmp_path_factory: pytest.TempPathFactory, chosen: list[Any], policy: str,
    percent: float | None, order: random.Random,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("policies")
    run = folder.name
    paths = [
        write_recording(folder / f"{rank}.json", json.dumps(as_document(rank, run, made)))
        for rank, made in enumerate(chosen)
    ]
    reference = Reference(chosen)
    selection = Selection(arch="sm90", runs=(run,))
    tables = set()
    for store in stores:
        order.shuffle(paths)
        for path in paths:
            ingest(store, path, IngestOptions())
        if not reference.entries:
            with pytest.raises(SelectionError):
                export_table(store, selection)
            continue
        made = export_table(store, selection, ExportOptions(policy=policy, generalize_percent=percent))
        expected: dict[str, dict[str, str]] = {}
        for kernel, key in reference.entries:
            expected.setdefault(kernel, {})[key] = reference.elected(policy, (kernel, key))
        if percent is not None:
            expected = reference.generalized(policy, percent)
        assert {
            k: {key: config_text(c) for key, c in keys.items()} for k, keys in made.payload["kernels"].items()
        } == expected
        tables.add(made.data)
    assert len(tables) <= 1


def test_the_real_ranks_under_every_policy(store: Store) -> None:
    take(store, H200, triton="3.6.0")
    real = [json.loads((H200 / f"timings.rank{rank}.json").read_text())["sm90"] for rank in range(8)]
    made = {
        policy: export_table(store, SM90, ExportOptions(policy=policy)) for policy in ("majority", "fastest", "minimax")
    }
    for kernel, keys in made["fastest"].payload["kernels"].items():
        for key, chosen in keys.items():
            by_config: dict[str, list[float]] = {}
            for rank in real:
                for c, times in rank[kernel][key]:
                    by_config.setdefault(config_text(c), []).append(times[0])
            best = min(statistics.median(times) for times in by_config.values())
            assert statistics.median(by_config[config_text(chosen)]) == best
    ours = {policy: export.payload["tuning_registry"] for policy, export in made.items()}
    assert [(policy, extra["policy"]) for policy, extra in ours.items()] == [(policy, policy) for policy in ours]
    assert "decided_by_majority" not in ours["majority"]
    assert ours["fastest"]["decided_by_majority"] == 0
    assert len({export.payload["tuning_registry"]["digest"] for export in made.values()}) == 3


def test_entries_without_timings_fall_back_and_are_counted(store: Store, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [2, 2, 2]], [B, [1, 1, 1]]]}}}
    for rank, chosen in enumerate((A, A, B)):
        document = version_1({"sm90": {"k": {"M=1": chosen, "M=2": chosen}}}, rank=rank, timings=timings)
        write_recording(tmp_path / f"{rank}.json", document)
    take(store, tmp_path, run=None)
    made = export_table(store, SM90, ExportOptions(policy="fastest"))
    assert made.payload["kernels"]["k"] == {"M=1": B, "M=2": A}
    assert (made.undecided, made.payload["tuning_registry"]["decided_by_majority"]) == (1, 1)
    assert made.payload["tuning_registry"]["weakest_agreement"] == [1, 3]
    decided = {e.key: (e.decided_by, e.choices[0].count) for e in find_winners(store, SM90, "fastest")}
    assert decided == {"M=1": ("fastest", 1), "M=2": ("majority", 2)}
