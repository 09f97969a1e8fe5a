"""The API of the seed, as its users call it: names, arguments, shapes and errors."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tuning_registry.seed
from tests.conftest import H200, ROOT, config, version_1, write_ranks, write_recording
from tuning_registry import (
    TunedTable,
    count_votes,
    disagreement_report,
    disagreements,
    load,
    merge_records,
    merge_votes,
    write,
)
from tuning_registry.model.canonical import config_text

A, B = config(B=16), config(B=8)
ENTRY = ("sm90", "k", "M=1")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (TunedTable, {"arch": ..., "kernels": ..., "provenance": None}),
        (TunedTable.lookup, {"self": ..., "kernel": ..., "key": ..., "candidates": ...}),
        (load, {"arch": ..., "table_path": ()}),
        (count_votes, {"paths": ...}),
        (merge_votes, {"votes": ...}),
        (disagreements, {"votes": ...}),
        (merge_records, {"paths": ...}),
        (disagreement_report, {"paths": ...}),
        (write, {"arch": ..., "kernels": ..., "path": ..., "source": ""}),
    ],
)
def test_signatures(function: Any, arguments: dict[str, object]) -> None:
    parameters = inspect.signature(function).parameters.values()
    positional = {
        parameter.name: ... if parameter.default is parameter.empty else parameter.default
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }
    assert positional == arguments
    assert all(parameter.default is not parameter.empty for parameter in parameters if parameter.name not in arguments)


def test_votes_are_counted_by_entry_and_config(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A, B, A])
    votes = count_votes(paths)
    assert votes == {ENTRY: {config_text(A): 2, config_text(B): 1}}
    assert isinstance(votes, dict)
    assert merge_votes(votes) == {"sm90": {"k": {"M=1": A}}} == merge_records(paths)
    assert disagreements(votes) == votes
    assert disagreement_report(paths) == {ENTRY: 2}


def test_agreement_is_in_the_report_and_not_a_disagreement(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A, A])
    assert disagreements(count_votes(paths)) == {}
    assert disagreement_report(paths) == {ENTRY: 1}


def test_votes_made_by_hand_are_merged() -> None:
    votes = {ENTRY: {config_text(A): 1, config_text(B): 3}, ("gfx942", "k", "*"): {config_text(A): 1}}
    assert merge_votes(votes) == {"gfx942": {"k": {"*": A}}, "sm90": {"k": {"M=1": B}}}
    assert list(disagreements(votes)[ENTRY].items()) == [(config_text(B), 3), (config_text(A), 1)]


def test_the_real_recordings() -> None:
    votes = count_votes(str(H200 / "rec.rank*.json"))
    split = disagreements(votes)
    assert (len(votes), len(split)) == (45, 12)
    assert merge_records(sorted(H200.glob("*.json"))) == merge_votes(votes)
    assert disagreement_report(str(H200 / "rec.rank*.json")) == {entry: len(votes[entry]) for entry in votes}
    (bwd,) = [e for e in split if e[1].endswith("_chunk_cumsum_bwd_kernel") and "chunk_size=128" in e[2]]
    assert list(split[bwd].values()) == [4, 2, 1, 1]


def test_paths_are_files_and_patterns(tmp_path: Path) -> None:
    write_ranks(tmp_path, [A] * 3)
    assert count_votes(tmp_path / "rec.rank0.json") == {ENTRY: {config_text(A): 1}}
    assert count_votes([tmp_path / "rec.rank*.json"]) == {ENTRY: {config_text(A): 3}}
    odd = write_recording(tmp_path / "rec[1].rank0.json", {"sm90": {"k": {"M=1": A}}})
    assert count_votes(odd) == {ENTRY: {config_text(A): 1}}


@pytest.mark.parametrize("function", [count_votes, merge_records, disagreement_report])
def test_errors(function: Any, tmp_path: Path) -> None:
    for missing in (tmp_path / "nothing.json", tmp_path / "nothing*.json", tmp_path):
        with pytest.raises(OSError, match=str(missing).replace("*", r"\*")):
            function([missing])
    for content in ("[]", "{", '{"sm90": 1}', '{"arch": "sm90", "kernels": {}}', '{"sm90": {"k": {"M=1": {}}}}'):
        path = write_recording(tmp_path / "odd.json", content.encode())
        with pytest.raises(ValueError, match=str(path)):
            function([path])


def test_a_table_of_ones_own() -> None:
    right, wrong = SimpleNamespace(**A), SimpleNamespace(**B)
    table = TunedTable("sm90", {"k": {"M=1": A}})
    assert table
    assert not TunedTable("sm90", {}, {"source": "nothing"})
    assert table.lookup("k", "M=1", [wrong, right]) is right
    assert table.lookup("k", "M=2", [wrong, right]) is None


def test_a_table_is_dated_by_its_recordings(tmp_path: Path) -> None:
    header = {"triton": "3.4.0", "packages": {"fla-core": "0.6.0"}}
    document = version_1({"sm90": {"fla.k": {"M=1": A}}}, **header)
    other = version_1({"sm90": {"fla.k": {"M=1": A}}}, rank=1, triton="3.4.0", packages={"fla-core": "0.6.0", "x": "1"})
    differing = version_1({}, rank=2, triton="3.4.0", packages={"x": "2"})
    paths = [write_recording(tmp_path / f"{n}.json", one) for n, one in enumerate((document, other, differing))]
    write("sm90", merge_records(paths)["sm90"], tmp_path / "new" / "sm90.json", "three ranks")
    table = load("sm90", tmp_path / "new")
    assert table.kernels == {"fla.k": {"M=1": A}}
    assert {name: table.provenance[name] for name in ("triton", "packages", "source")} == header | {
        "source": "three ranks"
    }
    assert "provenance" not in table.provenance["tuning_registry"]


def test_a_table_of_undated_recordings_states_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="9.9.9"))
    kernels = {"pytest.k": {"M=1": A}, "no_such_module.k": {"M=1": A}, "bare": {"M=1": A}}
    path = write_recording(tmp_path / "rec.rank0.json", {"sm90": kernels})
    for made in (kernels, merge_records(path)["sm90"]):
        write("sm90", made, tmp_path / "sm90.json")
        stated = json.loads((tmp_path / "sm90.json").read_text())
        assert (stated["triton"], stated["packages"]) == ("9.9.9", {"pytest": version("pytest")})
        assert stated["tuning_registry"]["provenance"] == "installed"
    write("sm90", kernels, tmp_path / "sm90.json", triton="3.6.0")
    stated = json.loads((tmp_path / "sm90.json").read_text())
    assert (stated["triton"], stated["packages"]) == ("3.6.0", {})
    assert "provenance" not in stated["tuning_registry"]


def test_public_names() -> None:
    names = {"load", "TunedTable", "write", "count_votes", "merge_votes", "disagreements", "merge_records",
             "disagreement_report"}  # fmt: skip
    assert names <= set(tuning_registry.__all__)
    assert names == set(tuning_registry.seed.__all__)


def test_it_needs_the_standard_library_only() -> None:
    code = "import sys, tuning_registry.seed; print({'sqlalchemy', 'msgspec', 'typer', 'triton'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
