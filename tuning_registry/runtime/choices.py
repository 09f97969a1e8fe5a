"""The configs that this process has chosen, in order, and their digest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.model.names import lookup_key


class Choice(NamedTuple):
    """One config chosen for one (arch, kernel, key) in this process.

    Attributes:
        arch: Architecture.
        kernel: Qualified kernel name.
        key: Shape key.
        config: Canonical text of the chosen config.
        source: `timed` (Triton measured it here), `echo` (from Triton's disk cache), `single` (no choice),
            `table`, `nearest`, `block_sizes`, `min_cost` or `chaos`.
        invariant: Whether the policy states that the config cannot change results: agreement skips it.
        nearest: The recorded key that is nearest, if the source is `nearest`; else empty.
    """

    arch: str
    kernel: str
    key: str
    config: str
    source: str
    invariant: bool = False
    nearest: str = ""

    @property
    def entry(self) -> tuple[str, str, str]:
        """Arch, kernel and key, in the spelling that all equal keys share."""
        return self.arch, self.kernel, lookup_key(self.key)


class ChoiceLog:
    """Choices in the order they are made; the latest choice of an entry counts.

    Safe under threads, forks and signal handlers, without a lock: choices are only appended to a list.
    """

    def __init__(self) -> None:
        self._events: list[Choice] = []
        self._noted: dict[tuple[str, str, str], str] = {}  # the latest config of each entry, to skip repetitions

    def add(self, choice: Choice) -> bool:
        """Note a choice; False if it is the entry's latest choice already."""
        entry = choice.entry
        if self._noted.get(entry) == choice.config:
            return False
        self._noted[entry] = choice.config
        self._events.append(choice)  # threads may add the same choice twice, which changes nothing
        return True

    def since(self, position: int) -> tuple[list[Choice], int]:
        """The choices noted after `position`, and the position to ask from next time."""
        fresh = self._events[position:]
        return fresh, position + len(fresh)

    def latest(self) -> list[Choice]:
        """The latest choice of every entry, sorted by entry."""
        latest = {choice.entry: choice for choice in self._events.copy()}
        return [latest[entry] for entry in sorted(latest)]

    def digest(self) -> str:
        """SHA-256 of the latest choices that can change results; equal digests mean equal choices."""
        configs: Mapping[str, str] = {dump_json(c.entry): c.config for c in self.latest() if not c.invariant}
        return text_digest(dump_json(configs))
