"""The front door: every question the database answers, as a method of one object."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict, Unpack

from tuning_registry.db.store import Store
from tuning_registry.db.url import resolve_url, shown_url
from tuning_registry.errors import DatabaseError, UsageError, printable
from tuning_registry.formats.files import write_atomically
from tuning_registry.formats.stores import place_of
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.log import warn
from tuning_registry.model.origins import Dimension
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.operations.authors import current_user
from tuning_registry.operations.election.tally import EntryVotes, Winner, find_disagreements
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.hand_ins import RefusedHandIn, list_refused, retry_refused
from tuning_registry.operations.ingest.ingest import IngestOptions, IngestReport, ingest
from tuning_registry.operations.ingest.report import FoldReport
from tuning_registry.operations.overrides import add_override, lift_override, list_overrides
from tuning_registry.operations.reports.audits import EntryAudit, find_audits
from tuning_registry.operations.reports.between import SourceComparison, compare_sources
from tuning_registry.operations.reports.costs import DisagreementCost, find_costs
from tuning_registry.operations.reports.explain import explain
from tuning_registry.operations.reports.explained import Explanation
from tuning_registry.operations.reports.inventory import RecordedKernel, RecordedKey, list_kernels, list_keys
from tuning_registry.operations.reports.misses import MissedEntry, find_misses
from tuning_registry.operations.reports.page.gather import ReportOptions, gather_report
from tuning_registry.operations.reports.page.report import Report
from tuning_registry.operations.reports.ranks import Fleet, compare_ranks
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.retention import compact_run, delete_run
from tuning_registry.operations.runs import Run, list_runs, restore_run, withdraw_run
from tuning_registry.operations.sources import delete_source, restore_source, withdraw_source
from tuning_registry.operations.tables.checking import TableCheck, check_table
from tuning_registry.operations.tables.compile_data import write_table_files
from tuning_registry.operations.tables.differences import compare_tables, compare_with_votes, table_or_run
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.operations.tables.export_log import ExportRecord, list_exports, remember_export
from tuning_registry.operations.tables.exported import Export
from tuning_registry.operations.tables.outgoing import write_format
from tuning_registry.rendering.html.layout import render_page
from tuning_registry.rules.evidence import Policy, Ties
from tuning_registry.rules.overrides import BAN, PIN, Override
from tuning_registry.rules.table_diff import EntryChange

PathLike = str | os.PathLike[str]


class VoteFilters(TypedDict, total=False):
    """Keywords that choose which votes count. All of them must hold; a missing or None filter lets everything pass.

    Attributes:
        runs: Name of a run, or several names.
        source: The recordings' `source` text, matched exactly; `""` for recordings without one.
        triton: Triton version; `"none"` for recordings that do not state one.
        packages: Version by distribution (`{"fla": "0.6.0"}`). Narrows the votes on the kernels that the distribution
            owns and leaves other kernels alone; `"none"` for recordings that do not state one.
        device: Only entries for this device, such as `"NVIDIA_H200"`; `""` for entries that are not for one device.
        curated: Count each curated choice as a vote.
    """

    runs: str | Iterable[str] | None
    source: str | None
    triton: str | None
    packages: Mapping[str, str] | None
    device: str | None
    curated: bool


class Filters(VoteFilters, total=False):
    """Keywords that choose entries and votes: those of `VoteFilters`, and architecture and kernel.

    Attributes:
        arch: Architecture in any accepted spelling, such as `"sm90"` or `"gfx942"`.
        kernel: Qualified name of a kernel, or its function name in any module; or a pattern for either, such as
            `"*norm*"`.
        ranks: A rank, or several, of any run.
    """

    arch: str | None
    kernel: str | None
    ranks: int | Iterable[int] | None


@dataclass(frozen=True, slots=True, repr=False)
class ExportedTable(Result):
    """The canonical table of an architecture, ready to be written.

    Attributes:
        details: The bytes and content of the table, and what went into it.
    """

    details: Export
    _store: Store
    _selection: Selection
    _options: ExportOptions

    @property
    def digest(self) -> str:
        """The digest of the table's entries, 64 hexadecimal digits."""
        return self.details.digest

    @property
    def selection_digest(self) -> str:
        """The digest of all that decides a pin: entries, bans and evidence. Equal digests mean equal choices."""
        return self.details.selection_digest

    @property
    def table(self) -> TunedTable:
        """The table as `tuning_registry.load` would return it."""
        payload = dict(self.details.payload)
        arch, kernels = payload.pop("arch"), payload.pop("kernels")
        return TunedTable(arch, kernels, payload)  # with the bans, which a launch honours

    def to_dict(self) -> dict[str, Any]:
        """What went into the table, as JSON holds it."""
        return self.details.to_dict()

    def __str__(self) -> str:
        """One readable line."""
        return str(self.details)

    def write(self, path: PathLike) -> None:
        """Write the table and its compile data to files atomically, and record the export in the database.

        A table is written even if the database is read-only; a warning is then logged, and `Registry.exports` does not
        list the table.

        Raises:
            FileError: The file cannot be written.
        """
        write_table_files(self.details, place_of(path))
        try:
            remember_export(self._store, self.details, self._selection, self._options,
                            output=printable(os.fspath(path)), exported_by=current_user(), now=_now())  # fmt: skip
        except DatabaseError as error:
            warn("the table was written, but the export could not be recorded: %s", error)


