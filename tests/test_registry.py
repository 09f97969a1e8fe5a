"""The front door: every method of `Registry`, and that the command gives the same answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, config, run_registry, version_1, write_ranks, write_recording
from tests.formats.tools.helpers import TOOLS
from tuning_registry import Registry, load, read_table
from tuning_registry.errors import ConflictError, DatabaseError, SchemaError, SelectionError, UsageError

A, B = config(B=16), config(B=8, num_warps=8)
KERNEL = "pkg.k"


@pytest.fixture
def registry(database: str, tmp_path: Path) -> Iterator[Registry]:
    """Two runs of a kernel: three ranks of which one disagrees, and one rank that agrees with most."""
    with Registry(database) as registry:
        registry.ingest(write_ranks(tmp_path / "july", [A, B, A], kernel=KERNEL), run="july", triton="3.6.0")
        registry.ingest(write_ranks(tmp_path / "june", [A], kernel=KERNEL), run="june", triton="3.6.0")
        yield registry


def rows(result: Any) -> Any:
    """What a command printed with `--format json`."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_an_ingest_reports_what_it_stored(database: str, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A, B])
    with Registry(database) as registry:
        report = registry.ingest(tmp_path, run="july", triton="3.6.0", source="demo")
        assert (report.new, report.votes, report.created) == (2, 2, True)
        assert registry.ingest(str(paths[0]), run="july").already == 1
        assert registry.ingest(iter(paths), as_run="other").new == 2
        write_ranks(tmp_path, [B])
        with pytest.raises(ConflictError):
            registry.ingest(paths[0], run="july")
        assert registry.ingest(paths[0], run="july", replace=True).replaced == 1
        paths[1].write_text("{")
        kept = registry.ingest(paths, run="broken", keep_going=True, packages={"pkg": "1.0"})
        assert (kept.new, len(kept.skipped)) == (1, 1)
        (run,) = (run for run in registry.runs() if run.name == "broken")
        assert run.packages == ("pkg 1.0",)


def test_winners_as_the_command_shows_them(registry: Registry, cli: Cli) -> None:
    (entry,) = registry.winners()
    assert [entry.to_dict()] == rows(cli("winners", "--format", "json"))
    assert (entry.choices[0].count, entry.votes, json.loads(entry.choices[0].config)) == (3, 4, A)
    assert registry.winners(policy="fastest")[0].choices[0] == entry.choices[0]


def test_disagreements_as_the_command_shows_them(registry: Registry, cli: Cli) -> None:
    (entry,) = registry.disagreements()
    assert [entry.to_dict()] == rows(cli("disagreements", "--format", "json"))
    assert registry.disagreements(runs="june") == []
    (costed,) = registry.costs()
    assert (costed.entry.shape, costed.verdict) == (entry.shape, "not timed")
    assert [costed.to_dict()] == rows(cli("disagreements", "--cost", "--format", "json"))


@pytest.mark.parametrize(
    ("filters", "votes"),
    [
        ({"arch": "SM_90"}, 4),
        ({"kernel": "k"}, 4),
        ({"kernel": "other"}, None),
        ({"runs": "july"}, 3),
        ({"runs": ["june", "july"]}, 4),
        ({"source": ""}, 4),
        ({"triton": "3.6.0", "arch": None}, 4),
        ({"triton": "none"}, None),
        ({"arch": "sm90", "kernel": KERNEL, "runs": "june"}, 1),
    ],
)
def test_the_filters_are_those_of_the_command(
    registry: Registry, cli: Cli, filters: dict[str, Any], votes: int | None
) -> None:
    found = registry.winners(**filters)
    assert [entry.votes for entry in found] == ([] if votes is None else [votes])
    given = {"run" if name == "runs" else name: value for name, value in filters.items() if value is not None}
    options = [
        part
        for name, value in given.items()
        for one in ([value] if isinstance(value, str) else value)
        for part in (f"--{name}", one)
    ]
    assert rows(cli("winners", "--format", "json", *options)) == [entry.to_dict() for entry in found]


def test_a_package_filter(database: str, tmp_path: Path) -> None:
    for rank, version in enumerate(("1.0", "2.0")):
        votes = {"sm90": {"pkg.k": {"M=1": A}}}
        write_recording(tmp_path / f"{rank}.json", json.dumps(version_1(votes, rank=rank, packages={"pkg": version})))
    with Registry(database) as registry:
        registry.ingest(tmp_path)
        assert [entry.version for entry in registry.winners()] == ["1.0", "2.0"]
        assert [entry.version for entry in registry.winners(packages={"pkg": "2.0"})] == ["2.0"]
        with pytest.raises(SelectionError, match="other: no recorded kernel belongs to this package"):
            registry.winners(packages={"other": "1"})


