"""Making, listing and lifting overrides: what people decide against the votes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, replace

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.roles import DECIDE
from tuning_registry.db.store import Store
from tuning_registry.db.writing import Writing
from tuning_registry.errors import ConflictError, SelectionError, UsageError
from tuning_registry.formats.config_classes import covers
from tuning_registry.formats.sections import read_entries
from tuning_registry.formats.short_configs import find_config, short_config
from tuning_registry.model.names import ANY_KEY, bare_name, lookup_key
from tuning_registry.model.packed_times import unpack_numbers
from tuning_registry.model.selection import check_option
from tuning_registry.rules.overrides import BAN, LIFT, PIN, Override, Overrides, in_force
from tuning_registry.wording import list_some

_UNSAVED = 0  # the id of an event that the database has not numbered yet


def list_overrides(store: Store, *, everything: bool = False) -> list[Override]:
    """The overrides in force, or every event of the history.

    Raises:
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        history = reading.rows(queries.overrides.history())
    return [Override(**row) for row in history] if everything else in_force(history)


def add_override(store: Store, action: str, *, arch: str, kernel: str, key: str, config: str, reason: str, author: str,
                 now: dt.datetime, until: str | None = None, force: bool = False) -> Override:  # fmt: skip
    """Pin or ban a config.

    Args:
        store: The database.
        action: `pin` or `ban`.
        arch: Architecture, in any accepted spelling.
        kernel: Qualified name, or a function name that only one recorded kernel has.
        key: Shape key, or `*` for every key of the kernel.
        config: JSON, or the short form that commands print. A ban may state some fields only, such as `num_warps=8`: it
            then means every config that has them, those of later recordings included.
        reason: Why; not empty.
        author: Who decides it; not empty.
        now: Aware time.
        until: Last day on which it applies, UTC, `YYYY-MM-DD`.
        force: Accept a kernel, key or config that was never recorded.

    Raises:
        UsageError: A value is empty or malformed, or a pattern.
        SelectionError: It was never recorded, and `force` is not set.
        ConflictError: An override in force contradicts it.
        DatabaseError: The database cannot be written.
    """
    _refuse_empty({"reason": reason, "author": author, "key": key, "kernel": kernel, "arch": arch})
    last = _parse_day(until, now)
    (arch,) = read_entries({arch: {kernel: {key: ""}}}, str)  # refuses names that no recording or table could hold
    if store.revision() is None:
        raise store.absent()
    with store.writing(DECIDE) as transaction:
        kernel = _known_kernel(transaction, arch, kernel, force=force)
        text = _known_config(transaction, action, (arch, kernel, key), config, force=force)
        event = Override(
            id=_UNSAVED,
            action=action,
            arch=arch,
            kernel=kernel,
            key=key,
            config=text,
            reason=reason,
            author=author,
            until=last,
            created_at=_timestamp(now),
        )
        _refuse_opposite(event, in_force(transaction.rows(queries.overrides.history())))
        return _append(transaction, event)


def lift_override(store: Store, number: int, *, reason: str, author: str, now: dt.datetime) -> Override:
    """End an override and return it.

    Raises:
        SelectionError: No override in force has this id.
        DatabaseError: The database cannot be written.
    """
    _refuse_empty({"reason": reason, "author": author})
    if store.revision() is None:
        raise store.absent()
    with store.writing(DECIDE) as transaction:
        history = in_force(transaction.rows(queries.overrides.history()))
        old = next((override for override in history if override.id == number), None)
        if old is None:
            raise SelectionError(f"override #{number} is not in force; registry overrides lists those that are")
        _append(
            transaction,
            replace(
                old,
                id=_UNSAVED,
                action=LIFT,
                reason=reason,
                author=author,
                until=None,
                created_at=_timestamp(now),
                lifts=number,
            ),
        )
    return old


# See docs/decisions.md, D32.
def refuse_expired(overrides: Overrides, today: str) -> None:
    """Refuse to continue with expired overrides.

    Raises:
        SelectionError: Names them, and how to renew or lift them.
    """
    expired = [override for override in overrides.in_force if override.has_expired(today)]
    if expired:
        shown = list_some([f"#{one.id} ({one.action} of {one.kernel}, until {one.until})" for one in expired], shown=1)
        raise SelectionError(
            f"overrides have expired: {shown}. Nothing was written. To renew one, give it again with a later --until; "
            "to end one, run: registry lift ID"
        )


