"""Whether the header of a table says what the log of exports and the votes say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.model.canonical import dump_json
from tuning_registry.operations.tables.export_log import ExportRecord, exports_of
from tuning_registry.rules.table_diff import evidence_change
from tuning_registry.wording import count_of

_FROM_VERSIONS: Final = ("triton", "packages")
_SHOWN: Final = 100  # characters of a value in a message
_ABSENT: Final = object()


def check_header(store: Store, table: TunedTable, new: TunedTable) -> tuple[list[str], list[str]]:
    """Problems and notes about everything in a table but its entries.

    The policy, the runs and the number of recordings must be those of an export with these entries in the log, if the
    log has any. Versions and overrides must be those of a new export. The rest must be, too, while the votes are those
    that the table was made from; later votes change it, so it is then only noted that they came.

    Args:
        store: The database.
        table: The table.
        new: The table that would be exported now.
    """
    stated, now = table.provenance, new.provenance
    ours: Mapping[str, Any] = stated.get(EXTRA, {})
    theirs: Mapping[str, Any] = now[EXTRA]
    is_whole = "policy" in ours  # as an export writes it; of any other table, what it states must be right
    problems = _differences({name: stated.get(name, _ABSENT) for name in _FROM_VERSIONS}, now, whole=is_whole)
    problems += _differences({"overrides": ours.get("overrides", [])}, {"overrides": theirs.get("overrides", [])})
    if not is_whole:
        return problems, []
    logged = _logged(store, table)
    if logged and not any(one.is_stated_by(ours) for one in logged):
        problems.append(_unlogged(ours, logged[0]))
    if _origin(ours) != _origin(theirs):
        return problems, [] if logged else [_other_votes(ours, theirs)]
    rest = sorted({*ours, *theirs} - {"overrides", "evidence", "digest", "selection_digest", "same_bits_as"})
    problems += _differences({"source": stated.get("source", _ABSENT)}, now)
    problems += _differences({name: ours.get(name, _ABSENT) for name in rest}, theirs)
    evidence = evidence_change(table, new)
    problems += [f"header: {evidence}"] if evidence else []
    return problems, []


def _differences(stated: Mapping[str, Any], now: Mapping[str, Any], *, whole: bool = True) -> list[str]:
    """One line for each field whose value is another now; absent ones are left out unless the table is whole."""
    found = ((name, value, now.get(name, _ABSENT)) for name, value in stated.items())
    return [
        printable(f"header: {name} is {_shown(value)}, but an export would now state {_shown(fresh)}")
        for name, value, fresh in found
        if value != fresh and (whole or value is not _ABSENT)
    ]


def _logged(store: Store, table: TunedTable) -> list[ExportRecord]:
    """The exports of a table that makes these choices."""
    return exports_of(store, table.arch, (table.selection_digest, table.digest))


def _origin(ours: Mapping[str, Any]) -> tuple[Any, Any]:
    return ours.get("runs"), ours.get("recordings")


def _unlogged(ours: Mapping[str, Any], one: ExportRecord) -> str:
    stated = f"{_recordings(ours)}, policy {_shown(ours.get('policy'))}"
    logged = f"{_recordings({'recordings': one.recordings, 'runs': list(one.runs)})}, policy {_shown(one.policy)}"
    return printable(f"header: the table states {stated}, but the log of exports has {logged}")


def _other_votes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    return printable(
        f"the table states votes of {_recordings(ours)}; now they come from {_recordings(theirs)}, so the rest of its "
        "header was not compared"
    )


def _recordings(ours: Mapping[str, Any]) -> str:
    number = ours.get("recordings")
    counted = count_of(number, "recording") if type(number) is int else f"{_shown(number)} recordings"
    return f"{counted} of {_shown(ours.get('runs'))}"


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    try:
        text = dump_json(value)
    except ValueError:  # an infinite number, which JSON cannot state but Python reads
        text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
