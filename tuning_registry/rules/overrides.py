"""Pins and bans: which of them apply to an entry. Pure functions, standard library only.

An override names one config of one (arch, kernel, key); the key `*` means every key of the kernel. A ban may also name
a class of configs, such as every config with 8 warps. A ban beats a pin and a pin beats the policy. An override of the
exact key beats one of `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.config_classes import ConfigSet, covers
from tuning_registry.formats.short_configs import title_of
from tuning_registry.model.canonical import load_config
from tuning_registry.model.names import ANY_KEY, lookup_key
from tuning_registry.model.results import Result

PIN: Final = "pin"
BAN: Final = "ban"
LIFT: Final = "lift"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Override(Result):
    """A pin, a ban, or (in a history) a lift.

    Attributes:
        id: The id that `registry lift` takes.
        action: `pin`, `ban` or `lift`.
        arch, kernel, key: The entry that it decides; the key `*` means every key of the kernel.
        config: Canonical text; for a ban, also that of a class (`formats.config_classes`).
        reason: Why somebody decided it.
        author: Who decided it.
        until: Last day on which it applies, UTC, `YYYY-MM-DD`; None if it does not expire.
        created_at: UTC, ISO 8601.
        lifts: For a lift, the id of the override that it ends.
    """

    id: int
    action: str
    arch: str
    kernel: str
    key: str
    config: str
    reason: str
    author: str
    until: str | None = None
    created_at: str
    lifts: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The override as JSON holds it, its config as an object."""
        return {**asdict(self), "config": load_config(self.config)}

    def __str__(self) -> str:
        """One readable line."""
        until = f" until {self.until}" if self.until else ""
        return printable(
            f"#{self.id} {self.action} of {title_of(self.config)} for {self.kernel} {self.key} on {self.arch}{until}, "
            f"{self.author}: {self.reason}"
        )

    def has_expired(self, today: str) -> bool:
        """Whether its last day is before `today` (`YYYY-MM-DD`, UTC)."""
        return self.until is not None and self.until < today

    def bans(self, config: str) -> bool:
        """Whether it is a ban that means this config."""
        return self.action == BAN and covers(self.config, config)

    @property
    def place(self) -> tuple[str, ...]:
        """What a later override replaces: the pin of a key, or the ban of a config."""
        about = (self.action, self.arch, self.kernel, lookup_key(self.key))
        return about if self.action == PIN else (*about, self.config)


class Overrides:
    """The overrides in force, indexed by entry."""

    def __init__(self, in_force: Iterable[Override] = ()) -> None:
        self.in_force = tuple(in_force)
        self._pins = {(o.arch, o.kernel, lookup_key(o.key)): o for o in self.in_force if o.action == PIN}
        self._bans: dict[tuple[str, str, str], set[str]] = {}
        self._sets: dict[tuple[str, ...], ConfigSet] = {}
        for override in self.in_force:
            if override.action == BAN:
                place = (override.arch, override.kernel, lookup_key(override.key))
                self._bans.setdefault(place, set()).add(override.config)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.in_force)

    def banned(self, arch: str, kernel: str, key: str) -> ConfigSet:
        """Configs that may not be elected for this key."""
        return self._banned_at(arch, kernel, lookup_key(key), ANY_KEY)

    def _banned_at(self, arch: str, kernel: str, *keys: str) -> ConfigSet:
        place = (arch, kernel, *keys)
        if place not in self._sets:
            self._sets[place] = ConfigSet(text for key in keys for text in self._bans.get((arch, kernel, key), ()))
        return self._sets[place]

    def pin(self, arch: str, kernel: str, key: str) -> Override | None:
        """The pin that decides this key: the exact one unless banned there, else that of `*` unless banned at all."""
        exact = self._pins.get((arch, kernel, lookup_key(key)))
        if exact is not None and exact.config not in self._banned_at(arch, kernel, lookup_key(key)):
            return exact
        every = self._pins.get((arch, kernel, ANY_KEY))
        return every if every is not None and every.config not in self.banned(arch, kernel, key) else None

    def pins(self) -> list[Override]:
        """Every pin that decides its own key."""
        return [o for o in self._pins.values() if self.pin(o.arch, o.kernel, o.key) is o]

    def touching(self, arch: str, kernel: str, key: str) -> tuple[Override, ...]:
        """The overrides of a key, including those of `*`."""
        keys = {lookup_key(key), ANY_KEY}
        return tuple(
            one for one in self.in_force if (one.arch, one.kernel) == (arch, kernel) and lookup_key(one.key) in keys
        )

    def cause_of(self, arch: str, kernel: str, key: str, old: str | None, new: str | None) -> Override | None:
        """The override that explains a change of config: a pin of the new one, or a ban of the old one."""
        pin = self.pin(arch, kernel, key)
        if pin is not None and pin.config == new:
            return pin
        return None if old is None else self.ban_of(arch, kernel, key, old)

    def ban_of(self, arch: str, kernel: str, key: str, config: str) -> Override | None:
        """The first ban in force that means this config of this key."""
        return next((one for one in self.touching(arch, kernel, key) if one.bans(config)), None)


def in_force(history: Iterable[Mapping[str, Any]]) -> list[Override]:
    """The overrides of a history that were neither lifted nor replaced, in order."""
    left: dict[tuple[str, ...], Override] = {}
    for row in history:
        event = Override(**row)
        if event.action == LIFT:
            left = {place: override for place, override in left.items() if override.id != event.lifts}
        else:
            left.pop(event.place, None)
            left[event.place] = event
    return list(left.values())
