"""What the ranks of one group have told each other: the config that each rank chose for each entry."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tuning_registry.model.canonical import dump_json

_DIGEST_BYTES: Final = 8  # collisions become likely near 2^32 entries, and jobs have thousands
ENTRY_BYTES: Final = 2 * _DIGEST_BYTES  # the place (arch, kernel, key), then the function
CHOICE_BYTES: Final = ENTRY_BYTES + _DIGEST_BYTES


class KnownChoices:
    """The choices that the ranks of a group have exchanged: equal on every rank after a check, except `sent`.

    Attributes:
        lock: Serialises the checks of one group. A lock shared by groups could deadlock: ranks would wait for it inside
            collectives that its holder waits for.
        sent: Position in this rank's log up to which its choices were sent.
        session: The session of that log.
        ranks: Ranks that chose a config, as bits, by config digest, by entry digest.
        texts: What is known by name of some entries, by entry digest.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent = 0
        self.session: Any = None
        self.ranks: dict[bytes, dict[bytes, int]] = {}
        self.texts: dict[bytes, Any] = {}
        self._changes: list[int] = []  # by rank, how often its policy has changed
        self._warned: set[object] = set()

    def put(self, entry: bytes, config: bytes, rank: int) -> None:
        """Note a rank's choice for an entry, in place of its earlier choice."""
        configs = self.ranks.setdefault(entry, {})
        for other in [other for other, ranks in configs.items() if other != config and ranks >> rank & 1]:
            configs[other] &= ~(1 << rank)
            if not configs[other]:
                del configs[other]
            self.texts.pop(entry, None)
        before = configs.get(config, 0)
        configs[config] = before | 1 << rank
        if len(configs) > 1 and configs[config] != before:
            self.texts.pop(entry, None)  # the ranks of a config have changed: exchange the text again

    def forget_replaced(self, changes: list[int]) -> None:
        """Drop the choices of ranks whose policy has changed; all ranks see the same counts."""
        fresh = [rank for rank, count in enumerate(self._changes) if changes[rank] != count]
        self._changes = changes
        for entry, configs in self.ranks.items() if fresh else ():
            for config in list(configs):
                for rank in fresh:
                    configs[config] &= ~(1 << rank)
                if not configs[config]:
                    del configs[config]
            self.texts.pop(entry, None)

    def differing(self) -> list[bytes]:
        """The entries that ranks chose more than one config for, sorted."""
        return sorted(entry for entry, configs in self.ranks.items() if len(configs) > 1)

    def split(self) -> list[bytes]:
        """One entry of each place at which two ranks launched no function in common, sorted."""
        functions: dict[bytes, dict[bytes, int]] = {}
        for entry, configs in self.ranks.items():
            if configs:
                functions.setdefault(entry[:_DIGEST_BYTES], {})[entry] = _union(configs.values())
        return sorted(min(ranks) for ranks in functions.values() if len(ranks) > 1 and _some_share_none(ranks.values()))

    def compared(self) -> int:
        """The number of entries that several ranks chose a config for."""
        return sum(sum(bits.bit_count() for bits in configs.values()) > 1 for configs in self.ranks.values())

    def choosers(self) -> set[int]:
        """The ranks that chose a config for some entry."""
        return set(members(_union(bits for configs in self.ranks.values() for bits in configs.values())))

    def is_first(self, subject: object) -> bool:
        """Whether this subject was not asked about before: each is warned of once."""
        if subject in self._warned:
            return False
        self._warned.add(subject)
        return True


def digest(text: str) -> bytes:
    """A short digest, to compare texts of several ranks."""
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


def entry_digest(arch: str, kernel: str, key: str, function: str) -> bytes:
    """The digest of an entry (`Choice.entry`)."""
    return digest(dump_json((arch, kernel, key))) + digest(function)


def lowest(bits: int) -> int:
    """The lowest of some ranks."""
    return (bits & -bits).bit_length() - 1


def members(bits: int) -> tuple[int, ...]:
    """The ranks that are set in `bits`."""
    return tuple(rank for rank in range(bits.bit_length()) if bits >> rank & 1)


def _some_share_none(functions: Iterable[int]) -> bool:
    """Whether two of the ranks behind some functions have none of them in common."""
    sets: Sequence[int] = list(functions)
    everyone = _union(sets)
    return any(_union(bits for bits in sets if bits >> rank & 1) != everyone for rank in members(everyone))


def _union(several: Iterable[int]) -> int:
    found = 0
    for bits in several:
        found |= bits
    return found