def _refuse_empty(options: dict[str, str]) -> None:
    for name, value in options.items():
        if not check_option(name, value).strip():
            raise UsageError(f"--{name} is empty")


def _append(transaction: Writing, event: Override) -> Override:
    """Add an event to the history and return it with its number."""
    columns = asdict(event)
    del columns["id"], columns["config"]
    return replace(event, id=transaction.insert_override(columns, event.config))


def _refuse_opposite(event: Override, others: Sequence[Override]) -> None:
    for other in others:
        if (other.arch, other.kernel, lookup_key(other.key)) != (event.arch, event.kernel, lookup_key(event.key)):
            continue
        if other.action != event.action and (event.bans(other.config) or other.bans(event.config)):
            raise ConflictError(
                f"override #{other.id} already {'pins' if other.action == PIN else 'bans'} this config ({other.reason}); "
                f"lift it first: registry lift {other.id}"
            )


def _known_config(reading: Reading, action: str, place: tuple[str, str, str], config: str, *, force: bool) -> str:
    """The canonical text of the config that an override names, or of the class that a ban names.

    Raises:
        SelectionError: The key or config was never recorded, and `force` is not set.
    """
    arch, kernel, key = place
    recorded = _recorded_configs(reading, arch, kernel, None if key == ANY_KEY else lookup_key(key))
    if not recorded and key != ANY_KEY:
        _refuse_pattern("key", key, "*", f"to cover all keys of the kernel, use {ANY_KEY} by itself")
    if not recorded and not force:
        raise SelectionError(
            f"the key {key} of {kernel} was never recorded on {arch}; registry explain shows the nearest keys. "
            "Use --force to accept it anyway"
        )
    text = find_config(config, recorded, classes=action == BAN)
    if not any(covers(text, one) for one in recorded) and not force:
        raise SelectionError(
            f"{short_config(text)} was never recorded for {kernel} {key} on {arch}; use --force to {action} it anyway"
        )
    return text


def _recorded_configs(reading: Reading, arch: str, kernel: str, key: str | None) -> list[str]:
    """The configs that were chosen, timed or observed for a kernel, and on one lookup key if it is given."""
    texts = set(reading.scalars(queries.entries.configs_chosen(arch, kernel, key)))
    packed = reading.scalars(queries.timings.configs_in_blocks(queries.entries.ids_of(arch, kernel, key)))
    ids = sorted({config for configs in packed for config in unpack_numbers(configs)})
    texts.update(row["text"] for row in reading.chunked(queries.entries.config_texts, ids))
    return sorted(texts, key=str.encode)


def _known_kernel(reading: Reading, arch: str, kernel: str, *, force: bool) -> str:
    recorded: list[str] = reading.scalars(queries.entries.kernels(arch))
    found = [name for name in recorded if bare_name(name) == kernel]
    if kernel in recorded and (force or found in ([], [kernel])):
        return kernel
    if len(found) == 1:
        return found[0]
    if found:
        raise SelectionError(
            f"several kernels are named {kernel}: {list_some(found, shown=2)}; give a qualified name, or use --force for "
            "the bare name"
        )
    _refuse_pattern("kernel", kernel, "*?[", "repeat the command for each kernel")
    if not force:
        raise SelectionError(f"the kernel {kernel} was never recorded on {arch}; use --force to accept it anyway")
    return kernel


def _refuse_pattern(option: str, text: str, wildcards: str, advice: str) -> None:
    """Refuse an override that would apply to nothing, because queries take patterns and overrides do not.

    Raises:
        UsageError: The text was never recorded and has a wildcard.
    """
    if any(wildcard in text for wildcard in wildcards):
        raise UsageError(
            f"--{option} {text!r}: an override applies to one {option}; patterns are not allowed; {advice}"
        )


def _parse_day(until: str | None, now: dt.datetime) -> str | None:
    if until is None:
        return None
    try:
        day = dt.date.fromisoformat(until)
    except ValueError:
        raise UsageError(f"--until {until!r}: expected a day, YYYY-MM-DD") from None
    if day < now.astimezone(dt.UTC).date():
        raise UsageError(f"--until {until} is in the past; expected today or a later day")
    return day.isoformat()


def _timestamp(now: dt.datetime) -> str:
    return now.astimezone(dt.UTC).isoformat(timespec="microseconds")
