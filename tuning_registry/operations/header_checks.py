"""Whether the header of a table says what the log of exports and the votes say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.formats.table import EXTRA, TunedTable
from tuning_registry.model.canonical import dump_json
from tuning_registry.operations.export_log import ExportRecord, list_exports

_DIGEST = re.compile(r"[0-9a-f]{64}")
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
    if EXTRA not in stated:  # not one of ours: what it states must be right, and nothing is missing
        return [_differs(name, stated[name], now[name]) for name in _FROM_VERSIONS
                if stated.get(name) and stated[name] != now[name]], []  # fmt: skip
    ours, theirs = stated[EXTRA], now[EXTRA]
    problems = [
        _differs(name, stated.get(name, _ABSENT), now[name])
        for name in _FROM_VERSIONS
        if stated.get(name, _ABSENT) != now[name]
    ]
    if ours.get("overrides", []) != theirs.get("overrides", []):
        problems.append(_differs("overrides", ours.get("overrides", []), theirs.get("overrides", [])))
    logged = _logged(store, table)
    if logged and not any(_is_logged(ours, one) for one in logged):
        problems.append(_unlogged(ours, logged[0]))
    if _origin(ours) != _origin(theirs):
        return problems, [] if logged else [_other_votes(ours, theirs)]
    rest = {"source": (stated.get("source", _ABSENT), now["source"])}
    rest |= {name: (ours.get(name, _ABSENT), theirs.get(name, _ABSENT)) for name in sorted({*ours, *theirs})
             if name not in {"overrides", "digest", "selection_digest"}}  # fmt: skip
    problems += [_differs(name, old, fresh) for name, (old, fresh) in rest.items() if old != fresh]
    return problems, []


def _logged(store: Store, table: TunedTable) -> list[ExportRecord]:
    """The exports of a table with these entries."""
    digest = table.digest
    return list_exports(store, digest, table.arch) if _DIGEST.fullmatch(digest) else []


def _is_logged(ours: Mapping[str, Any], one: ExportRecord) -> bool:
    said = (ours.get("policy"), ours.get("runs"), ours.get("recordings"))
    return said == (one.policy, list(one.runs), one.recordings)


def _origin(ours: Mapping[str, Any]) -> tuple[Any, Any]:
    return ours.get("runs"), ours.get("recordings")


def _unlogged(ours: Mapping[str, Any], one: ExportRecord) -> str:
    stated = f"{_shown(ours.get('recordings'))} recordings of {_shown(ours.get('runs'))}, policy {_shown(ours.get('policy'))}"
    logged = f"{one.recordings} recordings of {_shown(list(one.runs))}, policy {_shown(one.policy)}"
    return printable(f"header: the table states {stated}, but the log of exports has {logged}")


def _other_votes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    was, now = (f"{_shown(one.get('recordings'))} recordings of {_shown(one.get('runs'))}" for one in (ours, theirs))
    return printable(
        f"the table states votes of {was}; now they come from {now}, so the rest of its header was not compared"
    )


def _differs(name: str, stated: object, now: object) -> str:
    return printable(f"header: {name} is {_shown(stated)}, but the votes say {_shown(now)}")


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    text = dump_json(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
