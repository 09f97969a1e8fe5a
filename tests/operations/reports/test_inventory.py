"""What is recorded at a glance, patterns and ranks as filters, and runs compared as tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, config, version_1, write_ranks, write_recording
from tuning_registry import Registry
from tuning_registry.errors import FileError, SelectionError, UsageError
from tuning_registry.model.selection import Selection, parse_ranks

A, B, C = config(B=16), config(B=8), config(B=4)


@pytest.fixture
def registry(database: str, tmp_path: Path) -> Registry:
    """Runs june (ranks 0 to 2) and july (ranks 0 and 1) of three kernels; rank 1 of june dissents on one key."""
    june = {"pkg.norm.fwd": {"M=1": A, "M=2": A}, "pkg.norm.bwd": {"M=1|x": A}}
    registry = Registry(database)
    for rank in range(3):
        votes = {**june, "pkg.norm.fwd": {"M=1": B if rank == 1 else A, "M=2": A}}
        document = version_1({"sm90": votes}, run="june", rank=rank, triton="3.6.0")
        write_recording(tmp_path / "june" / f"{rank}.json", json.dumps(document))
    for rank in range(2):
        votes = {"pkg.norm.fwd": {"M=1": C, "M=2": A}, "pkg.gemm": {"M=1": A}}
        document = version_1({"sm90": votes}, run="july", rank=rank, triton="3.6.0")
        write_recording(tmp_path / "july" / f"{rank}.json", json.dumps(document))
    registry.ingest([tmp_path / "june", tmp_path / "july"])
    return registry


def rows(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_kernels_at_a_glance(registry: Registry, cli: Cli) -> None:
    found = registry.kernels()
    assert [(k.kernel, k.entries, k.ranks, k.votes, k.disagreements) for k in found] == [
        ("pkg.gemm", 1, 2, 2, 0), ("pkg.norm.bwd", 1, 3, 3, 0), ("pkg.norm.fwd", 2, 5, 10, 1),
    ]  # fmt: skip
    assert rows(cli("kernels", "--format", "json")) == [kernel.to_dict() for kernel in found]
    assert [k.kernel for k in registry.kernels(kernel="*norm*", runs="june")] == ["pkg.norm.bwd", "pkg.norm.fwd"]
    shown = cli("kernels", "fwd")
    assert (shown.stdout.split()[-6:], shown.stderr.splitlines()[-1]) == (
        ["sm90", "2", "5", "10", "1", "pkg.norm.fwd"], "1 kernel",
    )  # fmt: skip
    assert [k.ranks for k in registry.kernels(kernel="fwd", ranks=0)] == [2]
    missing = cli("kernels", "norm_fwd")
    assert (missing.exit_code, missing.stdout) == (0, "")
    assert "similar name: pkg.norm.fwd" in cli("keys", "norm.fwd").stderr


def test_keys_at_a_glance(registry: Registry, cli: Cli) -> None:
    found = registry.keys(kernel="fwd")
    assert [(key.key, key.votes, key.winner_votes, key.configs) for key in found] == [
        ("M=1", 5, 2, 3),
        ("M=2", 5, 5, 1),
    ]
    assert rows(cli("keys", "fwd", "--format", "json")) == [key.to_dict() for key in found]
    shown = cli("keys", "fwd")
    assert shown.stdout.splitlines()[0].split() == ["ARCH", "VOTES", "WINNER", "VOTES", "CONFIGS", "TRITON", "KEY"]
    assert shown.stderr.endswith("2 keys\n")
    assert "KERNEL" in cli("keys", "*norm*").stdout.splitlines()[0]


def test_packages_narrow_the_ranks_of_a_kernel_too(database: str, tmp_path: Path) -> None:
    for rank, version in enumerate(("1.0", "2.0", "2.0")):
        document = version_1({"sm90": {"pkg.k": {"M=1": A}, "k": {"M=1": A}}}, rank=rank, packages={"pkg": version})
        write_recording(tmp_path / f"{rank}.json", json.dumps(document))
    registry = Registry(database)
    registry.ingest(tmp_path)
    assert {(k.kernel, k.ranks, k.entries) for k in registry.kernels()} == {("k", 3, 1), ("pkg.k", 3, 2)}
    found = {(k.kernel, k.ranks, k.votes) for k in registry.kernels(packages={"pkg": "2.0"})}
    assert found == {(k.kernel, k.votes, k.votes) for k in registry.kernels(packages={"pkg": "2.0"})}
    assert ("pkg.k", 2, 2) in found


def test_a_pattern_chooses_kernels_with_their_overrides(registry: Registry) -> None:
    registry.pin("sm90", "pkg.norm.bwd", "M=1|x", A, reason="r")
    decided = {(w.kernel, w.key): w.decided_by for w in registry.winners(kernel="*norm*")}
    assert decided == {
        ("pkg.norm.bwd", "M=1|x"): "pin", ("pkg.norm.fwd", "M=1"): "majority", ("pkg.norm.fwd", "M=2"): "majority",
    }  # fmt: skip
    assert [d.kernel for d in registry.disagreements(kernel="pkg.n*")] == ["pkg.norm.fwd"]


def test_keys_by_pattern(registry: Registry, cli: Cli) -> None:
    def keys(pattern: str) -> list[tuple[str, str]]:
        found = registry.explain("sm90", "*norm*", pattern)
        return [(one.entry.kernel, one.entry.key) for one in found.entries]

    fwd, bwd = "pkg.norm.fwd", "pkg.norm.bwd"
    assert keys("M=[12]*") == [(bwd, "M=1|x"), (fwd, "M=1"), (fwd, "M=2")]
    assert keys("M=1") == [(fwd, "M=1")]
    assert keys("*") == [(bwd, "M=1|x"), (fwd, "M=1"), (fwd, "M=2")]
    registry.pin("sm90", fwd, "*", A, reason="r")
    assert keys("*") == [(fwd, "*")]  # a key that was recorded is not a pattern
    assert keys("?=1") == [(fwd, "M=1")]  # by position
    missing = cli("explain", "--arch", "sm90", "--kernel", "bwd", "--key", "N*")
    assert (missing.exit_code, "nearest: M=1|x" in missing.stderr) == (1, True)


def test_ranks_as_a_filter(registry: Registry, cli: Cli) -> None:
    fwd = [w.votes for w in registry.winners(kernel="fwd", runs="june", ranks=[0, 2])]
    assert fwd == [2, 2]
    assert registry.disagreements(kernel="fwd", runs="june", ranks=[0, 2]) == []
    assert [e.entry.votes for e in registry.explain("sm90", "fwd", "M=1", ranks=1).entries] == [2]
    by_command = rows(cli("winners", "--kernel", "fwd", "--run", "june", "--rank", "0,2", "--format", "json"))
    assert [row["total_votes"] for row in by_command] == fwd
    assert "2 of 2 entries" not in cli("disagreements", "--rank", "0", "--rank", "2").stderr
    everything = {(r.run, r.rank): r for r in registry.ranks().ranks}
    chosen = registry.ranks(ranks=1).ranks
    assert {(r.run, r.rank): r for r in chosen} == {k: r for k, r in everything.items() if k[1] == 1}


@pytest.mark.parametrize(
    ("texts", "ranks"), [(["3"], (3,)), (["0-2", "2,5"], (0, 1, 2, 5)), ([], ()), ([" 1 - 2 "], None), (["0- 1"], None)]
)
def test_ranks_as_text(texts: list[str], ranks: tuple[int, ...] | None) -> None:
    if ranks is None:
        with pytest.raises(UsageError, match="expected a rank or a range"):
            parse_ranks(texts)
    else:
        assert parse_ranks(texts) == ranks


@pytest.mark.parametrize("text", ["", "x", "-1", "3-1", "0-10000", "1-", "٣", "9999999999"])
def test_an_invalid_rank_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--rank"):
        parse_ranks([text])
    with pytest.raises(UsageError, match="--rank -1"):
        Selection(ranks=(-1,))


def test_as_many_ranks_as_allowed(registry: Registry) -> None:
    assert len(registry.winners(ranks=range(10_000))) == len(registry.winners())


def test_runs_are_compared_as_tables(registry: Registry, cli: Cli, tmp_path: Path) -> None:
    changes = registry.diff("june", "july")
    assert {(c.change, c.kernel, c.key) for c in changes} == {
        ("changed", "pkg.norm.fwd", "M=1"), ("dropped", "pkg.norm.bwd", "M=1|x"), ("added", "pkg.gemm", "M=1"),
    }  # fmt: skip
    assert rows(cli("diff", "june", "july", "--format", "json")) == [change.to_dict() for change in changes]
    assert registry.diff("july", "july") == []
    table = tmp_path / "july.json"
    registry.export("sm90", runs="july").write(table)
    assert registry.diff(table, "july") == []
    assert cli("diff", "june", table, "--exit-code").exit_code == 1
    said = cli("diff", "june", "july").stderr
    assert said.endswith("june and july: 1 added, 1 dropped, 1 changed\n")
    assert "not stated" not in said


def test_an_operand_that_is_neither_file_nor_run(registry: Registry, cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no table file or run has this name"):
        registry.diff("june", "august")
    with pytest.raises(FileError, match=r"august\.json: cannot be read"):
        registry.diff("june", "august.json")
    registry.ingest(write_ranks(tmp_path / "more", [A], arch="sm100"), as_run="both")
    registry.ingest(write_ranks(tmp_path / "most", [A, A])[1:], as_run="both")
    with pytest.raises(SelectionError, match="run both has votes on sm100, sm90; choose an architecture with --arch"):
        registry.diff("june", "both")
    assert registry.diff("june", "both", arch="sm90")
    assert cli("diff", "both", "both", "--arch", "sm100").exit_code == 0