def test_files_of_other_tools(database: str, tmp_path: Path, cli: Cli) -> None:
    with Registry(database) as registry:
        assert registry.ingest(TOOLS / "fla", device="NVIDIA_H200", format="fla").curated == 29
        registry.ingest([TOOLS / "vllm", TOOLS / "sglang"])
        assert registry.winners() == []
        assert {one.device for one in registry.winners(curated=True, kernel="l2norm*")} == {"NVIDIA_H200"}
        assert len(registry.winners(curated=True, device="NVIDIA_L40S")) == 17
        found = registry.compare_sources("source", kernel="fused_moe_kernel")
        shown = cli("disagreements", "--between", "source", "--kernel", "fused_moe_kernel", "--format", "json")
        assert json.loads(shown.stdout) == found.to_dict()
        with pytest.raises(ValueError, match="'rank' is not a valid Dimension"):
            registry.compare_sources("rank")
        with pytest.raises(UsageError, match="there is no format 'none'"):
            registry.write_format("none", tmp_path, curated=True)


def test_a_misspelt_filter_is_refused(registry: Registry) -> None:
    with pytest.raises(TypeError, match="unexpected filter 'run'; expected .*runs"):
        registry.winners(run="july")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected filter 'arch'"):
        registry.check("t.json", arch="sm90")  # type: ignore[call-arg]
    with pytest.raises(UsageError):
        registry.winners(kernel="")
    with pytest.raises(UsageError, match="cannot be filtered by packages"):
        registry.misses(packages={"pkg": "1"})


def test_explain_as_the_command_shows_it(registry: Registry, cli: Cli) -> None:
    found = registry.explain("sm90", "k", "M=1")
    (entry,) = found.entries
    shown = rows(cli("explain", "--arch", "sm90", "--kernel", "k", "--key", "M=1", "--format", "json"))
    assert shown == [entry.to_dict()]
    assert json.loads(entry.config or "") == A
    assert registry.explain("sm90", "k", runs="june").entries[0].entry.votes == 1
    assert registry.explain("sm90", "kk").similar == [KERNEL]


def test_ranks_as_the_command_shows_them(registry: Registry, cli: Cli) -> None:
    fleet = registry.ranks()
    assert rows(cli("ranks", "--format", "json")) == [rank.to_dict() for rank in fleet.ranks]
    assert {rank.rank: rank.dissenting for rank in registry.ranks(runs="july").ranks} == {0: 0, 1: 1, 2: 0}


