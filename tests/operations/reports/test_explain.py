"""`registry explain`, on every database: why an entry has its config, and what comes near one that is not there."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, Json, config, version_1, write_ranks, write_recording
from tests.helpers import many_keys, take
from tuning_registry.db.reading import Reading
from tuning_registry.db.store import Store
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import ingest
from tuning_registry.operations.overrides import add_override
from tuning_registry.operations.reports.explain import explain as find_explanation
from tuning_registry.operations.reports.explained import ExplainedEntry, Explanation
from tuning_registry.rules.near_keys import KeyFieldDifference, differences, is_same_key, nearest_keys
from tuning_registry.rules.overrides import BAN, PIN

A, B, C = config(B=1), config(B=2), config(B=3)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ALL = Selection(arch="sm90", kernel="k")


def override(store: Store, action: str, chosen: Json, key: str = "M=1", reason: str = "because") -> int:
    made = add_override(store, action, arch="sm90", kernel="k", key=key, config=json.dumps(chosen), reason=reason,
                        author="me", now=NOW, force=True)  # fmt: skip
    return made.id


def only(found: Explanation) -> ExplainedEntry:
    (entry,) = found.entries
    return entry


def timed(folder: Path, rank: int, votes: Json, timings: Json, **fields: object) -> Path:
    document = version_1({"sm90": {"k": votes}}, rank=rank, timings={"sm90": {"k": timings}}, **fields)
    return write_recording(folder / f"rec.rank{rank}.json", document)


def three(median: float) -> list[float]:
    return [median] * 3


@pytest.mark.parametrize(
    ("votes", "why"),
    [
        ([A], "the only vote"),
        ([A, A], "all 2 votes"),
        ([A, A, B], "majority: 2 of 3 votes"),
        ([A, A, B, C], "most votes: 2 of 4 votes"),
        ([A, B, A, B, C], "tie of 2 configs at 2 of 5 votes; its text sorts first"),
    ],
)
def test_votes_decide_and_the_sentence_says_how(store: Store, tmp_path: Path, votes: list[Json], why: str) -> None:
    take(store, *write_ranks(tmp_path, votes))
    found = only(find_explanation(store, ALL, "M=1"))
    assert (found.config, found.why, found.decided_by) == (config_text(A), why, "majority")
    assert (found.entry.votes, found.recordings) == (len(votes), len(votes))
    assert found.configs[0].voters["demo"][0] == 0


def test_pins_bans_and_policies_are_named(store: Store, tmp_path: Path) -> None:
    ranks = [
        timed(tmp_path, rank, {"M=1": chosen}, {"M=1": [[A, three(1.0)], [B, three(0.5)], [C, three(2.0)]]})
        for rank, chosen in enumerate([A, A, C])
    ]
    ingest(store, ranks)
    fastest = only(find_explanation(store, ALL, "M=1", "fastest"))
    assert fastest.why == "fastest: lowest median over ranks, 0.5 ms; 0 of 3 votes are for it"
    minimax = only(find_explanation(store, ALL, "M=1", "minimax"))
    assert minimax.why.startswith("minimax: at worst 0.0 % slower than a rank's fastest config")
    ban = override(store, BAN, A)
    found = only(find_explanation(store, ALL, "M=1"))
    assert found.config == config_text(C)
    assert found.why.startswith(
        f"first that is not banned (#{ban} bans B=1 num_warps=4 num_stages=3 (2 of 3 votes)): most votes: 1"
    )
    assert [(c.config, c.banned_by) for c in found.configs[:2]] == [(config_text(C), None), (config_text(A), ban)]
    ban_all = override(store, BAN, C, key="*")
    found = only(find_explanation(store, ALL, "M=1"))
    assert (found.config, found.decided_by) == (None, "nothing")
    assert found.why == (
        f"every config that was chosen is banned (#{ban}, #{ban_all}); launches use the job's fallback, for which "
        "bans leave 1 other recorded config"
    )
    pin = override(store, PIN, B, reason="numerics")
    found = only(find_explanation(store, ALL, "M=1"))
    assert found.why == f"pinned by #{pin}: numerics; 0 of 3 votes are for it"
    assert [o.id for o in found.overrides] == [ban, ban_all, pin]


def test_timings_failures_and_observations_are_told(store: Store, tmp_path: Path) -> None:
    ingest(store, [
        timed(tmp_path, 0, {"M=1": A}, {"M=1": [[A, three(1.0)], [B, three(3.0)], [C, None]]}),
        timed(tmp_path, 1, {"M=True": A}, {"M=True": [[A, three(3.0)], [B, three(4.0)], [C, None]]}),
        timed(tmp_path, 2, {}, {"M=1": [[A, three(2.0)], [B, None]], "M=7": [[A, three(1.0)]]},
              observations={"sm90": {"k": {"M=1": {"config": A, "reason": "echo of a disk cache"}}}}),
        timed(tmp_path, 3, {"M=2": A}, {}),
    ])  # fmt: skip
    for key in ("M=1", "M=1.0", "?=True"):
        found = only(find_explanation(store, ALL, key))
        rows = [(c.config, c.votes, c.median_ms, c.timed_by, c.failed_on) for c in found.configs]
        assert rows == [
            (config_text(A), 2, 2.0, 3, 0),
            (config_text(B), 0, 4.0, 2, 1),
            (config_text(C), 0, None, 0, 2),
        ]
        assert [c.slower_percent for c in found.configs] == [0.0, 100.0, None]
        assert (found.entry.votes, found.recordings, found.observed) == (2, 3, {"echo of a disk cache": 1})
    silent = only(find_explanation(store, ALL, "M=7"))
    assert (silent.config, silent.why, silent.configs[0].median_ms) == (None, "it has no votes", 1.0)
    assert [e.entry.key for e in find_explanation(store, ALL).entries] == ["M=1", "M=2", "M=7"]


def test_version_groups_and_devices_are_told_apart(store: Store, tmp_path: Path) -> None:
    for rank, (device, triton, chosen) in enumerate(
        [("H100", "3.6.0", A), ("H200", "3.6.0", B), ("H200", "3.6.0", B), ("H200", "3.7.0", C)]
    ):
        path = timed(tmp_path, rank, {"M=1": chosen}, {"M=1": [[A, three(rank + 1.0)]]}, triton=triton,
                     device={"name": device, "arch": "sm90"})  # fmt: skip
        ingest(store, [path])
    old, new = find_explanation(store, ALL, "M=1").entries
    assert (old.entry.triton, old.config, new.entry.triton, new.config) == (
        "3.6.0",
        config_text(B),
        "3.7.0",
        config_text(C),
    )
    assert [(d.device, d.votes, d.medians_ms) for d in old.devices] == [
        ("H100", {config_text(A): 1}, {config_text(A): 1.0}),
        ("H200", {config_text(B): 2}, {config_text(A): 2.5}),
    ]
    assert new.devices == ()
    assert only(find_explanation(store, Selection(arch="sm90", kernel="k", triton="3.7.0"))).config == config_text(C)


def test_a_key_that_nobody_recorded_has_neighbours(store: Store, tmp_path: Path) -> None:
    for rank, key in enumerate(
        ("M=64|torch.float32", "M=128|torch.float32", "M=100|torch.bfloat16", "M=4096|torch.float32")
    ):
        take(store, *write_ranks(tmp_path / str(rank), [A], key=key), run=key)
    found = find_explanation(store, ALL, "M=96|torch.float32")
    assert (found.entries, found.any_key) == ([], None)
    assert [near.key for near in found.nearest] == [
        "M=128|torch.float32", "M=64|torch.float32", "M=4096|torch.float32", "M=100|torch.bfloat16",
    ]  # fmt: skip
    assert found.nearest[3].differences == (
        KeyFieldDifference("M", "96", "100"), KeyFieldDifference("dtype 1", "torch.float32", "torch.bfloat16"),
    )  # fmt: skip
    number = override(store, PIN, B, key="*", reason="good everywhere")
    star = find_explanation(store, ALL, "M=96|torch.float32").any_key
    assert star is not None
    why = f"pinned by #{number} (for every key): good everywhere; no votes"
    assert (star.config, star.why) == (config_text(B), why)


def test_differences_between_keys() -> None:
    assert differences("M=1|D=64|torch.float32", "M=True|D=64.0|torch.float32") == ()
    assert differences("M=1|D=64", "M=1|D=\\64") == (KeyFieldDifference("D", "64", "\\64"),)
    assert differences("?=1|?=2", "M=1|N=3|torch.float16") == (
        KeyFieldDifference("? 2", "2", "3"), KeyFieldDifference("dtype 1", "", "torch.float16"),
    )  # fmt: skip
    assert differences("M=1", "N=1") == (KeyFieldDifference("M", "1", ""), KeyFieldDifference("N", "", "1"))
    assert is_same_key("?=1|torch.float32", "M=True|torch.float32")
    assert not is_same_key("?=1", "M=1|torch.float32")
    assert [near.key for near in nearest_keys("M=8", ["M=9", "M=nan", "M=-8", "M=4"], count=3)] == [
        "M=9",
        "M=4",
        "M=-8",
    ]


def test_the_command_on_real_recordings(cli: Cli) -> None:
    cli("ingest", H200, "--run", "july", "--triton", "3.6.0")
    shown = cli("explain", "--arch", "sm90", "--kernel", "_chunk_cumsum_bwd_kernel")
    assert shown.exit_code == 0
    assert "BLOCK_SIZE_H=16 num_warps=4 num_stages=3: most votes: 4 of 8 votes" in shown.stdout
    assert "8 of 8 recordings on sm90 voted on it" in shown.stdout
    (line,) = [line for line in shown.stdout.splitlines() if "rank 5 of july" in line]
    assert line.split()[:5] == ["1/8", "0.023744", "60.8", "%", "8"]
    assert shown.stderr.endswith("2 entries\n")
    rows = json.loads(
        cli("explain", "--arch", "sm90", "--kernel", "_chunk_cumsum_bwd_kernel", "--format", "json").stdout
    )
    assert [(row["total_votes"], row["recordings_on_arch"], len(row["configs"])) for row in rows] == [
        (8, 8, 7),
        (8, 8, 7),
    ]
    assert rows[0]["configs"][0]["runs"] == {"july": [0, 3, 4, 7]}
    table = list(csv.DictReader(io.StringIO(
        cli("explain", "--arch", "sm90", "--kernel", "_chunk_cumsum_bwd_kernel", "--format", "csv").stdout
    )))  # fmt: skip
    assert [(row["elected"], row["votes"], row["ranks"]) for row in table[:2]] == [
        ("true", "4", "0,3-4,7"), ("false", "2", "1-2"),
    ]  # fmt: skip


def test_what_is_not_there_exits_1_and_says_what_comes_near(cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path, [A], kernel="pkg.norm_fwd_kernel", key="M=64")
    cli("ingest", tmp_path, "--run", "demo")

    def ask(*options: str) -> tuple[int, str]:
        done = cli("explain", *options)
        assert done.stdout == ""
        return done.exit_code, done.stderr

    status, said = ask("--arch", "sm90", "--kernel", "norm_fwd_kernel", "--key", "M=96|*")
    assert status == 1
    assert "nearest: M=64" in said
    assert 'no "*" entry covers this key' in said
    status, said = ask("--arch", "sm90", "--kernel", "other.norm_fwd")
    assert status == 1
    assert said.endswith("kernel other.norm_fwd was never recorded on sm90\nsimilar: pkg.norm_fwd_kernel\n")
    assert ask("--arch", "sm80", "--kernel", "norm_fwd_kernel")[1].endswith("on sm80\nrecorded on sm90\n")
    assert "no kernels match. Recorded archs: sm90" in ask("--arch", "sm80", "--kernel", "zzz")[1]
    assert cli("explain", "--arch", "sm90").exit_code == 2


def test_a_missed_key_is_shown_with_its_misses_and_its_neighbours(cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path, [A], kernel="p.k", key="M=64")
    observed = {"sm90": {"p.k": {"M=96": {"config": A, "reason": "miss: no key"}}}}
    write_recording(tmp_path / "miss.json", version_1({}, run="pinned", observations=observed))
    cli("ingest", tmp_path / "rec.rank0.json", "--run", "demo")
    cli("ingest", tmp_path / "miss.json")
    shown = cli("explain", "--arch", "sm90", "--kernel", "k", "--key", "M=96")
    assert shown.exit_code == 0
    assert "no config: it has no votes" in shown.stdout
    assert "1 recording did not vote: miss: no key" in shown.stdout
    assert "nearest recorded key: M=64  (M: 96 requested, 64 recorded)" in shown.stdout
    assert "nearest: M=64" not in shown.stderr


def test_one_key_is_explained_as_among_all_keys(store: Store, tmp_path: Path) -> None:
    """A key that has a config is read alone; the answer is the one that reading every key gives."""
    for rank, chosen in enumerate([A, A, B]):
        keys = {f"M={n}|torch.float32": chosen for n in range(5)} | {"?=9|torch.float32": A, "*": B}
        timings = {"sm90": {"p.k": {"M=1|torch.float32": [[A, [1.0] * 3], [B, [2.0] * 3]]}}}
        write_recording(
            tmp_path / f"rec.rank{rank}.json", version_1({"sm90": {"p.k": keys}}, rank=rank, timings=timings)
        )
    take(store, tmp_path, run=None)
    selection = Selection(arch="sm90", kernel="k")
    every = {one.entry.key: one for one in find_explanation(store, selection).entries}
    for asked, key in (
        ("M=1|torch.float32", "M=1|torch.float32"),
        ("M=1.0|torch.float32", "M=1|torch.float32"),
        ("M=9|torch.float32", "?=9|torch.float32"),
        ("?=1|torch.float32", "M=1|torch.float32"),
        ("*", "*"),
    ):
        found = find_explanation(store, selection, asked)
        if asked == "*":  # a pattern, unless it was recorded
            assert [one.entry.key for one in found.entries] == [key]
        assert [one.to_dict() for one in found.entries] == [every[key].to_dict()], asked
    unknown = find_explanation(store, selection, "M=77|torch.float32")
    assert (unknown.entries, len(unknown.nearest), unknown.any_key is not None) == ([], 5, True)


def test_explaining_one_key_of_many_reads_one(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(store, many_keys(tmp_path / "rec.rank0.json", 3000))
    counts: list[int] = []
    read = Reading.rows

    def counting(self: Reading, query: Any) -> Any:
        found = read(self, query)
        counts.append(len(found))
        return found

    monkeypatch.setattr(Reading, "rows", counting)
    (one,) = find_explanation(store, Selection(arch="sm90", kernel="k"), "M=1234|torch.bfloat16").entries
    assert one.entry.key == "M=1234|torch.bfloat16"
    assert max(counts) < 10
