"""Whether ranks launched the same code under a kernel's name. Votes on different code compare different kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.errors import printable
from tuning_registry.model.globs import matches_kernel
from tuning_registry.model.names import rank_ranges
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MixedCode(Result):
    """A kernel that ranks of one run recorded from functions of different source.

    Attributes:
        run: Name of the run.
        kernel: Kernel name.
        ranks: The ranks that ran the same code, by code; the largest group first.
    """

    run: str
    kernel: str
    ranks: tuple[tuple[int, ...], ...]

    @property
    def minority(self) -> tuple[int, ...]:
        """The ranks whose code most ranks of the run do not have; every rank if no code has a majority."""
        everyone = sum(map(len, self.ranks))
        others = self.ranks[1:] if 2 * len(self.ranks[0]) > everyone else self.ranks
        return tuple(sorted(rank for ranks in others for rank in ranks))

    def to_dict(self) -> dict[str, Any]:
        """The kernel as JSON holds it."""
        return {**asdict(self), "ranks": [list(ranks) for ranks in self.ranks]}

    def __str__(self) -> str:
        """One readable line."""
        groups = "; ".join(f"ranks {rank_ranges(ranks)}" for ranks in self.ranks)
        return printable(f"{self.kernel} in run {self.run}: different code on {groups}")


class Sources:
    """The sources that the recordings of a selection state.

    Args:
        reading: The transaction.
        selection: Which recordings.
    """

    def __init__(self, reading: Reading, selection: Selection) -> None:
        self._set_of: dict[int, int] = dict(reading.bulk(queries.sources.sets_stated(selection)))
        rows = reading.chunked(queries.sources.in_sets, sorted(set(self._set_of.values())))
        self._source = {(row["source_set_id"], row["kernel"]): row["source"] for row in rows}

    def of(self, kernel: str, recording: int) -> str | None:
        """The source of a kernel's function in a recording; None if it is not stated."""
        return self._source.get((self._set_of.get(recording, -1), kernel))

    def count(self, kernel: str, recordings: Iterable[int]) -> int:
        """How many sources these recordings state for a kernel."""
        stated = set(map(self._set_of.get, recordings)) - {None}
        return len({self._source.get((one, kernel)) for one in stated if one is not None} - {None})


def find_mixed_code(reading: Reading, selection: Selection) -> list[MixedCode]:
    """The kernels that ranks of one run recorded from functions of different source, by run and name.

    The `ranks` of the selection do not matter: a rank is compared with all others of its run.
    """
    selection = replace(selection, ranks=())
    rows = reading.rows(queries.sources.several(selection))
    found = [row for row in rows if selection.kernel is None or matches_kernel(selection.kernel, row["kernel"])]
    if not found:
        return []
    sources, by_run = Sources(reading, selection), dict[str, list[tuple[int, int]]]()
    for run, rank, recording, _ in reading.bulk(queries.recordings.whose_recordings(selection)):
        by_run.setdefault(run, []).append((rank, recording))
    return [_mixed(row["run"], row["kernel"], sources, by_run[row["run"]]) for row in found]


def _mixed(run: str, kernel: str, sources: Sources, members: Iterable[tuple[int, int]]) -> MixedCode:
    ranks: dict[str, list[int]] = {}
    for rank, recording in members:
        source = sources.of(kernel, recording)
        if source is not None:
            ranks.setdefault(source, []).append(rank)
    groups = sorted(map(tuple, ranks.values()), key=lambda group: (-len(group), group))
    return MixedCode(run=run, kernel=kernel, ranks=tuple(groups))
