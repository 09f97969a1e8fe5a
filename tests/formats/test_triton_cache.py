"""Triton's own cache folder: what is read from it, what is recovered, what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, config, run_registry, write_recording
from tests.helpers import all_rows, take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, FileError, RecordingError, UsageError
from tuning_registry.formats.triton_cache import group_by_cache, read_cache
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Observation, Recording
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.runs import list_runs
from tuning_registry.operations.tables.export import export_table

DATA = Path(__file__).parents[1] / "data"
WHOLE = DATA / "triton-cache"  # with compiled kernels' metadata
BARE = DATA / "triton-autotune-cache"  # results alone
TRUTH = json.loads((DATA / "triton-cache-truth.json").read_text())
A, B = config(B=16), config(B=8)


def read(folder: Path, *, votes: bool = True, **known: str | None) -> Recording:
    (cache,) = group_by_cache(folder.rglob("*.autotune.json"))
    return read_cache(cache, arch=known.get("arch"), triton=known.get("triton"), votes=votes)


def write_result(folder: Path, values: list[Any], pairs: list[Any], kernel: str = "k", hashed: str = "A" * 52) -> Path:
    document = json.dumps({"key": values, "configs_timings": pairs})
    return write_recording(folder / hashed / f"{kernel}.autotune.json", document)


def test_a_real_cache_says_what_the_process_that_wrote_it_saw() -> None:
    recording = read(WHOLE)
    assert recording.header.triton == TRUTH["environment"]["triton"]
    assert list(recording.votes) == list(recording.timings) == [TRUTH["environment"]["arch"]]
    entries = {(e["kernel"].rpartition(".")[2], tuple(map(str, e["key"]))): e for e in TRUTH["entries"]}
    found = {
        (kernel, tuple(field.removeprefix("?=") for field in key.split("|"))): (
            text,
            recording.timings["sm90"][kernel][key],
        )
        for kernel, keys in recording.votes["sm90"].items()
        for key, text in keys.items()
    }
    assert found.keys() == entries.keys()
    for place, (winner, timed) in found.items():
        assert winner == config_text(entries[place]["winner"])
        truth = sorted(
            (config_text(c), tuple(t) if t[0] != float("inf") else None) for c, t in entries[place]["timings"]
        )
        assert truth == list(zip(timed.configs, timed.times_ms, strict=True))


def test_winners_are_observed_unless_it_is_known_whose_cache_it_is(store: Store) -> None:
    report = take(store, WHOLE, run=None)
    assert (report.new, report.votes, report.observations, report.timings, report.unowned_caches) == (1, 0, 7, 88, 1)
    assert (find_winners(store, Selection()), all_rows(store)["votes"]) == ([], 0)
    assert [(run.ranks, run.triton) for run in list_runs(store)] == [((), ("3.6.0",))]
    assert take(store, WHOLE, run=None).already == 1
    report = take(store, WHOLE, run="job", rank=3)
    assert (report.votes, report.observations, report.unowned_caches) == (7, 0, 0)
    assert export_table(store, Selection(arch="sm90")).entries == 7


def test_saying_whose_cache_it_was_counts_its_timings_once(store: Store) -> None:
    take(store, WHOLE, run="job")
    assert describe_status(store)["recordings"] == 1
    report = take(store, WHOLE, run="job", rank=0)
    assert (report.new, report.replaced, report.votes) == (1, 1, 7)
    status = describe_status(store)
    assert (status["recordings"], status["superseded_recordings"]) == (1, 1)
    assert [run.ranks for run in list_runs(store)] == [(0,)]


def test_arch_and_version_are_demanded_where_nothing_says_them(store: Store) -> None:
    with pytest.raises(RecordingError, match="arch is not known: it holds no compiled kernels; give --arch"):
        take(store, BARE)
    with pytest.raises(RecordingError, match="triton is not known: .*; give --triton"):
        take(store, BARE, arch="sm90")
    assert take(store, BARE, arch="sm_90", triton="3.6.0").new_entries == 6
    key = "?=8|?=8|?=128|?=128|?=64|?=False|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.bfloat16"
    assert list(read(BARE, arch="sm90", triton="3.6.0").votes["sm90"]["chunk_fwd_kernel_o"]) == [key]


def test_compiled_kernels_must_agree(tmp_path: Path) -> None:
    shutil.copytree(WHOLE, tmp_path / "cache")
    with pytest.raises(ConflictError, match="--arch sm100, but the compiled kernels in it are for sm90"):
        read(tmp_path / "cache", arch="sm100")
    other = {"target": {"backend": "hip", "arch": "gfx942"}, "triton_version": "3.5.0"}
    write_recording(tmp_path / "cache" / ("B" * 52) / "row_sum.json", json.dumps(other))
    write_recording(tmp_path / "cache" / ("C" * 52) / "row_sum.json", "{ cut")
    with pytest.raises(RecordingError, match="the compiled kernels in it are for gfx942 and sm90; give --arch"):
        read(tmp_path / "cache")
    with pytest.raises(RecordingError, match="are for 3.5.0 and 3.6.0; give --triton"):
        read(tmp_path / "cache", arch="sm90")
    assert len(read(tmp_path / "cache", arch="sm90", triton="3.6.0").votes["sm90"]) == 4


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([64, True, "torch.float16"], "?=64|?=True|torch.float16"),
        (["torch.float16"], "torch.float16"),
        ([1.5, None, "a|b", "7"], "?=1.5|?=None|?=a\\|b|?=\\7"),
        ([[1, True, 2.0], "x", "float32", "torch.int8"], "?=(1, 1, 2)|?=x|float32|torch.int8"),
        (["torch.bfloat16", 3, "torch.bfloat16"], "?=torch.bfloat16|?=3|torch.bfloat16"),
    ],
)
def test_keys_are_values_without_names_then_dtypes(tmp_path: Path, values: list[Any], key: str) -> None:
    write_result(tmp_path, values, [[A, [2, 1, 3]], [B, [1, 1, 1]]])
    assert list(read(tmp_path, arch="sm90", triton="3.6.0").votes["sm90"]["k"]) == [key]


@pytest.mark.parametrize("said", ['{"target": {"arch": %s}, "triton_version": "3"}' % ("9" * 5000),
                                  '{"target": {"arch": 90}, "triton_version": "\\u0000"}'])  # fmt: skip
def test_metadata_that_means_nothing_says_nothing(tmp_path: Path, said: str) -> None:
    write_result(tmp_path, [1], [[A, [1, 1, 1]], [B, [2, 2, 2]]])
    write_recording(tmp_path / ("B" * 52) / "k.json", said)
    with pytest.raises(RecordingError, match="arch is not known: it holds no compiled kernels"):
        read(tmp_path)


def test_the_winner_is_the_one_that_triton_takes(tmp_path: Path) -> None:
    inf = [float("inf")] * 3
    write_result(tmp_path, [1], [[A, [2, 1, 3]], [B, [2, 0.5, 9]], [config(B=4), inf]], "by percentile")
    write_result(tmp_path, [1], [[B, [2, 1, 3]], [A, [2, 1, 3]]], "the first of equals")
    write_result(tmp_path, [1], [[A, inf], [B, inf]], "all failed")
    write_result(tmp_path, [1], [[A, [1, 1, 1]]], "single")
    recording = read(tmp_path, arch="sm90", triton="3.6.0")
    winners = {kernel: json.loads(keys["?=1"])["kwargs"]["B"] for kernel, keys in recording.votes["sm90"].items()}
    assert winners == {"by percentile": 8, "the first of equals": 8}
    reasons = {kernel: keys["?=1"].reason for kernel, keys in recording.observations["sm90"].items()}
    assert reasons == {"all failed": "every candidate failed", "single": "single candidate"}


def test_of_two_results_on_one_key_the_last_written_counts(tmp_path: Path) -> None:
    old = write_result(tmp_path, [1], [[A, [1, 1, 1]], [B, [2, 2, 2]]], hashed="Z" * 52)
    new = write_result(tmp_path, [True], [[A, [2, 2, 2]], [B, [1, 1, 1]]], hashed="Y" * 52)
    for when, file in ((1, old), (2, new)):
        os.utime(file, (when, when))
    assert read(tmp_path, arch="sm90", triton="3.6.0").votes == {"sm90": {"k": {"?=True": config_text(B)}}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "truncated"),
        ("[]", "expected an autotune result of Triton with key and configs_timings, found an array"),
        ('{"key": 1, "configs_timings": []}', "at key: expected an array of values and dtypes"),
        ('{"key": [{}], "configs_timings": []}', "at key: an object cannot be the value of a key"),
        ('{"key": [1], "configs_timings": {}}', "at configs_timings: expected an array"),
        ('{"key": ["a\\u0000"], "configs_timings": []}', "at key: a NUL"),
        ('{"key": [%s], "configs_timings": []}' % ("9" * 5000), "at key: a long integer cannot be the value of a key"),
        ('{"key": [[%s]], "configs_timings": []}' % ("9" * 5000), "at key: a long integer"),
        ('{"key": [%s], "configs_timings": []}' % ("[" * 700 + "]" * 700), "at key: nested more than 32 levels"),
        (
            json.dumps({"key": [1], "configs_timings": [[A | {"num_consumer_groups": 2}, [1, 1, 1]]]}),
            "at configs_timings/0/num_consumer_groups: the integer 2 changes the kernel",
        ),
    ],
)
def test_what_triton_does_not_write_is_refused(store: Store, tmp_path: Path, document: str, message: str) -> None:
    write_result(tmp_path, [1], [[A, [1, 1, 1]], [B, [1, 1, 1]]])
    file = write_recording(tmp_path / ("B" * 52) / "k.autotune.json", document)
    with pytest.raises(RecordingError, match=message) as caught:
        take(store, tmp_path, arch="sm90", triton="3.6.0")
    assert str(file) in str(caught.value)


def test_folders_hold_caches_next_to_recordings(store: Store, tmp_path: Path) -> None:
    shutil.copytree(WHOLE, tmp_path / "node0" / "cache")
    shutil.copytree(WHOLE, tmp_path / "node1" / "cache")
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {"k": {"M=1": A}}})
    with pytest.raises(
        ConflictError,
        match=r"a recording of unknown rank of run 'cache@\w+' holds the same votes or timings: it is probably",
    ):
        take(store, tmp_path, run=None)
    copied = next((tmp_path / "node1").rglob("*.autotune.json"))
    document = json.loads(copied.read_text())
    document["configs_timings"][0][1] = [7.0, 7.0, 7.0]
    copied.write_text(json.dumps(document))  # as another node has measured it
    report = take(store, tmp_path, run=None)
    assert (report.new, report.votes, report.observations) == (3, 1, 14)
    with pytest.raises(UsageError, match="--rank applies to a single recording, but the paths name 3"):
        take(store, tmp_path, rank=0)
    with pytest.raises(UsageError, match="--arch applies to Triton cache folders"):
        take(store, tmp_path / "rec.rank0.json", arch="sm90")


def test_a_cache_whose_rank_is_said_later_under_another_run_is_told_to_be_the_same(store: Store) -> None:
    (observed,) = take(store, WHOLE, run=None).derived_runs
    report = take(store, WHOLE, run="july", rank=0)
    assert (report.new, report.same_content) == (1, {observed: 1})


def test_a_cache_without_results_says_how_to_get_some(tmp_path: Path) -> None:
    shutil.copytree(WHOLE, tmp_path / "cache", ignore=shutil.ignore_patterns("*.autotune.json"))
    done = run_registry("--db", tmp_path / "r.db", "ingest", tmp_path / "cache")
    assert done.returncode == 1
    assert (
        "a Triton cache without autotune results; Triton stores them if TRITON_CACHE_AUTOTUNING=1 is set" in done.stderr
    )


def test_the_command_says_that_a_caches_winners_do_not_vote(cli: Cli) -> None:
    done = cli("ingest", WHOLE)
    assert done.exit_code == 0
    assert "note: winners from a Triton cache are stored as observations and do not vote" in done.stderr
    assert "ingested 1 recording, 0 votes, 88 timings, 7 new entries, 7 observations" in done.stderr
    assert "-      0      3.6.0" in cli("runs").stdout


def test_a_missing_cache_file_is_named(tmp_path: Path) -> None:
    file = write_result(tmp_path, [1], [[A, [1, 1, 1]], [B, [1, 1, 1]]])
    (cache,) = group_by_cache([file])
    file.unlink()
    with pytest.raises(FileError, match="k.autotune.json: cannot be read"):
        read_cache(cache, arch="sm90", triton="3.6.0", votes=True)


@pytest.mark.parametrize("time", [[-0.5, 1, 1], [0.0, 0.0, 0.0], [float("nan")] * 3, -1.0, [1.0, 1.5, 0.5]])
def test_a_winner_with_an_impossible_time_is_observed_and_the_rest_stays(tmp_path: Path, time: Any) -> None:
    write_result(tmp_path, [1], [[A, time], [B, [2.0, 1.9, 2.1]]])
    write_result(tmp_path, [2], [[A, [1.0, 0.9, 1.1]], [B, [2.0, 1.9, 2.1]]], hashed="B" * 52)
    recording = read(tmp_path, arch="sm90", triton="3.6.0")
    assert recording.votes == {"sm90": {"k": {"?=2": config_text(A)}}}
    assert recording.observations == {"sm90": {"k": {"?=1": Observation(config_text(A), "impossible time")}}}
    timings = recording.timings["sm90"]["k"]["?=1"]
    assert {row.config: row.median_ms for row in timings} == {config_text(A): None, config_text(B): 2.0}


def test_an_impossible_time_of_another_candidate_does_not_matter(tmp_path: Path) -> None:
    write_result(tmp_path, [1], [[A, [2.0, -1.9, 2.1]], [B, [1.0, 0.9, 1.1]]])
    recording = read(tmp_path, arch="sm90", triton="3.6.0")
    assert recording.votes == {"sm90": {"k": {"?=1": config_text(B)}}}
    assert [row.median_ms for row in recording.timings["sm90"]["k"]["?=1"] if row.config == config_text(A)] == [None]


def test_what_a_killed_process_leaves_is_not_entered(tmp_path: Path, store: Store) -> None:
    shutil.copytree(WHOLE, tmp_path / "cache")
    cut = tmp_path / "cache" / "tmp.pid_4711_ab" / "row_sum.autotune.json"
    write_recording(cut, '{"key": [1], "configs_tim')
    report = take(store, tmp_path / "cache", run="job", rank=0)
    assert (report.votes, report.skipped) == (7, [])


def test_keep_going_skips_the_file_and_not_the_cache(tmp_path: Path, store: Store) -> None:
    shutil.copytree(WHOLE, tmp_path / "cache")
    empty = write_recording(tmp_path / "cache" / ("D" * 52) / "row_sum.autotune.json", "")
    with pytest.raises(RecordingError, match="the file is empty"):
        take(store, tmp_path / "cache", run="job", rank=0)
    report = take(store, tmp_path / "cache", run="job", rank=0, keep_going=True)
    assert report.votes == 7
    assert [str(error).partition(": ")[0] for error in report.skipped] == [str(empty)]


def test_keep_going_reports_a_cache_without_a_readable_file_once(tmp_path: Path, store: Store) -> None:
    write_recording(tmp_path / ("D" * 52) / "row_sum.autotune.json", "")
    report = take(store, tmp_path, run="job", rank=0, arch="sm90", triton="3.6.0", keep_going=True)
    assert (report.new, len(report.skipped)) == (0, 1)
