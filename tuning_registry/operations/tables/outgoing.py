"""Elected entries in the formats of other tools."""

from __future__ import annotations

import datetime as dt
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import in_chunks
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.store import Store
from tuning_registry.errors import PluginError, SelectionError, UsageError
from tuning_registry.formats.files import write_together
from tuning_registry.formats.plugin import ElectedEntry, Outgoing, Written
from tuning_registry.formats.plugins import Plugins, translated
from tuning_registry.formats.stores import Place
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.canonical import load_config
from tuning_registry.model.kinds import Kind, kind_of
from tuning_registry.model.names import ANY_KEY
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import EntryVotes, Winner, check_packages
from tuning_registry.operations.election.voters import Voters
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import Election, elect_entries
from tuning_registry.operations.overrides import refuse_expired
from tuning_registry.operations.tables.export_checks import refuse_banned
from tuning_registry.rules.evidence import Policy


def write_format(
    store: Store,
    selection: Selection,
    name: str,
    output: Place,
    policy: str = Policy.MAJORITY,
    options: Mapping[str, Any] | None = None,
) -> tuple[Written, int]:
    """Write a selection's elected entries as files of another tool. None is replaced unless all can be written.

    Args:
        store: The database.
        selection: Which votes count.
        name: Name of the format.
        output: Folder for the files; a file for formats that write a single one.
        policy: Who decides.
        options: Further options for the writer.

    Returns:
        What was written, and the number of elected entries.

    Raises:
        UsageError: There is no format of this name, or it does not write.
        SelectionError: No votes match, an override has expired, a `*` entry would serve a key with a config that is
            banned there, or the format cannot hold the entries.
        PluginError: The format is broken.
        FileError: A file cannot be written.
        DatabaseError: The database cannot be read.
    """
    writer = Plugins().named(name)
    if not writer.can_write:
        raise UsageError(f"--to {name}: this format can be read, but not written")
    with store.reading() as reading:
        election = elect_entries(reading, selection, policy, every_choice=True)
        votes = election.votes
        check_packages(votes)
        if not election.entries:
            more = "" if selection.curated else "; --curated counts curated choices as votes"
            raise SelectionError(f"no votes match the filters. Nothing was written{more}")
        refuse_expired(election.overrides, dt.datetime.now(dt.UTC).date().isoformat())
        _refuse_banned_everywhere(election)
        chosen = Outgoing(
            entries=[_elected(entry, votes) for entry in election.entries],
            votes=lambda: _vote_rows(election.every_entry, votes),
            timings=lambda: _timing_rows(election.every_entry, votes),
            extras=lambda: (json.loads(text) for _, text in reading.bulk(queries.recordings.extras(selection))),
            options=options or {},
        )
        with translated(f"format {name}"):
            written = writer.write(chosen)
            for file in written.files:
                path = PurePosixPath(file)
                if path.is_absolute() or ".." in path.parts or (not file and len(written.files) > 1):
                    raise PluginError(f"format {name} would write {file!r}; expected a path inside the output folder")
            # In the transaction: a function among the files may read rows.
            write_together({output / file if file else output: content for file, content in written.files.items()})
    return written, len(election.entries)


def _refuse_banned_everywhere(election: Election) -> None:
    """Apply `refuse_banned` to the architectures with a `*` entry, which readers may use for keys without an entry."""
    for arch in sorted({entry.arch for entry in election.entries if entry.key == ANY_KEY}):
        kernels: dict[str, dict[str, Any]] = {}
        for entry in election.entries:
            if entry.arch == arch and kind_of(entry.config) is Kind.TRITON:
                kernels.setdefault(entry.kernel, {})[entry.key] = load_config(entry.config)
        refuse_banned(TunedTable(arch, kernels), election.every_entry, election.overrides)


def _elected(entry: Winner, votes: VotesByShape) -> ElectedEntry:
    return ElectedEntry(
        arch=entry.arch,
        device=entry.device,
        kernel=entry.kernel,
        key=entry.key,
        config=entry.config,
        triton=entry.triton,
        package=entry.package,
        version=entry.version,
        votes=entry.choices[0].count,
        total_votes=entry.votes,
        times_ms=_medians(entry, votes),
    )


def _medians(entry: Winner, votes: VotesByShape) -> Times | None:
    """The medians over ranks of the three times of the elected config."""
    times = votes.timings_by_config(entry.shape).get(entry.config, {})
    worked = [one for one in times.values() if one is not None]
    if not worked:
        return None
    median, p20, p80 = (statistics.median(column) for column in zip(*worked, strict=True))
    return median, p20, p80


def _vote_rows(entries: Sequence[EntryVotes], votes: VotesByShape) -> Iterator[dict[str, Any]]:
    """One row per vote on these entries; a curated choice that counts has no rank."""
    for part in in_chunks(entries):
        voters = Voters(votes, {entry.shape for entry in part})
        for entry in part:
            for choice in entry.choices:
                common = {**entry.head(), "config": choice.config, **entry.versions()}
                for run, rank in voters.each(entry.shape, choice.config_id):
                    yield {**common, "run": run, "rank": rank}


def _timing_rows(entries: Sequence[EntryVotes], votes: VotesByShape) -> Iterator[dict[str, Any]]:
    """One row per timing of a candidate of these entries, in milliseconds; null if it failed."""
    whose = {
        row["id"]: {"run": row["run"], "rank": None if row["rank"] == NO_RANK else row["rank"]}
        for row in votes.reading.rows(queries.recordings.facts(votes.selection))
    }
    for entry in entries:
        common = {**entry.head(), **entry.versions()}
        for config, recording, times in votes.every_timing(entry.shape):
            median, p20, p80 = times or (None, None, None)
            yield {
                **common,
                **whose[recording],
                "config": config,
                "median_ms": median,
                "p20_ms": p20,
                "p80_ms": p80,
            }