@dataclass(frozen=True, slots=True, repr=False)
class ReportPage(Result):
    """A page about a selection, ready to be written.

    Attributes:
        details: What the page shows.
    """

    details: Report

    @property
    def html(self) -> str:
        """The page: one HTML document that loads nothing."""
        return render_page(self.details, _now())

    def to_dict(self) -> dict[str, Any]:
        """The totals and the disagreements, as JSON holds them."""
        return self.details.to_dict()

    def __str__(self) -> str:
        """One readable line."""
        return str(self.details)

    def write(self, path: PathLike) -> None:
        """Write the page to a file atomically.

        Raises:
            FileError: The file cannot be written.
        """
        write_atomically(place_of(path), self.html.encode())


class Registry:
    """A registry database: ingest recordings, ask what ranks chose, and export the table to pin.

    Each method opens a connection, does one transaction and closes the connection, so that a registry can be kept open
    for as long as needed and shared between threads. Leaving the `with` block matters only for `":memory:"`, whose
    content ends there.

        with Registry("registry.db") as registry:
            registry.ingest("recordings/", run="nightly")
            split = registry.disagreements(arch="sm90")
            registry.export("sm90").write("sm90.json")

    Results are frozen dataclasses that print as one line. `pandas.DataFrame([row.to_dict() for row in rows])` makes a data frame of a list.

    Every method raises `DatabaseError` if the database cannot be opened, read or written, and `UsageError` if an
    argument is not valid. Methods other than `ingest` and `status` raise `SchemaError` if the database holds no registry.

    Args:
        url: SQLite file, `sqlite:///FILE`, `postgresql://USER@HOST/NAME`, or `":memory:"`. None means the same default
            as for the `registry` command: `$TUNING_REGISTRY_DB`, then a per-user SQLite file.

    Raises:
        UsageError: The URL is not valid, or names a database that is not supported.
    """

    def __init__(self, url: PathLike | None = None) -> None:
        self._store = Store(resolve_url(os.fspath(url) if url is not None else None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    @property
    def url(self) -> str:
        """URL of the database, without its password."""
        return shown_url(self._store.url)

    def ingest(
        self,
        paths: PathLike | Iterable[PathLike],
        *,
        run: str | None = None,
        as_run: str | None = None,
        rank: int | None = None,
        arch: str | None = None,
        triton: str | None = None,
        packages: Mapping[str, str] | None = None,
        source: str | None = None,
        replace: bool = False,
        keep_going: bool = False,
        device: str | None = None,
        format: str | None = None,  # noqa: A002  # the word of `registry formats`
    ) -> IngestReport:
        """Ingest recordings, timings, Triton caches and files of other tools in one transaction.

        Creates the registry if there is none.

        Args:
            paths: A file, folder or glob pattern, or several.
            run: Run name for recordings that do not state one.
            as_run: Run name that overrides the stated one, for example when two jobs shared a name.
            rank: Rank, for a single file that does not state one.
            arch: Architecture, for a Triton cache or a file of another tool that does not state one.
            triton: Triton version for recordings that do not state one.
            packages: Version by distribution, for recordings that do not state it.
            source: Where the recordings come from, as free text, for recordings that do not state it.
            replace: Supersede a different recording of the same run and rank instead of refusing it.
            keep_going: Skip recordings that cannot be ingested and list them in the report's `skipped`.
            device: Device, for a file of another tool that does not state one.
            format: Format of all files, as `registry formats` names it; by default it is detected from their content.

        Returns:
            How many recordings, votes, timings and observations were stored, and what was noticed.

        Raises:
            FileError: A path does not exist or cannot be read.
            RecordingError: A file is not a valid recording.
            ConflictError: A recording contradicts an argument or the database.
        """
        options = IngestOptions(run=run, as_run=as_run, rank=rank, arch=arch, triton=triton, packages=packages or {},
                                source=source, replace=replace, keep_going=keep_going, device=device,
                                format=format)  # fmt: skip
        return ingest(self._store, paths if isinstance(paths, str | os.PathLike) else list(paths), options)

    def fold(self, *, retry: bool = False) -> FoldReport:
        """Turn the recordings that ranks have handed in into votes.

        Args:
            retry: Also fold hand-ins that were refused before.

        Returns:
            How many hand-ins were folded, what they added, and why others were refused.

        Raises:
            DatabaseError: The database cannot be written now.
        """
        if retry:
            retry_refused(self._store)
        return fold(self._store)

    def refused_hand_ins(self) -> list[RefusedHandIn]:
        """Hand-ins that contradict the database or hold no recording, with the reasons; oldest first."""
        return list_refused(self._store)

    def winners(self, *, policy: str = Policy.MAJORITY, **filters: Unpack[Filters]) -> list[Winner]:
        """The elected config of every entry, sorted by architecture, kernel and key. Pins and bans apply.

        Args:
            policy: `"majority"` (most votes), `"fastest"` (lowest median time) or `"minimax"` (smallest worst case over
                ranks).
            filters: See `Filters`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return find_winners(self._store, _selection(filters), policy)

    def disagreements(self, **filters: Unpack[Filters]) -> list[EntryVotes]:
        """Entries for which ranks chose more than one config, each with its choices and the ranks behind them.

        Args:
            filters: See `Filters`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return find_disagreements(self._store, _selection(filters))[0]

    def compare_sources(self, between: str = Dimension.SOURCE, **filters: Unpack[Filters]) -> SourceComparison:
        """Compare the curated choices of files for the same shapes, and list those that differ.

        Args:
            between: What the files differ in: `"source"` (the project), `"version"` (of the project) or `"triton"`.
            filters: See `Filters`.
        """
        return compare_sources(self._store, _selection(filters), Dimension(between))

    def costs(self, **filters: Unpack[Filters]) -> list[DisagreementCost]:
        """Disagreements with their cost according to the timings, the most costly first.

        Args:
            filters: See `Filters`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return find_costs(self._store, _selection(filters))[0]

    def audits(self, **filters: Unpack[Filters]) -> list[EntryAudit]:
        """What audits found about the candidates of each entry: classes of equal bits, and those that need attention.

        Args:
            filters: See `Filters`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return find_audits(self._store, _selection(filters))

    def explain(
        self,
        arch: str,
        kernel: str,
        key: str | None = None,
        *,
        ranks: int | Iterable[int] | None = None,
        policy: str = Policy.MAJORITY,
        **filters: Unpack[VoteFilters],
    ) -> Explanation:
        """Votes, timings and overrides of a kernel's entries, and why each entry has its config.

        Args:
            arch: Architecture.
            kernel: Qualified name of the kernel, its function name, or a pattern.
            key: Shape key, or a pattern such as `"D=128|*"`; None for every entry of the kernel. A key that was recorded
                is not a pattern.
            ranks: Only votes and timings of this rank, or of these.
            policy: As for `winners`.
            filters: See `VoteFilters`.

        Returns:
            The entries, and near matches if the kernel or key was never recorded.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return explain(
            self._store, _selection(filters, VoteFilters, arch=arch, kernel=kernel, ranks=ranks), key, policy
        )

    def ranks(self, **filters: Unpack[Filters]) -> Fleet:
        """Every rank's dissenting votes and speed compared with all ranks, and the outliers among them.

        Args:
            filters: See `Filters`. With `ranks`, only these ranks are returned; they are still compared with all.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return compare_ranks(self._store, _selection(filters))

    def report(
        self, *, key: str | None = None, against: PathLike | None = None, **filters: Unpack[Filters]
    ) -> ReportPage:
        """One HTML page about votes, timings and ranks: who chose what, what it costs, and what to do.

        Nothing is written: `report().write("report.html")` does that.

        Args:
            key: Only entries with this shape key, or a pattern such as `"D=128|*"`.
            against: A table file, or the name of a run; the page shows what changed since.
            filters: See `Filters`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel, or `against` names
                neither a table nor a run.
            FileError: The table cannot be read.
            TableError: The table is not valid, or it is for another architecture.
        """
        options = ReportOptions(source=self.url, key=key, against=os.fspath(against) if against is not None else None)
        return ReportPage(gather_report(self._store, _selection(filters), options))

    def kernels(self, **filters: Unpack[Filters]) -> list[RecordedKernel]:
        """The recorded kernels, with their entries, ranks, votes and disagreements.

        Args:
            filters: See `Filters`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return list_kernels(self._store, _selection(filters))

    def keys(self, **filters: Unpack[Filters]) -> list[RecordedKey]:
        """The recorded keys of kernels, with their votes and how many configs were chosen.

        Args:
            filters: See `Filters`; mostly `kernel`.

        Raises:
            SelectionError: A package filter names a distribution that owns no recorded kernel.
        """
        return list_keys(self._store, _selection(filters))

    def misses(self, *, unrecorded: bool = False, **filters: Unpack[Filters]) -> list[MissedEntry]:
        """Entries that pinned runs did not find in their tables: what to record next.

        Args:
            unrecorded: Only entries that have no vote yet.
            filters: See `Filters`; `packages` is not supported here.

        Raises:
            UsageError: `packages` was given.
        """
        selection = _selection(filters)
        if selection.packages:
            raise UsageError("misses cannot be filtered by packages; filter by runs, source or triton instead")
        return find_misses(self._store, selection, unrecorded=unrecorded)[0]

    def export(
        self,
        arch: str,
        *,
        policy: str = Policy.MAJORITY,
        ties: str = Ties.TEXT,
        evidence: bool = True,
        compile_data: bool = True,
        generalize_percent: float | None = None,
        max_regression_percent: float | None = None,
        replaced: TunedTable | PathLike | None = None,
        same_bits_as: TunedTable | PathLike | None = None,
        min_votes: int = 1,
        min_agreement: float = 0.0,
        **filters: Unpack[VoteFilters],
    ) -> ExportedTable:
        """The canonical table of one architecture. Equal votes, timings and overrides give equal bytes.

        Nothing is written: `export("sm90").write("sm90.json")` does that.

        Args:
            arch: Architecture.
            policy: As for `winners`.
            ties: How to choose between configs with equally many votes: `"text"` (the smallest text) or `"fastest"` (the
                lowest median time, if all of them were timed).
            evidence: Write how much slower each timed candidate is on each key. Jobs use it to choose configs for keys
                that are not in the table.
            compile_data: Also make the compile data if it was recorded: `write` puts it into a file next to the table,
                and pinned jobs compile the table's kernels from it in the background.
            generalize_percent: Merge a kernel's entries into one `*` entry if that costs at most this slowdown, in
                percent; None to keep every entry.
            max_regression_percent: Refuse to make an entry of `replaced` slower than this, in percent; None to allow it.
            replaced: The table that the new one will replace, or its path.
            same_bits_as: Keep the configs of this table (or of the table at this path) unless audits found that a faster
                one gives the same bits. Needs policy `"fastest"` or `"minimax"`.
            min_votes: Leave out entries with fewer votes.
            min_agreement: Leave out entries whose winner has a smaller share of the votes, from 0 to 1.
            filters: See `VoteFilters`.

        Raises:
            SelectionError: Nothing was recorded for the architecture, its votes are of several versions, an override
                has expired, or an entry would become slower than allowed.
            FileError: `replaced` cannot be read.
            TableError: `replaced` is not a table.
        """
        selection = _selection(filters, VoteFilters, arch=arch)
        options = ExportOptions(min_votes=min_votes, min_agreement=min_agreement, policy=policy,
                                ties=ties, evidence=evidence, compile_data=compile_data, generalize_percent=generalize_percent, max_regression_percent=max_regression_percent,
                                replaced=_table(replaced) if replaced is not None else None,
                                same_bits_as=_table(same_bits_as) if same_bits_as is not None else None)  # fmt: skip
        return ExportedTable(export_table(self._store, selection, options), self._store, selection, options)

    def write_format(
        self, name: str, path: PathLike, *, policy: str = Policy.MAJORITY, **filters: Unpack[Filters]
    ) -> dict[str, int]:
        """Write the elected entries as files of another tool.

        Args:
            name: Format, as `registry formats` names it.
            path: Output folder; a file for formats that write a single one.
            policy: As for `winners`.
            filters: See `Filters`.

        Returns:
            How many entries the format cannot hold, by reason.

        Raises:
            UsageError: There is no format of this name, or it does not write.
            SelectionError: No votes match, or the format cannot hold them.
            FileError: A file cannot be written.
        """
        written, _ = write_format(self._store, _selection(filters), name, place_of(path), policy)
        return dict(written.left_out)

    def exports(self, digest: str | None = None, *, arch: str | None = None) -> list[ExportRecord]:
        """Tables that were written, newest first: from the digest in a job's log back to the votes.

        Args:
            digest: Only tables whose digest is this, or begins with it.
            arch: Only tables of this architecture.
        """
        return list_exports(self._store, digest, arch)

    def diff(
        self,
        old: ExportedTable | TunedTable | PathLike,
        new: ExportedTable | TunedTable | PathLike | None = None,
        *,
        arch: str | None = None,
        **filters: Unpack[VoteFilters],
    ) -> list[EntryChange]:
        """What changed between two tables or runs, with the votes and timings behind each change.

        Args:
            old: A table, an export, the path of a table, or the name of a run: then the table of its votes alone. A file
                of that name comes first.
            new: Another; None compares with the table that would be exported now.
            arch: Architecture of the runs' tables; None if they recorded only one.
            filters: See `VoteFilters`. Without any, a comparison with the votes uses the filters of the table's export.

        Raises:
            FileError: A table cannot be read.
            TableError: A file is not a table, or the tables are for different architectures.
            SelectionError: No table can be exported now, or there is neither a file nor a run of this name.
        """
        selection = _selection(filters, VoteFilters)
        before = self._operand(old, arch)
        if new is None:
            return compare_with_votes(self._store, before, selection).changes
        return compare_tables(before, self._operand(new, arch), self._store, selection)

    def _operand(self, operand: ExportedTable | TunedTable | PathLike, arch: str | None) -> TunedTable:
        if isinstance(operand, ExportedTable | TunedTable):
            return _table(operand)
        return table_or_run(self._store, os.fspath(operand), arch)

    def check(
        self,
        table: ExportedTable | TunedTable | PathLike,
        *,
        same_bits_as: TunedTable | PathLike | None = None,
        **filters: Unpack[VoteFilters],
    ) -> TableCheck:
        """Whether a table still holds: its votes, overrides, staleness, versions and digest.

        Args:
            table: A table, an export, or the path of a table.
            same_bits_as: The table (or its path) whose bits this one was held to, to check that as well.
            filters: See `VoteFilters`. Without any, the filters of the table's export apply.

        Returns:
            The problems, one line each (none if the table holds), and what could not be checked.

        Raises:
            FileError: The table cannot be read.
            TableError: The file is not a table, or was not held to the bits of `same_bits_as`.
        """
        selection = _selection(filters, VoteFilters)
        reference = _table(same_bits_as) if same_bits_as is not None else None
        return check_table(self._store, _table(table), selection, same_bits_as=reference)

    def runs(self) -> list[Run]:
        """Every run with what it recorded, newest first."""
        return list_runs(self._store)

    def withdraw(self, run: str, *, ranks: int | Iterable[int] = (), curated: bool = False) -> bool:
        """Stop counting the votes of a run, or of some of its ranks. They are kept, and `restore` counts them again.

        Args:
            run: Name of the run.
            ranks: Only this rank, or these; empty for the whole run.
            curated: Whether `run` names a source of curated choices, as `status` lists it.

        Returns:
            Whether this changed anything.

        Raises:
            SelectionError: There is no such run, rank or source.
        """
        if curated:
            return withdraw_source(self._store, run)
        return withdraw_run(self._store, run, _several(ranks))

    def restore(self, run: str, *, ranks: int | Iterable[int] = (), curated: bool = False) -> bool:
        """Count the votes of a withdrawn run again, or those of ranks that were withdrawn individually.

        Args:
            run: Name of the run.
            ranks: Only this rank, or these; empty for the whole run.
            curated: Whether `run` names a source of curated choices, as `status` lists it.

        Returns:
            Whether this changed anything.

        Raises:
            SelectionError: There is no such run, rank or source.
        """
        if curated:
            return restore_source(self._store, run)
        return restore_run(self._store, run, _several(ranks))

    def compact(self, run: str) -> int:
        """Drop the percentiles of a large run's timings, except those of 64 ranks. All medians stay exact.

        Args:
            run: Name of the run.

        Returns:
            How many timings lost their percentiles.

        Raises:
            SelectionError: There is no such run.
        """
        return compact_run(self._store, run)

    def delete(self, run: str, *, curated: bool = False) -> int:
        """Delete a run with its votes, timings and observations. Unlike `withdraw`, this cannot be undone.

        Args:
            run: Name of the run.
            curated: Whether `run` names a source of curated choices, as `status` lists it.

        Returns:
            How many recordings, or files with curated choices, were deleted.

        Raises:
            SelectionError: There is no such run or source.
        """
        if curated:
            return delete_source(self._store, run)
        return delete_run(self._store, run)

    def pin(self, arch: str, kernel: str, key: str, config: str | Mapping[str, Any], *, reason: str,
            author: str | None = None, until: str | None = None, force: bool = False) -> Override:  # fmt: skip
        """Pin an entry to a config, regardless of its votes.

        Args:
            arch: Architecture.
            kernel: Qualified name of the kernel, or its function name if only one recorded kernel has it.
            key: Shape key, or `"*"` for every key of the kernel.
            config: The config as a dict, as JSON text, or as the commands show it.
            reason: Why; it is written into the table.
            author: Who decides; None for the current user and host.
            until: Last day (UTC, `YYYY-MM-DD`) on which it applies. Afterwards `export` refuses until the override is
                renewed or lifted.
            force: Accept a config that was never recorded for this kernel and key.

        Raises:
            SelectionError: The kernel, key or config was never recorded, and `force` is not set.
            ConflictError: An override in force contradicts it.
        """
        return self._override(PIN, arch, kernel, key, config, reason, author, until, force=force)

    def ban(self, arch: str, kernel: str, key: str, config: str | Mapping[str, Any], *, reason: str,
            author: str | None = None, until: str | None = None, force: bool = False) -> Override:  # fmt: skip
        """Keep a config from being elected. Arguments and errors are those of `pin`."""
        return self._override(BAN, arch, kernel, key, config, reason, author, until, force=force)

    def _override(self, action: str, arch: str, kernel: str, key: str, config: str | Mapping[str, Any], reason: str,
                  author: str | None, until: str | None, *, force: bool) -> Override:  # fmt: skip
        text = config if isinstance(config, str) else json.dumps(dict(config))
        return add_override(self._store, action, arch=arch, kernel=kernel, key=key, config=text, reason=reason,
                            author=author if author is not None else current_user(), until=until, force=force,
                            now=_now())  # fmt: skip

    def lift(self, override: int, *, reason: str, author: str | None = None) -> Override:
        """End a pin or ban; its history is kept.

        Args:
            override: Id of the override, as in `overrides`.
            reason: Why; kept in the history.
            author: Who decides; None for the current user and host.

        Returns:
            The override that was ended.

        Raises:
            SelectionError: No override in force has this id.
        """
        who = author if author is not None else current_user()
        return lift_override(self._store, override, reason=reason, author=who, now=_now())

    def overrides(self, *, everything: bool = False) -> list[Override]:
        """Pins and bans in force.

        Args:
            everything: Return the whole history instead, with replaced and lifted overrides and the lifts.
        """
        return list_overrides(self._store, everything=everything)

    def status(self) -> dict[str, Any]:
        """The database, its schema revision and what it holds; `revision` is None if it holds no registry."""
        return describe_status(self._store)


def _selection(filters: Mapping[str, Any], allowed: type = Filters, **fixed: Any) -> Selection:
    unknown = filters.keys() - allowed.__annotations__.keys()
    if unknown:  # a misspelt filter must not let every vote pass
        raise TypeError(f"unexpected filter {min(unknown)!r}; expected {', '.join(allowed.__annotations__)}")
    given = {name: value for name, value in {**filters, **fixed}.items() if value is not None}
    runs, ranks = given.pop("runs", ()), given.pop("ranks", ())
    return Selection(
        runs=(runs,) if isinstance(runs, str) else tuple(runs),
        ranks=_several(ranks),
        **given,
    )


def _several(ranks: int | Iterable[int]) -> tuple[int, ...]:
    return (ranks,) if isinstance(ranks, int) else tuple(ranks)


def _table(table: ExportedTable | TunedTable | PathLike) -> TunedTable:
    if isinstance(table, ExportedTable):
        return table.table
    return table if isinstance(table, TunedTable) else read_table(place_of(table))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
