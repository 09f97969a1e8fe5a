"""The table file, the search path, and finding the live candidate of an entry."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import sys
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import H200, ROOT, config
from tuning_registry import TunedTable, load, write
from tuning_registry.errors import FormatError, TableError
from tuning_registry.formats.loader import PACKAGED_TABLES
from tuning_registry.formats.table import read_table, table_bytes, table_payload
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest_in_memory
from tuning_registry.operations.tables.export import export_table


def live(**changes: Any) -> SimpleNamespace:
    """A stand-in for `triton.Config`, which has these attributes."""
    return SimpleNamespace(**{**config(**changes), "pre_hook": None})


def table(kernels: dict[str, Any], **provenance: Any) -> TunedTable:
    return TunedTable("sm90", kernels, provenance)


def test_write_gives_the_seeds_shape_and_stable_bytes(tmp_path: Path) -> None:
    short = {"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3}
    path = tmp_path / "sm90.json"
    write("sm90", {"k": {"M=1": short}}, path, "test", triton="3.6.0", packages={"fla-core": "0.6.0"})
    payload = json.loads(path.read_bytes())
    assert path.read_bytes() == (json.dumps(payload, indent=1, sort_keys=True) + "\n").encode()
    assert {name: payload[name] for name in ("arch", "triton", "packages", "source")} == {
        "arch": "sm90", "triton": "3.6.0", "packages": {"fla-core": "0.6.0"}, "source": "test",
    }  # fmt: skip
    assert payload["kernels"] == {"k": {"M=1": config()}}
    digest = hashlib.sha256(json.dumps(payload["kernels"], sort_keys=True).encode()).hexdigest()
    assert payload["tuning_registry"] == {"version": 1, "digest": digest}
    assert read_table(path).digest == digest


def test_a_megatron_table_of_the_seed_loads_and_is_looked_up(tmp_path: Path) -> None:
    kernels = {
        "_bmm_chunk_fwd_kernel": {
            "chunk_size=128|K=128|IS_CAUSAL=False|torch.bfloat16": {
                "kwargs": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_K": 32}, "num_stages": 4, "num_warps": 4,
            }
        }
    }  # fmt: skip
    path = tmp_path / "sm103.json"
    path.write_text(json.dumps({"arch": "sm103", "kernels": kernels, "packages": {}, "source": "x", "triton": ""}))
    found = load("sm103", tmp_path)
    assert found
    candidate = live(BLOCK_SIZE_K=32, BLOCK_SIZE_M=128, num_stages=4)
    key = "chunk_size=128|K=128|IS_CAUSAL=False|torch.bfloat16"
    assert found.lookup("_bmm_chunk_fwd_kernel", key, [live(), candidate]) is candidate
    assert found.lookup("mamba_ssm.ops.triton.ssd_bmm._bmm_chunk_fwd_kernel", key, [candidate]) is candidate


def test_the_live_object_is_returned_whatever_the_order_of_its_fields() -> None:
    found = table({"k": {"M=1": config(BLOCK_K=32, BLOCK_M=128)}})
    candidates = [live(BLOCK_M=64, BLOCK_K=32), live(BLOCK_M=128, BLOCK_K=32), live(BLOCK_M=128, BLOCK_K=32)]
    candidates[1].pre_hook = candidates[2].pre_hook = print
    assert found.lookup("k", "M=1", candidates) is candidates[1]


def test_an_entry_that_could_mean_the_candidate_with_a_hook_or_the_one_without_names_neither() -> None:
    found = table({"k": {"*": config()}})
    candidates = [live(), live(num_warps=8), live()]
    candidates[2].pre_hook = print
    assert found.find("k", "M=1", candidates).reason == "ambiguous config"
    assert found.lookup("k", "M=1", candidates) is None
    assert found.lookup("k", "M=1", candidates[1:]) is candidates[2]


def test_launch_options_alone_tell_candidates_apart() -> None:
    candidates = [live(maxnreg=count) for count in (None, 128, 256)]
    assert table({"k": {"*": config(maxnreg=256)}}).lookup("k", "M=1", candidates) is candidates[2]
    without = {name: value for name, value in config().items() if name != "maxnreg"}
    assert table({"k": {"*": without}}).lookup("k", "M=1", reversed(candidates)) is candidates[0]  # type: ignore[arg-type]  # any iterable works


def test_the_type_of_a_candidates_value_is_preferred_and_not_required() -> None:
    found = table({"k": {"*": config(CAUSAL=True)}})
    number, boolean, text = live(CAUSAL=1), live(CAUSAL=True), live(CAUSAL="1")
    assert found.lookup("k", "M=1", [number, boolean]) is boolean
    assert found.lookup("k", "M=1", [text, number]) is number
    assert found.find("k", "M=1", [text]).reason == "not a candidate"


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ({"p.k": {"M=1": 1, "*": 2}, "k": {"M=1": 3, "*": 4}}, 1),
        ({"p.k": {"*": 2}, "k": {"M=1": 3, "*": 4}}, 2),
        ({"p.k": {"M=2": 1}, "k": {"M=1": 3, "*": 4}}, 3),
        ({"k": {"M=2": 3, "*": 4}}, 4),
        ({"p.k": {"M=2": 1}, "k": {"M=2": 1}}, "no key"),
        ({"q.k": {"*": 1}}, "no kernel"),
        ({}, "no table"),
        # An entry that names no live candidate is a miss and does not fall through.
        ({"p.k": {"M=1": 99, "*": 2}, "k": {"*": 3}}, "not a candidate"),
    ],
)
def test_the_first_that_exists_decides(kernels: dict[str, dict[str, int]], expected: object) -> None:
    full = {kernel: {key: config(B=block) for key, block in keys.items()} for kernel, keys in kernels.items()}
    candidates = [live(B=block) for block in (1, 2, 3, 4)]
    found = table(full).find("p.k", "M=1", candidates)
    assert (found.reason or found.candidate.kwargs["B"]) == expected  # type: ignore[union-attr]
    assert (found.candidate is None) == bool(found.reason)


@pytest.mark.parametrize("further", [{}, {"mamba.a._norm": {"M=9": config()}}])
def test_a_bare_name_serves_every_kernel_of_that_name(
    further: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    kernels = ("mamba.a._norm", "fla.b._norm", "_norm")
    for order in itertools.permutations(kernels):
        found = table({"_norm": {"M=1": config()}, **further})
        for kernel in order * 2:
            match = found.find(kernel, "M=1", [live()])
            assert (match.reason, match.kernel, match.key) == ("", "_norm", "M=1")
            assert found.text_for(kernel, "M=1") == config_text(config())
    assert caplog.records == []


def test_strange_candidates_do_not_match_and_do_not_raise() -> None:
    class Broken:
        @property
        def kwargs(self) -> object:
            raise RuntimeError("not for you")

    class Index:
        def __index__(self) -> int:
            return 4

    circle: list[Any] = []
    circle.append(circle)
    strange = [Broken(), None, live(B=circle), live(kwargs=7), live(kwargs={"B": {1, 2}}), live(num_warps="4")]
    found = table({"k": {"*": config()}})
    good = live()
    assert found.lookup("k", "M=1", [*strange, good]) is good
    assert found.lookup("k", None, [good]) is None  # type: ignore[arg-type]
    warps = IntEnum("warps", {"FOUR": 4})
    for four in (warps.FOUR, Index()):
        assert found.lookup("k", "M=1", [live(num_warps=four)]) is not None


def test_an_edited_table_is_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write("sm90", {"k": {"*": config()}}, tmp_path / "sm90.json")
    assert load("sm90", tmp_path)
    assert not caplog.records
    path = tmp_path / "sm90.json"
    path.write_text(path.read_text().replace('"B": 64', '"B": 128'))
    assert load("sm90", tmp_path)
    assert "was edited" in caplog.text


@pytest.mark.parametrize("arch", ["sm90\0", "sm\udcff", "s" * 5000, "h200", ""])
def test_loading_never_raises(arch: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_TABLE_PATH", "b" * 5000)
    assert not load(arch, ["a" * 300, "x\0y"])
    assert "does not exist" in caplog.text or "is not an architecture" in caplog.text


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("M=True|x", "M=1|x"),
        ("M=1|x", "M=1.0|x"),
        ("?=64|?=True|x", "BT=64|G=1|x"),
        ("?=64|?=None|x", "BT=64.0|G=None|x"),
    ],
)
def test_equal_spellings_are_found(stored: str, asked: str) -> None:
    assert table({"k": {stored: config()}}).lookup("k", asked, [live()]) is not None
    assert table({"k": {stored: config()}}).find("k", asked.replace("x", "y"), [live()]).reason == "no key"


def test_a_table_with_nothing_in_it_is_false() -> None:
    assert not table({})
    assert table({"k": {}})
    assert repr(table({"k": {"*": config()}})) == "<TunedTable sm90: 1 kernel, 1 entry>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernels": {"k": []}}, "at kernels/k: expected an object of shape keys, found an array"),
        ({"tuning_registry": []}, "at tuning_registry: expected an object, found an array"),
        ({"kernels": []}, "at kernels: expected an object, found an array"),
        ({"arch": 90}, "at arch: expected a string, found the integer 90"),
        ({"arch": ""}, "at arch: the name is empty"),
        ({"packages": "x"}, "at packages: expected an object"),
        (
            {"tuning_registry": {"version": 2}},
            "at tuning_registry/version: expected version 1, found the integer 2; a newer",
        ),
        (
            {"tuning_registry": {"selection_rule": 3}},
            "at tuning_registry/selection_rule: expected selection_rule 1 or 2, found the integer 3; a newer",
        ),
        ({"tuning_registry": {"selection_rule": "1"}}, "expected selection_rule 1 or 2, found the string '1'"),
        (
            {"tuning_registry": {"evidence": {"version": 1, "kernels": {}}}},
            "at tuning_registry/selection_rule: expected 2 in a table with evidence, found nothing",
        ),
        (
            {"tuning_registry": {"selection_rule": 2, "evidence": {"version": 2}}},
            "at tuning_registry/evidence/version: expected evidence version 1, found the integer 2; a newer",
        ),
        (
            {"tuning_registry": {"selection_rule": 2, "evidence": {"version": 1, "kernels": {"k": 1}}}},
            "at tuning_registry/evidence/kernels/k: expected an object, found the integer 1",
        ),
    ],
)
def test_a_broken_table_says_where(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "sm90.json"
    path.write_text(json.dumps({"arch": "sm90", "kernels": {}} | change))
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_bad_kernels_are_refused_by_write_too(tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        write("sm90", {"k": {"M=1": {}}}, tmp_path / "sm90.json")
    assert not (tmp_path / "sm90.json").exists()


def test_the_search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(folder: str, block: int) -> Path:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        write("sm90", {"k": {"*": config(B=block)}}, tmp_path / folder / "sm90.json")
        return tmp_path / folder

    def block() -> Any:
        return load("sm90", given).kernels.get("k", {}).get("*", {}).get("kwargs", {}).get("B")

    given: list[Path] = []
    assert load("sm90").provenance["file"] == str(PACKAGED_TABLES / "sm90.json")
    put("home/tuning-registry/tables", 4)
    assert block() == 4
    monkeypatch.setenv("TUNING_REGISTRY_TABLE_PATH", f"{tmp_path / 'absent'}:{put('b', 3)}")
    assert block() == 3
    given = [tmp_path / "absent", put("a", 2)]
    assert block() == 2
    given = [put("file", 1) / "sm90.json"]
    assert block() == 1
    assert not load("gfx1201", given)


def test_what_cannot_be_used_is_skipped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folders = [tmp_path / name for name in ("mislabelled", "recording", "broken", "dangling", "folder", "good")]
    for folder in folders:
        folder.mkdir()
    write("sm103", {"k": {"*": config()}}, folders[0] / "sm90.json")
    (folders[1] / "sm90.json").write_text(json.dumps({"sm90": {"k": {"*": config()}}}))
    (folders[2] / "sm90.json").write_text('{"arch": "sm90"')
    (folders[3] / "sm90.json").symlink_to(tmp_path / "nowhere")
    (folders[4] / "sm90.json").mkdir()
    write("SM90", {"k": {"*": config()}}, folders[5] / "sm90.json")
    assert load("sm_90", folders).provenance["file"] == str(folders[5] / "sm90.json")
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 5
    for words in ("is for sm103, not sm90", "not a per-arch table", "truncated", "No such file", "not a regular file"):
        assert any(words in line for line in warned), (words, warned)


def test_what_a_table_says_cannot_drive_the_terminal_from_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning_registry.formats.loader.installed_triton", lambda: "3.9.0")
    write("sm90", {"k": {"*": config()}}, tmp_path / "other.json", triton="3\x1b[2J")
    write("sm\x1b[2J", {"k": {"*": config()}}, tmp_path / "sm90.json")
    assert load("sm90", [tmp_path, tmp_path / "other.json"])
    assert len(caplog.records) == 2
    assert "\x1b" not in caplog.text


def test_another_triton_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sm90", {"k": {"*": config()}}, tmp_path / "sm90.json", triton="3.5.1")
    for here, warnings in (("3.9.0", 1), ("3.5.1", 0), ("3.5.1+cu13", 0), ("", 0)):
        caplog.clear()
        monkeypatch.setattr("tuning_registry.formats.loader.installed_triton", lambda here=here: here)
        assert load("sm90", tmp_path)
        assert len(caplog.records) == warnings
    monkeypatch.setattr("tuning_registry.formats.loader.installed_triton", lambda: "3.9.0")
    load("sm90", tmp_path)
    assert "was recorded with Triton 3.5.1; this process uses Triton 3.9.0" in caplog.text


def test_the_shipped_table_is_what_the_pipeline_makes() -> None:
    options = IngestOptions(
        run="h200-2026-07", triton="3.6.0", packages={"flash-linear-attention": "0.6.0"},
        source="eight ranks on two NVIDIA H200s",
    )  # fmt: skip
    made = export_table(ingest_in_memory([H200], options), Selection(arch="sm90"))
    assert (ROOT / "tuning_registry" / "tables" / "sm90.json").read_bytes() == made.data, "run: make tables"


def test_every_shipped_entry_finds_its_candidate() -> None:
    shipped = load("sm90")
    looked_up = 0
    for kernel, entries in shipped.kernels.items():
        for key, stored in entries.items():
            right = SimpleNamespace(**dict(reversed(stored.items())))
            wrong = SimpleNamespace(**{**stored, "num_warps": stored["num_warps"] * 2})
            assert shipped.lookup(kernel, key, [wrong, right]) is right
            looked_up += 1
    assert looked_up == 45


def test_user_folder_is_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuning_registry import locations

    with_library = locations.user_folder()
    monkeypatch.setitem(sys.modules, "platformdirs", None)  # as in an image with the bare source only
    assert locations.user_folder() == with_library
    monkeypatch.delenv("XDG_DATA_HOME")
    assert locations.user_folder() == Path.home() / ".local/share/tuning-registry"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"sm90": {"k": {"M=1": {}}}}', "this is a recording. Make a table from it with registry merge"),
        (
            '{"format": "tuning-registry recording", "version": 1}',
            "this is a recording. Make a table from it with registry merge",
        ),
        ('{"key": [], "configs_timings": []}', "this is Triton's autotune cache file"),
        ('{"1": {"BLOCK_SIZE_M": 16}}', "this is a fused-MoE config file of vLLM or SGLang"),
        ('{"arch": "sm90"}', "expected an object with arch and kernels"),
        ("[]", "expected an object with arch and kernels"),
    ],
)
def test_a_file_that_is_not_a_table_is_described(content: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(TableError) as caught:
        read_table(tmp_path / "x.json")
    assert str(caught.value).endswith(what)


def test_a_tilde_in_a_table_path_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "sm90.json").write_bytes(table_bytes(table_payload("sm90", {"k": {"M=1": config()}})))
    for given in ("~/t", ["~/t"], Path("~/t/sm90.json")):
        assert len(load("sm90", given)) == 1
    monkeypatch.setenv("TUNING_REGISTRY_TABLE_PATH", "~/t")
    assert load("sm90").provenance["file"] == str(tmp_path / "t" / "sm90.json")


def test_of_two_spellings_of_one_key_the_smallest_decides_however_a_call_spells_it() -> None:
    """Which spelling a rank uses first depends on the order of its launches; Triton takes both for one key."""
    one, other = live(B=1), live(B=2)
    entries = {"M=True|x": config(B=1), "M=1.0|x": config(B=2)}
    for kernels in ({"p.k": entries}, {"p.k": dict(reversed(entries.items()))}, {"k": entries}):
        for key in ("M=True|x", "M=1|x", "M=1.0|x"):
            match = table(kernels).find("p.k", key, [one, other])
            assert (match.candidate, match.key) == (other, "M=1.0|x")
