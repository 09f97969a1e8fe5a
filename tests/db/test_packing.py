"""Blocks of timings: exact whatever arrives in which batches, and the same for every reader."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from tests.conftest import H200, Json, config, version_2, write_recording
from tests.helpers import on_both, on_postgres, take
from tuning_registry.db import packing, queries, schema
from tuning_registry.db.migrate import downgrade_database, upgrade_database
from tuning_registry.db.roles import role_statements
from tuning_registry.db.store import Store
from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.db.url import parse_url
from tuning_registry.model.packed_times import unpack_ids
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election import timings
from tuning_registry.operations.election.tally import split_entries
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.reports.costs import cost_of, find_costs, timed_of
from tuning_registry.operations.reports.explain import explain
from tuning_registry.operations.reports.ranks import compare_ranks
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.retention import compact_run, delete_run, describe_run
from tuning_registry.operations.runs import list_runs, restore_run, withdraw_run
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.registry import Registry

CONFIGS = [config(B=16), config(B=8), config(B=4)]
Row = tuple[str, int, str, str, float | None, float | None, float | None]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four recordings and more, so that few recordings make many."""
    monkeypatch.setattr(packing, "LEAST", 4)
    monkeypatch.setattr(packing, "MOST", 16)


def document(rank: int, rng: random.Random, **fields: Any) -> Json:
    """A recording with votes and timings on three keys; some candidates fail or are pruned."""
    timed: Json = {}
    for key in ("M=1", "M=2", "M=3"):
        candidates = CONFIGS[: 2 if rng.random() < 0.1 else 3]
        times = [sorted(round(rng.gauss(1, 0.1), rng.choice([3, 17])) for _ in range(3)) for _ in candidates]
        timed[key] = [
            [one, None if rng.random() < 0.05 else [mid, low, high]]
            for one, (low, mid, high) in zip(candidates, times, strict=True)
        ]
    votes = {key: rng.choice(CONFIGS[:2]) for key in timed}
    sets = {"M=2": f"set {rank % 2}"}
    return version_2({"sm90": {"p.k": votes}}, rank, rank=rank, run="fleet", triton="3.6.0", **fields,
                     timings={"sm90": {"p.k": timed}}, candidate_sets={"sm90": {"p.k": sets}})  # fmt: skip


def write_fleet(folder: Path, count: int, seed: int = 1) -> list[Path]:
    rng = random.Random(seed)
    return [write_recording(folder / f"{rank}.json", document(rank, rng)) for rank in range(count)]


def stated(paths: list[Path]) -> list[Row]:
    """What files say about timings."""
    rows: list[Row] = []
    for path in paths:
        found = json.loads(path.read_text())
        for key, timed in found["timings"]["sm90"]["p.k"].items():
            for one, times in timed:
                rows.append((found["run"], found["rank"], key, json.dumps(one), *(times or (None,) * 3)))
    return sorted(rows, key=str)


def stored(store: Store) -> list[Row]:
    """Every timing in the database, once for each place that holds it."""
    with store.reading() as reading:
        names = {row[0]: row[1:] for row in reading.connection.execute(
            sa.select(schema.recordings.c.id, schema.recorded_runs.c.name, schema.recordings.c.rank)
            .join(schema.recorded_runs, schema.recorded_runs.c.id == schema.recordings.c.run_id))}  # fmt: skip
        keys = dict(reading.connection.execute(sa.select(schema.entries.c.id, schema.entries.c.key)).all())
        texts = {i: json.dumps(json.loads(text)) for i, text in
                 reading.connection.execute(sa.select(schema.configs.c.id, schema.configs.c.text))}  # fmt: skip
        rows = list(reading.bulk(sa.select(schema.timings)))
        for row in reading.bulk(queries.timings.blocks_on(list(keys), "medians", "percentiles")):
            block = StoredBlock(row)
            for number, one in enumerate(block.configs):
                times = block.times(number)
                rows += [(block.entry_id, one, r, *(t or (None,) * 3))
                         for r, t in zip(block.recordings, times, strict=True)]  # fmt: skip
    return sorted(((*names[r], keys[e], texts[c], *t) for e, c, r, *t in rows), key=str)


def normal(rows: list[Row]) -> list[Row]:
    return sorted(((*row[:3], json.dumps(json.loads(row[3]), sort_keys=True), *row[4:]) for row in rows), key=str)


def sets_of(store: Store) -> list[tuple[Any, ...]]:
    """Every candidate set in the database: entry, fingerprint and recording."""
    with store.reading() as reading:
        rows = list(reading.bulk(sa.select(schema.candidate_sets)))
        for entry, text, *packed in reading.bulk(queries.timings.set_blocks_on(None)):
            rows += [(entry, text, one) for one in unpack_ids(*packed)]
    return sorted(tuple(row) for row in rows)


