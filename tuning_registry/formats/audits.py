"""Audits in a recording: the object `audit` under `extra`, which only grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.extra import read_part, without_part
from tuning_registry.model.audits import AuditedCandidate, AuditedEntry
from tuning_registry.model.canonical import config_text, parse_config
from tuning_registry.model.names import check_text
from tuning_registry.model.records import ByEntry

NAME: Final = "audit"  # in `extra`
_VERSION: Final = 1
_DIFFERS, _OUTSIDE = 1, 2  # flags of a result


def audit_rows(audited: AuditedEntry, configs: dict[str, int]) -> dict[str, Any]:
    """The JSON object of an audit.

    Args:
        audited: The audit.
        configs: Numbers of the canonical texts that the recording lists under `configs`; new ones are added.
    """
    if audited.skipped:
        return {"skipped": audited.skipped}
    rows = [
        [
            configs.setdefault(one.config, len(configs)),
            one.digest,
            one.difference,
            (0 if one.repeats else _DIFFERS) | (0 if one.within else _OUTSIDE),
        ]
        for one in audited.candidates
    ]
    seeded = {"seeded": True} if audited.is_seeded else {}
    return {"inputs": audited.inputs, **seeded, "results": rows}


def audit_document(entries: ByEntry[dict[str, Any]], configs: Mapping[str, int]) -> dict[str, Any]:
    """The object `audit` of a recording: `audit_rows` by entry, and the configs that they number."""
    return {"version": _VERSION, "configs": [parse_config(text) for text in configs], "entries": entries}


def read_audits(extra: Mapping[str, Any]) -> ByEntry[AuditedEntry]:
    """The audits of a recording, from its `extra`; none if it has no audit, or one of a newer version.

    Raises:
        FormatError: With the path to what is wrong.
    """

    def reader_of(document: Mapping[str, Any]) -> Callable[[object], AuditedEntry]:
        configs = _configs(document.get("configs"))
        return lambda value: _entry(value, configs)

    return read_part(extra, NAME, _VERSION, reader_of)


def without_audits(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The `extra` of a recording without the audits that `read_audits` returns."""
    return without_part(extra, NAME, _VERSION)


def _configs(value: object) -> list[str]:
    if not isinstance(value, list):
        raise FormatError(f"expected an array of configs, found {describe(value)}", ("configs",))
    found = []
    for place, item in enumerate(value):
        try:
            found.append(config_text(item))
        except FormatError as fault:
            raise fault.under("configs", str(place)) from fault
    return found


def _entry(value: object, configs: list[str]) -> AuditedEntry:
    if not isinstance(value, dict):
        raise FormatError(f"expected an object, found {describe(value)}")
    if "skipped" in value:
        return AuditedEntry(skipped=check_text(value["skipped"], ("skipped",)))
    rows = value.get("results")
    if not isinstance(rows, list):
        raise FormatError(f"expected an array of results, found {describe(rows)}", ("results",))
    return AuditedEntry(
        inputs=value.get("inputs", ""),
        is_seeded=value.get("seeded") is True,
        candidates=tuple(_candidate(row, configs, place) for place, row in enumerate(rows)),
    )


def _candidate(row: object, configs: list[str], place: int) -> AuditedCandidate:
    if not isinstance(row, list) or len(row) != 4:
        raise FormatError(
            f"expected [config, digest, difference, flags], found {describe(row)}", ("results", str(place))
        )
    number, digest, difference, flags = row
    if type(number) is not int or not 0 <= number < len(configs) or type(flags) is not int:
        raise FormatError("expected the number of a config, and flags as an integer", ("results", str(place)))
    if not isinstance(digest, str) or not (difference is None or type(difference) in (int, float)):
        raise FormatError("expected a digest, and a difference or null", ("results", str(place)))
    stated = None if difference is None else float(difference)
    return AuditedCandidate(configs[number], digest, stated, not flags & _DIFFERS, not flags & _OUTSIDE)
