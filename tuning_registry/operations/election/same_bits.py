"""Holding an election to the results of a table that is in use: only configs that give the same bits may replace its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuning_registry.formats.table import TunedTable
from tuning_registry.model.names import ANY_KEY, bare_name, lookup_key
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.rules.audits import equal_to


@dataclass(slots=True)
class SameBits:
    """What a table says about entries, and which configs audits found to give the same bits.

    Attributes:
        table: The table in use.
        kept: Entries that keep the table's config, although another one is faster: it is not known to give the same bits.
    """

    table: TunedTable
    kept: int = 0
    _texts: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the table by what Triton can tell apart."""
        for kernel, keys in self.table.texts.items():
            self._texts[kernel] = {lookup_key(key): text for key, text in keys.items()}

    def config_of(self, entry: EntryVotes) -> str | None:
        """The config that launches of this entry get from the table; None if the table does not decide them."""
        keys: Mapping[str, str] = self._texts.get(entry.kernel) or self._texts.get(bare_name(entry.kernel), {})
        return keys.get(lookup_key(entry.key), keys.get(ANY_KEY))

    def allowed(self, entry: EntryVotes, config: str, votes: VotesByShape) -> set[str]:
        """The configs that give the same bits as the table's, itself included."""
        return equal_to(votes.audits.get(entry.shape, {}), config)
