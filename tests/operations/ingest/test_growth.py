"""A recording that is ingested while its job runs: every later state completes it, and each process counts once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Json, config, version_1, version_2, write_recording
from tests.helpers import all_rows, take
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.errors import ConflictError
from tuning_registry.model.records import TWO_SOURCES
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest import notices
from tuning_registry.operations.runs import list_runs
from tuning_registry.registry import Registry

A, B, C = config(B=16), config(B=8), config(B=4)
TIMES = [[A, [1.0, 0.9, 1.1]], [B, [2.0, 1.9, 2.1]], [C, None]]


def put(document: Json, section: str, key: str, value: Any) -> None:
    document.setdefault(section, {}).setdefault("sm90", {}).setdefault("pkg.k", {})[key] = value


def states_of_a_job(rng: random.Random, count: int) -> list[Json]:
    """Every state that a recorder may write during one job: its recording after each choice."""
    document = version_2({}, 7, run="job", triton="3.6.0", source="")
    states = [json.loads(json.dumps(document))]
    observed: list[str] = []
    for number in range(count):
        key, kind = f"M={number}", rng.random()
        if kind < 0.2:
            put(document, "observations", key, {"config": A, "reason": "echo of Triton's disk cache"})
            observed.append(key)
        elif kind < 0.3:
            failed = [[A, None], [B, None]]
            put(document, "observations", key, {"config": None, "reason": "every candidate failed"})
            put(document, "timings", key, failed)
            observed.append(key)
        elif kind < 0.45 and observed:  # an entry that was observed is tuned after all
            key = observed.pop(rng.randrange(len(observed)))
            del document["observations"]["sm90"]["pkg.k"][key]
            put(document, "votes", key, A)
            put(document, "timings", key, TIMES)
        else:
            put(document, "votes", key, rng.choice([A, B]))
            if kind < 0.8:
                put(document, "timings", key, TIMES)
            if kind > 0.7:
                put(document, "candidate_sets", key, f"set {number}")
        if kind > 0.8:  # found in the background
            document |= {"packages": {"pkg": "1.0"}, "modules": {"pkg": "pkg"}, "sources": {"pkg.k": "0" * 64}}
            document |= {"world_size": 8, "device": {"name": "H200", "driver": "570"}, "extra": {"n": number}}
        states.append(json.loads(json.dumps(document)))
    return states


def content(store: Store) -> dict[str, list[Any]]:
    """Everything that the recordings that count state, without ids and times."""
    of = "JOIN recordings r ON r.id = x.recording_id AND r.superseded_at = '' JOIN recorded_runs u ON u.id = r.run_id"
    entry = "JOIN entries e ON e.id = x.entry_id"
    queries = {
        "votes": f"SELECT u.name, r.rank, e.key, c.text FROM votes x {of} {entry} JOIN configs c ON c.id = x.config_id",
        "timings": "SELECT u.name, r.rank, e.key, c.text, x.median_ms, x.p20_ms, x.p80_ms "
        f"FROM timings x {of} {entry} JOIN configs c ON c.id = x.config_id",
        "observations": "SELECT u.name, r.rank, e.key, coalesce(c.text, ''), x.reason "
        f"FROM observations x {of} {entry} LEFT JOIN configs c ON c.id = x.config_id",
        "sets": f"SELECT u.name, r.rank, e.key, x.fingerprint FROM candidate_sets x {of} {entry}",
        "archs": f"SELECT u.name, r.rank, x.arch, x.vote_count FROM recording_archs x {of}",
        "headers": "SELECT u.name, r.rank, r.votes_digest, r.observations_digest, r.timings_digest, r.world_size, r.device_name,"
        " r.process_id, r.extra, v.triton, v.packages, v.modules, k.source, h.driver FROM recordings r"
        " JOIN recorded_runs u ON u.id = r.run_id JOIN environments v ON v.id = r.environment_id"
        " LEFT JOIN kernel_sources k ON k.source_set_id = r.source_set_id LEFT JOIN hardware h ON h.id = r.hardware_id"
        " WHERE r.superseded_at = ''",
    }
    with store.reading() as reading:
        return {
            name: sorted(map(tuple, reading.connection.exec_driver_sql(query)), key=repr)
            for name, query in queries.items()
        }


@pytest.mark.parametrize("seed", range(4))
def test_states_ingested_in_any_order_end_as_the_last_one(store: Store, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    states = states_of_a_job(rng, 30)
    for place in sorted(rng.sample(range(len(states)), 5)):
        take(store, write_recording(tmp_path / "job.rank0.json", states[place]), run=None)
        earlier = write_recording(tmp_path / "old.rank0.json", states[rng.randrange(place + 1)])
        before = content(store)
        report = take(store, earlier, run=None)
        assert (report.new, report.completed, report.already) == (0, 0, 1)
        assert content(store) == before
    take(store, write_recording(tmp_path / "job.rank0.json", states[-1]), run=None)
    assert all_rows(store)["recordings"] == 1
    found = content(store)
    recorded = sum(len(held["pkg.k"]) for held in states[-1]["votes"].values())
    assert len(found["votes"]) == all_rows(store)["votes"] == recorded
    once = Store(parse_url(str(tmp_path / "once.db")))
    take(once, tmp_path / "job.rank0.json", run=None)
    assert content(once) == found


def test_the_report_counts_what_is_new(store: Store, tmp_path: Path) -> None:
    first = version_2({"sm90": {"k": {"M=1": A}}}, timings={"sm90": {"k": {"M=1": TIMES}}})
    second = version_2({"sm90": {"k": {"M=1": A, "M=2": B}}}, timings={"sm90": {"k": {"M=1": TIMES, "M=2": TIMES}}})
    file = tmp_path / "a.rank0.json"
    assert str(take(store, write_recording(file, first), run=None)) == "1 recording, 1 vote, 3 timings, 1 new entry"
    grown = take(store, write_recording(file, second), run=None)
    assert str(grown) == "0 recordings, 1 vote, 3 timings, 1 new entry, 1 completed"
    assert str(take(store, file, run=None)) == "0 recordings, 0 votes, 0 new entries, 1 already ingested"


@pytest.mark.parametrize(
    "change",
    [
        {"votes": {"sm90": {"k": {"M=1": B, "M=2": A}}}},
        {"votes": {"sm90": {"k": {"M=2": A}}}},
        {"observations": {}, "votes": {"sm90": {"k": {"M=1": A, "M=2": A}}}},
        {"observations": {"sm90": {"k": {"M=3": {"config": A, "reason": "other"}}}}},
        {"timings": {"sm90": {"k": {"M=1": [[A, [1.0, 0.9, 1.2]], *TIMES[1:]]}}}},
        {"candidate_sets": {"sm90": {"k": {"M=1": "other"}}}},
        {"triton": "3.7.0"},
        {"packages": {"pkg": "2"}, "votes": {"sm90": {"k": {"M=1": A, "M=2": A}}}},
    ],
)
def test_a_recording_that_changed_otherwise_is_refused(store: Store, tmp_path: Path, change: Json) -> None:
    first = version_2({"sm90": {"k": {"M=1": A}}}, timings={"sm90": {"k": {"M=1": TIMES}}}, triton="3.6.0",
                      observations={"sm90": {"k": {"M=3": {"config": A, "reason": "x"}}}}, packages={"pkg": "1"},
                      candidate_sets={"sm90": {"k": {"M=1": "f"}}})  # fmt: skip
    take(store, write_recording(tmp_path / "a.rank0.json", first), run=None)
    before = content(store)
    file = write_recording(tmp_path / "a.rank0.json", first | change)
    with pytest.raises(ConflictError, match="rank 0 of run 'job-1' is already in the database with"):
        take(store, file, run=None)
    assert len(take(store, file, run=None, keep_going=True).skipped) == 1
    assert content(store) == before


def test_votes_of_a_name_that_two_functions_share_are_retracted(store: Store, tmp_path: Path) -> None:
    seen = {"M=1": {"config": A, "reason": TWO_SOURCES}, "M=2": {"config": B, "reason": TWO_SOURCES}}
    first = version_2({"sm90": {"k": {"M=1": A}, "other": {"M=1": A}}}, timings={"sm90": {"k": {"M=1": TIMES}}})
    later = version_2({"sm90": {"other": {"M=1": A}}}, timings={"sm90": {"k": {"M=1": TIMES}}},
                      observations={"sm90": {"k": seen}})  # fmt: skip
    early = write_recording(tmp_path / "early.rank0.json", first)
    late = write_recording(tmp_path / "late.rank0.json", later)
    take(store, early, run=None)
    assert take(store, late, run=None).completed == 1
    found = content(store)
    assert ([row[2] for row in found["votes"]], len(found["observations"])) == (["M=1"], 2)
    assert take(store, early, run=None).already == 1  # a late arrival brings no vote back
    assert content(store) == found
    once = Store(parse_url(str(tmp_path / "once.db")))
    take(once, late, run=None)
    assert content(once) == found


def test_another_process_and_a_file_without_an_id_complete_nothing(store: Store, tmp_path: Path) -> None:
    grown = {"sm90": {"k": {"M=1": A, "M=2": A}}}
    take(store, write_recording(tmp_path / "a.rank0.json", version_2({"sm90": {"k": {"M=1": A}}}, 1)), run=None)
    for other in (version_2(grown, 2), version_1(grown)):
        with pytest.raises(ConflictError, match="is already in the database with other votes"):
            take(store, write_recording(tmp_path / "b.rank0.json", other), run=None)
    take(store, write_recording(tmp_path / "c.json", version_1({"sm90": {"k": {"M=1": A}}}, run="old")), run=None)
    with pytest.raises(ConflictError, match="is already in the database with other votes"):
        take(store, write_recording(tmp_path / "c.json", version_1(grown, run="old")), run=None)


def test_two_states_in_one_ingest_are_one_recording(store: Store, tmp_path: Path) -> None:
    states = [version_2({"sm90": {"k": {f"M={n}": A for n in range(count)}}}) for count in (1, 3, 2)]
    files = [write_recording(tmp_path / f"{n}.rank0.json", state) for n, state in enumerate(states)]
    report = take(store, *files, run=None)
    assert (report.new, report.votes, report.skipped) == (1, 3, [])
    assert take(store, *files, run=None).already == 1
    other = write_recording(tmp_path / "x.rank0.json", version_2({"sm90": {"k": {"M=0": B}}}))
    with pytest.raises(ConflictError, match="rank 0 of run 'job-1' is also in"):
        take(store, *files, other, run=None, replace=True)


def test_a_process_that_learned_its_rank_late_counts_once(store: Store, tmp_path: Path) -> None:
    early = version_2({"sm90": {"k": {"M=1": A}}}, run="20260101T000000Z-aa", rank=0)
    late = version_2({"sm90": {"k": {"M=1": A, "M=2": A}}}, run="nightly", rank=5, world_size=8)
    first = write_recording(tmp_path / "early.rank0.json", early)
    take(store, first, run=None)
    last = write_recording(tmp_path / "late.rank5.json", late)
    report = take(store, last, run=None)
    assert (report.new, report.replaced) == (1, 1)
    for _ in range(2):  # both files, as a copied folder may hold them
        assert take(store, first, last, run=None).new == 0
    assert [(run.name, run.votes) for run in list_runs(store) if run.votes] == [("nightly", 2)]
    assert [winner.votes for winner in find_winners(store, Selection())] == [1, 1]


def test_a_process_that_only_learned_its_rank_moves_too(store: Store, tmp_path: Path) -> None:
    votes = {"sm90": {"k": {"M=1": A}}}
    first = write_recording(tmp_path / "e.rank0.json", version_2(votes, run="guess"))
    last = write_recording(tmp_path / "l.rank5.json", version_2(votes, run="nightly", rank=5, world_size=8))
    take(store, first, run=None)
    assert take(store, last, run=None).replaced == 1
    assert (take(store, first, run=None).new, take(store, first, last, run=None).new) == (0, 0)
    assert [run.name for run in list_runs(store) if run.votes] == ["nightly"]


def test_as_run_records_a_process_under_a_second_name(store: Store, tmp_path: Path) -> None:
    file = write_recording(tmp_path / "a.rank0.json", version_2({"sm90": {"k": {"M=1": A}}}))
    take(store, file, run=None)
    assert take(store, file, run=None, as_run="second").same_content == {"job-1": 1}
    assert {run.name: run.votes for run in list_runs(store)} == {"job-1": 1, "second": 1}
    grown = write_recording(tmp_path / "a.rank0.json", version_2({"sm90": {"k": {"M=1": A, "M=2": A}}}))
    assert take(store, grown, run=None).completed == 1
    assert take(store, grown, run=None, as_run="second").completed == 1


def test_ranks_that_ran_different_code_are_named(store: Store, cli: Cli, tmp_path: Path) -> None:
    votes = {"sm90": {"pkg.k": {"M=1": A}, "pkg.same": {"M=1": A}}}
    for rank in range(3):
        sources = {"pkg.k": str(rank // 2) * 64, "pkg.same": "7" * 64}
        document = version_2(votes, rank, rank=rank, run="job", sources=sources)
        write_recording(tmp_path / f"{rank}.json", document)
    first = take(store, tmp_path / "0.json", tmp_path / "1.json", run=None)
    assert first.other_sources == {}
    report = take(store, tmp_path / "2.json", run=None)
    assert report.to_dict()["other_sources"] == {"job": ["pkg.k"]}
    assert "ranks of run 'job' ran different code: the source of pkg.k differs" in cli("ingest", tmp_path).stderr


def test_queries_count_and_name_ranks_that_ran_different_code(store: Store, cli: Cli, tmp_path: Path) -> None:
    """Rank 2 of four ran other code of pkg.k; pkg.even is split in two halves; of pkg.same there is one code."""
    for rank in range(4):
        votes = {
            "sm90": {"pkg.k": {"M=1": A if rank else B}, "pkg.even": {"M=1": A}, "pkg.same": {"M=1": A if rank else B}}
        }
        sources = {"pkg.k": str(int(rank == 2)) * 64, "pkg.even": str(rank // 2) * 64, "pkg.same": "7" * 64}
        write_recording(tmp_path / f"{rank}.json", version_2(votes, rank, rank=rank, run="job", sources=sources))
    take(store, tmp_path, run=None)
    shown = cli("disagreements")
    assert "warning: ranks of one run ran different code under the same name for 2 kernels" in shown.stderr
    assert "pkg.k in run job: different code on ranks 0-1,3; ranks 2" in shown.stderr
    assert "pkg.even in run job: different code on ranks 0-1; ranks 2-3" in shown.stderr
    assert shown.stdout.count("[2 versions of its code]") == 1
    rows = {row["kernel"]: row["sources"] for row in json.loads(cli("disagreements", "--format", "json").stdout)}
    assert rows == {"pkg.k": 2, "pkg.same": 1}
    assert "different code" not in cli("disagreements", "--kernel", "pkg.same").stderr
    assert "different code" not in cli("disagreements", "--arch", "sm100").stderr
    assert json.loads(cli("status", "--format", "json").stdout)["kernels_with_mixed_code"] == 2
    ranks = {row["rank"]: row for row in json.loads(cli("ranks", "--format", "json").stdout)}
    assert [ranks[rank]["other_code"] for rank in range(4)] == [1, 1, 2, 1]  # no code of pkg.even has a majority
    assert "other code: other code than most ranks of the run for 2 kernels" in cli("ranks").stdout
    assert cli("ranks", "--kernel", "pkg.k", "--exit-code").exit_code == 1
    same = json.loads(cli("ranks", "--kernel", "pkg.same", "--format", "json").stdout)
    assert all("other code" not in row["outlier"] for row in same)


def test_a_kernel_with_too_many_keys_is_reported_by_command_and_object(
    store: Store, cli: Cli, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MANY_KEYS", 3)
    file = write_recording(
        tmp_path / "0.json", version_1({"sm90": {"k": {f"M={m}": A for m in range(4)}, "few": {"M=1": A}}})
    )
    with Registry(database) as registry:
        assert registry.ingest(file).many_keys == [("sm90", "k", 4)]
        assert registry.ingest(file).many_keys == []  # nothing is new
    more = write_recording(tmp_path / "1.json", version_1({"sm90": {"few": {"M=2": A}}}, rank=1))
    assert "warning: k has 4 keys on sm90. If a value in the key differs in every step" in cli("ingest", more).stderr


def test_configs_that_triton_cannot_tell_apart_are_reported(store: Store, cli: Cli, tmp_path: Path) -> None:
    configs = [config(EVEN_K=True, B=128), config(EVEN_K=1, B=128), config(EVEN_K=True, B=128.0), config(B=64)]
    for rank, chosen in enumerate(configs):
        write_recording(tmp_path / f"{rank}.json", version_1({"sm90": {"k": {"M=1": chosen}}}, rank=rank))
    (texts,) = take(store, tmp_path, run=None).spellings
    assert len(texts) == 3
    for words in (("ingest", tmp_path), ("disagreements",)):
        assert cli(*words).stderr.count("note: Triton cannot tell these configs apart") == 1
    apart = version_1({"sm90": {"k": {"M=1": config(B="128")}}}, rank=9)
    assert take(store, write_recording(tmp_path / "x" / "9.json", apart), run=None).spellings == []
