"""What people decide against the votes: pins and bans, which of them stand, making and lifting them.

An override is about one config of one (arch, kernel, key), or of every key with `*`. Order: ban, pin, policy; and
an override of the exact key beats one of `*`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, SelectionError, UsageError
from tuning_registry.formats.sections import read_entries
from tuning_registry.formats.short_configs import find_config, short_config
from tuning_registry.model.names import ANY_KEY, bare_name, lookup_key
from tuning_registry.model.selection import check_option

PIN: Final = "pin"
BAN: Final = "ban"
LIFT: Final = "lift"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Override:
    """A pin, a ban, or (in a history) a lift.

    Attributes:
        id: What `registry lift` takes.
        action: `pin`, `ban` or `lift`.
        arch, kernel, key: What it is about; key `*`: every key of the kernel.
        config: Canonical text.
        reason: Why.
        author: Who.
        until: Last day on which it holds, UTC, `YYYY-MM-DD`; None: for ever.
        created_at: UTC, ISO 8601.
        lifts: For a lift, the id of what it ends.
    """

    id: int
    action: str
    arch: str
    kernel: str
    key: str
    config: str
    reason: str
    author: str
    until: str | None
    created_at: str
    lifts: int | None = None

    def has_expired(self, today: str) -> bool:
        """Whether its last day (`YYYY-MM-DD`, UTC) is over."""
        return self.until is not None and self.until < today

    @property
    def place(self) -> tuple[str, ...]:
        """What there can be one of: a later pin of a key takes the earlier one's place, and a ban that of the same ban."""
        about = (self.action, self.arch, self.kernel, lookup_key(self.key))
        return about if self.action == PIN else (*about, self.config)


class Overrides:
    """The overrides that stand, ready to be asked about entries."""

    def __init__(self, standing: Iterable[Override] = ()) -> None:
        self.standing = tuple(standing)
        self._pins = {(o.arch, o.kernel, lookup_key(o.key)): o for o in self.standing if o.action == PIN}
        self._bans: dict[tuple[str, str, str], set[str]] = {}
        for override in self.standing:
            if override.action == BAN:
                self._bans.setdefault((override.arch, override.kernel, lookup_key(override.key)), set()).add(
                    override.config
                )

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.standing)

    def banned(self, arch: str, kernel: str, key: str) -> set[str]:
        """Configs that may not be elected for this key."""
        at = self._bans.get
        return at((arch, kernel, lookup_key(key)), set()) | at((arch, kernel, ANY_KEY), set())

    def pin(self, arch: str, kernel: str, key: str) -> Override | None:
        """The pin that decides this key: the exact one unless banned there, else that of `*` unless banned at all."""
        exact = self._pins.get((arch, kernel, lookup_key(key)))
        if exact is not None and exact.config not in self._bans.get((arch, kernel, lookup_key(key)), set()):
            return exact
        every = self._pins.get((arch, kernel, ANY_KEY))
        return every if every is not None and every.config not in self.banned(arch, kernel, key) else None

    def pins(self) -> list[Override]:
        """Every pin that decides its own key."""
        return [o for o in self._pins.values() if self.pin(o.arch, o.kernel, o.key) is o]


def read_overrides(reading: Reading, arch: str | None = None, kernel: str | None = None) -> Overrides:
    """The standing overrides of an architecture and kernel (a function's name stands for it in any module)."""
    return Overrides(
        override
        for override in standing(reading.rows(queries.overrides.history()))
        if arch in {None, override.arch} and kernel in {None, override.kernel, bare_name(override.kernel)}
    )


def standing(history: Iterable[Row]) -> list[Override]:
    """What of a history was neither lifted nor replaced, in order."""
    left: dict[tuple[str, ...], Override] = {}
    for row in history:
        event = Override(**row)
        if event.action == LIFT:
            left = {place: override for place, override in left.items() if override.id != event.lifts}
        else:
            left.pop(event.place, None)
            left[event.place] = event
    return list(left.values())


