"""The choices this process has made, in order, and their digest."""

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
            `table`, `block_sizes`, `min_cost` or `chaos`.
        invariant: Whether the policy says that the config cannot change values: agreement skips it.
    """

    arch: str
    kernel: str
    key: str
    config: str
    source: str
    invariant: bool = False

    @property
    def entry(self) -> tuple[str, str, str]:
        """What was decided: arch, kernel and key, in the spelling under which equal keys meet."""
        return self.arch, self.kernel, lookup_key(self.key)


class ChoiceLog:
    """Choices as they come; the latest of an entry stands.

    Safe under threads, forks and signal handlers, without a lock: the one thing that is changed is a list
    which choices are appended to.
    """

    def __init__(self) -> None:
        self._events: list[Choice] = []
        self._noted: dict[tuple[str, str, str], str] = {}  # the latest config of each entry, to see what is no news

    def add(self, choice: Choice) -> bool:
        """Note a choice; False if the entry already stands at that config."""
        entry = choice.entry
        if self._noted.get(entry) == choice.config:
            return False
        self._noted[entry] = choice.config
        self._events.append(choice)  # twice where two threads note the same at once, which changes nothing
        return True

    def since(self, position: int) -> tuple[list[Choice], int]:
        """The choices noted after `position`, and the position to ask from next time."""
        fresh = self._events[position:]
        return fresh, position + len(fresh)

    def standing(self) -> list[Choice]:
        """The choice of every entry, sorted by entry."""
        latest = {choice.entry: choice for choice in self._events.copy()}
        return [latest[entry] for entry in sorted(latest)]

    def digest(self) -> str:
        """SHA-256 over the standing choices that can change values; equal digests mean equal choices."""
        configs: Mapping[str, str] = {dump_json(c.entry): c.config for c in self.standing() if not c.invariant}
        return text_digest(dump_json(configs))
