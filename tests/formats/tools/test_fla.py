"""Config folders of flash-linear-attention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, read
from tuning_registry.errors import RecordingError, SelectionError
from tuning_registry.formats.plugin import ElectedEntry, Outgoing, ToolFile
from tuning_registry.formats.tools.fla import FlaFolder
from tuning_registry.model.canonical import config_text, load_config
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.records import Timing

FLA = FlaFolder()
FOLDER = TOOLS / "fla" / "NVIDIA_H200"
CONFIG = {"kwargs": {"BT": 8}, "num_warps": 1, "num_ctas": 1, "num_stages": 3}
KEY = [128, 1, "torch.bfloat16"]


def kernel(**changes: Any) -> dict[str, Any]:
    entry = {"autotune_key": KEY, "config": CONFIG, "best_timing": [2.0, 1.0, 3.0]} | changes
    return {"kernel_name": "k", "triton_version": "3.6.0", "autotune_entries": {"0" * 32: entry}}


def write(folder: Path, content: Any, name: str = "k.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / name


def test_a_folder_is_one_recording_with_every_entry_and_time() -> None:
    (recording,) = read(FLA, *sorted(FOLDER.glob("*.json")))
    assert (recording.device, list(recording.votes), recording.header.triton) == ("NVIDIA_H200", ["sm90"], "3.6.0")
    assert recording.header.rank is None
    kernels = recording.votes["sm90"]
    assert len(kernels) == 9
    for name, entries in kernels.items():
        document = json.loads((FOLDER / f"{name}.json").read_text())
        assert len(entries) == len(document["autotune_entries"]) + ("default_config" in document)
        assert len(recording.timings["sm90"][name]) == len(document["autotune_entries"])
        assert load_config(entries["*"])["kwargs"] == document["default_config"]["kwargs"]


def test_keys_have_values_by_position_then_dtypes(tmp_path: Path) -> None:
    (recording,) = read(FLA, write(tmp_path / "configs", kernel()))
    assert (recording.device, list(recording.votes)) == ("", ["unknown"])  # the folder is not named after a GPU
    ((key, text),) = recording.votes["unknown"]["k"].items()
    assert key == "?=128|?=1|torch.bfloat16"
    assert load_config(text) == CONFIG | {"maxnreg": None, "ir_override": None}
    assert list(recording.timings["unknown"]["k"][key]) == [Timing(text, 2.0, 1.0, 3.0)]


def test_a_boolean_in_a_key_is_not_a_number(tmp_path: Path) -> None:
    (recording,) = read(FLA, write(tmp_path, kernel(autotune_key=[True, 1, "torch.bfloat16"])))
    assert list(recording.votes["unknown"]["k"]) == ["?=True|?=1|torch.bfloat16"]


def test_a_time_is_optional(tmp_path: Path) -> None:
    (recording,) = read(FLA, write(tmp_path, kernel(best_timing=None)))
    assert not recording.timings


def test_files_for_two_versions_are_two_recordings(tmp_path: Path) -> None:
    one, other = write(tmp_path, kernel()), write(tmp_path, kernel() | {"triton_version": "3.5.0"}, "other.json")
    assert sorted(str(one.header.triton) for one in read(FLA, one, other)) == ["3.5.0", "3.6.0"]


def test_backups_are_not_configs() -> None:
    folder = TOOLS / "fla" / "merged-ranks-0-1-5"
    assert any(folder.glob("*.bak"))
    assert not any(str(file).endswith(FLA.suffixes) for file in folder.glob("*.bak"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"autotune_entries": []}, "at autotune_entries: expected an object of entries, found an array"),
        ({"autotune_entries": {"a": 1}}, "at autotune_entries/a: expected an entry"),
        (kernel(config=None), "config: expected a config object, found null"),
        (kernel(config={"num_warps": 4}), "required config field"),
        (kernel(config=CONFIG | {"num_warps": "4"}), "num_warps: expected an integer or null"),
        (kernel(autotune_key="x"), "autotune_key: expected an array of values and dtypes, found the string 'x'"),
        (kernel(autotune_key=[{"a": 1}]), "an object cannot be the value of a key"),
        (kernel(best_timing=[1.0]), "expected [median, p20, p80] in ms"),
        (kernel() | {"triton_version": 3}, "triton_version: expected a string"),
        (kernel() | {"default_config": 3}, "default_config: expected a config object"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path, content))
    assert FLA.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(FLA.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


@pytest.mark.parametrize("content", [[], {}, {"kernels": {}}, "{"])
def test_other_documents_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not FLA.recognizes(ToolFile(write(tmp_path, content)))


def elected(key: str, **changes: Any) -> ElectedEntry:
    given = {"kernel": "pkg.ops.k", "arch": "sm90", "device": "", "triton": "3.6.0", "config": config_text(CONFIG)}
    return ElectedEntry(key=key, **{**given, **changes})


def written(*entries: ElectedEntry) -> dict[str, Any]:
    files = FLA.write(Outgoing(entries=entries)).files
    return {name: json.loads(data) for name, data in files.items() if isinstance(data, bytes)}


def test_files_that_fla_wrote_come_out_with_the_same_entries(tmp_path: Path) -> None:
    """The digests of keys, which fla looks up, are those that its own script made."""
    for path in sorted(FOLDER.glob("*.json")):
        (recording,) = read(FLA, path)
        entries, timings = recording.votes["sm90"][path.stem], recording.timings["sm90"][path.stem]
        first = {key: next(iter(timed)) for key, timed in timings.items()}
        times = {key: (one.median_ms, one.p20_ms, one.p80_ms) for key, one in first.items()}
        ours = written(
            *(elected(key, kernel=path.stem, config=text, times_ms=times.get(key)) for key, text in entries.items())
        )
        theirs, made = json.loads(path.read_text()), ours[path.name]
        assert {name: (one["autotune_key"], one["best_timing"]) for name, one in made["autotune_entries"].items()} == {
            name: (one["autotune_key"], one["best_timing"]) for name, one in theirs["autotune_entries"].items()
        }
        for name, one in theirs["autotune_entries"].items():
            assert made["autotune_entries"][name]["config"] == one["config"]
        (again,) = read(FLA, write(tmp_path / "NVIDIA_H200", made, path.name))
        assert (again.votes, again.header.triton) == (recording.votes, "3.6.0")


def test_values_of_keys_have_their_types() -> None:
    key = r"a=1|b=True|c=None|d=0.5|e=tf32|f=\1|g=x\|y|h=(1, True)|torch.bfloat16"
    ((entry,),) = (list(written(elected(key))["k.json"]["autotune_entries"].values()),)
    assert entry["autotune_key"] == [1, True, None, 0.5, "tf32", "1", "x|y", [1, True], "torch.bfloat16"]
    assert "best_timing" not in entry


def test_the_entry_of_a_pin_states_no_version_and_is_the_default() -> None:
    document = written(elected("*", triton="", total_votes=0), elected("M=1", triton="3.6.0"))["k.json"]
    assert document["triton_version"] == "3.6.0"
    assert document["default_config"]["num_warps"] == CONFIG["num_warps"]


def test_what_a_folder_cannot_hold_is_counted_or_refused() -> None:
    made = FLA.write(Outgoing(entries=[
        elected("M=1"), elected("M=inf"), elected("M=2", kernel="pkg.a.twin"), elected("M=2", kernel="pkg.b.twin"),
        elected("M=3", config=launch_text({"BLOCK": 1})),
    ]))  # fmt: skip
    assert list(made.files) == ["k.json"]
    assert sorted(made.left_out.values()) == [1, 1, 2]
    for field, values, option in (("arch", ("sm90", "sm100"), "--arch"), ("triton", ("3.5.0", "3.6.0"), "--triton"),
                                  ("device", ("", "NVIDIA_H200"), "--device")):  # fmt: skip
        with pytest.raises(SelectionError, match=option):
            FLA.write(Outgoing(entries=[elected("M=1", **{field: value}) for value in values]))
