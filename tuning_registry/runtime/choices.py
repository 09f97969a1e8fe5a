"""The configs that this process has chosen, in order, and their digest."""

from __future__ import annotations

from collections.abc import Callable
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
        function: SHA-256 of the source of the kernel's function; empty if there is no source. Functions of several
            sources may share a name (factories, generated code).
        nearest: The recorded key that is nearest, if the source is `nearest`; else empty.
    """

    arch: str
    kernel: str
    key: str
    config: str
    source: str
    invariant: bool = False
    function: str = ""
    nearest: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Arch, kernel and key, in the spelling that all equal keys share."""
        return self.arch, self.kernel, lookup_key(self.key)

    @property
    def entry(self) -> tuple[str, str, str, str]:
        """What the config was chosen for: its place, and which of the functions of that name was launched."""
        return *self.place, self.function


class ChoiceLog:
    """Choices in the order they are made; the latest choice of an entry counts.

    Safe under threads, forks and signal handlers, without a lock: choices are only appended to a list.
    """

    def __init__(self) -> None:
        self._events: list[Choice] = []
        self._noted: dict[tuple[str, ...], str] = {}  # the latest config of each entry, to skip repetitions
        self._launching: list[tuple[Choice, Callable[[], bool]]] = []

    def add(self, choice: Choice, is_launching: Callable[[], bool] | None = None) -> None:
        """Note a choice.

        Args:
            choice: The choice.
            is_launching: Whether its launch has not returned. A launch that raised never returns, so its choice is
                never part of the log. None if the launch has succeeded.
        """
        self._settle()
        if is_launching is None:
            self._append(choice)
        else:
            self._launching.append((choice, is_launching))

    def since(self, position: int) -> tuple[list[Choice], int]:
        """The choices noted after `position`, and the position to ask from next time."""
        self._settle()
        fresh = self._events[position:]
        return fresh, position + len(fresh)

    def latest(self) -> list[Choice]:
        """The latest choice of every entry, sorted by entry."""
        self._settle()
        latest = {choice.entry: choice for choice in self._events.copy()}
        return [latest[entry] for entry in sorted(latest)]

    def digest(self) -> str:
        """SHA-256 of the latest choices that can change results; equal digests mean equal choices.

        It does not depend on the source of functions, so that it survives a change of their code.
        """
        configs: dict[str, list[str]] = {}
        for choice in self.latest():
            if not choice.invariant:
                configs.setdefault(dump_json(choice.place), []).append(choice.config)
        chosen = {place: texts[0] if len(texts) == 1 else sorted(texts) for place, texts in configs.items()}
        return text_digest(dump_json(chosen))

    def _settle(self) -> None:
        """Note the choices whose launches have returned since."""
        for waiting in self._launching.copy():
            choice, is_launching = waiting
            if is_launching():
                continue
            try:
                self._launching.remove(waiting)
            except ValueError:
                continue  # another thread has noted it
            self._append(choice)

    def _append(self, choice: Choice) -> None:
        entry = choice.entry
        if self._noted.get(entry) != choice.config:
            self._noted[entry] = choice.config
            self._events.append(choice)  # threads may append the same choice twice, which changes nothing
