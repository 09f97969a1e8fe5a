"""What a table says about a key that it does not have: the rule of `nearest` on the table's winners and evidence.

The answer depends on the table, the kernel, the key and the candidates only. A table's keys are prepared once per
kernel, when they are first asked for or by `prepare`, and kept for the table's life; who prepares them, and when, does
not change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tuning_registry.formats.matching import value_text
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.names import ANY_KEY, bare_name
from tuning_registry.rules.nearest import RecordedKeys


class Suggestion(NamedTuple):
    """The config that a table suggests for a key that it does not have.

    Attributes:
        config: Its canonical text, as the table spells it.
        kernel: The kernel name in the table whose keys were compared: the qualified or the bare name.
        key: The nearest key in the table.
    """

    config: str
    kernel: str
    key: str


class _Kernel:
    """The keys of one kernel of a table, and the configs that they suggest."""

    def __init__(self, table: TunedTable, name: str) -> None:
        texts, evidence = table.texts.get(name, {}), table.evidence.get(name)
        self.keys = RecordedKeys(texts, evidence)
        winners = {text for key, text in texts.items() if key != ANY_KEY}
        self.configs = tuple(sorted(winners.union(() if evidence is None else evidence.configs)))


_LARGE: Final = 25  # keys
_prepared: WeakKeyDictionary[TunedTable, dict[str, _Kernel]] = WeakKeyDictionary()


def recorded_keys(table: TunedTable, name: str) -> RecordedKeys:
    """The keys that a table has for a kernel; none if it has no kernel of exactly this name."""
    return _kernel(table, name).keys


def suggest(
    table: TunedTable, kernel: str, key: str, candidates: Sequence[str], other_spellings: Iterable[str] = ()
) -> Suggestion | None:
    """The candidate that a table suggests for a key; None if no comparable key suggests one.

    The keys of the qualified kernel name are asked first, then those of the bare name.

    Args:
        table: The table.
        kernel: Qualified kernel name.
        key: The key, which may also be one that the table has: its winner is then like that of any other key.
        candidates: Canonical texts of what pruning and bans left, in any order and in any spelling of their values.
        other_spellings: Keys that other tools write for the same call.
    """
    for name in dict.fromkeys((kernel, bare_name(kernel))):
        if name not in table.texts:
            continue
        known = _kernel(table, name)
        left = _among(known.configs, candidates)
        for spelt in (key, *other_spellings) if left else ():
            ranking = known.keys.rank(spelt, left, 1)
            if ranking.known:
                return Suggestion(ranking.candidates[0], name, ranking.nearest)
    return None


def large_kernels(table: TunedTable) -> list[str]:
    """The kernels of a table whose keys take a millisecond or more to prepare."""
    return [name for name, texts in table.texts.items() if len(texts) >= _LARGE]


def prepare(table: TunedTable) -> None:
    """Prepare the large kernels of a table ahead of their first key that is missing."""
    for name in large_kernels(table):
        _kernel(table, name)


def _kernel(table: TunedTable, name: str) -> _Kernel:
    # No lock, since a process may fork while another thread holds one: of two that prepare a kernel, one is kept.
    kernels = _prepared.setdefault(table, {})
    return kernels.get(name) or kernels.setdefault(name, _Kernel(table, name))


def _among(configs: Sequence[str], candidates: Sequence[str]) -> list[str]:
    """The configs that are candidates; a config that is one in its own spelling is preferred to the others."""
    exact = set(candidates)
    found = [text for text in configs if text in exact]
    others = exact.difference(found)
    values = {value_text(text) for text in others} if others else ()
    return (
        [*found, *(text for text in configs if text not in exact and value_text(text) in values)] if values else found
    )
