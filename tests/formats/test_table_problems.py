"""`registry validate`: the form of a table, entry by entry, without a database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.conftest import ROOT, config
from tuning_registry.cli.app import app
from tuning_registry.formats.table import table_bytes, table_payload
from tuning_registry.formats.table_problems import validate_table
from tuning_registry.model.canonical import FIELDS

A = config(B=1)


def payload(kernels: Any = None, **extra: Any) -> Any:
    return table_payload("sm90", kernels or {"p.k": {"M=1": A, "*": A}}, extra=extra)


def problems(folder: Path, document: Any, name: str = "sm90.json") -> list[tuple[str, ...]]:
    file = folder / name
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    found = validate_table(file).problems
    assert all(one.file == str(file) for one in found)
    return [(one.kernel, one.key, one.field, one.problem, one.expected) for one in found]


def test_tables_of_ours_and_of_others_are_valid(tmp_path: Path) -> None:
    ban = {"action": "ban", "kernel": "p.k", "key": "*", "config": {"num_warps": 8}, "reason": "r"}
    assert problems(tmp_path, table_bytes(payload()).decode()) == []
    assert problems(tmp_path, payload(overrides=[ban])) == []
    foreign = {"kernels": {"k": {"M=1": {"kwargs": {"B": 1}, "num_warps": 4, "num_stages": None}, "?=2": A}}}
    assert problems(tmp_path, foreign) == []
    for file in (ROOT / "tuning_registry" / "tables").glob("*.json"):
        assert validate_table(file).problems == []


def test_every_bad_entry_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    document = {"arch": "sm90", "kernels": {
        "p.k": {"M=1": A, "M=2": {**A, "num_warps": -4}, "M=3": {**A, "warps": 1}, "M=4": {"kwargs": {}, "num_stages": 3},
                "M=5": "B=1", "M=6": {**A, "kwargs": {"B": None}}},
        "": {"M=1": A}, "p.empty": [], "p.twin": {"M=1": A, "M=True": config(B=2), "M=1.0": A},
    }}  # fmt: skip
    found = problems(tmp_path, document)
    assert found == [
        ("p.k", "M=2", "num_warps", "found the integer -4", "an integer from 1 to 64 or null"),
        ("p.k", "M=3", "warps", "unknown config field", "one of " + ", ".join(FIELDS)),
        ("p.k", "M=4", "num_warps", "required config field 'num_warps' is missing", ""),
        ("p.k", "M=5", "", "found the string 'B=1'", "a config object"),
        ("", "M=1", "", "the name is empty", ""),
        ("p.empty", "", "", "found an array", "an object of shape keys"),
        ("p.twin", "M=True", "", 'Triton cannot tell it from the key "M=1", which has another config', "one of them"),
    ]  # fmt: skip
    assert validate_table(tmp_path / "sm90.json").entries == 5


@pytest.mark.parametrize(
    ("document", "field", "said"),
    [
        ("{", "", "not JSON"),
        ("[]", "", "not a per-arch table: expected an object with arch and kernels"),
        ({"arch": "sm90"}, "", "not a per-arch table: expected an object with arch and kernels"),
        ({"arch": 90, "kernels": {}}, "arch", "found the integer 90"),
        ({"arch": "sm91x0", "kernels": {}}, "arch", "not an architecture"),
        ({"arch": "sm103", "kernels": {}}, "arch", "the table is for sm103, but its name says sm90, so it is never loaded"),
        ({**payload(), "packages": {"fla": 1}}, "packages/fla", "found the integer 1"),
        ({**payload(), "triton": 3}, "triton", "found the integer 3"),
        (payload(version=2), "tuning_registry/version", "found the integer 2; a newer tuning-registry may read it"),
        ({**payload(), "tuning_registry": {"overrides": [{"action": "ban"}]}}, "tuning_registry/overrides/0",
         "required field 'kernel' is missing"),
        (payload(digest="0" * 64), "tuning_registry/digest",
         f"the string '{'0' * 37}...' is not the digest of the file's content, so the file was edited"),
    ],
)  # fmt: skip
def test_a_bad_header_is_named(tmp_path: Path, document: Any, field: str, said: str) -> None:
    (found,) = problems(tmp_path, document)
    assert (found[2], found[3][: len(said)]) == (field, said)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, words)], prog_name="registry")


def test_the_command_prints_one_line_per_problem_and_exits_1(tmp_path: Path) -> None:
    good, bad, gone = tmp_path / "sm90.json", tmp_path / "sm103.json", tmp_path / "gone.json"
    good.write_bytes(table_bytes(payload()))
    bad.write_text(json.dumps({"arch": "sm103", "kernels": {"p.k": {"M=1": {**A, "num_ctas": 0}}}}))
    done = run(good)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"{good}: OK: 2 entries\n")
    done = run(good, bad, gone)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f'{bad}: kernel "p.k", key "M=1": num_ctas: found the integer 0; expected an integer from 1 to 32',
        f"{gone}: cannot be read: No such file or directory",
    ]
    assert done.stderr.splitlines() == [f"{good}: OK: 2 entries", f"{bad}: 1 problem", f"{gone}: 1 problem"]
    (first, _) = json.loads(run(bad, gone, "--format", "json").stdout)
    assert first == {"file": str(bad), "kernel": "p.k", "key": "M=1", "field": "num_ctas",
                     "problem": "found the integer 0", "expected": "an integer from 1 to 32"}  # fmt: skip
    assert run(bad, "--format", "csv").stdout.splitlines()[0] == "file,kernel,key,field,problem,expected"
    assert not (tmp_path / "home").exists()  # no database was created