def list_overrides(store: Store, *, everything: bool = False) -> list[Override]:
    """Overrides that stand; or every event there ever was.

    Raises:
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        history = reading.rows(queries.overrides.history())
    return [Override(**row) for row in history] if everything else standing(history)


def add_override(store: Store, action: str, *, arch: str, kernel: str, key: str, config: str, reason: str, author: str,
                 now: dt.datetime, until: str | None = None, force: bool = False) -> Override:  # fmt: skip
    """Pin or ban a config.

    Args:
        store: The database.
        action: `pin` or `ban`.
        arch: Architecture, in any accepted spelling.
        kernel: Qualified name; or a function name that only one recorded kernel has.
        key: Shape key, or `*`.
        config: As JSON, or as commands show it.
        reason: Why; not empty.
        author: Who; not empty.
        now: Aware time.
        until: Last day, UTC, `YYYY-MM-DD`.
        force: Also a config that nobody recorded for this kernel and key.

    Raises:
        UsageError: A value means nothing.
        SelectionError: Nobody recorded that, and `force` is not set.
        ConflictError: A standing override says the opposite.
        DatabaseError: The database cannot be written.
    """
    said = {"reason": reason, "author": author, "key": key, "kernel": kernel, "arch": arch}
    for name, value in said.items():
        if not check_option(name, value).strip():
            raise UsageError(f"--{name} is empty")
    last = _parse_day(until, now)
    (arch,) = read_entries({arch: {kernel: {key: ""}}}, str)  # names that no recording and no table could hold
    if store.revision() is None:
        raise store.absent()
    with store.writing() as transaction:
        kernel = _known_kernel(transaction, arch, kernel, force=force)
        recorded = transaction.scalars(
            queries.entries.configs_of(arch, kernel, None if key == ANY_KEY else lookup_key(key))
        )
        if not recorded and not force:
            raise SelectionError(
                f"nobody recorded the key {key} of {kernel} on {arch}; registry explain names the "
                "nearest ones, --force takes it all the same"
            )
        text = find_config(config, recorded)
        if text not in recorded and not force:
            raise SelectionError(
                f"nobody recorded {short_config(text)} for {kernel} {key} on {arch}; --force takes it all the same"
            )
        event = Override(0, action, arch, kernel, key, text, reason, author, last, _shown_time(now))
        _refuse_opposite(event, standing(transaction.rows(queries.overrides.history())))
        return _append(transaction, event)


def lift_override(store: Store, number: int, *, reason: str, author: str, now: dt.datetime) -> Override:
    """End an override; returns it.

    Raises:
        SelectionError: No standing override has this id.
        DatabaseError: The database cannot be written.
    """
    for name, value in (("reason", reason), ("author", author)):
        if not check_option(name, value).strip():
            raise UsageError(f"--{name} is empty")
    if store.revision() is None:
        raise store.absent()
    with store.writing() as transaction:
        found = [
            override for override in standing(transaction.rows(queries.overrides.history())) if override.id == number
        ]
        if not found:
            raise SelectionError(f"no standing override has the id {number}; registry overrides lists them")
        old = found[0]
        lift = Override(
            0, LIFT, old.arch, old.kernel, old.key, old.config, reason, author, None, _shown_time(now), number
        )
        _append(transaction, lift)
    return old


def refuse_expired(overrides: Overrides, today: str) -> None:
    """Refuse to go on with overrides whose last day is over.

    Raises:
        SelectionError: Names them, and how to renew or lift them.
    """
    over = [override for override in overrides.standing if override.has_expired(today)]
    if over:
        shown = ", ".join(f"#{o.id} ({o.action} of {o.kernel}, until {o.until})" for o in over[:_SHOWN]) + (
            ", ..." if len(over) > _SHOWN else ""
        )
        raise SelectionError(
            f"overrides have expired: {shown}. Renew one by giving it again with a later --until, or end it: registry lift ID; "
            "nothing is written"
        )


def _append(transaction: Any, event: Override) -> Override:
    fields: Mapping[str, Any] = {
        name: getattr(event, name)
        for name in ("action", "lifts", "arch", "kernel", "key", "reason", "author", "until", "created_at")
    }
    number = transaction.insert_override(fields, event.config)
    return Override(number, event.action, event.arch, event.kernel, event.key, event.config, event.reason,
                    event.author, event.until, event.created_at, event.lifts)  # fmt: skip


def _refuse_opposite(event: Override, others: Sequence[Override]) -> None:
    for other in others:
        same = (other.arch, other.kernel, lookup_key(other.key), other.config)
        if other.action != event.action and same == (event.arch, event.kernel, lookup_key(event.key), event.config):
            raise ConflictError(
                f"#{other.id} has a {other.action} on this very config ({other.reason}); lift it first: "
                f"registry lift {other.id}"
            )


def _known_kernel(reading: Reading, arch: str, kernel: str, *, force: bool) -> str:
    recorded: list[str] = reading.scalars(queries.entries.kernels(arch))
    found = [name for name in recorded if bare_name(name) == kernel]
    if kernel in recorded and (force or found in ([], [kernel])):
        return kernel
    if len(found) == 1:
        return found[0]
    if found:
        raise SelectionError(
            f"several kernels are called {kernel}: {', '.join(found)}; give one's qualified "
            "name, or --force for the bare name"
        )
    if not force:
        raise SelectionError(f"nobody recorded a kernel {kernel} on {arch}; --force takes it all the same")
    return kernel


def _parse_day(until: str | None, now: dt.datetime) -> str | None:
    if until is None:
        return None
    try:
        day = dt.date.fromisoformat(until)
    except ValueError:
        raise UsageError(f"--until is a day, YYYY-MM-DD, found {until!r}") from None
    if day < now.astimezone(dt.UTC).date():
        raise UsageError(f"--until {until} is over already")
    return day.isoformat()


def _shown_time(now: dt.datetime) -> str:
    return now.astimezone(dt.UTC).isoformat(timespec="microseconds")
