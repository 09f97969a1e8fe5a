"""What a report says, on both databases."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, config, version_2, write_recording
from tests.helpers import take
from tests.operations.reports.test_audits import CONFIGS, entry, recording
from tuning_registry import Registry
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.overrides import add_override
from tuning_registry.operations.reports.costs import find_costs
from tuning_registry.operations.reports.page.gather import ReportOptions, gather_report
from tuning_registry.operations.reports.page.unseen import KernelKeys, what_unseen_keys_get
from tuning_registry.rendering.html.layout import render_page
from tuning_registry.rules.audits import Bits
from tuning_registry.rules.overrides import Overrides

A, B, C = config(B=1), config(B=2), config(B=3)


def test_a_report_agrees_with_the_other_queries(store: Store) -> None:
    take(store, H200)
    report = gather_report(store, Selection())
    costed, total = find_costs(store, Selection())
    assert (len(report.entries), len(report.columns)) == (total, 8)
    assert [one.cost.to_dict() for one in report.disagreements if one.cost] == [
        {**found.to_dict(), "choices": [{**choice, "ranks": [], "runs": {}} for choice in found.to_dict()["choices"]]}
        for found in costed
    ]
    for one in report.entries:
        for choice, config_votes in enumerate(one.entry.choices):
            assert one.chosen.count(choice + 1) == config_votes.count
        assert sum(candidate.timed_by + candidate.failed_on for candidate in one.candidates) == 8 * len(one.candidates)
    shares = [one.dissenting / one.entry.votes for one in report.entries]
    assert shares == sorted(shares, reverse=True)


def test_columns_are_sorted_by_run_host_and_rank(store: Store, tmp_path: Path) -> None:
    for rank, host in enumerate(("n1", "n0", "n1", "n0")):
        document = version_2({"sm90": {"k": {"M=1": A if rank else B}}}, rank, rank=rank, host=host)
        write_recording(tmp_path / f"rec.rank{rank}.json", document)
    take(store, tmp_path, run=None)
    report = gather_report(store, Selection())
    assert [(column.host, column.rank) for column in report.columns] == [("n0", 1), ("n0", 3), ("n1", 0), ("n1", 2)]
    assert report.entries[0].chosen == bytes([1, 1, 2, 1])


def test_filters_and_a_key_narrow_a_report(store: Store) -> None:
    take(store, H200)
    report = gather_report(store, Selection(kernel="*l2norm*", ranks=(0, 1)), ReportOptions(key="D=128|*"))
    assert [(one.entry.kernel.rpartition(".")[2], one.entry.votes) for one in report.entries] == [
        ("l2norm_bwd_kernel", 2),
        ("l2norm_fwd_kernel", 2),
    ]
    assert report.filters == "kernel *l2norm*; key D=128|*; rank 0, 1"


def test_a_pin_decides_and_bans_leave_nothing(store: Store, tmp_path: Path) -> None:
    for rank, chosen in enumerate((A, B, A)):
        votes = {"sm90": {kernel: {"M=1": chosen} for kernel in ("pkg.pinned", "pkg.banned")}}
        write_recording(tmp_path / f"rec.rank{rank}.json", votes)
    take(store, tmp_path)
    common: dict[str, Any] = {"arch": "sm90", "key": "M=1", "reason": "numerics", "author": "me"}
    common["now"] = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    add_override(store, "pin", kernel="pkg.pinned", config=config_text(B), **common)
    for banned in (A, B):
        add_override(store, "ban", kernel="pkg.banned", config=config_text(banned), **common)
    without, pinned = sorted(gather_report(store, Selection()).entries, key=lambda one: one.entry.kernel)
    assert (pinned.config, pinned.is_overridden, pinned.dissenting) == (config_text(B), True, 2)
    assert pinned.chosen == bytes([2, 1, 2])
    assert (without.config, without.fleet) == (None, None)
    assert "banned" in without.why


def write_two_versions(folder: Path) -> None:
    for number, (triton, kernels) in enumerate((("3.5.0", ("old", "k")), ("3.6.0", ("k",)))):
        votes = {"sm90": {kernel: {"M=1": A} for kernel in kernels}}
        write_recording(folder / f"{number}.json", version_2(votes, number, run=f"run{number}", triton=triton))


def test_an_entry_that_only_old_versions_recorded_is_stale(store: Store, tmp_path: Path) -> None:
    write_two_versions(tmp_path)
    take(store, tmp_path / "0.json", run=None)
    take(store, tmp_path / "1.json", run=None)
    report = gather_report(store, Selection())
    assert report.is_mixed
    assert {(one.entry.kernel, one.entry.triton): one.newest for one in report.entries} == {
        ("k", "3.5.0"): (),
        ("k", "3.6.0"): (),
        ("old", "3.5.0"): ("3.6.0", "", ""),
    }
    assert [one.entry.kernel for one in report.entries if one.is_stale] == ["old"]


def test_a_report_compares_with_a_run_and_a_table(store: Store, tmp_path: Path) -> None:
    write_two_versions(tmp_path)
    later = version_2({"sm90": {"k": {"M=1": B}}}, 9, run="later", triton="3.7.0", host="n7")
    write_recording(tmp_path / "9.json", later)
    take(store, tmp_path, run=None)
    compared = gather_report(store, Selection(runs=("later",)), ReportOptions(against="run0")).comparison
    assert compared is not None
    assert [(change.kernel, change.change) for change in compared.changes] == [("k", "changed"), ("old", "dropped")]
    environments = {what: (before, now) for what, before, now in compared.environments}
    assert environments["Triton"] == ("3.5.0", "3.7.0")
    assert environments["hosts"] == ("", "n7 × 1")  # noqa: RUF001
    table = tmp_path / "table.json"
    table.write_text(
        json.dumps({"arch": "sm90", "triton": "3.4.0", "packages": {}, "source": "", "kernels": {"k": {"M=1": A}}})
    )
    options = ReportOptions(against=str(table), key="M=*")
    compared = gather_report(store, Selection(runs=("later",)), options).comparison
    assert compared is not None
    assert (compared.name, len(compared.changes)) == ("table.json", 1)
    assert ("Triton", "3.4.0", "3.7.0") in compared.environments
    with pytest.raises(SelectionError, match="no table file or run"):
        gather_report(store, Selection(), ReportOptions(against="never"))


def test_missed_keys_come_before_examples(store: Store, tmp_path: Path) -> None:
    keys = {f"D={size}|torch.float32": A if size < 128 else B for size in (32, 64, 256)}
    missed = {"sm90": {"k": {"D=100|torch.float32": {"config": None, "reason": "miss: no key"}}}}
    write_recording(tmp_path / "r.json", version_2({"sm90": {"k": keys}}, observations=missed))
    take(store, tmp_path, run=None)
    (kernel,) = gather_report(store, Selection()).unseen
    assert [(one.key, one.missed_by) for one in kernel.keys] == [
        ("D=100|torch.float32", 1),
        ("D=160|torch.float32", 0),
        ("D=512|torch.float32", 0),
    ]
    assert [(one.config, one.nearest and one.nearest.key) for one in kernel.keys] == [
        (config_text(A), "D=64|torch.float32"),
        (config_text(B), "D=256|torch.float32"),
        (config_text(B), "D=256|torch.float32"),
    ]


def test_the_rule_is_tested_on_keys_left_out() -> None:
    a, b = config_text(A), config_text(B)
    kernel = KernelKeys(winners={"D=1": a, "D=2": a, "D=4": a}, medians={f"D={n}": {a: 1.0, b: 1.5} for n in (1, 2, 4)})
    (found,) = what_unseen_keys_get({("sm90", "k"): kernel}, [], Overrides())
    assert found.left_out == (0.0, 0.0, 0.0)
    kernel.medians["D=4"] = {a: 1.5, b: 1.0}
    assert what_unseen_keys_get({("sm90", "k"): kernel}, [], Overrides())[0].left_out[-1] == 50.0
    alone = KernelKeys(winners={"*": b, "odd": a})
    (found,) = what_unseen_keys_get({("sm90", "k"): alone}, [], Overrides())
    assert (found.any_key, found.recorded, found.keys, found.left_out) == (b, 1, (), ())


def test_audits_appear_as_classes_of_equal_bits(store: Store, tmp_path: Path) -> None:
    """Configs 0 and 1 give equal bits, 2 gives others, 3 failed; ranks chose 0 and 2."""
    for rank, chosen in enumerate((0, 2, 0)):
        recording(tmp_path, rank, {"pkg.k": {"M=1": chosen}}, {"pkg.k": {"M=1": entry("aab-")}})
    take(store, tmp_path, run=None)
    report = gather_report(store, Selection())
    (found,) = report.entries
    assert found.entry.bits is Bits.DIFFERENT
    audited = {one.config: one.audited and one.audited.number for one in found.candidates}
    assert audited == {config_text(CONFIGS[0]): 0, config_text(CONFIGS[2]): 1}
    page = render_page(report, dt.datetime(2026, 12, 1, tzinfo=dt.UTC))
    assert "Audits: the configs that ranks chose give different bits." in page
    assert "give different bits in 1 disagreement, equal bits in 0; 0 were not audited" in page
    assert "<td>class 1<" in page
    assert "<td>class 2<" in page


def test_the_front_door_and_the_command_write_the_same_report(database: str, cli: Cli, tmp_path: Path) -> None:
    with Registry(database) as registry:
        registry.ingest(H200, run="july", triton="3.6.0")
        page = registry.report(kernel="*norm*")
        assert str(page) == "16 entries of 8 ranks: 7 disagreements, 0 conflicts beyond the noise"
        assert page.to_dict()["ranks"] == 8
        page.write(tmp_path / "api.html")
    done = cli("report", "--html", tmp_path / "cli.html", "--kernel", "*norm*")
    assert done.exit_code == 0
    assert f"wrote {tmp_path}/cli.html: {page}" in done.stderr
    made = [(tmp_path / name).read_text().partition("<footer>")[0] for name in ("api.html", "cli.html")]
    assert made[0] == made[1]