def test_an_export_is_the_file_that_the_command_writes(registry: Registry, cli: Cli, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine" / "sm90.json", tmp_path / "theirs.json"
    mine.parent.mkdir()
    made = registry.export("sm90", runs="july")
    assert registry.exports() == []
    made.write(mine)
    assert cli("export", "--arch", "sm90", "--run", "july", "-o", theirs).exit_code == 0
    assert mine.read_bytes() == theirs.read_bytes() == made.details.data
    assert load("sm90", [str(mine.parent)]).digest == made.digest == made.table.digest
    ours, other = sorted(registry.exports(made.digest[:12]), key=lambda record: record.output != str(mine))
    assert (ours.output, ours.filters, ours.exported_by) == (str(mine), other.filters, other.exported_by)
    assert registry.exports(arch="sm100") == []
    assert registry.export("sm90", min_agreement=0.5, min_votes=2).details.entries == 1
    with pytest.raises(SelectionError, match=r"thresholds and bans leave out every entry \(1\)"):
        registry.export("sm90", min_agreement=0.9)
    assert registry.export("sm90", max_regression_percent=3, replaced=mine).digest == made.digest


def test_an_export_that_cannot_be_recorded_is_written(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DatabaseError("the database is read-only")

    monkeypatch.setattr("tuning_registry.registry.remember_export", refuse)
    with caplog.at_level(logging.WARNING):
        registry.export("sm90").write(str(tmp_path / "sm90.json"))
    assert read_table(tmp_path / "sm90.json").digest
    assert "could not be recorded: the database is read-only" in caplog.text


def test_diff_and_check_as_the_command_shows_them(registry: Registry, cli: Cli, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    registry.export("sm90").write(old)
    assert registry.diff(old) == []
    before = registry.check(old)
    assert (before.problems, before.entries) == ([], 1)
    registry.pin("sm90", "k", "M=1", B, reason="slow on H100")
    (change,) = registry.diff(str(old))
    assert rows(cli("diff", old, "--format", "json")) == [change.to_dict()]
    assert [str(one) for one in registry.diff(old, registry.export("sm90"))] == [str(change)]
    checked = registry.check(read_table(old))
    assert [problem.partition(":")[0] for problem in checked.problems] == ["changed", "header", "header"]
    assert "".join(f"{line}\n" for line in checked.problems) == cli("check", old).stdout


def test_runs_withdrawn_and_restored(registry: Registry, cli: Cli) -> None:
    assert [run.name for run in registry.runs()] == ["june", "july"]
    assert rows(cli("runs", "--format", "json")) == [run.to_dict() for run in registry.runs()]
    assert (registry.withdraw("july"), registry.withdraw("july")) == (True, False)
    assert [entry.votes for entry in registry.winners()] == [1]
    assert registry.runs()[1].withdrawn_at is not None
    assert (registry.restore("july"), registry.restore("july")) == (True, False)
    assert [entry.votes for entry in registry.winners()] == [4]
    assert (registry.withdraw("july", ranks=0), registry.withdraw("july", ranks=[0])) == (True, False)
    assert ([entry.votes for entry in registry.winners()], registry.runs()[1].withdrawn_ranks) == ([3], (0,))
    assert registry.restore("july", ranks=[0])
    with pytest.raises(SelectionError, match="no run 'august'"):
        registry.withdraw("august")


def test_pins_and_bans(registry: Registry, cli: Cli) -> None:
    pin = registry.pin("sm90", "k", "M=1", B, reason="slow on H100", until="2999-01-01")
    assert (pin.kernel, pin.action, pin.until) == (KERNEL, "pin", "2999-01-01")
    assert [entry.decided_by for entry in registry.winners()] == ["pin"]
    assert rows(cli("overrides", "--format", "json")) == [pin.to_dict()]
    assert registry.lift(pin.id, reason="fixed", author="me") == pin
    ban = registry.ban("sm90", "k", "*", json.dumps(A), reason="wrong results", author="me")
    assert [json.loads(entry.choices[0].config) for entry in registry.winners()] == [B]
    assert registry.overrides() == [ban]
    assert [event.action for event in registry.overrides(everything=True)] == ["pin", "lift", "ban"]
    with pytest.raises(SelectionError, match="--force|force"):
        registry.pin("sm90", "k", "M=2", A, reason="never seen")
    assert registry.pin("sm90", "k", "M=2", A, reason="known to be fast", force=True).key == "M=2"


def test_misses_as_the_command_shows_them(registry: Registry, cli: Cli, tmp_path: Path) -> None:
    recording = version_1({}, run="pinned", observations={"sm90": {KERNEL: {"M=1": {"config": None, "reason": "miss: no key"},
                          "M=7": {"config": None, "reason": "miss: no key"}}}})  # fmt: skip
    registry.ingest(write_recording(tmp_path / "pinned.rank0.json", json.dumps(recording)))
    found = registry.misses()
    assert [(miss.key, miss.recorded) for miss in found] == [("M=1", True), ("M=7", False)]
    assert rows(cli("misses", "--format", "json")) == [miss.to_dict() for miss in found]
    assert registry.misses(unrecorded=True) == found[1:]
    assert registry.misses(runs="july") == []


def test_status_and_url(registry: Registry, cli: Cli, database: str) -> None:
    status = registry.status()
    assert status == rows(cli("status", "--format", "json"))
    assert (status["runs"], status["votes"]) == (2, 4)
    assert repr(registry) == f"Registry({registry.url!r})"
    assert cli("db", "path").stdout == registry.url + "\n"


def test_a_database_without_a_registry(database: str) -> None:
    with Registry(database) as registry:
        assert registry.status()["revision"] is None
        with pytest.raises(SchemaError, match="there is no registry here yet"):
            registry.winners()


def test_the_default_database_is_that_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Registry().url == run_registry("db", "path").stdout.strip()
    monkeypatch.setenv("TUNING_REGISTRY_DB", str(tmp_path / "mine.db"))
    assert Registry().url == run_registry("db", "path").stdout.strip() == f"sqlite:///{tmp_path}/mine.db"
    assert Registry(tmp_path / "a.db").url == f"sqlite:///{tmp_path}/a.db"
    assert "SECRET" not in repr(Registry("postgresql://user:SECRET@host/name"))
    with pytest.raises(UsageError):
        Registry("mysql://host/name")


def test_a_registry_in_memory() -> None:
    with Registry(":memory:") as registry:
        registry.ingest(H200, run="july", triton="3.6.0")
        assert (len(registry.winners(arch="sm90")), len(registry.disagreements())) == (45, 12)
