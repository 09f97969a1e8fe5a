"""One FlashInfer cache for all ranks, read back with FlashInfer's own function."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, read
from tests.formats.tools.loaders import read_with_flashinfer
from tuning_registry.errors import SelectionError
from tuning_registry.formats.plugin import ElectedEntry, Outgoing
from tuning_registry.formats.tools.flashinfer import FlashInferCache
from tuning_registry.formats.tools.flashinfer_writer import environment_part
from tuning_registry.formats.tools.reprs import items_of
from tuning_registry.model.canonical import config_text
from tuning_registry.model.kinds import tactic_text
from tuning_registry.registry import Registry

FLASHINFER = FlashInferCache()
RANKS = sorted((TOOLS / "flashinfer" / "sglang").rglob("*.json"))
V1 = sorted((TOOLS / "flashinfer" / "v1").glob("*.json"))
METADATA = {"flashinfer_version": "0.7.4", "cudnn_version": "91900", "gpu": "NVIDIA B200"}


def export(files: list[Path], out: Path, **options: Any) -> Path:
    with Registry(":memory:") as registry:
        registry.ingest(files, **options)
        assert registry.write_format("flashinfer", out, curated="run" not in options) == {}
    return out


def environment(file: Path) -> dict[str, str]:
    return dict(json.loads(file.read_text())["_metadata"])


def slot(key: str) -> tuple[str, str]:
    """Op and profile of a cache key."""
    op, _, profile, *_ = items_of(key)
    return op, profile


def test_all_ranks_load_what_most_of_them_chose(tmp_path: Path) -> None:
    counts: dict[Any, Counter[Any]] = defaultdict(Counter)
    for file in RANKS:
        for key, choice in read_with_flashinfer(file, environment(file))[1].items():
            counts[slot(key)][key, choice] += 1
    out = export(RANKS, tmp_path / "cache.json", run="job")
    is_loaded, found, policies = read_with_flashinfer(out, environment(RANKS[0]))
    assert is_loaded
    assert {slot(key) for key in found} == counts.keys()
    assert len(found) == len(counts) == 24
    for key, choice in found.items():
        assert counts[slot(key)][key, choice] == max(counts[slot(key)].values())
    theirs = {key: policy for file in RANKS for key, policy in read_with_flashinfer(file, environment(file))[2].items()}
    assert policies == {key: theirs[key] for key in found}


@pytest.mark.parametrize("file", V1, ids=lambda file: file.name)
def test_the_cache_of_one_rank_comes_out_as_it_was(file: Path, tmp_path: Path) -> None:
    out = export([file], tmp_path / "cache.json", run="job", rank=0)
    assert read_with_flashinfer(out, environment(file)) == read_with_flashinfer(file, environment(file))
    assert json.loads(out.read_text())["_metadata"] == environment(file)
    assert not read_with_flashinfer(out, environment(file) | {"cudnn_version": "1"})[0]
    (ours,), (theirs,) = read(FLASHINFER, out), read(FLASHINFER, file)
    assert (ours.votes, ours.device, ours.header.packages) == (theirs.votes, theirs.device, theirs.header.packages)


def test_without_a_rank_the_libraries_are_not_known(tmp_path: Path) -> None:
    file = V1[-1]
    out = export([file], tmp_path / "cache.json")
    is_loaded, found, _ = read_with_flashinfer(out, environment(file))
    assert is_loaded
    assert found == read_with_flashinfer(file, environment(file))[1]
    assert not read_with_flashinfer(out, environment(file) | {"gpu": "NVIDIA H100"})[0]
    assert not read_with_flashinfer(out, environment(file) | {"flashinfer_version": "0.7.5"})[0]


def elected(profile: str = "((1,),)", config: str | None = None, **changes: Any) -> ElectedEntry:
    given: dict[str, Any] = {
        "arch": "sm100",
        "device": "NVIDIA_B200",
        "kernel": "flashinfer.fp4_gemm",
        "version": "0.7.4",
        "total_votes": 1,
    } | changes
    text = tactic_text("R", 3, extras="(1,)") if config is None else config
    return ElectedEntry(key=f"profile={profile}", config=text, **given)


def written(*entries: ElectedEntry, parts: tuple[Any, ...] = ()) -> dict[str, Any]:
    data = FLASHINFER.write(Outgoing(entries=entries, extras=lambda: parts)).files[""]
    assert isinstance(data, bytes)
    return dict(json.loads(data))


def test_a_profile_is_written_as_it_was_read() -> None:
    document = written(elected(r"((1, 'a\|b\=\\c'),)", kernel="flashinfer.it's"))
    key = """("it's", 'R', ((1, 'a|b=\\c'),), (1,))"""
    assert document[key] == ["R", 3]


def test_the_entry_of_a_pin_states_no_device_or_version() -> None:
    pin = elected("((2,),)", device="", version="", total_votes=0)
    document = written(pin, elected(), parts=(environment_part(METADATA, ()),))
    assert document["_metadata"] == METADATA
    assert len(document) == 3


def test_one_op_has_one_policy_or_none() -> None:
    cold, hot = ["l2_cache_policy", "cold"], ["l2_cache_policy", "hot"]
    one, other = (environment_part(METADATA, pairs) for pairs in ([("fp4_gemm", cold)] * 2, [("x", cold), ("x", hot)]))
    assert one["flashinfer"]["policies"] == {"fp4_gemm": cold}
    assert other["flashinfer"]["policies"] == {}
    document = written(elected(times_ms=(0.5, 0.5, 0.5)), parts=({}, {"flashinfer": {"version": 2}}, one))
    assert document == {"_metadata": METADATA, "('fp4_gemm', 'R', ((1,),), (1,))": ["R", 3, cold, {"time_ms": 0.5}]}


def test_ranks_of_two_environments_are_refused() -> None:
    parts = tuple(environment_part(METADATA | {"cudnn_version": one}, ()) for one in ("91900", "92000"))
    with pytest.raises(SelectionError, match="tuned with 2 values of cudnn_version: 91900, 92000"):
        written(elected(), parts=parts)
    elsewhere = environment_part(METADATA | {"gpu": "NVIDIA H100", "cudnn_version": "1"}, ())
    assert written(elected(), parts=(parts[0], elsewhere))["_metadata"] == METADATA


def test_entries_that_a_cache_cannot_hold_are_counted_or_refused() -> None:
    triton = config_text({"kwargs": {}, "num_warps": 4, "num_stages": 3})
    made = FLASHINFER.write(
        Outgoing(entries=[elected(), elected("((2,),)", tactic_text("R", 1)), elected("x", triton)])
    )
    assert made.left_out == {
        "they are not choices of FlashInfer's autotuner": 1,
        "their cache keys differ between ranks": 1,
    }
    (note,) = made.notes
    assert "no rank recorded these choices" in note
    assert FLASHINFER.write(Outgoing(entries=[elected("x", triton)])).files == {}
    for name, values, option in (
        ("device", ("NVIDIA_B200", "NVIDIA_H100"), "--device"),
        ("version", ("0.6.9", "0.7.4"), "--package flashinfer-python=VERSION"),
        ("arch", ("sm90", "sm100"), "--arch"),
    ):
        with pytest.raises(SelectionError, match=option):
            written(*(elected(**{name: value}) for value in values))
