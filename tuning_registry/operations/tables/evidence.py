"""The evidence in a table: how much slower than the fastest each candidate is on each of its keys, from the timings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tuning_registry.formats.table_evidence import encode_kernel, evidence_object
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import ANY_KEY
from tuning_registry.model.slowdowns import slowdowns_of
from tuning_registry.operations.election.generalizing import Kernels
from tuning_registry.operations.election.tally import EntryVotes, Winner
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import Track

_DEPTH: Final = 2  # objects around it, each of which indents its lines by a space


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of an export; false if it has none.

    Attributes:
        document: The `evidence` object of the table.
        keys: Number of keys that it is about.
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    keys: int = 0

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.keys > 0

    @property
    def size(self) -> int:
        """About how many bytes it takes in the table file."""
        text = dump_json(self.document, indent=1)
        return len(text.encode()) + _DEPTH * text.count("\n") if self else 0


# See docs/decisions.md, D76.
def make_evidence(kernels: Kernels, kept: Sequence[Winner], votes: VotesByShape, track: Track = iter) -> Evidence:
    """The slowdowns of the candidates on the keys of a table, as far as there are timings.

    A kernel with a `*` entry needs none: that entry serves every key that the table does not have.

    Args:
        kernels: The configs of the table.
        kept: The entries that they come from.
        votes: Their timings. Those of one entry at a time are in memory.
        track: Wraps the kernels, to show progress.
    """
    by_kernel: dict[str, list[Winner]] = {}
    for entry in kept:
        if ANY_KEY not in kernels[entry.kernel]:
            by_kernel.setdefault(entry.kernel, []).append(entry)
    encoded: dict[str, Any] = {}
    keys = 0
    for kernel in track(list(by_kernel)):
        rows = slowdowns_on(by_kernel[kernel], votes)
        if rows:
            encoded[kernel] = encode_kernel(kernel, rows)
            keys += len(rows)
    return Evidence(evidence_object(encoded), keys) if encoded else Evidence()


def slowdowns_on(entries: Iterable[EntryVotes], votes: VotesByShape) -> dict[str, dict[str, int]]:
    """The slowdowns of the candidates by key, of entries of one kernel on which at least two candidates were timed."""
    found: dict[str, dict[str, int]] = {}
    for entry in entries:
        medians = votes.medians(entry.shape)
        if len(medians) > 1 and min(medians.values()) < math.inf:
            found[entry.key] = slowdowns_of(medians)
    return found