def number_of_blocks(store: Store) -> int:
    with store.reading() as reading:
        return reading.row_counts("packed_timings")["packed_timings"]


@pytest.mark.parametrize("batch", [1, 3, 5, 60])
@pytest.mark.usefixtures("small")
def test_what_arrives_in_batches_is_there_exactly_once(store: Store, tmp_path: Path, batch: int) -> None:
    paths = write_fleet(tmp_path, 60)
    for start in range(0, len(paths), batch):
        take(store, *paths[start : start + batch], run=None)
        assert normal(stored(store)) == normal(stated(paths[: start + batch]))
    assert 0 < number_of_blocks(store) < 60
    assert describe_status(store)["timings"] == len(stated(paths))
    assert len(sets_of(store)) == len(set(sets_of(store))) == 3 * 60
    assert take(store, *paths, run=None).already == 60


@pytest.mark.usefixtures("small")
def test_packing_changes_no_answer(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_fleet(tmp_path, 24)
    loose = Store(parse_url(str(tmp_path / "loose.db")))
    with monkeypatch.context() as never:
        never.setattr(packing, "LEAST", 10**6)
        for where in (paths, [H200]):
            take(loose, *where, run=None)
    assert number_of_blocks(loose) == 0
    for where in (paths, [H200]):
        take(store, *where, run=None)
    assert number_of_blocks(store) > 0
    withdraw_run(store, "fleet", [3, 9])
    withdraw_run(loose, "fleet", [3, 9])
    for selection in (Selection(), Selection(runs=("fleet",), ranks=(1, 2, 3, 4, 5)), Selection(triton="3.6.0")):
        assert answers(store, selection) == answers(loose, selection)
    assert describe_status(store)["timings"] == describe_status(loose)["timings"]
    banned = Registry(store.url.render_as_string(hide_password=False)).ban(
        "sm90", "p.k", "M=1", CONFIGS[2], reason="timed and never chosen"
    )
    assert json.loads(banned.config)["kwargs"] == {"B": 4}


def answers(store: Store, selection: Selection) -> dict[str, Any]:
    arch = Selection(arch="sm90", runs=selection.runs, ranks=selection.ranks, triton=selection.triton or "3.6.0")
    found: dict[str, Any] = {
        "costs": [one.to_dict() for one in find_costs(store, selection)[0]],
        "ranks": compare_ranks(store, selection).to_dict(),
        "stale": [one.stale for one in find_winners(store, selection)],
        "explain": explain(store, Selection(arch="sm90", kernel="p.k", runs=selection.runs)).to_dict(),
    }
    for policy in ("majority", "fastest", "minimax"):
        found[policy] = export_table(store, arch, ExportOptions(policy=policy)).data
    found["*"] = export_table(store, arch, ExportOptions(generalize_percent=5.0)).data
    return found


@pytest.mark.usefixtures("small")
def test_a_recording_that_grows_or_comes_again_is_recognized_in_blocks(store: Store, tmp_path: Path) -> None:
    rng = random.Random(3)
    later = [document(rank, rng) for rank in range(12)]
    early = [json.loads(json.dumps(one)) for one in later]
    for one in early:
        for section in ("votes", "timings"):
            del one[section]["sm90"]["p.k"]["M=3"]
    first = [write_recording(tmp_path / "1" / f"{n}.json", one) for n, one in enumerate(early)]
    last = [write_recording(tmp_path / "2" / f"{n}.json", one) for n, one in enumerate(later)]
    take(store, *first, run=None)
    report = take(store, *last, run=None)
    assert (report.completed, report.new) == (12, 0)
    assert normal(stored(store)) == normal(stated(last))
    assert take(store, *first, run=None).already == 12  # an earlier state of what is packed
    assert normal(stored(store)) == normal(stated(last))


@pytest.mark.usefixtures("small")
def test_a_run_is_deleted_exactly(store: Store, cli: Callable[..., Any], tmp_path: Path) -> None:
    paths = write_fleet(tmp_path / "a", 10)
    other = [
        write_recording(tmp_path / "b" / f"{n}.json", json.dumps(json.loads(path.read_text()) | {"run": "other", "id": f"{n + 99:032x}"}))
        for n, path in enumerate(write_fleet(tmp_path / "c", 10, seed=2))
    ]  # fmt: skip
    for start in range(0, 10, 2):  # blocks hold recordings of both runs
        take(store, *paths[start : start + 2], *other[start : start + 2], run=None)
    before, (votes,) = describe_run(store, "fleet"), [run.votes for run in list_runs(store) if run.name == "fleet"]
    assert (before.recordings, before.votes, before.timings) == (10, votes, len(stated(paths)))
    export_table(store, Selection(arch="sm90", triton="3.6.0"))
    assert cli("export", "--arch", "sm90", "-o", tmp_path / "t.json").exit_code == 0
    refused = cli("runs", "delete", "fleet")
    assert refused.exit_code == 2
    assert (
        "nothing was changed: there is no terminal to ask for confirmation; to proceed, repeat the command with --yes"
        in refused.stderr
    )
    assert "made from this run: table" in refused.stderr
    assert f"will be deleted: fleet: 10 recordings, {votes} votes, {len(stated(paths))} timings" in refused.stderr
    assert normal(stored(store)) == normal(stated([*paths, *other]))
    assert cli("runs", "delete", "fleet", "--yes").exit_code == 0
    assert normal(stored(store)) == normal(stated(other))
    assert len(sets_of(store)) == 30
    delete_run(store, "other")
    with store.reading() as reading:
        left = {name: count for name, count in reading.row_counts().items() if count}
    assert left.keys() <= {"configs", "environments", "environment_modules", "exports"}
    assert take(store, *paths, run=None).new == 10
    assert normal(stored(store)) == normal(stated(paths))
    assert cli("runs", "delete", "nope", "--yes").stderr.endswith(
        "there is no run 'nope'; registry runs lists the recorded runs\n"
    )


@pytest.mark.usefixtures("small")
def test_a_compacted_run_keeps_its_medians_and_says_what_is_approximate(
    store: Store, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning_registry.operations.retention.KEPT", 6)
    paths = write_fleet(tmp_path, 24)
    take(store, *paths, run=None)
    selection = Selection(arch="sm90", triton="3.6.0")
    made = [export_table(store, selection, ExportOptions(policy=policy)).data for policy in ("fastest", "minimax")]
    ranks = compare_ranks(store, Selection()).to_dict()
    before = find_costs(store, Selection())[0]
    assert "nothing was changed" in cli("runs", "compact", "fleet").stderr
    done = cli("runs", "compact", "fleet", "--yes")
    assert (done.exit_code, "approximate from then on: noise" in done.stderr) == (0, True), done.stderr
    assert [
        export_table(store, selection, ExportOptions(policy=policy)).data for policy in ("fastest", "minimax")
    ] == made
    assert compare_ranks(store, Selection()).to_dict() == ranks
    after = find_costs(store, Selection())[0]
    percents = [[gap and gap.slower_percent for gap in one.gaps] for one in before]
    assert [[gap and gap.slower_percent for gap in one.gaps] for one in after] == percents
    assert all(one.compacted for one in after)
    assert "noise figures rest on the ranks whose percentiles were kept" in cli("disagreements", "--cost").stderr
    assert cli("report", "--html", tmp_path / "page.html").exit_code == 0
    assert [row[:5] for row in normal(stored(store))] == [row[:5] for row in normal(stated(paths))]
    assert "nothing to compact" in cli("runs", "compact", "fleet", "--yes").stderr
    assert compact_run(store, "fleet") == 0
    assert take(store, *paths, run=None).already == 24
    more = write_fleet(tmp_path / "more", 60)[24:]
    for start in range(0, len(more), 4):  # joined with each other, and not with what has no percentiles
        take(store, *more[start : start + 4], run=None)
    assert normal(stored(store))[-1][0] == "fleet"
    assert describe_status(store)["timings"] == len(stated(paths)) + len(stated(more))


@pytest.mark.usefixtures("small")
def test_large_fleets_are_judged_by_a_stated_sample(
    store: Store, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, *write_fleet(tmp_path, 60), run=None)
    whole = find_costs(store, Selection())[0]
    monkeypatch.setattr(timings, "MOST_RECORDINGS", 20)
    monkeypatch.setattr("tuning_registry.operations.reports.ranks.MOST_RECORDINGS", 20)
    found = {one.entry.key: one for one in find_costs(store, Selection())[0]}
    for one in whole:
        part = found[one.entry.key]
        assert part.sample is not None
        assert (part.sample.total, 8 <= part.sample.used < 40) == (part.sample.total, True)
        assert part.dissenters == one.dissenters  # every rank that dissents is read
        assert [gap and gap.winner_slower_percent for gap in part.gaps] == [
            gap and gap.winner_slower_percent for gap in one.gaps
        ]
        assert all(a and b and a.ranks < b.ranks for a, b in zip(part.gaps, one.gaps, strict=True))
    note = "times are those of a sample of"
    assert note in cli("disagreements", "--cost").stderr
    for policy in ("fastest", "minimax"):
        out = tmp_path / f"{policy}.json"
        assert note in cli("export", "--arch", "sm90", "--policy", policy, "-o", out).stderr
        header = json.loads(out.read_text())["tuning_registry"]
        assert 8 <= header["sampled_recordings"] < 40 < header["timed_recordings"] <= 60
    assert note in cli("explain", "--arch", "sm90", "--kernel", "p.k").stderr
    said = cli("ranks")
    assert "only the times of each entry's elected config are compared" in said.stderr
    assert {rank.timings for rank in compare_ranks(store, Selection()).ranks} <= {0, 1, 2, 3}
    withdraw_run(store, "fleet", list(range(12, 60)))
    assert note not in cli("disagreements", "--cost").stderr
    restore_run(store, "fleet", list(range(12, 60)))


@pytest.mark.parametrize("most", [10**6, 20])
@pytest.mark.usefixtures("small")
def test_a_cost_is_the_same_whether_all_configs_are_read_or_few(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(timings, "MOST_RECORDINGS", most)
    take(store, *write_fleet(tmp_path, 30), run=None)
    with store.reading() as reading:
        votes = VotesByShape(reading, Selection())
        entries, _ = split_entries(votes)
        few = [timed_of(entry, votes, every_config=False) for entry in entries]
        found = [cost_of(entry, timed) for entry, timed in zip(entries, few, strict=True)]
        assert found == [cost_of(entry, timed_of(entry, votes)) for entry in entries]
    assert len(found) == 3
    assert any(len(timed.times) < len(timed.medians or ()) for timed in few)
    assert all((one.sample is None) == (most > 30) for one in found)


KILLED = """
import os, signal, sys
from tuning_registry.db import packing
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db import migrate
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
packing.LEAST = 4
migrate._ROWS_AT_A_TIME = 1
real, calls = packing.pack_entries, []
def deadly(transaction, entries):
    calls.append(1)
    real(transaction, entries)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
packing.pack_entries = deadly
upgrade_database(Store(parse_url(sys.argv[1])))
"""


@on_both
@pytest.mark.usefixtures("small")
def test_an_upgrade_that_is_killed_goes_on_where_it_stopped(
    store: Store, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_fleet(tmp_path, 24)
    with monkeypatch.context() as never:
        never.setattr(packing, "LEAST", 10**6)
        take(store, *paths, run=None)
    downgrade_database(store, "0007")
    killed = subprocess.run([sys.executable, "-c", KILLED, database], capture_output=True, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert store.revision() == schema.HEAD
    some = number_of_blocks(store)
    assert some > 0
    assert normal(stored(store)) == normal(stated(paths))  # rows and blocks together are all of it
    assert find_costs(store, Selection())[0]
    upgrade_database(store)
    assert number_of_blocks(store) > some
    assert normal(stored(store)) == normal(stated(paths))
    sets = sets_of(store)
    upgrade_database(store)
    downgrade_database(store, "0007")
    with store.migrating() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(schema.timings)).scalar_one() == len(
            stated(paths)
        )
    upgrade_database(store)
    assert (normal(stored(store)), sets_of(store)) == (normal(stated(paths)), sets)


@on_both
@pytest.mark.usefixtures("small")
def test_writers_at_the_same_time_pack_every_recording_once(store: Store, tmp_path: Path) -> None:
    paths = write_fleet(tmp_path, 32)
    take(store, paths[0], run=None)
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda path: ingest(store, [path], IngestOptions()), paths[1:]):
            pass
    assert number_of_blocks(store) > 0
    assert normal(stored(store)) == normal(stated(paths))


@on_postgres
@pytest.mark.usefixtures("small")
def test_an_ingester_has_the_rights_to_pack(store: Store, database: str, tmp_path: Path) -> None:
    upgrade_database(store)
    prefix = f"w{parse_url(database).database}"[:30].replace("-", "_")
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(";".join(role_statements(prefix)[1:-1]))
        admin.execute(f"CREATE ROLE {prefix}_u LOGIN PASSWORD 'x' IN ROLE {prefix}_ingester")
    ingester = Store(parse_url(database).set(username=f"{prefix}_u", password="x"))
    paths = write_fleet(tmp_path, 20)
    for path in paths[:10]:
        ingest(ingester, [path], IngestOptions())
    ingest(ingester, paths[10:], IngestOptions())
    assert number_of_blocks(store) > 0
    assert normal(stored(store)) == normal(stated(paths))
    upgrade_database(store)
    assert normal(stored(store)) == normal(stated(paths))
