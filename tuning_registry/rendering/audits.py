"""Audits of candidates as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.packages import GROUP
from tuning_registry.rendering.base import Format, Record, render_columns, render_results
from tuning_registry.wording import count_of

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.reports.audits import EntryAudit
    from tuning_registry.rules.audits import AuditedConfig

_SHOWN: Final = ("arch", "kernel", "key", "candidates", "distinct_results", "findings", "recordings", "skipped")
_CSV: Final = ("arch", "kernel", "key", "config", "class", "recordings", "failed_on", "nondeterministic_on",
               "outside_tolerance_on", "difference", "banned_by_override", *GROUP)  # fmt: skip


def render_audits(entries: Sequence[EntryAudit], style: Format) -> str:
    """Every audited entry: its candidates, how many distinct results they give, and how many need attention."""
    return render_results(entries, style, _CSV, _text, _rows)


def finding_lines(entry: EntryAudit) -> Iterable[str]:
    """Each candidate that needs attention, with its ban, or the command that bans it if it is wrong."""
    if entry.findings:
        yield printable(f"{entry.kernel}, key {entry.key}:")
    for one, what in entry.findings:
        count = max(one.outside_on, one.differs_on)
        where = printable(short_config(one.config))
        yield f"  {where}: {what} in {count} of {count_of(one.recordings, 'recording')}{_difference(one)}"
        if one.config in entry.banned_by:
            yield f"    banned by override #{entry.banned_by[one.config]}"
        elif one.outside_on and entry.has_majority:
            yield f"    to ban it, run: {ban_command(entry, one)}"
    if any(one.outside_on and one.config not in entry.banned_by for one in entry.configs) and not entry.has_majority:
        yield "  At most half of the candidates agree, so no ban is suggested."


def ban_command(entry: EntryAudit, one: AuditedConfig) -> str:
    """The command that keeps a candidate from being elected and launched for this entry."""
    options = {
        "arch": entry.arch,
        "kernel": entry.kernel,
        "key": entry.key,
        "config": short_config(one.config),
        "reason": "audit: results outside the tolerance",
    }
    return printable("registry ban " + " ".join(f"--{name} {shlex.quote(text)}" for name, text in options.items()))


def _difference(one: AuditedConfig) -> str:
    return f" (largest relative difference {one.difference:.2g})" if one.difference else ""


def _text(entries: Sequence[EntryAudit]) -> str:
    if not entries:
        return ""
    columns = [name for name in _SHOWN if name != "skipped" or any(entry.skipped for entry in entries)]
    return render_columns([_row(entry) for entry in entries], columns)


def _row(entry: EntryAudit) -> Record:
    return {
        **entry.to_dict(),
        "candidates": len(entry.configs),
        "distinct_results": entry.classes,
        "findings": len(entry.findings),
        "skipped": list(entry.skipped),
    }


def _rows(entry: EntryAudit) -> Iterable[Record]:
    record = entry.to_dict()
    for one, fields in zip(entry.configs, record["configs"], strict=True):
        yield {**record, **fields, "config": one.config}
