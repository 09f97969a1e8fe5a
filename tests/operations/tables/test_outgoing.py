"""Elected entries in the formats of other tools."""

from __future__ import annotations

import datetime as dt
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import config, write_ranks, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import PluginError, SelectionError, UsageError
from tuning_registry.formats.plugin import Format, Outgoing, Written
from tuning_registry.formats.plugins import GROUP, Plugins
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.overrides import add_override
from tuning_registry.operations.tables import outgoing

A, B = config(B=16), config(B=8, num_warps=8)
NOW = dt.datetime.now(dt.UTC)


class Notes(Format):
    """Keeps what it is given."""

    name = "notes"
    title = "what a writer is given"
    given: list[Outgoing] = []  # noqa: RUF012
    rows: list[list[Any]] = []  # noqa: RUF012
    files: dict[str, bytes] = {"a/b.json": b"1"}  # noqa: RUF012

    def write(self, chosen: Outgoing) -> Written:
        self.given.append(chosen)
        self.rows.append([list(chosen.votes()), list(chosen.timings())])
        return Written(files=self.files)


class Failing(Notes):
    def write(self, _: Outgoing) -> Written:
        raise ZeroDivisionError("0")


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notes, "given", [])
    monkeypatch.setattr(Notes, "rows", [])
    point = EntryPoint("notes", f"{__name__}:Notes", GROUP)
    monkeypatch.setattr(Plugins.__init__, "__defaults__", ([point],))


def test_a_writer_gets_entries_votes_and_timings(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A, A, B]))
    for rank, median in enumerate([1.0, 3.0, 2.0]):
        timed = {"sm90": {"k": {"M=1": [[A, [median, 0.5, 4.0]], [B, [9.0, 9.0, 9.0]]]}}}
        write_recording(tmp_path / f"timings.rank{rank}.json", timed)
    take(store, tmp_path)
    written, entries = outgoing.write_format(store, Selection(), "notes", tmp_path / "out")
    assert (written.files, entries) == ({"a/b.json": b"1"}, 1)
    (one,) = Notes.given[0].entries
    assert (one.arch, one.device, one.kernel, one.key) == ("sm90", "", "k", "M=1")
    assert (one.config, one.votes, one.total_votes, one.times_ms) == (config_text(A), 2, 3, (2.0, 0.5, 4.0))
    votes, timings = Notes.rows[0]
    assert sorted((row["rank"], row["config"] == config_text(A)) for row in votes) == [(0, True), (1, True), (2, False)]
    assert sorted((row["rank"], row["median_ms"]) for row in timings if row["config"] == config_text(A)) == [
        (0, 1.0), (1, 3.0), (2, 2.0)]  # fmt: skip


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_a_writer_stays_in_its_folder(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    monkeypatch.setattr(Notes, "files", {name: b""})
    with pytest.raises(PluginError, match="expected a path inside the output folder"):
        outgoing.write_format(store, Selection(), "notes", tmp_path / "out")


def _decide(store: Store, action: str, key: str, chosen: Any, **more: Any) -> None:
    text = config_text(chosen)
    add_override(
        store, action, arch="sm90", kernel="k", key=key, config=text, reason="r", author="a", **{"now": NOW, **more}
    )


def test_an_entry_for_every_key_must_not_serve_a_banned_config(store: Store, tmp_path: Path) -> None:
    """The readers of some formats use it for keys without an entry, here for M=1."""
    take(store, *write_ranks(tmp_path, [A]))
    _decide(store, "pin", "*", B, force=True)
    assert outgoing.write_format(store, Selection(), "notes", tmp_path / "out")[1] == 2
    _decide(store, "ban", "M=1", A)
    _decide(store, "ban", "M=1", B, force=True)
    with pytest.raises(SelectionError, match="a wider entry of the table would serve 1 of its keys"):
        outgoing.write_format(store, Selection(), "notes", tmp_path / "out")


def test_an_expired_override_is_renewed_or_lifted_first(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    _decide(store, "ban", "M=1", B, force=True, until="2020-01-02", now=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(SelectionError, match="overrides have expired"):
        outgoing.write_format(store, Selection(), "notes", tmp_path / "out")


def test_a_writer_that_fails_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    monkeypatch.setattr(Notes, "write", Failing.write)
    with pytest.raises(PluginError, match="format notes failed: ZeroDivisionError: 0"):
        outgoing.write_format(store, Selection(), "notes", tmp_path / "out")


def test_nothing_to_write(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(store, *write_ranks(tmp_path, [A]))
    with pytest.raises(SelectionError, match="no votes match the filters. Nothing was written; --curated counts"):
        outgoing.write_format(store, Selection(arch="sm100"), "notes", tmp_path / "out")
    monkeypatch.setattr(Notes, "write", Format.write)
    with pytest.raises(UsageError, match="--to notes: this format can be read, but not written"):
        outgoing.write_format(store, Selection(), "notes", tmp_path / "out")
