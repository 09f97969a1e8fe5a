"""Helion's local cache, and the tables of vLLM's Helion kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, choices, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.helion import HelionFiles
from tuning_registry.model.kinds import Kind, fields_of, kind_of

HELION = HelionFiles()
REAL = TOOLS / "helion"
NAME = "0" * 64 + ".best_config"
FIELDS = {
    "specialization_key": "(1,)",
    "kernel_source_hash": "a" * 64,
    "hardware": "NVIDIA H200",
    "runtime_name": "12.8",
}
CACHED = {
    "config": '{"block_sizes": [64], "num_warps": 4}',
    "key": {"type": "LooseAutotuneCacheKey", "fields": FIELDS},
    "flat_config": "[]",
}
ENTRY = {"key": {"num_tokens": 1}, "config": {"block_sizes": [4], "num_warps": 2}}


def write(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def cached(**fields: Any) -> dict[str, Any]:
    return CACHED | {"key": {"type": "LooseAutotuneCacheKey", "fields": FIELDS | fields}}


@pytest.mark.parametrize("file", sorted(REAL.glob("*.best_config")), ids=lambda file: file.name[:8])
def test_every_cached_config_gives_what_it_states(file: Path) -> None:
    (recording,) = read(HELION, file)
    document = json.loads(file.read_text())
    fields = document["key"]["fields"]
    ((key, text),) = choices(recording).items()
    assert fields_of(text) == json.loads(document["config"])
    assert kind_of(text) is Kind.HELION
    assert {kernel for kernels in recording.votes.values() for kernel in kernels} == {
        f"helion.{fields['kernel_source_hash']}"
    }
    names = [part.partition("=")[0] for part in key.split("|")]
    assert names == ["specialization_key", "backend", "config_spec_hash"]
    assert (list(recording.votes), recording.device) == (["sm90"], "NVIDIA_H100_80GB_HBM3")
    assert (recording.header.rank, recording.header.triton, recording.header.hardware.cuda) == (None, None, "12.8")


@pytest.mark.parametrize(("platform", "arch", "count"), [("nvidia_b200", "sm100", 42), ("nvidia_h100", "sm90", 45)])
def test_every_table_of_vllm_gives_what_it_states(platform: str, arch: str, count: int) -> None:
    file = REAL / "vllm" / "silu_and_mul_per_block_quant" / f"{platform}.json"
    (recording,) = read(HELION, file)
    document = json.loads(file.read_text())
    assert len(document) == count
    assert [fields_of(text) for text in choices(recording).values()] == [one["config"] for one in document]
    assert (list(recording.votes), recording.device) == ([arch], platform)
    assert list(recording.votes[arch]) == ["silu_and_mul_per_block_quant"]
    assert next(iter(choices(recording))) == "group_size=128|intermediate_size=6144|num_tokens=1"
    assert recording.origin is not None
    assert recording.origin.project == "vllm"


def test_an_empty_key_is_the_default(tmp_path: Path) -> None:
    path = write(tmp_path / "k", "nvidia_h100.json", [ENTRY | {"key": {}}, ENTRY])
    (recording,) = read(HELION, path)
    assert list(choices(recording)) == ["*", "num_tokens=1"]


def test_what_is_not_stated_stays_unstated(tmp_path: Path) -> None:
    (recording,) = read(HELION, write(tmp_path, NAME, cached(hardware="", runtime_name="", extra_results="()")))
    assert (recording.device, list(recording.votes), recording.header.hardware.cuda) == ("", ["unknown"], None)
    assert list(choices(recording)) == ["specialization_key=(1,)"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (NAME, CACHED | {"config": "{"}, "at config: not JSON at line 1"),
        (NAME, CACHED | {"config": {}}, "at config: expected a string"),
        (NAME, CACHED | {"config": "{}"}, "at config: expected an object of helion parameters, found an empty object"),
        (NAME, CACHED | {"key": []}, "at key: expected an object with config and key"),
        (NAME, CACHED | {"key": {"type": "x", "fields": {}}}, "at key/type: expected a type such as LooseAutotune"),
        (NAME, CACHED | {"key": {"type": "LooseAutotuneCacheKey"}}, "at key/fields: expected an object, found null"),
        (NAME, cached(kernel_source_hash="x"), "kernel_source_hash: expected 64 hexadecimal digits"),
        (NAME, cached(backend=3), "at key/fields/backend: expected a string, found the integer 3"),
        (NAME, cached(**{"a b": "1"}), "at key/fields: expected a name, found the string 'a b'"),
        ("nvidia_h100.json", [ENTRY, ENTRY], "at 1: another entry has the same key"),
        ("nvidia_h100.json", [ENTRY | {"key": 3}], "at 0/key: expected an object"),
        ("nvidia_h100.json", [ENTRY | {"key": {"a": [1]}}], "at 0/key/a: expected a number or a string"),
        ("nvidia_h100.json", [ENTRY | {"config": {}}], "at 0: expected an object of helion parameters"),
        ("a b.json", [ENTRY], "not the name of a platform"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, name: str, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path, name, content))
    assert HELION.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(HELION.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


@pytest.mark.parametrize("content", [{}, [], [3], {"num_warps": 4, "configs_hash": "x"}, "{"])
def test_other_files_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not HELION.recognizes(ToolFile(write(tmp_path, NAME, content)))


def test_files_of_inductor_are_not_looked_at() -> None:
    assert HELION.has_name(NAME)
    assert not HELION.has_name("cabc2345" * 6 + "cabc.best_config")
