"""Autotuning data of tokamax."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, choices, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.tokamax import TokamaxCache
from tuning_registry.model.kinds import fields_of
from tuning_registry.model.records import IMPOSSIBLE_TIME

TOKAMAX = TokamaxCache()
REAL = TOOLS / "tokamax" / "nvidia_h100_80gb_hbm3"
ARGUMENTS = '{"x":"bf16[8,4]","axis":-1}'
CONFIG = '{"block_m":32,"num_warps":4}'
TIMES = {"evaluation_times_ms": [5.0, 1.0, 2.0, 3.0, 4.0]}


def write(folder: Path, content: Any, name: str = "op.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_every_config_of_a_real_file() -> None:
    file = REAL / "pallas_triton_normalization.json"
    (recording,) = read(TOKAMAX, file)
    document = json.loads(file.read_text())
    assert (list(recording.votes), recording.device) == (["sm90"], "nvidia_h100_80gb_hbm3")
    found = choices(recording)
    timed = recording.timings["sm90"]["tokamax.pallas_triton_normalization"]
    assert [len(list(timed[key])) for key in found] == [len(configs) for configs in document.values()]
    assert len(found) == 8
    for text, configs in zip(found.values(), document.values(), strict=True):
        medians = {config: statistics.median(measured["evaluation_times_ms"]) for config, measured in configs.items()}
        assert fields_of(text) == json.loads(min(medians, key=lambda config: medians[config]))
    assert next(iter(found)) == (
        "x=bf16[384,384,64]|scale=f32[64]|offset=f32[64]|axis=-1|epsilon=1e-06|scale_offset=0.0|subtract_mean=True|"
        "return_residuals=False"
    )


def test_an_op_without_parameters_has_nothing_to_choose() -> None:
    file = REAL / "normalization.json"
    (recording,) = read(TOKAMAX, file)
    stated = [list(configs) for configs in json.loads(file.read_text()).values()]
    wanted = [config for configs in stated for config in configs if config != "{}"]
    found = [text for kernels in recording.votes.values() for keys in kernels.values() for text in keys.values()]
    assert [fields_of(text) for text in found] == [json.loads(config) for config in wanted]
    assert any("{}" in configs for configs in stated)


def test_what_is_not_stated_stays_unstated() -> None:
    (recording,) = read(TOKAMAX, REAL / "pallas_triton_normalization.json")
    assert (recording.header.rank, recording.header.triton) == (None, None)


def test_repeats_give_median_and_percentiles(tmp_path: Path) -> None:
    (recording,) = read(TOKAMAX, write(tmp_path / "gpu", {ARGUMENTS: {CONFIG: TIMES}}))
    (timing,) = recording.timings["unknown"]["tokamax.op"]["x=bf16[8,4]|axis=-1"]
    assert tuple(timing)[1:] == pytest.approx((3.0, 1.8, 4.2))


def test_arguments_without_a_config_are_left_out(tmp_path: Path) -> None:
    other = ARGUMENTS.replace("-1", "[1,null]")
    (recording,) = read(TOKAMAX, write(tmp_path / "gpu", {ARGUMENTS: {}, other: {CONFIG: TIMES}}))
    assert list(choices(recording)) == ["x=bf16[8,4]|axis=[1, null]"]


@pytest.mark.parametrize("time", [0, -1.0, 1e12])
def test_a_choice_with_an_impossible_time_is_an_observation(tmp_path: Path, time: float) -> None:
    (recording,) = read(TOKAMAX, write(tmp_path / "gpu", {ARGUMENTS: {CONFIG: {"evaluation_times_ms": [1.0, time]}}}))
    (entries,) = (entries for kernels in recording.observations.values() for entries in kernels.values())
    assert [one.reason for one in entries.values()] == [IMPOSSIBLE_TIME]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"{": {}}, "at {: expected a JSON object in the name"),
        ({ARGUMENTS: {"[": TIMES}}, "expected a JSON object in the name"),
        ({ARGUMENTS: {"[1]": TIMES}}, "expected a JSON object in the name, found an array"),
        ({ARGUMENTS: {CONFIG: {}}}, "/evaluation_times_ms: expected an array of milliseconds, found null"),
        ({ARGUMENTS: {CONFIG: 3}}, "/evaluation_times_ms: expected an array of milliseconds, found null"),
        ({ARGUMENTS: {CONFIG: {"evaluation_times_ms": ["x"]}}}, "expected milliseconds or null, found the string 'x'"),
        ({ARGUMENTS: {'{"num_warps":-4}': TIMES}}, "expected an integer from 1"),
        ({ARGUMENTS: {CONFIG: TIMES, CONFIG.replace(":", ": "): TIMES}}, "another entry has the same config"),
        ({ARGUMENTS: {}, ARGUMENTS.replace(":", ": "): {}}, "another entry has the same arguments"),
        ({'{"a b": 1}': {}}, "expected a name, found the string 'a b'"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path / "gpu", content))
    assert TOKAMAX.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(TOKAMAX.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


def test_a_file_in_another_place_is_refused_by_name(tmp_path: Path) -> None:
    file = ToolFile(write(tmp_path / "GPU", {ARGUMENTS: {CONFIG: TIMES}}))
    with pytest.raises(RecordingError, match=r"op\.json: not the place of tokamax's data"):
        list(TOKAMAX.read([file]))


@pytest.mark.parametrize("content", [{}, [], {"1": {}}, {"{}": 3}, "{"])
def test_other_files_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not TOKAMAX.recognizes(ToolFile(write(tmp_path / "gpu", content)))
